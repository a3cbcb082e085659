"""The held half is opened once: scored by a command that writes down when it was, and by which code. No torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from walkback.errors import InputError, RecordError
from walkback.lab.runs.stamp import commit, now
from walkback.protocol.panels import panel_named
from walkback.protocol.schema import read_json, write_whole
from walkback.registry import PANELS

OPENED_FILE = "opened.json"

Counts = dict[str, dict[str, int]]
"""How many networks of each condition a rule failed: `{"calibrated": {"healthy": 3, …}}`."""


def openings(folder: Path) -> list[dict[str, Any]]:
    """Every time that the held half was opened; empty where it never was."""
    path = folder / OPENED_FILE
    if not path.exists():
        return []
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(each, dict) and "date" in each for each in found):
        raise RecordError(f"{path} is not a list of openings. Restore it from the repository.")
    return found


def open_held(folder: Path, *, again: str, networks: int) -> dict[str, Any]:
    """Write down that the held half is opened now; a second time is refused unless a reason is given.

    The source must be at a commit: what was held is of use only to code that was fixed before.
    """
    before = openings(folder)
    if before and not again:
        raise InputError(
            f"the held half was opened on {before[0]['date']} at commit {before[0]['commit']}; what was fitted since "
            "may know it. Its score is in the table; to open it once more all the same, and have that on record, add "
            '--again "the reason".'
        )
    at = commit()
    if not at or at.endswith("+"):
        raise InputError(
            "the held half is opened at a commit, and the source has changed since its last one (or is in no "
            "repository). Commit first: thresholds must be on record before it is opened."
        )
    if not networks:
        raise InputError("there is no network of the held half to score. Make them: walkback lab validity --run held")
    opening = {
        "date": now(),
        "commit": at,
        "networks": networks,
        "panels": {name: panel_named(name).version for name in PANELS},
    }
    if before:
        opening["why"] = again
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, [*before, opening])
    return opening


def keep_counts(folder: Path, counts: Counts) -> None:
    """Put what the last opening found beside it, so that a later one can be held against it."""
    *before, last = openings(folder)
    _write(folder, [*before, {**last, "counts": counts}])


def _write(folder: Path, listed: list[dict[str, Any]]) -> None:
    write_whole(folder / OPENED_FILE, json.dumps(listed, indent=1, ensure_ascii=False) + "\n")
