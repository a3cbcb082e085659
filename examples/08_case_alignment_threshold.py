"""Case study: an alignment measure that sets small entries to zero and scores what is left as 1.

    python examples/08_case_alignment_threshold.py                              # a few seconds
    python examples/08_case_alignment_threshold.py --write docs/case-studies/alignment-threshold.md

The rule is that of TinyDFA's `AlignmentMeasurement` (lightonai/dfa-scales-to-modern-deep-learning, commit 4381634),
written anew here in a few lines: the package is on no index that pip reads.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F

import walkback
from walkback.lab.zoo import DataSpec, build_method, build_model

SENSITIVITY = 1e-8
WIDTH, INPUTS, CLASSES, STEPS, SEED = 64, 16, 10, 200, 0
SCALES = (1.0, 1e-3, 1e-6, 1e-9, 1e-12)


def thresholded_alignment(credit, gradient):
    """Per sample: entries of at most 1e-8 are zero, and a pair whose entries sum to zero counts as aligned."""
    credit, gradient = credit.clone(), gradient.clone()
    credit[credit.abs() <= SENSITIVITY] = 0  # noqa: WB009
    gradient[gradient.abs() <= SENSITIVITY] = 0  # noqa: WB009
    cosine = F.cosine_similarity(credit / SENSITIVITY, gradient / SENSITIVITY, eps=SENSITIVITY)
    cosine[credit.sum(dim=1) + gradient.sum(dim=1) == 0] = 1.0
    return cosine


def made_data(samples=1280):
    generator = torch.Generator().manual_seed(SEED)
    inputs = torch.randn(samples, INPUTS, generator=generator)
    return inputs, (inputs @ torch.randn(INPUTS, CLASSES, generator=generator)).argmax(dim=1)


def trained(inputs, targets):
    """A residual MLP after some steps of DFA, and the method with its feedback."""
    torch.manual_seed(SEED)
    model = build_model("resmlp", DataSpec((INPUTS,), CLASSES), width=WIDTH)
    method = build_method("dfa", model, torch.Generator().manual_seed(SEED))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        part = slice(128 * (step % 10), 128 * (step % 10 + 1))
        method.accumulate(inputs[part], targets[part])
        optimizer.step()
        optimizer.zero_grad()
    return model, method


class Scaled:
    """The method's credit times a number, as a loss times that number gives it."""

    def __init__(self, method, scale):
        self.method, self.scale = method, scale

    def credits(self, trace):
        return [self.scale * credit for credit in self.method.credits(trace)]


def deep_alignments(model, method, inputs, targets, scale):
    """The mean over deep sites by the thresholded measure and by walkback, for a mean loss times `scale`."""
    factor = scale / 128  # a loss averaged over a batch of 128

    def loss(logits, labels):
        return factor * F.cross_entropy(logits, labels, reduction="none")

    seen = []

    class Watching(Scaled):
        def credits(self, trace):
            credits = super().credits(trace)
            with torch.enable_grad():
                sites = [trace.hiddens[0].detach().requires_grad_()]
                for block in model.blocks:
                    sites.append(block(sites[-1]))
                gradients = torch.autograd.grad(loss(model.head(sites[-1]), trace.targets).sum(), sites)
            seen.append([thresholded_alignment(a, g) for a, g in zip(credits[1:], gradients[1:], strict=True)])
            return credits

    batches = list(zip(inputs.split(128), targets.split(128), strict=True))
    report = walkback.diagnose(model, batches, loss=loss, credit=Watching(method, factor))
    measured = torch.stack([torch.cat([batch[site] for batch in seen]).mean() for site in range(len(model.blocks))])
    return float(measured.mean()), report.alignment.deep


def study():
    """Both measures at every scale."""
    inputs, targets = made_data()
    model, method = trained(inputs, targets)
    return {scale: deep_alignments(model, method, inputs, targets, scale) for scale in SCALES}


def page(found):
    rows = "\n".join(f"| {scale:g} | {wrong:+.4f} | {right:+.4f} |" for scale, (wrong, right) in found.items())
    return f"""# An alignment measure with an absolute threshold

Made by `python examples/08_case_alignment_threshold.py --write docs/case-studies/alignment-threshold.md`
with torch {torch.__version__}. The rule is that of `AlignmentMeasurement` in TinyDFA
(lightonai/dfa-scales-to-modern-deep-learning, commit 4381634 of 2020, `TinyDFA/tinydfa/alignment.py`),
written anew in the example, since pip finds the package on no index; the example is about the rule, not
about the figures of the paper, which were measured at their own scale.

## What it does

Before the cosine, entries of credit and gradient of at most 1e-8 are set to zero. A sample whose two
vectors then sum to zero has no cosine, and is given 1. Both look like care with small numbers. But a cosine
does not depend on scale, and a threshold does.

## What comes out

A residual MLP (width {WIDTH}) after {STEPS} steps of DFA, and a loss averaged over batches of 128, times a
constant. The network, its feedback and every direction are the same in each row:

| loss × | deep Γ, thresholded | deep Γ, walkback |
| ---: | ---: | ---: |
{rows}

A loss of 1e-6 of its size turns a small alignment into a perfect one. On the way there the figure is biased
as well: small entries are lost first, and what is left is no longer the direction that was asked about. A
gradient at the numerical floor, where diagnostic (b) fires, is in that range without any scaling.

## What lint sees

Both lines that set entries to zero are `WB009`, in the example (where they are silenced, being its subject)
and in the original, where the threshold is called `sensitivity`. The cosine itself has an eps of its own
and is divided by it first: `WB002` is silent, rightly.

## The fix

Leave the entries as they are, take the cosine in float64 of vectors divided by their largest entry, and
report a sample without a direction as NaN or leave it out, with its number beside the mean. That is
`walkback.protocol.numerics.cosines`.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page to this file")
    target = parser.parse_args().write
    torch.set_num_threads(1)
    text = page(study())
    if target:
        target.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
