"""`walkback lab evidence`: the published claims, decided from the results on record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walkback.cli.options import ResultsOption
from walkback.cli.output import output, require_writable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("evidence", epilog="Exit status: 0 whatever was reproduced; 2 an error.")(evidence)


def evidence(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the claims as JSON to this file.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the page, such as docs/EVIDENCE.md.")
    ] = None,
    results: ResultsOption = Path("results"),
    notes: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory of notes on claims, one ID.md each, which the page includes.")
    ] = Path("docs/evidence_notes"),
) -> int:
    """Print each published claim, what was measured here, and whether it was reproduced."""
    import os

    from walkback.lab.evidence.results import Results
    from walkback.lab.evidence.table import decide, decided_json, markdown, short_page
    from walkback.protocol.json_codec import json_text
    from walkback.protocol.schema import write_whole

    require_writable([json_file, page], [results, *notes.glob("*.md")])
    found = Results(results)
    decided = decide(found)
    if json_file is not None:
        write_whole(json_file, json_text(decided_json(decided, results)))
    if page is not None:
        write_whole(page, markdown(decided, notes, found, os.path.relpath(results, page.parent)))
    for block in short_page(decided).blocks():
        output().print(block)
    return 0
