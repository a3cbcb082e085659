"""What is compiled for tests runs once, and need not be fast."""

import jax

jax.config.update("jax_disable_most_optimizations", True)
