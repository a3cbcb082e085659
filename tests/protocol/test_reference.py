"""The reference gradient is that of the network, whatever backward pass it declares, or there is none."""

import copy
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from agreement import agrees
from own_backward import (
    STYLES,
    Activation,
    ContextStyle,
    fa_network,
    own_credit,
    plain_sequential_of,
    plain_twin,
    sequential_fa,
    with_activation,
)
from small_models import CLASSES, INPUT, WIDTH, Branch, Residual, ResMLP, TokenNet, labelled, sites_of
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

import walkback
from walkback.errors import InputError
from walkback.protocol.finite_differences import DIRECTIONS
from walkback.protocol.records import DiagnosticReport

BLOCKS = sites_of("blocks.0", "blocks.1", "blocks.2")
DATA = labelled(128, 128)


def refused(report):
    """The sentence with which (b) and (c) are not measured."""
    assert report.bp_grad_norms is None
    assert report.reference_fidelity is None
    assert report.drift_shares is None
    readings = [report.reading(letter) for letter in "bc"]
    assert [r.state for r in readings] == [walkback.State.NOT_MEASURED] * 2
    assert len({r.sentence for r in readings}) == 1
    assert report.reading("a").state is walkback.State.PASS
    assert report.reference_check.passed is False
    assert report.reference_check.reason == readings[0].sentence
    return readings[0].sentence


@pytest.mark.parametrize("style", STYLES)
def test_feedback_alignment_by_a_function_is_seen_through(style):
    model = fa_network(style)
    twin = plain_twin(model)
    report = agrees(model, DATA, BLOCKS, reference=twin)
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(twin, DATA).bp_grad_norms, rel=1e-6)
    check = report.reference_check
    assert (check.candidate, check.passed, check.kept) == ("seen_through", True, ())
    assert check.error < 1e-7
    assert check.sites == (0,)


def test_its_alignment_is_the_plain_twins_and_not_one():
    model = fa_network()
    credit = own_credit(model)
    report = walkback.diagnose(model, DATA, credit=credit)
    expected = walkback.diagnose(plain_twin(model), DATA, credit=credit)
    assert report.alignment.sites == pytest.approx(expected.alignment.sites, abs=1e-3)
    assert min(report.alignment.sites) < 0.9
    assert not any("backpropagation" in warning for warning in report.warnings)
    assert report.alignment.mark == ""


def test_a_function_as_a_module_of_a_sequential():
    model = sequential_fa()
    report = walkback.diagnose(model, DATA)
    assert report.bp_grad_norms == pytest.approx(
        walkback.diagnose(plain_sequential_of(model), DATA).bp_grad_norms, rel=1e-6
    )
    assert report.reference_check.seen_through == ("ContextStyle",)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_in_other_precisions(dtype):
    model = fa_network().to(dtype)
    for module in model.modules():
        if hasattr(module, "feedback"):
            module.feedback = module.feedback.to(dtype)
    report, expected = (walkback.diagnose(m, labelled(40, dtype=dtype)) for m in (model, plain_twin(model).to(dtype)))
    assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-6 if dtype == torch.float64 else 0.05)
    assert report.reference_check.passed
    assert report.reference_check.error < 1e-7


@pytest.mark.parametrize("reentrant", [True, False])
def test_under_activation_checkpointing(reentrant):
    class Checkpointed(ResMLP):
        def body(self, hidden):
            for block in self.blocks:
                hidden = checkpoint(block, hidden, use_reentrant=reentrant)
            return hidden

    plain = fa_network()
    model = Checkpointed()
    model.blocks = plain.blocks
    model.load_state_dict(plain.state_dict())
    report = walkback.diagnose(model, DATA)
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(plain_twin(plain), DATA).bp_grad_norms, rel=1e-6)
    assert report.reference_check.seen_through == ("ContextStyle",)


def test_checkpointing_alone_is_no_backward_pass_of_the_networks_own():
    class Checkpointed(ResMLP):
        def body(self, hidden):
            for block in self.blocks:
                hidden = checkpoint(block, hidden, use_reentrant=True)
            return hidden

    check = walkback.diagnose(Checkpointed(), DATA).reference_check
    assert (check.candidate, check.seen_through, check.passed) == ("autograd", (), True)


