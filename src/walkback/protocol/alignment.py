"""Γ: how far the credit that a method hands out points along the true gradient, with its null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from walkback.errors import CreditError, MissingFeedback
from walkback.protocol import numerics
from walkback.protocol.capture import Capture
from walkback.protocol.credit import CreditFunction, CreditRule, FunctionRule, credits_for, fresh_draws
from walkback.protocol.identity import CreditFacts
from walkback.protocol.records import Alignment, NullAlignment
from walkback.protocol.sizes import NULL_DRAWS as NULL_DRAWS
from walkback.protocol.sizes import NULL_SEED


@dataclass
class AlignmentMeter:
    """Collects cos(a_l, g_l) batch by batch, under the trained feedback and under fresh draws of it."""

    rule: CreditRule
    draws: int = NULL_DRAWS
    cosines: list[Tensor] = field(default_factory=list)
    null_sums: list[Tensor] = field(default_factory=list)
    facts: CreditFacts = field(default_factory=CreditFacts)
    unavailable: str = ""

    def __post_init__(self) -> None:
        self._fresh: list[CreditRule] | None = None

    @classmethod
    def of(cls, credit: CreditRule | CreditFunction, draws: int = NULL_DRAWS) -> AlignmentMeter:
        """A meter for a method, or for a plain function of (hiddens, logits, targets)."""
        if draws < 0 or draws == 1:
            raise CreditError(f"null_draws is {draws}; expected 0 for no null, or 2 and more to have a spread.")
        if isinstance(credit, CreditRule):
            return cls(credit, draws)
        if callable(credit):
            return cls(FunctionRule(credit), draws)
        raise CreditError(
            f"credit is {type(credit).__name__}; expected a method with credits(trace), or a function of "
            "(hiddens, logits, targets) that returns one tensor per site."
        )

    def add(self, capture: Capture) -> None:
        """Measure one batch. Feedback that is not there makes Γ unavailable, never 1.0."""
        if self.unavailable:
            return
        # Copies: a site may lie in the caller's own batch, and a rule may write to what it is given.
        trace = capture.trace
        hiddens, targets = [h.clone() for h in trace.hiddens], trace.targets.clone()
        capture = replace(capture, trace=replace(trace, hiddens=hiddens, targets=targets))
        try:
            credits = credits_of(self.rule, capture)
        except MissingFeedback as missing:
            self.unavailable = str(missing)
            return
        self.cosines.append(_site_cosines(credits, capture))
        self.facts.add(credits, capture)
        if self._fresh is None:
            self._fresh = fresh_draws(self.rule, self.draws, NULL_SEED)
        if self._fresh:
            null = torch.stack([_site_cosines(credits_of(rule, capture), capture) for rule in self._fresh])
            self.null_sums.append(torch.stack([null.nansum(dim=2), (~null.isnan()).sum(dim=2).double()]))

    def state(self) -> dict[str, Any]:
        """What was collected so far, as another process can take it."""
        facts = {name: getattr(self.facts, name) for name in CreditFacts.__dataclass_fields__}
        return {
            "cosines": self.cosines,
            "null_sums": self.null_sums,
            "unavailable": self.unavailable,
            "facts": facts,
        }

    def replace(self, states: Sequence[dict[str, Any]]) -> None:
        """Take what several processes collected, in this one's place; their null is drawn alike."""
        self.cosines = [cosines for state in states for cosines in state["cosines"]]
        self.null_sums = [sums for state in states for sums in state["null_sums"]]
        self.unavailable = next((state["unavailable"] for state in states if state["unavailable"]), "")
        self.facts = CreditFacts.of_all([CreditFacts(**state["facts"]) for state in states])

    def measured(self) -> Alignment:
        """Γ per site with its deep mean, aggregation orders and null."""
        if self.unavailable or not self.cosines:
            return Alignment(unavailable=self.unavailable or "no batch was measured")
        cosines = torch.cat(self.cosines, dim=1)
        means, medians = cosines.nanmean(dim=1), cosines.nanquantile(0.5, dim=1)
        null = self._null(means)
        return Alignment(
            sites=means,
            site_medians=medians,
            deep=float(means[1:].mean()),
            orders=aggregation_orders(cosines),
            null=null,
            no_null="" if null else self._why_no_null(),
            neighbours=self.facts.neighbours(),
        )

    def _why_no_null(self) -> str:
        if self.draws == 0:
            return "no fresh draws were asked for"
        said = str(getattr(self.rule, "no_null", ""))
        return said or f"{type(self.rule).__name__} has no random feedback to draw again"

    def _null(self, means: Tensor) -> NullAlignment | None:
        if not self.null_sums:
            return None
        total, count = torch.stack(self.null_sums).sum(dim=0)
        draws = total / count  # (draws, sites)
        deep = draws[:, 1:].mean(dim=1)
        site_sds, deep_sd = draws.std(dim=0), float(deep.std())
        return NullAlignment(
            draws=len(draws),
            site_means=draws.mean(dim=0),
            site_sds=site_sds,
            site_z=(means - draws.mean(dim=0)) / site_sds,
            deep_mean=float(deep.mean()),
            deep_sd=deep_sd,
            deep_z=float((means[1:].mean() - deep.mean()) / deep_sd) if deep_sd else float("nan"),
        )


def credits_of(rule: CreditRule, capture: Capture) -> list[Tensor]:
    """The rule's credits as one vector per sample and site, checked against the sites."""
    return [capture.reduction.vectors(credit) for credit in credits_for(rule, capture.trace)]


def aggregation_orders(cosines: Tensor) -> dict[str, float]:
    """One number from (sites, samples) in the valid orders: mean or median over each, all sites or deep."""
    orders = {}
    for scope, chosen in (("all", cosines), ("deep", cosines[1:])):
        means, medians = chosen.nanmean(dim=1), chosen.nanquantile(0.5, dim=1)
        orders[f"{scope}: mean over sites of mean over samples"] = float(means.mean())
        orders[f"{scope}: mean over sites of median over samples"] = float(medians.mean())
        orders[f"{scope}: median over sites of mean over samples"] = float(numerics.median(means))
        orders[f"{scope}: median over sites of median over samples"] = float(numerics.median(medians))
    return orders


def _site_cosines(credits: Sequence[Tensor], capture: Capture) -> Tensor:
    pairs = zip(credits, capture.grad_vectors, strict=True)
    return torch.stack([numerics.cosines(credit, grad) for credit, grad in pairs])
