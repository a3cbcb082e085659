"""The `blocks=` argument: modules by name, by glob or by themselves, and the other way round."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile

from torch import nn
from torch.jit import ScriptModule

from walkback.errors import BlocksError
from walkback.registry import did_you_mean

Blocks = str | nn.Module | Sequence[str | nn.Module] | None
"""Modules by dotted name, by glob (`layers.*`) or by themselves; `!head.*` leaves some out, `layer#2` means a second
call."""

FEW = 40
"""Up to this many names are listed in an error message."""


def plain_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The modules inside a model, once each, by dotted name; wrappers of torch.compile are seen through."""
    seen: dict[nn.Module, str] = {}
    for name, module in _all_names(model):
        seen.setdefault(module, name)
    return {name: module for module, name in seen.items()}


def _all_names(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """Every name of every module, shared ones under each of theirs; TorchScript takes no hooks and is left out."""
    for name, module in model.named_modules(remove_duplicate=False):
        if name and not hasattr(module, "_orig_mod") and not isinstance(module, ScriptModule):
            yield ".".join(part for part in name.split(".") if part != "_orig_mod"), module


@dataclass(frozen=True)
class Selection:
    """What a `blocks=` argument names: modules, which of their calls, and what is left out."""

    chosen: Mapping[nn.Module, frozenset[int] | None]
    """Each module with the calls that are meant, counted from 1; None for all of them."""
    left_out: frozenset[nn.Module] = frozenset()
    """Modules after a `!`, and everything inside them."""

    @classmethod
    def of(cls, model: nn.Module, blocks: Blocks, argument: str = "blocks") -> Selection:
        """Read names, globs, `!` exclusions, `#2` for a second call, and modules."""
        names = {module: name for name, module in plain_modules(model).items()}
        chosen: dict[nn.Module, frozenset[int] | None] = {}
        left_out: set[nn.Module] = set()
        items = _items(blocks, argument)
        for item in items:
            if isinstance(item, str) and item.startswith("!"):
                left_out |= {
                    inner for m in _left_out(item[1:].strip(), model, names, argument) for inner in m.modules()
                }
            else:
                for module, calls in _meant(item, model, names, argument).items():
                    before = chosen.get(module, frozenset())
                    chosen[module] = None if calls is None or before is None else before | calls
        if not items or not (chosen or left_out):
            raise BlocksError(f"{argument}= is empty; name at least one module, or leave it out to have them found.")
        kept = {module: calls for module, calls in chosen.items() if module not in left_out}
        if chosen and not kept:
            raise BlocksError(f"{argument}={_shown(items)} leaves out everything that it names.")
        return cls(kept, frozenset(left_out))

    def takes(self, module: nn.Module, nth: int) -> bool:
        """Whether the n-th call of a module, counted from 0, is meant."""
        if module not in self.chosen:
            return False
        calls = self.chosen[module]
        return calls is None or nth + 1 in calls


def _left_out(pattern: str, model: nn.Module, names: Mapping[nn.Module, str], argument: str) -> Sequence[nn.Module]:
    """What comes after a `!`; `head.*` means the head itself where there is nothing inside it."""
    whole = pattern.removesuffix(".*")
    inside = [module for name, module in _all_names(model) if glob_matches(pattern, name)]
    return inside or _named(whole if whole in names.values() else pattern, model, names, argument)[0]


def _shown(items: Sequence[object]) -> str:
    return repr(", ".join(item if isinstance(item, str) else type(item).__name__ for item in items))


def _meant(
    item: object, model: nn.Module, names: Mapping[nn.Module, str], argument: str
) -> dict[nn.Module, frozenset[int] | None]:
    if isinstance(item, str):
        found, call = _named(item, model, names, argument)
        return dict.fromkeys(found, None if call is None else frozenset({call}))
    if isinstance(item, nn.Module):
        return dict.fromkeys(_as_given(item, model, names, argument))
    raise BlocksError(
        f"{argument}= holds {type(item).__name__} {item!r}; expected dotted names, globs such as 'layers.*', or "
        "modules."
    )


def _items(blocks: Blocks, argument: str) -> list[object]:
    if isinstance(blocks, str):
        return [part.strip() for part in blocks.split(",") if part.strip()]
    if isinstance(blocks, nn.Module) and not isinstance(blocks, nn.ModuleList | nn.Sequential | nn.ModuleDict):
        return [blocks]
    if isinstance(blocks, nn.ModuleDict):
        return list(blocks.values())
    if not isinstance(blocks, Iterable):
        raise BlocksError(
            f"{argument}={blocks!r} is {type(blocks).__name__}; expected names, a glob such as 'layers.*', or modules."
        )
    parts: list[object] = []
    for item in blocks:
        if isinstance(item, str):
            parts += [part.strip() for part in item.split(",")]
        else:
            parts += _items(item, argument) if isinstance(item, list | tuple) else [item]
    return parts


def _named(
    pattern: str, model: nn.Module, names: Mapping[nn.Module, str], argument: str
) -> tuple[list[nn.Module], int | None]:
    """The modules that a glob names, and the number of the call that it means, if it says one."""
    glob, _, call = pattern.partition("#")
    if "#" in pattern and not (call.isdecimal() and int(call) > 0):
        raise BlocksError(
            f"{argument}={pattern!r} names the call {call!r}; expected a number from 1 on after '#', as in 'layer#2' "
            "for the second call of a layer."
        )
    found = [module for name, module in _all_names(model) if glob_matches(glob, name)]
    if not found:
        raise BlocksError(
            f"{argument}={pattern!r} matches no module of {type(model).__name__}. "
            f"{_suggestion(glob, names.values())}".rstrip()
        )
    return list(dict.fromkeys(found)), int(call) if call else None


def _as_given(item: nn.Module, model: nn.Module, names: Mapping[nn.Module, str], argument: str) -> list[nn.Module]:
    module = getattr(item, "_orig_mod", item)
    if module not in names:
        raise BlocksError(
            f"{argument}= holds a {type(module).__name__} that is not part of {type(model).__name__}; expected modules "
            "of the model itself."
        )
    return [module]


def _suggestion(pattern: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if len(known) < FEW:
        return did_you_mean(pattern, known)
    near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.3)
    return f"Did you mean one like {', '.join(map(repr, near))}?" if near else ""


def glob_matches(pattern: str, name: str) -> bool:
    """Component by component, so that `layer.*` stops at the layers."""
    parts, pieces = pattern.split("."), name.split(".")
    return len(pieces) == len(parts) and all(map(fnmatchcase, pieces, parts))


def pattern_of(blocks: Sequence[str], names: Iterable[str]) -> str:
    """A `blocks=` argument for these blocks: a glob where one fits them and nothing else, else their names."""
    wanted = list(dict.fromkeys(blocks))
    split = [name.split(".") for name in wanted]
    if len(wanted) > 1 and len({len(parts) for parts in split}) == 1:
        glob = ".".join(
            parts[0] if len(set(parts)) == 1 else f"{_common_start(parts)}*" for parts in zip(*split, strict=True)
        )
        if {name for name in names if glob_matches(glob, name)} == set(wanted):
            return glob
    return ",".join(wanted)


def _common_start(words: Sequence[str]) -> str:
    return "".join(
        letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*words, strict=False))
    )
