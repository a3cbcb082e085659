"""Packages with entry points, laid out by hand as pip would leave them: found by Python, and gone after the test."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from walkback.registry import GROUPS, open_registry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


def lay_out(folder, name, points):
    """A `dist-info` of a package with these entry points, {group: {name: value}}."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[walkback.{group}]\n{_rows(rows)}" for group, rows in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))


def _rows(rows):
    return "".join(f"{name} = {value}\n" for name, value in rows.items())


def lay_out_example(folder):
    """examples/plugin as pip would install it, without pip."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(EXAMPLE / "src" / "walkback_example", folder / "walkback_example")
    groups = {group.removeprefix("walkback."): rows for group, rows in project["entry-points"].items()}
    lay_out(folder, "walkback_example", groups)
    return groups


@contextmanager
def on_path(folder):
    """The folder where Python looks for packages; what walkback found of others is looked for anew, then and after."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        before = set(sys.modules)
        look_again()
        try:
            yield
        finally:
            for name in set(sys.modules) - before:
                file = getattr(sys.modules[name], "__file__", None) or ""
                if file.startswith(str(folder)):
                    del sys.modules[name]
    look_again()


def look_again():
    for group in GROUPS:
        open_registry(group).find_again()
