"""Where the sites of a chain of blocks lie: what each stage hands on.

A site is the last tensor before the next block through which everything passes that the block wrote: after its
activation, its skip and the pooling behind it. After the last block nothing says where its stage ends but what
follows. Skips around the block belong to it; so do activations and pooling that leaves more than one place, unless
several blocks stand without them; so does a norm that stands between blocks too, or between a single layer and its
activation. What collapses tokens or space, and what holds weights, comes after the last site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf

from torch import nn

from walkback.protocol.calls import Call, Watched, Wire
from walkback.protocol.flow import Value
from walkback.protocol.operations import ACTIVATIONS, COPIES, LINEAR, places
from walkback.protocol.skips import Run
from walkback.protocol.stretches import Stage, Stretch


@dataclass
class Boundaries:
    """The sites of one run of blocks in one watched pass."""

    watched: Watched
    run: Run
    head_at: float = inf
    """When the head is entered, where it was named."""
    between: set[frozenset[str]] = field(default_factory=set)
    """What stands between blocks, stretch by stretch: functions by their names, modules by their types."""

    def sites(self) -> list[Value]:
        """h_0 … h_L."""
        sites = [self.first()]
        for block, following in pairwise(self.run):
            site = self._inner(block, following)
            self.between |= {stretch.kinds for stretch in self._stretches(block, site, sites[-1])}
            sites.append(site)
        return [*sites, self._last(sites[-1])]

    def crossing(self, sites: Sequence[Value]) -> tuple[Call, Call] | None:
        """Two neighbouring blocks where a skip from further up joins or leaves the stream: it is not one tensor there.

        One joins where what a block wrote meets a part of the stream that did not pass the site in front of it; one
        leaves where the next block reads something else than the site, and the site is used past the next one too.
        """
        for number, (block, following) in enumerate(pairwise(self.run), start=1):
            site = sites[number]
            sides = self._sides(block.written.value, site)
            # The input itself is a stream where it is added to; where it is only read once more it is none.
            added = sites[0].same_as if sites[0].shape == site.shape else None
            sides = [side for side in sides if side.weighted or side.same_as == added]
            joined = any(
                sites[0].number in behind and sites[number - 1].number not in behind
                for behind in map(self.watched.reach.ancestors, sides)
            )
            handed = self._copied(block, following) or self.read_by(following).value.same_as == site.same_as
            past = all(value is not sites[number + 1] for value in self.watched.reach.passages(site))
            if joined or (past and not handed) or self._hands_on_more(block, following, site):
                return block, following
        return None

    def _hands_on_more(self, block: Call, following: Call, site: Value) -> bool:
        """Whether the next block also reads what was computed in this one and does not pass the site, or the two hand
        on different ones of what they return."""
        alike = type(block.module) is type(following.module) and not isinstance(block.module, nn.RNNBase)
        if alike and block.written.position != following.written.position:
            return True
        read = [wire.value for wire in following.taken if wire.value.weighted and wire.value.fed]
        read = [value for value in read if value.shape[-1:] == site.shape[-1:]]
        values = self.watched.reach.values
        return any(
            block.entered < values[number].time < block.left
            for value in read
            for number in self.watched.reach.ancestors(value, without=site.number)
        )

    def first(self) -> Value:
        """What the first block reads; where a skip goes around that, what the skip and it are both made from."""
        reach, read = self.watched.reach, self.read_by(self.run[0]).value
        if self._goes_on():
            return read
        upstream = [reach.values[number] for number in reach.ancestors(read)]
        stream = {v.number for v in upstream if v.floating and v.fed and (v.weighted or v.shape == read.shape)}
        joined = self._joined(stream)
        alike = {number for number in stream & joined if reach.values[number].shape == read.shape}
        for number in sorted(alike, reverse=True):
            above = reach.ancestors(reach.values[number])
            past = (use for source in above & (stream - {number}) for use in reach.uses(source))
            if all(use in above for use in past if use in joined):
                return reach.values[number]
        return read

    def read_by(self, call: Call) -> Wire:
        """The stream as a block reads it: what comes in anew, where its own state from the step before is no stage."""
        alone = sum(other.module is call.module for other in self.run) == 1
        return call.fresh if alone and call.fresh is not None else call.read

    def _goes_on(self) -> bool:
        """Whether the first block was called before, and this call reads what that one wrote."""
        first = self.run[0]
        before = [call for call in self.watched.calls if call.module is first.module and call.nth < first.nth]
        return any(self.watched.leads_to(call, first) for call in before)

    def _joined(self, stream: set[int]) -> set[int]:
        """Everything behind the first tensor after the first block that part of the stream before it joins again."""
        reach, block = self.watched.reach, self.run[0]
        until = self.run[1].entered if len(self.run) > 1 else self.head_at
        for value in reach.passages(block.written.value, until)[1:]:
            if any(not stream.isdisjoint(reach.ancestors(side)) for side in self._sides(block.written.value, value)):
                return reach.ancestors(value)
        return set()

    def _inner(self, block: Call, following: Call) -> Value:
        """The last tensor before the next block through which everything passes that this one wrote."""
        passages = self.watched.reach.passages(block.written.value, following.entered)
        if not passages or self._copied(block, following):
            return block.written.value
        return self._latest(passages)

    def _copied(self, block: Call, following: Call) -> bool:
        """Whether the next block reads what this one wrote, by way of a buffer or a list."""
        start, end = block.written.value, self.read_by(following).value
        if start.shape != end.shape:
            return False
        return {value.made_by for value in self._path(start, end)} <= COPIES

    def _latest(self, passages: Sequence[Value]) -> Value:
        """The last that has a row per sample, as it was first made: what changes no number makes no site."""
        usable = [value for value in passages if self._has_samples(value)] or list(passages)
        return next(value for value in usable if value.same_as == usable[-1].same_as)

    def _has_samples(self, value: Value) -> bool:
        """Whether it is (B, …), or (T, B, d) in a network that puts the sequence first."""
        leading = value.shape[: 2 if len(value.shape) == 3 else 1]
        return value.floating and len(value.shape) > 1 and self.watched.samples in leading

    def _last(self, before: Value) -> Value:
        """The end of the last block's stage."""
        block = self.run[-1]
        passages = self.watched.reach.passages(block.written.value, self.head_at)
        if not passages:
            return block.written.value
        stretches = [partial(self._stretch, block, start, end, before) for start, end in pairwise(passages)]
        activated = self._ends_in_activation(block)
        single = not activated and not any(call.inside(block) for call in self.watched.calls)
        has_places = places(block.written.value.shape) > 1
        stage = Stage(single, len(self.run) > 1, frozenset(self.between), has_places, activated=activated)
        extent = stage.extent(stretches)
        self.between |= {make().kinds for make in stretches[:extent]}
        return self._latest(passages[: 1 + extent])

    def _ends_in_activation(self, block: Call) -> bool:
        """Whether the last thing that happens inside a block is its activation."""
        written = block.written.value
        inside = block.entered < written.time < block.left
        return inside and written.made_by in ACTIVATIONS - LINEAR

    def _stretches(self, block: Call, end: Value, before: Value) -> list[Stretch]:
        """What happens behind a block up to some value, from each tensor that all passes through to the next."""
        passages = self.watched.reach.passages(block.written.value)
        until = [value for value in passages if value.number <= end.number]
        return [self._stretch(block, start, stop, before) for start, stop in pairwise(until)]

    def _stretch(self, block: Call, start: Value, end: Value, before: Value) -> Stretch:
        """What happens from one value behind a block to another."""
        reach, path, parts = self.watched.reach, self._path(start, end), self._sides(start, end)
        skips = [value for value in parts if before.number in reach.ancestors(value)]
        others = [value for value in parts if value not in skips and value.weighted]
        foreign = [value for value in others if value.fed and not self._carried(block, value, path)]
        around = [call for value in path for call in self._around(block, value)]
        return Stretch(
            start=start,
            end=end,
            functions=frozenset(value.made_by for value in path),
            kinds=frozenset(self._kind(block, value) for value in path),
            weights=tuple(value for value in others if not value.fed),
            skip=bool(skips) and len(start.shape) == len(end.shape),
            foreign=bool(foreign) or self._called_again([*path, *parts]),
            in_norm=any(call.has_weights and not call.has_matrix for call in around),
            in_layer=any(call.has_matrix for call in around),
        )

    def _called_again(self, values: Sequence[Value]) -> bool:
        """Whether some of these are made where blocks are called once more, as at the next step in time."""
        modules, end = {call.module for call in self.run}, self.run[-1].left
        later = [call for call in self.watched.calls if call.module in modules and call.entered > end]
        return any(call.entered < value.time < call.left for call in later for value in values)

    def _carried(self, block: Call, side: Value, path: Sequence[Value]) -> bool:
        """Whether a value is the block's own state from the step before, in a network that is unrolled in time.

        Then it joins what the block wrote in the way in which, a step before, it was made from what the block wrote.
        """
        reach = self.watched.reach
        earlier = (call for call in self.watched.calls if call.module is block.module and call.nth == block.nth - 1)
        for before in earlier:
            state = reach.ancestors(side) & self.watched.made_from(before)
            for join in (value for value in path if side.number in value.inputs):
                way = self._way(block.written.value, join)
                alike = (reach.values[number] for number in state if reach.values[number].made_by == join.made_by)
                if any(self._way(before.written.value, value) == way for value in alike):
                    return True
        return False

    def _way(self, start: Value, end: Value) -> list[str]:
        """The functions by which one value is made from another."""
        above = self.watched.reach.ancestors(end)
        return [value.made_by for value in self._path(start, end) if value.number in above]

    def _path(self, start: Value, end: Value) -> list[Value]:
        """What is computed on the way from one value to another, which is the last of it."""
        reached, path = {start.number}, []
        for value in self.watched.reach.values[start.number + 1 : end.number + 1]:
            if self.watched.reach.leads_on(value) and not reached.isdisjoint(value.inputs):
                reached.add(value.number)
                path.append(value)
        return path

    def _sides(self, start: Value, end: Value) -> list[Value]:
        """What else takes part on that way."""
        path = self._path(start, end)
        on_path = {start.number, *(value.number for value in path)}
        sides = {number for value in path for number in value.inputs} - on_path
        return [self.watched.reach.values[number] for number in sides]

    def _kind(self, block: Call, value: Value) -> str:
        """The type of the outermost module behind the block in which a value is made, or else its function."""
        return next((type(call.module).__name__ for call in self._around(block, value)), value.made_by)

    def _around(self, block: Call, value: Value) -> list[Call]:
        """The modules behind a block in which a value is made, the outermost first; none that holds a block itself."""
        during = [call for call in self.watched.calls if block.left < call.entered < value.time < call.left]
        return [call for call in during if not any(other.inside(call) for other in self.run)]
