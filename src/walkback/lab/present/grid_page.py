"""What a page of several networks says beyond each of them: the ablation, the sensitivity, the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from walkback._version import __version__
from walkback.lab.studies import ablation, sensitivity
from walkback.lab.studies.audited import Audit
from walkback.lab.studies.base import Study
from walkback.present.dot_plot import Range
from walkback.present.html_grid import GridPage
from walkback.present.network import Network
from walkback.present.page import Page
from walkback.present.plain import shortened
from walkback.protocol.json_codec import as_json, number
from walkback.watch.what_is import Kind, what_is


def grid_page(networks: Sequence[Network], targets: Sequence[str], title: str | None = None) -> GridPage:
    """The page of these networks; `targets` is what they were read from."""
    audit = Audit("shown", Path(targets[0]) if targets else Path(), tuple(network.report for network in networks))
    sensitive = as_json(sensitivity.answer(audit))
    pages = [_answered(ablation.STUDY, as_json(ablation.answer(audit))), _answered(sensitivity.STUDY, sensitive)]
    ranges: dict[str, Range] = {
        letter: (number(found["same_verdicts"]["low"]), number(found["same_verdicts"]["high"]))
        for letter, found in sensitive["diagnostics"].items()
        if found["measured"]
    }
    named = Path(targets[0]).stem if len(targets) == 1 else f"{len(networks)} networks"
    source = [("from", shortened(", ".join(targets), 400))] if targets else []
    about = [*source, ("made with", f"walkback {__version__}")]
    return GridPage(title or named, networks, [*pages, *_evidence(targets)], ranges, about)


def _answered(study: Study, result: dict[str, object]) -> Page:
    return Page(study.title, [study.question, *study.paragraphs(result)])


def _evidence(targets: Sequence[str]) -> list[Page]:
    """The published claims as the directory of an audit of this project decides them; none without such an audit."""
    # Looked up here: evidence is a layer of its own, which a page of other networks does not need.
    from walkback.lab.evidence.results import Results
    from walkback.lab.evidence.table import decide, short_page

    folders = {Path(target).parent for target in targets if _is_own_audit(Path(target))}
    return [short_page(decide(Results(folder))) for folder in sorted(folders)]


def _is_own_audit(path: Path) -> bool:
    return path.is_file() and what_is(path).kind is Kind.AUDIT
