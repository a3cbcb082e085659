"""Whose trace a file is: the line that a trace begins with, and which runs may go on with it. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ConfigDict

from walkback._version import __version__
from walkback.errors import InputError
from walkback.protocol.schema import Record, shortened

TRACE_VERSION = 1


class Identity(Record):
    """What a trace begins with: the run, the network, and when it started."""

    model_config = ConfigDict(extra="ignore")

    trace_version: int = TRACE_VERSION
    run: str
    """The name that the caller gave, or a number of its own."""
    network: str
    """A hash of the names and shapes of all parameters."""
    model: str = ""
    parameters: int | None = None
    """How many numbers the parameters hold."""
    sites: int | None = None
    started: str = ""
    walkback: str = ""

    @classmethod
    def new(cls, run: str | None, network: str, model: str, parameters: int, sites: int) -> Identity:
        """Of a run that starts now."""
        if run is not None and (not isinstance(run, str) or not run.strip()):
            raise InputError(f"run= is {shortened(run)}; expected a name, such as 'dfa-seed-3'.")
        return cls(
            run=run if run is not None else uuid4().hex,
            network=network,
            model=model,
            parameters=parameters,
            sites=sites,
            started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            walkback=__version__,
        )

    def line(self) -> str:
        """As one line of JSON."""
        return self.model_dump_json()

    def is_of(self, other: Identity) -> bool:
        """Whether both are of one run of one network."""
        return (self.run, self.network) == (other.run, other.network)


def is_identity(record: Any) -> bool:
    """Whether a parsed JSON line is what a trace begins with."""
    return isinstance(record, dict) and "trace_version" in record and "network" in record


def check_may_go_on(
    path: Path, own: Identity, there: Identity | None, sites: Sequence[int], held: str, named: bool, resume: bool
) -> None:
    """Refuse to add to a file that holds another run, or another network.

    The same run goes on where the caller names it by the same `run=`, or says `resume=True`. The network must be the
    same in any case: names and shapes of its parameters, and the number of its sites.

    Args:
        path: the file.
        own: the run that wants to add to it.
        there: what the file begins with; None for one that an earlier walkback wrote.
        sites: how many sites its lines have.
        held: what it holds, in words.
        named: whether the caller gave a `run=`.
        resume: whether the caller said to go on.
    """
    another = "Give another path, or remove the file."
    if there is not None and there.network != own.network:
        raise InputError(
            f"{path} is the trace of another network: {_network(there)}, {held}. This one is {_network(own)}. {another}"
        )
    if other := [count for count in sites if count != own.sites]:
        raise InputError(
            f"{path} is the trace of another network, or of other blocks of it: {held}, with {other[0]} sites. This "
            f"one has {own.sites}. {another}"
        )
    if there is None and resume and not named:
        return
    if there is None:
        raise InputError(
            f"{path} holds a run already: {held}, without a name. To resume it from a checkpoint, pass "
            "resume=True and no run=; a new run needs a path of its own."
        )
    if (named and own.run == there.run) or (resume and not named):
        return
    came = f"; this is run {own.run!r}" if named else ""
    raise InputError(
        f"{path} holds a run already: run {there.run!r} of this network, begun {there.started}, {held}{came}. "
        f"To resume it from a checkpoint, pass resume=True or run={there.run!r}; a new run needs a "
        "path of its own."
    )


def _network(identity: Identity) -> str:
    size = "" if identity.parameters is None else f" of {identity.parameters:,} parameters"
    return f"{identity.model or 'a network'}{size} ({identity.network})"
