"""What cannot be measured is refused in a sentence that says what came, what was expected and what to do."""

import warnings

import pytest
import torch
from small_models import CLASSES, INPUT, WIDTH, ConvNet, Encoder, Regression, ResMLP, TokenNet, labelled
from torch import nn

import walkback
from walkback.errors import BatchError, BlocksError, CreditError, InputError

X, Y = labelled(20)[0]


def refused(error, match, model=None, batches=None, **options):
    with pytest.raises(error, match=match) as caught:
        walkback.diagnose(model if model is not None else ResMLP(), [(X, Y)] if batches is None else batches, **options)
    assert isinstance(caught.value, walkback.errors.WalkbackError)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], r"eval_batches is empty; expected at least one batch"),
        (iter(()), r"eval_batches is empty"),
        (None, r"eval_batches is NoneType; expected an iterable of \(inputs, targets\)"),
        (X, r"eval_batches is Tensor; expected an iterable"),
        ({"inputs": X, "labels": Y}, r"eval_batches is dict; expected an iterable"),
        ((X, Y), r"one \(inputs, targets\) pair; pass a list"),
        ([X], r"batch 0 is Tensor, without targets"),
        ([(X,)], r"batch 0 is a tuple of 1, without targets"),
        ([(X, X, Y)], r"batch 0 is a tuple of 3.*For several inputs: \(\(input_1, input_2\), targets\)"),
        ([{"inputs": X}], r"batch 0 is a mapping with the keys \['inputs'\] and no targets; expected one of labels"),
        ([(X, Y), (X[:0], Y[:0])], r"batch 1 holds no samples; leave empty batches out"),
        ([(X[0], Y[0])], r"batch 0 has a single target and no batch axis.*DataLoader"),
        ([(X, Y[:7])], r"batch 0 has 7 targets for inputs of leading size \[20\]; expected one target per sample"),
        ([("text", Y)], r"batch 0 has 20 targets for inputs of leading size none"),
        ([(X, ["a"] * 20)], r"the targets of batch 0 are list; expected a tensor with one entry per sample"),
        ([(X, None)], r"the targets of batch 0 are NoneType"),
        ([(X, Y + 1)], r"the labels run from 1 to 3, but the model has 3 classes; expected 0 … 2"),
        ([(X, Y - 1)], r"the labels run from -1 to 1, but the model has 3 classes"),
        ([(X, Y.float())], r"logits of shape \(20, 3\) with torch.float32 targets of shape \(20,\) do not fit.*long"),
        ([(X, torch.rand(20, CLASSES))], r"targets of shape \(20, 3\) do not fit cross-entropy"),
    ],
)
def test_batches(batches, message):
    with pytest.raises(BatchError, match=message):
        walkback.diagnose(ResMLP(), batches)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch says of each that it may change; people have them all the same
    QUANTIZED = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
    CSR = X.to_sparse_csr()
    NESTED = torch.nested.as_nested_tensor(list(X), layout=torch.jagged)


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (X.to_sparse(), Y, "batch 0 holds a sparse_coo tensor; expected dense ones. Pass x.to_dense"),
        (CSR, Y, "batch 0 holds a sparse_csr tensor"),
        (X, Y.to_sparse(), "batch 0 holds a sparse_coo tensor"),
        (X.to("meta"), Y, "batch 0 holds a tensor on the device meta, which has no values"),
        (X, Y.to("meta"), "batch 0 holds a tensor on the device meta"),
        (NESTED, Y, "batch 0 holds a nested tensor"),
        (QUANTIZED, Y, r"batch 0 holds a torch.qint8 tensor; expected plain ones. Pass x.dequantize\(\)"),
    ],
)  # fmt: skip
def test_tensors_whose_samples_cannot_be_read(inputs, targets, message):
    refused(BatchError, message, batches=[(inputs, targets), (inputs, targets)])


@pytest.mark.parametrize("limit", [0, -1, 1.5, "a", True])
def test_a_number_of_batches_that_is_none(limit):
    refused(BatchError, f"max_batches is {limit!r}; expected how many .* 1 or more", max_batches=limit)


