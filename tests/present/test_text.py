import io
import re

import pytest
from present_samples import AWKWARD, HOSTILE, around, fragile, full, healthy, many_sites
from rich.cells import cell_len
from rich.console import Console

from walkback.present.outline import sentence
from walkback.present.text import WIDTH, print_report, render
from walkback.protocol.thresholds import DiagnosticThresholds

LONG = full(sites=[f"encoder.layer.{i}.output.dense.with.a.long.path" for i in range(5)])


@pytest.mark.parametrize("name", AWKWARD)
def test_it_is_plain_narrow_and_begins_with_the_verdict(name):
    text = render(AWKWARD[name])
    lines = text.split("\n")
    assert max(cell_len(line) for line in lines) <= WIDTH
    assert not any(line != line.rstrip() for line in lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert lines[0].startswith("verdict: ")


def test_every_reading_says_its_figure_its_rule_its_state_its_interval_and_its_meaning():
    report = full()
    text = render(report)
    assert re.search(r"\(a\) residual growth +FIRE +2040× +fires when > 50× +at blocks\.0", text)
    assert re.search(r"\(b\) gradient floor +FIRE +4\.17e-09 +fires when < 1e-07 +at blocks\.3", text)
    assert re.search(r"\(c\) direction drift +PASS +0\.0471 +fires when > 0\.3 +at blocks\.1", text)
    assert re.search(r"\(d\) frozen margin +FIRE +-3\.83 pp +fires when < 2 pp", text)
    assert "95 % interval -0.0110 to 0.105 (jackknife over 10 groups)" in text
    unwrapped = " ".join(text.split())
    for reading in report.readings:
        assert " ".join(sentence(report, reading).split()) in unwrapped


def test_a_reading_that_another_sample_could_turn_is_called_fragile():
    assert re.search(r"\(a\) residual growth +FIRE, fragile +50\.4×", render(fragile()))
    assert "fragile" not in render(full())


def test_thresholds_that_were_changed_are_the_ones_shown():
    text = render(full(thresholds=DiagnosticThresholds(h_norm_explosion_ratio=3000, frozen_acc_margin_pp=-8)))
    assert re.search(r"\(a\) residual growth +PASS +2040× +fires when > 3000×", text)
    assert re.search(r"\(d\) frozen margin +PASS +-3\.83 pp +fires when < -8 pp", text)


def squeezed(line):
    return " ".join(line.split())


def test_the_sites_stand_in_a_table_with_every_figure():
    lines = render(full()).split("\n")
    head = next(i for i, line in enumerate(lines) if line.startswith("block  "))
    assert squeezed(lines[head]) == "block ‖h‖ growth ‖g‖ scale-free (c) drift ρ fidelity Γ"
    first, second = "stem 35800 – 4.39e-07 2.21 0.213", "blocks.0 7.32e+07 2040 4.19e-09 41.3 -0.0410"
    assert squeezed(lines[head + 2]) == f"{first} 0.00210 1.000 +0.429"
    assert squeezed(lines[head + 3]) == f"{second} -3.10e-04 1.000 -0.0310"
    assert lines[head + 7].startswith("‖h‖  ▁▇███  35800 before the blocks to 4.35e+08 after them")


def test_columns_that_were_not_measured_are_not_there():
    lines = render(AWKWARD["one_block"]).split("\n")
    head = next(line for line in lines if line.startswith("block  "))
    assert head.split() == ["block", "‖h‖", "growth", "‖g‖"]
    assert "reference fidelity   not recorded" in render(AWKWARD["one_block"])


def test_long_site_names_keep_the_number_that_tells_them_apart():
    text = render(LONG)
    assert all(re.search(rf"^\S*layer\.{i}\S*…  ", text, re.MULTILINE) for i in range(5))


def test_many_sites_show_both_ends_and_those_that_decide_and_say_so():
    text = render(many_sites())
    shown = [int(m) for m in re.findall(r"^\S*layer\.(\d+)\.output\.dense  ", text, re.MULTILINE)]
    assert shown == [*range(8), 99, 100, 101, 119, 120, 121, *range(192, 200)]
    assert "178 of 200 rows are left out here; the JSON record holds all" in text


def test_alignment_has_its_null_its_orders_and_its_mark():
    text = " ".join(render(full()).split())
    assert "deep mean -0.0167 over the outputs of 4 blocks" in text
    assert "null +0.00430 ± 0.00702 over 20 fresh draws of the feedback; z = -2.99" in text
    assert "-0.0110 (median of site medians) to +0.0725 (mean of site means)" in text
    assert "the sign depends on" in text
    assert "read with care (b) fired" in text
    assert "blocks.0 -0.0310 -0.0280 +7.00e-04 0.00670 -4.73" in text


def test_alignment_that_is_not_there_is_never_a_number():
    assert "Γ  N/A: the checkpoint holds no feedback matrices" in render(AWKWARD["no_feedback"])
    assert "Γ  not measured: no credit rule was given" in render(healthy())


def test_what_was_not_measured_is_said_in_the_verdict():
    assert render(healthy()).startswith("verdict: trustworthy on (a), (b), (c); (d) not measured")
    assert render(AWKWARD["empty"]).startswith("verdict: incomplete: (a), (b), (c), (d) not measured")


def test_non_finite_figures_are_words():
    text = render(AWKWARD["nan"])
    assert re.search(r"\(a\) residual growth +FIRE +NaN  ", text)
    assert "non-finite h        at blocks.0 to blocks.3; up to 128 samples" in text
    assert "‖h‖  !!!!!" in text
    assert "Infinity" in render(AWKWARD["inf"])


def test_warnings_stand_before_the_readings():
    text = render(AWKWARD["undecided"])
    assert text.index("warning: credit at blocks.2 is constant") < text.index("\n(a) ")


def test_hostile_words_stay_words():
    text = render(AWKWARD["hostile"])
    assert "[bold]b[/]" in text
    assert ":smile:" in text
    assert "\x1b" not in text
    assert len(HOSTILE) * 120 > 10_000
    assert "characters in the record)" in text
    assert len(text) < 9000


def test_a_terminal_gets_colour_and_a_pipe_does_not():
    coloured, piped = io.StringIO(), io.StringIO()
    print_report(full(), Console(file=coloured, force_terminal=True, color_system="standard", width=WIDTH), full=True)
    print_report(full(), Console(file=piped, width=WIDTH, color_system=None), full=True)
    assert "\x1b[1;31mFIRE" in coloured.getvalue()
    assert "\x1b" not in piped.getvalue()
    assert [line.rstrip() for line in piped.getvalue().rstrip().split("\n")] == render(full()).split("\n")


def test_the_environment_does_not_change_the_text(monkeypatch):
    expected = render(full())
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "40"), ("TERM", "dumb"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    assert render(full()) == expected


def test_print_is_this_rendering():
    assert full().to_text() == render(full())


def test_a_figure_close_to_its_threshold_shows_its_side():
    norms = [1.0, 50.0004, 50.0, 50.0, 50.0]
    text = render(full(residual_norms=norms, residual_norm_intervals=around(norms)))
    assert "50.0004×" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_width_cuts_a_number_in_two(width):
    file = io.StringIO()
    print_report(full(), Console(file=file, width=width, color_system=None), full=True)
    text = file.getvalue()
    figures = re.findall(r"(?<=\s)[-+]?\d[\d.]*(?:e[-+]\d+)?(?=\s)", render(full()))
    assert set(figures) <= set(text.split())
    assert not re.search(r"\d…", text)
    assert max(map(cell_len, text.split("\n"))) <= width


def test_a_pipe_gets_the_full_width(capsys):
    print_report(full(), full=True)
    assert [line.rstrip() for line in capsys.readouterr().out.rstrip().split("\n")] == render(full()).split("\n")
