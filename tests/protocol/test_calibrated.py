"""The panel `calibrated`: outcomes, what it says beside them, and where it claims no rate. No network is needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import walkback
from walkback.lab.validity.rates import Rate
from walkback.protocol.claimed_rule import remark_on
from walkback.protocol.found import Overlap, Readouts, UpdateProvenance
from walkback.protocol.judge import judge
from walkback.protocol.measurements import Measurements
from walkback.protocol.pairing import Answered
from walkback.protocol.panels import calibrated, panel_named
from walkback.protocol.panels.rates import Rates, most_of
from walkback.protocol.records import DiagnosticReport, Interval, State

SAMPLES = 1280
HELD = Path(__file__).parents[2] / "results" / "validity" / "held.jsonl"


def answered(share):
    right = np.zeros(SAMPLES, dtype=bool)
    right[: round(share * SAMPLES)] = True
    return Answered.of(right)


def readouts(first=0.3, last=0.9, own=0.92):
    return Readouts(
        correct=(answered(first), answered(0.6), answered(last)), own=answered(own), folds=5, widths=(64,) * 3,
        most_width=512,
    )  # fmt: skip


def updates(claimed, true=(0.2, 0.3, 0.1, 1.0)):
    return UpdateProvenance(
        steps=4, layers=("stem", "1", "2", "head"), hidden=(True, True, True, False), claim="claimed_step",
        optimizer=True, claimed=claimed, true_gradient=true, repeated=(1.0,) * 4,
    )  # fmt: skip


def healthy(**changed):
    fields = {
        "samples": SAMPLES, "classes": 4, "residual_norms": (8.0, 9.0, 11.0), "bp_grad_norms": (3e-3, 2e-3, 1e-3),
        "error_size": 0.3, "gradient_per_error": 3e-3, "reference_fidelity": (1.0,) * 3, "headline_acc": 0.92,
        "headline_samples": SAMPLES, "headline_correct": answered(0.92), "readouts": readouts(),
        "growth_from_init": (1.5, 1.6, 2.0), "block_movement": (0.4, 0.3), "total_growth": 1.4,
        "updates": updates((1.0,) * 4), "claimed_rule": "DFA",
        "overlap": Overlap(test_samples=SAMPLES, train_samples=5000, count=0, same_label=0),
        "extra": {"block_changes": (0.3, 0.4)},
    }  # fmt: skip
    return Measurements(**(fields | changed))


EQUAL = {"residual_norms": (8.0, 8.0, 9.0), "bp_grad_norms": (2e-3, 2e-3, 1e-3)}
"""Block 1 hands on norms of the size that it gets."""


def verdict(measured, **settings):
    return judge(measured, panel="calibrated", **settings).decision


def test_a_healthy_network_passes_with_its_rates():
    found = verdict(healthy())
    assert found.outcome == "pass"
    rates = Rates.load(calibrated.RATES_FILE)
    half = rates.held or rates.fit
    assert f"{half.flagged.count} of {half.flagged.of}" in found.beside["error rates"] or (
        f"Of {half.flagged.of} healthy networks" in found.beside["error rates"]
    )
    assert ("was not opened" in found.beside["error rates"]) == (rates.held is None)
    assert "to ask for" not in found.beside


@pytest.mark.parametrize(
    ("changed", "letter"),
    [
        ({"block_movement": (0.4, 0.0)}, "m"),
        ({**EQUAL, "extra": {"block_changes": (0.0, 0.4)}}, "ib"),
        ({"growth_from_init": (1e6, 1e6, 1e6)}, "i"),
        ({"growth_from_init": (1.0, 100.0, 100.0)}, "bg"),
        ({"gradient_per_error": 1e-9}, "s"),
        ({"reference_fidelity": (1.0, 0.2, 1.0)}, "rd"),
        ({"headline_acc": 0.97}, "hc"),
        ({"overlap": Overlap(test_samples=SAMPLES, train_samples=5000, count=300, same_label=300)}, "o"),
        ({"updates": updates((0.1, 0.0, 0.2, 1.0))}, "u"),
        ({"updates": updates((1.0,) * 4, true=(0.999, 0.99, 1.0, 1.0))}, "di"),
        ({"readouts": readouts(first=0.95)}, "w"),
        ({"readouts": readouts(own=0.5, first=0.3), "headline_acc": 0.5, "headline_correct": answered(0.5)}, "hg"),
        ({"residual_norms": (8.0, float("nan"), 9.0)}, "a"),
    ],
)
def test_each_fault_fails_by_its_own_diagnostic(changed, letter):
    found = verdict(healthy(**changed))
    assert found.outcome == "fail"
    assert letter in found.decided_by


def test_equal_norms_alone_are_no_idle_block():
    printed = healthy(residual_norms=(8.7, 8.8, 8.8), bp_grad_norms=(8e-3, 8e-3, 8e-3), extra={})
    assert judge(printed, panel="calibrated").reading("ib").state is State.NOT_MEASURED
    assert verdict(printed).outcome == "pass"


def test_a_block_that_turns_what_it_gets_is_not_idle():
    turning = judge(healthy(**EQUAL, extra={"block_changes": (1.2, 0.4)}), panel="calibrated")
    assert turning.reading("ib").state is State.PASS
    assert turning.outcome == "pass"


def test_records_of_before_have_medians_with_intervals_and_are_read_as_they_were():
    intervals = tuple(Interval(low=7.0, high=10.0, level=0.95, how="order statistics") for _ in range(3))
    assert "ib" in verdict(healthy(**EQUAL, residual_norm_intervals=intervals, extra={})).decided_by


def test_backpropagation_that_is_called_so_is_in_no_disguise():
    exact = updates((1.0,) * 4, true=(1.0,) * 4)
    assert verdict(healthy(updates=exact, claimed_rule="Back-propagation")).outcome == "pass"
    assert verdict(healthy(updates=exact, claimed_rule="")).outcome == "pass"
    assert "di" in verdict(healthy(updates=exact, claimed_rule="feedback alignment")).decided_by


def test_what_was_given_is_not_asked_for_again():
    said = verdict(healthy(updates=None, claimed_rule="BP")).beside
    assert "the name of the rule" not in said["to ask for"]
    assert "under another name" not in said["not looked for"]
    assert "a training step" in said["to ask for"]
    other = verdict(healthy(updates=None, claimed_rule="DFA")).beside
    assert "the name of the rule" not in other["to ask for"]
    assert "under another name" in other["not looked for"]
    assert "the name of the rule" in verdict(healthy(updates=None, claimed_rule="")).beside["to ask for"]


@pytest.mark.parametrize(
    ("claimed", "meant"),
    [("DFFA", "'dfa'"), ("backpropagaton", "'backpropagation'"), ("predictve coding", "'predictive coding'")],
)
def test_a_misspelt_rule_is_told_and_what_follows_from_it(claimed, meant):
    assert meant in remark_on(claimed)
    assert "other than BP" in remark_on(claimed)


@pytest.mark.parametrize("claimed", ["", "BP", "Back-propagation (AdamW)", "DFA", "feedback alignment", "Zygote 7"])
def test_names_that_are_known_and_names_of_ones_own_are_no_misspelling(claimed):
    assert remark_on(claimed) == ""


def test_c_informs():
    drifting = healthy(cross_batch_stability=0.9, stability_layer=1, groups=10)
    report = judge(drifting, panel="calibrated")
    assert report.reading("c").state is State.FIRE
    assert report.outcome == "pass"
    assert judge(drifting).outcome == "fail"  # april2026


def test_a_gain_that_may_be_chance_does_not_decide():
    """The network is a little worse than a readout of its stem, and the interval holds no difference."""
    report = judge(healthy(readouts=readouts(first=0.922)), panel="calibrated")
    assert report.reading("w").state is State.FIRE
    assert report.reading("w").fragile
    assert report.outcome == "pass"
    assert "Do not rely" not in str(report)


def test_without_depth_it_is_incomplete_and_says_what_to_ask_for():
    found = verdict(healthy(readouts=None))
    assert found.outcome == "incomplete"
    assert {"h", "r", "w"} <= set(found.decided_by)
    assert "linear readout" in found.beside["to ask for"]
    log = judge(Measurements(residual_norms=(1.0, 2.0), bp_grad_norms=(1e-3, 1e-3)), panel="calibrated")
    assert log.outcome == "incomplete"
    assert "training step" in log.decision.beside["to ask for"]
    gains = healthy(readouts=None, frozen_baseline_acc=0.4, frozen_baseline_samples=SAMPLES,
                    frozen_baseline_correct=answered(0.4))  # fmt: skip
    assert verdict(gains).outcome == "pass"
    harmed = healthy(readouts=None, frozen_baseline_acc=0.97, frozen_baseline_samples=SAMPLES,
                     frozen_baseline_correct=answered(0.97))  # fmt: skip
    assert verdict(harmed).outcome == "incomplete"


def test_of_a_log_without_any_decider_what_the_blocks_add_is_asked_for_first():
    """Sites were left out, so that not even (a) is known; the frozen baseline is what a reviewer needs most."""
    found = verdict(Measurements(bp_grad_norms=(1e-3, 1e-3), headline_acc=0.3))
    assert found.outcome == "incomplete"
    assert found.decided_by[:3] == ("h", "r", "w")
    assert {"a", "u", "i"} <= set(found.decided_by)
    first, *others = found.beside["to ask for"].split("; ")
    assert "walkback.frozen_baseline" in first
    assert sum("linear readout" in each for each in others) == 1
    assert any("the norms of the stream at every site" in each for each in others)
    known = verdict(Measurements(bp_grad_norms=(1e-3, 1e-3), headline_acc=0.92, readouts=readouts(),
                                 headline_samples=SAMPLES, headline_correct=answered(0.92)))  # fmt: skip
    assert known.outcome == "pass"
    assert "walkback.frozen_baseline" not in known.beside["to ask for"]


def test_a_baseline_that_is_there_is_not_asked_for_again():
    def asked(frozen):
        given = {} if frozen is None else {
            "frozen_baseline_acc": frozen, "frozen_baseline_samples": SAMPLES,
            "frozen_baseline_correct": answered(frozen),
        }  # fmt: skip
        found = verdict(healthy(readouts=None, **given))
        assert found.outcome == "incomplete"
        return found.beside["to ask for"]

    baseline, more = "walkback.frozen_baseline", "on more test samples"
    assert baseline in asked(None)
    assert baseline not in asked(0.92)
    assert more in asked(0.92)  # as good as the network: no gain shown
    assert baseline not in asked(0.97)
    assert more not in asked(0.97)  # better than the network: more samples would not make it a gain


@pytest.mark.parametrize(
    "changed",
    [
        {"classes": 1000},
        {"residual_norms": (8.0,) * 60, "bp_grad_norms": None, "readouts": None, "growth_from_init": None,
         "reference_fidelity": None},
        {"perplexity": 12.0, "tokens": 5000},
        {"samples": 64},
    ],
)  # fmt: skip
def test_outside_of_the_bench_no_rate_is_known(changed):
    assert verdict(healthy(**changed)).beside["error rates"].startswith("No error rate is known")


@pytest.mark.parametrize(
    ("rule", "there"),
    [
        ("BP", True), ("feedback alignment", True), ("textbook DFA", True), ("", True),
        ("DFA (credit scaled)", False), ("equilibrium propagation", False),
    ],
)  # fmt: skip
def test_of_a_rule_that_trained_no_network_of_the_bench_no_rate_is_known(rule, there):
    for panel in ("calibrated", "april2026"):
        report = judge(healthy(claimed_rule=rule, site_features=(64,) * 3), panel=panel)
        said = " ".join(str(report).split())
        assert ("No error rate" in said) != there
        assert (f"trained by '{rule}'" in said) != there


def test_one_block_is_told_as_one():
    measured = healthy(residual_norms=(8.0, 9.0), bp_grad_norms=None, readouts=None, growth_from_init=None,
                       reference_fidelity=None)  # fmt: skip
    said = verdict(measured).beside["error rates"]
    assert "it has 1 block, and the bench's have 2 to 8" in said


def test_its_thresholds_are_its_own_whatever_a_user_sets():
    loose = walkback.DiagnosticThresholds(movement_floor=1e-9, init_growth_ceiling=1e9)
    assert verdict(healthy(block_movement=(0.4, 0.0)), thresholds=loose).outcome == "fail"
    report = judge(healthy(), loose)
    assert report.reading("m").threshold == 1e-9  # in the words of another panel
    assert report.under("calibrated").reading("m").threshold == calibrated.CALIBRATED.fixed["movement_floor"]


def test_it_is_in_every_rendering_and_comes_back(tmp_path):
    report = judge(healthy(), panel="calibrated", method_name="mine", seed=1)
    said = report.decision.beside["error rates"]
    for text in (str(report), report.to_text(), report.to_markdown(), report.to_latex()):
        assert "healthy networks" in " ".join(text.split())
    page = report.to_html(tmp_path / "page.html").read_text()
    assert said.split(";")[0][:40] in page
    back = DiagnosticReport.load(report.save(tmp_path / "report.json"))
    assert back.verdicts == report.verdicts
    assert back.stored is None


def test_a_version_names_its_thresholds():
    content = json.loads(calibrated.THRESHOLDS_FILE.read_text())
    assert panel_named("calibrated").version == content["version"] == Rates.load(calibrated.RATES_FILE).version


@pytest.mark.parametrize(("features", "words"), [(8, "32 to 256"), (4096, "32 to 256")])
@pytest.mark.parametrize("read_out", [True, False])
def test_of_networks_narrower_and_wider_than_the_bench_no_rate_is_known(features, words, read_out):
    at_sites = {"readouts": readouts()} if read_out else {"readouts": None}
    said = verdict(healthy(site_features=(features,) * 3, **at_sites)).beside["error rates"]
    assert said.startswith("No error rate is known")
    assert f"{features:,} features" in said
    assert words in said


def test_of_a_log_that_does_not_say_how_wide_its_sites_are_no_rate_is_known():
    said = verdict(healthy(readouts=None)).beside["error rates"]
    assert "features at a site is not on record" in said


def test_the_rates_are_those_of_what_was_measured():
    """Counted here from the table of the half that is held, where something else than (u) and (di) fires."""
    rows = [json.loads(line) for line in HELD.read_text().splitlines()]
    letters = [set(row["decided_by"].get("calibrated", "").split("+")) - {"", "u", "di"} for row in rows]
    meant = [bool(fired) for row, fired in zip(rows, letters, strict=True)
             if row["condition"] not in ("healthy", "best_of_n")]  # fmt: skip
    flagged = sum(bool(f) for row, f in zip(rows, letters, strict=True) if row["condition"] == "healthy")
    everything = verdict(healthy()).beside["error rates"]
    less = verdict(healthy(updates=None)).beside["error rates"]
    every = sum("calibrated" in row["decided_by"] for row in rows if row["condition"] not in ("healthy", "best_of_n"))
    assert f"Of {len(meant)} networks with one of 15 faults {every} were found." in everything
    assert f"find {sum(meant)}; all that decide found {every}" in less
    assert f"({flagged} observed in 300, at most {100 * Rate(flagged, 300).at_most:.1f} % with 95 %" in less
    assert "(3 observed in 300, at most 2.6 % with 95 %" in everything
    assert f" {flagged} {'was' if flagged == 1 else 'were'} flagged" in less
    assert "bp in disguise 0 of 29" in less
    assert sum(meant) < every


@pytest.mark.parametrize(("count", "of"), [(0, 300), (1, 300), (3, 300), (12, 29), (300, 300)])
def test_a_bound_is_that_of_clopper_and_pearson(count, of):
    assert most_of(count, of) == pytest.approx(Rate(count, of).at_most, rel=1e-9)


def test_bound_and_count_belong_together_however_little_was_measured():
    known = Rates.load(calibrated.RATES_FILE)
    for letters in ({"o"}, {"hc", "rd", "s", "ib", "a", "t"}, {"bg", "i"}):
        flagged = known.held.seen_by(letters, "healthy")
        said = known.in_words(healthy(), letters)
        assert f"{flagged} observed in 300, at most {100 * Rate(flagged, 300).at_most:.1f} %" in said


def test_published_panels_claim_rates_for_networks_like_the_bench_alone():
    assert "of the 85 that backpropagation did not train" in str(judge(healthy(site_features=(64,) * 3)))
    for other in ({"classes": 1000}, {"site_features": (4096,) * 3}, {"perplexity": 12.0, "tokens": 5000}):
        said = " ".join(str(judge(healthy(**{"site_features": (64,) * 3} | other))).split())
        assert "No error rate of this panel is known for this network" in said
        assert "healthy ones" not in said
    without = dict.fromkeys(("headline_samples", "bp_grad_norms", "reference_fidelity", "error_size"))
    gaps = judge(healthy(site_features=(64,) * 3, gradient_per_error=None, **without))
    assert "On those, all that decides was measured; here (b)" in " ".join(str(gaps).split())


@pytest.mark.parametrize("first", [1.0, 0.999])
def test_a_network_far_below_a_perfect_readout_of_its_stem_fails(first):
    ruined = healthy(
        readouts=readouts(first=first, last=0.6, own=0.6), headline_acc=0.6, headline_correct=answered(0.6)
    )
    report = judge(ruined, panel="calibrated")
    assert report.outcome == "fail"
    assert report.decided_by == ("w",)
    assert report.reading("w").value < -100
    if first == 1:
        assert "makes 512 errors, and a linear readout of h_0 none" in report.reading("w").sentence


def test_one_error_against_a_perfect_readout_may_be_chance():
    """The interval holds no difference: where neither makes an error, nothing is judged at all."""
    own = (SAMPLES - 1) / SAMPLES
    near = healthy(readouts=readouts(first=1.0, last=1.0, own=own), headline_acc=own, headline_correct=answered(own))
    assert verdict(near).outcome == "pass"
    both = healthy(readouts=readouts(first=1.0, last=1.0, own=1.0), headline_acc=1.0, headline_correct=answered(1.0))
    assert judge(both, panel="calibrated").reading("w").value is None


def test_a_list_that_is_claimed_does_not_take_the_place_of_what_was_counted():
    claimed = healthy(headline_acc=0.99, headline_correct=answered(0.99), counted_correct=answered(0.92))
    found = judge(claimed, panel="calibrated")
    assert found.decided_by == ("hc",)
    assert "99.00 % is claimed, and 92.03 %" in found.reading("hc").sentence
    assert "92.0" in found.to_text()


def provenance(**changed):
    known = {
        "steps": 4, "layers": ("stem", "1", "2", "head"), "hidden": (True, True, True, False), "claim": "claimed_step",
        "optimizer": True, "claimed": (1.0,) * 4, "true_gradient": (0.1, 0.2, 0.1, 1.0), "repeated": (1.0,) * 4,
        "still": (False,) * 4,
    }  # fmt: skip
    return UpdateProvenance(**known | changed)


@pytest.mark.parametrize(
    ("changed", "state", "case", "words"),
    [
        ({}, State.PASS, "as claimed", "as the claimed rule"),
        ({"repeated": (0.4, 0.3, 0.2, 1.0)}, State.FIRE, "drawn anew", "drawn anew"),
        # Dropout: the head, which no feedback reaches, changes as much.
        ({"repeated": (0.4, 0.3, 0.2, 0.4)}, State.UNDECIDED, "random otherwise", "dropout"),
        # Adam that was not given, clipping: the head differs from the claim too.
        ({"claimed": (0.5, 0.5, 0.45, 0.56)}, State.UNDECIDED, "not comparable", "Pass optimizer="),
        ({"claimed": (0.85, 0.85, 0.86, 0.9)}, State.UNDECIDED, "not comparable", "clipping"),
        ({"claimed": (0.85, 0.85, 0.86, 0.99)}, State.FIRE, "something else", "neither"),
        ({"claimed": (0.96, 0.97, 0.96, 0.9)}, State.PASS, "as claimed", "as the claimed rule"),
        ({"claimed": (0.8, 0.8, 0.8, 0.97), "claim": "credit", "other_optimizer": "Adam"}, State.UNDECIDED,
         "not comparable", "were made with Adam"),
        ({"claimed": (1.0, 1.0, 0.0, 1.0), "still": (False, False, True, False)}, State.FIRE, "something else",
         "The steps left 2 as it was."),
        # Nothing moves layer 2, whichever the rule.
        ({"claimed": (1.0, 1.0, None, 1.0), "repeated": (1.0, 1.0, None, 1.0)}, State.PASS, "as claimed", "as the"),
        # An older record does not tell the one from the other.
        ({"claimed": (1.0, 1.0, None, 1.0), "still": None}, State.UNDECIDED, "as claimed", "left out 2"),
        ({"claimed": (0.2, 1.0, None, 1.0), "still": None}, State.FIRE, "something else", "neither"),
        ({"claimed": (None,) * 4, "true_gradient": (None,) * 4, "repeated": (None,) * 4, "empty_steps": 4},
         State.UNDECIDED, "no change", "4 of 4 steps changed no weight"),
        ({"claimed": (None,) * 4, "true_gradient": (None,) * 4, "repeated": (None,) * 4, "broken_steps": 4},
         State.UNDECIDED, "no change", "made NaN or Inf"),
        ({"claimed": None, "claim": "none"}, State.UNDECIDED, "something else", "No rule was given"),
    ],
)  # fmt: skip
def test_updates_are_judged_where_the_head_shows_that_they_can_be(changed, state, case, words):
    report = judge(healthy(updates=provenance(**changed)), panel="calibrated")
    told = report.reading("u")
    assert (told.state, told.case) == (state, case)
    assert words in told.sentence
    assert report.outcome == ("fail" if state is State.FIRE else "pass")
    assert ("which rule the updates come from" in report.decision.beside.get("not looked for", "")) == (
        state is State.UNDECIDED
    )


def test_a_disguise_is_not_ruled_out_by_steps_of_an_optimizer_that_was_not_given():
    unlike = provenance(true_gradient=(0.5, 0.5, 0.4, 0.5), claim="credit", other_optimizer="Adam")
    assert judge(healthy(updates=unlike), panel="calibrated").reading("di").state is State.UNDECIDED
    same = provenance(true_gradient=(1.0,) * 4, claim="credit", other_optimizer="Adam")
    assert judge(healthy(updates=same), panel="calibrated").reading("di").state is State.FIRE


def test_reports_print_the_thresholds_that_were_judged_by(tmp_path):
    loose = walkback.DiagnosticThresholds(h_norm_explosion_ratio=1.05, init_growth_ceiling=1e9)
    report = judge(healthy(residual_norms=(8.0, 480.0, 490.0)), loose, panel="calibrated", method_name="mine")
    ceiling = calibrated.CALIBRATED.fixed["h_norm_explosion_ratio"]
    assert report.reading("a").threshold == ceiling
    assert f"(a) growth of one block: &gt; {ceiling:g}" in report.to_markdown()
    page = report.to_html(tmp_path / "page.html").read_text()
    assert f"&gt; {ceiling:g}" in page
    assert "&gt; 1.05" not in page
    assert report.thresholds.h_norm_explosion_ratio == 1.05  # what the user set stays on record


def test_thresholds_that_a_user_sets_in_vain_are_told_once():
    loose = walkback.DiagnosticThresholds(init_growth_ceiling=1e9)
    report = judge(healthy(), loose, panel="calibrated")
    (said,) = report.warnings
    assert "init_growth_ceiling = 290" in said
    assert "1.00e+09" in said or "1e+09" in said
    assert DiagnosticReport.from_dict(report.to_dict()).warnings == report.warnings
    assert report.under("april2026").warnings == ()
    assert report.under("april2026").under("calibrated").warnings == report.warnings
    assert judge(healthy(), panel="calibrated").warnings == ()


def test_of_a_class_token_that_grew_alone_no_rate_is_known():
    grown = {"residual_norms": (1.0, 95.0, 100.0), "site_reduction": "class token of (B, T, d)"}
    found = verdict(healthy(**grown))
    assert found.decided_by == ("a",)
    assert found.beside["error rates"].startswith("No error rate is known for this verdict")
    assert "1.40 times" in found.beside["error rates"]
    for known in ({"site_reduction": None}, {"total_growth": None}, {"total_growth": 900.0}):
        assert "No error rate" not in verdict(healthy(**grown | known)).beside["error rates"]


def test_why_a_verdict_is_incomplete_is_what_was_measured():
    gains = {"headline_acc": 0.9, "headline_samples": 1000, "frozen_baseline_samples": 1000}
    shown = verdict(Measurements(**gains, frozen_baseline_acc=0.5))
    assert shown.outcome == "incomplete"
    assert "no depth gain" not in shown.beside["meaning"]
    assert "nothing that decides was measured" in shown.beside["meaning"]
    harms = verdict(Measurements(**gains, frozen_baseline_acc=0.95))
    assert "h" not in harms.decided_by
    assert "(h)" not in harms.words
    assert "harms" in harms.beside["meaning"]
