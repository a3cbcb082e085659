"""The page of the field and its picture, made anew from whatever is on record; nothing is trained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from walkback.lab.comparisons.estimate import ESTIMATE_FILE
from walkback.lab.comparisons.page import PICTURE, page_of
from walkback.lab.comparisons.plotted import NETWORKS, field_of, has_runs
from walkback.lab.comparisons.record import comparison_file, load_comparison
from walkback.lab.registry import METHODS
from walkback.protocol.schema import read_json, write_whole


def on_record(results: Path) -> dict[str, dict[str, Any]]:
    """The comparisons of the field that have a record."""
    files = {name: comparison_file(results, name) for name in NETWORKS}
    return {name: load_comparison(path) for name, path in files.items() if path.exists()}


def publish(results: Path, page: Path) -> Iterator[Path]:
    """Write the page, and its picture where there is something to draw; the files that changed."""
    records = on_record(results)
    cost = results / ESTIMATE_FILE
    made = page_of(
        records, Path(os.path.relpath(results, page.parent)).as_posix(), read_json(cost) if cost.exists() else {}
    )
    if has_runs(records):
        from walkback.present.figures.field import plot
        from walkback.present.figures.style import save

        picture = page.parent / PICTURE
        picture.parent.mkdir(parents=True, exist_ok=True)
        before = picture.read_bytes() if picture.exists() else b""
        save(plot(field_of(records, list(METHODS.own))), picture)
        if picture.read_bytes() != before:
            yield picture
    text = made.markdown()
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.parent.mkdir(parents=True, exist_ok=True)
        yield write_whole(page, text)
