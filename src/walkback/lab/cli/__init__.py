"""The verbs of the lab: `walkback lab train`, `audit`, `study` and the others, one file each."""
