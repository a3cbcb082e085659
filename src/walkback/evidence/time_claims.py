"""Claims on what happens over a run: the untrained network, first firings, stopping early, Γ meanwhile."""

from __future__ import annotations

from typing import Any

from walkback.evidence.claim import Claim, Outcome, Status, by_cases, near, same_scale
from walkback.evidence.reading import LONG, PRESET, RECORD, count, first_epoch, span
from walkback.evidence.results import SEEDS_NEEDED, NotOnRecordError, Results
from walkback.present.numbers import figure

LONG_EPOCHS = 100
TEMPORAL = f"{PRESET}; walkback study temporal"


def _untrained(results: Results) -> Outcome:
    networks = results.study("random_init", RECORD)["networks"]
    seeds = {network["seed"] for network in networks}
    if len(seeds) < SEEDS_NEEDED or len(seeds) < len(networks):
        raise NotOnRecordError(f"random_init_{RECORD}.json has {len(networks)} networks of {len(seeds)} seeds")
    agree = [n["near_chance"] and n["verdict"] == "trustworthy" for n in networks]
    figures = [_as_published(n) for n in networks]
    words = (
        f"accuracy {span(n['accuracy'] for n in networks)}, ‖h_L‖ {span(n['residual_norms'][-1] for n in networks)}, "
        f"‖g_L‖ {span(n['bp_grad_norms'][-1] for n in networks)}, (c) {span(n['stability'] for n in networks)}"
    )
    return Outcome(by_cases(agree, figures), f"{count(agree, 'seeds')} at chance and trustworthy; {words}")


def _as_published(n: dict[str, Any]) -> bool:
    flat = all(near(norm, 8.7, 8.7, 0.87) for norm in n["residual_norms"])
    steady = all(same_scale(norm, 8e-3, 8e-3, 1.25) for norm in n["bp_grad_norms"])
    return flat and steady and near(n["stability"], 0.08, 0.18, 0.05)


def _long(results: Results, study: str, label: str) -> list[dict[str, Any]]:
    """The entries of a method's long runs, all of them as long as the claims are about."""
    runs = results.runs(study, LONG, label)
    short = min(run["epochs"] for run in runs)
    if short < LONG_EPOCHS:
        raise NotOnRecordError(f"{study}_{LONG}.json has a run of {label} of {short} epochs")
    return runs


def _early(results: Results) -> Outcome:
    dfa, bp = (_long(results, "temporal", label) for label in ("dfa", "bp"))
    quiet = [first_epoch(run, "a") is None and first_epoch(run, "b") is None for run in bp]
    fires = [first_epoch(run, "a") is not None and first_epoch(run, "b") is not None for run in dfa]
    published = {"b at 1280": (3, 4), "a": (8, 11)}
    when = [same_scale(first_epoch(run, key), *epochs, 2) for run in dfa for key, epochs in published.items()]
    keys = {"(a)": "a", "(b)": "b", "(b) at 1280": "b at 1280"}
    words = ", ".join(f"{name} epoch {_epochs(dfa, key)}" for name, key in keys.items())
    status = by_cases([all(fires) and all(quiet)], when)
    return Outcome(status, f"DFA {words}; BP never fires (a) or (b) on {count(quiet, 'seeds')}")


def _epochs(runs: list[dict[str, Any]], key: str) -> str:
    return ", ".join("never" if (first := first_epoch(run, key)) is None else str(first) for run in runs)


def _stopping(results: Results) -> Outcome:
    stops = [run["stops"]["(a) or (b)"] for run in _long(results, "early_stop", "dfa")]
    known = [stop for stop in stops if stop is not None]
    if len(known) < len(stops):
        return Outcome(Status.NOT_REPRODUCED, f"{len(stops) - len(known)} of {len(stops)} seeds never fire")
    saved = all(stop["saved"] >= 0.9 for stop in known)
    free = all(stop["cost_pp"] <= 1.0 for stop in known)
    words = f"saved {span(stop['saved'] for stop in known)}, cost in points {span(stop['cost_pp'] for stop in known)}"
    status = Status.REPRODUCED if saved and free else Status.PARTLY if saved or free else Status.NOT_REPRODUCED
    return Outcome(status, f"stops at epoch {', '.join(str(stop['epoch']) for stop in known)}; {words}")


