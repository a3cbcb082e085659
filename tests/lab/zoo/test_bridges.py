"""The bridges: their credit by its definition, and their networks trained by their own objective."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from zoo_networks import backprop_gradients, batch, gradients, small, trace_of, true_gradients

from walkback.errors import InputError
from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods.site_vectors import as_vectors
from walkback.lab.zoo.methods.value_bridge import Terminal, soft_minimum

BRIDGES = ["state_bridge", "credit_bridge", "credit_bridge_vector"]
SHAPES = ["resmlp", "vit_mini", "small_cnn"]
SOURCE = {"context": "error", "target": "normalised", "predictor_layers": 3, "predictor_width": 16}


def predicted(method, hiddens, *context):
    return method.predictor([as_vectors(h) for h in hiddens], range(len(hiddens)), *context)


@pytest.mark.parametrize("target", ["raw", "scaled"])
def test_state_credit_is_the_slope_of_the_predicted_loss(target):
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("state_bridge", model, target=target)
    trace = trace_of(model, inputs, targets)
    scale = 1.0 if target == "raw" else trace.hiddens[-1].norm(dim=1).mean()

    def losses(hiddens, site):
        return F.cross_entropy(model.head(predicted(method, hiddens)[site] * scale), targets, reduction="none")

    assert_slopes(method.credits(trace), trace.hiddens, losses)


def assert_slopes(credits, hiddens, function):
    """Each sample's credit at a site is the slope of its own value of `function(hiddens, site)` there."""
    for site, credit in enumerate(credits):
        direction, step, values = torch.randn_like(credit), 1e-6, []
        for sign in (1, -1):
            moved = list(hiddens)
            moved[site] = moved[site] + sign * step * direction
            values.append(torch.as_tensor(function(moved, site)))
        slope = (values[0] - values[1]) / (2 * step)
        torch.testing.assert_close((credit * direction).flatten(1).sum(dim=1), slope, rtol=1e-5, atol=1e-8)


def test_state_credit_at_the_prediction_is_the_gradient_of_the_head_there():
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("state_bridge", model, credit_from="prediction")
    trace = trace_of(model, inputs, targets)
    for credit, state in zip(method.credits(trace), predicted(method, trace.hiddens), strict=True):
        at = state.detach().requires_grad_()
        loss = F.cross_entropy(model.head(at), targets, reduction="sum")
        torch.testing.assert_close(credit, torch.autograd.grad(loss, at)[0])


def test_credit_bridge_hands_out_its_prediction():
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("credit_bridge_vector", model)
    trace = trace_of(model, inputs, targets)
    expected = predicted(method, trace.hiddens, trace.error)
    for credit, prediction in zip(method.credits(trace), expected, strict=True):
        assert torch.equal(credit, prediction)


@pytest.mark.parametrize("target", ["raw", "scaled"])
@pytest.mark.parametrize("architecture", ["resmlp", "vit_mini", "small_cnn"])
def test_credit_bridge_learns_the_terminal_credit(architecture, target):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("credit_bridge_vector", model, target=target)
    trace = trace_of(model, inputs, targets)
    terminal = true_gradients(model, inputs, targets)[-1]
    terminal = terminal[:, 0] if architecture == "vit_mini" else terminal
    scale = 1.0 if target == "raw" else terminal.norm(dim=1).mean()
    _, objective = method.credits_at(trace, range(len(trace.hiddens)))
    expected = (predicted(method, trace.hiddens, trace.error) - terminal / scale).square().sum(dim=-1).mean()
    torch.testing.assert_close(objective, expected)


@pytest.mark.parametrize("name", BRIDGES)
@pytest.mark.parametrize("architecture", ["resmlp", "vit_mini", "small_cnn"])
def test_the_predictor_learns_beside_the_model_and_leaves_the_head_alone(architecture, name):
    model, (inputs, targets) = small(architecture), batch()
    expected = backprop_gradients(model, inputs, targets)
    method = build_method(name, model, torch.Generator().manual_seed(0), predictor_width=32)
    method.accumulate(inputs, targets)
    for key, grad in gradients(model).items():
        if key.startswith("head"):
            torch.testing.assert_close(grad, expected[key])
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-2)
    trace = trace_of(model, inputs, targets)
    objectives = []
    for _ in range(30):
        _, objective = method.credits_at(trace, range(len(trace.hiddens)))
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
        objectives.append(objective.item())
    assert objectives[-1] < 0.5 * objectives[0]


@pytest.mark.parametrize("name", BRIDGES)
def test_by_default_credit_goes_to_the_block_that_reads_and_is_normalised(name):
    options = build_method(name, small("resmlp")).options
    assert (options.credit_site, options.credit_norm) == ("read", "per_sample")


