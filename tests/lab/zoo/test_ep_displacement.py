"""EP as the source study reads it (all states at once, no stem term, displacement as credit), against numpy in fp64."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from zoo_networks import backprop_gradients, batch, gradients, losses_of, sites_of, small, trace_of, true_gradients

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import build_method

EVERYWHERE = pytest.mark.parametrize("architecture", ARCHITECTURES)
FIRST = pytest.mark.parametrize("first_state", ["tied", "free", "clamped"])
AT_ONCE = {"relaxation": "simultaneous", "update": "displacement"}
SOURCE = AT_ONCE | {"first_state": "free", "credit_site": "read", "beta": 0.5, "sweeps": 20}


# The twin: a residual MLP, its energy and all slopes written out in numpy.


def erf(x):
    return np.vectorize(math.erf)(x)


def normed(h, gain, bias):
    return (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5) * gain + bias


def back_through_norm(h, gain, pull):
    """∂⟨normed(h), pull⟩/∂h."""
    spread = np.sqrt(h.var(1, keepdims=True) + 1e-5)
    unit, pull = (h - h.mean(1, keepdims=True)) / spread, pull * gain
    return (pull - pull.mean(1, keepdims=True) - unit * (pull * unit).mean(1, keepdims=True)) / spread


class Twin:
    """The states of one ResMLP, (B, d) each, and the energy on them."""

    def __init__(self, model, inputs, targets):
        w = {name: value.detach().numpy() for name, value in model.named_parameters()}
        names = ("norm.weight", "norm.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")
        self.blocks = [[w[f"blocks.{i}.{name}"] for name in names] for i in range(len(model.blocks))]
        self.head = [w[f"head.{name}"] for name in ("0.weight", "0.bias", "1.weight", "1.bias")]
        self.labels = np.eye(len(w["head.1.bias"]))[targets.numpy()]
        self.free = [inputs.numpy().reshape(len(inputs), -1) @ w["stem.1.weight"].T + w["stem.1.bias"]]
        for block in self.blocks:
            self.free.append(self.write(block, self.free[-1]))

    def write(self, block, h):
        gain, bias, w1, b1, w2, b2 = block
        inner = normed(h, gain, bias) @ w1.T + b1
        return h + inner * 0.5 * (1 + erf(inner / math.sqrt(2))) @ w2.T + b2

    def back(self, block, h, pull):
        """∂⟨write(h), pull⟩/∂h."""
        gain, bias, w1, b1, w2, _ = block
        inner = normed(h, gain, bias) @ w1.T + b1
        slope = 0.5 * (1 + erf(inner / math.sqrt(2))) + inner * np.exp(-inner * inner / 2) / math.sqrt(2 * math.pi)
        return pull + back_through_norm(h, gain, ((pull @ w2) * slope) @ w1)

    def probabilities(self, h):
        gain, bias, w, b = self.head
        logits = normed(h, gain, bias) @ w.T + b
        raised = np.exp(logits - logits.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)

    def height(self, states, beta, first_state):
        """E + β·ℓ, summed over samples."""
        total = 0.5 * ((states[0] - self.free[0]) ** 2).sum() if first_state == "tied" else 0.0
        for block, below, state in zip(self.blocks, states[:-1], states[1:], strict=True):
            total += 0.5 * ((state - self.write(block, below)) ** 2).sum()
        return total - beta * (self.labels * np.log(self.probabilities(states[-1]))).sum()

    def slopes(self, states, beta, first_state):
        """∂(E + β·ℓ)/∂s_l for every site."""
        gain, _, w, _ = self.head
        off = [states[site + 1] - self.write(block, states[site]) for site, block in enumerate(self.blocks)]
        found = [states[0] - self.free[0] if first_state == "tied" else 0 * states[0], *off]
        for site, block in enumerate(self.blocks):
            found[site] = found[site] - self.back(block, states[site], off[site])
        error = self.probabilities(states[-1]) - self.labels
        found[-1] = found[-1] + beta * back_through_norm(states[-1], gain, error @ w)
        return found

    def relaxed(self, steps, step, beta, first_state):
        states = [state.copy() for state in self.free]
        for _ in range(steps):
            slopes = self.slopes(states, beta, first_state)
            if first_state == "clamped":
                slopes[0] = 0 * slopes[0]
            states = [state - step * slope for state, slope in zip(states, slopes, strict=True)]
        return states


def twin_and_model(count=4):
    model, (inputs, targets) = small("resmlp").eval(), batch(count)
    return Twin(model, inputs, targets), model, trace_of(model, inputs, targets)


@FIRST
def test_the_twins_slopes_are_those_of_its_energy(first_state):
    twin, _, _ = twin_and_model(2)
    rng, nudge = np.random.default_rng(0), 1e-6
    states = [state + rng.normal(size=state.shape) for state in twin.free]
    for site, slope in enumerate(twin.slopes(states, 0.7, first_state)):
        for at in np.ndindex(slope.shape):
            heights = []
            for sign in (1, -1):
                moved = [state.copy() for state in states]
                moved[site][at] += sign * nudge
                heights.append(twin.height(moved, 0.7, first_state))
            assert (heights[0] - heights[1]) / (2 * nudge) == pytest.approx(slope[at], rel=1e-5, abs=1e-6)


@FIRST
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 20])
def test_the_credit_is_the_twins(first_state, steps):
    twin, model, trace = twin_and_model()
    method = build_method("ep", model, **AT_ONCE, first_state=first_state, sweeps=steps, step=0.2, beta=0.5)
    expected = twin.relaxed(steps, 0.2, 0.5, first_state)
    for site, credit in enumerate(method.credits(trace)):
        np.testing.assert_allclose(credit, (twin.free[site] - expected[site]) / 0.5, rtol=1e-9, atol=1e-12)
        # The nudge has come down by one site per step.
        assert bool(credit.any()) == (site > 3 - steps and (site > 0 or first_state != "clamped"))


@FIRST
def test_small_steps_lower_energy_and_loss_together(first_state):
    twin, model, trace = twin_and_model()
    options = AT_ONCE | {"first_state": first_state, "step": 0.05, "beta": 0.5}
    heights = [twin.height(twin.free, 0.5, first_state)]
    for steps in range(1, 21):
        states = build_method("ep", model, **options, sweeps=steps).relax(trace.hiddens, trace.targets)
        heights.append(twin.height([state.numpy() for state in states], 0.5, first_state))
    assert all(later < sooner for sooner, later in pairwise(heights))


@EVERYWHERE
@FIRST
def test_a_step_moves_all_states_by_their_slopes_at_one_point(architecture, first_state):
    model, (inputs, targets) = small(architecture).eval(), batch()
    free = [state.detach() for state in sites_of(model, inputs)[0]]
    steps = len(free) + 1
    method = build_method("ep", model, **AT_ONCE, first_state=first_state, sweeps=steps, step=0.05, beta=0.7)
    states = free
    for _ in range(steps):
        at = [state.detach().requires_grad_() for state in states]
        height = 0.7 * losses_of(model.head(at[-1]), targets).sum()
        height = height + (0.5 * (at[0] - free[0]).square().sum() if first_state == "tied" else 0)
        for block, below, state in zip(model.blocks, at[:-1], at[1:], strict=True):
            height = height + 0.5 * (state - block(below)).square().sum()
        slopes = torch.autograd.grad(height, at)
        moved = [state - 0.05 * slope for state, slope in zip(states, slopes, strict=True)]
        states = [free[0], *moved[1:]] if first_state == "clamped" else moved
    for state, expected in zip(method.relax(free, targets), states, strict=True):
        torch.testing.assert_close(state, expected, rtol=1e-9, atol=1e-12)


# What theory says of the credit: J_l is the Jacobian of block l, P_lk = J_l … J_{k+1}, g the true gradient.


def jacobians(model, hiddens):
    """J_1 … J_L of one sample."""
    pairs = zip(model.blocks, hiddens[:-1], strict=True)
    return [torch.autograd.functional.jacobian(lambda h, b=block: b(h[None])[0], h[0]) for block, h in pairs]


def limits(count=1):
    """One sample: the model, its trace, true gradients and P[l][k]."""
    model, (inputs, targets) = small("resmlp").eval(), batch(count)
    trace = trace_of(model, inputs, targets)
    chain = jacobians(model, trace.hiddens)
    carried = [[torch.eye(12, dtype=torch.float64)] for _ in range(len(chain) + 1)]
    for later in range(1, len(chain) + 1):
        carried[later] = [chain[later - 1] @ matrix for matrix in carried[later - 1]] + carried[later]
    return model, trace, [g[0] for g in true_gradients(model, inputs, targets)], carried


def credits_of(model, trace, **options):
    return [credit[0] for credit in build_method("ep", model, **AT_ONCE, **options).credits(trace)]


def angle(credit, gradient):
    return F.cosine_similarity(credit, gradient, dim=0).item()


@FIRST
def test_with_ever_smaller_steps_the_credit_points_along_the_gradient_at_every_site_that_moves(first_state):
    model, trace, truth, _ = limits()
    misses = []
    # The lowest site moves by about α⁴: the smallest of these steps still leaves it eight digits in fp64.
    for step in (0.1, 0.03, 0.01):
        credits = credits_of(model, trace, first_state=first_state, sweeps=5, step=step, beta=1.0)
        moving = list(zip(credits, truth, strict=True))[1 if first_state == "clamped" else 0 :]
        misses.append([1 - angle(credit, gradient) for credit, gradient in moving])
    assert max(misses[2]) < 1e-3
    # The angle falls in proportion to the step, so 1 − cos falls as its square: by 11 and by 9.
    for large, middle, little in zip(*misses, strict=True):
        assert little < middle / 6 < large / 36


@pytest.mark.parametrize(("first_state", "lowest"), [("tied", 0), ("clamped", 1)])
def test_relaxed_to_convergence_the_credit_adds_up_the_gradients_of_the_sites_below(first_state, lowest):
    model, trace, truth, carried = limits()
    credits = credits_of(model, trace, first_state=first_state, sweeps=2000, step=0.2, beta=1e-5)
    for site in range(lowest, len(truth)):
        expected = sum(carried[site][k] @ truth[k] for k in range(lowest, site + 1))
        torch.testing.assert_close(credits[site], expected, rtol=1e-3, atol=1e-4)
        # So it never points uphill: ⟨a_l, g_l⟩ = Σ_k ‖g_k‖².
        inner = sum(truth[k].square().sum() for k in range(lowest, site + 1))
        torch.testing.assert_close(credits[site] @ truth[site], inner, rtol=1e-3, atol=1e-4)
    assert angle(credits[lowest], truth[lowest]) > 0.9999
    assert angle(credits[-1], truth[-1]) < 0.99


def test_with_a_free_first_state_the_credit_drifts_for_ever():
    model, trace, truth, carried = limits()
    options = {"first_state": "free", "step": 0.2, "beta": 1e-6}
    early, late = (credits_of(model, trace, **options, sweeps=sweeps) for sweeps in (1500, 2000))
    # Along the forward passes from another s_0 the energy is flat; only the loss moves the states there.
    flat = sum(matrix[0].T @ matrix[0] for matrix in carried)
    drift = torch.linalg.solve(flat, truth[0])
    for site in range(len(truth)):
        expected = carried[site][0] @ drift
        torch.testing.assert_close((late[site] - early[site]) / (0.2 * 500), expected, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize(("dtype", "moves"), [(torch.float32, False), (torch.float64, True)])
def test_on_a_large_stream_the_displacement_is_below_what_fp32_resolves(dtype, moves):
    model, (inputs, targets) = small("resmlp", dtype=dtype).eval(), batch(dtype=dtype)
    with torch.no_grad():
        model.stem[1].weight *= 1e6
    credits = build_method("ep", model, **SOURCE).credits(trace_of(model, inputs, targets))
    assert [bool(credit.any()) for credit in credits] == [moves] * 4


# The update.


@EVERYWHERE
@pytest.mark.parametrize("credit_site", ["read", "written"])
@pytest.mark.parametrize("relaxation", ["simultaneous", "sweeps"])
def test_every_module_follows_the_displacement_at_the_free_states(architecture, credit_site, relaxation):
    model, (inputs, targets) = small(architecture).eval(), batch()
    options = SOURCE | {"credit_site": credit_site, "relaxation": relaxation, "step": 0.05}
    method = build_method("ep", model, **options)
    free = [state.detach() for state in sites_of(model, inputs)[0]]
    method.accumulate(inputs, targets)
    credits = [-(s - h) / 0.5 for s, h in zip(method.relax(free, targets), free, strict=True)]
    found, modules, reads = gradients(model), [model.stem, *model.blocks], [inputs, *free[:-1]]
    prefixes = ["stem", *(f"blocks.{i}" for i in range(len(model.blocks)))]
    for index, (prefix, module, read) in enumerate(zip(prefixes, modules, reads, strict=True)):
        below = index > 0 and credit_site == "read" and free[index - 1].shape == free[index].shape
        objective = (module(read) * credits[index - below]).sum() / len(targets)
        parameters = list(module.parameters())  # an MLP's stem has none
        expected = torch.autograd.grad(objective, parameters) if parameters else ()
        for (name, _), gradient in zip(module.named_parameters(), expected, strict=True):
            torch.testing.assert_close(found[f"{prefix}.{name}"], gradient, rtol=1e-9, atol=1e-12)
    truth = backprop_gradients(model, inputs, targets)
    for name in [name for name in found if name.startswith("head.")]:
        torch.testing.assert_close(found[name], truth[name])


@EVERYWHERE
def test_the_source_deciding_trains_and_leaves_running_statistics_to_the_free_phase(architecture):
    model, (inputs, targets) = small(architecture, dtype=torch.float32), batch(dtype=torch.float32)
    method = build_method("ep", model, **SOURCE, step=0.1, credit_norm="per_sample")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        losses.append(method.accumulate(inputs, targets).loss.item())
        optimizer.step()
    assert losses[-1] < losses[0]
    tracked = [int(value) for name, value in model.named_buffers() if name.endswith("num_batches_tracked")]
    assert tracked == [6] * len(tracked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first_state": "free"}, "first_state is 'free' while update is 'energy'; expected 'tied', because without"),
        ({"first_state": "clamped"}, "first_state is 'clamped' while update is 'energy'; expected 'tied', because"),
        ({"credit_site": "read"}, "credit_site is 'read' while update is 'energy'; expected 'written', because a"),
        ({"relaxation": "jacobi"}, "relaxation is 'jacobi'; expected one of 'sweeps', 'simultaneous'"),
        ({"update": "credit"}, "update is 'credit'; expected one of 'energy', 'displacement'"),
    ],
)
def test_what_cannot_be_combined_is_refused(options, message):
    with pytest.raises(InputError, match=f"method ep: {message}"):
        build_method("ep", small("resmlp"), **options)
