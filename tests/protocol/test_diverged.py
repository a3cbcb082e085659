"""NaN and Inf anywhere: never trustworthy, whichever way they hide."""

import pytest
import torch
from small_models import INPUT, ConvNet, ResMLP, TokenNet, labelled

import walkback
from walkback.protocol.diagnostics.declare import CHECK_INPUTS
from walkback.protocol.finite import NON_FINITE_SOURCE

VERDICT = "needs walk-back: non-finite values"


def poisoned(name, value, model=None):
    model = model or ResMLP()
    with torch.no_grad():
        dict(model.named_parameters())[name].view(-1)[0] = value
    return model


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "name", ["stem.weight", "blocks.1.down.weight", "blocks.2.norm.bias", "head.weight", "head.bias"]
)
def test_a_single_weight(name, value):
    report = walkback.diagnose(poisoned(name, value), labelled(130, 130))
    assert report.verdict.startswith(VERDICT)
    assert not report.trustworthy


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_single_weight_in_other_precisions(dtype):
    report = walkback.diagnose(poisoned("blocks.0.up.weight", float("nan")).to(dtype), labelled(20, dtype=dtype))
    assert report.verdict.startswith(VERDICT)


def test_logits_alone():
    # The stream and even the accuracy look healthy.
    report = walkback.diagnose(poisoned("head.bias", float("nan")), labelled(130, 130))
    assert report.nonfinite_hiddens == (0, 0, 0, 0)
    assert report.nonfinite_logits == 260
    assert report.reading("b").state is walkback.State.FIRE


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("sample", [0, 150, 259])
def test_one_sample_of_many(value, sample):
    # The median of 260 does not see it.
    batches = labelled(130, 130)
    batches[sample // 130][0][sample % 130, 3] = value
    report = walkback.diagnose(ResMLP(), batches)
    assert report.verdict.startswith(VERDICT)
    assert report.nonfinite_hiddens == (1, 1, 1, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_pixel(value):
    batches = labelled(20, shape=(3, 6, 6))
    batches[0][0][4, 1, 2, 2] = value
    assert walkback.diagnose(ConvNet(), batches).verdict.startswith(VERDICT)


@pytest.mark.parametrize("tokens", [None, "class_token", "token_norms", "flatten"])
def test_a_token_that_the_head_does_not_read(tokens):
    model = TokenNet("class_token")
    # The last block writes NaN to token 4 of every sample, and the head reads token 0.
    model.blocks[1].register_forward_hook(lambda _m, _a, out: out.index_fill(1, torch.tensor([4]), float("nan")))
    report = walkback.diagnose(model, labelled(20, shape=(5, INPUT)), tokens=tokens)
    assert report.verdict.startswith(VERDICT)
    assert report.nonfinite_hiddens == (0, 0, 20)
    assert report.nonfinite_logits == 0


def test_a_gradient_alone():
    class Steep(ResMLP):
        def body(self, hidden):
            hidden = super().body(hidden)
            return hidden + (hidden - hidden).sqrt()  # 0, with an infinite slope

    report = walkback.diagnose(Steep(), labelled(20))
    assert report.verdict.startswith(VERDICT)
    assert report.nonfinite_logits == 0
    assert report.nonfinite_grads[-1] == 20


def test_a_non_finite_loss():
    report = walkback.diagnose(ResMLP(), labelled(20), loss=lambda logits, y: logits.sum(1) * float("nan"))
    assert report.verdict.startswith(VERDICT)


def test_a_credit_that_is_not_finite_is_named():
    report = walkback.diagnose(ResMLP(), labelled(20), credit=lambda h, _l, _y: [x * float("inf") for x in h])
    assert any("NaN or Inf" in warning for warning in report.warnings)
    assert report.trustworthy  # the network is sound; its teacher is not


def test_the_reason_comes_first():
    model = poisoned("head.bias", float("nan"))
    with torch.no_grad():
        model.blocks[1].down.weight.mul_(1e6)
    report = walkback.diagnose(model, labelled(20), headline_acc=0.5, frozen_baseline_acc=0.5)
    assert report.verdict == (f"{VERDICT}; residual stream exploded; deep blocks fail to beat frozen-random baseline")


def said_of(report):
    return " ".join(str(report).split())


def test_inputs_and_parameters_are_looked_at_where_something_is_not_finite():
    broken = walkback.diagnose(poisoned("blocks.1.down.weight", float("nan")), labelled(130, 130))
    assert "The inputs of all 260 samples are finite." in said_of(broken)
    assert "hold NaN or Inf: blocks.1.down.weight." in said_of(broken).replace("holds", "hold")
    assert CHECK_INPUTS not in said_of(broken)
    (inputs, targets), *_ = labelled(130)
    inputs[3:6, 0] = float("inf")
    fed = walkback.diagnose(ResMLP(), [(inputs, targets)])
    assert "Of 130 samples 3 hold NaN or Inf in the inputs." in said_of(fed)
    assert "All parameters are finite." in said_of(fed)
    assert NON_FINITE_SOURCE not in walkback.diagnose(ResMLP(), labelled(130)).provenance


def test_the_growth_of_a_block_whose_input_is_not_finite_is_its_own():
    reading = walkback.diagnose(poisoned("stem.weight", float("nan")), labelled(130)).reading("a")
    assert reading.site == 1
    assert "h_0 holds NaN or Inf" in reading.sentence
    assert "growth of block 1" in reading.sentence
