"""Models in every floating dtype: what is measured is the network's gradient, not its rounding."""

import copy

import pytest
import torch
from agreement import agrees
from small_models import CLASSES, ResMLP, labelled, sites_of
from torch import nn

import walkback
from walkback.protocol.fidelity import _agreement

BLOCKS = sites_of("blocks.0", "blocks.1", "blocks.2")


def true_gradient(model):
    """The gradient in fp64 as credit: Γ is then the cosine between it and what is measured."""
    model = copy.deepcopy(model).double()

    @torch.enable_grad()
    def credit(hiddens, logits, targets):
        sites = [hiddens[0].detach().double().requires_grad_()]
        for block in model.blocks:
            sites.append(block(sites[-1]))
        loss = nn.functional.cross_entropy(model.head(model.norm(sites[-1])), targets, reduction="sum")
        return torch.autograd.grad(loss, sites)

    return credit


def small_gradients(shrink=1e-5):
    """A network whose fp32 weights fit fp16, and whose gradient entries at the sites are about 1e-9."""
    model = ResMLP()
    with torch.no_grad():
        model.norm.weight.mul_(shrink * 10)
        model.head.weight.mul_(shrink * 10)
    return model


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.bfloat16, 0.05), (torch.float16, 0.01)])
def test_half_models_agree_with_their_double_twin(dtype, rtol):
    model = ResMLP().to(dtype)
    exact = copy.deepcopy(model).double()
    batches = labelled(64, 40, dtype=dtype)
    rounded = walkback.diagnose(model, batches)
    reference = walkback.diagnose(exact, [(x.double(), y) for x, y in batches])
    assert rounded.residual_norms == pytest.approx(reference.residual_norms, rel=rtol)
    assert rounded.bp_grad_norms == pytest.approx(reference.bp_grad_norms, rel=rtol)
    assert rounded.provenance["precision"] == str(dtype).removeprefix("torch.")
    assert 0.99 < min(rounded.reference_fidelity) < 1


def test_gradients_of_an_fp16_model_do_not_underflow():
    model = small_gradients().half()
    exact = copy.deepcopy(model).double()
    batches = labelled(64, 40, dtype=torch.float16)
    rounded = walkback.diagnose(model, batches, credit=true_gradient(exact))
    reference = walkback.diagnose(exact, [(x.double(), y) for x, y in batches])
    assert reference.bp_grad_norms[-1] * 128 < 3e-8
    assert rounded.bp_grad_norms == pytest.approx(reference.bp_grad_norms, rel=0.03)
    assert min(rounded.alignment.sites) > 0.99
    assert min(rounded.reference_fidelity) > 0.99


def test_the_naive_fp16_gradient_is_zero():
    # Without this, the test above would show nothing.
    model = small_gradients().half().eval()
    (x, y), *_ = labelled(64, dtype=torch.float16)
    sites = []
    model.blocks[2].register_forward_hook(lambda _m, _a, out: sites.append(out))
    loss = nn.functional.cross_entropy(model(x).float(), y)
    assert not torch.autograd.grad(loss, sites)[0].any()


def test_gradients_of_an_fp16_model_do_not_overflow():
    # A tiny stream that every block multiplies: entries of g_0 are beyond the largest fp16 number.
    class Amplify(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8, bias=False)
            nn.init.orthogonal_(self.linear.weight, gain=70)

        def forward(self, hidden):
            return self.linear(hidden)

    model = ResMLP(block=Amplify)
    model.norm = nn.Identity()
    with torch.no_grad():
        model.stem.weight.mul_(1e-5)
        model.stem.bias.zero_()
    model = model.half()
    batches = labelled(40, dtype=torch.float16)
    exact = copy.deepcopy(model).double()
    rounded = walkback.diagnose(model, batches, credit=true_gradient(exact))
    reference = walkback.diagnose(exact, [(x.double(), y) for x, y in batches])
    assert reference.bp_grad_norms[0] * 128 > 65504
    assert rounded.bp_grad_norms == pytest.approx(reference.bp_grad_norms, rel=0.03)
    assert min(rounded.alignment.sites) > 0.99


