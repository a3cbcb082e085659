"""The loss that is measured is the model's own, and what is counted is counted as that loss counts it."""

import math

import pytest
import torch
import torch.nn.functional as F
import transformers
from labelled_models import (
    LENGTH,
    SmallGPT,
    Wrapped,
    adapted_gpt2,
    bert,
    gpt2,
    llama,
    own_gradient_norms,
    resnet,
    some_ignored,
    t5,
    tokens,
    vit,
)
from small_models import ResMLP, labelled

import walkback
from walkback.errors import BatchError, InputError

NEXT = "next-token cross-entropy (labels shifted by the model)"
AS_THEY_ARE = "token cross-entropy (labels as they are)"

ids = tokens(10, LENGTH)
same = [{"input_ids": ids[:6], "labels": ids[:6]}, {"input_ids": ids[6:], "labels": ids[6:]}]
prompted = [{"input_ids": ids, "labels": some_ignored(ids)}]
moved = [(ids[:, :-1], ids[:, 1:])]
images = [{"pixel_values": torch.randn(8, 3, 16, 16), "labels": torch.randint(0, 3, (8,))}]
texts = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
numbers = [texts | {"labels": torch.randn(10)}]
flags = [texts | {"labels": torch.randint(0, 2, (10, 3)).float()}]
translated = [{"input_ids": tokens(8, 5), "labels": some_ignored(tokens(8, 6, seed=9))}]
MASKED, CLASSIFYING = transformers.BertForMaskedLM, transformers.BertForSequenceClassification
H = ("transformer.h.0", "transformer.h.1")
BERT = ("bert.encoder.layer.0", "bert.encoder.layer.1")

