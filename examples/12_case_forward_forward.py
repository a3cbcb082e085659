"""Case study: forward-forward in the two styles in which public repositories write it.

python examples/12_case_forward_forward.py                                     # about half a minute
python examples/12_case_forward_forward.py --write docs/case-studies/forward-forward.md
"""

import torch
import torch.nn.functional as F
from torch import nn

import cases
import walkback
from walkback.errors import InputError

WIDTH, DEPTH, CLASSES, STEPS, SEED = 96, 3, 10, 200, 0
(TRAIN_X, TRAIN_Y), (TEST_X, TEST_Y) = (tuple(map(torch.from_numpy, part)) for part in cases.digits())
HELD_OUT = list(zip(TEST_X.split(128), TEST_Y.split(128), strict=True))


def with_label(x, y):
    """The first ten pixels are replaced by a label."""
    return torch.cat([F.one_hot(y, CLASSES) * x.max(), x[:, CLASSES:]], dim=1)


# The first style: goodness, and a label on the input. A layer owns its optimizer and its training.


class GoodLayer(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.03)

    def forward(self, x):
        return super().forward(x / (x.norm(dim=1, keepdim=True) + 1e-4)).relu()

    def train(self, right, wrong):
        """Goodness above 2 for right labels, below 2 for wrong ones. In place of nn.Module's own `train`."""
        for _ in range(STEPS):
            good, bad = (self(x).square().mean(dim=1) for x in (right, wrong))
            self.optimizer.zero_grad()
            F.softplus(torch.cat([2 - good, bad - 2])).mean().backward()
            self.optimizer.step()
        return self(right).detach(), self(wrong).detach()


class GoodnessNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [GoodLayer(a, WIDTH) for a in (TRAIN_X.shape[1], *[WIDTH] * (DEPTH - 1))]  # a plain list

    def goodness(self, x):
        """Of every layer, for every label: (layers, B, classes)."""
        scores = []
        for label in range(CLASSES):
            h, of_layers = with_label(x, torch.full((len(x),), label)), []
            for layer in self.layers:
                h = layer(h)
                of_layers.append(h.square().mean(dim=1))
            scores.append(torch.stack(of_layers))
        return torch.stack(scores, dim=2)

    def predict(self, x):
        return self.goodness(x).sum(dim=0).argmax(dim=1)

    def train(self, right, wrong):
        for layer in self.layers:
            right, wrong = layer.train(right, wrong)


# what a user writes {
class Asked(nn.Sequential):
    """One layer, asked about all ten labels of a sample at once: (B, 10, d) in and out."""

    def forward(self, h):
        return super().forward(h.flatten(0, 1)).unflatten(0, h.shape[:2])


class Measurable(nn.Module):
    """The network with a `forward`: its goodness for each label stands for the logits."""

    def __init__(self, net):
        super().__init__()
        self.layers = nn.ModuleList(Asked(layer) for layer in net.layers)

    def forward(self, x):
        h = torch.stack([with_label(x, torch.full((len(x),), label)) for label in range(CLASSES)], dim=1)
        goodness = 0
        for layer in self.layers:
            h = layer(h)
            goodness = goodness + h.square().mean(dim=2)
        return goodness


def diagnosed(net, untrained):
    return walkback.diagnose(
        Measurable(net), HELD_OUT, blocks="layers.*", frozen_baseline_acc=accuracy(untrained.predict),
        initial=Measurable(untrained), readouts=True, method_name="forward-forward", seed=SEED,
    )  # fmt: skip


# }


# The second style: one loss over all layers, detached in between, and a linear classifier on what they say.


class FullReLU(torch.autograd.Function):
    """A ReLU that hands every gradient back, whatever its input was."""

    @staticmethod
    def forward(ctx, x):
        return x.relu()

    @staticmethod
    def backward(ctx, grad):
        return grad


class ReadNet(nn.Module):
    def __init__(self, cut=True):
        super().__init__()
        sizes = (TRAIN_X.shape[1], *[WIDTH] * (DEPTH - 1))
        self.layers = nn.ModuleList(nn.Sequential(RootMeanSquare(), nn.Linear(a, WIDTH), Full(cut)) for a in sizes)
        self.norm, self.read = RootMeanSquare(), nn.Linear(WIDTH * (DEPTH - 1), CLASSES, bias=False)

    def forward(self, x):
        h, kept = with_label(x, TEST_Y.new_zeros(len(x))), []
        h = torch.cat([torch.full_like(h[:, :CLASSES], 1 / CLASSES), h[:, CLASSES:]], dim=1)  # a neutral label
        for layer in self.layers:
            h = layer(h)
            kept.append(self.norm(h))
        return self.read(torch.cat(kept[1:], dim=1))


