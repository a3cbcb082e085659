"""What a run is: a frozen `RunConfig`, whose hash is the run's id. Importing this imports no torch.

    method = "dfa"
    architecture = "resmlp"
    data = "cifar10"
    seed = 42
    epochs = 30

    [method_options]
    credit_norm = "per_sample"

is a whole config file. Options that are not given are filled in with the defaults of the method, the
architecture and the data set, so a config says all that a run depends on.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from walkback.errors import InputError
from walkback.lab.runs.ids import hashed
from walkback.lab.runs.options import LARGEST, SECTIONS, changed_options, complete_options, identifying_options
from walkback.protocol.schema import Record, shortened
from walkback.registry import did_you_mean

MOMENTUM = 0.9
"""Of SGD, where none is given."""


class RunConfig(Record):
    """All that a run depends on; two equal configs are one run, with one id."""

    # A seed of `true` or a rate of "0.1" is a slip; what it was meant to be is not ours to guess.
    model_config = ConfigDict(strict=True)
    told_as = "settings of a run"

    method: str
    architecture: str
    data: str
    seed: int = Field(ge=0, le=LARGEST)
    epochs: int = Field(ge=0, le=99_999)
    """0 measures the untrained network. Checkpoints are named by five digits."""
    method_options: dict[str, Any] = Field(default_factory=dict)
    architecture_options: dict[str, Any] = Field(default_factory=dict)
    data_options: dict[str, Any] = Field(default_factory=dict)
    freezing: str = "none"
    """`none`; `blocks`, the frozen baseline; `shallow`, no blocks; `ladder:K`, the last K blocks learn."""
    targets: Literal["true", "random", "permuted"] = "true"
    """`random`: training labels are drawn uniformly, anew for every batch. `permuted`: those of the training split are
    dealt out anew among its samples, once, so that they can be learnt by heart alone. What is measured is on the true
    ones."""
    batch_size: int = Field(default=128, ge=1)
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    momentum: float = Field(default=MOMENTUM, ge=0, lt=1, allow_inf_nan=False)
    """Of `sgd`; 0 is plain gradient descent. The other optimizers have moments of their own."""
    schedule: Literal["cosine", "constant", "steps", "cooldown"] = "cosine"
    """`cosine` falls to zero over the run. `steps`: times `step_factor` after each of the `milestones`. `cooldown`:
    constant for half of the run, then falling to zero in a straight line."""
    milestones: list[int] = Field(default=[])
    """The epochs after which the rate of `steps` falls, in order."""
    step_factor: float = Field(default=0.1, gt=0, le=1, allow_inf_nan=False)
    shuffle: bool = True
    """False: every epoch has the samples in the order of the training split."""
    augment: bool = True
    """Crop and flip, as far as the data set declares them."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """In which the passes of a training step compute; weights and measurements are in fp32 always. On which device is
    no setting of a run: see `hardware`."""
    validation: float = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)
    """The share of the training split that is cut off it and never trained on. Above 0, epochs are measured on it, and
    the test split is read when the last one is over and not before; see `validation.Splits`."""
    tested: bool = True
    """False, which needs a validation share: the test split is never read, and the result is of the validation samples
    alone, without diagnostics. Such runs are for choosing settings by."""

    def __init__(self, **given: Any) -> None:
        refuse_unknown_settings(given)
        super().__init__(**with_one_freezing(complete_options(given)))
        _refuse_idle_settings(self)

    @classmethod
    def from_dict(cls, data: Any, source: str = "") -> RunConfig:
        """The config again from what `to_dict` gave, or from a table of settings; errors name the source."""
        if not isinstance(data, Mapping):
            raise InputError(f"{source or 'the config'} holds {type(data).__name__}, expected a table of settings.")
        try:
            return cls(**data)
        except InputError as error:
            raise type(error)(f"{source}: {error}" if source else str(error)) from None

    @classmethod
    def from_toml(cls, path: str | Path, **changes: Any) -> RunConfig:
        """A config from a TOML file, with settings that replace those of the file; tables are merged."""
        return cls.from_dict(merged(read_toml(path), changes), str(path))

    def changed(self, **changes: Any) -> RunConfig:
        """The same config with other settings."""
        return RunConfig(**{**self.to_dict(), **changes})

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The settings that differ from their defaults: what the id is a hash of.

        A setting that is added later, with a default that changes nothing, leaves every id as it was.
        """
        settings = self.model_dump(exclude_defaults=True, exclude=set(SECTIONS))
        options = {section: identifying_options(self, section) for section in SECTIONS}
        return settings | {section: changes for section, changes in options.items() if changes}

    @cached_property
    def run_id(self) -> str:
        """Twelve hex digits of the SHA-256 of the identity."""
        return hashed(self.identity)

    @cached_property
    def name(self) -> str:
        """A name for people, such as `resmlp-cifar10-dfa-per_sample-s42-30ep`; the id is what is unique."""
        words = [self.architecture, self.data, self.method]
        for section in SECTIONS:
            words += [_word(*option) for option in changed_options(self, section).items()]
        shown = {"architecture", "data", "method", "seed", "epochs", *SECTIONS}
        words += [_word(name, value) for name, value in self.identity.items() if name not in shown]
        return "-".join([*words, f"s{self.seed}", f"{self.epochs}ep"])

    def done_after(self, epoch: int) -> float:
        """The share of the run that is done when this epoch is, from 0 to 1; a run of no epochs is done."""
        return epoch / self.epochs if self.epochs else 1.0

    @property
    def command(self) -> str:
        """The command line that makes this run."""
        words = ["walkback", "lab", "train", "--method", self.method, "--arch", self.architecture]
        words += ["--data", self.data, "--seed", str(self.seed), "--epochs", str(self.epochs)]
        for section, prefix in SECTIONS.items():
            for name, value in changed_options(self, section).items():
                words += _flag(name, value) if name in FLAGS else ["--set", f"{prefix}.{name}={_literal(value)}"]
        said = {"method", "architecture", "data", "seed", "epochs", *SECTIONS}
        for name, value in self.identity.items():
            if name not in said:
                words += _flag(name, value) if name in FLAGS else ["--set", f"{name}={_literal(value)}"]
        return shlex.join(words)


