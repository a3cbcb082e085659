"""Where the command line begins: the first page of help by itself, everything else through `main`.

The libraries behind the verbs take many times as long to import as Python takes to start. Whoever only asks what
there is need not wait for them; a test holds this page against the verbs themselves.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import textwrap
from typing import NoReturn

VERBS = {
    "demo": "Train a residual MLP by BP and by scaled DFA on generated data, and judge both; no download.",
    "diagnose": "Measure one network and say whether its result can be trusted.",
    "report": "Show one network, or several side by side.",
    "replay": "Judge recorded measurements again; what a record lacks counts as not measured.",
    "watch": "Follow runs while they train: norms of hidden states and gradients, accuracy, what has fired.",
    "figure": "Plot a figure from recorded results; if runs are missing, name the command that trains them.",
    "lint": "Find evaluation pitfalls in source code; the code is read, never run.",
    "pitfalls": "Common bugs in evaluation code: each demonstrated, with the fix.",
    "schema": "Print the JSON Schema of a record.",
    "lab": "Train networks and study them: methods, grids, studies, and the evidence for published claims.",
}
LAB_VERBS = {
    "train": "Train one run, or resume it, and print its report.",
    "audit": "Train the missing runs of a grid, each with its matched frozen baseline, and judge all runs.",
    "compare": "Compare methods with an equal tuning budget: the learning rate of each is chosen on validation data.",
    "study": "Answer a question from recorded audits; trains nothing, takes seconds.",
    "evidence": "Print each published claim, what was measured here, and whether it was reproduced.",
    "reproduce": "Train the runs behind numbers published by others, and compare the results.",
    "runs": "List the runs: the progress of each, its accuracy and its verdict.",
    "zoo": "List the methods, architectures and data sets, or show one of them with its options.",
    "data": "List the data sets, or fetch one.",
    "validity": "Train networks with known faults, and count how often each panel is right.",
    "check": "Train each recipe of the zoo for a few epochs on CIFAR-10, and compare it with its prototype.",
}
MOVED = {verb: f"lab {verb}" for verb in ("train", "audit", "study", "evidence", "runs", "zoo", "data", "check")} | {
    "check-zoo": "lab check"
}
"""Verbs of walkback 0.1 that are elsewhere now."""
OPTIONS = {"--version": "Print the version.", "--help": "Show this message and exit."}
ABOUT = "Can a result from a network trained without backpropagation be trusted?"
STATUS = "Exit status of commands that judge: 0 pass, 1 fail, 3 incomplete, 2 an error."
WIDEST = 100
ERROR, INTERRUPTED = 2, 130


LAB = "Train networks without backpropagation, compare methods, and check published claims."


def help_page(width: int, lab: bool = False) -> str:
    """The verbs and options, of walkback or of its lab, wrapped to a width."""
    name = "walkback lab" if lab else "walkback"
    paragraphs = [
        textwrap.fill(f"Usage: {name} [OPTIONS] COMMAND [ARGS]...", width),
        textwrap.fill(LAB if lab else ABOUT, width),
        "Commands:\n" + _listed(LAB_VERBS if lab else VERBS, width),
        "Options:\n" + _listed({"--help": OPTIONS["--help"]} if lab else OPTIONS, width),
        textwrap.fill(f"`{name} COMMAND --help` describes each command. " + STATUS, width),
    ]
    return "\n\n".join(paragraphs)


def _listed(entries: dict[str, str], width: int) -> str:
    column = max(map(len, entries)) + 4
    lines = [
        textwrap.fill(words, width, initial_indent=f"  {name}".ljust(column), subsequent_indent=" " * column)
        for name, words in entries.items()
    ]
    return "\n".join(lines)


def leave(status: int) -> NoReturn:
    """End with this status although nobody reads: what is left in a stream would raise once more as Python ends.

    A stream that cannot be written is closed here, because Python would flush it at exit and end with 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                stream.close()
    sys.exit(status)


def run() -> None:
    """Print the first page of help, or hand over to the verbs."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what an encoding has no letter for is no reason to fail
            stream.reconfigure(errors="replace")
    if sys.argv[1:] in (["--help"], ["lab", "--help"], ["lab"]):
        try:
            width = max(20, min(shutil.get_terminal_size().columns, WIDEST))
            print(help_page(width, lab=sys.argv[1] == "lab"), flush=True)
        except OSError:
            leave(ERROR)
        return
    try:
        from walkback.cli.main import run as run_verbs
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run_verbs()
