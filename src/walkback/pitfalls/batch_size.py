"""8: gradient norms and directions that depend on the batch size."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.pitfalls.residual_mlp import ResidualMLP
    from walkback.protocol.records import DiagnosticReport

SAMPLES, WIDTH = 2048, 256
SMALL, LARGE = 128, 1024
GROWN = 1.6e4
"""How many times larger the stream is than at random init: a network on its way to explode, made without training."""


def reproduce() -> Reproduction:
    """One untrained network with a large stream, measured in small batches and in large ones."""
    import walkback
    from walkback.pitfalls.residual_mlp import batches, seeded

    with seeded(0):
        model, inputs, targets = _network_and_data()
    figures = {n: naive_figures(model, batches(inputs, targets, n)) for n in (SMALL, LARGE)}
    reports = {n: walkback.diagnose(model, batches(inputs, targets, n), blocks="blocks.*") for n in (SMALL, LARGE)}
    (small_g, small_c), (large_g, large_c) = figures[SMALL], figures[LARGE]
    (ours_g, same_g), (ours_c, same_c) = ([_figure(reports[n], letter) for n in (SMALL, LARGE)] for letter in "bc")
    sizes = f"n = {SMALL}, n = {LARGE}"
    return Reproduction(
        f"An untrained residual MLP (d = {WIDTH}) whose stem is scaled by {GROWN:g}, on {SAMPLES} made-up samples, in "
        f"batches of n = {SMALL} and of n = {LARGE}. (b) fires under 1e-07, (c) above 0.3.",
        (
            Row(
                f"‖g_L‖ at {sizes}",
                f"{small_g:.2g}, {large_g:.2g}",
                f"{ours_g:.2g}, {same_g:.2g}",
                "4.6e-7 at n = 128 passes, 4.6e-8 at n = 1280 fires",
            ),
            Row(
                f"(c) at {sizes}",
                f"{small_c:.3f}, {large_c:.3f}",
                f"{ours_c:.3f}, {same_c:.3f}",
                "untrained: 0.057 at n = 32, 0.469 at n = 512",
            ),
        ),
        (
            Claim("‖g_L‖ of a batch-mean loss passes at the smaller n, fires at the larger", large_g < 1e-7 < small_g),
            Claim("its ratio is that of the batch sizes", abs(small_g / large_g / (LARGE / SMALL) - 1) < 0.01),
            Claim("(c) of batch means passes at the smaller n, fires at the larger", small_c < 0.3 < large_c),
            Claim("walkback gives the same figures for both", ours_g == same_g and ours_c == same_c),
        ),
    )


def _network_and_data() -> tuple[ResidualMLP, Tensor, Tensor]:
    import torch

    from walkback.pitfalls.residual_mlp import CLASSES, INPUTS, ResidualMLP

    model = ResidualMLP(WIDTH)
    inputs = torch.randn(SAMPLES, INPUTS)
    targets = (inputs @ torch.randn(INPUTS, CLASSES)).argmax(dim=1)
    with torch.no_grad():
        for parameter in model.stem.parameters():
            parameter.mul_(GROWN)
    return model, inputs, targets


def naive_figures(model: ResidualMLP, loader: list[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """The median ‖g_L‖ and the mean cosine of batch-mean gradients, as a script computes them from its loader."""
    import torch
    import torch.nn.functional as F

    norms, means = [], []
    for x, y in loader:
        hiddens, logits = model.sites(x)
        loss = F.cross_entropy(logits, y)
        middle, last = torch.autograd.grad(loss, [hiddens[len(model.blocks) // 2], hiddens[-1]])
        norms.append(last.double().norm(dim=1))
        means.append(middle.double().mean(dim=0))
    cosines = [a @ b / (a.norm() * b.norm()) for a, b in combinations(means, 2)]
    return float(torch.cat(norms).median()), float(torch.stack(cosines).mean())


def _figure(report: DiagnosticReport, letter: str) -> float:
    figure = report.reading(letter).value
    assert figure is not None
    return figure


PITFALL = Pitfall(
    number=8,
    title="figures that depend on the batch size",
    explanation="The gradient of a loss that is averaged over n samples is 1/n of a sample's own: ‖g‖ falls with the "
    "batch. The cosine of batch means rises with it, because a mean keeps what samples share and averages the rest "
    "away. The same network passes or fires by the setting of its loader.",
    lies="loss = F.cross_entropy(logits, targets)",
    instead='loss = F.cross_entropy(logits, targets, reduction="sum") / 128   # one convention, whatever the batch',
    question="Is the batch size of every gradient figure stated, and one convention used throughout?",
    avoided="Per-sample gradients are scaled to one convention, a loss averaged over 128; (c) is judged on groups of "
    "128 in order, and the drift share beside it does not depend on n at all.",
    where="walkback.protocol.diagnostics.direction_drift:DirectionDrift",
    reproduce=reproduce,
    published="one network: ‖g_L‖ 4.6e-7 at n = 128 passes, 4.6e-8 at n = 1280 fires; untrained: (c) 0.057 at n = 32, "
    "0.469 at n = 512",
)
