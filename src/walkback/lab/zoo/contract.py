"""What the zoo is made of: data of a known shape, a model of blocks, and a method that trains it.

    x ── stem ── h_0 ── block_1 ── h_1 ── … ── block_L ── h_L ── head ── logits

A sample has one answer, (classes,) logits, or one for each of its tokens, (T, classes); what a loss and a right answer
are is said in `answers`.

An architecture is a function from a `DataSpec` to a `BlockModel`; a method is an `nn.Module` that holds its
own feedback and says which credit a_l each site h_l gets. A method trains every architecture that it is defined on.
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

from walkback.errors import InputError, NoCredit
from walkback.lab.zoo.blocks import Block as Block
from walkback.lab.zoo.blocks import LinearBlock as LinearBlock
from walkback.lab.zoo.blocks import SkiplessBlock as SkiplessBlock
from walkback.lab.zoo.modes import evaluating
from walkback.lab.zoo.options import as_dict, read_options, require_at_least
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class DataSpec:
    """What a network is built for: the shape of one input, (C, H, W), (D,) or (T,), and the number of classes."""

    input_shape: tuple[int, ...]
    classes: int
    vocabulary: int | None = None
    """Of inputs that are tokens, int64 (T,): how many different ones there are. None: inputs are numbers."""
    target_shape: tuple[int, ...] = ()
    """The shape of one sample's targets: () for one class, (T,) for a class for each token."""

    @property
    def features(self) -> int:
        """The number of values in one input."""
        return prod(self.input_shape)

    @property
    def answers(self) -> int:
        """How many answers a sample has: 1, or one for each token."""
        return prod(self.target_shape)

    def zeros(self, like: Tensor) -> Tensor:
        """One input of zeros, on the device of a parameter and, where inputs are numbers, of its type."""
        shape = (1, *self.input_shape)
        return like.new_zeros(shape) if self.vocabulary is None else like.new_zeros(shape, dtype=torch.int64)


EXAMPLE_DATA = DataSpec((3, 32, 32), 10)
"""What an architecture is built for where no data is named, to see what is defined on it. An architecture of other
data has an example of its own, as the attribute `example_data` of its function."""


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
        """The logits, (B, …) → (B, classes), or (B, T, classes) where every token has an answer."""
        hidden = self.stem(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)  # type: ignore[no-any-return]

    @cached_property
    def site_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of one sample at each site h_0 … h_L, seen on an input of zeros."""
        parameter = next(self.parameters())
        with evaluating(self), torch.no_grad():
            hidden = self.stem(self.data.zeros(parameter))
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
    """The batch's mean cross-entropy over all answers, without the penalty or the method's own objective; the mean of
    its own objective for a method that answers by its own `predict`."""
    logits: Tensor
    """What the head says; for a method with its own `predict`, scores of the classes from the pass that it made."""


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


EVERYWHERE = "every architecture"


class Method(nn.Module, ABC):
    """A rule for credit, and the training step that follows from it.

    Feedback is held in buffers and submodules, so `state_dict` saves it; feedback that learns may be parameters, which
    the run's optimizer moves. The model is not a submodule: it is saved by itself. A method whose feedback can be drawn
    again also has `redraw(generator)`; one that has none, though it has feedback, says why in `no_null`.
    """

    model: BlockModel
    options_type: ClassVar[type[MethodOptions]] = MethodOptions
    paper: ClassVar[str] = ""
    """Where its authors published the rule."""
    gamma: ClassVar[str] = ""
    """What Γ means for it, in one sentence; or why it is N/A by design."""
    defined_on: ClassVar[str] = EVERYWHERE
    """On which networks the rule is defined, in words; `why_not` is what decides."""
    has_credit: ClassVar[bool] = True
    """Whether the sites get a credit from the loss at the head; see `CreditlessMethod`."""
    no_null: ClassVar[str] = ""
    """Why no fresh draw of its feedback makes a null for Γ, where it has feedback and no `redraw`."""
    independent_feedback: bool = False
    """Whether the feedback of different sites is drawn independently."""
    fp32_only: ClassVar[str] = ""
    """Why it can be trained in fp32 alone, in one clause; empty where bf16 and fp16 keep what it learns from. In fp16
    its `accumulate` has to scale what it adds to `.grad`, and say so: see `precision.scales_gradients`."""
    credit_is_gradient: ClassVar[bool] = False
    """Whether a sample's credit has the size of the gradient of its own loss, so that `rms` divides it by the batch."""

    def __init__(self, model: BlockModel, generator: torch.Generator | None = None, **options: Any) -> None:
        super().__init__()
        # Past nn.Module's own __setattr__, which would make the model a part of the method's state_dict.
        self.__dict__["model"] = model
        self.options = read_options(self._name(), self.options_type, options)
        require_at_least(self._name(), 0, penalty=self.options.penalty, rms_epsilon=self.options.rms_epsilon)
        self._refuse_where_undefined()
        self.draw(generator)
        parameter = next(model.parameters())
        self.to(parameter.device, parameter.dtype)

    @classmethod
    def why_not(cls, model: BlockModel) -> str:
        """Why the rule is not defined on this network, in one sentence; empty where it is."""
        return ""

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

    def after_step(self) -> None:
        """Do what comes after each step of the optimizer, while `.grad` is still there; here nothing.

        What it changes is held in buffers or parameters, and noise comes from torch's own generator: both are saved
        with the run, so a run that was cut goes on to the bit.
        """
        return

    @property
    def phases(self) -> int:
        """How often a batch is accumulated, each time with a step of the optimizer behind it; here once."""
        return 1

    def predict(self, inputs: Tensor) -> Tensor:
        """A score for each class, shaped like the logits, by which a test sample is answered: here the head's logits.

        A method with another one does not answer by the head, so no gradient of the head's loss is measured: its
        reports have (a), the depth tests and the accuracy.
        """
        return self.model(inputs)  # type: ignore[no-any-return]

    @classmethod
    def answers_by_head(cls) -> bool:
        """Whether `predict` is the head's."""
        return cls.predict is Method.predict

    def _refuse_where_undefined(self) -> None:
        if why := self.why_not(self.model):
            raise InputError(f"{self._name()} is not defined on this network: {why}")
        if not self.has_credit and self.options.credit_norm != "none":
            raise InputError(
                f"{self._name()} has no credit to scale: credit_norm is {self.options.credit_norm!r}; expected 'none'."
            )

    def _fresh(self, generator: torch.Generator) -> Any:
        return type(self)(self.model, generator, **as_dict(self.options))

    @classmethod
    def _name(cls) -> str:
        return f"method {cls.__module__.rpartition('.')[2]}"


class CreditlessMethod(Method):
    """A method in which no site gets a credit from the loss at the head: local losses, forward-forward and the like.

    Γ, ρ and nudge are N/A by design, for the reason that `gamma` gives; `credit_norm` is refused.
    """

    has_credit: ClassVar[bool] = False

    @final
    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """Raise `NoCredit`, which makes Γ and the functional tests N/A in every record."""
        raise NoCredit(f"by design: {self.gamma}")
