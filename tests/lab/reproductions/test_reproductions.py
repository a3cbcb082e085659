"""Published numbers, their runs, the rule, and the page that is made of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from walkback.cli import main
from walkback.errors import InputError, RecordError, UnknownName
from walkback.lab.reproductions.angles import FIRST_SAMPLES, delta_angles, first_of_the_files, head_angle
from walkback.lab.reproductions.catalogue import REPRODUCTIONS, named
from walkback.lab.reproductions.comparing import Compared, compared, run_ids
from walkback.lab.reproductions.page import page_of
from walkback.lab.reproductions.published import Number, OneFactor, Reproduction
from walkback.lab.runs.assembly import assemble
from walkback.lab.runs.config import RunConfig
from walkback.lab.zoo import DataSpec
from walkback.lab.zoo.datasets import Split
from walkback.lab.zoo.datasets.splits import Preparation

ROOT = Path(__file__).parents[3]
RESULTS, PAGE = ROOT / "results", ROOT / "docs" / "REPRODUCTIONS.md"
SETTINGS = {"method": "fa", "architecture": "mlp", "data": "digits", "epochs": 3}
NUMBERS = (Number(50.0, 1, "a file"), Number(60.0, 3, "a file"), Number(40.0, 3, "a file", "error"))
ONE = Reproduction(
    "one", "One", "Somebody", SETTINGS, NUMBERS, one_factor=(OneFactor("slow", "Slower.", {"learning_rate": 1e-4}),)
)


def record(*accuracies, run_id="0" * 12):
    return {"id": run_id, "command": "c", "trace": [{"epoch": e, "accuracy": a} for e, a in enumerate(accuracies)]}


def state(**runs):
    return Compared(ONE, {name.replace("plain", ""): run for name, run in runs.items()}, {}, {}).state


@pytest.mark.parametrize("published", REPRODUCTIONS.values(), ids=REPRODUCTIONS)
def test_every_run_can_be_built_and_its_id_needs_no_torch(published):
    configs = published.configs()
    assert {name: config.run_id for name, config in configs.items()} == run_ids(published)
    assert len(set(run_ids(published).values())) == 1 + len(published.one_factor)
    for number in published.numbers:
        assert 1 <= number.epoch <= configs[""].epochs
        assert number.where
    assert published.source


@pytest.mark.parametrize("published", REPRODUCTIONS.values(), ids=REPRODUCTIONS)
def test_a_factor_that_is_changed_is_one(published):
    settings, configs = published.config().to_dict(), published.configs()
    for factor in published.one_factor:
        changed = configs[factor.name].to_dict()
        tables = {name for name, value in settings.items() if isinstance(value, dict)}
        plain = [name for name in settings.keys() - tables if settings[name] != changed[name]]
        inner = [
            (table, name)
            for table in tables
            for name in settings[table]
            if settings[table][name] != changed[table].get(name)
        ]
        assert len(plain) + len(inner) == 1, factor.name


def test_within_two_points_is_reproduced_and_beyond_is_not():
    assert state() == "not run"
    assert state(plain=record(0.1, 0.5, 0.5, 0.6)) == "reproduced"
    assert state(plain=record(0.1, 0.52, 0.5, 0.5801)) == "reproduced"
    assert state(plain=record(0.1, 0.5201, 0.5, 0.6)) == "differs"
    assert state(plain=record(0.1, 0.5, 0.5, 0.5799)) == "differs"


def test_a_difference_is_explained_only_by_a_run_that_has_the_number():
    missed = record(0.1, 0.4, 0.5, 0.6)
    assert state(plain=missed, slow=record(0.1, 0.45, 0.5, 0.6)) == "differs"
    assert state(plain=missed, slow=record(0.1, 0.5, 0.5, 0.1)) == "explained"
    assert state(slow=record(0.1, 0.5, 0.5, 0.6)) == "not run"


def test_what_was_not_measured_is_not_reproduced():
    assert state(plain=record(0.1, 0.5)) == "differs"
    angled = replace(ONE, numbers=(Number(30.0, 3, "a file", "delta angle"),), one_factor=())
    run = record(0.1, 0.5, 0.5, 0.6, run_id="a" * 12)
    assert Compared(angled, {"": run}, {}, {}).state == "differs"
    assert Compared(angled, {"": run}, {"a" * 12: {"delta angle": 31.9}}, {}).state == "reproduced"


def test_the_best_error_is_of_the_best_epoch():
    best = replace(ONE, numbers=(Number(20.0, 3, "a file", "best error"),), one_factor=())
    assert Compared(best, {"": record(0.1, 0.8, 0.5, 0.6)}, {}, {}).numbers[""][0].here == pytest.approx(20)


def test_an_unknown_name_is_refused_with_a_suggestion():
    with pytest.raises(UnknownName, match="akrout_bp"):
        named(["akrout_pb"])


def angle(left, right):
    return np.degrees(np.arccos(left @ right / np.linalg.norm(left) / np.linalg.norm(right)))


def test_angles_are_those_of_plain_numpy():
    options = {"widths": [6, 7], "activation": "sigmoid", "output": "sigmoid"}
    run = assemble(RunConfig(**SETTINGS, seed=1, architecture_options=options), DataSpec((5,), 4))
    inputs, targets = torch.randn(8, 5), torch.randint(4, (8,))
    found = delta_angles(run, inputs, targets)
    states = inputs.double().numpy()
    for block in run.model.blocks:
        weight, bias = (p.detach().double().numpy() for p in block.linear.parameters())
        states = 1 / (1 + np.exp(-(states @ weight.T + bias)))
    weight, bias = (p.detach().double().numpy() for p in run.model.head.parameters())
    error = 1 / (1 + np.exp(-(states @ weight.T + bias))) - np.eye(4)[targets]
    feedback = run.method.feedback("head").double().numpy()
    slope = states * (1 - states)
    expected = [angle(s * (e @ weight), s * (e @ feedback)) for s, e in zip(slope, error, strict=True)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)
    assert head_angle(run) == pytest.approx(angle(weight.flatten(), feedback.flatten()), rel=1e-6)


def test_the_first_sample_is_found_by_its_pixels_and_not_by_its_place(monkeypatch):
    pixels = torch.randint(256, (9, 28, 28, 1), dtype=torch.uint8)
    split = Split(pixels, torch.arange(9), Preparation(mean=(0.0,), std=(1.0,)))
    monkeypatch.setitem(FIRST_SAMPLES, "mnist", hashlib.sha256(pixels[6].numpy().tobytes()).hexdigest())
    found = first_of_the_files("mnist", split)
    assert found.labels.tolist() == [6]
    assert torch.equal(found.inputs[0], pixels[6])
    with pytest.raises(InputError, match="first sample"):
        first_of_the_files("mnist", split.take(6))
    with pytest.raises(InputError, match="first sample"):
        first_of_the_files("digits", split)


def test_angles_of_another_kind_of_method_are_refused():
    run = assemble(RunConfig(**SETTINGS | {"method": "dfa"}, seed=1), DataSpec((5,), 4))
    with pytest.raises(InputError, match="feedback matrix"):
        delta_angles(run, torch.randn(2, 5), torch.tensor([0, 1]))


def test_a_table_that_is_none_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "reproductions_angles.json").write_text('{"runs": 3}')
    with pytest.raises(RecordError, match="no table 'runs'"):
        compared(named(["akrout_fa"]), tmp_path)


def test_a_record_of_another_run_is_refused(tmp_path):
    ids = run_ids(REPRODUCTIONS["akrout_bp"]), run_ids(REPRODUCTIONS["akrout_kp"])
    (tmp_path / "runs").mkdir()
    other = (RESULTS / "runs" / f"{ids[1]['']}.json").read_text()
    (tmp_path / "runs" / f"{ids[0]['']}.json").write_text(other)
    with pytest.raises(RecordError, match="another run"):
        compared(named(["akrout_bp"]), tmp_path)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A reproduction of one short run, in a directory with no results yet."""
    published = replace(ONE, settings=SETTINGS | {"epochs": 1}, numbers=NUMBERS[:1], one_factor=())
    monkeypatch.setitem(REPRODUCTIONS, "one", published)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    return published


