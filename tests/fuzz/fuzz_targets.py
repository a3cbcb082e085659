"""Whatever reads what others wrote, each with input for it and what is done with that."""

from __future__ import annotations

import base64
import functools
import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import fuzz_seeds as seeds
from fuzz_held import Finding, Ran, command, ended_well, holds_nan
from fuzz_mutators import NUMBERS, WORDS, mutated_bytes, mutated_json


class Case(NamedTuple):
    """One input: its own chance, where its files go, and where what is made of them goes."""

    chance: Random
    inputs: Path
    outputs: Path


Act = Callable[[], Iterator[Finding]]
"""Hands the input over; what it yields does not hold."""


def _json_file(case: Case, name: str, sound: Any) -> Path:
    path = case.inputs / name
    path.write_bytes(mutated_json(case.chance, sound))
    return path


def _byte_file(case: Case, name: str, sound: bytes, others: tuple[bytes, ...] = ()) -> Path:
    path = case.inputs / name
    path.write_bytes(mutated_bytes(case.chance, sound, others))
    return path


FORMS = (
    (), ("--full",), ("--html", "o.html"), ("--markdown", "o.md"), ("--latex", "o.tex"), ("--csv", "o.csv"),
    ("--template", "latex", "--out", "o.tex"), ("--template", "markdown", "--out", "o.md"), ("--as", "text"),
)  # fmt: skip


def _shown(case: Case, path: Path, *more: str) -> Iterator[Finding]:
    """A record replayed, or reported on in one of the forms; a record with NaN never passes."""
    if case.chance.random() < 0.5:
        ran = command("replay", path, *more, *case.chance.choice(((), ("--json", "o.json"), ("--panel", "june2026"))))
        yield from ended_well(ran, case.outputs)
        yield from _nan_never_passes(ran, path)
    else:
        yield from ended_well(command("report", path, *case.chance.choice(FORMS)), case.outputs)


def _nan_never_passes(ran: Ran, path: Path) -> Iterator[Finding]:
    """Of a file that is one JSON value, or of the last line of one that has a value in each."""
    content = path.read_bytes()
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        try:
            said = json.loads(content.strip().splitlines()[-1])
        except (ValueError, RecursionError, IndexError):
            return
    if ran.status == 0 and holds_nan(_measured(said)):
        yield Finding("no passing outcome from NaN", f"{path.name} was judged to pass")


BESIDE = {"alignment", "provenance", "readings", "verdicts", "seconds", "config", "summaries", "thresholds", "notes"}
"""What is said of a network beside its measurements; Γ is reported and not judged."""


def _measured(said: Any) -> Any:
    if isinstance(said, dict):
        # Of a trace in a result its last line is the network that is judged; what fired before is told beside it.
        trace = {"trace": said["trace"][-1:]} if isinstance(said.get("trace"), list) else {}
        said = {name: value for name, value in (said | trace).items() if name not in BESIDE and "name" not in name}
        return {name: _measured(value) for name, value in said.items()}
    return [_measured(value) for value in said] if isinstance(said, list) else said


def reports(case: Case) -> Act:
    path = _json_file(case, "report.json", seeds.report())
    return lambda: _shown(case, path)


def audits(case: Case) -> Act:
    path = _json_file(case, "audit_x.json", case.chance.choice((seeds.audit(), seeds.published())))
    if case.chance.random() < 0.6:
        return lambda: _shown(case, path)
    study = case.chance.choice(("ablation", "sensitivity", "random-init", "null", "partial", "temporal", "early-stop"))
    places = ("--results", "r", "--markdown", "m")
    words = case.chance.choice((("lab", "study", study, path, *places), ("figure", "audit", path, "-o", "o.png")))
    (case.inputs / "runs").symlink_to(seeds.RESULTS / "runs")
    return lambda: ended_well(command(*words), case.outputs)


def results(case: Case) -> Act:
    path = _json_file(case, "result.json", seeds.result())
    return lambda: _shown(case, path)


def traces(case: Case) -> Act:
    lines = seeds.trace().splitlines(keepends=True)
    if case.chance.random() < 0.6:  # one line that is JSON and says something else
        at = case.chance.randrange(len(lines))
        lines[at] = mutated_json(case.chance, json.loads(lines[at])) + b"\n"
        path = case.inputs / "trace.jsonl"
        path.write_bytes(b"".join(lines))
    else:
        path = _byte_file(case, "trace.jsonl", seeds.trace(), (seeds.LINES,))
    other = case.chance.choice((None, ("watch", path, "--once"), ("figure", "temporal", path, "-o", "o.png")))
    if other is None:
        return lambda: _shown(case, path)
    return lambda: ended_well(command(*other), case.outputs)


