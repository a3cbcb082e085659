"""A diagnostic of another package that fails while it works is told in one line; everything else is as without it."""

from typing import ClassVar

import pytest
import torch
from torch import nn

import walkback
from walkback.errors import WalkbackWarning

LETTER = "k"


class Fine(walkback.Diagnostic):
    """What the failing ones spoil, one step each."""

    letter, title, question, meaning = LETTER, "a stranger's", "Is it large?", "it is not large"
    thresholds: ClassVar = {"strange_floor": walkback.Threshold(0.0, "<", "largeness")}
    quantities = (walkback.Quantity("largeness", per_site=True),)

    @staticmethod
    def measure(capture):
        return torch.stack([h.flatten(1).norm(dim=1) for h in capture.hiddens], dim=1)

    @staticmethod
    def summarise(part):
        return {"largeness": tuple(part.mean(0).tolist())}


class Measuring(Fine):
    @staticmethod
    def measure(capture):
        return 1 / 0


class Merging(Fine):
    @staticmethod
    def merge(left, right):
        raise KeyError("nobody")


class Summarising(Fine):
    @staticmethod
    def summarise(part):
        raise SystemExit(3)


class NoSummary(Fine):
    @staticmethod
    def summarise(part):
        return None


class TooFewSites(Fine):
    @staticmethod
    def summarise(part):
        return {"largeness": (1.0,)}


class NoNumber(Fine):
    @staticmethod
    def summarise(part):
        return {"largeness": object()}


class Judging(Fine):
    def judge(self, measured):
        raise walkback.WalkbackError("no")


class NoReading(Fine):
    def judge(self, measured):
        return "PASS"


FAILING = (Measuring, Merging, Summarising, NoSummary, TooFewSites, NoNumber, Judging, NoReading)


@pytest.fixture
def network():
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(8, 8), nn.ReLU())), nn.Linear(8, 3))
    return model.eval(), [(torch.randn(64, 8), torch.randint(3, (64,))) for _ in range(2)]


def diagnosed(network, one=None):
    model, batches = network
    if one is None:
        return walkback.diagnose(model, batches, micro_batch=64)
    walkback.register("diagnostics", "strange", one)
    try:
        return walkback.diagnose(model, batches, micro_batch=64)
    finally:
        walkback.unregister("diagnostics", "strange")


def test_one_that_works_is_in_the_report(network):
    report = diagnosed(network, Fine)
    assert report.reading(LETTER).state is walkback.State.PASS
    assert len(report.extra["largeness"]) == len(report.sites)


@pytest.mark.parametrize("one", FAILING, ids=lambda one: one.__name__)
def test_one_that_fails_leaves_the_rest_as_it_is(network, one):
    without = diagnosed(network)
    with pytest.warns(WalkbackWarning, match=r"\(k\) a stranger's .* is left out: it failed while") as told:
        report = diagnosed(network, one)
    assert all("\n" not in str(warning.message) for warning in told)
    assert report.reading(LETTER).state is walkback.State.NOT_MEASURED
    assert "largeness" not in report.extra or one in (Judging, NoReading)
    others = [r for r in report.readings if r.letter != LETTER]
    assert others == list(without.readings)
    assert report.verdict == without.verdict


def test_the_monitor_goes_on_without_it(network):
    model, batches = network
    walkback.register("diagnostics", "strange", Measuring)
    try:
        with pytest.warns(WalkbackWarning, match="is left out"):
            monitor = walkback.Monitor(model, batches, every=1)  # it measures once to know what that costs
        with pytest.warns(WalkbackWarning, match="is left out"):
            monitor.step(epoch=1)
        assert monitor.report.reading("a").state is walkback.State.PASS
    finally:
        walkback.unregister("diagnostics", "strange")
