"""Expressions that Python 3.10 dies of: its parser makes trees of any depth, and walks them on the machine's own stack.

Later Pythons count the depth and raise RecursionError. `refuse_deep` raises it for them all, from the tokens alone.
"""

from __future__ import annotations

import io
import tokenize

DEEPEST = 3000
"""Operators, dots, calls and subscripts in one chain: about what Python 3.11 allows."""
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")
BETWEEN = frozenset({",", ":", ";"})
"""What ends a chain inside its brackets."""


def refuse_deep(source: str) -> None:
    """Raise RecursionError where an expression is a longer chain than `DEEPEST`.

    A chain goes on behind a bracket that is closed (`x.f(1, 2).f(1, 2)`), and a comma begins another one.
    """
    chains = [0]  # of each open bracket
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NEWLINE:
                chains = [0]
            elif token.type == tokenize.OP:
                _count(chains, token.string)
                if chains[-1] > DEEPEST:
                    raise RecursionError(f"a chain of more than {DEEPEST} operators")
    except (tokenize.TokenError, SyntaxError):
        return  # the parser says what is wrong, and where


def _count(chains: list[int], operator: str) -> None:
    if operator in BETWEEN:
        chains[-1] = 0
        return
    if operator in CLOSING and len(chains) > 1:
        chains.pop()
        return
    chains[-1] += 1
    if operator in OPENING:
        chains.append(0)
