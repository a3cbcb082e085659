"""Build what is released and try it as somebody who gets it: python tools/dist.py (`make dist`).

The sdist, and the wheel made from it, are checked by twine. The wheel goes into a new venv that holds nothing else;
there the packaged demo runs, and the tests of tools/pythons.py, read from the unpacked sdist. Leaves results/dist.json.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

import pythons

ROOT = pythons.ROOT
DIST, RECORD = ROOT / "dist", ROOT / "results" / "dist.json"
PROGRAMS = "Scripts" if os.name == "nt" else "bin"
LIBRARIES = ("walkback", "torch", "numpy", "pydantic", "typer", "rich", "scipy", "jinja2", "matplotlib", "pytest")
# What is tested is the wheel: nothing may come from the source beside it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def run(*command: object, folder: Path) -> str:
    """Run a command and show what it prints; one that fails ends the release."""
    print("$", *command, flush=True)
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\nexit status {done.returncode}: nothing is put on record.")
    print(done.stdout[-2000:], flush=True)
    return done.stdout


def built() -> tuple[Path, Path]:
    """The sdist, and the wheel that is made from it and not from this directory."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT, folder=ROOT)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, folder=ROOT)
    return sdist, wheel


def tried(sdist: Path, wheel: Path, folder: Path) -> dict[str, object]:
    """What the wheel does in a venv of its own, and with which versions."""
    venv.create(folder / "venv", with_pip=True)
    python, walkback = (folder / "venv" / PROGRAMS / name for name in ("python", "walkback"))
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "-c", constraints, f"{wheel}[all]", folder=folder)
    demo = folder / "demo"
    demo.mkdir()
    said = run(walkback, "demo", folder=demo)
    if "verdict" not in said:
        raise SystemExit("the demo gave no verdict")
    run(python, "-m", "pip", "install", "--quiet", "pytest", "hypothesis", "flake8", "pyyaml", folder=folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    place = run(python, "-c", "import walkback; print(walkback.__file__)", folder=source).strip()
    if not Path(place).resolve().is_relative_to((folder / "venv").resolve()):
        raise SystemExit(f"walkback comes from {place}, not from the wheel")
    junit = folder / "junit.xml"
    words = ["-q", "-p", "no:cacheprovider", "-m", "not slow", f"--junitxml={junit}"]
    run(python, "-m", "pytest", *words, *pythons.torch_free(), folder=source)
    frozen = run(python, "-m", "pip", "freeze", folder=folder)
    versions = pythons.versions_of(frozen.replace(" @ ", "=="), LIBRARIES)
    return {"demo": "passed", "tests": pythons.counted(junit), "versions": versions | {"walkback": _version(wheel)}}


def _version(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def main() -> None:
    """Build, check, try, and put on record what passed."""
    about = pythons.about()
    sdist, wheel = built()
    with tempfile.TemporaryDirectory() as folder:
        found = tried(sdist, wheel, Path(folder))
    sizes = {file.name: file.stat().st_size for file in (sdist, wheel)}
    content = {
        "command": "make dist", **about, "python": ".".join(map(str, sys.version_info[:3])), "bytes": sizes,
        "twine": "passed, strictly", **found,
    }  # fmt: skip
    RECORD.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {RECORD.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
