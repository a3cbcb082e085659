"""The figures at each site as one table: which columns there are, and which rows are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walkback.present.numbers import FIDELITY_DIGITS, figure, signed
from walkback.present.plain import one_line
from walkback.protocol.records import DiagnosticReport, Measurements

ENDS_SHOWN = 8
"""Sites kept at each end where there are too many to list."""
MOST_SHOWN = 24


@dataclass(frozen=True)
class Column:
    """One figure at every site; None where it was not measured."""

    key: str
    heading: str
    meaning: str
    values: tuple[float | None, ...]

    def cell(self, site: int) -> str:
        """The figure at a site, as it is written everywhere."""
        value = self.values[site]
        if self.key == "fidelity":
            return figure(value, FIDELITY_DIGITS)
        return signed(value) if self.key in _SIGNED else figure(value)


_SIGNED = {"alignment", "median", "null", "z"}


@dataclass(frozen=True)
class SiteTable:
    """All columns over all sites, and the sites that a short rendering shows."""

    names: tuple[str, ...] | None
    columns: tuple[Column, ...]
    decides: tuple[str, ...]
    """The letters of the diagnostics that each site decides."""
    shown: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of sites."""
        return len(self.decides)

    @property
    def left_out(self) -> str:
        """What a short rendering says of the sites that it leaves out; empty if it shows all."""
        missing = sorted(set(range(self.count)) - set(self.shown))
        return f"sites {runs(missing)} are left out here; the JSON record holds all {self.count}" if missing else ""

    def name(self, site: int) -> str:
        """What the site is in the network."""
        return one_line(self.names[site]) if self.names else f"h_{site}"

    def column(self, key: str) -> Column | None:
        """One column, if it was measured."""
        return next((c for c in self.columns if c.key == key), None)

    def after_gap(self, site: int) -> bool:
        """Whether sites were left out just before this one."""
        at = self.shown.index(site)
        return at > 0 and self.shown[at - 1] != site - 1


def site_table(report: DiagnosticReport) -> SiteTable | None:
    """The table of a report, or None where nothing was measured per site."""
    series = _series(report)
    length = max((len(values) for _, _, _, values in series), default=len(report.sites or ()))
    if length == 0:
        return None
    columns = tuple(Column(key, head, meaning, padded(v, length)) for key, head, meaning, v in series)
    decides = [""] * length
    for reading in report.readings:
        if reading.site is not None and 0 <= reading.site < length:
            decides[reading.site] += f"({one_line(reading.letter)})"
    names = report.sites if report.sites is not None and len(report.sites) == length else None
    return SiteTable(names, columns, tuple(decides), _shown(decides))


def alignment_table(report: DiagnosticReport) -> SiteTable | None:
    """Γ at each site with its median and its null, where either was measured."""
    alignment = report.alignment
    if alignment is None or not alignment.sites or not (alignment.null or alignment.site_medians):
        return None
    null = alignment.null
    series = [
        ("alignment", "Γ", "mean cosine of credit and gradient", alignment.sites),
        ("median", "Γ median", "median over samples", alignment.site_medians),
        ("null", "null mean", "the same under fresh feedback", null.site_means if null else None),
        ("null_sd", "null sd", "over the draws", null.site_sds if null else None),
        ("z", "z", "(Γ − null mean) / null sd", null.site_z if null else None),
    ]
    length = len(alignment.sites)
    columns = tuple(Column(key, head, why, padded(v, length)) for key, head, why, v in series if v)
    names = report.sites if report.sites is not None and len(report.sites) == length else None
    nothing = ("",) * length
    return SiteTable(names, columns, nothing, _shown(nothing))


def _series(report: Measurements) -> list[tuple[str, str, str, Sequence[float | None]]]:
    growths = report.block_growths
    aligned = report.alignment.sites if report.alignment else None
    series: list[tuple[str, str, str, Sequence[float | None] | None]] = [
        ("norm", "‖h‖", "median norm of the residual stream", report.residual_norms),
        ("growth", "growth", "of the block that writes the site", (None, *growths) if growths else None),
        ("gradient", "‖g‖", "median norm of the gradient, loss averaged over 128", report.bp_grad_norms),
        ("scale_free", "scale-free", "‖h‖·‖∂ℓ/∂h‖ / ‖∂ℓ/∂logits‖", report.scale_free_gradients),
        ("stability", "(c)", "cosine between group-mean gradients", _stabilities(report)),
        ("drift", "ρ", "drift share", report.drift_shares),
        ("fidelity", "fidelity", "cosine with the fp64 gradient", report.reference_fidelity),
        ("alignment", "Γ", "mean cosine of credit and gradient", aligned),
    ]
    return [(key, head, meaning, values) for key, head, meaning, values in series if values]


def _stabilities(report: Measurements) -> Sequence[float | None] | None:
    if report.site_stabilities is not None:
        return report.site_stabilities
    if report.cross_batch_stability is None or report.stability_layer is None:
        return None
    return (*[None] * report.stability_layer, report.cross_batch_stability)


def padded(values: Sequence[float | None], length: int) -> tuple[float | None, ...]:
    """The series cut or filled up to one value per site."""
    return (*values[:length], *[None] * (length - len(values)))


def _shown(decides: Sequence[str]) -> tuple[int, ...]:
    """Every site, or both ends and whatever decides a reading with its neighbours."""
    length = len(decides)
    if length <= MOST_SHOWN:
        return tuple(range(length))
    near = {s for site, letters in enumerate(decides) if letters for s in (site - 1, site, site + 1)}
    ends = {*range(ENDS_SHOWN), *range(length - ENDS_SHOWN, length)}
    return tuple(s for s in range(length) if s in near | ends)


def runs(sites: Sequence[int]) -> str:
    """Site numbers with neighbours joined: `0, 3–7`."""
    spans: list[list[int]] = []
    for site in sites:
        if spans and site == spans[-1][-1] + 1:
            spans[-1][1:] = [site]
        else:
            spans.append([site])
    return ", ".join("–".join(map(str, span)) for span in spans)


def cells(table: SiteTable, site: int) -> list[str]:
    """The written figures of one site, in the order of the columns."""
    return [column.cell(site) for column in table.columns]
