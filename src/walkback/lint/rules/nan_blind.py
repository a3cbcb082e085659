"""WB004: a threshold on a computed norm that NaN passes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.module import FUNCTIONS, Module, last_name, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import is_norm_value

_ALARM = re.compile(
    r"explo|vanish|diverg|fail|fire|alarm|broken|degenerate|unstable|instab|collaps|dead|reason|problem|walk_?back"
    r"|too (large|small|big)|overflow|underflow|anomal",
    re.IGNORECASE,
)
_FINITE = {"isfinite", "isnan", "isinf", "nan_to_num", "is_nan", "isneginf", "isposinf", "is_finite"}
_TELLS = {"warn", "warning", "error", "critical", "fail"}
_SAFE = {ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Lt: ast.GtE, ast.LtE: ast.Gt}
"""`x > t` alarms on no NaN; `not x <= t` does."""


def check(module: Module) -> Iterator[Hit]:
    """Comparisons of a norm that decide an alarm, in code that never asks whether the norm is finite."""
    for node in module.nodes:
        if not isinstance(node, ast.Compare) or not _thresholds_a_norm(module, node):
            continue
        if _decides_alarm(module, node) and not _asks_for_nan(module, node):
            yield Hit(node, f"`{text(node)}` is false for NaN, so NaN raises no alarm", _safe(node))


def _thresholds_a_norm(module: Module, node: ast.Compare) -> bool:
    if len(node.ops) != 1 or type(node.ops[0]) not in _SAFE:
        return False
    sides = (node.left, node.comparators[0])
    # `norm < best` keeps the smallest of several; only a fixed limit makes a threshold.
    normed = [is_norm_value(module, side) for side in sides]
    return normed.count(True) == 1


def _decides_alarm(module: Module, node: ast.Compare) -> bool:
    child: ast.AST = node
    parent = module.parents[child]
    while isinstance(parent, ast.BoolOp) or _is_any(parent):
        child, parent = parent, module.parents[parent]
    if isinstance(parent, ast.If) and parent.test is child:
        return any(_is_alarm(module, statement) for statement in parent.body)
    if isinstance(parent, ast.Assign | ast.AnnAssign) and parent.value is child:
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return any(_ALARM.search(last_name(target)) for target in targets)
    if isinstance(parent, ast.Return):
        scope = module.scope_of(parent)
        return isinstance(scope, FUNCTIONS[:2]) and bool(_ALARM.search(scope.name))
    if isinstance(parent, ast.keyword):
        return bool(parent.arg and _ALARM.search(parent.arg))
    return isinstance(parent, ast.Dict) and _is_alarm_entry(parent, child)


def _is_any(node: ast.AST) -> bool:
    """`bool(x > t)`, `(x > t).any()` and the like pass the answer on."""
    if isinstance(node, ast.Attribute):
        return node.attr in {"any", "all", "item"}
    if not isinstance(node, ast.Call):
        return False
    return last_name(node.func) in {"bool", "any", "all", "item"}


def _is_alarm_entry(entries: ast.Dict, value: ast.AST) -> bool:
    key = next((k for k, v in zip(entries.keys, entries.values, strict=True) if v is value), None)
    return isinstance(key, ast.Constant) and bool(_ALARM.search(str(key.value)))


def _is_alarm(module: Module, statement: ast.stmt) -> bool:
    """Whether a branch's statement says that something is wrong."""
    if isinstance(statement, ast.Raise):
        return True
    if isinstance(statement, ast.Assign):
        named = any(_ALARM.search(last_name(t)) for t in statement.targets)
        is_flag = isinstance(statement.value, ast.Constant) and statement.value.value is True
        return (named and is_flag) or _says_alarm(statement.value)
    if isinstance(statement, ast.Return):
        return statement.value is not None and _says_alarm(statement.value)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        warns = last_name(call.func) in _TELLS and isinstance(call.func, ast.Attribute)
        return warns or any(_says_alarm(argument) for argument in call.args)
    return False


def _says_alarm(node: ast.expr) -> bool:
    strings = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return any(_ALARM.search(string) for string in strings)


def _asks_for_nan(module: Module, node: ast.AST) -> bool:
    """Whether the same function looks for NaN, in whatever way: `isfinite(…)`, or `x != x`."""
    for other in module.own_nodes(module.scope_of(node)):
        if isinstance(other, ast.Call) and last_name(other.func) in _FINITE:
            return True
        if isinstance(other, ast.Compare) and _is_unequal_to_itself(other):
            return True
    return False


def _is_unequal_to_itself(node: ast.Compare) -> bool:
    return isinstance(node.ops[0], ast.NotEq) and ast.dump(node.left) == ast.dump(node.comparators[0])


def _safe(node: ast.Compare) -> str:
    flipped = ast.Compare(node.left, [_SAFE[type(node.ops[0])]()], node.comparators)
    return f"not {text(flipped, 80)}"


RULE = Rule(
    "WB004",
    "threshold on a norm that NaN passes",
    "Every comparison with NaN is false: where the true branch is the alarm, a network that diverged to NaN passes "
    "the check that was made for it.",
    check,
    pitfall=9,
)
