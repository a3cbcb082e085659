"""The pictures in docs/images, made from what is on record: figures, and the page of a grid in a real browser.

python tools/docs_images.py            # needs playwright and Debian's chromium
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from walkback.lab.present.figures import figure_named
from walkback.lab.present.grid_page import grid_page
from walkback.lab.present.networks import networks_in
from walkback.lab.runs.store import RunStore
from walkback.present.figures.style import save
from walkback.present.html_grid import render

IMAGES = Path("docs/images")
RECORD = "results/audit_resmlp_d256.json"
AUDIT = "tests/golden/resmlp_d256_audit_3seed.json"
SENSITIVITY = "results/sensitivity_recorded_resmlp_d256.json"
WINDOWS = {"desktop": (1180, 1500, None), "phone": (390, 1250, "#n3")}
"""Width and height of each window, and the network that is open in it."""


def main() -> None:
    """Draw all of them."""
    results = Path("results")
    save(figure_named("audit", [RECORD], results), IMAGES / "audit.png")
    save(figure_named("penalty", [], results), IMAGES / "penalty.png")
    save(figure_named("temporal", [], results), IMAGES / "temporal.png")
    save(figure_named("sensitivity", [SENSITIVITY], results), IMAGES / "sensitivity_recorded.png")
    page = render(grid_page(networks_in([AUDIT], RunStore()), [AUDIT], "ResMLP on CIFAR-10, as recorded"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "grid.html"
        file.write_text(page, encoding="utf-8")
        _screenshots(file)


def _screenshots(file: Path) -> None:
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for name, (width, height, opened) in WINDOWS.items():
            size = {"width": width, "height": height}
            context = browser.new_context(viewport=size, offline=True, color_scheme="light")
            page = context.new_page()
            page.goto(f"file://{file}{opened or ''}")
            page.screenshot(path=IMAGES / f"grid_{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
