"""Which data sets there are, which of them are here, and fetching those that are not."""

from __future__ import annotations

import importlib
import inspect
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from walkback.errors import DataError, UnknownName
from walkback.lab.registry import DATASETS
from walkback.lab.zoo.datasets.archive import (
    Archive,
    CacheMissError,
    cache_file,
    keep,
    obtain,
    read_cache,
    take_copy,
    try_way,
)
from walkback.lab.zoo.datasets.fetching import Progress
from walkback.lab.zoo.datasets.splits import Dataset
from walkback.lab.zoo.options import refuse_unknown
from walkback.registry import did_you_mean


class State(Enum):
    """Where a data set stands on this machine."""

    CACHED = "cached"
    ABSENT = "absent"
    DAMAGED = "damaged"
    GENERATED = "generated"
    """Made on the spot from what is installed: there is nothing to fetch."""


class Status(NamedTuple):
    """A data set's state, its file if it has one, and that file's size in bytes."""

    state: State
    where: Path | None
    size: int


def load_dataset(name: str, root: Path | str | None = None, **options: Any) -> Dataset:
    """The data set of that name; `root` is the cache directory, the options are the data set's own."""
    load = DATASETS.load(name)
    keywords = [p.name for p in inspect.signature(load).parameters.values() if p.kind is p.KEYWORD_ONLY]
    refuse_unknown(f"data set {name}", options, keywords)
    return load(root, **options)  # type: ignore[no-any-return]


def status(name: str, root: Path | str | None = None) -> Status:
    """Whether the data set is here and whole; a cached file is verified, which takes under a second."""
    archive = archive_of(name)
    if archive is None:
        return Status(State.GENERATED, None, 0)
    file = cache_file(archive, root)
    try:
        read_cache(archive, root)
    except CacheMissError:
        return Status(State.ABSENT, file, 0)
    except DataError:
        return Status(State.DAMAGED, file, file.stat().st_size if file.is_file() else 0)
    return Status(State.CACHED, file, file.stat().st_size)


def sources(name: str) -> tuple[str, ...]:
    """The sources that `fetch` can be told to use."""
    archive = archive_of(name)
    return tuple(way.name for way in archive.ways) if archive else ()


def fetch(
    name: str,
    source: str | None = None,
    *,
    root: Path | str | None = None,
    path: Path | str | None = None,
    progress: Progress | None = None,
) -> Status:
    """Put the data set into the cache, from the first source that has it or from the one that is named.

    `path`, a copy of the user's own, and a named source are used even if the cache is whole; without either a
    whole cache is left as it is. Lines of progress go to `progress`.
    """
    archive = archive_of(name)
    say = progress or (lambda _line: None)
    if archive is None:
        if source or path:
            raise DataError(f"{name} is generated, so there is nothing to fetch. Leave out the source and path.")
        say(f"{name}: generated when needed, nothing to fetch")
    elif path is not None:
        keep(archive, take_copy(archive, Path(path)), root, say)
    elif source is not None:
        _fetch_from(archive, source, root, say)
    else:
        obtain(archive, root, progress=say)
    return status(name, root)


def _fetch_from(archive: Archive[Any], source: str, root: Path | str | None, say: Progress) -> None:
    ways = {way.name: way for way in archive.ways}
    if source not in ways:
        raise UnknownName(f"{archive.name} has no source called {source!r}. {did_you_mean(source, ways)}")
    try:
        content = try_way(archive, ways[source], say)
    except DataError as error:
        raise DataError(f"{archive.name} is not available from {source}: {error}. {archive.advice}") from None
    keep(archive, content, root, say)


def archive_of(name: str) -> Archive[Any] | None:
    """What a data set's module says of where it comes from; None for one that is made on the spot."""
    # The look-up by name goes first, since it is what refuses an unknown name with a suggestion.
    load = DATASETS.load(name)
    return getattr(importlib.import_module(load.__module__), "ARCHIVE", None)
