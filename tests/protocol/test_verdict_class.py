"""`report.verdict` against the published rules, restated in a few plain lines that share no code with walkback.

Over the 30 recorded reports and 1,000 generated ones; with NaN anywhere it is never `trustworthy`, and a record that
contradicts itself is refused.
"""

import json
import math
import random
from itertools import pairwise
from pathlib import Path

import pytest

from walkback import DiagnosticReport, Measurements, judge, replay
from walkback.errors import InputError, RecordError

GOLDEN = Path(__file__).parents[1] / "golden"
AUDITS = ("resmlp_d256_audit_3seed.json", "cnn_audit_3seed.json")

EXPLODED, FLOOR = "residual stream exploded", "BP grad at numerical floor"
DRIFT, FROZEN = "BP grad direction is drift-dominated", "deep blocks fail to beat frozen-random baseline"


def published(h, g, c, accuracy, frozen):
    """The verdict of the published protocol; None is what was not measured."""
    reasons = []
    if h is not None and max(b / a for a, b in pairwise(h)) > 50:
        reasons.append(EXPLODED)
    if g is not None and g[-1] < 1e-7:
        reasons.append(FLOOR)
    if c is not None and c > 0.30:
        reasons.append(DRIFT)
    if accuracy is not None and frozen is not None and 100 * (accuracy - frozen) < 2:
        reasons.append(FROZEN)
    if reasons:
        return "needs walk-back: " + "; ".join(reasons)
    return "incomplete" if h is None and g is None else "trustworthy"


def recorded():
    """(name, what was measured, what the record itself concluded) of all recorded reports."""
    resmlp, cnn = (json.loads((GOLDEN / name).read_text()) for name in AUDITS)
    for name, r in resmlp["reports"].items():
        keys = ("residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc", "frozen_baseline_acc")
        yield name, [r[key] for key in keys], r["verdict"]
    for r in cnn:
        yield f"cnn {r['method']} {r['seed']}", [r["h_norms"], r["g_norms"], None, r["acc"], None], r["verdict"]


def test_every_recorded_report_has_the_published_verdict():
    judged = [entry.report for name in AUDITS for entry in replay(GOLDEN / name)]
    found = list(recorded())
    assert len(found) == len(judged) == 30
    for (name, measured, said), report in zip(found, judged, strict=True):
        assert report.verdict == published(*measured), name
        assert (said == "trustworthy") == (report.verdict == "trustworthy"), name


NOT_FINITE = (math.nan, math.inf, -math.inf)
SITES = 4

BROKEN = {
    "residual_norms": lambda r: [r.choice(NOT_FINITE)] + [1.0] * (SITES - 1),
    "bp_grad_norms": lambda r: [1e-3] * (SITES - 1) + [r.choice(NOT_FINITE)],
    "error_size": lambda r: r.choice(NOT_FINITE),
    "scale_free_gradients": lambda r: [r.choice(NOT_FINITE)] * SITES,
    "reference_fidelity": lambda r: [1.0] * (SITES - 1) + [r.choice(NOT_FINITE)],
    "cross_batch_stability": lambda r: r.choice(NOT_FINITE),
    "site_stabilities": lambda r: [r.choice(NOT_FINITE)] * SITES,
    "drift_shares": lambda r: [0.1, r.choice(NOT_FINITE), 0.1, 0.1],
    "headline_acc": lambda r: math.nan,
    "frozen_baseline_acc": lambda r: math.nan,
    "nonfinite_hiddens": lambda r: [0, 0, r.randint(1, 100), 0],
    "nonfinite_grads": lambda r: [r.randint(1, 100), 0, 0, 0],
    "nonfinite_logits": lambda r: r.randint(1, 100),
    "perplexity": lambda r: r.choice(NOT_FINITE),
    "headline_score": lambda r: {"value": r.choice(NOT_FINITE), "unit": "nats", "higher_is_better": False},
    "extra": lambda r: {"own": r.choice(NOT_FINITE)},
}

