import pytest

from walkback.errors import InputError
from walkback.protocol.judge import judge
from walkback.protocol.records import Measurements
from walkback.protocol.seeds import combine

GOOD = {"residual_norms": [1.0, 1.1], "bp_grad_norms": [1e-3, 1e-3]}


def seed(number, **changes):
    return judge(Measurements(**(GOOD | changes)), method_name="X", seed=number)


def test_unanimous_seeds():
    summary = combine([seed(1), seed(2), seed(3)])
    assert summary.agreement == "unanimous"
    assert summary.verdict == "trustworthy"
    assert summary.seeds == (1, 2, 3)


def test_a_mixed_result_is_never_averaged_into_a_clean_one():
    summary = combine([seed(1), seed(2), seed(3, residual_norms=[1.0, 60.0])])
    assert summary.agreement == "mixed"
    assert summary.verdict == "mixed: needs walk-back 1 of 3, trustworthy 2 of 3"
    assert summary.diagnostic("a").agreement == "mixed"
    assert summary.diagnostic("a").mean < 50  # the mean alone would have passed
    assert summary.diagnostic("b").agreement == "unanimous"


def test_seeds_that_fail_for_different_reasons_agree_that_they_fail():
    summary = combine([seed(1, residual_norms=[1, 99.0]), seed(2, bp_grad_norms=[1e-9, 1e-9])])
    assert summary.verdict == "needs walk-back"
    assert summary.diagnostic("a").agreement == summary.diagnostic("b").agreement == "mixed"


def test_mean_and_sd_over_seeds():
    summary = combine([seed(i, headline_acc=acc, frozen_baseline_acc=0.3) for i, acc in enumerate((0.5, 0.6, 0.7))])
    assert summary.headline_mean == pytest.approx(0.6)
    assert summary.headline_sd == pytest.approx(0.1)
    margin = summary.diagnostic("d")
    assert margin.mean == pytest.approx(30)
    assert margin.interval.low == pytest.approx(30 - 4.302653 * 10 / 3**0.5, rel=1e-5)


def test_what_cannot_be_combined_is_refused():
    with pytest.raises(InputError, match="no reports"):
        combine([])
    with pytest.raises(InputError, match="several methods"):
        combine([seed(1), judge(Measurements(**GOOD), method_name="Y")])


def test_one_run_several_times_is_refused():
    run = seed(42, headline_acc=0.5)
    with pytest.raises(InputError, match="combine got seed 42 3 times; expected one report per seed"):
        combine([run, run, run])
    with pytest.raises(InputError, match="combine got seed 7 2 times"):
        combine([seed(1), seed(7), seed(7, residual_norms=[1.0, 1.2])])


def test_one_report_without_a_seed_several_times_is_refused():
    with pytest.raises(InputError, match="combine got the same report several times"):
        combine([seed(None), seed(None)])
    broken = seed(None, bp_grad_norms=[float("nan"), 1e-3])
    with pytest.raises(InputError, match="the same report several times"):
        combine([broken, seed(None), broken])
    assert combine([seed(None), seed(None, residual_norms=[1.0, 1.2])]).agreement == "unanimous"


def test_seeds_that_agree_to_the_last_digit_are_remarked_on():
    summary = combine([seed(1), seed(2), seed(3, residual_norms=[1.0, 1.2])])
    (remark,) = summary.remarks
    assert remark.startswith("seeds 1, 2 have the same measurements to the last digit")
    assert combine([seed(1), seed(3, residual_norms=[1.0, 1.2])]).remarks == ()


def test_the_verdict_by_the_intervals_of_the_means():
    def three(norms, panel=None):
        measured = [Measurements(residual_norms=(1.0, n), bp_grad_norms=(1e-3, 1e-3)) for n in norms]
        return combine([judge(m, seed=i, panel=panel) for i, m in enumerate(measured)])

    assert three((200.0, 220.0, 210.0)).by_interval == "fail: (a)"
    assert three((2.0, 2.2, 2.1)).by_interval == "pass"
    assert three((10.0, 200.0, 60.0)).by_interval.startswith("undecided: (a)")
    assert three((200.0, 220.0)).by_interval == ""
    assert three((2.0, float("nan"), 2.1)).by_interval.startswith("fail: (a)")


@pytest.mark.parametrize("panel", ["june2026", "calibrated"])
def test_the_means_do_not_pass_where_the_panel_did_not_decide_on_the_seeds(panel):
    measured = [Measurements(residual_norms=(1.0, n), bp_grad_norms=(1e-3, 1e-3)) for n in (2.0, 2.2, 2.1)]
    reports = [judge(each, seed=seed, panel=panel) for seed, each in enumerate(measured)]
    assert {report.outcome for report in reports} == {"incomplete"}
    assert combine(reports).by_interval == "incomplete: 3 of 3 seeds"


def test_a_decider_that_fires_and_was_measured_on_too_few_seeds_leaves_the_means_open():
    """(d) fires on two of three seeds, and of the third no baseline was trained: two margins have no interval."""
    few = [seed(1, headline_acc=0.30, frozen_baseline_acc=0.35), seed(2, headline_acc=0.31, frozen_baseline_acc=0.36)]
    assert combine([*few, seed(3, headline_acc=0.3)]).by_interval == "undecided: (d)"
    exploded = seed(4, headline_acc=0.3, residual_norms=[1.0, 900.0])
    assert combine([*few, exploded]).by_interval.startswith("undecided: (a), (d)")
    gains = [seed(n, headline_acc=0.5 + n / 100, frozen_baseline_acc=0.2) for n in (1, 2)]
    assert combine([*gains, seed(3, headline_acc=0.5)]).by_interval == "pass"


def test_the_threshold_is_that_of_the_unit_in_which_the_seeds_were_scored():
    """The first seed has no baseline; the margin of the others is in perplexity, for which none was given."""
    scored = {"headline_score": {"value": 20.0, "unit": "perplexity", "higher_is_better": False}}
    with_baseline = [
        seed(n, **scored, frozen_baseline_score={"value": 30.0 + n, "unit": "perplexity", "higher_is_better": False})
        for n in (2, 3, 4)
    ]
    margin = combine([seed(1, **scored), *with_baseline]).diagnostic("d")
    assert margin.unit == "perplexity"
    assert margin.threshold is None
    assert margin.by_interval is None
