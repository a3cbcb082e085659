"""Grids with a name: what stands on record in `results/`."""

from __future__ import annotations

from walkback.errors import UnknownName
from walkback.experiments.grid import GridConfig, rows_named
from walkback.registry import did_you_mean

RECORD = "resmlp_d256"
LONG_EPOCHS = 100


def _resmlp_d256() -> tuple[GridConfig, ...]:
    everything = rows_named(["bp", "fa", "dfa", "state_bridge", "credit_bridge", "ep"])
    long = rows_named(["bp", "dfa"])
    return (
        GridConfig(architecture="resmlp", data="cifar10", rows=everything),
        GridConfig(architecture="resmlp", data="cifar10", rows=long, epochs=LONG_EPOCHS),
    )


PRESETS = {RECORD: _resmlp_d256}


def preset(name: str) -> tuple[GridConfig, ...]:
    """The grids of a preset; an unknown name is refused with a suggestion."""
    if name not in PRESETS:
        raise UnknownName(f"there is no preset called {name!r}. {did_you_mean(name, PRESETS)}")
    return PRESETS[name]()
