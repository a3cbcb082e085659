"""Update provenance: does the change of the weights come from the rule that is claimed for it?"""

from __future__ import annotations

from collections.abc import Sequence

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold, even_grid
from walkback.protocol.records import Measurements, Reading, UpdateProvenance
from walkback.protocol.wording import signed

AS_CLAIMED, BACKPROPAGATION, DRAWN_ANEW, OTHER = "as claimed", "backpropagation", "drawn anew", "something else"
SAME = 0.95
"""From this mean cosine over the layers before the head two changes are of one rule, noise aside."""
ANEW = 0.5
"""Under this mean cosine with itself under other random numbers, the change is drawn more than it is computed."""


class ProvenanceOfUpdates(Diagnostic):
    """The cosine of the real change of the weights with that of the claimed rule, layer by layer, over a few steps.

    The smallest of the layers before the head counts: the head follows the error at the logits under every rule. Where
    the change is drawn anew at each step, its cosine with itself under other random numbers counts instead.
    """

    letter = "u"
    title = "update provenance"
    question = "Does the change of the weights come from the rule that is claimed for it?"
    meaning = "the weights are changed by another rule than is claimed"
    subject = "which rule the updates come from"
    reason = "updates do not come from the claimed rule"
    remedy = "Hold the training code against the rule, or report the rule that it follows."
    thresholds = {  # noqa: RUF012
        "provenance_floor": Threshold(None, "<", "cosine with the claimed update", least=-1, most=1,
                                      sweep=even_grid(-0.5, 1.0, 0.05)),
    }  # fmt: skip
    quantities = (Quantity("updates", "provenance of the updates"),)
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where a layer's cosine is under the floor; reported where none is given."""
        make, updates = self.reading_maker(), measured.updates
        if updates is None:
            return make.not_measured("No steps of training were made again: walkback.provenance does that.")
        case = case_of(updates)
        value = _least(updates.repeated if case == DRAWN_ANEW else updates.claimed, updates)
        sentence = f"{SENTENCES[case]} {_listed(updates)}"
        if value is None:
            return make.reported(None, sentence).model_copy(update={"case": case})
        if make.threshold is None:
            told = make.reported(value, f"{sentence} No floor was given to judge it by.")
        else:
            told = make.judged(value, reason=self.reason, fired=f"{sentence} {self.remedy}", passed=sentence)
        return told.model_copy(update={"case": case})


SENTENCES = {
    AS_CLAIMED: "The weights change as the claimed rule changes them.",
    BACKPROPAGATION: "The weights change as backpropagation changes them, before the head too.",
    DRAWN_ANEW: (
        "The same step with other random numbers changes the weights otherwise: feedback is drawn anew at each step, "
        "or the change is noise."
    ),
    OTHER: "The weights change neither as the claimed rule nor as backpropagation changes them.",
}


def case_of(updates: UpdateProvenance) -> str:
    """Which of the four it is, by the mean cosines over the layers before the head."""
    repeated, claimed, true = (
        _mean(column, updates) for column in (updates.repeated, updates.claimed, updates.true_gradient)
    )
    if repeated is not None and repeated < ANEW:
        return DRAWN_ANEW
    if claimed is not None and claimed >= SAME:
        return AS_CLAIMED
    return BACKPROPAGATION if true is not None and true >= SAME else OTHER


def _hidden(column: Sequence[float | None] | None, updates: UpdateProvenance) -> list[float]:
    """Of the layers before the head; one that did not move at all has none."""
    pairs = zip(column or (), updates.hidden, strict=False)
    return [value for value, hidden in pairs if hidden and value is not None]


def _mean(column: Sequence[float | None] | None, updates: UpdateProvenance) -> float | None:
    known = _hidden(column, updates)
    return sum(known) / len(known) if known else None


def _least(column: Sequence[float | None] | None, updates: UpdateProvenance) -> float | None:
    return min(_hidden(column, updates), default=None)


def _listed(updates: UpdateProvenance) -> str:
    rows = {
        "claimed rule": updates.claimed, "backpropagation": updates.true_gradient,
        "itself under other random numbers": updates.repeated,
    }  # fmt: skip
    parts = [
        f"{name} {' '.join('–' if value is None else signed(value) for value in column)}"
        for name, column in rows.items()
        if column is not None
    ]
    through = "" if updates.optimizer else "; no optimizer was given, so they are compared with plain gradients"
    return f"Mean cosine over {updates.steps} steps with, for {', '.join(updates.layers)}: {'; '.join(parts)}{through}."
