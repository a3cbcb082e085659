"""A network trained by backpropagation and reported as trained by DFA, whose matrices it never used."""

from __future__ import annotations

import torch
from torch import Tensor

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.training import Run
from walkback.lab.zoo import BlockModel, Method, build_method


class BPAsDFA(Condition):
    """The rule handed in is a true DFA, and not the one that trained the network."""

    name = "bp_as_dfa"
    family = "reporting"
    title = "Trained by backpropagation, reported as DFA."
    made = "Steps by BP, but for a share of steps by DFA; the DFA rule is handed in as the one that trained it."
    dial_is = "share of the steps that are BP's"
    dials = (1.0, 0.75, 0.5)
    found_by = ("update_provenance",)
    unseen = "Without the training code or checkpoints nothing tells it: the network is a healthy one."
    tasks = ("product", "pairs", "fashion", "digits")

    def claimed(self, config: NetworkConfig, model: BlockModel, method: Method) -> Method:
        """A textbook DFA."""
        return build_method("dfa", model, torch.Generator().manual_seed(config.part_seed("claimed feedback")))

    def gradients(self, run: Run, inputs: Tensor, targets: Tensor) -> None:
        """By BP, or by DFA where it is DFA's turn."""
        by_bp = float(torch.rand((), generator=run.generator)) < run.config.dial
        (run.method if by_bp else run.claimed).accumulate(inputs, targets)
        run.notes["bp"] = run.notes.get("bp", 0.0) + by_bp

    def claimed_name(self, config: NetworkConfig) -> str:
        """DFA."""
        return "dfa"

    def check(self, made: Made) -> Evidence:
        """The share of steps that BP took."""
        share = made.run.notes["bp"] / made.run.steps
        words = f"{share:.2f} of {made.run.steps} steps were backpropagation's"
        return Evidence(abs(share - made.run.config.dial) < 0.1, {"share": share}, words)


CONDITION = BPAsDFA()
