"""Linear readouts of every site, from features, labels and the network's own answers, as fields of a record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkback.protocol.pairing import Answered
from walkback.protocol.readouts import FOLDS, answered_rightly
from walkback.protocol.records import Readouts

MOST_WIDTH = 512
"""Wider features are reduced to this many by a fixed random projection: a fit takes the third power of it."""
MOST_SAMPLES = 4096
LEAST_SAMPLES = 100
POOLED_SIDE = 2
SEED = 20261118
"""Of the projection, which is the same in every measurement."""


def feature_count(shape: Sequence[int], channels_first: bool = True) -> int:
    """How many features a site of this shape, (B, …), has for a readout.

    (B, d) has d; of tokens (B, T, d) the first and the mean are read; images are averaged to 2 × 2; else all values.
    """
    if len(shape) == 3:
        return 2 * shape[2]
    if len(shape) == 4:
        return POOLED_SIDE**2 * shape[1 if channels_first else 3]
    return math.prod(shape[1:])


def readout_fields(
    sites: Sequence[NDArray[np.float64]],
    right: NDArray[np.bool_],
    labels: NDArray[np.int64],
    classes: int,
    widths: tuple[int, ...],
) -> dict[str, Any]:
    """The readouts of features (N, d) of every site; or why there are none. `widths` are those before a projection."""
    if len(labels) < LEAST_SAMPLES:
        return {"no_readouts": f"{len(labels)} samples are too few for readouts; expected {LEAST_SAMPLES} or more."}
    if labels.min() == labels.max():
        return {"no_readouts": "All samples are of one class, so there is nothing to read out."}
    broken = next((site for site, rows in enumerate(sites) if not np.isfinite(rows).all()), None)
    if broken is not None:
        return {"no_readouts": f"h_{broken} holds NaN or Inf, which nothing can be read out of."}
    correct = tuple(Answered.of(answered_rightly(rows, labels, classes), labels) for rows in sites)
    own = Answered.of(right, labels)
    return {"readouts": Readouts(correct=correct, own=own, folds=FOLDS, widths=widths, most_width=MOST_WIDTH)}
