"""The tests of credit in runs' files: in reports, in triangulation, and block by block over depth."""

from __future__ import annotations

import copy
import json
import statistics
from pathlib import Path

import pytest

from reference.made_results import epoch, network, row, write_audit, write_run
from walkback.cli.main import app
from walkback.errors import InputError, WalkbackError
from walkback.lab.runs.baselines import joined_report
from walkback.lab.runs.functional_record import NUDGE, RHO, fields_on_record, mean_over_deep_blocks, training_loss
from walkback.lab.studies import STUDIES
from walkback.lab.studies.audited import load_audit
from walkback.protocol.records import State

RUNS = Path(__file__).parents[3] / "results" / "runs"
FA_BLOCK, EXPLODED = "0c2b929b11b8", "4cde367e3a76"
"""fa_block, and a State Bridge behind whose stream a step of 0.001 moves nothing; both as the source."""


def result(run_id):
    return json.loads((RUNS / f"{run_id}.json").read_text())


def answer(name, path):
    return STUDIES.load(name).run(load_audit(path))


def test_the_report_of_a_run_has_what_its_file_holds():
    data = result(FA_BLOCK)
    report, tests = joined_report(data, None), data["functional"]
    credit = tests["perturbation"]["absolute"]["credit"]["raw"]
    assert list(report.perturbation_rho) == credit["rho"]
    assert [i.low for i in report.perturbation_rho_intervals] == credit["low"]
    assert list(report.scaled_rho) == tests["perturbation"]["relative"]["credit"]["unit_rms"]["rho"]
    assert list(report.nudge) == tests["nudge"]["raw"]["0.01"]["mean"]
    assert list(report.unit_nudge) == tests["nudge"]["unit_rms"]["0.01"]["mean"]
    wide = [i.high - i.low for i in report.nudge_intervals]
    assert wide == pytest.approx([2 * 1.959964 * e for e in tests["nudge"]["raw"]["0.01"]["standard_error"]], rel=1e-6)
    losses = [line["loss"] for line in data["trace"] if "loss" in line]
    assert report.reading("l").value == pytest.approx(losses[0] - losses[-1])
    assert report.reading("p").value == pytest.approx(statistics.fmean(credit["rho"][1:]))
    assert report.functional_samples == 256


def test_its_last_block_carries_the_mean():
    assert "comes from the input of blocks.3 alone (+0.998)" in " ".join(
        joined_report(result(FA_BLOCK), None).to_text().split()
    )


def test_where_rho_is_zero_by_definition_so_is_its_interval():
    report = joined_report(result(EXPLODED), None)
    assert report.perturbation_rho[2:] == (0.0,) * 3
    assert {(i.low, i.high) for i in report.perturbation_rho_intervals[2:]} == {(0.0, 0.0)}
    assert "At sites 2, 3, 4 it is 0 by definition" in report.reading("p").sentence


def test_a_run_from_before_the_tests_has_its_training_loss_alone():
    data = next(d for p in sorted(RUNS.glob("*.json")) if "functional" not in (d := json.loads(p.read_text())))
    report = joined_report(data, None)
    assert report.reading("l").state is State.REPORTED
    assert {"p", "n"}.isdisjoint(reading.letter for reading in report.readings)
    assert mean_over_deep_blocks(data, RHO) is None


def test_why_a_run_was_not_tested_is_kept():
    assert fields_on_record({"functional": {"unmeasured": "no blocks"}})["no_functional"] == "no blocks"
    sites = {"functional": {"unmeasured": "", "unmeasured_sites": {"2": "h_l is not finite in 3 of 256 samples"}}}
    assert fields_on_record(sites)["no_functional"] == "site 2: h_l is not finite in 3 of 256 samples"


def test_a_file_whose_values_contradict_each_other_is_refused():
    data = copy.deepcopy(result(FA_BLOCK))
    data["functional"]["perturbation"]["absolute"]["credit"]["raw"]["rho"][1] = 0.9
    with pytest.raises(WalkbackError, match=r"perturbation_rho is 0\.9 there"):
        joined_report(data, None)
    data = copy.deepcopy(result(FA_BLOCK))
    data["functional"]["nudge"]["raw"]["0.01"]["mean"].pop()
    data["functional"]["nudge"]["raw"]["0.01"]["standard_error"].pop()
    with pytest.raises(WalkbackError, match="sites differ"):
        joined_report(data, None)


def in_file(rho, nudge):
    """The tests of five sites; at h_0 and h_4, which do not count, whatever."""
    return {
        "perturbation": {"absolute": {"credit": {"unit_rms": {"rho": [9.0, *rho, None]}}}},
        "nudge": {"unit_rms": {"0.01": {"mean": [None, *nudge, 9.0]}}},
    }


DEPTH = {"blocks_removed": [0.2], "blocks_rerandomised": [[0.2]], "linear_probes": [0.4, 0.5]}


