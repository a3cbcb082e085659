"""Evidence: every claim of the table is there, and every decider comes to each status on results made for it."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import pytest
from claim_builders import (
    BROKEN,
    EP,
    FAILING,
    NOT,
    NOT_RUN,
    PARTLY,
    RECORD,
    REPRODUCED,
    Behind,
    audit_behind,
    is_study,
    of_one_seed,
    put,
    seeds,
)
from own_cases import OWN_CASES, published
from source_cases import (
    MAIN_CASES,
    OTHER_CASES,
    PENALISED,
    PENALTY,
    PENALTY_CASES,
    REPAIRED,
    SOURCE,
    penalty,
    sourced,
)

from reference.made_results import null, row, write, write_audit
from walkback.cli.main import app
from walkback.errors import InputError, RecordError
from walkback.lab.evidence import deciding, source_deciding, table, triangle_claims
from walkback.lab.evidence.results import Results
from walkback.lab.evidence.table import CLAIMS, decide, decided_json, markdown, tally
from walkback.lab.grids.presets import PRESETS
from walkback.lab.studies import temporal
from walkback.protocol.schema import STUDY_VERSION

CASES = [*OWN_CASES, *MAIN_CASES, *PENALTY_CASES, *OTHER_CASES]
BROKEN_WITHOUT = {name: value for name, value in BROKEN.items() if name != "frozen"}


def decided_of(results, claim):
    return next(known for known in CLAIMS if known.id == claim).decided(Results(results))


def status(results, claim):
    return decided_of(results, claim).status


def reproduced(claim):
    return next(files for known, files, expected in CASES if known == claim and expected is REPRODUCED)


def test_the_table_has_every_claim_once_with_a_rule_and_a_command():
    ids = [claim.id for claim in CLAIMS]
    assert ids == [f"C{n:02d}" for n in range(1, 44)] + [f"N{n:02d}" for n in range(1, 10)]
    for claim in CLAIMS:
        assert claim.sentence
        assert claim.published
        assert claim.rule.endswith(".")
        assert claim.command.startswith(("walkback ", "python tools/"))
        assert not claim.fitted or claim.fitted.endswith(".")


def test_every_preset_that_a_command_names_is_there():
    named = {name for claim in CLAIMS for name in re.findall(r"--preset (\w+)", claim.command)}
    assert {name for name in PRESETS if name.startswith("source")} <= named <= set(PRESETS)


def test_the_large_batch_of_the_rules_is_that_of_the_studies():
    assert deciding.LARGE_BATCH == temporal.LARGE_BATCH


def test_without_results_nothing_was_run(tmp_path):
    decided = decide(Results(tmp_path))
    assert {d.status for d in decided} == {NOT_RUN}
    assert {d.sources for d in decided} == {()}
    assert all("is not on record" in d.measured for d in decided)


@pytest.mark.parametrize(("claim", "files", "expected"), CASES)
def test_what_results_make_of_a_claim(tmp_path, claim, files, expected):
    """The status, and which part of the claim holds: all of it where it is reproduced, and else some part does not."""
    put(tmp_path, files)
    outcome = decided_of(tmp_path, claim).outcome
    assert outcome.status is expected
    assert bool(outcome.holds) >= (expected is REPRODUCED)
    assert bool(outcome.fails) is (expected in (PARTLY, NOT))


def test_every_claim_comes_to_every_status():
    reached = {(claim, expected) for claim, _, expected in CASES}
    wanted = {(claim.id, outcome) for claim in CLAIMS for outcome in (REPRODUCED, PARTLY, NOT)}
    assert wanted - reached == {("C06", PARTLY)}  # mixed over seeds, or not


@pytest.mark.parametrize("claim", [claim.id for claim in CLAIMS if claim.id != "C43"])  # whose file holds means
def test_one_seed_of_three_decides_nothing(tmp_path, claim):
    put(tmp_path, {name: of_one_seed(content) for name, content in reproduced(claim).items()})
    assert status(tmp_path, claim) is NOT_RUN


BY_STUDIES = ["C10", "C11", "C12", "C13", "C15", "C16", "C17", "C18", "C30", "C32", "C33", "N02", "N03", "N07"]


@pytest.mark.parametrize("claim", BY_STUDIES)
def test_a_study_of_another_version_decides_nothing(tmp_path, claim):
    files = reproduced(claim)
    put(tmp_path, {n: c | {"study_version": STUDY_VERSION - 1} if is_study(n) else c for n, c in files.items()})
    assert status(tmp_path, claim) is NOT_RUN


@pytest.mark.parametrize("claim", [claim for claim in BY_STUDIES if claim != "N02"])  # which is of a recorded audit
@pytest.mark.parametrize("change", ["the runs", "the reports"])
def test_a_study_of_the_audit_as_it_was_decides_nothing(tmp_path, claim, change):
    files = reproduced(claim)
    put(tmp_path, {f"audit_{audit_behind(name)}": seeds("dfa") for name in files if is_study(name)} | files)
    assert status(tmp_path, claim) is REPRODUCED
    for path in tmp_path.glob("audit_*.json"):
        audit = json.loads(path.read_text())
        if change == "the runs":
            audit["runs"] = [*audit["runs"], row("other", 42, run_id="new")]
        else:
            audit["reports"] = [report | {"notes": "made again"} for report in audit["reports"]]
        write(path, audit)
    assert status(tmp_path, claim) is NOT_RUN


def test_seeds_are_paired_by_what_they_are_not_by_where_they_stand(tmp_path):
    files = penalty(**{PENALISED: seeds(PENALISED, {"gamma": [0.01] * 5}, **REPAIRED)})
    reports, runs = files[f"audit_{PENALTY}"]
    trace = [line | {"alignment": [0.4, 0.5, 0.5, 0.5, 0.0]} for line in runs["dfa", 42]["trace"]]
    runs = runs | {("dfa", 42): {"trace": trace}}  # the seed that fails anyway
    for order in (list(runs), list(runs)[::-1]):
        put(tmp_path, {f"audit_{PENALTY}": Behind(reports, {place: runs[place] for place in order})})
        assert status(tmp_path, "C27") is PARTLY


def test_rows_that_share_no_seeds_are_not_compared(tmp_path):
    others = seeds("fa_block", of=(1, 2, 3), acc=0.4, frozen=0.348, gamma=[0.016, 0.072, -0.085, 0.997, 1.0])
    put(tmp_path, sourced(fa_block=others))
    assert status(tmp_path, "C28") is NOT_RUN
    assert status(tmp_path, "C31") is REPRODUCED  # which is of FA alone


@pytest.mark.parametrize("claim", ["C02", "C03", "C04", "C07", "C08", "C29"])
def test_a_baseline_that_is_missing_decides_nothing(tmp_path, claim):
    bare = {label: seeds(label, frozen=None, **BROKEN_WITHOUT) for label in FAILING}
    put(tmp_path, sourced(bp=seeds("bp", frozen=None), ep=seeds("ep", **EP | {"frozen": None}), **bare))
    assert status(tmp_path, claim) is NOT_RUN


@pytest.mark.parametrize("claim", ["C01", "N06"])
def test_a_baseline_of_our_own_that_is_missing_decides_nothing(tmp_path, claim):
    write_audit(tmp_path, RECORD, published(bp=seeds("bp", frozen=None), ep=seeds("ep", **EP | {"frozen": None})))
    assert status(tmp_path, claim) is NOT_RUN


def test_a_run_that_failed_decides_nothing(tmp_path):
    write_audit(tmp_path, RECORD, published(), [row("bp", 789, error="ran out of memory")])
    assert status(tmp_path, "C01") is NOT_RUN
    assert status(tmp_path, "N06") is NOT_RUN
    assert status(tmp_path, "N01") is NOT_RUN
    write_audit(tmp_path, SOURCE, sourced()[f"audit_{SOURCE}"].reports, [row("dfa", 789, error="ran out of memory")])
    assert status(tmp_path, "C02") is NOT_RUN
    assert status(tmp_path, "C03") is REPRODUCED


def test_a_method_that_failed_is_not_run(tmp_path):
    write_audit(tmp_path, RECORD, [r for r in published() if r.method_name != "ep"])
    assert status(tmp_path, "N06") is NOT_RUN
    assert status(tmp_path, "C01") is REPRODUCED


def test_a_run_whose_file_is_gone_decides_nothing(tmp_path):
    put(tmp_path, penalty())
    gone = json.loads((tmp_path / f"audit_{PENALTY}.json").read_text())["runs"][0]["id"]
    (tmp_path / "runs" / f"{gone}.json").unlink()
    assert status(tmp_path, "C27") is NOT_RUN
    assert status(tmp_path, "C26") is REPRODUCED  # which reads reports alone


UNTESTED = [{"functional": tests} for tests in (None, {}, {"perturbation": []}, {"unmeasured": "diverged"})]


@pytest.mark.parametrize("lacking", [*UNTESTED, {"trace": []}, {"trace": [{"epoch": n} for n in range(3)]}])
def test_functional_tests_that_are_not_there_decide_nothing(tmp_path, lacking):
    reports, runs = penalty()[f"audit_{PENALTY}"]
    without = {place: run | lacking for place, run in runs.items()}
    put(tmp_path, {f"audit_{PENALTY}": Behind(reports, without)})
    assert status(tmp_path, "C36") is NOT_RUN
    assert status(tmp_path, "C37") is REPRODUCED


def test_cifar_100_is_not_run_and_says_why(tmp_path):
    decided = next(claim for claim in CLAIMS if claim.id == "C40").decided(Results(tmp_path))
    assert "no loader of CIFAR-100" in decided.measured


def test_claims_and_findings_are_counted_apart(tmp_path):
    put(tmp_path, sourced() | {f"audit_{RECORD}": published()})
    claims, findings = tally(decide(Results(tmp_path)))
    assert claims == "Published claims: 12 reproduced, 0 partly, 0 not reproduced, 31 not run"
    assert findings == "Findings: 2 reproduced, 0 partly, 0 not reproduced, 7 not run"
    page = markdown(decide(Results(tmp_path)), tmp_path, Results(tmp_path), "results")
    assert f"- **{claims}.**\n- **{findings}.**" in page


def test_what_was_fitted_is_told_where_something_was(tmp_path, monkeypatch):
    first, *others = [dataclasses.replace(claim, fitted="") for claim in CLAIMS]
    monkeypatch.setattr(table, "CLAIMS", [dataclasses.replace(first, fitted="EP's 0.316 chose β."), *others])
    decided = decide(Results(tmp_path))
    told, *rest = decided_json(decided, tmp_path)["claims"]
    assert told["fitted"] == "EP's 0.316 chose β."
    assert not any("fitted" in claim for claim in rest)
    assert markdown(decided, tmp_path, Results(tmp_path), "results").count("- fitted: EP's 0.316 chose β.") == 1


def test_fresh_feedback_is_taken_over_the_same_blocks():
    site_means, site_sds = [0.5, 0.01, 0.02, 0.03, 9.0], [0.9, 0.3, 0.4, 1.2, 9.0]
    drawn = null().model_copy(update={"site_means": site_means, "site_sds": site_sds})
    (report,) = seeds("dfa", of=(42,), gamma=[0.0] * 5, with_null=drawn)
    assert source_deciding.block_null(report, first=1) == pytest.approx((0.02, 1.3 / 3))  # √(0.3² + 0.4² + 1.2²) = 1.3
    assert source_deciding.block_null(report)[0] == pytest.approx(0.14)


@pytest.mark.parametrize(
    ("order", "figure", "figures", "holds"),
    [
        ("accuracy", "accuracy", (0.36, 0.45, 0.36), True),
        ("accuracy", "accuracy", (0.36, 0.38, 0.36), False),  # not far above
        ("accuracy", "accuracy", (0.36, 0.45, 0.41), False),  # the others are not alike
        ("the cosine", "cosine", (0.1, 0.3, 0.6), True),
        ("the cosine", "cosine", (0.3, 0.1, 0.6), False),
        ("the nudge", "nudge", (-5e-5, -2e-3, -4e-4), True),
        ("the nudge", "nudge", (5e-5, -2e-3, 4e-4), True),
        ("the nudge", "nudge", (-5e-5, -2e-3, -1.5e-3), False),
        ("the nudge", "nudge", (0.3, 0.1, 0.4), False),  # it raises the loss, by less than theirs
        ("the training loss", "loss_decrease", (0.1, 0.4, 0.1), True),
        ("the training loss", "loss_decrease", (0.1, 0.15, 0.1), False),
        ("the training loss", "loss_decrease", (-0.5, -0.1, -0.5), False),
    ],
)
def test_the_orders_of_the_penalised_methods(order, figure, figures, holds):
    published = list(triangle_claims.PUBLISHED.values())
    three = tuple(one._replace(**{figure: value}) for one, value in zip(published, figures, strict=True))
    assert triangle_claims.ORDERS[order](three) is holds


def test_a_block_s_cosine_is_that_of_the_site_it_reads():
    (report,) = seeds("dfa", of=(42,), gamma=[0.4, 0.1, -0.1, 0.3, 0.9])
    assert source_deciding.block_cosines(report) == pytest.approx([0.4, 0.1, -0.1, 0.3])
    assert source_deciding.block_gamma(report) == pytest.approx(0.175)
    assert source_deciding.deep_block_cosine(report) == pytest.approx(0.1)


def evidence(*arguments):
    return app(["lab", "evidence", *map(str, arguments)])


def test_the_command_prints_and_writes(tmp_path, capsys):
    results, notes = tmp_path / "results", tmp_path / "notes"
    write_audit(results, RECORD, published())
    notes.mkdir()
    (notes / "C01.md").write_text("Tried a longer run.\n")
    out, page = tmp_path / "e.json", tmp_path / "EVIDENCE.md"
    assert evidence("--results", results, "--json", out, "--write", page, "--notes", notes) == 0
    claims = {claim["id"]: claim for claim in json.loads(out.read_text())["claims"]}
    assert len(claims) == 52
    assert claims["C01"]["status"] == "reproduced"
    assert claims["C01"]["source"] == [f"{results.as_posix()}/audit_{RECORD}.json"]
    assert {"id", "status", "published", "measured", "source", "rule", "command"} <= set(claims["C12"])
    text = page.read_text()
    assert f"[audit_{RECORD}.json](results/audit_{RECORD}.json)" in text
    assert "Tried a longer run." in text
    assert "reproduced" in capsys.readouterr().out


def test_bad_results_are_named(tmp_path):
    with pytest.raises(InputError, match="--results"):
        evidence("--results", tmp_path / "nowhere")
    (tmp_path / f"audit_{RECORD}.json").write_text('{"reports": 3}')
    with pytest.raises(RecordError, match="no list of reports"):
        evidence("--results", tmp_path)
    (tmp_path / f"audit_{RECORD}.json").write_text('{"repo')
    with pytest.raises(RecordError, match="breaks off"):
        evidence("--results", tmp_path)


def test_a_study_that_lacks_what_a_claim_reads_is_named(tmp_path):
    short = [{"label": "dfa", "first": {}}]
    put(tmp_path, {f"temporal_{SOURCE}": {"runs": short}})
    with pytest.raises(RecordError, match=f"C12 cannot be decided from temporal_{SOURCE}.json"):
        status(tmp_path, "C12")


def test_bad_input_is_a_sentence_and_exit_status_2(tmp_path):
    command = [sys.executable, "-m", "walkback", "lab", "evidence", "--results", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("walkback: there is no ")
    assert "Traceback" not in done.stderr


def test_evidence_needs_no_torch(tmp_path):
    code = "import sys; from walkback.cli.main import app; app(sys.argv[1:])"
    code += "; assert 'torch' not in sys.modules"
    arguments = ["lab", "evidence", "--results", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