PASSED, FAILED = ({"candidate": "autograd", "passed": passed} for passed in (True, False))
CONTRADICTIONS = {
    "no samples": {"samples": 0, "residual_norms": [1.0] * SITES},
    "no groups": {"groups": 0, "cross_batch_stability": 0.1},
    "one group": {"groups": 1, "cross_batch_stability": 0.1},
    "more groups than samples": {"groups": 10, "samples": 1279},
    "a cosine of -7": {"cross_batch_stability": -7.0},
    "a cosine of 1.01": {"cross_batch_stability": 1.01},
    "cosines at the sites": {"site_stabilities": [0.1, 2.0, 0.1, 0.1]},
    "two values of one (c)": {"site_stabilities": [0.9] * SITES, "cross_batch_stability": 0.1, "stability_layer": 1},
    "a share of 1.5": {"drift_shares": [0.1, 1.5, 0.1, 0.1]},
    "a fidelity of 3": {"reference_fidelity": [1.0, 1.0, 1.0, 3.0]},
    "a stream of zeros": {"residual_norms": [0.0] * SITES},
    "a negative norm": {"residual_norms": [1.0, -1.0, 1.0, 1.0]},
    "a negative gradient": {"bp_grad_norms": [1.0, 1.0, 1.0, -1e-9]},
    "a negative error": {"error_size": -1.0},
    "a negative norm at one site": {"extra": {"h_0": -1.0, "h_3": 2.0}},
    "lists of different lengths": {"residual_norms": [1.0] * SITES, "bp_grad_norms": [1.0] * 3},
    "61 for a score": {"headline_acc": 61.0},
    "a negative score": {"frozen_baseline_acc": -0.1},
    "a negative count": {"nonfinite_logits": -1},
    "more broken than there are": {"nonfinite_grads": [0, 0, 0, 300], "samples": 256},
    "sites out of order": {"site_numbers": [0, 2, 1, 3], "last_site": 3},
    "a site twice": {"site_numbers": [0, 0, 1, 3], "last_site": 3},
    "a site beyond the last": {"site_numbers": [0, 1, 2, 9], "last_site": 3},
    "a perplexity of 0.5": {"perplexity": 0.5},
    "a (c) of 100 samples": {"samples": 100, "cross_batch_stability": 0.1},
    "drift of one sample": {"samples": 1, "drift_shares": [0.1] * SITES},
    "a last site that is not the last": {"last_site": 1, "residual_norms": [1.0] * SITES},
    "more samples than anybody counted": {"headline_samples": 10**400},
    "more sites than anybody counted": {"last_site": 10**400},
    "a gradient that is not the network's": {"reference_check": FAILED, "bp_grad_norms": [1.0] * SITES},
    "drift of a gradient that is not the network's": {"reference_check": FAILED, "cross_batch_stability": 0.1},
    "a gradient that is none": {"reference_check": {"candidate": "none"}, "bp_grad_norms": [1.0] * SITES},
    "no gradient, and it passed": {"reference_check": {"candidate": "none", "passed": True}},
    "an error that passed": {"reference_check": PASSED | {"error": 0.5}},
    "a negative error of the check": {"reference_check": PASSED | {"error": -1.0}},
    "a negative number of directions": {"reference_check": PASSED | {"directions": -1}},
    "a Γ of 2": {"alignment": {"sites": [2.0] * SITES}},
}


def generated(r):
    """Sound measurements, some of them missing, on both sides of every threshold."""
    some = lambda make: make() if r.random() < 0.75 else None  # noqa: E731
    norms = lambda low, high: [10 ** r.uniform(low, high) for _ in range(SITES)]  # noqa: E731
    return {
        "residual_norms": some(lambda: norms(0, r.choice((1.0, 2.5)))),
        "bp_grad_norms": some(lambda: norms(-9, -5)),
        "cross_batch_stability": some(lambda: r.uniform(-1, r.choice((0.3, 1)))),
        "headline_acc": some(lambda: r.uniform(0, 1)),
        "frozen_baseline_acc": some(lambda: r.uniform(0, r.choice((0.2, 1)))),
        "error_size": some(lambda: 10 ** r.uniform(-9, 1)),
        "reference_fidelity": some(lambda: [r.uniform(-1, 1) for _ in range(SITES)]),
        "drift_shares": some(lambda: [r.uniform(-0.2, 1) for _ in range(SITES)]),
        "nonfinite_logits": some(lambda: 0),
    }


def published_of(fields):
    keys = ("residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc", "frozen_baseline_acc")
    return published(*(fields[key] for key in keys))


