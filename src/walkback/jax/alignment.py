"""Γ: how far a credit points along the true gradient, with its null, and what else the credit shows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from walkback.errors import CreditError, MissingFeedback
from walkback.jax.capture import Capture
from walkback.jax.credit import CreditFunction, credits_for, fresh_draws, require_credit, same_as
from walkback.jax.numbers import Array, Doubles, cosines, doubles, median, norms, vectors
from walkback.protocol.credit_words import CreditSeen
from walkback.protocol.records import Alignment, NullAlignment
from walkback.protocol.sizes import NULL_DRAWS


class AlignmentMeter:
    """Collects cos(a_l, g_l) batch by batch, under the trained feedback and under fresh draws of it."""

    def __init__(self, credit: Any, draws: int = NULL_DRAWS) -> None:
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 0 or draws == 1:
            raise CreditError(f"null_draws is {draws}; expected 0 for no null, or 2 and more to have a spread.")
        self.credit, self.draws = require_credit(credit), draws
        self.unavailable = ""
        self.cosines: list[Doubles] = []
        self.null_sums: list[Doubles] = []
        self.facts = Facts()
        self._fresh: list[CreditFunction] | None = None

    def add(self, seen: Capture) -> None:
        """Measure one batch. Feedback that is not there makes Γ unavailable, never 1.0."""
        if self.unavailable:
            return
        try:
            credits = _vectors(self.credit, seen)
        except MissingFeedback as missing:
            self.unavailable = str(missing)
            return
        found = _site_cosines(credits, seen)
        self.cosines.append(found)
        self.facts.add(credits, found)
        if self._fresh is None:
            self._fresh = fresh_draws(self.credit, self.draws)
        if self._fresh:
            null = np.stack([_site_cosines(_vectors(credit, seen), seen) for credit in self._fresh])
            self.null_sums.append(np.stack([np.nansum(null, axis=2), (~np.isnan(null)).sum(axis=2).astype(float)]))

    def measured(self) -> Alignment:
        """Γ per site with its deep mean, aggregation orders and null."""
        if self.unavailable or not self.cosines:
            return Alignment(unavailable=self.unavailable or "no batch was measured")
        found = np.concatenate(self.cosines, axis=1)
        means, null = _means(found), self._null(_means(found))
        return Alignment(
            sites=means,
            site_medians=_medians(found),
            deep=float(means[1:].mean()),
            orders=aggregation_orders(found),
            null=null,
            no_null="" if null else self._why_no_null(),
            neighbours=self.facts.neighbours(),
        )

    def _why_no_null(self) -> str:
        if self.draws == 0:
            return "no fresh draws were asked for"
        name = getattr(self.credit, "__name__", type(self.credit).__name__)
        return str(getattr(self.credit, "no_null", "")) or f"{name} has no redraw(key) that draws its feedback again"

    def _null(self, means: Doubles) -> NullAlignment | None:
        if not self.null_sums:
            return None
        total, count = np.sum(self.null_sums, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            draws = total / count  # (draws, sites)
            deep, sds = draws[:, 1:].mean(axis=1), draws.std(axis=0, ddof=1)
            deep_sd, site_z = float(deep.std(ddof=1)), (means - draws.mean(axis=0)) / sds
        return NullAlignment(
            draws=len(draws),
            site_means=draws.mean(axis=0),
            site_sds=sds,
            site_z=site_z,
            deep_mean=float(deep.mean()),
            deep_sd=deep_sd,
            deep_z=float((means[1:].mean() - deep.mean()) / deep_sd) if deep_sd else float("nan"),
        )

    def warnings(self, samples: int, checked: bool) -> list[str]:
        """What a reader should know about the credit."""
        independent = bool(getattr(self.credit, "independent_feedback", False))
        return self.facts.warnings(independent, samples, checked) if self.cosines else []


class Facts:
    """What the identity checks need, folded batch by batch into a few numbers per site."""

    def __init__(self) -> None:
        self.first: list[Array] = []
        self.zero: Any = True
        self.constant: Any = True
        self.non_finite: Any = False
        self.gaps: list[Doubles] = []
        self.between: list[Doubles] = []

    def add(self, credits: list[Array], found: Doubles) -> None:
        """Fold in one batch of credits, one vector per sample and site, and their cosines with the gradient."""
        self.first = self.first or [doubles(credit[:1]).copy() for credit in credits]
        self.gaps.append(1 - found)
        sizes = np.stack([norms(credit) for credit in credits])
        self.zero = self.zero & (sizes == 0).all(axis=1)
        self.non_finite = self.non_finite | (~np.isfinite(sizes)).any(axis=1)
        pairs = zip(credits, self.first, strict=True)
        self.constant = self.constant & np.array([same_as(a, first, norms(first)[0]) for a, first in pairs])
        if len({credit.shape[1] for credit in credits}) == 1:
            self.between.append(np.stack([cosines(a, b) for a, b in pairwise(credits)]))

    def neighbours(self) -> Doubles | None:
        """Mean cosine between the credits of neighbouring sites; None where their widths differ."""
        return _means(np.concatenate(self.between, axis=1)) if self.between else None

    def warnings(self, independent: bool, samples: int, checked: bool) -> list[str]:
        """In plain sentences."""
        neighbours = self.neighbours()
        seen = CreditSeen(
            non_finite=self.non_finite.tolist(),
            zero=self.zero.tolist(),
            constant=self.constant.tolist(),
            cosines=(1 - _means(np.concatenate(self.gaps, axis=1))).tolist(),
            neighbours=neighbours.tolist() if neighbours is not None else (),
            width=self.first[0].shape[1],
        )
        return seen.warnings(independent, samples, checked)


def aggregation_orders(found: Doubles) -> dict[str, float]:
    """One number from (sites, samples) in the valid orders: mean or median over each, all sites or deep."""
    orders = {}
    for scope, chosen in (("all", found), ("deep", found[1:])):
        means, medians = _means(chosen), _medians(chosen)
        orders[f"{scope}: mean over sites of mean over samples"] = float(means.mean())
        orders[f"{scope}: mean over sites of median over samples"] = float(medians.mean())
        orders[f"{scope}: median over sites of mean over samples"] = float(median(means))
        orders[f"{scope}: median over sites of median over samples"] = float(median(medians))
    return orders


def _vectors(credit: CreditFunction, seen: Capture) -> list[Array]:
    return [vectors(seen.reduction, each) for each in credits_for(credit, seen)]


def _site_cosines(credits: list[Array], seen: Capture) -> Doubles:
    return np.stack([cosines(credit, grad) for credit, grad in zip(credits, seen.grad_vectors, strict=True)])


def _means(found: Doubles) -> Doubles:
    """Over the samples whose cosine is known; NaN where there is none."""
    known = ~np.isnan(found)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Doubles = np.where(known, found, 0.0).sum(axis=1) / known.sum(axis=1)
    return means


def _medians(found: Doubles) -> Doubles:
    return np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in found])
