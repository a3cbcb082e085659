"""WB010: a gradient that is called BP's, taken through a backward pass that somebody wrote."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.module import Module, last_name, text
from walkback.lint.rule import Hit, Rule

_CALLED_BP = re.compile(r"(^|_)(bp|backprop|true|exact|ref|reference)(_|s?$|grad)", re.IGNORECASE)
_PRODUCTS = {
    "mm", "matmul", "bmm", "linear", "einsum", "conv1d_input", "conv2d_input", "conv3d_input", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d",
}  # fmt: skip
_DEPTH = 5


def check(module: Module) -> Iterator[Hit]:
    """`bp_grad = torch.autograd.grad(loss, h)` where the loss is that of a network with a backward of its own.

    Everything has to stand in the one file, and be set once: the Function whose backward multiplies by a tensor that
    its forward does not use, the network that is built of it, and the gradient that is called true.
    """
    functions = {name: tensor for name, node in module.classes.items() if (tensor := _other_tensor(module, node))}
    networks = _built_of(module, functions)
    if not networks:
        return
    for node in module.nodes:
        if not isinstance(node, ast.Assign) or not _CALLED_BP.search(last_name(node.targets[0])):
            continue
        network = _network_behind(module, _differentiated(module, node.value), networks)
        if network:
            function = networks[network]
            what = (
                f"`{text(node)}` goes through the backward pass of {function}, which multiplies by "
                f"`{functions[function]}` in place of what the forward pass used: it is no gradient of {network}"
            )
            yield Hit(node, what, f"the same on a twin of {network} with the same weights and torch's own layers")


def _other_tensor(module: Module, node: ast.ClassDef) -> str:
    """Of an autograd.Function: the tensor that backward multiplies by and forward only hands to it; else empty."""
    if not any(module.dotted(base).endswith("autograd.Function") for base in node.bases):
        return ""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or len(forward.args.args) < 2 or len(backward.args.args) < 2:
        return ""
    handed = _handed_on(forward)
    unused = {argument.arg for argument in forward.args.args[1:]} - _used(forward)
    renamed = _names_in_backward(backward, handed)
    grads = {argument.arg for argument in backward.args.args[1:]}
    return next((name for name in sorted(unused) if _multiplies(backward, renamed.get(name, name), grads)), "")


def _saves(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in {"save_for_backward", "save_for_forward"}


def _handed_on(forward: ast.FunctionDef) -> list[str]:
    """What save_for_backward is given, in order."""
    calls = [node for node in ast.walk(forward) if isinstance(node, ast.Call) and _saves(node)]
    return [last_name(argument) for argument in calls[0].args] if calls else []


def _used(forward: ast.FunctionDef) -> set[str]:
    """The names that the forward pass reads for anything but handing them to the backward pass."""
    handing: set[ast.AST] = set()
    for node in ast.walk(forward):
        to_context = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
        if _saves(node) or to_context:
            handing |= set(ast.walk(node))
    names = (node for node in ast.walk(forward) if isinstance(node, ast.Name) and node not in handing)
    return {name.id for name in names}


def _names_in_backward(backward: ast.FunctionDef, handed: list[str]) -> dict[str, str]:
    """What each handed tensor is called there: `x, W, B = ctx.saved_tensors`."""
    for node in ast.walk(backward):
        if not isinstance(node, ast.Assign) or last_name(node.value) not in {"saved_tensors", "saved_variables"}:
            continue
        if isinstance(node.targets[0], ast.Tuple) and len(node.targets[0].elts) == len(handed):
            return dict(zip(handed, map(last_name, node.targets[0].elts), strict=True))
    return {}


def _multiplies(backward: ast.FunctionDef, tensor: str, grads: set[str]) -> bool:
    """Whether the incoming gradient is multiplied by the tensor, as a matrix."""
    for node in ast.walk(backward):
        product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        call = isinstance(node, ast.Call) and last_name(node.func) in _PRODUCTS
        if product or call:
            names = {last_name(part) for part in ast.walk(node)}
            if tensor in names and names & grads:
                return True
    return False


def _built_of(module: Module, functions: dict[str, str]) -> dict[str, str]:
    """The classes whose code always goes through one of the functions: class → function."""
    through = {name: name for name in functions}
    for node in module.nodes:  # linear = FeedbackLinear.apply
        if isinstance(node, ast.Assign) and (function := _applied(node.value)) in functions:
            through[last_name(node.targets[0])] = function
    networks: dict[str, str] = {}
    for _ in module.classes:
        for name, node in module.classes.items():
            found = _unconditional(module, node, through | networks) if name not in functions else ""
            if found and name not in networks:
                networks[name] = found
    return networks


def _applied(node: ast.AST) -> str:
    """The name in `Name.apply`."""
    return last_name(node.value) if isinstance(node, ast.Attribute) and node.attr == "apply" else ""


def _unconditional(module: Module, owner: ast.ClassDef, through: dict[str, str]) -> str:
    """The function that a class goes through; empty where it does so on a condition: it may be its own twin."""
    found = ""
    for node in ast.walk(owner):
        if not isinstance(node, ast.Call):
            continue
        called = _applied(node.func) or (node.func.id if isinstance(node.func, ast.Name) else "")
        if called in through and called != owner.name:
            at: ast.AST = node
            while at is not owner:
                at = module.parents[at]
                if isinstance(at, ast.If | ast.IfExp):
                    return ""
            found = through[called]
    return found


def _differentiated(module: Module, value: ast.expr) -> ast.expr | None:
    """What a gradient is of: the loss of `autograd.grad(loss, …)`, or whatever has a `.grad` that is read."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and module.dotted(node.func) == "torch.autograd.grad" and node.args:
            return node.args[0]
    reads = any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(value))
    return value if reads else None


def _network_behind(module: Module, node: ast.expr | None, networks: dict[str, str], depth: int = _DEPTH) -> str:
    """The class of the network that an expression is computed by; empty where that cannot be seen, or another is."""
    if node is None or depth == 0:
        return ""
    found = set()
    for name in (part for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)):
        value = module.value_of(name) or _of_the_file(module, name)
        if value is None:
            continue
        built = next(
            (n.func.id for n in ast.walk(value) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)), ""
        )
        if built in module.classes:
            found.add(built)
        else:
            found |= {_network_behind(module, value, networks, depth - 1)} - {""}
    return min(found) if found and found <= set(networks) else ""


def _of_the_file(module: Module, name: ast.Name) -> ast.expr | None:
    """The value of a variable of the file, where only one assignment anywhere has its name."""
    stored = [
        n for n in module.nodes if isinstance(n, ast.Name) and n.id == name.id and not isinstance(n.ctx, ast.Load)
    ]
    arguments = [n for n in module.nodes if isinstance(n, ast.arg) and n.arg == name.id]
    if len(stored) != 1 or arguments:
        return None
    return module.value_of(stored[0])


RULE = Rule(
    "WB010",
    "a custom backward pass called the BP gradient",
    "Autograd follows the backward pass that was written, not the function that is computed: the method's own credit "
    "comes out, and compared with it the method is aligned to the last digit.",
    check,
    pitfall=11,
)
