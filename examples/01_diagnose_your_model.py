"""Diagnose your own model: a residual MLP, trained by backpropagation and by direct feedback alignment.

Nothing here comes from walkback's zoo: the network, the data and both training loops are what you might have
written yourself. Both networks are then measured on the same held-out batches. Run it with
`python examples/01_diagnose_your_model.py`.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn

import walkback

WIDTH, INPUTS, CLASSES, EPOCHS, SEED = 128, 16, 10, 6, 0


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        nn.init.normal_(self.down.weight, std=0.01)

    def forward(self, h):
        return h + self.down(F.gelu(self.up(self.norm(h))))


class ResidualMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(INPUTS, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def make_data(samples=24_000):
    """Classes that no linear readout can tell apart: a teacher that folds its input before it mixes it."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(samples, INPUTS, generator=g)
    features = x @ torch.randn(INPUTS, 64, generator=g) / INPUTS**0.5
    folded = features.abs()
    folded = (folded - folded.mean(0)) / folded.std(0)
    hidden = torch.tanh((0.7 * folded + 0.3 * features) @ torch.randn(64, 64, generator=g) / 16)
    return x, (hidden @ torch.randn(64, CLASSES, generator=g)).argmax(1)


inputs, labels = make_data()
train_x, train_y = inputs[:-4000], labels[:-4000]
held_out = list(zip(inputs[-4000:].split(128), labels[-4000:].split(128), strict=True))


def epochs_of_batches():
    order = torch.Generator().manual_seed(SEED)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(train_x), generator=order).split(128):
            yield train_x[index], train_y[index]


def train_bp(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in epochs_of_batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


class Feedback:
    """Direct feedback alignment: site l is told e·B_l, scaled to unit norm for every sample."""

    independent_feedback = True

    def __init__(self, generator):
        self.matrices = [torch.randn(CLASSES, WIDTH, generator=generator) / WIDTH**0.5 for _ in range(5)]

    def __call__(self, hiddens, logits, targets):
        error = logits.softmax(1) - F.one_hot(targets, CLASSES)
        return [F.normalize(error @ matrix, eps=1e-30) for matrix in self.matrices]

    def redraw(self, generator):
        return Feedback(generator)


feedback = Feedback(torch.Generator().manual_seed(SEED))


def train_dfa(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for x, y in epochs_of_batches():
        sites = [model.stem(x)]
        for block in model.blocks:
            sites.append(block(sites[-1].detach()))
        logits = model.head(model.norm(sites[-1].detach()))
        credits = feedback(sites, logits.detach(), y)
        taught = [(h, a / len(y)) for h, a in zip(sites, credits, strict=True) if h.requires_grad]
        optimizer.zero_grad()
        F.cross_entropy(logits, y).backward()
        torch.autograd.backward([h for h, _ in taught], [a for _, a in taught])
        optimizer.step()


def audit(name, train, credit=None):
    """The lines that you would add to your own script."""
    torch.manual_seed(SEED)
    model = ResidualMLP()
    train(model)
    frozen = walkback.frozen_baseline(train, ResidualMLP, held_out, seed=SEED)
    return walkback.diagnose(model, held_out, frozen_baseline_acc=frozen, method_name=name, credit=credit, seed=SEED)


if __name__ == "__main__":
    torch.set_num_threads(1)  # a network this small is no faster with more
    started = time.perf_counter()
    print("Training a residual MLP by BP and by scaled DFA, and each again with its blocks frozen …\n", flush=True)
    reports = [audit("BP", train_bp), audit("scaled DFA", train_dfa, credit=feedback)]
    for report in reports:
        print(report, end="\n\n")
    print(walkback.compare(reports))
    print(f"\n4 networks trained and 2 diagnosed in {time.perf_counter() - started:.0f} s.")
