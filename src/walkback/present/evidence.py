"""What was measured beside the figures of the diagnostics, and what is missing, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from walkback.present import in_panel, numbers
from walkback.present.facts import Facts, capped
from walkback.present.gradient_words import reference_line
from walkback.present.numbers import count, written
from walkback.present.places import in_block_names, place, places
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened
from walkback.present.score_words import scores_in_words
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.known import known, owners, quantities
from walkback.protocol.panels.base import MISSING
from walkback.protocol.panels.calibrated import RATES_FILE
from walkback.protocol.panels.rates import Rates
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.protocol.thresholds import published

LOSS = "loss"
_MOST_VALUES = 8
SENTENCE = 1200
"""What a panel says beside a verdict is no longer than this."""
OTHERS = "Other measurements"
"""What the evidence is headed by."""


def evidence(report: DiagnosticReport) -> Facts:
    """What was measured beside the figures of the diagnostics, and is needed to understand them."""
    return [
        *_loss(report),
        *scores_in_words(report),
        *_gradient(report),
        *_drift(report),
        *_nonfinite(report),
        *_rates(report),
        *beside_verdict(report),
        *capped(_extra(report)),
    ]


def beside_verdict(report: DiagnosticReport) -> Facts:
    """What the deciding panel says beside its verdict: `("error rates", "Of 300 healthy networks …")`."""
    said = report.decision.beside if report.decision is not None else {}
    return [(middle_out(about, NAME_LENGTH), shortened(words, SENTENCE)) for about, words in said.items()]


def panel_rates(report: DiagnosticReport) -> str:
    """How often a published panel that decides was wrong on the bench; those that were fitted say it themselves.

    Nothing is known of other thresholds than the published ones, nor of networks of other sizes and kinds.
    """
    bench = Rates.load(RATES_FILE)
    rates = bench.published.get(report.panel)
    if rates is None or report.thresholds != published() or all(r.state in MISSING for r in report.readings):
        return ""
    missing = [in_panel.label(report, r.letter) for r in report.readings if r.state in MISSING]
    return rates.in_words(bench.range, report.measurements, [] if report.complete else missing)


def _rates(report: DiagnosticReport) -> Facts:
    return [("error rates", words)] if (words := panel_rates(report)) else []


def _loss(report: DiagnosticReport) -> Iterator[tuple[str, str]]:
    if words := report.provenance.get(LOSS):
        yield LOSS, shortened(words, 200)


def _gradient(report: DiagnosticReport) -> Iterator[tuple[str, str]]:
    if report.reference_check is not None:
        yield (
            "reference gradient",
            in_block_names(report, in_panel.in_its_words(report, reference_line(report.reference_check))),
        )
    if report.error_size is not None:
        yield "error size", f"{written(report.error_size)}, the median ‖∂ℓ/∂logits‖"
    if report.reference_fidelity:
        # Minimum by a key that puts NaN first: a lost gradient must not hide behind good ones.
        worst = min(report.reference_fidelity, key=lambda v: (v == v, v))
        yield (
            "reference fidelity",
            f"{written(worst, quantities()['reference_fidelity'].digits)} at the worst site, against fp64",
        )


def _drift(report: DiagnosticReport) -> Iterator[tuple[str, str]]:
    if report.groups is not None:
        yield f"groups for {in_panel.label(report, owners()['groups'])}", f"{report.groups:,} of 128 samples"
    site = report.stability_layer
    if report.drift_shares is None or site is None:
        return
    text = f"{written(report.drift_shares[site])} at {place(report, site)}"
    if report.drift_share_intervals is not None:
        interval = report.drift_share_intervals[site]
        text += f", {written(interval.low)} to {written(interval.high)} ({numbers.level(interval)})"
    yield "drift share ρ", text


def _nonfinite(report: Measurements) -> Iterator[tuple[str, str]]:
    for quantity in quantities().values():
        counts = report.value_of(quantity.name) if quantity.kind == "broken" else None
        if isinstance(counts, tuple) and any(counts):
            hit = [site for site, number in enumerate(counts) if number]
            many = count(int(max(counts)), "sample")
            yield quantity.shown, f"at {places(report, hit)}; up to {many}"
        elif counts and not isinstance(counts, tuple):
            yield quantity.shown, count(int(counts), "sample")


def _extra(report: Measurements) -> Iterator[tuple[str, str]]:
    """What stands in no table of sites; what a diagnostic declares is called by its label, with its unit."""
    for name, value in report.extra.items():
        declared = quantities().get(name)
        if declared is not None and (declared.per_site or declared.kind == "broken"):
            continue
        values = value if isinstance(value, tuple) else (value,)
        unit = declared.unit if declared is not None else ""
        shown = ", ".join(numbers.with_unit(written(v), unit) for v in values[:_MOST_VALUES])
        rest = f", … ({len(values):,} in all)" if len(values) > _MOST_VALUES else ""
        yield middle_out(declared.shown if declared is not None else name, NAME_LENGTH), shown + rest


def gaps_beside(report: Measurements) -> Facts:
    """What is missing of the quantities that explain others that were measured."""
    return [
        (quantity.shown, _why(report, quantity.why_missing))
        for one in known().values()
        if _measured(report, one)
        for quantity in one.quantities
        if quantity.explains and report.value_of(quantity.name) is None
    ]


def _measured(report: Measurements, one: type[Diagnostic]) -> bool:
    """Whether any number of a diagnostic is there that its other quantities would explain."""
    explained = [q for q in one.quantities if q.kind not in ("count", "broken") and not q.explains]
    return any(isinstance(report.value_of(q.name), float | tuple) for q in explained)


def _why(report: Measurements, field: str) -> str:
    return shortened(str(getattr(report, field)), NOTE_LENGTH) if field and getattr(report, field) else "not recorded"


def alignment_gaps(report: Measurements) -> Facts:
    """What is missing of Γ and of its null."""
    alignment = report.alignment
    if alignment is None:
        return [("alignment Γ", "no credit rule was given")]
    if alignment.unavailable:
        return [("alignment Γ", shortened(alignment.unavailable, NOTE_LENGTH))]
    if alignment.null is None:
        return [("null of Γ", shortened(alignment.no_null, NOTE_LENGTH) or "not recorded")]
    return []
