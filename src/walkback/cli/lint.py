"""`walkback lint PATH…`: source code that would make evaluation lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXIT_CLEAN, EXIT_FINDINGS, EXIT_BROKEN = 0, 1, 2


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("lint", epilog="Exit status: 0 clean, 1 findings, 2 an error or a file that is not valid Python.")(lint)


def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH…", help="Python files, or directories of them.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="NAME", help="text, json or sarif.")] = "text",
    select: Annotated[
        str, typer.Option(metavar="WB001,…", help="Check only these rules; your own by module:object.")
    ] = "",
    ignore: Annotated[str, typer.Option(metavar="WB002,…", help="Skip these rules.")] = "",
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
) -> int:
    """Find evaluation pitfalls in source code; the code is read, never run.

    A line that is right as it is can say so: # noqa: WB001. The same rules are a flake8 plugin.
    """
    from walkback.errors import InputError, UnknownName
    from walkback.lint.check import check_paths, chosen_rules
    from walkback.lint.formats import FORMATS
    from walkback.registry import did_you_mean

    if form not in FORMATS:
        raise UnknownName(f"there is no format {form!r}. {did_you_mean(form, FORMATS)}")
    applied = chosen_rules(_listed(select), _listed(ignore))
    if rules:
        return _print_rules()
    if not paths:
        raise InputError("no path was given. Name the files or directories to check, such as: walkback lint src")
    if not applied:
        raise InputError("--select and --ignore leave no rule to apply.")
    checked = check_paths(paths, applied)
    typer.echo(FORMATS[form](checked, applied), nl=False)
    if checked.broken:
        return EXIT_BROKEN
    return EXIT_FINDINGS if checked.findings else EXIT_CLEAN


def _listed(codes: str) -> list[str]:
    return [code.strip() for code in codes.split(",") if code.strip()]


def _print_rules() -> int:
    from rich.table import Table

    from walkback.cli.output import output
    from walkback.lint.check import chosen_rules

    table = Table("code", "finds", "pitfall", box=None, header_style="bold")
    for rule in chosen_rules():
        table.add_row(rule.code, rule.title, "" if rule.pitfall is None else str(rule.pitfall))
    output().print(table)
    return EXIT_CLEAN
