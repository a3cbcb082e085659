"""A run on permuted labels: dealt out once, every class as frequent as before, measured on the true ones."""

from __future__ import annotations

import torch
from tiny_runs import tiny

from walkback.lab.runs.progress import Silent
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import Training, train_or_resume


def training(config, path):
    return Training(config, RunStore(path).run(config), Silent(), torch.device("cpu"))


def test_labels_are_dealt_out_once_and_the_inputs_stay(tmp_path):
    true, permuted = (training(tiny("bp", targets=targets), tmp_path) for targets in ("true", "permuted"))
    seen: dict[bytes, set[int]] = {}
    for epoch in range(3):
        pairs = zip(true.batches.epoch(epoch), permuted.batches.epoch(epoch), strict=True)
        for (inputs, _), (same, labels) in pairs:
            assert torch.equal(inputs, same)
            for row, label in zip(same, labels.tolist(), strict=True):
                seen.setdefault(row.numpy().tobytes(), set()).add(label)
    assert all(len(labels) == 1 for labels in seen.values())
    before, after = (run.batches._split.labels for run in (true, permuted))
    assert torch.equal(before.bincount(), after.bincount())
    assert (before == after).double().mean() < 0.2
    assert torch.equal(permuted.dataset.test.labels, true.dataset.test.labels)


def test_the_run_has_an_id_of_its_own_and_says_what_it_was(tmp_path):
    config = tiny("bp", targets="permuted", epochs=1)
    assert config.run_id not in {tiny("bp", epochs=1).run_id, tiny("bp", targets="random", epochs=1).run_id}
    run = train_or_resume(config, RunStore(tmp_path))
    assert "dealt out anew" in run.result()["report"]["notes"]
    assert "--targets permuted" in config.command
