"""The source study's rules against plain numpy: RMS normalisation, DFA's feedback by block, FA by block."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from zoo_networks import batch, gradients, small, trace_of

from walkback.errors import InputError
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.source_recipe import OPTIONS, recipe, source_options
from walkback.lab.zoo import DataSpec, build_method, build_model
from walkback.lab.zoo.methods.credit_forms import FactoredCredit, rms_unit

EPSILON = 1e-6


def numpy_rms(credit: np.ndarray, epsilon: float) -> np.ndarray:
    out = np.zeros_like(credit)
    for index, sample in enumerate(credit):
        total = 0.0
        for value in sample.ravel():
            total += float(value) ** 2
        out[index] = sample / ((total / sample.size) ** 0.5 + epsilon)
    return out


@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 5), (3, 2, 4, 4)])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-12])
def test_rms_is_per_sample_with_its_epsilon(shape, scale):
    credit = scale * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = numpy_rms(credit.numpy(), EPSILON)
    np.testing.assert_allclose(rms_unit(credit, EPSILON).numpy(), expected, rtol=1e-10)


def test_rms_of_a_factored_credit_is_that_of_the_whole():
    generator = torch.Generator().manual_seed(0)
    error = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    feedback = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    credit = FactoredCredit(error, feedback, (7,))
    expected = numpy_rms((error @ feedback).numpy(), 0.3)
    np.testing.assert_allclose(rms_unit(credit, 0.3).whole().numpy(), expected, rtol=1e-10)


def test_rms_leaves_a_credit_of_zero_at_zero():
    assert torch.equal(rms_unit(torch.zeros(2, 3), 0.0), torch.zeros(2, 3))


def followed(model, inputs, targets, credits, sites, penalty=0.0):
    """What each block learns from ⟨f_l(h), a⟩ + λ‖f_l(h)‖², mean over samples, by autograd on a graph of its own."""
    found, trace = {}, trace_of(model, inputs, targets)
    for index, block in enumerate(model.blocks):
        branch = block.branch(trace.hiddens[index])
        pull = torch.as_tensor(credits[sites[index]])
        objective = (branch * pull).sum() / len(targets) + penalty * branch.square().sum() / len(targets)
        grads = torch.autograd.grad(objective, list(block.parameters()))
        names = [f"blocks.{index}.{name}" for name, _ in block.named_parameters()]
        found |= dict(zip(names, grads, strict=True))
    return found


@pytest.mark.parametrize(("penalty", "epsilon"), [(0.0, EPSILON), (0.01, EPSILON), (0.0, 0.05)])
def test_dfa_as_source_follows_the_published_local_loss(penalty, epsilon):
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("dfa", model, **source_options("dfa"), penalty=penalty, rms_epsilon=epsilon)
    method.accumulate(inputs, targets)
    error = trace_of(model, inputs, targets).error.numpy()
    credits = [numpy_rms(error @ method.feedback(site).numpy(), epsilon) for site in range(4)]
    expected = followed(model, inputs, targets, credits, sites=[0, 1, 2], penalty=penalty)
    found = gradients(model)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12)


def test_the_source_s_feedback_is_of_the_classes_and_shared_by_the_last_two_sites():
    model = build_model("resmlp", DataSpec((3, 32, 32), classes=10))
    method = build_method("dfa", model, torch.Generator().manual_seed(0), **source_options("dfa"))
    for site in range(5):
        assert method.feedback(site).std().item() == pytest.approx(10**-0.5, rel=0.1)
    assert torch.equal(method.feedback(3), method.feedback(4))
    different = [not torch.equal(method.feedback(a), method.feedback(b)) for a in range(4) for b in range(a)]
    assert all(different)
    assert len(list(method.buffers())) == 4


def numpy_terminal(model, trace):
    """∂ℓ/∂h_L by hand: e Wᵀ through the terminal LayerNorm."""
    hidden, error = trace.hiddens[-1].numpy(), trace.error.numpy()
    norm, readout = model.head[0], model.head[1]
    weight, gain = readout.weight.detach().numpy(), norm.weight.detach().numpy()
    out = np.zeros_like(hidden)
    for index, (h, e) in enumerate(zip(hidden, error, strict=True)):
        deviation = (h.var() + norm.eps) ** 0.5
        unit = (h - h.mean()) / deviation
        outer = (e @ weight) * gain
        out[index] = (outer - outer.mean() - unit * (outer * unit).mean()) / deviation
    return out


def numpy_chain(model, method, trace):
    """c_0 … c_L."""
    chain = [numpy_terminal(model, trace)]
    for site in reversed(range(len(model.blocks))):
        chain.insert(0, chain[0] @ method.feedback(site).numpy())
    return chain


@pytest.mark.parametrize("site", ["read", "written"])
def test_fa_by_block_is_a_chain_of_products_from_the_exact_terminal_gradient(site):
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("fa_block", model, credit_site=site)
    trace = trace_of(model, inputs, targets)
    chain = numpy_chain(model, method, trace)
    expected = [*chain[1:], chain[-1]] if site == "read" else chain
    for credit, twin in zip(method.credits(trace), expected, strict=True):
        np.testing.assert_allclose(credit.numpy(), twin, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("site", ["read", "written"])
def test_every_block_and_the_stem_follow_their_link_of_the_chain(site):
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("fa_block", model, credit_site=site)
    method.accumulate(inputs, targets)
    chain, found = numpy_chain(model, method, trace_of(model, inputs, targets)), gradients(model)
    expected = followed(model, inputs, targets, chain, sites=[1, 2, 3])
    expected["stem.1.weight"] = torch.as_tensor(chain[0]).T @ inputs.flatten(1) / len(targets)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("site", ["read", "written"])
def test_where_the_stream_changes_its_shape_a_block_follows_what_it_writes(site):
    model, (inputs, targets) = small("small_cnn").eval(), batch()
    method = build_method("fa_block", model, credit_site=site)
    method.accumulate(inputs, targets)
    trace = trace_of(model, inputs, targets)
    credits = method.credits(trace)
    block = model.blocks[-1]
    objective = (block(trace.hiddens[-2]) * credits[-1]).sum() / len(targets)
    for parameter, gradient in zip(
        block.parameters(), torch.autograd.grad(objective, list(block.parameters())), strict=True
    ):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("epsilon", [EPSILON, 0.01])
def test_a_credit_that_is_a_gradient_is_normalised_as_that_of_the_batch_mean_loss(epsilon):
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("fa_block", model, **source_options("fa_block"), rms_epsilon=epsilon)
    method.accumulate(inputs, targets)
    raw = [credit.numpy() / len(targets) for credit in method.credits(trace_of(model, inputs, targets))]
    credits = [numpy_rms(credit, epsilon) for credit in raw]
    found, expected = gradients(model), followed(model, inputs, targets, credits, sites=[0, 1, 2])
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12)


def test_bp_under_rms_follows_the_gradient_of_the_batch_mean_loss():
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("bp", model, credit_norm="rms", rms_epsilon=0.003)
    method.accumulate(inputs, targets)
    raw = [credit.numpy() / len(targets) for credit in method.credits(trace_of(model, inputs, targets))]
    credits = [numpy_rms(credit, 0.003) for credit in raw]
    found, expected = gradients(model), followed(model, inputs, targets, credits, sites=[1, 2, 3])
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("method", OPTIONS)
def test_every_recipe_is_a_run(method):
    config = RunConfig(method=method, seed=1, **recipe(method))
    assert (config.epochs, config.architecture, config.data) == (100, "resmlp", "cifar10")
    made = build_method(method, small("resmlp"), **config.method_options)
    # BP has no credit to normalise, and EP's is not: over its RMS it explodes, which the published one does not.
    if method not in ("bp", "ep"):
        assert made.options.credit_norm == "rms"


def test_a_method_that_the_study_has_not_is_refused():
    with pytest.raises(InputError, match=r"no method fa; .* fa_block"):
        source_options("fa")


def test_a_negative_epsilon_is_refused():
    with pytest.raises(InputError, match="rms_epsilon is -1"):
        build_method("dfa", small("resmlp"), rms_epsilon=-1.0)
