"""How many samples and draws a measurement rests on, whichever engine makes it. No torch."""

from __future__ import annotations

REFERENCE_BATCH = 128
"""The published floor is for a loss averaged over this many samples; gradients are reported that way."""
REFERENCE_SAMPLES = 32
"""How many samples run in fp64."""
LOOK_SAMPLES = 4
"""How many samples the passes that only look at the structure use."""
GONE = 2.0**-970
"""Under this a gradient is next to nothing: fp64 ends at 2**-1022, and 52 bits above that it has lost no digit yet."""
INITIAL_SAMPLES = 512
"""On which the stream is measured with the weights of now and with those of before training."""
NULL_DRAWS = 20
NULL_SEED = 20260415
"""A generator of its own, so that the null is the same in every run and no other stream moves."""