def test_triangulation_has_them_beside_its_own(tmp_path):
    write_run(tmp_path, "frozen", [epoch(n) for n in range(3)])
    lines = [epoch(n, acc=0.6) | ({"loss": 2.0 - 0.3 * n} if n else {}) for n in range(3)]
    tests = in_file([0.1, 0.2, 0.6], [-1e-3, -2e-3, 0.0])
    write_run(tmp_path, "new", lines, depth=DEPTH, functional=tests)
    write_run(tmp_path, "old", [epoch(n, acc=0.6) for n in range(3)], depth=DEPTH)
    reports = [network("dfa", 1, acc=0.6), network("dfa", 2, acc=0.6)]
    path = write_audit(tmp_path, "made", reports, [row("dfa", 1, "new", "frozen"), row("dfa", 2, "old", "frozen")])
    new, old = (run["credit_tests"] for run in answer("triangulation", path)["runs"])
    assert new == pytest.approx({"rho": 0.3, "nudge": -1e-3, "loss_decrease": 0.3})
    assert old == {"rho": None, "nudge": None, "loss_decrease": None}
    grid, _, words, *_ = STUDIES.load("triangulation").paragraphs(answer("triangulation", path))
    assert grid.rows[0][6:9] == ["+0.300", "-0.00100", "+0.300"]
    assert grid.rows[1][6:9] == ["not measured"] * 3
    assert "on record for 1 of 2 networks, the training loss for 1 of 2" in words


def test_answers_of_triangulation_from_before_are_still_shown():
    stored = {
        "label": "dfa", "seed": 1, "margin_pp": 1.0, "passes_d": False,
        "points": {"removal": 1.0, "rerandomised": 1.0, "probe": 1.0},
        "uses_depth": {"removal": False, "rerandomised": False, "probe": False},
    }  # fmt: skip
    grid, *_ = STUDIES.load("triangulation").paragraphs(
        {"runs": [stored], "agreement": {}, "redrawn_is_removed": False}
    )
    assert grid.rows[0][6:9] == ["not measured"] * 3


def test_only_the_blocks_behind_the_first_count():
    assert mean_over_deep_blocks({"functional": in_file([0.1, 0.2, 0.6], [0.0] * 3)}, RHO) == pytest.approx(0.3)
    assert mean_over_deep_blocks({"functional": in_file([0.1, None, 0.6], [0.0] * 3)}, RHO) is None
    assert mean_over_deep_blocks({"functional": in_file([], [])}, NUDGE) is None
    assert mean_over_deep_blocks({"functional": {"nudge": []}}, NUDGE) is None
    assert training_loss([{"epoch": 0}, {"epoch": 1, "loss": "NaN"}, {"epoch": 2, "loss": 1.0}]) is None


def deep(method, depth, gamma, seed=1):
    """A report on a network of so many blocks."""
    found = network(f"{method} depth {depth}", seed, gamma=[0.0] * 5)
    alignment = found.alignment.model_copy(update={"sites": tuple(gamma), "deep": statistics.fmean(gamma[1:])})
    return found.model_copy(update={"alignment": alignment})


def test_the_sum_behind_the_first_block_shows_that_one_alone_is_aligned(tmp_path):
    reports = [
        deep("fa_block", 2, [0.01, 0.99, 1.0]),
        deep("fa_block", 8, [0.01, *[0.02, -0.02] * 3, 0.99, 1.0]),
        deep("dfa", 8, [0.39, *[0.0] * 8]),
        deep("bp", 8, [1.0] * 9),
        network("bp", 1, gamma=[1.0] * 5),  # of no depth that its name says
    ]
    path = write_audit(tmp_path, "deep", reports)
    found = answer("aggregation", path)
    two, eight, dfa, bp = found["runs"]
    assert (two["behind_the_first"], eight["behind_the_first"]) == pytest.approx((0.99, 0.99 / 7))
    assert (two["sum_behind_the_first"], eight["sum_behind_the_first"]) == pytest.approx((0.99, 0.99))
    assert (two["carried_by"], eight["carried_by"], dfa["carried_by"], bp["carried_by"]) == (1, 7, 0, None)
    assert eight["without"] == pytest.approx(0.01 / 7)
    assert found["methods"]["fa_block"] == {
        "of": 2, "carried": 2, "depths": [2, 8], "where": {"2": [1], "8": [7]},
    }  # fmt: skip
    grid, *words = STUDIES.load("aggregation").paragraphs(found)
    assert next(r[-2:] for r in grid.rows if r[:2] == ["fa_block", "8"]) == ["h_7, read by block 8", "+0.00143"]
    assert "fa_block: one site carries a mean on 2 of 2 networks: h_1 at 2 blocks, h_7 at 8 blocks." in words
    assert "bp: no block carries a mean on any of 1 networks, of 8 blocks." in words


def test_it_says_which_command_makes_the_runs(tmp_path, capsys):
    path = write_audit(tmp_path, "deep", [deep("dfa", 4, [0.4, 0.0, 0.0, 0.0, 0.0])])
    assert "walkback lab audit --preset source_depth" in STUDIES.load("aggregation").paragraphs(
        answer("aggregation", path)
    )[-1]  # fmt: skip
    flat = write_audit(tmp_path, "flat", [network("bp", 1, gamma=[1.0] * 5)])
    with pytest.raises(InputError, match="walkback lab audit --preset source_depth"):
        app(["lab", "study", "aggregation", str(flat), "--results", str(tmp_path)])
    assert app(["lab", "study", "aggregation", "--results", str(tmp_path)]) == 0
    assert "h_0, read by block 1" in capsys.readouterr().out


def test_a_network_without_gamma_is_in_the_table_and_counts_nowhere(tmp_path):
    reports = [deep("dfa", 4, [0.4, 0.0, 0.0, 0.0, 0.0]), network("dfa depth 2", 1)]
    found = answer("aggregation", write_audit(tmp_path, "deep", reports))
    assert found["methods"]["dfa"]["of"] == 1
    grid, *_ = STUDIES.load("aggregation").paragraphs(found)
    assert grid.rows[0][3:] == ["not measured", "–", "–", "–", "–", "–"]
