"""A diagnosis leaves the model, its gradients and hooks, and every random generator exactly as they were."""

import copy
import random

import numpy as np
import pytest
import torch
from agreement import agrees
from small_models import CLASSES, INPUT, WIDTH, ConvNet, DropoutResMLP, Residual, ResMLP, labelled, sites_of
from torch import nn
from torch.autograd.function import _SingleLevelFunction

import walkback

BLOCKS = sites_of("blocks.0", "blocks.1", "blocks.2")
HOOKS = [
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs",
]  # fmt: skip


class Snapshot:
    """All of the state that a diagnosis could disturb."""

    def __init__(self, model):
        self.model = model
        self.keys = list(model.state_dict())
        self.tensors = {name: (tensor, tensor.detach().clone()) for name, tensor in self._tensors()}
        self.flags = {name: module.training for name, module in model.named_modules()}
        self.wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        self.grads = {
            name: (p.grad, None if p.grad is None else p.grad.clone()) for name, p in model.named_parameters()
        }
        self.hooks = {
            (name, hook): (getattr(module, hook), list(getattr(module, hook).items()))
            for name, module in model.named_modules()
            for hook in HOOKS
        }
        self.attributes = {name: set(module.__dict__) for name, module in model.named_modules()}
        self.random = self._random()
        self.modes = self._modes()

    def _tensors(self):
        return [*self.model.named_parameters(), *self.model.named_buffers()]

    @staticmethod
    def _random():
        return random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()  # noqa: NPY002

    @staticmethod
    def _modes():
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.backends.mha.get_fastpath_enabled(),
            torch.utils.checkpoint.CheckpointFunction,
            torch.Tensor.register_hook,
            dict(_SingleLevelFunction.__dict__),
            torch.nn.modules.module._global_backward_hooks,
        )

    def check(self):
        assert self._modes() == self.modes
        assert self._random() == self.random
        assert list(self.model.state_dict()) == self.keys
        for name, tensor in self._tensors():
            before, value = self.tensors[name]
            assert tensor is before, name
            assert tensor.is_leaf, name
            assert tensor.detach().numpy().tobytes() == value.numpy().tobytes(), name
        assert {name: module.training for name, module in self.model.named_modules()} == self.flags
        assert {name: p.requires_grad for name, p in self.model.named_parameters()} == self.wanted
        for name, parameter in self.model.named_parameters():
            grad, value = self.grads[name]
            assert parameter.grad is grad, name
            assert grad is None or torch.equal(grad, value), name
        for name, module in self.model.named_modules():
            assert set(module.__dict__) == self.attributes[name], name
            for hook in HOOKS:
                store, items = self.hooks[name, hook]
                assert getattr(module, hook) is store
                assert list(getattr(module, hook).items()) == items


def in_the_middle_of_training():
    """A model with mixed modes, some gradients, frozen parts, and other people's hooks."""
    model = DropoutResMLP()
    model.register_buffer("seen", torch.zeros(3))
    model(torch.randn(4, INPUT)).sum().backward()
    model.blocks[0].zero_grad()
    model.head.requires_grad_(False)
    model.train()
    model.blocks[1].eval()
    model.blocks[2].activation[1].eval()
    model.blocks[0].register_forward_hook(lambda _m, _a, _out: None)
    model.blocks[0].register_forward_pre_hook(lambda _m, _a, _k: None, with_kwargs=True)
    model.blocks[0].register_full_backward_hook(lambda _m, _i, _o: None)
    model.norm.register_full_backward_pre_hook(lambda _m, _o: None)
    return model


def test_after_a_diagnosis():
    model = in_the_middle_of_training()
    before = Snapshot(model)
    walkback.diagnose(model, labelled(20, 7))
    before.check()


class StopError(Exception):
    """Somebody's own error."""


class FailsLater(DropoutResMLP):
    """Raises in the middle of the forward pass of a third batch, which has 15 samples."""

    def __init__(self):
        super().__init__()
        self.error = None

    def body(self, hidden):
        hidden = self.blocks[0](hidden)
        if self.error is not None and len(hidden) == 15:
            raise self.error
        return self.blocks[2](self.blocks[1](hidden))


