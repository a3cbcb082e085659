"""Published claims, and what the results on record say of each."""
