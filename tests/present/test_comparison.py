import io
import json
from pathlib import Path

import pytest
from present_samples import AWKWARD, NAN, broken, fragile, full, healthy
from rich.cells import cell_len
from rich.console import Console

from walkback.present.text import compare, print_comparison, render_seeds
from walkback.protocol.judge import judge
from walkback.protocol.records import Measurements
from walkback.protocol.seeds import combine

GOLDEN = Path(__file__).parents[1] / "golden" / "resmlp_d256_audit_3seed.json"
FIGURES = ("residual_norms", "bp_grad_norms", "stability_layer", "cross_batch_stability", "headline_acc",
           "frozen_baseline_acc")  # fmt: skip


@pytest.fixture(scope="module")
def audit():
    recorded = json.loads(GOLDEN.read_text())["reports"]
    return [
        judge(
            Measurements(**{name: row[name] for name in FIGURES}),
            method_name=row["method_name"],
            seed=int(key.rpartition("_s")[2]),
        )
        for key, row in recorded.items()
    ]


def squeezed(line):
    return " ".join(line.split())


def test_one_row_per_report_with_its_figures_and_the_letters_that_fired(audit):
    lines = compare(audit).split("\n")
    assert squeezed(lines[0]) == "name acc % ‖h_L‖ growth ‖g_L‖ (c) margin verdict"
    assert squeezed(lines[2]) == "BP 42 61.49 206 1.00 3.70e-04 0.0990 – trustworthy, no d"
    assert squeezed(lines[3]) == "DFA 42 31.07 4.35e+08 2040 4.17e-09 0.0471 -3.83 walk-back a b d"
    assert lines.index("") == 2 + 15


def test_the_drift_share_has_a_column_where_it_was_measured():
    lines = compare([full()]).split("\n")
    assert squeezed(lines[0]) == "name acc % ‖h_L‖ growth ‖g_L‖ (c) ρ margin verdict"
    assert squeezed(lines[2]) == "DFA 42 31.07 4.35e+08 2040 4.17e-09 0.0471 8.30e-04 -3.83 walk-back a b d"


def test_seeds_are_unanimous_or_mixed_per_diagnostic_and_overall(audit):
    text = compare(audit)
    assert "DFA, 3 seeds: unanimous, needs walk-back; accuracy 30.57 % ± 0.775 pp" in text
    assert "(c) direction drift: mixed, 1 of 3 fire; mean 0.159 ± 0.241" in text
    assert "(a) residual growth: unanimous, 3 of 3 fire; mean 1860 ± 800×" in text
    assert "(d) frozen margin: unanimous, 3 of 3 fire; mean -4.33 ± 0.775 pp" in text
    assert "(d) frozen margin: not measured" in text


def test_a_mixed_result_is_never_averaged_into_a_clean_one():
    text = render_seeds(combine([full(), healthy(method_name="DFA", seed=1), healthy(method_name="DFA", seed=2)]))
    assert text.startswith("DFA, 3 seeds: mixed: needs walk-back 1 of 3, trustworthy 2 of 3")
    assert "(a) residual growth: mixed, 1 of 3 fire; mean" in text
    assert "(d) frozen margin: mixed, 1 of 3 fire, 2 without a reading; one figure, -3.83 pp" in text


def test_a_seed_that_diverged_stays_visible():
    text = render_seeds(combine([full(), broken(NAN).model_copy(update={"seed": 1})]))
    assert "(a) residual growth: unanimous, 2 of 2 fire; mean NaN ± NaN" in text


def test_fragile_seeds_are_counted():
    text = render_seeds(combine([full(), fragile().model_copy(update={"seed": 1})]))
    assert "(a) residual growth: unanimous, 2 of 2 fire, 1 fragile" in text


def test_a_run_that_is_given_twice_has_no_summary_and_the_reader_is_told():
    text = squeezed(compare([full(), full(), full()]))
    assert "unanimous" not in text
    assert "warning: DFA: not summarised over seeds: combine got seed 42 3 times" in text
    alike = squeezed(compare([full(seed=1), full(seed=2)]))
    assert "seeds 1, 2 have the same measurements to the last digit" in alike


def test_rows_may_be_named_by_where_they_came_from():
    lines = compare([full(), healthy()], names=["dfa_s42", "a/very/long/path/to/bp_s42.json"]).split("\n")
    assert [line.split()[0] for line in lines[2:4]] == ["dfa_s42", "a/very/lo…p_s42.json"]


@pytest.mark.parametrize("reports", [[], list(AWKWARD.values())], ids=["none", "all"])
def test_it_is_plain_and_narrow(reports):
    text = compare(reports)
    assert all(cell_len(line) <= 100 and line == line.rstrip() for line in text.split("\n"))
    assert "\x1b" not in text
    assert text


def test_a_gap_is_not_a_pass():
    assert "trustworthy, no d" in compare([healthy()])
    assert "(d) not measured, which does not count as a pass" in squeezed(compare([healthy()]))
    assert "no pass" not in compare([full()])


def test_a_terminal_gets_colour():
    file = io.StringIO()
    print_comparison([full()], Console(file=file, force_terminal=True, color_system="standard", width=100))
    assert "\x1b[31mwalk-back a b d" in file.getvalue()


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_loses_columns_not_digits(width):
    file = io.StringIO()
    print_comparison([full(), healthy()], Console(file=file, color_system=None, width=width))
    text = file.getvalue()
    assert max(map(cell_len, text.split("\n"))) <= width
    assert {"4.35e+08", "4.17e-09", "3.70e-04", "walk-back", "trustworthy,"} <= set(text.split())
    assert "8.30e-04" not in text
