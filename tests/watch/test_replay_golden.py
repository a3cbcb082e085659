"""The recorded audits, judged again: every verdict and calibration figure that was published."""

import json
from pathlib import Path

import pytest

from walkback.protocol.records import State
from walkback.watch.replay import replay

GOLDEN = Path(__file__).parent.parent / "golden"
RESMLP = GOLDEN / "resmlp_d256_audit_3seed.json"
CNN = GOLDEN / "cnn_audit_3seed.json"


def healthy(entries):
    return [e.report for e in entries if e.report.trustworthy]


def degenerate(entries):
    return [e.report for e in entries if not e.report.trustworthy]


def test_every_recorded_resmlp_verdict_is_given_again_word_for_word():
    judged = replay(RESMLP)
    recorded = json.loads(RESMLP.read_text())["reports"]
    assert [e.name for e in judged] == list(recorded)
    assert len(judged) == 15
    assert {e.name: e.report.verdict for e in judged} == {k: v["verdict"] for k, v in recorded.items()}


def test_every_recorded_cnn_verdict_is_given_again_by_its_letters():
    judged = replay(CNN)
    assert len(judged) == 15
    for entry in judged:
        fired = [r.letter for r in entry.report.readings if r.state is State.FIRE]
        expected = [letter for letter in "abcd" if f"({letter})" in entry.recorded_verdict]
        assert fired == expected, entry.name
        assert entry.report.trustworthy == (entry.recorded_verdict == "trustworthy")
        missing = [r.letter for r in entry.report.readings if r.state is State.NOT_MEASURED]
        assert missing == ["c", "d"]
        assert not entry.report.complete


def test_recorded_growth_separates_healthy_from_degenerate_by_63_times():
    judged = replay(RESMLP)
    largest = max(r.max_per_block_growth for r in healthy(judged))
    smallest = min(r.max_per_block_growth for r in degenerate(judged))
    assert largest == pytest.approx(10.961, abs=5e-4)
    assert smallest == pytest.approx(694.458, abs=5e-4)
    assert smallest / largest == pytest.approx(63.36, abs=5e-3)


def test_recorded_gradients_separate_healthy_from_degenerate_by_24338_times():
    judged = replay(RESMLP)
    smallest = min(r.bp_grad_norms[-1] for r in healthy(judged))
    largest = max(r.bp_grad_norms[-1] for r in degenerate(judged))
    assert smallest == pytest.approx(1.0174e-4, abs=5e-9)
    assert largest == pytest.approx(4.1803e-9, abs=5e-14)
    assert smallest / largest == pytest.approx(24338, abs=0.5)


def test_cnn_growth_agrees_with_the_recorded_one():
    rows = json.loads(CNN.read_text())
    for entry, row in zip(replay(CNN), rows, strict=True):
        assert entry.report.max_per_block_growth == pytest.approx(row["max_per_block"], rel=1e-6)
