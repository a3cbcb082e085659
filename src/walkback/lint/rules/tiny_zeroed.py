"""WB009: entries under a tiny absolute threshold set to zero."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.module import Module, last_name, text
from walkback.lint.rule import Hit, Rule

LARGEST = 1e-6
"""Above this a threshold prunes or quantises on purpose; below it somebody meant `numerically zero`."""
WHERE = {"torch.where", "numpy.where", "jax.numpy.where", "jax.lax.select"}
_TINY_NAME = re.compile(r"eps|sensitiv|(^|_)tiny|(^|_)tol", re.IGNORECASE)
"""What a limit is called that is meant to be numerically zero, where its value stands elsewhere."""
_DIRECTION = re.compile(r"grad|credit|delta|align|cos|angle|error|update", re.IGNORECASE)


def check(module: Module) -> Iterator[Hit]:
    """`g[g.abs() < 1e-8] = 0` and `where(g.abs() < 1e-8, 0, g)`, where directions are compared."""
    for node in module.nodes:
        if not isinstance(node, ast.stmt | ast.expr):
            continue
        test = _zeroed_where(module, node)
        if test is not None and _is_tiny(test) and _about_directions(module, node):
            what = f"`{text(node)}` sets small entries to zero, and a gradient has no size that counts as small"
            yield Hit(node, what, "leave them; compare directions in float64, scaled by their largest entry")


def _zeroed_where(module: Module, node: ast.AST) -> ast.Compare | None:
    """The comparison that decides which entries become zero."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and _is_zero(node.value):
        test: ast.AST = node.targets[0].slice
    elif isinstance(node, ast.Call) and module.dotted(node.func) in WHERE:
        if len(node.args) != 3 or not any(map(_is_zero, node.args[1:])):
            return None
        test = node.args[0]
    elif isinstance(node, ast.Call) and (changed := _changed_at(node)) is not None:
        test = changed
    else:
        return None
    return test if isinstance(test, ast.Compare) and len(test.ops) == 1 else None


def _changed_at(call: ast.Call) -> ast.expr | None:
    """What `g.at[PLACES].set(0)` sets to zero, in JAX, whose arrays cannot be changed in place."""
    places = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "set" else None
    at = places.value if isinstance(places, ast.Subscript) else None
    if not isinstance(places, ast.Subscript) or not isinstance(at, ast.Attribute) or at.attr != "at":
        return None
    return places.slice if call.args and _is_zero(call.args[0]) else None


def _is_zero(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and last_name(node.func) in {"zeros_like", "tensor", "zeros"}:
        return last_name(node.func) != "tensor" or (bool(node.args) and _is_zero(node.args[0]))
    return isinstance(node, ast.Constant) and type(node.value) in {int, float} and node.value == 0


def _is_tiny(test: ast.Compare) -> bool:
    """|x| against a constant between 0 and 1e-6, or against what is called an epsilon."""
    sides = (test.left, test.comparators[0])
    sized = any(isinstance(n, ast.Call) and last_name(n.func) in {"abs", "absolute", "fabs"} for n in ast.walk(test))
    return sized and any(map(_is_tiny_limit, sides))


def _is_tiny_limit(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is float and 0 < node.value <= LARGEST
    return bool(_TINY_NAME.search(last_name(node)))


def _about_directions(module: Module, node: ast.AST) -> bool:
    scope = module.scope_of(node)
    owner = module.enclosing_class(node)
    names = [getattr(scope, "name", ""), owner.name if owner else ""]
    names += [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return any(_DIRECTION.search(name) for name in names)


RULE = Rule(
    "WB009",
    "tiny entries of a direction set to zero",
    "A cosine does not depend on scale, an absolute threshold does: scale the loss by 1e-6 and every entry is gone; "
    "what the code then says of two zero vectors is not a measurement.",
    check,
    pitfall=2,
)
