"""Reports, comparisons, seeds and monitors in a notebook: a piece of HTML each, small, with nothing to fetch.

Text has the colours of the notebook, light or dark; a state is a word on a ground of its own, legible on either. No
script, and every word of others is escaped. It needs no jinja2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape

from walkback.present import in_panel, outline
from walkback.present.brief import sections
from walkback.present.comparison import columns, labels, letters_in_words, row, short_verdict
from walkback.present.in_short import plain_verdict
from walkback.present.numbers import count, reading_value
from walkback.present.places import place
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened, visible
from walkback.present.seeds import headline, remarks, sentences, summaries
from walkback.protocol.records import DiagnosticReport, Reading, State
from walkback.protocol.seeds import SeedSummary
from walkback.watch.live import Now, figures

MOST_ROWS = 60
"""Of a comparison; more stand in its text and on its page."""
GROUNDS = {
    State.PASS: "#0b6e4f",
    State.FIRE: "#b3261e",
    State.NOT_MEASURED: "#6b7078",
    State.UNDECIDED: "#8a5a00",
    State.REPORTED: "#1f5fa8",
}
"""White on each has a contrast of 4.5 or more."""
_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:3px 10px;border-bottom:{_LINE};text-align:"
_ELSEWHERE = ("why", "not known", "more")
"""What of the brief form the table says."""


@singledispatch
def render(shown: object) -> str:
    """What a notebook shows of a report, several seeds or a monitor."""
    raise TypeError(f"{type(shown).__name__} has no form for a notebook")


@render.register
def _report(report: DiagnosticReport) -> str:
    verdict = outline.verdict_line(report)
    head = f"{_pill(outline.verdict_state(report), report.outcome)} <b>{_text(verdict)}</b>"
    about = [(label, lines) for label, lines in sections(report) if label not in _ELSEWHERE]
    return _block(
        f'<div style="font-size:1.05em">{head}</div>',
        f"<div>{_text(outline.title(report))}: {_text(plain_verdict(report))}</div>",
        _table(["", "diagnostic", "value", "at", "fires when"], [_reading(report, r) for r in report.readings]),
        _facts(about),
    )


def _reading(report: DiagnosticReport, reading: Reading) -> list[str]:
    role = in_panel.role(report, reading.letter)
    return [
        _pill(reading.state, outline.state_word(reading)),
        _text(in_panel.named(report, reading)) + (f" <small>({_text(role)})</small>" if role else ""),
        _text(reading_value(reading)),
        "" if reading.site is None else _text(place(report, reading.site)),
        _text(outline.fires_when(reading)),
    ]


@render.register
def _seeds(summary: SeedSummary) -> str:
    return _block(f"<b>{_text(headline(summary))}</b>", _listed(sentences(summary)))


@render.register
def _now(now: Now) -> str:
    """A monitor: its last line, what fired since when, and whether to stop."""
    state = State.FIRE if now.decision.stop else State.PASS
    word = "stop" if now.decision.stop else "go on"
    reason = f" {_text(shortened(now.decision.reason, NOTE_LENGTH))}" if now.decision.reason else ""
    parts = [f"<div>{_pill(state, word)}{reason}</div>"]
    if now.line is None:
        return _block(*parts, "<div>nothing measured yet</div>")
    parts.append(_table([name for name, _ in figures(now.line)], [[_text(value) for _, value in figures(now.line)]]))
    if now.line.unmeasured:
        parts.append(f"<div>not measured: {_text(shortened(now.line.unmeasured, NOTE_LENGTH))}</div>")
    fired = [f"({letter}) since {at}" for letter, at in now.decision.first_fired.items()]
    parts += [f"<div>fired: {_text(', '.join(fired))}</div>"] if fired else []
    return _block(*parts)


def comparison(reports: Sequence[DiagnosticReport], names: Sequence[str]) -> str:
    """Several reports: one row each, then what the seeds of each method agree on."""
    shown = columns(reports)
    headings = ["name", *(column.heading for column in shown), "verdict"]
    rows = [
        [_text(middle_out(name, NAME_LENGTH)), *map(_text, row(report, shown)), _verdict(report)]
        for name, report in list(zip(names, reports, strict=True))[:MOST_ROWS]
    ]
    letters = letters_in_words(labels(reports))
    left = len(reports) - MOST_ROWS
    parts = [_table(headings, rows, "l" + "r" * len(shown) + "l"), f"<div><small>{_text(letters)}</small></div>"]
    parts += [f"<div>… and {count(left, 'report')} more</div>"] if left > 0 else []
    parts += [f"<div><b>warning:</b> {_text(shortened(words, NOTE_LENGTH))}</div>" for words in remarks(reports)[:4]]
    parts += [render(summary) for summary in summaries(reports)[:MOST_ROWS]]
    return _block(*parts)


def _verdict(report: DiagnosticReport) -> str:
    return f"{_pill(outline.verdict_state(report), report.outcome)} {_text(short_verdict(report))}"


def _text(words: object) -> str:
    """Words of others as text: escaped, and without what could reorder or hide the words beside them."""
    return escape(visible(str(words)))


def _pill(state: State, word: str) -> str:
    style = f"background:{GROUNDS[state]};color:#fff;border-radius:4px;padding:1px 7px;white-space:nowrap"
    return f'<span style="{style}">{_text(word)}</span>'


def _block(*parts: str) -> str:
    style = "line-height:1.5;max-width:1000px;overflow-x:auto;overflow-wrap:anywhere"
    return f'<div class="walkback" style="{style}">{"".join(parts)}</div>'


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], sides: str = "") -> str:
    side = {"l": "left", "r": "right"}
    aligned = [side[each] for each in sides] or ["left"] * len(headings)
    top = "".join(f'<th style="{_CELL}{a}">{_text(h)}</th>' for h, a in zip(headings, aligned, strict=True))
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}{a}">{c}</td>' for c, a in zip(cells, aligned, strict=True)) + "</tr>"
        for cells in rows
    )
    # Notebooks have styles for tables, with stripes and a font of their own.
    style = "border-collapse:collapse;background:none;color:inherit;margin:8px 0;font:inherit"
    return f'<table style="{style}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _facts(sections: Iterable[tuple[str, Sequence[str]]]) -> str:
    rows = [
        f'<tr><td style="padding:2px 14px 2px 0;text-align:left;vertical-align:top;opacity:.75">{_text(label)}</td>'
        f'<td style="padding:2px 0;text-align:left">{"<br>".join(map(_text, lines))}</td></tr>'
        for label, lines in sections
    ]
    style = "border-collapse:collapse;background:none;color:inherit;font:inherit"
    return f'<table style="{style}"><tbody>{"".join(rows)}</tbody></table>' if rows else ""


def _listed(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{_text(shortened(sentence, NOTE_LENGTH))}</li>" for sentence in sentences)
    return f'<ul style="margin:4px 0 8px">{items}</ul>'
