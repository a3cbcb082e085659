"""Each pitfall shows what it claims, with the published figure where the input is synthetic; each says all it must."""

from __future__ import annotations

import importlib
import random
import re
import sys
import time
from pathlib import Path

import pytest
import torch

from reference.feedback_source import FUNCTION, NETWORK
from walkback.cli import main
from walkback.lint.check import check_source, chosen_rules
from walkback.pitfalls import PITFALLS
from walkback.pitfalls.base import Claim, Reproduction
from walkback.pitfalls.pages import CHECKLIST_COMMAND, all_pitfalls, checklist
from walkback.pitfalls.typed_numbers import unsupported

ROOT = Path(__file__).parents[2]
QUICK = {1, 2, 3, 8, 9, 10}
PUBLISHED = {*range(1, 11), 13}
"""Those whose number is published; the others were met elsewhere."""
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@pytest.fixture(scope="module")
def reproductions():
    """Each run once, and the CPU seconds that it took: those of the clock say how busy the machine is."""
    found = {}
    for pitfall in all_pitfalls():
        start = time.process_time()
        found[pitfall.number] = (pitfall.reproduce(), time.process_time() - start)
    return found


def test_they_are_numbered_from_one():
    own = [PITFALLS.load(name).number for name in PITFALLS.own]
    assert own == list(range(1, 16)) == [int(name) for name in PITFALLS.own]
    assert [p.number for p in all_pitfalls()][: len(own)] == own


@pytest.mark.parametrize("number", [pitfall.number for pitfall in all_pitfalls()])
def test_it_shows_what_it_claims(reproductions, number):
    found, _ = reproductions[number]
    assert found.holds, [claim.sentence for claim in found.claims if not claim.holds]
    assert len(found.claims) >= 2
    assert found.rows
    assert any(row.published for row in found.rows) == (number in PUBLISHED)


def test_the_quick_ones_take_less_than_a_second_of_cpu_and_the_others_less_than_a_minute(reproductions):
    # Quick ones are timed the second time, when everything that they import is there.
    for number in QUICK:
        start = time.process_time()
        PITFALLS.load(str(number)).reproduce()
        assert time.process_time() - start < 1
    assert all(seconds < 60 for _, seconds in reproductions.values())


@pytest.mark.parametrize(
    ("number", "figures"),
    [
        (1, {"1.143", "[5, 10]"}),
        (2, {"0.000905", "0.018101", "20.0"}),
        (3, {"0", "NaN", "5e-10"}),
        (9, {"trustworthy", "needs walk-back: non-finite values"}),
        (10, {"0.609", "0.585"}),
    ],
)
def test_the_published_figure_comes_out(reproductions, number, figures):
    found, _ = reproductions[number]
    assert figures <= {cell for row in found.rows for cell in (row.wrong, row.right)}


def test_a_reproducer_leaves_every_random_state_alone():
    for number in ("3", "5", "8", "11", "12", "13", "14", "15"):
        before = torch.get_rng_state(), random.getstate(), torch.get_num_threads()
        PITFALLS.load(number).reproduce()
        after = torch.get_rng_state(), random.getstate(), torch.get_num_threads()
        assert torch.equal(before[0], after[0])
        assert before[1:] == after[1:]


@pytest.mark.parametrize("pitfall", all_pitfalls(), ids=lambda p: p.title)
def test_a_pitfall_says_all_that_it_must(pitfall):
    module, _, name = pitfall.where.partition(":")
    assert hasattr(importlib.import_module(module), name)
    assert pitfall.question.endswith("?")
    assert min(map(len, (pitfall.explanation, pitfall.avoided))) > 60
    assert bool(pitfall.published) == (pitfall.number in PUBLISHED)


AROUND = {11: FUNCTION + NETWORK + "fa_network = Net()\n"}
"""What a line that lies needs around it to be one."""


def in_a_class(line, number):
    body = line.replace("\n", "\n        ")
    return f"{HEAD}{AROUND.get(number, '')}class N(nn.Module):\n    def __init__(self, h):\n        {body}\n"


@pytest.mark.parametrize("pitfall", [p for p in all_pitfalls() if p.codes], ids=lambda p: p.title)
def test_lint_finds_the_line_that_lies_and_not_the_one_to_write(pitfall):
    found = {f.code for f in check_source(in_a_class(pitfall.lies, pitfall.number), "x.py", chosen_rules())}
    assert found
    assert found <= set(pitfall.codes)
    assert check_source(in_a_class(pitfall.instead, pitfall.number), "x.py", chosen_rules()) == []


def walkback(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["walkback", "pitfalls", *arguments])
    with pytest.raises(SystemExit) as left:
        main.run()
    return left.value.code, *capsys.readouterr()


def test_the_list(monkeypatch, capsys):
    status, out, _ = walkback(monkeypatch, capsys)
    assert status == 0
    for pitfall in all_pitfalls():
        assert pitfall.title in out
    assert "WB001" in out


def test_one_is_shown_with_both_numbers(monkeypatch, capsys):
    status, out, _ = walkback(monkeypatch, capsys, "show", "2")
    assert status == 0
    assert re.search(r"cosine +0\.000905 +0\.018101 +0\.000905 instead of 0\.018101", out)
    assert "F.cosine_similarity(credit.double(), gradient.double(), eps=1e-150)" in out
    assert "shown: the clamped cosine is 0.000905" in out


def test_an_unknown_one_is_refused(monkeypatch, capsys):
    status, _, error = walkback(monkeypatch, capsys, "show", "thirteen")
    assert status == 2
    assert "there is no pitfall called 'thirteen'" in error


def broken(*claims):
    return lambda: Reproduction("made up", (), claims)


def failing():
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("reproduce", "words"),
    [
        (broken(Claim("it is so", True), Claim("pigs fly", False)), "2: not so: pigs fly"),
        (broken(), "NOT SHOWN"),
        (failing, "2: ZeroDivisionError: division by zero"),
    ],
)
def test_check_fails_where_one_no_longer_shows_what_it_claims(monkeypatch, capsys, reproduce, words):
    assert walkback(monkeypatch, capsys, "check", "1", "2")[0] == 0
    changed = PITFALLS.load("2").__class__(**{**vars(PITFALLS.load("2")), "reproduce": reproduce})
    monkeypatch.setattr("walkback.pitfalls.clamped_cosine.PITFALL", changed)
    status, out, _ = walkback(monkeypatch, capsys, "check", "1", "2")
    assert status == 1
    assert words in out
    assert "1 of 2 show what they claim" in out


def test_the_checklist_is_up_to_date():
    assert (ROOT / "docs" / "CHECKLIST.md").read_text() == checklist(), f"run: {CHECKLIST_COMMAND}"


def test_the_checklist_asks_every_question():
    page = checklist()
    assert page.count("- [ ] ") == len(all_pitfalls())
    for pitfall in all_pitfalls():
        assert f"```python\n{pitfall.instead}\n```" in page


@pytest.mark.parametrize(
    ("text", "record", "left"),
    [
        ("0.585 and 58.5 %", {"acc": 0.585}, []),
        ("0.59", {"acc": [0.585001]}, []),
        ("0.609", {"acc": 0.585, "name": "0.609", "ok": True}, ["0.609"]),
        ("4.2e-09 but 4.3e-09", {"g": 4.18e-9}, ["4.3e-09"]),
        ("−0.022", {"deep": {"x": -0.0218}}, []),
        ("version v1.2.3, block.0.1", {}, []),
    ],
)
def test_numbers_without_a_record_are_found(text, record, left):
    assert unsupported(text, record) == left
