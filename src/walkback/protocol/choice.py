"""One chain of blocks out of what was named or found, or a sentence that says what to pass."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from walkback.errors import BlocksError
from walkback.protocol.bare_weights import bare_products, stream_layers, weight_at
from walkback.protocol.boundaries import Boundaries
from walkback.protocol.calls import Call, is_quantised
from walkback.protocol.chains import Run, innermost, runs_by_call
from walkback.protocol.flow import Value
from walkback.protocol.offers import Offers
from walkback.protocol.parts import Division
from walkback.protocol.skips import is_head
from walkback.protocol.unrolled import unrolled_in_time


def chosen_run(division: Division) -> Run:
    """The chain of blocks; one that is a matter of choice is refused, with arguments that work."""
    runs, choice = division.runs(), _Choice(division)
    if not runs:
        raise choice.none()
    if division.given:
        if len(runs) > 1:
            raise choice.unlinked(runs)
        return _from_the_first_state(runs[0])
    if len(runs) > 1 or choice.leaves_calls_out(runs[0]):
        raise choice.several(runs)
    run = _from_the_first_state(runs[0])
    choice.check(run)
    return run


def _from_the_first_state(run: Run) -> Run:
    """Without a first call that reads a constant, such as an empty state: what it writes is then h_0."""
    read = run[0].read.value
    return run if read.fed or read.weighted or len(run) == 1 else run[1:]


class _Choice:
    """What can be wrong with a network's blocks, in words."""

    def __init__(self, division: Division) -> None:
        self.division, self.watched = division, division.watched
        self.kind = type(division.model).__name__
        self.offers = Offers(division.model, division.watched, self._boundaries)

    def _boundaries(self, run: Run) -> list[Value]:
        return Boundaries(self.watched, run, self.division.head_at).sites()

    def pass_one_of(self, runs: Sequence[Run]) -> str:
        """The arguments that work, as a sentence; the plain request for one where none does."""
        listed = self.offers.of(runs)
        return f"Pass one of: {listed}." if listed else "Pass blocks=, e.g. blocks='layers.*' or a list of modules."

    def none(self) -> BlocksError:
        """No modules hand a tensor on."""
        quantised = next((name for module, name in self.watched.names.items() if is_quantised(module)), None)
        if quantised is not None and not self.watched.calls:
            return BlocksError(
                f"{self.kind} is quantised: {quantised} and its like pass integers on, of which there is no norm and "
                "no gradient. Diagnose the floating-point model that it was made from."
            )
        if not self.division.whole and not self._hidden():
            return BlocksError(
                f"stem=, head= and what blocks= leaves out (!) take all of {self.kind}'s layers, so that none is left "
                "for the blocks. Name less in them."
            )
        by_call = self._by_call()
        if by_call:
            return self._called_again(by_call)
        layers = [call for call in stream_layers(self.watched) if not self._writes_logits(call)]
        bare = bare_products(self.watched, layers)
        if bare:
            return self._bare(bare, [])
        if self._is_one_layer():
            return BlocksError(
                f"{self.kind} has no hidden layer: between its input and its logits there is one layer with weights, "
                "so that no block can be blamed or frozen. Diagnose a network with at least one layer before the last."
            )
        if self._calls_no_layer():
            return BlocksError(
                f"the forward pass of {self.kind} calls none of its layers as a module, as it is where torch.export or "
                "torch.func made it or runs it; a site is what a module reads or writes. Diagnose the nn.Module that "
                "it was made from, with the same weights."
            )
        instead = self.offers.instead(self.division.candidates())
        return BlocksError(
            f"no chain of blocks was found in {self.kind}: between what embeds the input and what writes the output, "
            f"no modules of one type hand a tensor on. {self.pass_one_of(instead)}"
        )

    def _hidden(self) -> Run:
        """What may be a block and is not the last layer."""
        calls = [call for call in self.division.candidates() if call.has_matrix and self.watched.leads_on(call)]
        return [call for call in calls if not is_head(self.watched, call)]

    def _is_one_layer(self) -> bool:
        layers = innermost([call for call in self.division.candidates() if call.has_matrix])
        matrices = [value for value in self.watched.parameters.values() if value.ndim > 1]
        return len(layers) < 2 and len(matrices) < 2 and self.division.whole

    def _calls_no_layer(self) -> bool:
        """Whether there are weight matrices, and no module that holds any is called with what comes from the input."""
        held = any(parameter.ndim > 1 for parameter in self.division.model.parameters())
        inside = (call for call in self.watched.calls if call.module is not self.division.model and call.has_matrix)
        return held and not any(self.watched.leads_on(call) for call in inside)

    def _writes_logits(self, call: Call) -> bool:
        return call.written.value.same_as == self.watched.output.same_as

    def _bare(self, products: Sequence[Value], run: Run) -> BlocksError:
        """Layers that are no modules; those of a run are the ones that are."""
        found = f"only {', '.join(call.name for call in run)}" if run else "no chain of blocks"
        alone = f" To measure what was found alone, pass {self.offers.of([run])}." if run else ""
        return BlocksError(
            f"{found} was found in {self.kind}: it computes with bare parameters such as "
            f"{weight_at(self.watched, products[0])}, and a site is what a module reads or writes. Let forward call a "
            f"module for each layer (nn.Linear, or one of yours, with the same weights), and diagnose that network."
            f"{alone}"
        )

    def _by_call(self) -> list[Run]:
        return runs_by_call(self.watched, self.division.candidates())

    def leaves_calls_out(self, run: Run) -> bool:
        """Whether modules of a found run are called elsewhere too, on the way to the logits and not inside a stage."""
        modules = {call.module for call in run}
        calls = [call for call in self.division.candidates() if call.module in modules and self.watched.leads_on(call)]
        if len(calls) == len(run):
            return False
        sites = self._boundaries(run)
        inside = self.watched.made_from(run[0]) & self.watched.reach.ancestors(sites[-1])
        return any(call not in run and call.written.value.number not in inside for call in calls)

    def several(self, runs: Sequence[Run]) -> BlocksError:
        """Chains of one length, or of one module's several calls."""
        by_call = self._by_call()
        if by_call and any(self.watched.visits[call.module] > 1 for run in runs for call in run):
            return self._called_again(by_call)
        return BlocksError(f"several chains of blocks are as long as each other. {self.pass_one_of(runs)}")

    def _called_again(self, by_call: Sequence[Run]) -> BlocksError:
        first = by_call[0][0]
        return BlocksError(
            f"the forward pass calls {first.name} {self.watched.visits[first.module]} times, and not as one chain: as "
            "with two inputs to one encoder, or steps in time. Depth is layers: choose a call. "
            f"{self.pass_one_of(by_call)}"
        )

    def unlinked(self, runs: Sequence[Run]) -> BlocksError:
        """The named blocks are not one chain."""
        first, second = self.watched.label(runs[0][-1]), self.watched.label(runs[1][0])
        return BlocksError(
            f"blocks= names modules that do not follow one another: what {second} reads was not computed from what "
            f"{first} wrote. {self.pass_one_of(runs)}"
        )

    def check(self, run: Run) -> None:
        """Refuse a found chain whose depth may be something else than layers one after the other."""
        self._check_bare(run)
        self._check_fused(run)
        self._check_time(run)
        self._check_crossing(run)

    def _check_bare(self, run: Run) -> None:
        """Layers of a plain network that are no modules would be missed before the first site and after the last."""
        layers = stream_layers(self.watched)
        if all(call in layers for call in run):
            first, *_, last = self._boundaries(run)
            bare = bare_products(self.watched, layers)
            missed = [value for value in bare if not first.number < value.number <= last.number]
            if missed:
                raise self._bare(missed, run)

    def _check_fused(self, run: Run) -> None:
        for call in run:
            layers = call.module.num_layers if isinstance(call.module, nn.RNNBase) else 1
            if layers > 1:
                kind = type(call.module).__name__
                raise BlocksError(
                    f"{call.name} is an nn.{kind} of {layers} layers in one module, and what passes between its layers "
                    f"cannot be read. Stack single-layer ones, nn.ModuleList([nn.{kind}(…, num_layers=1), …]), with "
                    f"the same weights; or count it as one block: {self.offers.of([run])}."
                )

    def _check_time(self, run: Run) -> None:
        module = unrolled_in_time(self.watched, run)
        if module is not None:
            last = self._by_call()[-1]
            raise BlocksError(
                f"{self.watched.names[module]} is called {self.watched.visits[module]} times, each time with a new "
                "part of the input: the network is unrolled in time, and depth is layers, not time. For the layers at "
                "the last step, or to count the steps as depth all the same, pass one of: "
                f"{self.offers.of([last, run])}."
            )

    def _check_crossing(self, run: Run) -> None:
        boundaries = Boundaries(self.watched, run, self.division.head_at)
        crossing = boundaries.crossing(boundaries.sites())
        if crossing is not None:
            before, after = map(self.watched.label, crossing)
            raise BlocksError(
                f"between {before} and {after} no one tensor is all of the stream: a skip from further up joins or "
                "leaves it, or a block hands on more than one. To read what passes from block to block all the same, "
                f"pass {self.offers.of([run])}."
            )