@pytest.fixture
def asked(monkeypatch):
    def exit_status(*words):
        monkeypatch.setattr("sys.argv", ["walkback", "lab", "reproduce", *words])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return ended.value.code

    return exit_status


def test_the_verb_trains_what_is_missing_and_compares(tiny, asked, tmp_path, capsys):
    assert asked("--list") == 0
    assert "not run" in capsys.readouterr().out
    assert asked("one", "--workers", "1", "--write", "page.md") == 0
    shown = capsys.readouterr().out
    (record_file,) = (tmp_path / "results" / "runs").glob("*.json")
    assert record_file.stem == tiny.config().run_id
    measured = compared([tiny], tmp_path / "results")[0]
    assert f"{measured.numbers[''][0].here:.2f} %" in shown
    assert "## one" in (tmp_path / "page.md").read_text()
    assert asked("two") == 2


def test_the_verb_trains_where_and_in_which_precision_it_is_told(tiny, asked, tmp_path, capsys):
    """Another precision is another run, and stands neither on the page nor in the estimate of those in fp32."""
    assert asked("one", "--workers", "1", "--device", "cpu", "--precision", "bf16") == 0
    (record_file,) = (tmp_path / "results" / "runs").glob("*.json")
    record = json.loads(record_file.read_text())
    assert record["trained_on"] == [{"device": "cpu", "precision": "bf16"}]
    assert record["id"] == tiny.config().changed(precision="bf16").run_id != tiny.config().run_id
    assert f"{100 * record['trace'][1]['accuracy']:.2f} %" in capsys.readouterr().out
    assert compared([tiny], tmp_path / "results")[0].state == "not run"
    assert asked("one", "--precision", "bf16", "--write", "page.md") == 2
    assert asked("one", "--precision", "bf16", "--estimate") == 2
    assert asked("one", "--precision", "fp8") == 2
    assert asked("one", "--device", "gpu") == 2
    assert not (tmp_path / "page.md").exists()


def test_the_page_is_up_to_date():
    expected = page_of(compared(named([]), RESULTS)).markdown()
    assert PAGE.read_text() == expected, "run: walkback lab reproduce --write docs/REPRODUCTIONS.md"
