"""How samples are batched, ordered and reduced: what may change a figure, and what may not."""

from collections import namedtuple

import pytest
import torch
from agreement import agrees
from small_models import CLASSES, INPUT, WIDTH, ResMLP, TokenNet, labelled, sites_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import walkback

TOKENS = (5, INPUT)


def rebatched(batches, size):
    x, y = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    return list(zip(x.split(size), y.split(size), strict=True))


FIGURES = ["residual_norms", "bp_grad_norms", "error_size", "scale_free_gradients", "drift_shares"]


def assert_same(report, expected, names, rel=1e-9):
    for name in names:
        assert getattr(report, name) == pytest.approx(getattr(expected, name), rel=rel, abs=1e-13), name


@pytest.mark.parametrize("size", [1, 32, 100, 512])
def test_the_batch_size_changes_nothing(size):
    model, batches = ResMLP().double(), labelled(*[128] * 5, dtype=torch.float64)
    if size == 1:
        batches = batches[:2]
    expected = walkback.diagnose(model, batches)
    report = walkback.diagnose(model, rebatched(batches, size))
    assert_same(report, expected, [*FIGURES, "site_stabilities", "cross_batch_stability"])
    assert (report.samples, report.groups) == (expected.samples, expected.groups)
    assert report.headline_acc == expected.headline_acc
    assert report.verdict == expected.verdict


def test_an_incomplete_last_group_counts_for_all_but_c():
    model, batches = ResMLP().double(), labelled(300, dtype=torch.float64)
    report = walkback.diagnose(model, batches)
    first_groups = walkback.diagnose(model, [(x[:256], y[:256]) for x, y in batches])
    assert report.groups == 2
    assert report.cross_batch_stability == pytest.approx(first_groups.cross_batch_stability, rel=1e-12)
    assert report.drift_shares != first_groups.drift_shares


def test_one_group_leaves_c_unmeasured():
    report = walkback.diagnose(ResMLP(), labelled(255))
    assert report.reading("c").state is walkback.State.NOT_MEASURED
    assert report.cross_batch_stability is None
    assert report.drift_shares is not None


def test_the_order_of_samples_changes_only_c():
    model = ResMLP().double()
    (x, y), *_ = labelled(300, dtype=torch.float64)
    order = torch.randperm(300)
    torch.manual_seed(5)
    feedback = [torch.randn(CLASSES, WIDTH, dtype=torch.float64) for _ in range(4)]

    def credit(hiddens, logits, targets):
        error = logits.softmax(-1) - nn.functional.one_hot(targets, CLASSES)
        return [error @ matrix for matrix in feedback]

    expected = walkback.diagnose(model, [(x, y)], credit=credit)
    report = walkback.diagnose(model, [(x[order], y[order])], credit=credit)
    assert_same(report, expected, FIGURES)
    assert report.alignment.sites == pytest.approx(expected.alignment.sites, rel=1e-9)
    assert report.cross_batch_stability != pytest.approx(expected.cross_batch_stability, rel=1e-6)


def test_a_single_sample():
    report = walkback.diagnose(ResMLP(), labelled(1))
    assert report.samples == 1
    assert report.drift_shares is None


@pytest.mark.parametrize("reads", ["class_token", "all"])
@pytest.mark.parametrize("tokens", ["class_token", "token_norms", "flatten"])
def test_token_reductions(tokens, reads):
    agrees(TokenNet(reads), labelled(20, 7, shape=TOKENS), sites_of("blocks.0", "blocks.1"), tokens=tokens)


def test_the_reductions_differ():
    model, batches = TokenNet(), labelled(20, shape=TOKENS)
    reductions = ("class_token", "token_norms", "flatten")
    assert len({walkback.diagnose(model, batches, tokens=tokens).residual_norms for tokens in reductions}) == 3


def test_the_default_reduction_follows_what_the_head_reads():
    batches = labelled(20, shape=TOKENS)
    assert walkback.diagnose(TokenNet("class_token"), batches).site_reduction == "class token of (B, T, d)"
    assert walkback.diagnose(TokenNet("all"), batches).site_reduction == "all tokens, flattened of (B, T, d)"
    layers = [nn.TransformerEncoderLayer(WIDTH, 2, 8, batch_first=True) for _ in range(2)]
    one_token = nn.Sequential(nn.Linear(INPUT, WIDTH), *layers, nn.Flatten(), nn.Linear(WIDTH, CLASSES))
    assert "flattened" in walkback.diagnose(one_token, labelled(20, shape=(1, INPUT))).site_reduction


def test_the_class_token_is_chosen_before_anything_is_measured():
    # The first batch decides, and is itself measured in the way that it decided.
    model, batches = TokenNet("class_token"), labelled(20, 7, shape=TOKENS)
    assert walkback.diagnose(model, batches) == walkback.diagnose(model, batches, tokens="class_token")


Pair = namedtuple("Pair", "inputs labels")


@pytest.mark.parametrize(
    "form",
    [
        lambda x, y: (x, y),
        lambda x, y: [x, y],
        lambda x, y: Pair(x, y),
        lambda x, y: ([x], y),
        lambda x, y: {"inputs": x, "labels": y},
        lambda x, y: {"label": y, "inputs": x},
        lambda x, y: ({"inputs": x}, y),
        lambda x, y: (x, y.tolist()),
        lambda x, y: (x.numpy(), y.numpy()),
        lambda x, y: (x.double(), y.to(torch.uint8)),
    ],
)
def test_forms_of_batches(form):
    model, batches = ResMLP(), labelled(20, 7)
    expected = walkback.diagnose(model, batches)
    assert walkback.diagnose(model, [form(x, y) for x, y in batches]) == expected


def test_a_loader_and_a_generator_and_a_limit():
    model, batches = ResMLP(), labelled(20, 20, 20)
    expected = walkback.diagnose(model, batches[:2])
    x, y = torch.cat([x for x, _ in batches[:2]]), torch.cat([y for _, y in batches[:2]])
    assert walkback.diagnose(model, DataLoader(TensorDataset(x, y), batch_size=20)) == expected
    assert walkback.diagnose(model, (batch for batch in batches[:2])) == expected

    def more_than_enough():
        yield from batches[:2]
        raise AssertionError("a third batch was asked for")

    assert walkback.diagnose(model, more_than_enough(), max_batches=2) == expected


@pytest.mark.parametrize(
    "form",
    [
        lambda logits: (logits, None),
        lambda logits: {"logits": logits},
        lambda logits: namedtuple("Output", "logits hidden")(logits, None),
        lambda logits: [logits],
    ],
)
def test_forms_of_outputs(form):
    class Wrapped(ResMLP):
        def forward(self, inputs):
            return form(super().forward(inputs))

    model, plain = Wrapped(), ResMLP()
    plain.load_state_dict(model.state_dict())
    got, expected = walkback.diagnose(model, labelled(20)), walkback.diagnose(plain, labelled(20))
    assert_same(got, expected, FIGURES)