def logs(case: Case) -> Act:
    name, sound = case.chance.choice((("log.csv", seeds.CSV), ("log.jsonl", seeds.LINES), ("log.tsv", seeds.CSV)))
    path = _byte_file(case, name, sound, (seeds.CSV, seeds.LINES))
    columns = seeds.MAP
    if case.chance.random() < 0.2:
        columns = mutated_bytes(case.chance, columns.encode()).decode(errors="replace")
    return lambda: ended_well(command("replay", path, "--map", columns), case.outputs)


def tensorboard(case: Case) -> Act:
    path = _byte_file(case, "events.out.tfevents.1.x", seeds.events())
    return lambda: ended_well(
        command("replay", path, "--map", seeds.MAP.replace("epoch=epoch", "step=step")), case.outputs
    )


def checkpoints(case: Case) -> Act:
    sound = _signed_anew(case.chance) if case.chance.random() < 0.5 else mutated_bytes(case.chance, seeds.checkpoint())
    path = case.inputs / "epoch-00001.safetensors"
    path.write_bytes(sound)

    def load() -> Iterator[Finding]:
        from walkback.lab.runs.checkpoint import load

        load(path)
        yield from ()

    if case.chance.random() < 0.7:
        return load
    return lambda: ended_well(command("diagnose", path, "--json", "o.json"), case.outputs, may_lack_memory=True)


def _signed_anew(chance: Random) -> bytes:
    """A checkpoint whose digest is right and whose header, or one of whose tensors, says something else."""
    import torch
    from safetensors.torch import load, save

    from walkback.lab.runs.checkpoint import digest

    content = seeds.checkpoint()
    size = int.from_bytes(content[:8], "little")
    header, tensors = json.loads(content[8 : 8 + size])["__metadata__"], load(content)
    header.pop("digest")
    if chance.random() < 0.7:
        name = chance.choice(sorted(header))
        header[name] = mutated_json(chance, _parsed(header[name])).decode(errors="replace")
    else:
        name = chance.choice(sorted(tensors))
        other = (
            torch.zeros(3),
            tensors[name].double(),
            torch.full_like(tensors[name], 1).bool(),
            tensors[name].flatten()[:0],
        )
        tensors[name] = chance.choice(other)
    return save(tensors, header | {"digest": digest(tensors, header)})


def _parsed(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


def archives(case: Case) -> Act:
    """Copies of data sets: idx files, tar archives, CIFAR's pickles, and the cache."""
    chance, folder = case.chance, case.inputs
    kind = chance.choice(("idx", "idx.gz", "tar", "cifar", "cifar.tar", "cache"))
    idx = seeds.idx_files()
    if kind.startswith("idx"):
        victim = chance.choice(sorted(idx))
        for name, content in idx.items():
            damaged = mutated_bytes(chance, content) if name == victim else content
            (folder / (name + ".gz" * (kind == "idx.gz"))).write_bytes(_packed(chance, damaged, kind == "idx.gz"))
        return lambda: _copied("fashion_mnist", folder)
    if kind == "cache":
        (folder / "fashion_mnist.npz").write_bytes(_cache(chance))
        return lambda: _from_cache(folder)
    if kind == "tar":
        path = _byte_file(case, "data.tgz", seeds.tar_of(idx, chance.choice(("w:gz", "w", "w:xz", "w:bz2"))))
        return lambda: _copied("mnist", path)
    batches = {name: seeds.cifar_batch() for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")}
    victim = chance.choice(sorted(batches))
    batches[victim] = mutated_bytes(chance, batches[victim])
    if kind == "cifar":
        for name, content in batches.items():
            (folder / name).write_bytes(content)
        return lambda: _copied("cifar10", folder)
    (folder / "cifar.tar").write_bytes(seeds.tar_of(batches, "w"))
    return lambda: _copied("cifar10", folder / "cifar.tar")


def _packed(chance: Random, content: bytes, packed: bool) -> bytes:
    if not packed:
        return content
    whole = gzip.compress(content, mtime=0)
    return mutated_bytes(chance, whole) if chance.random() < 0.3 else whole


def _cache(chance: Random) -> bytes:
    if chance.random() < 0.7:
        return mutated_bytes(chance, seeds.cached(chance.random() < 0.5))
    # An archive that is whole, with arrays that are not.
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seeds.cached(False))) as sound, zipfile.ZipFile(buffer, "w") as made:
        for name in sound.namelist():
            made.writestr(zipfile.ZipInfo(name), mutated_bytes(chance, sound.read(name)))
    return buffer.getvalue()


