import pytest
import torch
from torch import nn

from walkback.lab.zoo.architectures.normed_linear import normed_linear


@pytest.mark.parametrize("tracked", [True, False])
def test_folding_changes_neither_the_value_nor_any_gradient(tracked):
    torch.manual_seed(0)
    norm, linear = nn.LayerNorm(6).double(), nn.Linear(6, 4).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    hidden = torch.randn(5, 6, dtype=torch.float64, requires_grad=tracked)
    pull = torch.randn(5, 4, dtype=torch.float64)
    parameters = [*norm.parameters(), *linear.parameters()]
    wanted = [*parameters, hidden] if tracked else parameters
    plain = linear(norm(hidden))
    ours = normed_linear(norm, linear, hidden)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    expected = torch.autograd.grad(plain, wanted, pull)
    for got, want in zip(torch.autograd.grad(ours, wanted, pull), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_a_detached_state_needs_no_gradient_at_the_norms_output():
    norm, linear = nn.LayerNorm(6), nn.Linear(6, 4)
    graph, names = [normed_linear(norm, linear, torch.randn(5, 6)).grad_fn], []
    while graph:
        node = graph.pop()
        names.append(type(node).__name__)
        graph += [parent for parent, _ in node.next_functions if parent is not None]
    assert not any("LayerNorm" in name for name in names)


@pytest.mark.parametrize("hooked", [0, 1], ids=["norm", "linear"])
def test_a_layer_with_a_hook_is_called_as_it_is(hooked):
    norm, linear = nn.LayerNorm(6), nn.Linear(6, 4)
    (norm, linear)[hooked].register_forward_hook(lambda _module, _inputs, output: 2 * output)
    hidden = torch.randn(5, 6)
    torch.testing.assert_close(normed_linear(norm, linear, hidden), linear(norm(hidden)))


@pytest.mark.parametrize(
    ("norm", "linear"),
    [
        (nn.LayerNorm(6, bias=False), nn.Linear(6, 4)),
        (nn.LayerNorm(6, elementwise_affine=False), nn.Linear(6, 4)),
        (nn.LayerNorm(6), nn.Linear(6, 4, bias=False)),
        (nn.LayerNorm((3, 6)), nn.Linear(6, 4)),
    ],
    ids=["no bias", "nothing to fold", "a linear without bias", "two axes"],
)
def test_layers_that_lack_what_is_folded_are_called_as_they_are(norm, linear):
    hidden = torch.randn(5, 3, 6)
    torch.testing.assert_close(normed_linear(norm, linear, hidden), linear(norm(hidden)))
