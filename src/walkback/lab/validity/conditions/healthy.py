"""Healthy: trained by a rule that works, on a task that it learns, and reported as it is."""

from __future__ import annotations

from walkback.lab.validity.conditions.base import Condition, Evidence, Made, learnt, movements


class Healthy(Condition):
    """Nothing is wrong with it."""

    name = "healthy"
    family = "healthy"
    title = "Nothing is wrong: a rule that works, a task that was learnt, the accuracy as it is."
    made = "Trained as its configuration says."

    def check(self, made: Made) -> Evidence:
        """It learnt its task, and every block moved."""
        reached, share = learnt(made)
        least = min(movements(made))
        values = {"share_of_the_way": share, "least_movement": least}
        words = f"it went {share:.2f} of the way from chance to no error, and its stillest block moved by {least:.2g}"
        return Evidence(reached and least > 1e-3, values, words)


CONDITION = Healthy()
