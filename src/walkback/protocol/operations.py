"""What the functions between modules do to a stream: by their names, as torch gives them."""

from __future__ import annotations

CHANGED = "changed"
"""The name of what happens to a view when the tensor that it is a view of is written to."""

_UNCHANGED = frozenset({"to", "detach", "clone", "contiguous", "data", CHANGED})

ACTIVATIONS = _UNCHANGED | {
    "relu", "relu_", "relu6", "gelu", "silu", "silu_", "elu", "elu_", "selu", "selu_", "celu", "leaky_relu",
    "leaky_relu_", "rrelu", "prelu", "glu", "hardtanh", "hardswish", "hardsigmoid", "hardshrink", "softshrink",
    "tanhshrink", "softplus", "softsign", "mish", "logsigmoid", "threshold", "tanh", "tanh_", "sigmoid", "sigmoid_",
    "sin", "cos", "erf", "exp", "log1p", "clamp", "clamp_", "clip", "maximum", "minimum", "sign", "sgn", "heaviside",
    "where", "abs", "square", "sqrt", "pow", "gt", "lt", "ge", "le", "add", "add_", "sub", "sub_", "rsub", "mul",
    "mul_", "div", "div_", "true_divide", "neg", "reciprocal", "float", "double", "half", "bfloat16", "type_as",
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
}  # fmt: skip
"""Functions that work on each number by itself, and those that change none."""

LINEAR = _UNCHANGED | {
    "add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "true_divide", "neg", "float", "double", "half",
    "bfloat16", "type_as", "dropout", "dropout1d", "dropout2d", "dropout3d",
}  # fmt: skip
"""Those of them that scale and shift, and no more."""

LAYOUTS = _UNCHANGED | {
    "view", "reshape", "flatten", "unflatten", "ravel", "permute", "transpose", "movedim", "moveaxis", "swapaxes",
    "squeeze", "unsqueeze", "view_as", "reshape_as", "T", "mT",
}  # fmt: skip
"""Functions that put the same numbers elsewhere."""

COPIES = LAYOUTS | {"__setitem__", "__getitem__", "copy_", "select", "unbind", "stack", "index_copy_", "slice_scatter"}
"""Functions that move numbers into a buffer and out of it again."""

NORMS = frozenset({"layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm"})

STATISTICS = frozenset({
    "normalize", "mean", "var", "std", "var_mean", "std_mean", "norm", "vector_norm", "linalg_norm",
    "linalg_vector_norm", "rsqrt",
})  # fmt: skip
"""Functions by which a norm that is written out is known."""

PRODUCTS = frozenset({
    "linear", "bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "addmm", "addmv", "addbmm",
    "baddbmm", "einsum", "tensordot", "inner", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
})  # fmt: skip
"""Functions that multiply by a matrix."""

_POOLS = ("max_pool", "avg_pool", "lp_pool")


def is_pooling(name: str) -> bool:
    """Whether a function pools over neighbouring places."""
    return any(pool in name for pool in _POOLS)


def places(shape: tuple[int, ...]) -> int:
    """How many tokens or places a tensor (B, T, d) or (B, C, …) has; 1 where it has none."""
    if len(shape) == 3:
        return max(shape[1], 1)
    found = 1
    for size in shape[2:]:
        found *= size
    return found
