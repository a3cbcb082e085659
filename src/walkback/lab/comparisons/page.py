"""docs/FIELD.md: the methods of the field side by side, from the records of its comparisons. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.lab.comparisons.findings import sentences
from walkback.lab.comparisons.plotted import NETWORKS, has_runs
from walkback.lab.comparisons.record import missing_runs_of
from walkback.lab.comparisons.tables import health, read_words, remarks, scores
from walkback.present.page import Code, Grid, Heading, Page, Part, Picture

TITLE = "The field: methods that train without backpropagation, side by side"
PICTURE, WORDS = (
    "images/field.png",
    "Every method on every network: points gained over random blocks, where credit points, and what is broken",
)
INTRODUCTION = (
    "Most neural networks are trained by backpropagation: the error at the output is sent back through the network, so "
    "that each layer learns how the error would change if the layer changed. This is the gradient. Many methods have "
    "been proposed that do without. This page trains them on the same networks and data under one protocol, and asks "
    "four questions of each: does it learn, do its layers matter, is what it tells its layers right, and is the "
    "network that it leaves healthy?"
)
DEFINITIONS = (
    ("method", "A rule for changing the weights of a network, with the default options that it has in this project."),
    ("BP", "Backpropagation, the usual method, trained here beside the others."),
    ("block", "One of the layers, or groups of layers, between the first layer (the stem) and the last (the head)."),
    ("frozen", "The same network whose blocks stay at their random start; only stem and head learn, by BP. A method "
     "that is no better than this has not shown that it trains its blocks."),
    ("learning rate", "How large a step of training is. Every method, BP and the frozen arm try the same number of "
     "rates, the same multiples of the default."),
    ("validation samples", "Samples that are cut off the training data. The rate is chosen on them."),
    ("test accuracy", "The share of right answers to samples that nothing was trained on or chosen by. On text, an "
     "answer is the next character, and the loss is in nats (perplexity: e to the loss)."),
    ("interval", "Where the mean over other seeds would lie, with 95 % confidence (Student). A seed is a random start. "
     "Differences are in pairs: both methods start from the same weights and see the same batches."),
    ("depth gain", "The share of the frozen arm's errors that training the blocks removes."),
    ("credit", "What a method tells each block about how to change its output. Some methods have none."),
    ("Γ", "The cosine between credit and the true gradient, averaged over the outputs of all blocks: 1 is the same "
     "direction, 0 has nothing to do with it. z: how many standard deviations that is above credit from fresh random "
     "feedback."),
    ("ρ", "How well the credit foretells changes of the loss when a block's output is nudged at random: 1 is "
     "perfectly, 0 not at all."),
    ("growth", "By how much one block multiplies the size of what passes through it, at most over blocks and runs."),
    ("panel", "A list of measurements and the rule that makes a verdict of them. “fail” means that the network is "
     "broken in a way that accuracy does not show. calibrated has thresholds fitted on networks of known state; "
     "april2026 and june2026 are published ones, and fail many healthy networks (VALIDITY.md says how many)."),
)  # fmt: skip


def page_of(records: Mapping[str, Mapping[str, Any]], results: str, cost: Mapping[str, Any]) -> Page:
    """The whole page.

    Args:
        records: the comparisons on record, by name.
        results: where the directory of results is, as seen from the page.
        cost: the estimate, where there is one.
    """
    parts: list[Part] = [INTRODUCTION]
    if has_runs(records):
        parts += [Picture(PICTURE, WORDS), KEY]
    parts += [Heading("In short"), *_in_short(records)]
    parts += [Heading("The words"), Grid(("word", "what it means here"), DEFINITIONS, "ll")]
    parts += [Heading("How it is made"), *_protocol(cost)]
    for name in NETWORKS:
        parts += _network(name, records.get(name), results)
    return Page(TITLE, parts)


KEY = (
    "A row is a method, a column a network. The number: points of test accuracy above the same network with its blocks "
    "left at random; the darker the cell, the more of what backpropagation gains. The arrow: where what the blocks are "
    "told points; flat to the right is the true gradient, upright has nothing to do with it; no arrow, the blocks are "
    "told nothing of the error at the end. A cross: the network is broken, by the panel calibrated, or april2026 where "
    "that is silent, as it is on text."
)


def _in_short(records: Mapping[str, Mapping[str, Any]]) -> list[Part]:
    said: list[Part] = []
    for name, title in NETWORKS.items():
        found = list(sentences(records[name])) if name in records else []
        if found:
            said += [f"{_title(title)}. {' '.join(found)}"]
    missing = [name for name in NETWORKS if name not in records]
    if missing:
        said += [f"Not on record yet: {', '.join(missing)}. Trained by:"]
        said += [Code("\n".join(f"walkback lab compare --preset {name}" for name in missing))]
    return said


def _protocol(cost: Mapping[str, Any]) -> list[Part]:
    parts: list[Part] = [
        "For each network, every arm tries as many learning rates as every other, with one seed. The best, by "
        "validation accuracy or on text by validation loss, is trained again with several seeds, on the same samples, "
        "for as many epochs. Only those final runs read the test data, each once, after its last step. A best rate at "
        "the end of the rates tried is marked (!): a better one may lie beyond. Whether a network is broken is judged "
        "with the frozen arm of the same seed, at its own best rate.",
        "The first command trains what is missing and goes on where it was stopped, the second makes this page from "
        "the records:",
        Code("walkback lab compare --preset field\nwalkback lab compare --page docs/FIELD.md"),
    ]
    if cost:
        hours = ", ".join(f"{name} {value:g}" for name, value in cost["core_hours"].items())
        parts += [
            f"Core-hours by results/estimate_field.json: {hours}; in all {cost['core_hours_in_all']:g}. {cost['how']}"
        ]
    return parts


def _network(name: str, record: Mapping[str, Any] | None, results: str) -> list[Part]:
    heading = Heading(_title(NETWORKS[name]))
    if record is None:
        return [heading, "No run is on record. Train it with:", Code(f"walkback lab compare --preset {name}")]
    address = f"{results}/compare_{name}.json"
    parts: list[Part] = [
        heading,
        _about(record),
        scores(record, address, lambda run: f"{results}/runs/{run}.json"),
        "What is known of each network beside its score:",
        health(record, address),
        read_words(record),
    ]
    parts += remarks(record)
    if record["undefined"]:
        parts += ["Not defined on this network:", Grid(("method", "why"), list(record["undefined"].items()), "ll")]
    return [*parts, *_missing(record)]


def _about(record: Mapping[str, Any]) -> str:
    config, cut = record["config"], record["validation"]
    tables = [config["settings"].get(f"{kind}_options") or {} for kind in ("architecture", "data")]
    changed = ", ".join(f"{key}={value}" for table in tables for key, value in table.items())
    held = "" if cut is None else f" {cut['samples']:,} validation samples, cut off with seed {cut['seed']}."
    return (
        f"{config['architecture']} on {config['data']}{f' ({changed})' if changed else ''}, {config['epochs']} epochs; "
        f"{config['budget']} rates for each method, {config['seeds']} seeds ({_listed(record['seeds'])}).{held} "
        f"Trained on {record['trained_on']}."
    )


def _missing(record: Mapping[str, Any]) -> list[Part]:
    lacking = missing_runs_of(record)
    if not lacking:
        return []
    named = "; ".join(lacking[:8]) + (f" and {len(lacking) - 8} more" if len(lacking) > 8 else "")
    return [f"Still missing: {named}. Trained by:", Code(record["command"])]


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


def _title(words: str) -> str:
    return " on ".join(words.split("\n"))
