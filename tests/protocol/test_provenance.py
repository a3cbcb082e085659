"""Which rule the updates come from: claims that hold, backpropagation in disguise, feedback that is drawn anew."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import CLASSES, WIDTH, DropoutResMLP, ResMLP, labelled

import walkback
from walkback import DiagnosticThresholds, State
from walkback.errors import InputError
from walkback.protocol.local_gradients import gradients_of
from walkback.protocol.records import UpdateProvenance

BATCHES = labelled(32, 32, 32, 32)


def network(seed=0, kind=ResMLP):
    torch.manual_seed(seed)
    return kind()


def feedback(seed=5):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(CLASSES, WIDTH, generator=generator) for _ in range(4)]


def dfa(matrices):
    """The claimed credit: e B_l at every site."""

    def credits(hiddens, logits, targets):
        error = logits.softmax(dim=1) - F.one_hot(targets, CLASSES)
        return [error @ matrix for matrix in matrices]

    return credits


def dfa_gradients(model, inputs, targets, matrices):
    """What DFA puts into .grad: every module follows ⟨its output, e B_l⟩, from detached inputs."""
    h = model.stem(inputs)
    outputs = [h]
    for block in model.blocks:
        outputs.append(block(outputs[-1].detach()))
    logits = model.head(model.norm(outputs[-1].detach()))
    error = (logits.softmax(dim=1) - F.one_hot(targets, CLASSES)).detach()
    total = F.cross_entropy(logits, targets)
    for output, matrix in zip(outputs, matrices, strict=True):
        total = total + (output * (error @ matrix)).sum() / len(inputs)
    total.backward()


def stepping(optimizer, gradients, noise=0.0):
    def step(model, batch):
        optimizer.zero_grad()
        gradients(model, *batch)
        if noise:
            for parameter in model.parameters():
                size = noise * parameter.grad.norm() / parameter.numel() ** 0.5
                parameter.grad.add_(size * torch.randn_like(parameter))
        optimizer.step()

    return step


def bp(model, inputs, targets):
    F.cross_entropy(model(inputs), targets).backward()


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


def warmed(name, model):
    """An optimizer in the middle of training, momentum and all."""
    optimizer = OPTIMIZERS[name](model.parameters())
    for batch in labelled(32, 32, 32, seed=8):
        stepping(optimizer, bp)(model, batch)
    return optimizer


def case(updates):
    return walkback.diagnose(network(), BATCHES, updates=updates).reading("u")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_claim_that_holds_is_confirmed_to_the_last_digits(name):
    model, matrices = network(), feedback()
    optimizer = warmed(name, model)
    step = stepping(optimizer, lambda *given: dfa_gradients(*given, matrices))
    found = walkback.provenance(model, step, BATCHES, dfa(matrices), optimizer)
    assert found.layers == ("stem", "blocks.0", "blocks.1", "blocks.2", "head")
    assert found.hidden == (True, True, True, True, False)
    assert min(found.claimed) > 0.999
    assert min(found.repeated) > 0.999
    assert max(found.true_gradient[:4]) < 0.9
    assert case(found).case == "as claimed"


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_backpropagation_in_disguise_is_caught_noise_and_all(name, noise):
    model = network()
    optimizer = warmed(name, model)
    found = walkback.provenance(model, stepping(optimizer, bp, noise), BATCHES, dfa(feedback()), optimizer)
    assert min(found.true_gradient) > (0.999 if not noise else 0.95)
    assert max(found.claimed[:4]) < 0.9
    assert case(found).case == "backpropagation"
    assert "before the head too" in case(found).sentence


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_feedback_that_is_drawn_anew_is_caught_from_any_generator(name):
    own = torch.Generator().manual_seed(3)
    for draw in (lambda: torch.randn(CLASSES, WIDTH), lambda: torch.randn(CLASSES, WIDTH, generator=own)):
        model = network()
        optimizer = warmed(name, model)
        step = stepping(optimizer, lambda *given, draw=draw: dfa_gradients(*given, [draw() for _ in range(4)]))
        found = walkback.provenance(model, step, BATCHES, dfa(feedback()), optimizer)
        assert case(found).case == "drawn anew"
        assert found.repeated[-1] > 0.999  # the head follows the error, which nothing draws
        assert max(found.claimed[:4]) < 0.9


def test_a_claimed_rule_that_draws_the_same_numbers_does_not_hide_it():
    model, batches = network(), BATCHES

    def step(network, batch):
        torch.manual_seed(int(torch.randint(0, 10**6, ())))
        stepping(torch.optim.SGD(network.parameters(), lr=0.05), lambda *g: dfa_gradients(*g, drawn()))(network, batch)

    def drawn():
        return [torch.randn(CLASSES, WIDTH) for _ in range(4)]

    found = walkback.provenance(model, step, batches, claimed_step=step)
    assert min(found.claimed) > 0.999
    assert case(found).case == "drawn anew"


def test_everything_is_put_back():
    model = network()
    optimizer = warmed("adamw", model)
    model.stem.weight.grad = torch.full_like(model.stem.weight, 3.0)
    model.train()
    model.blocks[1].eval()
    before = copy.deepcopy([model.state_dict(), optimizer.state_dict()])
    state, modes = torch.get_rng_state(), [module.training for module in model.modules()]
    held = [entry["exp_avg"] for entry in optimizer.state.values()]
    walkback.provenance(model, stepping(optimizer, bp, 0.01), BATCHES, dfa(feedback()), optimizer)
    assert torch.equal(state, torch.get_rng_state())
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(model.stem.weight.grad, torch.full_like(model.stem.weight, 3.0))
    assert model.blocks[0].up.weight.requires_grad
    for now, then in zip([model.state_dict(), optimizer.state_dict()], before, strict=True):
        assert str(now.keys()) == str(then.keys())
    assert all(torch.equal(value, before[0][name]) for name, value in model.state_dict().items())
    for key, entry in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, before[1]["state"][key][name]) for name, value in entry.items())
    assert all(a is entry["exp_avg"] for a, entry in zip(held, optimizer.state.values(), strict=True))


def test_a_step_that_fails_leaves_nothing_behind():
    model = network()
    before = copy.deepcopy(model.state_dict())

    def step(network, batch):
        stepping(torch.optim.SGD(network.parameters(), lr=0.5), bp)(network, batch)
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        walkback.provenance(model, step, BATCHES)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_dropout_of_the_real_step_is_that_of_the_compared_ones():
    model = network(kind=DropoutResMLP)
    optimizer = OPTIMIZERS["sgd"](model.parameters())

    def step(network, batch):
        network.train()
        torch.rand(3)  # as an augmentation would, before the network is called
        stepping(optimizer, bp)(network, batch)

    model.eval()
    found = walkback.provenance(model, step, BATCHES, optimizer=optimizer)
    assert min(found.true_gradient) > 0.999
    assert min(found.repeated) < 0.99
    assert found.claim == "none"
    assert not model.training


def test_local_gradients_are_those_of_one_module_at_a_time():
    from walkback.protocol.batches import Batch
    from walkback.protocol.credit import FunctionRule
    from walkback.protocol.sites import find_chain

    model, matrices = network().double(), [matrix.double() for matrix in feedback()]
    inputs, targets = BATCHES[0][0].double(), BATCHES[0][1]
    batch = Batch(inputs, targets)
    asked = gradients_of(model, find_chain(model, batch), batch, None, FunctionRule(dfa(matrices)))
    model.zero_grad()
    dfa_gradients(model, inputs, targets, matrices)
    for name, parameter in model.named_parameters():
        assert asked.claimed[name].numpy() == pytest.approx(parameter.grad.numpy(), abs=1e-12)
    model.zero_grad()
    bp(model, inputs, targets)
    for name, parameter in model.named_parameters():
        assert asked.true[name].numpy() == pytest.approx(parameter.grad.numpy(), abs=1e-12)
    assert asked.layers["stem.weight"] == 0
    assert asked.layers["blocks.2.up.bias"] == 3
    assert asked.layers["norm.weight"] == asked.layers["head.bias"] == 4


def test_cosines_without_an_optimizer_are_those_with_the_gradient():
    model, rate = network(), 0.05
    found = walkback.provenance(model, stepping(torch.optim.SGD(model.parameters(), lr=rate), bp), BATCHES[:1])
    assert not found.optimizer
    assert found.steps == 1
    assert np.array(found.true_gradient) == pytest.approx(np.ones(5), abs=1e-5)
    assert case(found).value is None  # nothing was claimed


class FrozenBlocks(ResMLP):
    def __init__(self):
        super().__init__()
        for parameter in self.blocks[1].parameters():
            parameter.requires_grad_(False)


def test_layers_that_do_not_learn_have_no_cosine():
    model = network(kind=FrozenBlocks)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    found = walkback.provenance(model, stepping(optimizer, bp), BATCHES, dfa(feedback()), optimizer)
    assert "blocks.1" not in found.layers

    def nothing(network, batch):
        network(batch[0])

    still = walkback.provenance(model, nothing, BATCHES, dfa(feedback()))
    assert still.claimed == (None,) * 4
    assert still.empty_steps == still.steps == len(BATCHES)
    assert case(still).case == "no change"
    assert "4 of 4 steps changed no weight" in case(still).sentence


def test_steps_that_make_nan_are_told():
    model = network()

    def broken(network, batch):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(float("nan"))

    found = walkback.provenance(model, broken, BATCHES, dfa(feedback()))
    assert found.broken_steps == len(BATCHES)
    assert "made NaN or Inf" in case(found).sentence
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def test_layers_that_the_steps_leave_out_count_against_the_claim():
    model, matrices = network(), feedback()
    optimizer = OPTIMIZERS["sgd"](model.parameters())

    def half(network, batch):
        optimizer.zero_grad()
        dfa_gradients(network, *batch, matrices)
        for parameter in network.blocks[1].parameters():
            parameter.grad = None
        optimizer.step()

    found = walkback.provenance(model, half, BATCHES, dfa(matrices), optimizer)
    assert found.claimed[2] == 0
    assert found.true_gradient[2] is None  # a layer that stands still is no sign against backpropagation
    assert found.still == (False, False, True, False, False)
    assert min(value for place, value in enumerate(found.claimed) if place != 2) > 0.999
    limits = DiagnosticThresholds(provenance_floor=0.87)
    told = walkback.diagnose(network(), BATCHES, updates=found, thresholds=limits).reading("u")
    assert told.state is State.FIRE
    assert "left blocks.1 as it was" in told.sentence


def judged(updates):
    return walkback.judge(walkback.Measurements(updates=updates), panel="calibrated").reading("u")


def test_dropout_is_not_taken_for_feedback_that_is_drawn_anew():
    torch.manual_seed(0)
    model = DropoutResMLP()
    model.dropout.p = 0.8
    optimizer = OPTIMIZERS["sgd"](model.parameters())

    def step(network, batch):
        network.train()
        stepping(optimizer, bp)(network, batch)

    found = walkback.provenance(model, step, BATCHES, claimed_step=step, optimizer=optimizer)
    assert min(found.claimed) > 0.999
    assert sum(found.repeated[:4]) / 4 < 0.5
    assert found.repeated[-1] < 0.9
    assert judged(found).state is State.UNDECIDED
    assert "dropout" in judged(found).sentence


def test_an_optimizer_that_was_not_given_leaves_a_true_claim_undecided():
    model, matrices = network(), feedback()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    step = stepping(optimizer, lambda *given: dfa_gradients(*given, matrices))
    found = walkback.provenance(model, step, BATCHES, dfa(matrices))
    assert found.other_optimizer == "Adam"
    assert min(found.claimed) < 0.87
    assert judged(found).state is State.UNDECIDED
    assert "Adam" in judged(found).sentence
    known = walkback.provenance(model, step, BATCHES, dfa(matrices), optimizer)
    assert known.other_optimizer == ""
    assert judged(known).state is State.PASS
    plain = stepping(OPTIMIZERS["sgd"](model.parameters()), lambda *given: dfa_gradients(*given, matrices))
    assert walkback.provenance(model, plain, BATCHES, dfa(matrices)).other_optimizer == ""


def test_clipping_under_a_warmed_optimizer_is_no_other_rule():
    model, matrices = network(), feedback()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def clipped(network, batch):
        optimizer.zero_grad()
        dfa_gradients(network, *batch, matrices)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.01)
        optimizer.step()

    for batch in labelled(32, 32, 32, 32, 32, 32, seed=8):
        clipped(model, batch)
    found = walkback.provenance(model, clipped, BATCHES, dfa(matrices), optimizer)
    assert min(found.claimed) < 0.95
    assert found.claimed[-1] < 0.95
    assert judged(found).state is State.UNDECIDED


def test_an_optimizer_of_another_model_is_refused():
    model, other = network(), network()
    step = stepping(torch.optim.SGD(model.parameters(), lr=0.05), bp)
    with pytest.raises(InputError, match="holds no parameter of this model"):
        walkback.provenance(model, step, BATCHES, dfa(feedback()), torch.optim.SGD(other.parameters(), lr=0.05))
    feedback_alone = nn_of(feedback())
    both = [torch.optim.SGD(model.parameters(), lr=0.05), torch.optim.SGD(feedback_alone.parameters(), lr=0.05)]
    walkback.provenance(model, stepping(both[0], bp), BATCHES[:1], None, both, also=[feedback_alone])


def nn_of(matrices):
    return torch.nn.ParameterList(torch.nn.Parameter(matrix) for matrix in matrices)


def test_a_floor_decides_and_the_record_loads_again(tmp_path):
    model = network()
    optimizer = warmed("sgd", model)
    found = walkback.provenance(model, stepping(optimizer, bp), BATCHES, dfa(feedback()), optimizer)
    assert UpdateProvenance.load(found.save(tmp_path / "updates.json")) == found
    limits = DiagnosticThresholds(provenance_floor=0.9)
    report = walkback.diagnose(model, BATCHES, updates=found, thresholds=limits)
    assert report.reading("u").state is State.FIRE
    assert type(report).from_dict(report.to_dict()).reading("u") == report.reading("u")


def test_bad_input_is_told():
    model = network()
    with pytest.raises(InputError, match="train_step is None"):
        walkback.provenance(model, None, BATCHES)
    with pytest.raises(InputError, match="give one of them"):
        walkback.provenance(model, bp, BATCHES, dfa(feedback()), claimed_step=bp)
    with pytest.raises(InputError, match="steps is 0"):
        walkback.provenance(model, bp, BATCHES, steps=0)

    class Shared(ResMLP):
        def body(self, hidden):
            return self.blocks[0](self.blocks[0](hidden))

    with pytest.raises(InputError, match="claimed_step"):
        walkback.provenance(Shared(), bp, BATCHES, dfa(feedback()), blocks="blocks.0")
