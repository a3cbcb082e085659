"""WB002: a cosine that clamps each norm at 1e-8."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from walkback.lint.module import Module, has_unpacking, keyword, last_name, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import COSINE_CLASSES, COSINE_FUNCTIONS

EPS_PLACE = {"function": 3, "class": 1}
_NO_MEASUREMENT = re.compile(r"loss|criterion|distill|regulari[sz]|contrastive", re.IGNORECASE)
"""What a function or class is called in which a cosine is trained on: there a clamp does good."""
_OF_UNIT_SIZE = re.compile(r"embed|(^|_)emb(_|s|$)|feat|token|quer(y|ies)|sentence|image|anchor|proto", re.IGNORECASE)
"""What vectors are called whose norm is nowhere near 1e-8."""


def check(module: Module) -> Iterator[Hit]:
    """torch's cosine functions and class, called without an eps of one's own."""
    for call in module.calls:
        name = module.dotted(call.func)
        kind = "function" if name in COSINE_FUNCTIONS else "class" if name in COSINE_CLASSES else ""
        if not kind or has_unpacking(call) or keyword(call, "eps") is not None or len(call.args) > EPS_PLACE[kind]:
            continue
        if not _is_harmless(module, call):
            yield Hit(call, f"`{text(call)}` clamps each norm at 1e-8", _unclamped(call, kind))


def _is_harmless(module: Module, call: ast.Call) -> bool:
    """Whether names say that this is a training loss, or about embeddings, whose norms are of order one."""
    if any(_NO_MEASUREMENT.search(name) for name in module.enclosing_names(call)):
        return True
    # One gradient among the names outweighs: cos(embedding_grad, g) is a measurement.
    names = [last_name(node) for node in ast.walk(call)]
    return any(map(_OF_UNIT_SIZE.search, names)) and not any("grad" in name.lower() for name in names)


def _unclamped(call: ast.Call, kind: str) -> str:
    fixed = copy.deepcopy(call)
    if kind == "class":
        fixed.keywords.append(ast.keyword("eps", ast.Constant(1e-150)))
        return f"{text(fixed, 100)}, and give it .double() tensors"
    fixed.args[:2] = [_doubled(argument) for argument in fixed.args[:2]]
    for given in fixed.keywords:
        given.value = _doubled(given.value) if given.arg in {"x1", "x2"} else given.value
    fixed.keywords.append(ast.keyword("eps", ast.Constant(1e-150)))
    return text(fixed, 120)


def _doubled(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(node, "double", ast.Load()), [], [])


RULE = Rule(
    "WB002",
    "cosine with its default eps",
    "Below a norm of 1e-8 the cosine shrinks with the vector: a gradient at the numerical floor reads as unaligned "
    "whatever its direction, and one of norm 5e-10 is 20 times too low.",
    check,
    pitfall=2,
)
