"""The JAX path imports no torch: where torch cannot be imported, and in environments that never had it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
sys.path.insert(0, {here!r})
"""
SCRIPT = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import plain_networks as net
def made():
    return dict(apply=net.apply, params=net.parameters(), blocks=net.BLOCKS, batches=net.batches(), stem=net.stem,
                head=net.head, method_name="BP", credit=net.feedback())
def lacking():
    return dict(apply=net.apply, params=net.parameters(), batches=net.batches())
def other():
    return made() | dict(optimizer="adam")
"""
WHOLE = "import whole_path, pathlib\nwhole_path.main(pathlib.Path(sys.argv[1]))"
PATH = str(ROOT / "src")
TESTS = (
    "test_jax_numbers.py", "test_own_derivatives.py", "test_jax_bad_input.py", "test_jax_modules.py",
    "test_jax_monitor.py",
)  # fmt: skip


def python(code, folder, *arguments, without=("torch",)):
    command = [sys.executable, "-c", WITHOUT.format(names=set(without), here=str(HERE)) + code, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": PATH}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_everything_works_where_torch_cannot_be_imported(tmp_path):
    done = python(WHOLE, tmp_path, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["bp_grad_norms"]) == 4


def walkback(folder, *words):
    code = "sys.argv = ['walkback', *sys.argv[1:]]\nfrom walkback.cli.entry import run\nrun()"
    return python(code, folder, *words)


def test_the_command_line_diagnoses_a_network_in_jax(tmp_path):
    (tmp_path / "net.py").write_text(SCRIPT)
    done = walkback(tmp_path, "diagnose", "net.py:made", "--json", "r.json")
    assert done.returncode in (0, 1), done.stderr
    assert "verdict" in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["provenance"]["jax"]
    assert walkback(tmp_path, "replay", "r.json").returncode == done.returncode


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diagnose", "net.py:lacking"), "'apply', 'params', 'blocks' and 'batches'"),
        (("diagnose", "net.py:other"), "optimizer"),
        (("diagnose", "net.py:made", "--blocks", "layers.*"), "--blocks"),
    ],
)
def test_what_it_cannot_use_is_refused_with_2(tmp_path, words, said):
    (tmp_path / "net.py").write_text(SCRIPT)
    done = walkback(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_jax_the_extra_is_named(tmp_path):
    code = "import walkback\ntry:\n    walkback.jax\nexcept ImportError as error:\n    print(error)"
    done = python(code, tmp_path, without=("jax", "torch"))
    assert 'pip install "walkback[jax]"' in done.stdout, done.stderr


@pytest.fixture(scope="module", params=["jax==0.4.38", "jax"])
def environment(request, tmp_path_factory):
    """A Python with walkback and one release of JAX, and without torch."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    wanted = [f"{ROOT}[jax,equinox,flax]", request.param, "pytest"]
    command = [programs / "pip", "install", "--quiet", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return programs / "python"


@pytest.mark.slow
def test_everything_works_in_an_environment_that_never_had_torch(environment, tmp_path):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}

    def run(*command):
        done = subprocess.run(
            [environment, *map(str, command)], cwd=HERE, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("-c", "import importlib.util as u; print(u.find_spec('torch'))") == "None\n"
    folders = [tmp_path / name for name in ("there", "here")]  # a trace of another run is refused
    for folder in folders:
        folder.mkdir()
    there = json.loads(run("whole_path.py", folders[0]))
    done = python(WHOLE, folders[1], folders[1])
    assert done.returncode == 0, done.stderr
    here = json.loads(done.stdout)
    for name, values in here.items():
        assert np.allclose(values, there[name], rtol=1e-5, atol=1e-7), name
    # The tests of the project's environment load torch; these need none.
    run("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *TESTS)
