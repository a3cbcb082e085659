"""Case study: one graph of fabricpc, trained by predictive coding and by backpropagation, measured by walkback.jax.

    python -m venv fabricpc-venv
    fabricpc-venv/bin/pip install "fabricpc==0.6.0" scikit-learn ".[jax]"
    fabricpc-venv/bin/python examples/15_case_fabricpc.py                           # about half a minute
    fabricpc-venv/bin/python examples/15_case_fabricpc.py --write docs/case-studies/fabricpc.md

fabricpc takes the newest jax; pcx (the example before) does not, so each has an environment of its own.
"""

import importlib.metadata
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
from fabricpc.core.activations import SoftmaxActivation, TanhActivation
from fabricpc.core.energy import CrossEntropyEnergy
from fabricpc.core.inference import InferenceSGD, run_inference
from fabricpc.core.topology import Edge
from fabricpc.graph_assembly import TaskMap, graph
from fabricpc.graph_initialization import initialize_params
from fabricpc.graph_initialization.state_initializer import initialize_graph_state
from fabricpc.nodes import Linear
from fabricpc.training import build_clamps, evaluate, train

import cases
import walkback.jax

WIDTH, HIDDEN, CLASSES, EPOCHS, SETTLING, SEED = 64, 3, 10, 20, 12, 0
(TRAIN_X, TRAIN_Y), (TEST_X, TEST_Y) = cases.digits()
TRAIN = [(TRAIN_X[i : i + 64], TRAIN_Y[i : i + 64]) for i in range(0, 1024, 64)]
HELD_OUT = [(TEST_X[i : i + 128], TEST_Y[i : i + 128]) for i in range(0, len(TEST_X), 128)]
NAMES = [f"hidden {number}" for number in range(1, HIDDEN + 1)]
RULES = {"pc": "predictive coding", "backprop": "backpropagation"}


def structure(settling=SETTLING):
    """64-64-64-64-10 with tanh, and softmax at the answer."""
    hidden = [Linear(shape=(WIDTH,), name=name, activation=TanhActivation()) for name in NAMES]
    answer = Linear(shape=(CLASSES,), name="answer", activation=SoftmaxActivation(), energy=CrossEntropyEnergy())
    nodes = [Linear(shape=(WIDTH,), name="pixels"), *hidden, answer]
    edges = [Edge(source=a, target=b.slot("in")) for a, b in pairwise(nodes)]
    settles = InferenceSGD(eta_infer=0.1, infer_steps=settling)
    return graph(nodes=nodes, edges=edges, task_map=TaskMap(x=nodes[0], y=answer), inference=settles)


GRAPH = structure()
BEGUN = initialize_params(GRAPH, jax.random.PRNGKey(SEED))


def trained(algorithm, frozen=False):
    """By one of fabricpc's two algorithms, from the same weights; `frozen` leaves the hidden layers at random."""
    adam = optax.adam(1e-3)
    rule = optax.multi_transform({"learn": adam, "hold": optax.set_to_zero()}, in_answer) if frozen else adam
    done = train(
        BEGUN, GRAPH, TRAIN, rule, {"num_epochs": EPOCHS}, jax.random.PRNGKey(1), algorithm=algorithm, verbose=False
    )
    return done.params


# what a user writes {
def linear(params, node, h):
    (weight,) = params.nodes[node].weights.values()
    return h @ weight + params.nodes[node].biases["b"]


def block(name):
    return lambda params, h: jnp.tanh(linear(params, name, h))


BLOCK_LIST = [block(name) for name in NAMES]


def head(params, h):
    return linear(params, "answer", h)  # the graph's softmax belongs to the loss


def apply(params, x):
    for each in BLOCK_LIST:
        x = each(params, x)
    return head(params, x)


def diagnosed(algorithm):
    params, frozen = trained(algorithm), trained(algorithm, frozen=True)
    return params, walkback.jax.diagnose(
        apply, params, BLOCK_LIST, HELD_OUT, stem=lambda params, x: x, head=head, initial=BEGUN, readouts=True,
        frozen_baseline_acc=walkback.Score(value=accuracy(frozen), samples=len(TEST_X)),
        credit=settled(params), functional=64, method_name=RULES[algorithm], seed=SEED,
    )  # fmt: skip


# }


