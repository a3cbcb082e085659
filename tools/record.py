"""Make anew what follows from the runs on record: audits, studies, comparisons, pages, figures, README's picture.

    make record                  # or: python tools/record.py

Nothing is trained. A grid of which some runs are on record gets an audit of those. An audit stays as it was judged
until runs are added to it, and a file that would differ in date and commit alone is not written again, so that what
`git status` shows afterwards is what changed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headline import make_headline

from walkback.lab.cli.compare_options import command_of
from walkback.lab.cli.grid_options import grids_from
from walkback.lab.comparisons.presets import preset
from walkback.lab.comparisons.publish import publish
from walkback.lab.comparisons.record import comparison_file, record_of, refuse_another
from walkback.lab.evidence.results import Results
from walkback.lab.evidence.table import decide, markdown, tally
from walkback.lab.grids.grid import GridConfig
from walkback.lab.present.figures import figure_named
from walkback.lab.runs.store import RunStore
from walkback.lab.studies import STUDIES
from walkback.lab.studies.audit_of_grid import (
    audit_file,
    audit_of,
    refuse_to_lose_reports,
    refuse_to_lose_rows,
    write_audit,
)
from walkback.lab.studies.audited import audits_in, load_audit
from walkback.lab.studies.base import Study
from walkback.present.figures.style import save
from walkback.protocol.json_codec import json_text, read_json
from walkback.protocol.schema import write_whole
from walkback.watch.trace_line import rounded

ROOT = Path(__file__).parents[1]
NO_OPTIONS: dict[str, Any] = {"architecture": None, "data": None}
STAMP = ("date", "commit", "versions")
"""What differs between two equal results."""
DIGITS = 12
FIGURES = {
    "audit": ("audit", ["audit_resmlp_d256.json"]),
    "penalty": ("penalty", []),
    "temporal": ("temporal", []),
    "sensitivity_recorded": ("sensitivity", ["sensitivity_recorded_resmlp_d256.json"]),
}
"""The pictures of docs/images that are drawn from results: which figure, and of which files."""


def audits(results: Path) -> Iterator[str]:
    """An audit of every grid that has a finished run of its own, where it is not of those runs already."""
    for name, grid, made in _to_be_made(results):
        path = audit_file(results, name)
        refuse_to_lose_rows(path, grid)
        refuse_to_lose_reports(path, made)
        write_audit(path, made)
        yield f"{path}: {len(made['reports'])} of {len(made['runs'])} networks"


def outdated_audits(results: Path) -> list[str]:
    """The names of audits that are not of the runs on record."""
    return [name for name, _, _ in _to_be_made(results)]


def _to_be_made(results: Path) -> Iterator[tuple[str, GridConfig, dict[str, Any]]]:
    store = RunStore(results / "runs", results / "runs")  # what is on record, and not what this machine trained besides
    grids = grids_from("all", NO_OPTIONS, [], None)
    shared = Counter(run for grid in grids.values() for run in {cell.config.run_id for cell in grid.cells()})
    for name, grid in grids.items():
        path = audit_file(results, name)
        begun = any(shared[cell.config.run_id] == 1 and store.run(cell.config).finished for cell in grid.cells())
        if begun or path.exists():
            made = audit_of(name, grid, store, {})
            if not path.exists() or _runs(read_json(path)) != _runs(made):
                yield name, grid, made


def _runs(audit: Mapping[str, Any]) -> list[tuple[str, bool, str, bool]]:
    """Which runs an audit is of, and which of them and of their baselines are finished."""
    return sorted(
        (row["id"], bool(row["error"]), row.get("baseline") or "", bool(row.get("baseline_error")))
        for row in audit["runs"]
    )


def studies(results: Path, pages: Path) -> Iterator[str]:
    """Every study of every audit that can answer it, and the pages of all answers."""
    loaded = {path: load_audit(path) for path in audits_in(results)}
    for name in STUDIES:
        study = STUDIES.load(name)
        asked = {path: audit for path, audit in loaded.items() if audit.reports and study.applies(audit)}
        asked |= {path: load_audit(path) for path in _recorded(study, results) if path not in loaded}
        for audit in asked.values():
            yield from _keep(study.file(results, audit.name), study.run(audit))
        if study.files(results):
            yield from _write(pages / f"{study.stem}.md", study.page(results).markdown())


def _recorded(study: Study, results: Path) -> list[Path]:
    """Audits that other programs made, behind answers on record."""
    sources = [Path(read_json(path)["source"]) for path in study.files(results)]
    return [source for source in sources if source.is_file()]


def _keep(path: Path, answer: Mapping[str, Any]) -> Iterator[str]:
    """Write an answer, unless the one on record differs in its stamp alone."""
    if not path.exists() or _unstamped(read_json(path)) != _unstamped(answer):
        yield from _write(path, json_text(answer))


def _unstamped(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says; its last digits are those of the libraries behind a quantile, and its verb may be older."""
    return {name: rounded(value, DIGITS) for name, value in answer.items() if name not in (*STAMP, "command")}


def _write(path: Path, content: str) -> Iterator[str]:
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
        yield str(path)


def evidence(results: Path, docs: Path) -> Iterator[str]:
    """The page of evidence."""
    found = Results(results)
    decided = decide(found)
    link = os.path.relpath(results, docs)
    yield from _write(docs / "EVIDENCE.md", markdown(decided, docs / "evidence_notes", found, link))
    yield from tally(decided)


def comparisons(results: Path) -> Iterator[str]:
    """The records of the field's comparisons, where runs of theirs are on record."""
    store = RunStore(results / "runs", results / "runs")
    for comparison in preset("field"):
        path = comparison_file(results, comparison.name)
        begun = any(store.run(config).finished for config in comparison.tuning_runs())
        if begun or path.exists():
            refuse_another(path, comparison)
            yield from _keep(path, record_of(comparison, store, {}, command_of(comparison)))


def field(results: Path, docs: Path) -> Iterator[str]:
    """The page of the field, and its picture."""
    yield from map(str, publish(results, docs / "FIELD.md"))


def figures(results: Path, images: Path) -> Iterator[str]:
    """The pictures of the manual that are of results."""
    for picture, (name, files) in FIGURES.items():
        path = images / f"{picture}.png"
        before = path.read_bytes() if path.exists() else b""
        save(figure_named(name, [str(results / file) for file in files], results), path)
        if path.read_bytes() != before:
            yield str(path)


def main() -> None:
    """Every step in its order, with what it changed and how long it took."""
    os.chdir(ROOT)
    results, docs = Path("results"), Path("docs")
    steps = {
        "audits": audits(results),
        "studies": studies(results, docs / "studies"),
        "evidence": evidence(results, docs),
        "comparisons": comparisons(results),
        "the field": field(results, docs),
        "figures": figures(results, docs / "images"),
        "README's picture": make_headline(results, Path("README.md")),
    }
    for name, step in steps.items():
        began = time.monotonic()
        told = list(step)
        print(f"{name}: {time.monotonic() - began:.0f} s" + "".join(f"\n  {line}" for line in told))


if __name__ == "__main__":
    main()
