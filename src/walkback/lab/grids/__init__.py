"""Many runs: grids and presets, and the processes or clusters that train them."""
