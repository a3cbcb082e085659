"""A fair comparison from end to end: equal budgets, the choice of rates, resuming, the record, and what is refused."""

from __future__ import annotations

import json

import pytest
from tiny_runs import SMALL, InterruptAfter

from walkback.cli import main
from walkback.errors import InputError, RecordError, UnknownName
from walkback.lab.cli.compare_options import command_of, comparisons_from
from walkback.lab.comparisons.choosing import Tried, best_of, criterion_of, edge_remark, tried
from walkback.lab.comparisons.plan import BP, FROZEN, TUNING_SEED, Comparison
from walkback.lab.comparisons.presets import FIELD, preset
from walkback.lab.comparisons.record import load_comparison, missing_runs_of, record_of, refuse_another
from walkback.lab.grids.grid import row_of, rows_named
from walkback.lab.runs import depth_tests
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume

SETTINGS = {"architecture_options": SMALL["resmlp"], "batch_size": 320}


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(depth_tests, "DRAWS", 1)


def small(*methods, **changes):
    given = {"budget": 2, "seeds": 2, "epochs": 1, "settings": SETTINGS, "called": "small"}
    return Comparison(architecture="resmlp", data="digits", rows=rows_named(methods), **given | changes)


def train_all(comparison, store):
    for config in comparison.tuning_runs():
        train_or_resume(config, store)
    for arm in comparison.arms():
        for config in comparison.final_runs(arm, best_of(tried(comparison, arm, store, {})).rate):
            train_or_resume(config, store)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    store, comparison = RunStore(tmp_path_factory.mktemp("runs")), small("dfa")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depth_tests, "DRAWS", 1)
        train_all(comparison, store)
    return store, comparison, record_of(comparison, store, {}, "a command")


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8])
def test_every_arm_tries_as_many_rates_and_the_same_multiples_of_its_default(budget):
    slow = row_of("slow", "dfa", {}, learning_rate=1e-4)
    comparison = small("fa", budget=budget).model_copy(update={"rows": (*rows_named(["fa"]), slow)})
    arms = comparison.arms()
    assert [arm.label for arm in arms] == [BP, FROZEN, "fa", "slow"]
    for arm in arms:
        rates = comparison.rates(arm)
        assert len(rates) == len(set(rates)) == budget
        assert [rate / comparison.centre(arm) for rate in rates] == pytest.approx(comparison.multipliers, rel=5e-3)
    middle = comparison.multipliers
    assert middle[0] * middle[-1] == pytest.approx(1)
    runs = comparison.tuning_runs()
    assert len({run.run_id for run in runs}) == len(runs) == budget * len(arms)
    assert {(run.tested, run.seed, run.validation) for run in runs} == {(False, TUNING_SEED, 0.1)}


def test_final_runs_have_other_seeds_and_differ_in_nothing_else_from_the_run_that_chose():
    comparison = small("dfa", seeds=7)
    arm = comparison.arms()[2]
    final, tuning = comparison.final_runs(arm, 0.001), comparison.tuning_run(arm, 0.001)
    assert len({run.seed for run in final}) == 7
    assert TUNING_SEED not in {run.seed for run in final}
    assert {run.changed(seed=TUNING_SEED, tested=False).run_id for run in final} == {tuning.run_id}


def test_the_frozen_arm_is_bp_with_random_blocks():
    comparison = small()
    config = comparison.tuning_run(comparison.arms()[1], 0.001)
    assert (config.method, config.freezing) == ("bp", "blocks")


def rate(value, accuracy, loss=None, tokens=False):
    return Tried(value, "0" * 12, "", "", accuracy, loss, tokens)


def test_the_best_is_by_accuracy_and_on_tokens_by_loss():
    plain = [rate(1, 0.5, 1.0), rate(2, 0.6, 2.0), rate(3, 0.55, 0.5)]
    assert (criterion_of(plain), best_of(plain).rate) == ("accuracy", 2)
    tokens = [each._replace(tokens=True) for each in plain]
    assert (criterion_of(tokens), best_of(tokens).rate) == ("loss", 3)
    unheaded = [tokens[0]._replace(loss=None), *tokens[1:]]
    assert (criterion_of(unheaded), best_of(unheaded).rate) == ("accuracy", 2)


