from __future__ import annotations

import json
from pathlib import Path

import pytest

from walkback.errors import InputError, UnknownName
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.store import described
from walkback.lab.runs.verbs import with_todays_commands

RECORD = sorted((Path(__file__).parents[3] / "results" / "runs").glob("*.json"))
BASE = {"method": "dfa", "architecture": "resmlp", "data": "cifar10", "seed": 42, "epochs": 30}


def test_equal_configs_have_one_id_however_they_are_written():
    plain = RunConfig(**BASE)
    spelt_out = RunConfig(
        **BASE,
        method_options={"credit_norm": "none", "penalty": 0},
        architecture_options={"width": 256},
        learning_rate=1e-3,
        schedule="cosine",
    )
    assert plain == spelt_out
    assert plain.run_id == spelt_out.run_id
    filled_in = {"credit_norm": "none", "penalty": 0.0, "credit_site": "written"}
    assert filled_in.items() <= plain.method_options.items()


@pytest.mark.parametrize(
    "change",
    [
        {"method": "fa"},
        {"architecture": "student_net"},
        {"data": "digits"},
        {"seed": 43},
        {"epochs": 31},
        {"method_options": {"credit_norm": "per_sample"}},
        {"method_options": {"penalty": 0.01}},
        {"architecture_options": {"width": 512}},
        {"freezing": "blocks"},
        {"freezing": "ladder:2"},
        {"targets": "random"},
        {"architecture_options": {"residual_add": False}},
        {"architecture_options": {"w2_std": 0.5}},
        {"batch_size": 64},
        {"optimizer": "sgd"},
        {"learning_rate": 3e-3},
        {"weight_decay": 0.0},
        {"schedule": "constant"},
        {"augment": False},
    ],
)
def test_every_setting_enters_the_id(change):
    assert RunConfig(**BASE).run_id != RunConfig(**(BASE | change)).run_id


def test_ids_stay_what_they_are():
    # A change here orphans every run that was made before: raise CONFIG_VERSION only where runs really differ.
    assert RunConfig(**BASE).run_id == "b7d03ca9164d"


def test_every_run_on_record_is_still_the_run_that_its_config_says():
    assert len(RECORD) > 250
    for path in RECORD:
        result = json.loads(path.read_text(encoding="utf-8"))
        again = described(RunConfig.from_dict(result["config"], str(path)))
        assert again["id"] == path.stem
        recorded = with_todays_commands(result)
        assert all(again[part] == recorded[part] for part in ("id", "name", "command", "baseline"))


def test_settings_and_options_that_came_later_stand_in_every_old_config_as_their_defaults():
    config = RunConfig(**BASE)
    assert (config.freezing, config.targets) == ("none", "true")
    assert config.architecture_options["residual_add"] is True
    assert config.architecture_options["w2_std"] == 0.01
    assert RunConfig(**BASE | {"architecture": "student_net"}).architecture_options["activation"] == "gelu"
    assert RunConfig(**BASE | {"architecture": "small_cnn"}).architecture_options["pool_first"] is True


def test_the_foot_of_the_ladder_and_frozen_blocks_are_one_run():
    ladder, frozen = (RunConfig(**BASE, freezing=word) for word in ("ladder:0", "blocks"))
    assert ladder == frozen
    assert ladder.run_id == frozen.run_id
    assert ladder.to_dict()["freezing"] == "blocks"


def test_ladders_and_random_targets_are_told_in_names_and_commands():
    config = RunConfig(**BASE, freezing="ladder:2", targets="random")
    assert config.name == "resmlp-cifar10-dfa-ladder2-random_targets-s42-30ep"
    assert config.command == (
        "walkback lab train --method dfa --arch resmlp --data cifar10 --seed 42 --epochs 30 "
        "--freezing ladder:2 --targets random"
    )
    assert RunConfig.from_dict(config.to_dict()) == config


def test_names_and_commands_say_what_differs_from_the_defaults():
    config = RunConfig(
        **BASE,
        method_options={"credit_norm": "per_sample", "penalty": 0.01},
        architecture_options={"width": 512},
        freezing="blocks",
        learning_rate=3e-3,
    )
    assert RunConfig(**BASE).name == "resmlp-cifar10-dfa-s42-30ep"
    assert config.name == "resmlp-cifar10-dfa-per_sample-penalty0.01-width512-frozen_blocks-lr0.003-s42-30ep"
    assert config.command == (
        "walkback lab train --method dfa --arch resmlp --data cifar10 --seed 42 --epochs 30 --credit-norm per_sample "
        "--penalty 0.01 --set arch.width=512 --freezing blocks --lr 0.003"
    )


