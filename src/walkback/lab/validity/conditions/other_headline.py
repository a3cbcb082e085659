"""The headline of another network."""

from __future__ import annotations

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.conditions.healthy import CONDITION as HEALTHY
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.training import correct, started, train


class OtherHeadline(Condition):
    """The checkpoint that is handed in is not the one that the accuracy was counted on."""

    name = "other_headline"
    family = "reporting"
    title = "The headline accuracy is that of another, better network."
    made = "The network handed in was trained for a share of the epochs; the headline is of one trained to the end."
    dial_is = "share of the epochs that the network handed in was trained for"
    dials = (0.05, 0.1, 0.2)
    found_by = ("headline_check",)
    unseen = "Where the other network is hardly better, no batch of test samples shows it."

    def epochs(self, config: NetworkConfig) -> int:
        """Too few."""
        return max(1, round(config.dial * config.epochs))

    def headline(self, made: Made) -> float:
        """Of a network of the same configuration, trained to the end."""
        config, task = made.run.config, made.run.task
        other = train(HEALTHY, started(HEALTHY, config, task))
        return float(correct(other.model, task.test_inputs, task.test_labels).double().mean())

    def check(self, made: Made) -> Evidence:
        """The other network is better by 3 points or more."""
        gap = made.run.notes["headline"] - made.accuracy
        words = f"the headline is {100 * gap:.1f} points above what the network handed in can do"
        return Evidence(gap > 0.03, {"gap": gap}, words)


CONDITION = OtherHeadline()
