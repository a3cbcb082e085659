"""The bench draws the samples that it drew when its split was committed, though the zoo shares its rules now."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from tiny import tiny

from walkback.lab.validity.tasks import task_of

DRAWN = {
    ("parity", 2): ("b5abc72e34877ae9", "dfe71e33174fc337", "40f27e477dd13519", "fef260af2d369ef9"),
    ("parity", 3): ("f92c124be3f09e14", "c19f515105b7ab9f", "75b0102b003cff28", "e4b8b8bebe6fd401"),
    ("product", 2): ("5b2dde962960b0b1", "4263ea6185a43c57", "e8cea1ca1e624533", "28f87bda066cd92f"),
    ("product", 3): ("746df42e7ccc2f01", "95e039e506c5bc2a", "0e4032a607e2f03e", "7e56cd4d083380bf"),
    ("shells", 2): ("9e3f68f213c85beb", "d43d4de1af95bd85", "e7e1447cb227a8de", "1282fa4144dedfe4"),
    ("shells", 3): ("be2248e96aec173b", "75a4849e8695a067", "b0f8bde6c3a10699", "52fec178d39273f6"),
    ("pairs", 3): ("fc91a48a40cd58ea", "e1032e9a81b88d82", "1236417ad0799097", "9e67833efd3d7ec0"),
    ("pairs", 4): ("8d54482fcdd009f7", "2a7a62d9527ef965", "7cb1be2be82a9d06", "c3f917ce0e85241b"),
    ("pairs", 5): ("759c515562564b45", "3557ab34c35f291e", "8141c39dfd45dcf6", "79def24bb8b87b39"),
    ("text", 1): ("1a0931e0cc2b1b46", "24481d65a0451aa4", "fab417d834aa8a5b", "88b88db3b47e93f8"),
    ("text", 2): ("54a52b892efe7600", "24481d65a0451aa4", "fee908655a5d7c45", "88b88db3b47e93f8"),
    ("digits", 10): ("7276af00d50ac487", "08b1533673b0c57e", "72b0ac86f41c362b", "fb97e418e1a18381"),
    ("teacher", 1): ("aeb3715689153a59", "99b307ce7b1a5c35", "9589525085d2bf0d", "204230b5c928b2c4"),
    ("teacher", 2): ("aeb3715689153a59", "0c0e22abc3554bf8", "9589525085d2bf0d", "d6cb0244a12becfd"),
}
"""SHA-256 of inputs and labels, of training and then of testing, as they were drawn before the zoo had the rules."""
BY_MATRICES = "shells"
"""Its inputs are a matrix product, whose last bits are up to the machine; its labels are not."""


@pytest.mark.parametrize(("task", "level"), DRAWN)
def test_a_task_is_drawn_to_the_bit_as_before(task: str, level: int) -> None:
    drawn = task_of(tiny("healthy", 0.0, task=task, level=level))
    parts = (drawn.train_inputs, drawn.train_labels, drawn.test_inputs, drawn.test_labels)
    found = tuple(hashlib.sha256(part.numpy().tobytes()).hexdigest()[:16] for part in parts)
    compared = slice(1, None, 2) if task == BY_MATRICES else slice(None)
    assert found[compared] == DRAWN[task, level][compared]


def test_shells_are_drawn_as_their_rule_says() -> None:
    """Twin: each sample on its own, from the same generator."""
    config = tiny("healthy", 0.0, task="shells", level=2)
    drawn, generator = task_of(config), np.random.default_rng(config.part_seed("task"))
    plane = np.linalg.qr(generator.standard_normal((64, 2)))[0]
    samples = generator.standard_normal((512 + 1280, 64))
    for sample, stored in zip(samples[:50], drawn.train_inputs.numpy(), strict=False):
        inside = sum((sample @ axis) * axis for axis in plane.T)
        np.testing.assert_allclose(stored, sample + inside, rtol=1e-5, atol=1e-6)
