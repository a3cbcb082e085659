"""Numbers that others published, the runs that are meant to reproduce them, and what came of it."""
