"""One network of the bench from its configuration: made, given its twins, measured, and written down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from walkback.errors import WalkbackError
from walkback.lab.runs.stamp import stamp
from walkback.lab.validity.conditions import condition_named
from walkback.lab.validity.conditions.base import Condition, Made, answers_on_training
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.measure import (
    answers_of,
    gradient_sizes,
    movement_of,
    overlap_of,
    readouts_of,
    site_norms,
)
from walkback.lab.validity.provenance import replayed, updates_of
from walkback.lab.validity.record import NetworkRecord, Truth
from walkback.lab.validity.training import Run, chunks, correct, randomised_like, started, train
from walkback.lab.zoo import BlockModel
from walkback.lab.zoo.datasets.drawn import Task
from walkback.protocol.diagnose import diagnose
from walkback.protocol.pairing import Answered
from walkback.protocol.records import DiagnosticReport, UpdateProvenance
from walkback.protocol.scores import FrozenBaseline, Score
from walkback.protocol.untouched import one_thread, random_states_kept

NULL_DRAWS = 8
"""Fresh draws of the feedback behind the null of Γ."""
GRADIENT_SAMPLES = 512
FUNCTIONAL_SAMPLES = 32


class Clock:
    """CPU seconds of each phase: what else runs on the machine does not count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add what the body takes."""
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start


def make(config: NetworkConfig) -> NetworkRecord:
    """Make, compare, check and measure one network, in one thread; all random generators are left as they were."""
    with random_states_kept(), one_thread():
        return _made(config, condition_named(config.condition))


def _made(config: NetworkConfig, condition: Condition) -> NetworkRecord:
    clock = Clock()
    with clock.phase("network"):
        made = trained(condition, config)
        headline = made.run.notes["headline"] = condition.headline(made)
    with clock.phase("check"):
        evidence = condition.check(made)
    with clock.phase("frozen twin"):
        frozen = frozen_twin(condition, made)
    with clock.phase("random twin"):
        random = random_twin(condition, made)
    with clock.phase("replays"):
        updates, not_replayed = _replays(condition, made)
    with clock.phase("report"):
        handed_in = condition.as_measured(made)
        own = correct(handed_in, *_test(made.run.task))
        report, unmeasured = _report(condition, made, handed_in, (frozen, random), updates.pop(IN_REPORT, None))
    with clock.phase("measures"):
        measured = _measures(condition, made)
    return NetworkRecord(
        id=config.id,
        config=config,
        truth=Truth(holds=evidence.holds, values=evidence.values, words=evidence.words),
        claimed=condition.claimed_name(config),
        headline=headline,
        own=answers_of(own),
        frozen_twin=answers_of(frozen),
        random_twin=None if random is None else answers_of(random),
        chance=made.run.task.chance,
        classes=made.run.task.classes,
        train_accuracy=answers_on_training(made),
        report=report,
        unmeasured=unmeasured,
        updates=updates,
        not_replayed=not_replayed,
        **measured,
        cpu_seconds={name: round(seconds, 3) for name, seconds in clock.seconds.items()},
        stamp=stamp(),
    )


def _test(task: Task) -> tuple[Tensor, Tensor]:
    return task.test_inputs, task.test_labels


def trained(condition: Condition, config: NetworkConfig) -> Made:
    """The network that is handed in: the best of its candidates on the test split."""
    task = condition.task(config)
    found = [_candidate(condition, each, task) for each in condition.candidates(config)]
    best = max(found, key=lambda made: made.accuracy)
    others = [made.accuracy for made in found if made is not best]
    best.run.notes |= {"tried": float(len(found)), "best of others": max(others, default=0.0)}
    return best


def _candidate(condition: Condition, config: NetworkConfig, task: Task) -> Made:
    start = started(condition, config, task).model
    run = train(condition, started(condition, config, task))
    condition.finished(run)
    right = correct(run.model, *_test(task))
    return Made(run, start.eval(), float(right.double().mean()), right)


def frozen_twin(condition: Condition, made: Made) -> Tensor:
    """Which test samples the same network answers rightly when its blocks stay at their random start, (N,)."""
    run = train(condition, started(condition, made.run.config, made.run.task, twin=True))
    condition.finished(run)
    return correct(run.model, *_test(made.run.task))


def random_twin(condition: Condition, made: Made) -> Tensor | None:
    """The same with blocks at random of the trained blocks' norms; None where those are not finite."""
    if not all(bool(p.isfinite().all()) for p in made.run.model.blocks.parameters()):
        return None
    run = started(condition, made.run.config, made.run.task, twin=True)
    randomised_like(run.model, made.run.model, torch.Generator().manual_seed(run.config.part_seed("random twin")))
    run = train(condition, run)
    condition.finished(run)
    return correct(run.model, *_test(made.run.task))


