"""The reporting template: the form that a paper's appendix should hold for each method, filled in from records.

What a record holds stands in the form; what it lacks is marked, with what to write there. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from walkback.present import outline
from walkback.present.alignment_facts import alignment_facts
from walkback.present.numbers import ABSENT, count, figure, interval_bounds, level, reading_figure, signed
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened
from walkback.protocol.records import DiagnosticReport, Reading
from walkback.source import PAPER, REPOSITORIES

NORMALISATION = {
    "resmlp": "LayerNorm",
    "student_net": "pre-norm LayerNorm in each block; no terminal norm",
    "vit_mini": "pre-norm LayerNorm in each block; a terminal LayerNorm",
    "small_cnn": "BatchNorm after each convolution; no terminal norm",
    "small_resnet": "BatchNorm after each convolution; no terminal norm",
}
"""What the architectures of the zoo do where their options do not say it."""


class Entry(NamedTuple):
    """One line of the form: its value, or None and what should stand there."""

    label: str
    value: str | None
    hint: str


class Table(NamedTuple):
    """Figures in rows; `aligned` has one letter per column, l or r."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    aligned: str


class Section(NamedTuple):
    """A part of the form: entries, a table, or both."""

    title: str
    entries: Sequence[Entry] = ()
    table: Table | None = None


PROTOCOL = (
    "The diagnostics (a) to (d) and their thresholds are the April 2026 edition of the protocol of "
    f"{PAPER}; {REPOSITORIES}."
)
"""What the form cites, so that whoever reads the figures can find how they are defined."""


class Form(NamedTuple):
    """The whole form."""

    title: str
    sections: Sequence[Section]
    protocol: str = PROTOCOL

    @property
    def gaps(self) -> int:
        """How many entries are still to be filled in."""
        return sum(entry.value is None for section in self.sections for entry in section.entries)


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
            Section("Alignment Γ, per site, with its null", _alignment(report), _alignment_table(report)),
            Section("Not measured", _gaps(report)),
            Section("To do it again", _provenance(report, settings)),
        ],
    )