class Full(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, x):
        h = FullReLU.apply(x)
        return h.detach() if self.cut else h  # no layer hears of the next


class RootMeanSquare(nn.Module):
    def forward(self, x):
        return x / (x.square().mean(dim=1, keepdim=True).sqrt() + 1e-8)


def train_read(net):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    wrong = with_label(TRAIN_X, (TRAIN_Y + torch.randint(1, CLASSES, TRAIN_Y.shape)) % CLASSES)
    pairs = torch.cat([with_label(TRAIN_X, TRAIN_Y), wrong])
    is_right = (torch.arange(len(pairs)) < len(TRAIN_X)).float()
    for _ in range(STEPS):
        loss, h = F.cross_entropy(net(TRAIN_X), TRAIN_Y), pairs
        for layer in net.layers:
            h = FullReLU.apply(layer[1](layer[0](h.detach())))
            loss = loss + F.binary_cross_entropy_with_logits(h.square().sum(dim=1) - WIDTH, is_right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# What is found.


def accuracy(predict):
    with torch.no_grad():
        return float((predict(TEST_X) == TEST_Y).float().mean())


def trained(negatives, layers=DEPTH):
    """A network in the first style, its first layers trained on right labels against wrong ones."""
    torch.manual_seed(SEED)
    net = GoodnessNet()
    shuffled = TRAIN_Y[torch.randperm(len(TRAIN_Y))]
    other = (TRAIN_Y + torch.randint(1, CLASSES, TRAIN_Y.shape)) % CLASSES
    wrong = shuffled if negatives == "shuffled" else other
    right_by_chance = float((wrong == TRAIN_Y).float().mean())
    right, wrong = with_label(TRAIN_X, TRAIN_Y), with_label(TRAIN_X, wrong)
    for layer in net.layers[:layers]:
        right, wrong = layer.train(right, wrong)
    return net, right_by_chance


def said(call):
    """What a call is refused with."""
    try:
        call()
    except (InputError, TypeError) as error:
        return str(error)
    return ""


def by_hand(net):
    """‖h_l‖ of the first style, one sample and one label at a time, in fp64 and without walkback; medians over samples."""
    sizes = [[] for _ in range(DEPTH + 1)]
    layers = [(layer.weight.detach().double(), layer.bias.detach().double()) for layer in net.layers]
    for sample in TEST_X:
        h = torch.stack([torch.cat([F.one_hot(torch.tensor(label), CLASSES) * TEST_X.max(), sample[CLASSES:]])
                         for label in range(CLASSES)]).double()  # fmt: skip
        sizes[0].append(h.norm())
        for number, (weight, bias) in enumerate(layers, start=1):
            h = torch.stack([(weight @ (row / (row.norm() + 1e-4)) + bias).clamp(min=0) for row in h])
            sizes[number].append(h.norm())
    return [float(torch.stack(of_site).quantile(0.5)) for of_site in sizes]  # the mean of the middle two


def study():
    """All that the page reports."""
    torch.set_num_threads(1)
    net, none_right = trained("other")
    shuffled, some_right = trained("shuffled")
    report = diagnosed(net, trained("other", layers=0)[0])
    torch.manual_seed(SEED)
    read, plain = ReadNet(), ReadNet(cut=False)
    train_read(read)
    plain.load_state_dict(read.state_dict())
    frozen = walkback.frozen_baseline(train_read, ReadNet, HELD_OUT, seed=SEED, blocks="layers.*")
    named = {"blocks": "layers.*", "method_name": "forward-forward, read out", "frozen_baseline_acc": frozen}
    with torch.no_grad():
        of_layers = net.goodness(TEST_X)
    return {
        "report": report,
        "by_hand": by_hand(net),
        "some_right": some_right,
        "none_right": none_right,
        "shuffled": accuracy(shuffled.predict),
        "first_alone": accuracy(trained("other", layers=1)[0].predict),
        "each": [float((of_layers[layer].argmax(dim=1) == TEST_Y).float().mean()) for layer in range(DEPTH)],
        "saved": len(net.state_dict()),
        "as_written": said(lambda: walkback.diagnose(net, HELD_OUT)),
        "eval": said(net.eval),
        "cut": walkback.diagnose(read, HELD_OUT, **named),
        "twin": walkback.diagnose(read, HELD_OUT, reference=plain, **named),
    }


def why_walked_back(report):
    """(c) alone is no reason to doubt a network; what `calibrated` finds is another matter."""
    calibrated = report.under("calibrated")
    by_c = (
        "The walk-back is by (c) alone, which is not a reliable detector on its own and fires on healthy networks too\n"
        "([verdicts](../verdicts.md)). "
    )
    return f"""{by_c if report.decided_by == ("c",) else ""}In the panel `calibrated` (c) only informs. That one says
`{calibrated.decision.words}`: a linear readout
of h_0 answers {report.readouts.correct[0].share:.1%}, the network {report.headline_acc:.1%}, and one layer multiplies the stream by {calibrated.reading("bg").value:.1f} times as much as before training.
No network of the bench was trained by forward-forward, so no error rate is known for this verdict."""


def page(found):
    report, cut, twin = found["report"], found["cut"], found["twin"]
    sites = cases.table(
        ("site", "‖h‖", "‖h‖ by hand", "true ‖g‖"),
        [
            (f"h_{number}", f"{size:.3g}", f"{plain:.3g}", f"{slope:.1e}")
            for number, (size, plain, slope) in enumerate(
                zip(report.residual_norms, found["by_hand"], report.bp_grad_norms, strict=True)
            )
        ],
    )
    alone = ", ".join(f"{value:.1%}" for value in found["each"])
    return f"""# Forward-forward as public repositories write it

Made by `python examples/12_case_forward_forward.py --write docs/case-studies/forward-forward.md`, with torch
{torch.__version__}, on scikit-learn's digits: {len(TRAIN_X):,} images to learn from, {len(TEST_X)} held out, {DEPTH} layers of {WIDTH}, {STEPS} steps a layer,
one seed. The code is this project's own, in two styles that public repositories have. No code of theirs is run.

- **Goodness** (as in mpezeshki/pytorch_forward_forward, commit 1c7a211): the label stands in the first ten pixels; each layer
  trains itself to have a large mean square for right labels and a small one for wrong ones; the answer is the label with the
  largest sum over layers.
- **Read out** (as in loeweX/Forward-Forward, commit da516f0): one loss over all layers, detached from each other; a ReLU whose
  backward pass lets every gradient through; a linear classifier reads the layers behind the first.

## What a user writes

The first style has `predict` in place of `forward`, so a few lines say what the logits are. All ten labels of a sample are
asked at once, and h_l has a row for each.

```python
{cases.shown(__file__)}
```

Without them the network is refused in a sentence:

> {found["as_written"]}

## What was found: goodness

verdict: `{report.verdict}`, accuracy {report.headline_acc:.1%}; the same network untrained {report.frozen_baseline_acc:.1%}.
{why_walked_back(report)}

{sites}

- ‖h‖ was computed a second time, by hand in fp64, one sample and label at a time. The gradient was checked by finite
  differences: largest error {report.reference_check.error:.0e}.
- **Which layers answer?** By the goodness of one layer alone: {alone}. With the first layer trained and the others left at
  random, the sum answers {found["first_alone"]:.1%}. (d) compares with a network in which nothing was trained, and does not see
  this: against that second network the margin is {100 * (report.headline_acc - found["first_alone"]):+.1f} points.
- **Negatives.** Where wrong labels are the labels of other samples, drawn by a permutation of the batch, {found["some_right"]:.1%} of them are
  right by chance (about one in ten, with ten classes of one size). Trained so, the same network reaches {found["shuffled"]:.1%}; with labels that
  are always wrong, {report.headline_acc:.1%}. One seed is no statement on which is better.
- **Two things to know.** Layers that are kept in a plain list are no parts of the module: `net.state_dict()` has
  {found["saved"]} entries, so nothing is saved. And a `train` with arguments of its own takes the place of torch's, which
  `net.eval()` calls: `{found["eval"]}`. walkback sets modes without calling it.

## What was found: read out

Accuracy {cut.headline_acc:.1%}; with the layers left at random and the classifier alone trained, {cut.frozen_baseline_acc:.1%}: (d) is {cut.reading("d").value:+.1f} points. The
verdict is `{cut.verdict}`, and with the twin below `{twin.verdict}`. No layer hears of the next, so autograd has no gradient at the sites, and
walkback says so:

> {cut.reference_check.reason}

(a) is measured all the same: {cut.reading("a").value:.2f}. With a twin as the `reference=`, of the same weights and without the `detach`, the rest is:
the gradient is {"" if twin.reference_check.passed else "not "}that of the network (largest error {twin.reference_check.error:.0e}, the ReLU's own backward pass seen through),
median ‖g_L‖ is {twin.reading("b").value:.1e}, and (c) is {twin.reading("c").value:.2f}.

## What could not be measured

- **Γ.** Forward-forward sends no credit from the output to a layer, so there is nothing to compare with the gradient.
- **(d) by `frozen_baseline`.** In the first style every parameter lies in a block, and nothing is left to train once they are
  frozen. The untrained network stands in for it, and the report says that what it froze is not known.
- The repositories themselves: their code reads MNIST by torchvision, and the first one calls `.cuda()`. Neither was at hand.
- More seeds, and data on which more than one layer is needed.
"""


if __name__ == "__main__":
    cases.main(__doc__, study, page)
