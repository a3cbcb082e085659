"""WB006: one mean over layers of a cosine, with no layer's own figure kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.collected import is_collected, loop_words, summarised, unjoined
from walkback.lint.module import Module, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import is_cosine

_LAYERS = re.compile(r"layer|block|site|depth|modules|parameters|params|hiddens|feedback|credit|named_", re.IGNORECASE)
_MEANS = {"mean", "average", "fmean", "nanmean"}


def check(module: Module) -> Iterator[Hit]:
    """Means of per-layer cosines: of a comprehension, or of a list that a loop fills and nobody else reads."""

    def wanted(value: ast.expr, loop: ast.AST) -> bool:
        return bool(_LAYERS.search(loop_words(loop))) and _gives_cosine(module, value)

    for node in module.nodes:
        averaged = _averaged(node) if isinstance(node, ast.expr) else None
        if averaged is None or not isinstance(node, ast.expr):
            continue
        collected = unjoined(averaged)
        if is_collected(module, collected, _MEANS, wanted):
            what = f"`{text(node)}` averages a cosine over layers and keeps none of them"
            yield Hit(node, what, f"report {text(collected)} per layer; the mean, if at all, beside it")


def _averaged(node: ast.expr) -> ast.expr | None:
    """What a mean is taken of: `np.mean(x)`, `torch.stack(x).mean()`, `sum(x) / len(x)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.left, ast.Call):
        sums = isinstance(node.left.func, ast.Name) and node.left.func.id == "sum" and len(node.left.args) == 1
        return node.left.args[0] if sums else None
    return summarised(node, _MEANS)


def _gives_cosine(module: Module, node: ast.expr) -> bool:
    if _holds_cosine(module, node):
        return True
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    values = (module.value_of(name) for name in names)
    return any(value is not None and _holds_cosine(module, value) for value in values)


def _holds_cosine(module: Module, node: ast.AST) -> bool:
    return any(is_cosine(module, part) for part in ast.walk(node))


RULE = Rule(
    "WB006",
    "mean over layers of a cosine",
    "One site can carry the average: with the first near 0.43 and all others slightly negative the mean is still "
    "positive, and misrepresents the hidden layers.",
    check,
    pitfall=6,
)
