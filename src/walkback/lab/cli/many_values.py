"""Options that take several words: `--methods bp fa dfa`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from typer.core import TyperCommand


class ManyValues(TyperCommand):
    """A command whose repeatable options also take several words after one flag."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse with the flag repeated before each of its words, which is what the library understands."""
        flags = {flag for option in self.params if getattr(option, "multiple", False) for flag in option.opts}
        return super().parse_args(ctx, repeated(args, flags))


def repeated(args: Sequence[str], flags: Collection[str]) -> list[str]:
    """`--methods bp fa` as `--methods bp --methods fa`, for each of the flags."""
    result: list[str] = []
    flag = ""
    for word in args:
        if word.startswith("-"):
            flag = word if word in flags else ""
            result.append(word)
        elif flag and result[-1] != flag:
            result += [flag, word]
        else:
            result.append(word)
    return result
