"""The sessions of `make pythons`: what needs no torch on every Python that is claimed, and the lowest versions once.

nox and not tox, because the lowest versions are worked out from pyproject.toml and each session writes its row of
results/pythons.json: both are a few lines of Python here, and would be plugins or shell in a file of settings.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

import pythons  # noqa: E402

os.environ.pop("PYTHONPATH", None)  # what is tested is what was installed
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True
TOOLS = ("pytest", "hypothesis", "flake8", "pyyaml")
LIBRARIES = (
    "numpy", "pydantic", "typer", "rich", "jinja2", "markupsafe", "matplotlib", "torch", "scipy", "safetensors",
    "scikit-learn", "pillow", "filelock", "fsspec", "jax", "jaxlib", "equinox", "flax", "pytest",
)  # fmt: skip

OLD = ["-W", "ignore::DeprecationWarning"]
"""Old libraries call what the newest of their own dependencies deprecate, which is no fault of what is tested."""


def tested(session: nox.Session, words: list[str], about: dict[str, str]) -> None:
    """Run pytest on what is installed, and put on record what came of it."""
    junit = Path(session.create_tmp()).resolve() / "junit.xml"
    junit.unlink(missing_ok=True)
    ran = session.run(
        "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", f"--junitxml={junit}", *words,
        success_codes=[0, 1],
    )  # fmt: skip
    assert ran
    frozen = str(session.run("python", "-m", "pip", "freeze", silent=True))
    shown = str(session.run("python", "--version", silent=True))
    found = pythons.counted(junit)
    python = re.sub(r"[^\d.]", "", shown)
    pythons.note(session.name, {**about, "python": python, **found, "versions": pythons.versions_of(frozen, LIBRARIES)})
    if found["failed"]:
        session.error(f"{found['failed']} tests failed")


@nox.session(python=list(pythons.PYTHONS))
def core(session: nox.Session) -> None:
    """The core with pages and figures: no torch."""
    about = pythons.about()  # of what is installed, whatever changes while the tests run
    session.install(".[html,figures]", *TOOLS)
    tested(session, pythons.torch_free(), about)


@nox.session(python="3.10")
def lowest(session: nox.Session) -> None:
    """The same with the lowest versions of the core, html and figures."""
    about = pythons.about()  # of what is installed, whatever changes while the tests run
    session.install(".[html,figures]", *pythons.lowest("html", "figures"), *TOOLS)
    tested(session, [*OLD, *pythons.torch_free()], about)


@nox.session(python="3.11")
def lowest_lab(session: nox.Session) -> None:
    """Measuring and training with the lowest versions, but for torch, of which constraints.txt has the only one."""
    pins = pythons.lowest("html", "figures", "torch", "lab")
    about = pythons.about()  # of what is installed, whatever changes while the tests run
    session.install("-c", "constraints.txt", ".[all]", *pins, *TOOLS)
    tested(session, [*OLD, *pythons.MEASURING], about)


@nox.session(python=list(pythons.PYTHONS))
def jax(session: nox.Session) -> None:
    """walkback.jax with plain functions, Equinox and Flax, where torch never was."""
    about = pythons.about()  # of what is installed, whatever changes while the tests run
    session.install(".[jax,equinox,flax]", *TOOLS)
    names = ("jax_numbers", "own_derivatives", "jax_bad_input", "jax_modules", "jax_monitor")
    tested(session, [f"tests/in_jax/test_{name}.py" for name in names], about)
