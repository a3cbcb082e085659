"""Mutation testing of protocol and watch: python tools/mutants.py [--sample N] [--seed S] [--modules GLOB…] [--jobs J].

The mutants are those of cosmic-ray: its operators make them, and its session, .mutants/session.sqlite, keeps what was
found of each, so the same command goes on where it was stopped. For each mutant those tests run that reach its line,
the quickest first, in a process forked from one that has torch already, on a copy of the tree. Which test reaches
which line is measured once, test file by test file, by coverage. results/mutants.json is written anew at the end, and
by --record from what is there. Survivors that tools/equivalent_mutants.json calls equivalent are listed with the
reason, and stay in the count.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import fnmatch
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".mutants"
RECORD = ROOT / "results" / "mutants.json"
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.json"
PACKAGES = ("src/walkback/protocol", "src/walkback/watch")
TESTS = ("tests/protocol", "tests/watch", "tests/guard", "tests/fuzz")
MOST_SECONDS = 30.0
"""Of tests that are run for one mutant, as they were timed for the map; the quickest are run first."""
PRELOADED = ("torch", "numpy", "scipy.stats", "pydantic", "pytest", "typer", "rich.console")

PAIRS = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "FloorDiv": "Div", "Mod": "Mul", "Pow": "Mul",
    "RShift": "LShift", "LShift": "RShift", "BitOr": "BitAnd", "BitAnd": "BitOr", "BitXor": "BitOr",
}  # fmt: skip
"""By what one operator is replaced: cosmic-ray has all eleven others, which the tests see as easily or more."""
COMPARED = {
    "Eq": ("NotEq",), "NotEq": ("Eq",), "Lt": ("LtE", "GtE"), "LtE": ("Lt", "Gt"), "Gt": ("GtE", "LtE"),
    "GtE": ("Gt", "Lt"), "Is": ("IsNot",), "IsNot": ("Is",), "In": ("NotIn",), "NotIn": ("In",),
}  # fmt: skip
"""Of comparisons the boundary and the opposite."""


class Mutant(NamedTuple):
    """One change of one module."""

    job: str
    module: str
    operator: str
    occurrence: int
    args: dict[str, Any]
    line: int
    last: int


def is_made(operator: str) -> bool:
    """Whether mutants of this operator are made here."""
    kind, _, rest = operator.removeprefix("core/").partition("_")
    was, _, becomes = rest.partition("_")
    if kind == "ReplaceBinaryOperator":
        return PAIRS.get(was) == becomes
    if kind == "ReplaceComparisonOperator":
        return becomes in COMPARED.get(was, ())
    return kind != "VariableInserter"


def unevaluated(source: str) -> set[tuple[int, int]]:
    """(first line, column) … of annotations that Python never evaluates: of functions, and of names in their bodies."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            spans += [each.annotation for each in every if each is not None and each.annotation is not None]
            spans += [node.returns] if node.returns is not None else []
            spans += [inner.annotation for inner in ast.walk(node) if isinstance(inner, ast.AnnAssign)]
    return {(line, column) for span in spans for line, column in _within(span)}


def _within(node: ast.expr) -> Iterator[tuple[int, int]]:
    for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
        first = node.col_offset if line == node.lineno else 0
        last = node.end_col_offset if line == node.end_lineno else 200
        yield from ((line, column) for column in range(first, last or 200))


# What is made.


