"""Where the runs of a grid are trained: a Ray cluster. Importing this imports neither ray nor torch.

Each run is a Ray task. A task whose worker or node dies is handed out again, and goes on from the checkpoint that it
had taken to the store; a run that fails by itself is not, since it would fail again. The store is what all nodes
share: a directory that every one of them sees under the same path, or an address such as s3://bucket/runs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from walkback.errors import InputError, RunError
from walkback.extras import optional
from walkback.lab.grids.executors import Elsewhere, Ended, Reached, Tell
from walkback.lab.grids.ray_connection import connect, use_token
from walkback.lab.grids.ray_tasks import Letter, Mailbox, train_on_node
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.hardware import AUTO, CPU, checked_word
from walkback.lab.runs.lease import Claim
from walkback.lab.runs.objects import is_address
from walkback.lab.runs.store import RunStore

RETRIES = 3
"""How often in a row a run's worker or node may die before the run ends any epoch."""


@dataclass
class Attempts:
    """How often a run was handed out."""

    config: RunConfig
    number: int = 0
    in_vain: int = 0
    """How many attempts in a row died before an epoch ended."""
    elsewhere: bool = False
    """Whether it was told that others train it."""


class RayCluster:
    """The nodes of a Ray cluster, or a Ray of this machine alone."""

    def __init__(self, address: str, cpus_per_run: float = 1.0, gpus_per_run: float = 0.0, device: str = AUTO) -> None:
        if not cpus_per_run > 0 or not gpus_per_run >= 0:
            raise InputError(
                f"a run was given {cpus_per_run:g} CPUs and {gpus_per_run:g} GPUs; expected more than 0 CPUs, and 0 or "
                "more GPUs."
            )
        self.device = _checked_device(device, gpus_per_run)
        self.address = address
        self.needs = {"num_cpus": cpus_per_run, "num_gpus": gpus_per_run}
        use_token(address)
        self.ray: Any = optional("ray")

    @contextmanager
    def ready(self) -> Iterator[int]:
        """Be connected to the cluster; how many runs fit on it at once."""
        ours = not self.ray.is_initialized()
        if ours:
            connect(self.ray, self.address)
        try:
            yield self._places()
        finally:
            if ours:
                self.ray.shutdown()

    def _places(self) -> int:
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        places = sum(_runs_on(node, self.needs) for node in nodes)
        if not places:
            most = {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in ("CPU", "GPU")}
            raise InputError(
                f"no node of the cluster can hold a run that needs {self.needs['num_cpus']:g} CPUs and "
                f"{self.needs['num_gpus']:g} GPUs: the largest has {most['CPU']:g} and {most['GPU']:g}. Ask for less "
                "with --cpus-per-run and --gpus-per-run, or add nodes."
            )
        return places

    def refuse(self, runs: Sequence[RunConfig]) -> None:
        """What a run may be trained in hangs on the GPU that it gets; whether the node has one, the run says."""
        import torch

        from walkback.lab.runs.mixed import refuse_precision

        for config in runs:
            refuse_precision(config, torch.device("cuda" if self.needs["num_gpus"] and self.device != CPU else CPU))

    def execute(self, runs: Sequence[RunConfig], store: RunStore, tell: Tell) -> None:
        """Hand all runs to the cluster, and hear of each until it has ended."""
        with self.ready(), _marked(store) as mark:
            Session(self.ray, self.needs, self.device, store, mark, tell).carry_out(runs)


def _checked_device(device: str, gpus: float) -> str:
    """The word for the device, where it is Ray that hands out the GPUs."""
    if ":" in checked_word(device):
        raise InputError(
            f"--device {device} names one GPU, and with --ray it is Ray that hands them out. Use --device cuda with "
            "--gpus-per-run 1."
        )
    if device == "cuda" and not gpus:
        raise InputError("--device cuda with --ray needs a GPU for each run: add --gpus-per-run 1, or a part of one.")
    return device


def _runs_on(node: dict[str, float], needs: dict[str, float]) -> int:
    rooms = [node.get("CPU", 0.0) / needs["num_cpus"]]
    if needs["num_gpus"]:
        rooms.append(node.get("GPU", 0.0) / needs["num_gpus"])
    return int(min(rooms) + 1e-9)


