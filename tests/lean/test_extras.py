"""Without an extra the core works, and what needs one names it; nothing but training in the lab needs POSIX."""

import importlib
import json
import re
import subprocess
import sys

import pytest
from bare import ASKED, ASKS, JUDGED, ROOT, SCRIPT, WORKS

from walkback.errors import MissingLibrary
from walkback.extras import EXTRAS, WHOLE, missing, naming_extras, optional

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POSIX = ("fcntl", "resource", "termios", "pwd", "grp")
LIBRARIES = tuple(library for libraries in EXTRAS.values() for library in libraries)
IMPORTED_BY = {"sklearn": "scikit-learn", "PIL": "pillow"}
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
"""
VERBS = """
import contextlib, io, json, sys
from walkback.cli.entry import run
found = []
for words in json.loads(sys.argv[1]):
    out, err, status = io.StringIO(), io.StringIO(), 0
    sys.argv = ["walkback", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run()
        except SystemExit as end:
            status = end.code or 0
    found.append([status, out.getvalue() + err.getvalue()])
print(json.dumps(found))
"""


def python(code, folder, *arguments, without=()):
    """A new process in which modules cannot be imported: what it printed."""
    command = [sys.executable, "-c", WITHOUT.format(names=set(without)) + code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outcomes(commands, folder, without):
    found = json.loads(python(VERBS, folder, json.dumps([list(words) for words in commands]), without=without))
    return zip(commands, found, strict=True)


def test_the_core_alone_judges_replays_reports_and_lints(tmp_path):
    for words, (status, said) in outcomes(WORKS, tmp_path, (*LIBRARIES, *POSIX)):
        expected, shown = WORKS[words]
        assert status == expected, (words, said)
        assert shown in said, (words, said)
    for name in ("a.md", "a.tex", "a.csv", "r.md", "r.tex", "r.csv"):
        assert (tmp_path / name).stat().st_size > 100


def test_what_needs_an_extra_names_it_in_one_line_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "net.py").write_text(SCRIPT)
    for words, (status, said) in outcomes(ASKS, tmp_path, LIBRARIES):
        assert status == 2, (words, said)
        assert re.fullmatch(rf'walkback: .*: pip install "walkback\[{ASKS[words]}\]"\n', said), (words, said)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".pyc"] == ["net.py"]


def test_the_core_alone_in_python(tmp_path):
    python(JUDGED + ASKED, tmp_path, without=(*LIBRARIES, *POSIX))


def test_a_network_of_torch_is_diagnosed_where_jax_cannot_be_imported(tmp_path):
    (tmp_path / "net.py").write_text(SCRIPT)
    without = ("jax", "jaxlib", "equinox", "flax")
    (found,) = outcomes([("diagnose", "net.py:made", "--json", "r.json")], tmp_path, without)
    assert found[1][0] == 1, found  # as below
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["provenance"]["torch"]
    assert len(record["bp_grad_norms"]) > 1


def test_importing_diagnosing_and_judging_need_no_posix(tmp_path):
    (tmp_path / "net.py").write_text(SCRIPT)
    commands = [("diagnose", "net.py:made", "--json", "r.json", "--html", "r.html"), ("replay", "r.json")]
    commands += [("report", "r.json"), ("report", "r.json", "--html", "again.html")]
    found = list(outcomes(commands, tmp_path, POSIX))
    # The gradients of an untrained network share a direction: (c) fires.
    assert [status for _, (status, _) in found] == [1, 1, 0, 0], found
    assert "direction drift" in found[0][1][1]
    assert (tmp_path / "again.html").stat().st_size > 10_000
    every = "import pkgutil, importlib, walkback\nfor found in pkgutil.walk_packages(walkback.__path__, 'walkback.'):\n"
    every += "    if not found.name.startswith(('walkback.__main__', 'walkback.integrations')):\n"
    python(JUDGED + every + "        importlib.import_module(found.name)\n", tmp_path, without=POSIX)


def test_every_library_of_an_extra_is_in_the_table_of_extras_and_no_other():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    for extra, libraries in EXTRAS.items():
        names = {re.split(r"[><=;\[ ]", row)[0] for row in declared[extra]} - {"walkback"}
        known = {IMPORTED_BY.get(library, library) for library in libraries} - {"pytorch_lightning"}
        # s3 stands on fsspec, which the lab has for addresses of any kind.
        assert names - ({"fsspec"} if extra == "s3" else set()) == known, extra
    for whole, parts in WHOLE.items():
        held = re.findall(r"walkback\[(.*)\]", "\n".join(declared[whole]))
        assert {part for row in held for part in row.split(",")} | {whole} == {*parts, whole}
    assert {row.partition(">")[0] for row in project["dependencies"]} == {"numpy", "pydantic", "rich", "typer"}


def test_a_library_inside_a_larger_extra_is_told_by_the_larger_one():
    first = missing(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert 'pip install "walkback[torch]"' in str(first)
    words = r'torch.*No module named.*pip install "walkback\[lab\]"'
    with pytest.raises(MissingLibrary, match=words), naming_extras(whole="lab"), naming_extras():
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    assert "walkback[html]" in str(missing(ModuleNotFoundError("no", name="jinja2.ext"), whole="lab"))


def test_an_import_that_has_nothing_to_do_with_extras_is_left_as_it_is():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), naming_extras():
        importlib.import_module("no_such_module")
    assert optional("json") is json
