"""How well do both bridges recover a known costate? python tools/toy_costate.py [--write]

h_{l+1} = (I + A_l) h_l and ℓ = ‖C h_L − y‖²/20, so p_L = Cᵀ(C h_L − y)/10 and p_l = (I + A_l)ᵀ p_{l+1}. The bridges
see LayerNorm(h), which neither a shift of all entries nor a stretch of h reaches, so no cosine can be 1: C reads no
shift, and y is spread wider than C h_L, which leaves room up to about .97. The study that defined the bridges has the
same problem in 64 dimensions and twelve steps, and reports .945 for both and .001 for DFA.

Trained with the seeds 7, 8 and 9. The mean cosine over the sites before the last, and its spread, are printed; with
--write they are also kept in results/toy_costate.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from walkback.lab.runs.stamp import stamp
from walkback.lab.zoo.methods.bridge import Predictor
from walkback.lab.zoo.methods.state_bridge import bridge_states
from walkback.lab.zoo.methods.value_bridge import ValueBridge, ValueOptions, terminal_of
from walkback.protocol.schema import write_whole

SIZE, OUTPUTS, DEPTH, BATCH, STEPS, RATE = 32, 2, 4, 128, 2000, 1e-2
SITES = range(DEPTH + 1)
SIZES = [SIZE] * (DEPTH + 1)
TARGET = Path(__file__).parents[1] / "results" / "toy_costate.json"


class LinearQuadratic:
    """The system, its states and its losses."""

    def __init__(self) -> None:
        self.steps = [0.3 * torch.randn(SIZE, SIZE) / SIZE**0.5 for _ in range(DEPTH)]
        rows = torch.randn(SIZE, OUTPUTS)
        self.output = torch.linalg.qr(rows - rows.mean(dim=0))[0].T

    def batch(self, count: int = BATCH) -> tuple[list[Tensor], Tensor, Tensor]:
        """h_0 … h_L, the targets y, and the output error e = C h_L − y."""
        states = [torch.randn(count, SIZE)]
        for step in self.steps:
            states.append(states[-1] + states[-1] @ step.T)
        targets = 3 * torch.randn(count, OUTPUTS)
        return states, targets, states[-1] @ self.output.T - targets

    def losses(self, last: Tensor, targets: Tensor) -> Tensor:
        """ℓ of each sample, (B,)."""
        return (last @ self.output.T - targets).square().sum(dim=-1) / 20

    def costates(self, error: Tensor) -> list[np.ndarray]:
        """By the recursion, in fp64 numpy."""
        found = [error.double().numpy() @ self.output.double().numpy() / 10]
        for step in reversed(self.steps):
            found.append(found[-1] @ (np.eye(SIZE) + step.double().numpy()))
        return found[::-1]


def cosines(credits, costates) -> np.ndarray:
    """The mean cosine of each site."""
    pairs = [(credit.detach().double().numpy(), costate) for credit, costate in zip(credits, costates, strict=True)]
    norm = np.linalg.norm
    return np.array([np.mean((a * p).sum(1) / norm(a, axis=1) / norm(p, axis=1)) for a, p in pairs])


def trained(parameters, objective) -> None:
    """Both bridges alike: AdamW on a rate that falls to zero, a fresh batch at every step."""
    optimizer = torch.optim.AdamW(parameters, lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        loss = objective()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def by_state(system, states, targets, error):
    """State Bridge's credit at every site, after its training."""
    predictor = Predictor(SIZES, OUTPUTS, 64, SIZE, 2)

    def bridged(states, targets, error):
        def loss(last: Tensor) -> Tensor:
            return system.losses(last, targets).sum()

        return bridge_states(predictor, states, SITES, [error], states[-1], loss, "normalised")

    trained(predictor.parameters(), lambda: bridged(*system.batch()).objective)
    reads = [state.clone().requires_grad_() for state in states]
    return torch.autograd.grad(bridged(reads, targets, error).loss, reads)


def by_value(system, states, targets, error):
    """Credit Bridge's credit at every site, after its training."""
    bridge = ValueBridge(SIZES, OUTPUTS, ValueOptions(predictor_width=64, predictor_layers=2))

    def objective() -> Tensor:
        states, targets, error = system.batch()
        bridge.update_average()
        return bridge.learn(states, error, terminal_of(lambda last: system.losses(last, targets), states[-1]))[1]

    trained(bridge.network.parameters(), objective)
    return bridge.slopes(states, SITES, error)


def compared(rule, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The cosines of a rule's credit with the costates, and those of p_L handed to every site."""
    torch.manual_seed(seed)
    system = LinearQuadratic()
    states, targets, error = system.batch(2000)
    costates = system.costates(error)
    copied = [torch.from_numpy(costates[-1])] * len(costates)
    return cosines(rule(system, states, targets, error), costates), cosines(copied, costates)


def by_random_matrices(system, states, targets, error):
    """DFA's credit: the error through one random matrix for each site."""
    return [error @ torch.randn(OUTPUTS, SIZE) for _ in SITES]


RULES = {"dfa": by_random_matrices, "state_bridge": by_state, "credit_bridge": by_value}
SEEDS = (7, 8, 9)


def main() -> None:
    """Train and print; write where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"put the numbers on record in {TARGET.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: [float(compared(rule, seed)[0][:-1].mean()) for seed in SEEDS] for name, rule in RULES.items()}
    for name, values in found.items():
        print(f"{name:14} {statistics.mean(values):+.3f}  seeds {', '.join(f'{v:+.3f}' for v in values)}")
    result = {
        "command": "python tools/toy_costate.py --write",
        **{name: round(statistics.mean(values), 6) for name, values in found.items()},
        "by_seed": {name: dict(zip(map(str, SEEDS), values, strict=True)) for name, values in found.items()},
        **stamp(),
    }
    if arguments.write:
        print("saved to", write_whole(TARGET, json.dumps(result, indent=1, ensure_ascii=False) + "\n"))


if __name__ == "__main__":
    main()
