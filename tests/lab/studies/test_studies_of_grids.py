"""Studies that need rows of a certain kind: penalty, null, depth and width, triangulation, partial, false positives."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from tiny_runs import assert_can_be_built

from reference.made_results import epoch, network, null, row, write_audit, write_run
from walkback.cli.main import app
from walkback.errors import InputError
from walkback.lab.grids.presets import PRESETS, preset
from walkback.lab.studies import STUDIES
from walkback.lab.studies.audited import load_audit
from walkback.protocol.judge import judge


def answer(name, path):
    return STUDIES.load(name).run(load_audit(path))


def audit_of(results, reports, *, baseline="", epochs=MappingProxyType({}), **others):
    """An audit with a run behind every report."""
    rows = []
    for number, report in enumerate(reports):
        figures = {"acc": report.headline_acc, "growth": report.max_per_block_growth, "g": report.bp_grad_norms[-1]}
        last = epochs.get(report.method_name, 3)
        write_run(results, f"run{number}", [epoch(n, **figures) for n in range(last + 1)], **others)
        rows.append(row(report.method_name, report.seed, f"run{number}", baseline))
    return write_audit(results, "made", reports, rows)


@pytest.mark.parametrize("plain", ["dfa_textbook", "dfa"])  # as this project read it, and as the source defines it
def test_the_penalty_and_the_gap_it_leaves(tmp_path, plain):
    reports = [
        *(network("bp", s, acc=acc) for s, acc in ((1, 0.58), (2, 0.60))),
        network("bp:penalty=0.01", 1, acc=0.53),
        network(plain, 1, acc=0.30, growth=1e3, g=3e-9),
        network("dfa:penalty=0.01", 1, acc=0.36, frozen=0.35, gamma=[0.2, 0.1, 0.1, 0.1, 0.1]),
        network("fa", 1),
    ]
    found = answer("penalty", audit_of(tmp_path, reports))
    assert [(r["method"], r["penalty"]) for r in found["rows"]] == [("bp", 0), ("bp", 0.01), ("dfa", 0), ("dfa", 0.01)]
    assert found["rows"][0]["mean_accuracy"] == pytest.approx(0.59)
    assert found["rows"][2]["fired"] == ["abd"]
    assert found["rows"][3]["margins_pp"] == pytest.approx([1.0])
    assert found["rows"][3]["deep_alignments"] == pytest.approx([0.1])
    none, some = found["gaps"]
    assert none["gap_pp"] == pytest.approx(29)
    assert (some["gap_pp"], some["cost_to_bp_pp"], some["gain_to_dfa_pp"]) == pytest.approx((17, 6, 6))


def test_the_null_is_set_beside_gamma_and_the_first_epochs(tmp_path):
    gamma = {"gamma": [0.4, 0.1, 0.1, 0.1, 0.1], "with_null": null(0.002, 0.02)}
    flips = network("dfa", 1, orders={"mean": 0.1, "median": -0.02}, **gamma)
    found = answer("null", audit_of(tmp_path, [flips, network("bp", 1)]))["runs"]
    assert [run["label"] for run in found] == ["dfa"]
    assert (found[0]["sign_flips"], found[0]["deep"]) == (True, pytest.approx(0.1))
    assert found[0]["mean"] == pytest.approx(0.16)
    assert found[0]["early_deep"] == [0.0] * 4


def test_readings_at_several_widths(tmp_path):
    broken = {"growth": 1e3, "g": 3e-9}
    reports = [
        network("bp d256", 1), network("bp d512", 1),
        network("dfa d256", 1, **broken), network("dfa d512", 1, growth=1e3),
    ]  # fmt: skip
    found = answer("width", audit_of(tmp_path, reports, epochs={"dfa d256": 5}))
    assert found["same"] == {"bp": True, "dfa": False}
    assert [(r["method"], r["size"], r["epochs"]) for r in found["rows"]][2:] == [("dfa", 256, 5), ("dfa", 512, 3)]
    assert [r["fired"] for r in found["rows"]][2:] == [["ab"], ["a"]]
    assert not STUDIES.load("depth").applies(load_audit(tmp_path / "audit_made.json"))


def test_what_was_not_measured_at_some_width_does_not_read_the_same(tmp_path):
    reports = [network("bp d256", 1), network("bp d512", 1)]
    rows = json.loads(audit_of(tmp_path, reports).read_text())["runs"]
    bare = reports[1].measurements.model_copy(update={"residual_norms": None, "bp_grad_norms": None})
    reports[1] = judge(bare, method_name="bp d512", seed=1)
    found = answer("width", write_audit(tmp_path, "made", reports, rows))
    assert found["same"] == {"bp": False}
    assert [set(row["unmeasured"][0]) & set("ab") for row in found["rows"]] == [set(), {"a", "b"}]


def test_functional_tests_are_held_against_d(tmp_path):
    write_run(tmp_path, "frozen", [epoch(n) for n in range(4)])
    # Without block 2 it loses 40 points; the probe gains 1 point only.
    depth = {
        "blocks_removed": [0.58, 0.20],
        "blocks_rerandomised": [[0.59, 0.57], [0.3, 0.1]],
        "linear_probes": [0.40, 0.5, 0.41],
    }
    path = audit_of(tmp_path, [network("bp", 1, acc=0.6, frozen=0.35)], baseline="frozen", depth=depth)
    (run,) = answer("triangulation", path)["runs"]
    assert run["passes_d"]
    assert run["points"] == pytest.approx({"removal": 40, "rerandomised": 40, "probe": 1})
    assert run["uses_depth"] == {"removal": True, "rerandomised": True, "probe": False}
    assert answer("triangulation", path)["redrawn_is_removed"]
    agreement = answer("triangulation", path)["agreement"]
    assert agreement["removal"] == {"of": 1, "agree": 1, "uses_depth_but_d_fires": 0, "d_passes_but_no_use": 0}
    assert agreement["probe"] == {"of": 1, "agree": 0, "uses_depth_but_d_fires": 0, "d_passes_but_no_use": 1}


def test_a_network_without_skips_cannot_have_blocks_removed(tmp_path):
    write_run(tmp_path, "frozen", [epoch(n) for n in range(4)])
    depth = {"blocks_removed": [None], "blocks_rerandomised": [[0.2]], "linear_probes": [0.4, None]}
    path = audit_of(tmp_path, [network("bp", 1, acc=0.6)], baseline="frozen", depth=depth)
    (run,) = answer("triangulation", path)["runs"]
    assert (run["points"]["removal"], run["points"]["probe"]) == (None, None)
    assert not answer("triangulation", path)["redrawn_is_removed"]
    assert answer("triangulation", path)["agreement"]["removal"]["of"] == 0


def test_two_norms_prove_an_explosion_or_nothing(tmp_path):
    reports = [
        network("dfa", 1, growth=1e3, g=3e-9, acc=0.3),  # fourth root of 1000: 5.6
        network("worse", 1, growth=1e8, g=3e-9, acc=0.3),  # 100
        network("bp", 1),
    ]
    found = answer("partial", write_audit(tmp_path, "made", reports))
    by_label = {run["label"]: run for run in found["runs"]}
    assert by_label["dfa"]["geometric_mean"] == pytest.approx(1e3**0.25)
    assert by_label["dfa"]["readings"]["a"] == ["UNDECIDED", "FIRE"]
    assert by_label["worse"]["readings"]["a"] == ["FIRE", "FIRE"]
    assert by_label["bp"]["readings"] == {
        "a": ["UNDECIDED", "PASS"], "b": ["PASS", "PASS"], "c": ["NOT_MEASURED", "PASS"], "d": ["PASS", "PASS"],
    }  # fmt: skip
    assert found["counts"]["b"] == {"FIRE → FIRE": 2, "PASS → PASS": 1}


def test_a_method_beside_its_variants(tmp_path):
    reports = [
        network("credit_bridge", 42, gamma=[0.2, 0.9, 0.9, 0.9, 0.9]),
        network("credit_bridge:schedule=constant", 42, growth=80.0, g=6e-8),
    ]
    path = audit_of(tmp_path, reports)
    plain, changed = answer("variants", path)["runs"]
    assert (plain["method"], plain["changed"], plain["deep"]) == ("credit_bridge", "", pytest.approx(0.9))
    assert (changed["method"], changed["changed"]) == ("credit_bridge", "schedule=constant")
    assert (changed["fired"], changed["first"]) == ("ab", {"a": 1, "b": 1})
    penalised = audit_of(tmp_path, [network("bp", 1), network("bp:penalty=0.01", 1)])
    assert not STUDIES.load("variants").applies(load_audit(penalised))


def test_firings_on_healthy_networks_are_counted_with_their_reasons(tmp_path):
    reports = [network("bp", 1), network("bp", 2, c=0.5), network("bp", 3, g=6e-8, error=1e-6)]
    found = answer("false-positives", audit_of(tmp_path, reports))
    assert {letter: rate["fired"] for letter, rate in found["rates"].items()} == {"a": 0, "b": 1, "c": 1}
    assert [n["case"] for n in found["networks"] if n["fired"] == "b"] == ["confident"]
    assert found["ever"]["b"] == {"fired": 1, "of": 3}
    mixed = audit_of(tmp_path, [*reports, network("dfa", 1)])
    assert not STUDIES.load("false-positives").applies(load_audit(mixed))


def test_an_audit_that_cannot_answer_is_refused_when_named_and_left_out_otherwise(tmp_path, capsys):
    path = audit_of(tmp_path, [network("bp", 1)])
    options = ["--results", str(tmp_path), "--markdown", str(tmp_path / "docs")]
    with pytest.raises(InputError, match="cannot answer 'penalty': it needs rows with the penalty"):
        app(["lab", "study", "penalty", str(path), *options])
    assert app(["lab", "study", "penalty", *options]) == 0
    assert "no audit on record answers it" in capsys.readouterr().out
    assert not (tmp_path / "docs" / "penalty.md").exists()


def test_the_help_of_audit_names_every_preset(capsys):
    assert app(["lab", "audit", "--help"]) == 0
    said = "".join(capsys.readouterr().out.split())
    assert [name for name in PRESETS if name not in said.replace("│", "")] == []


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_made_of_runs_that_can_be_built(name):
    grids = preset(name)
    cells = [cell for grid in grids for cell in grid.cells()]
    assert_can_be_built([cell.config for cell in cells])
    assert len({grid.name for grid in grids}) == len(grids)


def test_the_presets_hold_what_the_claims_need():
    grids = {grid.name: grid for grid in preset("all")}
    assert len(grids) == sum(len(PRESETS.load(name)()) for name in PRESETS)
    penalised = {cell.label: cell for cell in grids["penalty_resmlp_d256"].cells() if cell.config.seed == 42}
    assert penalised["dfa:penalty=0.01"].baseline == penalised["dfa_textbook"].baseline
    widths = {cell.label: cell.config for cell in grids["width_resmlp"].cells() if cell.config.seed == 42}
    assert {config.epochs for config in widths.values()} == {10}  # of one schedule, or widths cannot be compared
    assert widths["dfa d512"].epochs == 10
    assert len(grids["false_positives"].cells()) >= 60
    assert {cell.config.method for cell in grids["false_positives"].cells()} == {"bp"}
    assert all(cell.baseline is None for cell in grids["vit_mini_d128"].cells())
    assert {c.label: c.config.epochs for c in grids["small_cnn"].cells()} == {
        "bp": 30, "dfa": 30, "dfa_textbook": 30, "state_bridge": 30, "credit_bridge": 30, "ep": 10,
    }  # fmt: skip
