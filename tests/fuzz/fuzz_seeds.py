"""Sound input of every kind, small and the same on every machine; what is fuzzed is this with damage."""

from __future__ import annotations

import functools
import gzip
import io
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS, GOLDEN = ROOT / "results", ROOT / "tests" / "golden"
AUDIT = RESULTS / "audit_student_net_d128_synthetic_teacher.json"
INTERRUPTED = GOLDEN / "interrupted_0_1" / "091dc279680b"


@functools.cache
def report() -> dict[str, Any]:
    """A report that passes, complete."""
    import walkback

    measured = walkback.Measurements(
        residual_norms=[8.7, 8.8, 9.1], bp_grad_norms=[8e-3, 8e-3, 7e-3], headline_acc=0.61, headline_samples=1000,
        frozen_baseline_acc=0.31, frozen_baseline_samples=1000, site_stabilities=[0.1, 0.05, 0.1], stability_layer=1,
        cross_batch_stability=0.05, samples=1280, groups=10, error_size=0.4, drift_shares=[0.01, 0.01, 0.01],
    )  # fmt: skip
    return walkback.judge(measured, method_name="DFA", seed=0, notes="a note").to_dict()


@functools.cache
def audit() -> dict[str, Any]:
    """An audit of the record, cut to two runs."""
    whole = json.loads(AUDIT.read_text())
    return whole | {"runs": whole["runs"][:2], "reports": whole["reports"][:2]}


@functools.cache
def published() -> dict[str, Any]:
    """An audit as the study wrote it."""
    content: dict[str, Any] = json.loads((GOLDEN / "cnn_audit_3seed.json").read_text())
    return content


@functools.cache
def result() -> dict[str, Any]:
    """The result of a run, cut to four lines of its trace."""
    content: dict[str, Any] = json.loads((RESULTS / "runs" / f"{audit()['runs'][0]['id']}.json").read_text())
    return content


@functools.cache
def trace() -> bytes:
    """A trace of a monitor."""
    return b"".join((GOLDEN / "resmlp_dfa_s42_trace.jsonl").read_bytes().splitlines(keepends=True)[:6])


@functools.cache
def network_record() -> dict[str, Any]:
    """A record of the bench of known truth."""
    packed = sorted((RESULTS / "validity" / "records").glob("*.jsonl.gz"))[0]
    with gzip.open(packed, "rt") as file:
        content: dict[str, Any] = json.loads(file.readline())
    return content


MAP = "h_0=h0,h_1=h1,g_0=g0,g_1=g1,epoch=epoch,acc=acc"
CSV = b"epoch,h0,h1,g0,g1,acc\n" + b"".join(b"%d,1.5,2.5,0.01,0.02,0.%d\n" % (n, n + 1) for n in range(6))
LINES = b"".join(
    json.dumps({"epoch": n, "h0": 1.5, "h1": 2.5, "g0": 0.01, "g1": 0.02, "acc": 0.1 * n}).encode() + b"\n"
    for n in range(6)
)


@functools.cache
def events() -> bytes:
    """A TensorBoard file of four steps, with fixed times."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    file = io.BytesIO()
    writer = RecordWriter(file)
    writer.write(Event(wall_time=1.0, file_version="brain.Event:2").SerializeToString())
    for step in range(4):
        values = {"h0": 1.5, "h1": 2.5, "g0": 0.01, "g1": 0.02, "acc": 0.2 * step}
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        writer.write(Event(wall_time=1.0 + step, step=step, summary=summary).SerializeToString())
    return file.getvalue()


@functools.cache
def checkpoint() -> bytes:
    """What a killed run of walkback 0.1 left."""
    return next((INTERRUPTED / "checkpoints").iterdir()).read_bytes()


def idx_files() -> dict[str, bytes]:
    """The four files of a data set in MNIST's layout: three images and two."""
    draw = np.random.default_rng(0)
    files = {}
    for prefix, count in (("train", 3), ("t10k", 2)):
        images, labels = draw.integers(0, 256, (count, 28, 28), np.uint8), draw.integers(0, 10, count, np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            files[f"{prefix}-{name}-ubyte"] = head + array.tobytes()
    return files


def tar_of(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    """A tar archive with fixed times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def cifar_batch() -> bytes:
    """A batch of CIFAR-10 as a pickle of today's protocol 2, of two images."""
    import pickle

    rows = np.random.default_rng(1).integers(0, 256, (2, 3072), np.uint8)
    return pickle.dumps({b"labels": [3, 4], b"data": rows, b"batch_label": b"x"}, 2)


def cached(compressed: bool) -> bytes:
    """The cache of a data set of images."""
    buffer = io.BytesIO()
    draw = np.random.default_rng(2)
    arrays = {
        f"{split}_{what}": value
        for split in ("train", "test")
        for what, value in (("images", draw.integers(0, 256, (3, 28, 28, 1), np.uint8)), ("labels", np.arange(3)))
    }
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


TOML = b"""method = "dfa"
architecture = "resmlp"
data = "digits"
seed = 7
epochs = 2
batch_size = 640
learning_rate = 0.01
[architecture_options]
width = 12
depth = 2
[method_options]
credit_norm = "per_sample"
"""
SOURCE = b"""import torch
import torch.nn.functional as F


def gamma(credits, grads):
    cosines = [F.cosine_similarity(a, g).mean() for a, g in zip(credits, grads)]
    return sum(cosines) / len(cosines)  # noqa: WB006


def norm(h: torch.Tensor) -> float:
    with torch.no_grad():
        return h.half().norm().item()
"""
