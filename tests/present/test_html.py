import base64
import hashlib
import re
import subprocess
import sys

import pytest
from page_reader import Page
from present_samples import AWKWARD, full, many_sites

from walkback.present import latex, markdown
from walkback.present.html import render
from walkback.present.outline import sentence
from walkback.protocol.records import Alignment


@pytest.fixture(scope="module")
def pages():
    return {name: (render(report), Page(render(report))) for name, report in AWKWARD.items()}


@pytest.mark.parametrize("name", AWKWARD)
def test_it_is_one_small_closed_page_that_loads_nothing(pages, name):
    text, page = pages[name]
    assert text.startswith("<!doctype html>")
    assert len(text.encode()) < 300_000
    assert len(page.all("script")) == len(page.all("style")) == 1
    links = [value for e in page.elements for name, value in e["attrs"].items() if name in ("src", "href")]
    assert all(value.startswith("#") for value in links)
    assert not re.search(r"url\((?!#)|@import|https?:", page.all("style")[0]["text"])
    assert not any(name.startswith("on") for e in page.elements for name in e["attrs"])


@pytest.mark.parametrize("name", AWKWARD)
def test_no_position_in_a_picture_is_lost(pages, name):
    numeric = {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "d"}
    for element in pages[name][1].elements:
        for attribute, value in element["attrs"].items():
            if attribute in numeric:
                assert not re.search(r"nan|inf|None", value), (element["tag"], value)


def test_only_its_own_style_and_script_may_run(pages):
    page = pages["hostile"][1]
    allowed = page.all("meta", http_equiv="Content-Security-Policy")[0]["attrs"]["content"]
    assert "default-src 'none'" in allowed
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.all(tag)[0]["text"].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in allowed


def test_hostile_words_are_shown_as_words(pages):
    text, page = pages["hostile"]
    assert "<script>alert" not in text
    assert "alert(1)" not in page.all("script")[0]["text"]
    assert page.text("h1")[0].startswith("<script>alert(1)</script>")
    assert page.text("title")[0].startswith("walkback: <script>")
    assert len(page.text("p", class_="notes")[0]) > 10_000
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert any(e["text"].startswith("<script>alert(1)</script>") for e in page.all("bdi"))


def test_the_verdict_stands_in_one_line_with_a_shape_and_a_word(pages):
    section = pages["healthy"][1].all("section", aria_label="Verdict")
    assert "trustworthy on (a), (b), (c); (d) not measured" in section[0]["text"]
    assert section[0]["attrs"]["class"] == "verdict pass"
    assert 'class="verdict fire"' in pages["full"][0]
    assert 'class="verdict gap"' in pages["empty"][0]


def test_every_card_has_a_word_a_shape_a_figure_a_rule_a_picture_and_a_meaning(pages):
    text, page = pages["full"]
    cards = page.all("article")
    assert [c["attrs"]["class"] for c in cards] == ["card fire", "card fire", "card pass", "card fire"]
    assert page.text("p", class_="state") == ["FIRE", "FIRE", "PASS", "FIRE"]
    assert page.text("p", class_="value") == ["2040×", "4.17e-09", "0.0471", "-3.83 pp"]
    assert [r.split("at blocks.")[0] for r in page.text("p", class_="rule")] == [
        "fires when > 50×", "fires when < 1e-07", "fires when > 0.3", "fires when < 2 pp"
    ]  # fmt: skip
    assert page.text("p", class_="meaning") == [" ".join(sentence(full(), r).split()) for r in full().readings]
    pictures = page.all("svg", class_="gauge")
    assert len(pictures) == 4
    assert pictures[0]["attrs"]["aria-label"].startswith("FIRE, 2040×, fires when > 50×, 95 % interval 1960 to 2130×")
    for card in re.findall("<article.*?</article>", text, re.DOTALL):
        assert card.count('class="limit"') == card.count('class="zone"') == card.count('class="whisker"') == 1
        assert card.count('class="marker"') == 1


def test_states_differ_by_word_and_shape_not_colour_alone(pages):
    page = pages["undecided"][1]
    assert page.text("p", class_="state") == ["UNDECIDED", "PASS", "PASS", "NOT MEASURED"]
    symbols = {e["attrs"]["id"] for e in page.all("symbol")}
    used = {e["attrs"]["href"][1:] for e in page.all("use")}
    assert used == {"open", "pass", "gap"} <= symbols
    assert page.text("p", class_="warning") == ["Warning. credit at blocks.2 is constant over samples"]
    assert pages["fragile"][1].text("p", class_="state")[0] == "FIRE, fragile"