def _copied(name: str, path: Path) -> Iterator[Finding]:
    from importlib import import_module

    from walkback.lab.zoo.datasets.archive import take_copy

    take_copy(import_module(f"walkback.lab.zoo.datasets.{name}").ARCHIVE, path)
    yield Finding("verified by content", f"{path} was taken for {name}")


def _from_cache(folder: Path) -> Iterator[Finding]:
    from walkback.lab.zoo.datasets import fashion_mnist
    from walkback.lab.zoo.datasets.archive import read_cache

    read_cache(replace(fashion_mnist.ARCHIVE, ways=()), folder)
    yield Finding("verified by content", "the cache was taken for fashion_mnist")


def configs(case: Case) -> Act:
    path = _byte_file(case, "run.toml", seeds.TOML)

    def read() -> Iterator[Finding]:
        from walkback.lab.runs.config import RunConfig

        config = RunConfig.from_toml(path)
        assert RunConfig.from_dict(config.to_dict()).run_id == config.run_id
        assert config.command
        yield from ()

    if case.chance.random() < 0.5:
        return read
    return lambda: _untrained("lab", "train", "--config", str(path))


def _untrained(*words: str) -> Iterator[Finding]:
    """A verb that would train, up to where it does."""
    from walkback.errors import RunError
    from walkback.lab.runs import train

    def refuse(*_: Any, **__: Any) -> None:
        raise RunError("nothing is trained here")

    before, train.train_or_resume = train.train_or_resume, refuse
    try:
        yield from ended_well(command(*words), Path("nowhere"), may_lack_memory=True)
    finally:
        train.train_or_resume = before


def stores(case: Case) -> Act:
    """A folder of runs with one file damaged: listed, shown, and asked for its trace and its checkpoint."""
    chance, run_id = case.chance, seeds.INTERRUPTED.name
    root = case.inputs / "runs"
    run = root / run_id
    (run / "checkpoints").mkdir(parents=True)
    files = {"config.json": (seeds.INTERRUPTED / "config.json").read_bytes()}
    files["trace.jsonl"] = (seeds.INTERRUPTED / "trace.jsonl").read_bytes()
    files["checkpoints/epoch-00001.safetensors"] = seeds.checkpoint()
    files |= {"lock": b"4711\n"} if chance.random() < 0.2 else {}
    files |= {"result.json": json.dumps(seeds.result()).encode()} if chance.random() < 0.3 else {}
    victim = chance.choice(sorted(files))
    for name, content in files.items():
        if name == victim:
            as_json = name.endswith(".json") and chance.random() < 0.7
            content = mutated_json(chance, json.loads(content)) if as_json else mutated_bytes(chance, content)
        (run / name).write_bytes(content)
    words = chance.choice((
        ("lab", "runs", "--runs", root, "--json", "o.json"), ("report", run_id, "--runs", root, "--html", "o.html"),
        ("report", run), ("replay", run), ("watch", run, "--once"), None,
    ))  # fmt: skip
    if words is None:
        return lambda: _gone_on_with(root)
    # A broken run is named, and the others are listed all the same.
    return lambda: ended_well(command(*words), case.outputs, may_lack_memory=True)


def _gone_on_with(root: Path) -> Iterator[Finding]:
    from walkback.lab.runs import checkpoint
    from walkback.lab.runs.store import RunStore

    for run in RunStore(root, root / "archive"):
        _ = run.config, run.state, run.trace(), checkpoint.newest(run.checkpoints)
    yield from ()


def objects(case: Case) -> Act:
    """The same in an object store, with a lease."""
    chance, run_id = case.chance, seeds.INTERRUPTED.name
    lease = {"token": "x", "session": "y", "attempt": 1, "host": "h", "process": 1, "renewed": 1e9}
    epochs = (seeds.INTERRUPTED / "trace.jsonl").read_bytes().splitlines()
    found = {"config.json": (seeds.INTERRUPTED / "config.json").read_bytes(), "lease.json": json.dumps(lease).encode()}
    found |= {f"epochs/{number:05d}.json": line for number, line in enumerate(epochs)}
    found["checkpoints/epoch-00001.safetensors"] = seeds.checkpoint()
    victim = chance.choice(sorted(found))
    as_json = victim.endswith(".json") and chance.random() < 0.7
    found[victim] = mutated_json(chance, json.loads(found[victim])) if as_json else mutated_bytes(chance, found[victim])
    found |= {chance.choice(WORDS).replace("\ud800", "") + "/config.json": b"{}"} if chance.random() < 0.2 else {}
    return lambda: _in_memory(f"{case.inputs.parent.name}", run_id, found)


