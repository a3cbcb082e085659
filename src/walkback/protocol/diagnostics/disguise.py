"""Disguise: is what is called by another name backpropagation?"""

from __future__ import annotations

from walkback.protocol.claimed_rule import is_backpropagation
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold, even_grid
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import signed


class Disguise(Diagnostic):
    """The smallest cosine, over the layers before the head, of the real change of the weights with that by
    backpropagation, through the same optimizer. Of a rule that is not called backpropagation it should not be near 1.
    """

    letter = "di"
    title = "disguise"
    question = "Is a rule that is called otherwise backpropagation?"
    meaning = "the weights change as backpropagation changes them, and another rule is claimed"
    subject = "whether the claimed rule is backpropagation under another name"
    reason = "backpropagation under another name"
    remedy = "Say how the rule differs from backpropagation, and hold the training code against that."
    thresholds = {  # noqa: RUF012
        "disguise_ceiling": Threshold(
            None, ">", "cosine with the update by backpropagation", least=-1, most=1, sweep=even_grid(-0.5, 1.0, 0.05),
        ),
    }  # fmt: skip
    quantities = (Quantity("claimed_rule", "claimed rule"),)
    needs_gradient = False
    listed = "never"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the cosine is above the ceiling; reported where none is given."""
        make, updates = self.reading_maker(), measured.updates
        if not measured.claimed_rule:
            return make.not_measured("Which rule is claimed is not known: pass claimed_rule=, such as 'DFA'.")
        if is_backpropagation(measured.claimed_rule):
            return make.not_measured("Backpropagation is claimed, so it is under no other name.")
        if updates is None:
            return make.not_measured("No steps of training were made again: walkback.provenance does that.")
        pairs = zip(updates.true_gradient, updates.hidden, strict=True)
        known = [cosine for cosine, hidden in pairs if hidden and cosine is not None]
        if not known:
            return make.not_measured("No layer before the head moved.")
        least = min(known)
        each = " ".join(signed(cosine) for cosine in known)
        words = f"Mean cosine with the update by backpropagation, of the layers before the head: {each}."
        if updates.other_optimizer and not make.crosses(least):
            tell = make.reported if make.threshold is None else make.undecided
            unlike = f"The steps were made with {updates.other_optimizer}, and this is of plain gradients"
            return tell(least, f"{words} {unlike}: pass optimizer= to walkback.provenance.")
        if make.threshold is None:
            return make.reported(least, f"{words} No ceiling was given to judge it by.")
        return make.judged(least, reason=self.reason, fired=f"{words} {self.remedy}", passed=words)
