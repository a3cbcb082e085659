"""Chains that Python 3.10 would die of are refused from their tokens; everything that people write is let through."""

import pytest

from walkback.lint.chains import DEEPEST, refuse_deep

LONG = 2 * DEEPEST


@pytest.mark.parametrize(
    "source",
    [
        "x" + ".a" * LONG,
        "x" + "()" * LONG,
        "x" + "[0]" * LONG,
        "+".join(["x"] * LONG),
        "x" + ".f(1, 2)" * LONG,
        "f(" + "x" + ".a" * LONG,  # the bracket is never closed
    ],
)
def test_a_long_chain_is_refused(source):
    with pytest.raises(RecursionError):
        refuse_deep(source)


@pytest.mark.parametrize(
    "source",
    [
        "[" + "-1.0, " * LONG + "]",
        "{" + "'a': x.b[0]," * LONG + "}",
        "x = a.b\n" * LONG,
        "f(" + "g(x.y + 1), " * LONG + ")",
        "x = a.b;" * LONG,
        "x" + ".a" * (DEEPEST // 2),
        ")" * 10 + "(",
        "def f(:\n",
        "  x\n y\n",
    ],
)
def test_data_and_whatever_is_no_python_are_left_to_the_parser(source):
    refuse_deep(source)
