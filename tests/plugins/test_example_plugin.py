"""examples/plugin, installed into a fresh place: every verb knows what it brings."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from installing import EXAMPLE, lay_out, lay_out_example, on_path

import walkback
from walkback.cli import main
from walkback.registry import GROUPS, RENDERERS, open_registry
from walkback.watch.trace import read_trace

ROOT = Path(__file__).parents[2]
NETWORK = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, h):
        return h + self.linear(h)

def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), Block(), Block(), nn.Linear(8, 3))
    return model, [(torch.randn(128, 4), torch.randint(3, (128,))) for _ in range(2)]
"""
TINY = ["--arch", "plain_mlp", "--data", "rings", "--epochs", "2", "--set", "arch.width=12"]


def pip_install(folder):
    """By pip itself, in isolation from whatever is installed here."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(EXAMPLE)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module", params=["by hand", pytest.param("by pip", marks=pytest.mark.slow)])
def place(request, tmp_path_factory):
    """A fresh folder with the package in it, where Python looks for packages."""
    folder = tmp_path_factory.mktemp("site")
    (lay_out_example if request.param == "by hand" else pip_install)(folder)
    with on_path(folder):
        yield folder


@pytest.fixture(scope="module")
def work(place, tmp_path_factory):
    """A folder to work in, with a network to diagnose."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "target.py").write_text(NETWORK)
    return folder


