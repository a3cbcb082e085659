"""Shared by all tests: one thread, one seed."""

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# A first call that imports or compiles something is slow on a busy machine, and that is no finding.
settings.register_profile("walkback", deadline=None)
settings.load_profile("walkback")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
