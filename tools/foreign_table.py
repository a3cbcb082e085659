"""docs/foreign.md: what walkback makes of networks as people write them. python tools/foreign_table.py

Runs every case of tests/foreign, holds it against its truth as the tests do, and writes the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "foreign.md"
HEADER = ("network", "what it tries", "outcome", "blocks", "reference gradient", "largest error of the check")

INTRODUCTION = """# Networks as people write them

Each network below is written the way that repositories write it, with no regard for walkback. A twin of it, in numpy or
in fp64 with plain autograd, one sample at a time, says what is true. **right** means that walkback, asked without any
advice beyond what its author would pass, gives the twin's ‖h_l‖, ‖g_l‖ and accuracy to 1e-3 (and Γ where the method's
credit is given, perplexity where it is a language model; bf16 to its unit of rounding, 2⁻⁸). **refused, then right**
means that it gives a sentence instead of figures, and with what the sentence asks for, the twin's figures; the
sentences are below the table. What was found, and what [the check of the reference](protocol.md#the-reference) came to,
is of the final report. The page is made by `python tools/foreign_table.py`, and tests hold every row.

"""


SENTENCES = "## What the refusals say"


def table() -> list[Any]:
    """Every case, run and held against its truth."""
    sys.path += [str(ROOT / "tests" / "foreign"), str(ROOT / "tests" / "protocol")]
    from foreign_case import run
    from foreign_cases import CASES

    return [run(case) for case in CASES]


def row(outcome: Any) -> tuple[str, ...]:
    """The cells of one case."""
    case, report = outcome.case, outcome.report
    check = report.reference_check
    figure = "—" if check.error is None else f"{check.error:.0e}"
    blocks = report.provenance["blocks"].rpartition(" (")[0]
    return case.name, case.guards, said(case), f"`{blocks}`", reference(check), figure


def said(case: Any) -> str:
    """The outcome, which the tests hold each case to."""
    return "refused, then right" if case.refused else "right"


def reference(check: Any) -> str:
    """Which gradient it is, in words."""
    if check.twin:
        return "of the twin that is passed"
    if check.candidate == "seen_through":
        return f"seen through {', '.join(check.seen_through)}"
    return {"autograd": "autograd's", "declared": "as declared, unchecked", "none": "none, as asked for"}[
        check.candidate
    ]


def page(outcomes: list[Any]) -> str:
    """The whole page."""
    lines = [line(HEADER), line(["---"] * len(HEADER)), *(line(row(outcome)) for outcome in outcomes)]
    refused = [outcome for outcome in outcomes if outcome.sentences]
    said = [f"- **{outcome.case.name}**: {escaped(' Then: '.join(outcome.sentences))}" for outcome in refused]
    parts = [INTRODUCTION + counted(len(outcomes), len(refused)), "\n".join(lines), SENTENCES, "\n".join(said)]
    return "\n\n".join(parts) + "\n"


def counted(networks: int, refused: int) -> str:
    """How many there are of each."""
    return f"{networks} networks: {networks - refused} right, {refused} refused, then right."


def rows_on_page() -> list[tuple[str, ...]]:
    """The cells of the page as it is."""
    lines = [one for one in PAGE.read_text(encoding="utf-8").splitlines() if one.startswith("| ")]
    return [tuple(one.removeprefix("| ").removesuffix(" |").split(" | ")) for one in lines[2:]]


def line(cells: Any) -> str:
    """One line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def escaped(sentence: str) -> str:
    """Globs are not emphasis."""
    return sentence.replace("*", r"\*").replace("_", r"\_").replace("|", r"\|")


if __name__ == "__main__":
    torch.set_num_threads(1)
    PAGE.write_text(page(table()), encoding="utf-8")
