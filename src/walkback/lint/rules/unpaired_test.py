"""WB012: a test for independent samples on the answers of two networks to the same samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from walkback.lint.module import Module, last_name, text
from walkback.lint.rule import Hit, Rule

_TWO_SAMPLES = {
    "scipy.stats.ttest_ind", "scipy.stats.mannwhitneyu", "scipy.stats.ranksums",
    "statsmodels.stats.weightstats.ttest_ind", "statsmodels.stats.weightstats.ztest",
    "statsmodels.api.stats.ttest_ind", "statsmodels.api.stats.ztest",
}  # fmt: skip
"""They take two lists of answers."""
_TWO_COUNTS = {"statsmodels.stats.proportion.proportions_ztest", "statsmodels.api.stats.proportions_ztest"}
"""They take a list of two counts of right answers."""
_SAME_ANSWERS = {
    "sum", "mean", "float", "double", "int", "long", "numpy", "cpu", "detach", "item", "astype", "to", "tolist",
    "asarray", "array", "flatten", "ravel", "view", "reshape",
}  # fmt: skip
"""Methods and functions that count answers or keep them."""
_DEPTH = 8
INSTEAD = "scipy.stats.binomtest(int((one & ~other).sum()), int((one != other).sum())), McNemar's test"


def check(module: Module) -> Iterator[Hit]:
    """Tests for two independent samples, and variances of two accuracies added, of comparisons with the same labels."""
    for node in module.nodes:
        operands = _operands(module, node)
        if operands is None or not isinstance(node, ast.expr):
            continue
        one, other = (_compared(module, operand) for operand in operands)
        if one is not None and other is not None and _paired(module, node, one, other):
            what = f"`{text(node)}` takes the answers of two networks to the same samples for independent"
            yield Hit(
                node,
                what,
                "scipy.stats.binomtest(int((one & ~other).sum()), int((one != other).sum())), McNemar's test",
            )


def _operands(module: Module, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """What a test compares: two lists of answers, two counts, or the two accuracies in an added variance."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        one, other = _binomial(node.left), _binomial(node.right)
        return None if one is None or other is None else (one, other)
    if not isinstance(node, ast.Call):
        return None
    name, given = module.dotted(node.func), node.args
    if name in _TWO_COUNTS and given:
        counts = module.value_of(given[0]) if isinstance(given[0], ast.Name) else given[0]
        if isinstance(counts, ast.Call) and last_name(counts.func) in {"array", "asarray"} and counts.args:
            counts = counts.args[0]
        given = counts.elts if isinstance(counts, ast.List | ast.Tuple) and len(counts.elts) == 2 else []
    elif name not in _TWO_SAMPLES:
        return None
    return (given[0], given[1]) if len(given) >= 2 else None


def _binomial(node: ast.expr) -> ast.expr | None:
    """p of `p * (1 - p)` and `p * (1 - p) / n`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        node = node.left
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    for share, rest in ((node.left, node.right), (node.right, node.left)):
        if isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Sub) and ast.dump(rest.right) == ast.dump(share):
            return share if isinstance(rest.left, ast.Constant) and rest.left.value == 1 else None
    return None


def _compared(module: Module, node: ast.expr, depth: int = _DEPTH) -> tuple[ast.expr, ast.expr] | None:
    """The two sides of the comparison that answers come from: `(predictions == y).sum()`, `accuracy_score(y, p)`."""
    if depth == 0:
        return None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        return node.left, node.comparators[0]
    if isinstance(node, ast.Name):
        value = module.value_of(node)
        return None if value is None else _compared(module, value, depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _compared(module, node.left, depth - 1)
    if not isinstance(node, ast.Call):
        return None
    if last_name(node.func) == "accuracy_score" and len(node.args) >= 2:
        return node.args[0], node.args[1]
    if last_name(node.func) not in _SAME_ANSWERS:
        return None
    on_library = isinstance(node.func, ast.Name) or module.is_module(getattr(node.func, "value", node))
    inner = (node.args[0] if node.args else None) if on_library else getattr(node.func, "value", None)
    return None if inner is None else _compared(module, inner, depth - 1)


def _paired(module: Module, at: ast.AST, one: tuple[ast.expr, ast.expr], other: tuple[ast.expr, ast.expr]) -> bool:
    """Whether both are compared with the same labels, which nothing sets anew in between, and the answers are two."""
    mine, theirs = ({ast.dump(side): side for side in sides} for sides in (one, other))
    shared = mine.keys() & theirs.keys()
    if len(shared) != 1 or mine.keys() == theirs.keys():
        return False
    labels = mine[shared.pop()]
    if any(isinstance(part, ast.Call) for part in ast.walk(labels)):
        return False
    names = {part.id for part in ast.walk(labels) if isinstance(part, ast.Name)}
    nodes = module.own_nodes(module.scope_of(at))
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    return bool(names) and all(stored.count(name) <= 1 for name in names)


RULE = Rule(
    "WB012",
    "an unpaired test on answers to the same samples",
    "Two networks find the same samples hard, so their accuracies move together. A test that adds both variances asks "
    "for a difference several times as large, and calls a true one noise.",
    check,
    pitfall=14,
)
