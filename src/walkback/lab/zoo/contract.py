"""What the zoo is made of: data of a known shape, a model of blocks, and a method that trains it.

    x ── stem ── h_0 ── block_1 ── h_1 ── … ── block_L ── h_L ── head ── logits

A sample has one answer, (classes,) logits, or one for each of its tokens, (T, classes); what a loss and a right answer
are is said in `answers`.

An architecture is a function from a `DataSpec` to a `BlockModel`; a method is an `nn.Module` that holds its
own feedback and says which credit a_l each site h_l gets. A method trains every architecture that it is defined on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, final

import torch
from torch import Tensor, nn

from walkback.errors import InputError, NoCredit
from walkback.lab.zoo.block_model import MOST_BLOCKS as MOST_BLOCKS
from walkback.lab.zoo.block_model import BlockList as BlockList
from walkback.lab.zoo.block_model import BlockModel as BlockModel
from walkback.lab.zoo.blocks import Block as Block
from walkback.lab.zoo.blocks import LinearBlock as LinearBlock
from walkback.lab.zoo.blocks import SkiplessBlock as SkiplessBlock
from walkback.lab.zoo.data_spec import EXAMPLE_DATA as EXAMPLE_DATA
from walkback.lab.zoo.data_spec import DataSpec as DataSpec
from walkback.lab.zoo.options import as_dict, read_options, require_at_least
from walkback.protocol.credit import Trace


def learns(module: nn.Module) -> bool:
    """Whether any parameter of the module is trained."""
    return any(parameter.requires_grad for parameter in module.parameters())


class StepResult(NamedTuple):
    """What a training step saw; both without gradient.

    Examples:
        >>> import torch
        >>> from walkback.lab import StepResult
        >>> StepResult(loss=torch.tensor(2.3), logits=torch.zeros(4, 10)).logits.shape
        torch.Size([4, 10])
    """

    loss: Tensor
    """The batch's mean loss over all answers, without the penalty or the method's own objective; the mean of
    its own objective for a method that answers by its own `predict`."""
    logits: Tensor
    """What the head says; for a method with its own `predict`, scores of the classes from the pass that it made."""


CreditNorm = Literal["none", "per_sample", "rms"]


@dataclass(frozen=True)
class MethodOptions:
    """Options that every method has. A method with more of them subclasses this.

    Examples:
        >>> from walkback.lab import MethodOptions
        >>> MethodOptions(credit_norm="per_sample").penalty
        0.0
    """

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

    Feedback is held in buffers and submodules, so that `state_dict` saves it; feedback that learns may be parameters,
    which the run's optimizer moves. The model is not a submodule: it is saved by itself. A method whose feedback can be
    drawn again also has `redraw(generator)`. One that has feedback and no `redraw` says why in `no_null`.

    Args:
        model: the network that it trains.
        generator: what its feedback is drawn from; torch's global generator where None.
        **options: fields of its `options_type`, by name.

    Raises:
        InputError: an option is unknown, or the rule is not defined on this network.

    Examples:
        >>> from walkback.lab import DataSpec, Method
        >>> from walkback.lab.zoo import build_method, build_model
        >>> method = build_method("dfa", build_model("resmlp", DataSpec((8,), classes=3), width=16, depth=2))
        >>> isinstance(method, Method), method.has_credit
        (True, True)
    """

    model: BlockModel
    """The network that it trains."""
    options_type: ClassVar[type[MethodOptions]] = MethodOptions
    """The dataclass of its options."""
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
        """Why the rule is not defined on a network. Override it where the rule does not hold everywhere.

        Args:
            model: the network.

        Returns:
            The reason in a sentence; empty where it is defined.
        """
        return ""

    def draw(self, generator: torch.Generator | None) -> None:
        """Create the feedback. A method without feedback creates nothing.

        Args:
            generator: what to draw from; torch's global generator where None.
        """
        return

    def at(self, progress: float) -> None:
        """Hear which share of the run is done; here it changes nothing.

        The training loop says so around every epoch, and so does a checkpoint that is restored: a method that changes
        on its way need not save how far it is. One that is never told is to act as it does at the end.

        Args:
            progress: 0 before the first epoch, 1 after the last.
        """
        return

    @abstractmethod
    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L, such that h_l should move along −a_l.

        Args:
            trace: one forward pass.

        Returns:
            One tensor per site, each of the shape of h_l.
        """

    @abstractmethod
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """Add this batch's update direction to `.grad` of all that learns in the model and in the method.

        Args:
            inputs: (B, …).
            targets: (B,), or (B, T) where every token has an answer.

        Returns:
            The loss and the logits of the batch.
        """

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
        """A score for each class, by which a test sample is answered; here the head's logits.

        A method that overrides it does not answer by the head, so no gradient of the head's loss is measured: its
        reports have (a), the depth tests and the accuracy.

        Args:
            inputs: (B, …).

        Returns:
            Shaped like the logits.
        """
        return self.model(inputs)  # type: ignore[no-any-return]

    @classmethod
    def answers_by_head(cls) -> bool:
        """Whether `predict` is the head's.

        Returns:
            False where the method overrides it.
        """
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

    Γ, ρ and nudge are not available by design, for the reason that `gamma` gives. `credit_norm` is refused.

    Args:
        model: as for `Method`.
        generator: as for `Method`.
        **options: as for `Method`.

    Raises:
        InputError: as for `Method`, and where `credit_norm` is given.

    Examples:
        >>> from walkback.lab import CreditlessMethod, DataSpec
        >>> from walkback.lab.zoo import build_method, build_model
        >>> method = build_method("local_loss", build_model("resmlp", DataSpec((8,), classes=3), width=16, depth=2))
        >>> isinstance(method, CreditlessMethod), method.has_credit
        (True, False)
    """

    has_credit: ClassVar[bool] = False

    @final
    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """There are none. This makes Γ and the functional tests not available in every record.

        Args:
            trace: one forward pass.

        Returns:
            Nothing.

        Raises:
            NoCredit: always.
        """
        raise NoCredit(f"by design: {self.gamma}")