def _training(report: DiagnosticReport | None, run: Run) -> list[Entry]:
    config: Run = run.get("config", {})
    method = _with_options(config.get("method"), config.get("method_options", {}))
    named = middle_out(report.method_name, NAME_LENGTH) if report is not None and report.method_name else None
    blocks = report.provenance.get("blocks") if report is not None else None
    return [
        Entry("method", method or named, "its name, and every option that changes the credit"),
        Entry("architecture", _architecture(config, run), "its name, width, depth and number of parameters"),
        Entry("blocks measured", shortened(blocks, NOTE_LENGTH) if blocks else None, "which modules are the blocks"),
        Entry("normalisation", _normalisation(config), "which norm, where in the block, and whether one is terminal"),
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


def _normalisation(config: Run) -> str | None:
    options = config.get("architecture_options", {})
    known = NORMALISATION.get(str(config.get("architecture")))
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
    words = [f"{config['optimizer']}", f"learning rate {config.get('learning_rate')}, {config.get('schedule')}"]
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
        scores = [outline.accuracy_words(report), outline.score_words(report.headline_score)]
        values = (
            outline.verdict_line(report),
            "; ".join(filter(None, scores)) or None,
            outline.baseline_words(report) or None,
            outline.frozen_words(report) or None,
        )
    labels = ("verdict", "accuracy", "matched frozen baseline", outline.FROZEN)
    entries = [Entry(*entry) for entry in zip(labels, values, hints, strict=True)]
    # Where the baseline itself is missing, one gap says so.
    return entries if report is None or values[-1] else entries[:-1]


def _basis(report: DiagnosticReport | None) -> list[Entry]:
    if report is None:
        return [Entry("measured on", None, "how many held-out samples, and what a site's vector is")]
    beside = [Entry(label, value, "") for label, value in outline.evidence(report)]
    basis = outline.basis(report) or None
    return [
        Entry("measured on", basis, "how many held-out samples, and what a site's vector is"),
        Entry("convention", "gradients of a loss averaged over 128 samples, whatever the batch", ""),
        *(entry for entry in beside if entry.label not in {"accuracy", "score", "frozen baseline", outline.FROZEN}),
        *(Entry("warning", warning, "") for warning in outline.warnings(report)),
    ]


HEADINGS = ("diagnostic", "figure", "fires when", "reading", "interval")


def _diagnostics(report: DiagnosticReport | None) -> Table:
    if report is None or not report.readings:
        names = ("(a) residual growth", "(b) gradient floor", "(c) direction drift", "(d) frozen margin")
        rows = ("> 50×", "< 1e-07", "> 0.3", "< 2 pp")
        return Table(
            HEADINGS, [(n, ABSENT, rule, "to fill in", ABSENT) for n, rule in zip(names, rows, strict=True)], "lrrll"
        )
    return Table(HEADINGS, [_reading(reading) for reading in report.readings], "lrrll")


def _reading(reading: Reading) -> Sequence[str]:
    bounds = interval_bounds(reading)
    spread = f"{bounds[0]} to {bounds[1]} ({level(reading.interval)})" if bounds and reading.interval else ABSENT
    rule = outline.fires_when(reading).removeprefix("fires when ")
    name = f"{outline.lettered(reading)} {middle_out(reading.name, 40)}"
    return name, reading_figure(reading), rule, outline.state_word(reading).lower(), spread


def _alignment(report: DiagnosticReport | None) -> list[Entry]:
    hint = "the mean over sites 1 … L of cos(credit, gradient), the same under fresh feedback, and the order of means"
    if report is None or report.alignment is None or report.alignment.unavailable:
        why = report.alignment.unavailable if report is not None and report.alignment is not None else ""
        return [Entry("Γ", f"N/A: {shortened(why, NOTE_LENGTH)}" if why else None, hint)]
    return [Entry(label, value, "") for label, value in alignment_facts(report)]


def _alignment_table(report: DiagnosticReport | None) -> Table | None:
    alignment = report.alignment if report is not None else None
    if alignment is None or not alignment.sites:
        return None
    null = alignment.null
    rows = []
    for site, gamma in enumerate(alignment.sites):
        beside = (
            (signed(null.site_means[site]), figure(null.site_sds[site]), signed(null.site_z[site]))
            if null
            else (ABSENT,) * 3
        )
        rows.append((str(site), signed(gamma), *beside))
    return Table(("site", "Γ", "null mean", "null sd", "z"), rows, "rrrrr")


def _gaps(report: DiagnosticReport | None) -> list[Entry]:
    if report is None:
        return [Entry("everything", None, "what was not measured, and why")]
    gaps = [Entry(label, why, "") for label, why in outline.not_measured(report)]
    return gaps or [Entry("nothing", "every figure of this form was measured", "")]


def _provenance(report: DiagnosticReport | None, run: Run) -> list[Entry]:
    versions = run.get("versions") or (report.provenance if report is not None else {})
    listed = ", ".join(f"{k} {versions[k]}" for k in versions if k in {"walkback", "torch", "python", "numpy"})
    where = [report.provenance.get(key) for key in ("device", "precision")] if report is not None else []
    return [
        Entry("command", run.get("command"), "the command line that makes this run"),
        Entry("commit", run.get("commit") or None, "the commit of the code; + means that it was changed since"),
        Entry("versions", listed or None, "of Python and of every library that numbers depend on"),
        Entry("device, precision", ", ".join(filter(None, where)) or None, "what it ran on"),
        Entry("date", run.get("date"), "of the run"),
    ]


def markdown(form: Form) -> str:
    """The form as Markdown, for a README or a supplement."""
    from walkback.present.markdown import escape, table

    parts = [f"# {escape(form.title)}", escape(form.protocol)]
    for section in form.sections:
        parts.append(f"## {escape(section.title)}")
        if section.entries:
            mark = [(e.label, e.value if e.value is not None else f"TO FILL IN: {e.hint}") for e in section.entries]
            parts.append("\n".join(f"- **{escape(label)}**: {escape(value)}" for label, value in mark))
        if section.table:
            parts.append(table(*section.table))
    return "\n\n".join(parts) + "\n"


def latex(form: Form) -> str:
    """The form as LaTeX for a paper's appendix; it needs `\\usepackage{booktabs}` and nothing else."""
    from walkback.present.latex import tabular
    from walkback.present.tex_escape import escape

    parts = ["% requires \\usepackage{booktabs}", rf"\subsection*{{{escape(form.title)}}}", escape(form.protocol)]
    for section in form.sections:
        parts.append(rf"\paragraph{{{escape(section.title)}.}}")
        if section.entries:
            parts.append(
                "\n".join([r"\begin{description}", *(_item(e, escape) for e in section.entries), r"\end{description}"])
            )
        if section.table:
            headings, rows, aligned = section.table
            cells = [[escape(cell) for cell in row] for row in rows]
            parts.append(
                "\\begin{center}\\footnotesize\n"
                + tabular([escape(h) for h in headings], cells, aligned)
                + "\n\\end{center}"
            )
    return "\n\n".join(parts) + "\n"


def _item(entry: Entry, escape: Callable[[str], str]) -> str:
    words = entry.value if entry.value is not None else entry.hint
    # LaTeX joins two hyphens into a dash, and a command line with dashes cannot be copied.
    written = re.sub(r"--(?=[a-z])", r"\\mbox{-{}-}", escape(words))
    mark = r"\emph{to fill in:} " if entry.value is None else ""
    return rf"\item[{{{escape(entry.label)}}}] {mark}{written}"


TEMPLATES: dict[str, Callable[[Form], str]] = {"markdown": markdown, "latex": latex}
