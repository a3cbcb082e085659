"""Does a credit tell how the loss moves? Perturbation ρ and nudge on the first samples, with the network in fp64.

    perturbation   ρ_l = corr(⟨a_l, εv⟩, ℓ(h_l + εv) − ℓ(h_l)) over samples × random unit directions v, pooled
    nudge          mean over samples of ℓ(h_l − η a_l) − ℓ(h_l)

The definitions, rates and steps are those of `protocol/functional_figures.py`, which makes the numbers of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from walkback.errors import InputError, MissingFeedback, WalkbackError
from walkback.jax.batches import Batch
from walkback.jax.capture import Capture
from walkback.jax.credit import credits_for, require_credit
from walkback.jax.doubled import Doubled
from walkback.jax.losses import cross_entropies, loss_values, require_classes
from walkback.jax.numbers import Doubles, doubles, median, norms, rows
from walkback.jax.precision import x64
from walkback.jax.program import Program
from walkback.jax.reference_failure import DRAWS, in_short
from walkback.protocol.functional_fields import functional_fields
from walkback.protocol.functional_figures import DIRECTIONS, EPSILON, RATES, ROUNDING_DRAWS, SEED, Responses

LAST_DIGIT = float(np.finfo(np.float64).eps)


def unit_directions(site: int, samples: int, shape: tuple[int, ...], count: int = DIRECTIONS) -> Doubles:
    """Directions uniform on the unit sphere of a site, some for each sample: (samples, count, *shape).

    A generator for each site, so that no number depends on which sites were measured.
    """
    drawn = np.random.default_rng(SEED + site).normal(size=(samples, count, *shape))
    lengths = np.linalg.norm(drawn.reshape(samples, count, -1), axis=2)
    found: Doubles = drawn / lengths.reshape(samples, count, *[1] * len(shape))
    return found


class FunctionalMeter:
    """Keeps the first samples of the first batch with their credit, and tests it in the end."""

    def __init__(self, credit: Any, samples: int) -> None:
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise InputError(
                f"functional is {samples!r}; expected on how many samples to test the credit, such as 64, or None."
            )
        self.credit, self.samples = require_credit(credit), samples
        self.kept: tuple[Batch, list[Doubles], list[Doubles]] | None = None
        self.unavailable = ""

    def keep(self, batch: Batch, seen: Capture) -> None:
        """Take the first samples, and ask for their credit in the batch that they came in."""
        if self.kept is not None or self.unavailable:
            return
        some = batch.first(min(self.samples, batch.size))
        try:
            credits = credits_for(self.credit, seen)
        except MissingFeedback as missing:
            self.unavailable = str(missing)
            return
        hiddens = [doubles(hidden[: some.size]).copy() for hidden in seen.hiddens]
        self.kept = some, hiddens, [doubles(credit[: some.size]).copy() for credit in credits]

    def fields(self, program: Program, params: Any) -> dict[str, Any]:
        """ρ and nudge at every site with their intervals, as fields of `Measurements`; or why there are none."""
        if self.kept is None:
            return {"no_functional": self.unavailable or "no batch was measured"}
        batch, hiddens, credits = self.kept
        doubled = Doubled.of(program, params, batch)
        try:
            doubled.require_exact()
            if doubled.draws_anew:
                return {"no_functional": DRAWS, "functional_samples": batch.size}
            sites = [respond(doubled, site, *pair) for site, pair in enumerate(zip(hiddens, credits, strict=True))]
        except WalkbackError as error:
            return {"no_functional": f"no fp64 pass: {in_short(error)}", "functional_samples": batch.size}
        broken = next((f"site {site}: {why}" for site, seen in enumerate(sites) if (why := seen.why_not())), "")
        found = {"no_functional": broken} if broken else functional_fields(sites)
        return found | {"functional_samples": batch.size}


@dataclass(frozen=True)
class _Moves:
    """The moves of one site's samples, each (B, K, …), and what credit says of each direction."""

    stepped: Doubles
    nudged: Doubles
    jittered: Doubles
    predicted: Doubles

    @classmethod
    def of(cls, hidden: Doubles, credit: Doubles, drawn: Doubles, epsilons: tuple[float, float]) -> _Moves:
        both = np.stack([credit, unit_rms(credit)], axis=1)
        flat = both.reshape(len(both), 2, -1), drawn.reshape(*drawn.shape[:2], -1)
        return cls(
            np.concatenate([epsilon * drawn for epsilon in epsilons], axis=1),
            np.concatenate([-rate * both for rate in RATES], axis=1),
            LAST_DIGIT * np.sign(drawn[:, :ROUNDING_DRAWS]) * hidden[:, None],
            flat[0] @ flat[1].swapaxes(1, 2),
        )


def respond(doubled: Doubled, site: int, hidden: Doubles, credit: Doubles) -> Responses:
    """How the loss of every sample answers the moves of both tests at a site."""
    samples = len(hidden)
    hidden_norms, credit_norms = (norms(each.reshape(samples, -1)) for each in (hidden, credit))
    epsilons = (EPSILON, EPSILON * float(median(hidden_norms)))
    drawn = unit_directions(site, samples, hidden.shape[1:])
    moves = _Moves.of(hidden, credit, drawn, epsilons)
    every = np.concatenate([moves.stepped, moves.nudged, moves.jittered], axis=1)
    states = [hidden, *(hidden + every[:, number] for number in range(every.shape[1]))]
    losses = np.stack([_losses(doubled, logits) for logits in doubled.logits_of_each(site, states)], axis=1)
    with np.errstate(invalid="ignore"):
        changes = losses[:, 1:] - losses[:, :1]
    ends = np.cumsum([moves.stepped.shape[1], moves.nudged.shape[1]])
    stepped, nudged, jittered = np.split(changes, ends, axis=1)
    return Responses(
        epsilons,
        hidden_norms,
        credit_norms,
        moves.predicted,
        stepped.reshape(samples, len(epsilons), -1),
        nudged.reshape(samples, len(RATES), -1),
        np.maximum(np.abs(jittered).max(axis=1), LAST_DIGIT * np.abs(losses[:, 0])),
    )


def unit_rms(credit: Doubles) -> Doubles:
    """a / RMS(a) of each sample, over all its entries; a credit of zero stays zero. (B, …) → (B, …)."""
    flat = credit.reshape(len(credit), -1)
    rms = norms(flat) / flat.shape[1] ** 0.5
    found: Doubles = credit / rows(np.where(rms == 0, 1.0, rms), credit)
    return found


def _losses(doubled: Doubled, logits: Doubles) -> Doubles:
    targets, loss = doubled.batch.targets, doubled.program.loss
    if loss is None:
        return cross_entropies(logits, require_classes(targets, logits.shape))
    with x64():
        return doubles(loss_values(loss, jnp.asarray(logits), jnp.asarray(targets)))
