"""WB002: a cosine that clamps each norm at 1e-8, or whose norms an epsilon is added to."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from walkback.lint.module import Module, has_unpacking, keyword, last_name, text
from walkback.lint.rule import Hit, Rule
from walkback.lint.tensor_calls import COSINE_CLASSES, COSINE_FUNCTIONS, NORM_FUNCTIONS, OPTAX_COSINES

JAX_CLAMPS = {"jax.numpy.maximum", "jax.numpy.clip", "jax.lax.max"}
EPS_PLACE = {"function": 3, "class": 1}
_NO_MEASUREMENT = re.compile(r"loss|criterion|distill|regulari[sz]|contrastive", re.IGNORECASE)
"""What a function or class is called in which a cosine is trained on: there a clamp does good."""
_OF_UNIT_SIZE = re.compile(r"embed|(^|_)emb(_|s|$)|feat|token|quer(y|ies)|sentence|image|anchor|proto", re.IGNORECASE)
"""What vectors are called whose norm is nowhere near 1e-8."""


def check(module: Module) -> Iterator[Hit]:
    """torch's cosine functions and class, called without an eps of one's own; JAX's forms of the same."""
    yield from _of_torch(module)
    yield from _of_optax(module)
    yield from _by_hand(module)


def _of_torch(module: Module) -> Iterator[Hit]:
    for call in module.calls:
        name = module.dotted(call.func)
        kind = "function" if name in COSINE_FUNCTIONS else "class" if name in COSINE_CLASSES else ""
        if not kind or has_unpacking(call) or keyword(call, "eps") is not None or len(call.args) > EPS_PLACE[kind]:
            continue
        if not _is_harmless(module, call):
            yield Hit(call, f"`{text(call)}` clamps each norm at 1e-8", _unclamped(call, kind))


def _of_optax(module: Module) -> Iterator[Hit]:
    """`optax.cosine_similarity(a, b, epsilon=1e-8)`: its own epsilon is 0, and one that is given clamps each norm."""
    for call in module.calls:
        if module.dotted(call.func) not in OPTAX_COSINES or has_unpacking(call):
            continue
        given = keyword(call, "epsilon") or (call.args[2] if len(call.args) > 2 else None)
        if given is not None and not _is_zero(module, given) and not _is_harmless(module, call):
            what = f"`{text(call)}` clamps each norm at {text(given)}"
            yield Hit(call, what, f"{text(call.func)}({text(call.args[0])}, …), without epsilon, on float64 arrays")


def _is_zero(module: Module, node: ast.expr) -> bool:
    value = module.value_of(node) if isinstance(node, ast.Name) else node
    return isinstance(value, ast.Constant) and value.value == 0


def _by_hand(module: Module) -> Iterator[Hit]:
    """`jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b) + 1e-8)`, and what clamps the product or each norm."""
    for node in module.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        below = node.right
        if isinstance(below, ast.Name):
            below = module.value_of(below) or below
        sizes = _with_epsilon(module, below)
        if sizes and not _is_harmless(module, node):
            what = f"`{text(node)}` shrinks with its vectors where their norms come near the epsilon"
            yield Hit(node, what, f"{text(node.left)} / ({sizes}), on float64 arrays, and NaN where a norm is 0")


def _with_epsilon(module: Module, node: ast.expr) -> str:
    """The product of two of JAX's norms, as it is to be written, where an epsilon keeps it or either from 0."""
    if (bare := _raised(module, node)) is not None and _is_product_of_norms(module, bare):
        return text(bare)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return ""
    factors = (node.left, node.right)
    kept = [_norm_of(module, factor) for factor in factors]
    raised = any(one is not None and one != text(factor) for one, factor in zip(kept, factors, strict=True))
    return f"{kept[0]} * {kept[1]}" if raised and None not in kept else ""


def _raised(module: Module, node: ast.expr) -> ast.expr | None:
    """What an epsilon is added to, or what is clamped at one: `n + 1e-8`, `jnp.maximum(n, 1e-8)`."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Call) and module.dotted(node.func) in JAX_CLAMPS:
        parts = [*node.args, *(k.value for k in node.keywords if k.arg in {"min", "a_min"})]
    sizes = [part for part in parts if _is_product_of_norms(module, part) or _is_jax_norm(module, part)]
    return sizes[0] if len(parts) == 2 and len(sizes) == 1 else None


def _norm_of(module: Module, factor: ast.expr) -> str | None:
    """The norm behind a factor, without its epsilon, as it is to be written; None where there is none."""
    value = (module.value_of(factor) or factor) if isinstance(factor, ast.Name) else factor
    if isinstance(value, ast.Call) and module.dotted(value.func) == "optax.safe_norm" and len(value.args) > 1:
        return text(factor) if _is_zero(module, value.args[1]) else f"jnp.linalg.norm({text(value.args[0])})"
    bare = _raised(module, value)
    if bare is not None:
        return text(bare) if _is_jax_norm(module, bare) else None
    return text(factor) if _is_jax_norm(module, value) else None


def _is_product_of_norms(module: Module, node: ast.expr) -> bool:
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
    return product and all(_is_jax_norm(module, part) for part in (node.left, node.right))  # type: ignore[attr-defined]


def _is_jax_norm(module: Module, node: ast.expr) -> bool:
    value = module.value_of(node) if isinstance(node, ast.Name) else node
    name = module.dotted(value.func) if isinstance(value, ast.Call) else ""
    return name in NORM_FUNCTIONS and name.startswith(("jax.", "optax."))


def _is_harmless(module: Module, call: ast.expr) -> bool:
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
