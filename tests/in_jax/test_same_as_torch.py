"""The same network in torch and in JAX with the same weights: every number of both reports is the same to 1e-5."""

from __future__ import annotations

import math

import networks_in_both as both
import numpy as np
import pytest
import torch

import walkback
import walkback.jax
from walkback.protocol.functional import unit_directions
from walkback.protocol.functional_meter import SEED

NEAR = 1e-5
TINY = 0.01
"""Cosines and correlations of about nothing are held to this much of it."""
NULL = 20


def compare(mine, theirs, where=""):
    """Every number of two records, field by field; words and counts are the same, numbers within 1e-5 of their size."""
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys(), where
        for name in mine:
            compare(mine[name], theirs[name], f"{where}.{name}")
    elif isinstance(mine, list):
        assert len(mine) == len(theirs), where
        for number, pair in enumerate(zip(mine, theirs, strict=True)):
            compare(*pair, f"{where}[{number}]")
    elif isinstance(mine, float):
        assert isinstance(theirs, float | int), where
        assert math.isclose(mine, theirs, rel_tol=NEAR, abs_tol=NEAR * TINY), f"{where}: {mine} and {theirs}"
    else:
        assert mine == theirs, where


def compared(torch_report, jax_report, apart=("sites", "moved_blocks", "reference_check")):
    """Compare all that was measured, and every reading; returns the names of the fields that hold something."""
    mine, theirs = (report.measurements.to_dict() for report in (jax_report, torch_report))
    for name in apart:
        assert (mine[name] is None) == (theirs[name] is None)
    # Finite differences take other directions, which say the same.
    assert mine["reference_check"]["passed"] is True
    assert theirs["reference_check"]["passed"] is True
    compare(*({k: v for k, v in record.items() if k not in apart} for record in (mine, theirs)))
    readings = [[(r.letter, r.state, r.site, r.case, r.fragile) for r in report.readings] for report in
                (torch_report, jax_report)]  # fmt: skip
    assert readings[0] == readings[1]
    assert torch_report.verdict == jax_report.verdict
    assert {n: v.words for n, v in torch_report.verdicts.items()} == {
        n: v.words for n, v in jax_report.verdicts.items()
    }
    return {name for name, value in theirs.items() if value not in (None, "", [], {})}


@pytest.fixture
def torch_directions(monkeypatch):
    """The directions that torch draws, for both engines."""

    def drawn(site, samples, shape, count=32):
        generator = torch.Generator().manual_seed(SEED + site)
        return torch.stack([unit_directions(shape, count, generator) for _ in range(samples)]).numpy()

    monkeypatch.setattr("walkback.jax.functional.unit_directions", drawn)


def test_everything_on_an_mlp(torch_directions):
    torch.manual_seed(0)
    batches = both.samples((12,), 5)
    model = both.TorchMLP()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    both.trained(model, batches)
    matrices = [both.feedback(seed, [24] * 5, 5) for seed in range(NULL + 1)]
    train = [(batches[1][0], (batches[1][1] + (np.arange(128) == 3)) % 5)]
    common = {
        "frozen_baseline_acc": walkback.Score(value=0.4, samples=300), "method_name": "DFA", "seed": 3,
        "functional": 12, "readouts": True, "null_draws": NULL,
    }  # fmt: skip
    of_torch = walkback.diagnose(
        model,
        [tuple(map(torch.from_numpy, batch)) for batch in batches],
        blocks="blocks.*",
        credit=both.torch_credit(matrices[0], matrices[1:]),
        initial=before,
        train_batches=[tuple(map(torch.from_numpy, batch)) for batch in train],
        **common,
    )
    blocks = {f"blocks.{n}": both.block(n) for n in range(4)}
    of_jax = walkback.jax.diagnose(
        both.whole(both.stem, list(blocks.values()), both.head),
        both.parameters(model),
        blocks,
        batches,
        stem=both.stem,
        head=both.head,
        credit=both.jax_credit(matrices[0], matrices[1:]),
        initial={name: both.array(value) for name, value in before.items()},
        train_batches=train,
        **common,
    )
    measured = compared(of_torch, of_jax, ("reference_check",))
    assert of_torch.warnings == of_jax.warnings
    # Nothing is the same because it is missing in both.
    assert measured >= {
        "residual_norms", "residual_norm_intervals", "bp_grad_norms", "bp_grad_norm_intervals", "error_size",
        "scale_free_gradients", "reference_fidelity", "cross_batch_stability", "site_stabilities", "drift_shares",
        "drift_share_intervals", "groups", "headline_acc", "headline_correct", "classes", "alignment",
        "perturbation_rho", "perturbation_rho_intervals", "scaled_rho", "nudge", "nudge_intervals", "unit_nudge",
        "unit_nudge_intervals", "readouts", "total_growth", "growth_from_init", "block_movement", "stem_movement",
        "head_movement", "gradient_per_error", "overlap",
    }  # fmt: skip
    assert of_jax.overlap.count == 128
    assert of_jax.overlap.same_label == 127


