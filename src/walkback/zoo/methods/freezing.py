"""Baselines that ask what the blocks are worth: leave them untrained, or leave them out."""

from __future__ import annotations

from typing import Literal, get_args

from walkback.errors import InputError
from walkback.zoo.contract import BlockModel
from walkback.zoo.methods.site_vectors import has_tokens

Freezing = Literal["none", "blocks", "shallow"]


def freeze(model: BlockModel, freezing: Freezing) -> BlockModel:
    """The model with its blocks left as they are; do this before a method is made for it.

    `blocks`: the blocks keep their initial weights and take no gradient; the stem learns from a_0, which for
    a method that carries the error back comes through the frozen blocks. BatchNorm's running statistics in
    them go on following the data, because evaluation needs them. `shallow`: no blocks at all, the head reads
    h_0; the stem and the head are the model's own.
    """
    if freezing not in get_args(Freezing):
        raise InputError(f"freezing is {freezing!r}; expected one of {', '.join(get_args(Freezing))}.")
    if freezing == "shallow":
        return _without_blocks(model)
    if freezing == "blocks":
        model.blocks.requires_grad_(False)
    return model


def _without_blocks(model: BlockModel) -> BlockModel:
    first, last = model.site_shapes[0], model.site_shapes[-1]
    if has_tokens(first):
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
