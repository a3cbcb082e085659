"""Credit as two factors: the same gradients as the whole credit gives, in fewer multiplications."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from zoo_networks import assert_same, batch, gradients, small

from walkback.lab.zoo import BlockModel, DataSpec, build_method, build_model, freeze
from walkback.lab.zoo.contract import LinearBlock, SkiplessBlock
from walkback.lab.zoo.methods.credit_forms import FactoredCredit, per_sample_unit, whole
from walkback.lab.zoo.methods.dfa import DFA
from walkback.lab.zoo.methods.local_step import local_pass
from walkback.lab.zoo.plain_module import is_plain


class WholeDFA(DFA):
    """The same rule, its credit multiplied out before any layer meets it."""

    def credits_at(self, trace, sites):
        credits, objective = super().credits_at(trace, sites)
        return [credit.whole() for credit in credits], objective


def a_credit(site_shape: tuple[int, ...], samples: int = 7, classes: int = 3) -> FactoredCredit:
    generator = torch.Generator().manual_seed(2)
    error = torch.randn(samples, classes, generator=generator, dtype=torch.float64)
    feedback = torch.randn(classes, site_shape[-1], generator=generator, dtype=torch.float64)
    return FactoredCredit(error, feedback, site_shape)


@pytest.mark.parametrize("frozen", [(), ("weight",), ("bias",)], ids=lambda names: names or "all learns")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tokens", [(), (4,)])
def test_a_layer_gets_the_gradients_of_the_whole_credit(tokens, bias, frozen):
    layer, credit = nn.Linear(6, 5, bias=bias).double(), a_credit((*tokens, 5))
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_(name not in frozen)
    reads = torch.randn(7, *tokens, 6, dtype=torch.float64, requires_grad=True)
    learns = [reads, *(parameter for parameter in layer.parameters() if parameter.requires_grad)]
    expected = torch.autograd.grad(layer(reads), learns, credit.whole())
    root, scale = credit.on_output_of(layer, reads), torch.tensor(2.0, dtype=torch.float64)
    got = torch.autograd.grad(root, learns, scale)
    for gradient, want in zip(got, expected, strict=True):
        torch.testing.assert_close(gradient, 2 * want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("site_shape", [(5,), (4, 5)])
def test_unit_norm_and_division_are_those_of_the_whole_credit(site_shape):
    credit = a_credit(site_shape)
    credit.error[0] = 0
    torch.testing.assert_close(whole(per_sample_unit(credit)), per_sample_unit(credit.whole()))
    torch.testing.assert_close((credit / 7).whole(), credit.whole() / 7)


def agrees_with_its_whole_credit(model, **options):
    """One step of DFA on the model and on a copy, whose credit is multiplied out."""
    inputs, targets = batch()
    twin, results = copy.deepcopy(model), []
    for method_type, network in ((DFA, model), (WholeDFA, twin)):
        method = method_type(network, torch.Generator().manual_seed(3), **options)
        results.append(method.accumulate(inputs, targets))
    assert torch.equal(results[0].logits, results[1].logits)
    assert_same(gradients(model), gradients(twin))


@pytest.mark.parametrize("freezing", ["none", "blocks", "ladder:1"])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("credit_site", ["written", "read"])
@pytest.mark.parametrize("credit_norm", ["none", "per_sample"])
@pytest.mark.parametrize(
    ("architecture", "changes"), [("resmlp", {}), ("student_net", {}), ("resmlp", {"residual_add": False})]
)
def test_dfa_learns_what_it_would_from_its_whole_credit(
    architecture, changes, credit_norm, credit_site, penalty, freezing
):
    model = freeze(small(architecture, **changes), freezing)
    assert None not in local_pass(model, *batch()).ends
    agrees_with_its_whole_credit(model, credit_norm=credit_norm, credit_site=credit_site, penalty=penalty)


def test_norms_after_the_sum_are_not_taken_for_a_linear_end():
    torch.manual_seed(0)
    model = build_model("resmlp", DataSpec((1, 8, 8), classes=5), width=12, depth=2, norm_position="post").double()
    ends = local_pass(model, *batch()).ends
    assert [end is None for end in ends] == [False, True, True]


class Doubling(nn.Linear):
    def forward(self, inputs):
        return 2 * super().forward(inputs)


class Backwards(nn.Sequential):
    def forward(self, inputs):
        return inputs.flatten(1) @ self[1].weight.T


def doubled(layer):
    layer.register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return layer


def flat(*layers):
    return nn.Sequential(nn.Flatten(), *layers)


STEMS = {
    "another Linear": lambda: flat(Doubling(64, 12)),
    "another Sequential": lambda: Backwards(nn.Flatten(), nn.Linear(64, 12)),
    "a hook on the last layer": lambda: flat(doubled(nn.Linear(64, 12))),
    "a hook on the stem": lambda: doubled(flat(nn.Linear(64, 12))),
    "a parametrized layer": lambda: flat(nn.utils.parametrizations.weight_norm(nn.Linear(64, 12))),
}


@pytest.mark.parametrize("stem", STEMS)
def test_a_stem_that_computes_something_else_is_left_whole(stem):
    plain = small("resmlp")
    torch.manual_seed(0)
    model = BlockModel(STEMS[stem]().double(), plain.blocks, plain.head, plain.data)
    agrees_with_its_whole_credit(model)
    local = local_pass(model, *batch())
    assert local.ends[0] is None
    torch.testing.assert_close(local.logits, model(batch()[0]))


def test_a_stem_of_no_layers_is_left_whole():
    model = BlockModel(nn.Sequential(), [], nn.Linear(8, 5), DataSpec((8,), 5))
    assert local_pass(model, torch.randn(9, 8), batch()[1]).ends == [None]


def with_forward(layer):
    layer.forward = lambda inputs: 2 * nn.Linear.forward(layer, inputs)
    return layer


LASTS = {
    "another Linear": Doubling,
    "a hook": lambda *sizes: doubled(nn.Linear(*sizes)),
    "a parametrized layer": lambda *sizes: nn.utils.parametrizations.weight_norm(nn.Linear(*sizes)),
}


@pytest.mark.parametrize("last", LASTS)
def test_a_block_whose_last_layer_computes_something_else_is_left_whole(last):
    model = small("resmlp")
    model.blocks[1].linear2 = LASTS[last](12, 12).double()
    agrees_with_its_whole_credit(model)
    assert [end is None for end in local_pass(model, *batch()).ends] == [False, False, True, False]


PLAIN_NO_MORE = {
    "forward hook": lambda layer: layer.register_forward_hook(lambda *_: None),
    "forward pre-hook": lambda layer: layer.register_forward_pre_hook(lambda *_: None),
    "backward hook": lambda layer: layer.register_full_backward_hook(lambda *_: None),
    "backward pre-hook": lambda layer: layer.register_full_backward_pre_hook(lambda *_: None),
    "global hook": lambda _: nn.modules.module.register_module_forward_hook(lambda *_: None),
    "compiled": lambda layer: setattr(layer, "_compiled_call_impl", print),  # as `compile` does, which takes seconds
    "another forward": with_forward,
}


@pytest.mark.parametrize("change", PLAIN_NO_MORE)
def test_a_layer_that_may_do_more_than_its_class_is_not_plain(change):
    layer = nn.Linear(2, 2)
    assert is_plain(layer, nn.Linear)
    handle = PLAIN_NO_MORE[change](layer)
    try:
        assert not is_plain(layer, nn.Linear)
    finally:
        if change.endswith("hook"):
            handle.remove()


class Gate(LinearBlock):
    """A block on sites of any shape, by their last axis."""

    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)

    @property
    def last(self):
        return self.gate

    def features(self, hidden):
        return hidden.tanh()


class Axes(nn.Module):
    """(B, 1, 8, 8) to sites of one, two or three axes, the last one 4 long."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def forward(self, inputs):
        return inputs.reshape(len(inputs), *self.shape)


