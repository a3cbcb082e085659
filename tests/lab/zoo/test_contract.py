"""Every method on every architecture, over the registries: a new row is tested the moment it is added."""

from __future__ import annotations

import copy
import re
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from zoo_networks import (
    PAIRS,
    UNDEFINED,
    WHY_NOT,
    WITH_CREDIT,
    backprop_gradients,
    batch,
    losses_of,
    named_learning,
    small,
    trace_of,
    true_gradients,
)

from walkback.errors import InputError, NoCredit, UnknownName
from walkback.lab.registry import ARCHITECTURES, METHODS
from walkback.lab.zoo import build_method, build_model, defined_on
from walkback.lab.zoo.contract import EVERYWHERE, DataSpec
from walkback.lab.zoo.modes import evaluating
from walkback.protocol.credit import CreditRule, fresh_draws

FLOAT = torch.float32
everywhere = pytest.mark.parametrize("architecture", ARCHITECTURES)
every_method = pytest.mark.parametrize("name", METHODS)
every_pair = pytest.mark.parametrize(("name", "architecture"), PAIRS)
every_credit = pytest.mark.parametrize(("name", "architecture"), WITH_CREDIT)


def require_credit(name, options):
    """Leave out what a method without a credit refuses."""
    if not METHODS.load(name).has_credit and options.get("credit_norm", "none") != "none":
        with pytest.raises(InputError, match="has no credit to scale: credit_norm is"):
            build_method(name, a_network_for(name), **options)
        return False
    return True


def a_network_for(name):
    """A small network that the method is defined on."""
    return small(next(architecture for method, architecture in PAIRS if method == name))


@every_pair
@pytest.mark.parametrize(
    "options",
    [{}, {"penalty": 0.01}, {"credit_norm": "per_sample"}, {"credit_norm": "none", "penalty": 0.01}],
)
def test_two_steps_move_every_parameter(name, architecture, options):
    if not require_credit(name, options):
        return
    model, (inputs, targets) = small(architecture, dtype=FLOAT), batch(dtype=FLOAT)
    method = build_method(name, model, **options)
    learning = named_learning(model, method)
    own = [parameter for parameter in method.parameters() if parameter.requires_grad]
    trained = [*(p for key, p in model.named_parameters() if key in learning), *own]
    before = copy.deepcopy(trained)
    # Without decay, which would move a parameter that learns nothing.
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.0, fused=True)
    for _ in range(2):
        optimizer.zero_grad()
        result = method.accumulate(inputs, targets)
        optimizer.step()
        method.after_step()
    after = trained
    assert all(torch.isfinite(parameter).all() for parameter in after)
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert not result.loss.requires_grad
    assert not result.logits.requires_grad
    assert result.logits.shape == (*targets.shape, model.data.classes)
    if method.answers_by_head():
        torch.testing.assert_close(result.loss, losses_of(result.logits, targets).mean())


@every_pair
def test_the_result_is_what_the_model_computes(name, architecture):
    model, (inputs, targets) = small(architecture, dtype=FLOAT), batch(dtype=FLOAT)
    expected = copy.deepcopy(model)(inputs)
    method = build_method(name, model)
    result = method.accumulate(inputs, targets)
    if method.answers_by_head():
        torch.testing.assert_close(result.logits, expected)


@every_pair
def test_state_round_trips(name, architecture):
    model, (inputs, targets) = small(architecture, dtype=FLOAT), batch(dtype=FLOAT)
    method = build_method(name, model, torch.Generator().manual_seed(1))
    method.accumulate(inputs, targets)
    method.after_step()
    again = small(architecture, seed=7, dtype=FLOAT)
    other = build_method(name, again, torch.Generator().manual_seed(2))
    again.load_state_dict(model.state_dict())
    other.load_state_dict(method.state_dict())
    assert not any(key.startswith("model") for key in method.state_dict())
    with torch.no_grad(), evaluating(method), evaluating(model), evaluating(other), evaluating(again):
        assert torch.equal(other.predict(inputs), method.predict(inputs))
    if not method.has_credit:
        return
    trace = trace_of(model, inputs, targets)
    for credit, expected in zip(other.credits(trace), method.credits(trace), strict=True):
        assert torch.equal(credit, expected)


@every_credit
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_credits_fit_every_site_and_leave_the_model_alone(name, architecture, dtype):
    model, (inputs, targets) = small(architecture, dtype=dtype), batch(dtype=dtype)
    method = build_method(name, model)
    assert isinstance(method, CreditRule)
    trace, before = trace_of(model, inputs, targets), copy.deepcopy(model.state_dict())
    with torch.no_grad():
        credits = method.credits(trace)
    assert [credit.shape for credit in credits] == [hidden.shape for hidden in trace.hiddens]
    assert all(torch.isfinite(credit).all() and not credit.requires_grad for credit in credits)
    assert all(parameter.grad is None for parameter in [*model.parameters(), *method.parameters()])
    assert all(module.training for module in model.modules())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@every_credit
