"""The templates of the HTML pages, with every value escaped, and the style and script that stand inside a page."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from walkback.extras import naming_extras
from walkback.present import chart, dot_plot, gauge, timeline
from walkback.present.plain import visible

with naming_extras():
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, with every value escaped unless it was made here."""
    made = Environment(
        loader=PackageLoader("walkback.present"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(style=_inline(made, "page.css"), script=_inline(made, "page.js"))
    made.globals.update(gauge_box=gauge, chart_box=chart, time_box=timeline, dot_box=dot_plot)
    return made


def _visible(value: Any) -> Any:
    """Words of others without control and text-direction characters; what was made here stays as it is."""
    return visible(value) if type(value) is str else value


@dataclass(frozen=True)
class Inline:
    """A style sheet or script that stands in the page, and the hash by which the page allows it alone."""

    source: Markup
    allowed: str


def _inline(templates: Environment, name: str) -> Inline:
    assert templates.loader is not None
    source = templates.loader.get_source(templates, name)[0]
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    # A file of this package, not a word of a record: those are escaped by the templates.
    return Inline(Markup(source), f"'sha256-{digest}'")  # nosec B704
