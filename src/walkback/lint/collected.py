"""Values that a loop or a comprehension collects, and what becomes of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from walkback.lint.module import Module, Scope, last_name

JOINS = {"stack", "cat", "tensor", "array", "asarray", "as_tensor", "hstack", "concatenate"}
Collects = Callable[[ast.expr, ast.AST], bool]
"""Whether an expression, beside a loop or a comprehension's `for`, is what a rule looks for."""


def summarised(node: ast.expr, names: set[str]) -> ast.expr | None:
    """x of `np.mean(x)` and `torch.stack(x).mean()`, for summaries of these names."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in names:
        return None
    if node.args and not isinstance(node.args[0], ast.Constant | ast.UnaryOp):
        return node.args[0]
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def unjoined(node: ast.expr) -> ast.expr:
    """The list behind `torch.stack(list)`, `np.array(list)` or `list[1:]`."""
    while True:
        if isinstance(node, ast.Call) and last_name(node.func) in JOINS and node.args:
            node = node.args[0]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            node = node.value
        else:
            return node


def is_collected(module: Module, node: ast.expr, summaries: set[str], wanted: Collects) -> bool:
    """Whether an expression holds wanted values: a comprehension, or a list that nothing but summaries reads."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return any(wanted(node.elt, generator) for generator in node.generators)
    value = module.value_of(node) if isinstance(node, ast.Name) else None
    if not isinstance(node, ast.Name) or value is None or not only_summarised(module, node, summaries):
        return False
    if isinstance(value, ast.ListComp):
        return is_collected(module, value, summaries, wanted)
    if not isinstance(value, ast.List) or value.elts:
        return False
    filled = ((call, loop_around(module, call)) for call in appends(module, node))
    # A list that the loop itself makes is of one turn, and never holds what the loop runs over.
    outside = ((call, loop) for call, loop in filled if loop is not None and value not in ast.walk(loop))
    return any(wanted(given, loop) for call, loop in outside for given in call.args)


def appends(module: Module, name: ast.Name) -> Iterator[ast.Call]:
    """The scope's own calls of `name.append`."""
    for node in module.own_nodes(module.scope_of(name)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "append" and last_name(node.func.value) == name.id:
            yield node


def loop_around(module: Module, node: ast.AST) -> ast.For | None:
    """The innermost `for` around a node, in its own function."""
    while not isinstance(node, Scope):
        node = module.parents[node]
        if isinstance(node, ast.For):
            return node
        if isinstance(node, ast.While):
            return None
    return None


def loop_words(loop: ast.AST) -> str:
    """What a loop or a comprehension's `for` runs over, and what it calls that, as source."""
    assert isinstance(loop, ast.For | ast.comprehension)
    return f"{ast.unparse(loop.iter)} {ast.unparse(loop.target)}"


def only_summarised(module: Module, name: ast.Name, summaries: set[str]) -> bool:
    """Whether nothing but appends, lengths and summaries reads a list: whoever returns or prints it hides nothing."""
    for node in module.own_nodes(module.scope_of(name)):
        if not isinstance(node, ast.Name) or node.id != name.id or not isinstance(node.ctx, ast.Load):
            continue
        user = _user(module, node)
        fills = isinstance(user, ast.Attribute) and user.attr in {"append", "extend", *summaries}
        sums = isinstance(user, ast.Call) and last_name(user.func) in {"len", "sum", *summaries}
        if not (fills or sums or isinstance(user, ast.If | ast.IfExp)):
            return False
    return True


def _user(module: Module, node: ast.expr) -> ast.AST:
    """What uses a list, or what it is joined or sliced to."""
    user = module.parents[node]
    while (isinstance(user, ast.Call) and last_name(user.func) in JOINS) or (
        isinstance(user, ast.Subscript) and user.value is node and isinstance(user.slice, ast.Slice)
    ):
        node, user = user, module.parents[user]
    return user
