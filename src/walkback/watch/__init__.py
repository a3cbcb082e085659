"""One network over time, and verdicts from what other programs recorded."""
