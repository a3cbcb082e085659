"""`walkback.diagnose` against a bare forward and backward pass on the same batches, as ratios in one run.

The reference check and (a) to (c) are in every figure. What is measured on request alone is timed apart: with it, over
without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import walkback
from ratios import interleaved, ratio, write
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo.contract import DataSpec

CIFAR = DataSpec((3, 32, 32), 10)
Batches = list[tuple[Tensor, Tensor]]


class Case(NamedTuple):
    """A network and its batches."""

    build: Callable[[], nn.Module]
    image: int
    batch: int
    batches: int
    limit: float
    pace: float = 1.0
    """How many rounds, in shares of those asked for: a pass over few samples is short, one of a large network long."""


def zoo(name: str) -> Callable[[], nn.Module]:
    return lambda: ARCHITECTURES.load(name)(CIFAR)


def hugging_face_vit() -> nn.Module:
    import transformers

    config = transformers.ViTConfig(
        image_size=96, patch_size=16, hidden_size=384, num_hidden_layers=12, num_attention_heads=6,
        intermediate_size=1536, num_labels=10,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


CASES = {
    "resmlp d=256, 4 blocks": Case(zoo("resmlp"), 32, 128, 10, 0.62),
    "vit_mini d=128, 4 blocks": Case(zoo("vit_mini"), 32, 128, 10, 0.75),
    "Hugging Face ViT d=384, 12 layers, 96 × 96, batches of 16": Case(hugging_face_vit, 96, 16, 10, 0.75, 0.4),
    "Hugging Face ViT d=384, 12 layers, 96 × 96, batches of 64": Case(hugging_face_vit, 96, 64, 10, 0.75, 0.2),
    "Hugging Face ViT d=384, 12 layers, 96 × 96, 64 samples in all": Case(hugging_face_vit, 96, 64, 1, 1.0),
}
EXTRAS: dict[str, dict[str, Any]] = {
    "readouts": {"readouts": True},
    "ρ and nudge, 32 directions": {"functional": 32},
}
EXTRAS_OF = "resmlp d=256, 4 blocks"


def made(case: Case) -> tuple[nn.Module, Batches]:
    torch.manual_seed(0)
    shape = (case.batch, 3, case.image, case.image)
    batches = [(torch.randn(shape), torch.randint(0, 10, (case.batch,))) for _ in range(case.batches)]
    return case.build().eval(), batches


def bare(model: nn.Module, batches: Batches) -> None:
    for inputs, targets in batches:
        model.zero_grad(set_to_none=True)
        output = model(inputs)
        F.cross_entropy(output if isinstance(output, Tensor) else output.logits, targets).backward()


def compare(case: Case, rounds: int) -> dict[str, float]:
    model, batches = made(case)
    variants = {"bare": lambda: bare(model, batches), "diagnose": lambda: walkback.diagnose(model, batches)}
    return ratio(interleaved(variants, rounds), "diagnose", "bare")


def credit_of(model: Any) -> Callable[[list[Tensor], Tensor, Tensor], list[Tensor]]:
    """DFA's credit, which ρ and nudge need: one fixed matrix for every site."""
    generator = torch.Generator().manual_seed(2)
    feedback = [torch.randn(10, *shape, generator=generator) for shape in model.site_shapes]

    def credit(hiddens: list[Tensor], logits: Tensor, targets: Tensor) -> list[Tensor]:
        error = logits.softmax(1) - F.one_hot(targets, 10)
        return [torch.tensordot(error, matrix, 1) for matrix in feedback]

    return credit


def extras(rounds: int) -> dict[str, dict[str, float]]:
    """What is measured on request: diagnose with it, over diagnose with the same credit and without it."""
    model, batches = made(CASES[EXTRAS_OF])
    credit = credit_of(model)
    variants: dict[str, Callable[[], object]] = {
        "plain": lambda: walkback.diagnose(model, batches, credit=credit, null_draws=0)
    }
    for name, asked in EXTRAS.items():
        variants[name] = lambda asked=asked: walkback.diagnose(model, batches, credit=credit, null_draws=0, **asked)
    seconds = interleaved(variants, rounds)
    return {name: ratio(seconds, name, "plain") for name in EXTRAS}


def main() -> None:
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    figures: dict[str, object] = {}
    print("diagnose over bare forward + loss.backward(), one thread")
    for name, case in CASES.items():
        measured = compare(case, max(2, round(case.pace * rounds)))
        figures[name] = measured | {"limit": case.limit}
        quartiles = f"{measured['lower_quartile']:.3f} … {measured['upper_quartile']:.3f}"
        print(f"  {name:60s} {measured['ratio']:.3f}  (quartiles {quartiles}; limit {case.limit})")
    asked = extras(rounds)
    print(f"diagnose with what is measured on request, over diagnose without it, {EXTRAS_OF}")
    for name, measured in asked.items():
        print(f"  {name:60s} {measured['ratio']:.3f}")
    content = {"what": "diagnose / bare forward+backward", "ratios": figures, "on_request": asked, "of": EXTRAS_OF}
    print(f"written to {write('bench_diagnose', content)}")


if __name__ == "__main__":
    main()
