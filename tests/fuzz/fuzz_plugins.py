"""Packages that bring entry points with any names, values and objects; walkback's own must work all the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from fuzz_held import Finding
from fuzz_mutators import WORDS, mutated_bytes

OBJECTS = (
    "None", "3", "'word'", "[]", "lambda: 1 / 0", "object()", "type('T', (), {})",
    "type('D', (walkback.Diagnostic,), {})",
    "type('D', (walkback.Diagnostic,), {'letter': 'a'})", "type('D', (walkback.Diagnostic,), {'letter': 7})",
    "type('D', (walkback.Diagnostic,), WHOLE | {'quantities': 3})",
    "type('D', (walkback.Diagnostic,), WHOLE | {'thresholds': 1})",
    "walkback.Panel('x', 'x', ())", "walkback.Panel('april2026', 'x', ())", "walkback.judge", "walkback",
    "__import__('sys').exit(0)", "1 / 0", "__import__('nothing_of_this_name')", "type('M', (), {'__getattr__': 1})()",
)  # fmt: skip
WHOLE = "WHOLE = {'letter': 'z', 'title': 't', 'question': 'q', 'meaning': 'm'}\n"
OPEN = (
    "diagnostics", "panels", "methods", "architectures", "datasets", "renderers", "figures", "lint_rules", "pitfalls",
)  # fmt: skip


def drawn(chance: Random, folder: Path) -> Callable[[], Iterator[Finding]]:
    """A package, and the registries asked for everything while it is installed."""
    module = f"fuzzed_{chance.randrange(10**9)}"
    (folder / f"{module}.py").write_text(f"import walkback\n{WHOLE}X = {chance.choice(OBJECTS)}\n")
    group = chance.choice(OPEN)
    name = chance.choice(("good", "april2026", "dfa", "residual_growth", *WORDS)).replace("\ud800", "")
    points = f"[walkback.{group}]\n{name} = {chance.choice((f'{module}:X', f'{module}:Y', module, 'os:system', ''))}\n"
    content = points.encode()
    if chance.random() < 0.5:
        content = mutated_bytes(chance, content)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_bytes(content)
    return lambda: _asked(folder, group)


def _asked(folder: Path, group: str) -> Iterator[Finding]:
    import walkback
    from walkback.registry import open_registry

    sys.path.insert(0, str(folder))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # beside the input
    try:
        _look_again()
        list(open_registry(group).loaded())
        report = walkback.judge(walkback.Measurements(residual_norms=[1.0, 900.0], bp_grad_norms=[1.0, 1.0]))
        if report.outcome != "fail" or report.reading("a").state.value != "FIRE":
            yield Finding("own diagnostics stay", f"a stream that explodes came to {report.outcome}")
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = written
        for name in [name for name in sys.modules if name.startswith("fuzzed_")]:
            del sys.modules[name]
        _look_again()


def _look_again() -> None:
    import importlib

    from walkback.registry import GROUPS, open_registry

    importlib.invalidate_caches()
    for group in GROUPS:
        open_registry(group).find_again()
