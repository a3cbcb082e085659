"""Shared by the tests of the zoo: a batch is of images until a test makes a network that reads something else."""

from __future__ import annotations

import pytest
from zoo_networks import DATA, LAST_MADE


@pytest.fixture(autouse=True)
def _images_first() -> None:
    LAST_MADE[:] = [DATA]
