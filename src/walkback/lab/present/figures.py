"""What each figure is drawn from: audits, studies and runs on record, or what is given instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from walkback.errors import InputError
from walkback.lab.evidence import network_claims, penalty_claims
from walkback.lab.evidence.deciding import LONG, PRESET, RECORD
from walkback.lab.evidence.source_deciding import COMMANDS, SOURCE
from walkback.lab.present.networks import networks_in
from walkback.lab.runs.store import RunStore, open_store
from walkback.lab.studies.base import load_result
from walkback.present.figures import FIGURES
from walkback.present.figures.temporal import Column
from walkback.present.method_names import in_shown_names
from walkback.present.network import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVERLAID = ("bp", "dfa", "dfa_textbook")
ARCHITECTURES = {
    "ResMLP": ((RECORD,), PRESET),
    "ViT-Mini": ((network_claims.VIT, "vit_mini*"), network_claims.COMMANDS[network_claims.VIT]),
    "StudentNet": ((network_claims.STUDENT, "student_net*"), network_claims.COMMANDS[network_claims.STUDENT]),
}
"""The columns of the temporal figure: the audits that may hold each, and the command that makes one."""
WITHOUT_PENALTY = ("bp", "dfa_textbook")


def figure_named(name: str, targets: Sequence[str], results: Path, runs: str | None = None) -> Figure:
    """The figure, from the targets or, without any, from what is on record in the directory of results.

    One that others bring is plotted from the networks of an audit, or of whatever is given.
    """
    plot = FIGURES.load(name)
    return _INPUTS.get(name, _given)(plot, targets, results, open_store(runs, results / "runs"))


Plot = Callable[..., "Figure"]


def _one_audit(plot: Plot, targets: Sequence[str], results: Path, store: RunStore) -> Figure:
    found = list(targets) or [str(_on_record(results, RECORD, PRESET))]
    return plot(in_shown_names(networks_in(found, store)))


def _headline(plot: Plot, targets: Sequence[str], results: Path, store: RunStore) -> Figure:
    """BP and the source's methods, each of 100 epochs; BP has one definition and is on record beside others."""
    if targets:
        return plot(networks_in(targets, store))
    long, source = _on_record(results, LONG, PRESET), _on_record(results, SOURCE, COMMANDS[SOURCE])
    bp = [network for network in networks_in([str(long)], store) if network.report.method_name == "bp"]
    return plot([*bp, *networks_in([str(source)], store)])


def _given(plot: Plot, targets: Sequence[str], results: Path, store: RunStore) -> Figure:
    """A figure that others brought gets the networks of its targets."""
    if not targets:
        raise InputError(f"this figure has nothing on record in {results} of its own. Give what it is of.")
    return plot(networks_in(targets, store))


def _temporal(plot: Plot, targets: Sequence[str], results: Path, store: RunStore) -> Figure:
    if targets:
        return plot([Column(Path(target).stem, in_shown_names(networks_in([target], store))) for target in targets])
    columns = []
    for title, (names, command) in ARCHITECTURES.items():
        path = _first(results, names)
        networks = [] if path is None else networks_in([str(path)], store)
        overlaid = [network for network in networks if network.report.method_name in OVERLAID]
        columns.append(Column(title, in_shown_names(overlaid), f"not on record; make it with\n{command}"))
    if not any(column.networks for column in columns):
        raise InputError(f"there is no audit in {results} to draw. Make one: {PRESET}, or give run files.")
    return plot(columns)


def _penalty(plot: Plot, targets: Sequence[str], results: Path, store: RunStore) -> Figure:
    if targets:
        return plot(networks_in(targets, store))
    names = (penalty_claims.BP_PENALTY, "penalty*")
    paths = [path for path in (_first(results, (RECORD,)), _first(results, names)) if path is not None]
    if not paths:
        raise InputError(f"there is no audit in {results} to draw. Make one: {penalty_claims.BP_COMMAND}")
    found: dict[tuple[str, int | None], Network] = {}
    for network in networks_in([str(path) for path in paths], store):
        label = network.report.method_name
        if label in WITHOUT_PENALTY or ":penalty=" in label:
            found.setdefault((label, network.report.seed), network)
    penalised = any(":penalty=" in label for label, _ in found)
    return plot(list(found.values()), "" if penalised else penalty_claims.BP_COMMAND)


def _sensitivity(plot: Plot, targets: Sequence[str], results: Path, store: RunStore) -> Figure:
    del store
    if len(targets) > 1:
        raise InputError(f"the sensitivity figure is of one study, and {len(targets)} were given.")
    command = "walkback lab study sensitivity"
    path = Path(targets[0]) if targets else _first(results, (RECORD, "*"), "sensitivity")
    if path is None:
        raise InputError(f"there is no sensitivity study in {results}. Make one: {command}")
    return plot(load_result(path))


_INPUTS = {
    "headline": _headline,
    "audit": _one_audit,
    "temporal": _temporal,
    "penalty": _penalty,
    "sensitivity": _sensitivity,
    "sites": _one_audit,
}


def _first(results: Path, names: Sequence[str], kind: str = "audit") -> Path | None:
    """The first file of that kind on record under any of the names, which may be patterns."""
    return next((path for name in names for path in sorted(results.glob(f"{kind}_{name}.json"))), None)


def _on_record(results: Path, name: str, command: str) -> Path:
    found = _first(results, [name])
    if found is None:
        raise InputError(f"there is no audit_{name}.json in {results}. Make it: {command}; or give an audit.")
    return found
