"""Small networks that are trained while a monitor looks on."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, INPUTS, CLASSES = 16, 8, 4


class Block(nn.Module):
    def __init__(self, width=WIDTH, dropout=0.0):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, h):
        return h + self.down(self.drop(F.gelu(self.up(self.norm(h)))))


class Net(nn.Module):
    def __init__(self, depth=3, dropout=0.0, dtype=None):
        super().__init__()
        self.stem = nn.Linear(INPUTS, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout=dropout) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.to(dtype or torch.float32)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def make_batches(*sizes, seed=1):
    g = torch.Generator().manual_seed(seed)
    batches = []
    for size in sizes:
        x = torch.randn(size, INPUTS, generator=g)
        batches.append((x, x[:, :CLASSES].abs().argmax(1)))
    return batches


def bp_step(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


class Feedback:
    """Direct feedback alignment with credit of unit norm, which makes the stream explode."""

    def __init__(self, model, seed=1):
        g = torch.Generator().manual_seed(seed)
        self.matrices = [torch.randn(CLASSES, WIDTH, generator=g) for _ in range(len(model.blocks) + 1)]

    def step(self, model, optimizer, x, y):
        optimizer.zero_grad()
        sites = [model.stem(x)]
        for block in model.blocks:
            sites.append(block(sites[-1].detach()))
        logits = model.head(model.norm(sites[-1].detach()))
        error = (logits.softmax(1) - F.one_hot(y, CLASSES)).detach()
        F.cross_entropy(logits, y).backward()
        torch.autograd.backward(sites, [F.normalize(error @ m) / len(y) for m in self.matrices])
        optimizer.step()
