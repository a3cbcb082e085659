"""Claims on what happens over a run: the untrained network, first firings, stopping early, Γ meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from walkback.lab.evidence.claim import COSINE_TOLERANCE, Claim, Outcome, Status, by_cases, near, same_scale, weighed
from walkback.lab.evidence.deciding import LARGE_BATCH, LONG, PRESET, RECORD, count, first_epoch, mean, span
from walkback.lab.evidence.results import SEEDS_NEEDED, NotOnRecordError, Results
from walkback.lab.evidence.source_deciding import AS_SOURCE, COMMANDS, LONG_EPOCHS, SOURCE, course
from walkback.present.numbers import written

LARGE = f"b at {LARGE_BATCH}"


def _untrained(results: Results) -> Outcome:
    networks = results.study("random_init", RECORD)["networks"]
    seeds = {network["seed"] for network in networks}
    if len(seeds) < SEEDS_NEEDED or len(seeds) < len(networks):
        raise NotOnRecordError(f"random_init_{RECORD}.json has {len(networks)} networks of {len(seeds)} seeds")
    if any(n["near_chance"] is None for n in networks):
        raise NotOnRecordError(f"random_init_{RECORD}.json does not know what chance is")
    agree = [n["near_chance"] and n["verdict"] == "trustworthy" for n in networks]
    parts = {
        "it is at chance": [bool(n["near_chance"]) for n in networks],
        "it is trustworthy": [n["verdict"] == "trustworthy" for n in networks],
    }
    figures = {name: [close(n) for n in networks] for name, close in AS_PUBLISHED.items()}
    words = (
        f"accuracy {span(n['accuracy'] for n in networks)}, ‖h_L‖ {span(n['residual_norms'][-1] for n in networks)}, "
        f"‖g_L‖ {span(n['bp_grad_norms'][-1] for n in networks)}, (c) {span(n['stability'] for n in networks)}"
    )
    status = by_cases(agree, [one for found in figures.values() for one in found])
    return weighed(f"{count(agree, 'seeds')} at chance and trustworthy; {words}", parts | figures, status=status)


AS_PUBLISHED: dict[str, Callable[[dict[str, Any]], bool]] = {
    "‖h‖ is 8.7 at every site": lambda n: all(near(norm, 8.7, 8.7, 0.87) for norm in n["residual_norms"]),
    "‖g‖ is 8e-3 at every site": lambda n: all(same_scale(norm, 8e-3, 8e-3, 1.25) for norm in n["bp_grad_norms"]),
    "(c) is in the published range": lambda n: near(n["stability"], 0.08, 0.18, 0.05),
}
"""What a published untrained network looks like, figure by figure."""


def _long(results: Results, study: str, audit: str, label: str) -> list[dict[str, Any]]:
    """The entries of a method's long runs, all of them as long as the claims are about."""
    runs = results.runs(study, audit, label)
    short = min(run["epochs"] for run in runs)
    if short < LONG_EPOCHS:
        raise NotOnRecordError(f"{study}_{audit}.json has a run of {label} of {short} epochs")
    return runs


def _early(results: Results) -> Outcome:
    dfa, bp = (_long(results, "temporal", audit, label) for audit, label in ((SOURCE, "dfa"), (LONG, "bp")))
    quiet = [first_epoch(run, "a") is None and first_epoch(run, "b") is None for run in bp]
    fires = [first_epoch(run, "a") is not None and first_epoch(run, "b") is not None for run in dfa]
    published = {LARGE: (3, 4), "a": (8, 11)}
    when = {
        f"{_named(key)} fires at the published epochs": [same_scale(first_epoch(run, key), *epochs, 2) for run in dfa]
        for key, epochs in published.items()
    }
    keys = {"(a)": "a", "(b)": "b", f"(b) at {LARGE_BATCH}": LARGE}
    words = ", ".join(f"{name} epoch {_epochs(dfa, key)}" for name, key in keys.items())
    status = by_cases([all(fires) and all(quiet)], [one for found in when.values() for one in found])
    parts = {"(a) and (b) fire on DFA": fires, "neither fires on BP": quiet, **when}
    return weighed(f"DFA {words}; BP never fires (a) or (b) on {count(quiet, 'seeds')}", parts, status=status)


def _named(key: str) -> str:
    """`(b) at 1024`, for the key of a study."""
    return f"({key[0]}){key[1:]}"


def _epochs(runs: list[dict[str, Any]], key: str) -> str:
    return ", ".join("never" if (first := first_epoch(run, key)) is None else str(first) for run in runs)


def _stopping(results: Results) -> Outcome:
    stops = [run["stops"]["(a) or (b)"] for run in _long(results, "early_stop", SOURCE, "dfa")]
    known = [stop for stop in stops if stop is not None]
    if len(known) < len(stops):
        words = f"{len(stops) - len(known)} of {len(stops)} seeds never fire"
        parts = {"(a) or (b) fires": [stop is not None for stop in stops]}
        return weighed(words, parts, status=Status.NOT_REPRODUCED)
    saved = all(stop["saved"] >= 0.9 for stop in known)
    free = all(stop["cost_pp"] <= 1.0 for stop in known)
    words = f"saved {span(stop['saved'] for stop in known)}, cost in points {span(stop['cost_pp'] for stop in known)}"
    status = Status.REPRODUCED if saved and free else Status.PARTLY if saved or free else Status.NOT_REPRODUCED
    words = f"stops at epoch {', '.join(str(stop['epoch']) for stop in known)}; {words}"
    return weighed(words, {"it saves 90 % or more": [saved], "it costs 1 point or less": [free]}, status=status)