def test_a_config_loads_back_equal():
    config = RunConfig(**(BASE | {"architecture": "small_cnn"}), architecture_options={"channels": (8, 16, 32)})
    again = RunConfig.from_dict(config.to_dict())
    assert again == config
    assert again.run_id == config.run_id
    assert config.architecture_options["channels"] == [8, 16, 32]


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ({"learning_rte": 1}, InputError, "Did you mean 'learning_rate'"),
        ({"method": "dfaa"}, UnknownName, "Did you mean 'dfa'"),
        ({"architecture": "resmpl"}, UnknownName, "Did you mean 'resmlp'"),
        ({"data": "cifar"}, UnknownName, "Did you mean 'cifar10'"),
        ({"method_options": {"credit_nrom": "none"}}, InputError, "Did you mean 'credit_norm'"),
        ({"method_options": {"credit_norm": "always"}}, InputError, "expected one of 'none', 'per_sample'"),
        ({"architecture_options": {"widht": 3}}, InputError, "Did you mean 'width'"),
        ({"data": "fashion_mnist", "data_options": {"download": False}}, InputError, "It takes none"),
        ({"seed": -1}, InputError, "seed"),
        ({"epochs": "many"}, InputError, "epochs"),
        ({"learning_rate": float("nan")}, InputError, "learning_rate"),
        ({"freezing": "all"}, InputError, "freezing is 'all'; expected one of none, blocks, shallow, or ladder:K"),
        ({"freezing": "ladder:x"}, InputError, "freezing is 'ladder:x'; expected one of"),
        ({"freezing": "ladder:-1"}, InputError, "freezing is 'ladder:-1'; expected one of"),
        ({"freezing": 2}, InputError, "freezing is 2; expected text"),
        ({"targets": "none"}, InputError, "targets is 'none'; expected 'true', 'random' or 'permuted'"),
        ({"method_options": "fast"}, InputError, "method_options"),
        ({"seed": True}, InputError, "seed is True; expected a whole number"),
        ({"seed": 42.5}, InputError, r"seed is 42\.5; expected a whole number"),
        ({"learning_rate": "0.1"}, InputError, "learning_rate is '0.1'; expected a number"),
        ({"augment": 1}, InputError, "augment is 1; expected true or false"),
        ({"epochs": 100_000}, InputError, "epochs is 100000; expected 99999 or less"),
        (
            {"architecture": "vit_mini", "architecture_options": {"patch": {"a": 1}}},
            InputError,
            "patch is .* expected a number, a word or a list",
        ),
    ],
)
def test_what_a_config_cannot_hold_is_refused_in_a_sentence(settings, kind, says):
    with pytest.raises(kind, match=says):
        RunConfig(**(BASE | settings))


def test_a_toml_file_is_a_config_and_changes_go_on_top(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'method = "dfa"\narchitecture = "resmlp"\ndata = "cifar10"\nseed = 42\nepochs = 30\n'
        '[method_options]\ncredit_norm = "per_sample"\n'
    )
    config = RunConfig.from_toml(file, epochs=5, method_options={"penalty": 0.01})
    assert config.epochs == 5
    expected = {"credit_norm": "per_sample", "penalty": 0.01, "credit_site": "written"}
    assert expected.items() <= config.method_options.items()


@pytest.mark.parametrize(("text", "says"), [("seed = ", "is not TOML"), ("sede = 1", "Did you mean 'seed'")])
def test_a_toml_file_that_cannot_be_read_is_named(tmp_path, text, says):
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=says) as refusal:
        RunConfig.from_toml(file)
    assert "run.toml" in str(refusal.value)


def test_seeds_of_the_parts_of_a_run_are_apart():
    purposes = ("weights", "feedback", "data", "training", "rerandomised blocks")
    seeds = {derived_seed(seed, purpose) for seed in range(50) for purpose in purposes}
    assert len(seeds) == 250
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"terminal_norm": "False"}, "terminal_norm is 'False'; expected true or false"),
        ({"terminal_norm": 0}, "terminal_norm is 0; expected true or false"),
        ({"width": "wide"}, "width is 'wide'; expected a whole number"),
        ({"width": 256.5}, "width is 256.5; expected a whole number"),
        ({"width": True}, "width is True; expected a whole number"),
        ({"norm_position": 1}, "norm_position is 1; expected a word"),
    ],
)
def test_options_of_another_kind_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        RunConfig(**BASE, architecture_options=options)


@pytest.mark.parametrize("channels", [(8, 16, "32"), 8, "8-16-32"])
def test_lists_are_checked_entry_by_entry(channels):
    with pytest.raises(InputError, match="channels is"):
        RunConfig(**BASE | {"architecture": "small_cnn"}, architecture_options={"channels": channels})
    RunConfig(**BASE | {"architecture": "small_cnn"}, architecture_options={"channels": (8, 16, 32)})