def in_answer(params):
    """Which weights learn where the hidden layers are held."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: "learn" if "'answer'" in jax.tree_util.keystr(path) else "hold", params
    )


def accuracy(params):
    return float((np.asarray(apply(params, TEST_X)).argmax(axis=1) == TEST_Y).mean())


def settled(params):
    """What settled states tell each hidden node: its prediction minus its state."""

    def credit(hiddens, logits, targets):
        clamps = build_clamps({"x": jnp.asarray(hiddens[0]), "y": jnp.asarray(targets)}, GRAPH, clamp_target=True)
        state = initialize_graph_state(GRAPH, len(targets), jax.random.PRNGKey(0), clamps=clamps, params=params)
        state = run_inference(params, state, clamps, GRAPH)
        errors = [state.nodes[name].z_mu - state.nodes[name].z_latent for name in NAMES]
        return [jnp.zeros_like(hiddens[0]), *errors]  # the input is clamped: nothing is told to it

    credit.no_null = "predictive coding has no feedback matrices to draw anew: it uses the weights themselves"
    return credit


def by_hand(params, samples=128):
    """Γ behind each layer on the first samples, by central differences in numpy and fp64, without walkback."""
    own = [
        tuple(np.asarray(a, np.float64) for a in (*params.nodes[name].weights.values(), params.nodes[name].biases["b"]))
        for name in (*NAMES, "answer")
    ]

    def losses(h, first):
        for weight, bias in own[first:-1]:
            h = np.tanh(h @ weight + bias)
        out = h @ own[-1][0] + own[-1][1]
        return np.log(np.exp(out).sum(axis=1)) - out[np.arange(samples), TEST_Y[:samples]]

    credits = settled(params)([jnp.asarray(TEST_X[:samples])], None, jnp.asarray(TEST_Y[:samples]))
    h, found = TEST_X[:samples].astype(np.float64), []
    for site in range(1, HIDDEN + 1):
        h = np.tanh(h @ own[site - 1][0] + own[site - 1][1])
        steps = 1e-6 * np.eye(WIDTH)
        slope = np.stack([(losses(h + s, site) - losses(h - s, site)) / 2e-6 for s in steps], axis=1)
        credit = np.asarray(credits[site], np.float64)
        sizes = np.linalg.norm(credit, axis=1) * np.linalg.norm(slope, axis=1)
        found.append(float(((credit * slope).sum(axis=1) / sizes).mean()))
    return found


def own_scores(params, settling=SETTLING, algorithm="pc"):
    """What fabricpc's own `evaluate` says: of settled states, or (`backprop`) of a single forward pass."""
    return evaluate(params, structure(settling), HELD_OUT, {}, jax.random.PRNGKey(2), algorithm=algorithm)


def free_energy(params, settling):
    """The energy of the answer node where it is not clamped, from its state and prediction: −Σ z·log μ, per sample."""
    built = structure(settling)
    clamps = build_clamps({"x": jnp.asarray(TEST_X), "y": jnp.asarray(TEST_Y)}, built, clamp_target=False)
    state = initialize_graph_state(built, len(TEST_X), jax.random.PRNGKey(0), clamps=clamps, params=params)
    node = run_inference(params, state, clamps, built).nodes["answer"]
    z, mu = np.asarray(node.z_latent, np.float64), np.clip(np.asarray(node.z_mu, np.float64), 1e-7, 1)
    return float(-(z * np.log(mu)).sum(axis=1).mean())


def study():
    """All that the page reports."""
    found = {"versions": {name: importlib.metadata.version(name) for name in ("fabricpc", "jax", "optax")}}
    for algorithm in RULES:
        params, report = diagnosed(algorithm)
        few = walkback.jax.diagnose(
            apply, params, BLOCK_LIST, HELD_OUT[:1], stem=lambda params, x: x, head=head, credit=settled(params)
        )
        found[algorithm] = {
            "report": report,
            "few": few.alignment.sites[1:],
            "by_hand": by_hand(params),
            "own": own_scores(params),
            "forward": own_scores(params, algorithm="backprop")["accuracy"],
        }
        if algorithm == "pc":
            found["energies"] = [own_scores(params, steps)["energy"] for steps in (SETTLING, 2 * SETTLING)]
            found["free"] = [free_energy(params, steps) for steps in (SETTLING, 2 * SETTLING)]
    return found