def _refuse_idle_settings(config: RunConfig) -> None:
    """Raise for a setting that would change the run's id and nothing else."""
    if config.momentum != MOMENTUM and config.optimizer != "sgd":
        raise InputError(f"momentum is {config.momentum:g} with optimizer {config.optimizer}; expected sgd.")
    stepped = config.schedule == "steps"
    if stepped != bool(config.milestones) or (config.step_factor != 0.1 and not stepped):
        raise InputError(
            f"schedule is {config.schedule!r} with milestones {config.milestones} and step_factor "
            f"{config.step_factor:g}; milestones and step_factor are of 'steps', which needs one epoch or more, "
            "such as milestones=[50,75]."
        )
    if config.milestones != sorted(set(config.milestones)) or any(epoch < 1 for epoch in config.milestones):
        raise InputError(f"milestones is {config.milestones}; expected epochs in order, each 1 or more.")
    if not config.tested and not config.validation:
        raise InputError("tested is false with validation 0; expected a share of the training split, such as 0.1.")


def refuse_unknown_settings(given: Iterable[str], source: str = "") -> None:
    """Raise for the first name that is no setting of a run; the message names the source."""
    for name in given:
        if name not in RunConfig.model_fields:
            at = f"{source}: " if source else ""
            raise InputError(f"{at}a run has no setting {name!r}. {did_you_mean(name, RunConfig.model_fields)}")


def with_one_freezing(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with `freezing` checked and written in the one way that a run has: `ladder:0` is `blocks`."""
    freezing = settings.get("freezing")
    if not isinstance(freezing, str):
        return settings  # What is no word is refused with the rest of the settings.
    from walkback.lab.zoo.methods.freezing import read_freezing

    return settings | {"freezing": str(read_freezing(freezing))}


FLAGS = {
    "credit_norm": "--credit-norm",
    "penalty": "--penalty",
    "freezing": "--freezing",
    "targets": "--targets",
    "batch_size": "--batch-size",
    "optimizer": "--optimizer",
    "learning_rate": "--lr",
    "weight_decay": "--weight-decay",
    "schedule": "--schedule",
    "augment": "--no-augment",
    "precision": "--precision",
}
"""Settings with a flag of their own on the command line; other options are given with --set."""


def _flag(name: str, value: Any) -> list[str]:
    return [FLAGS[name]] if isinstance(value, bool) else [FLAGS[name], _literal(value)]


def read_toml(path: str | Path) -> dict[str, Any]:
    """The settings in a TOML file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}. Give the path of a TOML file.") from None
    # A ValueError is also what is not TOML, not UTF-8, or a number with more digits than Python reads.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from None


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with changes on top; the tables of options are merged, not replaced."""
    result = dict(settings)
    for name, value in changes.items():
        if isinstance(value, Mapping) and name in result:
            if not isinstance(result[name], Mapping):
                raise InputError(f"{name} is {shortened(result[name])}; expected a table of options.")
            value = {**result[name], **value}
        result[name] = value
    return result


def _word(name: str, value: Any) -> str:
    """A changed setting in a name; a word that speaks for itself stands alone."""
    if name == "tested":
        return "untested"
    if name == "freezing":
        return value.replace(":", "") if value.startswith("ladder:") else f"frozen_{value}"
    if isinstance(value, str):
        return f"{value}_targets" if name == "targets" else value
    listed = "x".join(map(str, value)) if isinstance(value, list) else f"{value:g}"
    short = {"learning_rate": "lr", "batch_size": "batch", "weight_decay": "decay"}
    return f"{short.get(name, name)}{listed}"


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
