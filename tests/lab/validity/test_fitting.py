"""The fit of the panel's thresholds: the written rule against slow twins, and what it must refuse."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from test_scoring import made_rows

from walkback.errors import InputError
from walkback.lab.validity import fitting, scoring, table
from walkback.lab.validity.bench import Bench, deciders_on_file, rule_digest
from walkback.lab.validity.conditions import CONDITIONS, FAULTS
from walkback.lab.validity.packed import digest_of, packed_file
from walkback.protocol.panels.calibrated import CALIBRATED, THRESHOLDS_FILE, calibrated_from

RESULTS = Path(__file__).parents[3] / "results" / "validity"
BY_LETTERS = {candidate.letters: candidate for candidate in fitting.CANDIDATES}


def rows_with(letter, healthy, faulty, fault):
    """Rows that have one reading alone."""
    row = made_rows()[0]
    bare = {"bounds": {}, "non_finite": False}
    sound = [row.model_copy(update={"readings": {letter: v}, **bare}) for v in healthy]
    broken = [row.model_copy(update={"condition": fault, "readings": {letter: v}, **bare}) for v in faulty]
    return sound, broken


def test_a_threshold_keeps_its_distance_from_the_tail():
    """Twin: the worst tenth's mean excess in logarithms, times ln 20, then half way to the nearest fault."""
    values = np.exp(np.random.default_rng(0).exponential(0.4, 150)).tolist()
    sound, broken = rows_with("i", values, [1e3, 1e4, 3.0], "exploding_stem")
    ordered = sorted(math.log(v) for v in values)
    least = ordered[-1] + math.log(20) * np.mean([v - ordered[-16] for v in ordered[-15:]])
    expected = math.exp((least + math.log(1e3)) / 2)
    found = fitting.fit_one(BY_LETTERS[("i",)], sound, broken)
    assert expected <= found.threshold <= expected * 1.1  # two digits, away from the healthy
    assert not any(found.flags(row) for row in sound)
    assert [found.flags(row) for row in broken] == [True, True, False]


def test_the_margin_lowers_the_rate_as_it_says():
    """150 healthy networks of an exponential tail: the share of new ones beyond is near one in 3,000."""
    generator, shares = np.random.default_rng(1), []
    for _ in range(400):
        ordered = np.sort(generator.exponential(1.0, 150))
        least = ordered[-1] + math.log(fitting.RARER) * fitting.mean_excess(ordered)
        shares.append(math.exp(-least))
    assert np.mean(shares) < 1 / 1000
    assert np.median(shares) < 1 / 2000


def test_guards_hold():
    sound, broken = rows_with("o", [0.0] * 20, [0.25, 0.5], "test_in_training")
    assert fitting.fit_one(BY_LETTERS[("o",)], sound, broken).threshold == 0.005  # all healthy ones are alike
    sound, broken = rows_with("m", [0.5, 0.4, 0.6] * 7, [0.2], "frozen_blocks")
    assert fitting.fit_one(BY_LETTERS[("m",)], sound, broken) is None  # .2 is not beyond .01
    sound, broken = rows_with("m", [0.5, 0.4, 0.6] * 7, [0.0], "frozen_blocks")
    assert fitting.fit_one(BY_LETTERS[("m",)], sound, broken).threshold == 0.01


def test_a_test_goes_by_its_whole_interval_and_is_dropped_where_it_alarms():
    sound, broken = rows_with("w", [0.5] * 20, [-0.4, -0.1], "strong_stem")
    broken = [row.model_copy(update={"bounds": {"w": high}}) for row, high in zip(broken, (-0.2, 0.1), strict=True)]
    sound = [row.model_copy(update={"bounds": {"w": 0.7}}) for row in sound]
    found = fitting.fit_one(BY_LETTERS[("w",)], sound, broken)
    assert [found.flags(row) for row in broken] == [True, False]
    harmed = [sound[0].model_copy(update={"bounds": {"w": -0.01}}), *sound[1:]]
    assert fitting.fit_one(BY_LETTERS[("w",)], harmed, broken) is None


def test_it_is_fitted_on_the_fit_half_alone(tmp_path):
    with pytest.raises(InputError, match="held half"):
        fitting.fitted([*made_rows(), made_rows("held")[0]])
    with pytest.raises(InputError, match="nothing to fit on"):
        fitting.fitted(scoring.healthy(made_rows()))
    bench = Bench.at(tmp_path / "runs", tmp_path / "results", tmp_path)
    with pytest.raises(InputError, match="nothing to fit on"):
        bench.fit()
    assert not (tmp_path / THRESHOLDS_FILE.name).exists()


def test_what_is_chosen_finds_each_fault_once():
    rows = made_rows()
    deciders = fitting.fitted(rows)
    for row in rows:
        expected = "fail" if row.condition not in ("healthy", "best_of_n") else "pass"
        assert fitting.outcome_of(deciders, row) == expected, row.condition
    for number, decider in enumerate(deciders):
        faulty = [row for row in rows if row.condition in FAULTS]
        assert len(fitting.added(decider, deciders[:number], faulty)) >= fitting.LEAST_ADDED
    groups = [d.candidate.group for d in deciders if d.candidate.group]
    assert len(groups) <= 1
    without = rows[0].model_copy(update={"readings": {"a": 1.0}, "bounds": {}})
    assert fitting.outcome_of(deciders, without) == "incomplete"


def test_a_group_left_out_is_no_part_of_the_fit():
    """Healthy networks of one architecture that grow a lot: left out, they are flagged; else the ceiling is higher."""
    rows = [
        row.model_copy(update={"readings": row.readings | {"i": 5e3}})
        if row.condition == "healthy" and row.architecture == "vit_mini" else row
        for row in made_rows()
    ]  # fmt: skip
    results = {result.group: result for result in scoring.left_out(rows, rows, lambda row: row.architecture)}
    assert results["vit_mini"].false_alarms == (20, 20)
    assert results["resmlp"].false_alarms == (0, 20)


def test_the_committed_thresholds_are_those_of_the_committed_table():
    """The rule, on the committed table of the fit half, gives the file that ships."""
    rows = table.read_table(RESULTS / "fit.jsonl")
    assert len(scoring.healthy(rows)) == 150
    found = fitting.fitted(rows)
    shipped = deciders_on_file(THRESHOLDS_FILE.parent)
    assert [(d.candidate.letters, d.threshold) for d in found] == [(d.candidate.letters, d.threshold) for d in shipped]
    for row in rows:
        assert row.outcomes["calibrated"] == fitting.outcome_of(shipped, row), row.id


def test_the_panel_is_what_its_file_says():
    content = json.loads(THRESHOLDS_FILE.read_text())
    assert calibrated_from(content) == CALIBRATED
    assert content["rule"]["sha256"] == rule_digest(RESULTS)  # the rule was not changed since
    paths = [packed_file(RESULTS / "records", "fit", name) for name in CONDITIONS]
    assert content["records"]["sha256"] == digest_of(paths)
    for each in content["deciders"]:
        for name in each["diagnostics"]:
            member = next(m for m in CALIBRATED.members if m.diagnostic == name)
            assert member.role == "decides"
            assert member.sure == each["test"]
    assert CALIBRATED.member("c").role == "informs"
