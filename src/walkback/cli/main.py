"""`walkback`: the verbs, and what each kind of failure exits with. Importing this imports no torch."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from walkback.cli import (
    audit,
    check_zoo,
    data,
    demo,
    diagnose,
    evidence,
    figure,
    lint,
    pitfalls,
    replay,
    report,
    runs,
    schema,
    study,
    train,
    watch,
    zoo,
)
from walkback.cli.entry import ERROR, INTERRUPTED, leave
from walkback.cli.saying import complain
from walkback.errors import WalkbackError, WalkbackWarning

app = typer.Typer(
    name="walkback",
    help="Can a result from a network trained without backpropagation be trusted?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    epilog="Exit status of commands that judge: 0 trustworthy, 1 a walk-back, 3 incomplete, 2 an error.",
)
VERBS = (
    demo, diagnose, report, replay, watch, train, audit, study, evidence, figure, pitfalls, lint, runs, zoo, check_zoo,
    data, schema,
)  # fmt: skip
for verb in VERBS:
    verb.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from walkback import __version__

        typer.echo(f"walkback {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def _out_of_memory(error: Exception) -> str:
    """What was asked for, if this is memory that is not there; torch says so in a RuntimeError of its own wording."""
    asked = re.search(r"tried to allocate (\d+) bytes", str(error))
    if asked:
        return f"{int(asked[1]) / 2**30:,.1f} GiB of memory were asked for at once, more than there is."
    lacking = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's, of a GPU
    return "there is not enough memory for this." if lacking else ""


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Show our own warnings as our errors are shown; those of libraries stay as they are."""
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, WalkbackWarning):
            complain(message)
        else:
            others(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def run() -> None:
    """Run the command line; every error, expected or not, ends in exit status 2."""
    try:
        with _warnings_as_sentences():
            status = app(standalone_mode=False)
            sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except WalkbackError as error:
        complain(error)
        leave(ERROR)
    except (BrokenPipeError, SystemExit):
        # The reader of our output has gone, which the libraries behind help and tables end with 1, a verdict here.
        leave(ERROR)
    except OSError as error:
        where, advice = (f" {str(error.filename)[:200]!r}", " Give another path.") if error.filename else ("", "")
        complain(f"the system refused{where}: {error.strerror or error}.{advice}")
        leave(ERROR)
    except Exception as error:  # an unforeseen failure must not look like a verdict
        if hasattr(error, "show") and hasattr(error, "format_message"):
            error.show()  # a usage error of the command-line library, in its own words
        elif _out_of_memory(error):
            complain(f"{_out_of_memory(error)} Give a smaller network, batch or record.")
        else:
            traceback.print_exc()
        leave(ERROR)
    if status == INTERRUPTED:
        complain("interrupted")
    leave(status if isinstance(status, int) else 0)
