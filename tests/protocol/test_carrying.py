"""When one block carries the mean of Γ: the rule by hand, and a network of which it is true."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

import walkback
from walkback.protocol.carrying import LEAST, carried_by_one, in_sentences
from walkback.protocol.records import Alignment, Measurements

FA_BLOCK = [0.016, 0.072, -0.085, 0.997, 1.0]
"""As published of four blocks, with the exact gradient at h_4, which no block reads."""
DFA = [0.400, 0.001, -0.0004, -0.002, -0.001]


def by_hand(sites):
    """The same rule, site by site and mean by mean: who, of those that a mean is over, leaves less than half of it."""
    found = []
    for numbers, end in ((range(len(sites) - 1), "read"), (range(1, len(sites)), "write")):
        if len(numbers) < 2 or any(math.isnan(sites[n]) or math.isinf(sites[n]) for n in numbers):
            continue
        mean = fmean(sites[n] for n in numbers)
        for n in numbers:
            others = fmean(sites[o] for o in numbers if o != n)
            same_side = sites[n] * mean > 0
            left = others / mean if mean else 1.0
            largest = all(sites[n] / mean >= sites[o] / mean for o in numbers) if mean else False
            if same_side and largest and left < 0.5 and abs(sites[n]) >= 0.1:
                found.append((n, end))
    return found


def test_the_last_block_of_fa_carries_its_mean():
    (carried,) = carried_by_one(FA_BLOCK)
    assert (carried.site, carried.block, carried.read) == (3, 4, True)
    assert carried.mean == pytest.approx(0.25)
    assert carried.without == pytest.approx(0.001)
    words = in_sentences(FA_BLOCK)
    assert [part in words for part in ("+0.250", "block 4", "+0.997", "+0.00100")] == [True] * 4


def test_the_first_site_of_dfa_carries_its_mean():
    (carried,) = carried_by_one(DFA)
    assert (carried.site, carried.block) == (0, 1)


@pytest.mark.parametrize(
    "sites",
    [
        [1.0, 1.0, 1.0],
        [0.9, 0.8, 0.7, 0.6, 0.5],
        [0.05, 0.0, 0.0, 0.0, 0.0],  # chance gives that much
        [0.3, 0.3],  # one block: its mean is its own
        [0.5],
        [],
        [0.0, 0.0, 0.0, 0.0],
        [math.nan, 1.0, 0.0, math.inf, 0.0],
    ],
)
def test_what_no_block_carries(sites):
    assert carried_by_one(sites) == ()
    assert in_sentences(sites) == ""
    assert carried_by_one(None) == ()


def test_a_written_site_and_a_negative_mean():
    (written,) = carried_by_one([0.0, 0.0, 0.01, 0.0, 0.9])
    assert (written.site, written.block, written.read) == (4, 4, False)
    (negative,) = carried_by_one([0.01, -0.8, 0.02, 0.0])
    assert (negative.site, negative.value) == (1, -0.8)


def test_it_is_the_rule_by_hand_on_any_cosines():
    draw, several = random.Random(3), 0
    for _ in range(3000):
        sites = [draw.choice([0.0, 1.0, 0.2]) * draw.uniform(-1, 1) for _ in range(draw.randint(1, 9))]
        expected = by_hand(sites)
        found = carried_by_one(sites)
        assert {carried.site for carried in found} == {site for site, _ in expected}
        for carried in found:
            assert (carried.site, "read" if carried.read else "write") in expected
            assert abs(carried.value) >= LEAST
        several += bool(found)
    assert 300 < several < 2900


def report(sites):
    alignment = Alignment(sites=sites, deep=fmean(sites[1:]))
    measured = Measurements(residual_norms=[1.0] * len(sites), bp_grad_norms=[1e-3] * len(sites), alignment=alignment)
    return walkback.judge(measured, method_name="fa_block")


def first_after(text, heading):
    rest = text[text.index(heading) + len(heading) :]
    return rest[: rest.index("deep mean")]


@pytest.mark.parametrize(
    ("renderer", "heading"),
    [
        ("text", "alignment Γ, the cosine"),
        ("markdown", "### Alignment Γ"),
        ("latex", r"\emph{Alignment $\Gamma$.}"),
        ("html", "<h2>Alignment Γ</h2>"),
    ],
)
def test_every_rendering_begins_with_the_blocks_and_says_which_carries(renderer, heading):
    text = report(FA_BLOCK).render(renderer)
    first = first_after(text, heading)
    assert "per block" in first
    assert first.index("per block") < first.index("carried by one")
    plain = " ".join(first.replace("$", "").replace("\\", "").split())
    for value in ("+0.0160", "+0.0720", "-0.0850", "+0.997", "+1.00"):
        assert value in plain
    assert "comes from the input of block 4 alone" in plain
    assert "alone (" not in report([0.9, 0.9, 0.9]).render(renderer)


@pytest.mark.parametrize("style", ["markdown", "latex"])
def test_the_form_for_a_paper_begins_with_the_blocks_too(style):
    from walkback.present.template import TEMPLATES, form_of

    text = TEMPLATES[style](form_of(report(FA_BLOCK)))
    section = text[text.index("Alignment") :]
    assert section.index("per block") < section.index("carried by one") < section.index("deep mean")


def test_the_brief_form_and_the_reading_of_june_say_it():
    assert "of block 4 alone" in " ".join(str(report(FA_BLOCK)).split())
    assert "carries" not in str(report([0.9, 0.9, 0.9]))
    reading = report(FA_BLOCK).under("june2026").reading("g")
    assert "of block 4 alone" in reading.sentence


def test_of_a_deep_network_both_ends_are_listed():
    from walkback.present.alignment_facts import per_block

    words = per_block(Measurements(), [0.1] * 30)
    assert "input of block 1 +0.100" in words
    assert "block 29 +0.100" in words
    assert "… 22 more …" in words
