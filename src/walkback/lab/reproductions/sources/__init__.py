"""One file for each publication: its numbers, where they stand, and the settings."""
