"""What the project says of its release: one version, the Pythons that were run, a sdist with all that tests read."""

import fnmatch
import json
import re
import sys
from pathlib import Path

import pytest
import yaml

import walkback

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import pythons  # noqa: E402

sys.path.remove(str(ROOT / "tools"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
VERSION_HEADING = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d|not released)$", re.MULTILINE)
GROUPS = ["Added", "Changed", "Fixed", "Removed", "Migration"]


def on_record(name):
    path = ROOT / "results" / f"{name}.json"
    if not path.exists():
        pytest.fail(f"results/{name}.json is missing: make {name}")
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_version_is_written_once_and_cited():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == walkback.__version__


def test_the_changelog_opens_with_this_version_and_its_sections_parse():
    headings = re.findall(r"^## .*$", CHANGELOG, re.MULTILINE)
    found = VERSION_HEADING.findall(CHANGELOG)
    assert len(found) == len(headings)
    assert found[0][0] == walkback.__version__
    newest = CHANGELOG.split("\n## [")[1]
    assert re.findall(r"^### (.*)$", newest, re.MULTILINE) == GROUPS
    entries = re.findall(r"^- .*$", newest, re.MULTILINE)
    assert len(entries) == len(set(entries)) > 50


def test_every_verb_that_moved_is_in_the_section_on_migration():
    from walkback.cli.entry import MOVED

    migration = CHANGELOG.split("### Migration")[1].split("\n## ")[0]
    assert [verb for verb in MOVED if verb != "check" and not re.search(rf"\b{verb}\b", migration)] == []


def test_the_classifiers_are_the_pythons_that_were_run():
    named = [row.rpartition(" ")[2] for row in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", row)]
    assert tuple(named) == pythons.PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={pythons.PYTHONS[0]}"
    sessions = on_record("pythons")["sessions"]
    for python in named:
        row = sessions[f"core-{python}"]
        assert row["python"].startswith(f"{python}.")
        assert row["failed"] == 0 < row["passed"]
        assert "torch" not in row["versions"]


def test_the_lowest_versions_on_record_are_the_bounds():
    row = on_record("pythons")["sessions"]["lowest"]
    assert row["failed"] == 0 < row["passed"]
    for pin in pythons.lowest("html", "figures"):
        name, version = pin.split("==")
        installed = row["versions"][name].split(".")
        wanted = version.split(".")
        assert installed[: len(wanted)] == wanted, pin
        assert set(installed[len(wanted) :]) <= {"0"}, pin


def test_what_was_built_and_tried_is_this_version():
    record = on_record("dist")
    assert record["versions"]["walkback"] == walkback.__version__
    assert all(f"-{walkback.__version__}" in name for name in record["bytes"])
    assert record["demo"] == "passed"
    assert record["tests"]["failed"] == 0 < record["tests"]["passed"]


def test_the_chosen_tests_are_there():
    for place in (*pythons.TORCH_FREE, *pythons.MEASURING):
        assert (ROOT / place).exists(), place
    for place in pythons.WITH_TORCH:
        file, _, name = place.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), place


def test_the_sdist_holds_every_file_at_the_top_that_tests_read():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    read = {
        match
        for path in (ROOT / "tests").rglob("*.py")
        for match in re.findall(r'ROOT / "([\w.-]+)', path.read_text(encoding="utf-8"))
        if (ROOT / match).exists()
    } - {"pyproject.toml"}  # always there
    assert {"action.yml", ".pre-commit-hooks.yaml", "CHANGELOG.md"} <= read
    assert [name for name in read if not any(fnmatch.fnmatch(name, row) for row in included)] == []


def test_the_workflow_calls_the_whole_check_and_hooks_fetch_nothing():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    assert [step["run"] for step in jobs["test"]["steps"] if "run" in step] == [".ci/run"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [entry["repo"] for entry in hooks] == ["local"]
    assert {hook["language"] for hook in hooks[0]["hooks"]} == {"system"}


def test_counts_and_versions_are_read_as_pytest_and_pip_write_them(tmp_path):
    file = tmp_path / "junit.xml"
    file.write_text('<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"/></testsuites>')
    assert pythons.counted(file) == {"passed": 5, "failed": 2, "skipped": 2}
    frozen = "numpy==1.26.0\nMarkupSafe==2.1.0\nwalkback @ file:///x.whl\n"
    assert pythons.versions_of(frozen, ("numpy", "markupsafe", "torch")) == {"numpy": "1.26.0", "markupsafe": "2.1.0"}
