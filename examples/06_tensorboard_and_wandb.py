"""Log every measurement of a monitor to TensorBoard and to Weights & Biases, offline, and read the events back.

Needs `pip install "walkback[tensorboard,wandb]"`.
"""

import os
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import walkback
from walkback.integrations.tensorboard import TensorBoardLog


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, h):
        return h + self.linear(self.norm(h)).relu()


def train(logs, trace, learning_rate=10.0, epochs=6):
    """A learning rate this large makes the stream explode."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), *(Block(32) for _ in range(4)), nn.LayerNorm(32), nn.Linear(32, 4))
    x = torch.randn(1024, 8)
    y = x[:, :4].abs().argmax(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    monitor = walkback.Monitor(model, [(x[-256:], y[-256:])], trace=trace, logs=logs)
    for epoch in range(1, epochs + 1):
        for index in torch.randperm(768).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
        if monitor.step(epoch=epoch).stop:
            break
    return monitor.decision


def main(folder):
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    from walkback.integrations.wandb import WandbLog

    folder = Path(folder)
    run = wandb.init(project="walkback-example", mode="offline", dir=str(folder))
    board = TensorBoardLog(folder / "events")
    decision = train([board, WandbLog(run)], folder / "trace.jsonl")
    board.close()
    summary = dict(run.summary)
    run.finish()
    print(f"{decision.action}: {decision.reason}")
    print("W&B's summary:", summary["walkback/verdict"])
    (entry,) = walkback.replay(folder / "events")
    print(f"From TensorBoard's events: {entry.report.verdict}; would stop: {entry.course.stop}")
    return decision, summary, entry


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
