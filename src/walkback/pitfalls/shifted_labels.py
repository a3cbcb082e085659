"""12: labels that the model shifts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

if TYPE_CHECKING:
    from torch import Tensor

WORDS, WIDTH, LENGTH, STEPS, BATCH, SEED = 64, 64, 32, 150, 32, 0
STRIDES = (3, 5, 7)


def language_model() -> Any:
    """A small causal language model with tied embeddings that takes `labels`, and shifts them itself.

    As Hugging Face's do: called with labels equal to its inputs, it scores what it says at t against the token at
    t + 1.
    """
    import torch.nn.functional as F
    from torch import nn

    class CausalLM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(WORDS, WIDTH)
            self.mix = nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.out = nn.Linear(WIDTH, WIDTH)

        def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
            hidden = self.embed(input_ids)
            logits = (hidden + self.out(self.mix(hidden)[0])) @ self.embed.weight.t()
            if labels is None:
                return {"logits": logits}
            return {"logits": logits, "loss": F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())}

    return CausalLM()


def sequences(count: int, strides: tuple[int, ...] = STRIDES) -> Tensor:
    """Each begins anywhere and goes on in steps of one stride: after two tokens the next is certain."""
    import torch

    start, which = torch.randint(WORDS, (count, 1)), torch.randint(len(strides), (count, 1))
    return (start + torch.tensor(strides)[which] * torch.arange(LENGTH)) % WORDS


def train(model: Any, steps: int) -> None:
    """By Adam on its own loss, on new sequences at every step."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        tokens = sequences(BATCH)
        optimizer.zero_grad()
        model(tokens, labels=tokens)["loss"].backward()
        optimizer.step()


def accuracies(model: Any, tokens: Tensor) -> tuple[float, float]:
    """(position t against label t, position t against label t + 1), on what was passed as `labels=`."""
    import torch

    with torch.no_grad():
        said = model(tokens, labels=tokens)["logits"].argmax(dim=-1)
    same, next_one = said == tokens, said[:, :-1] == tokens[:, 1:]
    return float(same.double().mean()), float(next_one.double().mean())


def gradient_cosine(model: Any, tokens: Tensor) -> float:
    """The mean cosine over sequences between the gradients at the logits' input of the two losses."""
    import torch
    import torch.nn.functional as F

    from walkback.protocol import numerics

    hidden = model.embed(tokens)
    stream = hidden + model.out(model.mix(hidden)[0])
    logits = stream @ model.embed.weight.t()
    plain = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum")
    shifted = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
    one, other = (torch.autograd.grad(loss, stream, retain_graph=True)[0].flatten(1) for loss in (plain, shifted))
    return float(numerics.cosines(one, other).mean())


def reproduce() -> Reproduction:
    """One language model, before and after training, scored at the same position and at the next."""
    from walkback.pitfalls.residual_mlp import seeded
    from walkback.present.numbers import percent, signed

    with seeded(SEED):
        model, held = language_model(), sequences(256)
        before = accuracies(model, held)
        train(model, STEPS)
        after, cosine = accuracies(model, held), gradient_cosine(model, held)
    return Reproduction(
        f"A causal language model with tied embeddings (GRU, width {WIDTH}, {WORDS} words) that shifts its labels "
        f"itself, trained for {STEPS} steps on sequences whose next token is certain after two; 256 held-out sequences "
        f"of {LENGTH}.",
        (
            Row("accuracy before training", percent(before[0]), percent(before[1])),
            Row("accuracy after training", percent(after[0]), percent(after[1])),
            Row("cosine of the two losses' gradients, trained", signed(cosine), signed(1.0)),
        ),
        (
            Claim("unshifted, the untrained network is right on more than 90 %", before[0] > 0.9),
            Claim("shifted, it is near chance: right on less than 10 %", before[1] < 0.1),
            Claim("unshifted, the trained network is right on less than 10 %", after[0] < 0.1),
            Claim("shifted, it is right on more than 80 %", after[1] > 0.8),
            Claim("the unshifted loss has a gradient of its own: cosine below 0.5", cosine < 0.5),
        ),
    )


PITFALL = Pitfall(
    number=12,
    title="labels that the model shifts itself",
    explanation="Causal language models take labels equal to their inputs and score the answer at t against the token "
    "at t + 1. Code that compares the logits with those labels position by position asks whether the network repeats "
    "its input. With tied embeddings an untrained network does, so it scores high, and a trained one scores near 0; "
    "the gradient of such a loss is that of another task.",
    lies="out = model(input_ids=x, labels=x)\naccuracy = (out.logits.argmax(-1) == x).float().mean()",
    instead="out = model(input_ids=x, labels=x)\naccuracy = (out.logits[:, :-1].argmax(-1) == x[:, 1:]).float().mean()",
    question="Where a model takes labels, is each answer compared with the label that the model's own loss compares it "
    "with?",
    avoided="Where a model gives its own loss of a batch, the per-sample loss and the accuracy are those that "
    "reproduce it, plain or shifted; where neither does, loss= is asked for.",
    where="walkback.protocol.own_loss:loss_taken",
    reproduce=reproduce,
)
