"""What the zoo is made of: data of a known shape, a model of blocks, and a method that trains it.

    x ── stem ── h_0 ── block_1 ── h_1 ── … ── block_L ── h_L ── head ── logits

An architecture is a function from a `DataSpec` to a `BlockModel`; a method is an `nn.Module` that holds its
own feedback and says which credit a_l each site h_l gets. Any method trains any architecture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple, final

import torch
from torch import Tensor, nn

from walkback.lab.zoo.modes import evaluating
from walkback.lab.zoo.options import as_dict, read_options, require_at_least
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class DataSpec:
    """What a network is built for: the shape of one input, (C, H, W) or (D,), and the number of classes."""

    input_shape: tuple[int, ...]
    classes: int

    @property
    def features(self) -> int:
        """The number of values in one input."""
        return prod(self.input_shape)


class Block(nn.Module, ABC):
    """One step of the stream, h_l = join(h_{l−1}, f(h_{l−1})), by default the residual h + f(h)."""

    @abstractmethod
    def branch(self, hidden: Tensor) -> Tensor:
        """f(h): what the block computes, and what the penalty is on."""

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The next site from this one and the branch; a block without a skip returns the branch."""
        return hidden + branch

    def forward(self, hidden: Tensor) -> Tensor:
        """The next site."""
        return self.join(hidden, self.branch(hidden))


class SkiplessBlock(Block):
    """A block that replaces its input: h_l = f(h_{l−1}), so its branch is its output."""

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The branch alone."""
        return branch


class LinearBlock(Block):
    """A block whose last layer is a Linear: h + last(features(h)), or last(features(h)) for a `SkiplessBlock`.

    It computes what any block of these layers does; a method whose credit has a low rank makes its step cheaper by
    knowing the last layer. So that what it knows is true, neither `branch` nor `join` may be anything else: either
    `join` hands the gradient of what the block writes to its last layer as it is.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, known in (("branch", (LinearBlock.branch,)), ("join", (Block.join, SkiplessBlock.join))):
            if getattr(cls, name) not in known:
                raise TypeError(f"{cls.__name__} has a {name} of its own; make it a Block, not a LinearBlock.")

    @property
    @abstractmethod
    def last(self) -> nn.Linear:
        """The layer that writes into the stream."""

    @abstractmethod
    def features(self, hidden: Tensor) -> Tensor:
        """What the last layer reads."""

    @final
    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.last(self.features(hidden))  # type: ignore[no-any-return]


MOST_BLOCKS = 10_000
"""Blocks are made one by one: a number beyond all networks would fill the memory before anything could be said."""


class BlockList(nn.ModuleList):
    """The blocks in order; a plain ModuleList that says what it holds."""

    def __iter__(self) -> Iterator[Block]:
        return super().__iter__()  # type: ignore[return-value]


class BlockModel(nn.Module):
    """A network whose forward pass is head(block_L(… block_1(stem(x)))).

    The head holds the terminal norm, if there is one, the choice of what is read, and the linear readout.
    """

    def __init__(self, stem: nn.Module, blocks: Iterable[Block], head: nn.Module, data: DataSpec) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = BlockList(blocks)
        self.head = head
        self.data = data

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits, (B, …) → (B, classes)."""
        hidden = self.stem(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)  # type: ignore[no-any-return]

    @cached_property
    def site_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of one sample at each site h_0 … h_L, seen on an input of zeros."""
        parameter = next(self.parameters())
        with evaluating(self), torch.no_grad():
            hidden = self.stem(parameter.new_zeros(1, *self.data.input_shape))
            shapes = [tuple(hidden.shape[1:])]
            for block in self.blocks:
                hidden = block(hidden)
                shapes.append(tuple(hidden.shape[1:]))
        return tuple(shapes)


def learns(module: nn.Module) -> bool:
    """Whether any parameter of the module is trained."""
    return any(parameter.requires_grad for parameter in module.parameters())


class StepResult(NamedTuple):
    """What a training step saw; both without gradient."""

    loss: Tensor
    """The batch's mean cross-entropy, without the penalty or the method's own objective."""
    logits: Tensor


CreditNorm = Literal["none", "per_sample", "rms"]


@dataclass(frozen=True)
class MethodOptions:
    """Options that every method has."""

    credit_norm: CreditNorm = "none"
    """`per_sample`: each sample's credit is scaled to unit norm, so samples already learnt keep pushing. `rms`:
    a / (RMS(a) + ε) of each sample, as the source study has it, so that ‖a‖ is √d; a credit that is a gradient is
    that of the batch-mean loss there, and where that falls to ε the scaling fades."""
    rms_epsilon: float = 1e-6
    """ε of `rms`; the source study's value."""
    penalty: float = 0.0
    """λ of λ · mean over samples of ‖f_l(h_{l−1})‖², added to the objective of each block that learns."""


class Method(nn.Module, ABC):
    """A rule for credit, and the training step that follows from it.

    Feedback is held in buffers and submodules, so `state_dict` saves it. The model is not a submodule: it is
    saved by itself. A method whose feedback can be drawn again also has `redraw(generator)`.
    """

    model: BlockModel
    options_type: ClassVar[type[MethodOptions]] = MethodOptions
    independent_feedback: bool = False
    """Whether the feedback of different sites is drawn independently."""
    credit_is_gradient: ClassVar[bool] = False
    """Whether a sample's credit has the size of the gradient of its own loss, so that `rms` divides it by the batch."""

    def __init__(self, model: BlockModel, generator: torch.Generator | None = None, **options: Any) -> None:
        super().__init__()
        # Past nn.Module's own __setattr__, which would make the model a part of the method's state_dict.
        self.__dict__["model"] = model
        self.options = read_options(self._name(), self.options_type, options)
        require_at_least(self._name(), 0, penalty=self.options.penalty, rms_epsilon=self.options.rms_epsilon)
        self.draw(generator)
        parameter = next(model.parameters())
        self.to(parameter.device, parameter.dtype)

    def draw(self, generator: torch.Generator | None) -> None:
        """Create the feedback; a method without feedback creates nothing. None: torch's own generator."""
        return

    def at(self, progress: float) -> None:
        """Hear which share of the run is done, 0 before the first epoch and 1 after the last; here it changes nothing.

        The training loop tells it around every epoch, and so does a checkpoint that is restored: a method that
        changes on its way need not save how far it is. One that nobody tells is to act as it does at the end.
        """
        return

    @abstractmethod
    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L, one tensor shaped like each site, such that h_l should move along −a_l."""

    @abstractmethod
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """Add this batch's update direction to `.grad` of all that learns in the model and in the method."""

    def _fresh(self, generator: torch.Generator) -> Any:
        return type(self)(self.model, generator, **as_dict(self.options))

    @classmethod
    def _name(cls) -> str:
        return f"method {cls.__module__.rpartition('.')[2]}"
