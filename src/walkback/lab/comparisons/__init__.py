"""Methods compared fairly: as many learning rates for each, chosen on validation samples, and the test split read once."""
