"""gpt: no token sees a later one, every token has an answer, and methods hand each token its own credit."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plain_layers import gelu, layer_norm, linear, plain
from torch import nn
from zoo_networks import TEXT, batch, gradients, losses_of, sites_of, small, trace_of, true_gradients

from walkback.errors import InputError
from walkback.lab.zoo import DataSpec, build_method, build_model, freeze
from walkback.lab.zoo.answers import are_right, mean_loss, output_error, sample_losses, summed_loss
from walkback.lab.zoo.methods.credit_forms import FactoredCredit, per_sample_unit, whole

CHARACTERS = DataSpec((64,), 84, vocabulary=84, target_shape=(64,))


def test_changing_a_later_token_changes_no_earlier_logit():
    model, (inputs, _) = small("gpt"), batch()
    before = model(inputs)
    for place in range(TEXT.input_shape[0]):
        changed = inputs.clone()
        changed[:, place] = (changed[:, place] + 1) % TEXT.vocabulary
        after = model(changed)
        assert torch.equal(after[:, :place], before[:, :place])
        assert not torch.isclose(after[:, place:], before[:, place:]).all(dim=-1).any()


def test_no_gradient_of_a_token_reaches_a_later_one():
    model, (inputs, _) = small("gpt"), batch()
    sites, logits = sites_of(model, inputs)
    for place in range(TEXT.input_shape[0]):
        for gradient in torch.autograd.grad(logits[:, place].sum(), sites, retain_graph=True):
            assert not gradient[:, place + 1 :].any()
            assert gradient[:, place].any()


def attention(layer, tokens: np.ndarray, heads: int) -> np.ndarray:
    """One sample, (T, d): each token in turn, over itself and those before it."""
    query, key, value = np.split(linear(layer.qkv, tokens), 3, axis=1)
    size = tokens.shape[1] // heads
    mixed = np.zeros_like(tokens)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for place in range(len(tokens)):
            scores = key[: place + 1, part] @ query[place, part] / np.sqrt(size)
            shares = np.exp(scores - scores.max())
            mixed[place, part] = shares / shares.sum() @ value[: place + 1, part]
    return linear(layer.proj, mixed)


def test_it_is_its_definition():
    model, (inputs, _) = small("gpt"), batch(3)
    for sample, logits in zip(inputs, model(inputs), strict=True):
        hidden = plain(model.stem.tokens.weight)[sample.numpy()] + plain(model.stem.position)[0]
        for block in model.blocks:
            hidden = hidden + attention(block.attention, layer_norm(block.norm1, hidden), heads=2)
            inner = gelu(linear(block.linear1, layer_norm(block.norm2, hidden)))
            hidden = hidden + linear(block.linear2, inner)
        expected = linear(model.head[1], layer_norm(model.head[0], hidden))
        np.testing.assert_allclose(plain(logits), expected, rtol=1e-10, atol=1e-12)


def test_its_size_and_sites():
    model = build_model("gpt", CHARACTERS)
    block = 2 * 2 * 128 + (128 * 3 * 128 + 3 * 128) + (128 * 128 + 128) + (128 * 512 + 512) + (512 * 128 + 128)
    expected = 84 * 128 + 64 * 128 + 4 * block + 2 * 128 + 128 * 84 + 84
    assert sum(parameter.numel() for parameter in model.parameters()) == expected == 823_124
    assert model.site_shapes == ((64, 128),) * 5
    assert model(torch.zeros(2, 64, dtype=torch.int64)).shape == (2, 64, 84)
    assert model(torch.zeros(2, 10, dtype=torch.int64)).shape == (2, 10, 84)


def test_stem_blocks_and_head_share_no_parameter():
    model = small("gpt")
    parts = [model.stem, *model.blocks, model.head]
    owners = [id(parameter) for part in parts for parameter in part.parameters()]
    assert len(owners) == len(set(owners))


# What an answer is, in the one place that says so.


@pytest.mark.parametrize("shape", [(9, 5), (4, 6, 5)])
def test_losses_errors_and_right_answers_are_those_of_a_slow_twin(shape):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(5, shape[:-1], generator=generator)
    each = losses_of(logits, targets)
    torch.testing.assert_close(sample_losses(logits, targets), each)
    torch.testing.assert_close(mean_loss(logits, targets), each.mean())
    torch.testing.assert_close(summed_loss(logits, targets), each.sum())
    (expected,) = torch.autograd.grad(each.sum(), logits)
    torch.testing.assert_close(output_error(logits, targets), expected)
    right = are_right(logits, targets)
    for place in np.ndindex(*targets.shape):
        assert bool(right[place]) == (int(np.argmax(plain(logits)[place])) == int(targets[place]))
    broken = logits.detach().clone()
    broken.view(-1, 5)[1, 2] = float("nan")
    assert not are_right(broken, broken.argmax(dim=-1)).view(-1)[1]


def test_the_whole_batch_weighs_samples_alike():
    model, (inputs, targets) = small("gpt"), batch()
    (model_loss,) = [build_method("bp", model).accumulate(inputs, targets).loss]
    torch.testing.assert_close(model_loss, losses_of(model(inputs), targets).mean().detach())


# Methods where every token has an answer.


def test_dfa_hands_every_token_its_own_error():
    model, (inputs, targets) = small("gpt"), batch()
    method, trace = build_method("dfa", model), trace_of(model, inputs, targets)
    for site, credit in enumerate(method.credits(trace)):
        feedback = plain(method.feedback(site))
        for sample in range(len(inputs)):
            for place in range(TEXT.input_shape[0]):
                scores = plain(trace.logits)[sample, place]
                error = np.exp(scores - scores.max())
                error /= error.sum()
                error[int(targets[sample, place])] -= 1
                np.testing.assert_allclose(
                    plain(credit)[sample, place], error / TEXT.input_shape[0] @ feedback, rtol=1e-9, atol=1e-15
                )


def test_dfa_trains_blocks_by_the_gradient_of_their_output_with_its_credit():
    model, (inputs, targets) = small("gpt"), batch()
    method = build_method("dfa", model)
    trace, twin = trace_of(model, inputs, targets), copy.deepcopy(model)
    method.accumulate(inputs, targets)
    credits = method.credits(trace)
    written = [twin.stem(inputs), *(b(h) for b, h in zip(twin.blocks, trace.hiddens[:-1], strict=True))]
    total = sum((w * c).sum() for w, c in zip(written, credits, strict=True)) / len(inputs)
    (total + losses_of(twin.head(trace.hiddens[-1]), targets).mean()).backward()
    for name, gradient in gradients(twin).items():
        torch.testing.assert_close(gradients(model)[name], gradient, rtol=1e-9, atol=1e-13)


def test_fa_block_sends_every_tokens_gradient_by_itself():
    model, (inputs, targets) = small("gpt").eval(), batch()
    method = build_method("fa_block", model, credit_site="written")
    credits = method.credits(trace_of(model, inputs, targets))
    expected = true_gradients(model, inputs, targets)[-1]
    torch.testing.assert_close(credits[-1], expected)
    for site in reversed(range(len(credits) - 1)):
        expected = torch.einsum("btd,de->bte", expected, method.feedback(site))
        torch.testing.assert_close(credits[site], expected)


def test_a_factored_credit_of_tokens_is_its_product_scaled_by_sample():
    generator = torch.Generator().manual_seed(0)
    error = torch.randn(4, 6, 3, generator=generator, dtype=torch.float64)
    feedback = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    credit = FactoredCredit(error, feedback, (6, 5))
    torch.testing.assert_close(credit.whole(), torch.einsum("btc,cd->btd", error, feedback))
    norms = whole(per_sample_unit(credit)).flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(4, dtype=torch.float64))
    layer, reads = nn.Linear(7, 5).double(), torch.randn(4, 6, 7, generator=generator, dtype=torch.float64)
    reads.requires_grad_()
    assert credit.fits(layer, reads)
    credit.on_output_of(layer, reads).backward()
    found = [reads.grad.clone(), layer.weight.grad.clone(), layer.bias.grad.clone()]
    expected = torch.autograd.grad((layer(reads) * credit.whole()).sum(), [reads, layer.weight, layer.bias])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_credit_of_tokens_at_a_site_without_them_is_refused():
    credit = FactoredCredit(torch.ones(2, 6, 3), torch.ones(3, 5), (5,))
    with pytest.raises(InputError, match=r"credit of the shape \(6, 5\), but a site .* \(5,\)"):
        credit.whole()


@pytest.mark.parametrize("name", ["state_bridge", "credit_bridge", "credit_bridge_vector"])
def test_a_bridge_refuses_it_in_a_sentence(name):
    with pytest.raises(InputError, match="not defined on this network: A bridge predicts what the head reads"):
        build_method(name, small("gpt"))


def test_without_blocks_it_is_a_table_of_pairs():
    """shallow: what follows a token hangs on that token and its place alone."""
    model, (inputs, _) = freeze(small("gpt"), "shallow"), batch()
    one, other = inputs.clone(), inputs.clone()
    other[:, :-1] = (other[:, :-1] + 1) % TEXT.vocabulary
    torch.testing.assert_close(model(one)[:, -1], model(other)[:, -1])


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (DataSpec((8,), 3), {}, r"architecture gpt reads tokens, and these inputs are numbers of shape \(8,\)"),
        (DataSpec((8,), 3, vocabulary=9), {}, r"answers for every token; got .* targets of shape \(\)"),
        (TEXT, {"heads": 5}, "not a multiple of heads 5"),
        (TEXT, {"depth": 0}, "depth is 0; expected 1 or more"),
    ],
)
def test_what_it_cannot_be_built_for_is_refused(data, options, message):
    with pytest.raises(InputError, match=message):
        build_model("gpt", data, **options)


@pytest.mark.parametrize("architecture", ["resmlp", "vit_mini", "mlp", "small_cnn"])
def test_others_refuse_tokens(architecture):
    with pytest.raises(InputError, match=rf"architecture {architecture} reads images or vectors .* Use gpt"):
        build_model(architecture, TEXT)


def test_backprop_and_dfa_learn_to_predict_letters():
    """A text in which each letter follows from the one before: the loss falls far below that of the letters' shares."""
    torch.manual_seed(0)
    data = DataSpec((16,), 8, vocabulary=8, target_shape=(16,))
    starts = torch.randint(8, (256, 1), generator=torch.Generator().manual_seed(1))
    letters = (starts + 3 * torch.arange(17)) % 8
    inputs, targets = letters[:, :-1].contiguous(), letters[:, 1:].contiguous()
    start, reached = np.log(8), {}
    for name in ("bp", "dfa"):
        model = build_model("gpt", data, width=32, depth=2, heads=2)
        method = build_method(name, model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for step in range(40):
            part = slice(64 * (step % 4), 64 * (step % 4) + 64)
            optimizer.zero_grad()
            reached[name] = method.accumulate(inputs[part], targets[part]).loss.item()
            optimizer.step()
    assert F.cross_entropy(torch.zeros(1, 8), torch.tensor([0])).item() == pytest.approx(start)
    assert reached["bp"] < 0.2 * start
    assert reached["dfa"] < 0.5 * start
