"""One network at one moment: measure it, judge it, explain it."""
