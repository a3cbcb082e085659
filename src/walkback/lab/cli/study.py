"""`walkback lab study NAME`: answer a question from audits on record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkback.cli.options import ResultsOption
from walkback.cli.output import folder_for, output, require_apart

if TYPE_CHECKING:
    from walkback.lab.studies.audited import Audit
    from walkback.lab.studies.base import Study

EVERYTHING = "all"
NAMES = (
    "ablation, sensitivity, random-init, temporal, early-stop, penalty, partial, null, depth, width, aggregation, "
    "triangulation, false-positives, variants, or all"
)
MarkdownOption = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="DIR", help="Also write a page with all answers so far to this directory."),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("study", epilog="Exit status: 0 answered, whatever the answer; 2 an error.")(study)


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{NAMES}.")],
    audits: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[AUDIT…]", help="Audits as JSON files. Default: all audits in RESULTS."),
    ] = None,
    results: ResultsOption = Path("results"),
    markdown: MarkdownOption = None,
) -> int:
    """Answer a question from recorded audits; trains nothing, takes seconds.

    Prints the answer and writes it as JSON to RESULTS; with --markdown, also as a page with all answers so far.
    """
    from walkback.errors import UnknownName, did_you_mean
    from walkback.lab.studies import STUDIES
    from walkback.lab.studies.audited import audits_in, load_audit

    if name != EVERYTHING and name not in STUDIES:
        raise UnknownName(f"there is no study called {name!r}. {did_you_mean(name, [EVERYTHING, *STUDIES])}")
    chosen = [STUDIES.load(each) for each in (STUDIES if name == EVERYTHING else [name])]
    paths = list(audits or audits_in(results))
    loaded = [load_audit(path) for path in paths]
    answers: list[tuple[Study, list[dict[str, Any]], list[Any]]] = []
    for each in chosen:
        again = [load_audit(path) for path in each.outdated(results) if path not in paths and path.is_file()]
        asked = [*_asked(each, loaded, insist=bool(audits) and name != EVERYTHING), *again]
        made = [_answered(each, audit) for audit in asked]
        drawn = [block for result in made for block in _drawn(each, result)]  # what cannot be drawn is not kept
        answers.append((each, made, drawn))
    _require_apart(answers, paths, results, markdown)
    if markdown is not None and any(made or each.files(results) for each, made, _ in answers):
        folder_for(markdown)  # before an answer is kept whose page cannot be
    for each, made, drawn in answers:
        for result in made:
            each.save(folder_for(results), result)
        page = _write_page(each, results, markdown) if markdown and each.files(results) else None
        for block in drawn:
            output().print(block)
        if made or page:
            output().print(f"saved to {results}" + (f", page in {page}" if page else ""))
    return 0


def _require_apart(
    answers: Sequence[tuple[Study, list[dict[str, Any]], list[Any]]],
    audits: list[Path],
    results: Path,
    pages: Path | None,
) -> None:
    """Raise where an answer or a page would be written over an audit, or over another."""
    files = [study.file(results, result["audit"]) for study, made, _ in answers for result in made]
    written = [] if pages is None else [pages / f"{study.stem}.md" for study, _, _ in answers]
    require_apart([*files, *written], audits)


def _asked(study: Study, audits: Sequence[Audit], *, insist: bool) -> list[Audit]:
    """The audits of which the question can be asked; one that was named and cannot answer is an error."""
    from walkback.errors import InputError

    fitting = [audit for audit in audits if audit.reports and study.applies(audit)]
    if insist and len(fitting) < len(audits):
        other = next(audit for audit in audits if audit not in fitting)
        raise InputError(f"{other.source} cannot answer '{study.name}': {study.needs}")
    if not fitting:
        output().print(f"{study.name}: no audit on record answers it; {study.needs}")
    return fitting


def _answered(study: Study, audit: Audit) -> dict[str, Any]:
    from walkback.protocol.schema import naming_source

    with naming_source(audit.source):
        return study.run(audit)


def _drawn(study: Study, result: dict[str, Any]) -> list[Any]:
    """The answer as it is printed."""
    from walkback.lab.studies.base import still_missing
    from walkback.present.page import Heading, Page

    shown = [*still_missing(result), *study.paragraphs(result)]
    return list(Page(study.title, [Heading(result["audit"]), *shown]).blocks())


def _write_page(study: Study, results: Path, folder: Path) -> Path:
    from walkback.protocol.schema import write_whole

    return write_whole(folder_for(folder) / f"{study.stem}.md", study.page(results).markdown())