def session() -> Path:
    """cosmic-ray's own session with every mutant that it knows of this source, made once for each state of it."""
    place, mark = STATE / "session.sqlite", STATE / "source"
    if place.exists() and mark.exists() and mark.read_text() == source_print():
        return place
    STATE.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    config = STATE / "cosmic-ray.toml"
    paths = ", ".join(f'"{package}"' for package in PACKAGES)
    config.write_text(
        f'[cosmic-ray]\nmodule-path = [{paths}]\ntimeout = 60\nexcluded-modules = []\ntest-command = "true"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    print("making the mutants …", flush=True)
    program = [sys.executable, "-m", "cosmic_ray.cli", "init", str(config), str(place)]
    subprocess.run(program, cwd=ROOT, check=True)
    mark.write_text(source_print())
    return place


def source_print() -> str:
    """Of the source that is mutated."""
    total = hashlib.blake2b(digest_size=12)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            total.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


def made(place: Path) -> tuple[list[Mutant], Counter[str]]:
    """The mutants, and how many of cosmic-ray's are not made, by why."""
    from cosmic_ray.work_db import WorkDB, use_db

    found, left_out = [], Counter[str]()
    annotations: dict[str, set[tuple[int, int]]] = {}
    with use_db(str(place), WorkDB.Mode.open) as database:
        for item in database.work_items:
            (one,) = item.mutations
            module = Path(one.module_path).as_posix()
            if module not in annotations:
                annotations[module] = unevaluated((ROOT / module).read_text())
            if not is_made(one.operator_name):
                left_out["another replacement of the same operator is made"] += 1
            elif tuple(one.start_pos) in annotations[module]:
                left_out["inside an annotation that Python never evaluates"] += 1
            else:
                place_of = (one.start_pos[0], one.end_pos[0])
                args = dict(one.operator_args)
                found.append(Mutant(item.job_id, module, one.operator_name, one.occurrence, args, *place_of))
    return sorted(found, key=lambda m: (m.module, m.line, m.operator, m.occurrence, str(m.args))), left_out


def chosen(mutants: Sequence[Mutant], globs: Sequence[str], sample: int | None, seed: int) -> list[Mutant]:
    """Those of some modules, or a sample of them."""
    within = [m for m in mutants if not globs or any(fnmatch.fnmatch(m.module, f"*{glob}") for glob in globs)]
    return within if sample is None or sample >= len(within) else random.Random(seed).sample(within, sample)


# Which test reaches which line.


class Reach:
    """Which tests reach which lines, how long each takes, and which module each touches."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))

    def add(self, found: dict[str, Any]) -> None:
        """What one file of tests reaches."""
        self.seconds |= found["seconds"]
        for module, lines in found["lines"].items():
            for line, tests in lines.items():
                self.lines[module][int(line)] |= {test for test in tests if test in self.seconds}

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Those that reach the mutant, the quickest first, as long as they take no longer than they may together."""
        lines = self.lines.get(mutant.module, {})
        statement = _statement((ROOT / mutant.module).read_text(), mutant.line)
        tests = set().union(*(lines.get(n, set()) for n in range(mutant.line, mutant.last + 1)))
        tests = tests or set().union(*(lines.get(n, set()) for n in range(statement[0], statement[1] + 1)))
        tests = tests or set().union(*lines.values())  # run when the module is imported, by whoever needs it
        ordered, spent, kept = sorted(tests, key=lambda test: (self.seconds[test], test)), 0.0, []
        for test in ordered:
            spent += self.seconds[test]
            if kept and spent > MOST_SECONDS:
                break
            kept.append(test)
        return kept


def _statement(source: str, line: int) -> tuple[int, int]:
    """First and last line of the smallest simple statement around a line."""
    around = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return min(around, key=lambda span: span[1] - span[0], default=(line, line))


def reach(tests: Sequence[str], tree: Path) -> Reach:
    """The map, of which files of tests that are as they were are not measured again."""
    whole = Reach()
    folder = STATE / "reach"
    folder.mkdir(parents=True, exist_ok=True)
    for file in test_files(tests):
        content = (ROOT / file).read_bytes() + source_print().encode()
        kept = folder / f"{hashlib.blake2b(file.encode() + content, digest_size=10).hexdigest()}.json"
        if not kept.exists():
            print(f"measuring what {file} reaches …", flush=True)
            forked(lambda file=file, kept=kept: _measure(tree, file, kept), 3600.0)
        if kept.exists():
            whole.add(json.loads(kept.read_text()))
        else:
            print(f"  {file} could not be measured, and is left out", flush=True)
    return whole


def test_files(tests: Sequence[str]) -> list[str]:
    """The files of these directories and files."""
    found = []
    for each in tests:
        path = ROOT / each
        found += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return [path.relative_to(ROOT).as_posix() for path in found]


def _measure(tree: Path, file: str, kept: Path) -> int:
    """Run one file of tests and keep which test reached which line; in a process of its own."""
    import coverage
    import pytest

    _go_into(tree)
    measure = coverage.Coverage(data_file=None, include=[str(tree / package / "*") for package in PACKAGES])
    seconds: dict[str, float] = {}

    class Plugin:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            measure.switch_context(item.nodeid)
            return (yield)

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.passed:
                seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
            else:
                seconds[report.nodeid] = float("inf")

    measure.start()
    pytest.main([file, *QUIET, "-m", "not slow"], plugins=[Plugin()])
    measure.stop()
    data = measure.get_data()
    lines = {Path(path).relative_to(tree).as_posix(): data.contexts_by_lineno(path) for path in data.measured_files()}
    passed = {test: round(s, 4) for test, s in seconds.items() if s < float("inf")}
    beside = kept.with_suffix(".tmp")
    beside.write_text(json.dumps({"seconds": passed, "lines": lines}))
    beside.replace(kept)
    return 0


NO_TESTS, OWN_FAULT = 5, 99
"""Exit statuses: of pytest where it found no test, and of a child whose fault is ours."""
QUIET = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no")


# Trying one.


def _go_into(tree: Path) -> None:
    """Be in the copy: its source comes before whatever is installed."""
    os.chdir(tree)
    sys.path[:0] = [str(tree / "src")]
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.dont_write_bytecode = True


def forked(act: Any, seconds: float) -> int | None:
    """The exit status of a child that does this, None where it took too long; what it prints goes nowhere."""
    child = os.fork()
    if child == 0:
        os.setsid()
        status = OWN_FAULT
        try:
            with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a descriptor is needed
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            status = int(act())
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


def tried(mutant: Mutant, tests: Sequence[str], seconds: float, tree: Path) -> dict[str, str]:
    """What the tests say of a mutant: killed, survived or timeout; and what it is."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    sound = (ROOT / mutant.module).read_text()
    mutated = mutate_code(sound, get_operator(mutant.operator)(**mutant.args), mutant.occurrence)
    if mutated is None or mutated == sound:
        return {"outcome": "no mutant"}
    was, became = _difference(sound, mutated)
    about = {"was": was, "became": became}
    if not tests:
        return about | {"outcome": "survived", "why": "no test reaches it"}
    target = tree / mutant.module
    target.write_text(mutated)
    try:
        status = forked(lambda: _run(tree, tests), seconds)
    finally:
        target.write_text(sound)
    if status in (NO_TESTS, OWN_FAULT):
        raise RuntimeError(f"the tests of {mutant} could not be run; that says nothing of the mutant")
    # 1: a test failed; 2 to 4: not even its module could be imported; below 0: it brought Python down.
    outcome = "timeout" if status is None else "survived" if status == 0 else "killed"
    return about | {"outcome": outcome}


def _run(tree: Path, tests: Sequence[str]) -> int:
    import pytest

    _go_into(tree)
    return int(pytest.main([*tests, *QUIET]))


def _difference(sound: str, mutated: str) -> tuple[str, str]:
    before, after = sound.splitlines(), mutated.splitlines()
    if len(before) != len(after):
        return "", f"{len(after) - len(before):+d} lines"
    pairs = [(a.strip(), b.strip()) for a, b in zip(before, after, strict=True) if a != b]
    return " / ".join(a for a, _ in pairs), " / ".join(b for _, b in pairs)


def copied(number: int) -> Path:
    """A copy of the tree, as it is now, that may be changed."""
    tree = STATE / f"tree-{number}"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in ("src", "tests", "examples", "tools", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "results").symlink_to(ROOT / "results")
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md", "Makefile", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tree / name)
    return tree


def preload() -> None:
    """What takes long to import and is not mutated; a fork has it already."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in PRELOADED:
        import_module(name)


def _work(number: int, mutants: Sequence[Mutant], tests: dict[str, tuple[list[str], float]], notes: str) -> None:
    """What one of several processes does: a line for each of its mutants."""
    preload()
    tree = copied(number)
    with Path(notes).open("a", buffering=1) as said:
        for mutant in mutants:
            found = tried(mutant, *tests[mutant.job], tree)
            said.write(json.dumps({"job": mutant.job} | found) + "\n")


def known() -> dict[str, dict[str, str]]:
    """What was found out of mutants of this source, by job."""
    found = {}
    for path in sorted(STATE.glob("notes-*.jsonl")):
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # the last one, of a process that was stopped
                continue
            found[line["job"]] = line
    return found


def try_all(mutants: Sequence[Mutant], tests: Sequence[str], jobs: int) -> None:
    """Try those that were not tried yet."""
    already = known()
    missing = [mutant for mutant in mutants if mutant.job not in already]
    print(f"{len(mutants):,} mutants, {len(missing):,} to try", flush=True)
    if not missing:
        return
    preload()
    whole = reach(tests, copied(0))
    quickest = sorted(whole.seconds, key=lambda test: whole.seconds[test])[:50]
    if (status := forked(lambda: _run(STATE / "tree-0", quickest), 600.0)) != 0:
        sys.exit(f"the tests fail without any mutant (exit status {status}): nothing would be learnt")
    plan = {}
    for mutant in missing:
        of = whole.tests_of(mutant)
        plan[mutant.job] = (of, 20.0 + 5 * sum(whole.seconds[test] for test in of))
    context = multiprocessing.get_context("spawn")
    notes = STATE / f"notes-{source_print()}"
    workers = [
        context.Process(
            target=_work, args=(number, missing[number::jobs], plan, f"{notes}-{number}.jsonl")
        )
        for number in range(jobs)
    ]  # fmt: skip
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(30 if len(missing) > 100 else 2)
        done = len(known().keys() & {mutant.job for mutant in missing})
        print(f"  {done:,} of {len(missing):,}", flush=True)
    if any(worker.exitcode for worker in workers):
        sys.exit("a worker failed; the same command goes on")


# The record.


def tool() -> str:
    """What made the mutants."""
    return f"cosmic-ray {metadata.version('cosmic-ray')}"


def _command(asked: dict[str, Any]) -> str:
    words = ["make mutants", f"SEED={asked['seed']}"]
    words += [f"SAMPLE={asked['sample']}"] if asked["sample"] else []
    words += [f"MODULES='{' '.join(asked['modules'])}'"] if asked["modules"] else []
    words += [f"TESTS='{' '.join(asked['tests'])}'"] if list(asked["tests"]) != list(TESTS) else []
    return " ".join(words)


def record(mutants: Sequence[Mutant], asked: dict[str, Any], left_out: Counter[str], total: int) -> dict[str, Any]:
    """What is on record of these mutants."""
    found = known()
    reasons = {(e["module"], e["was"], e["became"]): e["reason"] for e in json.loads(EQUIVALENT.read_text())}
    outcomes, modules = Counter[str](), defaultdict(Counter[str])
    survivors = []
    for mutant in mutants:
        of = found.get(mutant.job)
        if of is None or of["outcome"] == "no mutant":
            outcomes["not tried" if of is None else "no mutant"] += 1
            continue
        outcomes[of["outcome"]] += 1
        modules[mutant.module.removeprefix("src/walkback/")][of["outcome"]] += 1
        if of["outcome"] == "survived":
            reason = reasons.get((mutant.module, of["was"], of["became"]), "")
            survivors.append(
                {
                    "module": mutant.module, "line": mutant.line, "operator": mutant.operator.removeprefix("core/"),
                    "was": of["was"], "became": of["became"], "why": of.get("why", ""), "equivalent": reason,
                }
            )  # fmt: skip
    count = sum(outcomes[name] for name in ("killed", "survived", "timeout"))
    gone = outcomes["killed"] + outcomes["timeout"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "what": "mutants of protocol and watch, and what the tests say of them",
        "command": _command(asked),
        "tool": tool(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": head.stdout.strip() or "unknown",
        "source": source_print(),
        **asked,
        "all_there_are": total,
        "not_made": dict(left_out),
        "made": count,
        "killed": outcomes["killed"],
        "timeouts": outcomes["timeout"],
        "survived": outcomes["survived"],
        "called_equivalent": sum(bool(each["equivalent"]) for each in survivors),
        "not_tried": outcomes["not tried"],
        "share_killed": round(gone / count, 4) if count else None,
        "by_module": {name: dict(sorted(counts.items())) for name, counts in sorted(modules.items())},
        "survivors": survivors,
    }


def main() -> None:
    """Try mutants, and put what was found on record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="so many of them, drawn by the seed; all without it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modules", nargs="*", default=[], help="of these files alone, such as protocol/numerics.py")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="by these tests alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="try nothing, and write the record of what was tried")
    options = parser.parse_args()
    mutants, left_out = made(session())
    sample = chosen(mutants, options.modules, options.sample, options.seed)
    if not options.record:
        try_all(sample, options.tests, options.jobs)
    asked = {"sample": options.sample, "seed": options.seed, "modules": options.modules, "tests": options.tests}
    found = record(sample, asked, left_out, len(mutants))
    with tempfile.NamedTemporaryFile("w", dir=RECORD.parent, delete=False) as beside:
        beside.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    Path(beside.name).chmod(0o644)
    Path(beside.name).replace(RECORD)
    share = found["share_killed"]
    print(f"{found['made']:,} mutants tried, {found['killed']:,} killed, {found['timeouts']} timeouts, "
          f"{found['survived']} survived: {'–' if share is None else f'{100 * share:.1f} %'} killed")  # fmt: skip
    for each in found["survivors"]:
        print(f"  {each['module']}:{each['line']}: {each['was']}  →  {each['became']}  {each['equivalent']}")


if __name__ == "__main__":
    main()
