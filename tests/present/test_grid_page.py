"""The page of several networks, and the tables beside it: structure and numbers."""

import csv
import io
import re
import shutil
import subprocess

import pytest
from figure_samples import AUDIT, TRACES, shown
from page_reader import Page
from present_samples import AWKWARD, HOSTILE, NAN, broken, full, hostile, many_sites

from walkback.errors import InputError
from walkback.lab.present.grid_page import grid_page
from walkback.present import html_grid, tables
from walkback.present.comparison import row, short_verdict
from walkback.present.html import render_network
from walkback.present.html_grid import GridPage, render
from walkback.present.network import Network


@pytest.fixture(scope="module")
def networks():
    return shown(AUDIT)


@pytest.fixture(scope="module")
def audit(networks):
    text = render(grid_page(networks, [str(AUDIT)]))
    return text, Page(text)


def test_every_network_has_a_row_with_the_figures_of_the_other_renderings(audit, networks):
    page = audit[1]
    rows = re.findall(r'<tr class="row">(.*?)</tr>', audit[0], re.DOTALL)
    assert len(rows) == len(networks) == 15
    for network, markup in zip(networks, rows, strict=True):
        words = " ".join(Page(f"<table>{markup}</table>").text("table")[0].split())
        assert words.startswith(network.method)
        assert short_verdict(network.report) in words
        assert all(cell in words for cell in row(network.report) if cell != "–")
    assert [e["attrs"]["data-fired"] for e in page.all("tbody") if "data-fired" in e["attrs"]][:4] == [
        "",
        "",
        "",
        "a b d",
    ]


def test_the_verdict_stands_in_one_line(audit):
    verdict = audit[1].text("section", aria_label="Verdict")[0]
    assert "5 methods, 15 networks: 3 need walk-back on every seed (DFA, STATE_BRIDGE, CREDIT_BRIDGE)" in verdict
    assert "2 are trustworthy (BP, EP)" in verdict
    assert "9 of 15 results should not be relied on as they stand" in verdict


def test_methods_and_seeds_are_a_table_whose_cells_lead_to_their_network(audit, networks):
    chips = [e for e in audit[1].all("a") if "chip" in e["attrs"].get("class", "")]
    assert len(chips) == 15
    for chip in chips:
        report = networks[int(chip["attrs"]["href"].removeprefix("#n"))].report
        fired = [r.letter for r in report.readings if r.state == "FIRE"]
        assert " ".join(chip["text"].split()) == (" ".join(fired) or "ok, no d")
        assert ("fire" in chip["attrs"]["class"]) == bool(fired)
    assert audit[1].all("use", href="#fire")
    assert audit[1].all("use", href="#pass")


def test_every_row_opens_its_own_detail(audit):
    page = audit[1]
    assert [e["attrs"]["aria-controls"] for e in page.all("button", class_="opener")] == [f"d{i}" for i in range(15)]
    assert [e["attrs"]["id"] for e in page.all("tr", class_="detail")] == [f"d{i}" for i in range(15)]
    details = re.findall(r'<tr class="detail".*?</div>\s*</td></tr>', audit[0], re.DOTALL)
    assert all(detail.count('<svg class="gauge"') == 4 for detail in details)
    assert "Do not rely on this result as it stands" in details[3]


def test_the_ablation_the_sensitivity_and_the_thresholds_are_there(audit):
    page = audit[1]
    headings = page.text("h2")
    assert "What would each reporting policy have concluded?" in headings
    assert "How much do the verdicts hang on the thresholds?" in headings
    assert "walked back0 of 5" in "".join(page.text("tr"))
    assert "Grey bar: thresholds from 11 leave every verdict as it is." in " ".join(page.text("p", class_="quiet"))
    assert len(page.all("svg", class_="chart dots")) == 4
    marks = [e for e in page.all("a") if e["attrs"].get("class") == "mark-fire"]
    assert len(marks) == 9 + 9 + 5 + 9


def test_courses_are_drawn_with_their_first_firings():
    found = shown(*TRACES)
    text = render(GridPage("two runs", found))
    page = Page(text)
    dfa = next(n for n in found if "dfa" in n.method)
    assert len(page.all("svg", class_="chart timeline")) == 7
    curves = [e["attrs"] for e in page.all("path") if "data-is" in e["attrs"]]
    for curve in curves:
        points = len(re.findall(r"[\d.]+,[\d.]+", curve["d"]))
        assert points == len(curve["data-at"].split("|")) == len(curve["data-is"].split("|"))
    at = dfa.moments[dfa.first_fired["b"]].at
    assert f"{dfa.name}: (b) first fires at {at}" in page.text("title")
    assert f"{at}" in " ".join(page.text("td"))
    single = Page(render_network(dfa))
    assert len(single.all("svg", class_="chart timeline")) == 7


