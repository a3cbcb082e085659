"""Frozen parameters that move are noticed at the first step, however they are moved; what may happen is let be."""

import contextlib
import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from small_models import INPUT, WIDTH, ConvNet, ResMLP, labelled
from torch import nn

import walkback
from walkback.errors import BaselineError
from walkback.protocol.still import FIRST_LOOKS, Watch

DATA = labelled(32, 32, 32)
STEPS = 40


def steps_of(update, reached, forward=None, begin=1):
    """A training function of 40 steps that calls update(model, optimizer) after each backward pass from `begin` on."""

    def train(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
        for step in range(1, STEPS + 1):
            reached.append(step)
            x, y = DATA[step % len(DATA)]
            F.cross_entropy((forward or nn.Module.__call__)(model, x), y).backward()
            if step >= begin:
                update(model, optimizer)
            else:
                plain(model, optimizer)

    return train


def plain(model, optimizer):
    optimizer.step()
    optimizer.zero_grad()


def unfreezes(model, optimizer):
    model.requires_grad_(True)
    for block in model.blocks:
        for parameter in block.parameters():
            parameter.grad = torch.ones_like(parameter)
    torch.optim.AdamW(model.parameters(), weight_decay=0.1).step()


def decays(model, optimizer):
    for parameter in model.parameters():
        parameter.requires_grad_(True)
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()


def learns(model):
    with torch.no_grad():
        model.head.weight.sub_(1e-3)


def in_place(model, optimizer):
    with torch.no_grad():
        model.blocks[1].up.weight.sub_(1e-3)


def through_data(model, optimizer):
    for parameter in model.parameters():
        parameter.data -= 1e-3


def one_entry_through_data(model, optimizer):
    model.blocks[2].down.weight.data[0, 0] += 1e-6


def elsewhere(model, optimizer):
    model.blocks[0].norm.weight.data = model.blocks[0].norm.weight.data * 1.001


def replaced(model, optimizer):
    model.blocks[0].up.weight = nn.Parameter(torch.randn(2 * WIDTH, WIDTH))


def loaded(model, optimizer):
    model.load_state_dict({name: value + 1e-3 for name, value in model.state_dict().items()})


def through_numpy(model, optimizer):
    model.blocks[0].up.bias.detach().numpy()[0] = 3.0


@pytest.mark.parametrize(
    ("update", "by_step", "when"),
    [
        (unfreezes, 1, "at step 1 of AdamW"),
        (decays, 1, "at step 1 of SGD"),
        (in_place, 2, "before forward pass 2 of the network"),
        (through_data, 2, "before forward pass 2 of the network"),
        (one_entry_through_data, 2, "before forward pass 2 of the network"),
        (elsewhere, 2, "before forward pass 2 of the network"),
        (replaced, 2, "before forward pass 2 of the network"),
        (loaded, 2, "before forward pass 2 of the network"),
        (through_numpy, 2, "before forward pass 2 of the network"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_move_is_noticed_at_once(update, by_step, when):
    reached = []
    with pytest.raises(BaselineError, match=rf"changed \d+ of \d+ frozen parameters .*noticed {when}"):
        walkback.frozen_baseline(steps_of(update, reached), ResMLP, DATA)
    assert reached[-1] == by_step


def in_parts(model, x):
    """As local rules run it: block by block, never the network as a whole."""
    hidden = model.stem(x)
    for block in model.blocks:
        hidden = block(hidden.detach())
    return model.head(model.norm(hidden))


def test_a_network_that_is_only_called_in_parts_is_looked_at_too():
    reached = []
    with pytest.raises(BaselineError, match=r"noticed before forward pass 2 of its Linear"):
        walkback.frozen_baseline(steps_of(one_entry_through_data, reached, in_parts), ResMLP, DATA)
    assert reached[-1] == 2


@pytest.mark.parametrize("begin", [7, 11, 13])
def test_a_write_through_data_that_begins_later_is_noticed_by_twice_the_looks(begin):
    reached = []

    def update(model, optimizer):
        one_entry_through_data(model, optimizer)
        plain(model, optimizer)

    with pytest.raises(BaselineError, match="noticed"):
        walkback.frozen_baseline(steps_of(update, reached, begin=begin), ResMLP, DATA)
    assert begin < reached[-1] + 1 <= 2 * begin + 1
    assert 2 * begin > FIRST_LOOKS  # two looks per step: one of the pass, one of the optimizer


def test_writes_that_torch_counts_are_noticed_at_once_however_late():
    reached = []
    with pytest.raises(BaselineError, match=r"before forward pass 24 of the network"):
        walkback.frozen_baseline(steps_of(in_place, reached, begin=23), ResMLP, DATA)
    assert reached[-1] == 24


def test_what_is_swallowed_inside_is_found_at_the_end():
    def train(model):
        with contextlib.suppress(BaselineError):
            steps_of(in_place, [])(model)

    with pytest.raises(BaselineError, match="when it had ended"):
        walkback.frozen_baseline(train, ResMLP, DATA)
    with pytest.raises(BaselineError, match="when it had ended"):
        walkback.frozen_baseline(lambda model: in_place(model, None), ResMLP, DATA)


def bits(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("make", [ResMLP, ConvNet], ids=["mlp", "cnn"])
def test_a_training_that_leaves_them_alone_is_left_alone(make):
    shape, blocks = ((INPUT,), "blocks") if make is ResMLP else ((3, 4, 4), "features")
    batches, kept = labelled(16, 16, shape=shape), {}

    def train(model):
        kept["before"], kept["model"] = bits(model), model
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
        for _ in range(FIRST_LOOKS):
            for x, y in batches:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

    walkback.frozen_baseline(train, make, batches, blocks=f"{blocks}.*")
    after, parameters = bits(kept["model"]), dict(kept["model"].named_parameters())
    same = {name for name in after if torch.equal(after[name], kept["before"][name])}
    assert same == {name for name in parameters if name.startswith(blocks)}
    if make is ConvNet:
        assert "features.0.norm.running_mean" not in same  # buffers may move


def test_values_that_are_written_as_they_were_have_not_moved():
    def train(model):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.0)
                parameter.data = parameter.data.clone()
        model.load_state_dict(model.state_dict())
        model.double().float()
        model(DATA[0][0])
        learns(model)

    walkback.frozen_baseline(train, ResMLP, DATA)


@pytest.mark.parametrize("name", ["blocks", "blocks.1", "blocks.1.up"])
def test_a_module_that_is_replaced_is_noticed(name):
    reached = []

    def train(model):
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, ResMLP().get_submodule(name))
        steps_of(plain, reached)(model)

    with pytest.raises(BaselineError, match=r"changed \d+ of 18 frozen parameters .* before forward pass 1"):
        walkback.frozen_baseline(train, ResMLP, DATA)
    assert reached == [1]


def test_a_module_that_is_wrapped_is_still_there():
    def train(model):
        model.blocks[0] = torch.nn.Sequential(model.blocks[0])
        learns(model)

    walkback.frozen_baseline(train, ResMLP, DATA)


def test_nan_in_a_frozen_parameter_is_equal_to_itself():
    def make():
        model = ResMLP()
        with torch.no_grad():
            model.blocks[0].up.weight[0, 0] = torch.nan
        return model

    walkback.frozen_baseline(lambda model: walkback.Score(value=0.1), make, blocks="blocks.*")


def test_copies_and_saved_models_take_no_hook_along():
    kept = {}

    def train(model):
        average = copy.deepcopy(model)
        in_place(average, None)
        average(DATA[0][0])
        kept["loaded"] = pickle.loads(pickle.dumps(model))
        in_place(kept["loaded"], None)
        kept["loaded"](DATA[0][0])
        kept["model"] = model
        learns(model)

    walkback.frozen_baseline(train, ResMLP, DATA)
    assert not any(m._forward_pre_hooks for m in kept["model"].modules())
    hooks = [hook for m in kept["loaded"].modules() for hook in m._forward_pre_hooks.values()]
    assert hooks
    assert not any(isinstance(hook, Watch) for hook in hooks)
    assert kept["loaded"].blocks[0].up.weight.shape == (2 * WIDTH, WIDTH)


def test_a_compiled_network_trains_in_one_graph_and_is_looked_at_after_its_steps():
    reached = []

    def train(model, update):
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            reached.append(step)
            F.cross_entropy(compiled(DATA[0][0]), DATA[0][1]).backward()
            update(model, optimizer)

    walkback.frozen_baseline(train, ResMLP, DATA, config={"update": plain})
    assert reached == [0, 1, 2]
    with pytest.raises(BaselineError, match="at step 1 of AdamW"):
        walkback.frozen_baseline(train, ResMLP, DATA, config={"update": unfreezes})


def test_functional_training_is_let_be_and_seen_where_it_moves_them():
    from torch.func import functional_call, grad

    def train(model, moves):
        values = {name: p.detach().clone() for name, p in model.named_parameters()}
        for x, y in DATA:
            slopes = grad(lambda v, x=x, y=y: F.cross_entropy(functional_call(model, v, (x,)), y))(values)
            for name in values:
                if moves or not name.startswith("blocks"):
                    values[name] = values[name] - 0.1 * slopes[name]
            functional_call(model, values, (x,))
        model.load_state_dict(values)

    walkback.frozen_baseline(train, ResMLP, DATA, config={"moves": False})
    with pytest.raises(BaselineError, match="before forward pass"):
        walkback.frozen_baseline(train, ResMLP, DATA, config={"moves": True})


class WithFeedback(ResMLP):
    """As libraries of feedback alignment write it: feedback without gradient, which a pass may redraw."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        for block in self.blocks:
            block.feedback = nn.Parameter(torch.randn(WIDTH, WIDTH), requires_grad=False)

    def forward(self, x):
        for block in self.blocks:
            block.feedback = nn.Parameter(block.feedback * 0.5, requires_grad=False)
        scale = self.blocks[1].feedback.sum() if self.read else 1
        return super().forward(x) * scale


def test_feedback_that_the_output_does_not_read_may_move():
    baseline = walkback.frozen_baseline(steps_of(plain, []), lambda: WithFeedback(read=False), DATA, seed=0)
    assert "blocks.1.feedback" in baseline.frozen_parameters
    with pytest.raises(BaselineError, match=r"changed 1 of \d+ frozen parameters \(blocks.1.feedback first\)"):
        walkback.frozen_baseline(steps_of(plain, []), lambda: WithFeedback(read=True), DATA, seed=0)


def test_weights_without_gradient_are_still_held():
    def by_hand():
        model = ResMLP()
        model.blocks.requires_grad_(False)
        return model

    with pytest.raises(BaselineError, match="noticed before forward pass 2"):
        walkback.frozen_baseline(steps_of(in_place, []), by_hand, DATA, seed=0)


def test_without_batches_feedback_is_held_like_any_other():
    def train(model):
        steps_of(plain, [])(model)
        return walkback.Score(value=0.5, samples=10)

    with pytest.raises(BaselineError, match="feedback first"):
        walkback.frozen_baseline(train, lambda: WithFeedback(read=False), blocks="blocks.*", seed=0)
