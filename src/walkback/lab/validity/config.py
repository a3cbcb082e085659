"""What one network of the bench is made from: a frozen configuration whose hash is its id. No torch."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field

from walkback.protocol.schema import Record

ID_LENGTH = 16


class NetworkConfig(Record):
    """Architecture, data, rule and dial of one network; equal configurations give equal networks."""

    condition: str
    """The condition that makes it: `healthy`, or a fault."""
    number: int = Field(ge=0)
    """Its place in the condition's list."""
    dial: float = 0.0
    """How strong the fault is, in the condition's own unit; 0 for healthy networks."""
    architecture: str
    width: int = Field(ge=1)
    depth: int = Field(ge=1)
    norm: str = "pre"
    """Where it normalises, as its architecture understands it."""
    task: str
    level: int = 0
    """How hard the task is, in its own unit."""
    samples: int = Field(default=2048, ge=128)
    """Of the training split."""
    method: str = "bp"
    optimizer: str = "adamw"
    rate: float = Field(default=2e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: str = "cosine"
    batch: int = Field(default=64, ge=2)
    epochs: int = Field(default=20, ge=1)
    seed: int = Field(ge=0)

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the configuration as JSON with sorted keys."""
        return digest(self.to_dict())[:ID_LENGTH]

    @property
    def kind(self) -> dict[str, Any]:
        """The configuration without its number and seed: what makes two networks independent configurations."""
        return {name: value for name, value in self.to_dict().items() if name not in ("number", "seed")}

    def part_seed(self, purpose: str) -> int:
        """A seed for one part of the making, from the SHA-256 of the network's seed and the part's name."""
        found = hashlib.sha256(f"validity/{self.seed}/{purpose}".encode()).digest()
        return int.from_bytes(found[:8], "little") >> 1


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