def page(found):
    versions, own = found["versions"], found["pc"]["own"]
    reports = {algorithm: found[algorithm]["report"] for algorithm in RULES}
    head = (
        "trained by",
        "accuracy",
        "by `evaluate`",
        "hidden layers at random",
        "(a)",
        "(b)",
        "(c)",
        "(d), points",
        "verdict",
    )
    rows = [
        (
            report.method_name,
            f"{report.headline_acc:.1%}",
            f"{found[algorithm]['own']['accuracy']:.1%}",
            f"{report.frozen_baseline_acc:.1%}",
            f"{report.reading('a').value:.2f}",
            f"{report.reading('b').value:.1e}",
            f"{report.reading('c').value:.2f}",
            f"{report.reading('d').value:+.1f}",
            report.verdict,
        )
        for algorithm, report in reports.items()
    ]
    sites = [
        (f"{report.method_name}, h_{site}", f"{gamma:+.3f}", f"{few:+.3f}", f"{plain:+.3f}", f"{moved:.2f}")
        for algorithm, report in reports.items()
        for site, (gamma, few, plain, moved) in enumerate(
            zip(report.alignment.sites[1:], found[algorithm]["few"], found[algorithm]["by_hand"], report.block_movement,
                strict=True), start=1
        )
    ]  # fmt: skip
    errors = max(report.reference_check.error for report in reports.values())
    rho = " and ".join(f"{report.reading('p').value:+.2f} ({report.method_name})" for report in reports.values())
    forward = " and ".join(f"{found[algorithm]['forward']:.1%}" for algorithm in RULES)
    return f"""# One graph of fabricpc, by predictive coding and by backpropagation

Made by `python examples/15_case_fabricpc.py --write docs/case-studies/fabricpc.md` in an environment of its own (the head of the
example says how it is made), with fabricpc {versions["fabricpc"]}, jax {versions["jax"]} and optax {versions["optax"]}. The graph is 64-64-64-64-10 with tanh, and
softmax with the energy of a cross-entropy at its answer, on scikit-learn's digits: 1,024 images to learn from, {len(TEST_X)} held
out, {EPOCHS} epochs, {SETTLING} settling steps, one seed, the same first weights for both.

`train_pcn` and `train_backprop` are names of fabricpc 0.4.0. From 0.5.2 on (the releases looked at are 0.4.0, 0.5.2 and 0.6.0)
it is one `train(…, algorithm="pc")` or `"backprop"`, which is used here.

## What a user writes

fabricpc trains the graph (`trained`, in the example); walkback.jax is given the same network as plain functions of its
parameters.

```python
{cases.shown(__file__)}
```

`settled`, in the example, lets fabricpc settle its states with the label clamped. Prediction minus state of a hidden node is
what predictive coding tells that layer.

## What was found

{cases.table(head, rows)}

- **The network is the one that fabricpc runs**: the third column is its own `evaluate`, in which states settle first. Of a
  single forward pass (`algorithm="backprop"`) it says {forward}, which is what walkback counts.
- The gradient was checked by finite differences: largest error {errors:.0e}. Perturbation ρ of the settled errors, which needs
  no gradient, is {rho}.

{cases.table(("trained by, site", "Γ", "Γ, 128 samples", "the same by differences", "movement of the layer"), sites)}

Γ is the mean cosine of the settled errors with the true gradient, and was computed a second time by central differences in
numpy, without walkback. For the network that was trained by backpropagation it says what predictive coding would tell it.

### The energy that `evaluate` reports

For the network trained by predictive coding `evaluate` reports `energy` {found["energies"][0]:.0f} with {SETTLING} settling steps, and {found["energies"][1]:.0f} with {2 * SETTLING}. In
evaluation the answer is not clamped. Its energy −Σ z·log μ falls without end as z falls, and settling moves z that way
(`core/energy.py`, `CrossEntropyEnergy`). By hand, from the settled state of the answer node alone: {found["free"][0]:.0f} and {found["free"][1]:.0f}. `target_energy`
({own["target_energy"]:.3f}) and `accuracy` are of the prediction and the label, and are not touched by this.

## What could not be measured

- `walkback.frozen_baseline` trains networks of torch. The baseline here is fabricpc's own training with updates of the hidden
  layers set to zero; the report takes its score as a number, and says that what it froze is not known.
- A null of Γ: predictive coding has no feedback to draw anew.
- Graphs with cycles: sites h_0 … h_L need a chain of blocks.
- More seeds, convolutions, transformers, a GPU.
"""


if __name__ == "__main__":
    cases.main(__doc__, study, page)
