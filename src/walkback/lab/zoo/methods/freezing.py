"""Baselines that ask what the blocks are worth: leave all or some of them untrained, or leave them out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from walkback.errors import InputError
from walkback.lab.zoo.contract import Block, BlockModel
from walkback.lab.zoo.methods.site_vectors import has_tokens
from walkback.protocol.schema import shortened


@dataclass(frozen=True)
class Ladder:
    """Only the last blocks learn; written `ladder:2`."""

    last: int
    """How many, counted from the head; 1 or more, and fewer than there are."""

    def __post_init__(self) -> None:
        if self.last < 1:
            raise InputError(f"a ladder that trains the last {self.last} blocks; expected 1 or more.")

    def __str__(self) -> str:
        return f"ladder:{self.last}"


_Word = Literal["none", "blocks", "shallow"]
Freezing = _Word | Ladder
_WORDS: dict[str, _Word] = {word: word for word in get_args(_Word)}


def read_freezing(word: str) -> Freezing:
    """What `none`, `blocks`, `shallow` or `ladder:K` stands for; anything else is refused.

    `ladder:0` is `blocks`: no block learns. Each rung is written in one way, so that a run has one id.
    """
    if word in _WORDS:
        return _WORDS[word]
    rung = re.fullmatch("ladder:(0|[1-9][0-9]{0,4})", word)
    if rung is None:
        raise InputError(
            f"freezing is {shortened(word)}; expected one of {', '.join(_WORDS)}, or ladder:K, such as ladder:2, "
            "where the last K blocks learn and the others do not."
        )
    last = int(rung[1])
    return Ladder(last) if last else "blocks"


def freeze(model: BlockModel, freezing: Freezing | str) -> BlockModel:
    """The model with its blocks left as they are; do this before a method is made for it.

    `blocks`: the blocks keep their initial weights and take no gradient; the stem learns from a_0, which for
    a method that carries the error back comes through the frozen blocks. BatchNorm's running statistics in
    them go on following the data, because evaluation needs them. `ladder:K`: the same of all blocks but the last
    K. `shallow`: no blocks at all, the head reads h_0; the stem and the head are the model's own.
    """
    chosen = read_freezing(freezing) if isinstance(freezing, str) else freezing
    if chosen == "shallow":
        return _without_blocks(model)
    if chosen != "none":
        for block in _left_untrained(model, chosen.last if isinstance(chosen, Ladder) else 0):
            block.requires_grad_(False)
    return model


def _left_untrained(model: BlockModel, last: int) -> list[Block]:
    """All blocks but the last ones; where none would be left, that is another run's freezing, and is refused."""
    blocks = list(model.blocks)
    if last and last >= len(blocks):
        has = "1 block" if len(blocks) == 1 else f"{len(blocks)} blocks"
        raise InputError(
            f"freezing is 'ladder:{last}', and the network has {has}. Use a number below that, "
            "or freezing 'none', where all of them learn."
        )
    return blocks[: len(blocks) - last]


def _without_blocks(model: BlockModel) -> BlockModel:
    first, last = model.site_shapes[0], model.site_shapes[-1]
    if has_tokens(first) and not model.data.target_shape:
        raise InputError(
            "freezing 'shallow' leaves out the blocks, but the head reads the class token, which sees the image "
            "through them alone. Use freezing 'blocks' for this architecture."
        )
    if first != last:
        raise InputError(
            f"freezing 'shallow' leaves out the blocks, but the head reads a site of shape {last} and the "
            f"stem writes one of {first}. Use freezing 'blocks' for this architecture."
        )
    return BlockModel(model.stem, [], model.head, model.data)
