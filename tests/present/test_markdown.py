import html.parser
import re

import pytest
from present_samples import AWKWARD, HOSTILE, fragile, full, healthy, many_sites

from walkback.present.markdown import escape, render, table


def rows_of(text, heading):
    """The cells of the first table after a heading."""
    lines = text[text.index(heading) :].split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    body = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        body.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return body


@pytest.mark.parametrize("name", AWKWARD)
def test_every_table_has_as_many_cells_in_each_row(name):
    text = render(AWKWARD[name])
    width = None
    for line in text.split("\n"):
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        assert width in (None, cells)
        width = cells


@pytest.mark.parametrize("name", AWKWARD)
def test_no_html_and_no_stray_line_comes_through(name):
    text = render(AWKWARD[name])
    seen = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attrs: seen.append(tag)
    parser.feed(text)
    assert not seen
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    starts = ("## walkback: ", "### ", "| ", "- ", "**Verdict:** ")
    loose = [line for line in text.split("\n") if line and not line.startswith(starts)]
    assert len(loose) <= 4


def test_the_four_diagnostics_stand_in_a_table():
    rows = rows_of(render(full()), "## walkback: DFA, seed 42")
    assert rows[0] == ["", "diagnostic", "value", "fires when", "reading", "interval"]
    assert rows[2] == ["(a)", "residual growth", "2040×", "&gt; 50×", "FIRE", "1960 to 2130× (95 %)"]
    assert rows[3] == [
        "(b)",
        "gradient floor",
        "4.17e-09",
        "&lt; 1e-07",
        "FIRE",
        "3.97e-09 to 4.38e-09 (95 %)",
    ]
    assert rows[4] == ["(c)", "direction drift", "0.0471", "&gt; 0.3", "PASS", "-0.0110 to 0.105 (95 %)"]
    assert rows[5][1:5] == ["frozen margin", "-3.83 pp", "&lt; 2 pp", "FIRE"]
    assert rows_of(render(fragile()), "## walkback")[2][4] == "FIRE, fragile"


def test_sites_and_null_stand_in_tables():
    sites = rows_of(render(full()), "### Along the network")
    assert " ".join(sites[3]) == ("blocks.0 7.32e+07 2040 4.19e-09 41.3 -0.0410 -3.10e-04 1.000 -0.0310 (a)")
    assert len(sites) == 2 + 5
    null = rows_of(render(full()), "### Γ and its null")
    assert null[2] == ["stem", "+0.429", "+0.441", "+0.00120", "0.0210", "+20.4"]


def test_verdict_gaps_thresholds_and_provenance_are_said():
    text = render(healthy())
    assert "**Verdict:** trustworthy on (a), (b), (c); (d) not measured" in text
    assert "- (d) frozen margin: No frozen baseline was given" in text
    assert "- alignment Γ: no credit rule was given" in text
    assert "- (b) median ‖g\\_L‖: &lt; 1e-07" in text
    assert "- torch: 2.13.0" in text
    assert "variance over seeds not included" in render(full())
    assert "- warning: credit at blocks.2 is constant over samples" in render(AWKWARD["undecided"])
    assert "- Γ: N/A: the checkpoint holds no feedback matrices" in render(AWKWARD["no_feedback"])


def test_many_sites_are_elided_and_it_says_so():
    text = render(many_sites())
    assert len(rows_of(text, "### Along the network")) == 2 + 22 + 3
    assert "178 of 200 rows are left out here" in text


def test_escaped_text_stands_for_itself():
    assert escape("a|b\nc `d` <e> *f* _g_ [h](i) # $j$") == (
        "a\\|b c \\`d\\` &lt;e&gt; \\*f\\* \\_g\\_ \\[h\\](i) \\# \\$j\\$"
    )
    assert escape("\\|") == "\\\\\\|"
    assert len(table(["x"], [[HOSTILE]], "l").split("\n")) == 3


def test_the_report_method_gives_this_rendering():
    assert full().to_markdown() == render(full())
