"""Every error that walkback raises on purpose.

    WalkbackError
    ├── InputError           what the caller handed in cannot be used; of an unknown argument a TypeError too
    │   ├── BatchError         an evaluation batch: empty, unlabelled, labels out of range
    │   ├── BlocksError        the blocks of the network: none found, ambiguous, not reached
    │   │   └── NoGradient       autograd's graph is cut between two sites
    │   ├── CreditError        a credit rule gave something other than one tensor per site
    │   └── UnknownName        a name that is in no registry
    ├── RecordError          a file is not a record that this version reads
    ├── MissingFeedback      alignment was asked for, and the trained feedback is not there
    │   └── NoCredit           the method has no credit, by design
    ├── BaselineError        a frozen baseline that was not frozen, or does not match
    ├── DataError            a data set is missing, or its content is wrong
    ├── MissingLibrary       an optional library is not installed; the message has the command that installs it
    ├── RunError             a training run, its store or its checkpoint
    │   ├── RunTaken           a run that another process is training
    │   └── DamagedCheckpoint  a corrupt checkpoint, from which no run can resume
    └── PitfallError         under `walkback.strict()`: a number would have come out wrong

The message of each says what came, what was expected, and what to do; the command line prints it
without a traceback and exits with status 2. Where the work can go on, a `WalkbackWarning` says without what.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_MOST = 8
"""Names that are asked for at once."""


def _by_number(name: str) -> tuple[tuple[int, int | str], ...]:
    """What names are sorted by: runs of digits by their number, so that 2 comes before 10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name) if part)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to end an error message with: the nearest known name, then all of them.

    Args:
        name: what was asked for.
        known: the names that there are.

    Returns:
        One or two sentences.
    """
    names = sorted(known, key=_by_number)
    return f"{nearest(name, names)}Known: {', '.join(_in_ranges(names))}."


def nearest(name: str, known: Sequence[str]) -> str:
    """The question whether the nearest known name was meant, with a space behind it; nothing where none is near.

    A number is never misspelt: 99 is no nearer to 9 than to 10. Names that are as near as the nearest are all asked
    for: which of them is meant cannot be told.
    """
    near = [repr(each) for each in ([] if name.isdecimal() else _nearest(name, known))]
    rest = f" or {near[-1]}" if len(near) > 1 else ""
    return f"Did you mean {', '.join(near[:-1] or near)}{rest}? " if near else ""


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    """The nearest name, and those as near; where several have what was written as their first part, these."""
    begun = [each for each in known if name and re.match(rf"{re.escape(name)}[_.-]", each)]
    if 1 < len(begun) <= _MOST:
        return begun
    found = difflib.get_close_matches(name, known, n=_MOST, cutoff=0.5)
    alike = [difflib.SequenceMatcher(None, each, name).ratio() for each in found]
    return sorted((each for each, ratio in zip(found, alike, strict=True) if ratio == alike[0]), key=_by_number)


def _in_ranges(names: list[str]) -> list[str]:
    """Sorted names, where numbers that follow each other are one range: 1 to 15."""
    numbers = [name for name in names if name.isdecimal()]
    if len(numbers) < 3 or numbers != [str(n) for n in range(int(numbers[0]), int(numbers[-1]) + 1)]:
        return names
    return [f"{numbers[0]} to {numbers[-1]}", *(name for name in names if not name.isdecimal())]


class WalkbackError(Exception):
    """The root: catch this to catch everything that walkback raises on purpose.

    Examples:
        >>> import walkback
        >>> from walkback.errors import WalkbackError
        >>> try:
        ...     walkback.Score(value=61)
        ... except WalkbackError as error:
        ...     print(type(error).__name__)
        InputError
    """


class WalkbackWarning(UserWarning):
    """Something was passed over or left out, and the work went on without it."""


class InputError(WalkbackError, ValueError):
    """What the caller handed in cannot be used."""


class BatchError(InputError):
    """An evaluation batch cannot be measured."""


class BlocksError(InputError):
    """The blocks of a network could not be found, chosen or reached."""


class NoGradient(BlocksError):
    """Autograd's graph is cut: no gradient comes back to a site.

    Args:
        message: what was found.
        site: the last site that the loss does not reach.
    """

    def __init__(self, message: str, site: int) -> None:
        super().__init__(message)
        self.site = site
        """The last site that the loss does not reach."""


class CreditError(InputError):
    """A credit rule gave something other than one tensor per site."""


class UnknownName(InputError):
    """A name that is in no registry."""


class RecordError(WalkbackError):
    """A file is not a record that this version reads."""


class MissingFeedback(WalkbackError):
    """Alignment was asked for, and the feedback that was trained with is not there."""


class NoCredit(MissingFeedback):
    """Alignment was asked for of a method that hands no credit to any site, by design."""


class BaselineError(WalkbackError):
    """A frozen baseline that was not frozen, or does not match its run."""


class DataError(WalkbackError):
    """A data set is missing, or its content is wrong."""


class MissingLibrary(WalkbackError, ImportError):
    """A library that only an extra of walkback needs is not installed."""


class RunError(WalkbackError):
    """A training run, its store or its checkpoint cannot be used."""


class RunTaken(RunError):
    """A run is being trained by another process."""


class DamagedCheckpoint(RunError):
    """A corrupt checkpoint, from which no run can resume."""


class PitfallError(WalkbackError, ArithmeticError):
    """Under `walkback.strict()`: a number would have come out wrong, here."""
