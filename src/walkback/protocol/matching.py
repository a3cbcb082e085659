"""Does a frozen baseline belong to the network that is diagnosed, and were its blocks the ones that were frozen?"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from walkback.errors import BaselineError
from walkback.protocol.parameters import difference, parameters_in, parameters_of, shapes_of
from walkback.protocol.scores import FrozenBaseline
from walkback.protocol.sites import Chain

ALONE = "Its score alone, given as a number, is taken without this check, and the report says so."


def check_matched(baseline: FrozenBaseline | None, model: nn.Module, chain: Chain) -> None:
    """Refuse a baseline of another network, or one that froze other blocks than those that are diagnosed.

    Compared are names: of the frozen parameters with those of the diagnosed blocks, and of all parameters with their
    shapes. A baseline that does not say what it froze passes, and the report says that it is not known.
    """
    if baseline is None:
        return
    if baseline.network and (apart := difference(baseline.network, shapes_of(model))):
        raise BaselineError(
            f"the frozen baseline is of another network than this {type(model).__name__}: {apart}. "
            f"Train it with a make_model that builds this network. {ALONE}"
        )
    frozen = _frozen(baseline, model)
    if not frozen:
        return
    # What lies between the blocks is left at random with them where a pass showed it, and may have been named without.
    inside = list(parameters_in(model, dict.fromkeys(chain.blocks)))
    left, more = _without(inside, frozen), _without(frozen, [*inside, *chain.parameters])
    if left or more:
        diagnosed = chain.pattern.split(",")
        raise BaselineError(
            f"the baseline froze {_blocks(baseline.frozen_blocks)}, but {_blocks(diagnosed)} "
            f"{'are' if _several(diagnosed) else 'is'} diagnosed: {_apart(left, more)}. Train it again with "
            f"blocks={chain.pattern!r}, or diagnose the blocks that it froze. {ALONE}"
        )


def _frozen(baseline: FrozenBaseline, model: nn.Module) -> list[str]:
    """The names of the frozen parameters; of a record that names blocks alone, those that lie in them."""
    if baseline.frozen_parameters:
        return list(baseline.frozen_parameters)
    inside = tuple(f"{block}." for block in baseline.frozen_blocks)
    return [name for name in parameters_of(model) if name.startswith(inside)] if inside else []


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    return [name for name in names if name not in set(others)]


def _apart(left: Sequence[str], more: Sequence[str]) -> str:
    """What the baseline trained and should have frozen, and the other way round."""
    parts = [f"{_listed(left)} trained and should have been frozen"] if left else []
    parts += [f"{_listed(more)} frozen too and should have been trained"] if more else []
    return ", and ".join(parts)


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - 1
    others = f" and {rest} {'other' if rest == 1 else 'others'}" if rest else ""
    return f"{names[0]}{others} {'were' if rest else 'was'}"


def _blocks(names: Sequence[str]) -> str:
    return f"block{'s' if _several(names) else ''} {', '.join(names)}" if names else "blocks that it does not name"


def _several(names: Sequence[str]) -> bool:
    return len(names) > 1 or "*" in "".join(names)