def test_of_equal_rates_the_one_nearest_to_the_default_is_taken_and_nan_is_worst():
    assert best_of([rate(1, 0.5), rate(2, 0.5), rate(3, 0.5)]).rate == 2
    assert best_of([rate(1, 0.5), rate(2, 0.4), rate(3, 0.5)]).rate == 1
    broken = [rate(1, 0.1, float("nan"), True), rate(2, 0.1, 9.0, True), rate(3, 0.1, float("inf"), True)]
    assert best_of(broken).rate == 2


def test_nothing_is_chosen_before_every_rate_is_tried():
    assert best_of([rate(1, 0.5), Tried(2, "0" * 12, "", "not finished")]) is None


def test_a_best_rate_at_the_end_of_the_grid_is_remarked_on():
    rates = [rate(1, 0.5), rate(2, 0.6), rate(3, 0.55)]
    assert edge_remark(rates, rates[1]) == ""
    assert "is the lowest of 3" in edge_remark(rates, rates[0])
    assert "above" in edge_remark(rates, rates[2])
    assert "One rate alone" in edge_remark(rates[:1], rates[0])
    assert edge_remark(rates, None) == ""


def test_the_record_says_who_read_the_test_split_and_how_often(made):
    store, comparison, record = made
    reads = record["test_reads"]
    assert (reads["tuning_runs"], reads["reads_of_each_tuning_run"]) == (6, 0)
    assert (reads["final_runs"], reads["reads_of_each_final_run"]) == (6, 1)
    for config in comparison.tuning_runs():
        assert store.run(config).result()["test_reads"] == 0
    assert record["validation"]["samples"] == 126
    assert not missing_runs_of(record)


def test_the_record_holds_scores_differences_and_verdicts(made):
    store, comparison, record = made
    bp, frozen, dfa = record["arms"]
    accuracies = [store.at(run["run"]).result()["accuracy"] for run in dfa["runs"]]
    others = [store.at(run["run"]).result()["accuracy"] for run in bp["runs"]]
    assert dfa["accuracy"]["mean"] == pytest.approx(sum(accuracies) / 2)
    assert dfa["to_bp"]["mean"] == pytest.approx((sum(accuracies) - sum(others)) / 2)
    assert (bp["to_bp"], frozen["to_frozen"]) == (None, None)
    assert set(dfa["runs"][0]["verdicts"]) == {"april2026", "june2026", "calibrated"}
    assert dfa["runs"][0]["depth_case"]
    assert bp["runs"][0]["gamma"] == pytest.approx(1, abs=1e-4)
    assert [each["rate"] for each in dfa["rates"]] == list(comparison.rates(comparison.arms()[2]))


def test_a_killed_comparison_goes_on_to_the_same_record(made, tmp_path):
    _, comparison, whole = made
    store = RunStore(tmp_path / "runs")
    first, second, *_ = comparison.tuning_runs()
    train_or_resume(first, store)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(second, store, InterruptAfter(0))
    partly = record_of(comparison, store, {}, "a command")
    assert [arm["best"] for arm in partly["arms"]] == [None] * 3
    assert len(missing_runs_of(partly)) == 5
    train_all(comparison, store)
    again = record_of(comparison, store, {}, "a command")
    for record in (whole, again):
        for name in ("date", "commit"):
            record.pop(name, None)
    assert again == whole


def test_a_tuning_run_that_does_not_say_what_it_read_is_refused(made, tmp_path):
    store, comparison, _ = made
    config = comparison.tuning_runs()[0]
    result = store.run(config).result() | {"test_reads": 3}
    other = RunStore(tmp_path / "runs", tmp_path / "archive")
    other.archive.mkdir()
    (other.archive / f"{config.run_id}.json").write_text(json.dumps(result))
    with pytest.raises(RecordError, match="left the test split unread"):
        tried(comparison, comparison.arms()[0], other, {})


NOTHING = {"architecture": None, "data": None, "methods": None, "budget": None, "seeds": None, "epochs": None}
GIVEN = {**NOTHING, "architecture": "resmlp", "data": "digits", "methods": ["dfa"]}


