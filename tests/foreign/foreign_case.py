"""What a case of the table is, and the truth that its report is held against: fp64, one sample at a time."""

import copy
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import walkback
from walkback.errors import InputError

GROUP = 128
"""The published gradient norms are those of a loss averaged over this many samples."""
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Truth:
    """Medians over samples at each site; None for what no reference exists for, or no credit is given to."""

    norms: list
    grads: list | None
    accuracy: float | None = None
    alignment: list | None = None
    perplexity: float | None = None


@dataclass(frozen=True)
class Subject:
    """A network, what it is measured on, and what is true of it."""

    model: nn.Module
    batches: list
    truth: Truth
    blocks: str = ""
    """What must be found, as the report writes it."""
    arguments: dict = field(default_factory=dict)
    """What its author would pass unasked."""
    remedies: tuple = ()
    """What each refusal asks for: further arguments, or `model`, another form of the network."""
    tolerance: float = TOLERANCE
    also: Callable[[Any], None] = lambda report: None
    """What else must hold of the report."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    guards: str
    """The mechanism that this network tries, in one short sentence."""
    build: Callable[[], Subject]
    refused: tuple = ()
    """What the refusals say to do, one after the other, as patterns; empty where the network is measured unaided."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    case: Case
    report: Any
    """Of the network as it came, or with the remedy."""
    sentences: tuple = ()
    """The refusals, where it was refused as it came."""


def run(case):
    """Diagnose the network as it came, and with the remedy where it is refused; held against the truth."""
    torch.manual_seed(0)
    subject = case.build()
    assert len(case.refused) == len(subject.remedies)
    model, arguments, sentences = subject.model, dict(subject.arguments), []
    for pattern, remedy in zip(case.refused, subject.remedies, strict=True):
        sentence, _ = attempt(model, subject.batches, arguments)
        assert re.search(pattern, sentence), sentence or f"{case.name} was expected to be refused"
        sentences.append(sentence)
        arguments |= {name: value for name, value in remedy.items() if name != "model"}
        model = remedy.get("model", model)
    sentence, report = attempt(model, subject.batches, arguments)
    assert not sentence, sentence
    holds(report, subject)
    return Outcome(case, report, tuple(sentences))


def attempt(model, batches, arguments):
    """(the sentence of a refusal, None or a report): by an error, or by (b) and (c) that are not measured."""
    try:
        report = walkback.diagnose(model, batches, **arguments)
    except InputError as error:
        return str(error), None
    asked = arguments.get("gradients", True) is False or arguments.get("reference") == "declared"
    if report.bp_grad_norms is None and not asked:
        return report.reading("b").sentence, report
    return "", report


def holds(report, subject):
    """Every figure that the truth knows."""
    truth, tolerance = subject.truth, subject.tolerance
    if subject.blocks:
        assert report.provenance["blocks"].rpartition(" (")[0] == subject.blocks, report.provenance["blocks"]
    close(report.residual_norms, truth.norms, tolerance, "‖h_l‖")
    if truth.grads is None:
        assert report.bp_grad_norms is None
    else:
        close(report.bp_grad_norms, truth.grads, tolerance, "‖g_l‖")
        assert report.reference_check.passed is not False
    if truth.accuracy is not None:
        assert report.headline_acc is not None
        assert abs(report.headline_acc - truth.accuracy) < tolerance, (report.headline_acc, truth.accuracy)
    if truth.alignment is not None:
        assert len(report.alignment.sites) == len(truth.alignment)
        for got, want in zip(report.alignment.sites, truth.alignment, strict=True):
            assert abs(got - want) < tolerance, (report.alignment.sites, truth.alignment)
    if truth.perplexity is not None:
        close([report.perplexity], [truth.perplexity], tolerance, "perplexity")
    subject.also(report)


def close(got, want, tolerance, what):
    """Relative, site by site."""
    assert got is not None, f"{what} was not measured"
    assert len(got) == len(want), (what, list(got), want)
    for one, other in zip(got, want, strict=True):
        assert abs(one - other) <= tolerance * abs(other), (what, list(got), want)


# The truth.


def cross_entropy(logits, target):
    """One sample's loss; over tokens it is the mean of those that are scored."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


def doubled(model):
    """A copy in fp64 and eval mode whose parameters take part in autograd."""
    twin = copy.deepcopy(model).double().eval()
    for parameter in twin.parameters():
        parameter.requires_grad_(True)
    return twin


def truth_of(
    sites, batches, *, loss=cross_entropy, credit=None, token=None, gradients=True, declared=False, dtype=torch.float64
):
    """Medians of ‖h_l‖ and ‖∂ℓ/∂h_l‖/128, accuracy, and mean cosines, by `sites(x)` → (h_0 … h_L, logits).

    `credit(hiddens, logits, target)` is written apart from the one that the case gives; `token` takes one token alone;
    `declared` leaves the gradient to Γ.
    """
    norms, grads, cosines, right = [], [], [], []
    for inputs, targets in pairs(batches, dtype):
        for i in range(len(targets)):
            x, target = one(inputs, i), targets[i : i + 1]
            hiddens, logits = sites(x)
            vectors = [flat(h.detach(), token) for h in hiddens]
            norms.append([float(v.norm()) for v in vectors])
            if not target.is_floating_point() and logits.ndim == 2:
                right.append(float(logits.argmax(-1) == target))
            if not gradients:
                continue
            found = torch.autograd.grad(loss(logits, target), hiddens, materialize_grads=True)
            found = [flat(g, token) for g in found]
            grads.append([float(g.norm()) / GROUP for g in found])
            if credit is not None:
                given = [
                    flat(a.detach(), token) for a in credit([h.detach() for h in hiddens], logits.detach(), target)
                ]
                cosines.append([float(a @ g / (a.norm() * g.norm())) for a, g in zip(given, found, strict=True)])
    return Truth(
        norms=medians(norms),
        grads=medians(grads) if grads and not declared else None,
        accuracy=statistics.fmean(right) if right else None,
        alignment=[statistics.fmean(column) for column in zip(*cosines, strict=True)] if cosines else None,
    )


def pairs(batches, dtype=torch.float64):
    """(inputs, targets) in fp64, of batches as pairs or mappings."""
    for batch in batches:
        inputs, targets = batch if isinstance(batch, tuple) else (dict(batch), batch["labels"])
        if isinstance(inputs, dict):
            inputs.pop("labels")
        yield cast(inputs, dtype), cast(targets, dtype)


def cast(value, dtype):
    """Floating values in another precision, the rest as it is."""
    if isinstance(value, dict):
        return {name: cast(part, dtype) for name, part in value.items()}
    return value.to(dtype) if value.is_floating_point() else value


def one(inputs, i):
    """One sample with its batch axis; floating inputs may be sites themselves."""
    if isinstance(inputs, dict):
        return {name: one(part, i) for name, part in inputs.items()}
    x = inputs[i : i + 1].clone()
    return x.requires_grad_() if x.is_floating_point() else x


def flat(tensor, token):
    """One vector of one sample."""
    tensor = tensor if token is None else tensor[:, token]
    return tensor.reshape(-1).double()


def medians(rows):
    """Of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]
