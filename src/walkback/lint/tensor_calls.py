"""Which expressions are norms, cosines and casts to half precision."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.module import Module, keyword, last_name

NORM_FUNCTIONS = {
    "torch.norm", "torch.functional.norm", "torch.linalg.norm", "torch.linalg.vector_norm", "numpy.linalg.norm",
    "jax.numpy.linalg.norm", "jax.numpy.linalg.vector_norm", "scipy.linalg.norm", "cupy.linalg.norm",
    "optax.global_norm", "optax.safe_norm", "optax.tree.norm", "optax.tree_utils.tree_l2_norm",
}  # fmt: skip
OPTAX_COSINES = {f"optax.{name}" for name in ("cosine_similarity", "losses.cosine_similarity")}
COSINE_FUNCTIONS = {"torch.cosine_similarity", "torch.nn.functional.cosine_similarity"}
COSINE_CLASSES = {
    "torch.nn.CosineSimilarity", "torch.nn.modules.CosineSimilarity", "torch.nn.modules.distance.CosineSimilarity",
}  # fmt: skip

_NAMED_NORM = re.compile(r"(^|_)norms?_?($|_)")
_NAMED_COSINE = re.compile(r"cosine|cos_?sim|(^|_)cos$", re.IGNORECASE)
_NOT_COSINE = re.compile(r"loss|schedul|lr|anneal|embedding|distance|window|warm", re.IGNORECASE)
HALF = {"float16", "half", "HalfTensor"}
KEEPS_VALUES = {
    "item", "mean", "max", "min", "median", "amax", "amin", "sum", "cpu", "cuda", "detach", "clone", "flatten", "view",
    "reshape", "squeeze", "unsqueeze", "abs", "to", "numpy", "tolist", "contiguous", "transpose", "t", "values",
}  # fmt: skip
"""Methods after which a tensor still holds what it held, or a summary of it."""
_DEPTH = 6


def is_norm(module: Module, node: ast.AST) -> bool:
    """Whether a call computes a norm of tensors: `x.norm()`, `torch.linalg.norm(x)`."""
    if not isinstance(node, ast.Call):
        return False
    name = module.dotted(node.func)
    if name in NORM_FUNCTIONS:
        return True
    # self.norm(x) is a layer far more often than a norm.
    called_on = node.func.value if isinstance(node.func, ast.Attribute) else None
    if called_on is None or last_name(node.func) != "norm" or module.is_module(called_on):
        return False
    return last_name(called_on) != "self" and not _takes_a_tensor(node)


def _takes_a_tensor(call: ast.Call) -> bool:
    """A norm's first argument is p; a layer's is a tensor."""
    return bool(call.args) and not isinstance(call.args[0], ast.Constant | ast.UnaryOp)


def is_cosine(module: Module, node: ast.AST) -> bool:
    """Whether a call computes a cosine of two vectors, by torch's function or by one that is called so."""
    if not isinstance(node, ast.Call):
        return False
    if module.dotted(node.func) in COSINE_FUNCTIONS | OPTAX_COSINES:
        return True
    name = last_name(node.func)
    if len(node.args) < 2 or _NOT_COSINE.search(name):
        return False
    on_library = isinstance(node.func, ast.Attribute) and module.is_module(node.func.value)
    return bool(_NAMED_COSINE.search(name)) and not on_library


def is_norm_value(module: Module, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether an expression's value comes from a norm: the norm, a summary or a ratio of it, or its variable."""
    if depth == 0:
        return False
    if isinstance(node, ast.Name):
        value = module.value_of(node)
        return value is not None and is_norm_value(module, value, depth - 1)
    if is_norm(module, node) or _is_named_norm(node):
        return True
    return any(is_norm_value(module, part, depth - 1) for part in _made_of(node))


def _is_named_norm(node: ast.AST) -> bool:
    """A call of a function that says it gives a norm, such as `clip_grad_norm_(…)` or `residual_norm(h)`."""
    if not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return False
    name = last_name(node.func)
    return name != "norm" and bool(_NAMED_NORM.search(name)) and not name.startswith(("batch_", "layer_", "set_"))


def _made_of(node: ast.AST) -> Iterator[ast.AST]:
    """The parts whose size decides that of the whole."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
        yield from (node.left, node.right)
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEEPS_VALUES:
        yield node.func.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"float", "max", "min"}:
        yield from node.args[:1]


def is_half_cast(module: Module, node: ast.AST) -> bool:
    """Whether a call casts to float16: `.half()`, `.to(torch.float16)`, `.astype(np.float16)`, `jnp.float16(x)`."""
    if not isinstance(node, ast.Call):
        return False
    if _cast_by_function(module, node) is not None:
        return True
    if not isinstance(node.func, ast.Attribute):
        return False
    method = node.func.attr
    if method == "half":
        return not node.args and not module.is_module(node.func.value)
    if method not in {"to", "type", "astype"}:
        return False
    given = [*node.args, *(k.value for k in node.keywords if k.arg == "dtype")]
    return any(_is_half(module, value) for value in given)


def _cast_by_function(module: Module, call: ast.Call) -> ast.expr | None:
    """What NumPy or JAX is told to cast: `jnp.float16(x)`, `jnp.asarray(x, dtype=jnp.float16)`."""
    name = module.dotted(call.func)
    if not call.args or not name.startswith(("numpy.", "jax.")):
        return None
    if _is_half(module, call.func):
        return call.args[0]
    place = {"asarray": 1, "array": 1, "convert_element_type": 1}.get(name.rpartition(".")[2])
    if place is None:
        return None
    given = keyword(call, "dtype", "new_dtype") or (call.args[place] if len(call.args) > place else None)
    return call.args[0] if given is not None and _is_half(module, given) else None


def _is_half(module: Module, node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in HALF
    return module.dotted(node) in {f"{library}.{name}" for library in ("torch", "numpy", "jax.numpy") for name in HALF}


def half_cast_behind(module: Module, node: ast.AST, depth: int = _DEPTH) -> ast.AST | None:
    """The cast to half that an expression's values went through, unless it was cast up again since."""
    if depth == 0:
        return None
    if is_half_cast(module, node):
        return node
    if isinstance(node, ast.Name):
        value = module.value_of(node)
        return half_cast_behind(module, value, depth - 1) if value is not None else None
    if isinstance(node, ast.Subscript):
        return half_cast_behind(module, node.value, depth - 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        keeps = node.func.attr in KEEPS_VALUES - {"to"}
        return half_cast_behind(module, node.func.value, depth - 1) if keeps else None
    return None
