"""(b) Gradient floor: how small is the BP gradient that alignment is measured against, and why?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic, ReadingMaker, without_reference
from walkback.protocol.diagnostics.broken_sites import first_broken, first_non_finite
from walkback.protocol.diagnostics.declare import Quantity, Scalar, Threshold, log_grid
from walkback.protocol.diagnostics.some_sites import deepest_norm, gradient_at_some
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.thresholds import RELIABLE_FIDELITY
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.capture import Capture

UNRELIABLE, CONFIDENT, SCALE, UNKNOWN = "unreliable", "confident", "scale", "unknown"


@dataclass(frozen=True)
class Part:
    """Per-sample figures of one or more batches."""

    grad_norms: Tensor
    scale_free: Tensor
    error_norms: Tensor
    broken: Tensor
    broken_logits: Tensor


class GradientFloor(Diagnostic):
    """The median ‖g_L‖ at the deepest site, for a loss averaged over 128 samples."""

    letter = "b"
    title = "gradient floor"
    question = "How small is the true gradient that alignment is measured against, and why?"
    meaning = "the true gradient is vanishingly small at the last block"
    subject = "the size of the true gradient"
    reason = "BP grad at numerical floor"
    remedy = (
        "Look at the size of ‖h‖: the gradient is small where that is large. If your own code computes alignments, "
        "check that it does not clamp small norms; walkback's does not."
    )
    case_remedies = {  # noqa: RUF012
        SCALE: "The gradient is small because ‖h‖ is large: bound ‖h‖. If your own code computes alignments, check "
        "that it does not clamp small norms; walkback's does not.",
        CONFIDENT: "Report the error size beside the verdict: the gradient is small because the network is confident.",
        UNRELIABLE: "Measure in higher precision: the gradient is numerical noise, and so is every Γ against it.",
    }
    thresholds = {  # noqa: RUF012
        "g_norm_floor": Threshold(
            1e-7, "<", "median ‖g_L‖", above=0, axis="log", sweep=log_grid(-12, -1), short="‖g_L‖",
            quantity="bp_grad_norms",
        ),
    }  # fmt: skip
    quantities = (
        Quantity("bp_grad_norms", "‖g‖", "norm", per_site=True, axis="log", traced=True,
                 interval="bp_grad_norm_intervals", tex=r"$\|g\|$", profiled=True, csv="g",
                 meaning="median norm of the gradient, loss averaged over 128", caption="the true gradient",
                 legend="Median over samples, log scale. (b) fires if the diamond lies in the hatched part."),
        Quantity("error_size", "error size", "norm", axis="log", traced=True, explains=True),
        Quantity("scale_free_gradients", "scale-free gradient", "norm", per_site=True, axis="log", traced=True,
                 heading="scale-free", meaning="‖h‖·‖∂ℓ/∂h‖ / ‖∂ℓ/∂logits‖", explains=True),
        Quantity("reference_fidelity", "reference fidelity", "cosine", per_site=True, traced=True, heading="fidelity",
                 meaning="cosine with the fp64 gradient", digits=4, explains=True, why_missing="no_fidelity", place=1),
        Quantity("reference_check", "reference gradient"),
        Quantity("nonfinite_grads", "non-finite g", "broken", per_site=True),
        Quantity("nonfinite_logits", "non-finite logits", "broken"),
    )  # fmt: skip
    scalars = (
        Scalar("gradient", "‖g_L‖", lambda measured: measured.bp_grad_norms[-1] if measured.bp_grad_norms else None,
               partly=lambda measured: deepest_norm(measured, "g"), axis="log", live=True,
               title="‖g_L‖, the true gradient", tex=r"$\|g_L\|$", threshold="g_norm_floor", gives_way=0),
    )  # fmt: skip
    curve = "gradient"
    value_title = "median ‖g‖ at the deepest site"
    from_some_sites = True

    @classmethod
    def meaning_of(cls, reading: Reading, measured: Measurements) -> str:
        """Of a log without the last site, it is said of the deepest one that there is."""
        if measured.bp_grad_norms is None and reading.site != measured.last_site:
            return cls.meaning.replace("the last block", "the deepest block that the log has")
        return cls.meaning

    @staticmethod
    def measure(capture: Capture) -> Part:
        """Gradient norms, scale-free gradients (sites, B); error norms and broken logits (B,)."""
        return Part(
            grad_norms=capture.grad_norms,
            scale_free=capture.hidden_norms * capture.grad_norms / capture.error_norms,
            error_norms=capture.error_norms,
            broken=capture.broken_grads,
            broken_logits=capture.broken_logits,
        )

    @staticmethod
    def merge(left: Part, right: Part) -> Part:
        """Samples side by side."""
        from torch import cat

        return Part(*(cat([getattr(left, f), getattr(right, f)], dim=-1) for f in Part.__dataclass_fields__))

    @staticmethod
    def summarise(part: Part) -> dict[str, Any]:
        """Median ‖g_l‖ per site in the 128-sample convention, and what it is made of."""
        from walkback.protocol import numerics
        from walkback.protocol.capture import REFERENCE_BATCH
        from walkback.protocol.uncertainty import medians_with_intervals

        medians, intervals = medians_with_intervals((part.grad_norms / REFERENCE_BATCH).cpu().numpy())
        # A sample without any error has no gradient, and 0/0 says nothing about the scale of the others.
        with_error = part.scale_free[:, part.error_norms != 0]
        return {
            "bp_grad_norms": medians,
            "bp_grad_norm_intervals": intervals,
            "error_size": numerics.median(part.error_norms),
            "scale_free_gradients": numerics.median(with_error) if with_error.shape[1] else None,
            "nonfinite_grads": part.broken.sum(dim=1),
            "nonfinite_logits": int(part.broken_logits.sum()),
        }

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the deepest median ‖g‖ is under the floor, with the case that explains it."""
        make = self.reading_maker()
        if measured.bp_grad_norms is None and (some := self._at_some_sites(measured, make)):
            return some
        norms = measured.bp_grad_norms
        if norms is None and measured.nonfinite_logits:
            return make.non_finite("the logits hold NaN or Inf")
        if norms is None:
            return make.not_measured(without_reference(measured, "The norms of the BP gradient were not measured."))
        deepest = len(norms) - 1
        if measured.nonfinite_logits:
            return make.non_finite("the logits hold NaN or Inf", value=norms[-1], site=deepest)
        broken = first_broken(measured.nonfinite_grads)
        site = broken if broken is not None else first_non_finite(norms)
        if site is not None:
            return make.non_finite(f"g_{site} holds NaN or Inf", value=norms[site], site=site)
        if measured.site_numbers is not None and measured.last_site not in (None, measured.site_numbers[-1]):
            return make.not_measured(
                f"(b) is read at the last site, {measured.last_site}, which was not among the measured ones."
            )
        case = why_small(measured, make.threshold or 0.0)
        intervals = measured.bp_grad_norm_intervals
        return make.judged(
            norms[-1],
            reason=self.reason,
            fired=explain_case(case, measured),
            passed="The BP gradient at the deepest site is far enough from zero to measure alignment against.",
            interval=intervals[-1] if intervals else None,
            site=deepest,
            case=case,
        )

    def _at_some_sites(self, measured: Measurements, make: ReadingMaker) -> Reading | None:
        """Read at the deepest site that was recorded, where not all of them were."""
        found = gradient_at_some(measured, make)
        if found is None or isinstance(found, Reading):
            return found
        norm, site, where = found
        alone = Measurements(bp_grad_norms=(norm,), error_size=measured.error_size)
        case = why_small(alone, make.threshold or 0.0)
        return make.judged(
            norm,
            reason=self.reason,
            fired=f"Read at {where}. {explain_case(case, alone)}",
            passed=f"Read at {where}: the BP gradient is above the floor there.",
            site=site,
            case=case,
        )


