"""The reporting template: the form that a paper's appendix should hold for each method, filled in from records.

What a record holds stands in the form; what it lacks is marked, with what to write there. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.present import in_panel, outline
from walkback.present.alignment_facts import alignment_facts
from walkback.present.evidence import evidence
from walkback.present.form import TEMPLATES as TEMPLATES
from walkback.present.form import Entry, Form, Section, Table
from walkback.present.numbers import (
    ABSENT,
    count,
    interval_bounds,
    level,
    reading_value,
    round_number,
    signed,
    with_unit,
    written,
)
from walkback.present.places import place
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened
from walkback.present.score_words import FROZEN, accuracy_words, baseline_words, frozen_words, score_words
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.panels import panel_on_record
from walkback.protocol.records import DiagnosticReport, Reading
from walkback.registry import DIAGNOSTICS

Run = Mapping[str, Any]
"""A run's record as `result.json` holds it; empty where there is none."""


def form_of(report: DiagnosticReport | None, run: Run | None = None) -> Form:
    """The form for a report and the run behind it; without a report the form is empty."""
    name = outline.title(report) if report is not None else "name of the method"
    settings: Run = run or {}
    return Form(
        f"Reporting form: {name}",
        [
            Section("What was trained", _training(report, settings)),
            Section("Result", _result(report, settings)),
            Section("Diagnostics", _basis(report), _diagnostics(report)),
            Section("Alignment Γ, per block, with its null", _alignment(report), _alignment_table(report)),
            Section("Not known", _gaps(report)),
            Section("To do it again", _provenance(report, settings)),
        ],
        _protocol(report),
    )


def _protocol(report: DiagnosticReport | None) -> str:
    panel = in_panel.panel_of(report) if report is not None else panel_on_record(None)
    return panel.cites or f"The verdict is that of the panel {panel.name}: {panel.title}."


def _training(report: DiagnosticReport | None, run: Run) -> list[Entry]:
    config: Run = run.get("config", {})
    method = _with_options(config.get("method"), config.get("method_options", {}))
    named = middle_out(report.method_name, NAME_LENGTH) if report is not None and report.method_name else None
    blocks = report.provenance.get("blocks") if report is not None else None
    return [
        Entry("method", method or named, "its name, and every option that changes the credit"),
        Entry("architecture", _architecture(config, run), "its name, width, depth and number of parameters"),
        Entry("blocks measured", shortened(blocks, NOTE_LENGTH) if blocks else None, "which modules are the blocks"),
        Entry(
            "normalisation", _normalisation(config, run), "which norm, where in the block, and whether one is terminal"
        ),
        Entry("data", _data(config, run), "training and test set, their sizes, and augmentation"),
        Entry("optimizer", _optimizer(config), "its name, learning rate and schedule, weight decay, batch size"),
        Entry("epochs", _epochs(config, run), "how many, and whether the run was stopped before"),
        Entry("seeds", _seeds(report, config), "all of them; one form for each, or figures as mean ± sd over them"),
    ]


def _with_options(name: str | None, options: Run) -> str | None:
    if name is None:
        return None
    listed = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"{name} ({listed})" if listed else name


def _architecture(config: Run, run: Run) -> str | None:
    options = {k: v for k, v in config.get("architecture_options", {}).items() if "norm" not in k}
    named = _with_options(config.get("architecture"), options)
    trained = run.get("trained_parameters")
    return named if named is None or trained is None else f"{named}; {count(trained, 'trained parameter')}"


def _normalisation(config: Run, run: Run) -> str | None:
    """What the record of the run says of its architecture; where in the block a norm stands, an option may say."""
    options, known = config.get("architecture_options", {}), run.get("normalisation")
    if "norm_position" not in options:
        return known
    terminal = "a terminal norm" if options.get("terminal_norm") else "no terminal norm"
    return f"{options['norm_position']}-norm {known or 'norm'} in each block; {terminal}"


def _data(config: Run, run: Run) -> str | None:
    name = _with_options(config.get("data"), config.get("data_options", {}))
    if name is None:
        return None
    sizes = [
        count(run[key], word)
        for key, word in (("train_samples", "training sample"), ("test_samples", "test sample"))
        if key in run
    ]
    words = [name, *sizes, f"augmentation {'on' if config.get('augment') else 'off'}"]
    return "; ".join([*words, "training labels drawn at random"] if config.get("targets") == "random" else words)


def _optimizer(config: Run) -> str | None:
    if "optimizer" not in config:
        return None
    moving = f" with momentum {config['momentum']:g}" if config["optimizer"] == "sgd" and "momentum" in config else ""
    stepped = f" at epochs {config['milestones']}" if config.get("milestones") else ""
    words = [f"{config['optimizer']}{moving}"]
    words += [f"learning rate {config.get('learning_rate')}, {config.get('schedule')}{stepped}"]
    return "; ".join([*words, f"weight decay {config.get('weight_decay')}", f"batches of {config.get('batch_size')}"])


def _epochs(config: Run, run: Run) -> str | None:
    if "epochs" not in config:
        return None
    ended = run.get("ended")
    return f"{config['epochs']}" + (f"; {shortened(str(ended), NOTE_LENGTH)}" if ended else "")


def _seeds(report: DiagnosticReport | None, config: Run) -> str | None:
    seed = config.get("seed", report.seed if report is not None else None)
    return None if seed is None else f"{seed}; the variance over seeds is not in this form"


