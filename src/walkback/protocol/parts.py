"""The parts of a network, stem, blocks and head, as the caller named them or as its structure shows them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from torch import nn

from walkback.errors import BlocksError
from walkback.protocol.block_names import Blocks, Selection, plain_modules
from walkback.protocol.calls import Watched
from walkback.protocol.chains import Run, found_runs, linked_runs


@dataclass(frozen=True)
class Parts:
    """What the caller said of the network's parts; whatever is not said is found by structure."""

    blocks: Blocks = None
    stem: Blocks = None
    head: Blocks = None

    @classmethod
    def of(cls, blocks: Blocks | Parts) -> Parts:
        """The blocks alone, or all of it."""
        return blocks if isinstance(blocks, Parts) else cls(blocks)

    def named(self, model: nn.Module) -> dict[nn.Module, str] | None:
        """The modules that are named as blocks, with their names; None where blocks are to be found."""
        chosen = Selection.of(model, self.blocks).chosen if self.blocks is not None else {}
        names = {module: name for name, module in plain_modules(model).items()}
        return {module: names[module] for module in chosen} or None

    def check(self, model: nn.Module) -> None:
        """Refuse what names no module, before anything is run."""
        for argument in ("blocks", "stem", "head"):
            if getattr(self, argument) is not None:
                Selection.of(model, getattr(self, argument), argument)


class Division:
    """How one watched pass divides into what comes before the blocks, the blocks, and what comes after."""

    def __init__(self, model: nn.Module, watched: Watched, parts: Parts) -> None:
        self.model, self.watched = model, watched
        self.selection = Selection.of(model, parts.blocks) if parts.blocks is not None else None
        self.stem_left = max(self._times(parts.stem, "stem", "left"), default=-inf)
        self.head_at = min(self._times(parts.head, "head", "entered"), default=inf)

    @property
    def given(self) -> bool:
        """Whether the blocks were named."""
        return self.selection is not None and bool(self.selection.chosen)

    @property
    def whole(self) -> bool:
        """Whether nothing of the network was set apart from what may be blocks."""
        return self.selection is None and self.stem_left == -inf and self.head_at == inf

    def runs(self) -> list[Run]:
        """The chain of blocks, or several that are as good as each other."""
        if self.selection is not None and self.selection.chosen:
            return self._named(self.selection)
        return found_runs(self.watched, self.candidates())

    def candidates(self) -> Run:
        """The calls that may be blocks: not left out, and between the named stem and head."""
        left_out = self.selection.left_out if self.selection is not None else frozenset()
        calls = (call for call in self.watched.calls if call.module not in left_out)
        return [call for call in calls if call.entered > self.stem_left and call.left < self.head_at]

    def _named(self, selection: Selection) -> list[Run]:
        run = [call for call in self.watched.calls if selection.takes(call.module, call.nth)]
        self._check_called(run, selection)
        inner = next((call for call in run if any(call.inside(other) for other in run)), None)
        if inner is not None:
            outer = next(other for other in run if inner.inside(other))
            raise BlocksError(
                f"blocks= names {outer.name} and {inner.name} inside it; expected blocks that come one after the "
                f"other. Name one of the two alone; '!{inner.name}' leaves the inner one out."
            )
        self._check_ends(run)
        return linked_runs(self.watched, run)

    def _check_ends(self, run: Run) -> None:
        """Named blocks must lie between the named ends."""
        before = next((call for call in run if call.entered < self.stem_left), None)
        behind = next((call for call in run if call.left > self.head_at), None)
        if before is not None or behind is not None:
            argument, call = ("stem", before) if before is not None else ("head", behind)
            assert call is not None
            raise BlocksError(
                f"{call.name} is named in blocks= and does not lie {'behind' if argument == 'stem' else 'before'} what "
                f"{argument}= names; expected stem, blocks and head one after the other. Leave it out of one of them."
            )

    def _check_called(self, run: Run, selection: Selection) -> None:
        """Every named module, and every named call of it, must have happened."""
        called = {(call.module, call.nth + 1) for call in run}
        modules = {call.module for call in self.watched.calls}
        names = self.watched.names
        missing = [names[module] for module in selection.chosen if module not in modules]
        missing += [
            f"{names[module]}#{number}"
            for module, calls in selection.chosen.items()
            for number in sorted(calls or ())
            if module in modules and (module, number) not in called
        ]
        if missing:
            raise BlocksError(
                f"the forward pass never calls {', '.join(missing)} with a floating tensor; expected blocks that the "
                "residual stream passes through. Leave them out of blocks=."
            )

    def _times(self, modules: Blocks, argument: str, which: str) -> list[int]:
        """When the modules that stand for the stem or the head are entered or left."""
        if modules is None:
            return []
        selection = Selection.of(self.model, modules, argument)
        if which == "left":
            times = [self.watched.left_at[m] for m in selection.chosen if m in self.watched.left_at]
        else:
            times = [call.entered for call in self.watched.calls if selection.takes(call.module, call.nth)]
        if not times:
            raise BlocksError(f"the forward pass never calls what {argument}= names; expected modules that it calls.")
        return times
