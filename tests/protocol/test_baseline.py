import copy
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import walkback
from walkback.errors import BaselineError, InputError, WalkbackWarning
from walkback.protocol.network_shapes import difference


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, h):
        return h + torch.tanh(self.linear(h))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(8, 16), nn.Linear(16, 3)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(192, 8, generator=generator)
    return list(zip(x.split(64), x[:, :3].argmax(1).split(64), strict=True))


def trainer(data, seen=None):
    def train(model, steps=20, lr=0.01):
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        for step in range(steps):
            x, y = data[step % len(data)]
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        if seen is not None:
            seen.append(model)

    return train


def learnt(returned=None):
    """A training function that moves something which may move, and returns something."""

    def train(model):
        with torch.no_grad():
            next(p for p in model.parameters() if p.requires_grad).add_(0.01)
        return returned(model) if callable(returned) else returned

    return train


def test_blocks_stay_at_their_random_init_while_stem_and_head_learn(data):
    models = []
    record = walkback.frozen_baseline(trainer(data, models), Net, data, seed=3, config={"steps": 30})
    torch.manual_seed(3)
    fresh = Net()
    (trained,) = models
    for name, parameter in trained.named_parameters():
        same = torch.equal(parameter, fresh.get_parameter(name))
        assert same == name.startswith("blocks."), name
    assert record.seed == 3
    assert record.config == {"steps": 30}
    assert record.samples == 192
    assert record.frozen_blocks == ("blocks.0", "blocks.1")
    correct = sum(int((trained(x).argmax(1) == y).sum()) for x, y in data)
    assert record.accuracy == correct / 192


def test_the_config_reaches_the_training_function(data):
    few = walkback.frozen_baseline(trainer(data), Net, data, seed=3, config={"steps": 1})
    many = walkback.frozen_baseline(trainer(data), Net, data, seed=3, config={"steps": 60, "lr": 0.05})
    assert many.accuracy > few.accuracy


def test_diagnose_takes_the_record_and_judges_d(data):
    torch.manual_seed(3)
    model = Net()
    trainer(data)(model, steps=60)
    record = walkback.frozen_baseline(trainer(data), Net, data, seed=3, config={"steps": 60})
    report = walkback.diagnose(model, data, frozen_baseline_acc=record, seed=3)
    assert report.frozen_baseline_acc == record.accuracy
    assert report.reading("d").value == pytest.approx(100 * (report.headline_acc - record.accuracy))
    assert report.reading("d").interval is not None
    assert report.warnings == ()
    other = walkback.diagnose(model, data, frozen_baseline_acc=record, seed=4)
    assert "not matched" in other.warnings[0]


def test_a_score_that_the_training_function_returns_is_taken(data):
    score = walkback.Score(value=0.5, samples=10_000)
    record = walkback.frozen_baseline(lambda model: score, Net, data)
    assert (record.accuracy, record.samples) == (0.5, 10_000)


def last_loss(data):
    def train(model):
        trainer(data)(model, steps=3)
        return F.cross_entropy(model(data[0][0]), data[0][1]).item()

    return train


@pytest.mark.parametrize("returned", [0.31, True, 0, "good", {"accuracy": 0.9}, [0.1, 0.2], torch.tensor(0.5)])
def test_anything_else_that_it_returns_is_said_to_be_passed_over_once(data, returned):
    measured = walkback.frozen_baseline(learnt(), Net, data, seed=1)
    with pytest.warns(WalkbackWarning, match="it was not taken for an accuracy: return walkback.Score") as told:
        record = walkback.frozen_baseline(learnt(returned), Net, data, seed=1)
    assert len(told) == 1
    assert str(told[0].message).startswith(f"the training function returned {returned!r}")
    assert record == measured


def test_a_returned_loss_makes_no_margin(data):
    torch.manual_seed(3)
    model = Net()
    trainer(data)(model, steps=3)
    with pytest.warns(WalkbackWarning, match="not taken for an accuracy"):
        record = walkback.frozen_baseline(last_loss(data), Net, data, seed=3)
    correct = frozen_twin_accuracy(data)
    assert record.accuracy == correct
    report = walkback.diagnose(model, data, frozen_baseline_acc=record)
    assert report.reading("d").value == pytest.approx(100 * (report.headline_acc - correct))


