"""Case study: a predictive-coding network trained by pcx, measured by walkback.jax.

    python -m venv pcx-venv
    pcx-venv/bin/pip install "pcx==0.6.3" scikit-learn ".[jax]"
    pcx-venv/bin/python examples/14_case_pcx.py                                    # about half a minute
    pcx-venv/bin/python examples/14_case_pcx.py --write docs/case-studies/pcx.md

pcx 0.6.3 needs jax below 0.5, which is why it has an environment of its own. There is no torch in it.
"""

import importlib.metadata
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pcx as px
import pcx.functional as pxf
import pcx.nn as pxnn
import pcx.predictive_coding as pxc
import pcx.utils as pxu

import cases
import walkback.jax

WIDTH, HIDDEN, CLASSES, EPOCHS, SETTLING, BATCH, SEED = 64, 3, 10, 20, 12, 64, 0
(TRAIN_X, TRAIN_Y), (TEST_X, TEST_Y) = cases.digits()
HELD_OUT = [(TEST_X[i : i + 128], TEST_Y[i : i + 128]) for i in range(0, len(TEST_X), 128)]


class Network(pxc.EnergyModule):
    """tanh layers with a value node behind each; the last node has the energy of a cross-entropy."""

    def __init__(self):
        super().__init__()
        self.layers = [pxnn.Linear(WIDTH, WIDTH) for _ in range(HIDDEN)] + [pxnn.Linear(WIDTH, CLASSES)]
        self.nodes = [pxc.Vode() for _ in range(HIDDEN)] + [pxc.Vode(pxc.ce_energy)]
        self.nodes[-1].h.frozen = True

    def __call__(self, x, y):
        for layer, node in zip(self.layers[:-1], self.nodes[:-1], strict=True):
            x = node(jnp.tanh(layer(x)))
        self.nodes[-1](self.layers[-1](x))
        if y is not None:
            self.nodes[-1].set("h", y)
        return self.nodes[-1].get("u")


STATES = pxu.M(pxc.VodeParam | pxc.VodeParam.Cache).to((None, 0))


def free(kind):
    """A mask of the parameters of a kind that are not frozen; a new one each time, as `.to` changes the mask itself."""
    return pxu.M_hasnot(kind, frozen=True)


@pxf.vmap(STATES, in_axes=(0, 0), out_axes=0)
def forward(x, y, *, model):
    return model(x, y)


@pxf.vmap(STATES, in_axes=(0,), out_axes=(None, 0), axis_name="batch")
def energy(x, *, model):
    answer = model(x, None)
    return jax.lax.psum(model.energy(), "batch"), answer


def begin(x, y, model):
    """A forward pass; what states of another batch are there are left behind."""
    model.clear_params(pxc.VodeParam)
    with pxu.step(model, pxc.STATUS.INIT, clear_params=pxc.VodeParam.Cache):
        return forward(x, y, model=model)


def settle(x, y, model, optimizer, steps):
    """Begin with a forward pass, then move the free states down the energy."""
    begin(x, y, model)
    optimizer.init(free(pxc.VodeParam)(model))
    slope = pxf.value_and_grad(free(pxc.VodeParam).to([False, True]), has_aux=True)(energy)
    for _ in range(steps):
        with pxu.step(model, clear_params=pxc.VodeParam.Cache):
            _, gradients = slope(x, model=model)
        optimizer.step(model, gradients["model"])
    optimizer.clear()


@pxf.jit(static_argnums=0)
def learn(steps, x, y, *, model, of_weights, of_states):
    settle(x, y, model, of_states, steps)
    with pxu.step(model, clear_params=pxc.VodeParam.Cache):
        weights = pxf.value_and_grad(free(pxnn.LayerParam).to([False, True]), has_aux=True)
        _, gradients = weights(energy)(x, model=model)
    of_weights.step(model, gradients["model"], scale_by=1 / len(x))


def made_model():
    px.RKG.seed(SEED)
    model = Network()
    begin(jnp.zeros((BATCH, WIDTH)), None, model)
    return model