# What follows is in numpy: a perceptron by its weights, without torch's layers.


def normed(rows):
    return (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)


def perceptron(network, hidden, site, *context):
    """The auxiliary network's output for one site, (B, …) → (B, out)."""
    weights = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    rows = hidden.mean(1) if hidden.ndim == 3 else hidden.reshape(len(hidden), -1)
    code = np.tile(np.eye(network.layer_codes.shape[0])[site], (len(rows), 1))
    x, first = np.concatenate([normed(rows), code, *context], axis=1), f"read.{rows.shape[1]}"
    for name in (first, *(f"hidden.{i}" for i in range(len(network.hidden)))):
        z = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        x = z * (1 + np.vectorize(math.erf)(z / math.sqrt(2))) / 2
    return x @ weights["write.weight"].T + weights["write.bias"]


def arrays(hiddens):
    return [hidden.detach().numpy() for hidden in hiddens]


@pytest.mark.parametrize("architecture", SHAPES)
@pytest.mark.parametrize("target", ["normalised", "layer_norm"])
def test_state_credit_with_the_error_in_sight_is_the_slope_of_the_predicted_loss(target, architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("state_bridge", model, **SOURCE | {"target": target})
    trace = trace_of(model, inputs, targets)
    last = arrays([trace.hiddens[-1]])[0]
    last = last[:, 0] if architecture == "vit_mini" else last.reshape(len(last), -1)
    error, wanted = trace.error.numpy(), last if target == "normalised" else normed(last)

    def predicted_by(hiddens, site):
        return perceptron(method.predictor, hiddens[site].numpy(), site, error)

    def losses(hiddens, site):
        state = predicted_by(hiddens, site)
        if target == "layer_norm":  # brought back to the units of h_L
            state = state * np.sqrt(last.var(1, keepdims=True) + 1e-5) + last.mean(1, keepdims=True)
        readable = torch.from_numpy(state)
        readable = readable.unsqueeze(1) if architecture == "vit_mini" else readable.view(trace.hiddens[-1].shape)
        with torch.no_grad():
            return F.cross_entropy(model.head(readable), targets, reduction="none")

    assert_slopes(method.credits(trace), trace.hiddens, losses)
    _, objective = method.credits_at(trace, range(len(trace.hiddens)))
    errors = [((predicted_by(trace.hiddens, site) - wanted) ** 2).sum(1) for site in range(len(trace.hiddens))]
    assert objective.item() == pytest.approx(np.mean(errors) / np.mean((wanted**2).sum(1)), rel=1e-9)


@pytest.mark.parametrize("architecture", SHAPES)
@pytest.mark.parametrize(("layers", "share"), [(1, 1.0), (3, 1.0), (3, 0.4)])
def test_the_credit_of_credit_bridge_is_the_slope_of_its_value(layers, share, architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    options = {"predictor_width": 16, "predictor_layers": layers, "consistency_share": share}
    method = build_method("credit_bridge", model, **options)
    trace = trace_of(model, inputs, targets)

    def value(hiddens, site):
        return perceptron(method.value.network, hiddens[site].numpy(), site, trace.error.numpy())[:, 0]

    assert_slopes(method.credits(trace), trace.hiddens, value)
    trained_on = method.credits_at(trace, range(len(trace.hiddens)))[0]
    for handed_out, followed in zip(method.credits(trace), trained_on, strict=True):
        torch.testing.assert_close(handed_out, followed)


def test_the_soft_minimum_is_by_its_formula():
    values = np.random.default_rng(0).normal(size=(8, 3, 5))
    for temperature in (0.02, 0.1, 10.0):
        expected = -temperature * np.log(np.exp(-values / temperature).mean(0))
        np.testing.assert_allclose(soft_minimum(torch.from_numpy(values), temperature), expected, rtol=1e-12)
    assert soft_minimum(torch.full((8, 1), 1e6), 0.1).item() == pytest.approx(1e6)


def twin_objective(method, trace, terminal, seed):
    """The three terms of the value's objective, sample by sample where it matters; slopes by differences."""
    options, network, error = method.options, method.value.network, trace.error.numpy()
    hiddens, last = arrays(trace.hiddens), len(trace.hiddens) - 1
    vectors = [h.mean(1) if h.ndim == 3 else h.reshape(len(h), -1) for h in hiddens]
    losses, gradients = terminal
    values = [perceptron(network, vector, site, error)[:, 0] for site, vector in enumerate(vectors)]
    slopes = np.zeros_like(vectors[-1])
    for entry in range(slopes.shape[1]):
        move = 1e-6 * np.eye(slopes.shape[1])[entry]
        ends = [perceptron(network, vectors[-1] + sign * move, last, error)[:, 0] for sign in (1, -1)]
        slopes[:, entry] = (ends[0] - ends[1]) / 2e-6
    torch.manual_seed(seed)
    count, seen = options.noisy_samples, math.ceil(options.consistency_share * len(error))
    noise, differences = {}, []
    for site in range(1, last + 1):
        size = vectors[site].shape[1]
        if size not in noise:
            noise[size] = torch.empty(count, seen, size, dtype=torch.float64).normal_().numpy()
        for sample in range(seen):
            state = vectors[site][sample]
            noisy = state + options.noise * np.sqrt(np.mean(state**2)) * noise[size][:, sample]
            beside = np.tile(error[sample], (count, 1))
            targets = perceptron(method.value.average, noisy, site, beside)[:, 0]
            wanted = -options.temperature * np.log(np.mean(np.exp(-targets / options.temperature)))
            differences.append((values[site - 1][sample] - wanted) ** 2)
    by_slope = np.mean((slopes - gradients) ** 2) / np.mean(gradients**2)
    return np.mean(differences) + np.mean((values[-1] - losses) ** 2) + options.gradient_weight * by_slope


def moved_apart(method):
    """The value network and its average, told apart."""
    with torch.no_grad():
        for parameter in method.value.average.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return method


@pytest.mark.parametrize("architecture", SHAPES)
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_value_learns_from_its_neighbour_the_loss_and_the_terminal_gradient(share, architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    options = {"gradient_weight": 0.7, "consistency_share": share, "noisy_samples": 3, "predictor_width": 8}
    method = moved_apart(build_method("credit_bridge", model, **options))
    trace = trace_of(model, inputs, targets)
    gradient = true_gradients(model, inputs, targets)[-1]
    gradient = (gradient[:, 0] if architecture == "vit_mini" else gradient.flatten(1)).numpy()
    loss = F.cross_entropy(trace.logits, targets, reduction="none").numpy()
    torch.manual_seed(3)
    _, objective = method.credits_at(trace, range(len(trace.hiddens)))
    assert objective.item() == pytest.approx(twin_objective(method, trace, (loss, gradient), 3), rel=1e-6)


@pytest.mark.parametrize("progress", [0.0, 1.0])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_value_network_gets_the_gradient_of_its_objective_and_its_average_none(share, progress):
    """By differences of the objective, whose value has a twin of its own."""
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = moved_apart(build_method("credit_bridge", model, predictor_width=6, consistency_share=share))
    method.at(progress)
    before = copy.deepcopy(method.value.average.state_dict())
    torch.manual_seed(4)
    method.accumulate(inputs, targets)
    moved = copy.deepcopy(method)  # its average has made the step, which is not to be made again
    assert all(parameter.grad is None for parameter in method.value.average.parameters())
    assert any(not torch.equal(before[key], value) for key, value in method.value.average.state_dict().items())
    trace = trace_of(model, inputs, targets)
    for name, parameter in moved.value.network.named_parameters():
        direction, objectives = torch.randn_like(parameter), []
        for sign in (1, -1):
            with torch.no_grad():
                parameter += sign * 1e-6 * direction
            torch.manual_seed(4)
            objectives.append(moved.credits_at(trace, range(len(trace.hiddens)))[1].item())
            with torch.no_grad():
                parameter -= sign * 1e-6 * direction
        slope = (objectives[0] - objectives[1]) / 2e-6
        gradient = method.value.network.get_parameter(name).grad
        assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-5, abs=1e-7), name


def test_the_average_follows_the_value_network_once_for_each_step():
    model, (inputs, targets) = small("resmlp"), batch()
    method = build_method("credit_bridge", model, average_decay=0.9, predictor_width=8)
    optimizer = torch.optim.Adam([p for p in method.parameters() if p.requires_grad], lr=1e-2)
    names = [name for name, _ in method.value.network.named_parameters()]
    expected = {name: method.value.average.get_parameter(name).numpy().copy() for name in names}
    for _ in range(4):
        for name in names:
            network = method.value.network.get_parameter(name).detach().numpy()
            expected[name] = 0.9 * expected[name] + 0.1 * network
        optimizer.zero_grad()
        method.accumulate(inputs, targets)
        for name in names:
            found = method.value.average.get_parameter(name)
            np.testing.assert_allclose(found, expected[name], rtol=1e-12, atol=1e-15)
        optimizer.step()
    held = method.state_dict()
    assert {f"value.average.{name}" for name in names} <= held.keys()
    assert not torch.equal(held["value.average.write.weight"], held["value.network.write.weight"])


@pytest.mark.parametrize("architecture", SHAPES)
def test_in_the_warm_up_everything_follows_dfa_and_after_it_does_not(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("credit_bridge", model, warm_up=0.2)
    twin = copy.deepcopy(model)
    direct = build_method("dfa", twin, credit_norm="per_sample", credit_site="read")
    trace = trace_of(model, inputs, targets)
    method.at(0.19)
    sizes = [math.prod(shape[-1:] if len(shape) == 2 else shape) for shape in model.site_shapes]
    last = len(sizes) - 1
    for site, credit in enumerate(method.credits(trace)):
        shared = site == last and sizes[site] == sizes[last - 1]
        matrix = method.get_buffer(f"feedback_{last - 1 if shared else site}")
        direct.get_buffer(f"feedback_{site}").copy_(matrix)
        vector = credit[:, 1] if credit.ndim == 3 else credit.flatten(1)
        np.testing.assert_allclose(vector, trace.error.numpy() @ matrix.numpy(), rtol=1e-12, atol=1e-14)
    method.accumulate(inputs, targets)
    direct.accumulate(inputs, targets)
    assert all(torch.equal(model.get_parameter(name).grad, grad) for name, grad in gradients(twin).items())
    assert all(parameter.grad.any() for parameter in method.value.network.parameters())
    for progress in (0.2, 1.0):
        model.zero_grad()
        method.at(progress)
        method.accumulate(inputs, targets)
        for name, grad in gradients(twin).items():
            assert torch.allclose(model.get_parameter(name).grad, grad) == name.startswith("head"), name


def test_the_matrices_of_the_warm_up_are_spread_by_the_classes_and_the_last_site_shares_one():
    model = small("resmlp")
    method = build_method("credit_bridge", model, torch.Generator().manual_seed(0))
    held = {key: value for key, value in method.state_dict().items() if key.startswith("feedback")}
    assert sorted(held) == ["feedback_0", "feedback_1", "feedback_2"]  # four sites, three blocks
    entries = torch.cat([matrix.flatten() for matrix in held.values()])
    assert entries.numel() == 3 * 5 * 12
    assert entries.square().mean().item() == pytest.approx(1 / 5, rel=0.3)


def test_a_draw_for_the_null_is_at_the_same_moment():
    method = build_method("credit_bridge", small("resmlp"))
    assert not method.redraw(torch.Generator().manual_seed(0)).warming_up
    method.at(0.1)
    assert method.redraw(torch.Generator().manual_seed(0)).warming_up


def test_handing_out_credit_draws_no_random_number_and_moves_nothing():
    model, (inputs, targets) = small("resmlp"), batch()
    method = build_method("credit_bridge", model)
    before, state = copy.deepcopy(method.state_dict()), torch.get_rng_state()
    method.credits(trace_of(model, inputs, targets))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())


def test_the_value_learns_the_same_from_a_stream_that_exploded():
    """In fp32: the slopes of V fall with the size of the state, as the gradient behind a terminal norm does."""
    model, (inputs, targets) = small("resmlp", dtype=torch.float32), batch(dtype=torch.float32)
    method = build_method("credit_bridge", model)
    trace = trace_of(model, inputs, targets)
    vectors, error = [as_vectors(h) for h in trace.hiddens], trace.error.float()
    losses, gradient, found = torch.ones(len(error)), torch.randn_like(vectors[-1]), []
    for size in (1.0, 1e9):
        torch.manual_seed(0)
        last = Terminal(losses, gradient / size)
        found.append(method.value.learn([*vectors[:-1], vectors[-1] * size], error, last)[1].item())
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warm_up": 1.5}, r"warm_up is 1\.5; expected 1 or less"),
        ({"warm_up": -0.1}, r"warm_up is -0\.1; expected 0 or more"),
        ({"noisy_samples": 0}, "noisy_samples is 0; expected 1 or more"),
        ({"noise": -1.0}, r"noise is -1\.0; expected 0 or more"),
        ({"temperature": 0.0}, r"temperature is 0\.0; expected a finite number above 0"),
        ({"average_decay": 1.1}, r"average_decay is 1\.1; expected 1 or less"),
        ({"gradient_weight": -1.0}, r"gradient_weight is -1\.0; expected 0 or more"),
        ({"consistency_share": 0.0}, r"consistency_share is 0\.0; expected a finite number above 0"),
        ({"predictor_layers": 0}, "predictor_layers is 0; expected 1 or more"),
    ],
)
def test_impossible_options_of_credit_bridge_are_refused(options, message):
    with pytest.raises(InputError, match=f"method credit_bridge: {message}"):
        build_method("credit_bridge", small("resmlp"), **options)


def test_a_predictor_without_layers_is_refused():
    with pytest.raises(InputError, match="predictor_layers is 0; expected 1 or more"):
        build_method("state_bridge", small("resmlp"), predictor_layers=0)