def test_one_sample_of_an_fp16_model_with_a_large_gradient_does_not_drown_the_others():
    model = ResMLP().half()
    with torch.no_grad():
        model.norm = nn.Identity()
        model.head.weight.mul_(30)
    (x, y), *_ = labelled(40, dtype=torch.float16)
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        # All but one sample are right by a wide margin: their errors are tiny, one error is not.
        y = exact(x.double()).argmax(dim=1)
        y[0] = (y[0] + 1) % CLASSES
    rounded = walkback.diagnose(model, [(x, y)], credit=true_gradient(exact))
    reference = walkback.diagnose(exact, [(x.double(), y)])
    assert reference.bp_grad_norms[-1] < 1e-6
    # The rounding of the logits themselves is a relative change of small errors: hence the wide tolerance.
    assert rounded.bp_grad_norms == pytest.approx(reference.bp_grad_norms, rel=0.2)
    assert min(rounded.alignment.sites) > 0.98


def test_a_confident_fp32_model():
    """Errors down to 1e-30 and below: neither clamped nor lost on the way back."""
    model = ResMLP().double()
    with torch.no_grad():
        model.head.weight.mul_(120)
    batches = labelled(40, dtype=torch.float64)
    x, _ = batches[0]
    with torch.no_grad():
        y = model.eval()(x).argmax(dim=1)
    reference = walkback.diagnose(model, [(x, y)])
    rounded = walkback.diagnose(model.float(), [(x.float(), y)])
    assert reference.error_size < 1e-12
    assert rounded.bp_grad_norms == pytest.approx(reference.bp_grad_norms, rel=1e-2)
    assert min(rounded.reference_fidelity) > 0.999


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_streams_far_from_one(scale):
    class Scaled(ResMLP):
        def body(self, hidden):
            return super().body(hidden * scale)

    class Linearly(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8, bias=False)

        def forward(self, hidden):
            return hidden + self.linear(hidden)

    model = Scaled(block=Linearly)
    model.norm = nn.Identity()
    model.head = nn.Linear(8, CLASSES, bias=False)
    plain = ResMLP(block=Linearly)
    plain.norm = nn.Identity()
    plain.head = nn.Linear(8, CLASSES, bias=False)
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        model.head.weight.div_(scale)
    batches = labelled(40)
    got, expected = walkback.diagnose(model, batches), walkback.diagnose(plain, batches)
    assert got.residual_norms == pytest.approx([n * scale for n in expected.residual_norms], rel=1e-4)
    assert got.bp_grad_norms == pytest.approx([g / scale for g in expected.bp_grad_norms], rel=1e-4)
    assert got.drift_shares == pytest.approx(expected.drift_shares, abs=1e-4)
    assert got.scale_free_gradients == pytest.approx(expected.scale_free_gradients, rel=1e-4)


def test_under_autocast():
    model, batches = ResMLP(), labelled(64, 40)
    plain = walkback.diagnose(model, batches)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        report = walkback.diagnose(model, batches)
    assert report.bp_grad_norms == pytest.approx(plain.bp_grad_norms, rel=0.05)
    assert report.bp_grad_norms != plain.bp_grad_norms
    assert 0.99 < min(report.reference_fidelity) < 1
    assert not torch.is_autocast_enabled("cpu")


def test_a_model_that_autocasts_by_itself():
    class Autocasting(ResMLP):
        def forward(self, inputs):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(inputs)

    model, plain = Autocasting(), ResMLP()
    plain.load_state_dict(model.state_dict())
    report, expected = walkback.diagnose(model, labelled(64)), walkback.diagnose(plain, labelled(64))
    assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=0.05)


def test_float_inputs_follow_the_model():
    model = ResMLP().double()
    agrees(model, [(x.double(), y) for x, y in labelled(20)], BLOCKS, rtol=1e-9)
    same = walkback.diagnose(model, labelled(20, dtype=torch.float32))
    assert same.provenance["precision"] == "float64"
    assert same.residual_norms == pytest.approx(
        walkback.diagnose(model, labelled(20, dtype=torch.float64)).residual_norms, rel=1e-6
    )


@pytest.mark.parametrize("rounded", [torch.float32, torch.float64])
def test_where_fp64_itself_underflows_a_gradient_says_nothing_against_the_other(rounded):
    """Very confident networks have gradients at the end of fp64's range: zero in one pass and 1e-308 in the other."""
    exact = torch.zeros(3, 4, dtype=torch.float64)
    mine = torch.zeros(3, 4, dtype=rounded)
    exact[0], mine[0] = 1.0, 1.0
    exact[1] = 3e-307  # of a pass that divides what it scaled
    exact[2] = 1e-40  # lost in fp32, and far from lost in fp64
    assert _agreement(mine, exact).tolist() == pytest.approx([1.0, 1.0, 0.0])
    mine[1, 0] = 1e-9  # a direction that only rounding made
    assert _agreement(mine, exact)[1] < 0.9
    assert _agreement(torch.full((1, 4), float("nan")), exact[:1]).tolist() == [0.0]
