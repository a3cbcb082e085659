"""Reference doubt: is there a true gradient that everything else can be held against?"""

from __future__ import annotations

from walkback.protocol.claimed_rule import is_backpropagation
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Threshold, even_grid
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written


class ReferenceDoubt(Diagnostic):
    """1 − the smallest fidelity over sites; 1 where the gradient did not pass its check.

    Code for feedback alignment often has a backward pass of its own, and is seen through: that is no fault of its
    network. Where backpropagation is claimed and a backward pass had to be seen through, 1 − the smallest cosine of the
    real updates with those by the true gradient counts too, where steps were made again.
    """

    letter = "rd"
    title = "reference doubt"
    question = "Is there a true gradient to hold everything against?"
    meaning = "the backward pass does not give the gradient of the network"
    subject = "whether the reference gradient is right"
    reason = "backward pass is not the gradient"
    remedy = "Measure in higher precision; take custom backward passes and hooks out, or claim the rule that they make."
    thresholds = {  # noqa: RUF012
        "reference_doubt_ceiling": Threshold(
            None, ">", "1 − fidelity to the fp64 gradient", least=0, most=2, sweep=even_grid(0, 1, 0.02),
        ),
    }  # fmt: skip
    listed = "never"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the doubt is too large; reported where no ceiling is given."""
        make = self.reading_maker()
        fidelity = min(measured.reference_fidelity) if measured.reference_fidelity else None
        if fidelity is not None and fidelity - fidelity != 0:
            return make.non_finite("the fidelity of the gradient is not a number", value=fidelity)
        doubt = _doubt(measured, fidelity)
        if doubt is None:
            return make.not_measured("The gradient was neither checked nor compared with fp64.")
        value, words = doubt
        if make.threshold is None:
            return make.reported(value, f"{words} No ceiling was given to judge it by.")
        return make.judged(value, reason=self.reason, fired=f"{words} {self.remedy}", passed=words)


def _doubt(measured: Measurements, fidelity: float | None) -> tuple[float, str] | None:
    """The largest of what speaks against the gradient, in words; None where nothing is known of it."""
    check = measured.reference_check
    if check is not None and check.passed is False:
        return 1.0, f"No true gradient was found. {check.reason}".strip()
    found: list[tuple[float, str]] = []
    if fidelity is not None:
        found.append((max(0.0, 1 - fidelity), f"The smallest cosine with the fp64 gradient is {written(fidelity, 4)}."))
    if check is not None and check.passed:
        found.append((0.0, "The gradient is that of the network, by finite differences of the loss."))
    if (bent := _bent(measured)) is not None:
        found.append(bent)
    return max(found, key=lambda each: each[0], default=None)


def _bent(measured: Measurements) -> tuple[float, str] | None:
    """How far updates by a backward pass of the network's own are from backpropagation, where that is claimed."""
    check, updates = measured.reference_check, measured.updates
    if check is None or not check.seen_through or updates is None or not is_backpropagation(measured.claimed_rule):
        return None
    pairs = zip(updates.true_gradient, updates.hidden, strict=True)
    known = [cosine for cosine, hidden in pairs if hidden and cosine is not None]
    if not known:
        return None
    named = ", ".join(check.seen_through[:3])
    return 1 - min(known), (
        f"Backpropagation is claimed, and the network has a backward pass of its own ({named}): the smallest cosine of "
        f"its updates with those by the true gradient is {written(min(known))}."
    )
