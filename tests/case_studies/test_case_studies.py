"""walkback pointed at code that nobody here wrote: the examples run, and their pages say what they found."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "case-studies"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def masked(page):
    """The page without the digits that another machine may give."""
    return re.sub(r"[-+]?\d+(\.\d+)*(e[-+]\d+)?(\+\w+)?", "#", page)


@pytest.fixture(scope="module")
def biotorch(tmp_path_factory):
    """What the first example finds; pip fetches the package by its name, and where it cannot, that is a failure."""
    example, folder = load(ROOT / "examples" / "07_case_biotorch_dfa.py"), str(tmp_path_factory.mktemp("biotorch"))
    try:
        example.fetch(folder)
    except SystemExit as told:
        pytest.fail(f"this check needs biotorch from the package index: {told}")
    path, modules = list(sys.path), set(sys.modules)
    yield example, example.study(folder)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("biotorch"):
            del sys.modules[name]


def test_the_skip_of_a_residual_network_leaks_under_biotorchs_dfa(biotorch):
    _, found = biotorch
    leaking, fixed = found["leaking"], found["fixed"]
    assert all(0.6 < cosine < 0.95 for cosine in leaking.alignment.neighbours)
    assert any("the feedback leaks" in warning for warning in leaking.warnings)
    assert all(abs(cosine) < 0.2 for cosine in fixed.alignment.neighbours)
    assert fixed.warnings == ()
    assert found["textbook_gap"] < 1e-5
    assert found["angles"] == {}


def test_lint_finds_what_is_there_and_nothing_else(biotorch):
    _, found = biotorch
    assert {finding.split()[-1] for finding in found["findings"]} == {"WB007"}
    assert all(finding.startswith("biotorch/benchmark/run.py:") for finding in found["findings"])
    assert len(found["findings"]) == 3


def test_the_page_says_so(biotorch):
    example, found = biotorch
    written = (PAGES / "biotorch-dfa-residual.md").read_text()
    assert masked(example.page(found)) == masked(written)
    assert f"biotorch {found['version']} (2021)" in " ".join(written.split())


def test_a_threshold_turns_a_small_loss_into_perfect_alignment():
    example = load(ROOT / "examples" / "08_case_alignment_threshold.py")
    found = example.study()
    plain, ours = found[1.0]
    assert plain == pytest.approx(ours, abs=1e-3)
    for scale, (thresholded, right) in found.items():
        assert right == pytest.approx(ours, abs=1e-6)
        assert (thresholded == 1) == (scale <= 1e-6)
    assert abs(found[1e-3][0] - ours) > 0.05
    assert masked(example.page(found)) == masked((PAGES / "alignment-threshold.md").read_text())


def test_lint_finds_the_threshold():
    from walkback.lint.check import check_source, chosen_rules

    source = (ROOT / "examples" / "08_case_alignment_threshold.py").read_text()
    assert check_source(source, "x.py", chosen_rules()) == []
    unsilenced = check_source(source.replace("# noqa: WB009", ""), "x.py", chosen_rules())
    assert [finding.code for finding in unsilenced] == ["WB009", "WB009"]


def test_an_old_log_is_judged_without_being_contradicted():
    example = load(ROOT / "examples" / "09_case_old_log.py")
    found = example.study()
    assert [name for name, _, _ in found] == ["seed 42", "seed 123", "seed 456"]
    for _, partly, whole in found:
        states = {reading.letter: reading.state.value for reading in partly.readings}
        assert (states["a"], states["c"]) == ("UNDECIDED", "NOT_MEASURED")  # two norms never prove a pass
        assert partly.reading("d").value == pytest.approx(whole.reading("d").value)
        assert not partly.complete
    assert example.contradicted(found) == []
    assert example.page(found) == (PAGES / "old-log.md").read_text()


def test_the_page_of_the_lint_corpus_is_up_to_date():
    corpus = load(ROOT / "benchmarks" / "lint_corpus.py")
    record = json.loads(corpus.RECORD.read_text())
    assert corpus.PAGE.read_text() == corpus.page(record), "run: python benchmarks/lint_corpus.py --page"
    assert {p["package"]: p["version"] for p in record["packages"]} == corpus.PACKAGES
    verdicts = [f["verdict"] for p in record["packages"] for f in p["findings"]]
    assert "unjudged" not in verdicts
    assert "true" in verdicts
