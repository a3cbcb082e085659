"""What follows the last block, stretch by stretch, and how far its stage goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from walkback.protocol.flow import Value
from walkback.protocol.operations import ACTIVATIONS, COPIES, LAYOUTS, LINEAR, NORMS, STATISTICS, is_pooling, places


@dataclass(frozen=True)
class Stretch:
    """What happens between two tensors of the stream, one after the other, that all of it passes through."""

    start: Value
    end: Value
    functions: frozenset[str]
    kinds: frozenset[str]
    """The same, with modules by their types in the place of the functions inside them."""
    weights: tuple[Value, ...]
    """The parameters, or what was made from them, that take part."""
    skip: bool
    """Whether something that comes from the site before joins."""
    foreign: bool
    """Whether something joins that comes from elsewhere in the network."""
    in_norm: bool
    """Whether it lies in a module with scales and shifts, and no matrix."""
    in_layer: bool = False
    """Whether it lies in a module with a matrix, which may be packed away where no parameter is seen to take part."""

    @property
    def has_matrix(self) -> bool:
        """Whether more than scales and shifts take part."""
        return any(len(value.shape) > 1 for value in self.weights) and not self.is_elementwise

    @property
    def is_norm(self) -> bool:
        """Whether it normalises."""
        return bool(self.functions & NORMS) or (self.in_norm and not self.is_activation)

    @property
    def is_elementwise(self) -> bool:
        """Whether each number is treated by itself, as an activation does."""
        return self.functions <= ACTIVATIONS and (self.start.shape == self.end.shape or "glu" in self.functions)

    @property
    def is_activation(self) -> bool:
        """Whether it does so, and is more than a scale or a shift; a parametric one has its slope for a weight."""
        return self.is_elementwise and not self.functions <= LINEAR

    @property
    def is_written_norm(self) -> bool:
        """Whether it normalises, or centres, by hand."""
        return not self.weights and bool(self.functions & STATISTICS)

    @property
    def is_joint_activation(self) -> bool:
        """Whether it is an activation in which numbers take part together: a softmax, the k largest, a gate."""
        plain = not self.weights and not self.in_layer and not self.is_norm and not self.is_written_norm
        return plain and not self.functions <= COPIES | LINEAR

    @property
    def is_layout(self) -> bool:
        """Whether the same numbers are put elsewhere."""
        return self.functions <= LAYOUTS and prod(self.start.shape) == prod(self.end.shape)

    @property
    def is_pooling(self) -> bool:
        """Whether neighbouring places are pooled."""
        return any(map(is_pooling, self.functions)) and all(
            is_pooling(name) or name in LAYOUTS for name in self.functions
        )

    @property
    def collapses(self) -> bool:
        """Whether tokens or places are gone afterwards."""
        return not self.is_layout and places(self.start.shape) > 1 and places(self.end.shape) == 1


@dataclass
class Stage:
    """The last block's stage, as it grows stretch by stretch."""

    single: bool
    """Whether the block is a single layer, without a norm or an activation of its own."""
    several: bool
    """Whether there are blocks before it, so that what stands between them shows what belongs to a stage."""
    between: frozenset[frozenset[str]]
    """The stretches that stand between the blocks, by their kinds."""
    has_places: bool = True
    """Whether the block writes tokens or space, which can collapse; what is only made of its features has none."""
    normed: bool = False
    """Whether a norm has come that belongs to the stage only if an activation or a skip follows."""
    activated: bool = False
    """Whether its activation has come."""

    def extent(self, stretches: Sequence[Callable[[], Stretch]]) -> int:
        """How many stretches belong to the stage; each is made when it is looked at, and none further than needed."""
        extent = 0
        for at, make in enumerate(stretches):
            stretch = make()
            # What is like what stands between blocks, or has a skip around, is the head all the same where no matrix
            # follows.
            likely = stretch.has_matrix and (stretch.skip or stretch.kinds in self.between)
            is_head = likely and not any(later().has_matrix for later in stretches[at + 1 :])
            belongs = False if is_head else self._belongs(stretch)
            if belongs is False:
                break
            extent = at + 1 if belongs else extent
        return extent

    def _belongs(self, stretch: Stretch) -> bool | None:
        """Yes; no, and nothing after it; or None: if something after it does."""
        known = stretch.kinds in self.between
        if stretch.foreign and not known:
            return False
        if stretch.skip:
            self.single = self.normed = self.activated = False
            return True
        if self.has_places and stretch.collapses and not (known and not stretch.is_pooling):
            return False
        if known:
            self.activated = self.activated or stretch.is_activation
            return True
        if stretch.is_norm or stretch.is_written_norm:
            self.normed = True
            return None
        if stretch.is_layout or (stretch.is_elementwise and not stretch.is_activation):
            return None
        return self._by_nature(stretch)

    def _by_nature(self, stretch: Stretch) -> bool:
        """Its activation, and pooling that leaves space, unless several blocks stand without them.

        A layer's activation may be written in several functions, and be anything that holds no weights.
        """
        if (self.normed or self.several) and not self.single:
            return False
        if self.single and (stretch.is_activation or stretch.is_joint_activation):
            return True
        if stretch.is_activation and not self.activated:
            self.activated = True
            return True
        return stretch.is_pooling
