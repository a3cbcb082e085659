"""From records to rates: tables, runs that go on, the held half that is opened once, the page and the verb."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tiny import tiny
from typer.testing import CliRunner

from walkback.cli.main import app_for
from walkback.errors import InputError, RecordError
from walkback.lab.validity import bench as bench_module
from walkback.lab.validity import opening, runner, scoring, table
from walkback.lab.validity.bench import Bench
from walkback.lab.validity.conditions import CONDITIONS, FAULTS, condition_named
from walkback.lab.validity.making import make
from walkback.lab.validity.page import page_of
from walkback.lab.validity.quantities import BY_NAME, QUANTITIES
from walkback.lab.validity.runner import Folder, Progress
from walkback.lab.validity.scoring import lost, sensitivities
from walkback.lab.validity.split import halves
from walkback.protocol.panels.calibrated import RATES_FILE
from walkback.protocol.panels.rates import Rates


@pytest.fixture(scope="module")
def record():
    return make(tiny("healthy", 0.0, samples=512, epochs=3))


HEALTHY = {
    "h": 0.8, "r": 0.8, "w": 0.8, "hg": 1.0, "i": 2.0, "bg": 1.5, "t": 1.2, "s": 1e-2, "m": 0.4, "ib": 0.1, "u": 1.0,
    "rd": 0.0, "di": 0.2, "hc": 0.0, "o": 0.0, "a": 2.0, "b": 1e-3, "c": 0.1, "d": 20.0,
}  # fmt: skip
BROKEN = {
    "frozen_blocks": {"m": 0.0}, "dead_blocks": {"ib": 0.0}, "head_only": {"m": 1e-5}, "resampled_feedback": {"u": 0.1},
    "permuted_credit": {"u": 0.2}, "permuted_labels": {"hg": -40.0, "w": -0.5}, "exploding_block": {"bg": 1e3},
    "exploding_stem": {"i": 1e5}, "slow_growth": {"i": 1e4}, "broken_reference": {"rd": 1.0}, "strong_stem": {"u": 0.0},
    "bp_in_disguise": {"di": 1.0}, "bp_as_dfa": {"u": 0.3}, "test_in_training": {"o": 0.5},
    "other_headline": {"hc": 20.0}, "best_of_n": {},
}  # fmt: skip


def readings_of(condition, number):
    """Healthy values that vary a little, and where the fault is, its own."""
    wobble = 1 + 0.01 * (number % 10)
    return {letter: value * wobble for letter, value in HEALTHY.items()} | BROKEN.get(condition, {})


def made_rows(half="fit"):
    """Networks whose rates are known: of healthy ones every tenth is flagged, of faults every second is found."""
    rows = []
    for condition in ("healthy", *FAULTS):
        for number in range(40 if condition == "healthy" else 10):
            fails = number % 10 == 0 if condition == "healthy" else number % 2 == 0
            values = {
                c.name: (1.0 if condition == "healthy" else 3.0) * (1 if c.high else -1) + number for c in QUANTITIES
            }
            rows.append(
                table.Row(
                    id=f"{condition}{number}",
                    half=half,
                    condition=condition,
                    dial=0.0,
                    group=table.NEEDS_DEPTH if number % 2 else table.LINEAR_DOES_MUCH,
                    architecture=("resmlp", "vit_mini")[number % 2],
                    task=("product", "pairs")[number % 2],
                    method="bp",
                    claimed="bp",
                    headline=0.9,
                    accuracy=0.9,
                    frozen=0.5,
                    chance=0.1,
                    ceiling=False,
                    readings=readings_of(condition, number),
                    bounds={
                        letter: value
                        for letter, value in readings_of(condition, number).items()
                        if letter in ("h", "r", "w")
                    },
                    outcomes=dict.fromkeys(table.rules(), "fail" if fails else "pass"),
                    values=values,
                )
            )
    return rows


def test_rates_are_counts():
    rows = made_rows()
    for rule in table.rules():
        assert scoring.flagged(scoring.healthy(rows), rule) == (4, 40)
        assert set(scoring.sensitivities(rows, rule).values()) == {(5, 10)}
    groups = scoring.families(rows)
    assert len(groups["all"]) == 40
    assert len(groups[table.NEEDS_DEPTH]) + len(groups[table.LINEAR_DOES_MUCH]) == 40
    assert scoring.undecided(rows, "april2026") == 0


def test_an_incomplete_verdict_is_no_alarm():
    row = made_rows()[0].model_copy(update={"outcomes": {"april2026": "incomplete"}})
    assert not row.flagged("april2026")
    assert scoring.undecided([row], "april2026") == 1


def test_quantities_of_a_record(record):
    row = table.row_of(record, "fit")
    assert set(row.values) == set(BY_NAME)
    margin = 100 * (record.headline - record.frozen_twin.accuracy)
    assert row.values["(d) frozen margin"] == pytest.approx(margin, rel=1e-4, abs=1e-4)
    if "h" in row.readings:
        gains = [1 - (1 - record.own.accuracy) / (1 - t.accuracy) for t in (record.frozen_twin, record.random_twin)]
        assert row.readings["h"] == pytest.approx(min(gains), rel=1e-4, abs=1e-5)
    above = record.headline - record.readouts.accuracies[0]
    assert row.values["accuracy − readout of h_0"] == pytest.approx(above, rel=1e-4, abs=1e-5)
    assert row.outcomes[table.BAR] == ("fail" if above < 0 else "pass")
    assert row.outcomes["april2026"] == record.report.verdicts["april2026"].outcome
    assert row.readings["i"] == pytest.approx(max(record.report.growth_from_init))
    assert row.readings["m"] == pytest.approx(min(record.movement["blocks"]))
    assert row.readings["hc"] == 0
    assert "di" not in row.readings  # it says that it is BP
    assert set(row.bounds) <= {*row.readings, "h", "c"}


def test_a_table_comes_back(tmp_path):
    rows = made_rows()[:3]
    rows[0] = rows[0].model_copy(update={"values": {"(a) growth of one block": math.inf, "(b) last gradient": None}})
    path = table.write(tmp_path / "fit.jsonl", rows)
    assert table.read_table(path) == rows
    assert table.read_table(tmp_path / "none.jsonl") == []
    path.write_text(path.read_text().replace('"table_version": 2', '"table_version": 9'))
    with pytest.raises(RecordError, match="table_version 9"):
        table.read_table(path)


def test_a_run_goes_on_and_replaces_what_is_not_as_made(record, tmp_path):
    folder, configs = Folder(tmp_path), halves()["fit"]["dead_blocks"]
    for number, config in enumerate(configs[:4]):
        truth = record.truth.model_copy(update={"holds": number != 1})
        path = folder.path("fit", config)
        path.parent.mkdir(parents=True, exist_ok=True)
        record.model_copy(update={"id": config.id, "config": config, "truth": truth}).save(path)
    state = runner.progress_of(folder, "fit", "dead_blocks")
    assert (state.as_made, state.otherwise, len(state.waiting)) == (3, 1, 8)
    assert [c.id for c in state.next_ones(under_way=0)] == [c.id for c in configs[4:11]]
    assert state.next_ones(under_way=7) == []
    assert [r.id for r in folder.records("fit", "dead_blocks")] == [configs[n].id for n in (0, 2, 3)]
    folder.path("fit", configs[0]).write_text("{")  # half a file is made again
    assert runner.progress_of(folder, "fit", "dead_blocks").as_made == 2


def test_spares_are_handed_out_up_to_the_last():
    state = Progress("x", wanted=5, as_made=2, waiting=[1, 2])  # type: ignore[list-item]
    assert state.next_ones(under_way=1) == [1, 2]
    assert state.next_ones(under_way=3) == []


def test_the_held_half_is_opened_once(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "commit", lambda: "abc")
    with pytest.raises(InputError, match="no network"):
        opening.open_held(tmp_path, again="", networks=0)
    assert opening.openings(tmp_path) == []
    first = opening.open_held(tmp_path, again="", networks=764)
    assert first["commit"] == "abc"
    assert first["date"]
    with pytest.raises(InputError, match="was opened on"):
        opening.open_held(tmp_path, again="", networks=764)
    opening.open_held(tmp_path, again="a defect was mended", networks=764)
    assert len(json.loads((tmp_path / opening.OPENED_FILE).read_text())) == 2


def test_a_second_opening_tells_why_and_what_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "commit", lambda: "abc")
    for reason, found in (("", 4), ("A defect was mended.", 9)):
        opening.open_held(tmp_path, again=reason, networks=764)
        opening.keep_counts(tmp_path, {"calibrated": {"healthy": 1, "dead_blocks": found}})
    first, second = opening.openings(tmp_path)
    assert "why" not in first
    told = page_of({}, [first, second], {}, []).markdown().replace("\\", "")
    assert "A defect was mended." in told
    assert "dead_blocks" in told.partition("What changed:")[2].partition("\n")[0]
    assert "healthy" not in told.partition("What changed:")[2].partition("\n")[0]


def test_calibrated_decides_only_where_it_loses_nothing():
    rows = made_rows("held")
    assert lost(rows, "june2026", "june2026") == []
    assert all(rate.of for rate in sensitivities(rows, "june2026").values())
    better = [row.model_copy(update={"outcomes": {**row.outcomes, "other": "fail"}}) for row in rows]
    worse = [row.model_copy(update={"outcomes": {**row.outcomes, "other": "pass"}}) for row in rows]
    assert lost(better, "other", "june2026") == []
    found = {f for f, rate in sensitivities(rows, "june2026").items() if rate.hits and condition_named(f).found_by}
    assert found
    assert set(lost(worse, "other", "june2026")) == found


@pytest.mark.parametrize("at", ["", "abc+"])
def test_it_is_opened_at_a_commit(tmp_path, monkeypatch, at):
    monkeypatch.setattr(opening, "commit", lambda: at)
    with pytest.raises(InputError, match="Commit first"):
        opening.open_held(tmp_path, again="", networks=3)


def test_scores_of_the_held_half_are_not_shown_before_it_is_opened(tmp_path, monkeypatch):
    bench = Bench(Folder(tmp_path / "runs"), tmp_path / "results")
    table.write(bench.table_file("held"), made_rows("held"))
    table.write(bench.table_file("fit"), made_rows())
    assert not bench.tables()["held"]
    monkeypatch.setattr(opening, "commit", lambda: "abc")
    opening.open_held(bench.results, again="", networks=3)
    assert len(bench.tables()["held"]) == len(made_rows())


def test_the_page_has_every_rule_and_every_fault(tmp_path):
    bench = Bench(Folder(tmp_path / "runs"), tmp_path / "results")
    table.write(bench.table_file("fit"), made_rows())
    docs, tables = tmp_path / "docs", bench.tables()
    docs.mkdir()
    text = bench.write_page(docs, bench.page(tables), tables).read_text().replace("\\", "")
    assert all(name in text for name in (*FAULTS, "april2026", "june2026", table.BAR))
    assert "4 of 40 (≤ 21.4 %)" in text
    assert "5 of 10 (≥ 22.2 %)" in text
    assert "has not been opened" in text
    assert (docs / bench_module.IMAGE).stat().st_size > 1000
    scores = json.loads((bench.results / "scores.json").read_text())
    assert scores["fit"]["rules"]["june2026"]["false_alarms"]["all"]["count"] == 4


def invoke(*words):
    return CliRunner().invoke(app_for(("lab", "validity")), ["lab", "validity", *words], catch_exceptions=False)


def test_the_verb_lists_and_refuses(tmp_path):
    places = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    listed = invoke(*places, "--device", "cpu", "--precision", "fp32")
    assert listed.exit_code == 0
    assert all(name in listed.output for name in CONDITIONS)
    assert "0 of 150" in listed.output
    for words, told in (
        (["--again", "why"], "goes with --open"),
        (["--score", "--run", "fit"], "one at a time"),
        (["--run", "all"], "fit or held"),
        (["--run", "fit"], "cannot read"),  # no committed split there
        (["--open"], "Commit first|no network"),
        (["--device", "cuda"], "on the CPU in fp32"),
        (["--precision", "bf16"], "on the CPU in fp32"),
        (["--device", "gpu"], "expected auto"),
    ):
        with pytest.raises((InputError, RecordError), match=told):
            invoke(*words, *places)


def test_a_half_is_made_in_processes_of_its_own(tmp_path, monkeypatch):
    """Two tiny networks of a condition: both are written, and a second run has nothing to do."""
    configs = tuple(
        tiny("frozen_blocks", 1.0, samples=256, epochs=1, number=n, seed=4_000_000_000 + n) for n in range(3)
    )
    small = {"fit": {"frozen_blocks": configs}, "held": {"frozen_blocks": ()}}
    monkeypatch.setattr(runner, "halves", lambda: small)
    folder, told = Folder(tmp_path), []
    (state,) = runner.run_half(folder, "fit", ["frozen_blocks"], 2, told.append, limit=2)
    assert (state.as_made, state.otherwise, state.failed) == (2, 0, [])
    assert [r.id for r in folder.records("fit", "frozen_blocks")] == [c.id for c in configs[:2]]
    assert len(told) == 2
    runner.run_half(folder, "fit", ["frozen_blocks"], 1, told.append, limit=2)
    assert len(told) == 2


def test_the_readme_has_the_rates_that_ship():
    rates = Rates.load(RATES_FILE)
    assert rates.held is not None
    april, found = rates.published["april2026"], rates.held.found.values()
    text = " ".join((Path(__file__).parents[3] / "README.md").read_text("utf-8").split())
    assert f"flags {april.flagged.count} of {april.flagged.of} healthy networks" in text
    assert f"finds {april.found.count} of {april.found.of} with a fault" in text
    assert f"flags {rates.held.flagged.count} of the {rates.held.flagged.of}" in text
    assert f"finds {sum(each.count for each in found)} of the {sum(each.of for each in found)}" in text
