"""The best of several seeds, reported as if it were the only one."""

from __future__ import annotations

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.config import NetworkConfig


class BestOfN(Condition):
    """Everything that is reported is true of the network that is handed in."""

    name = "best_of_n"
    family = "reporting"
    title = "The best of n seeds on the test split, reported as one run."
    made = "n networks that differ in their seed alone; the one that does best on the test split is handed in."
    dial_is = "n"
    dials = (6.0, 4.0, 3.0)
    unseen = "Nothing in the network that is handed in tells of those that were not; several seeds must be asked for."
    tasks = ("teacher", "fashion", "pairs")
    architectures = ("resmlp", "plain_mlp", "student_net", "small_cnn")

    def candidates(self, config: NetworkConfig) -> list[NetworkConfig]:
        """n configurations that differ in their seed."""
        seeds = [config.part_seed(f"candidate {number}") for number in range(int(config.dial))]
        return [config.model_copy(update={"seed": seed}) for seed in seeds]

    def check(self, made: Made) -> Evidence:
        """It is the best of n that differ."""
        tried, best = made.run.notes["tried"], made.run.notes["best of others"]
        words = (
            f"{tried:.0f} seeds were tried; the next best has {100 * best:.1f} %, this one {100 * made.accuracy:.1f} %"
        )
        holds = tried == made.run.config.dial and made.accuracy >= best
        return Evidence(holds, {"tried": tried, "next_best": best}, words)


CONDITION = BestOfN()
