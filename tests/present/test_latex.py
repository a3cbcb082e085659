import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from present_samples import AWKWARD, HOSTILE, full, healthy, many_sites

from walkback.present.latex import render
from walkback.present.tex_escape import escape


def balanced(text):
    depth = 0
    for token in re.findall(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    return depth == 0


@pytest.mark.parametrize("name", AWKWARD)
def test_braces_math_and_environments_are_balanced(name):
    text = render(AWKWARD[name])
    assert balanced(text)
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    assert "$$" not in text.replace(r"\$", "")
    for kind in ("table", "tabular"):
        assert text.count(rf"\begin{{{kind}}}") == text.count(rf"\end{{{kind}}}") > 0
    assert text.isascii()


@pytest.mark.parametrize("name", AWKWARD)
def test_every_row_has_as_many_cells_as_its_table_has_columns(name):
    text = render(AWKWARD[name])
    tables = re.findall(r"\\begin{tabular}{@{}(\w+)@{}}(.*?)\\end{tabular}", text, re.DOTALL)
    assert tables
    for aligned, body in tables:
        rows = [line for line in body.split("\n") if line.endswith(r"\\")]
        assert len(rows) >= 2
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(aligned)}


def test_the_figures_stand_in_the_tables():
    text = render(full())
    assert r"(a) residual growth & 2040$\times$ & $>$ 50$\times$ & fire & 1960 to 2130 \\" in text
    assert r"(b) gradient floor & $4.17\times10^{-9}$ & $<$ $1\times10^{-7}$ & fire" in text
    assert r"blocks.0 & $7.32\times10^{7}$ & 2040 & $4.19\times10^{-9}$ & 41.3 \\" in text
    assert r"stem & 0.213 & 0.00210 & 1.000 & $+0.429$ & $+0.441$ & $+0.00120$ & 0.0210 & $+20.4$ \\" in text
    assert r"\caption{DFA, seed 42: needs walk-back: residual stream exploded;" in text
    assert r"\label{tab:walkback-dfa-seed-42-verdict}" in text
    assert "z = $-2.99$" in text


def test_gaps_and_elisions_are_said():
    assert r"(d) frozen margin & -- & $<$ 2 pp & not measured & -- \\" in render(healthy())
    assert r"\emph{Not known.} (d) frozen margin: No frozen baseline was given" in render(healthy())
    assert r"N/A: the checkpoint holds no feedback matrices" in render(AWKWARD["no_feedback"])
    assert "178 of 200 rows are left out here" in render(many_sites())


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("100% a_b & #1 $5 {x}", r"100\% a\_b \& \#1 \$5 \{x\}"),
        ("a\\b ~ ^", r"a\textbackslash{}b \textasciitilde{} \textasciicircum{}"),
        ("ρ < Γ > ‖h_L‖ ≈ 3×", r"$\rho$ $<$ $\Gamma$ $>$ $\|h_{L}\|$ $\approx$ 3$\times$"),
        ("4.2e+08 and -3.1e-09", r"$4.2\times10^{8}$ and $-3.1\times10^{-9}$"),
        ("-0.5, +2; well-known 2-3 v1.2e-3x", r"$-0.5$, $+2$; well-known 2-3 v1.2e-3x"),
        ("∂ℓ", r"$\partial \ell$"), ("naïve ß ħ", "na\\\"{i}ve \\ss{} {[}U+0127{]}"),
        ("h₀²", "h${}_{0} {}^2$"),
        ("ΑΒς", r"$A B \varsigma$"), ("$<", r"\$$<$"), ("ש\n", "{[}U+05E9{]}"),
    ],
)  # fmt: skip
def test_text_is_escaped_and_symbols_become_math(text, written):
    assert escape(text) == written


@settings(max_examples=60)
@given(st.text(max_size=40))
def test_any_text_becomes_balanced_ascii_with_nothing_special_left(text):
    written = escape(text)
    assert written.isascii()
    assert balanced(written)
    outside_math = re.sub(r"\$[^$]*\$", "", written.replace(r"\$", ""))
    without_accents = re.sub(r"\\[^a-zA-Z]", "", outside_math)
    assert not re.search(r"[%&#_~^]", without_accents)


@pytest.mark.skipif(
    shutil.which("pdflatex") is None
    or not subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False).stdout,
    reason="pdflatex with booktabs is not installed",
)
def test_it_compiles(tmp_path):
    body = "\n\\clearpage\n".join(render(report) for report in AWKWARD.values())
    alphabet = escape(HOSTILE + "".join(map(chr, range(32, 0x400))) + "∂ℓ≤≥≈≠→←∞∇√⌊⌋⟨⟩½°²³⋮₀₉⁻–—…“”‘’‖")
    preamble = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    document = preamble + body + r"\clearpage " + alphabet + r"\end{document}"
    (tmp_path / "report.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    assert (tmp_path / "report.pdf").exists()


def test_the_report_method_gives_this_rendering():
    assert full().to_latex() == render(full())
