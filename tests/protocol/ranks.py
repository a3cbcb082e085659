"""Run by two processes of one job: diagnose with a share of the samples each, and write what came out."""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import walkback
from walkback.protocol import distributed


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, hidden):
        return hidden + torch.tanh(self.inner(self.norm(hidden)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(6, 10), nn.Linear(10, 4)
        self.blocks = nn.ModuleList(Block(10) for _ in range(3))

    def forward(self, x):
        hidden = self.stem(x)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class Feedback:
    """Direct random feedback, which can be drawn again."""

    independent_feedback = True

    def __init__(self, generator):
        self.matrices = [torch.randn(4, 10, generator=generator, dtype=torch.float64) for _ in range(4)]

    def credits(self, trace):
        return [trace.error @ matrix for matrix in self.matrices]

    def redraw(self, generator):
        return Feedback(generator)


def everything(samples):
    """The network and all samples, the same in every process."""
    torch.manual_seed(5)
    network = Network().double()
    return network, torch.randn(samples, 6, dtype=torch.float64), torch.randint(0, 4, (samples,))


def batches(x, y, size):
    return list(zip(x.split(size), y.split(size), strict=True))


def settings():
    return {"credit": Feedback(torch.Generator().manual_seed(1)), "null_draws": 4, "frozen_baseline_acc": 0.2}


def dealt_out(rank, ranks, samples):
    network, x, y = everything(samples)
    wrapped = nn.parallel.DistributedDataParallel(network)
    return walkback.diagnose(wrapped, batches(x[rank::ranks], y[rank::ranks], 50), **settings())


def one_fails(rank, ranks, samples):
    network, x, y = everything(samples)
    share = [] if rank == 1 else batches(x, y, 50)
    return walkback.diagnose(nn.parallel.DistributedDataParallel(network), share)


def uneven(rank, ranks, samples):
    network, x, y = everything(samples)
    return walkback.diagnose(network, batches(x, y, 50)[: 2 + 2 * rank], gather=True)


def one_alone(rank, ranks, samples):
    network, x, y = everything(samples)
    wrapped = nn.parallel.DistributedDataParallel(network)
    if rank == 0:
        return walkback.diagnose(wrapped, batches(x, y, 50), gather=False)
    distributed.MEETING_MINUTES = 0.05
    try:
        return walkback.diagnose(wrapped, batches(x, y, 50))
    finally:
        distributed.MEETING_MINUTES = 1


after_one_alone = dealt_out


def sharded(rank, ranks, samples):
    from torch.distributed.fsdp import fully_shard

    network, x, y = everything(samples)
    return walkback.diagnose(fully_shard(network), batches(x, y, 50))


def main():
    samples, folder, scenes = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for scene in scenes:
        try:
            result = globals()[scene](rank, ranks, samples).to_dict()
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        (folder / f"{scene}-{rank}.json").write_text(json.dumps(result))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
