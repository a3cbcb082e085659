"""What a reproduction is: published numbers with where they stand, and the run that is meant to give them. No torch.

The rule is the same for all and was fixed before any run: a number is reproduced where this project's run is within
two points of it, or within two degrees of an angle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from walkback.lab.runs.config import RunConfig

POINTS = 2.0
"""How far a number may be from the published one: points of accuracy or error, degrees of an angle."""
SEED = 42
"""Of every run on record; trials of settings have another one."""
Quantity = Literal["accuracy", "error", "best error", "delta angle", "weight angle"]
"""On the test split, in per cent. `best error` is that of the best epoch by the test split itself, for authors who
select by it. `delta angle`: between what the method and backpropagation hand to the last hidden layer, before its
activation, of the first training sample in the published files; `weight angle`: between the head's W and its B; both in
degrees."""
ANGLES: tuple[Quantity, ...] = ("delta angle", "weight angle")


@dataclass(frozen=True)
class Number:
    """One published number."""

    value: float
    epoch: int
    """After which epoch; of a best error, of how many."""
    where: str
    """File and line, key or table."""
    quantity: Quantity = "accuracy"

    @property
    def unit(self) -> str:
        """What the number and its difference are counted in."""
        return "°" if self.quantity in ANGLES else "%"


@dataclass(frozen=True)
class OneFactor:
    """The same run with one thing changed, to show what a difference comes from."""

    name: str
    why: str
    """What is changed, and why it is asked."""
    changes: Mapping[str, Any]
    """As `RunConfig` takes them; tables of options are merged."""


@dataclass(frozen=True)
class Reproduction:
    """A published run, and this project's."""

    name: str
    title: str
    source: str
    """Who published the numbers, and in which commit of what."""
    settings: Mapping[str, Any]
    numbers: tuple[Number, ...]
    differs: tuple[str, ...] = ()
    """In what the run is not theirs."""
    one_factor: tuple[OneFactor, ...] = field(default=())

    def config(self) -> RunConfig:
        """The run that is meant to give the numbers."""
        from walkback.lab.runs.config import RunConfig

        return RunConfig(**{"seed": SEED, **self.settings})

    def configs(self) -> dict[str, RunConfig]:
        """That run as the empty name, and each run with one factor changed."""
        from walkback.lab.runs.config import RunConfig, merged

        plain = {"seed": SEED, **self.settings}
        others = {each.name: RunConfig(**merged(plain, each.changes)) for each in self.one_factor}
        return {"": self.config(), **others}

    def in_precision(self, precision: str) -> Reproduction:
        """The same runs trained in another precision than fp32, under other ids; a word that is none is refused."""
        other = replace(self, settings={**self.settings, "precision": precision})
        other.config()
        return other

    @property
    def has_angles(self) -> bool:
        """Whether the weights have to be asked, and not the record alone."""
        return any(number.quantity in ANGLES for number in self.numbers)
