"""Claims on the five methods of the main audit side by side: how far apart they are, and what finds the failures."""

from __future__ import annotations

import math
from functools import partial

from walkback.lab.evidence.claim import Claim, Outcome, Status, same_scale, weighed
from walkback.lab.evidence.deciding import FAILING, LONG, PRESET, PUBLISHED, count, fires, passes, span
from walkback.lab.evidence.results import SEEDS_NEEDED, NotOnRecordError, Results
from walkback.lab.evidence.source_deciding import (
    AS_SOURCE,
    COMMANDS,
    EP,
    EP_IS_STABLE,
    SOURCE,
    commands,
    published_five,
)
from walkback.present.numbers import written
from walkback.protocol.records import DiagnosticReport

FAR_APART = 10.0
FIVE = f"{PRESET}; {commands(SOURCE, EP)}"
OF_FIVE = "Over BP, DFA, both bridges and EP as the source defines them, each of 100 epochs"


def _gap(results: Results, letter: str, published: float) -> Outcome:
    """Healthy against degenerate by verdict, and passing against firing this diagnostic: both have to be far apart."""
    reports = published_five(results)
    by_verdict = _ratio([(r, any(fires(r, each) for each in PUBLISHED)) for r in reports], letter)
    by_reading = _ratio([(r, fires(r, letter)) for r in reports], letter)
    sides = {"trustworthy and walked back": by_verdict, f"passing and firing ({letter})": by_reading}
    apart = {f"{n} are far apart": [gap is not None and gap[2] >= FAR_APART] for n, gap in sides.items()}
    near_enough = by_verdict is not None and same_scale(by_verdict[2], published, math.inf)
    words = f"by verdict {_gap_words(by_verdict)}; by ({letter}) itself {_gap_words(by_reading)}"
    return weighed(words, apart, {"the gap is a tenth of the published one or more": [near_enough]})


def _ratio(sides: list[tuple[DiagnosticReport, bool]], letter: str) -> tuple[float, float, float] | None:
    """The two nearest figures of the sides and how many times apart they are; below 1 where they overlap."""
    known = [(f, bad) for r, bad in sides if (f := r.reading(letter).value) is not None and math.isfinite(f)]
    healthy, degenerate = ([f for f, bad in known if bad is side] for side in (False, True))
    if not healthy or not degenerate:
        return None
    if letter == "a":
        return max(healthy), min(degenerate), min(degenerate) / max(healthy)
    return min(healthy), max(degenerate), min(healthy) / max(degenerate) if max(degenerate) else math.inf


def _gap_words(gap: tuple[float, float, float] | None) -> str:
    if gap is None:
        return "one side is empty"
    return f"{written(gap[0])} against {written(gap[1])}: {written(gap[2], 4)}×"


def _low_drift(results: Results) -> Outcome:
    reports = [*results.reports(LONG, "bp"), *results.reports(EP, "ep")]
    words = "; ".join(
        f"{label} {span(r.cross_batch_stability for r in reports if r.method_name == label)}" for label in ("bp", "ep")
    )
    agree = [passes(report, "c") for report in reports]
    return weighed(f"{count(agree, 'networks')} pass (c); {words}", {"(c) passes": agree})


def _utility(results: Results) -> Outcome:
    policies = _policies(results)
    back = {name: {label for label, (some, of) in counts.items() if some == of} for name, counts in policies.items()}
    some = {name: {label for label, (some, _) in counts.items() if some} for name, counts in policies.items()}
    failing = set(FAILING)
    blind = not some["S1"] & failing
    each = all(failing <= back[policy] for policy in ("S2", "S3", "S4"))
    exact = back["S_full"] == some["S_full"] == failing
    found = failing <= back["S_full"]
    status = Status.REPRODUCED if blind and each and exact else Status.PARTLY if blind and found else None
    words = "; ".join(f"{name} {len(labels)} of 5" for name, labels in back.items())
    words += f"; S_full: {', '.join(sorted(back['S_full'])) or 'none'}"
    parts = {
        "accuracy and Γ find none of the failures": [blind],
        "(a), (b) and (d) find all three, each alone": [each],
        "all four together find these three": [found],
        "they find no other": [exact],
    }
    return weighed(words, parts, status=status or Status.NOT_REPRODUCED)


def _policies(results: Results) -> dict[str, dict[str, tuple[int, int]]]:
    """For each policy, on how many seeds of how many it walks each of the five methods back."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for audit, labels in ((LONG, ("bp",)), (SOURCE, FAILING), (EP, ("ep",))):
        study = results.study("ablation", audit)
        results.about(audit, *labels)
        methods = {method["label"]: method for method in study["methods"] if method["label"] in labels}
        short = [label for label in labels if label not in methods or methods[label]["seeds"] < SEEDS_NEEDED]
        if short or study["without_alignment"] or any(study["unmeasured"].values()):
            missing = f"three seeds of {', '.join(short)}" if short else "Γ and all four diagnostics of every network"
            raise NotOnRecordError(f"ablation_{audit}.json lacks {missing}")
        for label, method in methods.items():
            for policy, some in method["walked_back"].items():
                found.setdefault(policy, {})[label] = (some, method["seeds"])
    return found


CLAIMS = (
    Claim(
        "C07",
        "healthy and degenerate growth are far apart",
        "10.96 against 694: 63×",
        f"{OF_FIVE}, the smallest growth of a network that is walked back is ten times the largest of one that is "
        "trustworthy, or more, and so are those of networks that fire and pass (a). Partly: one of the two.",
        FIVE,
        partial(_gap, letter="a", published=63.36),
    ),
    Claim(
        "C08",
        "healthy and degenerate ‖g_L‖ are far apart",
        "1.02e-4 against 4.18e-9: 24,338×",
        f"{OF_FIVE}, the smallest ‖g_L‖ of a network that is trustworthy is ten times the largest of one that is "
        "walked back, or more, and a tenth of the published gap or more; and those of networks that pass and fire (b) "
        "are ten times apart. Partly: some of these.",
        FIVE,
        partial(_gap, letter="b", published=24_338),
    ),
    Claim(
        "C09",
        "(c) stays low for BP and EP",
        "−0.036 … 0.120, median 0.093",
        f"(c) passes on every seed of BP and of EP {AS_SOURCE}, after 100 epochs.",
        f"{PRESET}; {COMMANDS[EP]}",
        _low_drift,
        EP_IS_STABLE,
    ),
    Claim(
        "C10",
        "accuracy + Γ finds none of the failures; (a), (b) and (d) each find all",
        "0 of 5 against 3 of 5",
        f"{OF_FIVE}, S1 walks back none of DFA, State Bridge and Credit Bridge on any seed; S2, S3 and S4 each walk "
        "back all three; S_full walks back these three alone, no other on any seed. Partly: S1 none, S_full at least "
        "these three.",
        f"{FIVE}; walkback lab study ablation",
        _utility,
    ),
)
