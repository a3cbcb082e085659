"""Case study: all modes of biotorch on one small network, its own backward passes seen through.

    python examples/11_case_biotorch_modes.py                                     # about half a minute
    python examples/11_case_biotorch_modes.py --write docs/case-studies/biotorch-modes.md

biotorch is fetched by pip into a directory of its own, without the libraries that it asks for and this does not need
(torchvision among them).
"""

import contextlib
import io
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import cases
import walkback

PACKAGE, VERSION = "biotorch", "0.0.16"
MODES = ("backpropagation", "fa", "dfa", "usf", "brsf", "frsf")
WIDTH, HIDDEN, CLASSES, EPOCHS, SEED = 64, 4, 10, 30, 0
(TRAIN_X, TRAIN_Y), (TEST_X, TEST_Y) = (tuple(map(torch.from_numpy, part)) for part in cases.digits())
HELD_OUT = list(zip(TEST_X.split(128), TEST_Y.split(128), strict=True))


# what a user writes {
def make_model(mode, options=None):
    """A plain MLP, converted by biotorch."""
    from biotorch.module.biomodule import BioModule

    layers = [module for _ in range(HIDDEN) for module in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    config = {"type": mode} | ({"options": options} if options else {})
    return BioModule(nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES)), mode, layer_config=config, output_dim=CLASSES)


# }


def train(model, after_step=None):
    """As biotorch's own loop does it."""
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=1e-3)
    if after_step:
        optimizer.register_step_post_hook(after_step)
    model.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(TRAIN_X)).split(64):
            x, y = TRAIN_X[batch], TRAIN_Y[batch]
            logits = model(x, y, loss) if model.mode == "dfa" else model(x)
            model.zero_grad()
            loss(logits, y).backward()
            optimizer.step()


# what a user writes {
def diagnosed(mode):
    frozen = walkback.frozen_baseline(train, lambda: make_model(mode), HELD_OUT, seed=SEED)
    torch.manual_seed(SEED)
    model = make_model(mode)
    train(model)
    return model, walkback.diagnose(
        model, HELD_OUT, frozen_baseline_acc=frozen, credit=BiotorchCredit(model), method_name=mode, seed=SEED
    )


# }


class BiotorchCredit:
    """What biotorch's backward pass hands to each site, read from a copy of the network."""

    def __init__(self, model):
        self.copy = make_model(model.mode)
        self.copy.load_state_dict(model.state_dict())
        self.independent_feedback = model.mode == "dfa"
        self.no_null = "the feedback learns with the weights, or is made of them"

    def credits(self, trace):
        return backward_pass(self.copy, trace.inputs, trace.targets)


def backward_pass(model, inputs, targets):
    """The gradient of the summed loss, as autograd gives it on the converted network, at its input and each ReLU."""

    def summed(logits, targets):
        return F.cross_entropy(logits, targets, reduction="sum")

    sites = [inputs.detach().clone().requires_grad_()]
    relus = [module for module in model.module if isinstance(module, nn.ReLU)]
    hooks = [relu.register_forward_hook(lambda _, __, out: sites.append(out)) for relu in relus]
    model.train()  # DFA sends the error to its layers in training mode alone
    try:
        with torch.enable_grad():
            logits = model(sites[0], targets, summed)
            return list(torch.autograd.grad(summed(logits, targets), sites))
    finally:
        for hook in hooks:
            hook.remove()


def differences(model):
    """The gradient at every site by central differences of the loss in fp64, by plain torch and without walkback."""
    layers = [(layer.weight.detach().double(), layer.bias.detach().double()) for layer in list(model.module)[::2]]

    def losses(site, h):
        for weight, bias in layers[site:-1]:
            h = (h @ weight.T + bias).relu()
        return F.cross_entropy(h @ layers[-1][0].T + layers[-1][1], TEST_Y, reduction="none")

    found, h = [], TEST_X.double()
    for site in range(HIDDEN + 1):
        steps = 1e-6 * torch.eye(WIDTH, dtype=torch.float64)
        found.append(torch.stack([(losses(site, h + s) - losses(site, h - s)) / 2e-6 for s in steps], dim=1))
        weight, bias = layers[site]
        h = (h @ weight.T + bias).relu()
    return found


def alignment_by_differences(model):
    """Γ at every site once more: the mean cosine of biotorch's credit with the differences."""
    torch.manual_seed(SEED)  # brsf draws at each pass
    credits = [credit.double() for credit in backward_pass(model, TEST_X, TEST_Y)]
    return [
        float(F.cosine_similarity(a, g, dim=1, eps=0).nanmean())  # noqa: WB002
        for a, g in zip(credits, differences(model), strict=True)
    ]


