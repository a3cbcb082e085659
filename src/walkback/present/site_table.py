"""The figures at each site as one table: which columns there are, and which rows are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walkback.present.in_panel import label
from walkback.present.numbers import signed, written
from walkback.present.places import table_name, unnamed
from walkback.present.plain import one_line
from walkback.protocol.diagnostics.declare import Quantity
from walkback.protocol.diagnostics.known import over_sites
from walkback.protocol.records import DiagnosticReport

ENDS_SHOWN = 8
"""Sites kept at each end where there are too many to list."""
MOST_SHOWN = 24


@dataclass(frozen=True)
class Column:
    """One figure at every site; None where it was not measured."""

    quantity: Quantity
    values: tuple[float | None, ...]

    @property
    def heading(self) -> str:
        """What stands above it."""
        return one_line(self.quantity.headed)

    @property
    def meaning(self) -> str:
        """What it is, for those who ask."""
        return one_line(self.quantity.meaning)

    def cell(self, site: int) -> str:
        """The figure at a site, as it is written everywhere."""
        value = self.values[site]
        if self.quantity.digits:
            return written(value, self.quantity.digits)
        return signed(value) if self.quantity.signed else written(value)


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
        return f"{len(missing)} of {self.count} rows are left out here; the JSON record holds all" if missing else ""

    def name(self, site: int) -> str:
        """What the site is in the network."""
        return table_name(self.names[site]) if self.names else unnamed(site)

    def after_gap(self, site: int) -> bool:
        """Whether sites were left out just before this one."""
        at = self.shown.index(site)
        return at > 0 and self.shown[at - 1] != site - 1


def site_table(report: DiagnosticReport) -> SiteTable | None:
    """The table of a report, or None where nothing was measured per site."""
    series = [(quantity, values) for _, quantity in over_sites() if (values := quantity.read(report))]
    length = max((len(values) for _, values in series), default=len(report.sites or ()))
    if length == 0:
        return None
    columns = tuple(Column(quantity, padded(values, length)) for quantity, values in series)
    decides = [""] * length
    for reading in report.readings:
        if reading.site is not None and 0 <= reading.site < length:
            decides[reading.site] += label(report, reading.letter)
    names = report.sites if report.sites is not None and len(report.sites) == length else None
    return SiteTable(names, columns, tuple(decides), _shown(decides))


def alignment_table(report: DiagnosticReport) -> SiteTable | None:
    """Γ at each site with its median and its null, where either was measured."""
    alignment = report.alignment
    if alignment is None or not alignment.sites or not (alignment.null or alignment.site_medians):
        return None
    null = alignment.null
    series = [
        (_gamma("alignment", "Γ", r"$\Gamma$", "mean cosine of credit and gradient"), alignment.sites),
        (_gamma("median", "Γ median", r"$\Gamma$ median", "median over samples"), alignment.site_medians),
        (_gamma("null", "null mean", "null", "the same under fresh feedback"), null.site_means if null else None),
        (Quantity("null_sd", "null sd", meaning="over the draws"), null.site_sds if null else None),
        (_gamma("z", "z", "$z$", "(Γ − null mean) / null sd"), null.site_z if null else None),
    ]
    length = len(alignment.sites)
    columns = tuple(Column(quantity, padded(v, length)) for quantity, v in series if v)
    names = report.sites if report.sites is not None and len(report.sites) == length else None
    nothing = ("",) * length
    return SiteTable(names, columns, nothing, _shown(nothing))


def _gamma(name: str, heading: str, tex: str, meaning: str) -> Quantity:
    return Quantity(name, heading, "cosine", per_site=True, signed=True, tex=tex, meaning=meaning)


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
