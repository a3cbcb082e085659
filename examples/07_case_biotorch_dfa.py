"""Case study: biotorch's DFA on a residual MLP, seen by walkback's identity checks and by its lint.

    python examples/07_case_biotorch_dfa.py                                     # about ten seconds
    python examples/07_case_biotorch_dfa.py --write docs/case-studies/biotorch-dfa-residual.md

biotorch is fetched by pip into a directory of its own, without the libraries that it asks for and this does not need.
"""

import argparse
import contextlib
import importlib.metadata
import io
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import walkback

PACKAGE, VERSION = "biotorch", "0.0.16"
WIDTH, INPUTS, CLASSES, BLOCKS, SEED = 128, 16, 10, 4, 0


def fetch(folder):
    """Install biotorch into a directory; SystemExit with pip's own words where it cannot be had."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        folder,
        f"{PACKAGE}=={VERSION}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{PACKAGE} {VERSION} could not be installed by pip:\n{done.stderr.strip()}")


class Block(nn.Module):
    """h + f(h); with `skip="detached"` the identity passes h on, but no gradient back."""

    def __init__(self, skip):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.skip = skip

    def forward(self, h):
        carried = h.detach() if self.skip == "detached" else h
        return carried + self.down(F.gelu(self.up(self.norm(h))))


class ResidualMLP(nn.Module):
    def __init__(self, skip="plain"):
        super().__init__()
        self.stem = nn.Linear(INPUTS, WIDTH)
        self.blocks = nn.ModuleList(Block(skip) for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def summed_loss(logits, targets):
    return F.cross_entropy(logits, targets, reduction="sum")


class BiotorchCredit:
    """What biotorch's backward pass hands to each site: the gradient that arrives at h_l, with its hooks at work."""

    independent_feedback = True  # DFA draws one matrix for each layer

    def __init__(self, converted):
        self.converted = converted

    def credits(self, trace):
        network, sites = self.converted.module, []
        read = [network.stem, *network.blocks]
        hooks = [module.register_forward_hook(lambda _, __, out: sites.append(out)) for module in read]
        self.converted.train()  # biotorch sends the error to its layers in training mode alone
        try:
            with torch.enable_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of torch, about the kind of hook that biotorch uses
                logits = self.converted(trace.inputs, trace.targets, summed_loss)
                return list(torch.autograd.grad(summed_loss(logits, trace.targets), sites))
        finally:
            for hook in hooks:
                hook.remove()


def made_data(samples=1280):
    generator = torch.Generator().manual_seed(SEED)
    inputs = torch.randn(samples, INPUTS, generator=generator)
    labels = (inputs @ torch.randn(INPUTS, CLASSES, generator=generator)).argmax(dim=1)
    return list(zip(inputs.split(128), labels.split(128), strict=True))


def diagnosed(skip):
    """The report on a plain twin of the converted network, with the credit of the converted one.

    On the converted network itself autograd gives biotorch's credit in place of the gradient, and Γ would be 1.
    """
    from biotorch.module.biomodule import BioModule

    torch.manual_seed(SEED)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it converted
        converted = BioModule(ResidualMLP(skip), mode="dfa", output_dim=CLASSES)
    twin = ResidualMLP()
    twin.load_state_dict({k: v for k, v in converted.module.state_dict().items() if "backward" not in k})
    credit = BiotorchCredit(converted)
    return walkback.diagnose(twin, made_data(), credit=credit, method_name=f"biotorch DFA, {skip} skip"), converted


def textbook_gap():
    """On a plain MLP: how far biotorch's credit at a hidden layer is from e·B, relative to its size."""
    from biotorch.module.biomodule import BioModule

    torch.manual_seed(SEED)
    layers = [nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)]
    with contextlib.redirect_stdout(io.StringIO()):
        converted = BioModule(nn.Sequential(*layers), mode="dfa", output_dim=CLASSES)
    hidden = []
    converted.module[1].register_forward_hook(lambda _, __, out: hidden.append(out))
    inputs, targets = made_data()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        logits = converted(inputs, targets, summed_loss)
        (credit,) = torch.autograd.grad(summed_loss(logits, targets), hidden)
    error = (logits.softmax(dim=1) - F.one_hot(targets, CLASSES)).detach()
    expected = error @ converted.module[2].weight_backward
    return float((credit - expected).norm() / expected.norm())


