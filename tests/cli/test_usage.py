"""What a command line that cannot be understood is answered with: what was expected, not only what was wrong."""

from __future__ import annotations

import json
import sys

import pytest

from walkback.cli import main


@pytest.fixture
def refusal(monkeypatch, capsys, tmp_path):
    """What a command that is refused prints, in one line; it ends with 2 and prints nothing else."""

    def run(*words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["walkback", *words])
        with pytest.raises(SystemExit) as left:
            main.run()
        told = capsys.readouterr()
        assert (left.value.code, told.out) == (2, "")
        assert "Traceback" not in told.err
        return " ".join(told.err.split())

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("report", "x.json", "--html"), "'--html' requires an argument: --html FILE. An HTML page."),
        (("diagnose", "s.py:f", "--json"), "--json FILE."),
        (("diagnose", "s.py:f", "--blocks"), "--blocks VALUE. Module names or globs"),
    ],
)
def test_an_option_without_its_value_says_what_it_takes(refusal, words, told):
    assert told in refusal(*words)


def test_an_option_by_the_whole_name_of_its_setting_names_the_flag(refusal):
    assert "(Possible options: --lr)" in refusal("lab", "train", "--learning-rate", "3")
    assert "(Possible options: --arch)" in refusal("lab", "compare", "--architecture", "mlp")


@pytest.mark.parametrize("option", ["--frozen-baseline-acc", "--frozen-baseline", "--baseline"])
def test_a_baseline_is_no_option_of_diagnose_and_the_answer_says_where_it_goes(refusal, option):
    told = refusal("diagnose", "s.py:f", option, "35")
    assert "--frozen-margin" not in told
    assert '"frozen_baseline_acc": 0.35' in told


def test_other_arguments_of_diagnose_go_the_same_way(refusal):
    assert '"null_draws": …' in refusal("diagnose", "s.py:f", "--null-draws", "3")
    assert "mapping" not in refusal("diagnose", "s.py:f", "--nonsense", "3")


def test_an_option_of_another_verb_names_that_verb(refusal):
    assert "--full is an option of `walkback diagnose` and `walkback report`" in refusal("lint", "--full")


def test_a_command_that_is_not_there_is_answered_with_those_that_are(refusal):
    assert "Commands: fetch, list." in refusal("lab", "data", "get")


def test_arguments_too_many_are_answered_with_what_is_taken(refusal):
    told = refusal("lab", "compare", "a", "b")
    assert "`walkback lab compare` takes options alone: --preset, --methods" in told
    assert "takes options alone: --json" in refusal("lab", "evidence", "N99")
    assert "Expected N and nothing more" in refusal("pitfalls", "show", "1", "2")


@pytest.mark.parametrize("more", [(), ("others.json",)])
def test_a_figure_and_its_target_the_wrong_way_round_are_told_so(refusal, more):
    told = refusal("figure", "my audit.json", "audit", *more)
    assert "they look swapped" in told
    assert " ".join(("walkback figure audit 'my audit.json'", *more)) in told


def test_a_figure_that_is_no_figure_is_not_called_swapped(refusal):
    assert "there is no figure called 'nope'" in refusal("figure", "nope", "audit.json")


@pytest.mark.parametrize("name", ["model.pt", "folder/model.safetensors", "model.ckpt"])
def test_a_checkpoint_that_is_not_there_is_no_run_and_no_network(refusal, name):
    told = refusal("diagnose", name)
    assert f"there is no file {name}" in told
    assert "my_script.py:function" in told
    assert "(model, batches)" in told


def test_weights_that_the_lab_did_not_write_are_no_network_either(refusal, tmp_path):
    (tmp_path / "pickled.pt").write_bytes(b"PK\x03\x04 and more")
    header = json.dumps({}).encode()
    (tmp_path / "bare.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    for name in ("pickled.pt", "bare.safetensors"):
        told = refusal("diagnose", name)
        assert "my_script.py:function" in told
        assert "(model, batches)" in told
