"""Write the import diagram of ARCHITECTURE.md anew, from the contracts in pyproject.toml that `lint-imports` checks.

    python tools/import_diagram.py

A test says when this was forgotten.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- imports: made by tools/import_diagram.py -->", "<!-- /imports -->"


def contracts() -> list[Mapping[str, Any]]:
    """All that `lint-imports` checks."""
    found: list[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    return found


def diagram() -> str:
    """The layers of every container from the top down, what is imported against them, and the other contracts."""
    layered = [contract for contract in contracts() if contract["type"] == "layers"]
    others = [contract["name"] for contract in contracts() if contract["type"] != "layers"]
    blocks = ["\n".join(_drawn(contract)) for contract in layered]
    return "\n\n".join([f"```\n{chr(10).join(blocks)}\n```", "\n".join(f"- {name}." for name in others)])


def _drawn(contract: Mapping[str, Any]) -> Iterator[str]:
    """A container and its layers; those side by side import nothing of each other."""
    (container,) = contract["containers"]
    yield container
    rows = ["   ".join(part.strip() for part in layer.split("|")) for layer in contract["layers"]]
    yield from (f"   {row}" for row in rows)
    against = [line.split(" -> ") for line in contract.get("ignore_imports", ())]
    for target in dict.fromkeys(target for _, target in against):
        sources = [source.removeprefix(f"{container}.") for source, aimed in against if aimed == target]
        yield f"   upwards, when asked for: {', '.join(sources)} ─► {target.removeprefix(f'{container}.')}"


def with_diagram(page: str) -> str:
    """A page with the diagram between the two marks."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"{PAGE} has no {BEGIN} followed by {END}.")
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_diagram(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
