"""Update provenance: does the change of the weights come from the rule that is claimed for it?"""

from __future__ import annotations

from collections.abc import Sequence

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold, even_grid
from walkback.protocol.records import Measurements, Reading, UpdateProvenance
from walkback.protocol.wording import counted, signed

AS_CLAIMED, BACKPROPAGATION, DRAWN_ANEW, OTHER = "as claimed", "backpropagation", "drawn anew", "something else"
RANDOM, NOT_COMPARABLE, NO_CHANGE = "random otherwise", "not comparable", "no change"
SAME = 0.95
"""From this mean cosine over the layers before the head two changes are of one rule, noise aside. Under it in the head,
which follows the error under every rule, the two differ in something else than the rule."""
ANEW = 0.5
"""Under this mean cosine with itself under other random numbers, the change is drawn more than it is computed."""
REPEATS = 0.9
"""Under this cosine of the head's change with itself more is random than feedback, which does not reach the head."""


class ProvenanceOfUpdates(Diagnostic):
    """The cosine of the real change of the weights with that of the claimed rule, layer by layer, over a few steps.

    The smallest of the layers before the head counts: the head follows the error at the logits under every rule, and so
    tells whether the two can be compared at all. Where the change is drawn anew at each step, its cosine with itself
    under other random numbers counts instead.
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
        """FIRE where a layer's cosine is under the floor, UNDECIDED where it says nothing; reported without a floor."""
        make, updates = self.reading_maker(), measured.updates
        if updates is None:
            return make.not_measured("No steps of training were made again: walkback.provenance does that.")
        case = case_of(updates)
        value = _least(updates.repeated if case == DRAWN_ANEW else updates.claimed, updates)
        sentence = f"{_said(case, updates)} {_listed(updates)}"
        unknown = _unknown(case, updates) if value is None or not make.crosses(value) else ""
        if make.threshold is not None and (case in UNDECIDABLE or unknown):
            told = make.undecided(value, f"{sentence} {unknown}".strip())
        elif value is None:
            told = make.reported(None, sentence)
        elif make.threshold is None:
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
    RANDOM: (
        "The same step with other random numbers changes the weights otherwise, and not before the head alone, where "
        "feedback ends. More is random in the step, such as dropout, noise or augmentation, so whether the rule "
        "draws anew is not known. Make the steps again without it: dropout at 0, inputs as they are."
    ),
    NOT_COMPARABLE: (
        "The real change of the head differs from the claimed one too, and the head follows the error under every "
        "rule: the two steps differ in more than the rule, as by an optimizer, by clipping or by noise. Pass optimizer="
        " as it is at the checkpoint, or a claimed_step= that does all that train_step does but for the rule."
    ),
    NO_CHANGE: "No layer before the head has a change to compare.",
}
UNCLAIMED = "No rule was given to hold it against: pass credit= or claimed_step= to walkback.provenance."
UNDECIDABLE = (RANDOM, NOT_COMPARABLE, NO_CHANGE)


def case_of(updates: UpdateProvenance) -> str:
    """Which it is, by the mean cosines over the layers before the head, with the head as the control."""
    columns = (updates.repeated, updates.claimed, updates.true_gradient)
    repeated, claimed, true = (_mean(column, updates) for column in columns)
    if repeated is None and claimed is None and true is None:
        return NO_CHANGE
    if repeated is not None and repeated < ANEW:
        return DRAWN_ANEW if min(_head(updates.repeated, updates), default=0.0) >= REPEATS else RANDOM
    if _differs_in_more(updates):
        return NOT_COMPARABLE
    if claimed is not None and claimed >= SAME:
        return AS_CLAIMED
    return BACKPROPAGATION if true is not None and true >= SAME else OTHER


def _differs_in_more(updates: UpdateProvenance) -> bool:
    """Whether the claimed steps differ from the real ones in more than the rule; never where every layer agrees."""
    known = _hidden(updates.claimed, updates)
    if not known or min(known) >= SAME:
        return False
    another = updates.claim == "credit" and bool(updates.other_optimizer)
    return another or min(_head(updates.claimed, updates), default=1.0) < SAME


def _unknown(case: str, updates: UpdateProvenance) -> str:
    """What is missing for a pass: a claim, or of an older record whether layers without a cosine were left out."""
    if updates.claim == "none" and case != DRAWN_ANEW:
        return UNCLAIMED
    pairs = zip(updates.claimed or (), updates.hidden, updates.layers, strict=False)
    without = [layer for value, hidden, layer in pairs if hidden and value is None]
    if updates.still is not None or not without or case == DRAWN_ANEW:
        return ""
    return f"Whether the steps left out {', '.join(without)} is not on record: make them again."


def _said(case: str, updates: UpdateProvenance) -> str:
    """What the case means, with what the steps lacked."""
    parts = []
    for number, did in ((updates.empty_steps, "changed no weight"), (updates.broken_steps, "made NaN or Inf")):
        if number:
            parts.append(f"{number} of {counted(updates.steps, 'step')} {did} and cannot be compared.")
    if case == NOT_COMPARABLE and updates.claim == "credit" and updates.other_optimizer:
        parts.append(f"The steps were made with {updates.other_optimizer}, which optimizer= did not give.")
    pairs = zip(updates.still or (), updates.layers, strict=False)
    if still := [layer for stands, layer in pairs if stands]:
        parts.append(f"The steps left {', '.join(still)} as {'they were' if still[1:] else 'it was'}.")
    return " ".join([SENTENCES[case], *parts])


def _hidden(column: Sequence[float | None] | None, updates: UpdateProvenance) -> list[float]:
    """Of the layers before the head; one that nothing moves has none."""
    return _of(column, updates, True)


def _head(column: Sequence[float | None] | None, updates: UpdateProvenance) -> list[float]:
    """Of what lies behind the blocks."""
    return _of(column, updates, False)


def _of(column: Sequence[float | None] | None, updates: UpdateProvenance, before: bool) -> list[float]:
    pairs = zip(column or (), updates.hidden, strict=False)
    return [value for value, hidden in pairs if hidden is before and value is not None]


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
