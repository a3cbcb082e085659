"""The site of docs/: its navigation, by directory, and links to files of the project that lie outside docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": (
        "index.md",
        "install.md",
        "quickstart/author.md",
        "quickstart/reviewer.md",
        "quickstart/trainer.md",
        "quickstart/*.md",
        "data.md",
        "glossary.md",
        "ci.md",
    ),
    "The protocol": ("protocol.md", "foreign.md", "verdicts.md", "watch.md", "reports.md", "devices.md", "scale.md"),
    "Engines": ("jax.md", "engines.md"),
    "Pitfalls": ("CHECKLIST.md", "case-studies/*.md", "lint_corpus.md"),
    "Evidence": (
        "FIELD.md",
        "EVIDENCE.md",
        "REPRODUCTIONS.md",
        "VALIDITY.md",
        "bridges.md",
        "studies/*.md",
        "BENCHMARKS.md",
        "RELIABILITY.md",
    ),
    "Adding your own": ("extend/package.md", "extend/*.md"),
    "Reference": ("api.md", "alternatives.md", "security.md"),
}
"""Sections and the pages in them, as patterns; a page stands where the first of them takes it in, else
under More."""

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Fill in the navigation from the pages that are there."""
    docs = Path(config["docs_dir"])
    placed: list[str] = []
    nav: list[Any] = []
    for title, patterns in NAVIGATION.items():
        found = dict.fromkeys(page for pattern in patterns for page in _pages(docs, pattern))
        pages = [page for page in found if page not in placed]
        placed += pages
        if pages:
            nav.append({title: pages})
    # Notes are taken in by the pages that quote them.
    rest = [page for page in _pages(docs, "**/*.md") if page not in placed and not page.startswith("evidence_notes/")]
    config["nav"] = [*nav, *([{"More": rest}] if rest else [])]
    return config


def _pages(docs: Path, pattern: str) -> list[str]:
    return sorted(path.relative_to(docs).as_posix() for path in docs.glob(pattern))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links that leave docs/ have no page on the site: they become their words, if the file is there."""
    del files
    here = (Path(config["docs_dir"]) / page.file.src_path).parent

    def settled(match: re.Match[str]) -> str:
        target = (here / match[2]).resolve()
        if Path(config["docs_dir"]).resolve() in target.parents:
            return match[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_path} links to {match[2]}, which is not there")
        place = target.relative_to(ROOT.resolve()).as_posix()
        return match[1] if match[1] in (target.name, place) else f"{match[1]} (`{place}`)"

    return _LINK.sub(settled, markdown)
