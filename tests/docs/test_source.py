"""The study that the protocol comes from is named in full, and everywhere alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from walkback import source
from walkback.present.template import TEMPLATES, form_of

ROOT = Path(__file__).parents[2]
NAMED = ["README.md", "docs/protocol.md", "docs/alternatives.md", "docs/EVIDENCE.md", "docs/CHECKLIST.md"]
WORDS = (
    *source.AUTHORS,
    source.TITLE,
    source.ARXIV,
    source.DATE,
    source.WRITTEN_FOR,
    source.DEVELOPMENT,
    source.ARTIFACT,
    source.ARTIFACT_COMMIT,
    source.ARTIFACT_DATE,
)


def missing(text):
    """What of the citation a text lacks, wherever its lines end and however it is escaped."""
    plain = " ".join(text.replace("&amp;", "&").replace(r"\&", "&").replace("\\", "").split())
    return [words for words in WORDS if words not in plain]


@pytest.mark.parametrize("page", NAMED)
def test_the_page_names_the_paper_its_authors_and_both_repositories(page):
    assert missing((ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_form_for_an_appendix_names_them(template):
    assert missing(TEMPLATES[template](form_of(None))) == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_no_page_leaves_the_study_without_a_name(page):
    assert not re.search(r"\ba study of feedback alignment", page.read_text(encoding="utf-8"))


def test_the_citation_file_refers_to_all_three():
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    paper, development, artifact = references
    for entry in references:
        names = tuple(f"{author['given-names']} {author['family-names']}" for author in entry["authors"])
        assert names == source.AUTHORS
    assert paper["title"] == source.TITLE
    assert paper["identifiers"][0]["value"] == f"arXiv:{source.ARXIV}"
    assert paper["url"].endswith(source.ARXIV)
    assert source.WRITTEN_FOR in paper["notes"]
    assert (paper["date-published"], source.DATE) == ("2026-06-19", "19 June 2026")
    assert development["repository-code"].endswith(f"//{source.DEVELOPMENT}")
    assert artifact["repository-code"].endswith(f"//{source.ARTIFACT}")
    assert artifact["commit"] == source.ARTIFACT_COMMIT
    assert (artifact["date-released"], source.ARTIFACT_DATE) == ("2026-05-04", "4 May 2026")
