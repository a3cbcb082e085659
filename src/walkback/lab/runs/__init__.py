"""One run: its settings, its training, what it leaves behind, and the store that keeps it."""
