"""An option that is given to a verb which does not have it, and the verbs that do."""

from __future__ import annotations

from importlib import import_module

import typer

from walkback.cli.entry import VERBS
from walkback.protocol.wording import listed

_OWN = tuple(verb for verb in VERBS if verb not in ("lab", "demo"))
"""The verbs that need nothing but the core to be looked at."""


def where_it_belongs(option: str) -> str:
    """A sentence with the verbs that have such an option; empty where none has."""
    having = [f"`walkback {verb}`" for verb in _OWN if option in _options_of(verb)]
    if not having:
        return ""
    return f"{option} is an option of {listed(having)}."


def _options_of(verb: str) -> set[str]:
    app = typer.Typer()
    import_module(f"walkback.cli.{verb}").register(app)
    app.callback()(lambda: None)  # or a single verb would be the whole command line
    found = typer.main.get_command(app)
    command = getattr(found, "commands", {}).get(verb, found)
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
