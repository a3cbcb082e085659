"""TensorBoard's event files as rows of a log. Needs the extra `tensorboard`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from walkback.errors import RecordError
from walkback.extras import optional
from walkback.protocol.diagnostics.known import scalars
from walkback.watch.column_map import SINGLE, ColumnMap, Row

PREFIX = "walkback/"
HIDDEN, GRADIENT = f"{PREFIX}h_norm/site_", f"{PREFIX}g_norm/site_"
"""Tags of the norms, with the number of the site after them."""
ACCURACY, EPOCH, ERROR = (f"{PREFIX}{name}" for name in ("accuracy", "epoch", "error_size"))
STEP = "step"
"""The column that holds the step of an event."""


def event_rows(path: Path) -> list[Row]:
    """One row per step, one column per scalar tag."""
    module = optional("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    rows: dict[int, dict[str, Any]] = {}
    for tag in tags["scalars"]:
        for event in events.Scalars(tag):
            rows.setdefault(event.step, {STEP: event.step})[tag] = event.value
    for tag in tags["tensors"]:
        for step, value in _scalar_tensors(events.Tensors(tag)):
            rows.setdefault(step, {STEP: step})[tag] = value
    if not rows:
        raise RecordError(f"{path} holds no scalars; expected TensorBoard events with norms of the stream.")
    return [Row(f"step {step}", rows[step]) for step in sorted(rows)]


def _scalar_tensors(events: Iterable[Any]) -> Iterable[tuple[int, float]]:
    """The scalars that newer writers store as tensors."""
    util = optional("tensorboard.util.tensor_util")
    for event in events:
        array = util.make_ndarray(event.tensor_proto)
        if array.shape == () and array.dtype.kind in "fiu":
            yield event.step, float(array)


def own_columns(rows: Iterable[Row]) -> ColumnMap | None:
    """The map for events that walkback's own log wrote; None where there are none of those."""
    tags = {tag for row in rows for tag in row.values}
    columns = {f"h_{tag.removeprefix(HIDDEN)}": tag for tag in tags if tag.startswith(HIDDEN)}
    columns |= {f"g_{tag.removeprefix(GRADIENT)}": tag for tag in tags if tag.startswith(GRADIENT)}
    if not columns:
        return None
    others = {"acc": ACCURACY, "epoch": EPOCH, "error": ERROR, "step": STEP}
    # A map names the figure of a diagnostic by its letter, where a log can hold it.
    others |= {
        one.letter: f"{PREFIX}{scalar.tag}" for one, scalar in scalars().values() if scalar.tag and one.letter in SINGLE
    }
    return ColumnMap(columns | {figure: tag for figure, tag in others.items() if tag in tags})