def feedback_of(layer):
    """The matrix that a layer's backward pass multiplies by, read off by sending the identity through it."""
    inputs = torch.zeros(layer.out_features, layer.in_features, requires_grad=True)
    return torch.autograd.grad(layer(inputs), inputs, torch.eye(layer.out_features))[0]


def angles(model):
    """For each layer: the angle that biotorch reports, and that between W and what its backward pass multiplies by."""
    from biotorch.layers.metrics import compute_matrix_angle
    from biotorch.training.metrics import compute_angles_module

    with torch.random.fork_rng():
        used = [float(compute_matrix_angle(feedback_of(layer), layer.weight)) for layer in list(model.module)[::2]]
    return list(zip(compute_angles_module(model).values(), used, strict=True))


def constrained(mode):
    """With `constrain_weights`: accuracy, largest relative change of a weight matrix, smallest change of a bias."""
    options = {"constrain_weights": True, "gradient_clip": False, "init": "xavier"}
    torch.manual_seed(SEED)
    model = make_model(mode, options)
    model.eval()(TEST_X[:1])  # the first pass scales the weights
    before = [(layer.weight.detach().clone(), layer.bias.detach().clone()) for layer in list(model.module)[::2]]
    train(model)
    after = [(layer.weight.detach(), layer.bias.detach()) for layer in list(model.module)[::2]]
    right = float((model.eval()(TEST_X).argmax(dim=1) == TEST_Y).float().mean())
    weights = [float((b - a).norm() / a.norm()) for (a, _), (b, _) in zip(before, after, strict=True)]
    biases = [float((b - a).norm()) for (_, a), (_, b) in zip(before, after, strict=True)]
    return right, max(weights), min(biases)


def in_place(mode):
    """The option off, and every weight scaled back to its first norm after each step: accuracy, and the largest change."""
    torch.manual_seed(SEED)
    model = make_model(mode)
    layers = list(model.module)[::2]
    first = [layer.weight.detach().clone() for layer in layers]

    def scale(*_):
        for layer, begun in zip(layers, first, strict=True):
            layer.weight.data.mul_(begun.norm() / layer.weight.data.norm())

    train(model, after_step=scale)
    right = float((model.eval()(TEST_X).argmax(dim=1) == TEST_Y).float().mean())
    changes = [
        float((w.detach() - b).norm() / b.norm()) for w, b in zip([each.weight for each in layers], first, strict=True)
    ]
    return right, max(changes)


def option_by_itself():
    """Whether a layer has the option on where nobody sets it."""
    return [next(iter(make_model(mode).module)).options["constrain_weights"] for mode in MODES[1:]]


def kaiming_brsf():
    """What a brsf network with `init` other than xavier says to its first batch."""
    try:
        make_model("brsf", {"constrain_weights": False, "gradient_clip": False, "init": "kaiming"})(TEST_X[:2])
    except NameError as error:
        return str(error)
    return ""


def study():
    """All that the page reports."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cases.fetch(f"{PACKAGE}=={VERSION}", folder)
        sys.path.insert(0, folder)
        return measured()


def measured():
    found = {}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # it prints what it converted
        warnings.simplefilter("ignore", FutureWarning)  # of torch, about the kind of hook that biotorch uses
        for mode in MODES:
            model, report = diagnosed(mode)
            found[mode] = {"report": report, "by_differences": alignment_by_differences(model)}
            if mode in ("fa", "usf", "brsf", "frsf"):
                found[mode]["angles"] = angles(model)
        found["constrained"] = {mode: constrained(mode) for mode in ("fa", "dfa", "usf")}
        found["in_place"] = {mode: in_place(mode) for mode in ("fa", "dfa", "usf")}
        found["on_by_itself"] = any(option_by_itself())
        found["kaiming_brsf"] = kaiming_brsf()
    return found


def page(found):
    reports = {mode: found[mode]["report"] for mode in MODES}
    rows = [
        (
            f"`{mode}`",
            f"{report.headline_acc:.1%}",
            f"{report.reading('d').value:+.1f}",
            f"{report.reading('c').value:.2f}",
            f"{report.alignment.deep:.2f}",
            f"{report.reference_check.error:.0e}",
            report.outcome,
        )
        for mode, report in reports.items()
    ]
    head = ("mode", "accuracy", "(d), points", "(c)", "Γ behind h_0", "error of the gradient", "outcome")
    gap = max(
        abs(ours - plain)
        for mode in MODES if mode != "brsf"
        for ours, plain in zip(reports[mode].alignment.sites, found[mode]["by_differences"], strict=True)
    )  # fmt: skip
    brsf = zip(reports["brsf"].alignment.sites, found["brsf"]["by_differences"], strict=True)
    drawn = max(abs(ours - plain) for ours, plain in brsf)
    degrees = [
        (f"`{mode}`", *(f"{told:.0f} / {used:.0f}" for told, used in found[mode]["angles"]))
        for mode in ("fa", "usf", "brsf", "frsf")
    ]
    still = ", ".join(f"{right:.1%} (`{mode}`)" for mode, (right, _, _) in found["constrained"].items())
    moved = max(moved for _, moved, _ in found["constrained"].values())
    scaled = ", ".join(f"{right:.1%} (`{mode}`)" for mode, (right, _) in found["in_place"].items())
    fired = [mode for mode in MODES if reports[mode].outcome == "fail"]
    names = ", ".join(f"`{mode}`" for mode in fired) or "none"
    return f"""# All modes of biotorch on one network

