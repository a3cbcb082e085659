"""Training-loss decrease: did the network learn its training data at all?"""

from __future__ import annotations

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Scalar
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written


class LossDecrease(Diagnostic):
    """The mean training loss of epoch 1 minus that of the last epoch. It is reported.

    It needs no gradient and no credit: a trace that holds the training loss of its epochs is enough. It is of one run,
    and has no interval.
    """

    letter = "l"
    title = "training-loss decrease"
    question = "By how much did the training loss fall from the first epoch to the last?"
    meaning = "the training loss does not fall"
    subject = "whether the training loss falls"
    quantities = (Quantity("training_loss", "training loss"),)
    scalars = (
        Scalar("training_loss_decrease", "loss fell", lambda measured: _decrease(measured), signed=True,
               larger="better",
               title="training-loss decrease", tag="training_loss_decrease", least_span=0, gives_way=3),
    )  # fmt: skip
    signed = True
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """The decrease, with both losses."""
        make, loss = self.reading_maker(), measured.training_loss
        if loss is None:
            return make.not_measured("The training loss of the first epoch and of a later one is not known.")
        epochs = f"{written(loss.first)} in epoch {loss.first_epoch} to {written(loss.last)} in epoch {loss.last_epoch}"
        moved = "fell" if loss.decrease > 0 else "did not fall, but rose" if loss.decrease < 0 else "did not fall:"
        by = f"by {written(abs(loss.decrease))} ({epochs})" if loss.decrease else epochs
        return make.reported(loss.decrease, f"The mean training loss {moved} {by}.")


def _decrease(measured: Measurements) -> float | None:
    return None if measured.training_loss is None else measured.training_loss.decrease
