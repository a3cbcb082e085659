"""Error-free floor: how large is the true gradient for each unit of error at the logits?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic, without_reference
from walkback.protocol.diagnostics.declare import Quantity, Threshold, log_grid
from walkback.protocol.records import Interval, Measurements, Reading
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.capture import Capture


class ErrorFreeFloor(Diagnostic):
    """The median over samples of ‖∂ℓ/∂h_L‖ / ‖∂ℓ/∂logits‖, in the convention of (b): divided by 128.

    A network that has learnt its samples has small errors, and so small gradients: (b) fires on it. Divided by the
    error, what is left is how the head passes an error back, which confidence does not change.
    """

    letter = "s"
    title = "error-free floor"
    question = "How large is the true gradient for each unit of error?"
    meaning = "the head passes next to nothing of an error back"
    subject = "the size of the true gradient for its error"
    reason = "BP grad at numerical floor for its error"
    remedy = "Look at the size of the stream, which divides the gradient; do not read Γ from code that clamps norms."
    thresholds = {  # noqa: RUF012
        "error_free_floor": Threshold(
            None, "<", "median ‖g_L‖ per unit of error", above=0, axis="log", sweep=log_grid(-12, -1),
        ),
    }  # fmt: skip
    quantities = (
        Quantity("gradient_per_error", "‖g_L‖ per error", "norm", axis="log", interval="gradient_per_error_interval"),
    )
    listed = "never"

    @staticmethod
    def measure(capture: Capture) -> Tensor:
        """‖∂ℓ/∂h_L‖ and ‖∂ℓ/∂logits‖ side by side, (B, 2)."""
        from torch import stack

        return stack([capture.grad_norms[-1], capture.error_norms], dim=1)

    @staticmethod
    def summarise(part: Tensor) -> dict[str, Any]:
        """The median ratio with its interval; of samples that have an error."""
        from walkback.protocol.capture import REFERENCE_BATCH
        from walkback.protocol.uncertainty import medians_with_intervals

        some = part[part[:, 1] != 0].cpu().numpy()
        if not len(some):
            return {}
        medians, intervals = medians_with_intervals((some[:, 0] / some[:, 1] / REFERENCE_BATCH)[None])
        return {"gradient_per_error": medians[0], "gradient_per_error_interval": intervals[0] if intervals else None}

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where it is under the floor; reported where none is given."""
        make, numbers = self.reading_maker(), measured.site_numbers
        if numbers is not None and measured.last_site not in (None, numbers[-1]):
            return make.not_measured(f"It is read at the last site, {measured.last_site}, which was left out.")
        value, interval = _value(measured)
        if value is None:
            return make.not_measured(without_reference(measured, "Gradient and error were not both measured."))
        if value - value != 0:
            return make.non_finite("the gradient for each unit of error is not finite", value=value)
        words = f"At the last site the gradient is {written(value)} for each unit of error at the logits."
        if make.threshold is None:
            told = make.reported(value, f"{words} No floor was given to judge it by.")
            return told.model_copy(update={"interval": interval})
        return make.judged(value, reason=self.reason, fired=f"{words} {self.remedy}", passed=words, interval=interval)


def _value(measured: Measurements) -> tuple[float | None, Interval | None]:
    """Sample by sample where that was measured; of older records, the ratio of both medians."""
    if measured.gradient_per_error is not None:
        return measured.gradient_per_error, measured.gradient_per_error_interval
    norms, error = measured.bp_grad_norms, measured.error_size
    return (norms[-1] / error, None) if norms and error else (None, None)