def _healthy_alignment(results: Results) -> Outcome:
    ranges = [run["alignment"] for run in _long(results, "temporal", "dfa")]
    if any(r["low"] is None for r in ranges):
        raise NotOnRecordError(f"temporal_{LONG}.json has epochs of dfa without Γ")
    positive = [r["low"] > 0 for r in ranges]
    close = [near(r["low"], 0.087, 0.107, 0.05) and near(r["high"], 0.087, 0.107, 0.05) for r in ranges]
    words = ", ".join(f"{figure(r['low'])} to {figure(r['high'])}" for r in ranges)
    return Outcome(by_cases(positive, close), f"Γ over the epochs of each seed: {words}")


def _order(results: Results) -> Outcome:
    runs = _long(results, "temporal", "dfa")
    agree = [_not_after(first_epoch(run, "a"), first_epoch(run, "b")) for run in runs]
    before = [not _not_after(first_epoch(run, "b"), first_epoch(run, "a")) for run in runs]
    turned = [not _not_after(first_epoch(run, "a"), first_epoch(run, "b at 1280")) for run in runs]
    first, second, third = (_epochs(runs, key) for key in ("a", "b", "b at 1280"))
    words = (
        f"at 128 (a) epoch {first}, (b) epoch {second}: (a) first on {count(before, 'seeds')}, first or together on "
    )
    words += count(agree, "seeds")
    turned_words = f"at 1280 (b) epoch {third}: (b) first on {count(turned, 'seeds')}"
    return Outcome(by_cases(agree, before), f"{words}; {turned_words}")


def _not_after(one: int | None, other: int | None) -> bool:
    return one is not None and (other is None or one <= other)


CLAIMS = (
    Claim(
        "C11",
        "random init is at chance and trustworthy",
        "‖h‖ ≈ 8.7 flat, ‖g‖ ≈ 8e-3, (c) 0.08–0.18",
        "Every seed is within 5 points of chance and trustworthy; ‖h‖ within 10 % of 8.7 at every site, ‖g‖ within a "
        "quarter of 8e-3, (c) within 0.05 of the published range.",
        f"{PRESET}; walkback study random-init",
        _untrained,
    ),
    Claim(
        "C12",
        "DFA fires early, BP never",
        "(b) epoch 3–4, (a) epoch 8–11 of 100; on the batch size behind this see N03",
        "In the 100-epoch runs (a) and (b) fire on every seed of DFA (credit per sample) and never on BP; in the "
        "convention of the published temporal record, ‖g‖ of a loss averaged over 1280, within a factor of two of the "
        "published epochs. Partly: they fire at other epochs.",
        TEMPORAL,
        _early,
    ),
    Claim(
        "C13",
        "stopping at the first firing costs nothing",
        "epoch 4 of 100, same final accuracy, 96 % saved",
        "Stopping every 100-epoch DFA run at the first (a) or (b) saves 90 % of the epochs or more and costs 1 point "
        "of accuracy or less. Partly: one of the two.",
        f"{PRESET}; walkback study early-stop",
        _stopping,
    ),
    Claim(
        "C14",
        "Γ looks healthy throughout",
        "0.087–0.107 over 100 epochs",
        "Γ, the mean over all sites, is positive at every epoch of every 100-epoch DFA run, and within 0.05 of the "
        "published range.",
        TEMPORAL,
        _healthy_alignment,
    ),
)

FINDING = Claim(
    "N03",
    "the published temporal record and the audit differ by a factor of ten in ‖g‖: batch size; at one convention (a) "
    "fires before (b)",
    "–",
    "With ‖g‖ of a loss averaged over 128 samples throughout, (a) fires before (b) on every seed of the 100-epoch DFA "
    "runs. Partly: before it or with it, on some. The factor of ten is arithmetic: ‖g‖ is that of a mean over n.",
    TEMPORAL,
    _order,
)
