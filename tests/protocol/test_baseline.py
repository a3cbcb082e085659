import pytest
import torch
import torch.nn.functional as F
from torch import nn

import walkback
from walkback.errors import BaselineError


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
    few = walkback.frozen_baseline(trainer(data), Net, data, seed=3, config={"steps": 0})
    many = walkback.frozen_baseline(trainer(data), Net, data, seed=3, config={"steps": 60, "lr": 0.05})
    assert many.accuracy > few.accuracy


def test_diagnose_takes_the_record_and_judges_d(data):
    torch.manual_seed(3)
    model = Net()
    trainer(data)(model, steps=60)
    record = walkback.frozen_baseline(trainer(data), Net, data, seed=3, config={"steps": 60})
    report = walkback.diagnose(model, data, frozen_baseline_acc=record, seed=3)
    assert report.frozen_baseline_acc == record.accuracy
    assert report.reading("d").figure == pytest.approx(100 * (report.headline_acc - record.accuracy))
    assert report.reading("d").interval is not None
    assert report.warnings == ()
    other = walkback.diagnose(model, data, frozen_baseline_acc=record, seed=4)
    assert "not matched" in other.warnings[0]


def test_a_score_that_the_training_function_returns_is_taken(data):
    assert walkback.frozen_baseline(lambda model: 0.25, Net, data).accuracy == 0.25
    score = walkback.Score(value=0.5, samples=10_000)
    record = walkback.frozen_baseline(lambda model: score, Net, data)
    assert (record.accuracy, record.samples) == (0.5, 10_000)
    with pytest.raises(BaselineError, match="train_fn returned str"):
        walkback.frozen_baseline(lambda model: "good", Net, data)


def test_a_rule_that_moves_frozen_parameters_is_caught(data):
    def careless(model):
        with torch.no_grad():
            model.blocks[1].linear.weight.add_(1e-3)

    with pytest.raises(BaselineError, match=r"changed 1 of 4 frozen parameters \(blocks.1.linear.weight first\)"):
        walkback.frozen_baseline(careless, Net, data)


def test_nothing_left_to_train_is_refused(data):
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(Block(), Block())

        def forward(self, x):
            return self.blocks(torch.cat([x, x], dim=1))[:, :3]

    with pytest.raises(BaselineError, match="nothing is left to train"):
        walkback.frozen_baseline(lambda model: None, Bare, data)


def test_the_record_survives_json(tmp_path, data):
    record = walkback.frozen_baseline(lambda model, lr: 0.25, Net, data, seed=1, config={"lr": 0.1})
    assert walkback.FrozenBaseline.load(record.save(tmp_path / "b.json")) == record