def test_inputs_that_require_gradients_are_measured_like_any_other():
    torch.manual_seed(1)
    model = ResMLP()
    plain = [(X, Y), (X + 1, Y), (X - 1, Y)]
    tracked = [(x.clone().requires_grad_() * 1, y) for x, y in plain]
    expected, found = walkback.diagnose(model, plain), walkback.diagnose(model, tracked)
    assert found.to_dict() == expected.to_dict()
    assert all(x.requires_grad for x, _ in tracked)


def test_parameters_that_are_not_there_yet():
    model = ResMLP()
    model.stem = nn.LazyLinear(WIDTH)
    refused(InputError, r"stem.weight of the model has no shape yet.*Call the model once", model=model)
    model(X)
    assert walkback.diagnose(model, [(X, Y)]).samples == 20
    refused(InputError, r"\w+ of the model is on the device meta, which has no values", model=ResMLP().to("meta"))


@pytest.mark.parametrize("numbers", [[0, 0, 1], [2, 1, 0], [-1, 0, 1], [0, 1, 3]])
def test_numbers_of_sites_that_do_not_rise(numbers):
    with pytest.raises(InputError, match="site_numbers"):
        walkback.judge(walkback.Measurements(residual_norms=[1, 1, 1], site_numbers=numbers, last_site=2))


def test_an_ignored_label_is_for_tokens_only():
    refused(BatchError, r"the labels run from -100 to", batches=[(X, torch.where(Y == 0, -100, Y))])


def test_labels_out_of_range_in_a_later_batch():
    refused(BatchError, "the labels run from [01] to 3", batches=[(X, Y), (X, Y + 1)])


def test_sites_whose_width_changes():
    long, short = labelled(20, shape=(5, INPUT))[0], labelled(20, shape=(4, INPUT))[0]
    refused(
        BatchError,
        r"site 0 has the shape \(20, 4, 8\) in one batch and \(20, 5, 8\) in the first.*Pad.*tokens='class_token'",
        model=Encoder(),
        batches=[long, short],
    )
    report = walkback.diagnose(Encoder(), [long, short], tokens="class_token")
    assert report.samples == 40


def test_outputs():
    class Pooled(ResMLP):
        def forward(self, inputs):
            return super().forward(inputs)[:3]

    class Scalar(ResMLP):
        def forward(self, inputs):
            return super().forward(inputs).mean()

    class Text(ResMLP):
        def forward(self, inputs):
            super().forward(inputs)
            return "cat"

    class Classes(ResMLP):
        def forward(self, inputs):
            return super().forward(inputs).argmax(-1, keepdim=True)

    refused(BatchError, r"the model gave an output of shape \(3, 3\) for 20 targets; expected one row", Pooled())
    refused(BatchError, r"the model gave an output of shape \(\) for 20 targets", Scalar(), blocks="blocks.*")
    refused(BatchError, r"the model returned str, in which no logits were found", Text())
    refused(BatchError, r"the model gave torch.int64 outputs; expected floating-point", Classes(), blocks="blocks.*")
    refused(BatchError, r"logits of shape \(20,\) .* do not fit cross-entropy", Regression())


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (nn.functional.cross_entropy, r"loss= gave shape \(\) for 20 samples; expected one.*reduction='none'"),
        (lambda logits, targets: logits**2, r"loss= gave shape \(20, 3\) for 20 samples"),
        (lambda logits, targets: 3.0, r"loss= gave float for 20 samples"),
        (lambda logits, targets: None, r"loss= gave NoneType"),
        (lambda logits, targets: torch.ones(20), r"loss= gave a value that does not depend on the logits"),
        (lambda logits, targets: logits.detach().sum(1), r"loss= gave a value that does not depend on the logits"),
        (lambda logits, targets: torch.rand(20, requires_grad=True) * 2, r"does not depend on the logits"),
    ],
)
def test_losses(loss, message):
    refused(InputError, message, loss=loss)


