"""What noxfile.py and tools/dist.py share: the tests that need no torch, the lowest versions, and the record of both.

`make pythons` runs the sessions of noxfile.py; each leaves its row in results/pythons.json.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "pythons.json"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
"""The classifiers of pyproject.toml name these; a test holds them to it."""
TORCH_FREE = (
    "tests/cli/test_entry.py",
    "tests/cli/test_report_cli.py",
    "tests/lab/studies/test_studies.py",
    "tests/lean/test_extras.py",
    "tests/lint",
    *(f"tests/present/test_{name}.py" for name in (
        "brief", "comparison", "html", "latex", "markdown", "notebook", "numbers", "over_epochs", "pictures",
        "stored_verdicts", "text", "thinning",
    )),
    *(f"tests/protocol/test_{name}.py" for name in (
        "calibrated", "carrying", "json", "judge", "panels", "seeds", "verdict_class",
    )),
    *(f"tests/watch/test_{name}.py" for name in (
        "partial", "policy", "replay", "replay_golden", "replay_over_time", "trace", "what_is",
    )),
)  # fmt: skip
"""Judging, replaying, presenting, linting, studies: all that the core does, in files that run without torch."""
WITH_TORCH = (
    "tests/lean/test_extras.py::test_importing_diagnosing_and_judging_need_no_posix",
    "tests/lint/test_rules.py::test_the_cosine_to_write_instead_is_right",
    "tests/protocol/test_judge.py::test_measurements_are_built_from_arrays_of_any_kind",
    "tests/protocol/test_panels.py::test_an_unknown_panel_is_refused_before_anything_is_measured",
)
"""The tests of those files that do need it."""
MEASURING = (
    "tests/protocol/test_reference.py", "tests/protocol/test_finding_blocks.py", "tests/protocol/test_numerics.py",
    "tests/protocol/test_readouts.py", "tests/protocol/test_scores.py", "tests/lab/zoo/test_datasets.py",
    "tests/lab/cli/test_demo.py",
)  # fmt: skip
"""Measuring and training, in a few files: what is asked of libraries other than torch where torch is there."""


def torch_free() -> list[str]:
    """The words for pytest that choose the tests which need no torch."""
    return [*TORCH_FREE, *(word for test in WITH_TORCH for word in ("--deselect", test))]


def lowest(*extras: str) -> list[str]:
    """The lowest version that pyproject.toml allows of each library that it asks for itself: `numpy==1.26`, …

    Of torch there is no older build for the CPU at hand: it stays what constraints.txt says.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [*project["dependencies"], *(row for extra in extras for row in project["optional-dependencies"][extra])]
    found = [re.match(r"([\w-]+)>=([\w.]+)(?:;.*)?", row.replace(" ", "")) for row in rows]
    return sorted({f"{each[1]}=={each[2]}" for each in found if each and each[1] not in ("torch", "tomli")})


def counted(junit: Path) -> dict[str, int]:
    """How many tests passed, failed and were skipped, from pytest's own file."""
    (suite,) = ElementTree.parse(junit).getroot().iter("testsuite")  # pytest wrote it a moment ago
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    skipped = int(suite.attrib["skipped"])
    return {"passed": int(suite.attrib["tests"]) - failed - skipped, "failed": failed, "skipped": skipped}


def about() -> dict[str, str]:
    """When, and at which commit, with `+` where what is built has changed since."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "tests", "pyproject.toml")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {"date": today, "commit": (_git("rev-parse", "HEAD") or "unknown") + ("+" if changed else "")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def versions_of(frozen: str, names: Iterable[str]) -> dict[str, str]:
    """Of what `pip freeze` printed, the versions of these libraries."""
    rows = dict(line.split("==", 1) for line in frozen.splitlines() if "==" in line)
    found = {name.lower().replace("_", "-"): version for name, version in rows.items()}
    return {name: found[name] for name in names if name in found}


def note(session: str, row: Mapping[str, Any]) -> None:
    """Put one session on record; the others stay as they are."""
    held = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    sessions = {**held.get("sessions", {}), session: dict(row)}
    content = {"command": "make pythons", "sessions": dict(sorted(sessions.items()))}
    RECORD.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
