"""Thin adapters to training libraries and experiment trackers; each needs the extra of its name."""
