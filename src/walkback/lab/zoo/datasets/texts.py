"""Texts that are kept whole, by name, and cut into passages for a network that predicts each next character."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkback.errors import DataError
from walkback.lab.zoo.datasets.fingerprint import Arrays

Texts = dict[str, bytes]
"""The bytes of each text, by its name."""
Codes = NDArray[np.int64]


class NamedTexts:
    """The form of a set of texts; its fingerprint is over the names and the bytes of all of them."""

    def canonical(self, content: Texts, where: str) -> tuple[Texts, str]:
        """Sorted by name."""
        if not content:
            raise DataError(f"{where} holds no text.")
        whole = hashlib.sha256()
        for name in sorted(content):
            whole.update(f"{name} {len(content[name])} ".encode() + hashlib.sha256(content[name]).digest())
        return {name: content[name] for name in sorted(content)}, whole.hexdigest()

    def described(self, content: Texts) -> str:
        """How many texts, and how long they are together."""
        return f"{len(content)} texts of {sum(map(len, content.values())):,} characters"

    def arrays(self, content: Texts) -> Arrays:
        """One array of bytes per text."""
        return {name: np.frombuffer(text, np.uint8) for name, text in content.items()}

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Texts:
        """The texts again."""
        return {name: array.astype(np.uint8, casting="safe").tobytes() for name, array in arrays.items()}


TEXTS = NamedTexts()


def alphabet_of(texts: Mapping[str, bytes]) -> str:
    """Every character that occurs, in the order of its code."""
    return "".join(map(chr, sorted(set().union(*texts.values()))))


def passages(texts: Sequence[bytes], alphabet: str, length: int) -> tuple[Codes, Codes]:
    """Passages of one length and, for each character, the next one: (N, length) each, as places in the alphabet.

    A text is cut one passage after the other, so that each of its characters is asked for once at the most; what is
    left at its end is dropped, and no passage spans two texts. They are sorted by the SHA-256 of what they hold, so
    that the first n of them are a fair sample.
    """
    place = np.zeros(256, dtype=np.int64)
    place[[ord(character) for character in alphabet]] = range(len(alphabet))
    cut: list[bytes] = []
    for text in texts:
        cut += [text[start : start + length + 1] for start in range(0, len(text) - length, length)]
    cut.sort(key=lambda passage: hashlib.sha256(passage).digest())
    codes = place[np.frombuffer(b"".join(cut), np.uint8)].reshape(len(cut), length + 1)
    return np.ascontiguousarray(codes[:, :-1]), np.ascontiguousarray(codes[:, 1:])