def frozen_twin_accuracy(data):
    """The obvious twin: an optimizer that was never given the blocks."""
    torch.manual_seed(3)
    model = Net()
    optimizer = torch.optim.AdamW([*model.stem.parameters(), *model.head.parameters()], lr=0.01)
    for step in range(3):
        x, y = data[step % len(data)]
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return sum(int((model(x).argmax(1) == y).sum()) for x, y in data) / 192


@pytest.mark.parametrize("wrap", [lambda model: model, torch.nn.DataParallel, lambda model: nn.Sequential(model)])
def test_the_model_itself_may_be_returned(data, wrap):
    record = walkback.frozen_baseline(learnt(wrap), Net, data, seed=1)
    assert record == walkback.frozen_baseline(learnt(), Net, data, seed=1)


def test_another_model_than_was_given_is_refused(data):
    with pytest.raises(BaselineError, match=r"returned another Net than the model that it was given.*in place"):
        walkback.frozen_baseline(lambda model: Net(), Net, data)


def test_nothing_left_to_train_is_refused(data):
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(Block(), Block())

        def forward(self, x):
            return self.blocks(torch.cat([x, x], dim=1))[:, :3]

    with pytest.raises(BaselineError, match=r"nothing is left to train.*has its untrained self for a baseline"):
        walkback.frozen_baseline(lambda model: None, Bare, data)


def test_the_record_survives_json(tmp_path, data):
    score = walkback.Score(value=24.1, unit="perplexity", higher_is_better=False, samples=12, answers=96)
    for returned in (None, score):
        train = lambda model, lr, r=returned: learnt(r)(model)  # noqa: E731
        record = walkback.frozen_baseline(train, Net, data, seed=1, config={"lr": 0.1})
        assert walkback.FrozenBaseline.load(record.save(tmp_path / "b.json")) == record
    assert record.measured == score
    assert record.accuracy is None


def test_a_record_of_an_earlier_version_loads(tmp_path):
    (tmp_path / "b.json").write_text(
        '{"schema_version": 1, "accuracy": 0.5, "samples": 9, "seed": 1, "config": {}, "frozen_blocks": ["blocks.0"]}'
    )
    record = walkback.FrozenBaseline.load(tmp_path / "b.json")
    assert (record.accuracy, record.frozen.blocks, record.frozen.parameters) == (0.5, ("blocks.0",), ())


def test_the_record_names_what_was_frozen(data):
    record = walkback.frozen_baseline(trainer(data), Net, data)
    assert record.frozen_parameters == (
        "blocks.0.linear.weight", "blocks.0.linear.bias", "blocks.1.linear.weight", "blocks.1.linear.bias",
    )  # fmt: skip
    assert record.frozen_values == 2 * (16 * 16 + 16) == 544
    assert record.all_values == 544 + 8 * 16 + 16 + 16 * 3 + 3 == 739
    assert record.frozen.share == pytest.approx(544 / 739)
    assert record.network["blocks.1.linear.weight"] == (16, 16)
    assert list(record.network) == [name for name, _ in Net().named_parameters()]


