"""What tools/mutants.py makes, which tests it runs for a mutant, and what it puts on record."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import mutants  # noqa: E402
from mutants import Mutant, Reach, chosen, forked, is_made, unevaluated  # noqa: E402

NUMERICS = "src/walkback/protocol/numerics.py"


def mutant(line=1, job="j", module=NUMERICS):
    return Mutant(job, module, "core/NumberReplacer", 0, {}, line, line)


@pytest.mark.parametrize(
    ("operator", "made"),
    [
        ("core/ReplaceBinaryOperator_Add_Sub", True),
        ("core/ReplaceBinaryOperator_Add_Mul", False),
        ("core/ReplaceComparisonOperator_Lt_LtE", True),
        ("core/ReplaceComparisonOperator_Lt_GtE", True),
        ("core/ReplaceComparisonOperator_Lt_Eq", False),
        ("core/NumberReplacer", True),
        ("core/AddNot", True),
        ("core/VariableInserter", False),
    ],
)
def test_which_operators_are_used(operator, made):
    assert is_made(operator) == made


def test_only_annotations_that_are_never_evaluated_are_left_out():
    lines = [
        "class A:",
        "    x: int | None = 1",
        "def f(a: int | str = 1 | 2) -> int | None:",
        "    b: int | None = 3 | 4",
    ]
    left_out = unevaluated("\n".join(lines))
    bars = [(number, column) for number, line in enumerate(lines, 1) for column, c in enumerate(line) if c == "|"]
    # Pydantic evaluates what stands in the body of a class; a default and a value are evaluated too.
    assert [bar in left_out for bar in bars] == [False, True, False, True, True, False]


def test_a_sample_is_that_of_its_seed_and_of_the_modules_that_were_asked_for():
    every = [mutant(line) for line in range(100)] + [mutant(1, module="src/walkback/watch/live.py")]
    assert chosen(every, [], 5, 3) == chosen(every, [], 5, 3)
    assert chosen(every, [], 5, 3) != chosen(every, [], 5, 4)
    assert len(chosen(every, ["protocol/numerics.py"], None, 0)) == 100
    assert chosen(every, ["watch/*"], 5, 0) == every[100:]


def test_the_tests_of_a_mutant_are_those_that_reach_it_the_quickest_first():
    reach = Reach()
    seconds = {"slow": 2.0, "quick": 0.1, "elsewhere": 0.05, "endless": 1000.0}
    line = (ROOT / NUMERICS).read_text().splitlines().index("    count = values.shape[-1]") + 1
    reach.add({"seconds": seconds, "lines": {NUMERICS: {str(line): ["slow", "quick", "endless"], "1": ["elsewhere"]}}})
    assert reach.tests_of(mutant(line)) == ["quick", "slow"]
    assert set(reach.tests_of(mutant(34))) == {"elsewhere", "quick", "slow"}, "run when the module is imported"


def test_a_child_that_takes_too_long_is_ended_and_its_status_is_told():
    assert forked(lambda: 0, 60.0) == 0
    assert forked(lambda: 7, 60.0) == 7
    assert forked(lambda: 1 / 0, 60.0) == mutants.OWN_FAULT
    assert forked(lambda: [None for _ in iter(int, 1)], 0.3) is None


def test_survivors_stay_in_the_count_whatever_they_are_called(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "STATE", tmp_path)
    monkeypatch.setattr(mutants, "tool", lambda: "cosmic-ray")  # which the tests do without
    monkeypatch.setattr(mutants, "EQUIVALENT", tmp_path / "equivalent.json")
    (tmp_path / "equivalent.json").write_text(
        json.dumps([{"module": NUMERICS, "was": "a", "became": "b", "reason": "no test can tell them apart"}])
    )
    found = [{"job": str(n), "outcome": "killed", "was": "", "became": ""} for n in range(7)]
    found += [{"job": "7", "outcome": "timeout", "was": "", "became": ""}]
    found += [{"job": str(n), "outcome": "survived", "was": "a", "became": "bc"[n - 8]} for n in (8, 9)]
    lines = "".join(json.dumps(each) + "\n" for each in found)
    (tmp_path / "notes-x-0.jsonl").write_text(lines + '{"job": "10", "outco')
    asked = {"sample": 11, "seed": 0, "modules": [], "tests": []}
    made = mutants.record([mutant(job=str(n)) for n in range(11)], asked, Counter(), 500)
    assert (made["made"], made["killed"], made["timeouts"], made["survived"], made["not_tried"]) == (10, 7, 1, 2, 1)
    assert made["share_killed"] == 0.8
    assert [bool(each["equivalent"]) for each in made["survivors"]] == [True, False]
