"""Text that others wrote, made safe to stand in a line: names, notes, warnings, reasons."""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"
NAME_LENGTH = 60
NOTE_LENGTH = 400
SENTENCE_LENGTH = 1200
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn"}
# Joiners shape letters in several scripts and cannot reorder or hide anything.
_KEPT = {"\u200c", "\u200d"}


def one_line(text: str) -> str:
    """The text on one line, without control, escape or text-direction characters."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """The text with its lines and blanks as they are, without control, escape or text-direction characters.

    An escape sequence could recolour a terminal, and a direction override could make a name read
    backwards; each such character becomes U+FFFD, so that its place is still seen.
    """
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or _printable(c) else "\ufffd" for c in text)


def _printable(character: str) -> bool:
    return character in _KEPT or unicodedata.category(character) not in _UNPRINTABLE


def shortened(text: str, length: int) -> str:
    """One line of at most this many characters, saying how many there were if some are left out."""
    line = one_line(text)
    if len(line) <= length:
        return line
    tail = f" {ELLIPSIS} ({len(line):,} characters in the record)"
    return line[: max(length - len(tail), 1)].rstrip() + tail


def middle_out(text: str, length: int) -> str:
    """A name cut in its middle: the two ends of a module path are what tells it from its neighbours."""
    line = one_line(text)
    if len(line) <= length:
        return line
    head = (length - 1) // 2
    tail = length - 1 - head
    return line[:head] + ELLIPSIS + (line[-tail:] if tail else "")


def site_label(name: str, length: int) -> str:
    """A module path cut so that its number stays, which is what tells `layer.3.out` from `layer.4.out`."""
    line = one_line(name)
    numbers = list(re.finditer(r"(?<=\.)\d+(?=\.|$)", line))
    if len(line) <= length or not numbers:
        return middle_out(line, length)
    start, end = numbers[-1].span()
    first = min(max((start + end - length) // 2, 0), len(line) - length)
    head, tail = first > 0, first + length < len(line)
    return ELLIPSIS * head + line[first + head : first + length - tail] + ELLIPSIS * tail
