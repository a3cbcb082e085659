"""README's first picture and the words below it, from the source study's main audit and BP beside it.

    walkback figure headline -o docs/images/headline.png      # the picture alone
    make record                                               # picture and words, once every run of it is on record

The words are computed like the picture: what is said of a method is what its networks show.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from walkback.lab.evidence.deciding import LONG
from walkback.lab.evidence.source_deciding import SOURCE
from walkback.lab.present.figures import figure_named
from walkback.present.figures.headline import TESTS, block_cosine
from walkback.present.figures.style import pretty, save
from walkback.present.numbers import written
from walkback.protocol.json_codec import read_json
from walkback.protocol.records import DiagnosticReport, State
from walkback.protocol.schema import write_whole

BEGIN, END = "<!-- headline: tools/headline.py -->", "<!-- /headline -->"
PICTURE = Path("docs/images/headline.png")
COMMAND = "walkback figure headline -o docs/images/headline.png"
WIDTH = 120
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def make_headline(results: Path, readme: Path) -> Iterator[str]:
    """Draw the picture and write its words into README; while runs are missing, say which, and leave both alone."""
    missing = missing_runs(results)
    if missing:
        yield f"left as it is; not finished: {', '.join(missing)}"
        return
    picture = readme.parent / PICTURE
    before = picture.read_bytes() if picture.exists() else b""
    save(figure_named("headline", [], results), picture)
    if picture.read_bytes() != before:
        yield str(picture)
    page = readme.read_text(encoding="utf-8")
    if with_headline(page, results) != page:
        write_whole(readme, with_headline(page, results))
        yield str(readme)


def with_headline(page: str, results: Path) -> str:
    """README with the picture and its words between the two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{words(of_record(results))}\n{END}{after}"


def missing_runs(results: Path) -> list[str]:
    """What the picture is of and is not on record: runs, or their frozen baselines."""
    missing = []
    for audit, labels in ((LONG, ("bp",)), (SOURCE, None)):
        path = results / f"audit_{audit}.json"
        if not path.exists():
            missing.append(path.name)
            continue
        rows = [row for row in read_json(path)["runs"] if labels is None or row["label"] in labels]
        missing += [f"{row['label']} {row['seed']}" for row in rows if row["error"] or row.get("baseline_error")]
    return missing


def of_record(results: Path) -> dict[str, list[DiagnosticReport]]:
    """The reports of the picture by method: BP, then the source's methods."""
    reports = [r for r in read_json(results / f"audit_{LONG}.json")["reports"] if r["method_name"] == "bp"]
    reports += read_json(results / f"audit_{SOURCE}.json")["reports"]
    found: dict[str, list[DiagnosticReport]] = {}
    for report in map(DiagnosticReport.from_dict, reports):
        found.setdefault(report.method_name, []).append(report)
    return found


def words(methods: dict[str, list[DiagnosticReport]]) -> str:
    """The picture, what it shows, and what became of each method."""
    counts = {len(reports) for reports in methods.values()}
    ways, seeds = _number(len(methods)), _number(counts.pop()) if len(counts) == 1 else "several"
    picture = f"![One network trained in {ways} ways: what papers report of it, and what four tests find]({PICTURE})"
    about = (
        "Each mark is one trained network: the same residual MLP of four blocks, trained on CIFAR-10 for 100 epochs in "
        f"{ways} ways, {seeds} times each. Papers report the two figures above: the accuracy, and the cosine between "
        "what a method tells each block and the true gradient. The four tests below ask whether the network is sound; "
        "one in a hatched area fails that test."
    )
    made = (
        f"Drawn by `{COMMAND}`. The methods are those of the study named below, as it defines them; picture and words "
        "are made from `results/` by `make record`."
    )
    told = [f"- {_method(label, reports)}" for label, reports in methods.items()]
    listed = [textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in told]
    return "\n\n".join([picture, textwrap.fill(about, WIDTH), "\n".join(listed), textwrap.fill(made, WIDTH)])


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def _method(label: str, reports: Sequence[DiagnosticReport]) -> str:
    """What a method reaches, and which tests it fails on how many seeds."""
    scores = [100 * report.headline_acc for report in reports if report.headline_acc is not None]
    cosines = [cosine for report in reports if (cosine := block_cosine(report)) is not None]
    reached = f"**{pretty(label)}** reaches {_span(scores, 0)} %"
    reached += f" at a cosine of {_span(cosines, 2)}" if cosines and label != "bp" else ""
    failed = [_failed(letter, reports) for letter in TESTS]
    told = [words for words in failed if words]
    return f"{reached} and fails no test." if not told else f"{reached}. {_capital('; '.join(told))}."


def _failed(letter: str, reports: Sequence[DiagnosticReport]) -> str:
    """What a test found on the seeds that fail it; nothing where none does."""
    found = [reading for report in reports if (reading := report.reading(letter)).state is State.FIRE]
    values = [reading.value for reading in found if reading.value is not None]
    if not values:
        return ""
    on = "" if len(found) == len(reports) else f", on {len(found)} of {len(reports)} seeds"
    said = {
        "a": f"one block multiplies the hidden state by {written(min(values))} or more",
        "b": f"the true gradient at its last block is {written(max(values))} or less",
        "c": f"different batches share one gradient direction, with a cosine of {written(min(values))} or more",
        "d": _margin(values),
    }[letter]
    return f"{said} ({letter}){on}"


def _margin(values: Sequence[float]) -> str:
    """How trained blocks compare with random ones."""
    if max(values) < 0:
        return f"its trained blocks do {_span([-value for value in values], 1)} points worse than blocks left at random"
    return f"its trained blocks are at most {max(values):.1f} points better than blocks left at random"


def _span(values: Sequence[float], digits: int) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
