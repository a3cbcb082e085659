"""Sentences on the terminal: errors, warnings, and what was done. Words of others in them show, and do nothing else."""

from __future__ import annotations

import typer


def say(sentence: object, *, err: bool = False) -> None:
    """Print a sentence on standard output or error, without the escape sequences that it may quote."""
    from walkback.present.plain import visible

    typer.echo(visible(str(sentence)), err=err)


def complain(sentence: object) -> None:
    """Print a sentence on standard error, as from walkback."""
    say(f"walkback: {sentence}", err=True)
