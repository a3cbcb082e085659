"""Stop a run that is already lost: a monitor in a plain training loop.

The same residual MLP is trained by backpropagation and by direct feedback alignment. The monitor measures both on a few
held-out batches; it leaves the first alone and stops the second, and its trace says when and why. With Accelerate it is
the same loop: hand the monitor the model that `accelerator.prepare` returned.

The published verdict on the first is a walk-back all the same, by (c) alone, although nothing is wrong with it: (c) is
not a reliable detector on its own, and fires on healthy networks that are small or trained briefly. That is why it
stops no run, and why it only informs in the panel `calibrated` (docs/VALIDITY.md).
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import walkback

WIDTH, INPUTS, CLASSES, EPOCHS = 64, 16, 10, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        nn.init.normal_(self.down.weight, std=0.01)

    def forward(self, h):
        return h + self.down(F.gelu(self.up(self.norm(h))))


class ResidualMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(INPUTS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def make_data(samples=6000):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(samples, INPUTS, generator=g)
    folded = (x @ torch.randn(INPUTS, 64, generator=g)).abs()
    folded = (folded - folded.mean(0)) / folded.std(0)
    return x, (folded @ torch.randn(64, CLASSES, generator=g)).argmax(1)


def bp_step(model, x, y):
    F.cross_entropy(model(x), y).backward()


def dfa_step(model, x, y, feedback):
    """Each block is told the error times a random matrix of its own, scaled to unit norm per sample."""
    sites = [model.stem(x)]
    for block in model.blocks:
        sites.append(block(sites[-1].detach()))
    logits = model.head(sites[-1].detach())
    error = (logits.softmax(1) - F.one_hot(y, CLASSES)).detach()
    F.cross_entropy(logits, y).backward()
    torch.autograd.backward(sites, [F.normalize(error @ matrix) / len(y) for matrix in feedback])


def train(name, step, folder):
    torch.manual_seed(0)
    model = ResidualMLP()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = make_data()
    train_x, train_y, held_x, held_y = x[:-1024], y[:-1024], x[-1024:], y[-1024:]
    held_out = list(zip(held_x.split(128), held_y.split(128), strict=True))

    monitor = walkback.Monitor(model, held_out, trace=Path(folder) / f"{name}.jsonl", live=True)
    for epoch in range(1, EPOCHS + 1):
        for index in torch.randperm(len(train_x)).split(128):
            optimizer.zero_grad()
            step(model, train_x[index], train_y[index])
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(held_x).argmax(1) == held_y).float().mean().item()
        decision = monitor.step(epoch=epoch, accuracy=accuracy)
        if decision.stop:
            break
    print(f"{name}: {decision.action} after epoch {epoch} of {EPOCHS}. {decision.reason}")
    return decision


def main(folder):
    draw = torch.Generator().manual_seed(1)
    feedback = [torch.randn(CLASSES, WIDTH, generator=draw) for _ in range(5)]
    return train("bp", bp_step, folder), train("dfa", lambda *batch: dfa_step(*batch, feedback), folder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
        print("\nThe same again, from the traces alone:\n")
        for entry in walkback.replay(sorted(Path(folder).glob("*.jsonl"))):
            print(f"{entry.name}: {entry.report.verdict}; would stop: {entry.course.stop or 'never'}")
