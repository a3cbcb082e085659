"""Other programs that watch a training run, installed beside the project for one benchmark, never into it."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

# cockpit needs pkg_resources, which setuptools has dropped; the others are what the two import. No torch among them.
PACKAGES = (
    "cockpit-for-pytorch", "backpack-for-pytorch", "einops", "unfoldNd", "json-tricks", "seaborn", "pandas", "pytz",
    "python-dateutil", "six", "tzdata", "delve", "tensorboardX", "setuptools<81",
)  # fmt: skip
CHEAP = ("Loss", "Distance", "UpdateSize", "GradNorm")

Step = Callable[[], None]
Build = Callable[[], tuple[nn.Module, torch.optim.Optimizer, Callable[[], tuple[torch.Tensor, torch.Tensor]]]]


def install(folder: str | None) -> str:
    """Put the peers on the path, from a folder that has them or from a fresh one; why not, where that fails."""
    target = folder or tempfile.mkdtemp(prefix="walkback-peers-")
    if not any(Path(target).glob("cockpit*")):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"pip install failed: {done.stderr.strip().splitlines()[-1]}"
    sys.path.append(target)
    return ""


def cockpit_step(build: Build, names: tuple[str, ...]) -> Step:
    """A training step under cockpit with these quantities at every step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cockpit = importlib.import_module("cockpit")
        quantities: Any = importlib.import_module("cockpit.quantities")
        schedules: Any = importlib.import_module("cockpit.utils.schedules")
        backpack: Any = importlib.import_module("backpack")
    model, optimizer, batch = build()
    each, mean = nn.CrossEntropyLoss(reduction="none"), backpack.extend(nn.CrossEntropyLoss())
    backpack.extend(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    every_step = schedules.linear(1)
    watcher = cockpit.Cockpit(parameters, quantities=[getattr(quantities, name)(every_step) for name in names])
    count = 0

    def step() -> None:
        nonlocal count
        x, y = batch()
        optimizer.zero_grad()
        outputs = model(x)
        loss = mean(outputs, y)
        info = {"batch_size": len(y), "individual_losses": each(outputs, y), "loss": loss, "optimizer": optimizer}
        with watcher(count, info=info):
            loss.backward(create_graph=watcher.create_graph(count))
        optimizer.step()
        count += 1

    return step


def delve_step(build: Build, plain: Callable[[nn.Module, torch.optim.Optimizer, Any], None]) -> Step:
    """A training step with delve's layer saturation of every linear layer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        delve: Any = importlib.import_module("delve")
    logging.disable(logging.INFO)  # delve names every layer
    model, optimizer, batch = build()
    folder = tempfile.mkdtemp(prefix="walkback-delve-")
    delve.SaturationTracker(f"{folder}/saturation", save_to="csv", modules=model, stats=["lsat"], device="cpu")
    return lambda: plain(model, optimizer, batch)
