"""The verdict in one plain sentence, for a reader who does not know the letters; and of many networks at once."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.present.network import Network, by_method
from walkback.present.numbers import count
from walkback.protocol.records import DiagnosticReport, State
from walkback.protocol.verdict import NON_FINITE, WALK_BACK, kind_of

_FOUND = {
    "a": "the signal grows out of bounds from block to block",
    "b": "the true gradient is vanishingly small at the last block",
    "c": "all samples share one gradient direction",
    "d": "the trained blocks do no better than random ones",
}
_UNKNOWN = {
    "a": "the growth of the signal",
    "b": "the size of the true gradient",
    "c": "the spread of gradient directions",
    "d": "whether training the blocks helps at all",
}


def plain_verdict(report: DiagnosticReport) -> str:
    """What the verdict means for the result, in a sentence without letters or symbols."""
    if not report.readings:
        return "This network was not judged."
    found, unknown = _found(report), _unknown(report)
    if found:
        return f"Do not rely on this result as it stands: {_listed(found)}.{unknown}"
    if report.trustworthy:
        return f"Nothing that was measured speaks against this result.{unknown}"
    return f"Too little was measured to say whether this result can be relied on.{unknown}"


def _found(report: DiagnosticReport) -> list[str]:
    fired = [r for r in report.readings if r.state is State.FIRE]
    if any(r.reason == NON_FINITE for r in fired):
        return ["its numbers are not finite"]
    return [_FOUND.get(r.letter, r.reason or r.name) for r in fired]


def _unknown(report: DiagnosticReport) -> str:
    gaps = [r for r in report.readings if r.state in (State.NOT_MEASURED, State.UNDECIDED)]
    words = [_UNKNOWN.get(r.letter, r.name) for r in gaps]
    return f" Not known: {_listed(words)}." if words else ""


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def grid_state(networks: Sequence[Network]) -> State:
    """The state whose colour and shape a grid takes: that of its worst network."""
    kinds = [network.report.verdict for network in networks]
    if any(kind.startswith(WALK_BACK) for kind in kinds):
        return State.FIRE
    return State.PASS if all(network.report.trustworthy for network in networks) else State.NOT_MEASURED


def grid_verdict(networks: Sequence[Network]) -> str:
    """`3 of 5 methods need walk-back: DFA, …; 1 is mixed: EP; 1 is trustworthy: BP`."""
    methods = by_method(networks)
    groups: dict[str, list[str]] = {}
    for method, members in methods.items():
        kinds = {kind_of(network.report.verdict) or "not judged" for network in members}
        groups.setdefault(kinds.pop() if len(kinds) == 1 else "mixed", []).append(method)
    parts = [_group(word, groups[kind]) for kind, word in _ORDER.items() if kind in groups]
    return f"{count(len(methods), 'method')}, {count(len(networks), 'network')}: {'; '.join(parts)}"


_ORDER = {
    "needs walk-back": "needs walk-back on every seed",
    "mixed": "is mixed over its seeds",
    "trustworthy": "is trustworthy",
    "incomplete": "is incomplete",
    "not judged": "was not judged",
}
_MOST_NAMED = 5
_PLURAL = {"needs": "need", "is": "are", "was": "were", "its": "their"}


def _group(words: str, methods: Sequence[str]) -> str:
    more = len(methods) - _MOST_NAMED
    shown = ", ".join(methods[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    if len(methods) == 1:
        return f"1 {words} ({shown})"
    plural = " ".join(_PLURAL.get(word, word) for word in words.split())
    return f"{len(methods)} {plural} ({shown})"
