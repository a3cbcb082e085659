"""The `blocks=` argument: modules by name, by glob or by themselves, and the other way round."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile

from torch import nn
from torch.jit import ScriptModule

from walkback.errors import BlocksError
from walkback.registry import did_you_mean

Blocks = str | nn.Module | Sequence[str] | Sequence[nn.Module] | None

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


def given_modules(model: nn.Module, blocks: Blocks) -> dict[nn.Module, str]:
    """The modules that a `blocks=` argument names, with their dotted names."""
    names = {module: name for name, module in plain_modules(model).items()}
    chosen: dict[nn.Module, str] = {}
    for item in _items(blocks):
        if isinstance(item, str):
            found = _named(item, model, names)
        elif isinstance(item, nn.Module):
            found = _as_given(item, model, names)
        else:
            raise BlocksError(
                f"blocks= holds {type(item).__name__} {item!r}; expected dotted names, globs such as 'layers.*', or "
                "modules."
            )
        chosen |= found
    if not chosen:
        raise BlocksError("blocks= is empty; name at least one block, or leave it out to have them found.")
    return chosen


def _items(blocks: Blocks) -> list[object]:
    if isinstance(blocks, str):
        return [part.strip() for part in blocks.split(",") if part.strip()]
    if isinstance(blocks, nn.Module) and not isinstance(blocks, nn.ModuleList | nn.Sequential):
        return [blocks]
    if not isinstance(blocks, Iterable):
        raise BlocksError(
            f"blocks={blocks!r} is {type(blocks).__name__}; expected names, a glob such as 'layers.*', or modules."
        )
    return list(blocks)


def _named(pattern: str, model: nn.Module, names: Mapping[nn.Module, str]) -> dict[nn.Module, str]:
    found = {module: names[module] for name, module in _all_names(model) if glob_matches(pattern, name)}
    if not found:
        raise BlocksError(
            f"blocks={pattern!r} matches no module of {type(model).__name__}. "
            f"{_suggestion(pattern, names.values())}".rstrip()
        )
    return found


def _as_given(item: nn.Module, model: nn.Module, names: Mapping[nn.Module, str]) -> dict[nn.Module, str]:
    module = getattr(item, "_orig_mod", item)
    if module not in names:
        raise BlocksError(
            f"blocks= holds a {type(module).__name__} that is no part of {type(model).__name__}; expected modules of "
            "the model itself."
        )
    return {module: names[module]}


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
