"""The glossary has every letter that a report can show, with its diagnostic and the panels in which it decides."""

import re
from pathlib import Path

from walkback.protocol.diagnostics.known import named
from walkback.protocol.panels import panel_named
from walkback.registry import DIAGNOSTICS, PANELS

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
ROW = re.compile(r"^\| \((\w+)\) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def rows():
    table = PAGE.read_text(encoding="utf-8").partition("\n## Letters\n")[2]
    return {letter: (title, question, panels) for letter, title, question, panels in ROW.findall(table)}


def deciding_in(name):
    return [
        panel
        for panel in PANELS.own
        if any(member.diagnostic == name and member.role == "decides" for member in panel_named(panel).members)
    ]


def test_every_letter_is_explained():
    expected = {named(name).letter: named(name).title for name in DIAGNOSTICS.own}
    assert {letter: title for letter, (title, _, _) in rows().items()} == expected
    assert all(question.endswith("?") for _, question, _ in rows().values())


def test_the_panels_in_which_each_decides():
    told = rows()
    for name in DIAGNOSTICS.own:
        panels = re.findall(r"`(\w+)`", told[named(name).letter][2])
        assert sorted(panels) == sorted(deciding_in(name)), name
