"""The bench as commands use it: where its files are, and what is read from them. No torch until networks are made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from walkback.errors import RecordError
from walkback.lab.validity.conditions import CONDITIONS
from walkback.lab.validity.estimate import ESTIMATE_FILE
from walkback.lab.validity.fitting import CANDIDATES, Decider, fitted
from walkback.lab.validity.opening import keep_counts, open_held, openings
from walkback.lab.validity.packed import digest_of, packed_file
from walkback.lab.validity.page import IMAGE, page_of
from walkback.lab.validity.runner import Folder
from walkback.lab.validity.scoring import counts_of, summary
from walkback.lab.validity.shipped import range_of, rates_file, thresholds_file
from walkback.lab.validity.split import Half
from walkback.lab.validity.table import Row, read_table, row_of, rules, write
from walkback.present.page import Page
from walkback.protocol.panels.calibrated import HERE, RATES_FILE, THRESHOLDS_FILE
from walkback.protocol.schema import read_json, write_whole

RULE_FILE = "RULE.md"
RECORDS = "records"
"""The directory of packed records, in that of the results."""


@dataclass(frozen=True)
class Bench:
    """Where records are made, where results are committed, and where the panel's files are."""

    folder: Folder
    results: Path
    panel: Path = HERE

    @classmethod
    def at(cls, runs: Path, results: Path, panel: Path = HERE) -> Bench:
        """With the packed records that are among the results."""
        return cls(Folder(runs, results / RECORDS), results, panel)

    def fit(self) -> list[Decider]:
        """Fit the thresholds by the written rule, and write the panel's file; the held half is not looked into."""
        only_fit = replace(self, folder=replace(self.folder, halves=("fit",)))
        rows = only_fit.made("fit")
        deciders = fitted(rows)
        paths = [packed_file(self.results / RECORDS, "fit", name) for name in CONDITIONS]
        records = digest_of(path for path in paths if path.is_file())
        text = thresholds_file(deciders, rows, rule_digest(self.results), records)
        write_whole(self.panel / THRESHOLDS_FILE.name, text)
        return deciders

    def table_file(self, half: Half) -> Path:
        """The compact table of a half."""
        return self.results / f"{half}.jsonl"

    def made(self, half: Half) -> list[Row]:
        """A row for every network that counts, judged by the rules of today."""
        return [row_of(record, half) for name in CONDITIONS for record in self.folder.records(half, name)]

    def score_fit(self) -> list[Row]:
        """Make the table of the half to fit on again where its records are here; else read it as it was committed."""
        rows = self.made("fit")
        if rows:
            write(self.table_file("fit"), rows)
        return rows or read_table(self.table_file("fit"))

    def open(self, *, again: str) -> list[Row]:
        """Open the held half: first on record, then in the table."""
        counted = sum(1 for name in CONDITIONS for _ in self.folder.records("held", name))
        open_held(self.results, again=again, networks=counted)
        rows = self.made("held")
        write(self.table_file("held"), rows)
        keep_counts(self.results, counts_of(rows))
        return rows

    def write_rates(self, tables: dict[Half, Sequence[Row]]) -> Path | None:
        """The panel's file of rates, from what is scored so far; the range of sizes is that of the fit half.

        Where there is no record of a healthy network, the file stays as it is.
        """
        sound = list(self.folder.records("fit", "healthy"))
        if not sound:
            return None
        text = rates_file(tables, range_of(sound), deciders_on_file(self.panel))
        return write_whole(self.panel / RATES_FILE.name, text)

    def tables(self) -> dict[Half, Sequence[Row]]:
        """What is scored so far; the held half only once it was opened."""
        held = read_table(self.table_file("held")) if openings(self.results) else []
        return {"fit": self.score_fit(), "held": held}

    def page(self, tables: dict[Half, Sequence[Row]]) -> Page:
        """docs/VALIDITY.md as it should be now."""
        path = self.results / ESTIMATE_FILE
        cost: dict[str, Any] = read_json(path) if path.is_file() else {}
        return page_of(tables, openings(self.results), cost, deciders_on_file(self.panel))

    def write_page(self, docs: Path, page: Page, tables: dict[Half, Sequence[Row]]) -> Path:
        """The page, its figure where there is something to plot, and the summary as JSON."""
        text = page.markdown()
        if any(tables.values()):
            from walkback.lab.validity.plotted import scores_of
            from walkback.present.figures.style import save
            from walkback.present.figures.validity import plot

            (docs / IMAGE).parent.mkdir(parents=True, exist_ok=True)
            save(plot(scores_of(tables, rules())), docs / IMAGE)
            text += f"\n![Networks found and flagged, and ROC curves]({IMAGE})\n"
        scores = {half: summary(rows, rules()) for half, rows in tables.items() if rows}
        write_whole(self.results / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
        return write_whole(docs / "VALIDITY.md", text)


def deciders_on_file(folder: Path) -> list[Decider]:
    """The deciders of the panel's thresholds file, as the fit has them."""
    known = {candidate.diagnostics: candidate for candidate in CANDIDATES}
    listed = read_json(folder / THRESHOLDS_FILE.name)["deciders"]
    return [Decider(known[tuple(each["diagnostics"])], float(each["threshold"])) for each in listed]


def rule_digest(results: Path) -> str:
    """The SHA-256 of the written rule, in 16 hexadecimal digits; thresholds without a rule are refused."""
    path = results / RULE_FILE
    if not path.is_file():
        raise RecordError(f"{path} is missing: thresholds are fitted by a rule that was written down before.")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
