"""A bench of known truth: networks built with or without known faults, and how often each panel is right.

conditions/   one file per condition: healthy, and one for each fault, with a dial
plan.py       every network of the bench, as a configuration
split.py      which networks thresholds may be fitted on, and which are held
training.py   the one loop that makes a network and its frozen twins
measure.py    everything that a diagnostic may ask of it later, as one record
scoring.py    sensitivity per fault, false alarms per family, with exact bounds
"""
