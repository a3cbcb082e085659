"""`walkback report`: runs, reports, traces and audits as a page, as tables, or as the form for an appendix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walkback.cli.options import FullOption, RunsOption

if TYPE_CHECKING:
    from walkback.present.network import Network

FORMS = "Forms"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report", epilog="Exit status: 0 written, whatever the verdicts; 2 an error.")(report)


def report(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET…",
            help="Files (reports, audits, results of runs, traces, logs of other programs), run ids or run "
            "directories.",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="An HTML page.", rich_help_panel=FORMS)] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Markdown table.", rich_help_panel=FORMS)
    ] = None,
    latex: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="LaTeX tables (booktabs), to compile or to include.", rich_help_panel=FORMS),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One row per network, at full precision.", rich_help_panel=FORMS)
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="markdown or latex: the form for a paper's appendix, filled from one target, or blank without one.",
            rich_help_panel=FORMS,
        ),
    ] = None,
    renderer: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Render one network as text, markdown, latex, html, or by your own renderer (name or module:object).",
            rich_help_panel=FORMS,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the output of --template or --as to this file."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page, for several networks.")] = None,
    full: FullOption = False,
    runs: RunsOption = None,
) -> int:
    """Show one network, or several side by side.

    Without one of the forms below, it prints. The page of an audit also says which diagnostics its verdicts rest on,
    and how far each threshold could be moved without changing one; for an audit of this project, also what became of
    the published claims.
    """
    from walkback.cli.output import require_writable
    from walkback.errors import InputError
    from walkback.lab.present.networks import networks_in
    from walkback.lab.runs.store import open_store
    from walkback.present.method_names import in_shown_names, recorded_as
    from walkback.present.text import print_comparison, print_report
    from walkback.protocol.schema import write_whole

    if template is not None and renderer is not None:
        raise InputError("--template and --as are two forms for one --out. Give one of them.")
    if template is not None:
        return _write_template(template, targets or [], runs, out)
    if out is not None and renderer is None:
        raise InputError("--out needs --template or --as, which say what to write there. For a page, use --html FILE.")
    if not targets:
        raise InputError("there is nothing to report on. Give a report, an audit, a run or a trace.")
    if renderer is not None:
        return _render(renderer, targets, runs, out)
    forms = {"html": html, "markdown": markdown, "latex": latex, "csv": csv}
    wanted = {form: path for form, path in forms.items() if path is not None}
    store = open_store(runs)
    require_writable(wanted.values(), [*targets, *store.folders])
    networks = in_shown_names(networks_in(targets, store))
    # All of them are made before any is written: an error leaves no file behind.
    made = {path: _made(form, networks, targets, title) for form, path in wanted.items()}
    for path, text in made.items():
        typer.echo(f"written: {write_whole(path, text)}")
    if not made and len(networks) == 1:
        print_report(networks[0].report, full=full)
    elif not made:
        print_comparison([network.report for network in networks], recorded=recorded_as(networks))
    return 0


def _write_template(template: str, targets: list[str], runs: str | None, out: Path | None) -> int:
    from walkback.cli.output import require_writable
    from walkback.errors import InputError, UnknownName
    from walkback.lab.present.networks import networks_in
    from walkback.lab.present.normalisation import with_normalisation
    from walkback.lab.runs.store import open_store
    from walkback.present.template import TEMPLATES, form_of
    from walkback.protocol.schema import naming_source
    from walkback.registry import did_you_mean

    if template not in TEMPLATES:
        raise UnknownName(f"there is no template {template!r}. {did_you_mean(template, TEMPLATES)}")
    store = open_store(runs)
    require_writable([out], [*targets, *store.folders])
    networks = networks_in(targets, store) if targets else []
    if len(networks) > 1:
        raise InputError(
            f"--template is the form of one network, and {len(networks)} are given. Give one run or report."
        )
    with naming_source(targets[0] if targets else template):
        form = form_of(networks[0].report, with_normalisation(networks[0].run)) if networks else form_of(None)
        text = TEMPLATES[template](form)
    _put(text, out)
    return 0


def _render(renderer: str, targets: list[str], runs: str | None, out: Path | None) -> int:
    """One network by a renderer, which may be others'."""
    from walkback.cli.output import require_writable
    from walkback.errors import InputError
    from walkback.lab.present.networks import networks_in
    from walkback.lab.runs.store import open_store
    from walkback.registry import RENDERERS

    render, store = RENDERERS.named(renderer), open_store(runs)
    require_writable([out], [*targets, *store.folders])
    networks = networks_in(targets, store)
    if len(networks) > 1:
        raise InputError(f"--as shows one network, and {len(networks)} are given. Give one run or report.")
    text = render(networks[0].report)
    if not isinstance(text, str):
        raise InputError(f"the renderer {renderer!r} returned {type(text).__name__}; expected the text of the report.")
    _put(text if text.endswith("\n") else f"{text}\n", out)
    return 0


def _put(text: str, out: Path | None) -> None:
    """Print it, or write it to a file."""
    from walkback.protocol.schema import write_whole

    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        typer.echo(f"written: {write_whole(out, text)}")


def _made(form: str, networks: list[Network], targets: list[str], title: str | None) -> str:
    from walkback.present import tables

    if form == "html":
        return _page(networks, targets, title)
    write = {"markdown": tables.as_markdown, "latex": tables.as_latex, "csv": tables.as_csv}
    return write[form](networks)


def _page(networks: list[Network], targets: list[str], title: str | None) -> str:
    from walkback.lab.present.grid_page import grid_page
    from walkback.present import html, html_grid

    if len(networks) == 1:
        return html.render_network(networks[0])
    return html_grid.render(grid_page(networks, targets, title))
