"""Input that is wrong, damaged or meant to harm: a sentence, exit status 2, no traceback, and nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from walkback.cli import main
from walkback.cli.entry import VERBS
from walkback.lab.runs.ids import run_id_of
from walkback.protocol.schema import write_whole

RESULTS = Path(__file__).parents[2] / "results"
AUDIT = RESULTS / "audit_student_net_d128_synthetic_teacher.json"
RUN = json.loads(AUDIT.read_text())["runs"][0]["id"]
SITES = "h_0=h0,h_1=h1,g_0=g0,g_1=g1,epoch=epoch"


@pytest.fixture
def walkback(monkeypatch, capsys):
    """Run a command in this process: (exit status, what it printed, what it complained of)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["walkback", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return ended.value.code, printed.out, printed.err

    return run


def command(*words, **options):
    return subprocess.run([sys.executable, "-m", "walkback", *map(str, words)], text=True, check=False, **options)


def changed(value, place, new):
    """A copy of a record with one entry replaced."""
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return copy


RESULT_FAULTS = [
    (["trace", 0, "epoch"], {}),
    (["trace", 1, "residual_norms"], "large"),
    (["trace", 1, "site_stabilities"], []),
    (["trace", 1, "epoch"], "Infinity"),
    (["trace"], 3),
    (["id"], ["x"]),
    (["baseline"], 1e308),
    (["config"], 7),
    (["report", "readings"], None),
    (["report", "residual_norms"], [1, -2, 3, 4]),
    (["versions"], []),
]


@pytest.mark.parametrize(("place", "new"), RESULT_FAULTS)
@pytest.mark.parametrize("form", [["--csv", "out.csv"], ["--template", "latex", "--out", "out.tex"]])
def test_a_damaged_result_of_a_run_is_told(walkback, tmp_path, monkeypatch, place, new, form):
    monkeypatch.chdir(tmp_path)
    result = json.loads((RESULTS / "runs" / f"{RUN}.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(changed(result, place, new)))
    status, _, error = walkback("report", "run.json", *form)
    assert status == 2
    assert error.startswith("walkback: run")  # the file, or the run in it
    assert not list(tmp_path.glob("out.*"))


AUDIT_FAULTS = [
    (["name"], 1.5),
    (["name"], "../../escaped"),
    (["name"], "a\x1b[31m"),
    (["runs"], None),
    (["runs", 0], "a word"),
    (["runs", 0, "label"], []),
    (["reports", 0], 3),
    (["reports", 0, "readings", 0], {"letter": "]]]"}),
]


@pytest.mark.parametrize(("place", "new"), AUDIT_FAULTS)
@pytest.mark.parametrize("study", ["ablation", "temporal"])
def test_a_damaged_audit_leaves_no_answer_behind(walkback, tmp_path, place, new, study):
    audit = tmp_path / "in" / "audit_x.json"
    audit.parent.mkdir()
    (audit.parent / "runs").symlink_to(RESULTS / "runs")
    audit.write_text(json.dumps(changed(json.loads(AUDIT.read_text()), place, new)))
    places = ["--results", tmp_path / "out" / "r", "--markdown", tmp_path / "out" / "m"]
    status, _, error = walkback("lab", "study", study, audit, *places)
    assert status == 2
    assert "audit_x.json" in error
    assert not (tmp_path / "out").exists()


def test_a_letter_that_is_none_is_refused(walkback, tmp_path):
    audit = tmp_path / "audit_x.json"
    audit.write_text(json.dumps(changed(json.loads(AUDIT.read_text()), ["reports", 0, "readings", 0, "letter"], "]")))
    status, _, error = walkback(
        "lab", "study", "ablation", audit, "--results", tmp_path / "r", "--markdown", tmp_path / "m"
    )
    assert status == 2
    assert "readings.0.letter is ']'; expected a letter" in error
    assert not (tmp_path / "r").exists()


LOGS = [
    ("log.csv", "epoch,h0,h1,g0,g1\n1,1,2,1,1,7,8\n", "line 2 has more cells than the header row"),
    ("log.csv", "epoch,h0,h0,g0,g1\n1,1,2,1,1\n", "several columns called h0"),
    ("log.csv", "epoch,h0,h1,g0,g1\ninf,1,2,1,1\n", "expected a number"),
    ("log.csv", "epoch,h0,h1,g0,g1\n1,-1,2,1,1\n", "a norm is 0 or more"),
    ("log.csv", "epoch;h0;h1;g0;g1\n1;1,5;2;1;1\n", "Write decimals with a point"),
    ("log.jsonl", '{"h0":1}\n' + '{"a":' * 100_000 + "\n", "line 2 is not JSON"),
    ("log.jsonl", '{"h0":1}\n{"h0":' + "9" * 401 + ',"h1":1,"g0":1,"g1":1,"epoch":1}\n', "expected a number"),
]


@pytest.mark.parametrize(("name", "text", "words"), LOGS)
def test_logs_that_cannot_be_right_are_refused(walkback, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    status, _, error = walkback("replay", tmp_path / name, "--map", SITES)
    assert status == 2
    assert words in error


def test_what_replay_writes_it_reads(walkback, tmp_path):
    (tmp_path / "log.csv").write_text("h0,h1,g1\n8,9,1e-3\n8,900,1e-9\n")
    judged = walkback("replay", tmp_path / "log.csv", AUDIT, "--map", "h_0=h0", "--json", tmp_path / "none.json")
    assert judged[0] == 2
    assert not (tmp_path / "none.json").exists()
    sites = ["--map", "h_0=h0,h_1=h1,g_1=g1"]
    assert walkback("replay", tmp_path / "log.csv", *sites, "--json", tmp_path / "a.json")[0] == 1
    status, printed, _ = walkback("replay", tmp_path / "a.json", AUDIT, "--json", tmp_path / "b.json")
    assert status == 1
    assert "walk-back a b" in printed
    once, twice = (
        [(e["name"], e["verdict"]) for e in json.loads((tmp_path / n).read_text())] for n in ("a.json", "b.json")
    )
    assert twice[:1] == once
    assert len(twice) > 1
    assert walkback("replay", tmp_path / "a.json", "--h-norm-explosion-ratio", "1e4", "--g-norm-floor", "1e-12")[0] == 0


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("h_0=h0,h_1=h1", (), "rests on (a) alone; (b), (c), (d) not measured. Any of these may still fire"),
        ("h_0=h0,g_1=g1", ("--blocks", "1"), "rests on (b) alone; (a), (c), (d) not measured"),
        ("h_0=h0,h_1=h1,g_1=g1", ("--blocks", "2"), "rests on (b) alone; (c), (d) not measured, (a) undecided"),
        ("h_0=h0,h_1=h1,g_1=g1", ("--h-norm-explosion-ratio", "1.01"), ""),
    ],
)
def test_how_little_a_pass_rests_on_is_said(walkback, tmp_path, columns, options, words):
    (tmp_path / "log.csv").write_text("h0,h1,g1\n8,9,1e-3\n")
    status, printed, _ = walkback("replay", tmp_path / "log.csv", "--map", columns, *options)
    assert status == (0 if words else 1)
    assert (f"log: the verdict {words}" in printed) if words else ("rests on" not in printed)


@pytest.mark.parametrize(
    ("words", "option", "verbs"),
    [
        (("report", "x.json", "--panel", "calibrated"), "--panel", {"diagnose", "replay"}),
        (("report", "x.json", "--map", "h_0=a"), "--map", {"replay"}),
        (("replay", "x.json", "--html", "x.html"), "--html", {"diagnose", "report"}),
        (("replay", "x.json", "--nowhere"), "--nowhere", set()),
        (("report", "x.json", "--titel", "y"), "--title", set()),
        (("replay", "x.json", "--blocks", "many"), "--blocks", set()),
        (("replay", "x.json", "--panel"), "--panel", set()),
    ],
)
def test_an_option_of_another_verb_is_told_with_that_verb(walkback, words, option, verbs):
    status, _, error = walkback(*words)
    assert status == 2
    assert option in error
    assert {verb for verb in VERBS if f"`walkback {verb}`" in error} == verbs
    assert not verbs or "Possible options" not in error


def test_a_word_is_no_list_of_norms(walkback, tmp_path):
    (tmp_path / "log.jsonl").write_text('{"h":"12","g":"11","epoch":1}\n' * 2)
    status, _, error = walkback("replay", tmp_path / "log.jsonl", "--map", "h=h,g=g")
    assert status == 2
    assert "holds '12'; expected a list of numbers" in error


def test_a_file_without_figures_is_no_trace(walkback, tmp_path):
    (tmp_path / "trace.jsonl").write_text("{}\n")
    status, _, error = walkback("watch", tmp_path / "trace.jsonl", "--once")
    assert status == 2
    assert "is not a trace" in error


@pytest.mark.parametrize("name", ["../../evil", "a/b", "x" * 400, "a\x1b[31m", "", ".hidden"])
def test_names_that_lead_elsewhere_are_refused(walkback, tmp_path, name):
    places = ["--runs", tmp_path / "runs", "--results", tmp_path / "results"]
    grid = ["--arch", "resmlp", "--data", "digits", "--methods", "bp", "--no-train"]
    status, _, error = walkback("lab", "audit", *grid, *places, "--name", name)
    assert status == 2
    assert "--name is" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "body", ["import sys\nsys.exit(0)", "def f():\n    raise SystemExit(0)", "raise BaseException"]
)
def test_code_that_exits_is_no_verdict(walkback, tmp_path, body):
    (tmp_path / "theirs.py").write_text(body + "\n")
    status, _, error = walkback("diagnose", f"{tmp_path / 'theirs.py'}:f")
    assert status == 2
    assert "theirs.py" in error


def test_a_network_that_fails_is_told_with_its_line(walkback, tmp_path):
    (tmp_path / "theirs.py").write_text(
        "import torch\n"
        "class Block(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x[:, :1])\n"
        "def f():\n"
        "    batches = [(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long))]\n"
        "    return torch.nn.Sequential(Block(2, 2), torch.nn.Linear(2, 2)), batches\n"
    )
    status, _, error = walkback("diagnose", f"{tmp_path / 'theirs.py'}:f", "--blocks", "0")
    assert status == 2
    assert f"(at {tmp_path / 'theirs.py'}:4)" in error


def test_a_folder_in_the_place_of_a_file_is_seen_before_anything_is_written(walkback, tmp_path):
    (tmp_path / "folder").mkdir()
    status, _, error = walkback("report", AUDIT, "--csv", tmp_path / "a.csv", "--html", tmp_path / "folder")
    assert status == 2
    assert f"cannot write {tmp_path / 'folder'}" in error
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("content", ["{", '"x"', "[]", '{"config": 3}'])
def test_one_broken_run_does_not_hide_the_others(walkback, tmp_path, content):
    sound, broken = tmp_path / "results" / "runs", tmp_path / "runs" / ("a" * 12)
    sound.mkdir(parents=True)
    (sound / f"{RUN}.json").write_bytes((RESULTS / "runs" / f"{RUN}.json").read_bytes())
    broken.mkdir(parents=True)
    (broken / "config.json").write_text(content)
    status, printed, error = walkback("lab", "runs", "--runs", tmp_path / "runs")
    assert status == 0
    assert error.startswith(f"walkback: {broken / 'config.json'} ")
    assert len(error.splitlines()) == 1
    assert RUN in printed
    assert walkback("report", RUN[:6], "--runs", tmp_path / "runs")[0] == 0


@pytest.mark.parametrize("content", ["{", '{"id": "x"}'])
def test_one_broken_result_does_not_hide_the_others(walkback, tmp_path, content):
    archive = tmp_path / "results" / "runs"
    archive.mkdir(parents=True)
    sound = json.loads((RESULTS / "runs" / f"{RUN}.json").read_text())
    (archive / f"{RUN}.json").write_text(json.dumps(sound))
    config = sound["config"] | {"seed": 1_000_003}
    broken = tmp_path / "runs" / run_id_of(config)
    broken.mkdir(parents=True)
    (broken / "config.json").write_text(json.dumps({"id": broken.name, "name": "broken", "config": config}))
    (broken / "result.json").write_text(content)
    status, printed, error = walkback("lab", "runs", "--runs", tmp_path / "runs")
    assert status == 0
    assert RUN in printed
    assert broken.name in error


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "words")
    reader.join(10)
    assert got == ["words"]
    assert pipe.is_fifo()


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_nobody_reading_is_no_verdict_and_files_are_written_all_the_same(tmp_path):
    out, into = os.pipe()
    os.close(out)
    done = command("replay", AUDIT, "--json", tmp_path / "a.json", stdout=into, stderr=subprocess.PIPE)
    os.close(into)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert json.loads((tmp_path / "a.json").read_text())