def why_small(measured: Measurements, floor: float) -> str:
    """Which factor makes the deepest gradient small: rounding, a tiny error, or the scale of the stream.

    The gradient per unit of error is ‖g_L‖ / ‖∂ℓ/∂logits‖. If that alone is above the floor, a network with
    an ordinary error would pass, and the error is what is small.
    """
    assert measured.bp_grad_norms is not None
    if measured.reference_fidelity is not None and not measured.reference_fidelity[-1] >= RELIABLE_FIDELITY:
        return UNRELIABLE  # NaN too
    if measured.error_size is None:
        return UNKNOWN
    if measured.error_size == 0:
        return CONFIDENT
    return CONFIDENT if measured.bp_grad_norms[-1] / measured.error_size >= floor else SCALE


def explain_case(case: str, measured: Measurements) -> str:
    """The sentence under a fired (b): why the gradient is small, and what follows for Γ."""
    fidelity = measured.reference_fidelity[-1] if measured.reference_fidelity else None
    sound = (
        f"its direction is numerically sound (fidelity to fp64 {written(fidelity, 4)}), "
        "so a Γ that does not clamp is right"
        if fidelity is not None
        else "whether its direction is numerically sound was not measured, so neither is whether Γ can be used"
    )
    if case == UNRELIABLE:
        return (
            f"The gradient is numerically unreliable: its cosine with the fp64 gradient is {written(fidelity)}. "
            "Γ against it is noise; measure in higher precision."
        )
    if case == CONFIDENT:
        return (
            f"The gradient is small because the network is confident: the median error at the logits is "
            f"{written(measured.error_size)}. That is a fitted network, not a broken one; {sound}."
        )
    if case == SCALE:
        return _by_scale(measured, sound)
    return f"The gradient is under the floor, and the error size that would say why was not measured; {sound}."


def _by_scale(measured: Measurements, sound: str) -> str:
    scale_free = measured.scale_free_gradients[-1] if measured.scale_free_gradients else None
    size = measured.residual_norms[-1] if measured.residual_norms else None
    detail = ""
    if size is not None and scale_free is not None:
        detail = f" (‖h_L‖ is {written(size)}, the scale-free gradient {written(scale_free)})"
    return (
        f"The gradient is small by scale{detail}: what comes after the last block divides by ‖h‖; {sound}. "
        "Code that clamps norms or underflows reports a wrong Γ here."
    )