@contextmanager
def _marked(store: RunStore) -> Iterator[str]:
    """Leave a mark in a store that is a directory, by which a node can tell that it sees the same one."""
    if is_address(store.address):
        yield ""
        return
    mark = Path(store.address, f".grid-{uuid.uuid4().hex}")
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError as error:
        raise RunError(f"cannot write to {mark.parent}: {error.strerror}. Choose another with --runs.") from None
    try:
        yield str(mark)
    finally:
        mark.unlink(missing_ok=True)


@dataclass
class Session:
    """One grid on one cluster."""

    ray: Any
    needs: dict[str, float]
    device: str
    store: RunStore
    mark: str
    tell: Tell
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    attempts: dict[str, Attempts] = field(default_factory=dict)
    tasks: dict[Any, str] = field(default_factory=dict)
    """The run of each task that is waiting or under way."""

    def carry_out(self, runs: Sequence[RunConfig]) -> None:
        """Hand out, hear, hand out again; whatever ends this ends the tasks."""
        # Should its node die all the same, a new one takes over: a letter may be lost, a run is not.
        lasting = {"max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": _here(self.ray)}
        self.mailbox = self.ray.remote(num_cpus=0, **lasting)(Mailbox).remote()
        # Nothing of ours is sent twice behind our back: who may go on with a run is decided here.
        self.task = self.ray.remote(max_retries=0, **self.needs)(train_on_node)
        try:
            for config in runs:
                self.attempts[config.run_id] = Attempts(config)
                self._hand_out(config.run_id)
            letters = self.mailbox.take.remote()
            while self.tasks:
                ready, _ = self.ray.wait([letters, *self.tasks], num_returns=1)
                if letters in ready:
                    self._read(self.ray.get(letters))
                    letters = self.mailbox.take.remote()
                for task in ready:
                    if task in self.tasks:
                        self._ended(task)
        finally:
            self._cancel()

    def _hand_out(self, run_id: str) -> None:
        attempt = self.attempts[run_id]
        attempt.number += 1
        claim = Claim(self.name, attempt.number)
        places = (self.store.address, str(self.store.archive.resolve()), self.mark)
        task = self.task.remote(attempt.config.to_dict(), places, claim, self.mailbox, self.device)
        self.tasks[task] = run_id

    def _read(self, letters: Sequence[Letter]) -> None:
        """Tell what the tasks say; what an attempt says that was given up is old news."""
        for attempt, event in letters:
            known = self.attempts[event.run_id]
            if attempt == known.number:
                known.in_vain = 0 if isinstance(event, Reached) else known.in_vain
                self.tell(event)

    def _ended(self, task: Any) -> None:
        """A task has ended: its run is finished or failed, or is handed out again."""
        run_id = self.tasks.pop(task)
        # Its letters were in the box before it ended.
        self._read(self.ray.get(self.mailbox.drain.remote()))
        try:
            ended: Ended | Elsewhere = self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            ended = Ended(
                run_id, f"the task could not start: {_last_line(error)}. Is walkback installed on every node?"
            )
        except self.ray.exceptions.RayError as error:
            self.attempts[run_id].in_vain += 1
            if self.attempts[run_id].in_vain <= RETRIES:
                self._hand_out(run_id)
                return
            ended = Ended(run_id, f"its worker or node died {RETRIES + 1} times in a row: {_last_line(error)}")
        if isinstance(ended, Elsewhere):
            self._wait_for_others(ended)
            return
        self.tell(ended)

    def _wait_for_others(self, event: Elsewhere) -> None:
        """Hand the run out again, behind all others; a task that gets it waits for a while."""
        attempt = self.attempts[event.run_id]
        if not attempt.elsewhere:
            self.tell(event)
        attempt.elsewhere = True
        self._hand_out(event.run_id)

    def _cancel(self) -> None:
        for task in self.tasks:
            with suppress(Exception):  # the cluster may be gone, and then so are its tasks
                self.ray.cancel(task, force=True)
        with suppress(Exception):
            self.ray.kill(self.mailbox)


def _here(ray: Any) -> Any:
    """The node of this process: it is there as long as the grid is, whichever other node dies."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip().rstrip(".")
