"""Shared by the tests of runs: Shakespeare in a few verses, so that nothing is fetched."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_runs import WORKS

from walkback.lab.zoo.datasets import archived


@pytest.fixture(autouse=True)
def _few_verses(monkeypatch: pytest.MonkeyPatch) -> None:
    real = archived.obtain

    def obtain(archive: Any, *arguments: Any) -> Any:
        return WORKS if archive.name == "shakespeare" else real(archive, *arguments)

    monkeypatch.setattr(archived, "obtain", obtain)
