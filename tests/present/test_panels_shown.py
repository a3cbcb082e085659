"""Reports under another panel: its verdict, labels, titles and roles in every form; and what others can add to it."""

from __future__ import annotations

import csv
import io
import sys

import pytest
from figure_samples import AUDIT, shown
from page_reader import Page
from present_samples import full, healthy

from walkback.cli import main
from walkback.errors import UnknownName
from walkback.lab.present.figures import figure_named
from walkback.present import html, html_grid, in_panel, tables, text
from walkback.present.comparison import short_verdict
from walkback.present.figures import FIGURES
from walkback.present.html_grid import GridPage
from walkback.present.in_panel import other_verdicts, other_verdicts_of_several
from walkback.present.in_short import plain_verdict
from walkback.present.network import Network
from walkback.present.outline import verdict_line
from walkback.present.template import TEMPLATES, form_of
from walkback.protocol.diagnostics.frozen_margin import SENSITIVE
from walkback.protocol.judge import judge
from walkback.protocol.panels import panel_named
from walkback.protocol.panels.base import Member, Panel
from walkback.protocol.panels.june2026 import JUNE_2026
from walkback.protocol.records import PanelVerdict, State
from walkback.registry import register, unregister

JUNE = "june2026"


def june():
    return full().under(JUNE)


@pytest.mark.parametrize("name", ["text", "markdown", "latex", "html"])
def test_a_rendering_has_the_verdict_labels_titles_and_roles_of_the_panel(name):
    words = " ".join(june().render(name).split())
    assert "FAIL(D1+D2+D3)" in words
    assert f"april2026: {full().verdict}" in words
    for member in JUNE_2026.members[:3]:
        assert member.label in words
        assert member.title in words
    assert "informs only" in words  # the cosine of every layer
    assert "not in june2026" in words  # (c)
    assert State.REPORTED.value in words.upper()


def test_a_pass_of_another_panel_on_part_of_its_diagnostics_says_on_how_many():
    report = judge(healthy().measurements, panel="calibrated").under("april2026")
    two = {"words": "pass on (a), (t)", "decided_by": ("a", "t")}
    verdict = PanelVerdict(panel="calibrated", version=1, outcome="pass", **two)
    deciding = len([m for m in panel_named("calibrated").members if m.role == "decides"])
    partly = report.model_copy(update={"verdicts": {**report.verdicts, "calibrated": verdict}})
    assert f"calibrated: pass on 2 of {deciding} diagnostics, (a), (t)" in other_verdicts(partly)
    assert f"calibrated: 2 pass (2 of {deciding} diagnostics)" in other_verdicts_of_several([partly, partly])
    whole = [m.letter for m in panel_named("calibrated").members if m.role == "decides"]
    fully = {**report.verdicts, "calibrated": verdict.model_copy(update={"decided_by": tuple(whole)})}
    assert "calibrated: 1 pass" in other_verdicts_of_several([report.model_copy(update={"verdicts": fully})])


def test_the_verdict_stands_first_where_a_reader_looks_first():
    report = june()
    assert report.to_text().splitlines()[0] == f"verdict: {verdict_line(report)}"
    assert report.to_markdown().splitlines()[2].startswith("**Verdict:** FAIL(D1+D2+D3)")
    assert "FAIL(D1+D2+D3)" in Page(html.render(report)).text("section", aria_label="Verdict")[0]
    assert "FAIL(D1+D2+D3)" in report.to_latex().split(r"\caption{")[1].splitlines()[0]
    assert "FAIL(D1+D2+D3)" in TEMPLATES["markdown"](form_of(report))


def test_sentences_speak_of_the_labels_that_the_reader_sees():
    report = june()
    assert in_panel.in_its_words(report, SENSITIVE).split()[0] == "D3"
    assert "(d)" not in report.to_text()


def test_reported_has_an_icon_a_card_and_a_style_of_its_own():
    page = Page(html.render(june()))
    assert len(page.all("article", class_="card info")) == 1
    assert page.all("use", href="#info")
    assert page.all("symbol", id="info")


