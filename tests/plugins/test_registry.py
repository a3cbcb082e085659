"""What a running process adds: names, replacements, refusals, and whose word an address is imported on."""

import sys

import pytest

import walkback
from walkback import registry
from walkback.addresses import allow
from walkback.errors import InputError, UnknownName, did_you_mean
from walkback.protocol.diagnostics.known import known, thresholds
from walkback.registry import GROUPS, Registry, open_registry


class Spread(walkback.Diagnostic):
    letter = "x"
    title = "spread"
    question = "How far apart are the states?"
    meaning = "all states are one"
    thresholds = {"spread_floor": walkback.Threshold(0.5, "<", "spread")}  # noqa: RUF012
    quantities = (walkback.Quantity("spread", traced=True),)


class Wider(Spread):
    thresholds = {"spread_floor": walkback.Threshold(0.9, "<", "spread")}  # noqa: RUF012


@pytest.fixture(autouse=True)
def _left_as_found(monkeypatch):
    monkeypatch.setattr("walkback.addresses._ALLOWED", set())
    before = {group: dict(rows) for group, rows in registry.REGISTERED.items()}
    yield
    for group, rows in registry.REGISTERED.items():
        for name in set(rows) - set(before[group]):
            walkback.unregister(group, name)
        open_registry(group).find_again()


def test_what_is_registered_is_there_until_it_is_taken_away():
    assert walkback.register("diagnostics", "spread", Spread) is Spread
    assert known()["spread"] is Spread
    assert thresholds()["spread_floor"].default == 0.5
    assert walkback.DiagnosticThresholds(spread_floor=0.7).spread_floor == 0.7
    report = walkback.judge(walkback.Measurements(extra={"spread": 0.1}))
    assert report.reading("x").state is walkback.State.FIRE
    walkback.unregister("diagnostics", "spread")
    assert "spread" not in known()
    with pytest.raises(InputError, match="there is no threshold called 'spread_floor'"):
        walkback.DiagnosticThresholds(spread_floor=0.7)
    walkback.unregister("diagnostics", "spread")  # twice is as good as once


def test_a_name_that_is_registered_again_is_replaced():
    walkback.register("diagnostics", "spread", Spread)
    walkback.register("diagnostics", "spread", Wider)
    assert known()["spread"] is Wider
    assert thresholds()["spread_floor"].default == 0.9


def test_a_replacement_that_cannot_be_used_leaves_what_was_there():
    walkback.register("diagnostics", "spread", Spread)
    with pytest.raises(InputError, match=r"expected a subclass of walkback\.Diagnostic"):
        walkback.register("diagnostics", "spread", 7)
    assert known()["spread"] is Spread


@pytest.mark.parametrize("group", GROUPS)
def test_the_names_of_walkback_are_its_own(group):
    name = open_registry(group).own[0]
    with pytest.raises(InputError, match=f"there is an? .* '{name}' already"):
        walkback.register(group, name, Spread)
    assert name not in registry.REGISTERED[group]


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_of_another_kind_is_refused_in_a_sentence(group):
    with pytest.raises(InputError, match=r"mine.*expected"):
        walkback.register(group, "mine", 7)
    assert "mine" not in open_registry(group)


@pytest.mark.parametrize("name", ["", "a b", "x:y", "../x", None, 7, "a" * 70])
def test_a_name_is_a_word(name):
    with pytest.raises(InputError, match="expected letters, digits and _"):
        walkback.register("diagnostics", name, Spread)


def test_an_unknown_group_is_refused_with_a_suggestion():
    with pytest.raises(UnknownName, match="Did you mean 'diagnostics'"):
        walkback.register("diagnostic", "spread", Spread)


@pytest.mark.parametrize("group", GROUPS)
def test_a_name_that_is_nearly_right_gets_the_right_one(group):
    rows = open_registry(group)
    name = rows.own[0]
    with pytest.raises(UnknownName, match=f"Did you mean '{name}'|Known: "):
        rows.load(name + "x")


@pytest.mark.parametrize("group", GROUPS)
def test_every_row_of_walkback_loads(group):
    rows = open_registry(group)
    assert {name for name, _ in rows.loaded()} >= set(rows.own)


