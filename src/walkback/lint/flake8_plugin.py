"""The rules as a flake8 plugin; flake8 itself reads `# noqa`, `--select` and `--ignore`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from walkback._version import __version__
from walkback.lint.check import chosen_rules, hits


class Plugin:
    """What flake8 makes of one file."""

    name: ClassVar[str] = "walkback"
    version: ClassVar[str] = __version__

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    def run(self) -> Iterator[tuple[int, int, str, type]]:
        """Line, column from 0, and a message that starts with the code."""
        for rule, hit in hits(self.tree, chosen_rules()):
            yield hit.node.lineno, hit.node.col_offset, f"{rule.code} {hit.what}; write: {hit.instead}", type(self)