def _in_memory(name: str, run_id: str, found: dict[str, bytes]) -> Iterator[Finding]:
    import fsspec

    from walkback.lab.runs.lease import is_alive
    from walkback.lab.runs.remote_store import RemoteRunStore

    files = fsspec.filesystem("memory")
    for key, content in found.items():
        files.pipe_file(f"/{name}/{run_id}/{key}", content)
    try:
        store = RemoteRunStore(f"memory://{name}", "archive")
        is_alive(store.objects, f"{run_id}/lease.json")
        run = store.at(run_id)
        _ = run.finished, run.taken
        for each in store:
            _ = each.config, each.state, each.trace()
        run.fetch()
    finally:
        files.rm(f"/{name}", recursive=True)
    yield from ()


def bench_records(case: Case) -> Act:
    path = _json_file(case, "record.json", seeds.network_record())

    def load() -> Iterator[Finding]:
        from walkback.lab.validity.record import load

        load(path)
        yield from ()

    return load


def sources(case: Case) -> Act:
    path = _byte_file(case, "theirs.py", seeds.SOURCE)
    words = case.chance.choice(((), ("--format", "json"), ("--format", "sarif")))
    return lambda: ended_well(command("lint", path, *words), case.outputs)


VERBS: tuple[tuple[str, ...], ...] = (
    ("replay", "{report}"), ("report", "{report}", "--csv", "o.csv"), ("watch", "{trace}", "--once"),
    ("figure", "audit", "{audit}", "-o", "o.png"), ("lint", "--rules"), ("lint", "--select", "WB001", "{source}"),
    ("schema", "Measurements"), ("schema", "--list"), ("pitfalls", "checklist"), ("pitfalls", "show", "99"),
    ("lab", "zoo", "dfa"), ("lab", "zoo", "--options"), ("lab", "runs", "--method", "dfa", "--state", "finished"),
    ("lab", "study", "ablation", "{audit}", "--results", "r"), ("lab", "data", "list"),
    ("lab", "evidence", "--results", "r", "--json", "o.json"), ("lab", "check", "--no-train", "--results", "r"),
    ("lab", "reproduce", "--list", "--results", "r"), ("lab", "validity", "--only", "x", "--limit", "1"),
    ("demo", "--help"), ("diagnose", "nowhere.py:f"),
    ("diagnose", "{report}", "--blocks", "0", "--logits", "1", "--tokens", "flatten"),
    ("replay", "{report}", "--g-norm-floor", "1e-7", "--stop-on", "ab", "--patience", "2", "--warmup", "1"),
    ("lab", "train", "--method", "dfa", "--arch", "resmlp", "--data", "digits", "--seed", "1", "--epochs", "2"),
    ("lab", "audit", "--arch", "resmlp", "--data", "digits", "--methods", "dfa:credit_norm=none", "--list"),
    ("lab", "audit", "--preset", "resmlp_d256", "--list"),
    ("lab", "compare", "--preset", "field_mlp_mnist", "--list", "--results", "r"),
)  # fmt: skip
"""A command line of every verb, and of those that train the form that does not."""


def words(case: Case) -> Act:
    """A command line with one or two words that are wrong."""
    chance = case.chance
    files = {"report": json.dumps(seeds.report()).encode(), "audit": json.dumps(seeds.audit()).encode()}
    files |= {"trace": seeds.trace(), "source": seeds.SOURCE}
    places = {name: str(case.inputs / name) for name in files} | {"source": str(case.inputs / "source.py")}
    for name, content in files.items():
        Path(places[name]).write_bytes(content)
    line = [word.format(**places) for word in chance.choice(VERBS)]
    keep = 2 if line[0] in ("lab", "pitfalls") else 1  # which verb it is stays: those that train would do so
    for _ in range(chance.choice((1, 1, 2))):
        if len(line) > keep:
            _change(chance, line, chance.randrange(keep, len(line)))
    plain = [word.replace("\0", "").encode(errors="replace").decode() for word in line]
    if plain[:2] in (["lab", "audit"], ["lab", "compare"], ["lab", "reproduce"]) and "--list" not in plain:
        plain.append("--list")
    if plain[:2] == ["lab", "check"] and "--no-train" not in plain:
        plain.append("--no-train")
    if plain[:2] in (["lab", "validity"], ["pitfalls", "check"]) or plain[0] == "demo":
        plain.append("--help")
    return lambda: _untrained(*plain)


