"""What a fair comparison is made of: its arms, the rates that each one tries, and the runs that follow from them.

    comparison = Comparison(architecture="resmlp", data="digits", rows=rows_named(["dfa"]), budget=3, seeds=3)
    comparison.arms()           # dfa, with bp and frozen beside it
    comparison.tuning_runs()    # one for each arm and rate; none reads the test split

Every arm tries the same multiples of its own default rate, on the same validation samples, with one seed that no final
run has. The best rate is then trained with each seed on the same samples as before: the training split without the
validation samples. So the rate is used where it was chosen. Importing this imports no torch.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import Field, model_validator

from walkback.lab.grids.grid import SEEDS as RECORDED_SEEDS
from walkback.lab.grids.grid import GridRow, row_of
from walkback.lab.runs.config import RunConfig, merged
from walkback.protocol.schema import Record

BP, FROZEN = "bp", "frozen"
"""The arms that every comparison has: backpropagation, and that of stem and head alone, around random blocks."""
TUNING_SEED = 7
SEEDS = (*RECORDED_SEEDS, 789, 1011)
STEP = 10**0.5
"""Between two neighbouring rates."""
VALIDATION = 0.1
MOST_RATES, MOST_SEEDS = 25, 100


class Comparison(Record):
    """All that a comparison depends on."""

    architecture: str
    data: str
    rows: tuple[GridRow, ...]
    """The methods; BP and the frozen arm are added where they are not among them."""
    budget: int = Field(default=3, ge=1, le=MOST_RATES)
    """How many learning rates each arm tries."""
    seeds: int = Field(default=3, ge=1, le=MOST_SEEDS)
    """With how many seeds the best rate of each arm is trained."""
    epochs: int = Field(default=30, ge=1)
    """Of tuning runs and final runs alike."""
    validation: float = Field(default=VALIDATION, gt=0, lt=1)
    """The share of the training split that rates are chosen on."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What else its runs have in common, as `RunConfig` takes it."""
    undefined: dict[str, str] = Field(default_factory=dict)
    """Methods that are not defined on this network, and why."""
    called: str = ""

    @model_validator(mode="after")
    def _sensible(self) -> Comparison:
        labels = [row.label for row in self.rows]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"method {', '.join(twice)} is given more than once")
        for row in self.rows:
            if (row.label == FROZEN) != (row.settings.get("freezing") == "blocks"):
                raise ValueError(f"{FROZEN!r} is the name of the arm with random blocks, which is added by itself")
        for name in ("validation", "tested", "freezing", "seed", "epochs"):
            if name in self.settings:
                raise ValueError(f"{name} is not for the runs of a comparison, which sets it by itself")
        return self

    @cached_property
    def name(self) -> str:
        """What its record is called."""
        return self.called or f"{self.architecture}_{self.data}_{self.epochs}ep".replace(":", "-")

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds of the final runs; beyond those of the record they count on from the last."""
        beyond = tuple(range(SEEDS[-1] + 1, SEEDS[-1] + 1 + max(self.seeds - len(SEEDS), 0)))
        return (*SEEDS, *beyond)[: self.seeds]

    def arms(self) -> tuple[GridRow, ...]:
        """BP, the frozen arm, and the methods."""
        always = (row_of(BP, "bp", {}), row_of(FROZEN, "bp", {}, freezing="blocks"))
        given = {row.label: row for row in self.rows}
        first = tuple(given.pop(row.label, row) for row in always)
        return (*first, *given.values())

    @property
    def multipliers(self) -> tuple[float, ...]:
        """What the default rate is multiplied by, lowest first: evenly spaced on a logarithmic scale around 1.

        Of an even number of rates the two in the middle lie on either side of the default.
        """
        return tuple(STEP ** (place - (self.budget - 1) / 2) for place in range(self.budget))

    def rates(self, arm: GridRow) -> tuple[float, ...]:
        """The rates that an arm tries, in three digits."""
        centre = self.centre(arm)
        return tuple(float(f"{centre * multiplier:.3g}") for multiplier in self.multipliers)

    def centre(self, arm: GridRow) -> float:
        """The default rate of an arm: its row's, else the comparison's, else that of every run."""
        default = RunConfig.model_fields["learning_rate"].default
        return float(arm.settings.get("learning_rate", self.settings.get("learning_rate", default)))

    def tuning_run(self, arm: GridRow, rate: float) -> RunConfig:
        """The run that one rate is judged by; it never reads the test split."""
        return self._run(arm, rate, TUNING_SEED, tested=False)

    def tuning_runs(self) -> list[RunConfig]:
        """Those of all arms, rate by rate, so that every arm has its first before any has its last."""
        arms = [(arm, self.rates(arm)) for arm in self.arms()]
        return [self.tuning_run(arm, rates[place]) for place in range(self.budget) for arm, rates in arms]

    def final_runs(self, arm: GridRow, rate: float) -> list[RunConfig]:
        """The runs that an arm is compared by; each reads the test split once, when it is trained."""
        return [self._run(arm, rate, seed, tested=True) for seed in self.seed_list]

    def _run(self, arm: GridRow, rate: float, seed: int, *, tested: bool) -> RunConfig:
        place = {"architecture": self.architecture, "data": self.data, "epochs": self.epochs}
        own = {"method": arm.method, "seed": seed, "method_options": arm.options, "learning_rate": rate}
        split = {"validation": self.validation, "tested": tested}
        return RunConfig(**merged(merged(merged(self.settings, place), arm.settings), own | split))
