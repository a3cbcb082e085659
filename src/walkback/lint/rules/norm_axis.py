"""WB001: `x.norm(-1)` passes p where an axis was meant."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from walkback.lint.module import Module, has_unpacking, keyword, last_name, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import NORM_FUNCTIONS


def check(module: Module) -> Iterator[Hit]:
    """Norms whose p is a negative whole number, with no axis given."""
    for call in module.calls:
        at = _place_of_p(module, call)
        if at is None or has_unpacking(call) or keyword(call, "dim", "axis") is not None:
            continue
        if len(call.args) <= at or not _is_negative_integer(call.args[at]) or not _no_axis_after(call, at):
            continue
        if not _is_undone(module, call):
            axis = ast.unparse(call.args[at])
            what = f"`{text(call)}` is the norm of order {axis} of the whole tensor, not a norm along axis {axis}"
            yield Hit(call, what, _with_axis(module, call, at))


def _place_of_p(module: Module, call: ast.Call) -> int | None:
    """Where p stands among the positional arguments; None for a call that is no norm."""
    if module.dotted(call.func) in NORM_FUNCTIONS:
        return 1
    is_method = isinstance(call.func, ast.Attribute) and not module.is_module(call.func.value)
    return 0 if is_method and last_name(call.func) == "norm" else None


def _is_negative_integer(node: ast.expr) -> bool:
    if not isinstance(node, ast.UnaryOp) or not isinstance(node.op, ast.USub):
        return False
    return isinstance(node.operand, ast.Constant) and type(node.operand.value) is int


def _is_undone(module: Module, call: ast.Call) -> bool:
    """`x.norm(-2) ** -2` and `x.norm(-2).pow(-2)` are sums of x⁻², written by someone who knows what p is."""
    user = module.parents[call]
    if isinstance(user, ast.BinOp):
        return isinstance(user.op, ast.Pow) and user.left is call and _is_negative_integer(user.right)
    return isinstance(user, ast.Attribute) and user.attr in {"pow", "reciprocal"}


def _no_axis_after(call: ast.Call, at: int) -> bool:
    """Whoever gives both p and an axis meant p."""
    rest = call.args[at + 1 :]
    return all(isinstance(a, ast.Constant) and isinstance(a.value, bool) for a in rest)


def _with_axis(module: Module, call: ast.Call, at: int) -> str:
    fixed = copy.deepcopy(call)
    name = "dim" if module.dotted(call.func).partition(".")[0] not in {"numpy", "jax", "scipy", "cupy"} else "axis"
    axis = fixed.args[at]
    fixed.keywords.insert(0, ast.keyword(name, axis))
    if len(fixed.args) > at + 1:
        fixed.keywords.append(ast.keyword("keepdim", fixed.args[at + 1]))
    fixed.args = fixed.args[:at]
    return text(fixed, 100)


RULE = Rule(
    "WB001",
    "norm(-1) passes p where an axis was meant",
    "The first argument of norm is p. p = -1 gives one number for the whole tensor, (Σ|x|⁻¹)⁻¹, which the smallest "
    "entries decide; it is no size of anything, and no error is raised.",
    check,
    pitfall=1,
)
