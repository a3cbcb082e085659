"""Networks bound to a batch size, hidden from hooks, or no classifiers: right, or refused in words that help."""

import pytest
import torch
import torch.nn.functional as F
from small_models import CLASSES, INPUT, WIDTH, ResMLP, labelled
from torch import nn

import walkback
from walkback.errors import BatchError, BlocksError, InputError

DATA = labelled(23, 23)


class BoundToBatch(nn.Module):
    """As in recurrent tutorials: the first state is made for one batch size."""

    def __init__(self, size=None):
        super().__init__()
        self.size, self.rnn, self.head = size, nn.GRU(5, WIDTH, batch_first=True), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        states, _ = self.rnn(x, torch.zeros(1, self.size or len(x), WIDTH, dtype=x.dtype))
        return self.head(states[:, -1])


def test_a_network_that_takes_one_batch_size_is_told_so():
    torch.manual_seed(0)
    batches, model = labelled(23, 23, shape=(4, 5)), BoundToBatch(23)
    with pytest.raises(BatchError, match=r"takes a batch of 23 samples, and fails on 4 of them.*len\(x\)"):
        walkback.diagnose(model, batches)
    with pytest.raises(BatchError, match="any number of samples"):
        walkback.frozen_baseline(lambda m: None, lambda: BoundToBatch(23), batches, seed=0)
    with pytest.raises(BatchError, match="any number of samples"):
        walkback.Monitor(model, batches)
    model.size = None
    assert walkback.diagnose(model, batches).residual_norms is not None


def test_what_is_wrong_with_every_batch_size_stays_the_error_that_it_is():
    class Broken(ResMLP):
        def body(self, hidden):
            return hidden @ torch.zeros(3, 3)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        walkback.diagnose(Broken(), DATA)


def test_a_network_whose_layers_are_not_called_is_sent_back_to_the_one_that_it_was_made_from():
    plain = ResMLP()
    dynamic = ({0: torch.export.Dim("samples")},)
    exported = torch.export.export(plain, (DATA[0][0],), dynamic_shapes=dynamic).module()
    with pytest.raises(BlocksError, match=r"calls none of its layers.*Diagnose the nn\.Module that it was made from"):
        walkback.diagnose(exported, DATA)
    assert walkback.diagnose(plain, DATA).reading("a").value is not None


class LinearUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Linear(INPUT, 8), nn.Linear(8, 6)
        self.middle = nn.Linear(6, 6)
        self.up2, self.up1, self.head = nn.Linear(12, 8), nn.Linear(16, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        a = F.relu(self.down1(x))
        b = F.relu(self.down2(a))
        h = F.relu(self.up2(torch.cat([F.relu(self.middle(b)), b], 1)))
        return self.head(F.relu(self.up1(torch.cat([h, a], 1))))


def test_layers_that_skips_cross_are_offered_as_one_chain():
    torch.manual_seed(0)
    model, chosen = LinearUNet(), "down1,down2,middle,up2,up1"
    with pytest.raises(BlocksError, match=f"blocks='{chosen}' \\(5 blocks\\)"):
        walkback.diagnose(model, DATA)
    report = walkback.diagnose(model, DATA, blocks=chosen)
    assert len(report.residual_norms) == 6


# Outputs that are no classes.


def binary(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.squeeze(-1), targets.to(logits.dtype), reduction="none")


class OneNumber(ResMLP):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, 1)


def test_of_one_number_no_class_is_chosen():
    """The largest of one output is always the first, so that its accuracy would be the share of class 0."""
    torch.manual_seed(0)
    data = [(x, (y > 0).long()) for x, y in DATA]
    model = OneNumber()
    with pytest.raises(BatchError, match=r"1 class;.*binary_cross_entropy_with_logits"):
        walkback.diagnose(model, data)
    report = walkback.diagnose(model, data, loss=binary)
    assert report.headline_acc is None
    assert report.bp_grad_norms is not None

    def train(network):
        with torch.no_grad():
            network.head.weight.add_(1)

    with pytest.raises(BatchError, match="an output for each class"):
        walkback.frozen_baseline(train, OneNumber, data, seed=0, loss=binary)


