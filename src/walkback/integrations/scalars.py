"""One measurement as named scalars, as experiment trackers take them."""

from __future__ import annotations

from walkback.protocol.diagnostics.known import known
from walkback.protocol.diagnostics.known import scalars as declared
from walkback.watch.event_files import ACCURACY, EPOCH, ERROR, GRADIENT, HIDDEN, PREFIX
from walkback.watch.trace_line import TraceLine


def scalars(line: TraceLine) -> dict[str, float]:
    """The norms at every site, the figures of the diagnostics, and 1 for each that fired."""
    measured = line.measurements()
    found: dict[str, float | None] = {
        ACCURACY: line.accuracy,
        ERROR: line.error_size,
        EPOCH: line.epoch,
        f"{PREFIX}monitor_overhead": line.overhead,
    }
    for _, scalar in declared().values():
        if scalar.tag and scalar.of is not None:
            found[f"{PREFIX}{scalar.tag}"] = scalar.of(measured)
    for tag, norms in ((HIDDEN, line.residual_norms), (GRADIENT, line.bp_grad_norms)):
        found |= {f"{tag}{site}": norm for site, norm in enumerate(norms or ())}
    for one in known().values():
        if one.listed == "always" or one.letter in line.fired:
            found[f"{PREFIX}fired/{one.letter}"] = float(one.letter in line.fired)
    for name, value in line.extra.items():
        values = value if isinstance(value, tuple) else (value,)
        at = [""] if values is not value else [f"/{site}" for site in range(len(values))]
        found |= {f"{PREFIX}{name}{where}": each for where, each in zip(at, values, strict=True)}
    return {name: value for name, value in found.items() if value is not None}


def verdict_text(line: TraceLine) -> str:
    """What the measurement came to, in words."""
    if line.unmeasured:
        return f"{line.at}: not measured: {line.unmeasured}"
    fired = ", ".join(f"({letter})" for letter in line.fired) or "nothing"
    return f"{line.at}: {fired} fired" + (f"; stop: {line.reason}" if line.reason else "")