def for_the_third(action, error):
    """A function of (…, targets) that raises for the batch of 15."""

    def wrapped(*args):
        if len(args[-1]) == 15:
            raise error
        return action(*args)

    return wrapped


def per_sample_loss(logits, targets):
    return nn.functional.cross_entropy(logits, targets, reduction="none")


def interrupted(batches, error):
    yield from batches[:2]
    raise error


def failing(where, error):
    """(model, batches, options) of a diagnosis that breaks during its third batch."""
    model, batches, options = FailsLater(), labelled(20, 20, 15, 20), {}
    if where == "model":
        model.error = error
    elif where == "loss":
        options["loss"] = for_the_third(per_sample_loss, error)
    elif where == "credit":
        options["credit"] = for_the_third(lambda hiddens, _logits, _targets: [h * 2 for h in hiddens], error)
    else:
        batches = interrupted(batches, error)
    return model, batches, options


@pytest.mark.parametrize("error", [StopError("mine"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("where", ["model", "loss", "credit", "batches"])
def test_after_an_exception(where, error):
    model, batches, options = failing(where, error)
    model.train()
    model.blocks[1].eval()
    model.norm.weight.grad = torch.ones(WIDTH)
    before = Snapshot(model)
    with pytest.raises(type(error)) as caught:
        walkback.diagnose(model, batches, **options)
    assert caught.value is error
    before.check()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_with_gradients_off_around_it(mode):
    model = in_the_middle_of_training()
    with mode():
        before = Snapshot(model)
        walkback.diagnose(model, labelled(20))
        before.check()


def test_random_numbers_that_the_model_and_the_loader_draw():
    class Noisy(ResMLP):
        def body(self, hidden):
            random.random()
            np.random.rand()  # noqa: NPY002
            return super().body(hidden + 0 * torch.rand_like(hidden))

    x, y = labelled(40)[0]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=10, shuffle=True)
    model = Noisy()
    before = Snapshot(model)
    walkback.diagnose(model, loader)
    before.check()


def test_batchnorm_statistics_do_not_move_and_are_the_ones_used():
    model = ConvNet().train()
    before = Snapshot(model)
    batches = labelled(20, 7, shape=(3, 6, 6))
    training = walkback.diagnose(model, batches)
    before.check()
    assert training == walkback.diagnose(copy.deepcopy(model).eval(), batches)


@pytest.mark.parametrize("how", ["in place", "through .data", "by assignment"])
def test_a_buffer_that_the_forward_pass_changes(how):
    class Counting(ResMLP):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def body(self, hidden):
            if how == "in place":
                self.count += 1
            elif how == "through .data":
                self.count.data.add_(1)
            else:
                self.count = self.count + 1
            return super().body(hidden)

    model = Counting()
    before = Snapshot(model)
    walkback.diagnose(model, labelled(20, 7))
    before.check()


def test_an_untouched_buffer_is_not_written_to():
    # A pending graph of the caller's may hold it, and a write would make its backward pass fail.
    model = ConvNet().eval()
    images, _ = labelled(4, shape=(3, 6, 6))[0]
    pending = model(images).sum()
    walkback.diagnose(model, labelled(20, shape=(3, 6, 6)))
    pending.backward()


def test_eval_is_not_called():
    class Merging(ResMLP):
        def train(self, mode=True):
            raise AssertionError("switching modes changes this model's weights")

    walkback.diagnose(Merging(), labelled(20))


def test_forward_hooks_of_others_run_and_may_change_the_stream():
    model = ResMLP()
    plain = copy.deepcopy(model)
    ran = []
    model.blocks[1].register_forward_hook(lambda _m, _a, out: (ran.append("first"), out * 2)[1])
    model.blocks[1].register_forward_hook(lambda _m, _a, _out: ran.append("second"))
    before = Snapshot(model)
    report = walkback.diagnose(model, labelled(20))
    before.check()
    assert ran[:2] == ["first", "second"]
    without = walkback.diagnose(plain, labelled(20))
    assert report.residual_norms[2] == pytest.approx(2 * without.residual_norms[2], rel=1e-5)


def test_backward_hooks_of_others_do_not_bend_the_gradient():
    # Some libraries implement feedback alignment this way; the reference must stay the true gradient.
    model = ResMLP()
    plain = copy.deepcopy(model)
    model.blocks[1].register_full_backward_hook(lambda _m, grads, _o: tuple(torch.ones_like(g) for g in grads))
    model.blocks[2].register_full_backward_pre_hook(lambda _m, grads: tuple(3 * g for g in grads))
    before = Snapshot(model)
    agrees(model, labelled(20), BLOCKS, reference=plain)
    before.check()


class Watched(torch.autograd.Function):
    """A matrix product that notes which gradients are asked of it."""

    asked: list = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        Watched.asked.append(ctx.needs_input_grad)
        return grad @ weight.T, x.T @ grad if ctx.needs_input_grad[1] else None


def test_no_parameter_gradient_is_computed():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)

        def forward(self, hidden):
            return hidden + Watched.apply(hidden, self.weight)

    Watched.asked = []
    model = ResMLP(block=Block)
    walkback.diagnose(model, labelled(20, 7), reference="declared", credit=lambda hiddens, _l, _y: hiddens)
    assert len(Watched.asked) >= 6
    assert all(needs == (True, False) for needs in Watched.asked)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_backward_pass_stops_at_the_first_site():
    Watched.asked = []

    class Stem(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(INPUT, WIDTH))

        def forward(self, inputs):
            return Watched.apply(inputs, self.weight)

    model = ResMLP()
    model.stem = Stem()
    walkback.diagnose(model, [(x.requires_grad_(), y) for x, y in labelled(20)])
    assert Watched.asked == []


def test_batches_are_left_as_they_were():
    inputs = torch.randn(20, INPUT, requires_grad=True)
    targets = torch.randint(0, CLASSES, (20,), dtype=torch.int32)
    copies = inputs.detach().clone(), targets.clone()
    walkback.diagnose(ResMLP(block=Residual), [(inputs, targets)])
    assert torch.equal(inputs, copies[0])
    assert torch.equal(targets, copies[1])
    assert inputs.grad is None
    assert inputs.is_leaf


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_the_mode_of_a_scripted_module_is_put_back():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.dropout = torch.jit.script(nn.Dropout(0.5))

        def forward(self, x):
            return x + self.dropout(self.linear(x))

    model = nn.Sequential(nn.Linear(4, 8), Block(), Block(), nn.Linear(8, 3))
    data = [(torch.randn(16, 4), torch.randint(0, 3, (16,)))]
    first, second = (walkback.diagnose(model, data, blocks=["1", "2"]) for _ in range(2))
    assert first.residual_norms == second.residual_norms
    assert model[1].dropout.training


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_frozen_scripted_module_has_no_mode_and_is_measured():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.fixed = torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Linear(8, 8)).eval()))

        def forward(self, x):
            return x + self.fixed(self.linear(x))

    model = nn.Sequential(nn.Linear(4, 8), Block(), Block(), nn.Linear(8, 3))
    assert walkback.diagnose(model, [(torch.randn(16, 4), torch.randint(0, 3, (16,)))], blocks=["1", "2"]).samples == 16


class RedrawnFeedback(ResMLP):
    """Feedback that every forward pass draws anew, as a new parameter."""

    def forward(self, x):
        self.feedback = nn.Parameter(torch.randn(WIDTH, WIDTH), requires_grad=False)
        return super().forward(x)


def test_a_parameter_that_a_pass_replaces_is_put_back():
    model = RedrawnFeedback()
    model(torch.randn(2, INPUT))
    before = Snapshot(model)
    feedback = model.feedback
    walkback.diagnose(model, labelled(40))
    assert model.feedback is feedback
    before.check()
