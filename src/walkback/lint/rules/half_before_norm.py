"""WB003: values cast to float16 before a norm or a cosine is taken."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from walkback.lint.module import Module, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import NORM_FUNCTIONS, half_cast_behind, is_cosine, is_norm


def check(module: Module) -> Iterator[Hit]:
    """Norms and cosines of what went through a cast to half."""
    for call in module.calls:
        if not (is_norm(module, call) or is_cosine(module, call)):
            continue
        for measured in _measured(module, call):
            cast = half_cast_behind(module, measured)
            if cast is not None:
                yield Hit(call, f"`{text(call)}` is taken of values that `{text(cast)}` cast to float16", _fix(cast))
                break


def _measured(module: Module, call: ast.Call) -> Iterator[ast.expr]:
    """The tensors that the norm or cosine is of."""
    if is_cosine(module, call):
        yield from call.args[:2]
    elif module.dotted(call.func) in NORM_FUNCTIONS:
        yield from call.args[:1]
    elif isinstance(call.func, ast.Attribute):
        yield call.func.value


def _fix(cast: ast.AST) -> str:
    assert isinstance(cast, ast.Call)
    assert isinstance(cast.func, ast.Attribute)
    up = "astype(np.float64)" if cast.func.attr == "astype" else "double()"
    return f"{text(cast.func.value)}.{up} where the norm or cosine is taken"


RULE = Rule(
    "WB003",
    "cast to half before a norm or cosine",
    "float16 has nothing between 0 and 6e-8: smaller entries become 0, their norm 0, and a cosine with them NaN. "
    "bfloat16 has the range of float32 and only loses digits.",
    check,
    pitfall=3,
)
