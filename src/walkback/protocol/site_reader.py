"""Reads the sites of a chain as they pass in a forward pass, and their gradients on the way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from walkback.errors import BlocksError, NoGradient
from walkback.protocol.function_taps import FunctionTaps, needs_functions
from walkback.protocol.sites import Chain, Tap
from walkback.protocol.tensors import floating_tensors


class _Begin(torch.autograd.Function):
    """Makes a tensor the root of a graph, in place, and hands the gradient that comes back to `take`.

    In place, because a skip that is added outside the block uses the same tensor; as an operation, because
    a leaf that requires gradients may not be changed in place, and blocks do that.
    """

    @staticmethod
    def forward(ctx: Any, stream: Tensor, root: Tensor, take: Callable[[Tensor | None], None]) -> Tensor:
        ctx.mark_dirty(stream)
        ctx.take = take
        return stream

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        ctx.take(grads[0])
        return None, grads[0].new_zeros(()), None


class SiteReader:
    """Hooks that read the sites of a chain as they pass, and their gradients on the way back."""

    def __init__(self, chain: Chain, begin_in: torch.dtype | None = None, gradients: bool = True) -> None:
        self.chain = chain
        self.begin_in = begin_in
        """What the stream is converted to at h_0, if to anything."""
        self.gradients = gradients
        """Whether a graph begins at h_0."""
        self.values: list[Tensor] = []
        self.grads: dict[int, Tensor] = {}
        self.root: Tensor | torch.autograd.graph.GradientEdge | None = None
        """What a backward pass has to reach: it lies before h_0, and nothing else does."""
        self._passing: list[tuple[Tensor, int]] = []
        self._of_base: dict[int, Tensor] = {}
        """Gradients of sites that are views and were written to later, by way of what they are views of."""
        self._visits: Counter[tuple[nn.Module, str]] = Counter()
        self._functions = FunctionTaps(chain.taps, self._made) if needs_functions(chain.taps) else None

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Attach the hooks for as long as the context lasts; nobody else's are touched."""
        handles = []
        with self._functions or nullcontext():
            try:
                for module in dict.fromkeys(tap.module for tap in self.chain.taps):
                    handles.append(module.register_forward_pre_hook(self._entering, with_kwargs=True))
                    handles.append(module.register_forward_hook(self._leaving))
                yield
            finally:
                for handle in handles:
                    handle.remove()

    def _tap_at(self, module: nn.Module, end: str) -> Tap | None:
        """The next site, if this visit of the module is where it is read."""
        nth = self._visits[module, end]
        self._visits[module, end] += 1
        tap = self._next
        here = tap is not None and not tap.step and (tap.module, tap.end, tap.nth) == (module, end, nth)
        return tap if here else None

    def _passed(self, module: nn.Module, end: str) -> None:
        if self._functions is not None:
            self._functions.passed(module, end, self._visits[module, end] - 1)

    @property
    def _next(self) -> Tap | None:
        """The next site; None where all are taken: recomputation under activation checkpointing visits again."""
        taken = len(self.values)
        return self.chain.taps[taken] if taken < len(self.chain.taps) else None

    def _made(self, tap: Tap, stream: Tensor) -> None:
        """A function has made what may be the next site."""
        if tap is self._next:
            self._read(stream)

    def _entering(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tap = self._tap_at(module, "input")
        if tap is not None:
            self._read(_stream_at((args, kwargs), tap))
        self._passed(module, "input")

    def _leaving(self, module: nn.Module, args: Any, output: Any) -> None:
        tap = self._tap_at(module, "output")
        if tap is not None:
            self._read(_stream_at(output, tap))
        self._passed(module, "output")

    def _read(self, stream: Tensor) -> None:
        """Take a site; the graph begins at the first, which is h_0 unless `sites=` left it out."""
        if not self.values and self.begin_in is not None:
            convert(stream, self.begin_in)
        if not self.gradients:
            self._keep(stream)
        elif self.values:
            self._take(stream)
        else:
            self._start(stream)

    def _start(self, stream: Tensor) -> None:
        """Begin the graph at the first site: nothing before it is needed."""
        self._keep(stream)
        self.root = torch.zeros((), device=stream.device, dtype=stream.dtype, requires_grad=True)
        owner = stream if stream._base is None else stream._base
        # In an expanded tensor samples lie in one place, and their gradients would be added up there.
        if not isinstance(owner, nn.Parameter) and not stream.requires_grad and _each_its_own(stream):
            try:
                # No number changes, and activation checkpointing may hold the tensor at its present version.
                with _unsafe_preserve_version_counter(stream):
                    _Begin.apply(stream, self.root, self._keeper(0))  # type: ignore[no-untyped-call]
                return
            except RuntimeError:  # a view that torch lets nobody change in place
                pass
        # The edge as it is now, so that a later change in place does not move it.
        self.root = torch.autograd.graph.get_gradient_edge(stream.requires_grad_())

    def _take(self, stream: Tensor) -> None:
        index = len(self.values)
        if not stream.requires_grad:
            raise NoGradient(
                f"site '{self.chain.taps[index]}' does not depend on the site before it, so there is no gradient "
                "between them. If the stream is detached there on purpose, diagnose a copy of the model that does "
                "not detach it; else pass blocks= with modules that pass the residual stream on.",
                site=index - 1,
            )
        self._keep(stream)
        # A hook rather than retain_grad: later in-place changes must not reach it.
        stream.register_hook(self._keeper(index))  # type: ignore[no-untyped-call]
        if stream._base is not None and stream._base.requires_grad:
            self._watch_base(index, stream, stream._base)

    def _watch_base(self, index: int, stream: Tensor, base: Tensor) -> None:
        """Read the gradient of what a site is a view of too: where the site is written to later, it holds all of it.

        A change in place of a view is one of its base, so that what it leads to does not pass the view's own node.
        """
        shape, stride = stream.shape, stream.stride()
        offset, in_order = stream.storage_offset() - base.storage_offset(), base.is_contiguous()

        def keep(grad: Tensor) -> None:
            passing, version = self._passing[index]
            if passing._version == version:
                return
            if not in_order:
                raise BlocksError(
                    f"site '{self.chain.taps[index]}' is a view, and is changed in place later, so its gradient cannot "
                    "be read. Diagnose a copy of the model that adds out of place: h = h + f(h) for h += f(h)."
                )
            self._of_base[index] = grad.detach().contiguous().as_strided(shape, stride, offset)

        base.register_hook(keep)  # type: ignore[no-untyped-call]

    def _keep(self, stream: Tensor) -> None:
        """Keep what a site holds now: a copy, unless nothing is known to write to it later."""
        passing = stream.detach()
        self._passing.append((passing, passing._version))
        self.values.append(passing if self.chain.keeps_stream else passing.clone())

    def was_kept(self) -> bool:
        """Whether, after a forward pass, every site still holds what was read there."""
        if self.chain.keeps_stream:
            # Only a change that torch counts can come unexpected: the others showed when copies were compared.
            return all(passing._version == version for passing, version in self._passing)
        return all(torch.equal(passing, value) for (passing, _), value in zip(self._passing, self.values, strict=True))

    def _keeper(self, index: int) -> Callable[[Tensor | None], None]:
        def keep(grad: Tensor | None) -> None:
            if grad is not None:  # as it is behind an operation without a derivative, such as an int8 product
                self.grads[index] = grad.detach()

        return keep

    def pull_back(self, logits: Tensor, upstream: Tensor, keep_graph: bool = False) -> None:
        """Send a gradient at the logits back to every site that it reaches, and no further."""
        self.grads.clear()
        self._of_base.clear()
        assert self.root is not None
        (at_root,) = torch.autograd.grad(logits, self.root, upstream, retain_graph=keep_graph, allow_unused=True)
        if at_root is not None:
            self.grads.setdefault(0, at_root)
        self.grads |= self._of_base

    def check_complete(self) -> None:
        """Raise if the forward pass did not visit every site."""
        if len(self.values) < len(self.chain.taps):
            raise BlocksError(
                f"the forward pass reached {len(self.values)} of {len(self.chain.taps)} sites, up to "
                f"'{self.chain.taps[max(len(self.values) - 1, 0)]}'; expected the same path for every batch. "
                "Pass blocks= with modules that every sample goes through."
            )


class SiteSetter(SiteReader):
    """Hooks that put other numbers in the place of one site, in a pass without a graph."""

    def __init__(self, chain: Chain, site: int, value: Tensor, begin_in: torch.dtype | None, kept: set[int]) -> None:
        super().__init__(chain, begin_in, gradients=False)
        self.site, self.value = site, value
        self.kept = kept
        """Where the memory that must not be written to begins: parameters and buffers."""

    def _read(self, stream: Tensor) -> None:
        at = len(self.values)
        if at == 0 and self.begin_in is not None:
            convert(stream, self.begin_in)
        self.values.append(self.value)
        if at == self.site:
            put(stream, self.value, self.kept)


def convert(stream: Tensor, dtype: torch.dtype) -> None:
    """Change the precision of a tensor that is there, because a skip around the block uses it too."""
    if stream._base is not None:
        raise TypeError("the stream is a view, and a skip may use what it is a view of: all or nothing is converted")
    stream.data = stream.data.to(dtype)


def put(stream: Tensor, value: Tensor, kept: set[int]) -> None:
    """Write numbers into a tensor that is there, and so into its views, unless the memory is not its own."""
    owner = stream if stream._base is None else stream._base
    if owner.data_ptr() in kept or not _each_its_own(stream):
        stream.data = value.to(stream.dtype)
    else:
        stream.data.copy_(value)


def _each_its_own(stream: Tensor) -> bool:
    """Whether no two entries lie in one place, as they do in an expanded tensor."""
    return all(stride != 0 or size == 1 for size, stride in zip(stream.shape, stream.stride(), strict=True))


def _stream_at(value: Any, tap: Tap) -> Tensor:
    tensors = floating_tensors(value)
    if tap.position >= len(tensors):
        raise BlocksError(
            f"the {tap.end} of {tap.name} holds {len(tensors)} floating tensors in this batch and held more in the "
            "first; expected the same for every batch."
        )
    return tensors[tap.position]


Result = TypeVar("Result")


def despite_changes_in_place(measure: Callable[[], Result]) -> Result:
    """Measure; where the network overwrites what a backward pass needs, again with copies of all of that.

    A network that is trained without backpropagation may do so, and still has a gradient.
    """
    try:
        return measure()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        return measure()
