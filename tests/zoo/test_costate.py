"""Both bridges on a linear-quadratic problem, where the true credit is known: the costate.

h_{l+1} = (I + A_l) h_l and ℓ = ‖C h_L − y‖²/20, so p_L = Cᵀ(C h_L − y)/10 and p_l = (I + A_l)ᵀ p_{l+1}. The bridges
see LayerNorm(h), which neither a shift of all entries nor a stretch of h reaches, so no cosine can be 1: C reads no
shift, and y is spread wider than C h_L, which leaves room up to about .97. The study that defined the bridges has the
same problem in 64 dimensions and twelve steps, and reports .945 for both and .001 for DFA.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from walkback.zoo.methods.bridge import Predictor
from walkback.zoo.methods.state_bridge import bridge_states
from walkback.zoo.methods.value_bridge import ValueBridge, ValueOptions, terminal_of

SIZE, OUTPUTS, DEPTH, BATCH, STEPS, RATE, SEED = 32, 2, 4, 128, 2000, 1e-2, 7
SITES = range(DEPTH + 1)
SIZES = [SIZE] * (DEPTH + 1)


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


def by_state(system: LinearQuadratic, states, targets, error):
    predictor = Predictor(SIZES, OUTPUTS, 64, SIZE, 2)

    def bridged(states, targets, error):
        def loss(last: Tensor) -> Tensor:
            return system.losses(last, targets).sum()

        return bridge_states(predictor, states, SITES, [error], states[-1], loss, "normalised")

    trained(predictor.parameters(), lambda: bridged(*system.batch()).objective)
    reads = [state.clone().requires_grad_() for state in states]
    return torch.autograd.grad(bridged(reads, targets, error).loss, reads)


def by_value(system: LinearQuadratic, states, targets, error):
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


@pytest.mark.parametrize("rule", [by_state, by_value])
def test_a_bridge_recovers_the_costate(rule):
    found, copied = compared(rule, SEED)
    assert found[:-1].mean() >= 0.9
    # To know p_L and hand it to every site is nearly as good close to the end, and is not to have bridged anything.
    assert found[0] > copied[0]


def by_random_matrices(system: LinearQuadratic, states, targets, error):
    return [error @ torch.randn(OUTPUTS, SIZE) for _ in SITES]


def test_direct_feedback_does_not():
    assert abs(compared(by_random_matrices, SEED)[0].mean()) < 0.2


def test_what_the_value_has_to_agree_with_is_the_loss_and_the_last_costate():
    torch.manual_seed(SEED)
    system = LinearQuadratic()
    states, targets, error = system.batch(8)
    last = terminal_of(lambda h: system.losses(h, targets), states[-1])
    np.testing.assert_allclose(last.gradients, system.costates(error)[-1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.losses, (error.double().numpy() ** 2).sum(1) / 20, rtol=1e-5)
