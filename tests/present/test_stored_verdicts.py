"""A file may say anything of itself: whatever shows a record judges it again, and says where the file differs."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from walkback import DiagnosticReport, Measurements, judge, replay
from walkback.cli.main import app_for
from walkback.errors import WalkbackWarning
from walkback.lab.evidence.results import Results
from walkback.lab.studies.audited import load_audit
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.registry import RENDERERS

EXPLODED = judge(
    Measurements(residual_norms=[1.0, 900.0], bp_grad_norms=[1e-3, 1e-3]), method_name="DFA", seed=7,
    provenance={"walkback": "0.9.1"},
)  # fmt: skip
NAN = judge(Measurements(residual_norms=[1.0, "NaN"], nonfinite_logits=3), method_name="NaN", seed=8)
REAL, BROKEN = "needs walk-back: residual stream exploded", "needs walk-back: non-finite values"


def edited(report, **changes):
    """What a report saves, with a verdict of somebody's own."""
    return report.to_dict() | {"verdict": "trustworthy"} | changes


def forged(report):
    """The same, with readings that pass too."""
    readings = [{**r, "state": "PASS", "reason": "", "value": 1.0} for r in report.to_dict()["readings"]]
    return edited(report, readings=readings, complete=True)


FORGERIES = {
    "a verdict over readings that fire": (edited(EXPLODED), REAL),
    "readings that pass over NaN": (forged(NAN), BROKEN),
    "readings that pass over an explosion": (forged(EXPLODED), REAL),
    "no readings": (edited(EXPLODED, readings=[]), REAL),
}


@pytest.fixture(params=sorted(FORGERIES))
def forgery(request, tmp_path):
    """(the file, the verdict that its measurements come to)."""
    data, verdict = FORGERIES[request.param]
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(data))
    return path, verdict


def report(*words):
    done = CliRunner().invoke(app_for(()), ["report", *map(str, words)], standalone_mode=False)
    assert done.return_value == 0, done.exception
    return done.output


def test_loading_judges_again_and_keeps_what_was_said(forgery):
    path, verdict = forgery
    loaded = DiagnosticReport.load(path)
    assert loaded.verdict == verdict
    assert not loaded.trustworthy
    assert loaded.stored.verdict == "trustworthy"
    assert [r.letter for r in loaded.readings] == list("abcd")


def test_where_it_differs_and_which_version_stored_it():
    loaded = DiagnosticReport.from_dict(forged(EXPLODED))
    assert loaded.stored.version == "0.9.1"
    assert loaded.stored.differs[0] == "(a) PASS there, FIRE here"
    text = str(loaded)
    assert "the record says “trustworthy”, stored by walkback 0.9.1" in " ".join(text.split())
    assert DiagnosticReport.from_dict(edited(EXPLODED)).stored.differs == ()


def test_a_figure_alone_that_was_edited():
    data = EXPLODED.to_dict()
    data["readings"][0]["value"] = 51.0
    loaded = DiagnosticReport.from_dict(data)
    assert loaded.reading("a").value == 900.0
    assert loaded.stored.differs == ("(a) 51.0 there, 900 here",)


@pytest.mark.parametrize("name", sorted(RENDERERS))
def test_every_rendering_shows_the_judged_verdict_and_the_difference(name, forgery):
    path, verdict = forgery
    shown = " ".join(RENDERERS.load(name)(DiagnosticReport.load(path)).split())
    assert verdict.removeprefix("needs walk-back: ") in shown
    assert "the record says" in shown


def test_the_command_in_every_form(forgery, tmp_path):
    path, verdict = forgery
    assert "the record says" in " ".join(report(path).split())
    files = {form: tmp_path / f"out.{form}" for form in ("html", "markdown", "latex", "csv")}
    report(path, *(word for form, file in files.items() for word in (f"--{form}", file)))
    for form in ("html", "markdown", "latex"):
        assert "the record says" in " ".join(files[form].read_text().split()), form
    (row,) = csv.DictReader(io.StringIO(files["csv"].read_text()))
    assert (row["verdict"], row["stored_verdict"]) == (verdict, "trustworthy")
    for form in ("markdown", "latex"):
        assert "the record says" in " ".join(report(path, "--template", form).split())


def test_several_at_once_say_which_of_them_differs(tmp_path):
    paths = [EXPLODED.save(tmp_path / "sound.json"), tmp_path / "forged.json"]
    paths[1].write_text(json.dumps(forged(NAN)))
    files = {form: tmp_path / f"out.{form}" for form in ("html", "markdown", "latex")}
    report(*paths, *(word for form, file in files.items() for word in (f"--{form}", file)))
    for shown in (report(*paths), *(file.read_text() for file in files.values())):
        words = " ".join(shown.split())
        assert "NaN, seed 8: the record says" in words
        assert "DFA, seed 7: the record says" not in words


