"""How a data set is loaded from its archive: one way for all that are fetched."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from walkback.lab.zoo.datasets.archive import Archive, obtain
from walkback.lab.zoo.datasets.fetching import Progress
from walkback.lab.zoo.datasets.splits import Dataset


def from_archive(make: Callable[..., Dataset]) -> Callable[..., Dataset]:
    """Turn a function of an archive's content into the loader of the data set whose module it is in.

    The archive is the module's `ARCHIVE`. The loader takes `root`, the cache directory; `path`, a copy of the
    user's own; `download`, whether to look elsewhere; `progress`, which hears what is done; `fingerprint`, what the
    content must have, where it is not that of the archive: another value admits another set in the same layouts.
    Keywords of the function itself are options of the data set.
    """

    @wraps(make)
    def load(
        root: Path | str | None = None,
        *,
        path: Path | str | None = None,
        download: bool = True,
        progress: Progress | None = None,
        fingerprint: str | None = None,
        **options: Any,
    ) -> Dataset:
        archive: Archive[Any] = make.__globals__["ARCHIVE"]
        if fingerprint is not None:
            archive = replace(archive, fingerprint=fingerprint)
        return make(obtain(archive, root, path, download, progress), **options)

    _, *own = inspect.signature(make).parameters.values()
    shared = [p for p in inspect.signature(load, follow_wrapped=False).parameters.values() if p.name != "options"]
    vars(load)["__signature__"] = inspect.Signature([*shared, *own], return_annotation="Dataset")
    return load