@pytest.mark.parametrize("kind", ["embedding", "mean and variance", "out of range"])
def test_outputs_that_a_loss_takes_for_something_else_than_classes_are_not_counted(kind):
    torch.manual_seed(0)
    losses = {
        "embedding": lambda out, y: out.square().mean(1) * (1 + y),
        "mean and variance": lambda out, y: F.gaussian_nll_loss(
            out[:, 0], y.to(out.dtype), out[:, 1].exp(), reduction="none"
        ),
        "out of range": lambda out, y: (out.mean(1) - y).square(),
    }
    data = [(x, y * 4 if kind == "out of range" else y) for x, y in DATA]
    report = walkback.diagnose(ResMLP(), data, loss=losses[kind])
    assert report.headline_acc is None
    assert kind == "out of range" or "accuracy is not counted" in " ".join(report.warnings)


@pytest.mark.parametrize(
    "loss",
    [
        lambda out, y: F.cross_entropy(out, y, reduction="none"),
        lambda out, y: F.cross_entropy(out, y, label_smoothing=0.2, reduction="none"),
        lambda out, y: F.cross_entropy(out, y, weight=torch.tensor([1.0, 5.0, 0.2]).to(out), reduction="none"),
        lambda out, y: (out - F.one_hot(y, CLASSES)).square().sum(1),
        lambda out, y: F.multi_margin_loss(out, y, reduction="none"),
        lambda out, y: F.nll_loss(out.softmax(-1).log(), y, reduction="none"),
    ],
    ids=["cross-entropy", "smoothed", "weighted", "squared", "margin", "nll"],
)
def test_losses_of_classes_are_counted(loss):
    torch.manual_seed(0)
    model = ResMLP()
    report = walkback.diagnose(model, DATA, loss=loss)
    right = sum(int((model(x).argmax(1) == y).sum()) for x, y in DATA)
    assert report.headline_acc == right / 46


def test_labels_are_told_what_to_become():
    model = ResMLP()
    one_hot = [(x, F.one_hot(y, CLASSES)) for x, y in DATA]
    with pytest.raises(BatchError, match=r"one-hot: give class indices, targets\.argmax\(-1\)"):
        walkback.diagnose(model, one_hot)
    assert walkback.diagnose(model, [(x, y.argmax(-1)) for x, y in one_hot]).headline_acc is not None
    unlabelled = [(x, torch.where(y == 0, -1, y)) for x, y in DATA]
    with pytest.raises(BatchError, match="Where -1 means that nothing is to be scored, leave those samples out"):
        walkback.diagnose(model, unlabelled)


class FlatTokens(nn.Module):
    """All tokens of a batch in one column of rows, as for F.cross_entropy."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(7, WIDTH), nn.Linear(WIDTH, 7)
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = h + torch.tanh(block(h))
        return self.head(h).view(-1, 7)


def test_tokens_in_one_row_are_told_how_to_become_sequences():
    ids = torch.randint(0, 7, (12, 6))
    model = FlatTokens()
    with pytest.raises(BatchError, match=r"targets\.view\(12, -1\)"):
        walkback.diagnose(model, [(ids[:, :-1], ids[:, 1:].reshape(-1))])
    with pytest.raises(BatchError, match=r"logits=lambda output: output\.view\(-1, 5, 7\)"):
        walkback.diagnose(model, [(ids[:, :-1], ids[:, 1:])])
    report = walkback.diagnose(model, [(ids[:, :-1], ids[:, 1:])], logits=lambda output: output.view(-1, 5, 7))
    assert report.perplexity is not None


class OneListOfInputs(ResMLP):
    def forward(self, parts):
        return super().forward(parts[0] + parts[1])


def test_several_inputs_are_one_argument_where_forward_takes_one():
    torch.manual_seed(0)
    model = OneListOfInputs()
    report = walkback.diagnose(model, [([x, x], y) for x, y in DATA])
    plain = ResMLP()
    plain.load_state_dict(model.state_dict())
    assert report.residual_norms == pytest.approx(
        walkback.diagnose(plain, [(2 * x, y) for x, y in DATA]).residual_norms
    )


class LabelsByAnyName(ResMLP):
    def forward(self, x, mask=None, y=None):
        logits = super().forward(x if mask is None else x * mask)
        return (logits, F.cross_entropy(logits, y, label_smoothing=0.3)) if y is not None else logits


def test_a_loss_of_the_models_own_is_asked_for_whatever_its_argument_is_called():
    with pytest.raises(InputError, match="called with y= gives a loss"):
        walkback.diagnose(LabelsByAnyName(), DATA)
