"""`train`, `runs`, `zoo`, `data`, and `diagnose` on what training left."""

from __future__ import annotations

import json
import pickle
import re
import signal
import subprocess
import sys
import time

import pytest

from walkback.cli import main
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.progress import Silent
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume

TINY = [
    "--arch",
    "resmlp",
    "--data",
    "digits",
    "--set",
    "arch.width=12",
    "--set",
    "arch.depth=2",
    "--batch-size",
    "640",
]
DFA = ["lab", "train", "--method", "dfa", *TINY, "--epochs", "2"]


@pytest.fixture
def walkback(monkeypatch, capsys, tmp_path):
    """The command line in this process, in an empty folder: exit status, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WALKBACK_RUNS", raising=False)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["walkback", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        seen = capsys.readouterr()
        return ended.value.code, seen.out, seen.err

    return call


def only_run(folder):
    (run,) = folder.iterdir()
    return run


def test_train_prints_progress_and_the_report_and_exits_0(walkback, tmp_path):
    status, out, err = walkback(*DFA)
    assert status == 0
    assert re.search(r"epoch 2/2  acc \d+\.\d\d %", err)
    assert "‖h_L‖" in err
    assert "‖g_L‖" in err
    assert "verdict: " in out
    assert "--freezing blocks" in " ".join(out.split())
    assert (only_run(tmp_path / "runs") / "result.json").exists()

    status, again, err = walkback(*DFA)
    assert status == 0
    assert "is finished already" in err
    assert again == out


def test_a_config_file_and_flags_make_the_same_run(walkback, tmp_path):
    (tmp_path / "run.toml").write_text(
        'method = "dfa"\narchitecture = "resmlp"\ndata = "digits"\nepochs = 9\nbatch_size = 640\n'
        "[architecture_options]\nwidth = 12\n"
    )
    walkback("lab", "train", "--config", "run.toml", "--epochs", 2, "--set", "arch.depth=2", "--runs", "a")
    walkback(*DFA, "--runs", "b")
    assert only_run(tmp_path / "a").name == only_run(tmp_path / "b").name


def test_the_command_that_a_run_stores_makes_that_run(walkback, tmp_path):
    import shlex

    flags = [
        "--credit-norm",
        "per_sample",
        "--penalty",
        "0.01",
        "--lr",
        "0.003",
        "--no-augment",
        "--schedule",
        "constant",
    ]
    flags += ["--freezing", "ladder:1", "--targets", "random", "--set", "arch.residual_add=false"]
    flags += ["--set", "arch.w2_std=0.5"]
    walkback(
        *DFA, *flags, "--optimizer", "adam", "--weight-decay", "0", "--seed", 3, "--set", "method.credit_site=read"
    )
    run = only_run(tmp_path / "runs")
    settings = json.loads((run / "config.json").read_text())
    status, _, err = walkback(*shlex.split(settings["command"])[1:])
    assert status == 0
    assert f"run {run.name}" in err
    assert "is finished already" in err


def test_diagnose_finds_a_run_and_its_baseline(walkback, tmp_path):
    walkback(*DFA)
    run = only_run(tmp_path / "runs")
    (checkpoint,) = (run / "checkpoints").iterdir()
    reports = []
    for target in (run.name, run.name[:5], "runs/" + run.name, checkpoint):
        status, out, _ = walkback("diagnose", target, "--json", "report.json")
        assert status in (0, 1)
        assert "--freezing blocks" in " ".join(out.split())
        reports.append(json.loads((tmp_path / "report.json").read_text()))
    for report in reports:
        assert report["residual_norms"] == pytest.approx(reports[0]["residual_norms"])
        assert report["headline_acc"] == reports[0]["headline_acc"]
        assert report["alignment"]["null"]["draws"] == 20

    walkback(*DFA, "--freezing", "blocks")
    for target in (run.name, checkpoint):
        status, out, _ = walkback("diagnose", target, "--require-all", "--json", "report.json")
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["complete"]
        assert report["frozen_baseline_samples"] == 539
        assert status == (0 if report["verdict"] == "trustworthy" else 1)
    status, out, _ = walkback("diagnose", run.name, "--g-norm-floor", "10")
    assert status == 1
    assert "BP grad at numerical floor" in out


def test_diagnose_refuses_what_training_did_not_leave(walkback, tmp_path):
    sentinel = tmp_path / "executed"

    class Malicious:
        def __reduce__(self):
            return (open, (str(sentinel), "w"))

    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Malicious()))
    (tmp_path / "folder").mkdir()
    for target, says in (
        ("evil.pt", "is a pickle"),
        ("folder", "is not a run's"),
        ("nothing-like-it", "my_script.py:function"),
        ("missing.safetensors", "there is no file"),
    ):
        status, out, err = walkback("diagnose", target)
        assert (status, out) == (2, "")
        assert says in err
        assert "Traceback" not in err
    assert not sentinel.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*DFA, "--runs", ""), "the place of runs is ''"),
        ((*DFA, "--runs", "file://"), "the place of runs is 'file://'"),
        (("lab", "runs", "--runs", "nowhere"), "nowhere"),
        (("diagnose", ""), "TARGET is ''"),
        (("lab", "data", "fetch", "digits", "nope"), "there is no data set called 'nope'"),
        (("lab", "data", "fetch", "cifar10", "--path", "/dev/null"), "/dev/null; expected"),
        (("lab", "train", "--method", "x" * 5000, "--arch", "resmlp", "--data", "digits"), "x…'"),
        ((*DFA, "--seed", "1" * 400), "9007199254740992 or less"),
    ],
)
def test_what_is_empty_or_is_not_there_is_told_and_nothing_is_made(walkback, tmp_path, words, says):
    status, out, err = walkback(*words)
    assert (status, out) == (2, "")
    assert says in err
    assert len(err) < 1000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("method_options = [1]", ["--penalty", "1"], "method_options is [1]; expected a table"),
        ("method_options = [1]", ["--set", "method.penalty=1"], "method_options is [1]; expected a table"),
        ("seed = " + "1" * 5000, [], "run.toml is not TOML"),
        ("seed = 2026-01-01", [], "seed is datetime.date(2026, 1, 1); expected a whole number"),
        ("seed = {a = 1}", [], "seed is {'a': 1}; expected a whole number"),
        ("architecture_options = {patch = [[2026-01-01]]}", ["--arch", "vit_mini"], "expected a number, a word or a"),
    ],
)
def test_what_a_file_says_wrongly_is_told_though_a_flag_says_it_right(walkback, tmp_path, text, words, says):
    (tmp_path / "run.toml").write_text(text)
    given = ["--method", "dfa", "--arch", "resmlp", "--data", "digits", "--epochs", "1"]
    status, _, err = walkback("lab", "train", *given, "--config", "run.toml", *words)
    assert status == 2
    assert says in " ".join(err.split())
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_one_damaged_run_hides_none_of_the_others_and_is_no_markup(walkback, tmp_path):
    walkback(*DFA)
    walkback(*DFA, "--seed", "1")
    first, second = sorted((tmp_path / "runs").iterdir())
    for folder, name in ((first, "[/bold] x"), (second, "whole")):
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(settings | {"name": name}))
    status, out, _ = walkback("lab", "runs")
    assert status == 0
    assert "[/bold] x" in out
    (first / "result.json").unlink()
    (first / "trace.jsonl").unlink()
    (first / "trace.jsonl").mkdir()
    status, out, err = walkback("lab", "runs")
    assert status == 0
    assert first.name in err
    assert "whole" in out
    assert "[/bold] x" not in out


def test_what_is_damaged_in_a_baseline_is_told_of_the_baseline(walkback, tmp_path):
    walkback(*DFA)
    main = only_run(tmp_path / "runs").name
    walkback(*DFA, "--freezing", "blocks")
    (frozen,) = (run for run in (tmp_path / "runs").iterdir() if run.name != main)
    result = json.loads((frozen / "result.json").read_text())
    # The first run's credit is followed as it is, so this is the baseline that it is matched with.
    assert frozen.name == json.loads((tmp_path / "runs" / main / "result.json").read_text())["baseline"]["id"]
    (frozen / "result.json").write_text(json.dumps(result | {"accuracy": "y"}))
    status, _, err = walkback("diagnose", main)
    assert status == 2
    assert f"the result of run {frozen.name} is corrupt" in err


def test_empty_places_and_blocks_are_not_taken_for_none(walkback, tmp_path):
    walkback(*DFA)
    run = only_run(tmp_path / "runs")
    assert "the place of runs is ''" in walkback("diagnose", run, "--runs", "")[2]
    assert "blocks='' matches no module" in walkback("diagnose", run, "--blocks", "")[2]


@pytest.mark.parametrize("change", [{"baseline": {}}, {"report": None, "accuracy": "y"}, {"report": 3}])
def test_a_result_that_says_nothing_is_told_as_damaged(walkback, tmp_path, change):
    walkback(*DFA)
    result = only_run(tmp_path / "runs") / "result.json"
    result.write_text(json.dumps(json.loads(result.read_text()) | change))
    for words in (DFA, ("diagnose", result.parent.name)):
        status, _, err = walkback(*words)
        assert status == 2
        assert result.parent.name in err
        assert "Traceback" not in err


def test_the_time_left_is_told_by_the_epochs_that_were_trained(tmp_path):
    class Watcher(Silent):
        def __init__(self):
            self.seen = []

        def epoch_done(self, event):
            self.seen.append(event)

    watcher = Watcher()
    config = RunConfig(
        method="bp", architecture="resmlp", data="digits", seed=0, epochs=3, batch_size=640,
        architecture_options={"width": 12, "depth": 2},
    )  # fmt: skip
    train_or_resume(config, RunStore(tmp_path / "runs"), watcher)
    seen = [event.seconds_left for event in watcher.seen]
    assert seen[0] == seen[3] == 0
    for epoch in (1, 2):  # an epoch takes longer than its record says: the checkpoint is written after it
        paces = [event.record.seconds for event in watcher.seen[1 : epoch + 1]]
        assert seen[epoch] > (3 - epoch) * sum(paces) / epoch


def test_runs_lists_what_there_is_and_how_far_it_is(walkback, tmp_path):
    assert "no such runs" in walkback("lab", "runs")[1]
    walkback(*DFA)
    walkback(*DFA, "--freezing", "shallow")
    status, out, _ = walkback("lab", "runs")
    assert status == 0
    assert out.count("finished") == 2
    assert "no (d)" in out
    walkback("lab", "runs", "--json", "rows.json")
    rows = {row["freezing"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert rows["none"]["epochs_done"] == rows["none"]["epochs"] == 2
    assert rows["none"]["gaps"] == ["d"]
    assert rows["shallow"]["verdict"] == "not measured"
    assert "no such runs" in walkback("lab", "runs", "--method", "bp")[1]
    assert (
        walkback("lab", "runs", "--state", "finished", "--arch", "resmlp", "--data", "digits")[1].count("finished") == 2
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "dfaa"], "Did you mean 'dfa'"),
        (["--set", "arch.widht=3"], "Did you mean 'width'"),
        (["--set", "net.width=3"], "Known: arch, data, method"),
        (["--set", "width"], "expected NAME=VALUE"),
        (["--credit-norm", "sometimes"], "expected one of 'none', 'per_sample'"),
        (["--epochs", "-1"], "epochs is -1; expected 0 or more"),
        (["--lr", "0"], "learning_rate is 0.0; expected more than 0"),
        (["--seed", "-1", "--batch-size", "0"], "seed is -1; expected 0 or more. batch_size is 0; expected 1 or more"),
        (["--config", "missing.toml"], "cannot read missing.toml"),
        (["--freezing", "everything"], "freezing is 'everything'; expected one of none, blocks, shallow, or ladder:K"),
        (["--freezing", "ladder:x"], "freezing is 'ladder:x'; expected one of"),
        (["--freezing", "ladder:-1"], "freezing is 'ladder:-1'; expected one of"),
        (["--freezing", "ladder:2"], "freezing is 'ladder:2', and the network has 2 blocks."),
        (["--freezing", "ladder:99"], "freezing is 'ladder:99', and the network has 2 blocks."),
        (["--targets", "wrong"], "targets is 'wrong'; expected 'true', 'random' or 'permuted'"),
        (["--set", "arch.w2_std=Infinity"], "w2_std is inf; expected a finite number above 0"),
        (["--set", "arch.residual_add=no"], "residual_add is 'no'; expected true or false"),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_exit_2(walkback, tmp_path, words, says):
    status, out, err = walkback(*DFA, *words)
    assert (status, out) == (2, "")
    assert says in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_given_is_asked_for(walkback):
    status, _, err = walkback("lab", "train", "--method", "dfa")
    assert status == 2
    assert "architecture and data are not given" in err


def test_a_setting_that_a_file_misspells_is_named_before_what_it_lacks(walkback, tmp_path):
    (tmp_path / "run.toml").write_text('method = "dfa"\narch = "resmlp"\ndata = "digits"\n')
    status, _, err = walkback("lab", "train", "--config", "run.toml")
    assert status == 2
    assert "run.toml: a run has no setting 'arch'. Did you mean 'architecture'?" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--state", "fnished"], "no run has the state 'fnished'. Did you mean 'finished'?"),
        (["--method", "dfaa"], "no run has the method 'dfaa'. Did you mean 'dfa'?"),
        (["--arch", "resmpl"], "Did you mean 'resmlp'?"),
        (["--data", "cifar"], "Did you mean 'cifar10'?"),
    ],
)
def test_runs_that_could_never_be_are_not_an_empty_answer(walkback, words, says):
    status, out, err = walkback("lab", "runs", *words)
    assert (status, out) == (2, "")
    assert says in err


@pytest.mark.filterwarnings("always")
def test_a_damaged_checkpoint_is_told_in_one_line(walkback, tmp_path):
    walkback(*DFA)
    run = only_run(tmp_path / "runs")
    (run / "result.json").unlink()
    (checkpoint,) = (run / "checkpoints").iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    status, _, err = walkback(*DFA)
    assert status == 0
    (told,) = [line for line in err.splitlines() if "checkpoint" in line]
    assert told.startswith("walkback: checkpoint ")
    assert "is corrupt" in told
    assert "UserWarning" not in err


def test_zoo_shows_all_of_it_and_each_with_its_options(walkback):
    status, out, _ = walkback("lab", "zoo")
    assert status == 0
    for name in ("bp", "credit_bridge", "vit_mini", "synthetic_teacher"):
        assert f"  {name} " in out
    assert "--set method.sweeps=4" in walkback("lab", "zoo", "ep")[1]
    assert "--set arch.channels=[32, 64, 128]" in walkback("lab", "zoo", "--options")[1]
    status, _, err = walkback("lab", "zoo", "resmpl")
    assert status == 2
    assert "Did you mean 'resmlp'" in err


def test_data_lists_and_fetches(walkback):
    status, out, _ = walkback("lab", "data", "list")
    assert status == 0
    assert "cifar10" in out
    assert "generated" in out
    status, out, _ = walkback("lab", "data", "fetch", "digits")
    assert (status, out) == (0, "digits: generated\n")
    status, _, err = walkback("lab", "data", "fetch", "digit")
    assert status == 2
    assert "Did you mean 'digits'" in err


@pytest.mark.parametrize(
    "words", [["--help"], ["lab", "train", "--help"], ["lab", "zoo"], ["lab", "runs"], ["lab", "data", "--help"]]
)
def test_what_needs_no_torch_imports_none(words, tmp_path):
    code = (
        f"import sys; sys.argv = ['walkback', *{words!r}]\nfrom walkback.cli.main import run\n"
        "try:\n    run()\nfinally:\n    assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_exits_130_and_says_how_to_go_on(tmp_path):
    words = ["lab", "train", "--method", "dfa", *TINY, "--epochs", "2000", "--runs", "runs"]
    process = subprocess.Popen(
        [sys.executable, "-m", "walkback", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob("runs/*/checkpoints/*00002*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command resumes it" in err
    assert "walkback lab train --method dfa" in err
    assert "Traceback" not in err


def test_as_source_is_the_published_recipe_under_what_is_given(walkback, tmp_path):
    status, _, err = walkback(
        "lab", "train", "--method", "dfa", *TINY, "--epochs", "1", "--as", "source", "--penalty", "0.01"
    )
    assert (status, err.count("epoch 1/1")) == (0, 1)
    options = json.loads((only_run(tmp_path / "runs") / "config.json").read_text())["config"]["method_options"]
    assert options["credit_norm"] == "rms"
    assert (options["credit_site"], options["feedback_of"], options["penalty"]) == ("read", "block", 0.01)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "dfa", "--as", "elsewhere"], "--as got 'elsewhere'; expected source"),
        (["--as", "source"], "--as source needs a method"),
        (["--method", "fa", "--as", "source"], "its FA is fa_block"),
    ],
)
def test_a_recipe_that_is_not_there_is_refused(walkback, tmp_path, words, said):
    status, _, err = walkback("lab", "train", *words)
    assert status == 2
    assert said.lower() in " ".join(err.split()).lower()
    assert not (tmp_path / "runs").exists()
