"""WB005: feedback made as a plain tensor in an nn.Module, neither parameter nor buffer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.module import Module, last_name, text
from walkback.lint.rule import Hit, Rule

_RANDOM = {"rand", "randn", "normal", "rand_like", "randn_like"}
_EMPTY = {"empty", "zeros", "ones", "full", "eye", "Tensor", "FloatTensor", "tensor", "randint"}
_FILLS = re.compile(r"^(normal|uniform|bernoulli|xavier_\w+|kaiming_\w+|orthogonal|trunc_normal)_$")
_STAYS_TENSOR = {
    "to",
    "cuda",
    "cpu",
    "float",
    "double",
    "t",
    "detach",
    "clone",
    "requires_grad_",
    "mul_",
    "div_",
    "sign",
}
_FEEDBACK = re.compile(r"(?i:feedback|backward_?(weight|mat)|weights?_?(backward|fa|fb)$|^fb_|_fb$)|^_?B\d*$")
_WRAPPERS = {"Parameter", "Buffer", "ParameterList", "BufferList"}
_SETUP = re.compile(r"^_*(init|reset|draw|build|make|setup|create|sample)")
_BACKWARD = re.compile(r"backward|backprop|feed_?back|credit|(^|_)dfa|(^|_)teach|(^|_)align", re.IGNORECASE)
"""What a function is called that hands errors back."""
_ERROR = re.compile(r"(^|_)(e|err|errors?|deltas?|grads?|gradients?|credits?)($|_)", re.IGNORECASE)
"""What is called an error, or what comes of one."""
_PRODUCTS = {"mm", "matmul", "bmm", "linear", "einsum", "mul", "dot"}


def check(module: Module) -> Iterator[Hit]:
    """`self.B = torch.randn(…)` in the set-up of a module, where nothing registers B."""
    for node in module.nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        owner = module.enclosing_class(node)
        if owner is None or not _is_own_attribute(target) or not _is_network(module, owner):
            continue
        name = last_name(target)
        if _is_feedback(module, node, name) and not _is_registered(owner, name):
            what = f"`self.{name}` is a plain tensor: state_dict does not save it and .to() does not move it"
            yield Hit(node, what, _buffer(node.value, name))


def _is_own_attribute(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def _is_network(module: Module, owner: ast.ClassDef) -> bool:
    """Whether a class is an nn.Module, by the names of its bases, also through classes of the same file."""
    seen, left = set(), [owner]
    while left:
        current = left.pop()
        seen.add(current)
        for base in current.bases:
            name = module.dotted(base)
            if name.startswith("torch.nn.") or name.rpartition(".")[2].endswith("Module"):
                return True
            parent = module.classes.get(name)
            if parent is not None and parent not in seen:
                left.append(parent)
    return False


def _is_feedback(module: Module, node: ast.Assign, name: str) -> bool:
    """Any tensor that is called feedback, or a random one that is drawn once and fed back."""
    kind = _tensor_kind(module, node.value)
    if not kind:
        return False
    if _FEEDBACK.search(name):
        return True
    scope = module.scope_of(node)
    drawn_once = kind == "random" and isinstance(scope, ast.FunctionDef) and bool(_SETUP.search(scope.name))
    return drawn_once and any(_feeds_back(module, read) for read in _reads(module, name))


def _reads(module: Module, name: str) -> Iterator[ast.Attribute]:
    """Where the attribute is read, in whatever object: `self.m`, `layer.m`."""
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
            yield node


def _feeds_back(module: Module, read: ast.AST) -> bool:
    """Whether a tensor is used as feedback: in a function that hands errors back, or as a factor of one."""
    if _BACKWARD.search(getattr(module.scope_of(read), "name", "")):
        return True
    while not isinstance(read := module.parents[read], ast.stmt):
        if isinstance(read, ast.Call) and last_name(read.func) == "apply":
            return True  # handed to an autograd.Function
        product = isinstance(read, ast.BinOp) and isinstance(read.op, ast.MatMult | ast.Mult)
        if product or (isinstance(read, ast.Call) and last_name(read.func) in _PRODUCTS):
            return any(_ERROR.search(last_name(part)) for part in ast.walk(read))
    return False


def _tensor_kind(module: Module, node: ast.expr) -> str:
    """`random` or `plain` for an expression that makes a tensor, or a list of them; empty for all else."""
    if isinstance(node, ast.BinOp):
        return _tensor_kind(module, node.left) or _tensor_kind(module, node.right)
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return _tensor_kind(module, node.elt)
    if isinstance(node, ast.DictComp):
        return _tensor_kind(module, node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return next(filter(None, (_tensor_kind(module, e) for e in node.elts)), "")
    if isinstance(node, ast.Attribute) and node.attr in {"T", "data"}:
        return _tensor_kind(module, node.value)
    return _call_kind(module, node) if isinstance(node, ast.Call) else ""


def _call_kind(module: Module, call: ast.Call) -> str:
    library, _, function = module.dotted(call.func).rpartition(".")
    if library == "torch":
        return "random" if function in _RANDOM else "plain" if function in _EMPTY else ""
    if library == "torch.nn.init":
        return "random" if call.args and _tensor_kind(module, call.args[0]) else ""
    if isinstance(call.func, ast.Attribute):
        inner = _tensor_kind(module, call.func.value)
        if inner and _FILLS.match(call.func.attr):
            return "random"
        return inner if call.func.attr in _STAYS_TENSOR else ""
    return ""


def _is_registered(owner: ast.ClassDef, name: str) -> bool:
    """Whether the class makes the name a buffer or a parameter, or may do so under a name that is computed."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and last_name(node.func) in {"register_buffer", "register_parameter"}:
            first = node.args[0] if node.args else None
            if not isinstance(first, ast.Constant) or first.value == name:
                return True
        if isinstance(node, ast.Assign) and _wraps(node, name):
            return True
    return False


def _wraps(node: ast.Assign, name: str) -> bool:
    """`self.B = nn.Parameter(self.B)`."""
    sets = any(_is_own_attribute(target) and last_name(target) == name for target in node.targets)
    return sets and isinstance(node.value, ast.Call) and last_name(node.value.func) in _WRAPPERS


def _buffer(value: ast.expr, name: str) -> str:
    if isinstance(value, ast.ListComp | ast.List | ast.Tuple | ast.DictComp | ast.GeneratorExp | ast.SetComp):
        return f'self.register_buffer(f"{name}_{{i}}", …) for each of them'
    return f'self.register_buffer("{name}", {text(value, 80)})'


RULE = Rule(
    "WB005",
    "feedback that is neither parameter nor buffer",
    "state_dict leaves a plain tensor out, so a checkpoint cannot bring back the feedback that was trained with, and "
    "alignment is then measured with another draw: the null, reported as the result.",
    check,
    pitfall=4,
)
