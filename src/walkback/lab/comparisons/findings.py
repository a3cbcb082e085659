"""What the records of the field come to, in sentences that are counted and not typed. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from walkback.lab.comparisons.plan import BP, FROZEN
from walkback.lab.comparisons.plotted import broken
from walkback.lab.comparisons.tables import finished, gamma_of
from walkback.protocol.wording import p_value

Record = Mapping[str, Any]
FEWEST = 4
"""Methods below which a rank correlation says nothing."""


def methods_of(record: Record) -> list[Record]:
    """The arms that are neither BP nor the frozen one, and have runs."""
    return [arm for arm in record["arms"] if arm["label"] not in (BP, FROZEN) and finished(arm)]


def above_frozen(arm: Record) -> bool:
    """Whether the whole interval over seeds lies above the frozen arm's accuracy."""
    found = arm["to_frozen"]
    return found is not None and found["seeds"]["low"] is not None and found["seeds"]["low"] > 0


def below_bp(arm: Record) -> bool:
    """Whether the whole interval over seeds lies below BP's accuracy."""
    found = arm["to_bp"]
    return found is not None and found["seeds"]["high"] is not None and found["seeds"]["high"] < 0


def gains_by_depth(arm: Record) -> bool:
    """Whether depth gain is shown in every run."""
    cases = [run.get("depth_case") for run in finished(arm)]
    return bool(cases) and all(case == "gains" for case in cases)


def sentences(record: Record) -> Iterator[str]:
    """Who learns, who uses depth, whose credit is aligned, whose network is broken, on one network."""
    arms = methods_of(record)
    if not arms:
        return
    yield _counted("better than blocks left at random, by the whole interval over seeds", arms, above_frozen)
    yield _counted("worse than backpropagation, by the whole interval over seeds", arms, below_bp)
    if any(run.get("depth_case") for arm in arms for run in finished(arm)):
        yield _counted("use their depth: depth gain is shown in every run", arms, gains_by_depth)
    yield from _aligned(arms)
    yield _counted(
        "have a network that is called broken in every run", arms, lambda a: 0 < broken(a)[1] == broken(a)[0]
    )


def _counted(what: str, arms: Sequence[Record], holds: Any) -> str:
    named = [arm["label"] for arm in arms if holds(arm)]
    return f"{len(named)} of {len(arms)} methods: {what}" + (f" ({', '.join(named)})." if named else ".")


def _aligned(arms: Sequence[Record]) -> Iterator[str]:
    known = [(arm, gamma) for arm in arms if (gamma := gamma_of(arm)) is not None]
    if not known:
        return
    best, worst = (pick(known, key=lambda pair: pair[1]) for pick in (max, min))
    yield (
        f"Γ, the cosine between credit and true gradient, is known of {len(known)} methods: from {worst[1]:.2f} "
        f"({worst[0]['label']}) to {best[1]:.2f} ({best[0]['label']})." + _correlation(known)
    )


def _correlation(known: Sequence[tuple[Record, float]]) -> str:
    """Whether methods with a larger Γ score better, by Spearman's rank correlation."""
    scored = [(gamma, arm["to_frozen"]["mean"]) for arm, gamma in known if arm["to_frozen"] is not None]
    gammas, gains = {gamma for gamma, _ in scored}, {gain for _, gain in scored}
    if len(scored) < FEWEST or len(gammas) < 2 or len(gains) < 2:
        return ""
    from scipy import stats

    found = stats.spearmanr([gamma for gamma, _ in scored], [gain for _, gain in scored])
    return (
        f" Over these methods, its rank correlation with the accuracy gained over random blocks is "
        f"{found.statistic:.2f} (Spearman, {p_value(found.pvalue, 2)})."
    )
