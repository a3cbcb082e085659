"""EX001: the rank of a matrix without a tolerance."""

from __future__ import annotations

from walkback.lint import Hit, Rule

CALLS = {"torch.linalg.matrix_rank", "numpy.linalg.matrix_rank"}


def check(module):
    """Calls of matrix_rank that leave it to rounding what counts as a direction."""
    for call in module.calls:
        if module.dotted(call.func) in CALLS and not call.keywords and len(call.args) == 1:
            yield Hit(
                call, "matrix_rank without a tolerance counts rounding as directions", "matrix_rank(h, rtol=1e-3)"
            )


RULE = Rule(
    code="EX001",
    title="matrix_rank without a tolerance",
    why="Rounding alone makes nearly every matrix of full rank, so a collapsed network looks as rich as a healthy one.",
    check=check,
    pitfall="exact_rank",
)
