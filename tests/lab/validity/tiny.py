"""Configurations that take a second: the same conditions on the smallest networks."""

from __future__ import annotations

from walkback.lab.validity.config import NetworkConfig


def tiny(condition: str, dial: float, architecture: str = "resmlp", **changed: object) -> NetworkConfig:
    """A small network of a condition; none of the bench's has its seed."""
    norm = {"plain_mlp": "batch", "small_cnn": "batch", "small_resnet": "batch"}.get(architecture, "pre")
    settings: dict[str, object] = {
        "condition": condition, "number": 0, "dial": dial, "architecture": architecture, "width": 32, "depth": 3,
        "norm": norm, "task": "product", "level": 2, "samples": 512, "method": "bp", "epochs": 6, "batch": 64,
        "rate": 3e-3, "seed": 4_000_000_000,
    }  # fmt: skip
    return NetworkConfig(**(settings | changed))
