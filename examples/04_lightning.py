"""Lightning: one callback, and a run that is already lost stops at the end of the epoch in which that shows.

Needs `pip install "walkback[lightning]"`. The module trains a residual MLP by backpropagation, or by direct feedback
alignment in manual optimization; the callback takes its held-out batches from the validation loader.
"""

import logging
import tempfile
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from lightning import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from walkback.integrations.lightning import WalkbackCallback

WIDTH, INPUTS, CLASSES = 64, 16, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, h):
        return h + self.down(F.gelu(self.up(self.norm(h))))


class Residual(LightningModule):
    def __init__(self, method):
        super().__init__()
        self.stem = nn.Linear(INPUTS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))
        self.automatic_optimization = method == "bp"
        for site in range(4):
            self.register_buffer(f"feedback_{site}", torch.randn(CLASSES, WIDTH))

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-3)

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self(x), y) if self.automatic_optimization else self.feedback_alignment(x, y)

    def feedback_alignment(self, x, y):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        sites = [self.stem(x)]
        for block in self.blocks:
            sites.append(block(sites[-1].detach()))
        logits = self.head(sites[-1].detach())
        error = (logits.softmax(1) - F.one_hot(y, CLASSES)).detach()
        credits = [F.normalize(error @ getattr(self, f"feedback_{site}")) / len(y) for site in range(4)]
        F.cross_entropy(logits, y).backward()
        torch.autograd.backward(sites, credits)
        optimizer.step()

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_acc", (self(x).argmax(1) == y).float().mean())


def loaders(samples=4096):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(samples, INPUTS, generator=g)
    folded = (x @ torch.randn(INPUTS, 64, generator=g)).abs()
    y = ((folded - folded.mean(0)) @ torch.randn(64, CLASSES, generator=g)).argmax(1)
    held_out = samples - 1024
    train, val = TensorDataset(x[:held_out], y[:held_out]), TensorDataset(x[held_out:], y[held_out:])
    return DataLoader(train, 128, shuffle=True), DataLoader(val, 128)


def train(method, folder, epochs=8):
    torch.manual_seed(0)
    watch = WalkbackCallback(accuracy="val_acc", trace=Path(folder) / f"{method}.jsonl")
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[watch], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Residual(method), *loaders())
    decision = watch.monitor.decision
    print(f"{method}: {decision.action} after {trainer.current_epoch} of {epochs} epochs. {decision.reason}")
    return trainer.current_epoch, decision


def main(folder):
    return {method: train(method, folder) for method in ("bp", "dfa")}


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
