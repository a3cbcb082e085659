"""`walkback`: the verbs, and what each kind of failure exits with. Importing this imports no torch."""

from __future__ import annotations

import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from walkback.cli.entry import ABOUT, ERROR, INTERRUPTED, LAB, LAB_VERBS, MOVED, STATUS, VERBS, leave
from walkback.cli.saying import complain
from walkback.errors import InputError, WalkbackError, WalkbackWarning
from walkback.extras import naming_extras


def app_for(words: Sequence[str]) -> typer.Typer:
    """The command line with the verb that the words begin with, or with all of them where they begin with none.

    A verb is imported when it is asked for: those of the lab need libraries that the tool does not.
    """
    app = _group("walkback", ABOUT)
    app.callback()(_options)
    wanted = words[0] if words and words[0] in VERBS else None
    for verb in VERBS if wanted is None else (wanted,):
        if verb == "lab":
            inner = words[1] if len(words) > 1 and words[1] in LAB_VERBS else None
            lab = _group("lab", LAB)
            lab.callback()(lambda: None)
            for name in LAB_VERBS if inner is None else (inner,):
                import_module(f"walkback.lab.cli.{name}").register(lab)
            app.add_typer(lab, name="lab", help=VERBS["lab"])
        else:
            home = "walkback.lab.cli" if verb == "demo" else "walkback.cli"
            import_module(f"{home}.{verb}").register(app)
    return app


def _group(name: str, words: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=words,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        epilog=STATUS,
    )


def _refuse_moved(words: Sequence[str]) -> None:
    """A verb of walkback 0.1: print the command that does the same now."""
    if words and words[0] in MOVED:
        rest = shlex.join(words[1:])
        raise InputError(f"`walkback {words[0]}` is now: walkback {MOVED[words[0]]}{' ' if rest else ''}{rest}")


def app(words: Sequence[str]) -> Any:
    """Run one command line; errors are raised."""
    _refuse_moved(words)
    if any(":" in word for word in words):
        # Last, where it hides nothing that is installed: `module:object` may be a file of the directory one works in.
        sys.path.append(str(Path.cwd()))
    with naming_extras(whole={"lab": "lab", "demo": "all"}.get(next(iter(words), ""), "")):
        return app_for(words)(list(words), standalone_mode=False)


def _version(wanted: bool) -> None:
    if wanted:
        from walkback import __version__

        typer.echo(f"walkback {__version__}")
        raise typer.Exit


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
            status = app(sys.argv[1:])
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
            from walkback.cli.usage import show_usage_error

            show_usage_error(error, sys.argv[1:], app_for)
        elif _out_of_memory(error):
            complain(f"{_out_of_memory(error)} Give a smaller network, batch or record.")
        else:
            traceback.print_exc()
        leave(ERROR)
    if status == INTERRUPTED:
        complain("interrupted")
    leave(status if isinstance(status, int) else 0)
