"""All claims in their order, decided, as JSON and as the page docs/EVIDENCE.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from walkback.lab.evidence import (
    alignment_claims,
    audit_claims,
    depth_claims,
    findings,
    five_claims,
    network_claims,
    penalty_claims,
    source_claims,
    time_claims,
    triangle_claims,
)
from walkback.lab.evidence.claim import Claim, Decided, Status
from walkback.lab.evidence.opening import DIFFERENT, halves, opening
from walkback.lab.evidence.results import Results
from walkback.lab.evidence.tried import Record
from walkback.present.markdown import escape
from walkback.present.page import Grid, Page

_MODULES = (
    audit_claims, five_claims, time_claims, network_claims, alignment_claims, penalty_claims, source_claims,
    triangle_claims, depth_claims,
)  # fmt: skip
CLAIMS: tuple[Claim, ...] = (
    *sorted((claim for module in _MODULES for claim in module.CLAIMS), key=lambda claim: claim.id),
    *findings.FINDINGS,
)
TITLE = "The published claims, and what was measured here"
COMMAND = "walkback lab evidence --write docs/EVIDENCE.md"
CORRECTED = "C02 to C10, C12 to C14, C16, C17, C19 to C30 and N03"
RULES = (
    "Each claim is decided by the rule in its section, which comes from the published sentence and figure. C01 to C30 "
    "were taken from the log of the study's development repository, of April 2026, before the paper was public; C31 to "
    f"C43 from the paper. The rules of C31 to C43 and the corrected ones ({CORRECTED}) were committed before their "
    "runs began: they ask for the methods as the source defines them. Older rules were held to this project's own "
    "variants, which had been fitted to published results; what they gave then stands in the note of each claim. Of "
    "those older rules, C18 and N07 were changed, and C01, C07, C08, C11, C12, C15, C17, C19, C20, C22, C23, C27, C30, "
    "N03 and N09 made stricter, after first results were in; no such change made a claim `reproduced`.",
    "Where the source is silent and a published figure was used to choose a reading, the claim is marked as fitted and "
    "names that figure: it cannot test what it has chosen. Not all was new when the rules were written: DFA that "
    "divides each sample's credit by its length, for the block that reads a site, had been tried for ten epochs with "
    "seed 42, one of the seeds of the claims, as it is, with a penalty and without a terminal norm; and a sketch that "
    "is not this project's code had tried DFA, FA and both bridges with seed 7. Findings (N) are this project's own, "
    "are about its own "
    "variants unless they say otherwise, and are counted apart. How long the runs were, and the published ones where "
    "that is known, stands in the `config` of each audit.",
)
MANY_RUNS = 15
"""From how many runs on a claim does not name each."""


def decide(results: Results) -> list[Decided]:
    """Every claim, decided from the results."""
    return [claim.decided(results) for claim in CLAIMS]


def decided_json(decided: Sequence[Decided], folder: Path) -> dict[str, Any]:
    """The table as plain JSON."""
    return {
        "claims": [
            {
                "id": d.claim.id,
                "status": d.status.value,
                "claim": d.claim.sentence,
                "published": d.claim.published,
                "measured": d.measured,
                "holds": list(d.outcome.holds),
                "fails": list(d.outcome.fails),
                "rule": d.claim.rule,
                "source": [(folder / source).as_posix() for source in d.sources],
                "runs": [row["id"] for row in d.rows],
                "command": d.claim.command,
                **({"fitted": d.claim.fitted} if d.claim.fitted else {}),
            }
            for d in decided
        ]
    }


def tally(decided: Sequence[Decided]) -> list[str]:
    """`Published claims: 7 reproduced, 2 partly, …` and the same of the findings, which are counted apart."""
    groups = {"Published claims": False, "Findings": True}
    return [f"{name}: {_counts([d for d in decided if d.claim.is_finding is own])}" for name, own in groups.items()]


def _counts(decided: Sequence[Decided]) -> str:
    return ", ".join(f"{sum(d.status is status for d in decided)} {status.value}" for status in Status)


def short_page(decided: Sequence[Decided]) -> Page:
    """The table for a terminal."""
    rows = [[d.claim.id, d.status.value, d.claim.sentence, d.claim.published, d.measured] for d in decided]
    return Page(TITLE, [Grid(("id", "status", "claim", "published", "measured"), rows, "lllll"), *tally(decided)])


def markdown(decided: Sequence[Decided], notes: Path, results: Results, link: str) -> str:
    """The whole page: how it came out, the table, then each claim with its rule, its runs and what was noted about it.

    `link` is the directory of results as the page links to it.
    """
    made = f"Generated by `{COMMAND}` from `results/` and the notes in `docs/evidence_notes`."
    parts = [f"# {TITLE}", made, *opening(decided, tally(decided), notes, results)]
    parts += ["## How claims are decided", *RULES, "## All claims", _table(decided)]
    record = Record(results)
    for d in decided:
        parts += [f'<a id="{d.claim.id.lower()}"></a>', f"## {d.claim.id}: {escape(d.claim.sentence)}", _facts(d, link)]
        parts += _tried(d, record)
        note = notes / f"{d.claim.id}.md"
        parts += [note.read_text(encoding="utf-8").strip()] if note.exists() else []
    return "\n\n".join(parts) + "\n"


def _table(decided: Sequence[Decided]) -> str:
    lines = ["| id | claim | published | measured here | status |", "| --- | --- | --- | --- | --- |"]
    for d in decided:
        cells = [escape(cell) for cell in (d.claim.sentence, d.claim.published, d.measured)]
        fitted = ", fitted" if d.claim.fitted else ""
        named = f"[{d.claim.id}](#{d.claim.id.lower()})"
        lines.append(f"| {named} | {' | '.join(cells)} | {d.status.value}{fitted} |")
    return "\n".join(lines)


def _facts(d: Decided, link: str) -> str:
    links = ", ".join(f"[{source}]({link}/{source})" for source in d.sources if not source.startswith("runs/")) or "–"
    halved = {"which part": halves(d)} if d.status in DIFFERENT else {}
    facts = {
        "status": f"**{d.status.value}**",
        **halved,
        "published": escape(d.claim.published),
        "measured": escape(d.measured),
        "decided by": escape(d.claim.rule),
        "fitted": escape(d.claim.fitted) or "no",
        "from": links,
        "runs": _runs(d, link),
        "made by": f"`{d.claim.command}`",
    }
    return "\n".join(f"- {name}: {words}" for name, words in facts.items())


def _runs(d: Decided, link: str) -> str:
    """The runs behind a claim, by label and seed."""
    if len(d.rows) > MANY_RUNS:
        return f"{len(d.rows)}, named in the audits"
    labels: dict[str, list[str]] = {}
    for row in d.rows:
        labels.setdefault(row["label"], []).append(f"[{row['seed']}]({link}/runs/{row['id']}.json)")
    return "; ".join(f"{escape(label)} {', '.join(seeds)}" for label, seeds in labels.items()) or "–"


def _tried(d: Decided, record: Record) -> list[str]:
    """What was tried where a claim does not hold: all that is on record, or that nothing is."""
    if d.status is not Status.NOT_REPRODUCED and (d.status is not Status.PARTLY or d.claim.is_finding):
        return []
    found = record.one_factor(d)
    if not found and not d.rows and d.status is Status.PARTLY:
        return []
    if not found:
        return ["What was tried: no run on record differs from these in one setting alone."]
    listed = "\n".join(f"- {escape(each.words)}" for each in found)
    return [f"What was tried, by runs on record that differ from these in one setting, with the same seed:\n\n{listed}"]
