"""Networks to train: each file supplies one function from a `DataSpec` to a `BlockModel`."""
