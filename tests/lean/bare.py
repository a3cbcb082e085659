"""Commands for the core alone, and what each must show, where libraries are kept away and in a bare venv.

A row is the words after `walkback`, the exit status, and what standard output or error must hold.
"""

from pathlib import Path

ROOT = Path(__file__).parents[2]
AUDIT = ROOT / "tests/golden/resmlp_d256_audit_3seed.json"
TRACE = ROOT / "tests/golden/resmlp_dfa_s42_trace.jsonl"
RUN = next((ROOT / "results/runs").glob("*.json"))

WORKS = {
    ("--help",): (0, "lab"),
    ("--version",): (0, "walkback "),
    ("replay", str(AUDIT)): (1, "needs walk-back"),
    ("replay", str(TRACE)): (1, "The monitor would have stopped it"),
    ("report", str(AUDIT)): (0, "3 seeds"),
    ("report", str(RUN)): (0, "verdict"),
    ("report", str(AUDIT), "--markdown", "a.md", "--latex", "a.tex", "--csv", "a.csv"): (0, "written: a.csv"),
    ("report", str(RUN), "--markdown", "r.md", "--latex", "r.tex", "--csv", "r.csv"): (0, "written: r.csv"),
    ("report", str(RUN), "--template", "markdown"): (0, "residual"),
    ("watch", str(TRACE), "--once"): (0, "epoch 5"),
    ("lint", str(ROOT / "src/walkback/errors.py")): (0, ""),
    ("schema",): (0, '"title": "DiagnosticReport"'),
    ("pitfalls",): (0, "WB013"),
    ("lab", "zoo"): (0, "synthetic_teacher"),
}
"""What needs nothing but the core."""

SCRIPT = """
import torch
def made():
    torch.manual_seed(0)
    blocks = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(3)])
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), blocks, torch.nn.Linear(8, 3))
    inputs = torch.randn(256, 4)
    return {"model": model, "eval_batches": [(inputs, inputs[:, :3].argmax(1))], "blocks": "1.*"}
"""
"""A file for `diagnose net.py:made`."""

ASKS = {
    ("report", str(AUDIT), "--html", "a.html"): "html",
    ("report", str(RUN), "--html", "r.html"): "html",
    ("figure", "audit", str(AUDIT)): "figures",
    ("diagnose", "net.py:made"): "torch",
    ("pitfalls", "show", "2"): "torch",
    ("lab", "train", "--method", "dfa", "--arch", "resmlp", "--data", "digits"): "lab",
    ("lab", "audit", "--preset", "resmlp_d256"): "lab",
    ("lab", "zoo", "dfa"): "lab",
    ("lab", "check"): "lab",
    ("demo",): "all",
}
"""What needs an extra, and the extra that must be named."""

JUDGED = (
    f"AUDIT = {str(AUDIT)!r}"
    + """
import walkback
from walkback.errors import MissingLibrary
report = walkback.judge(walkback.Measurements(
    residual_norms=[1.0, 1.1], bp_grad_norms=[1e-3, 1e-3], headline_acc=0.61, headline_samples=1000,
    frozen_baseline_acc=0.5, frozen_baseline_samples=1000))
(margin,) = [reading for reading in report.readings if reading.letter == "d"]
assert margin.interval.low < 11 < margin.interval.high, report
assert "residual growth" in report.to_text() and report.to_markdown() and report.to_latex()
assert walkback.replay(AUDIT)
walkback.combine([report.model_copy(update={"seed": seed}) for seed in range(2)])
"""
)
ASKED = """
for name in ("diagnose", "Monitor", "frozen_baseline", "strict", "CreditRule"):
    try:
        getattr(walkback, name)
    except MissingLibrary as error:
        assert 'pip install "walkback[torch]"' in str(error), error
    else:
        raise SystemExit(name + " did not ask for torch")
try:
    report.to_html("page.html")
except MissingLibrary as error:
    assert 'pip install "walkback[html]"' in str(error), error
else:
    raise SystemExit("to_html did not ask for jinja2")
"""
