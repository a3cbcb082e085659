"""What a caller is told about a mistake names the mistake and what to do about it."""

import pytest
import torch
from torch import nn

import walkback
from walkback.errors import BatchError, InputError, RecordError, UnknownName
from walkback.present.brief import sections
from walkback.present.in_short import plain_verdict
from walkback.present.outline import at_chance
from walkback.present.seeds import headline
from walkback.protocol.diagnostics.declare import BOUND_THE_STREAM, FIND_THE_FIRST
from walkback.protocol.json_codec import read_json
from walkback.protocol.records import State

SOUND = {"residual_norms": [8.0, 9.0, 9.5], "bp_grad_norms": [1e-3, 1e-3, 1e-3]}
DRIFT = {"cross_batch_stability": 0.6, "stability_layer": 1, "drift_shares": [0.0, 0.012, 0.0]}


def judged(seed=0, **fields):
    return walkback.judge(walkback.Measurements(**SOUND | fields), method_name="EP", seed=seed)


def said(report, label):
    return " ".join(dict(sections(report)).get(label, []))


def network():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])


def test_growth_and_nan_ask_for_different_things():
    grown, broken = judged(residual_norms=[1.0, 900.0, 900.0]), judged(residual_norms=[1.0, float("nan"), 1.0])
    assert BOUND_THE_STREAM in said(grown, "next")
    assert FIND_THE_FIRST in said(broken, "next")
    assert BOUND_THE_STREAM not in said(broken, "next")
    assert FIND_THE_FIRST not in said(grown, "next")


def test_drift_alone_is_not_told_as_a_lost_result_and_shows_its_share():
    alone, beside = judged(**DRIFT), judged(**DRIFT, headline_acc=0.3, frozen_baseline_acc=0.3)
    assert alone.outcome == beside.outcome == "fail"
    assert "0.012" in said(alone, "why")
    assert plain_verdict(alone).startswith("Only (c) fires")
    assert plain_verdict(beside).startswith("Do not rely")


def test_seeds_without_a_baseline_say_what_they_rest_on():
    two = [judged(seed, cross_batch_stability=0.1, stability_layer=1) for seed in (0, 1)]
    assert "nothing fires on (a), (b), (c); (d) not measured" in headline(walkback.combine(two))
    scores = {"headline_acc": 0.6, "frozen_baseline_acc": 0.3, "cross_batch_stability": 0.1, "stability_layer": 1}
    assert "not measured" not in headline(walkback.combine([judged(seed, **scores) for seed in (0, 1)]))


def test_a_baseline_is_not_asked_for_one():
    reading = judged(is_baseline=True, headline_acc=0.3).reading("d")
    assert reading.state is State.NOT_MEASURED
    assert "does not apply" in reading.sentence
    assert "walkback.frozen_baseline" not in reading.sentence


def test_a_log_without_its_last_site_is_not_read_at_the_last_block():
    known = walkback.PartialMeasurements(blocks=4, bp_grad_norms={2: 1e-9})
    assert "the last block" not in said(walkback.partial_audit(known), "why")
    known = walkback.PartialMeasurements(blocks=4, bp_grad_norms={4: 1e-9})
    assert "the last block" in said(walkback.partial_audit(known), "why")


@pytest.mark.parametrize(
    ("accuracy", "classes", "chance"), [(0.34, 3, True), (0.6, 3, False), (0.34, None, False), (0.1, 10, True)]
)
def test_an_accuracy_at_chance_is_remarked_on(accuracy, classes, chance):
    report = judged(headline_acc=accuracy, headline_samples=300, classes=classes)
    assert bool(at_chance(report)) is chance


def test_arguments_of_another_kind_are_refused_by_name():
    batches = [(torch.randn(128, 8), torch.randint(8, (128,)))]
    with pytest.raises(InputError, match=r"expected walkback\.DiagnosticThresholds"):
        walkback.diagnose(network(), batches, thresholds={"a": 20})
    with pytest.raises(InputError, match=r"walkback\.Measurements\(\*\*your_dict\)"):
        walkback.judge(SOUND)
    with pytest.raises(InputError, match="1 reports and 2 names"):
        walkback.compare([judged()], ["a", "b"])
    with pytest.raises(UnknownName, match="Known: a, b"):
        walkback.combine([judged(0), judged(1)]).diagnostic("z")
    with pytest.raises(RecordError, match=r"It has: \(a\), \(b\)"):
        judged().reading("z")


def test_functions_in_the_wrong_order_are_refused():
    with pytest.raises(InputError, match="swapped"):
        walkback.frozen_baseline(network, lambda model: None, [(torch.randn(8, 8), torch.randint(8, (8,)))])


def test_one_pair_is_not_taken_for_batches():
    x, y = torch.randn(64, 8), torch.randint(8, (64,))
    with pytest.raises(BatchError, match=r"\[\(x, y\)\]"):
        walkback.diagnose(network(), (x, y))
    assert walkback.diagnose(network(), [(x, y), (x, y)]).samples == 128


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (lambda y: y.float(), r"targets\.long\(\)"),
        (lambda y: nn.functional.one_hot(y, 8), r"argmax\(-1\)"),
        (lambda y: y[:, None], r"squeeze\(-1\)"),
        (lambda y: y[:, None].float(), r"long\(\)\.squeeze\(-1\)"),
        (lambda y: y + 0.5, "pass loss="),
    ],
)
def test_targets_that_are_no_class_indices_are_told_apart(change, remedy):
    with pytest.raises(BatchError, match=remedy):
        walkback.diagnose(network(), [(torch.randn(64, 8), change(torch.randint(8, (64,))))])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"<!doctype html>", "looks like HTML"),
        (b"import torch\n", "looks like Python"),
        (b"PK\x03\x04abc", "checkpoint of torch"),
        (b'{"a": [1, 2', "breaks off at character 11"),
        (b'{"a": 1 2}', "is not JSON"),
    ],
)
def test_a_file_that_is_no_json_is_called_what_it_is(tmp_path, content, words):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(RecordError, match=words):
        read_json(tmp_path / "f")


def test_fields_that_are_not_there_name_the_nearest():
    with pytest.raises(InputError, match=r"no field residual_norm\. Did you mean residual_norms"):
        walkback.Measurements(residual_norm=[1.0])
    with pytest.raises(InputError, match="expected a list of numbers"):
        walkback.Measurements(residual_norms=3.0)
    with pytest.raises(RecordError, match="its keys: foo"):
        walkback.DiagnosticReport.from_dict({"foo": 1}, "other.json")
