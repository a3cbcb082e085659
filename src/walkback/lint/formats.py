"""Findings as text for people, as JSON, and as SARIF 2.1.0 for code-review tools."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from walkback._version import __version__
from walkback.lint.check import Checked
from walkback.lint.rule import BROKEN, Broken, Finding, Rule

JSON_VERSION = 1
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_WIDTH = 100


def as_text(checked: Checked, rules: Sequence[Rule]) -> str:
    """`path:line:column: CODE what`, and under it the line, why it lies and what to write."""
    del rules
    blocks = [_broken_text(b) for b in sorted(checked.broken)] + ["\n".join(_lines(f)) for f in checked.findings]
    return "\n\n".join([*blocks, summary(checked)]) + "\n"


def summary(checked: Checked) -> str:
    """How many findings in how many files."""
    found = _counted(len(checked.findings), "finding") if checked.findings else "no findings"
    lost = f"; {_counted(len(checked.broken), 'file')} could not be checked" if checked.broken else ""
    return f"{found} in {_counted(checked.files - len(checked.broken), 'file')}{lost}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{_printable(finding.path)}:{finding.line}:{finding.column}: {finding.code} {_printable(finding.what)}"
    yield from _indented("", finding.source)
    yield from _indented("why:   ", finding.why)
    yield from _indented("write: ", finding.instead)


def _indented(label: str, words: str) -> list[str]:
    start = " " * 4 + label
    return textwrap.wrap(
        _printable(words), _WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_long_words=False
    )


def _printable(words: str) -> str:
    """Text of others without what could move the cursor of a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in words)


def _broken_text(broken: Broken) -> str:
    return f"{_printable(broken.path)}:{broken.line}:{broken.column}: {BROKEN} {_printable(broken.problem)}"


def as_json(checked: Checked, rules: Sequence[Rule]) -> str:
    """One object: the findings, the files that could not be checked, and the rules that were applied."""
    document = {
        "lint_version": JSON_VERSION,
        "walkback": __version__,
        "files": checked.files,
        "rules": [{"code": r.code, "title": r.title, "pitfall": r.pitfall} for r in rules],
        "findings": [vars(f) for f in checked.findings],
        "broken": [vars(b) for b in sorted(checked.broken)],
    }
    return _dumped(document)


def as_sarif(checked: Checked, rules: Sequence[Rule]) -> str:
    """A SARIF log of one run."""
    order = {rule.code: index for index, rule in enumerate(rules)}
    results = [_sarif_result(f, order[f.code]) for f in checked.findings]
    errors = [
        {
            "level": "error",
            "message": {"text": f"{b.path} {b.problem}"},
            "locations": [sarif_place(b.path, b.line, b.column)],
        }
        for b in sorted(checked.broken)
    ]
    return sarif_log([_sarif_rule(r) for r in rules], results, errors)


def sarif_log(
    rules: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]], errors: Sequence[dict[str, Any]] = ()
) -> str:
    """The log of one run of walkback, whatever it looked for: rules, results, and what could not be read."""
    run = {
        "tool": {"driver": {"name": "walkback", "version": __version__, "rules": list(rules)}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not errors, "toolExecutionNotifications": list(errors)}],
        "results": list(results),
    }
    return _dumped({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "defaultConfiguration": {"level": "warning"},
    }


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "warning",
        "message": {"text": f"{finding.what}. {finding.why} Write: {finding.instead}"},
        "locations": [sarif_place(finding.path, finding.line, finding.column)],
    }


def sarif_place(path: str, line: int = 1, column: int = 1) -> dict[str, Any]:
    """Where a result is: a place in a file."""
    region = {"startLine": max(line, 1), "startColumn": max(column, 1)}
    return {"physicalLocation": {"artifactLocation": {"uri": quote(PurePath(path).as_posix())}, "region": region}}


def _dumped(document: dict[str, Any]) -> str:
    # A file name may hold bytes that are no text; they must not stop the rest from being told.
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode() + "\n"


FORMATS: dict[str, Callable[[Checked, Sequence[Rule]], str]] = {"text": as_text, "json": as_json, "sarif": as_sarif}
