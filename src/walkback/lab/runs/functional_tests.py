"""The functional tests on a network of the zoo: does the credit that its method hands over tell how the loss moves?

The rest of the network is a copy in fp64; states and credit are those of the network itself, in eval mode. The model
and every random state are left as they were.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from walkback.errors import PitfallError, WalkbackError
from walkback.lab.runs.assembly import Assembly
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.depth_tests import logits_from
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.linear_probe import sites_of
from walkback.lab.runs.measure import NO_BLOCKS
from walkback.lab.zoo import BlockModel
from walkback.lab.zoo.answers import sample_losses
from walkback.lab.zoo.datasets import Batch
from walkback.protocol.credit import Trace, credits_for
from walkback.protocol.functional import DIRECTIONS, Site, respond
from walkback.protocol.functional_figures import INTERVAL, figures_of
from walkback.protocol.losses import error_at_logits
from walkback.protocol.untouched import untouched

SAMPLES = 256
"""The first of the held-out ones: all 1280 would take ResMLP with d = 256 and four blocks eleven seconds, not two."""


def functional_tests(config: RunConfig, run: Assembly, batches: Sequence[Batch]) -> dict[str, Any]:
    """Perturbation and nudge at every site h_0 … h_L, each figure a list over sites; or why there is none.

    A site that cannot be measured has None in every list, and its reason in `unmeasured_sites`.
    """
    if not len(run.model.blocks):
        return {"unmeasured": NO_BLOCKS}
    try:
        with untouched(run.model):
            return _measured(config, run, batches)
    except PitfallError:
        raise  # somebody asked for it, with walkback.strict()
    except WalkbackError as error:
        return {"unmeasured": str(error)}


def _measured(config: RunConfig, run: Assembly, batches: Sequence[Batch]) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(derived_seed(config.seed, "functional tests"))
    sites = sites_to_test(run, batches)
    figures: list[dict[str, Any] | None] = []
    reasons: dict[str, str] = {}
    for number, site in enumerate(sites):
        responses = respond(site, generator, DIRECTIONS)
        why_not = responses.why_not()
        figures.append(None if why_not else asdict(figures_of(responses)))
        if why_not:
            reasons[str(number)] = why_not
    return {
        "unmeasured": "",
        "unmeasured_sites": reasons,
        "samples": len(sites[0].targets),
        "directions": DIRECTIONS,
        "interval": INTERVAL,
        **columns(figures),
    }


def sites_to_test(run: Assembly, batches: Sequence[Batch]) -> list[Site]:
    """Every site on the first samples, with its credit and the rest of the network in fp64.

    Credit is asked for batch by batch, as a method may scale it by its batch.
    """
    traces = traces_of(run, batches)
    credits = [credits_for(run.method, trace) for trace in traces]
    hiddens = [_first(site) for site in zip(*(trace.hiddens for trace in traces), strict=True)]
    targets = torch.cat([trace.targets for trace in traces])[:SAMPLES]
    twin = copy.deepcopy(run.model).double()
    losses = partial(sample_losses, output=run.model.output)
    return [
        Site(hidden, _first(credit), targets, partial(logits_from, twin, number), losses)
        for number, (hidden, credit) in enumerate(zip(hiddens, zip(*credits, strict=True), strict=True))
    ]


def traces_of(run: Assembly, batches: Sequence[Batch]) -> list[Trace]:
    """One forward pass for each of the first batches, until there are as many samples as are tested."""
    traces: list[Trace] = []
    for inputs, targets in batches:
        if sum(len(trace.targets) for trace in traces) < SAMPLES:
            traces.append(_trace(run.model, inputs, targets))
    return traces


def _trace(model: BlockModel, inputs: Tensor, targets: Tensor) -> Trace:
    with torch.no_grad():
        hiddens = list(sites_of(model, inputs))
        logits = model.head(hiddens[-1])
    loss = None if model.output == "softmax" else partial(sample_losses, output=model.output)
    return Trace(inputs, hiddens, logits, targets, error_at_logits(loss, logits, targets))


def _first(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts))[:SAMPLES].double()


def columns(rows: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Nested figures of each site → the same nesting with a list over sites in place of each; None where unknown."""
    example = next((row for row in rows if row is not None), {})
    return {name: _column(value, [row and row[name] for row in rows]) for name, value in example.items()}


def _column(example: Any, entries: list[Any]) -> Any:
    if isinstance(example, Mapping):
        return columns(entries)
    return [None if entry is None or not math.isfinite(entry) else entry for entry in entries]
