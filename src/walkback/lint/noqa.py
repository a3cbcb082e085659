"""`# noqa` comments, read as flake8 reads them."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping

_LINE_CODES = re.compile(r"#\s*noqa\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:\s*[,\s]\s*[A-Z]+[0-9]+)*)", re.IGNORECASE)
_BARE = re.compile(r"#\s*noqa\b(?!\s*:\s*[A-Z]+[0-9]+)", re.IGNORECASE)
_FILE = re.compile(r"^\s*#\s*flake8\s*[:=]\s*noqa(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?\s*$", re.I)

EVERYTHING = frozenset({""})
"""Every code starts with the empty prefix."""


def silenced(source: str) -> Mapping[int, frozenset[str]]:
    """The code prefixes that are silenced on each line, line 0 standing for the whole file.

    A comment anywhere in a statement of several lines is about all of them, as in flake8.
    """
    found: dict[int, frozenset[str]] = {}
    if "noqa" not in source.lower():
        return found
    for line in source.splitlines():
        if match := _FILE.match(line):
            found[0] = found.get(0, frozenset()) | _codes(match["codes"])
    for lines, comments in _statements(source):
        codes = frozenset().union(*(_of_comment(comment) for comment in comments))
        if codes:
            found |= {line: found.get(line, frozenset()) | codes for line in lines}
    return found


def _of_comment(comment: str) -> frozenset[str]:
    if match := _LINE_CODES.search(comment):
        return _codes(match["codes"])
    return EVERYTHING if _BARE.search(comment) and "flake8" not in comment.lower() else frozenset()


def _codes(listed: str | None) -> frozenset[str]:
    return frozenset(code.upper() for code in re.split(r"[,\s]+", listed) if code) if listed else EVERYTHING


def _statements(source: str) -> list[tuple[range, list[str]]]:
    """Each logical line as its physical lines and the comments in them."""
    statements: list[tuple[range, list[str]]] = []
    comments: list[str] = []
    first = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.NL, tokenize.NEWLINE) and not (token.type == tokenize.NL and first):
                statements.append((range(first or token.start[0], token.end[0] + 1), comments))
                first, comments = 0, []
            elif token.type == tokenize.COMMENT:
                comments.append(token.string)
            elif not first and token.type not in _NO_CODE:
                first = token.start[0]
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass  # what could be read so far counts; a file this broken is reported as such
    return statements


_NO_CODE = {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
