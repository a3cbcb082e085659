"""How long an epoch of a run takes, from a few of its steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.validation import splits_of
from walkback.lab.zoo.datasets import Batches

WARM_UP = 5


def seconds_per_epoch(config: RunConfig, steps: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """By the median of some steps; what is measured at its end is not in it.

    With `time.process_time` as the clock it is CPU time, which other processes of the machine hardly change.
    """
    dataset = splits_of(config, dataset_of(config)).during
    run = assemble(config, dataset.spec)
    batches = Batches(
        dataset.train,
        config.batch_size,
        seed=derived_seed(config.seed, "data"),
        augment=config.augment,
        shuffle=config.shuffle,
    )
    run.model.train()
    times, before = [], clock()
    for number, (inputs, targets) in enumerate(batches.epoch(0)):
        run.step(inputs, targets)
        now = clock()
        times.append(now - before)
        before = now
        if number == WARM_UP + steps:
            break
    return statistics.median(times[WARM_UP:]) * len(batches)
