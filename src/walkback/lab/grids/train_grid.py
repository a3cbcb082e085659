"""Train what a grid still lacks, and keep every finished run's result in the archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from walkback.lab.grids.executors import Ended, Event, Executor, Tell
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import RunStore


def missing_runs(runs: Sequence[RunConfig], store: RunStore) -> list[RunConfig]:
    """The runs that are not finished; those that are get their copy in the archive."""
    stored = [(config, store.run(config)) for config in runs]
    for _, run in stored:
        if run.finished:
            store.keep(run)
    return [config for config, run in stored if not run.finished]


def train_missing(
    missing: Sequence[RunConfig],
    store: RunStore,
    executor: Executor,
    tell: Tell,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Train the runs to their end; the error of each that failed, by id.

    Data sets are fetched before any worker starts, so that no two of them fetch the same; `say` hears of it. A method
    that is not defined on its network, or cannot be trained in its precision, is refused before any run starts.
    """
    from walkback.lab.runs.assembly import refuse_undefined
    from walkback.lab.zoo.datasets import fetch

    for name in dict.fromkeys(config.data for config in missing):
        fetch(name, progress=say)
    refuse_undefined(missing)
    executor.refuse(missing)
    errors: dict[str, str] = {}

    def heard(event: Event) -> None:
        if isinstance(event, Ended) and event.error:
            errors[event.run_id] = event.error
        elif isinstance(event, Ended):
            store.keep(store.at(event.run_id))
        tell(event)

    if missing:
        executor.execute(missing, store, heard)
    return errors
