"""Many networks: configs, the training loop, checkpoints, the store of runs, and what a run leaves behind."""
