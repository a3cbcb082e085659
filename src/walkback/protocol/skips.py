"""What goes past a layer: skips, branches, and the ways through a network that meet no weight matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from walkback.protocol.calls import Call, Watched
from walkback.protocol.operations import ACTIVATIONS

Run = list[Call]


def is_plain(watched: Watched, run: Sequence[Call]) -> bool:
    """Whether everything that the first call wrote passes through each of the others: no skips, no branches."""
    spine = {value.number for value in watched.reach.passages(run[0].written.value)} if run else set()
    return all(call.written.value.number in spine for call in run)


def is_matrix(watched: Watched, number: int) -> bool:
    """Whether a value is a weight matrix: a parameter, or made from parameters alone."""
    value = watched.reach.values[number]
    return value.weighted and not value.fed and len(value.shape) > 1


def is_head(watched: Watched, layer: Call) -> bool:
    """Whether no further weights lie between a layer and the logits, be they of a module or of a function."""
    later = (call for call in watched.calls if call.entered > layer.left and call.has_weights)
    if any(watched.leads_to(layer, call) and watched.leads_on(call) for call in later):
        return False
    behind = {layer.written.value.number}
    for value in watched.reach.values[layer.written.value.number + 1 :]:
        if watched.reach.leads_on(value) and not behind.isdisjoint(value.inputs):
            behind.add(value.number)
            weights = any(is_matrix(watched, number) for number in value.inputs)
            if weights and value.made_by not in ACTIVATIONS:
                return False
    return True


def without_matrices(watched: Watched, sources: Iterable[int], until: int) -> set[int]:
    """The values, up to a number, that can be reached from some without meeting a weight matrix."""
    seen = set(sources)
    for number in range(min(seen, default=until) + 1, until + 1):
        inputs = watched.reach.values[number].inputs
        if not seen.isdisjoint(inputs) and not any(is_matrix(watched, source) for source in inputs):
            seen.add(number)
    return seen


def has_skip_around(watched: Watched, spine: Sequence[int], layer: Call) -> bool:
    """Whether a way without matrices leads past a layer, from the stream before it to the stream after it."""
    before = max((number for number in spine if number <= layer.read.value.number), default=None)
    after = min((number for number in spine if number > layer.written.value.number), default=None)
    return before is not None and after is not None and after in without_matrices(watched, [before], after)


def is_one_branch(watched: Watched, run: Run) -> bool:
    """Whether a skip goes around all of a run, and around none of its blocks: then it lies inside one block."""
    reach, read = watched.reach, run[0].read.value
    upstream = (reach.values[number] for number in reach.ancestors(read))
    stream = {v.number for v in upstream if v.floating and v.fed and (v.weighted or v.shape == read.shape)}
    skips = without_matrices(watched, stream, watched.output.number) - stream
    for block, following in pairwise(run):
        between = reach.passages(block.written.value, following.entered)
        if any(value.number in skips for value in between):
            return False
    return any(value.number in skips for value in reach.passages(run[-1].written.value))