def test_a_thousand_generated_reports_have_the_published_verdict():
    r, classes = random.Random(20260621), {}
    for _ in range(1000):
        fields, kind = generated(r), r.choice(("sound", "sound", "broken", "contradiction"))
        if kind == "contradiction":
            with pytest.raises(InputError):
                judge(Measurements(**fields | CONTRADICTIONS[r.choice(sorted(CONTRADICTIONS))]))
            continue
        if kind == "broken":
            name = r.choice(sorted(BROKEN))
            fields[name] = BROKEN[name](r)
        verdict = judge(Measurements(**fields)).verdict
        expected = "needs walk-back: non-finite values" if kind == "broken" else published_of(fields)
        if kind == "broken" or expected == "incomplete":
            assert verdict.startswith(expected), (fields, verdict)
        else:
            assert verdict == expected, fields
        found = (kind, expected.partition(":")[0])
        classes[found] = classes.get(found, 0) + 1
    assert min(classes.values()) >= 10, classes
    assert set(classes) == {
        ("sound", "trustworthy"), ("sound", "needs walk-back"), ("sound", "incomplete"), ("broken", "needs walk-back"),
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(BROKEN))
@pytest.mark.parametrize("beside", [{"residual_norms": [1.0] * SITES}, {"bp_grad_norms": [1e-3] * SITES}])
def test_nan_fires_in_every_field_whatever_else_was_measured(name, beside):
    judged = judge(Measurements(**beside | {name: BROKEN[name](random.Random(1))}))
    assert judged.verdict.startswith("needs walk-back: non-finite values")
    assert [r.letter for r in judged.readings if r.reason == "non-finite values"]
    assert not judged.trustworthy


@pytest.mark.parametrize(
    ("name", "letter"),
    [("nonfinite_logits", "b"), ("error_size", "b"), ("reference_fidelity", "b"), ("drift_shares", "c")],
)
def test_the_reading_that_fires_names_the_field(name, letter):
    judged = judge(Measurements(residual_norms=[1.0] * SITES, **{name: BROKEN[name](random.Random(1))}))
    (fired,) = (r for r in judged.readings if r.state.value == "FIRE")
    assert fired.letter == letter
    assert name.removeprefix("nonfinite_") in fired.sentence
    assert "diverged" in fired.sentence


def test_what_the_work_began_with_is_never_trustworthy():
    both = {"residual_norms": [1, 1]}
    for change in (
        {"nonfinite_logits": 5}, {"nonfinite_grads": [1, 0]}, {"error_size": math.nan},
        {"reference_fidelity": [math.nan] * 2}, {"drift_shares": [math.nan] * 2},
    ):  # fmt: skip
        assert judge(Measurements(**both | change)).verdict == "needs walk-back: non-finite values", change


@pytest.mark.parametrize("fields", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_contradiction_is_refused_built_by_hand_and_on_reading(fields):
    with pytest.raises(InputError, match=r"Measurements: .*\w"):
        Measurements(**fields)
    data = judge(Measurements(residual_norms=[1.0] * SITES)).to_dict()
    with pytest.raises(RecordError, match="is not a DiagnosticReport"):
        DiagnosticReport.from_dict(data | fields)


def test_what_rounding_explains_is_no_contradiction():
    Measurements(cross_batch_stability=1 + 1e-6, reference_fidelity=[1 + 1e-7] * 2, drift_shares=[-1.0, 1.0])
    Measurements(site_stabilities=[0.123457, 0.2], stability_layer=0, cross_batch_stability=0.1234567)


def interval(low, high):
    return {"low": low, "high": high, "level": 0.95, "how": "test"}


@pytest.mark.parametrize(
    "fields",
    [
        {"cross_batch_stability": 0.5, "cross_batch_stability_interval": interval(0.0, 0.2)},
        {"cross_batch_stability": 0.1, "cross_batch_stability_interval": interval(0.2, 0.0)},
        {"cross_batch_stability_interval": interval(0.0, 0.2)},
        {"residual_norms": [1.0, 99.0], "residual_norm_intervals": [interval(0.9, 1.1), interval(0.9, 1.1)]},
    ],
)
def test_an_interval_without_its_own_figure_is_refused(fields):
    with pytest.raises(InputError, match="interval"):
        Measurements(**fields)


def test_a_stream_that_ends_in_zeros_is_still_a_measurement():
    assert judge(Measurements(residual_norms=[8.0, 0.0, 0.0])).reading("a").value == 1.0
    assert judge(Measurements(residual_norms=[0.0, 8.0])).verdict == "needs walk-back: residual stream exploded"