def test_the_command_of_a_comparison_means_that_comparison():
    (comparison,) = comparisons_from(None, GIVEN | {"budget": 4}, ["arch.width=8", "optimizer=sgd"], "mine")
    words = command_of(comparison)
    assert words.endswith("--set arch.width=8 --set optimizer=sgd --name mine")
    assert "--methods dfa --arch resmlp --data digits --budget 4 --seeds 3" in words
    assert command_of(preset("field_mlp_mnist")[0]) == "walkback lab compare --preset field_mlp_mnist"


BASE = ["--arch", "resmlp", "--data", "digits", "--methods", "dfa"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--preset", "feild"], "Did you mean 'field'"),
        (["--preset", "field", "--epochs", "3"], "a preset is a whole comparison"),
        (["--arch", "resmlp"], "--methods, --data not given"),
        ([*BASE[:4], "--methods", "dfaa"], "Did you mean 'dfa'"),
        ([*BASE, "--budget", "0"], "budget"),
        ([*BASE, "--seeds", "0"], "seeds"),
        ([*BASE, "--epochs", "0"], "epochs"),
        ([*BASE, "--validation", "1.5"], "validation"),
        ([*BASE, "--methods", "dfa"], "more than once"),
        ([*BASE, "--set", "tested=true"], "tested is not for the runs of a comparison"),
        ([*BASE, "--set", "freezing=blocks"], "freezing is not for the runs of a comparison"),
        ([*BASE, "--set", "learning_rate=-1"], "learning_rate"),
        ([*BASE, "--set", "arch.wdth=3"], "Did you mean 'width'"),
        ([*BASE, "--name", "a/b"], "a/b"),
        ([*BASE, "--ray", "local", "--workers", "2"], "--workers counts processes"),
    ],
)
def test_bad_input_is_a_sentence_and_status_2(arguments, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["walkback", "lab", "compare", *arguments])
    with pytest.raises(SystemExit) as left:
        main.run()
    assert left.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("*.json"))


def test_unknown_presets_and_records_of_other_settings_are_refused(made, tmp_path):
    _, comparison, record = made
    with pytest.raises(UnknownName):
        preset("nothing")
    path = tmp_path / "compare_small.json"
    path.write_text(json.dumps(record))
    refuse_another(path, comparison)
    with pytest.raises(InputError, match="another --name"):
        refuse_another(path, small("fa"))
    path.write_text("{}")
    with pytest.raises(RecordError, match="expected a comparison of methods"):
        load_comparison(path)


def test_presets_have_every_method_or_say_why_not():
    from walkback.lab.registry import METHODS

    for name, comparison in zip(FIELD, preset("field"), strict=True):
        assert comparison.name == name
        labels = {arm.label for arm in comparison.arms()}
        assert labels | set(comparison.undefined) == {*METHODS.own, FROZEN}
        assert not labels & set(comparison.undefined)
        assert comparison.seeds >= 3


def test_from_the_command_line_it_is_trained_once_and_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["lab", "compare", *BASE, "--budget", "1", "--seeds", "1", "--epochs", "1", "--set", "arch.width=8",
             "--set", "arch.depth=2", "--set", "batch_size=640", "--name", "tiny", "--workers", "1"]  # fmt: skip
    assert main.app([*words, "--list"]) == 0
    assert "0 of 6 runs finished, 6 missing" in capsys.readouterr().out
    assert main.app([*words, "--no-train"]) == 3
    assert "missing: bp, rate 0.001" in capsys.readouterr().out
    assert main.app(words) == 0
    shown = capsys.readouterr()
    assert "One rate alone was tried" in shown.out
    record = load_comparison(tmp_path / "results" / "compare_tiny.json")
    assert [arm["label"] for arm in record["arms"]] == [BP, FROZEN, "dfa"]
    assert record["command"].startswith("walkback lab compare --methods dfa")
    assert main.app(words) == 0
    assert "runs are finished already" in capsys.readouterr().err
    assert main.app([*words, "--list"]) == 0
    assert "6 of 6 runs finished" in capsys.readouterr().out