class ForwardForward(nn.Module):
    """Two layers that learn by goodness; nothing gives logits, and no forward pass of the whole is ever meant."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x):
        raise AssertionError("nobody calls this")


def test_named_blocks_are_frozen_without_a_pass():
    score = walkback.Score(value=0.5, samples=64)
    moved = []

    def train(model):
        before = model.embed.weight.detach().clone()
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        x = torch.randn(4, 8)
        for layer in model.layers:
            layer(model.embed(x)).square().mean().backward()
        optimizer.step()
        moved.append(not torch.equal(before, model.embed.weight))
        return score

    record = walkback.frozen_baseline(train, ForwardForward, blocks="layers.*")
    assert moved == [True]
    assert record.measured == score
    assert record.frozen_blocks == ("layers.0", "layers.1")
    with pytest.raises(BaselineError, match=r"by a forward pass over eval_batches; give those, or name blocks="):
        walkback.frozen_baseline(train, ForwardForward)
    with pytest.raises(BaselineError, match=r"nothing to score the baseline by: give eval_batches, or let train_fn"):
        walkback.frozen_baseline(lambda model: None, ForwardForward, blocks="layers.*")


def test_lazy_modules_are_told_to_run_first():
    class Lazy(Net):
        def __init__(self):
            super().__init__()
            self.blocks[0].linear = nn.LazyLinear(16)

    with pytest.raises(InputError, match=r"blocks.0.linear.weight of the model has no shape yet"):
        walkback.frozen_baseline(lambda model: None, Lazy, blocks="blocks.*")


def mlp(*widths):
    layers = [part for before, after in pairwise(widths[:-1]) for part in (nn.Linear(before, after), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


@pytest.mark.parametrize("hidden", [(512, 256), (7, 7, 7), (8, 8, 8), (9, 9, 9), (5,)])
def test_every_hidden_layer_of_an_mlp_is_left_at_random(data, hidden):
    models = []
    record = walkback.frozen_baseline(trainer(data, models), lambda: mlp(8, *hidden, 3), data, seed=3)
    torch.manual_seed(3)
    fresh = mlp(8, *hidden, 3)
    head = str(2 * len(hidden))
    for name, parameter in models[0].named_parameters():
        assert torch.equal(parameter, fresh.get_parameter(name)) == (not name.startswith(head)), name
    assert record.frozen_blocks == tuple(str(2 * number) for number in range(len(hidden)))


def test_what_lies_between_the_blocks_is_frozen_with_them(data):
    class Between(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head, self.norm = nn.Linear(8, 16), nn.Linear(16, 3), nn.LayerNorm(16)
            self.attn = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
            self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(2))
            self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
            self.gammas = nn.ParameterList(nn.Parameter(torch.ones(16)) for _ in range(2))

        def forward(self, x):
            h = self.stem(x)
            for attn, norm, mlp, gamma in zip(self.attn, self.norms, self.mlp, self.gammas, strict=True):
                h = h + gamma * attn(h).tanh()
                h = h + mlp(norm(h))
            return self.head(self.norm(h))

    models = []
    walkback.frozen_baseline(trainer(data, models), Between, data, seed=3)
    torch.manual_seed(3)
    fresh = Between()
    learns = ("stem.", "norm.", "head.")
    for name, parameter in models[0].named_parameters():
        assert torch.equal(parameter, fresh.get_parameter(name)) != name.startswith(learns), name


class Goodness(nn.Module):
    """A forward-forward network: a pass for each label, nothing handed back, and the sum of activities as logits."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 8)
        self.layers = nn.ModuleList([nn.Linear(11, 16), nn.Linear(16, 16)])

    def forward(self, x):
        scores = []
        for label in range(3):
            h = torch.cat([self.embed(x), F.one_hot(torch.full((len(x),), label), 3).float()], dim=1)
            total = 0
            for layer in self.layers:
                h = F.relu(layer(F.normalize(h.detach())))
                total = total + h.square().mean(1)
            scores.append(total)
        return torch.stack(scores, dim=1)


def test_modules_that_are_called_several_times_need_their_names_alone(data):
    record = walkback.frozen_baseline(learnt(), Goodness, data, seed=0)
    assert record.frozen_blocks == ("layers.0", "layers.1")


def test_named_blocks_need_no_forward_pass(data):
    class NoForward(Goodness):
        def forward(self, x, label):
            raise NotImplementedError

    def train(model):
        assert not any(parameter.requires_grad for parameter in model.layers.parameters())
        assert all(parameter.requires_grad for parameter in model.embed.parameters())
        return walkback.Score(value=0.5, samples=100)

    record = walkback.frozen_baseline(train, NoForward, data, blocks="layers.*")
    assert record.frozen_blocks == ("layers.0", "layers.1")
    assert record.accuracy == 0.5


def test_the_ends_and_the_way_of_calling_are_those_of_diagnose(data):
    class Ends(nn.Sequential):
        def forward(self, x, scale):
            h = super().forward(x) * scale
            return h, h[:, :3]

    arguments = {"stem": "0", "head": "4", "logits": 1, "forward_kwargs": {"scale": 2.0}}
    build = lambda: Ends(nn.Linear(8, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 5))  # noqa: E731
    record = walkback.frozen_baseline(learnt(), build, data, **arguments)
    assert record.frozen_blocks == ("2",)
    report = walkback.diagnose(build(), data, frozen_baseline_acc=record, **arguments)
    assert report.provenance["blocks"] == "2 (found by structure)"


def elsewhere(data):
    """Training of another network than was given: of a copy, or of one that it builds itself."""

    def copied(model):
        trainer(data)(copy.deepcopy(model))

    def another(model):
        other = Net()
        trainer(data)(other)
        return other, 0.9

    return copied, another