def linted(folder):
    """The findings of walkback's lint in biotorch's own source."""
    from walkback.lint.check import check_paths, chosen_rules

    return check_paths([Path(folder) / PACKAGE], chosen_rules())


def whole_model_loads():
    """Whether torch.load, as biotorch's benchmark calls it, reads a whole model that torch.save wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model_best_acc.pth"
        torch.save(nn.Linear(INPUTS, CLASSES), path)
        try:
            torch.load(path)  # noqa: WB007
        except pickle.UnpicklingError:
            return False
    return True


def study(folder):
    """All that the page reports; `folder` holds biotorch."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from biotorch.training.metrics import compute_angles_module

    leaking, converted = diagnosed("plain")
    fixed, _ = diagnosed("detached")
    checked = linted(folder)
    return {
        "version": next(d.version for d in importlib.metadata.distributions(path=[folder]) if d.name == PACKAGE),
        "leaking": leaking,
        "fixed": fixed,
        "textbook_gap": textbook_gap(),
        "angles": dict(compute_angles_module(converted)),
        "findings": [f"{Path(f.path).relative_to(folder).as_posix()}:{f.line} {f.code}" for f in checked.findings],
        "files": checked.files,
        "whole_model_loads": whole_model_loads(),
    }


def page(found):
    leaking, fixed = found["leaking"], found["fixed"]
    rows = "\n".join(
        f"| {site} and {site + 1} | {before:+.2f} | {after:+.2f} |"
        for site, (before, after) in enumerate(
            zip(leaking.alignment.neighbours, fixed.alignment.neighbours, strict=True)
        )
    )
    read = "reads" if found["whole_model_loads"] else "refuses"
    places = ", ".join(f"`{finding}`" for finding in found["findings"])
    gap, angles, files, version = (found[key] for key in ("textbook_gap", "angles", "files", "version"))
    return f"""# biotorch's DFA on a residual network

Made by `python examples/07_case_biotorch_dfa.py --write docs/case-studies/biotorch-dfa-residual.md`, with
{PACKAGE} {version} (2021) as pip installs it and torch {torch.__version__}. The network is a pre-norm
residual MLP, {BLOCKS} blocks of width {WIDTH}, at random initialisation, on made-up data: the effect is in
the backward pass, and needs no training.

## What it does

biotorch turns a network's layers into layers of feedback alignment or DFA, in place and with one call. In
DFA mode each `Linear` has a backward hook that puts e·B, with a random B of its own, in place of the
gradient of its input. On a plain MLP that is textbook DFA: the credit of a hidden layer differs from e·B by
{gap:.0e}. On a residual network it is something else: the hook replaces what enters the *layer*, and the
identity skip around it still carries gradient, so that the credit of a site is the sum of the feedback of
all blocks above it. biotorch does not warn of this, and the accuracy alone does not tell.

## What walkback sees

DFA gives each layer its own matrix, so the credits of neighbouring sites should have a cosine near 0:

| sites | biotorch | with the skip detached |
| --- | ---: | ---: |
{rows}

walkback's identity check says of the first:

> {leaking.warnings[0]}

and of the second nothing. `compute_angles_module` on the DFA network returns `{angles}`: its angle is
between a weight and a feedback matrix of the same shape, which DFA does not have (its Trainer prints that
it is not implemented for DFA). Whoever needs an alignment for DFA has to take it from the credit, as here.

Two things to know when measuring a converted network. autograd on it gives biotorch's credit, not the
gradient: measure on a plain twin with the same weights. And the hooks are of the kind that torch calls
deprecated (`register_backward_hook`).

## What lint sees

`walkback lint` on biotorch's {files} files: {places}. These are true: `training/trainer.py` saves whole
models with `torch.save(model)`, and torch {torch.__version__} {read} such a file when `torch.load` is
called without `weights_only`. The feedback matrices are parameters without gradient, so that `state_dict`
saves them: WB005 is silent, as it should be. No rule finds the leak: it is not in a line, it is in what a
skip does.

## The fix

In the block, pass the identity on and no gradient back while DFA trains: `h.detach() + f(h)` in place of `h
+ f(h)`. The credit of a site is then that of the block that reads it alone. Or call the method what it is,
accumulated direct feedback; it may well be the better one, but it is not the one that the literature
reports as DFA.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page to this file")
    target = parser.parse_args().write
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        fetch(folder)
        text = page(study(folder))
    if target:
        target.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
