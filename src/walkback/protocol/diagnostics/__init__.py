"""The diagnostics: one file each, one row each in `walkback.registry.DIAGNOSTICS`."""
