"""Damage to sound input, drawn from a seeded generator: of bytes whatever they mean, and of JSON by what it says."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

MARKUP = "<img src=x onerror=wbfuzz()>"
"""Must never stand in a page as it is."""
ESCAPE = "\x1b[31mwbfuzz"
"""Must never reach a terminal as it is."""
NUMBERS = (
    0, -1, 1, 2, -0.0, 0.5, 1e-320, 1e308, -1e308, 1e400, 2**31, 2**53 + 1, 2**64, -(2**63) - 1, 10**400,
    float("nan"), float("inf"), float("-inf"), True, False,
)  # fmt: skip
WORDS = (
    "", " ", "NaN", "Infinity", "-Infinity", "nan", "0", "1e5", "PASS", "FIRE", "trustworthy",
    "\0", "\ud800", "é\u202e",
    "../../x", "a:b", "evil:X", "\\end{document}", "=1+1", "|", "x" * 5000, MARKUP, ESCAPE, "]]>", "{{7*7}}", "%s%n",
)  # fmt: skip


def mutated_bytes(chance: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The content after one to four kinds of damage."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        content = chance.choice(_BYTES)(chance, content, others)
    return content


def _place(chance: Random, content: bytes) -> tuple[int, int]:
    start = chance.randrange(len(content) + 1)
    return start, min(len(content), start + int(2 ** chance.uniform(0, 8)))


def _flip(chance: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    if not content:
        return b"\x80"
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]


def _cut(chance: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _without(chance: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _place(chance, content)
    return content[:start] + content[end:]


def _again(chance: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _place(chance, content)
    return content[:end] + content[start:end] * chance.choice((1, 2, 50)) + content[end:]


_TOKENS = (
    b"\xff", b"\0", b"\xef\xbb\xbf", b"\r\n", b"\n", b",", b";", b'"', b"'", b"{", b"}", b"[" * 200, b"NaN", b"nan",
    b"-", b"1e999", b"9" * 5000, b"null", b"\xed\xa0\x80", b"\x1b[31mwbfuzz", b"\t", b"inf", b"#", b"=", b"\x80\x02",
)  # fmt: skip


def _insert(chance: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(content) + 1)
    token = chance.choice(_TOKENS) if chance.random() < 0.7 else chance.randbytes(chance.randrange(1, 40))
    return content[:at] + token + content[at:]


def _overwrite(chance: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _place(chance, content)
    return content[:start] + chance.choice(_TOKENS)[: max(1, end - start)] + content[end:]


def _splice(chance: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    other = chance.choice(others) if others else content
    return content[: chance.randrange(len(content) + 1)] + other[chance.randrange(len(other) + 1) :]


def _number(chance: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    """Another value for one of the digits, which leaves the form as it is."""
    places = [at for at, byte in enumerate(content) if 48 <= byte <= 57]
    if not places:
        return content
    at = chance.choice(places)
    return content[:at] + chance.choice((b"0", b"9", b"-", b"1e", b".")) + content[at + 1 :]


_BYTES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    _flip, _cut, _without, _again, _insert, _overwrite, _splice, _number,
)  # fmt: skip


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every entry of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, entry in inner for place in places_in(entry, (*path, key))]


def mutated_json(chance: Random, value: Any) -> bytes:
    """The text of the value after one to three changes of what it says; one in six is damaged as a text too."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value = _changed(chance, value)
    if chance.random() < 0.02:
        return b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    if chance.random() < 0.02:  # many names, of which one is said twice at the end
        return ("{" + ",".join(f'"k{n}":0' for n in range(60_000)) + ',"k59999":1}').encode()
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")
    return mutated_bytes(chance, text) if chance.random() < 1 / 6 else text


def hostile(chance: Random) -> Any:
    """A value that nobody expects."""
    kind = chance.randrange(6)
    if kind < 2:
        return chance.choice(NUMBERS)
    if kind == 2:
        return chance.choice(WORDS)
    return chance.choice((None, [], {}, [[]], [None], {"": None}, [0] * 3000, {"a": {"b": []}}, [[1.0, 2.0]]))


def _changed(chance: Random, value: Any) -> Any:
    places = places_in(value)
    if not places:
        return hostile(chance)
    # A record has many numbers in few lists; without this most changes would be of one of those.
    place = min(chance.sample(places, min(len(places), chance.choice((1, 3)))), key=len)
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    last, kind = place[-1], chance.randrange(8)
    if kind < 4:
        holder[last] = hostile(chance)
    elif kind == 4:
        del holder[last]
    elif kind == 5 and isinstance(holder, dict):
        holder[chance.choice(WORDS)] = holder.pop(last) if chance.random() < 0.5 else hostile(chance)
    elif kind == 6:
        other = chance.choice(places)
        found = value
        for key in other:
            found = found[key] if isinstance(found, dict | list) and _has(found, key) else None
        holder[last] = copy.deepcopy(found)
    elif isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    else:
        holder[last] = _near(chance, holder[last])
    return value


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else isinstance(key, int) and key < len(holder)


def _near(chance: Random, value: Any) -> Any:
    """A value that could be meant: the fault that nobody sees."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        near = float(value) if abs(value) < 1e300 else 0.5  # an integer may be too large for a float
        return chance.choice((-value, near * 1e6, near * 1e-6, value + 1, str(value)[:400], float("nan")))
    if isinstance(value, str):
        return chance.choice((value.upper(), value[::-1], value + " ", value * 2))
    if isinstance(value, list):
        return chance.choice((value[::-1], value[:-1], value * 2, dict(enumerate(map(str, value)))))
    return list(value) if isinstance(value, dict) else value