def hooked(model):
    """Feedback alignment by module hooks: what comes back through a block is replaced."""
    generator = torch.Generator().manual_seed(3)
    for block in model.blocks:
        matrix = torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5
        block.register_full_backward_hook(lambda _m, _in, out, matrix=matrix: (out[0] @ matrix,))
    return model


def test_module_hooks_are_left_out_of_the_reference_and_are_there_for_the_credit():
    model = hooked(ResMLP())
    plain = ResMLP()
    plain.load_state_dict(model.state_dict())
    report = walkback.diagnose(model, DATA, credit=own_credit(model))
    expected = walkback.diagnose(plain, DATA, credit=own_credit(model))
    assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-6)
    assert report.alignment.sites == pytest.approx(expected.alignment.sites, abs=1e-6)
    assert max(report.alignment.sites[:-1]) < 0.9


def test_module_hooks_that_the_forward_pass_registers_are_left_out_too():
    class Registering(ResMLP):
        def body(self, hidden):
            for block in self.blocks:
                block.register_full_backward_hook(lambda _m, grads, _o: tuple(2 * g for g in grads))
                hidden = block(hidden)
            return hidden

    model = Registering()
    agrees(model, DATA, BLOCKS, reference=plain_twin(model))


def test_hooks_for_all_modules_are_left_out():
    model = ResMLP()
    expected = walkback.diagnose(model, DATA)
    handle = nn.modules.module.register_module_full_backward_hook(lambda _m, grads, _o: tuple(3 * g for g in grads))
    try:
        assert walkback.diagnose(model, DATA).bp_grad_norms == expected.bp_grad_norms
    finally:
        handle.remove()


def test_tensor_hooks_in_the_forward_pass_are_seen_through():
    class Hooked(ResMLP):
        def body(self, hidden):
            hidden.register_hook(lambda grad: 5 * grad)
            for block in self.blocks:
                hidden = block(hidden)
                hidden.register_hook(lambda grad: 2 * grad).remove()
                hidden.register_hook(lambda grad: grad.flip(1))
            return hidden

    model = Hooked()
    report = agrees(model, DATA, BLOCKS, reference=plain_twin(model))
    assert report.reference_check.seen_through == ("a tensor hook",)


class DetachedSkip(Residual):
    def forward(self, hidden):
        return hidden.detach() + super().forward(hidden) - hidden


def test_a_detached_skip_is_refused_with_the_block():
    torch.manual_seed(0)
    model = ResMLP()
    model.blocks[1].__class__ = DetachedSkip
    sentence = refused(walkback.diagnose(model, DATA, blocks="blocks.*"))
    assert "contradict it at h_0 to h_1" in sentence
    assert "agree with it at h_2" in sentence
    assert "block 2 (blocks.1) cuts or replaces it (it calls detach)" in sentence
    assert "reference=" in sentence


def test_a_detached_skip_in_every_block_and_its_twin():
    torch.manual_seed(0)
    model = ResMLP(block=DetachedSkip)
    twin = plain_twin(model)
    without = walkback.diagnose(model, DATA, credit=lambda hiddens, _l, _y: hiddens)
    assert "block 3 (blocks.2)" in refused(without)
    assert without.alignment.unavailable == without.reference_check.reason
    report = walkback.diagnose(model, DATA, reference=twin)
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(twin, DATA).bp_grad_norms, rel=1e-6)
    assert report.reference_check.twin


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Spike(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + x.abs()) ** 2


