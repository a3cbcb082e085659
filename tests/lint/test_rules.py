"""What each rule finds, what it leaves alone, and that none of them crashes on valid Python."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lint_samples import FOUND, HEAD, LEFT_ALONE

from walkback.lint import RULES
from walkback.lint.check import check_source, chosen_rules

ROOT = Path(__file__).parents[2]
# Every third file: a hundred of them, from argparse to zipfile, are enough to meet every kind of statement.
STDLIB = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[::3]


def codes(source):
    return [finding.code for finding in check_source(source, "x.py", chosen_rules())]


def cases(samples):
    return [pytest.param(code, source, id=f"{code}-{i}") for code in samples for i, source in enumerate(samples[code])]


def test_every_rule_has_cases_of_both_kinds():
    assert set(FOUND) == set(LEFT_ALONE) == set(RULES.own)


@pytest.mark.parametrize(("code", "source"), cases(FOUND))
def test_it_is_found(code, source):
    assert code in codes(HEAD + source)


@pytest.mark.parametrize(("code", "source"), cases(LEFT_ALONE))
def test_it_is_left_alone(code, source):
    assert code not in codes(HEAD + source)


@pytest.mark.parametrize("code", RULES.own)
def test_a_rule_explains_itself(code):
    rule = RULES.load(code)
    assert rule.code == code
    assert len(rule.why) > 60
    finding = next(f for f in check_source(HEAD + FOUND[code][0], "x.py", [rule]) if f.code == code)
    assert finding.line > HEAD.count("\n")
    assert finding.instead
    assert finding.what
    assert finding.why == rule.why


@pytest.mark.parametrize(
    ("before", "replaced", "after", "instead"),
    [
        ("y = ", "x.norm(-1)", "", "x.norm(dim=-1)"),
        ("y = ", "x.norm(-1, True)", "", "x.norm(dim=-1, keepdim=True)"),
        ("y = ", "np.linalg.norm(x, -1)", "", "np.linalg.norm(x, axis=-1)"),
        ("y = ", "F.cosine_similarity(a, b)", "", "F.cosine_similarity(a.double(), b.double(), eps=1e-150)"),
        ("s = ", "torch.load(p)", "", "torch.load(p, weights_only=True)"),
        ("def f(h):\n    if ", "h.norm() > 50", ":\n        raise ValueError", "not h.norm() <= 50"),
        ("class N(nn.Module):\n    def __init__(self):\n        ", "self.B = torch.randn(3)", "",
         'self.register_buffer("B", torch.randn(3))'),
    ],
)  # fmt: skip
def test_the_line_to_write_instead_is_clean(before, replaced, after, instead):
    source = before + replaced + after
    (finding,) = check_source(HEAD + source, "x.py", chosen_rules())
    assert finding.instead == instead
    assert codes(HEAD + source.replace(replaced, instead)) == []


def test_the_cosine_to_write_instead_is_right():
    import torch
    import torch.nn.functional as F

    a, b = torch.tensor([1.0, 0.0]), 5e-10 * torch.tensor([0.6, 0.8])
    assert F.cosine_similarity(a, b, dim=0).item() == pytest.approx(0.03)
    assert F.cosine_similarity(a.double(), b.double(), dim=0, eps=1e-150).item() == pytest.approx(0.6)


NAMES = ["x", "F", "torch", "nn", "np", "self", "layers", "grad", "B", "h.norm", "torch.norm", "F.cosine_similarity",
         "torch.load", "self.feedback", "np.mean", "sum", "nn.CosineSimilarity", "x.half", "len", "max", "seeds", "acc",
         "scipy.stats.ttest_ind", "accuracy_score"]  # fmt: skip
expressions = st.recursive(
    st.sampled_from([*NAMES, "-1", "1e-8", "'text'", "None", "True"]),
    lambda inner: st.one_of(
        st.builds("{}({})".format, st.sampled_from(NAMES), inner),
        st.builds("{}({}, {})".format, st.sampled_from(NAMES), inner, inner),
        st.builds("{}(*{}, **{})".format, st.sampled_from(NAMES), inner, inner),
        st.builds("{}({}, eps={})".format, st.sampled_from(NAMES), inner, inner),
        st.builds("({} > {})".format, inner, inner),
        st.builds("({} / {})".format, inner, inner),
        st.builds("({}).norm({})".format, inner, inner),
        st.builds("({}).half()".format, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("({})[{}:]".format, inner, inner),
        st.builds("({} == {})".format, inner, inner),
        st.builds("({0} * (1 - {0}) + {1} * (1 - {1}))".format, inner, inner),
        st.builds("[{} for seed in {}]".format, inner, inner),
        st.builds("[{} for layer in {}]".format, inner, inner),
        st.builds("(lambda h: {})".format, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
    ),
    max_leaves=12,
)
statements = st.one_of(
    st.builds("    y = {}".format, expressions),
    st.builds("    self.B = {}".format, expressions),
    st.builds("    h = {}\n    k = h".format, expressions),
    st.builds("    if {}:\n        raise ValueError({})".format, expressions, expressions),
    st.builds("    for layer in {}:\n        c.append({})".format, expressions, expressions),
    st.builds(
        "    for seed in {}:\n        acc = train(seed, {})\n        best = max(best, acc)".format,
        expressions,
        expressions,
    ),
    st.builds("    if {0} > {1}:\n        {1} = {0}".format, expressions, st.just("best")),
    st.builds("    x[{}] = 0".format, expressions),
    st.builds("    return {}".format, expressions),
)


@given(st.lists(statements, min_size=1, max_size=6), st.booleans())
@settings(max_examples=150)
def test_no_rule_crashes_on_made_up_python(lines, in_class):
    source = "def f(self, x):\n" + "\n".join(lines)
    if in_class:
        source = "class N(nn.Module):\n" + "\n".join("    " + line for line in source.splitlines())
    for finding in check_source(source, "x.py", chosen_rules()):
        assert 1 <= finding.line <= source.count("\n") + 1
        assert finding.message


def test_no_rule_crashes_on_the_standard_library():
    assert len(STDLIB) > 40
    findings = [f for path in STDLIB for f in check_source(path.read_text("utf-8"), str(path), chosen_rules())]
    assert findings == []


def test_walkback_itself_is_clean():
    rules = chosen_rules()
    paths = [path for folder in ("src", "examples", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 200
    assert [f for path in paths for f in check_source(path.read_text(), str(path), rules)] == []
