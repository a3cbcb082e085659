"""Other people's networks: each example runs as its page says, finds what the page says, and writes that page."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = ROOT / "docs" / "case-studies"
CASES = {
    "11_case_biotorch_modes.py": "biotorch-modes.md",
    "12_case_forward_forward.py": "forward-forward.md",
    "13_case_transformers_dfa.py": "transformers-dfa.md",
    "14_case_pcx.py": "pcx.md",
    "15_case_fabricpc.py": "fabricpc.md",
}


def masked(page):
    """The page without the digits that another machine may give."""
    return re.sub(r"[-+]?\d+(\.\d+)*(e[-+]\d+)?(\+\w+)?", "#", page)


def plain_environment():
    """What a user's shell has, with one thread; neither this process's path nor its options of pip's target."""
    unwanted = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_USER")
    return {name: value for name, value in os.environ.items() if name not in unwanted} | {"OMP_NUM_THREADS": "1"}


def run(example, folder, python=sys.executable):
    """Run the example as its head says, hold its page to the one in docs, and give what it found."""
    page, record = folder / "page.md", folder / "found.json"
    done = subprocess.run(
        [python, EXAMPLES / example, "--write", page, "--record", record],
        cwd=folder, env=plain_environment() | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert masked(page.read_text()) == masked((PAGES / CASES[example]).read_text()), f"run {example} with --write"
    return json.loads(record.read_text())


@pytest.fixture
def environment(request):
    """Makes environments of other libraries, kept in pytest's cache from one run of the tests to the next."""
    return lambda *libraries: made_environment(Path(request.config.cache.mkdir("case-studies")), libraries)


def made_environment(kept, libraries):
    """The interpreter of an environment with walkback[jax] and these libraries; made once, and never skipped."""
    from filelock import FileLock

    words = [*libraries, sys.version, str(ROOT), (ROOT / "pyproject.toml").read_text()]
    folder = kept / hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
    programs, ready = folder / ("Scripts" if os.name == "nt" else "bin"), folder / "ready"
    with FileLock(f"{folder}.lock"):  # tests run in several processes
        if not ready.exists():
            venv.create(folder, with_pip=True, clear=True)
            command = [programs / "pip", "install", "--quiet", *libraries, "scikit-learn", "-e", f"{ROOT}[jax]"]
            done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"this check needs {libraries} from the package index:\n{done.stderr}"
            ready.touch()
    return programs / "python"


def report_of(record):
    import walkback

    return walkback.DiagnosticReport.from_dict(record)


@pytest.mark.parametrize(("example", "page"), CASES.items())
def test_a_page_shows_lines_of_its_example_that_are_few_and_complete(example, page):
    source, text = (EXAMPLES / example).read_text(), (PAGES / page).read_text()
    (shown,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    ast.parse(shown)
    assert len([line for line in shown.splitlines() if line.strip()]) <= 25
    assert "diagnose(" in shown
    for part in shown.strip().split("\n\n\n"):
        assert part in source
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "What a user writes"
    assert headings[1].startswith("What was found")
    assert headings[-1] == "What could not be measured"
    assert f"examples/{example} --write docs/case-studies/{page}" in text


def test_lines_that_are_not_marked_to_their_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import cases

    file = tmp_path / "example.py"
    file.write_text("# what a user writes {\na = 1\n# }\nb = 2\n# what a user writes {\nc = 3\n# }\n")
    assert cases.shown(file) == "a = 1\n\n\nc = 3"
    for text in (
        "a = 1\n",
        "# what a user writes {\na = 1\n",
        "# what a user writes {\na = 1\n# what a user writes {\n# }\n",
    ):
        file.write_text(text)
        with pytest.raises(SystemExit, match="does not mark"):
            cases.shown(file)
    monkeypatch.delitem(sys.modules, "cases")


@pytest.mark.slow
def test_every_mode_of_biotorch_is_seen_through(tmp_path):
    found = run("11_case_biotorch_modes.py", tmp_path)
    modes = ("backpropagation", "fa", "dfa", "usf", "brsf", "frsf")
    reports = {mode: report_of(found[mode]["report"]) for mode in modes}
    for mode, report in reports.items():
        assert report.outcome == ("fail" if mode == "backpropagation" else "pass")
        assert report.headline_acc > 0.9
        assert report.reading("d").value > 50
        assert report.reference_check.error < 1e-6
        again = found[mode]["by_differences"]
        assert report.alignment.sites == pytest.approx(again, abs=0.06 if mode == "brsf" else 1e-4)
    gammas = {mode: report.alignment.deep for mode, report in reports.items()}
    assert gammas["backpropagation"] == pytest.approx(1, abs=1e-4)  # its credit is in fp32
    assert max(gammas["fa"], gammas["dfa"]) < min(gammas["usf"], gammas["brsf"], gammas["frsf"]) < 0.99

    for mode in ("fa", "usf", "brsf"):
        for told, used in found[mode]["angles"]:
            assert told == pytest.approx(used, abs=5)
    assert all(used < 60 < told for told, used in found["frsf"]["angles"])

    for mode, (accuracy, weights, biases) in found["constrained"].items():
        assert weights < 1e-5 < 1e-3 < biases
        scaled, change = found["in_place"][mode]
        assert accuracy < 0.7 < 0.85 < scaled
        assert change > 0.1
    assert found["on_by_itself"] is False
    assert found["kaiming_brsf"] == "name 'init' is not defined"


@pytest.mark.slow
def test_forward_forward_is_measured_in_both_styles(tmp_path):
    found = run("12_case_forward_forward.py", tmp_path)
    report = report_of(found["report"])
    assert report.outcome == "fail"
    assert report.residual_norms == pytest.approx(found["by_hand"], rel=1e-4)
    assert report.reference_check.passed
    assert report.headline_acc - report.frozen_baseline_acc > 0.6
    assert report.headline_acc < found["first_alone"] + 0.02  # layers behind the first bring nothing
    assert found["each"][0] > found["each"][1] > found["each"][2]
    assert found["none_right"] == 0
    assert found["some_right"] == pytest.approx(0.1, abs=0.03)
    assert found["saved"] == 0
    assert "no forward" in found["as_written"]
    assert "missing 1 required positional argument" in found["eval"]

    cut, twin = report_of(found["cut"]), report_of(found["twin"])
    assert cut.outcome == twin.outcome == "pass"
    assert not cut.reference_check.passed
    assert "detach" in cut.reference_check.reason
    assert twin.reference_check.passed
    assert twin.reference_check.error < 1e-6
    assert cut.reading("a").value == pytest.approx(twin.reading("a").value)
    assert twin.reading("b").value > 0


@pytest.mark.slow
def test_dfa_on_a_hugging_face_model_explodes_where_backpropagation_does_not(tmp_path):
    found = run("13_case_transformers_dfa.py", tmp_path)
    dfa, bp = report_of(found["DFA"]), report_of(found["BP"])
    assert "exploded" in dfa.verdict
    assert "exploded" not in bp.verdict
    assert dfa.reading("a").value > 10 * bp.reading("a").value
    assert bp.headline_acc > dfa.headline_acc > dfa.frozen_baseline_acc
    assert dfa.frozen.blocks == ("vit.layers.0", "vit.layers.1", "vit.layers.2")
    assert dfa.reference_check.error < 1e-6
    assert dfa.alignment.deep > dfa.alignment.null.deep_mean + 3 * dfa.alignment.null.deep_sd
    for ours, plain in found["on_few"]:
        assert ours == pytest.approx(plain, abs=1e-4)
    assert dfa.reading("p").value > 0.1


@pytest.mark.slow
def test_predictive_coding_by_pcx_with_jax_of_2024(tmp_path, environment):
    found = run("14_case_pcx.py", tmp_path, environment("pcx==0.6.3"))
    report = report_of(found["report"])
    assert found["versions"]["pcx"] == "0.6.3"
    assert found["versions"]["jax"].startswith("0.4.")
    assert found["torch"] is False
    assert report.outcome == "pass"
    assert report.reading("d").value > 30
    right, gammas = found["by_hand"]
    assert report.headline_acc == pytest.approx(right, abs=0.003)
    assert found["own_answer"] == pytest.approx(right, abs=0.003)
    assert found["few"] == pytest.approx(gammas, abs=1e-3)
    assert min(report.alignment.sites[1:]) > 0.8
    assert report.reading("p").value > 0.7
    assert report.reference_check.error < 1e-6
    assert found["frozen_moved"] == 0
    before, after, said = found["kept_mask"]
    assert "bool" not in before
    assert after == ["bool"]
    assert said == "Gradients for some parameters are None."


@pytest.mark.slow
def test_one_graph_of_fabricpc_by_both_of_its_algorithms(tmp_path, environment):
    found = run("15_case_fabricpc.py", tmp_path, environment("fabricpc==0.6.0", "jax"))
    assert found["versions"]["fabricpc"] == "0.6.0"
    assert tuple(map(int, found["versions"]["jax"].split(".")[:2])) >= (0, 5)
    for algorithm in ("pc", "backprop"):
        case, report = found[algorithm], report_of(found[algorithm]["report"])
        assert report.outcome == "pass"
        assert report.reading("d").value > 5
        assert case["forward"] == pytest.approx(report.headline_acc, abs=0.003)
        assert case["own"]["accuracy"] == pytest.approx(report.headline_acc, abs=0.02)
        assert case["few"] == pytest.approx(case["by_hand"], abs=1e-3)
        assert min(report.alignment.sites[1:]) > 0.8
        assert report.reading("p").value > 0.7
        assert report.reference_check.error < 1e-6
        assert case["own"]["target_energy"] > 0
    # The answer's energy is not bounded where it is free: it is negative, and falls further with more steps.
    for energies in (found["energies"], found["free"]):
        assert energies[1] < 1.5 * energies[0] < 0


@pytest.mark.slow
def test_the_names_of_fabricpcs_training_are_those_of_its_releases(tmp_path):
    for version, names in {"0.4.0": ["train_backprop", "train_pcn"], "0.5.2": ["train"], "0.6.0": ["train"]}.items():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-requires-python"]
        done = subprocess.run(
            [*command, "--target", tmp_path / version, f"fabricpc=={version}"],
            env=plain_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"this check needs fabricpc {version} from the package index:\n{done.stderr}"
        files = (tmp_path / version / "fabricpc" / "training").glob("*.py")
        defined = re.findall(r"^def (train|train_pcn|train_backprop)\(", "\n".join(f.read_text() for f in files), re.M)
        assert sorted(set(defined)) == names
