import json

import pytest

from walkback.errors import InputError, RecordError
from walkback.protocol.judge import judge
from walkback.protocol.records import Measurements
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.replay import replay

EXPLODED = Measurements(residual_norms=[1.0, 100.0], bp_grad_norms=[1e-3, 1e-3])


def test_an_own_report_is_judged_again_from_its_measurements(tmp_path):
    report = judge(EXPLODED, method_name="DFA", seed=7, notes="n")
    path = report.save(tmp_path / "r.json")
    (entry,) = replay(path)
    assert entry.name == "DFA_s7"
    assert entry.report == report
    assert entry.recorded_verdict == report.verdict


def test_other_thresholds_change_the_verdict_of_a_record(tmp_path):
    path = judge(EXPLODED).save(tmp_path / "r.json")
    (entry,) = replay(path, DiagnosticThresholds(h_norm_explosion_ratio=1000))
    assert entry.report.verdict == "trustworthy"
    assert entry.recorded_verdict == "needs walk-back: residual stream exploded"


def test_a_list_of_own_reports_keeps_the_order(tmp_path):
    reports = [judge(EXPLODED, method_name=name, seed=1) for name in ("z", "a", "m")]
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({"reports": [r.to_dict() for r in reports]}))
    assert [e.name for e in replay(path)] == ["z_s1", "a_s1", "m_s1"]


def test_the_reports_of_a_replay_are_judged_again_as_any_report(tmp_path):
    reports = [judge(EXPLODED, method_name="x", seed=seed) for seed in (1, 2)]
    beside = {"source": "log.csv", "recorded_verdict": "fine", "course": {"measured": 3}}
    entries = [{"name": f"row {r.seed}"} | beside | r.to_dict() for r in reports]
    entries[1]["verdict"] = "trustworthy"  # what a file says of itself is not believed
    path = tmp_path / "replayed.json"
    path.write_text(json.dumps(entries))
    found = replay(path)
    assert [entry.name for entry in found] == ["row 1", "row 2"]
    assert [entry.report.verdict for entry in found] == [reports[0].verdict] * 2
    assert found[0].report == reports[0]
    assert found[1].report.stored.verdict == "trustworthy"
    (entry, _) = replay(path, DiagnosticThresholds(h_norm_explosion_ratio=1000))
    assert entry.report.verdict == "trustworthy"


def test_nan_strings_in_a_record_are_non_finite_not_passed(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"method": "x", "seed": 1, "h_norms": ["NaN", 1.0], "g_norms": [1e-3, 1e-3]}]))
    (entry,) = replay(path)
    assert entry.report.verdict == "needs walk-back: non-finite values"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "breaks off at character 1"),
        ("", "is empty"),
        ("3", "not a record that walkback knows"),
        ("[]", "holds no networks"),
        ('{"reports": {}}', "holds no networks"),
        ('{"reports": {"a": {"x": 1}}}', "report a holds no measurements"),
        ('[{"h_norms": [1, "x"]}]', "row 0.*residual_norms.1"),
        (
            '[{"h_norms": [1, 2], "g_norms": [1]}]',
            "numbers of sites differ: residual_norms has 2 values and bp_grad_norms has 1 value; expected",
        ),
        ('[{"h_norms": [1, 2], "acc": 61.5}]', "divide percentages by 100"),
        ('{"schema_version": 99, "readings": []}', "schema_version 99; this walkback reads the versions 1 and 2"),
        ('{"schema_version": 1, "readings": [], "surprise": 1}', "surprise"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_bad_record_is_refused_in_a_sentence_that_names_the_file(tmp_path, content, expected):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(RecordError, match=expected) as caught:
        replay(path)
    assert "bad.json" in str(caught.value)


def test_a_missing_file_and_no_file_at_all(tmp_path):
    with pytest.raises(RecordError, match=r"cannot read .*nowhere.json"):
        replay(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="no files"):
        replay([])
