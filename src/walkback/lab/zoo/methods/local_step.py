"""The step that turns credit into learning: block l follows the gradient of <block_l(h_{l−1}), a_l>.

One forward pass, in which every module has a graph of its own because it reads a detached state, and one
backward pass over all of these graphs at once. With a_l the true gradient this is backpropagation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from walkback.lab.zoo.answers import Output, mean_loss, output_error
from walkback.lab.zoo.contract import Block, BlockModel, LinearBlock, Method, MethodOptions, StepResult
from walkback.lab.zoo.methods.credit_forms import Credit, normalised, whole
from walkback.lab.zoo.methods.penalty import branch_penalty
from walkback.lab.zoo.plain_module import is_plain
from walkback.lab.zoo.precision import backward, scales_gradients
from walkback.protocol.credit import Trace

CreditSite = Literal["written", "read"]


class LinearEnd(NamedTuple):
    """The last layer of a module, and what it read in this pass."""

    layer: nn.Linear
    reads: Tensor


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
    ends: Sequence[LinearEnd | None]
    """The Linear that the stem and each block end in; None for one that does not."""
    output: Output = "softmax"
    """What the logits mean."""

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

    def pulled(self, index: int, credit: Credit) -> tuple[Tensor, Tensor]:
        """A root and the gradient there, by which the parameters of a module follow ⟨its write, credit⟩."""
        end = self.ends[index]
        if isinstance(credit, Tensor) or end is None or not credit.fits(*end):
            return self.writes[index], whole(credit)
        root = credit.on_output_of(*end)
        return root, torch.ones_like(root)

    @property
    def result(self) -> StepResult:
        """What the training loop is told."""
        return StepResult(mean_loss(self.trace.logits, self.trace.targets, self.output), self.trace.logits)


def local_pass(model: BlockModel, inputs: Tensor, targets: Tensor, *, track_reads: bool = False) -> LocalPass:
    """Run the model once; with `track_reads` a gradient can be taken with respect to `trace.hiddens`."""
    end, write = run_stem(model.stem, inputs)
    ends, writes, branches = [end], [write], []
    reads = [write.detach().requires_grad_(track_reads)]
    for block in model.blocks:
        end, branch = run_branch(block, reads[-1])
        ends.append(end)
        branches.append(branch)
        writes.append(block.join(reads[-1], branch))
        reads.append(writes[-1].detach().requires_grad_(track_reads))
    logits = model.head(reads[-1])
    trace = Trace(inputs, reads, logits.detach(), targets, output_error(logits, targets, model.output))
    return LocalPass(trace, writes, branches, logits, ends, model.output)


def run_stem(stem: nn.Module, inputs: Tensor) -> tuple[LinearEnd | None, Tensor]:
    """stem(x), and the Linear that it ends in, if it is layers in a row of which the last is one."""
    layers = list(stem) if is_plain(stem, nn.Sequential) else []
    if not layers or not is_plain(layers[-1], nn.Linear):
        return None, stem(inputs)
    for layer in layers[:-1]:
        inputs = layer(inputs)
    return LinearEnd(layers[-1], inputs), layers[-1](inputs)


def run_branch(block: Block, hidden: Tensor) -> tuple[LinearEnd | None, Tensor]:
    """f(h), and the Linear that it ends in, if the block says that there is one."""
    if not isinstance(block, LinearBlock) or not is_plain(block.last, nn.Linear):
        return None, block.branch(hidden)
    features = block.features(hidden)
    return LinearEnd(block.last, features), block.last(features)


def follow(
    model: BlockModel,
    local: LocalPass,
    credits: Mapping[int, Credit],
    options: MethodOptions,
    *,
    credit_site: CreditSite = "written",
    objective: Tensor | None = None,
    gradient: bool = False,
    stem: Credit | None = None,
) -> None:
    """Add to `.grad`, averaged over the batch: stem and blocks by their credit, the head by e.

    `credits` maps a site to a_l; `objective` is the method's own, for what it trains beside the model; `gradient` says
    that a sample's credit has the size of the gradient of its own loss; `stem` is what the stem follows, where that is
    not a_0.
    """
    samples = len(local.logits)
    norm, epsilon, mean_over = options.credit_norm, options.rms_epsilon, samples if gradient else 1
    roots, pulls = [local.logits], [local.trace.error / samples]
    for index in local.learning:
        own = stem if index == 0 else None
        credit = credits[local.site_of_credit(index, credit_site)] if own is None else own
        credit = normalised(credit, norm, epsilon=epsilon, mean_over=mean_over)
        root, pull = local.pulled(index, credit / samples)
        roots.append(root)
        pulls.append(pull)
    for extra in (branch_penalty(model.blocks, local.branches, options.penalty), objective):
        if extra is not None:
            roots.append(extra)
            pulls.append(torch.ones_like(extra))
    backward(roots, pulls)


@dataclass(frozen=True)
class LocalOptions(MethodOptions):
    """Options of a method whose credit needs nothing but the trace, beside those of `MethodOptions`.

    Examples:
        >>> from walkback.lab import LocalOptions
        >>> LocalOptions(credit_site="read").credit_norm
        'none'
    """

    credit_site: CreditSite = "written"
    """Whether a block gets the credit of the site it writes or of the site it reads. The stem gets a_0 under
    either; a block that reads another shape than it writes gets the credit of the site it writes."""


class LocalMethod(Method):
    """A method that is its credit: everything but `credits_at` is the shared local step.

    Block l follows the gradient of ⟨block_l(h_{l−1}), a_l⟩. With a_l the true gradient, this is backpropagation.

    Args:
        model: as for `Method`.
        generator: as for `Method`.
        **options: fields of `LocalOptions`, or of its own `options_type`.

    Raises:
        InputError: as for `Method`.

    Examples:
        >>> import torch
        >>> from walkback.lab import DataSpec, LocalMethod
        >>> from walkback.lab.zoo import build_model
        >>> class Constant(LocalMethod):
        ...     def credits_at(self, trace, sites):
        ...         return [torch.ones_like(trace.hiddens[site]) for site in sites], None
        >>> method = Constant(build_model("resmlp", DataSpec((8,), classes=3), width=16, depth=2))
        >>> method.accumulate(torch.randn(4, 8), torch.tensor([0, 1, 2, 0])).logits.shape
        torch.Size([4, 3])
    """

    options_type: ClassVar[type[MethodOptions]] = LocalOptions
    options: LocalOptions
    """The options that it was built with."""

    @property
    def credit_site(self) -> CreditSite:
        """Which site's credit a block follows."""
        return self.options.credit_site

    @abstractmethod
    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Credit], Tensor | None]:
        """The credit of some sites. This is what a method has to define.

        Args:
            trace: one forward pass.
            sites: the numbers of the sites.

        Returns:
            One credit for each of these sites, and the method's own training objective; None where it has none.
        """

    def stem_credit(self, trace: Trace, credits: Mapping[int, Credit]) -> Credit:
        """What the stem follows; here a_0.

        Args:
            trace: one forward pass.
            credits: the credits, by site.

        Returns:
            A credit for h_0.
        """
        return credits[0]

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L."""
        return [whole(credit) for credit in self.credits_at(trace, range(len(trace.hiddens)))[0]]

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """One forward pass, one backward pass, one graph per module."""
        local = local_pass(self.model, inputs, targets)
        sites = local.sites_in_use
        credits, objective = self.credits_at(local.trace, sites)
        by_site = dict(zip(sites, credits, strict=True))
        follow(
            self.model,
            local,
            by_site,
            self.options,
            credit_site=self.credit_site,
            objective=objective,
            gradient=self.credit_is_gradient,
            stem=self.stem_credit(local.trace, by_site) if 0 in local.learning else None,
        )
        return local.result