def test_tables_and_pages_of_several_networks_follow_the_panel():
    networks = [Network(june()), Network(healthy().under(JUNE))]
    reports = [network.report for network in networks]
    assert short_verdict(reports[0]) == "FAIL D1 D2 D3"
    assert short_verdict(reports[1]).startswith("INCOMPLETE, no D3")
    for written in (text.compare(reports), tables.as_markdown(networks), tables.as_latex(networks)):
        assert "FAIL" in written
        assert "D1 scale stability" in written
        assert "april2026" in written
    row = next(csv.DictReader(io.StringIO(tables.as_csv(networks))))
    assert row["verdict"] == "FAIL(D1+D2+D3)"
    assert row["verdict_april2026"] == full().verdict
    assert (row["c_role"], row["g_role"], row["g_state"]) == ("not in june2026", "informs only", "REPORTED")
    page = Page(html_grid.render(GridPage("june", networks)))
    assert {"PASS", "FAIL", "INCOMPLETE", "D1", "D2", "D3", "(c)"} <= set(page.text("option"))
    assert "1 fails on every seed" in page.text("section", aria_label="Verdict")[0]


def test_seeds_of_a_method_are_told_in_the_words_of_the_panel():
    reports = [full(seed=seed, headline_acc=0.31 + seed / 1000).under(JUNE) for seed in (1, 2)]
    words = " ".join(text.compare(reports).split())
    assert "D1 scale stability: unanimous, 2 of 2 fire" in words
    assert "per-layer cosine: reported, never fires" in words


def test_every_figure_of_the_record_can_be_plotted_under_it():
    networks = [Network(n.report.under(JUNE)) for n in shown(AUDIT)]
    titles = [axes.get_title(loc="left") for axes in FIGURES.load("audit")(networks).axes]
    assert any(title.startswith("D1 ") for title in titles)
    assert FIGURES.load("sites")(networks)


def test_what_only_warns_says_so_and_fails_nothing():
    panel = Panel("mild", "a mild one", (Member("gradient_floor"), Member("residual_growth", role="warns")))
    register("panels", "mild", panel)
    try:
        report = full(bp_grad_norms=[1e-3] * 5, bp_grad_norm_intervals=None).under("mild")
        assert report.outcome == "pass"
        assert "warns only" in report.to_text()
        assert "Nothing that decides speaks against this result. Not part of the verdict: " in plain_verdict(report)
        assert short_verdict(report) == "pass; beside it a d"
    finally:
        unregister("panels", "mild")


def test_under_the_published_panel_nothing_is_said_of_roles():
    for name in ("text", "markdown", "latex"):
        assert "not in april2026" not in full().render(name)
    assert other_verdicts(full()).startswith("june2026: FAIL(D1+D2+D3)")


@pytest.fixture
def walkback(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["walkback", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main.run()
        return left.value.code or 0, *capsys.readouterr()

    return run


def shout(report):
    return f"{report.method_name.upper()}!"


def test_a_renderer_that_was_added_is_reached_by_its_name(walkback, tmp_path):
    saved = full().save(tmp_path / "r.json")
    register("renderers", "shout", shout)
    try:
        assert full().render("shout") == "DFA!"
        assert walkback("report", saved, "--as", "shout")[:2] == (0, "DFA!\n")
        assert walkback("report", saved, "--as", "shout", "--out", tmp_path / "o.txt")[0] == 0
        assert (tmp_path / "o.txt").read_text() == "DFA!\n"
    finally:
        unregister("renderers", "shout")
    with pytest.raises(UnknownName, match="no renderer called 'shout'"):
        full().render("shout")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--as", "shuot"], "there is no renderer called 'shuot'"),
        (["--as", "text", "--template", "latex"], "Give one of them"),
    ],
)
def test_bad_forms_end_in_a_sentence(walkback, tmp_path, arguments, expected):
    status, _, said = walkback("report", full().save(tmp_path / "r.json"), *arguments)
    assert status == 2
    assert expected in " ".join(said.split())


def count(networks):
    from walkback.present.figures.style import new_figure

    figure = new_figure(2, 2)
    figure.subplots().set_title(str(len(networks)))
    return figure


def test_a_figure_that_was_added_gets_the_networks_of_its_targets(walkback, tmp_path):
    register("figures", "count", count)
    try:
        assert figure_named("count", [str(AUDIT)], tmp_path).axes[0].get_title() == "15"
        assert walkback("figure", "count", AUDIT, "--out", tmp_path / "c.png", "--results", tmp_path)[0] == 0
        assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
        assert "Give what it is of" in walkback("figure", "count", "--results", tmp_path)[2]
    finally:
        unregister("figures", "count")
