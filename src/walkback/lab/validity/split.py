"""Which networks thresholds may be fitted on, and which are held: by a hash of their configurations."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from walkback.errors import InputError, RecordError
from walkback.lab.validity.config import NetworkConfig, digest
from walkback.lab.validity.plan import FAULT_NETWORKS, HEALTHY_NETWORKS, plan
from walkback.protocol.schema import read_json

Half = Literal["fit", "held"]
SALT = "walkback validity bench, split of 2026-11-18"
SPLIT_VERSION = 1
SPLIT_FILE = "split.json"
HEALTHY_QUOTA: dict[Half, int] = {"fit": 150, "held": 300}
FAULT_QUOTA: dict[Half, int] = {"fit": 10, "held": 29}
"""How many networks of a condition a half has once those that are not what they should be are replaced."""
_FIT_OF = {"healthy": HEALTHY_NETWORKS // 3}
"""The networks of `fit`, spares included; of a fault 12 of 45."""
_FIT_OF_FAULT = 12
assert HEALTHY_NETWORKS - _FIT_OF["healthy"] >= HEALTHY_QUOTA["held"]
assert FAULT_QUOTA["held"] <= FAULT_NETWORKS - _FIT_OF_FAULT


def rank(config: NetworkConfig) -> str:
    """Where a configuration stands in its condition: the SHA-256 of the salt and its id."""
    return hashlib.sha256(f"{SALT}/{config.id}".encode()).hexdigest()


def quota(condition: str, half: Half) -> int:
    """How many networks of a condition a half is to have."""
    return (HEALTHY_QUOTA if condition == "healthy" else FAULT_QUOTA)[half]


@cache
def halves() -> dict[Half, dict[str, tuple[NetworkConfig, ...]]]:
    """The configurations of each half, by condition, in the order in which they are made and counted."""
    found: dict[Half, dict[str, tuple[NetworkConfig, ...]]] = {"fit": {}, "held": {}}
    for condition, configs in plan().items():
        ordered = sorted(configs, key=rank)
        first = _FIT_OF.get(condition, _FIT_OF_FAULT)
        found["fit"][condition], found["held"][condition] = tuple(ordered[:first]), tuple(ordered[first:])
    return found


def half_named(word: str) -> Half:
    """`fit` or `held`; anything else is refused."""
    for half in get_args(Half):
        if word == half:
            return half  # type: ignore[no-any-return]
    raise InputError(f"there is no half called {word!r}; expected fit or held.")


def as_file() -> dict[str, Any]:
    """The split as it is committed: every id, in order."""
    listed: dict[str, Any] = {
        half: {name: [c.id for c in configs] for name, configs in found.items()} for half, found in halves().items()
    }
    return {
        "split_version": SPLIT_VERSION,
        "salt": SALT,
        "quota": {"healthy": HEALTHY_QUOTA, "fault": FAULT_QUOTA},
        "plan_digest": digest([config.to_dict() for configs in plan().values() for config in configs]),
        **listed,
    }


def written() -> str:
    """The text of the committed file."""
    return json.dumps(as_file(), indent=1) + "\n"


def require_committed(folder: Path) -> None:
    """Raise where the committed split is not that of this code: no network is made by another one."""
    path = folder / SPLIT_FILE
    if read_json(path) != as_file():
        raise RecordError(
            f"{path} is not the split of this code: the plan has changed since it was committed. Go back to the commit "
            "that made it, or start a new bench with a new salt."
        )
