"""The studies: the published figures from the recorded audits, and known answers from made-up ones."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from reference.made_results import epoch, network, row, run_file, write, write_audit, write_run
from walkback.cli.main import app
from walkback.errors import InputError, RecordError, UnknownName, WalkbackError
from walkback.lab.studies import STUDIES
from walkback.lab.studies.audited import load_audit
from walkback.lab.studies.moved import Judged
from walkback.lab.studies.sensitivity import _asked_of
from walkback.lab.studies.temporal import for_good
from walkback.protocol.drift_share import implied_share, stability_at
from walkback.protocol.judge import judge
from walkback.protocol.records import Measurements
from walkback.protocol.thresholds import DiagnosticThresholds

GOLDEN = Path(__file__).parents[2] / "golden"
RESMLP, CNN = GOLDEN / "resmlp_d256_audit_3seed.json", GOLDEN / "cnn_audit_3seed.json"


def answer(name, path):
    return STUDIES.load(name).run(load_audit(path))


def test_ablation_of_the_recorded_audit_is_0_of_5_against_3_of_5():
    policies = answer("ablation", RESMLP)["policies"]
    counts = {name: (len(policy["walked_back"]), policy["of"]) for name, policy in policies.items()}
    assert counts == {
        "S0": (0, 5), "S1": (0, 5), "S2": (3, 5), "S3": (3, 5), "S4": (3, 5), "S5": (0, 5), "S_full": (3, 5),
    }  # fmt: skip
    assert policies["S_full"]["walked_back"] == ["DFA", "STATE_BRIDGE", "CREDIT_BRIDGE"]
    assert policies["S5"]["mixed"] == ["DFA", "STATE_BRIDGE", "CREDIT_BRIDGE"]


def test_sensitivity_of_the_recorded_audit_gives_the_published_gaps():
    found = answer("sensitivity", RESMLP)
    growth, gradient = (found["diagnostics"][letter]["by_verdict"] for letter in "ab")
    assert round(growth["healthy"], 3) == 10.961
    assert round(growth["degenerate"], 3) == 694.458
    assert round(growth["gap"], 2) == 63.36
    assert f"{gradient['healthy']:.4e}" == "1.0174e-04"
    assert f"{gradient['degenerate']:.4e}" == "4.1803e-09"
    assert round(gradient["gap"]) == 24338
    assert (found["healthy"], found["networks"]) == (6, 15)
    assert found["diagnostics"]["c"]["by_verdict"]["separate"] is False


def test_four_of_the_five_recorded_firings_of_c_are_the_batch_size():
    found = answer("sensitivity", RESMLP)["drift"]
    assert sorted((entry["label"], entry["seed"], entry["because_of"]) for entry in found) == [
        ("CREDIT_BRIDGE", 42, "batch size"),
        ("CREDIT_BRIDGE", 456, "batch size"),
        ("DFA", 123, "batch size"),
        ("STATE_BRIDGE", 42, "drift"),
        ("STATE_BRIDGE", 123, "batch size"),
    ]
    assert {entry["share_from"] for entry in found} == {"implied by (c)"}


def test_the_recorded_cnn_audit_has_no_c_and_no_d():
    found = answer("sensitivity", CNN)["diagnostics"]
    assert (found["c"]["measured"], found["d"]["measured"]) == (0, 0)
    assert (found["a"]["fired"], found["b"]["fired"]) == (6, 0)
    assert answer("ablation", CNN)["policies"]["S_full"]["walked_back"] == ["dfa", "credit_bridge"]


def test_drift_share_and_batch_size_are_two_sides_of_one_formula():
    assert implied_share(0.30) == pytest.approx(0.0033, abs=5e-5)
    assert implied_share(0.992) == pytest.approx(0.49, abs=5e-3)
    for share in (1e-4, 0.01, 0.5):
        assert implied_share(stability_at(share)) == pytest.approx(share)


@pytest.fixture
def made(tmp_path):
    """Two methods: `calm` never fires (a) or (b); `loud` fires (a) at 2, (b) at 3 or, in the other convention, 1."""
    results = tmp_path / "results"
    calm = [epoch(n, acc=0.1 + 0.1 * n, c=0.5 if n in (0, 1) else 0.1) for n in range(5)]
    gradients = [1e-3, 5e-7, 2e-7, 5e-8, 5e-8]
    loud = [
        epoch(n, acc=0.3, growth=1.1 if n < 2 else 80.0, g=gradients[n], gamma=[0.1 * n] * 5) if n else calm[0]
        for n in range(5)
    ]
    write_run(results, "aaa", calm)
    write_run(results, "bbb", loud)
    write_run(results, "fff", [epoch(n, acc=0.3) for n in range(5)])
    reports = [network("calm", 1), network("loud", 1, acc=0.3, growth=80.0, g=5e-8, c=0.4, rho=0.02)]
    rows = [row("calm", 1, "aaa", "fff"), row("loud", 1, "bbb"), row("lost", 1, "ccc", error="the disk was full")]
    return write_audit(results, "made", reports, rows)


def test_first_firing_epochs_are_those_of_the_trace(made):
    calm, loud = answer("temporal", made)["runs"]
    assert calm["first"] == {"a": None, "b": None, "b at 1024": None, "c": 1, "d": 1}
    # At epoch 1 the margin is −10 points, at 2 it is 0, from 3 on it is 10 and 20.
    assert calm["for_good"] == {"a": None, "b": None, "b at 1024": None, "c": None, "d": None}
    assert calm["measured"] == {"a": 4, "b": 4, "b at 1024": 4, "c": 4, "d": 4}
    assert loud["measured"]["d"] == 0
    assert STUDIES.load("temporal").paragraphs({"runs": [loud]})[0].rows[0][7] == "not measured"
    assert loud["first"] == {"a": 2, "b": 3, "b at 1024": 1, "c": None, "d": None}
    assert loud["for_good"]["a"] == 2
    assert loud["alignment"] == pytest.approx({"low": 0.1, "high": 0.4, "first_epochs": 0.2})


def test_an_epoch_that_was_not_measured_is_not_one_at_which_nothing_fires(made):
    path = run_file(made.parent, "aaa")
    run = json.loads(path.read_text())
    run["trace"][2] |= {"residual_norms": None, "bp_grad_norms": None}
    write(path, run)
    calm = answer("temporal", made)["runs"][0]
    assert calm["measured"] == {"a": 3, "b": 3, "b at 1024": 3, "c": 4, "d": 4}
    assert STUDIES.load("temporal").paragraphs({"runs": [calm]})[0].rows[0][3:5] == ["at none of 3 measured"] * 2


@pytest.mark.parametrize(("fired", "start"), [([], None), ([1, 2, 4], 4), ([2, 3, 4], 2), ([1, 3], None)])
def test_for_good_means_to_the_end(fired, start):
    assert for_good(fired, 4) == start


def test_early_stop_counts_what_is_saved_and_what_it_costs(made):
    calm, loud = answer("early-stop", made)["runs"]
    assert calm["stops"]["(a) or (b)"] is None
    assert calm["stops"]["(a), (b) or (c)"] == {
        "epoch": 1, "saved": 0.75, "saved_seconds": 6.0, "accuracy": 0.2, "cost_pp": pytest.approx(30.0),
    }  # fmt: skip
    assert loud["stops"]["(a) or (b)"]["epoch"] == 2
    assert loud["stops"]["(a) or (b)"]["cost_pp"] == 0
    assert loud["stops"]["(a) or (b), ‖g‖ at 1024"]["epoch"] == 1


@pytest.mark.parametrize("changed", ["residual_norms", "bp_grad_norms", "site_stabilities"])
def test_random_init_reads_epoch_0_and_sees_when_methods_start_apart(made, changed):
    (found,) = answer("random-init", made)["networks"]
    assert (found["accuracy"], found["near_chance"]) == (0.1, True)
    assert found["fired"] == ["c"]
    assert found["methods"] == ["calm", "loud"]
    path = run_file(made.parent, "bbb")
    run = json.loads(path.read_text())
    run["trace"][0][changed] = [0.9] * 5  # another head, say, has other gradients behind the same norms
    write(path, run)
    apart = answer("random-init", made)["networks"]
    assert [network["methods"] for network in apart] == [["calm"], ["loud"]]
    assert STUDIES.load("random-init").paragraphs({"networks": apart})[0].headings[0] == "of"


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("panel", ["april2026", "june2026"])
def test_a_moved_threshold_gives_what_judging_everything_again_gives(nan, panel):
    limits = DiagnosticThresholds()
    fields = {"residual_norms": [1.0, 30.0, math.nan if nan else 31.0], "bp_grad_norms": [1e-3, 1e-3, 1e-6]}
    fields |= {"headline_acc": 0.5, "frozen_baseline_acc": 0.47, "total_growth": 31.0}
    report = judge(Measurements(**fields), limits, panel=panel)
    network = Judged.of(report, limits)
    tried = 0
    for sweep in _asked_of([report]):
        for value in sweep.threshold.tried[::7]:
            moved = DiagnosticThresholds(**{sweep.field: value})
            whole = judge(report.measurements, moved, panel=panel)
            fired = any(r.letter == sweep.letter and r.state.value == "FIRE" for r in whole.readings)
            assert network.under(moved, sweep.letter) == (fired, whole.outcome), (sweep.key, value)
            tried += 1
    assert tried > 20


def test_sensitivity_finds_the_range_that_keeps_every_verdict(made):
    found = answer("sensitivity", made)
    growth = found["diagnostics"]["a"]
    assert growth["by_verdict"]["gap"] == pytest.approx(80 / 1.1)
    assert growth["same_verdicts"] == {"low": pytest.approx(1.1), "high": None, "held_by": 0}
    assert [entry["because_of"] for entry in found["drift"]] == ["drift"]
    changed = {point["threshold"]: point["changed"] for point in found["sweeps"]["a"]}
    assert changed[1.0] == 1
    assert changed[100.0] == 0  # (b), (c) and (d) still walk it back.
    assert found["margins"]["turn_over_near"] == 0
    assert [entry["margin_pp"] for entry in found["margins"]["networks"]] == pytest.approx([25.0, -5.0])


def test_one_diagnostic_alone_bounds_the_range_on_both_sides(tmp_path):
    reports = [network("good", 1, growth=10.0), network("bad", 1, growth=400.0)]
    found = answer("sensitivity", write_audit(tmp_path, "two", reports))["diagnostics"]["a"]["same_verdicts"]
    assert found == {"low": pytest.approx(10.0), "high": pytest.approx(400.0), "held_by": 1}


def test_ablation_counts_mixed_methods_as_neither(tmp_path):
    mixed = [
        network("m", seed, growth=growth, gamma=[gamma] * 5) for seed, growth, gamma in ((1, 80, 0.1), (2, 1, 0.1))
    ]
    chance = [network("chance", seed, acc=0.15, frozen=0.1, gamma=[0.1] * 5) for seed in (1, 2)]
    against = [network("against", seed, gamma=[-0.1] * 5) for seed in (1, 2)]
    policies = answer("ablation", write_audit(tmp_path, "x", [*mixed, *chance, *against]))["policies"]
    assert policies["S0"]["walked_back"] == ["chance"]
    assert policies["S1"]["walked_back"] == ["chance", "against"]
    assert policies["S2"]["mixed"] == ["m"]


def test_a_diverged_network_fires_and_stays_out_of_the_extremes(tmp_path):
    reports = [network("good", 1), network("nan", 1, growth=math.nan, acc=math.nan, gamma=[math.nan] * 5)]
    path = write_audit(tmp_path, "x", reports)
    found = answer("sensitivity", path)
    assert (found["diagnostics"]["a"]["fired"], found["diagnostics"]["a"]["measured"]) == (1, 1)
    assert answer("ablation", path)["policies"]["S0"]["walked_back"] == ["nan"]


def test_what_is_incomplete_is_neither_healthy_nor_walked_back(tmp_path):
    accuracies = Measurements(headline_acc=0.9, frozen_baseline_acc=0.1)
    reports = [network("bp"), judge(accuracies, method_name="log", seed=42)]
    found = answer("sensitivity", write_audit(tmp_path, "made", reports))
    assert found["diagnostics"]["d"]["by_verdict"]["degenerate"] is None
    assert {point["walked_back"] for point in found["sweeps"]["a"] if point["threshold"] >= 50} == {0}


def test_the_same_audit_gives_the_same_answer_but_for_date_and_commit(made):
    for name in STUDIES:
        first, second = answer(name, made), answer(name, made)
        assert {k: v for k, v in first.items() if k not in ("date", "commit")} == {
            k: v for k, v in second.items() if k not in ("date", "commit")
        }


def study(*arguments):
    return app(["lab", "study", *map(str, arguments)])


def test_the_command_prints_writes_json_and_a_page_with_all_answers(made, tmp_path, capsys):
    options = ("--results", made.parent, "--markdown", tmp_path / "docs")
    assert study("all", *options) == 0
    assert study("ablation", RESMLP, *options) == 0
    printed = capsys.readouterr().out
    assert "When does each diagnostic fire first?" in printed
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {
        "ablation.md", "sensitivity.md", "random_init.md", "temporal.md", "early_stop.md", "partial.md",
        "triangulation.md",
    }  # fmt: skip
    page = (tmp_path / "docs" / "ablation.md").read_text()
    assert "## made" in page
    assert "## recorded\\_resmlp\\_d256" in page
    assert "| walked back | 0 of 5 | 0 of 5 | 3 of 5 | 3 of 5 | 3 of 5 | 0 of 5 | 3 of 5 |" in page
    rows = STUDIES.load("sensitivity").paragraphs(answer("sensitivity", RESMLP))[0].rows
    assert "63.36×" in rows[0]
    assert "24,338×" in rows[1]


def test_studies_need_no_torch(made, tmp_path):
    code = "import sys; from walkback.cli.main import app; app(sys.argv[1:])"
    code += "; assert 'torch' not in sys.modules"
    arguments = ["lab", "study", "all", "--results", str(made.parent), "--markdown", str(tmp_path / "docs")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (lambda r: run_file(r, "aaa").unlink(), RecordError, "json, which is not there. Make the run again: .* aaa"),
        (lambda r: run_file(r, "aaa").write_text('{"id": "aa'), RecordError, "breaks off"),
        (
            lambda r: run_file(r, "aaa").write_text('{"id": "zzz", "trace": []}'),
            RecordError,
            "not the result of",
        ),
        (
            lambda r: write_run(r, "aaa", [{"epoch": "first"}]),
            RecordError,
            "entry 0 of its trace, is corrupt.*epoch is ",
        ),
        (lambda r: write(r / "audit_made.json", {"audit_version": 1}), RecordError, "is corrupt"),
        (lambda r: write(r / "audit_made.json", {"audit_version": 99}), RecordError, "is an audit of version 99"),
        (lambda r: (r / "audit_made.json").unlink(), InputError, "there is no audit in"),
    ],
)
def test_damaged_records_are_named(made, tmp_path, damage, error, words):
    damage(made.parent)
    with pytest.raises(error, match=words):
        study("temporal", "--results", made.parent, "--markdown", tmp_path / "docs")


def test_unknown_studies_and_audits_without_traces_are_refused(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'ablation'"):
        study("ablaton", RESMLP)
    with pytest.raises(UnknownName, match=r"Known: .*\ball\b"):
        study("nosuch", RESMLP)
    with pytest.raises(WalkbackError, match="this study reads traces"):
        study("temporal", RESMLP, "--results", tmp_path, "--markdown", tmp_path)


def test_answers_of_an_older_version_are_given_again_from_their_own_audit(made, tmp_path):
    results, elsewhere = made.parent, tmp_path / "elsewhere"
    write_run(elsewhere, "zzz", [epoch(n) for n in range(3)])
    other = write_audit(elsewhere, "other", [network("bp", 1)], [row("bp", 1, "zzz")])
    write(results / "sensitivity_other.json", {"study_version": 1, "source": other.as_posix(), "audit": "other"})
    arguments = ["sensitivity", str(made), "--results", str(results), "--markdown", str(tmp_path / "pages")]
    assert app(["lab", "study", *arguments]) == 0
    assert "## other" in (tmp_path / "pages" / "sensitivity.md").read_text()
