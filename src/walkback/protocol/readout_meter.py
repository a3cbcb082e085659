"""What linear readouts are fitted on: the sites of the caller's own batches, in fp64 and of a bounded width."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.protocol.capture import Capture
from walkback.protocol.losses import IGNORED, right_of_each
from walkback.protocol.readout_fields import MOST_SAMPLES, MOST_WIDTH, POOLED_SIDE, SEED, readout_fields


def features(site: Tensor) -> Tensor:
    """One fp64 vector per sample: (B, d) as is, (B, T, d) the first token and the mean token side by side,
    (B, C, H, W) averaged to 2 × 2, anything else flattened."""
    wide = site.double()
    if wide.ndim == 3:
        return torch.cat([wide[:, 0], wide.mean(dim=1)], dim=1)
    if wide.ndim == 4:
        return F.adaptive_avg_pool2d(wide, POOLED_SIDE).flatten(1)
    return wide.flatten(1)


def reduced(rows: Tensor, most: int = MOST_WIDTH) -> Tensor:
    """Rows of at most this width: every entry goes, with a random sign, to one of the new ones (a count sketch).

    (B, d) → (B, min(d, most)). Inner products are kept on average, and no matrix of d × most is held.
    """
    width = rows.shape[1]
    if width <= most:
        return rows
    generator = torch.Generator().manual_seed(SEED)
    place = torch.randint(0, most, (width,), generator=generator).to(rows.device)
    sign = (2 * torch.randint(0, 2, (width,), generator=generator) - 1).to(rows)
    return torch.zeros(len(rows), most, dtype=rows.dtype, device=rows.device).index_add_(1, place, rows * sign)


class ReadoutMeter:
    """Features of every site, batch after batch, and in the end one readout for each."""

    def __init__(self) -> None:
        self.sites: list[list[Tensor]] = []
        self.right: list[Tensor] = []
        self.labels: list[Tensor] = []
        self.widths: tuple[int, ...] = ()
        self.samples, self.classes, self.unavailable = 0, 0, ""

    def add(self, seen: Capture) -> None:
        """Take the features of a batch, as long as there are not enough samples."""
        room = MOST_SAMPLES - self.samples
        if self.unavailable or room <= 0:
            return
        known = right_of_each(seen.trace.logits, seen.trace.targets)
        if known is None:
            self.unavailable = "Readouts need one class for each sample as its target."
            return
        scored = seen.trace.targets != IGNORED
        rows = [features(hidden.detach())[scored][:room] for hidden in seen.hiddens]
        self.widths = tuple(int(row.shape[1]) for row in rows)
        self.sites.append([reduced(row).cpu() for row in rows])
        right, labels = (column[:room] for column in known)
        self.right.append(right)
        self.labels.append(labels)
        self.samples += len(labels)
        self.classes = max(self.classes, int(seen.trace.logits.shape[1]))

    def fields(self) -> dict[str, Any]:
        """The readouts, as a field of `Measurements`; or why there are none."""
        if self.unavailable:
            return {"no_readouts": self.unavailable}
        sites = [torch.cat(parts).numpy() for parts in zip(*self.sites, strict=True)]
        right, labels = (torch.cat(column).numpy() for column in (self.right, self.labels))
        return readout_fields(sites, right, labels, self.classes, self.widths)
