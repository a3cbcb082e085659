"""Networks written in JAX: `pip install "walkback[jax]"`. No torch is imported on this path.

import walkback.jax

report = walkback.jax.diagnose(apply, params, blocks, batches, stem=stem, head=head)
"""

from __future__ import annotations

from walkback.extras import optional

optional("jax")

from walkback.jax.measuring import diagnose, measure  # noqa: E402
from walkback.jax.modules import equinox_sites, nnx_sites  # noqa: E402
from walkback.jax.monitor import Monitor  # noqa: E402
from walkback.jax.network import Stages  # noqa: E402

__all__ = ["Monitor", "Stages", "diagnose", "equinox_sites", "measure", "nnx_sites"]
