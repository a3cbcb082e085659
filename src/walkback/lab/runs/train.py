"""The only training loop: any method, any architecture, any data; interrupted at will, resumed to the bit.

    run = train_or_resume(RunConfig(method="dfa", architecture="resmlp", data="cifar10", seed=42, epochs=30),
                          RunStore("runs"))
    run.result()["accuracy"]

At the end of each epoch, in this order: measure, append to the trace, write the checkpoint. Whatever a killed
process leaves, the newest checkpoint and the trace up to it are a whole run so far.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

import torch

from walkback.errors import RunError, WalkbackWarning
from walkback.lab.runs import checkpoint, random_state
from walkback.lab.runs import epochs as trace
from walkback.lab.runs.aftermath import result_of
from walkback.lab.runs.assembly import Assembly, assemble, dataset_of, rate_at
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.hardware import as_reproducible, device_of, hardware
from walkback.lab.runs.measure import accuracy_on, epoch_record, held_out, report_if_possible
from walkback.lab.runs.mixed import refuse_precision
from walkback.lab.runs.progress import EpochDone, Progress, Silent
from walkback.lab.runs.stamp import commit
from walkback.lab.runs.store import RunStore, StoredRun
from walkback.lab.runs.validation import NOT_TESTED, splits_of
from walkback.lab.zoo.datasets import Batch, Batches, Split
from walkback.protocol.devices import NO_DOUBLE
from walkback.protocol.untouched import one_thread, random_states_kept

STEPS_BETWEEN_SIGNS = 32
"""How many steps pass before a watcher hears of them."""


def train_or_resume(
    config: RunConfig, store: RunStore, progress: Progress | None = None, device: torch.device | str = "cpu"
) -> StoredRun:
    """Train a run to its end, from wherever it is; a finished run is returned as it is.

    The process uses one thread meanwhile, so that sums have one order. A run that another process is training
    is refused with `RunTaken`. A run may go on on another device than it was begun on; its result names both.
    """
    stored = store.run(config)
    if stored.finished:
        return stored
    place = device_of(device) if isinstance(device, str) else device
    with random_states_kept(), one_thread(), as_reproducible(place):
        # Built before anything is written: a config that cannot work leaves nothing behind.
        training = Training(config, stored, progress or Silent(), place)
        store.open(config)
        with stored.locked():
            # Another process may have finished it meanwhile.
            if not stored.finished:
                training.to_the_end()
    return stored


class EpochBatches(Protocol):
    """Where the batches of an epoch come from."""

    def __len__(self) -> int: ...

    def epoch(self, number: int) -> Iterable[Batch]:
        """The batches of one epoch, counted from 0."""
        ...


class Training:
    """One run in one process."""

    def __init__(self, config: RunConfig, stored: StoredRun, progress: Progress, device: torch.device) -> None:
        self.config, self.stored, self.progress = config, stored, progress
        refuse_precision(config, device)
        splits = splits_of(config, dataset_of(config))
        self.dataset = splits.during
        self.run: Assembly = assemble(config, self.dataset.spec, device)
        self.dataset = self.dataset.to(device)
        seed = derived_seed(config.seed, "data")
        classes = self.dataset.classes if config.targets == "random" else None
        self.batches = Batches(
            _permuted(self.dataset.train, config) if config.targets == "permuted" else self.dataset.train,
            config.batch_size,
            seed=seed,
            augment=config.augment,
            shuffle=config.shuffle,
            random_labels=classes,
        )
        # Norms and cosines are taken in fp64, which not every device has.
        self.measured_on = torch.device("cpu") if device.type in NO_DOUBLE else device
        self.measured_data = self.dataset.to(self.measured_on)
        self.held_out = held_out(self.measured_data)
        self.splits = splits
        self.records: list[trace.EpochRecord] = []
        # Asked for before the first step: at the end the source may have moved on from what runs here.
        self.commits: tuple[str, ...] = (commit(),)
        self.trained_on = [hardware(device, config.precision)]

    def to_the_end(self) -> None:
        """Every epoch that is missing, then the result."""
        self._resume()
        self.progress.started(max(len(self.records) - 1, 0), self.config.epochs)
        paces: list[float] = []
        while len(self.records) <= self.config.epochs and not self.ended():
            epoch, start = len(self.records), time.perf_counter()
            self._epoch(epoch)
            if epoch:  # before the first it is only measured, which says nothing of the others
                paces.append(time.perf_counter() - start)
            seconds_left = (self.config.epochs - epoch) * sum(paces) / max(len(paces), 1)
            self.progress.epoch_done(EpochDone(self.records[-1], self.config.epochs, seconds_left))
        made_by = {"commit": ", ".join(self.commits), "trained_on": self.trained_on}
        run, data = self.run.copied_to(self.measured_on), self.splits.at_the_end.to(self.measured_on)
        made_by |= self.splits.recorded()
        self.stored.finish(result_of(self.config, run, data, self.records, self.ended(), made_by))
        checkpoint.keep_newest(self.stored.checkpoints, 1)

    def ended(self) -> str:
        """Why no further epoch can change anything; empty where one can."""
        # Summed before it is read, which on a GPU waits for all that came before.
        finite = [parameter.isfinite().all() for parameter in self.run.trained.values()]
        lost = len(finite) - int(torch.stack(finite).sum()) if finite else 0
        if not lost:
            return ""
        last = self.records[-1].epoch if self.records else 0
        return f"diverged by epoch {last}: {lost} of {len(self.run.trained)} trained tensors are not finite"

    def _resume(self) -> None:
        """Go back to the newest checkpoint that can be read, or to the start."""
        checkpoint.clear_unfinished(self.stored.checkpoints)
        found = checkpoint.newest(self.stored.checkpoints)
        if found is not None:
            self.records = trace.keep_until(self.stored.trace_file, found.epoch)
            if [record.epoch for record in self.records] == list(range(found.epoch + 1)):
                _check_same_run(found, self.config)
                if self.run.device.type != "cpu":  # its own generator may not be in a checkpoint of another device
                    random_state.seed_all(derived_seed(self.config.seed, "training"))
                found.restore(self.run)
                self.commits = tuple(dict.fromkeys((*found.commits, *self.commits)))
                self.trained_on = [*found.trained_on, *(new for new in self.trained_on if new not in found.trained_on)]
                return
            warnings.warn(
                f"{self.stored.trace_file} has missing epochs: training starts over.", WalkbackWarning, stacklevel=3
            )
        self.records = []
        self.stored.start_anew()
        random_state.seed_all(derived_seed(self.config.seed, "training"))

    def _epoch(self, epoch: int) -> None:
        start = time.perf_counter()
        loss = train_epoch(self.config, self.run, self.batches, epoch, self.progress) if epoch else None
        run = self.run.copied_to(self.measured_on)
        accuracy = accuracy_on(run.method, self.measured_data.test)
        report = (
            report_if_possible(self.config, run, self.held_out, accuracy, null_draws=0)
            if self.config.tested
            else NOT_TESTED
        )
        rate, seconds = self.run.optimizer.param_groups[0]["lr"], time.perf_counter() - start
        record = epoch_record(epoch, accuracy, report, loss=loss, learning_rate=rate, seconds=seconds)
        trace.append(self.stored.trace_file, record)
        self.records.append(record)
        checkpoint.save(self.stored.checkpoints, self.config, epoch, self.run, self.commits, self.trained_on)
        self.stored.saved(epoch)


def train_epoch(
    config: RunConfig, run: Assembly, batches: EpochBatches, epoch: int, progress: Progress | None = None
) -> float:
    """One pass over the training split, the first one being epoch 1; its mean loss.

    The method hears before and after it how much of the run is done.
    """
    method, steps = run.method, len(batches)
    watcher, group = progress or Silent(), run.optimizer.param_groups[0]
    losses: list[torch.Tensor] = []
    sizes: list[int] = []
    run.model.train()
    method.at(config.done_after(epoch - 1))
    for step, (inputs, targets) in enumerate(batches.epoch(epoch - 1)):
        group["lr"] = rate_at(config, (epoch - 1) * steps + step, config.epochs * steps)
        result = run.step(inputs, targets)
        losses.append(result.loss)
        sizes.append(len(targets))
        if step % STEPS_BETWEEN_SIGNS == 0:
            watcher.within(epoch, step / steps)
    method.at(config.done_after(epoch))
    # Read at the end alone: a step that waits for its loss keeps a GPU idle.
    summed = 0.0
    for loss, size in zip(torch.stack(losses).tolist(), sizes, strict=True):
        summed += loss * size  # in the order of the steps: the runs on record are summed so
    return summed / sum(sizes)


def _permuted(train: Split, config: RunConfig) -> Split:
    """The split with its labels in another order, drawn once for the run: every class is as frequent as before."""
    generator = torch.Generator().manual_seed(derived_seed(config.seed, "labels"))
    order = torch.randperm(len(train), generator=generator)
    return replace(train, labels=train.labels[order.to(train.labels.device)])


def _check_same_run(found: checkpoint.Checkpoint, config: RunConfig) -> None:
    if found.config.run_id != config.run_id:
        raise RunError(
            f"{found.path} belongs to run {found.config.run_id}, not to {config.run_id}. "
            "Move it elsewhere; the directory of a run holds that run alone."
        )
