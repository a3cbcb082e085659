"""The step that turns credit into learning: block l follows the gradient of <block_l(h_{l−1}), a_l>.

One forward pass, in which every module has a graph of its own because it reads a detached state, and one
backward pass over all of these graphs at once. With a_l the true gradient this is backpropagation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.protocol.credit import Trace
from walkback.zoo.contract import BlockModel, Method, MethodOptions, StepResult
from walkback.zoo.methods.penalty import branch_penalty

CreditSite = Literal["written", "read"]


@dataclass(frozen=True)
class LocalPass:
    """One forward pass whose gradients stop at every site."""

    trace: Trace
    writes: Sequence[Tensor]
    """stem(x), block_1(h_0), …, block_L(h_{L−1}): each depends on the parameters of its own module alone."""
    branches: Sequence[Tensor]
    """f_1(h_0), …, f_L(h_{L−1})."""
    logits: Tensor
    """head(h_L): it depends on the parameters of the head alone."""

    @cached_property
    def mean_error(self) -> Tensor:
        """∂/∂logits of the batch's mean loss: e over the number of samples."""
        return self.trace.error / len(self.trace.error)

    @cached_property
    def learning(self) -> list[int]:
        """Which of the writes depend on something that learns: with frozen blocks, the stem's alone."""
        return [index for index, write in enumerate(self.writes) if write.requires_grad]

    @property
    def sites_in_use(self) -> list[int]:
        """The sites that something which learns reads or writes: with frozen blocks, only h_0."""
        return sorted({site for index in self.learning for site in (max(index - 1, 0), index)})

    def site_of_credit(self, index: int, credit_site: CreditSite) -> int:
        """The site whose credit a module follows."""
        # The stem reads data, not a site; a block without a skip may read another shape than it writes.
        at_its_read = credit_site == "read" and index > 0 and self.writes[index - 1].shape == self.writes[index].shape
        return index - 1 if at_its_read else index

    @property
    def result(self) -> StepResult:
        """What the training loop is told."""
        return StepResult(F.cross_entropy(self.trace.logits, self.trace.targets), self.trace.logits)


def output_error(logits: Tensor, targets: Tensor) -> Tensor:
    """e = softmax(logits) − onehot(y): each sample's own ∂ℓ/∂logits, (B, classes)."""
    return logits.detach().softmax(dim=1).scatter_(1, targets.unsqueeze(1), -1, reduce="add")


def local_pass(model: BlockModel, inputs: Tensor, targets: Tensor, *, track_reads: bool = False) -> LocalPass:
    """Run the model once; with `track_reads` a gradient can be taken with respect to `trace.hiddens`."""
    writes = [model.stem(inputs)]
    reads = [writes[0].detach().requires_grad_(track_reads)]
    branches = []
    for block in model.blocks:
        branches.append(block.branch(reads[-1]))
        writes.append(block.join(reads[-1], branches[-1]))
        reads.append(writes[-1].detach().requires_grad_(track_reads))
    logits = model.head(reads[-1])
    trace = Trace(inputs, reads, logits.detach(), targets, output_error(logits, targets))
    return LocalPass(trace, writes, branches, logits)


def sample_norms(credit: Tensor) -> Tensor:
    """‖a‖ of each sample, over all its other axes, (B, …) → (B, 1)."""
    flat = credit.flatten(1)
    # By the largest entry first: in fp32 the square of an entry below 1e-19 is lost, and the norm with it.
    largest = flat.abs().amax(dim=1, keepdim=True)
    relative: Tensor = torch.linalg.vector_norm(flat / zero_as_one(largest), dim=1, keepdim=True)
    return largest * relative


def zero_as_one(size: Tensor) -> Tensor:
    """The sizes to divide by, so that what is zero stays zero."""
    return torch.where(size == 0, 1, size)


def per_sample_unit(credit: Tensor) -> Tensor:
    """a/‖a‖ for each sample; a credit of zero stays zero."""
    return (credit.flatten(1) / zero_as_one(sample_norms(credit))).view(credit.shape)


def follow(
    model: BlockModel,
    local: LocalPass,
    credits: Mapping[int, Tensor],
    options: MethodOptions,
    *,
    credit_site: CreditSite = "written",
    objective: Tensor | None = None,
    averaged: bool = False,
) -> None:
    """Add to `.grad`, averaged over the batch: stem and blocks by their credit, the head by e.

    `credits` maps a site to a_l; `objective` is the method's own, for what it trains beside the model.
    `averaged` credits are divided by the number of samples already.
    """
    roots, pulls = [local.logits], [local.mean_error]
    for index in local.learning:
        credit = credits[local.site_of_credit(index, credit_site)]
        if options.credit_norm == "per_sample":
            credit = per_sample_unit(credit)
        roots.append(local.writes[index])
        pulls.append(credit if averaged else credit / len(credit))
    for extra in (branch_penalty(model.blocks, local.branches, options.penalty), objective):
        if extra is not None:
            roots.append(extra)
            pulls.append(torch.ones_like(extra))
    torch.autograd.backward(roots, pulls)


@dataclass(frozen=True)
class LocalOptions(MethodOptions):
    """Options of a method whose credit needs nothing but the trace."""

    credit_site: CreditSite = "written"
    """Whether a block gets the credit of the site it writes or of the site it reads. The stem gets a_0 under
    either; a block that reads another shape than it writes gets the credit of the site it writes."""


class LocalMethod(Method):
    """A method that is its credit: everything but `credits_at` is the shared local step."""

    options_type: ClassVar[type[MethodOptions]] = LocalOptions
    options: LocalOptions
    linear_in_error: ClassVar[bool] = False
    """Whether half the error gives half the credit, so that the error may be averaged in place of every credit."""

    @abstractmethod
    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Tensor], Tensor | None]:
        """The credit of each of these sites, and the method's own training objective, if it has one."""

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L."""
        return self.credits_at(trace, range(len(trace.hiddens)))[0]

    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """One forward pass, one backward pass, one graph per module."""
        local = local_pass(self.model, inputs, targets)
        sites, trace = local.sites_in_use, local.trace
        averaged = self.linear_in_error and self.options.credit_norm == "none"
        if averaged:
            trace = replace(trace, error=local.mean_error)
        credits, objective = self.credits_at(trace, sites)
        by_site = dict(zip(sites, credits, strict=True))
        site = self.options.credit_site
        follow(self.model, local, by_site, self.options, credit_site=site, objective=objective, averaged=averaged)
        return local.result
