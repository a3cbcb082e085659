"""A comparison in the terminal: what of it is done and what is missing; and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from walkback.cli.output import output
from walkback.present.page import Page, Part
from walkback.present.text_tables import ruled_table

if TYPE_CHECKING:
    from walkback.lab.comparisons.plan import Comparison
    from walkback.lab.runs.store import RunStore


def print_plan(comparisons: Sequence[Comparison], store: RunStore) -> None:
    """One row for each arm, then how much is done; final runs are known once the rates of an arm are tried."""
    from walkback.lab.comparisons.choosing import best_of, tried

    done = total = 0
    for comparison in comparisons:
        table = ruled_table()
        for heading in ("method", "rates", "tried", "best", "final runs"):
            table.add_column(Text(heading), no_wrap=heading == "method")
        for arm in comparison.arms():
            rates = tried(comparison, arm, store, {})
            best = best_of(rates)
            final = comparison.final_runs(arm, best.rate) if best is not None else []
            tuned, ended = sum(not each.error for each in rates), sum(store.run(config).finished for config in final)
            shown = ", ".join(f"{each.rate:g}" for each in rates)
            words = [f"{tuned} of {len(rates)}", NOT_YET if best is None else f"{best.rate:g}"]
            table.add_row(Text(arm.label), shown, *words, f"{ended} of {comparison.seeds}")
            done, total = done + tuned + ended, total + len(rates) + comparison.seeds
        output().print(Text(f"compare_{comparison.name}", style="bold"), table, Text(), sep="\n")
    output().print(f"{done} of {total} runs finished, {total - done} missing")


NOT_YET = "not chosen yet"


def print_comparison(record: Mapping[str, Any], path: Path, console: Console) -> None:
    """The tables, the remarks, what is missing, and where the record is."""
    from walkback.lab.comparisons.record import failed_runs, missing_runs_of
    from walkback.lab.comparisons.tables import health, read_words, remarks, scores

    parts: list[Part] = [scores(record), health(record), read_words(record), *remarks(record)]
    for block in Page(f"comparison {record['name']}", parts).blocks():
        console.print(block)
    for run, error in failed_runs(record):
        console.print(Text(f"failed: {run}: {error}", style="red"))
    missing = missing_runs_of(record)
    if missing:
        console.print(Text(f"missing: {'; '.join(missing[:8])}{' and more' if len(missing) > 8 else ''}", style="red"))
    console.print(f"saved to {path}\n")