IN_REPORT = "middle"


def _replays(condition: Condition, made: Made) -> tuple[dict[str, UpdateProvenance], dict[str, str]]:
    """Steps made again half-way through and at the end, and half-way with the claimed rule as a credit; and why not."""
    found: dict[str, UpdateProvenance] = {}
    missing: dict[str, str] = {}
    middle = made.run.middle or made.run
    for name, run, by_credit in ((IN_REPORT, middle, False), ("end", made.run, False), ("credit", middle, True)):
        try:
            found[name] = updates_of(condition, run, by_credit=by_credit)
        except WalkbackError as error:
            missing[name] = str(error)
    return found, missing


def _report(
    condition: Condition,
    made: Made,
    handed_in: BlockModel,
    twins: tuple[Tensor, Tensor | None],
    updates: UpdateProvenance | None,
) -> tuple[DiagnosticReport | None, str]:
    """What `walkback.diagnose` says of the network as its authors hand it in, or why it cannot."""
    task, config = made.run.task, made.run.config
    same = handed_in is made.run.model
    feedback = torch.Generator().manual_seed(config.part_seed("feedback"))
    frozen, random = (None if right is None else _baseline(right, made) for right in twins)
    try:
        report = diagnose(
            handed_in,
            _batches(*_test(task)),
            headline_acc=Score(value=made.run.notes["headline"], samples=len(task.test_labels)),
            frozen_baseline_acc=frozen,
            random_baseline=random,
            method_name=f"{condition.name} {config.id}",
            blocks=list(handed_in.blocks),
            credit=made.run.claimed if same else condition.method(config, handed_in, feedback),
            null_draws=NULL_DRAWS,
            functional=FUNCTIONAL_SAMPLES,
            readouts=True,
            initial=made.start if same else condition.as_measured(made.at_start()),
            train_batches=_batches(task.train_inputs, task.train_labels),
            updates=updates,
            seed=config.seed,
        )
    except WalkbackError as error:
        return None, str(error)
    return report, ""


def _batches(inputs: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
    return list(zip(chunks(inputs, 128), chunks(labels, 128), strict=True))


def _baseline(right: Tensor, made: Made) -> FrozenBaseline:
    correct = Answered.of(right.numpy(), made.run.task.test_labels.numpy())
    return FrozenBaseline(
        accuracy=float(right.double().mean()), samples=len(right), seed=made.run.config.seed, correct=correct
    )


def _measures(condition: Condition, made: Made) -> dict[str, Any]:
    """The fields that no report has."""
    run, start, task = made.run, made.start, made.run.task
    few = (task.test_inputs[:GRADIENT_SAMPLES], task.test_labels[:GRADIENT_SAMPLES])
    checkpoints: list[tuple[str, Run]] = [("end", run)]
    if run.middle is not None:
        checkpoints.insert(0, ("middle", run.middle))
    whole = bool(torch.stack([p.isfinite().all() for p in run.model.parameters()]).all())
    return {
        "readouts": readouts_of(run.model, task) if whole else None,
        "norms": {"start": site_norms(start, task.test_inputs), "end": site_norms(run.model, task.test_inputs)},
        "start_gradients": gradient_sizes(start, *few),
        "end_gradients": gradient_sizes(run.model, *few),
        "movement": movement_of(made),
        "provenance": tuple(replayed(condition, checkpoint, at) for at, checkpoint in checkpoints if whole),
        "overlap": overlap_of(task),
    }
