"""How the page of evidence begins: what was published, what was found here, where the two differ and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from walkback.lab.evidence.claim import Decided, Status
from walkback.lab.evidence.deciding import RECORD
from walkback.lab.evidence.results import Results
from walkback.lab.evidence.source_deciding import EP, SOURCE
from walkback.lab.evidence.themes import TESTS, THEMES, WORDS
from walkback.present.markdown import escape, table
from walkback.source import PAPER, REPOSITORIES

DIFFERENT = (Status.NOT_REPRODUCED, Status.PARTLY)
WHY = "**Why.**"
"""How the paragraph of a note begins that says why a claim differs."""
SAME_METHOD = {"fa_block": "fa"}
"""The source's method, and this project's own where it goes by another label."""
LEFT_OUT = ("penalty", "rms_epsilon")
"""Options that the audits behind the table of readings have alike."""


def opening(decided: Sequence[Decided], tallies: Sequence[str], notes: Path, results: Results) -> Iterator[str]:
    """The first sections of the page."""
    yield from _published()
    yield "## What was found here"
    yield "\n".join(f"- **{line}.**" for line in tallies)
    yield (
        "*Reproduced* is the whole claim, on every seed, its figures within the tolerance that its rule states. "
        "*Partly* is some of it, and the list below says which part. A claim some of whose runs are not finished is "
        "*not run*: nothing is decided from one or two seeds of three. How many reproduce is a result, not a goal."
    )
    yield _themes(decided)
    yield "## Where the two differ, and why"
    yield from _differences(decided, notes)
    yield "## What is still to be run"
    yield (
        "Each audit is a file that gathers the runs of one grid of methods and seeds, with what was measured on them. "
        "The command that makes what is missing stands in the section of each claim."
    )
    yield _waiting(decided)
    yield "## The two readings of each method"
    yield (
        "The study was read before its definitions were public, and each method was then defined so that published "
        "results came out. Those readings are variants of this project's own, and what was said of them is said of "
        "them alone: in the findings (N), in C15 and C18, and in the notes that begin with “Before the source was "
        "public”. All other claims are decided by the source's definitions, BP's being the same in both. The options "
        "are those of "
        "`walkback lab train`, as the runs on record have them; `credit_site=read` trains a block by the credit of the "
        "hidden state that it reads, `written` by that of the one it writes."
    )
    yield _readings(results)


def _published() -> Iterator[str]:
    yield "## What was published"
    yield (
        "One study trained small networks by methods that do without backpropagation, and asked when a result of such "
        f"a network can be trusted: {escape(PAPER)} ({escape(REPOSITORIES)}). Papers of the field report an accuracy "
        "and a cosine. The study says that both can look fine on a network that is broken, and proposes four tests:"
    )
    yield table(("test", "fires when"), TESTS, "ll")
    yield (
        "This page goes through what it published, claim by claim. The networks were trained anew, by code of this "
        "project that shares nothing with the study's, and each claim is decided by the rule in its section. The words "
        "that claims use:"
    )
    yield table(("word", "what it means"), WORDS, "ll")


def _themes(decided: Sequence[Decided]) -> str:
    rows = []
    for theme in THEMES:
        found = [d for d in decided if d.claim.id in theme.claims]
        groups = [(status, [_link(d) for d in found if d.status is status]) for status in Status]
        here = "; ".join(f"{status.value}: {', '.join(links)}" for status, links in groups if links)
        rows.append(f"| {escape(theme.question)} | {escape(theme.published)} | {here} |")
    return "\n".join(["| question | what the study says | here |", "| --- | --- | --- |", *rows])


def _link(d: Decided) -> str:
    return f"[{d.claim.id}](#{d.claim.id.lower()})"


def _differences(decided: Sequence[Decided], notes: Path) -> Iterator[str]:
    for status, introduced in zip(DIFFERENT, ("Does not come out here:", "Comes out in part:"), strict=True):
        found = [d for d in decided if d.status is status and not d.claim.is_finding]
        if found:
            yield f"{introduced}\n\n" + "\n".join(f"- {_difference(d, notes)}" for d in found)
    if not any(d.status in DIFFERENT and not d.claim.is_finding for d in decided):
        yield "Of the claims that were decided, none differs."
    own = {s: [_link(d) for d in decided if d.status is s and d.claim.is_finding] for s in DIFFERENT}
    if any(own.values()):
        told = "; ".join(f"{status.value}: {', '.join(links)}" for status, links in own.items() if links)
        yield f"Of this project's own findings, held to rules of the same kind: {told}."


def _difference(d: Decided, notes: Path) -> str:
    why = why_of(d, notes) or "Why is not known."
    return f"{_link(d)}, {escape(d.claim.sentence)}. {halves(d)} {why}"


def halves(d: Decided) -> str:
    """Which part of a claim holds and which does not."""
    held = f"Holds: {escape('; '.join(d.outcome.holds))}." if d.outcome.holds else "No part of it holds on every seed."
    return f"{held} Only in part, or not: {escape('; '.join(d.outcome.fails))}." if d.outcome.fails else held


def why_of(d: Decided, notes: Path) -> str:
    """The paragraph of a claim's note that says why it differs, if there is one."""
    note = notes / f"{d.claim.id}.md"
    paragraphs = note.read_text(encoding="utf-8").split("\n\n") if note.exists() else []
    return next((p.strip().removeprefix(WHY).strip() for p in paragraphs if p.strip().startswith(WHY)), "")


def _waiting(decided: Sequence[Decided]) -> str:
    groups: dict[str, list[str]] = {}
    for d in decided:
        if d.status is Status.NOT_RUN:
            groups.setdefault(escape(d.measured), []).append(_link(d))
    lines = [f"- {', '.join(links)}: {what}" for what, links in groups.items()]
    return "\n".join(lines) or "Nothing: every claim was decided."


def _readings(results: Results) -> str:
    source = {**_options(results, SOURCE), **_options(results, EP)}
    own = {label: options for label, options in _options(results, RECORD).items() if label != "bp"}
    answered = {SAME_METHOD.get(label, label) for label in source}
    rows = [(label, options, own.get(SAME_METHOD.get(label, label), "–")) for label, options in source.items()]
    rows += [(label, "–", options) for label, options in own.items() if label not in answered]
    return table(("label in the audits", "as the source defines it", "this project's own variant"), rows, "lll")


def _options(results: Results, audit: str) -> dict[str, str]:
    """The options of each method of an audit, as its first finished run has them."""
    if not results.has(f"audit_{audit}.json"):
        return {}
    found: dict[str, str] = {}
    for row in results.read(f"audit_{audit}.json").get("runs", ()):
        if not row["error"] and row["label"] not in found and results.has(f"runs/{row['id']}.json"):
            found[row["label"]] = _written(results.read(f"runs/{row['id']}.json")["config"])
    return found


def _written(config: Mapping[str, Any]) -> str:
    options = {name: value for name, value in config["method_options"].items() if name not in LEFT_OUT}
    words = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{config['method']}, {words}" if words else config["method"]