STEPS = {
    "straight through": StraightThrough.apply,
    "spike": Spike.apply,
    "sign": torch.sign,
    "round, straight through by detach": lambda x: x + ((4 * x).round() / 4 - x).detach(),
    "fake quantisation": lambda x: torch.fake_quantize_per_tensor_affine(x.float(), 0.02, 0, -128, 127).to(x.dtype),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("skip", [True, False])
def test_steps_have_no_gradient_to_measure_against(step, skip):
    torch.manual_seed(0)
    block = Residual if skip else Branch
    model = ResMLP(block=lambda: block(activation=Activation(STEPS[step])))
    sentence = refused(walkback.diagnose(model, DATA))
    assert "block 3 (blocks.2)" in sentence
    assert "reference='declared'" in sentence


def test_a_threshold_that_cuts_the_graph():
    model = ResMLP(block=lambda: Branch(activation=Activation(lambda x: (x > 0).to(x.dtype))))
    sentence = refused(walkback.diagnose(model, DATA, blocks="blocks.*"))
    assert "no gradient back to h_0, although the logits depend on it: block 1 (blocks.0) cuts it" in sentence


def test_no_grad_in_a_block():
    class Frozen(Residual):
        def forward(self, hidden):
            with torch.no_grad():
                branch = self.down(self.activation(self.up(self.norm(hidden))))
            return hidden + branch

    model = ResMLP()
    model.blocks[0].__class__ = Frozen
    sentence = refused(walkback.diagnose(model, DATA, blocks="blocks.*"))
    assert "block 1 (blocks.0) cuts or replaces it (it calls no_grad)" in sentence


def test_what_comes_after_the_last_site_is_named():
    class Head(ResMLP):
        def forward(self, inputs):
            hidden = self.norm(self.body(self.stem(inputs)))
            return self.head(0.5 * hidden + 0.5 * hidden.detach())

    sentence = refused(walkback.diagnose(Head(), DATA))
    assert "what comes after the last site (blocks.2) cuts or replaces it (it calls detach)" in sentence


class ByNumpy(Function):
    """A right backward pass for a forward pass that autograd cannot follow."""

    factor = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.tanh(x.numpy()))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ByNumpy.factor * grad * (1 - x.tanh() ** 2)


class ByData(ByNumpy):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.data.tanh()


@pytest.mark.parametrize("function", [ByNumpy, ByData])
def test_a_forward_that_autograd_cannot_follow_keeps_its_declared_backward(function):
    model = with_activation(function.apply)
    report = agrees(model, DATA, BLOCKS, reference=plain_twin(model, block=lambda: Residual(activation=nn.Tanh())))
    check = report.reference_check
    assert (check.candidate, check.seen_through, check.kept) == ("declared", (), (function.__name__,))
    assert "as declared (By" in report.to_markdown()


def test_and_is_refused_where_that_is_wrong(monkeypatch):
    monkeypatch.setattr(ByNumpy, "factor", 1.01)
    sentence = refused(walkback.diagnose(with_activation(ByNumpy.apply), DATA))
    assert "the backward pass of ByNumpy is used as declared" in sentence


def test_one_seen_through_beside_one_kept():
    model = fa_network()
    for block in model.blocks:
        block.activation = Activation(ByNumpy.apply)
    report = agrees(model, DATA, BLOCKS, reference=plain_twin(model, block=lambda: Residual(activation=nn.Tanh())))
    check = report.reference_check
    assert (check.candidate, check.seen_through, check.kept) == ("seen_through", ("ContextStyle",), ("ByNumpy",))


