"""What the figure of the field shows, from the records of its comparisons. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walkback.lab.comparisons.plan import BP, FROZEN
from walkback.lab.comparisons.tables import failing, gamma_of
from walkback.present.figures.field import Cell, Field

NETWORKS = {
    "field_mlp_mnist": "MLP\nMNIST",
    "field_resmlp_cifar10": "ResMLP\nCIFAR-10",
    "field_small_cnn_cifar10": "CNN\nCIFAR-10",
    "field_gpt_shakespeare": "GPT\ntext",
}
PANEL = "calibrated"
"""By which a network counts as broken; where it is silent, as on text, the next."""
OTHERWISE = "april2026"
NOT_RUN, NOT_DEFINED = "not run", "not defined"


def field_of(records: Mapping[str, Mapping[str, Any]], methods: list[str]) -> Field:
    """Every method on every network; what is not on record says so."""
    shown = [BP, *(method for method in methods if method != BP)]
    cells = {(method, NETWORKS[name]): cell_of(records.get(name), method) for method in shown for name in NETWORKS}
    return Field(list(NETWORKS.values()), shown, cells)


def cell_of(record: Mapping[str, Any] | None, method: str) -> Cell:
    """One method on one network."""
    if record is None:
        return Cell(None, None, None, words=NOT_RUN)
    if method in record["undefined"]:
        return Cell(None, None, None, words=NOT_DEFINED)
    arms = {arm["label"]: arm for arm in record["arms"]}
    arm = arms.get(method)
    if arm is None or arm["to_frozen"] is None:
        return Cell(None, None, None, words=NOT_RUN)
    whole = arms[BP]["to_frozen"]
    gain = arm["to_frozen"]["mean"]
    share = gain / whole["mean"] if whole is not None and whole["mean"] > 0 else None
    return Cell(100 * gain, share, gamma_of(arm), *broken(arm))


def broken(arm: Mapping[str, Any]) -> tuple[int, int]:
    """How many runs are broken, of how many that were judged."""
    failed, of = failing(arm, PANEL)
    return (failed, of) if of else failing(arm, OTHERWISE)


def has_runs(records: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether anything is on record beside the frozen arm."""
    return any(arm["accuracy"] for record in records.values() for arm in record["arms"] if arm["label"] != FROZEN)