@pytest.mark.filterwarnings("ignore:the training function returned")
@pytest.mark.parametrize("which", ["nothing", "no step", "no rate", "a copy", "another"])
def test_a_network_that_was_not_trained_is_no_baseline(data, which):
    copied, another = elsewhere(data)
    train = {
        "nothing": lambda model: None,
        "no step": lambda model: trainer(data)(model, steps=0),
        "no rate": lambda model: trainer(data)(model, lr=0.0),
        "a copy": copied,
        "another": another,
    }[which]
    with pytest.raises(BaselineError, match=r"left everything in the model as it was.*untrained.*in place"):
        walkback.frozen_baseline(train, Net, data, seed=1)


def test_what_learns_in_buffers_is_trained(data):
    class Hebbian(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("readout", torch.zeros(3))

        def forward(self, x):
            return super().forward(x) + self.readout

    def train(model):
        model.readout += 1

    assert walkback.frozen_baseline(train, Hebbian, data, seed=1).accuracy is not None


def test_a_network_that_was_there_before_is_refused(data):
    model = Net()
    trainer(data)(model)
    with pytest.raises(BaselineError, match=r"one and the same Net twice.*trained already.*build a new network"):
        walkback.frozen_baseline(trainer(data), lambda: model, data, seed=1)
    assert all(parameter.requires_grad for parameter in model.parameters())


def local_dfa(data, skips_frozen):
    """DFA as it is often written: `backward` at the output of each block, from detached input."""

    def train(model):
        feedback = torch.randn(len(model.blocks) + 1, 3, 16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in data:
            optimizer.zero_grad()
            states = [model.stem(x)]
            for block in model.blocks:
                states.append(block(states[-1].detach()))
            logits = model.head(states[-1].detach())
            F.cross_entropy(logits, y).backward()
            error = (logits.softmax(1) - F.one_hot(y, 3)).detach() / len(y)
            for h, matrix in zip(states, feedback, strict=True):
                if h.requires_grad or not skips_frozen:
                    h.backward(error @ matrix)
            optimizer.step()

    return train


def test_backward_at_a_frozen_block_is_told_with_its_line_and_what_to_write(data):
    with pytest.raises(
        BaselineError, match=r"test_baseline\.py:\d+.*blocks\.0, blocks\.1.*if h\.requires_grad"
    ) as told:
        walkback.frozen_baseline(local_dfa(data, skips_frozen=False), Net, data, seed=0)
    assert isinstance(told.value.__cause__, RuntimeError)
    frozen = walkback.frozen_baseline(local_dfa(data, skips_frozen=True), Net, data, seed=0)
    assert frozen.frozen_blocks == ("blocks.0", "blocks.1")


def test_other_errors_of_the_training_function_are_left_as_they_are(data):
    def train(model):
        raise RuntimeError("no more disk")

    with pytest.raises(RuntimeError, match="no more disk"):
        walkback.frozen_baseline(train, Net, data, seed=0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"train_fn": None}, "train_fn is None; expected a function that trains"),
        ({"make_model": Net()}, r"make_model is a Net, not a function.*make_model=lambda: Net\(…\)"),
        ({"make_model": 3}, "make_model is a int, not a function; expected one that builds"),
        ({"make_model": lambda: None}, "make_model returned None; it must return the new network"),
        ({"make_model": dict}, "make_model returned {}; it must return the new network"),
        ({"config": [1]}, r"config is \[1\]; expected a mapping"),
        ({"train_fn": lambda: None}, r"train_fn\(\) cannot be called as train_fn\(model\): too many positional"),
        ({"config": {"rate": 1}}, r"train_fn\(model, rate=…\): got an unexpected keyword argument 'rate'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(data, arguments, sentence):
    given = {"train_fn": trainer(data), "make_model": Net, "eval_batches": data} | arguments
    with pytest.raises(InputError, match=sentence):
        walkback.frozen_baseline(**given)


@pytest.mark.parametrize("seed", ["a", 1.5, True, -1, 2**64])
def test_a_seed_that_is_none_is_refused_before_anything_is_trained(seed):
    with pytest.raises(InputError, match=r"seed is .*; expected a whole number"):
        walkback.frozen_baseline(lambda model: None, lambda: nn.Linear(2, 2), seed=seed)


def test_which_of_two_networks_has_a_parameter_is_said():
    small, large = {"a": (2,)}, {"a": (2,), "b": (3,)}
    assert difference(large, small) == "the baseline has b, and this network has not"
    assert difference(small, large) == "this network has b, and the baseline has not"
    assert difference(small, {"a": (3,)}) == "a has the shape (2,) in the baseline and (3,) in this network"
    assert difference(small, dict(small)) == ""
