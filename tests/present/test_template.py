"""The reporting template: what a record holds stands in it, what it lacks is marked, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from present_samples import AWKWARD, HOSTILE, full, healthy

from walkback.cli import main
from walkback.lab.present.normalisation import with_normalisation
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.runs.baselines import matched_baseline
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import described
from walkback.lab.runs.verbs import todays, with_todays_commands
from walkback.pitfalls.typed_numbers import unsupported
from walkback.present.template import TEMPLATES, form_of
from walkback.protocol.carrying import carried_by_one

RUNS = Path(__file__).parents[2] / "results" / "runs"
RUN = RUNS / "c4076e949153.json"
RESULT = with_todays_commands(json.loads(RUN.read_text()))


@pytest.fixture
def report(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["walkback", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main.run()
        return left.value.code, *capsys.readouterr()

    return run


def entries(form):
    return {entry.label: entry.value for section in form.sections for entry in section.entries}


def test_a_run_fills_in_all_that_it_has(report):
    status, page, _ = report(RUN, "--template", "markdown")
    assert status == 0
    config = RESULT["config"]
    for words in (
        f"**method**: {config['method']} (",
        "width 256, depth 4",
        f"{RESULT['trained_parameters']:,} trained parameters",
        "pre-norm LayerNorm in each block; a terminal norm",
        f"{config['optimizer']}; learning rate {config['learning_rate']}",
        f"**epochs**: {config['epochs']}",
        f"**seeds**: {config['seed']};",
        f"**command**: {todays(RESULT['command'])}",
        f"**commit**: {RESULT['commit']}",
        f"torch {RESULT['versions']['torch']}",
        f"**accuracy**: {100 * RESULT['accuracy']:.2f} %",
        "| (b) gradient floor | 5.35e-08 | &lt; 1e-07 | fire |",
        "**(d) frozen margin**: No frozen baseline was given",
    ):
        assert words in page
    for name, gamma in zip(RESULT["report"]["sites"], RESULT["report"]["alignment"]["sites"], strict=True):
        assert re.search(rf"^\| {re.escape(name)} \| {re.escape(f'{gamma:+.3g}')}", page, re.MULTILINE)
    assert page.count("TO FILL IN") == 1
    assert f"TO FILL IN: train it: {todays(RESULT['baseline']['command'])}" in page


def test_the_figures_are_those_of_the_record(report):
    _, page, _ = report(RUN, "--template", "markdown")
    growths = [
        b / a for a, b in zip(RESULT["report"]["residual_norms"], RESULT["report"]["residual_norms"][1:], strict=False)
    ]
    figures = "\n".join(line for line in page.splitlines() if line.startswith("| ") or "null" in line)
    losses = [line["loss"] for line in RESULT["trace"] if line.get("loss") is not None]
    carried = [[each.mean, each.without] for each in carried_by_one(RESULT["report"]["alignment"]["sites"])]
    assert unsupported(figures, [RESULT["report"], growths, carried, losses[0] - losses[-1]]) == []


def test_the_baseline_beside_a_run_is_taken_in(report, tmp_path):
    (tmp_path / RUN.name).write_bytes(RUN.read_bytes())
    told = {"accuracy": 0.3011, "report": RESULT["report"] | {"headline_acc": 0.3011}}
    told["trace"] = [*RESULT["trace"][:-1], RESULT["trace"][-1] | {"accuracy": 0.3011}]
    baseline = RESULT | described(matched_baseline(RunConfig.from_dict(RESULT["config"]))) | told
    (tmp_path / f"{RESULT['baseline']['id']}.json").write_text(json.dumps(baseline))
    _, page, _ = report(tmp_path / RUN.name, "--template", "markdown")
    assert "**matched frozen baseline**: 30.11 % on 10,000 samples" in page
    assert f"{100 * (RESULT['accuracy'] - 0.3011):+.2f} pp" in page
    assert "TO FILL IN" not in page


def test_a_run_is_found_by_its_id(report, monkeypatch):
    monkeypatch.chdir(RUNS.parents[1])
    assert report(RESULT["id"][:6], "--template", "latex")[1] == report(RUN, "--template", "latex")[1]


def test_a_report_alone_leaves_the_training_to_be_filled_in(report, tmp_path):
    path = full().save(tmp_path / "r.json")
    status, page, _ = report(path, "--template", "markdown")
    assert status == 0
    assert "**method**: DFA" in page
    for label in ("architecture", "normalisation", "data", "optimizer", "epochs", "command", "commit"):
        assert f"**{label}**: TO FILL IN: " in page
    assert "| (a) residual growth | 2040× |" in page
    assert "| stem | +0.429 | +0.00120 | 0.0210 | +20.4 |" in page


def test_an_empty_form_has_everything_to_fill_in(report):
    status, page, _ = report("--template", "markdown")
    assert status == 0
    assert page.count("TO FILL IN") == form_of(None).gaps > 15
    assert not re.search(r"\*\*: (?!TO FILL IN)", page)


def test_what_was_not_measured_is_listed():
    assert entries(form_of(healthy()))["(d) frozen margin"].startswith("No frozen baseline")
    assert entries(form_of(AWKWARD["no_feedback"]))["Γ"].startswith("N/A: the checkpoint holds no feedback")
    everything = full()
    known = everything.model_copy(update={"readings": tuple(r for r in everything.readings if r.letter in "abcd")})
    assert "nothing" in entries(form_of(known))


def test_labels_drawn_at_random_are_told():
    settings = {"data": "digits", "data_options": {}, "augment": True}
    assert entries(form_of(None, {"config": settings}))["data"] == "digits; augmentation on"
    told = entries(form_of(None, {"config": settings | {"targets": "random"}}))["data"]
    assert told == "digits; augmentation on; training labels drawn at random"


def test_the_norm_of_a_run_is_the_one_that_it_has():
    def said(**options):
        config = {"architecture": "mlp", "architecture_options": options}
        return with_normalisation({"config": config})["normalisation"]

    assert said() == said(norm="none") == "no norm"
    assert "BatchNorm" in said(norm="batch")
    assert "RMS" in said(norm="length")


def test_every_architecture_has_its_normalisation():
    said = {name: with_normalisation({"config": {"architecture": name}})["normalisation"] for name in ARCHITECTURES.own}
    assert all("norm" in words.lower() for words in said.values())


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("template", TEMPLATES)
def test_awkward_reports_are_rendered(template, name):
    text = TEMPLATES[template](form_of(AWKWARD[name]))
    assert "\x1b" not in text
    assert "<script>" not in text
    if template == "latex":
        assert text.isascii()
        assert text.count("\\begin{description}") == text.count("\\end{description}")


def test_hostile_words_in_a_run_are_escaped():
    run = RESULT | {"command": HOSTILE, "commit": HOSTILE, "ended": HOSTILE}
    for render in TEMPLATES.values():
        text = render(form_of(full(), run))
        assert "<script>" not in text
        assert "\x1b" not in text


def test_a_command_keeps_its_hyphens_in_latex():
    text = TEMPLATES["latex"](form_of(full(), with_todays_commands(RESULT)))
    assert r"walkback lab train \mbox{-{}-}method dfa" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "there is nothing to report on"),
        ([RUN, "--template", "latx"], "Did you mean 'latex'"),
        (["nothing.json", "--template", "latex"], "cannot read nothing.json"),
        (["ffffffff", "--template", "latex"], "there is no run 'ffffffff'"),
        ([RUN, "--template", "latex", "--out", "no/such/folder/x.tex"], "cannot write"),
    ],
)
def test_what_cannot_work_is_refused(report, arguments, words):
    status, out, error = report(*arguments)
    assert status == 2
    assert words in error
    assert not out


@pytest.mark.parametrize(
    "content",
    ['{"result_version": 1}', '{"result_version": 1, "baseline": 3}', "[]", "{}", "{", '{"schema_version": 1}'],
)
def test_a_file_that_is_no_record_is_refused(report, tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    status, _, error = report(path, "--template", "markdown")
    assert status in (0, 2)
    if content != '{"schema_version": 1}':  # a report in which nothing was measured is still one
        assert status == 2
        assert "x.json" in error


def test_it_is_written_to_a_file(report, tmp_path):
    status, out, _ = report(RUN, "--template", "latex", "--out", tmp_path / "form.tex")
    assert (status, out) == (0, f"written: {tmp_path / 'form.tex'}\n")
    assert (tmp_path / "form.tex").read_text() == report(RUN, "--template", "latex")[1]


@pytest.mark.skipif(
    shutil.which("pdflatex") is None
    or not subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False).stdout,
    reason="pdflatex with booktabs is not installed",
)
def test_it_compiles(tmp_path):
    forms = [form_of(full(), RESULT), form_of(None), *map(form_of, AWKWARD.values())]
    body = "\n\\clearpage\n".join(TEMPLATES["latex"](form) for form in forms)
    document = r"\documentclass{article}\usepackage{booktabs}\begin{document}" + body + r"\end{document}"
    (tmp_path / "form.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "form.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")


def test_an_audit_of_several_networks_is_refused(report):
    status, out, error = report(RUNS.parent / "audit_resmlp_d256.json", "--template", "latex")
    assert status == 2
    assert "the form of one network" in error
    assert not out
