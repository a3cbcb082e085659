"""A real browser, with no network: Debian's chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip


def browser_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def chromium():
    path = browser_path()
    if path is None:
        why = "no chromium on this machine"
        # Where the whole check is run, a page that nobody opened is not a page that works.
        if os.environ.get("WALKBACK_NEEDS_BROWSER"):
            pytest.fail(f"{why}, and WALKBACK_NEEDS_BROWSER is set. Install it: apt-get install chromium")
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens a file with the network off; whatever the page complains of fails the test at its end."""
    contexts, complaints = [], []

    def opened(path, width=1280, height=900, **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if request.url[:5] != "file:" else None)
        page.goto(f"file://{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
