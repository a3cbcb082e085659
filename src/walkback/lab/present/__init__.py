"""Runs and audits as networks to show, and what their pages and figures are drawn from."""
