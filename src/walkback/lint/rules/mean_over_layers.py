"""WB006: one mean over layers of a cosine, with no layer's own figure kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.module import Module, last_name, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import is_cosine

_LAYERS = re.compile(r"layer|block|site|depth|modules|parameters|params|hiddens|feedback|credit|named_", re.IGNORECASE)
_MEANS = {"mean", "average", "fmean", "nanmean"}
_JOINS = {"stack", "cat", "tensor", "array", "asarray", "as_tensor", "hstack", "concatenate"}


def check(module: Module) -> Iterator[Hit]:
    """Means of per-layer cosines: of a comprehension, or of a list that a loop fills and nobody else reads."""
    for node in module.nodes:
        if not isinstance(node, ast.expr):
            continue
        collected = _averaged(node)
        if collected is None:
            continue
        collected = _unjoined(collected)
        if _is_per_layer(module, collected):
            what = f"`{text(node)}` averages a cosine over layers and keeps none of them"
            yield Hit(node, what, f"report {text(collected)} per layer; the mean, if at all, beside it")


def _averaged(node: ast.expr) -> ast.expr | None:
    """What a mean is taken of: `np.mean(x)`, `torch.stack(x).mean()`, `sum(x) / len(x)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.left, ast.Call):
        sums = isinstance(node.left.func, ast.Name) and node.left.func.id == "sum" and len(node.left.args) == 1
        return node.left.args[0] if sums else None
    if not isinstance(node, ast.Call) or last_name(node.func) not in _MEANS:
        return None
    if node.args and _could_be_data(node.args[0]):
        return node.args[0]
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _could_be_data(node: ast.expr) -> bool:
    return not isinstance(node, ast.Constant | ast.UnaryOp)


def _unjoined(node: ast.expr) -> ast.expr:
    """The list behind `torch.stack(list)` or `np.array(list)`."""
    while isinstance(node, ast.Call) and last_name(node.func) in _JOINS and node.args:
        node = node.args[0]
    return node


def _is_per_layer(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        over_layers = any(_LAYERS.search(ast.unparse(g.iter) + ast.unparse(g.target)) for g in node.generators)
        return over_layers and _holds_cosine(module, node.elt)
    if not isinstance(node, ast.Name):
        return False
    value = module.value_of(node)
    if value is None or not _only_averaged(module, node):
        return False
    if isinstance(value, ast.ListComp):
        return _is_per_layer(module, value)
    is_empty = isinstance(value, ast.List) and not value.elts
    return is_empty and _filled_over_layers(module, node)


def _holds_cosine(module: Module, node: ast.AST) -> bool:
    return any(is_cosine(module, part) for part in ast.walk(node))


def _filled_over_layers(module: Module, name: ast.Name) -> bool:
    """Whether the scope's own loops over layers append cosines to the list."""
    for call in _appends(module, name):
        loop: ast.AST = call
        while not isinstance(loop, ast.Module) and not isinstance(loop, ast.For):
            loop = module.parents[loop]
        over = isinstance(loop, ast.For) and _LAYERS.search(ast.unparse(loop.iter) + ast.unparse(loop.target))
        if over and any(_gives_cosine(module, argument) for argument in call.args):
            return True
    return False


def _gives_cosine(module: Module, node: ast.expr) -> bool:
    if _holds_cosine(module, node):
        return True
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    values = (module.value_of(name) for name in names)
    return any(value is not None and _holds_cosine(module, value) for value in values)


def _appends(module: Module, name: ast.Name) -> Iterator[ast.Call]:
    for node in module.own_nodes(module.scope_of(name)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "append" and last_name(node.func.value) == name.id:
            yield node


def _only_averaged(module: Module, name: ast.Name) -> bool:
    """Whether nothing but appends, means and lengths reads the list: whoever returns or prints it hides nothing."""
    for node in module.own_nodes(module.scope_of(name)):
        if not isinstance(node, ast.Name) or node.id != name.id or not isinstance(node.ctx, ast.Load):
            continue
        user = module.parents[node]
        while isinstance(user, ast.Call) and last_name(user.func) in _JOINS:
            user = module.parents[user]
        fills = isinstance(user, ast.Attribute) and user.attr in {"append", "extend", *_MEANS}
        sums = isinstance(user, ast.Call) and last_name(user.func) in {"len", "sum", *_MEANS}
        if not (fills or sums or isinstance(user, ast.If | ast.IfExp)):
            return False
    return True


RULE = Rule(
    "WB006",
    "mean over layers of a cosine",
    "One site can carry the average: with the first near 0.43 and all others slightly negative the mean is still "
    "positive, and says of the hidden layers what is not so.",
    check,
    pitfall=6,
)
