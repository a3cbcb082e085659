"""Which of the known losses a model's own is, asked with targets that tell them apart, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from walkback.protocol.asking import Answer, answer_of, coarser, rounding, tolerance, tried
from walkback.protocol.batches import Batch, mapped
from walkback.protocol.loss_candidates import CANDIDATES, Candidate, half_padded, padding_suspects, telling_targets
from walkback.protocol.losses import IGNORED


def marked(targets: Tensor, padding: int | None) -> Tensor:
    """With −100 in the place of padding."""
    return targets if padding is None else targets.masked_fill(targets == padding, IGNORED)


@dataclass
class Fits:
    """The candidates that a model's loss has not ruled out yet."""

    misfits: dict[Candidate, float]
    """How far each is from the model's loss at most, relative to it, or to 1 where it is smaller."""
    padding: int | None = None
    """The target that is left out, besides −100."""

    @property
    def remaining(self) -> list[Candidate]:
        """Those that are left."""
        return list(self.misfits)

    @classmethod
    def of(cls, model: nn.Module, look: Batch, keyword: str, answer: Answer, padding: int | None = None) -> Fits:
        """Compare on the true targets, then on targets that tell the candidates apart."""
        fits = cls(dict.fromkeys(CANDIDATES, 0.0), padding)
        fits.compare(answer, look.targets)
        if not fits.remaining:
            return fits
        for others in telling_targets(answer.logits, marked(look.targets, padding)):
            targets = torch.where(others == IGNORED, look.targets, others)
            other = tried(answer_of, model, look, {keyword: targets})
            if isinstance(other, Answer) and other.loss is not None:
                fits.compare(other, targets)
        if len(fits.remaining) > 1:
            fits.tell_by_first(model, look, keyword)
        return fits

    def compare(self, answer: Answer, targets: Tensor) -> None:
        """Rule out what does not give this loss."""
        assert answer.loss is not None
        own, seen = float(answer.loss), self.misfits
        self.misfits = {}
        for candidate in seen:
            value = candidate.value(answer.logits, marked(targets, self.padding))
            if value is None:
                continue
            gap, size = abs(value - own), max(abs(value), abs(own))
            if gap <= tolerance(coarser(answer)) * size + rounding(answer):
                self.misfits[candidate] = max(seen[candidate], gap / max(size, 1.0))

    def tell_by_first(self, model: nn.Module, look: Batch, keyword: str) -> None:
        """Score the first target alone: moved by one token there is nothing left to score.

        Networks whose logits are the same for every token, such as those with a head of zeros, show it only here.
        """
        for asked in _first_tokens(look):
            other = tried(answer_of, model, asked, {keyword: asked.targets})
            if isinstance(other, Answer) and other.loss is not None:
                nothing = not bool(torch.isfinite(other.loss)) or float(other.loss) == 0
                self.misfits = {c: misfit for c, misfit in self.misfits.items() if c.shifted == nothing}
                return


def _first_tokens(look: Batch) -> Iterator[Batch]:
    """Batches of which the first token alone can be scored: sequences of one, or longer ones with the rest left out."""
    if look.targets.ndim != 2 or look.targets.is_floating_point():
        return
    length, first = look.targets.shape[1], look.targets[:, :1].clamp(min=0)
    inputs = mapped(look.inputs, lambda x: x[:, :1] if x.ndim > 1 and x.shape[1] == length else x)
    yield replace(look, inputs=inputs, targets=first)
    # Where −100 is no target for the model, a GPU would not survive the question.
    if look.targets.device.type == "cpu" or bool((look.targets == IGNORED).any()):
        rest = torch.full_like(look.targets[:, 1:], IGNORED)
        yield replace(look, targets=torch.cat([first, rest], dim=1))


def padding_of(model: nn.Module, look: Batch, keyword: str, targets: Tensor) -> int | None:
    """The target, besides −100, that the model's own loss leaves out of its mean; None where there is none."""
    for value in padding_suspects(targets, getattr(getattr(model, "config", None), "pad_token_id", None)):
        half = half_padded(look.targets, value)
        answer = tried(answer_of, model, look, {keyword: half})
        if not isinstance(answer, Answer) or answer.loss is None:
            continue
        scored, left_out = Fits(dict.fromkeys(CANDIDATES, 0.0)), Fits(dict.fromkeys(CANDIDATES, 0.0), value)
        scored.compare(answer, half)
        left_out.compare(answer, half)
        if left_out.remaining and not scored.remaining:
            return value
    return None