def _healthy_alignment(results: Results) -> Outcome:
    runs = results.run_files(SOURCE, "dfa")
    gammas = [[mean(sites[:-1]) for sites in course(run, "alignment", LONG_EPOCHS)[1:]] for run in runs]
    positive = [min(gamma) > 0 for gamma in gammas]
    close = [near(end, 0.087, 0.107, COSINE_TOLERANCE) for gamma in gammas for end in (min(gamma), max(gamma))]
    words = ", ".join(f"{written(min(gamma))} to {written(max(gamma))}" for gamma in gammas)
    figures = {"its lowest and highest are in the published range": close}
    return weighed(f"Γ over the epochs of each seed: {words}", {"Γ is positive at every epoch": positive}, figures)


def _order(results: Results) -> Outcome:
    runs = _long(results, "temporal", SOURCE, "dfa")
    agree = [_not_after(first_epoch(run, "a"), first_epoch(run, "b")) for run in runs]
    not_before = [_not_after(first_epoch(run, "b"), first_epoch(run, "a")) for run in runs]
    before = [fires and not late for fires, late in zip(agree, not_before, strict=True)]
    turned = [not _not_after(first_epoch(run, "a"), first_epoch(run, LARGE)) for run in runs]
    first, second, third = (_epochs(runs, key) for key in ("a", "b", LARGE))
    words = (
        f"at 128 (a) epoch {first}, (b) epoch {second}: (a) first on {count(before, 'seeds')}, first or together on "
    )
    words += count(agree, "seeds")
    turned_words = f"at {LARGE_BATCH} (b) epoch {third}: (b) first on {count(turned, 'seeds')}"
    parts = {"(a) fires first or together with (b)": agree}
    return weighed(f"{words}; {turned_words}", parts, {"(a) fires first": before})


def _not_after(one: int | None, other: int | None) -> bool:
    return one is not None and (other is None or one <= other)


CLAIMS = (
    Claim(
        "C11",
        "random init is at chance and trustworthy",
        "‖h‖ ≈ 8.7 flat, ‖g‖ ≈ 8e-3, (c) 0.08–0.18",
        "Every seed is within 5 points of chance and trustworthy; ‖h‖ within 10 % of 8.7 at every site, ‖g‖ within a "
        "quarter of 8e-3, (c) within 0.05 of the published range.",
        f"{PRESET}; walkback lab study random-init",
        _untrained,
    ),
    Claim(
        "C12",
        "DFA fires early, BP never",
        f"(b) epoch 3–4, (a) epoch 8–11 of 100, by ‖g‖ of a loss averaged over about {LARGE_BATCH}: see N03",
        f"In the 100-epoch runs (a) and (b) fire on every seed of DFA {AS_SOURCE} and never on BP; in the convention "
        f"of the published temporal record, ‖g‖ of a loss averaged over {LARGE_BATCH}, within a factor of two of the "
        "published epochs. Partly: they fire at other epochs.",
        f"{PRESET}; {COMMANDS[SOURCE]}; walkback lab study temporal",
        _early,
    ),
    Claim(
        "C13",
        "stopping at the first firing costs nothing",
        "epoch 4 of 100, same final accuracy, 96 % saved",
        f"Stopping every 100-epoch run of DFA {AS_SOURCE} at the first (a) or (b) saves 90 % of the epochs or more and "
        "costs 1 point of accuracy or less. Partly: one of the two.",
        f"{COMMANDS[SOURCE]}; walkback lab study early-stop",
        _stopping,
    ),
    Claim(
        "C14",
        "Γ looks healthy throughout",
        "0.087–0.107 over 100 epochs",
        f"Γ, the mean over blocks, is positive at every epoch of every 100-epoch run of DFA {AS_SOURCE}, and within "
        "0.05 of the published range.",
        COMMANDS[SOURCE],
        _healthy_alignment,
    ),
)

FINDING = Claim(
    "N03",
    f"the published temporal record and the audit differ by a factor of eight in ‖g‖: a batch of about {LARGE_BATCH} "
    "against 128; at one convention (a) fires before (b)",
    "–",
    "With ‖g‖ of a loss averaged over 128 samples throughout, (a) fires before (b) on every seed of the 100-epoch "
    f"runs of DFA {AS_SOURCE}. Partly: before it or with it, on some. The factor of eight is arithmetic: ‖g‖ is that "
    "of a mean over n, and the untrained network's is 9.8e-4 in the one record and 8e-3 in the other.",
    f"{COMMANDS[SOURCE]}; walkback lab study temporal",
    _order,
)