@pytest.mark.parametrize(("tokens", "read_all"), [(None, False), (None, True), ("token_norms", False)])
def test_tokens(tokens, read_all):
    torch.manual_seed(1)
    batches = both.samples((6, 12), 5)
    if read_all:
        drawn = np.random.default_rng(5)
        labels = [drawn.integers(0, 5, (len(y), 6)) for _, y in batches]
        labels[0][:20, 4:] = -100
        batches = [(x, y) for (x, _), y in zip(batches, labels, strict=True)]
    model = both.trained(both.TorchTokens(read_all=read_all), batches, steps=5)
    kwargs = {"tokens": tokens, "frozen_baseline_acc": 0.2}
    pairs = [tuple(map(torch.from_numpy, batch)) for batch in batches]
    of_torch = walkback.diagnose(model, pairs, blocks="blocks.*", **kwargs)
    blocks = [both.mixed(n) for n in range(3)]
    head = both.head if read_all else both.class_head
    of_jax = walkback.jax.diagnose(
        both.whole(both.stem, blocks, head),
        both.parameters(model),
        blocks,
        batches,
        stem=both.stem,
        head=head,
        **kwargs,
    )
    measured = compared(of_torch, of_jax)
    assert ("perplexity" in measured) == read_all
    assert of_jax.site_reduction == of_torch.site_reduction


def test_images_and_their_readouts():
    torch.manual_seed(2)
    batches = both.samples((5, 5, 3), 4, count=200, sizes=(128, 72))
    torch_batches = [(torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(y)) for x, y in batches]
    model = both.TorchConv()
    blocks = [both.conv_block(n) for n in range(3)]
    of_torch = walkback.diagnose(model, torch_batches, blocks="blocks.*", readouts=True)
    # Behind each activation, as torch's sites are.
    of_jax = walkback.jax.diagnose(
        both.whole(both.conv_stem, blocks, both.conv_head), both.parameters(model), blocks, batches,
        stem=both.conv_stem, head=both.conv_head, readouts=True,
    )  # fmt: skip
    compared(of_torch, of_jax)


def test_a_network_so_confident_that_fp32_loses_its_error():
    torch.manual_seed(3)
    batches = both.samples((12,), 5)
    model = both.TorchMLP()
    with torch.no_grad():
        model.head.weight *= 15
    labels = [model(torch.from_numpy(x)).argmax(1).numpy() for x, _ in batches]
    batches = [(x, y) for (x, _), y in zip(batches, labels, strict=True)]
    blocks = [both.block(n) for n in range(4)]
    of_torch = walkback.diagnose(model, [tuple(map(torch.from_numpy, b)) for b in batches], blocks="blocks.*")
    of_jax = walkback.jax.diagnose(
        both.whole(both.stem, blocks, both.head), both.parameters(model), blocks, batches, stem=both.stem,
        head=both.head,
    )  # fmt: skip
    with torch.no_grad():
        errors = [1 - torch.softmax(model(torch.from_numpy(x)).double(), 1).amax(1) for x, _ in batches]
    assert 1e-12 < float(torch.cat(errors).min()) < 1e-8  # less than fp32 tells from nothing
    compared(of_torch, of_jax)