def test_fresh_draws_change_the_credit_or_there_are_none(name, architecture):
    model, (inputs, targets) = small(architecture), batch()
    method = build_method(name, model, credit_norm="none", penalty=0.5)
    draws = fresh_draws(method, 2, seed=0)
    if not hasattr(method, "redraw"):
        assert draws == []
        return
    assert not method.no_null
    trace = trace_of(model, inputs, targets)
    first, second = (draw.credits(trace) for draw in draws)
    own, again = method.credits(trace), fresh_draws(method, 1, seed=0)[0].credits(trace)
    # The chain of fa_block starts from the exact gradient, which no draw changes.
    drawn = len(own) - 2 if name == "fa_block" else len(own)
    for a, b, c, same in list(zip(own, first, second, again, strict=True))[:drawn]:
        assert not torch.allclose(a, b)
        assert not torch.allclose(b, c)
        assert torch.equal(b, same)
    assert draws[0].options == method.options


@every_method
def test_drawing_from_a_generator_leaves_torchs_own_alone(name):
    model = a_network_for(name)
    state = torch.get_rng_state()
    build_method(name, model, torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), state)


@everywhere
def test_backprop_is_loss_backward(architecture):
    model, (inputs, targets) = small(architecture), batch()
    expected = backprop_gradients(model, inputs, targets)
    build_method("bp", model).accumulate(inputs, targets)
    assert all(torch.equal(parameter.grad, expected[name]) for name, parameter in model.named_parameters())


@everywhere
def test_the_credit_of_backprop_is_the_true_gradient(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    credits = build_method("bp", model).credits(trace_of(model, inputs, targets))
    for credit, gradient in zip(credits, true_gradients(model, inputs, targets), strict=True):
        torch.testing.assert_close(credit, gradient, rtol=1e-10, atol=1e-12)


@every_method
def test_what_promises_independent_feedback_has_it(name):
    if not METHODS.load(name).has_credit or (name, "resmlp") not in PAIRS:
        return
    method = build_method(name, small("resmlp", width=256), torch.Generator().manual_seed(0))
    if method.independent_feedback:
        credits = method.credits(trace_of(method.model, *batch()))
        cosines = [F.cosine_similarity(one, other).mean() for one, other in pairwise(credits)]
        assert max(map(abs, cosines)) < 0.3


def test_dfa_promises_independent_feedback_and_backprop_does_not():
    assert build_method("dfa", small("resmlp")).independent_feedback
    assert not build_method("bp", small("resmlp")).independent_feedback
    assert not build_method("dfa", small("resmlp"), feedback_of="block").independent_feedback


@every_method
def test_unknown_options_are_refused_with_a_suggestion(name):
    with pytest.raises(InputError, match=rf"method {name} has no option 'penalti'. Did you mean 'penalty'"):
        build_method(name, a_network_for(name), penalti=0.1)


@every_method
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"credit_norm": "unit"}, "credit_norm is 'unit'; expected one of 'none', 'per_sample'"),
        ({"penalty": "much"}, "penalty is 'much'; expected a number"),
        ({"penalty": float("nan")}, "penalty is nan; expected a number"),
    ],
)
def test_impossible_values_are_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        build_method(name, a_network_for(name), **options)


@every_method
def test_every_method_names_its_paper_and_what_gamma_means(name):
    method = METHODS.load(name)
    assert method.paper
    assert method.gamma.endswith(".")
    # A method with feedback that learns has no redraw, and says why; one without feedback needs no reason.
    assert not (method.no_null and hasattr(method, "redraw"))


@every_method
def test_where_a_method_is_defined_is_said_in_words_and_by_why_not(name):
    refused = {architecture for method, architecture in UNDEFINED if method == name}
    assert not (refused and METHODS.load(name).defined_on == EVERYWHERE)
    assert {architecture for architecture, why in defined_on(name).items() if why} == refused
    assert refused < set(ARCHITECTURES)


@pytest.mark.parametrize(("name", "architecture"), UNDEFINED)
def test_where_it_is_not_defined_it_is_refused_in_its_sentence(name, architecture):
    assert WHY_NOT[name, architecture].endswith(".")
    with pytest.raises(InputError, match=re.escape(f"is not defined on this network: {WHY_NOT[name, architecture]}")):
        build_method(name, small(architecture))


@pytest.mark.parametrize(("name", "architecture"), sorted(set(PAIRS) - set(WITH_CREDIT)))
def test_without_a_credit_none_is_handed_out(name, architecture):
    model = small(architecture)
    with pytest.raises(NoCredit, match="by design: "):
        build_method(name, model).credits(trace_of(model, *batch()))


def test_unknown_names_are_refused_with_a_suggestion():
    with pytest.raises(UnknownName, match="Did you mean 'dfa'"):
        build_method("dfaa", small("resmlp"))
    with pytest.raises(UnknownName, match="Did you mean 'resmlp'"):
        build_model("resmpl", DataSpec((4,), 2))