def test_a_loss_that_is_no_function():
    refused(InputError, r"loss= is a str; expected a function of \(logits, targets\)", loss="cross_entropy")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x: x, r"model is a function; expected a torch\.nn\.Module.*walkback\.Measurements"),
        (None, r"model is a NoneType; expected a torch\.nn\.Module"),
        ({"stem.weight": X}, r"model is a dict"),
        (ResMLP, r"model is the class ResMLP; expected a torch\.nn\.Module.*Build it first"),
    ],
)
def test_models_that_are_none(model, message):
    with pytest.raises(InputError, match=message):
        walkback.diagnose(model, [(X, Y)])


def test_batchnorm_without_running_statistics():
    model = ConvNet()
    model.features[1].norm = nn.BatchNorm2d(6, track_running_stats=False)
    batches = labelled(20, shape=(3, 6, 6))
    refused(
        InputError, r"features\.1\.norm is a BatchNorm2d without running stat.*depends on the others", model, batches
    )
    model.features[1].norm = nn.InstanceNorm2d(6)
    walkback.diagnose(model, batches)


@pytest.mark.parametrize("causal", [False, True])
def test_samples_that_influence_each_other(causal):
    class OverTheBatch(ResMLP):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

        def body(self, hidden):
            mask = nn.Transformer.generate_square_subsequent_mask(len(hidden)) if causal else None
            hidden = self.blocks[1](self.blocks[0](hidden))
            mixed, _ = self.attention(hidden[None], hidden[None], hidden[None], attn_mask=mask, is_causal=False)
            return self.blocks[2](hidden + mixed[0])

    refused(
        InputError, r"the logits of one sample depend on 'input of blocks\.0' of another.*batch_first", OverTheBatch()
    )


def test_a_sequence_first_encoder_that_is_given_batches_first():
    class Mistaken(Encoder):
        def __init__(self):
            super().__init__(batch_first=False)
            self.batch_first = True

    refused(InputError, "the logits of one sample depend on", Mistaken(), labelled(20, shape=(5, INPUT)))


class FullyShardedDataParallel(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


@pytest.mark.parametrize("wrap", [lambda model: model, nn.DataParallel], ids=["outermost", "inside a wrapper"])
def test_sharded_models(wrap):
    refused(InputError, r"the model is sharded with FSDP.*Gather it first", wrap(FullyShardedDataParallel(ResMLP())))


# torch.jit is on its way out, and says so; checkpoints made with it are still around.
@pytest.mark.filterwarnings("ignore:`?torch.jit.script:DeprecationWarning")
def test_torchscript():
    refused(
        InputError, r"the model is TorchScript.*Diagnose the nn\.Module", torch.jit.script(nn.Linear(INPUT, CLASSES))
    )
    model = ResMLP()
    model.blocks[0].activation = torch.jit.script(nn.GELU())
    walkback.diagnose(model, [(X, Y)])


def test_sharded_blocks():
    model = ResMLP()
    model.blocks[0] = FullyShardedDataParallel(model.blocks[0])
    refused(InputError, r"the model is sharded with FSDP", model)


@pytest.mark.parametrize(
    ("credit", "message"),
    [
        (lambda h, logits, y: list(h)[1:], r"the credit rule gave 3 for 4 sites; expected a list with one tensor"),
        (lambda h, logits, y: None, r"the credit rule gave NoneType for 4 sites"),
        (lambda h, logits, y: torch.stack(list(h)), r"the credit rule gave Tensor for 4 sites"),
        (
            lambda h, logits, y: [*h[:3], h[3][:, :5]],
            r"for site 3 is torch.float32 of shape \(20, 5\); expected.*\(20, 8\)",
        ),
        (lambda h, logits, y: [*h[:2], None, h[3]], r"the credit for site 2 is NoneType"),
        ("dfa", r"credit is str; expected a method with credits\(trace\), or a function"),
    ],
)
def test_credits(credit, message):
    refused(CreditError, message, credit=credit)


def test_an_unknown_token_reduction():
    refused(InputError, r"no token reduction 'cls'\. .*Known: class_token, flatten, token_norms", tokens="cls")
    refused(InputError, r"no token reduction 'cls_token'\. Did you mean 'class_token'\?", tokens="cls_token")


def test_scores_that_are_none():
    for name in ("headline_acc", "frozen_baseline_acc"):
        refused(InputError, rf"{name} is 61.*divide percentages by 100", **{name: 61.0})


def test_a_model_without_blocks():
    refused(BlocksError, "Linear has no hidden layer", nn.Linear(INPUT, CLASSES))


class MineError(Exception):
    """An error of the model's own."""


def test_errors_of_the_model_pass_through():
    class Hostile(ResMLP):
        def body(self, hidden):
            raise MineError("not today")

    model = Hostile().train()
    with pytest.raises(MineError, match=r"^not today$"):
        walkback.diagnose(model, [(X, Y)])
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_inputs_of_another_width_are_named_with_the_module_that_refuses_them():
    with pytest.raises(BatchError, match=rf"\(B, {INPUT + 1}\).*takes {INPUT} features and got {INPUT + 1}") as raised:
        walkback.diagnose(ResMLP(), labelled(20, shape=(INPUT + 1,)))
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("first", "inputs", "said"),
    [
        (nn.Conv2d(3, 8, 1), torch.zeros(9, 1, 4, 4), r"\(B, 1, 4, 4\).*'0' \(Conv2d\) takes 3 channels and got 1"),
        (nn.BatchNorm1d(6), torch.zeros(9, 5), r"'0' \(BatchNorm1d\) takes 6 channels and got 5"),
        (nn.LayerNorm(6), torch.zeros(9, 5), r"'0' \(LayerNorm\) takes 6 features and got 5"),
        (nn.Linear(6, 4), torch.zeros(9, 6, dtype=torch.int64), r"'0' \(Linear\) computes in float32 and got int64"),
    ],
)
def test_other_misfits_are_named_too(first, inputs, said):
    model = nn.Sequential(first, nn.Linear(4, 4), nn.Linear(4, 4))
    with pytest.raises(BatchError, match=said):
        walkback.diagnose(model, [(inputs, torch.zeros(9, dtype=torch.int64))], blocks=["1"])