def test_where_seeing_through_is_wrong_the_declared_backward_is_taken():
    class PartlyHidden(Function):
        """tanh, half of it by .data: autograd follows the other half alone."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.tanh() / 2 + x.data.tanh() / 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (1 - x.tanh() ** 2)

    model = with_activation(PartlyHidden.apply)
    report = agrees(model, DATA, BLOCKS, reference=plain_twin(model, block=lambda: Residual(activation=nn.Tanh())))
    assert report.reference_check.candidate == "declared"


def test_the_feedback_may_mix_samples_that_the_network_does_not():
    class Mixing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad.mean(dim=0, keepdim=True).expand_as(grad)

    model = with_activation(Mixing.apply)
    agrees(model, DATA, BLOCKS, reference=plain_twin(model, block=lambda: Residual(activation=nn.Identity())))


def test_kinks_are_left_out_and_counted():
    class Corner(Residual):
        def forward(self, hidden):
            return super().forward(hidden.abs())

    class AtTheCorner(ResMLP):
        def body(self, hidden):
            hidden = hidden * (torch.arange(len(hidden)) % 3 > 0).to(hidden).unsqueeze(1)
            return super().body(hidden)

    check = walkback.diagnose(AtTheCorner(block=Corner), DATA).reference_check
    assert check.passed
    assert check.kinks_discarded > 0
    assert check.directions + check.kinks_discarded == DIRECTIONS


def test_activations_in_place():
    torch.manual_seed(0)
    model = ResMLP(block=lambda: Residual(activation=nn.ReLU(inplace=True)))
    check = agrees(model, DATA, BLOCKS).reference_check
    assert check.passed
    assert check.error < 1e-3


def test_a_random_forward_pass_is_checked_with_the_same_numbers():
    class Noisy(ResMLP):
        def body(self, hidden):
            hidden = self.blocks[0](hidden)
            noise = torch.randn(WIDTH, len(hidden)).to(hidden).t()  # other numbers for other numbers of samples
            return self.blocks[2](self.blocks[1](hidden + 0.3 * noise * hidden.roll(1, 1)))

    assert walkback.diagnose(Noisy(), DATA).reference_check.passed


@pytest.mark.parametrize("kind", ["own generator", "state"])
def test_a_forward_pass_that_gives_another_output_each_time_cannot_be_checked(kind):
    generator, calls = torch.Generator(), itertools.count(1)

    class Restless(ResMLP):
        def body(self, hidden):
            hidden = self.blocks[0](hidden)
            noise = (
                torch.randn(hidden.shape, generator=generator).to(hidden) if kind == "own generator" else next(calls)
            )
            return self.blocks[2](self.blocks[1](hidden + 0.1 * noise * hidden.roll(1, 1)))

    report = walkback.diagnose(Restless(), DATA, credit=lambda hiddens, _l, _y: hiddens)
    assert report.reference_check.passed is None
    assert "two passes over one input differ" in report.reference_check.reason
    assert report.bp_grad_norms is not None
    assert report.alignment.mark.startswith("unchecked: ")


@pytest.mark.parametrize("kind", ["number", "tensor", "written to", "buffer", "list", "dictionary", "new"])
def test_what_a_network_keeps_from_pass_to_pass_is_put_back_before_each(kind):
    """Each pass is that of the network as it came, and so it is left."""

    class Keeping(ResMLP):
        def __init__(self):
            super().__init__()
            self.number, self.tensor, self.states, self.named = 0.0, torch.zeros(()), [0.0], {"state": 0.0}
            self.register_buffer("held", torch.zeros(()))

        def body(self, hidden):
            hidden = hidden + 0.1 * self.advanced() * hidden.roll(1, 1)
            return super().body(hidden)

        def advanced(self):
            if kind == "number":
                self.number += 1
            elif kind == "tensor":
                self.tensor = self.tensor + 1
            elif kind == "written to":
                self.tensor.add_(1)
            elif kind == "buffer":
                self.held += 1
            elif kind == "list":
                self.states[0] += 1
            elif kind == "dictionary":
                self.named["state"] += 1
            else:
                self.fresh = getattr(self, "fresh", 0) + 1
            return (
                self.number + self.tensor + self.states[0] + self.named["state"] + self.held + getattr(self, "fresh", 0)
            )

    torch.manual_seed(0)
    model = Keeping()
    tensor, held = model.tensor, model.held
    report = walkback.diagnose(model, DATA)
    assert report.reference_check.passed is True
    assert (model.number, model.states, model.named, hasattr(model, "fresh")) == (0.0, [0.0], {"state": 0.0}, False)
    assert model.tensor is tensor
    assert model.held is held
    assert float(tensor) == float(held) == 0.0

    class Once(Keeping):
        def advanced(self):
            return 1.0

    torch.manual_seed(0)
    assert report.residual_norms == pytest.approx(walkback.diagnose(Once(), DATA).residual_norms, rel=1e-6)


def test_half_precision_inside_cannot_be_checked():
    class Half(ResMLP):
        def body(self, hidden):
            for block in self.blocks:
                hidden = block(hidden).bfloat16().to(hidden.dtype)
            return hidden

    report = walkback.diagnose(Half(), DATA)
    assert report.reference_check.passed is None
    assert "computes in bfloat16" in report.reference_check.reason
    assert "unchecked: The check could not be made" in report.to_markdown().replace("\\", "")


class InSingle(ResMLP):
    """Computes in fp32 whatever its parameters are in, as norms and softmaxes of language models do."""

    def body(self, hidden):
        for block in self.blocks:
            hidden = hidden + block(hidden.float().tanh().to(hidden.dtype)).float().to(hidden.dtype)
        return hidden

    def forward(self, inputs):
        return super().forward(inputs).float()


def test_fp32_inside_is_checked_over_larger_steps():
    check = walkback.diagnose(InSingle(), DATA).reference_check
    assert check.passed
    assert check.error < 1e-2


def test_a_wrong_gradient_is_found_under_fp32_inside():
    model = InSingle(block=DetachedSkip)
    assert "it calls detach" in refused(walkback.diagnose(model, DATA))


def test_a_network_that_does_not_go_in_fp64_is_checked_in_its_own_precision():
    class Single(ResMLP):
        def body(self, hidden):
            for block in self.blocks:
                hidden = block(hidden.float())
            return hidden

    report = walkback.diagnose(Single(), DATA)
    assert report.reference_fidelity is None
    assert report.reference_check.passed
    assert report.reference_check.error < 0.05


def test_a_network_that_finite_differences_cannot_be_taken_of_is_said_to_be_unchecked():
    class Counting(ResMLP):
        """Refuses to run without gradients."""

        def body(self, hidden):
            if not torch.is_grad_enabled():
                raise RuntimeError("only with gradients")
            return super().body(hidden)

    report = walkback.diagnose(Counting(), DATA)
    assert report.reference_check.passed is None
    assert "The check could not be made: only with gradients" in report.reference_check.reason
    assert report.bp_grad_norms is not None


def test_a_loss_that_detaches_is_named():
    def weighted(logits, targets):
        return F.cross_entropy(logits, targets, reduction="none") * (1 - logits.softmax(1).amax(1)).detach()

    assert "The gradient of loss= at the logits is not its derivative" in refused(
        walkback.diagnose(ResMLP(), DATA, loss=weighted)
    )


@pytest.mark.parametrize(
    "loss",
    [
        lambda logits, targets: (logits - F.one_hot(targets, CLASSES)).abs().mean(1),
        lambda logits, targets: F.cross_entropy(logits.float(), targets, reduction="none"),
    ],
    ids=["with kinks", "in fp32"],
)
def test_other_losses_pass(loss):
    assert walkback.diagnose(ResMLP(), DATA, loss=loss).reference_check.passed


# reference=


def test_a_twin_gives_the_gradient_and_the_network_everything_else():
    model = fa_network()
    twin = plain_twin(model)
    report = walkback.diagnose(model, DATA, reference=twin, credit=own_credit(model))
    expected = walkback.diagnose(twin, DATA, credit=own_credit(model))
    for name in ("residual_norms", "bp_grad_norms", "drift_shares", "error_size", "reference_fidelity"):
        assert getattr(report, name) == pytest.approx(getattr(expected, name), rel=1e-6), name
    assert report.alignment.sites == pytest.approx(expected.alignment.sites, abs=1e-6)
    assert (report.reference_check.twin, report.reference_check.passed) == (True, True)
    assert "of the twin; checked by finite differences" in report.to_text()


class Renamed(nn.Module):
    """The same function under other names."""

    def __init__(self, plain):
        super().__init__()
        self.embed, self.layers, self.end = plain.stem, plain.blocks, nn.Sequential(plain.norm, plain.head)

    def forward(self, inputs):
        hidden = self.embed(inputs)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.end(hidden)


def test_a_twin_under_other_names_in_fp64_is_found_by_its_structure():
    model = fa_network()
    twin = Renamed(plain_twin(model)).double()
    report = walkback.diagnose(model, DATA, reference=twin)
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(plain_twin(model), DATA).bp_grad_norms, rel=1e-5)


def test_a_twin_for_some_of_the_sites():
    model = fa_network()
    twin = plain_twin(model)
    report = walkback.diagnose(model, DATA, reference=twin, sites=[1, 3])
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(twin, DATA, sites=[1, 3]).bp_grad_norms, rel=1e-6)


def shifted(model):
    other = plain_twin(model)
    with torch.no_grad():
        other.blocks[1].up.bias += 0.01
    return other


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (shifted, "gives other logits than the network"),
        (lambda model: ResMLP(depth=2), "has 3 sites .* where the network has 4"),
        (lambda model: "plain", "reference= is 'plain'; expected a plain twin"),
        (lambda model: 3, "reference= is 3; expected a plain twin"),
    ],
)
def test_what_is_no_twin(reference, message):
    model = fa_network()
    with pytest.raises(InputError, match=message):
        walkback.diagnose(model, DATA, reference=reference(model))


def test_a_twin_with_another_stream():
    model = ResMLP()
    for part in (model.head.weight, model.head.bias):
        nn.init.zeros_(part)
    other = copy.deepcopy(model)
    nn.init.normal_(other.blocks[0].up.weight)
    with pytest.raises(InputError, match=r"holds something else at the site 'blocks\.0'"):
        walkback.diagnose(model, DATA, reference=other)


def test_a_twin_that_is_none_either():
    model = fa_network()
    twin = plain_twin(model)
    twin.blocks[1].__class__ = DetachedSkip
    sentence = refused(walkback.diagnose(model, DATA, reference=twin))
    assert sentence.startswith("The gradient of the twin, reference=, cannot")


def test_the_declared_backward_is_kept_for_alignment_alone():
    model = with_activation(Spike.apply)
    report = walkback.diagnose(model, DATA, reference="declared", credit=own_credit(model))
    assert report.alignment.sites == pytest.approx([1.0] * 4)
    assert report.alignment.mark.startswith("unchecked: ")
    assert report.bp_grad_norms is None
    for letter in "bc":
        assert report.reading(letter).state is walkback.State.NOT_MEASURED
        assert "reference='declared'" in report.reading(letter).sentence
    assert not any("backpropagation" in warning for warning in report.warnings)
    assert (report.reference_check.candidate, report.reference_check.passed) == ("declared", None)
    assert "as declared; unchecked" in report.to_text()


# gradients=False


def test_without_gradients_no_backward_pass_runs():
    class NoWayBack(Function):
        @staticmethod
        def forward(ctx, x):
            return x.data.tanh()

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError("no gradient was asked for")

    model = with_activation(NoWayBack.apply)
    expected = walkback.diagnose(plain_twin(model, block=lambda: Residual(activation=nn.Tanh())), DATA)
    report = walkback.diagnose(model, DATA, gradients=False)
    assert report.residual_norms == pytest.approx(expected.residual_norms, rel=1e-6)
    assert report.headline_acc == expected.headline_acc
    assert report.reading("a").state is walkback.State.PASS
    for letter in "bc":
        assert report.reading(letter).state is walkback.State.NOT_MEASURED
        assert "gradients=False" in report.reading(letter).sentence
    assert report.alignment.unavailable.startswith("by design")
    assert report.reference_check.candidate == "none"
    assert report.verdict == "trustworthy"


def test_forward_forward():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, hidden):
            return F.relu(self.linear(hidden.detach()))

    report = walkback.diagnose(ResMLP(block=Layer), DATA, gradients=False, blocks="blocks.*")
    assert len(report.residual_norms) == 4
    assert report.headline_acc is not None


@pytest.mark.parametrize("reads", ["class_token", "all"])
def test_without_gradients_the_class_token_is_found_by_moving_the_others(reads):
    data = labelled(40, shape=(5, INPUT))
    model = TokenNet(reads=reads)
    report, expected = walkback.diagnose(model, data, gradients=False), walkback.diagnose(model, data)
    assert report.site_reduction == expected.site_reduction
    assert report.residual_norms == pytest.approx(expected.residual_norms, rel=1e-6)


def test_nan_in_the_logits_fires_without_gradients():
    class Broken(ResMLP):
        def forward(self, inputs):
            return super().forward(inputs) * float("nan")

    report = walkback.diagnose(Broken(), DATA, gradients=False)
    assert report.verdict == "needs walk-back: non-finite values"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gradients": False, "credit": lambda h, _l, _y: h}, "gradients=False measures no gradient, and credit= is"),
        ({"gradients": False, "reference": "declared"}, "and reference= is about one"),
        ({"gradients": 0}, "gradients= is 0; expected True or False"),
    ],
)
def test_arguments_that_contradict_each_other(arguments, message):
    with pytest.raises(InputError, match=message):
        walkback.diagnose(ResMLP(), DATA, **arguments)


# the record


def test_the_check_is_in_every_rendering_and_in_the_record(tmp_path):
    report = walkback.diagnose(fa_network(), DATA)
    line = "seen through custom backward (ContextStyle); checked by finite differences, largest error"
    page = report.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    for rendering in (" ".join(report.to_text().split()), report.to_markdown(), report.to_latex(), page):
        assert "reference gradient" in rendering
        assert line in rendering
    assert DiagnosticReport.load(report.save(tmp_path / "r.json")) == report


def test_a_report_from_before_the_check_is_read_as_it_was():
    old = walkback.diagnose(ResMLP(), DATA).to_dict()
    del old["reference_check"]
    read = DiagnosticReport.from_dict(old)
    assert read.reference_check is None
    assert "reference gradient" not in str(read)
    assert walkback.judge(read.measurements).readings == read.readings


def test_what_was_patched_is_put_back_after_an_error():
    from torch.autograd.function import _SingleLevelFunction

    before, hook = dict(_SingleLevelFunction.__dict__), torch.Tensor.register_hook
    with pytest.raises(RuntimeError, match="mine"):
        walkback.diagnose(with_activation(Failing.apply), DATA)
    assert dict(_SingleLevelFunction.__dict__) == before
    assert torch.Tensor.register_hook is hook
    x = torch.ones(2, 3, requires_grad=True)
    out = ContextStyle.apply(x, torch.eye(3), torch.zeros(3), 5 * torch.eye(3))
    assert torch.autograd.grad(out.sum(), x)[0].unique().item() == 5


class Failing(Function):
    @staticmethod
    def forward(ctx, x):
        raise RuntimeError("mine")

    @staticmethod
    def backward(ctx, grad):
        return grad


class Pair(ResMLP):
    """(features, logits), scaled by an argument."""

    def forward(self, x, scale=1.0):
        logits = super().forward(x) * scale
        return x[:, :CLASSES], logits


@pytest.mark.parametrize("arguments", [{"logits": 1}, {"logits": -1, "forward_kwargs": {"scale": 2.0}}])
def test_the_check_calls_the_network_as_it_is_measured(arguments):
    report = walkback.diagnose(Pair(), DATA, **arguments)
    assert report.reference_check.passed is True
    assert report.reference_check.error < 1e-6
    cut = Pair()
    cut.blocks[1] = DetachedSkip()
    assert "block 2 (blocks.1) cuts or replaces it" in refused(walkback.diagnose(cut, DATA, **arguments))
    twin = Pair()
    twin.load_state_dict(cut.state_dict())
    report = walkback.diagnose(cut, DATA, reference=twin, **arguments)
    plain = walkback.diagnose(twin, DATA, **arguments)
    assert report.bp_grad_norms == pytest.approx(plain.bp_grad_norms, rel=1e-6)


def test_a_twin_that_returns_bare_logits():
    cut = Pair()
    cut.blocks[1] = DetachedSkip()
    twin = ResMLP()
    twin.load_state_dict(cut.state_dict())
    report = walkback.diagnose(cut, DATA, logits=1, reference=twin)
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(twin, DATA).bp_grad_norms, rel=1e-6)


class Labelled(ResMLP):
    """(logits, loss) with targets; without them other logits."""

    def forward(self, x, targets=None):
        logits = super().forward(x)
        return (logits[:, :2], None) if targets is None else (logits, F.cross_entropy(logits, targets))


@pytest.mark.parametrize("kind", [Labelled, ResMLP])
def test_a_twin_of_a_network_that_needs_its_labels(kind):
    cut, twin, plain = Labelled(), kind(), ResMLP()
    cut.blocks[1] = DetachedSkip()
    for other in (twin, plain):
        other.load_state_dict(cut.state_dict())
    report = walkback.diagnose(cut, DATA, reference=twin)
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(plain, DATA).bp_grad_norms, rel=1e-6)


class Siamese(nn.Module):
    def __init__(self, detached=False):
        super().__init__()
        self.encoder = nn.ModuleList(nn.Linear(INPUT, INPUT) for _ in range(3))
        self.head, self.detached = nn.Linear(2 * INPUT, CLASSES), detached

    def encoded(self, x):
        for number, layer in enumerate(self.encoder):
            x = torch.tanh(layer(x))
            x = x.detach() + 0 * x if self.detached and number == 1 else x
        return x

    def forward(self, one, other):
        return self.head(torch.cat([self.encoded(one), self.encoded(other)], dim=1))


def test_a_twin_whose_second_call_is_meant():
    data = [((x, x.flip(1)), y) for x, y in DATA]
    cut, twin = Siamese(detached=True), Siamese()
    twin.load_state_dict(cut.state_dict())
    calls = {"blocks": "encoder.0#2,encoder.1#2,encoder.2#2"}
    report = walkback.diagnose(cut, data, reference=twin, **calls)
    assert report.bp_grad_norms == pytest.approx(walkback.diagnose(twin, data, **calls).bp_grad_norms, rel=1e-6)


class Counting:
    """A loss that grows with each call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, logits, targets):
        self.calls += 1
        return F.cross_entropy(logits, targets, reduction="none") * self.calls