def test_a_run_shows_its_configuration_command_and_versions():
    run = shown("results/runs/6fb7a8c2fb66.json")[0]
    page = Page(render_network(run))
    facts = dict(zip(page.text("dt"), page.text("dd"), strict=True))
    assert facts["command"] == run.run["command"]
    assert facts["arch.width"] == "256"
    assert "torch 2.13.0" in facts["versions"]


def test_awkward_networks_make_one_safe_page():
    text = render(GridPage(HOSTILE, [Network(report) for report in AWKWARD.values()]))
    page = Page(text)
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert not any(name.startswith("on") or name == "style" for e in page.elements for name in e["attrs"])
    numeric = {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "d", "viewbox"}
    for element in page.elements:
        for name, value in element["attrs"].items():
            assert name not in numeric or not re.search(r"nan|inf|None", value), (element["tag"], value)


def test_sixty_runs_of_two_hundred_sites_stay_under_two_megabytes():
    one = many_sites(200)
    many = [Network(one.model_copy(update={"method_name": f"m{i % 20}", "seed": i // 20})) for i in range(60)]
    text = render(GridPage("many", many))
    assert len(text.encode()) < 2_000_000
    assert text.count('<tbody id="n') == 60


def test_details_give_way_before_the_page_is_too_large(monkeypatch):
    grid = GridPage("many", [Network(full(seed=i)) for i in range(3)])
    for cards, charts in ((12, 12), (12, 0), (0, 0), (0, 0)):
        text = render(grid)
        assert text.count('<article class="card') == cards
        assert text.count('<svg class="chart" ') == charts
        assert ("do not fit one page in full" in text) == (charts == 0)
        monkeypatch.setattr(html_grid, "LARGEST", len(text.encode()) - 1)
    assert "details, courses and copies are left out" in text
    with pytest.raises(InputError, match="3 networks do not fit one page"):
        render(grid)


def test_the_tables_hold_the_same_numbers(networks):
    entries = list(csv.DictReader(io.StringIO(tables.as_csv(networks))))
    markdown, latex = tables.as_markdown(networks), tables.as_latex(networks)
    for network, entry in zip(networks, entries, strict=True):
        report = network.report
        assert float(entry["a_value"]) == report.max_per_block_growth
        assert float(entry["h_4"]) == report.residual_norms[-1]
        assert entry["d_state"] == report.reading("d").state.value
        cells = [cell for cell in row(report) if cell != "–"]
        line = f"| {markdown_name(network.method)} | {report.seed} |"
        written = next(text for text in markdown.splitlines() if text.startswith(line))
        assert all(cell in written for cell in cells)
    assert latex.count(r"\textbf{walk-back}") == 9


def markdown_name(name):
    return name.replace("_", "\\_")


def test_csv_marks_what_is_missing_and_what_a_spreadsheet_would_run():
    report = broken(NAN).model_copy(update={"method_name": "=cmd|' /C calc'!A0"})
    (entry,) = csv.DictReader(io.StringIO(tables.as_csv([Network(report)])))
    assert entry["method"].startswith("'=cmd")
    assert entry["a_value"] == "nan"
    (entry,) = csv.DictReader(io.StringIO(tables.as_csv([Network(AWKWARD["empty"])])))
    assert entry["a_value"] == entry["headline_acc"] == ""
    assert entry["a_state"] == "NOT_MEASURED"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("form", ["alone", "input"])
def test_latex_compiles_as_it_is_and_inside_a_paper(form, networks, tmp_path):
    # As it is, it must fit its page; the worst of names may run into the margin, and must still compile.
    hard = [Network(full()), *networks * 4, *([Network(hostile())] if form == "input" else [])]
    for name, found in (("grid", hard), ("one", networks[:1])):
        (tmp_path / f"{name}.tex").write_text(tables.as_latex(found), encoding="utf-8")
    main = "grid.tex"
    if form == "input":
        main = "paper.tex"
        (tmp_path / main).write_text(
            "\\documentclass{article}\\usepackage{booktabs}\\begin{document}Before.\n"
            "\\input{grid}\n\\input{one}\nAfter.\\end{document}\n"
        )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", main]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull \\hbox" not in done.stdout or form == "input"
    assert (tmp_path / main).with_suffix(".pdf").stat().st_size > 10_000
