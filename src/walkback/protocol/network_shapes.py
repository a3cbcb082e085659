"""What a network is known by, whatever its weights are: the names and shapes of its parameters. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from walkback.protocol.schema import content_digest

Shapes = dict[str, tuple[int, ...]]


def fingerprint(shapes: Mapping[str, Iterable[int]]) -> str:
    """A short hash of names and shapes, whatever their order."""
    return content_digest({name: list(shape) for name, shape in shapes.items()})


def difference(
    there: Mapping[str, Iterable[int]],
    here: Mapping[str, Iterable[int]],
    names: tuple[str, str] = ("the baseline", "this network"),
) -> str:
    """Where two networks part, in a few words; empty where names and shapes are the same.

    `names` is what the two are called.
    """
    one, other = names
    for name, shape in there.items():
        if name not in here:
            return f"{one} has {name}, and {other} has not"
        if tuple(shape) != tuple(here[name]):
            return f"{name} has the shape {tuple(shape)} in {one} and {tuple(here[name])} in {other}"
    extra = next((name for name in here if name not in there), None)
    return f"{other} has {extra}, and {one} has not" if extra is not None else ""