def test_the_sites_are_drawn_and_listed(pages):
    text, page = pages["full"]
    assert len(page.all("svg", class_="chart")) == 4
    assert "blocks.0: ‖h‖ 7.32e+07, 7.17e+07 to 7.47e+07" in page.text("title")
    assert text.count('class="band"') == 1
    row = next(t for t in page.text("tr") if t.startswith("blocks.0"))
    assert row == "blocks.07.32e+0720404.19e-0941.3-0.0410-3.10e-041.000-0.0310(a)"
    assert "Grey band: null mean ± 2 sd." in page.text("p", class_="quiet")


def test_what_was_not_measured_keeps_its_place(pages):
    missing = pages["empty"][1].text("p", class_="missing")
    assert missing == ["not measured at the sites"] * 3 + ["not measured: no credit rule was given"]
    assert pages["no_feedback"][1].text("p", class_="missing") == ["N/A: the checkpoint holds no feedback matrices"]
    assert "No frozen baseline was given" in "".join(pages["healthy"][1].text("dd"))


def test_lost_sites_are_marked_and_named(pages):
    text, page = pages["nan"]
    assert text.count('<g class="lost">') == 20
    assert " ".join(page.text("p", class_="quiet")).count("Cross: NaN, infinite or zero") == 4
    assert page.text("p", class_="value")[:3] == ["NaN"] * 3
    assert "NaN has no place here" in page.text("text")


def test_facts_thresholds_and_provenance_are_listed(pages):
    page = pages["full"][1]
    facts = dict(zip(page.text("dt"), page.text("dd"), strict=True))
    assert facts["accuracy"] == "31.07 % on 10,000 samples"
    assert facts["(b) median ‖g_L‖"] == "< 1e-07"
    assert facts["torch"] == "2.13.0"
    assert facts["null"].startswith("+0.00430 ± 0.00702 over 20 fresh draws")
    assert facts["read with care"].startswith("(b) fired")


def test_the_other_forms_are_there_to_copy(pages):
    page = pages["hostile"][1]
    report = AWKWARD["hostile"]
    assert page.all("textarea", id="copy-markdown")[0]["text"].lstrip("\n") == markdown.render(report)
    assert page.all("textarea", id="copy-latex")[0]["text"].lstrip("\n") == latex.render(report)
    assert {e["attrs"].get("data-copy") for e in page.all("button")} == {"copy-markdown", "copy-latex", None}


def test_light_dark_phone_and_paper_have_rules(pages):
    style = pages["full"][1].all("style")[0]["text"]
    for rule in ("prefers-color-scheme: dark", '[data-theme="dark"]', "max-width: 560px", "@media print"):
        assert rule in style
    assert pages["full"][1].text("button")[-1] == "Theme: auto"


def test_two_hundred_sites_scroll_and_two_thousand_are_elided():
    text = render(many_sites())
    assert len(re.findall(r"<tr>", text)) == 1 + 200
    assert "(200 rows; scroll)" in text
    long = render(many_sites(2000))
    assert "of 2000 rows are left out here" in long
    assert len(long.encode()) < 300_000


def test_a_page_that_would_be_too_large_gives_way():
    count = 240
    worst = "<" * 5000
    report = many_sites(count).model_copy(
        update={
            "sites": (worst,) * count,
            "notes": worst * 4,
            "warnings": (worst,) * 100,
            "provenance": {f"{i}{worst}": worst for i in range(100)},
            "alignment": Alignment(sites=(0.1,) * count, site_medians=(0.1,) * count, orders={worst: 0.1}),
        }
    )
    text = render(report)
    assert len(text.encode()) < 300_000
    assert "are left out here" in text
    assert "84 more in the record" in text


def test_the_report_method_writes_this_page(tmp_path):
    path = full().to_html(tmp_path / "r.html")
    assert path.read_text(encoding="utf-8") == render(full())


def test_rendering_needs_no_torch():
    code = (
        "import sys\n"
        "from walkback.registry import RENDERERS\n"
        "from walkback.protocol.judge import judge\n"
        "from walkback.protocol.records import Measurements\n"
        "report = judge(Measurements(residual_norms=[8.7, 8.8], bp_grad_norms=[8e-3, 8e-3]))\n"
        "assert all(RENDERERS.load(name)(report) for name in RENDERERS)\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
