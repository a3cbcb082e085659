"""JSON as walkback writes and reads it: NaN and the infinities are words, and nothing is nested without end. No torch.

    {"accuracy": "NaN", "bp_grad_norms": [0.008, "Infinity"]}

JSON has no such numbers, and other programs refuse the bare ones. Records are written the same way, by pydantic.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from walkback.errors import RecordError

NON_FINITE = ("NaN", "Infinity", "-Infinity")
"""The words for what no JSON number is."""


def word_for(value: float) -> str:
    """The word for a number that is not finite."""
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def as_json(value: Any) -> Any:
    """The value as JSON can hold it, level by level: words for numbers that are not finite, lists for tuples."""
    if isinstance(value, float) and not math.isfinite(value):
        return word_for(value)
    if isinstance(value, Mapping):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return value


def from_json(value: Any) -> Any:
    """Numbers again where JSON had to hold words for them, level by level."""
    if isinstance(value, str):
        return float(value) if value in NON_FINITE else value
    if isinstance(value, dict):
        return {key: from_json(entry) for key, entry in value.items()}
    return [from_json(entry) for entry in value] if isinstance(value, list) else value


def number(value: float | str | None) -> float | None:
    """One number back from JSON, where those that are not finite are words."""
    return None if value is None else float(value)


def json_text(value: Any, *, compact: bool = False) -> str:
    """The value as the text of a file, one space for each level, or all of it `compact` in one line."""
    layout: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 1}
    return json.dumps(as_json(value), ensure_ascii=False, allow_nan=False, **layout) + "\n"


DEEPEST = 50
"""How deeply JSON that walkback reads may be nested; what it writes has at most seven levels."""


class SaidTwice(ValueError):
    """An object says two things of one name, of which a reader would see the last alone."""


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counted = Counter(name for name, _ in pairs)
        twice = next(name for name, times in counted.items() if times > 1)
        quoted = repr(twice) if len(twice) <= 58 else f"{twice[:56]!r}…"
        raise SaidTwice(f"it contradicts itself: {quoted} is in one object twice")
    return found


def parse_json(text: str | bytes) -> Any:
    """The value that a JSON text holds; whatever is wrong with it, hopeless nesting included, raises ValueError.

    Whoever goes through the value level by level can count on few of them.
    """
    try:
        value = json.loads(text, object_pairs_hook=_said_once)
    except RecursionError:
        raise ValueError(f"nested deeper than {DEEPEST} levels") from None
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not level:
            return _writable(value, text)
    raise ValueError(f"nested deeper than {DEEPEST} levels")


def _writable(value: Any, text: str | bytes) -> Any:
    """The value; half of a surrogate pair, which only an escape can make, is in no text that could be written again."""
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text in it holds half of a surrogate pair, which is no character") from None
    return value


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def read_json(path: str | Path) -> Any:
    """The JSON in a file; a missing, unreadable or malformed file raises `RecordError`."""
    source = Path(path)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot read {source}: {error.strerror}. Give the path of a JSON file.") from None
    try:
        return parse_json(data.decode("utf-8"))
    except SaidTwice as error:
        raise RecordError(f"{source} contradicts itself: {error}. Create it again, or give another file.") from None
    except ValueError as error:
        raise RecordError(f"{source} {_not_json(data, error)} Expected a file that walkback wrote.") from None


_LOOKS = (
    (b"PK\x03\x04", "is not JSON: it looks like a checkpoint of torch or a zip archive."),
    (b"\x80", "is not JSON: it looks like a pickle."),
    (b"\x89PNG", "is not JSON: it looks like a picture."),
    (b"%PDF", "is not JSON: it looks like a PDF."),
    (b"<", "is not JSON: it looks like HTML or XML. Of a page, give the JSON that it was made from."),
)
"""What a file begins with that is no JSON, and what it is then."""
_CODE = (b"import ", b"from ", b'"""', b"#!", b"def ", b"class ")


def _not_json(data: bytes, error: ValueError) -> str:
    """What is wrong with a file that was meant to be JSON."""
    begins = data.lstrip()[:16]
    if not begins:
        return "is empty."
    for mark, words in _LOOKS:
        if begins.startswith(mark):
            return words
    if begins.startswith(_CODE):
        return "is not JSON: it looks like Python code. For a network in code: walkback diagnose file.py:function."
    if isinstance(error, json.JSONDecodeError) and begins.startswith((b"{", b"[")):
        unfinished = error.msg.startswith("Unterminated") or error.pos >= len(error.doc.rstrip())
        if unfinished:
            return f"breaks off at character {len(error.doc):,}; was the writing interrupted?"
    if isinstance(error, UnicodeDecodeError):
        return f"is not JSON: it is not UTF-8 text (byte {error.start + 1:,})."
    if not isinstance(error, json.JSONDecodeError):
        return f"is not JSON ({error})."
    if error.pos <= len(error.doc) - len(error.doc.lstrip()):
        return f"is not JSON: it begins with {_beginning(error.doc)!r}."
    return f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}."


def _beginning(text: str) -> str:
    """The first words of a text, as a message quotes them."""
    line = text.lstrip().splitlines()[0]
    return line if len(line) <= 30 else f"{line[:29]}…"
