"""Connecting to a Ray cluster, or starting a Ray of this machine that nobody else can reach. No ray until it does."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from walkback.errors import RunError, WalkbackWarning
from walkback.lab.grids.listening import open_to_others

LOCAL = "local"
LOOPBACK = "127.0.0.1"
CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's own switch: whether this machine may be one of several, and so has to be reached from outside."""
AUTH_MODE = "RAY_AUTH_MODE"
KNOCK_SECONDS = 10.0


def use_token(address: str) -> None:
    """Let Ray send its token to a cluster of others, where there is one and nothing else was asked for.

    Since 2.60 `ray start` protects a cluster by the token that it finds, and a program that joins it sends none unless
    the environment says so when Ray is imported. A cluster without protection takes no notice of a token. Where Ray is
    imported already, the process and what it starts would disagree; there it stays as it is.
    """
    if address == LOCAL or AUTH_MODE in os.environ or "ray" in sys.modules:
        return
    given = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    if given or (Path.home() / ".ray" / "auth_token").is_file():
        os.environ[AUTH_MODE] = "token"


def connect(ray: Any, address: str) -> None:
    """Be connected to the cluster at an address, or to one of this machine alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would else warn that a later version leaves a task without GPUs its view of them.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        _knock(address)
        if address == LOCAL:
            with _loopback():
                ray.init(address="local", include_dashboard=False, _node_ip_address=LOOPBACK, **common)
            tell_of_open_sockets()
        else:
            ray.init(address=address, **common)
    except (OSError, ValueError, RuntimeError) as error:
        raise RunError(
            f"no Ray cluster answers at {address!r} ({(str(error).strip().splitlines() or ['no answer'])[0]}). Give "
            "HOST:PORT of its head node, or start one there with `ray start --head`; --ray local needs none. A cluster "
            "that is protected by a token needs RAY_AUTH_MODE=token and the token itself here too."
        ) from None


@contextmanager
def _loopback() -> Iterator[None]:
    """Keep Ray from taking 127.0.0.1 for the address by which other machines reach this one.

    Off its clusters, as by default on macOS and Windows, all its processes listen on the address that it is given.
    The switch is read when Ray is imported, which may be long ago; what Ray starts reads it from the environment.
    """
    from ray._private import ray_constants

    before, in_environment = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None), os.environ.get(CLUSTERS)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[CLUSTERS] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        os.environ.pop(CLUSTERS)
        os.environ.update({} if in_environment is None else {CLUSTERS: in_environment})


def tell_of_open_sockets() -> None:
    """Warn where this version of Ray listens on more than loopback: whoever reaches it can run code here."""
    found = open_to_others()
    if found:
        warnings.warn(
            f"this version of Ray cannot be bound to {LOOPBACK} ({'; '.join(found)}): anyone who reaches this machine "
            "can run code on it through Ray. Close these ports with a firewall, or train without --ray.",
            WalkbackWarning,
            stacklevel=2,
        )


def _knock(address: str) -> None:
    """Raise where nobody listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
