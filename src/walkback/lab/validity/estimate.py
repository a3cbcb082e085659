"""What the bench would take: one network of each kind is timed, outside the plan, and the rest is arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from walkback.lab.runs.stamp import stamp
from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import ARCHITECTURES
from walkback.lab.validity.plan import FAULT_NETWORKS, HEALTHY_NETWORKS, fault, healthy, plan
from walkback.lab.validity.record import NetworkRecord
from walkback.lab.validity.split import FAULT_QUOTA, HEALTHY_QUOTA

ESTIMATE_FILE = "estimate.json"
OUTSIDE = 1000
"""Numbers from here on are of networks that the bench does not have."""


def healthy_sample(architecture: str) -> NetworkConfig:
    """A healthy configuration of this architecture that the bench does not have."""
    number = HEALTHY_NETWORKS + OUTSIDE
    while (config := healthy(number)).architecture != architecture:
        number += 1
    return config


def fault_sample(name: str, turn: int) -> NetworkConfig:
    """A configuration of this fault that the bench does not have, on one of its architectures in turn."""
    count = len(condition_named(name).architectures)
    return fault(name, FAULT_NETWORKS + OUTSIDE + turn % count)


def estimate(make: Callable[[NetworkConfig], NetworkRecord], tell: Callable[[str], None]) -> dict[str, Any]:
    """Time one healthy network per architecture and one of each fault, in CPU seconds, and add up.

    A fault is timed on one of its architectures; on another it takes longer or shorter as healthy networks do there.
    """
    sound = {name: _timed(make, healthy_sample(name), tell) for name in ARCHITECTURES}
    faulty = {name: _timed(make, fault_sample(name, turn), tell) for turn, name in enumerate(FAULTS)}
    pace = {name: entry["cpu_seconds"] for name, entry in sound.items()}
    quotas = {name: sum(FAULT_QUOTA.values()) for name in FAULTS}
    counted = Counter(config.architecture for config in plan()["healthy"])
    of_healthy = sum(HEALTHY_QUOTA.values()) * sum(n * pace[a] for a, n in counted.items()) / HEALTHY_NETWORKS
    of_faults = {
        name: quotas[name] * entry["cpu_seconds"] * _mean_pace(name, pace) / pace[entry["architecture"]]
        for name, entry in faulty.items()
    }
    total = of_healthy + sum(of_faults.values())
    return {
        "healthy": sound,
        "faults": faulty,
        "core_hours": {
            "healthy": round(of_healthy / 3600, 2),
            **{name: round(seconds / 3600, 2) for name, seconds in of_faults.items()},
            "all": round(total / 3600, 2),
        },
        "networks": sum(HEALTHY_QUOTA.values()) + sum(quotas.values()),
        "slowest_seconds": max(entry["cpu_seconds"] for entry in [*sound.values(), *faulty.values()]),
        **stamp(),
    }


def _mean_pace(fault_name: str, pace: dict[str, float]) -> float:
    names = condition_named(fault_name).architectures
    return sum(pace[name] for name in names) / len(names)


def _timed(
    make: Callable[[NetworkConfig], NetworkRecord], config: NetworkConfig, tell: Callable[[str], None]
) -> dict[str, Any]:
    record = make(config)
    seconds = round(sum(record.cpu_seconds.values()), 2)
    what = f"{config.condition}, {config.architecture} of depth {config.depth} and width {config.width}, {config.task}"
    tell(f"{what}: {seconds:.1f} s; {record.truth.words}" + ("" if record.truth.holds else " (not what it should be)"))
    return {
        "architecture": config.architecture,
        "task": config.task,
        "cpu_seconds": seconds,
        "phases": record.cpu_seconds,
        "as_made": record.truth.holds,
        "truth": record.truth.words,
    }
