"""Shared by all tests: one thread, one seed."""

import os
import signal

import pytest
from hypothesis import settings

try:
    import torch
except ModuleNotFoundError:  # tools/torch_free.py names the tests that run without it
    torch = None

if torch is not None:
    torch.set_num_threads(1)
# pytest imports readline, which sets these two in C for every process that it starts, so for those of `pytest -n` too.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
# A shell that starts jobs in the background has them ignore Ctrl-C, and whatever they start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A first call that imports or compiles something is slow on a busy machine, and that is no finding.
settings.register_profile("walkback", deadline=None)
settings.load_profile("walkback")


@pytest.fixture(autouse=True)
def _seeded():
    if torch is not None:
        torch.manual_seed(0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    """Say at the very end, where it is read, that nobody opened the pages."""
    yield
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if "no chromium" in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(
            f"browser tests were skipped ({len(skipped)}): no chromium here. Install it: apt-get install chromium",
            yellow=True,
        )
