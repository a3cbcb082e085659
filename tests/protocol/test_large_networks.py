"""Networks that are large for their machine: some sites, few samples at a time, activations computed again."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from small_models import CLASSES, INPUT, Checkpointed, ResMLP, TokenNet, labelled
from test_batching import FIGURES, assert_same
from torch import nn

import walkback
from walkback.errors import BatchError, InputError
from walkback.protocol import double
from walkback.protocol.site_reader import SiteReader

DEPTH = 8
EVERY = [*FIGURES, "site_stabilities", "cross_batch_stability", "reference_fidelity"]


def deep(dtype=torch.float64):
    torch.manual_seed(3)
    return ResMLP(depth=DEPTH).to(dtype)


def batches(*sizes, **options):
    return labelled(*(sizes or (128, 128, 60)), dtype=torch.float64, **options)


@pytest.mark.parametrize("size", [1, 7, 32, 128, 1000])
def test_micro_batches_change_no_figure(size):
    model, data = deep(), batches(128, 60) if size == 1 else batches()
    expected = walkback.diagnose(model, data)
    report = walkback.diagnose(model, data, micro_batch=size)
    assert_same(report, expected, EVERY if size > 1 else FIGURES)
    assert (report.samples, report.groups, report.verdict) == (expected.samples, expected.groups, expected.verdict)
    assert report.headline_acc == expected.headline_acc


def test_no_more_samples_than_the_micro_batch_pass_at_once():
    model, seen = deep(), []
    model.stem.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    walkback.diagnose(model, batches(), micro_batch=10)
    assert max(seen) == 10
    assert seen.count(10) == 30 + 1  # the batches, and the pass whose gradient is checked
    seen.clear()
    walkback.diagnose(model, batches())
    assert max(seen) > 128


def test_micro_batches_cut_every_input_and_keep_alignment_as_it_is():
    class TwoInputs(ResMLP):
        def forward(self, left, right, scale):
            return super().forward(left + scale * right)

    model = TwoInputs().double()
    data = [((x, 2 * x, torch.tensor(0.5)), y) for x, y in batches(40, 33)]

    def credit(hiddens, logits, targets):
        return [hidden * 0.5 + 1 for hidden in hiddens]

    expected = walkback.diagnose(model, data, credit=credit)
    report = walkback.diagnose(model, data, credit=credit, micro_batch=9)
    assert_same(report, expected, FIGURES)
    assert report.alignment.sites == pytest.approx(expected.alignment.sites, rel=1e-9)


def test_micro_batches_that_cannot_be_cut_are_refused():
    for wrong in (0, -3, 2.5, True):
        with pytest.raises(BatchError, match=r"micro_batch is .*expected how many samples"):
            walkback.diagnose(deep(), batches(), micro_batch=wrong)
    square = [(torch.randn(INPUT, INPUT, INPUT, dtype=torch.float64), torch.zeros(INPUT, dtype=torch.long))]
    with pytest.raises(BatchError, match="two axes of 12"):
        walkback.diagnose(TokenNet(reads="all").double(), square, micro_batch=4)


@pytest.mark.parametrize(
    "sites", [[0, 1, 2], range(3, 9), slice(5, None), [8], [-1, -2], slice(None, None, 4), [0, 3, 4, 8]]
)
def test_chosen_sites_have_the_figures_that_they_have_among_all(sites):
    model, data = deep(), batches()
    every, some = walkback.diagnose(model, data), walkback.diagnose(model, data, sites=sites)
    numbers = list(range(DEPTH + 1)[sites]) if isinstance(sites, slice) else sorted(n % 9 for n in sites)
    assert list(some.site_numbers) == numbers
    assert some.last_site == DEPTH
    assert list(some.sites) == [every.sites[n] for n in numbers]
    for name in (
        "residual_norms",
        "bp_grad_norms",
        "scale_free_gradients",
        "drift_shares",
        "site_stabilities",
    ):
        assert getattr(some, name) == pytest.approx([getattr(every, name)[n] for n in numbers], rel=1e-12), name
    assert some.error_size == every.error_size


def test_all_sites_by_number_is_no_choice():
    model, data = deep(), batches()
    everything, given = walkback.diagnose(model, data), walkback.diagnose(model, data, sites=range(DEPTH + 1))
    assert given.to_dict() == everything.to_dict()
    assert everything.site_numbers is None


def test_what_was_left_out_is_not_passed():
    model, data = deep(), batches()
    some = walkback.diagnose(model, data, sites=[0, 4, 8])
    assert some.reading("a").state is walkback.State.NOT_MEASURED
    assert "Sites were left out" in some.reading("a").sentence
    assert some.reading("b").state is walkback.State.PASS
    assert not some.complete
    early = walkback.diagnose(model, data, sites=range(5))
    assert early.reading("a").state is walkback.State.NOT_MEASURED  # a later block may have grown
    assert early.reading("b").state is walkback.State.NOT_MEASURED
    assert "the last site, 8, which was not among the measured ones" in early.reading("b").sentence


@pytest.mark.parametrize("sites", [[0, 4, 8], [4, 5, 6, 7, 8], [4]])
@pytest.mark.parametrize("thresholds", [{}, {"drift_share_ceiling": 0.001}])
def test_direction_drift_is_judged_at_the_middle_of_the_network_whatever_is_chosen(sites, thresholds):
    model, data = deep(), batches()
    limits = walkback.DiagnosticThresholds(**thresholds)
    every = walkback.diagnose(model, data, thresholds=limits).reading("c")
    some = walkback.diagnose(model, data, thresholds=limits, sites=sites).reading("c")
    assert (some.value, some.state) == (pytest.approx(every.value, rel=1e-12), every.state)
    assert sites[some.site] == every.site == DEPTH // 2


@pytest.mark.parametrize("thresholds", [{}, {"drift_share_ceiling": 0.001}])
def test_direction_drift_without_the_middle_site_is_not_measured(thresholds):
    limits = walkback.DiagnosticThresholds(**thresholds)
    report = walkback.diagnose(deep(), batches(), thresholds=limits, sites=[0, 1, 8])
    assert report.reading("c").state is walkback.State.NOT_MEASURED
    assert "the middle site, 4, which was not among the measured ones" in report.reading("c").sentence
    assert len(report.site_stabilities) == 3


@pytest.mark.parametrize("sites", [None, slice(-3, None)])
def test_the_fp64_pass_copies_no_weights_before_the_first_measured_site(sites, monkeypatch):
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(11, 16)  # takes no floating tensor
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(DEPTH))
            self.head = nn.Linear(16, CLASSES)

        def forward(self, x):
            x = self.embedding(x).mean(dim=1)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    copied, in_double = [], double._in_double

    @contextmanager
    def counting(model, but=()):
        with in_double(model, but):
            doubled = [name for name, parameter in model.named_parameters() if parameter.dtype == torch.float64]
            copied.append({"".join(name.split(".")[:2]) for name in doubled})
            yield

    monkeypatch.setattr(double, "_in_double", counting)
    torch.manual_seed(0)
    data = [(torch.randint(0, 11, (64, 5)), torch.randint(0, CLASSES, (64,)))]
    report = walkback.diagnose(Tokens(), data, sites=sites)
    assert report.reference_fidelity == pytest.approx([1.0] * len(report.sites))
    behind = range(DEPTH) if sites is None else range(DEPTH - 2, DEPTH)
    assert copied == [{"headweight", "headbias", *(f"blocks{number}" for number in behind)}]


def test_a_mean_growth_over_several_blocks_can_fire():
    model = deep()
    with torch.no_grad():
        for block in model.blocks:
            block.down.weight.mul_(3e4)
    report = walkback.diagnose(model, batches(), sites=[0, 2])
    ratio = report.residual_norms[1] / report.residual_norms[0]
    assert report.reading("a").value == pytest.approx(ratio**0.5)
    assert report.reading("a").state is walkback.State.FIRE
    assert walkback.judge(report.measurements).verdict == report.verdict
    loaded = walkback.DiagnosticReport.from_dict(report.to_dict())
    assert loaded == report


@pytest.mark.parametrize("wrong", [[9], [-10], [], ["blocks.1"], 3.5, [True], "all"])
def test_sites_that_are_not_there_are_refused(wrong):
    with pytest.raises(InputError, match="sites= "):
        walkback.diagnose(deep(), batches(), sites=wrong)


def test_alignment_needs_all_sites():
    with pytest.raises(InputError, match="credit= hands a credit to every site"):
        walkback.diagnose(deep(), batches(), sites=[0, 8], credit=lambda h, logits, y: list(h))


def test_the_graph_begins_at_the_first_chosen_site(monkeypatch):
    nodes, pull_back = [], SiteReader.pull_back

    def counting(reader, logits, *arguments, **options):
        todo, seen = [logits.grad_fn], set()
        while todo:
            node = todo.pop()
            if node is not None and node not in seen:
                seen.add(node)
                todo += [parent for parent, _ in node.next_functions]
        nodes.append(len(seen))
        return pull_back(reader, logits, *arguments, **options)

    monkeypatch.setattr(SiteReader, "pull_back", counting)
    walkback.diagnose(deep(), batches())
    whole = max(nodes)
    nodes.clear()
    walkback.diagnose(deep(), batches(), sites=[7, 8])
    assert max(nodes) < whole / 4


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing_with_chosen_sites_and_micro_batches(reentrant):
    model = Checkpointed(reentrant).double()
    plain = ResMLP().double()
    plain.load_state_dict(model.state_dict())
    report = walkback.diagnose(model, batches(), sites=[1, 2, 3], micro_batch=20)
    assert_same(report, walkback.diagnose(plain, batches(), sites=[1, 2, 3]), EVERY)


def test_checkpointed_blocks_are_computed_again_and_not_kept():
    model, calls = Checkpointed(reentrant=False), []
    model.blocks[1].up.register_forward_hook(lambda module, args, output: calls.append(torch.is_grad_enabled()))
    walkback.diagnose(model, [(torch.randn(300, INPUT), torch.randint(0, CLASSES, (300,)))])
    plain = ResMLP()
    once = []
    plain.blocks[1].up.register_forward_hook(lambda module, args, output: once.append(1))
    walkback.diagnose(plain, [(torch.randn(300, INPUT), torch.randint(0, CLASSES, (300,)))])
    assert len(calls) > len(once)