Made by `python examples/11_case_biotorch_modes.py --write docs/case-studies/biotorch-modes.md`, with {PACKAGE}
{VERSION} as pip installs it without its dependencies, and torch {torch.__version__}. The network is a plain MLP, 64-64-64-64-64-10
with ReLU, on scikit-learn's digits: {len(TRAIN_X):,} images to learn from, {len(TEST_X)} held out, {EPOCHS} epochs of Adam, one seed.

## What a user writes

biotorch converts the network; everything else is ordinary torch. The converted network is measured as it is. Its backward
pass is a `torch.autograd.Function` (in DFA also a hook) that is not the derivative of its forward pass; walkback differentiates
the forward pass itself.

```python
{cases.shown(__file__)}
```

`train` is your own training loop. `BiotorchCredit`, in the example, runs biotorch's backward pass on a copy of the network and reads what arrives at each
site. It is needed for Γ alone.

## What was found

{cases.table(head, rows)}

- **The true gradient is found in every mode.** The last column but one is the largest error of walkback's gradient against
  finite differences of the loss. What autograd gives on the converted network is the credit of the mode: its cosine with
  the true gradient is Γ. `backpropagation` is 1, as it should be.
- **Γ was computed a second time** with plain central differences in fp64, without walkback: the two agree within
  {gap:.0e} at every site of every mode (`brsf`, which draws its feedback anew at every pass, within {drawn:.0e}).
- **Modes with fired diagnostics**: {names}. (c) also fires on healthy networks ([verdicts](../verdicts.md)), and one seed
  is no statement about a method. (d) is large because the frozen baseline of a plain MLP has five layers of which four are
  random.

### Angles between W and the feedback

biotorch's `compute_angles_module`, then the angle between W and the matrix that the layer's backward pass multiplies by. That
matrix was read off by sending the identity through the layer's backward pass. In degrees, layer by layer:

{cases.table(("mode", *(f"layer {number}" for number in range(1, HIDDEN + 2))), degrees)}

In `frsf` the two differ. The layer keeps |M| and multiplies by |M| ∘ sign(W) (`layers/fa_constructor/linear.py`, `forward`);
the angle is taken with |M| alone (`compute_alignment`). So the reported angle is near 90° where the feedback is aligned.
`dfa` has no such angle: its feedback has another shape than W.

### Two options

- **`constrain_weights: True`** makes a new `Parameter` of the weight in every forward pass. An optimizer that was made
  before, as in biotorch's own training, holds the old one. Over {EPOCHS} epochs no weight matrix changed by more than {moved:.0e} of its
  norm; biases did. The accuracy after training is {still}. The option is {"on" if found["on_by_itself"] else "off"}
  unless it is asked for. The same constraint without it: scale the weights in place after each step of the optimizer,
  `layer.weight.data.mul_(…)`. That gives {scaled}.
- **`init` other than `xavier` in `brsf`** ends at the first batch with `NameError: {found["kaiming_brsf"]}`.

Reproducers: `constrained`, `in_place` and `kaiming_brsf` in the example.

## What could not be measured

- The null of Γ (what fresh feedback would give) is not asked for: in `fa` and `dfa` the weights were trained with this feedback, and in the
  sign modes the feedback is made of W.
- biotorch's own models and `benchmark` need torchvision, which the example does not fetch. Layers, `BioModule` and metrics do not.
- A residual network under DFA is a case of its own: [biotorch's DFA on a residual network](biotorch-dfa-residual.md).
- More seeds, convolutions, and larger data were not run.
"""


if __name__ == "__main__":
    cases.main(__doc__, study, page)