@pytest.fixture
def run(work, monkeypatch, capsys):
    """The command line in this process: exit status, output and errors."""
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["walkback", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        seen = capsys.readouterr()
        return SimpleNamespace(status=ended.value.code, out=seen.out, err=seen.err)

    return call


@pytest.fixture(scope="module")
def record(place, work):
    """The report on the network, fired by (e), as a file."""
    sys.modules.pop("target", None)
    scope = {}
    exec(NETWORK, scope)
    thresholds = walkback.DiagnosticThresholds(rank_floor=7.9)
    return walkback.diagnose(*scope["network"](), thresholds=thresholds).save(work / "record.json")


@pytest.fixture(scope="module")
def audit(place, work):
    """DRTP and BP on the plain MLP and the rings, trained in worker processes and judged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(place), str(ROOT / "src")]))
        words = ["--methods", "bp", "plain_drtp", *TINY, "data.samples=400", "--seeds", "1", "--name", "example"]
        main.app(["lab", "audit", *words, "--workers", "1"])
    return work / "results" / "audit_example.json"


def test_it_brings_one_of_each(place):
    for group in GROUPS:
        rows = open_registry(group)
        assert len(set(rows) - set(rows.own)) == 1
        assert {name for name, _ in rows.loaded()} == set(rows)


def test_the_diagnostic_is_short():
    lines = (EXAMPLE / "src" / "walkback_example" / "effective_rank.py").read_text().splitlines()
    assert len(lines) <= 40


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_effective_rank_is_that_of_a_slow_twin(place, rank):
    from walkback_example.effective_rank import EffectiveRank

    rng = np.random.default_rng(rank)
    states = rng.standard_normal((40, rank)) @ rng.standard_normal((rank, 6)) + 5
    values = np.sqrt(np.clip(np.linalg.eigvalsh(np.cov(states.T)), 0, None))
    shares = [v / values.sum() for v in values if v / values.sum() > 1e-9]
    expected = np.prod([share**-share for share in shares])
    found = EffectiveRank.summarise(torch.from_numpy(states))["effective_rank"]
    assert found == pytest.approx(expected, rel=1e-5)
    assert 1 - 1e-6 <= found <= rank + 1e-6


def test_what_has_no_rank(place):
    from walkback_example.effective_rank import EffectiveRank

    assert EffectiveRank.summarise(torch.ones(4, 3).double())["effective_rank"] == 1
    broken = EffectiveRank.summarise(torch.full((4, 3), torch.nan).double())["effective_rank"]
    reading = EffectiveRank().judge(walkback.Measurements(extra={"effective_rank": broken}))
    assert (reading.state, reading.reason) == (walkback.State.FIRE, "non-finite values")
    assert EffectiveRank().judge(walkback.Measurements()).state is walkback.State.NOT_MEASURED


def test_the_credit_of_drtp_is_the_row_of_the_target(place):
    from walkback.lab.zoo import DataSpec, build_method, build_model

    model = build_model("plain_mlp", DataSpec((2,), 3), width=5, depth=2)
    method = build_method("plain_drtp", model, torch.Generator().manual_seed(0))
    hiddens = [torch.zeros(4, 5)] * 3
    trace = walkback.Trace(torch.zeros(4, 2), hiddens, torch.zeros(4, 3), torch.tensor([2, 0, 1, 2]), torch.ones(4, 3))
    for site, credit in enumerate(method.credits(trace)):
        matrix = method.get_buffer(f"feedback_{site}")
        torch.testing.assert_close(credit, torch.stack([matrix[2], matrix[0], matrix[1], matrix[2]]))


# ── diagnose, report, replay, watch ──────────────────────────────────────────────────────────────────────────────


def test_diagnose_has_a_fifth_row_and_an_option(run, work):
    words = ["--rank-floor", "7.9", "--json", work / "d.json", "--html", work / "d.html"]
    ended = run("diagnose", "target.py:network", *words)
    assert ended.status in (0, 1)  # the published four decide
    assert "(e) effective rank" in ended.out
    data = json.loads((work / "d.json").read_text())
    reading = next(r for r in data["readings"] if r["letter"] == "e")
    assert (reading["state"], reading["threshold"]) == ("FIRE", 7.9)
    assert data["extra"]["effective_rank"] == reading["value"]
    assert data["thresholds"]["rank_floor"] == 7.9
    assert "effective rank" in (work / "d.html").read_text()


def test_its_panel_decides(run):
    ended = run("diagnose", "target.py:network", "--panel", "ranked", "--rank-floor", "7.9")
    assert ended.status == 1
    assert "(ranked)" in ended.out
    assert run("diagnose", "target.py:network", "--panel", "walkback_example.ranked:RANKED").status == 0
    ended = run("diagnose", "target.py:network", "--rank-floor", "0.5")
    assert ended.status == 2
    assert "rank-floor: expected a number of at least 1" in ended.err


@pytest.mark.parametrize("form", ["html", "markdown", "latex", "csv"])
def test_report_shows_it_in_every_form(run, record, work, form):
    out = work / f"shown.{form}"
    assert run("report", record, f"--{form}", out).status == 0
    text = out.read_text()
    if form == "csv":
        (row,) = csv.DictReader(io.StringIO(text))
        assert float(row["e_value"]) == json.loads(record.read_text())["extra"]["effective_rank"]
    else:
        assert "effective rank" in text


def test_report_shows_it_in_text_and_by_its_renderer(run, record, work):
    assert "(e) effective rank" in run("report", record).out
    one_line = run("report", record, "--as", "one_line").out
    assert "(e) fire" in one_line
    assert one_line.count("\n") == 1
    assert run("report", record, "--as", "walkback_example.one_line:render").out == one_line
    assert run("report", record, "--as", "one_line", "--out", work / "line.txt").status == 0
    assert (work / "line.txt").read_text() == one_line
    assert walkback.DiagnosticReport.load(record).render("one_line") == one_line.strip()
    assert "Did you mean 'one_line'" in run("report", record, "--as", "oneline").err


@pytest.mark.parametrize("template", ["markdown", "latex"])
def test_its_reading_is_in_the_form(run, record, template):
    assert "effective rank" in run("report", record, "--template", template).out


@pytest.fixture
def trace(place, work, tmp_path):
    """A run that (e) stopped, as its monitor kept it."""
    scope = {}
    exec(NETWORK, scope)
    model, batches = scope["network"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    thresholds = walkback.DiagnosticThresholds(rank_floor=7.9)
    path = tmp_path / "trace.jsonl"
    monitor = walkback.Monitor(model, batches, stop_on=("e",), thresholds=thresholds, trace=path, warmup=2)
    for epoch in range(1, 6):
        optimizer.zero_grad()
        F.cross_entropy(model(batches[0][0]), batches[0][1]).backward()
        optimizer.step()
        if monitor.step(epoch=epoch).stop:
            break
    assert epoch == 2
    assert "one direction" in monitor.decision.reason
    assert monitor.decision.first_fired["e"].epoch == 1
    return path


def test_the_monitor_stops_on_it_and_the_trace_keeps_it(trace):
    lines = read_trace(trace)
    assert [line.action for line in lines] == ["continue", "stop"]
    assert all(1 < line.measurements().value_of("effective_rank") < 8 for line in lines)
    assert '"effective_rank"' in trace.read_text().splitlines()[-1]


def test_replay_says_that_it_would_have_stopped(run, trace, work):
    words = ["--stop-on", "e", "--warmup", "2"]
    ended = run("replay", trace, *words, "--rank-floor", "7.9", "--json", work / "replayed.json")
    told = " ".join(ended.out.split())
    assert "(e)" in told
    assert "The monitor would have stopped it" in told
    (entry,) = json.loads((work / "replayed.json").read_text())
    assert entry["course"]["stop"]["epoch"] == 2
    assert "would not have stopped" in " ".join(run("replay", trace, *words, "--rank-floor", "1").out.split())
    assert run("replay", trace, "--panel", "ranked", "--rank-floor", "7.9").status == 1


def test_watch_shows_that_it_fired(place, run, tmp_path):
    scope = {}
    exec(NETWORK, scope)
    model, batches = scope["network"]()
    with torch.no_grad():
        for parameter in model[:-1].parameters():
            parameter.zero_()
        model[0].weight[:, 0] = 1  # every state lies along one direction
    walkback.Monitor(model, batches, trace=tmp_path / "trace.jsonl").step(epoch=1)
    assert "(e)" in run("watch", tmp_path / "trace.jsonl", "--once").out


# ── figure, lint, pitfalls, schema ───────────────────────────────────────────────────────────────────────────────


def test_its_figure_is_plotted(run, record, work):
    assert run("figure", "ranks", record, "--out", work / "ranks.svg").status == 0
    assert "<svg" in (work / "ranks.svg").read_text()
    assert run("figure", "walkback_example.ranks:plot", record).status == 0
    assert (work / "plot.png").read_bytes().startswith(b"\x89PNG")
    ended = run("figure", "rank", record)
    assert ended.status == 2
    assert "Did you mean 'ranks'" in ended.err


def test_its_lint_rule_finds(run, work):
    code = work / "evaluation.py"
    code.write_text(
        "import torch\n\nrank = torch.linalg.matrix_rank(h)\nfine = torch.linalg.matrix_rank(h, rtol=1e-3)\n"
    )
    ended = run("lint", code)
    assert ended.status == 1
    assert "EX001" in ended.out
    assert ":3:" in ended.out
    assert run("lint", code, "--select", "EX").status == 1
    assert run("lint", code, "--select", "walkback_example.bare_rank:RULE").status == 1
    assert run("lint", code, "--ignore", "EX001").status == 0
    assert "EX001" in run("lint", "--rules").out
    sarif = json.loads(run("lint", code, "--format", "sarif").out)
    assert [found["ruleId"] for found in sarif["runs"][0]["results"]] == ["EX001"]
    code.write_text("import torch\n\nrank = torch.linalg.matrix_rank(h)  # noqa: EX001\n")
    assert run("lint", code).status == 0


def test_its_pitfall_is_listed_shown_and_checked(run):
    listed = run("pitfalls")
    assert "exact_rank" in listed.out
    assert "EX001" in listed.out
    shown = run("pitfalls", "show", "exact_rank")
    assert shown.status == 0
    assert "NOT SHOWN" not in shown.out
    assert run("pitfalls", "check", "exact_rank").status == 0
    assert run("pitfalls", "show", "walkback_example.exact_rank:PITFALL").status == 0
    assert "exact_rank" in run("pitfalls", "checklist").out


def test_schema_has_its_threshold(run):
    schema = json.loads(run("schema").out)
    assert schema["$defs"]["DiagnosticThresholds"]["properties"]["rank_floor"]["default"] == 2.0


# ── lab ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_zoo_and_data_list_what_it_brings(run):
    listed = run("lab", "zoo").out
    assert all(name in listed for name in ("plain_drtp", "plain_mlp", "rings"))
    assert "the target, not the error" in listed
    shown = run("lab", "zoo", "plain_mlp")
    assert "--set arch.width=64" in shown.out
    assert "--set method.penalty" in run("lab", "zoo", "walkback_example.drtp:DRTP").out
    assert "--set data.rings=3" in run("lab", "zoo", "walkback_example.rings:load").out
    assert "rings" in run("lab", "data", "list").out


def test_train_and_diagnose_what_was_trained(run, work):
    words = ["--method", "plain_drtp", *TINY, "--set", "data.samples=400"]
    ended = run("lab", "train", *words)
    assert ended.status == 0
    assert "(e) effective rank" in ended.out
    assert "finished already" in run("lab", "train", *words).err
    rows = run("lab", "runs", "--method", "plain_drtp")
    assert "plain_mlp-rings-plain_drtp" in rows.out
    run_id = next(line.split()[0] for line in rows.out.splitlines() if "plain_drtp" in line)
    assert "(e) effective rank" in run("diagnose", run_id).out
    assert "(ranked)" in run("diagnose", run_id, "--panel", "ranked").out


def test_methods_architectures_and_data_by_address(run, work):
    words = ["--arch", "walkback_example.plain_mlp:plain_mlp", "--data", "walkback_example.rings:load"]
    words += ["--epochs", "1", "--set", "arch.width=12", "--set", "data.samples=400"]
    ended = run("lab", "train", "--method", "walkback_example.drtp:DRTP", *words, "--runs", "addressed")
    assert ended.status == 0
    (folder,) = (work / "addressed").iterdir()
    assert json.loads((folder / "config.json").read_text())["config"]["method"] == "walkback_example.drtp:DRTP"
    assert "(e) effective rank" in run("report", folder).out
    listed = run("lab", "audit", "--methods", "walkback_example.drtp:DRTP:penalty=0.1", *words, "--list")
    assert listed.status == 0
    assert "walkback_example.drtp:DRTP:penalty=0.1" in listed.out


def test_an_audit_trains_and_judges_them(audit, run):
    data = json.loads(audit.read_text())
    assert {row["method"] for row in data["runs"]} == {"bp", "plain_drtp"}
    assert all(not row["error"] for row in data["runs"])
    assert all(report["extra"]["effective_rank"] > 1 for report in data["reports"])
    assert run("figure", "ranks", audit).status == 0
    assert run("report", audit, "--html", "grid.html").status == 0
    assert "effective rank" in Path("grid.html").read_text()


# needs the derived rendering
def test_a_study_sweeps_its_threshold(audit, run, work):
    ended = run("lab", "study", "sensitivity", audit, "--markdown", work / "pages")
    assert ended.status == 0
    (path,) = (work / "results").glob("sensitivity_*.json")
    found = json.loads(path.read_text())
    assert found["diagnostics"]["e"]["threshold"] == 2.0
    assert len(found["sweeps"]["e"]) > 5
    assert {point["fired"] for point in found["sweeps"]["e"]} == {0, found["networks"]}


# ── A process of its own ─────────────────────────────────────────────────────────────────────────────────────────


def test_another_process_finds_it_by_its_path(place, work):
    code = "import sys; sys.argv = ['walkback', *sys.argv[1:]]; from walkback.cli.entry import run; run()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), str(ROOT / "src")])}
    words = [sys.executable, "-c", code, "diagnose", "target.py:network", "--panel", "ranked", "--full"]
    ended = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "(e) effective rank" in ended.stdout


def test_nothing_of_it_stays_when_it_is_gone(tmp_path):
    elsewhere = tmp_path / "site"
    elsewhere.mkdir()
    (elsewhere / "gone.py").write_text("def render(report):\n    return ''\n")
    lay_out(elsewhere, "gone_package", {"renderers": {"gone": "gone:render"}})
    with on_path(elsewhere):
        assert "gone" in RENDERERS
        assert RENDERERS.load("gone")(None) == ""
    assert "gone" not in RENDERERS
    assert "gone" not in sys.modules