@pytest.mark.parametrize(
    "loss",
    [
        lambda logits, targets: F.cross_entropy(logits, targets, reduction="none") / len(targets),
        lambda logits, targets: F.cross_entropy(logits, targets, reduction="none") / (targets + 1).sum(),
        Counting(),
    ],
    ids=["mean", "weighted mean", "state"],
)
@pytest.mark.parametrize("size", [2, 128])
def test_a_loss_that_looks_beyond_its_sample_is_named(loss, size):
    report = walkback.diagnose(ResMLP(), [(x[:size], y[:size]) for x, y in DATA], loss=loss)
    sentence = refused(report)
    assert sentence.startswith("loss= gives one sample ")
    assert "depends on that sample alone" in sentence
    assert "divide by the size of the batch" in sentence


def test_targets_that_are_numbers_come_in_the_precision_of_the_logits():
    class Chances(ResMLP):
        def forward(self, x):
            return torch.sigmoid(super().forward(x))

    def loss(chances, targets):  # torch wants both in one precision
        return F.binary_cross_entropy(chances, targets, reduction="none").mean(dim=1)

    data = [(x, F.one_hot(y, CLASSES).float()) for x, y in DATA]
    report = walkback.diagnose(Chances(), data, loss=loss)
    assert report.reference_check.passed is True
    assert report.reference_fidelity == pytest.approx((1,) * 4, abs=1e-6)


def test_a_loss_that_fails_is_told_what_it_was_given():
    data = [(x, F.one_hot(y, CLASSES)) for x, y in DATA]

    def loss(logits, targets):
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(dim=1)

    with pytest.raises(InputError, match=r"loss= failed on logits of shape .* targets of shape .*int64.*convert them"):
        walkback.diagnose(ResMLP(), data, loss=loss)
    ready = lambda logits, targets: loss(logits, targets.to(logits))  # noqa: E731
    assert walkback.diagnose(ResMLP(), data, loss=ready).reference_check.passed is True
