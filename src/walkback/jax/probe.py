"""The monitor's own measurement: a few held batches, again and again, with the parameters of the moment.

That the gradient is the network's is checked once; the pass in fp64 is made where (b) fires, when its answer matters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from walkback.errors import InputError
from walkback.jax.batches import read_batches
from walkback.jax.functional import FunctionalMeter
from walkback.jax.initial import check_initial
from walkback.jax.measuring import check_params, session_of
from walkback.jax.network import Stage
from walkback.jax.session import Session, fidelity_fields
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.functional_tests import FunctionalTests

ONCE = ("readouts", "initial", "channels_first", "null_draws")
"""What is measured once, by `walkback.jax.diagnose`, and not at every moment."""


class Probe:
    """Held batches and one network; `measure` as often as wanted."""

    def __init__(
        self,
        apply: Stage,
        params: Any,
        blocks: Any,
        batches: Iterable[Any],
        max_batches: int,
        functional: int | None,
        measuring: dict[str, Any],
    ) -> None:
        once = next((name for name in ONCE if name in measuring), None)
        if once is not None:
            raise InputError(f"{once}= is measured once, by walkback.jax.diagnose; a monitor does without it.")
        if functional is not None:  # refused before anything is measured
            session_of(apply, params, blocks, functional=functional, **measuring)
        self.apply, self.blocks, self.functional, self.measuring = apply, blocks, functional, measuring
        self.batches = list(read_batches(batches, max_batches))
        first = self._session(params)
        first.measure(self.batches[:1])  # compiles what is measured, before training is timed
        self.params, self.network, self.found = params, first.network, first.found
        self.remarks, self.provenance = first.warnings(), first.provenance()

    def _session(self, params: Any) -> Session:
        # No null: it takes as many draws as there are, at every moment.
        return session_of(self.apply, params, self.blocks, null_draws=0, **self.measuring)

    def measure(
        self, params: Any, floor: float = DiagnosticThresholds().g_norm_floor, tests: FunctionalTests | None = None
    ) -> Measurements:
        """Every diagnostic's numbers on the held batches.

        The fidelity to fp64 is measured where the deepest gradient is under `floor`; the functional tests are made
        where they were asked for, and `tests` has the time for them.
        """
        check_params(params)
        check_initial(params, self.params, "params of this step")
        session = self._session(params)
        session.found = found = self.found
        assert found is not None
        fields = session.measure(self.batches)
        first = self.batches[0]
        if self.functional is not None:
            fields |= (tests or FunctionalTests()).fields(lambda: self._tested(params))
        norms = fields.get("bp_grad_norms")
        if norms is not None and not norms[-1] >= floor:
            reduction = session.reduction or TokenReduction.FLATTEN
            fields |= fidelity_fields(found.capture(params, first, reduction), found.exact_on(params, first))
        return Measurements(**fields)

    def _tested(self, params: Any) -> dict[str, Any]:
        """ρ and nudge on the first samples, whether or not there is a gradient to compare with."""
        assert self.functional is not None
        assert self.found is not None
        tester = FunctionalMeter(self.measuring.get("credit"), self.functional)
        seen = self.found.capture(params, self.batches[0], TokenReduction.FLATTEN)
        tester.keep(self.batches[0], seen)
        return tester.fields(self.found.own, params)
