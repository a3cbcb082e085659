"""`walkback schema`: the records as JSON Schema."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

_FOR_PYTHON = re.compile(r"\n\n(?:Raises|Examples):\n.*", re.DOTALL)
"""What a docstring says of the class alone."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("schema")(schema)


def schema(
    record: Annotated[str, typer.Argument(help="Which record; see --list.")] = "DiagnosticReport",
    names: Annotated[bool, typer.Option("--list", help="List the records that have a schema.")] = False,
) -> int:
    """Print the JSON Schema of a record."""
    import json

    from walkback.errors import UnknownName
    from walkback.protocol.records import DiagnosticReport, Measurements, Reading
    from walkback.protocol.scores import FrozenBaseline
    from walkback.protocol.seeds import SeedSummary
    from walkback.registry import did_you_mean

    kinds = {kind.__name__: kind for kind in (DiagnosticReport, Measurements, Reading, FrozenBaseline, SeedSummary)}
    if names:
        typer.echo("\n".join(kinds))
        return 0
    if record not in kinds:
        raise UnknownName(f"there is no record called {record!r}. {did_you_mean(record, kinds)}")
    described = _of_the_record(kinds[record].model_json_schema(mode="serialization"))
    typer.echo(json.dumps(described, indent=1, ensure_ascii=False))
    return 0


def _of_the_record(schema: Any) -> Any:
    """A schema whose descriptions end where docstrings turn to Python."""
    if isinstance(schema, list):
        return [_of_the_record(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _FOR_PYTHON.sub("", each) if key == "description" and isinstance(each, str) else _of_the_record(each)
        for key, each in schema.items()
    }
