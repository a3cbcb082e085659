"""Names of diagnostics, panels, methods and whatever else can be added, looked up lazily.

One row is `name: "module:object"`. Nothing is imported until a name is asked for, so listing what there is costs no
import of torch. Beside its own rows a registry holds what others bring: objects that a running process registers,
and those of installed packages, by entry points of the group `walkback.<group>`. A plugin that cannot be loaded is
told in one line and left out; the rest goes on.

`module:object` stands for an object too, but only where whoever runs walkback wrote it, on the command line or in
code: `allow` is what says so. A name in a record is looked up and never imported by: a file from a stranger must not
say what runs here.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from walkback.errors import InputError, UnknownName, WalkbackError
from walkback.errors import did_you_mean as did_you_mean
from walkback.name_table import OPEN
from walkback.name_table import Registry as Registry
from walkback.registered import GROUPS as GROUPS
from walkback.registered import REGISTERED, changed
from walkback.registered import changes as changes

_HOMES = {
    "methods": "walkback.lab.registry",
    "architectures": "walkback.lab.registry",
    "datasets": "walkback.lab.registry",
    "figures": "walkback.present.figures",
    "lint_rules": "walkback.lint",
    "pitfalls": "walkback.pitfalls",
}
"""Where the registries are that are not made here."""


def register(group: str, name: str, thing: Any) -> Any:
    """Add an object to what walkback knows, in this process.

    Args:
        group: one of `diagnostics`, `panels`, `methods`, `architectures`, `datasets`, `renderers`, `figures`,
            `lint_rules` and `pitfalls`.
        name: what it is asked for by: letters, digits and `_`. Registering a name again replaces the object; the names
            of walkback itself cannot be replaced.
        thing: the object: a `Diagnostic`, a `Panel`, a `Method`, a function. docs/extend says what each has to be.

    Returns:
        The object, so that this can be used in a decorator.

    Raises:
        UnknownName: there is no such group.
        InputError: the name cannot be used, or the object is not what the group asks for.

    Caveat:
        Worker processes, such as those of `walkback lab audit`, do not see it. They need a package with an entry point.

    Examples:
        >>> import walkback
        >>> def shout(report):
        ...     return report.outcome.upper()
        >>> _ = walkback.register("renderers", "shout", shout)
        >>> report = walkback.judge(walkback.Measurements(residual_norms=[8.7, 8.8], bp_grad_norms=[8e-3, 8e-3]))
        >>> report.render("shout")
        'PASS'
        >>> walkback.unregister("renderers", "shout")
    """
    if group not in GROUPS:
        raise UnknownName(f"there is nothing to add called {group!r}. {did_you_mean(str(group), GROUPS)}")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9]\w{0,60}", name):
        raise InputError(f"the name to register is {name!r}; expected letters, digits and _ such as effective_rank.")
    registry, before = open_registry(group), REGISTERED[group].get(name)
    registry.refuse_own(name)
    _put(group, name, thing)
    try:
        registry.load(name)
    except WalkbackError:
        _put(group, name, before)
        raise
    return thing


def unregister(group: str, name: str) -> None:
    """Remove what `register` added. A name that was not added stays as it is.

    Args:
        group: as for `register`.
        name: what was registered.

    Examples:
        >>> import walkback
        >>> _ = walkback.register("renderers", "whisper", lambda report: report.outcome)
        >>> walkback.unregister("renderers", "whisper")
        >>> walkback.unregister("renderers", "whisper")  # nothing to remove
    """
    if name in REGISTERED.get(group, {}):
        _put(group, name, None)


def _put(group: str, name: str, thing: Any) -> None:
    """Hold an object under a name, or nothing any more."""
    REGISTERED[group].pop(name, None)
    if thing is not None:
        REGISTERED[group][name] = thing
    open_registry(group).forget(name)
    changed()


def open_registry(group: str) -> Registry:
    """The registry of a group; the module that makes it is imported where it is not yet."""
    if group not in OPEN:
        importlib.import_module(_HOMES[group])
    return OPEN[group]


DIAGNOSTICS = Registry(
    "diagnostic",
    {
        "residual_growth": "walkback.protocol.diagnostics.residual_growth:ResidualGrowth",
        "gradient_floor": "walkback.protocol.diagnostics.gradient_floor:GradientFloor",
        "direction_drift": "walkback.protocol.diagnostics.direction_drift:DirectionDrift",
        "frozen_margin": "walkback.protocol.diagnostics.frozen_margin:FrozenMargin",
        "layer_cosine": "walkback.protocol.diagnostics.layer_cosine:LayerCosine",
        "perturbation": "walkback.protocol.diagnostics.perturbation:Perturbation",
        "nudge": "walkback.protocol.diagnostics.nudge:Nudge",
        "loss_decrease": "walkback.protocol.diagnostics.loss_decrease:LossDecrease",
        "depth_gain": "walkback.protocol.diagnostics.depth_gain:DepthGain",
        "readout_gain": "walkback.protocol.diagnostics.linear_readouts:ReadoutGain",
        "stem_gain": "walkback.protocol.diagnostics.linear_readouts:StemGain",
        "head_gain": "walkback.protocol.diagnostics.linear_readouts:HeadGain",
        "init_growth": "walkback.protocol.diagnostics.init_growth:InitGrowth",
        "total_growth": "walkback.protocol.diagnostics.total_growth:TotalGrowth",
        "movement": "walkback.protocol.diagnostics.movement:Movement",
        "error_free_floor": "walkback.protocol.diagnostics.error_free_floor:ErrorFreeFloor",
        "sample_overlap": "walkback.protocol.diagnostics.sample_overlap:SampleOverlap",
        "update_provenance": "walkback.protocol.diagnostics.update_provenance:ProvenanceOfUpdates",
        "headline_check": "walkback.protocol.diagnostics.headline_check:HeadlineCheck",
        "reference_doubt": "walkback.protocol.diagnostics.reference_doubt:ReferenceDoubt",
        "block_growth": "walkback.protocol.diagnostics.block_growth:BlockGrowth",
        "idle_block": "walkback.protocol.diagnostics.idle_block:IdleBlock",
        "head_gap": "walkback.protocol.diagnostics.linear_readouts:HeadGap",
        "disguise": "walkback.protocol.diagnostics.disguise:Disguise",
    },
    group="diagnostics",
    check="walkback.protocol.diagnostics.check:check_diagnostic",
)

PANELS = Registry(
    "panel",
    {
        "april2026": "walkback.protocol.panels.april2026:APRIL_2026",
        "june2026": "walkback.protocol.panels.june2026:JUNE_2026",
        "calibrated": "walkback.protocol.panels.calibrated:CALIBRATED",
    },
    group="panels",
    check="walkback.protocol.panels.base:check_panel",
)

RENDERERS = Registry(
    "renderer",
    {
        "brief": "walkback.present.text:render_brief",
        "text": "walkback.present.text:render",
        "markdown": "walkback.present.markdown:render",
        "latex": "walkback.present.latex:render",
        "html": "walkback.present.html:render",
        "notebook": "walkback.present.notebook:render",
    },
    group="renderers",
    check="walkback.present:check_renderer",
)
