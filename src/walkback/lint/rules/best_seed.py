"""WB013: the best score over seeds, with no seed's own score kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from walkback.lint.collected import appends, is_collected, loop_around, loop_words, summarised, unjoined
from walkback.lint.module import Module, last_name, text
from walkback.lint.rule import Hit, Rule

_SEEDS = re.compile(r"(?<![a-z])seeds?(?![a-z])", re.IGNORECASE)
_SCORE = re.compile(r"(?<![a-z])(acc|accs|accuracy|accuracies|scores?|test|f1|auc|auroc|top1|bleu|miou)(?![a-z])", re.I)
_OTHER = re.compile(
    r"(?<![a-z])(val|valid|validation|dev|oob|cv|fold|loss|losses|train_acc|train_score)(?![a-z])", re.I
)
"""What seeds may be picked by, or what is no result."""
_TRAINS = re.compile(r"seed|rng|randomstate|generator|train|fit|run|experiment", re.IGNORECASE)
_BEST = {"max", "amax", "nanmax"}


class Running(NamedTuple):
    """A statement that keeps the better of two."""

    at: ast.expr
    best: ast.Name
    score: ast.Name


def check(module: Module) -> Iterator[Hit]:
    """`max(accs)` of what a loop over seeds collects, and `best = max(best, acc)` in such a loop."""
    for node in module.nodes:
        if isinstance(node, ast.expr) and (best := summarised(node, _BEST)) is not None:
            collected = unjoined(best)
            named = f"{ast.unparse(collected)} {_held(module, collected)} {_kept_as(module, node)}"
            if _is_score(named) and is_collected(module, collected, _BEST, _of_a_seed):
                yield _hit(node, text(collected))
        elif isinstance(node, ast.Assign | ast.If):
            running = _by_max(node) if isinstance(node, ast.Assign) else _by_comparison(node)
            if running is not None and _reports(module, node, running):
                yield _hit(running.at, f"`{running.score.id}` of every seed")


def _of_a_seed(value: ast.expr, loop: ast.AST) -> bool:
    return _over_seeds(loop, loop.body if isinstance(loop, ast.For) else [value])


def _hit(node: ast.expr, scores: str) -> Hit:
    what = f"`{text(node)}` picks the best score over seeds and keeps no other"
    return Hit(node, what, f"collect {scores}, and report count, mean and standard deviation")


def _is_score(words: str) -> bool:
    return bool(_SCORE.search(words)) and not _OTHER.search(words)


def _held(module: Module, node: ast.expr) -> str:
    """What a list holds, as source."""
    if not isinstance(node, ast.Name):
        return ""
    value = module.value_of(node)
    given = [argument for call in appends(module, node) for argument in call.args]
    return " ".join(map(ast.unparse, [*given, *([value] if value is not None else [])]))


def _kept_as(module: Module, node: ast.expr) -> str:
    """The name that a value is given."""
    parent = module.parents[node]
    return " ".join(map(ast.unparse, parent.targets)) if isinstance(parent, ast.Assign) else ""


def _over_seeds(loop: ast.AST, body: Sequence[ast.AST]) -> bool:
    """Whether a loop runs over seeds of a random generator: its variable goes to a call that seeds or trains."""
    if not _SEEDS.search(loop_words(loop)):
        return False
    assert isinstance(loop, ast.For | ast.comprehension)
    variables = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
    calls = (part for statement in body for part in ast.walk(statement) if isinstance(part, ast.Call))
    return any(_seeds_with(call, variables) for call in calls)


def _seeds_with(call: ast.Call, variables: set[str]) -> bool:
    named = {k.arg or "": k.value for k in call.keywords}
    by_name = any("seed" in name or name == "random_state" for name, value in named.items() if _holds(value, variables))
    given = any(_holds(value, variables) for value in (*call.args, *named.values()))
    return by_name or (given and bool(_TRAINS.search(last_name(call.func))))


def _holds(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _by_max(node: ast.Assign) -> Running | None:
    """`best = max(best, score)`."""
    call, target = node.value, node.targets[0]
    if not isinstance(call, ast.Call) or last_name(call.func) != "max" or not isinstance(target, ast.Name):
        return None
    names = [argument for argument in call.args if isinstance(argument, ast.Name)]
    scores = [name for name in names if name.id != target.id]
    return Running(call, target, scores[0]) if len(call.args) == len(names) == 2 and len(scores) == 1 else None


def _by_comparison(node: ast.If) -> Running | None:
    """`if score > best: best = score`, and nothing else: whoever keeps the network as well may go on with it."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or len(node.body) != 1 or node.orelse:
        return None
    sides = [test.left, test.comparators[0]]
    if isinstance(test.ops[0], ast.Lt | ast.LtE):
        sides.reverse()
    elif not isinstance(test.ops[0], ast.Gt | ast.GtE):
        return None
    score, best = sides
    kept = ast.unparse(node.body[0]) == f"{ast.unparse(best)} = {ast.unparse(score)}"
    return Running(test, best, score) if kept and isinstance(best, ast.Name) and isinstance(score, ast.Name) else None


def _reports(module: Module, node: ast.stmt, running: Running) -> bool:
    """Whether the loop right around it is over seeds, and nothing else reads a seed's score or resets the best."""
    best, score, loop = running.best.id, running.score.id, loop_around(module, node)
    if loop is None or not _is_score(f"{best} {score}") or not _over_seeds(loop, loop.body):
        return False
    inside, in_loop = set(ast.walk(node)), set(ast.walk(loop))
    others = [n for n in module.own_nodes(module.scope_of(node)) if isinstance(n, ast.Name) and n not in inside]
    read = any(n.id == score and isinstance(n.ctx, ast.Load) for n in others)
    reset = any(n.id == best and not isinstance(n.ctx, ast.Load) and n in in_loop for n in others)
    return not read and not reset


RULE = Rule(
    "WB013",
    "the best score over seeds",
    "The best of n seeds grows with n alone, and nobody who reads it knows n: a method that was tried more often comes "
    "out better, and better than itself.",
    check,
    pitfall=15,
)
