"""The wheel and the sdist as somebody gets them: in a new venv, with what the core declares and nothing else."""

import os
import re
import subprocess
import tarfile
import venv
from pathlib import Path

import pytest
from bare import ASKED, ASKS, JUDGED, ROOT, SCRIPT, WORKS

from walkback.extras import EXTRAS

pytestmark = pytest.mark.slow
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def run(command, folder):
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The folder of programs of a venv that holds the wheel of this tree with its core dependencies."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / SCRIPTS
    built = run([programs / "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "wheel", ROOT], folder)
    assert built.returncode == 0, built.stderr
    (wheel,) = (folder / "wheel").glob("walkback-*.whl")
    installed = run([programs / "pip", "install", "--quiet", wheel], folder)
    assert installed.returncode == 0, installed.stderr
    return programs


def test_no_library_of_an_extra_is_there(bare, tmp_path):
    names = [library for libraries in EXTRAS.values() for library in libraries]
    code = f"import importlib.util\nprint([name for name in {names!r} if importlib.util.find_spec(name)])"
    assert run([bare / "python", "-c", code], tmp_path).stdout == "[]\n"


def test_the_core_judges_replays_reports_and_lints(bare, tmp_path):
    for words, (status, shown) in WORKS.items():
        done = run([bare / "walkback", *words], tmp_path)
        assert done.returncode == status, (words, done.stdout, done.stderr)
        assert shown in done.stdout, (words, done.stdout)
    done = run([bare / "python", "-c", JUDGED + ASKED], tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_needs_an_extra_names_it(bare, tmp_path):
    (tmp_path / "net.py").write_text(SCRIPT)
    for words, extra in ASKS.items():
        done = run([bare / "walkback", *words], tmp_path)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert re.fullmatch(rf'walkback: .*: pip install "walkback\[{extra}\]"\n', done.stderr), (words, done.stderr)


def test_the_wheel_holds_what_pages_and_runs_read(bare, tmp_path):
    code = "import walkback, pathlib\nprint(pathlib.Path(walkback.__file__).parent)"
    installed = Path(run([bare / "python", "-c", code], tmp_path).stdout.strip())
    source = ROOT / "src/walkback"
    data = [path.relative_to(source) for path in source.rglob("*") if path.suffix in (".j2", ".css", ".js", ".json")]
    assert len(data) > 15
    for path in data:
        assert (installed / path).read_bytes() == (source / path).read_bytes()
    # Only the library is missing: with it the page is made.
    assert run([bare / "pip", "install", "--quiet", "jinja2"], tmp_path).returncode == 0
    audit = next(words[1] for words in ASKS if words[0] == "report")
    done = run([bare / "walkback", "report", audit, "--html", "page.html"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "</html>" in (tmp_path / "page.html").read_text()


def test_the_sdist_holds_what_its_tests_read(bare, tmp_path):
    assert run([bare / "pip", "install", "--quiet", "hatchling"], tmp_path).returncode == 0
    code = "import sys\nfrom hatchling.builders.sdist import SdistBuilder\n"
    code += "print(*SdistBuilder(sys.argv[1]).build(directory=sys.argv[2], versions=['standard']), sep='\\n')"
    built = run([bare / "python", "-c", code, ROOT, tmp_path], tmp_path)
    assert built.returncode == 0, built.stderr
    with tarfile.open(built.stdout.strip().splitlines()[-1]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("src", "tests", "results", "docs", "tools", "benchmarks", "examples")
    here = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.is_file()]
    kept = {path.relative_to(ROOT).as_posix() for path in here if path.suffix not in (".pyc", ".lock")}
    assert len(kept) > 800
    assert sorted({*kept, "Makefile", "constraints.txt", "mkdocs.yml", "pyproject.toml", "README.md"} - held) == []