def _change(chance: Random, line: list[str], at: int) -> None:
    kind = chance.randrange(4)
    if kind == 0:
        line[at] = str(chance.choice((*WORDS, *NUMBERS)))[:400]
    elif kind == 1:
        line[at] = mutated_bytes(chance, line[at].encode(errors="surrogatepass")).decode(errors="replace")[:400]
    elif kind == 2:
        line.insert(at, chance.choice(("--", "-", "--nothing", "--help", "--json", "--runs", "--seed", "=", "--set")))
    else:
        del line[at]


def measurements(case: Case) -> Act:
    """Numbers handed to `judge` by hand, of any field, length and sign."""
    from walkback.protocol.records import Measurements

    chance, fields = case.chance, list(Measurements.model_fields)
    sound = {name: value for name, value in seeds.report().items() if name in fields and value is not None}
    for _ in range(chance.choice((1, 1, 2, 4))):
        name = chance.choice(list(sound) if chance.random() < 0.5 else fields)
        sound[name] = _figure(chance, sound.get(name))
    return lambda: _judged(chance, sound)


def _figure(chance: Random, value: Any) -> Any:
    import numpy as np

    numbers = [chance.choice(NUMBERS) for _ in range(chance.choice((0, 1, 2, 3, 3, 3, 500)))]
    plain = [float(n) for n in numbers if abs(n) < 1e300 or n != n]
    return chance.choice((
        chance.choice(NUMBERS), chance.choice(WORDS), numbers, tuple(plain), np.array(plain), np.float32(0.5), None,
        value[::-1] if isinstance(value, list | tuple) else value, [float("nan")] * 3, {"a": 1}, object(), [[1.0]] * 3,
    ))  # fmt: skip


def _judged(chance: Random, fields: dict[str, Any]) -> Iterator[Finding]:
    import walkback

    measured = walkback.Measurements(**fields)
    report = walkback.judge(measured, panel=chance.choice((None, "june2026")))
    text = report.to_text() + str(report)
    again = walkback.DiagnosticReport.from_dict(json.loads(json.dumps(report.to_dict())))
    if again.verdict != report.verdict or again.outcome != report.outcome:
        yield Finding("a record says what the report said", f"{again.verdict} after {report.verdict}")
    if report.outcome == "pass" and holds_nan(_measured(measured.to_dict())):
        yield Finding("no passing outcome from NaN", f"{[n for n, v in measured.to_dict().items() if holds_nan(v)]}")
    if "\x1b" in text:
        yield Finding("no escape sequence", "a terminal would obey what it printed")


def networks(case: Case) -> Act:
    """Small networks and batches that are wrong somewhere, handed to `diagnose`."""
    from fuzz_networks import drawn

    return drawn(case.chance)


def plugins(case: Case) -> Act:
    """Packages with entry points whose names, values and objects are anything."""
    from fuzz_plugins import drawn

    return drawn(case.chance, case.inputs)


class Target(NamedTuple):
    """One kind of input, and how many of a hundred and more are of it."""

    make: Callable[[Case], Act]
    share: int


TARGETS: dict[str, Target] = {
    "reports": Target(reports, 14), "audits": Target(audits, 10), "results": Target(results, 8),
    "traces": Target(traces, 10), "logs": Target(logs, 8), "tensorboard": Target(tensorboard, 3),
    "checkpoints": Target(checkpoints, 6), "archives": Target(archives, 8), "configs": Target(configs, 4),
    "stores": Target(stores, 6), "objects": Target(objects, 4), "bench records": Target(bench_records, 2),
    "sources": Target(sources, 4), "words": Target(words, 8), "measurements": Target(measurements, 10),
    "networks": Target(networks, 2), "plugins": Target(plugins, 3),
}  # fmt: skip


def pick(chance: Random) -> str:
    """Which kind the next input is of."""
    return chance.choices(list(TARGETS), [target.share for target in TARGETS.values()])[0]


@functools.cache
def quiet_libraries() -> None:
    """Nothing reaches a network or a display, and what fetching would take is refused."""
    import logging

    os.environ |= {"MPLBACKEND": "agg", "WALKBACK_DATA": "/nonexistent/data", "NO_COLOR": "1"}
    logging.disable(logging.CRITICAL)
    assert base64  # every library that a reader needs is imported before memory is limited
    import matplotlib.pyplot  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch

    torch.set_num_threads(1)
