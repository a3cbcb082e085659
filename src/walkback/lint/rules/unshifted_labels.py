"""WB011: answers of a causal language model compared with its labels position by position."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from walkback.lint.module import Module, keyword, last_name, text
from walkback.lint.rule import Hit, Rule

_CAUSAL = re.compile(r"CausalLM|LMHeadModel$")
_OTHER_HEADS = re.compile(
    r"Classif|MaskedLM|ForMaskedLM|Seq2Seq|ConditionalGeneration|QuestionAnswering|MultipleChoice|PreTraining"
    r"|^T5|^MT5|^Bart|^Bert(?!LMHead)|^Roberta|^Electra|DataCollatorForTokenClass"
)
"""Models whose answers stand at the place of their labels: where a file has one of these too, nothing is said."""
_LABELS = re.compile(r"^(labels?|label_ids|input_ids|targets?)$")
_METRIC = re.compile(r"metric|accura|eval|score", re.IGNORECASE)
_SHIFTED = re.compile(r"shift|roll", re.IGNORECASE)
_SAME_NUMBERS = {"view", "reshape", "flatten", "to", "cpu", "cuda", "detach", "contiguous", "float", "long", "numpy"}


def check(module: Module) -> Iterator[Hit]:
    """`(logits.argmax(-1) == labels)` and `cross_entropy(logits, labels)` beside a model that shifts its labels."""
    if not _shifts_itself(module):
        return
    handed = {ast.dump(labels) for node in module.nodes if (labels := _inputs_as_labels(node)) is not None}
    for node in module.nodes:
        if not isinstance(node, ast.expr):
            continue
        sides = _compared(module, node, handed)
        if sides is not None and _scores_the_model(module, node) and not _is_shifted(module, node):
            answers, labels = sides
            what = f"`{text(node)}` compares position t with label t, and the model's own loss with label t + 1"
            yield Hit(node, what, f"compare `{text(answers)}` at [:, :-1] with `{text(labels)}` at [:, 1:]")


def _shifts_itself(module: Module) -> bool:
    """Whether the file hands labels to a model that scores them one place on: its own inputs, or a causal head."""
    names = {last_name(node) for node in module.nodes if isinstance(node, ast.Name | ast.Attribute)}
    names |= {name.rpartition(".")[2] for name in module.imports.values()}
    if any(map(_OTHER_HEADS.search, names)):
        return False
    if any(_inputs_as_labels(node) is not None for node in module.nodes):
        return True
    given = any(keyword(call, "labels") is not None for call in module.calls)
    return given and any(map(_CAUSAL.search, names))


def _inputs_as_labels(node: ast.AST) -> ast.expr | None:
    """x of `model(x, labels=x)`, of `{"input_ids": x, "labels": x}`, or of `b["labels"] = b["input_ids"].clone()`."""
    if isinstance(node, ast.Call):
        labels = keyword(node, "labels")
        inputs = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "input_ids")]
    elif isinstance(node, ast.Dict):
        pairs = {key.value: value for key, value in _items(node)}
        labels, inputs = pairs.get("labels"), [pairs["input_ids"]] if "input_ids" in pairs else []
    elif isinstance(node, ast.Assign) and _key(node.targets[0]) == "labels":
        parts = (part for part in ast.walk(node.value) if isinstance(part, ast.expr) and _key(part) == "input_ids")
        return next(parts, None)
    else:
        return None
    return labels if labels is not None and ast.dump(labels) in map(ast.dump, inputs) else None


def _items(node: ast.Dict) -> Iterator[tuple[ast.Constant, ast.expr]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key, value


def _key(node: ast.AST) -> object:
    """The constant in `batch["labels"]`."""
    return node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else None


def _compared(module: Module, node: ast.expr, handed: set[str]) -> tuple[ast.expr, ast.expr] | None:
    """(answers, labels) of a comparison or a cross-entropy of the two, both over all positions."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        pairs = ((node.left, node.comparators[0]), (node.comparators[0], node.left))
        return next((p for p in pairs if _is_argmax(module, p[0]) and _is_labels(p[1], handed)), None)
    if not isinstance(node, ast.Call) or len(node.args) != 2:
        return None
    entropy = module.dotted(node.func) == "torch.nn.functional.cross_entropy"
    both = entropy and _is_logits(module, node.args[0]) and _is_labels(node.args[1], handed)
    return (node.args[0], node.args[1]) if both else None


def _plain(node: ast.expr) -> ast.expr:
    """The tensor behind methods that keep its numbers."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_NUMBERS:
        node = node.func.value
    return node


def _is_argmax(module: Module, node: ast.expr) -> bool:
    node = _resolved(module, _plain(node))
    if not isinstance(node, ast.Call) or last_name(node.func) != "argmax":
        return False
    on_library = isinstance(node.func, ast.Attribute) and module.is_module(node.func.value)
    of = node.args[0] if on_library and node.args else getattr(node.func, "value", node)
    return _is_logits(module, of)


def _is_logits(module: Module, node: ast.expr) -> bool:
    node = _plain(node)
    named = last_name(node) == "logits" or _key(node) == "logits"
    return named or last_name(_resolved(module, node)) == "logits"


def _resolved(module: Module, node: ast.expr) -> ast.expr:
    value = module.value_of(node) if isinstance(node, ast.Name) else None
    return _plain(value) if value is not None else node


def _is_labels(node: ast.expr, handed: set[str]) -> bool:
    node = _plain(node)
    return ast.dump(node) in handed or bool(_LABELS.match(last_name(node)) or _LABELS.match(str(_key(node) or "")))


def _scores_the_model(module: Module, node: ast.AST) -> bool:
    """Whether the same function calls a model with labels or a whole batch, or says that it computes a metric."""
    scope = module.scope_of(node)
    if _METRIC.search(getattr(scope, "name", "")):
        return True
    calls = (other for other in module.own_nodes(scope) if isinstance(other, ast.Call))
    return any(keyword(call, "labels") is not None or any(k.arg is None for k in call.keywords) for call in calls)


def _is_shifted(module: Module, node: ast.AST) -> bool:
    """Whether the same function moves anything by one place, whatever it is."""
    for other in module.own_nodes(module.scope_of(node)):
        if isinstance(other, ast.Slice) and (_is_one(other.lower) or _is_minus_one(other.upper)):
            return True
        if isinstance(other, ast.Name | ast.Attribute) and _SHIFTED.search(last_name(other)):
            return True
    return False


def _is_one(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _is_minus_one(node: ast.expr | None) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _is_one(node.operand)


RULE = Rule(
    "WB011",
    "a causal model's answers beside unshifted labels",
    "The model's own loss compares the answer at t with the label at t + 1. Position by position the code asks whether "
    "the network repeats its input: an untrained one with tied embeddings does, and a trained one does not.",
    check,
    pitfall=12,
)
