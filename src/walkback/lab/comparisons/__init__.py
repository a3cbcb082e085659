"""Methods compared fairly: as many rates for each, chosen on validation samples; the test split is read once."""
