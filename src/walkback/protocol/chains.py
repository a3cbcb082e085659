"""Which modules of a network are its blocks: chains that hand a tensor on from each to the next.

Modules of one type and one depth in the tree that hand a tensor on are a chain of blocks; the longest is taken, and
consecutive ones, such as a ResNet's stages, are joined. Where all that one layer writes is read by the next, with no
skip and no branch, a network is *plain*: unless modules of its own kind stand around its layers, every layer is a
block but the last, which is the head. Recurrent modules, where a plain network has any, are its blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from torch import nn

from walkback.protocol.boundaries import Boundaries
from walkback.protocol.calls import Call, Watched
from walkback.protocol.skips import Run as Run
from walkback.protocol.skips import has_skip_around, is_head, is_matrix, is_one_branch, is_plain

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def found_runs(watched: Watched, candidates: Iterable[Call]) -> list[Run]:
    """The chains that the structure shows as well as each other: none, one, or several to choose between."""
    calls = [call for call in candidates if call.has_matrix and watched.leads_on(call)]
    layers = innermost(calls)
    search = _Search(watched)
    if not is_plain(watched, layers):
        return [run for run in search.best(_without_spine(watched, calls, layers)) if len(run) > 1]
    single = set(map(id, layers))
    around = [c for c in calls if id(c) not in single and not isinstance(c.module, CONTAINERS)]
    runs = [run for run in search.best(around) if len(run) > 1]
    hidden = [call for call in layers if isinstance(call.module, nn.RNNBase)]
    hidden = hidden or (layers[:-1] if layers and is_head(watched, layers[-1]) else layers)
    return runs or ([hidden] if hidden else [])


def runs_by_call(watched: Watched, candidates: Sequence[Call]) -> list[Run]:
    """Of modules that are called several times: the longest chain of their first calls, of their second, and so on."""
    again = [c for c in candidates if c.has_matrix and watched.leads_on(c) and watched.visits[c.module] > 1]
    again = [c for c in again if c.written.value.same_as != watched.output.same_as and not c.makes_weights]
    found = []
    for nth in sorted({call.nth for call in again}):
        best = _Search(watched, in_branches=True).best([call for call in again if call.nth == nth])
        found += best[:1] or [[call for call in innermost(again) if call.nth == nth][:1]]
    return [run for run in found if run]


def innermost(calls: Sequence[Call]) -> Run:
    """The calls, in the order of entry, that hold no other of them: single layers."""
    following: list[Call | None] = [*calls[1:], None]
    return [call for call, after in zip(calls, following, strict=False) if after is None or not after.inside(call)]


def hands_on(run: Run) -> bool:
    """Whether each block's output is the next one's input as it is."""
    return all(a.written.same_as(b.read) for a, b in pairwise(run))


def linked_runs(watched: Watched, calls: Sequence[Call]) -> list[Run]:
    """Split calls in their order into runs, each call computed from the one before it; runs may interleave."""
    return _runs(calls, watched.leads_to)


def _without_spine(watched: Watched, calls: Sequence[Call], layers: Sequence[Call]) -> Run:
    """Leave out single layers that all of the stream passes through, where others of their kind have a skip around."""
    first = layers[0]
    spine = _spine(watched, layers)
    once = [layer for layer in layers if watched.visits[layer.module] == 1]
    on_spine = {id(layer) for layer in once if layer.written.value.number in set(spine)}
    behind = [layer for layer in layers if layer is first or watched.leads_to(first, layer)]
    beside = [layer for layer in behind if id(layer) not in on_spine]
    branches = {layer.family for layer in beside if has_skip_around(watched, spine, layer)}
    return [call for call in calls if id(call) not in on_spine or call.family not in branches]


def _spine(watched: Watched, layers: Sequence[Call]) -> list[int]:
    """What all of the stream passes: from what the first layer writes, or from what it reads, where a skip goes around
    it as around others, because the input is embedded by no layer that is seen, or by none."""
    first = layers[0]
    origin = Boundaries(watched, [first]).first()
    around = [value.number for value in watched.reach.passages(origin)]
    skipped = [layer for layer in layers if has_skip_around(watched, around, layer)]
    joined = min((number for number in around if number > first.written.value.number), default=None)
    later = [layer for layer in skipped if joined is not None and layer.read.value.number >= joined]
    if first in skipped and later:
        return around
    return [value.number for value in watched.reach.passages(first.written.value)]


def _runs(family: Sequence[Call], linked: Callable[[Call, Call], bool]) -> list[Run]:
    runs: list[Run] = []
    for call in family:
        open_runs = [run for run in reversed(runs) if linked(run[-1], call)]
        # Of two lists side by side, each goes on with its own.
        alike = [run for run in open_runs if _without_numbers(run[-1]) == _without_numbers(call)]
        if open_runs:
            (alike or open_runs)[0].append(call)
        else:
            runs.append([call])
    return runs


def _without_numbers(call: Call) -> str:
    return "".join(letter for letter in call.name if not letter.isdecimal())


class _Search:
    """The longest chains among some calls: handed on directly, or, where there are none, through other operations."""

    def __init__(self, watched: Watched, in_branches: bool = False) -> None:
        self.watched, self.in_branches = watched, in_branches
        """Whether chains count that lie inside one branch."""

    def best(self, calls: Sequence[Call]) -> list[Run]:
        """Of the longest, not those inside others, nor the later of two that take turns on one stream."""
        families: dict[object, Run] = {}
        lists: dict[object, Run] = {}
        for call in calls:
            families.setdefault(call.family, []).append(call)
            lists.setdefault((call.family, _without_numbers(call)), []).append(call)
        # Lists that take turns without handing on to one another, such as layers and their classifiers.
        found = self._longest(calls, families)
        return self._outermost(found if any(len(run) > 1 for run in found) else self._longest(calls, lists) or found)

    def _longest(self, calls: Sequence[Call], families: Mapping[object, Run]) -> list[Run]:
        linked = [run for family in families.values() for run in linked_runs(self.watched, family)]
        direct = [found for family in families.values() for found in self._direct(family) if self._is_stream(found[1])]
        direct = [found for found in direct if not any(self._is_beside(found[1], run) for run in linked)]
        direct = [found for found in direct if not any(_holds_some(found[1], run) for _, run in direct)]
        direct += [(len(run), run) for run in self._siblings(calls, [run for length, run in direct if length > 1])]
        # Chains in which one tensor is all of the stream, if there are any.
        alone = [found for found in direct if self._is_single(found[1])]
        linked = linked if alone else [self._one_per_skip(run) for run in linked]
        streams = [run for run in self._trimmed(linked) if self._is_stream(run)]
        return self._choose(alone, filter(self._is_single, streams)) or self._choose(direct, streams)

    def _choose(self, direct: Sequence[tuple[int, Run]], through: Iterable[Run]) -> list[Run]:
        longest = max((length for length, _ in direct), default=0)
        if longest > 1:
            return _distinct(run for length, run in direct if length == longest)
        runs = list(through)
        outer = [run for run in runs if not any(_inside(run, other) for other in runs if len(other) > 1)]
        return [run for run in outer if len(run) == max(map(len, outer))]

    def _one_per_skip(self, run: Run) -> Run:
        """Of modules that one skip goes around together, as many each time, the first; else the run as it is."""
        if len(run) < 3 or self._is_single(run):
            return run
        # Of the first alone: the skip around it may come back behind the next.
        spine = [value.number for value in self.watched.reach.passages(Boundaries(self.watched, run[:1]).first())]
        stretches: dict[int, Run] = {}
        for call in run:
            stretches.setdefault(bisect_left(spine, call.written.value.number), []).append(call)
        firsts = [stretch[0] for stretch in stretches.values()]
        alike = len(set(map(len, stretches.values()))) == 1
        return firsts if alike and len(firsts) < len(run) and self._is_single(firsts) else run

    def _is_beside(self, run: Run, other: Run) -> bool:
        """Whether a run lies in one block of another, and not all that comes there passes through it: as the two layers
        of an adapter beside a layer."""
        around = next((call for call in other if run[0].inside(call)), None)
        if len(other) < 2 or around is None or not all(call.inside(around) for call in run):
            return False
        passages = self.watched.reach.passages(around.read.value)
        return all(value is not run[0].written.value for value in passages)

    def _is_stream(self, run: Run) -> bool:
        return self.in_branches or len(run) < 2 or not is_one_branch(self.watched, run)

    def _is_single(self, run: Run) -> bool:
        boundaries = Boundaries(self.watched, run)
        return len(run) > 1 and boundaries.crossing(boundaries.sites()) is None

    def _direct(self, family: Run) -> list[tuple[int, Run]]:
        """Chains of one family in which some blocks hand on directly, and how long they count: the longest stretch that
        does, or all of it where nothing goes around what stands in between."""
        found = []
        for group in self._joined(_runs(family, lambda a, b: a.written.same_as(b.read))):
            stretches = self._trimmed([run for run in group if len(run) > 1])
            whole = self._trimmed([[call for run in group for call in run]])
            for run in whole if stretches else ():
                found.append((len(run) if is_plain(self.watched, run) else max(map(len, stretches)), run))
        return found

    def _siblings(self, calls: Sequence[Call], others: Sequence[Run]) -> list[Run]:
        """Modules of any type that lie in one list and hand the stream on in its shape: where no modules of one type
        do so, or where those are a part of them."""
        lists: dict[str, Run] = {}
        for call in calls:
            if len(list(call.module.children())) and call.read.value.shape == call.written.value.shape:
                lists.setdefault(call.name.rpartition(".")[0], []).append(call)
        runs = [run for siblings in lists.values() for run in _runs(siblings, lambda a, b: a.written.same_as(b.read))]
        mixed = [run for run in runs if len({call.family for call in run}) > 1]
        listed = self._trimmed([run for run in mixed if all(c.name.rpartition(".")[2].isdecimal() for c in run)])
        return [run for run in listed if not others or any(set(map(id, other)) < set(map(id, run)) for other in others)]

    def _joined(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Runs that follow one another on one stream, such as stages with something in between, side by side."""
        if all(len(run) == 1 for run in runs):
            return []
        groups: list[list[Run]] = []
        for run in runs:
            if groups and self.watched.leads_to(groups[-1][-1][-1], run[0]):
                groups[-1].append(run)
            else:
                groups.append([run])
        return groups

    def _trimmed(self, runs: Sequence[Run]) -> list[Run]:
        """Leave out a last module that writes the logits."""
        ends = [run[:-1] if self._writes_logits(run) else run for run in runs if len(run) > 1]
        return [run for run in ends if run]

    def _writes_logits(self, run: Run) -> bool:
        last = run[-1]
        if last.written.value.same_as == self.watched.output.same_as:
            return True
        if hands_on(run) or not is_head(self.watched, last):
            return False
        return not self._meets_elsewhere(run[-2], last)

    def _meets_elsewhere(self, block: Call, last: Call) -> bool:
        """Whether a block reaches the logits beside the last one, and not as a skip around it: then that is no head.

        So do layers whose activity is added up, as in forward-forward networks.
        """
        past, behind = {block.written.value.number}, {last.written.value.number}
        for value in self.watched.reach.values[block.written.value.number + 1 :]:
            sources = set(value.inputs)
            if sources & past and sources & behind:
                return value.shape != last.written.value.shape
            if sources & behind:
                behind.add(value.number)
            elif sources & past and not any(is_matrix(self.watched, source) for source in sources):
                past.add(value.number)
        return False

    def _outermost(self, best: list[Run]) -> list[Run]:
        outer = [run for run in best if not any(_inside(run, other) for other in best if other is not run)]
        return [run for run in outer if not any(self._take_turns(other, run) for other in outer if other is not run)]

    def _take_turns(self, first: Run, second: Run) -> bool:
        """Whether the two alternate on one stream, as attention and feed-forward modules do; `first` begins."""
        if len(first) < 2 or not first[0].left < second[0].entered < first[1].entered:
            return False
        return self.watched.leads_to(first[0], second[0]) and self.watched.leads_to(second[0], first[1])


def _inside(run: Run, other: Run) -> bool:
    return any(run[0].inside(call) for call in other)


def _holds_some(run: Run, other: Run) -> bool:
    """Whether a run is of mere containers, and blocks of the other lie in some of them and not in all: a stem, say."""
    containers = [call for call in run if isinstance(call.module, CONTAINERS)]
    empty = [call for call in containers if not any(block.inside(call) for block in other)]
    return len(containers) == len(run) and 0 < len(empty) < len(run)


def _distinct(runs: Iterable[Run]) -> list[Run]:
    """The same calls but once."""
    return list({tuple(map(id, run)): run for run in runs}.values())
