"""A grid: methods × seeds on one architecture and one data set, each run with its matched frozen baseline.

    grid = GridConfig(architecture="resmlp", data="cifar10", rows=rows_named(["bp", "dfa"]))
    grid.cells()    # one per method and seed, with the run and its baseline
    grid.runs()     # every run once: what an executor trains

Importing this imports no torch; `cells` and `runs` make configs, which do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from walkback.addresses import is_allowed
from walkback.errors import InputError, UnknownName
from walkback.lab.registry import METHODS
from walkback.lab.runs.baselines import matched_baseline
from walkback.lab.runs.config import RunConfig, merged
from walkback.lab.runs.options import changed_options
from walkback.protocol.schema import Record
from walkback.registry import did_you_mean

SEEDS = (42, 123, 456)
"""The seeds of the published record."""
EPOCHS = 30


class GridRow(Record):
    """One method of a grid, with options of its own and the name that its reports carry."""

    method: str
    label: str
    options: dict[str, Any] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    """What else of this row differs from the grid, as `RunConfig` takes it: its epochs, its depth, its data."""


def rows_named(names: Iterable[str]) -> tuple[GridRow, ...]:
    """A row for each method, with its default options."""
    return tuple(row_of(name, name, {}) for name in names)


def row_of(label: str, method: str, options: dict[str, Any], **settings: Any) -> GridRow:
    """A row of one method; an unknown one is refused with a suggestion."""
    if method not in METHODS and not is_allowed(method):
        raise UnknownName(f"there is no method called {method!r}. {did_you_mean(method, METHODS)}")
    return GridRow(method=method, label=label, options=options, settings=settings)


class Cell(NamedTuple):
    """One method and one seed: the run, and the frozen run that (d) compares it with, if that is wanted."""

    label: str
    config: RunConfig
    baseline: RunConfig | None

    @property
    def runs(self) -> list[RunConfig]:
        """What has to be trained for it."""
        return [self.config] if self.baseline is None else [self.config, self.baseline]


class GridConfig(Record):
    """All that a grid depends on."""

    architecture: str
    data: str
    rows: tuple[GridRow, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(default=SEEDS, min_length=1)
    epochs: int = Field(default=EPOCHS, ge=0)
    settings: dict[str, Any] = Field(default_factory=dict)
    """What else its runs have in common, as `RunConfig` takes it."""
    baselines: bool = True
    """Whether every run has its matched frozen baseline trained too; without it (d) is not measured."""
    called: str = ""
    """What its results are called, where not by its settings."""
    published_epochs: int | None = None
    """Of the published runs that it stands beside; none where there are none, or the record does not say."""

    @model_validator(mode="after")
    def _each_once(self) -> GridConfig:
        labels, seeds = [row.label for row in self.rows], [str(seed) for seed in self.seeds]
        for what, given in (("method", labels), ("seed", seeds)):
            twice = {entry for entry in given if given.count(entry) > 1}
            if twice:
                raise ValueError(f"{what} {', '.join(sorted(twice))} is given more than once")
        return self

    def cells(self) -> list[Cell]:
        """Every method and seed, by method."""
        return [self._cell(row, seed) for row in self.rows for seed in self.seeds]

    def _cell(self, row: GridRow, seed: int) -> Cell:
        own = {"method": row.method, "seed": seed, "method_options": row.options}
        place = {"architecture": self.architecture, "data": self.data, "epochs": self.epochs}
        config = RunConfig(**merged(merged(merged(self.settings, place), row.settings), own))
        baseline = matched_baseline(config)
        if baseline is None:
            raise InputError(f"freezing is {config.freezing!r}; a grid adds its frozen baselines by itself.")
        return Cell(row.label, config, baseline if self.baselines else None)

    def runs(self) -> list[RunConfig]:
        """Every run once, seed by seed: after the first seed there is something to look at of every method."""
        return unique_runs([self])

    @cached_property
    def name(self) -> str:
        """What its results are called: `resmlp_d256`, with whatever differs from the usual after it."""
        if self.called:
            return self.called
        config = self.cells()[0].config
        changes = changed_options(config, "architecture_options")
        changes.pop("width", None)
        width = config.architecture_options.get("width")
        words = [_in_a_name(self.architecture), *([] if width is None else [f"d{width}"])]
        words += [] if self.data == "cifar10" else [_in_a_name(self.data)]
        usual = {"method", "architecture", "data", "seed", "epochs", "method_options"}
        changes |= changed_options(config, "data_options")
        changes |= {name: value for name, value in config.identity.items() if name not in usual | _TABLES}
        words += [f"{name}_{_in_a_name(value)}" for name, value in changes.items()]
        words += [] if self.epochs == EPOCHS else [f"{self.epochs}ep"]
        return "_".join(words)


_TABLES = {"architecture_options", "data_options"}


def _in_a_name(value: Any) -> str:
    """A setting as part of the name of a file: (8, 16, 32) is 8-16-32, and ladder:2 is ladder-2."""
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value).replace(":", "-")


def unique_runs(grids: Sequence[GridConfig]) -> list[RunConfig]:
    """The runs of several grids, each once; grid by grid, and in each seed by seed."""
    found: dict[str, RunConfig] = {}
    for grid in grids:
        for cell in sorted(grid.cells(), key=lambda cell: grid.seeds.index(cell.config.seed)):
            for config in cell.runs:
                found.setdefault(config.run_id, config)
    return list(found.values())