@pytest.mark.parametrize(("shape", "factored"), [((64,), True), ((16, 4), True), ((2, 8, 4), False)])
def test_sites_of_one_two_and_three_axes_are_followed(shape, factored):
    torch.manual_seed(0)
    width = shape[-1]
    stem = nn.Sequential(Axes(shape), nn.Linear(width, width))
    head = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    model = BlockModel(stem, [Gate(width), Gate(width)], head, DataSpec((1, 8, 8), 5)).double()
    agrees_with_its_whole_credit(model)
    local = local_pass(model, *batch())
    credit = build_method("dfa", model).credits_at(local.trace, [1])[0][0]
    assert credit.fits(*local.ends[1]) is factored


class OneForAll(Gate):
    """Its branch is one token, which `join` adds to every token."""

    def features(self, hidden):
        return hidden.mean(dim=1, keepdim=True).tanh()


def test_a_branch_that_is_spread_over_the_tokens_is_followed_whole():
    torch.manual_seed(0)
    stem, head = nn.Sequential(Axes((16, 4)), nn.Linear(4, 4)), nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    agrees_with_its_whole_credit(BlockModel(stem, [OneForAll(4)], head, DataSpec((1, 8, 8), 5)).double())


@pytest.mark.parametrize("base", [Gate, type("Skipless", (SkiplessBlock, Gate), {})])
@pytest.mark.parametrize("name", ["branch", "join"])
def test_a_linear_block_cannot_be_made_to_compute_something_else(name, base):
    with pytest.raises(TypeError, match=f"has a {name} of its own"):
        type("Other", (base,), {name: lambda *_: None})


def test_a_step_multiplies_what_the_factors_need_and_no_more(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    from multiplications import Multiplications

    samples, pixels, width, depth, classes = 128, 3072, 256, 4, 10
    model = build_model("resmlp", DataSpec((3, 32, 32), classes), width=width, depth=depth)
    method = build_method("dfa", model)
    with Multiplications() as counted:
        method.accumulate(torch.randn(samples, 3, 32, 32), torch.randint(classes, (samples,)))
    stem = pixels * (samples * width + samples * classes + classes * width)  # x Wᵀ, eᵀ x, Bᵀ (eᵀ x)
    forward, first_weight = 2 * samples * width**2, samples * width**2
    last = 2 * classes * width**2 + 2 * samples * classes * width  # B W, Bᵀ (eᵀ u); e (B W), eᵀ u
    head, biases = 3 * samples * width * classes, (1 + depth) * classes * width
    assert counted.count == stem + depth * (forward + first_weight + last) + head + biases