NETWORKS = {
    "gpt2": (gpt2, same, H, {}, NEXT),
    "gpt2, prompts not scored": (gpt2, prompted, H, {}, NEXT),
    "llama": (llama, same, ("model.layers.0", "model.layers.1"), {}, NEXT),
    "adapted": (adapted_gpt2, same, tuple(f"base_model.base_model.{h}" for h in H), {}, NEXT),
    "bert, masked": (lambda: bert(MASKED), prompted, BERT, {}, AS_THEY_ARE),
    "bert, numbers": (lambda: bert(CLASSIFYING, num_labels=1), numbers, BERT, {}, "squared error"),
    "bert, several labels": (
        lambda: bert(CLASSIFYING, num_labels=3, problem_type="multi_label_classification"), flags, BERT, {},
        "binary cross-entropy of each class",
    ),
    "vit": (vit, images, ("vit.layers.0", "vit.layers.1"), {"tokens": "flatten"}, "cross-entropy over classes"),
    "resnet": (
        resnet, images, ("resnet.encoder.stages.0.layers.0", "resnet.encoder.stages.1.layers.0"), {},
        "cross-entropy over classes",
    ),
    "t5": (
        t5, translated, ("decoder.block.0", "decoder.block.1"), {"blocks": "decoder.block.*"},
        AS_THEY_ARE,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_of_the_models_own_loss(name):
    make, batches, blocks, settings, loss = NETWORKS[name]
    model = make()
    report = walkback.diagnose(model, batches, **({"tokens": "flatten"} | settings))
    assert report.provenance["loss"].startswith(f"the model's own, {loss}, reproduced to ")
    assert report.bp_grad_norms == pytest.approx(own_gradient_norms(model, batches, blocks), rel=1e-4)


def test_targets_that_were_moved_already_and_logits_that_need_them():
    model = SmallGPT()
    report = walkback.diagnose(model, moved, tokens="flatten")
    assert report.provenance["loss"].startswith(f"the model's own, {AS_THEY_ARE}")
    assert report.provenance["loss"].endswith("targets= goes into every call")
    expected = own_gradient_norms(model, moved, ("blocks.0", "blocks.1"), "targets")
    assert report.bp_grad_norms == pytest.approx(expected, rel=1e-4)
    logits, loss = model(*moved[0])
    assert report.headline_acc == pytest.approx(float((logits.argmax(-1) == moved[0][1]).float().mean()))
    assert report.perplexity == pytest.approx(math.exp(loss.item()), rel=1e-5)
    pieces = walkback.diagnose(model, moved, tokens="flatten", micro_batch=3)
    assert pieces.bp_grad_norms == pytest.approx(report.bp_grad_norms, rel=1e-6)
    assert pieces.perplexity == pytest.approx(report.perplexity, rel=1e-9)


def pattern(sequences, length, vocabulary, seed=0):
    """Each sequence counts up from where it begins, and begins again at four steps."""
    begin = torch.randint(0, vocabulary // 4, (sequences, 1), generator=torch.Generator().manual_seed(seed))
    return 4 * begin + torch.arange(length) % 4


def next_token_truth(model, x):
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=x).logits.double()
    log_p = logits[:, :-1].log_softmax(-1).gather(-1, x[:, 1:, None])
    copied = float((logits.argmax(-1) == x).double().mean())
    return float((logits[:, :-1].argmax(-1) == x[:, 1:]).double().mean()), math.exp(-float(log_p.mean())), copied


def test_next_token_accuracy_and_perplexity_before_and_after_training():
    model, x = gpt2(64, 32), pattern(40, 24, 64)
    batches = [{"input_ids": part, "labels": part} for part in x.split(16)]
    accuracy, perplexity, copied = next_token_truth(model, x)
    assert accuracy < 0.05 < 0.5 < copied  # tied embeddings: an untrained network repeats its input
    before = walkback.diagnose(model, batches)
    assert (before.headline_acc, before.perplexity) == pytest.approx((accuracy, perplexity), rel=1e-5)
    train(model, x)
    accuracy, perplexity, copied = next_token_truth(model, x)
    assert accuracy > 0.9 > 0.2 > copied
    after = walkback.diagnose(model, batches)
    assert (after.headline_acc, after.perplexity) == pytest.approx((accuracy, perplexity), rel=1e-5)
    assert (after.samples, after.headline_samples, after.headline_answers, after.tokens) == (40, 40, 920, 920)
    assert f"{100 * accuracy:.2f} % of 920 tokens in 40 sequences" in after.to_text()
    assert "40 sequences, 920 tokens" in after.to_text()
    assert "over 920 tokens in 40 sequences" in after.to_markdown()
    assert NEXT in " ".join(after.to_text().split())


def train(model, x, steps=60, rate=2e-2):
    model.train()
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        model(input_ids=x, labels=x).loss.backward()
        optimizer.step()


def test_a_monitor_and_a_frozen_baseline_count_the_same():
    model, x = gpt2(64, 32), pattern(40, 24, 64)
    batches = [{"input_ids": x, "labels": x}]
    heard = []
    watched = walkback.Monitor(model, batches, logs=[lambda line, decision: heard.append(line)])
    train(model, x)
    watched.step(epoch=1)
    report = watched.report
    assert heard[0].perplexity == pytest.approx(report.perplexity, rel=1e-5)
    accuracy, perplexity, _ = next_token_truth(model, x)
    assert (report.headline_acc, report.perplexity) == pytest.approx((accuracy, perplexity), rel=1e-5)
    assert NEXT in report.provenance["loss"]
    once = walkback.diagnose(model, batches)
    assert report.bp_grad_norms == pytest.approx(once.bp_grad_norms, rel=1e-5)
    kept = []

    def training(frozen):
        kept.append(frozen)
        train(frozen, x, steps=20)

    baseline = walkback.frozen_baseline(training, lambda: gpt2(64, 32), batches, seed=0)
    assert baseline.accuracy == pytest.approx(next_token_truth(kept[0], x)[0], rel=1e-6)
    assert (baseline.samples, baseline.answers) == (40, 920)


def test_a_training_pass_reads_the_gradients_of_the_same_loss():
    model = gpt2()
    model.config.resid_pdrop = 0.0
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    watched = walkback.Monitor(model, same[:1], every=1, tokens="flatten")
    held = walkback.diagnose(model, same[:1], tokens="flatten")
    model.train()
    with watched.watch_training():
        model(**same[0]).loss.backward()
        watched.step()
    assert watched.report.bp_grad_norms == pytest.approx(held.bp_grad_norms, rel=1e-4)


def test_a_head_of_zeros_does_not_hide_which_it_is():
    model = gpt2()
    model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
    assert NEXT in walkback.diagnose(model, same).provenance["loss"]
    # This one does not know −100, so that it cannot be asked by it.
    assert AS_THEY_ARE in walkback.diagnose(SmallGPT(zero_head=True), moved).provenance["loss"]


def test_what_cannot_be_told_is_refused():
    class Fixed(SmallGPT):
        def forward(self, idx, targets=None):
            assert idx.shape[1] > 1, "a fixed length is expected"
            return super().forward(idx, targets)

    with pytest.raises(InputError, match=r"more than one loss gives it.*Pass loss="):
        walkback.diagnose(Fixed(zero_head=True), moved)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    report = walkback.diagnose(llama().to(dtype), same)
    assert NEXT in report.provenance["loss"]


class Labelled(ResMLP):
    """A classifier with a loss of its own."""

    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, inputs, labels=None):
        logits = super().forward(inputs)
        return {"logits": logits} | ({} if labels is None else {"loss": self.loss(logits, labels)})


@pytest.mark.parametrize(
    "loss",
    [
        lambda logits, labels: F.cross_entropy(logits, labels, label_smoothing=0.1),
        lambda logits, labels: F.cross_entropy(logits, labels) + 0.01,
        lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum"),
        lambda logits, labels: F.cross_entropy(logits, labels, weight=torch.tensor([1.0, 2.0, 4.0])),
    ],
    ids=["smoothed", "with another", "sum", "weighted"],
)
def test_a_loss_that_nothing_reproduces_is_refused_and_loss_helps(loss):
    model, batches = Labelled(loss), labelled(8)
    with pytest.raises(
        InputError, match=r"Labelled called with labels= gives a loss of .*cross-entropy over classes: "
    ):
        walkback.diagnose(model, batches)
    report = walkback.diagnose(model, batches, loss=lambda z, t: F.cross_entropy(z, t, reduction="none"))
    assert report.provenance["loss"] == "given as loss="


def test_a_loss_that_is_another_one_only_on_other_targets_is_refused():
    """Twice Huber's loss is the squared error, as long as no output is off by more than 1."""
    ((inputs, _),) = labelled(8)
    model = Labelled(lambda outputs, labels: 2 * F.huber_loss(outputs, labels))
    torch.nn.init.constant_(model.head.bias, 5.0)
    targets = model(inputs)["logits"].detach() + 0.1 * torch.randn(8, 3)
    with pytest.raises(InputError, match=r"none of these reproduces on all targets tried.*squared error: "):
        walkback.diagnose(model, [(inputs, targets)])
    model.loss = F.mse_loss
    assert "squared error" in walkback.diagnose(model, [(inputs, targets)]).provenance["loss"]


def test_a_model_with_a_plain_loss_measures_as_one_without():
    torch.manual_seed(1)
    model = Labelled(F.cross_entropy)
    report = walkback.diagnose(model, labelled(8))
    torch.manual_seed(1)
    plain = walkback.diagnose(ResMLP(), labelled(8))
    assert report.bp_grad_norms == plain.bp_grad_norms
    assert plain.provenance["loss"] == "cross-entropy"
    assert (plain.perplexity, plain.tokens) == (None, None)
    assert "8 samples" in str(plain)


def test_a_model_that_fails_with_the_targets_is_refused():
    def picky(logits, labels):
        raise ValueError("labels must be one-hot")

    model = Labelled(picky)
    with pytest.raises(BatchError, match="failed when it was called with the targets of a batch: labels must be one"):
        walkback.diagnose(model, labelled(8))
    given = walkback.diagnose(model, labelled(8), loss=lambda z, t: F.cross_entropy(z, t, reduction="none"))
    assert given.headline_acc is not None


def test_a_loss_of_the_callers_gets_targets_as_they_are_and_nothing_is_miscounted():
    model = gpt2()

    def shifting(logits, targets):
        return F.cross_entropy(logits[:, :-1].transpose(1, 2), targets[:, 1:], reduction="none").mean(dim=1)

    report = walkback.diagnose(model, same, loss=shifting, tokens="flatten")
    assert report.bp_grad_norms == pytest.approx(own_gradient_norms(model, same, H), rel=1e-4)
    assert (report.headline_acc, report.perplexity) == (None, None)
    assert "accuracy and perplexity are not counted" in report.warnings[0]
    with pytest.raises(BatchError, match=r"not counted.*return walkback\.Score"):
        walkback.frozen_baseline(lambda m: None, gpt2, same, loss=shifting)


class Bare(torch.nn.Module):
    """A network around a language model that hides its labels."""

    def __init__(self):
        super().__init__()
        self.inner = gpt2()

    def forward(self, input_ids):
        return self.inner(input_ids=input_ids).logits


def test_targets_that_are_the_inputs_are_remarked_on():
    report = walkback.diagnose(Bare(), same)
    assert "the target of every token is that token itself" in report.warnings[0]
    assert walkback.diagnose(Bare(), moved).warnings == ()


def test_labels_that_are_not_scored_at_first_are_passed_over():
    labels = ids.clone()
    labels[:5] = -100
    model = gpt2()
    report = walkback.diagnose(model, [{"input_ids": ids, "labels": labels}])
    assert NEXT in report.provenance["loss"]
    assert (report.headline_samples, report.tokens) == (5, 5 * (LENGTH - 1))
    with pytest.raises(InputError, match="Are there targets to score"):
        walkback.diagnose(model, [{"input_ids": ids, "labels": torch.full_like(ids, -100)}])


def test_a_diverged_network_is_judged_not_refused():
    model = gpt2()
    with torch.no_grad():
        model.transformer.h[1].mlp.c_proj.weight.fill_(float("nan"))
    report = walkback.diagnose(model, same)
    assert "finite" in report.verdict
    assert report.headline_acc is None


def test_a_tuple_with_its_loss_first():
    how = {"return_dict": False, "use_cache": False}
    for settings in ({}, {"logits": 0}):
        report = walkback.diagnose(gpt2(), same, forward_kwargs=how, **settings)
        assert NEXT in report.provenance["loss"]


def test_a_tuple_with_its_loss_first_in_every_call():
    how = {"return_dict": False, "use_cache": False}
    model = t5()
    named = walkback.diagnose(model, translated, blocks="decoder.block.*")
    by_place = walkback.diagnose(model, translated, blocks="decoder.block.*", forward_kwargs=how, logits=0)
    assert by_place.bp_grad_norms == pytest.approx(named.bp_grad_norms, rel=1e-6)
    assert by_place.provenance["loss"].endswith("labels= goes into every call")


def test_a_wrapper_of_a_plain_network_has_no_labels():
    assert walkback.diagnose(Wrapped(ResMLP()), labelled(8)).provenance["loss"] == "cross-entropy"


def test_on_the_command_line(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import torch\nfrom labelled_models import gpt2, tokens\n\n"
        "def pair():\n    torch.manual_seed(0)\n    ids = tokens(6, 7)\n"
        "    return gpt2(), [{'input_ids': ids, 'labels': ids}]\n"
    )
    from typer.testing import CliRunner

    from walkback.cli.main import app_for

    result = CliRunner().invoke(app_for(()), ["diagnose", f"{script}:pair", "--full"])
    words = " ".join(result.output.split())
    assert "labels shifted by the model" in words
    assert "of 36 tokens in 6 sequences" in words


class Chances(ResMLP):
    """Probabilities, as with NLLLoss of their logarithms."""

    def forward(self, x):
        return torch.softmax(super().forward(x), dim=1)


def test_probabilities_are_not_taken_for_logits():
    data = labelled(40, 40)
    model, plain = Chances(), ResMLP()
    plain.load_state_dict(model.state_dict())
    with pytest.raises(InputError, match=r"the model returns probabilities.*second softmax.*nll_loss\(p\.log\(\), y"):
        walkback.diagnose(model, data)
    report = walkback.diagnose(model, data, loss=lambda p, y: F.nll_loss(p.log(), y, reduction="none"))
    truth = walkback.diagnose(plain, data)
    assert report.bp_grad_norms == pytest.approx(truth.bp_grad_norms, rel=1e-4)
    assert report.headline_acc == truth.headline_acc
    assert walkback.diagnose(model, data, gradients=False).headline_acc == truth.headline_acc


class TokenChances(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.softmax(self.inner(x).logits, dim=-1)


def test_the_perplexity_of_probabilities_is_theirs():
    inner = gpt2()
    model = TokenChances(inner).eval()
    with pytest.raises(InputError, match=r"nll_loss\(p\.log\(\)\.transpose\(1, 2\), y, reduction='none'\)\.mean\(1\)"):
        walkback.diagnose(model, moved)
    given = lambda p, y: F.nll_loss(p.log().transpose(1, 2), y, reduction="none").mean(1)  # noqa: E731
    report = walkback.diagnose(model, moved, loss=given)
    y, logs = moved[0][1], model(moved[0][0]).detach().double().log()
    surprise = -logs.gather(2, y[..., None])[..., 0]
    assert report.perplexity == pytest.approx(math.exp(float(surprise.mean())), rel=1e-5)


class Plain(torch.nn.Module):
    """Takes no labels."""

    def __init__(self):
        super().__init__()
        self.inner = gpt2()

    def forward(self, x):
        return self.inner(x).logits


def test_copies_are_remarked_on_where_prompts_are_left_out():
    report = walkback.diagnose(Plain(), [(ids, some_ignored(ids))])
    assert "this is the loss of copying" in report.warnings[0]


def without(ignored):
    """The mean over all tokens but those with one target."""

    def loss(logits, targets):
        each = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=ignored, reduction="none")
        return each.sum(1) / (targets != ignored).sum(1)

    return loss


def padded_tokens():
    x = tokens(10, LENGTH + 1).clamp(min=1)
    x[4:, 6:] = 0
    x[9, 3:] = 0
    return x[:, :-1], x[:, 1:]


def test_answers_are_not_counted_where_a_loss_leaves_some_out():
    model, (x, y) = Plain().eval(), padded_tokens()
    x, y = x.flip(0), y.flip(0)
    padded = walkback.diagnose(model, [(x, y)], loss=without(0))
    assert (padded.headline_acc, padded.perplexity) == (None, None)
    assert "leaves out 11 of 28 targets" in padded.warnings[0]
    assert "Mark what is not to be scored with −100" in padded.warnings[0]
    marked = y.masked_fill(y == 0, -100)
    report = walkback.diagnose(model, [(x, marked)], loss=without(-100))
    right = (model(x).argmax(-1) == marked)[marked >= 0]
    assert report.headline_acc == pytest.approx(float(right.float().mean()))
    assert report.bp_grad_norms == pytest.approx(padded.bp_grad_norms, rel=1e-6)


class Padded(SmallGPT):
    """Padding is left out of its loss; without targets it gives the last logits alone."""

    def __init__(self, padding, shifted):
        super().__init__()
        self.padding, self.shifted = padding, shifted

    def forward(self, idx, targets=None):
        if targets is None:
            return super().forward(idx)
        logits, _ = super().forward(idx, targets.clamp(min=0))
        scores, wanted = (logits[:, :-1], targets[:, 1:]) if self.shifted else (logits, targets)
        return logits, F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=self.padding)


