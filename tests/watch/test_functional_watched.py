"""Perturbation ρ and nudge while a network is trained: measured, traced, replayed, shown, and paid for."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from watched_networks import CLASSES, WIDTH, Net, bp_step, make_batches

import walkback
from walkback.errors import InputError, RecordError
from walkback.integrations.scalars import scalars
from walkback.protocol.records import State
from walkback.watch.budget import Clock, EverySteps, TimeBudget
from walkback.watch.functional_tests import NO_TIME, FunctionalTests, shared_out
from walkback.watch.live import one_line
from walkback.watch.replay import replay
from walkback.watch.summary import trail_of
from walkback.watch.trace import read_trace
from walkback.watch.trace_line import TraceLine

HELD = make_batches(128, 128, seed=9)
FIELDS = ("perturbation_rho", "scaled_rho", "nudge", "unit_nudge")


class Backprop:
    """The true gradient as credit, by the modules behind each site."""

    def __init__(self, model):
        self.model = model

    def credits(self, trace):
        found = []
        for site, hidden in enumerate(trace.hiddens):
            with torch.enable_grad():
                h = at = hidden.clone().requires_grad_()
                for block in self.model.blocks[site:]:
                    h = block(h)
                logits = self.model.head(self.model.norm(h))
                loss = nn.functional.cross_entropy(logits, trace.targets, reduction="sum")
                found.append(torch.autograd.grad(loss, at)[0])
        return found


class Random:
    """Direct feedback from fixed random matrices."""

    def __init__(self, sites=4, seed=1):
        generator = torch.Generator().manual_seed(seed)
        self.matrices = [torch.randn(CLASSES, WIDTH, generator=generator) for _ in range(sites)]

    def credits(self, trace):
        return [trace.error.float() @ matrix for matrix in self.matrices]


def made(seed=0):
    torch.manual_seed(seed)
    return Net()


def test_a_monitor_finds_what_diagnose_finds_and_its_trace_keeps_it(tmp_path):
    model = made()
    credit = Random()
    monitor = walkback.Monitor(model, HELD, credit=credit, functional=32, trace=tmp_path / "t")
    monitor.step(epoch=1)
    report = walkback.diagnose(model, HELD, credit=credit, functional=32, null_draws=0)
    names = [*FIELDS, *(f"{name}_{kind}" for name in FIELDS for kind in ("intervals", "mean_interval"))]
    for name in (*names, "functional_samples"):
        assert getattr(monitor.report, name) == getattr(report, name), name
    read = read_trace(tmp_path / "t")[0].measurements()
    for name in FIELDS:
        assert getattr(read, name) == pytest.approx(getattr(report, name), rel=1e-5)
        for kept, found in zip(getattr(read, f"{name}_intervals"), getattr(report, f"{name}_intervals"), strict=True):
            assert (kept.low, kept.high) == pytest.approx((found.low, found.high), rel=1e-5)
            assert (kept.level, kept.how) == (found.level, found.how)
        mean, whole = getattr(read, f"{name}_mean_interval"), getattr(report, f"{name}_mean_interval")
        bounds = pytest.approx(whole.low, rel=1e-5), pytest.approx(whole.high, rel=1e-5)
        assert (mean.low, mean.high, mean.how) == (*bounds, whole.how)
    assert read.functional_samples == 32


def test_they_are_off_unless_asked_for(tmp_path):
    model = made()
    monitor = walkback.Monitor(model, HELD, credit=Random(), trace=tmp_path / "t")
    monitor.step(epoch=1)
    assert monitor.report.perturbation_rho is None
    assert monitor.clock.tests.total == 0
    text = (tmp_path / "t").read_text()
    assert not any(name in text for name in (*FIELDS, "functional", "intervals"))


def test_replay_the_live_line_and_trackers_show_them(tmp_path):
    model = made()
    seen = []
    monitor = walkback.Monitor(
        model, HELD, credit=Backprop(model), functional=16, trace=tmp_path / "t",
        logs=[lambda line, decision: seen.append((line, one_line(line, decision)))],
    )  # fmt: skip
    for epoch in (1, 2, 3):
        monitor.step(epoch=epoch)
    (replayed,) = replay(tmp_path / "t")
    line, text = seen[0]
    assert "perturb. ρ +1.00" in text
    assert "nudge -" in text
    found = scalars(line)
    assert found["walkback/perturbation_rho"] >= 0.99
    assert found["walkback/nudge"] < 0
    trail = trail_of(read_trace(tmp_path / "t"))
    assert trail.series("perturbation_rho")[0] >= 0.99
    assert trail.series("nudge")[0] < 0
    assert replayed.report.no_functional in ("", NO_TIME)
    if replayed.report.perturbation_rho is not None:
        reading = replayed.report.reading("p")
        assert reading.state is State.REPORTED
        assert reading.interval.low <= reading.value <= reading.interval.high


def test_every_measurement_has_them_where_steps_are_counted(tmp_path):
    model = made()
    monitor = walkback.Monitor(model, HELD, credit=Random(), functional=8, every=2, trace=tmp_path / "t")
    for _ in range(6):
        monitor.step()
    lines = read_trace(tmp_path / "t")
    assert len(lines) == 3
    assert all(line.perturbation_rho is not None for line in lines)


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def test_tests_and_measurements_have_half_of_the_budget_each():
    time = Time()
    clock = Clock(time)
    clock.start()
    cadence, tests = shared_out(TimeBudget(0.02), clock, asked=True)
    made, measured = 0, 0

    def test():
        nonlocal made
        time.now += 3.0
        made += 1
        return {"nudge": []}

    for step in range(1, 60_001):
        time.now += 0.05
        if cadence.due(step, clock):
            with clock.measured():
                time.now += 0.02
                found = tests.fields(test)
                assert found in ({"nudge": []}, {"no_functional": NO_TIME})
            measured += 1
    training = 60_000 * 0.05
    assert clock.training == pytest.approx(training)
    assert clock.overhead <= 0.02
    assert made == pytest.approx(0.01 * training / 3.0, abs=1)
    # Tests that take 150 times as long keep no measurement from being made.
    assert measured == pytest.approx(0.01 * training / 0.02, rel=0.05)


def test_without_the_tests_the_budget_is_that_of_the_measurements():
    clock = Clock()
    whole = TimeBudget(0.02)
    assert shared_out(whole, clock, asked=False)[0] is whole
    every, tests = shared_out(EverySteps(3), clock, asked=True)
    assert every.steps == 3
    assert tests.budget is None


def test_a_monitor_keeps_to_its_budget_at_the_ends_of_epochs_too(tmp_path):
    """A measurement at the end of an epoch is always made; the tests in it only where their share pays."""
    model = made()
    monitor = walkback.Monitor(model, HELD, credit=Random(), functional=16, budget=0.001, trace=tmp_path / "t")
    for epoch in range(1, 6):
        monitor.step(epoch=epoch)
    first, *others = read_trace(tmp_path / "t")
    assert first.perturbation_rho is not None
    assert all(line.perturbation_rho is None and line.no_functional == NO_TIME for line in others)
    assert monitor.report.no_functional == NO_TIME
    assert "p" not in {reading.letter for reading in monitor.report.readings}


def test_they_hold_where_b_fires():
    model = made()
    with torch.no_grad():
        model.blocks[-1].down.weight.mul_(1e8)
    monitor = walkback.Monitor(model, HELD, credit=Backprop(model), functional=32)
    monitor.step(epoch=1)
    report = monitor.report
    assert report.reading("b").state is State.FIRE
    assert min(report.perturbation_rho) >= 0.99
    assert "by definition" not in report.reading("p").sentence


def test_where_nothing_moves_by_the_published_step_the_report_says_so():
    """At 1e12 a step of 0.001 moves the loss by less than 1e-12: ρ is 0 by its definition, and the scaled one tells."""
    model = made()
    with torch.no_grad():
        model.stem.weight.mul_(1e12)
    report = walkback.diagnose(model, HELD, credit=Backprop(model), functional=32, null_draws=0)
    assert report.perturbation_rho == (0.0,) * 4
    assert "At every site it is 0 by definition" in report.reading("p").sentence
    assert min(report.scaled_rho) > 0.5


class Detached(Net):
    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = h.detach() + (block(h) - h)
        return self.head(self.norm(h))


def test_they_hold_where_the_reference_check_fails(tmp_path):
    torch.manual_seed(0)
    model = Detached()
    monitor = walkback.Monitor(model, HELD, credit=Backprop(model), functional=32, trace=tmp_path / "t")
    monitor.step(epoch=1)
    report = monitor.report
    assert report.reference_check.passed is False
    assert report.reading("b").state is State.NOT_MEASURED
    assert report.alignment.sites is None
    assert min(report.perturbation_rho) >= 0.99
    assert max(report.nudge) < 0
    (line,) = read_trace(tmp_path / "t")
    assert min(line.measurements().perturbation_rho) >= 0.99


def test_training_goes_to_the_same_bits():
    def trained(monitored):
        model = made()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        monitor = walkback.Monitor(model, HELD, credit=Random(), functional=8, every=1) if monitored else None
        for x, y in make_batches(*[32] * 4):
            bp_step(model, optimizer, x, y)
            if monitor is not None:
                monitor.step()
        return [parameter.clone() for parameter in model.parameters()], torch.rand(3)

    (plain, drawn), (watched, drawn_too) = trained(False), trained(True)
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert torch.equal(drawn, drawn_too)


@pytest.mark.parametrize("asked", [0, -1, True, 1.5, "64"])
def test_how_many_samples_must_be_a_count(asked):
    with pytest.raises(InputError, match="on how many samples"):
        walkback.Monitor(made(), HELD, credit=Random(), functional=asked)


def test_without_a_credit_there_is_nothing_to_test():
    with pytest.raises(InputError, match="Pass credit="):
        walkback.Monitor(made(), HELD, functional=8)


def test_tests_without_a_clock_are_always_made():
    assert FunctionalTests().fields(lambda: {"nudge": [1.0]}) == {"nudge": [1.0]}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"intervals": {"nudge_intervals": {"level": 0.95, "how": ["a"], "bounds": [[0.0, 1.0]]}}}, "sites differ"),
        ({"nudge": [5.0, 5.0, 5.0, 5.0]}, "nudge_intervals holds"),
        ({"perturbation_rho": [1.5, 0.0, 0.0, 0.0]}, "expected a cosine"),
        ({"functional_samples": 0}, "functional_samples"),
    ],
)
def test_a_line_that_contradicts_itself_is_refused(tmp_path, change, match):
    monitor = walkback.Monitor(made(), HELD, credit=Random(), functional=16, trace=tmp_path / "t")
    monitor.step(epoch=1)
    identity, line = (tmp_path / "t").read_text().splitlines()
    changed = json.loads(line)
    changed["intervals"] |= change.pop("intervals", {})
    (tmp_path / "t").write_text(f"{identity}\n{json.dumps(changed | change)}\n")
    with pytest.raises(RecordError, match=match):
        read_trace(tmp_path / "t")


def test_what_has_a_sign_has_a_linear_sparkline(tmp_path):
    from walkback.present.text import to_plain
    from walkback.present.traces import Traced, traces_table
    from walkback.watch.summary import summary_of

    lines = [
        TraceLine(epoch=n, residual_norms=(1.0, 1.0), bp_grad_norms=(1e-3, 1e-3), nudge=(0.0, value))
        for n, value in enumerate([-4.0, -2.0, 0.0, 2.0, 4.0], 1)
    ]
    trail = trail_of(lines)
    text = to_plain([traces_table([Traced("r", trail, summary_of(trail))])])
    (drawn,) = [word for word in text.split() if "▁" in word and "█" in word]
    assert list(drawn) == sorted(drawn)
    assert len(set(drawn)) == 5
    assert "+4.00" in text