def test_letters_and_names_of_two_diagnostics_are_apart():
    walkback.register("diagnostics", "spread", Spread)
    taken = type("Other", (Spread,), {"letter": "a", "quantities": (), "thresholds": {}, "judge": lambda s, m: None})
    with pytest.raises(InputError, match=r"the letter \(a\) is that of the diagnostic 'residual_growth'"):
        walkback.register("diagnostics", "other", taken)
    with pytest.raises(InputError, match=r"the name 'spread(_floor)?' is one of the diagnostic 'spread'"):
        walkback.register("diagnostics", "other", type("Other", (Spread,), {"letter": "y"}))


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that leaves a file behind when it is imported."""
    (tmp_path / "theirs.py").write_text(
        "from pathlib import Path\nfrom walkback.registry import *\nPath(__file__).with_name('ran').touch()\n"
        "def render(report):\n    return 'theirs'\n"
    )
    (tmp_path / "failing.py").write_text("raise ZeroDivisionError('on\\nimport')\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("theirs", None)  # another test's
    yield tmp_path
    sys.modules.pop("theirs", None)


def test_an_address_is_imported_only_on_the_word_of_whoever_runs_it(module):
    with pytest.raises(UnknownName, match="what a file says is not imported"):
        registry.RENDERERS.load("theirs:render")
    assert not (module / "ran").exists()
    allow("theirs:render", None, "no address")
    assert registry.RENDERERS.load("theirs:render")(None) == "theirs"
    assert (module / "ran").exists()


def test_what_a_caller_names_is_allowed_by_that(module):
    report = walkback.judge(walkback.Measurements(residual_norms=[1.0, 1.0]))
    assert report.render("theirs:render") == "theirs"
    assert "theirs:render" in registry.RENDERERS


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("theirs:rende", "theirs has no rende. Did you mean 'render'"),
        ("failing:render", "it raised ZeroDivisionError: on import"),
        ("leaving:render", "it raised SystemExit: 0"),
        ("not_there.at_all:render", "there is no module not_there. Install the package"),
        ("theirs.sub:render", "there is no module theirs"),
        ("math:pi", "'math:pi' is 3.14.*; expected a function from a DiagnosticReport"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_in_a_line(module, address, words):
    with pytest.raises(InputError, match=words) as told:
        registry.RENDERERS.named(address)
    assert "\n" not in str(told.value)


def test_the_address_of_a_row_is_that_row():
    assert registry.PANELS.named("walkback.protocol.panels.june2026:JUNE_2026") is registry.PANELS.load("june2026")
    assert set(registry.PANELS) == set(registry.PANELS.own)


def test_a_closed_registry_takes_no_address():
    closed = Registry("colour", {"red": "math:pi"})
    assert closed.load("red") > 3
    with pytest.raises(UnknownName, match="there is no colour called 'math:e'"):
        closed.named("math:e")
    assert dict(closed.loaded()) == {"red": closed.load("red")}


def test_a_panel_of_diagnostics_by_address_is_measured_and_judged(module):
    (module / "wide.py").write_text(
        "from walkback import Diagnostic, Member, Panel, Quantity, Threshold\n"
        "class Width(Diagnostic):\n"
        "    letter, title, question, meaning = 'z', 'width', 'How wide?', 'too wide'\n"
        "    thresholds = {'width_most': Threshold(3.0, '>', 'width')}\n"
        "    quantities = (Quantity('width'),)\n"
        "    needs_gradient = False\n"
        "    measure = staticmethod(lambda capture: capture.hiddens[-1])\n"
        "    summarise = staticmethod(lambda part: {'width': float(part.shape[1])})\n"
        "PANEL = Panel('wide', 'width', (Member('wide:Width'),))\n"
    )
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8)), nn.Sequential(nn.Linear(8, 8)))
    report = walkback.diagnose(
        model, [(torch.randn(16, 4), torch.randint(8, (16,)))], blocks=["1"], panel="wide:PANEL", gradients=False
    )
    assert (report.reading("z").value, report.outcome, report.decided_by) == (8.0, "fail", ("z",))


def test_a_number_is_never_misspelt_and_numbers_are_told_as_a_range():
    numbers = [str(number) for number in range(1, 16)]
    assert did_you_mean("99", numbers) == "Known: 1 to 15."
    assert did_you_mean("99", [*numbers, "mine"]) == "Known: 1 to 15, mine."
    assert did_you_mean("2", ["1", "3", "4"]) == "Known: 1, 3, 4."
    assert did_you_mean("blocks.99", ["blocks.9"]) == "Did you mean 'blocks.9'? Known: blocks.9."


def test_names_that_are_equally_near_are_all_asked_for():
    methods = ["akrout_bp", "akrout_fa", "akrout_kp", "akrout_wm", "drtp"]
    assert "Did you mean 'akrout_bp', 'akrout_fa', 'akrout_kp' or 'akrout_wm'?" in did_you_mean("akrout", methods)
    assert "Did you mean 'akrout_fa'?" in did_you_mean("akrout_ffa", methods)
    assert "Did you mean 'dfa' or 'dfb'?" in did_you_mean("dfx", ["dfb", "bp", "dfa"])
    assert "Did you mean 'digits'?" in did_you_mean("digit", ["digits", "digit_pairs"])