def train(model, frozen=False):
    """By predictive coding; `frozen` trains the last layer alone."""
    for layer in model.layers[:-1]:
        for weight in (layer.nn.weight, layer.nn.bias):
            weight.frozen = frozen
    of_weights = pxu.Optim(lambda: optax.adam(1e-3), free(pxnn.LayerParam)(model))
    of_states = pxu.Optim(lambda: optax.sgd(0.1))
    draw = np.random.default_rng(SEED)
    for _ in range(EPOCHS):
        order = draw.permutation(len(TRAIN_X))[: len(TRAIN_X) // BATCH * BATCH]  # pcx keeps states of one batch size
        for rows in order.reshape(-1, BATCH):
            x, y = jnp.asarray(TRAIN_X[rows]), jax.nn.one_hot(TRAIN_Y[rows], CLASSES)
            learn(SETTLING, x, y, model=model, of_weights=of_weights, of_states=of_states)
    return model


# what a user writes {
def weights(model):
    """The weights, out of pcx's modules."""
    return [{"weight": layer.nn.weight.get(), "bias": layer.nn.bias.get()} for layer in model.layers]


def linear(params, number, h):
    return h @ params[number]["weight"].T + params[number]["bias"]


def block(number):
    return lambda params, h: jnp.tanh(linear(params, number, h))


BLOCK_LIST = [block(number) for number in range(HIDDEN)]


def head(params, h):
    return linear(params, HIDDEN, h)


def apply(params, x):
    for each in BLOCK_LIST:
        x = each(params, x)
    return head(params, x)


def diagnosed(model, frozen, begun, credit):
    return walkback.jax.diagnose(
        apply, weights(model), BLOCK_LIST, HELD_OUT, stem=lambda params, x: x, head=head,
        frozen_baseline_acc=walkback.Score(value=accuracy(frozen), samples=len(TEST_X)), initial=weights(begun),
        credit=credit, functional=64, readouts=True, method_name="predictive coding (pcx)", seed=SEED,
    )  # fmt: skip


# }


def accuracy(model):
    return float((np.asarray(apply(weights(model), TEST_X)).argmax(axis=1) == TEST_Y).mean())


class Settled:
    """What settled states tell each site: the prediction error ε_l = h_l − u_l has the sign of −∂ℓ/∂h_l."""

    no_null = "predictive coding has no feedback matrices to draw anew: it uses the weights themselves"

    def __init__(self, model, steps=SETTLING):
        self.model, self.steps, self.of_states = model, steps, pxu.Optim(lambda: optax.sgd(0.1))

    def __call__(self, hiddens, logits, targets):
        labels = jax.nn.one_hot(targets, CLASSES)
        settle(jnp.asarray(hiddens[0]), labels, self.model, self.of_states, self.steps)
        with pxu.step(self.model):
            energy(jnp.asarray(hiddens[0]), model=self.model)
        errors = [node.get("u") - node.get("h") for node in self.model.nodes[:-1]]
        self.model.clear_params(pxc.VodeParam.Cache)
        return [jnp.zeros_like(hiddens[0]), *errors]  # the input is clamped: nothing is told to it


def by_hand(params, model):
    """In numpy and fp64, without walkback or JAX: the accuracy, and Γ behind each layer by central differences."""
    own = [(np.asarray(p["weight"], np.float64), np.asarray(p["bias"], np.float64)) for p in params]

    def logits(h, first):
        for weight, bias in own[first:-1]:
            h = np.tanh(h @ weight.T + bias)
        return h @ own[-1][0].T + own[-1][1]

    def losses(h, first, y):
        out = logits(h, first)
        top = out.max(axis=1)
        return top + np.log(np.exp(out - top[:, None]).sum(axis=1)) - out[np.arange(len(y)), y]

    right = float((logits(TEST_X.astype(np.float64), 0).argmax(axis=1) == TEST_Y).mean())
    x, y = TEST_X[:128].astype(np.float64), TEST_Y[:128]
    credits, h, found = Settled(model)([jnp.asarray(TEST_X[:128])], None, y), x, []
    for site in range(1, HIDDEN + 1):
        weight, bias = own[site - 1]
        h = np.tanh(h @ weight.T + bias)
        steps = 1e-6 * np.eye(WIDTH)
        slope = np.stack([(losses(h + s, site, y) - losses(h - s, site, y)) / 2e-6 for s in steps], axis=1)
        credit = np.asarray(credits[site], np.float64)
        found.append(
            float(((credit * slope).sum(1) / np.linalg.norm(credit, axis=1) / np.linalg.norm(slope, axis=1)).mean())
        )
    return right, found


def study():
    """All that the page reports."""
    begun, model, frozen = made_model(), train(made_model()), train(made_model(), frozen=True)
    report = diagnosed(model, frozen, begun, Settled(model))
    few = walkback.jax.diagnose(
        apply, weights(model), BLOCK_LIST, HELD_OUT[:1], stem=lambda params, x: x, head=head, credit=Settled(model)
    )
    return {
        "report": report,
        "few": few.alignment.sites[1:],
        "by_hand": by_hand(weights(model), model),
        "frozen_moved": max(
            float(abs(before[name] - after[name]).max())
            for before, after in zip(weights(begun)[:-1], weights(frozen)[:-1], strict=True)
            for name in before
        ),
        "own_answer": float((np.asarray(answers(model)).argmax(axis=1) == TEST_Y).mean()),
        "versions": {name: importlib.metadata.version(name) for name in ("pcx", "jax", "equinox")},
        "torch": "torch" in sys.modules,
        "kept_mask": kept_mask(),
    }


def kept_mask():
    """What a mask of weights selects, before it was used with `.to` and after; and what the optimizer says then."""
    model, mask = made_model(), free(pxnn.LayerParam)
    chosen = [type(leaf).__name__ for leaf in jax.tree_util.tree_leaves(mask(model))]
    slope = pxf.value_and_grad(mask.to([False, True]), has_aux=True)(energy)
    after = [type(leaf).__name__ for leaf in jax.tree_util.tree_leaves(mask(model))]
    begin(jnp.asarray(TEST_X[:BATCH]), jax.nn.one_hot(TEST_Y[:BATCH], CLASSES), model)
    with pxu.step(model, clear_params=pxc.VodeParam.Cache):
        _, gradients = slope(jnp.asarray(TEST_X[:BATCH]), model=model)
    optimizer = pxu.Optim(lambda: optax.sgd(0.1), mask(model))
    try:
        optimizer.step(model, gradients["model"])
    except ValueError as error:
        return sorted(set(chosen)), sorted(set(after)), str(error)
    return sorted(set(chosen)), sorted(set(after)), ""


def answers(model):
    """The logits by pcx's own forward pass."""
    return begin(jnp.asarray(TEST_X), None, model)


def page(found):
    report, versions = found["report"], found["versions"]
    right, gammas = found["by_hand"]
    rows = [
        (f"h_{site}", f"{size:.2f}", f"{slope:.1e}", f"{gamma:+.3f}", f"{few:+.3f}", f"{plain:+.3f}", f"{moved:.2f}")
        for site, (size, slope, gamma, few, plain, moved) in enumerate(
            zip(report.residual_norms[1:], report.bp_grad_norms[1:], report.alignment.sites[1:], found["few"], gammas,
                report.block_movement, strict=True), start=1
        )
    ]  # fmt: skip
    head = ("site", "‖h‖", "true ‖g‖", "Γ", "Γ, 128 samples", "the same by differences", "movement of the layer")
    return f"""# Predictive coding by pcx

Made by `python examples/14_case_pcx.py --write docs/case-studies/pcx.md` in an environment of its own (the head of the example
says how it is made), with pcx {versions["pcx"]}, jax {versions["jax"]} and equinox {versions["equinox"]}. pcx {versions["pcx"]} asks for jax below 0.5. torch is not
installed there. The network is 64-64-64-64-10 with tanh on scikit-learn's digits: {len(TRAIN_X):,} images to learn from, {len(TEST_X)} held
out, {EPOCHS} epochs, {SETTLING} settling steps, one seed.

## What a user writes

pcx trains its own modules; walkback.jax is given the same network as plain functions of the weights. Blocks, head and
`apply` are held against each other before anything is measured.

```python
{cases.shown(__file__)}
```

`Settled`, in the example, is what predictive coding tells each layer: states settle with the label clamped, and the
prediction error u − h of a layer stands for the gradient there.

## What was found

verdict: `{report.verdict}`. Accuracy {report.headline_acc:.1%}; with all but the last layer left at random, trained by pcx
in the same way, {report.frozen_baseline_acc:.1%}: (d) is {report.reading("d").value:+.1f} points. (a) is {report.reading("a").value:.2f}, (b) {report.reading("b").value:.1e}, (c) {report.reading("c").value:.2f}.

{cases.table(head, rows)}

- **The network is the one that pcx runs**: its own forward pass answers {found["own_answer"]:.1%} rightly, the plain functions in numpy
  and fp64 {right:.1%}.
- **Γ** is the mean cosine of the settled prediction errors with the true gradient. It was computed a second time by central
  differences in numpy, without walkback. The gradient itself was checked: largest error {report.reference_check.error:.0e}.
- **Perturbation ρ**, which needs no gradient, is {report.reading("p").value:+.2f}.
- To know when writing it: `.to` of a mask changes the mask itself and returns it (pcx {versions["pcx"]}, `utils/_mask.py`). A mask that
  is kept in a variable, given to `value_and_grad` with `.to`, and used again as a filter gives booleans then, and the
  optimizer's next step ends with "{found["kept_mask"][2]}" Make masks anew. Reproducer: `kept_mask` in the example.
- A linear readout: {report.reading("w").sentence}

## What could not be measured

- pcx's modules as they are: they write to their nodes when they are called, and their arrays are inside parameters of pcx's
  own. The lines above take them out. Whether `equinox_sites` measures such a module was not tested.
- `walkback.frozen_baseline` trains networks of torch. The baseline here is pcx's own training with an optimizer that is given
  the last layer alone (no other weight moved by more than {found["frozen_moved"]:g}); the report takes its score as a number, and says that what it froze is not known.
- A null of Γ: predictive coding has no feedback to draw anew.
- More seeds, convolutions, a GPU.
"""


if __name__ == "__main__":
    cases.main(__doc__, study, page)