def _result(report: DiagnosticReport | None, run: Run) -> list[Entry]:
    baseline = (run.get("baseline") or {}).get("command", "")
    how = f"train it: {baseline}" if baseline else "the same network, trained the same way with its blocks frozen"
    frozen = "which ones the baseline left at random, and what share of the network's parameters they hold"
    hints = ("of walkback.diagnose", "on held-out data, with its size", how, frozen)
    values: Sequence[str | None] = (None, None, None, None)
    if report is not None:
        scores = [accuracy_words(report), score_words(report.headline_score)]
        values = (
            outline.verdict_line(report),
            "; ".join(filter(None, scores)) or None,
            baseline_words(report) or None,
            frozen_words(report) or None,
        )
    labels = ("verdict", "accuracy", "matched frozen baseline", FROZEN)
    entries = [Entry(*entry) for entry in zip(labels, values, hints, strict=True)]
    if report is not None and (others := in_panel.other_verdicts(report)):
        entries.insert(1, Entry("other panels", others, ""))
    # Where the baseline itself is missing, one gap says so.
    return entries if report is None or values[-1] else entries[:-1]


def _basis(report: DiagnosticReport | None) -> list[Entry]:
    if report is None:
        return [Entry("measured on", None, "how many held-out samples, and what a site's vector is")]
    beside = [Entry(label, value, "") for label, value in evidence(report)]
    basis = outline.basis(report) or None
    return [
        Entry("measured on", basis, "how many held-out samples, and what a site's vector is"),
        Entry("convention", "gradients of a loss averaged over 128 samples, whatever the batch", ""),
        *(entry for entry in beside if entry.label not in {"accuracy", "score", "frozen baseline", FROZEN}),
        *(Entry("warning", warning, "") for warning in outline.warnings(report)),
    ]


HEADINGS = ("diagnostic", "value", "fires when", "reading", "interval")


def _diagnostics(report: DiagnosticReport | None) -> Table:
    if report is None or not report.readings:
        members = panel_on_record(None).members
        rows: list[Sequence[str]] = [_to_fill_in(DIAGNOSTICS.load(member.diagnostic)) for member in members]
    else:
        rows = [_reading(report, reading) for reading in report.readings]
    return Table(HEADINGS, rows, "lrrll")


def _to_fill_in(one: type[Diagnostic]) -> Sequence[str]:
    declared = next(iter(one.thresholds.values()), None)
    rule = (
        ABSENT if declared is None else f"{declared.fires} {with_unit(round_number(declared.default), declared.unit)}"
    )
    return f"({one.letter}) {one.title}", ABSENT, rule, "to fill in", ABSENT


def _reading(report: DiagnosticReport, reading: Reading) -> Sequence[str]:
    bounds = interval_bounds(reading)
    spread = f"{bounds[0]} to {bounds[1]} ({level(reading.interval)})" if bounds and reading.interval else ABSENT
    rule = outline.fires_when(reading).removeprefix("fires when ")
    state = outline.state_and_role(report, reading).lower()
    return in_panel.named(report, reading), reading_value(reading), rule, state, spread


def _alignment(report: DiagnosticReport | None) -> list[Entry]:
    hint = "cos(credit, gradient) of every block, whether one carries the mean, and the same under fresh feedback"
    if report is None or report.alignment is None or report.alignment.unavailable:
        why = report.alignment.unavailable if report is not None and report.alignment is not None else ""
        return [Entry("Γ", f"N/A: {shortened(why, NOTE_LENGTH)}" if why else None, hint)]
    return [Entry(label, value, "") for label, value in alignment_facts(report)]


def _alignment_table(report: DiagnosticReport | None) -> Table | None:
    alignment = report.alignment if report is not None else None
    if report is None or alignment is None or not alignment.sites:
        return None
    null = alignment.null
    rows = []
    for site, gamma in enumerate(alignment.sites):
        beside = (
            (signed(null.site_means[site]), written(null.site_sds[site]), signed(null.site_z[site]))
            if null
            else (ABSENT,) * 3
        )
        rows.append((place(report, site), signed(gamma), *beside))
    return Table(("block", "Γ", "null mean", "null sd", "z"), rows, "lrrrr")


def _gaps(report: DiagnosticReport | None) -> list[Entry]:
    if report is None:
        return [Entry("everything", None, "what was not measured, and why")]
    gaps = [Entry(label, why, "") for label, why in outline.not_measured(report)]
    return gaps or [Entry("nothing", "every figure of this form was measured", "")]


def _provenance(report: DiagnosticReport | None, run: Run) -> list[Entry]:
    versions = run.get("versions") or (report.provenance if report is not None else {})
    listed = ", ".join(f"{k} {versions[k]}" for k in versions if k in {"walkback", "torch", "jax", "python", "numpy"})
    where = [report.provenance.get(key) for key in ("device", "precision")] if report is not None else []
    return [
        Entry("command", run.get("command"), "the command line that makes this run"),
        Entry("commit", run.get("commit") or None, "the commit of the code; + means that it was changed since"),
        Entry("versions", listed or None, "of Python and of every library that numbers depend on"),
        Entry("device, precision", ", ".join(filter(None, where)) or None, "what it ran on"),
        Entry("date", run.get("date"), "of the run"),
    ]
