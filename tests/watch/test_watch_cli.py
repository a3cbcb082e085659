import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from walkback.cli.main import app_for

GOLDEN = Path(__file__).parents[1] / "golden"
DFA, BP = (str(GOLDEN / f"resmlp_{name}_s42_trace.jsonl") for name in ("dfa", "bp"))


def run(*arguments):
    return CliRunner().invoke(app_for(()), list(map(str, arguments)), env={"COLUMNS": "160"})


def test_one_look_shows_each_run_its_course_and_its_firings():
    result = run("watch", "--once", DFA, BP)
    assert result.exit_code == 0, result.output
    dfa, bp = (next(line for line in result.output.splitlines() if line.startswith(name)) for name in (
        "resmlp_dfa_s42", "resmlp_bp_s42"))  # fmt: skip
    assert dfa.startswith("resmlp_dfa_s42_trace")
    assert "epoch 3 (a) (b)" in dfa
    assert "▁" in dfa
    assert "█" in dfa
    assert "(a)" not in bp
    assert "58.27 %" in bp


def test_piped_it_shows_one_look():
    assert run("watch", BP).output == run("watch", "--once", BP).output


def test_a_trace_that_is_being_written_is_shown_without_its_last_line(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(Path(DFA).read_text() + '{"epoch": 40, "resid')
    assert "epoch 40" not in run("watch", "--once", path).output


def test_the_figure_is_written(tmp_path):
    result = run("watch", DFA, BP, "--plot", tmp_path / "w.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_draws_every_run_the_thresholds_and_the_stop():
    from walkback.cli.watch import _followed, _look
    from walkback.present.figures.traces import plot

    figure = plot(_look(_followed([Path(DFA), Path(BP)])))
    panels = dict(zip(("stream", "gradient", "growth", "accuracy"), figure.axes, strict=True))
    gradient = panels["gradient"].get_lines()
    assert any(list(line.get_ydata()) == [1e-7, 1e-7] for line in gradient)
    crosses = [line for line in panels["growth"].get_lines() if line.get_marker() == "X"]
    assert [float(x) for line in crosses for x in line.get_xdata()] == [3.0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("watch", "--once", "nowhere.jsonl"), "cannot read nowhere.jsonl"),
        (("watch", BP, "--plot", "/nowhere/w.png"), "cannot write"),
        (("watch", BP, "--plot", "/tmp/w.nonsense"), "cannot write the figure"),
        (("replay", BP, "--stop-on", "x"), "diagnostic 'x'"),
        (("replay", str(GOLDEN / "cnn_audit_3seed.json"), "--map", "h_0=nope,h_1=b"), "no column 'nope'"),
    ],
)
def test_bad_input_ends_in_a_sentence(arguments, expected):
    result = run(*arguments)
    assert expected in str(result.exception)


def test_replay_prints_the_course_and_writes_it(tmp_path):
    result = run("replay", DFA, BP, "--json", tmp_path / "r.json")
    assert result.exit_code == 0  # the status goes through run(), not through the test runner
    text = " ".join(result.output.split())
    assert "(a) at epoch 3, (b) at epoch 3" in text
    assert "The monitor would have stopped it: (a) residual stream exploded; (b) BP grad at numerical floor" in text
    assert "saves 40 % of the run" in text
    assert "The monitor would not have stopped it." in text
    dfa, bp = json.loads((tmp_path / "r.json").read_text())
    assert dfa["course"]["stop"]["epoch"] == 3
    assert bp["course"]["stop"] is None


def test_replay_of_a_partial_log_says_what_is_not_proven(tmp_path):
    (tmp_path / "l.csv").write_text("a,b,g\n35825,4.35e8,4.2e-9\n")
    result = run("replay", tmp_path / "l.csv", "--map", "h_0=a,h_L=b,g_2=g", "--blocks", "4")
    text = " ".join(result.output.split())
    assert "(a) undecided: The largest growth of a block is at least 10.5" in text
    assert "site 2, a proxy for the deepest site 4" in text


def test_replay_exits_by_its_verdicts_and_needs_no_torch():
    code = (
        f"import sys; from walkback.cli import main; sys.argv = ['walkback', 'replay', {DFA!r}]\n"
        "try: main.run()\n"
        "except SystemExit as end: print('torch' in sys.modules, end.code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False 1"


def test_replay_says_where_nothing_was_measured(tmp_path):
    measured = {"residual_norms": [1.0, 1.1], "bp_grad_norms": [1e-3, 1e-3]}
    gap = {"unmeasured": "h_1 is zero"}
    for name, lines, said in (
        ("all", [gap, gap], ["Nothing was measured at any of 2 moments", "(reason: h_1 is zero)"]),
        ("end", [measured, gap], ["1 measurement up to epoch 2", "At 1 moment nothing", "verdict above is incomplete"]),
        ("first", [gap, measured], ["1 measurement up to epoch 2", "At 1 moment nothing was measured"]),
    ):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"epoch": n} | line) + "\n" for n, line in enumerate(lines, 1)))
        result = run("replay", path)
        text = " ".join(result.output.split())
        assert [words in text for words in said] == [True] * len(said), text
        assert ("would not have stopped" in text) == (name != "all")
        assert ("incomplete" in text) == (name != "first")
