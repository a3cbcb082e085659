"""A report as text, Markdown, LaTeX and HTML. Everything here reads records, never tensors."""

from __future__ import annotations

from typing import Any

from walkback.addresses import require_call


def check_renderer(name: str, thing: Any) -> None:
    """Refuse what cannot be called with a report."""
    require_call(f"the renderer {name!r}", thing, 1, "a function from a DiagnosticReport to its text")
