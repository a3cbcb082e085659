"""Pitfalls."""
