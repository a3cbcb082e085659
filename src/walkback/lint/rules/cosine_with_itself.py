"""WB008: the cosine of something with itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from walkback.lint.module import Module, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import COSINE_FUNCTIONS, OPTAX_COSINES


def check(module: Module) -> Iterator[Hit]:
    """torch's cosine, or optax's, with two equal arguments: it is 1 whatever they are."""
    for call in module.calls:
        if module.dotted(call.func) in COSINE_FUNCTIONS | OPTAX_COSINES and len(call.args) >= 2:
            left, right = call.args[:2]
            if ast.dump(left) == ast.dump(right) and not any(isinstance(n, ast.Call) for n in ast.walk(left)):
                what = f"`{text(call)}` compares a tensor with itself: it is 1 whatever the tensor"
                yield Hit(call, what, "raise where the credit is missing; N/A is a result, 1.0 is not")


RULE = Rule(
    "WB008",
    "cosine of a tensor with itself",
    "A fallback to the gradient itself, where the method's credit was not saved, is recorded as perfect alignment.",
    check,
    pitfall=7,
)
