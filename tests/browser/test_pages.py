"""The pages as a reader uses them: opened from a file, sorted, filtered, opened, copied, pointed at."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "present"))

from figure_samples import AUDIT, TRACES, shown
from present_samples import AWKWARD, HOSTILE, full, hostile, many_sites

from walkback.lab.present.grid_page import grid_page
from walkback.present.html_grid import GridPage, render
from walkback.present.network import Network

WIDTHS = {"desktop": 1280, "phone": 390}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def grid(folder):
    path = folder / "grid.html"
    path.write_text(render(grid_page(shown(AUDIT), [str(AUDIT)])), encoding="utf-8")
    return path


def column(page, number):
    return page.eval_on_selector_all("#networks tbody:not(.off) tr.row", f"rows => rows.map(r => r.children[{number}].textContent.trim())")  # fmt: skip  # noqa: E501


def overflow(page):
    """How far the page itself is wider than its window; tables scroll inside it."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_it_sorts_by_number_and_by_word_both_ways(open_page, grid):
    page = open_page(grid)
    page.click("#networks thead th:nth-child(3) button")
    ascending = [float(cell) for cell in column(page, 2)]
    assert ascending == sorted(ascending)
    page.click("#networks thead th:nth-child(3) button")
    assert [float(cell) for cell in column(page, 2)] == ascending[::-1]
    page.click("#networks thead th:first-child button")
    assert column(page, 0) == sorted(column(page, 0), key=str.lower)
    page.click("#networks thead th:nth-child(8) button")
    margins = column(page, 7)
    assert margins[-6:] == ["–"] * 6  # not measured comes last
    page.click("#networks thead th:nth-child(8) button")
    assert column(page, 7)[-6:] == ["–"] * 6


def test_it_filters_by_word_verdict_and_letter(open_page, grid):
    page = open_page(grid)
    page.fill("#find", "bridge 42")
    assert column(page, 0) == ["STATE_BRIDGE", "CREDIT_BRIDGE"]
    assert page.text_content("#shown") == "2 of 15 shown"
    assert page.locator(".dots a:visible").count() == 2 * 4
    page.fill("#find", "")
    page.select_option("#kind", "pass")
    assert set(column(page, 0)) == {"BP", "EP"}
    page.select_option("#kind", "")
    page.select_option("#fired", "c")
    assert page.text_content("#shown") == "5 of 15 shown"


def test_a_row_opens_its_own_detail_and_closes_it(open_page, grid):
    page = open_page(grid)
    assert page.locator(".detail:visible").count() == 0
    page.click("#n3 .opener")
    assert page.locator(".detail:visible").count() == 1
    assert page.get_attribute("#n3 .opener", "aria-expanded") == "true"
    assert "2040×" in page.inner_text("#d3")
    page.click("#n3 .opener")
    assert page.locator(".detail:visible").count() == 0


def test_a_cell_of_the_matrix_leads_to_its_network(open_page, grid):
    page = open_page(grid)
    page.click('.chip[href="#n6"]')
    page.locator("#d6").wait_for(state="visible")  # the browser tells the page of its new address a moment later
    assert abs(page.locator("#n6").bounding_box()["y"]) < 300


def test_the_theme_goes_round(open_page, grid):
    page = open_page(grid, color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for name in ("auto", "light", "dark"):
        assert page.text_content("#theme") == f"Theme: {name}"
        seen.append(page.evaluate(paper))
        page.click("#theme")
    assert seen[0] == seen[1] != seen[2]
    assert page.text_content("#theme") == "Theme: auto"
    dark = open_page(grid, color_scheme="dark")
    assert dark.evaluate(paper) == seen[2]


@pytest.mark.parametrize("form", ["markdown", "latex", "csv"])
def test_it_copies_what_the_files_hold(open_page, grid, form):
    page = open_page(grid, permissions=["clipboard-read", "clipboard-write"])
    page.click(f'[data-copy="copy-{form}"]')
    page.wait_for_function(f"document.querySelector('[data-copy=\"copy-{form}\"]').textContent == 'Copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.input_value(f"#copy-{form}")
    assert "CREDIT" in copied


def test_without_a_clipboard_the_text_is_selected(open_page, folder):
    path = full().to_html(folder / "one.html")
    page = open_page(path)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.click('[data-copy="copy-latex"]')
    assert page.evaluate("String(getSelection()) || document.activeElement.id") != ""
    assert page.locator("#copy-latex").is_visible()


def test_pointing_at_a_curve_names_it_with_its_figure(open_page, folder):
    path = folder / "runs.html"
    path.write_text(render(GridPage("runs", shown(*TRACES))), encoding="utf-8")
    page = open_page(path)
    chart = page.locator(".timeline").nth(2)
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + box["height"] * 0.15)
    words = page.locator(".readout").nth(2).text_content()
    assert "resmlp_bp_s42_trace, epoch" in words
    assert page.locator(".curve.near").count() == 1
    page.mouse.move(5, 5)
    assert "Point at a curve" in page.locator(".readout").nth(2).text_content()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_nothing_is_wider_than_its_window(open_page, grid, folder, width):
    page = open_page(grid, width)
    page.click("#n3 .opener")
    assert overflow(page) <= 0
    for name in ("hostile", "nan", "one_block", "many_sites"):
        assert overflow(open_page(AWKWARD[name].to_html(folder / f"{name}.html"), width)) <= 0


def test_hostile_names_are_words_and_sixty_runs_are_usable(open_page, folder):
    one = many_sites(200)
    many = [Network(one.model_copy(update={"method_name": f"m{i % 20}", "seed": i // 20})) for i in range(60)]
    path = folder / "many.html"
    path.write_text(render(GridPage(HOSTILE, [*many, Network(hostile())])), encoding="utf-8")
    page = open_page(path)
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    assert page.evaluate("document.scripts.length") == 1
    assert overflow(page) <= 0
    page.click("#networks thead th:nth-child(3) button")
    page.fill("#find", "alert")
    assert page.text_content("#shown") == "1 of 61 shown"
    page.click("#n60 .opener")
    assert "<script>alert(1)</script>" in page.inner_text("#n60")


def test_paper_has_no_buttons_and_shows_what_was_opened(open_page, grid):
    page = open_page(grid)
    page.click("#n3 .opener")
    page.emulate_media(media="print")
    assert not page.locator("#theme").is_visible()
    assert not page.locator("#filters").is_visible()
    assert page.locator("#d3").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