def test_replay_says_it_and_exits_by_the_judged_verdict(forgery, tmp_path):
    path, verdict = forgery
    done = CliRunner().invoke(
        app_for(()), ["replay", str(path), "--json", str(tmp_path / "out.json")], standalone_mode=False
    )
    assert done.return_value == 1
    assert "the record says" in " ".join(done.output.split())
    (entry,) = json.loads((tmp_path / "out.json").read_text())
    assert (entry["verdict"], entry["recorded_verdict"]) == (verdict, "trustworthy")
    assert "the record says" in " ".join(report(tmp_path / "out.json").split())


def test_a_record_of_another_program_that_says_otherwise(tmp_path):
    rows = [{"method": "x", "seed": 1, "h_norms": [1.0, 900.0], "g_norms": [1e-3, 1e-3], "verdict": "trustworthy"}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (entry,) = replay(tmp_path / "rows.json")
    assert entry.report.stored.verdict == "trustworthy"
    assert "stored by a program that it does not name" in " ".join(str(entry.report).split())
    rows[0]["verdict"] = "walk-back: (a)"
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    assert replay(tmp_path / "rows.json")[0].report.stored is None


def write_audit(folder, reports):
    content = {"audit_version": 1, "name": "made", "config": {}, "reports": reports, "runs": []}
    path = folder / "audit_made.json"
    path.write_text(json.dumps(content))
    return path


def test_audits_studies_and_evidence_judge_again(tmp_path):
    path = write_audit(tmp_path, [forged(EXPLODED) | {"seed": seed} for seed in (1, 2, 3)])
    with pytest.warns(WalkbackWarning, match="audit_made.json, 'DFA', seed .: the record says “trustworthy”"):
        audit = load_audit(path)
    assert {r.verdict for r in audit.reports} == {REAL}
    with pytest.warns(WalkbackWarning, match="the record says"):
        reports = Results(tmp_path).reports("made", "DFA")
    assert {r.verdict for r in reports} == {REAL}


def test_the_page_of_an_audit_says_it(tmp_path):
    path = write_audit(tmp_path, [forged(EXPLODED) | {"seed": seed} for seed in (1, 2, 3)])
    with pytest.warns(WalkbackWarning, match="the record says"):
        report(path, "--html", tmp_path / "page.html")
    page = " ".join((tmp_path / "page.html").read_text().split())
    assert "DFA, seed 2: the record says “trustworthy”, stored by walkback 0.9.1" in page


def test_a_run_s_own_report_is_judged_again(tmp_path):
    path = next(Path("results/runs").glob("*.json"))
    result = json.loads(path.read_text())
    result["report"] |= {"residual_norms": [1.0] * (len(result["report"]["residual_norms"]) - 1) + ["NaN"]}
    result["report"] |= {"residual_norm_intervals": None, "verdict": "trustworthy"}
    (tmp_path / path.name).write_text(json.dumps(result))
    shown = " ".join(report(tmp_path / path.name).split())
    assert "needs walk-back: non-finite values" in shown
    assert "the record says “trustworthy”" in shown


def test_an_honest_record_says_nothing_of_it(tmp_path):
    again = DiagnosticReport.load(EXPLODED.save(tmp_path / "r.json"))
    assert again == EXPLODED
    assert again.stored is None
    assert "the record says" not in str(again)


def test_thresholds_are_the_record_s_own():
    lax = judge(EXPLODED.measurements, DiagnosticThresholds(h_norm_explosion_ratio=1000))
    again = DiagnosticReport.from_dict(lax.to_dict())
    assert (again.verdict, again.stored) == ("trustworthy", None)


def test_a_verdict_that_asked_for_all_four_stays_incomplete():
    some = judge(Measurements(residual_norms=[1, 1.1], bp_grad_norms=[1e-3, 1e-3]), require_all=True)
    again = DiagnosticReport.from_dict(some.to_dict())
    assert (again.verdict, again.stored) == ("incomplete: (c), (d) not measured", None)


def test_a_reading_of_a_diagnostic_that_is_not_known_here_is_kept_and_no_panel_counts_it():
    own = {"letter": "e", "name": "own", "state": "FIRE", "reason": "own reason"}
    sound = judge(Measurements(residual_norms=[1, 1.1], bp_grad_norms=[1e-3, 1e-3])).to_dict()
    data = sound | {"readings": [*sound["readings"], own], "verdict": "needs walk-back: own reason"}
    again = DiagnosticReport.from_dict(data)
    assert again.verdict == "trustworthy"
    assert again.stored.verdict == "needs walk-back: own reason"
    assert again.reading("e").reason == "own reason"


def test_what_was_found_is_kept_when_it_is_saved_again(tmp_path):
    loaded = DiagnosticReport.from_dict(forged(EXPLODED))
    again = DiagnosticReport.load(loaded.save(tmp_path / "r.json"))
    assert again == loaded
    assert again.stored.verdict == "trustworthy"


def test_a_mark_on_gamma_is_made_anew():
    data = EXPLODED.to_dict() | {"alignment": {"sites": [0.1, 0.1], "mark": "all is sound"}}
    assert DiagnosticReport.from_dict(data).alignment.mark == ""