@pytest.mark.parametrize("padding", [0, 7, -1])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("first", ["padded", "whole"])
def test_a_target_that_the_models_own_loss_leaves_out_is_found(padding, shifted, first):
    x, y = padded_tokens()
    y = x if shifted else y
    x, y = (x.flip(0), y.flip(0)) if first == "padded" else (x, y)
    y = y.masked_fill(y == padding, 1).masked_fill(y == 0, padding)
    model = Padded(padding, shifted)
    report = walkback.diagnose(model, [(x, y)], tokens="flatten")
    assert report.provenance["loss"].endswith(f"; targets of {padding} are not scored")
    logits, _ = model(x, y)
    scores, wanted = (logits[:, :-1], y[:, 1:]) if shifted else (logits, y)
    scores, wanted = scores[wanted != padding].detach(), wanted[wanted != padding]
    assert report.headline_acc == pytest.approx(float((scores.argmax(1) == wanted).float().mean()))
    assert report.perplexity == pytest.approx(math.exp(float(F.cross_entropy(scores.double(), wanted))), rel=1e-5)
    truth = own_gradient_norms(model, [(x, y)], ("blocks.0", "blocks.1"), "targets")
    assert report.bp_grad_norms == pytest.approx(truth, rel=1e-4)


def test_a_target_that_is_scored_is_not_left_out():
    report = walkback.diagnose(SmallGPT(), [padded_tokens()])
    assert "not scored" not in report.provenance["loss"]