def test_a_study_that_nobody_reads_is_kept(tmp_path):
    out, into = os.pipe()
    os.close(out)
    places = ["--results", tmp_path / "r", "--markdown", tmp_path / "m"]
    done = command("lab", "study", "ablation", AUDIT, *places, stdout=into, stderr=subprocess.PIPE)
    os.close(into)
    assert done.returncode == 2
    assert (tmp_path / "m" / "ablation.md").exists()


@pytest.mark.parametrize("words", [["--help"], ["diagnose", "--help"], ["lab", "zoo"]])
def test_help_that_nobody_reads_is_no_verdict_either(words):
    out, into = os.pipe()
    os.close(out)
    done = command(*words, stdout=into, stderr=subprocess.PIPE)
    os.close(into)
    assert done.returncode == 2
    assert not done.stderr


@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_full_disk_is_told_where_anything_can_be(buffering):
    others = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device, not a file of ours
        done = command("lab", "zoo", stdout=full, stderr=subprocess.PIPE, env=others | buffering)
        assert done.returncode == 2
        assert done.stderr == "walkback: the system refused: No space left on device.\n"
        assert command("--help", stdout=full, stderr=subprocess.PIPE, env=others | buffering).returncode == 2


@pytest.mark.parametrize("words", [["replay", AUDIT], ["lab", "zoo", "digits"], ["lab", "train", "--help"]])
def test_an_encoding_that_lacks_letters_is_no_reason_to_fail(words):
    plain = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = command(*words, capture_output=True, env=plain)
    assert done.returncode in (0, 1)
    assert done.stdout


def test_a_network_that_no_machine_holds_is_told_in_a_sentence(tmp_path):
    words = ["lab", "train", "--method", "bp", "--arch", "resmlp", "--data", "digits", "--set", "arch.width=3000000"]
    done = command(*words, capture_output=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("walkback: 33,527.6 GiB of memory were asked for at once")
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("option", [["--logits=--5"], ["--logits", "9" * 5000], ["--forward-kwargs", "[" * 100_000]])
def test_odd_options_of_diagnose_are_told(walkback, option):
    status, _, error = walkback("diagnose", "walkback.lab.zoo:nothing", *option)
    assert status == 2
    assert error.startswith("walkback: ")
    assert len(error) < 500
