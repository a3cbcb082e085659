"""A diagnostic from outside shows in every rendering and picture, with its title, figure, state and threshold."""

from __future__ import annotations

import csv
import io
import json

import pytest
import torch
from fifth_diagnostic import EffectiveRank
from figure_samples import shown
from page_reader import Page
from present_samples import full, healthy

from walkback.integrations.scalars import scalars
from walkback.present import html, html_grid, tables, text
from walkback.present.figures import FIGURES
from walkback.present.html_grid import GridPage
from walkback.present.in_short import plain_verdict
from walkback.present.network import Network
from walkback.present.numbers import reading_value, with_unit
from walkback.present.outline import fires_when
from walkback.present.site_table import site_table
from walkback.present.template import TEMPLATES, form_of
from walkback.present.text_tables import site_blocks
from walkback.present.timeline import timelines
from walkback.protocol.diagnose import diagnose
from walkback.protocol.records import State
from walkback.registry import register, unregister
from walkback.watch.live import one_line
from walkback.watch.policy import Decision
from walkback.watch.trace_line import TraceLine

RANKS = [31.5, 12.25, 6.5, 3.25, 2.5]


@pytest.fixture(autouse=True)
def fifth():
    register("diagnostics", "effective_rank", EffectiveRank)
    yield
    unregister("diagnostics", "effective_rank")


def low():
    """It fires, on a network that fails anyway."""
    return full(extra={"effective_rank": 2.5, "site_ranks": RANKS})


def high():
    """It passes, on a healthy network."""
    return healthy(extra={"effective_rank": 31.5, "site_ranks": [31.5] * 5})


CASES = pytest.mark.parametrize(("report", "state"), [(low, State.FIRE), (high, State.PASS)])


@CASES
def test_it_is_judged_and_does_not_decide(report, state):
    made = report()
    assert made.reading("e").state is state
    assert "e" not in made.decided_by
    assert made.verdict == (full if report is low else healthy)().verdict


@CASES
@pytest.mark.parametrize("name", ["text", "markdown", "latex", "html"])
def test_a_rendering_shows_title_figure_threshold_state_and_role(name, report, state):
    made = report()
    words = " ".join(made.render(name).split())
    reading = made.reading("e")
    for said in (EffectiveRank.title, reading_value(reading), "not in april2026"):
        assert said in words
    assert state.value in words.upper()
    assert "4 dims" in words
    assert "(e)" in words


@CASES
def test_a_page_has_its_card_gauge_chart_and_column(report, state):
    made = report()
    page = Page(html.render(made))
    assert len(page.all("svg", class_="gauge")) == len(made.readings) == 5
    described = [e["attrs"]["aria-label"] for e in page.all("svg", class_="gauge")]
    assert any(fires_when(made.reading("e")) in words and state.value in words for words in described)
    assert "rank" in page.text("figcaption")
    assert "rank" in page.text("th")


def test_what_it_means_is_said_beside_the_verdict():
    assert EffectiveRank.meaning in plain_verdict(healthy(extra={"effective_rank": 2.5}))
    assert EffectiveRank.meaning not in plain_verdict(high())
    assert EffectiveRank.title in plain_verdict(healthy())  # not known, and named


def test_thresholds_and_the_form_of_an_appendix_name_it():
    for written in (low().to_markdown(), TEMPLATES["markdown"](form_of(low())), TEMPLATES["latex"](form_of(low()))):
        assert "effective rank" in written
        assert "4 dims" in written


def test_the_sites_have_its_column():
    words = text.to_plain(site_blocks(site_table(low()), text.WIDTH))
    assert "rank" in words
    assert "12.2" in words


def test_tables_of_several_networks_have_its_column():
    networks = [Network(low()), Network(high())]
    for written in (
        text.compare([n.report for n in networks]), tables.as_markdown(networks), tables.as_latex(networks),
    ):  # fmt: skip
        assert "effective rank" in written
        assert "2.50" in written
        assert "31.5" in written
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(networks))))
    assert [(r["e_state"], r["e_value"], r["e_threshold"], r["e_role"]) for r in rows] == [
        ("FIRE", "2.5", "4.0", "not in april2026"), ("PASS", "31.5", "4.0", "not in april2026"),
    ]  # fmt: skip
    assert [rows[0][f"site_ranks_{site}"] for site in range(5)] == [str(rank) for rank in RANKS]


def test_the_page_of_a_grid_filters_plots_and_tells_it():
    page = Page(html_grid.render(GridPage("two", [Network(low()), Network(high())])))
    options = [e["attrs"]["value"] for e in page.all("option")]
    assert "e" in options
    assert len(page.all("svg", class_="chart dots")) >= 5
    assert any("effective rank" in words for words in page.text("figcaption"))
    fired = [e["attrs"]["data-fired"] for e in page.all("tbody") if "data-fired" in e["attrs"]]
    assert fired == ["a b d e", ""]


def traced(tmp_path):
    lines = [
        {"epoch": epoch, "residual_norms": [8.0, 8.5], "bp_grad_norms": [1e-3, 1e-3], "accuracy": 0.5,
         "extra": {"effective_rank": rank}}
        for epoch, rank in enumerate([30.0, 20.0, 3.0, 2.0])
    ]  # fmt: skip
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_course_has_its_curve_and_its_first_firing(tmp_path):
    (network,) = shown(traced(tmp_path))
    assert network.series("e") == [30.0, 20.0, 3.0, 2.0]
    panel = next(panel for panel in timelines([network]) if panel.letter == "e")
    assert panel.threshold is not None
    assert panel.curves[0].mark[2].endswith("(e) first fires at epoch 2")
    assert "epoch 2" in Page(html_grid.render(GridPage("one", [network]))).text("td")


def test_the_figures_of_audits_and_traces_have_its_panel(tmp_path):
    from walkback.cli.watch import _followed, _look
    from walkback.present.figures.traces import plot

    audit = FIGURES.load("audit")([Network(low()), Network(high())])
    assert any("(e) effective rank" in axes.get_title(loc="left") for axes in audit.axes)
    assert "fires < 4 dims" in [note.get_text() for axes in audit.axes for note in axes.texts]
    traces = plot(_look(_followed([traced(tmp_path)]), to_the_end=True))
    axes = next(axes for axes in traces.axes if "(e) effective rank" in axes.get_title(loc="left"))
    assert list(axes.get_lines()[0].get_ydata()) == [30.0, 20.0, 3.0, 2.0]
    assert [4.0, 4.0] in [list(line.get_ydata()) for line in axes.get_lines()]


def test_the_live_line_and_trackers_show_it():
    line = TraceLine(epoch=2, residual_norms=[8.0, 8.5], extra={"effective_rank": 2.5}, fired=("e",))
    assert "effective rank 2.50" in one_line(line, Decision())
    assert scalars(line)["walkback/effective_rank"] == 2.5
    assert scalars(line)["walkback/fired/e"] == 1.0


def test_it_is_measured_on_a_network():
    torch.manual_seed(0)
    blocks = torch.nn.Sequential(*(torch.nn.Linear(6, 6) for _ in range(3)))
    network = torch.nn.Sequential(torch.nn.Linear(4, 6), blocks, torch.nn.Linear(6, 2))
    batch = torch.randn(32, 4), torch.randint(0, 2, (32,))
    report = diagnose(network, [batch], blocks=list(blocks), gradients=False)
    assert report.reading("e").value == report.extra["effective_rank"]
    assert with_unit("4", "dims") in report.to_text()
