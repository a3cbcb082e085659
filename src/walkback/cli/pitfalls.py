"""`walkback pitfalls`: list them, show one live, check them all, write the checklist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walkback.cli.output import output, require_writable
from walkback.cli.saying import complain
from walkback.errors import MissingLibrary
from walkback.extras import naming_extras

if TYPE_CHECKING:
    from walkback.pitfalls.base import Pitfall
    from walkback.pitfalls.pages import Outcome
    from walkback.present.page import Page

pitfalls = typer.Typer(
    invoke_without_command=True,
    epilog="Exit status of check: 0 all as described, 1 one is not, 2 an error.",
)


def register(app: typer.Typer) -> None:
    """Add the verb and its actions."""
    app.add_typer(pitfalls, name="pitfalls", help="Common bugs in evaluation code: each demonstrated, with the fix.")


@pitfalls.callback()
def list_(context: typer.Context) -> None:
    """Common bugs in evaluation code: each demonstrated, with the fix. Without a command it lists them."""
    if context.invoked_subcommand is None:
        from walkback.pitfalls.pages import list_page

        _print(list_page())


@pitfalls.command("show")
def show(
    number: Annotated[
        str,
        typer.Argument(
            metavar="N", help="The number of the pitfall; for one from a plugin, its name or module:object."
        ),
    ],
) -> int:
    """Explain one pitfall and run it: the wrong number beside the right one."""
    from walkback.pitfalls import PITFALLS
    from walkback.pitfalls.pages import shown_page

    pitfall = PITFALLS.named(number)
    outcome = _run(pitfall)
    if outcome.reproduction is None:
        complain(f"pitfall {number} could not be run: {outcome.error}")
        return 2
    _print(shown_page(pitfall, outcome.reproduction, outcome.seconds))
    return 0 if outcome.holds else 1


@pitfalls.command("check")
def check(
    numbers: Annotated[list[str] | None, typer.Argument(metavar="[N…]", help="Which pitfalls. Default: all.")] = None,
) -> int:
    """Run all pitfalls, and check that each still gives the wrong number that it describes."""
    from walkback.pitfalls import PITFALLS
    from walkback.pitfalls.pages import all_pitfalls, check_page

    chosen = [PITFALLS.named(number) for number in numbers] if numbers else all_pitfalls()
    outcomes = [_run(pitfall) for pitfall in chosen]
    _print(check_page(outcomes))
    return 0 if all(outcome.holds for outcome in outcomes) else 1


@pitfalls.command("checklist")
def checklist(
    page: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write it to this file, such as docs/CHECKLIST.md.")
    ] = None,
) -> int:
    """Print a checklist of all pitfalls, as Markdown."""
    from walkback.pitfalls.pages import checklist as markdown
    from walkback.protocol.schema import write_whole

    if page is None:
        typer.echo(markdown(), nl=False)
    else:
        require_writable([page])
        write_whole(page, markdown())
    return 0


def _run(pitfall: Pitfall) -> Outcome:
    """Run a reproducer; one that cannot run has shown nothing, and the others go on."""
    import time

    # Before the clock: importing torch and what measures takes seconds, and none of them is the reproducer's.
    from walkback.pitfalls.pages import Outcome

    start = time.perf_counter()
    try:
        with naming_extras():
            found, error = pitfall.reproduce(), ""
    except MissingLibrary:
        raise
    except Exception as failure:
        found, error = None, f"{type(failure).__name__}: {failure}"
    return Outcome(pitfall, time.perf_counter() - start, found, error)


def _print(page: Page) -> None:
    for block in page.blocks():
        output().print(block)
