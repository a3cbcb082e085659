"""`walkback report` on every kind of target, and on what is none."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from walkback.cli.main import app_for
from walkback.errors import WalkbackError

GOLDEN = Path(__file__).parents[1] / "golden"
AUDIT, CNN = GOLDEN / "resmlp_d256_audit_3seed.json", GOLDEN / "cnn_audit_3seed.json"
TRACE = GOLDEN / "resmlp_dfa_s42_trace.jsonl"
RUN = Path("results/runs/6fb7a8c2fb66.json")
BP, FROZEN = "bp-s42-30ep", "bp-frozen_blocks-s42-30ep"


def run(*arguments):
    return CliRunner().invoke(app_for(()), ["report", *map(str, arguments)], standalone_mode=False)


def run_named(name):
    results = {path: json.loads(path.read_text()) for path in Path("results/runs").glob("*.json")}
    return next(path for path, result in results.items() if result["name"].endswith(name))


def test_every_form_is_written_from_one_command(tmp_path):
    forms = {form: tmp_path / f"r.{form}" for form in ("html", "markdown", "latex", "csv")}
    result = run(AUDIT, *(part for form, path in forms.items() for part in (f"--{form}", path)))
    assert result.return_value == 0, result.output
    assert forms["html"].read_text().count('<tbody id="n') == 15
    assert forms["markdown"].read_text().startswith("## walkback: 15 networks")
    assert "\\toprule" in forms["latex"].read_text()
    assert len(forms["csv"].read_text().splitlines()) == 16


@pytest.mark.parametrize("target", [CNN, TRACE, RUN], ids=["rows", "trace", "run"])
def test_every_kind_of_record_is_taken(target, tmp_path):
    assert run(target, "--html", tmp_path / "r.html").return_value == 0
    assert (tmp_path / "r.html").stat().st_size < 2_000_000


def test_a_run_by_its_id_and_by_its_file_is_the_same(tmp_path):
    shutil.copytree("results/runs", tmp_path / "results" / "runs")
    by_id = CliRunner().invoke(
        app_for(()), ["report", RUN.stem, "--runs", str(tmp_path / "runs"), "--csv", str(tmp_path / "a.csv")],
        standalone_mode=False,
    )  # fmt: skip
    assert by_id.return_value == 0, by_id.exception
    run(RUN, "--csv", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_a_frozen_baseline_is_joined_to_its_run_and_has_no_row_of_its_own(tmp_path):
    run(run_named(BP), run_named(FROZEN), "--csv", tmp_path / "r.csv")
    _, line = (tmp_path / "r.csv").read_text().splitlines()
    accuracy = json.loads(run_named(FROZEN).read_text())["accuracy"]
    assert f",{accuracy}," in line


def test_a_page_names_the_commits_of_a_run_and_of_its_baseline(tmp_path):
    commits = {}
    for name in (BP, FROZEN):
        result = json.loads(run_named(name).read_text())
        commits[name] = f"commit-of-{name}"
        (tmp_path / f"{result['id']}.json").write_text(json.dumps(result | {"commit": commits[name]}))
    bp = tmp_path / run_named(BP).name
    run(bp, "--html", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert all(commit in page for commit in commits.values())
    assert "commit of its frozen baseline</dt>" in page
    (tmp_path / run_named(FROZEN).name).unlink()
    run(bp, "--html", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert commits[BP] in page
    assert "commit of its frozen baseline</dt>" not in page
    assert commits[FROZEN] not in page


def test_without_a_form_it_is_printed():
    assert "verdict:" in run(RUN).output
    assert "unanimous" in run(AUDIT).output


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("{", "breaks off"),
        ("[]", "no networks"),
        ("{}", "not a record"),
        ('{"result_version": 1}', "is not the result of a run"),
        ('{"audit_version": 1}', "is corrupt"),
        ('{"schema_version": 99, "readings": []}', "schema_version 99"),
    ],
)
def test_bad_files_end_in_a_sentence_and_leave_nothing(content, expected, tmp_path):
    (tmp_path / "bad.json").write_text(content)
    result = run(tmp_path / "bad.json", "--html", tmp_path / "r.html")
    assert isinstance(result.exception, WalkbackError), result.exception
    assert expected in str(result.exception)
    assert not (tmp_path / "r.html").exists()


def test_targets_that_are_not_there_are_named(tmp_path):
    assert "there is no such file" in str(run("nowhere.json").exception)
    assert "as a run id" in str(run("abcdef").exception)
    assert "cannot write" in str(run(RUN, "--html", "/nowhere/r.html").exception)


def test_of_several_forms_all_or_none_are_written(tmp_path):
    result = run(RUN, "--html", tmp_path / "r.html", "--csv", tmp_path / "nowhere" / "r.csv")
    assert str(tmp_path / "nowhere") in str(result.exception)
    assert not (tmp_path / "r.html").exists()


def test_a_log_is_shown_by_way_of_replay(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("epoch,in,out,grad,score\n1,8.7,9.0,1e-3,0.2\n2,8.7,9e6,1e-9,0.3\n")
    assert "walkback replay" in str(run(log).exception)
    columns = "h_0=in,h_L=out,g_L=grad,acc=score,epoch=epoch"
    replayed = ["replay", str(log), "--map", columns, "--blocks", "1", "--json", str(tmp_path / "log.json")]
    assert CliRunner().invoke(app_for(()), replayed, standalone_mode=False).return_value == 1
    assert "residual stream exploded" in run(tmp_path / "log.json").output
