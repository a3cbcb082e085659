"""What runs on the nodes of a Ray cluster: a task per run, and the box for what tasks say. No ray until it runs."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from walkback.lab.grids.executors import Elsewhere, Ended, Event, trained
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.hardware import AUTO, CPU
from walkback.lab.runs.lease import Claim
from walkback.lab.runs.objects import is_address
from walkback.lab.runs.remote_store import RemoteRunStore
from walkback.lab.runs.store import open_store

PATIENCE_SECONDS = 10.0
"""How long a task waits for another process that trains its run, before it makes room for other runs."""


class Letter(NamedTuple):
    """What a task says, and which attempt of its run it is."""

    attempt: int
    event: Event


class Mailbox:
    """A Ray actor that keeps what the tasks say until the grid asks for it."""

    def __init__(self) -> None:
        import asyncio

        self.letters: list[Letter] = []
        self.there = asyncio.Event()

    async def put(self, letter: Letter) -> None:
        """Keep a letter."""
        self.letters.append(letter)
        self.there.set()

    async def take(self) -> list[Letter]:
        """All letters, once there is one."""
        await self.there.wait()
        return await self.drain()

    async def drain(self) -> list[Letter]:
        """All letters, if any."""
        letters, self.letters = self.letters, []
        self.there.clear()
        return letters


def train_on_node(
    settings: dict[str, Any], places: tuple[str, str, str], claim: Claim, mailbox: Any, device: str
) -> Ended | Elsewhere:
    """What a task does: train one run from wherever it is."""
    address, archive, mark = places
    if mark and not Path(mark).exists():
        run_id = RunConfig.from_dict(settings).run_id
        return Ended(
            run_id,
            f"{address} on node {socket.gethostname()} is not the directory that the grid was started with. "
            "With --ray, --runs must be a directory that all nodes share, or an address such as s3://bucket/runs.",
        )
    store = RemoteRunStore(address, archive, claim) if is_address(address) else open_store(address, archive)
    sent: list[Any] = []

    def send(event: Event) -> None:
        sent[:] = [mailbox.put.remote(Letter(claim.attempt, event))]

    ended = trained(settings, store, send, PATIENCE_SECONDS, device=_given(device))
    _arrived(sent)
    return ended


def _given(device: str) -> str:
    """The device that this task may use: with `auto` the GPU that Ray gave it, and none that it did not."""
    if device != AUTO:
        return device
    import ray

    # Ray shows a task its own GPUs alone, so the first that torch sees is the one. One that got none may see all.
    return "cuda" if ray.get_runtime_context().get_accelerator_ids().get("GPU") else CPU


def _arrived(sent: list[Any]) -> None:
    """Wait until the last letter, and so all before it, is in the box."""
    import ray

    with suppress(ray.exceptions.RayError):
        ray.get(sent)
