"""Whether a network reads numbers, which a rule can change, or symbols, which it cannot."""

from __future__ import annotations

from walkback.lab.zoo.contract import BlockModel


def reads_symbols(model: BlockModel, so: str) -> str:
    """Why a rule that changes the input is not defined, where the inputs are tokens; empty where they are numbers."""
    return "" if model.data.vocabulary is None else f"its inputs are symbols that are looked up, and {so}."
