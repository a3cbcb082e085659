"""Credit as two factors: the same gradients as the whole credit gives, in fewer multiplications."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from zoo_networks import assert_same, batch, gradients, small

from walkback.registry import ARCHITECTURES
from walkback.zoo import BlockModel, DataSpec, build_method, build_model, freeze
from walkback.zoo.methods.credit_forms import FactoredCredit, per_sample_unit, whole
from walkback.zoo.methods.dfa import DFA
from walkback.zoo.methods.local_step import local_pass


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
    got = torch.autograd.grad(credit.on_output_of(layer, reads), learns)
    for gradient, want in zip(got, expected, strict=True):
        torch.testing.assert_close(gradient, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("site_shape", [(5,), (4, 5)])
def test_unit_norm_and_division_are_those_of_the_whole_credit(site_shape):
    credit = a_credit(site_shape)
    credit.error[0] = 0
    torch.testing.assert_close(whole(per_sample_unit(credit)), per_sample_unit(credit.whole()))
    torch.testing.assert_close((credit / 7).whole(), credit.whole() / 7)


@pytest.mark.parametrize("freezing", ["none", "blocks"])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("credit_site", ["written", "read"])
@pytest.mark.parametrize("credit_norm", ["none", "per_sample"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_dfa_learns_what_it_would_from_its_whole_credit(architecture, credit_norm, credit_site, penalty, freezing):
    model, (inputs, targets) = freeze(small(architecture), freezing), batch()
    twin, results = copy.deepcopy(model), []
    for method_type, network in ((DFA, model), (WholeDFA, twin)):
        method = method_type(
            network,
            torch.Generator().manual_seed(3),
            credit_norm=credit_norm,
            credit_site=credit_site,
            penalty=penalty,
        )
        results.append(method.accumulate(inputs, targets))
    assert torch.equal(results[0].logits, results[1].logits)
    assert_same(gradients(model), gradients(twin))


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


@pytest.mark.parametrize(
    "stem",
    [nn.Sequential(nn.Flatten(), Doubling(64, 12)), Backwards(nn.Flatten(), nn.Linear(64, 12)), nn.Sequential()],
    ids=["another Linear", "another Sequential", "no layer"],
)
def test_a_stem_that_may_compute_something_else_is_left_whole(stem):
    plain = small("resmlp")
    inputs, targets = batch()
    if not len(stem):
        inputs = inputs[:, 0, 0, :]
        plain.blocks, plain.head = plain.blocks[:0], nn.Linear(8, 5).double()
    model = BlockModel(stem.double(), plain.blocks, plain.head, plain.data)
    local = local_pass(model, inputs, targets)
    assert local.ends[0] is None
    torch.testing.assert_close(local.writes[0], stem(inputs))


def multiplications(method: str) -> int:
    torch.manual_seed(0)
    model = build_model("resmlp", DataSpec((3, 32, 32), classes=10))
    with FlopCounterMode(display=False) as counter:
        build_method(method, model).accumulate(torch.randn(128, 3, 32, 32), torch.randint(10, (128,)))
    return counter.get_total_flops()


def test_dfa_multiplies_less_than_backprop():
    # The products of the rule with whole credits come to 0.92 of backpropagation's; factored they are fewer.
    assert multiplications("dfa") < 0.92 * multiplications("bp")