def test_token_targets_of_another_length():
    batches = [(labelled(20, shape=(5, INPUT))[0][0], torch.zeros(20, 4, dtype=torch.long))]
    refused(BatchError, r"\(20, 5, 3\) with torch.int64 targets of shape \(20, 4\)", TokenNet("each"), batches)


def test_a_stream_of_zeros_is_told_in_a_sentence():
    model = ResMLP()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("stem", "blocks")):
                parameter.zero_()
    with pytest.raises(InputError, match="residual_norms are 0 at every site: a stream of zeros"):
        walkback.diagnose(model, labelled(20))


def test_a_model_without_forward():
    class Predicts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(INPUT, INPUT) for _ in range(3))

    with pytest.raises(BatchError, match=r"Predicts has no forward.* Wrap it in a module"):
        walkback.diagnose(Predicts(), labelled(8))

    class NotYet(nn.Linear):
        def forward(self, x):
            raise NotImplementedError("later")

    with pytest.raises(NotImplementedError, match="later"):
        walkback.diagnose(NotYet(INPUT, CLASSES), labelled(8))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (X, r"train_batches is Tensor; expected"),
        ([], r"train_batches is empty"),
        ((X, Y), r"train_batches looks like one \(inputs, targets\) pair"),
    ],
)
def test_training_batches_are_called_by_their_own_name(batches, message):
    refused(BatchError, message, train_batches=batches)


def test_a_rule_whose_name_is_misspelt():
    report = walkback.diagnose(ResMLP(), labelled(40), claimed_rule="DFFA")
    assert any("'dfa'" in warning for warning in report.warnings)
    assert not walkback.diagnose(ResMLP(), labelled(40), claimed_rule="DFA").warnings


@pytest.mark.parametrize("name", ["headline_acc", "frozen_baseline_acc", "random_baseline"])
def test_a_nan_that_a_caller_passes_for_an_accuracy(name):
    refused(InputError, f"{name} is NaN, which is no accuracy", **{name: float("nan")})


def test_a_baseline_that_diverged_is_passed_as_a_score_and_never_passes():
    report = walkback.diagnose(ResMLP(), labelled(40), frozen_baseline_acc=walkback.Score(value=float("nan")))
    assert report.verdict.startswith("needs walk-back: non-finite values")
