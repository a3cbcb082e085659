"""The functional tests of the zoo against a residual MLP written out by hand, and what a run keeps of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from tiny_runs import InterruptAfter, assert_same_run, tiny

from walkback.errors import MissingFeedback
from walkback.lab.runs import functional_tests
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.baselines import finished_report
from walkback.lab.runs.correctness import unpacked
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.measure import held_out
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.lab.zoo.datasets import Batches, evaluation_batches


def trained(method="bp", architecture="resmlp", steps=5, **settings):
    config = tiny(method, architecture, **settings)
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    for _ in range(steps):
        for inputs, targets in Batches(dataset.train, 640).epoch(0):
            run.method.accumulate(inputs, targets)
            run.optimizer.step()
            run.optimizer.zero_grad()
    return config, run, held_out(dataset)


class ByHand:
    """stem, pre-norm blocks, norm, readout: one sample at a time, in fp64, without torch."""

    def __init__(self, model):
        self.weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
        self.depth = len(model.blocks)

    def linear(self, name, x):
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        centred = x - sum(x) / len(x)
        scaled = centred / math.sqrt(sum(centred**2) / len(x) + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def block(self, index, h):
        inner = self.linear(f"blocks.{index}.linear1", self.norm(f"blocks.{index}.norm", h))
        active = np.array([x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in inner])
        return h + self.linear(f"blocks.{index}.linear2", active)

    def sites(self, x):
        sites = [self.linear("stem.1", x.ravel())]
        for index in range(self.depth):
            sites.append(self.block(index, sites[-1]))
        return sites

    def softmax(self, site, h):
        for index in range(site, self.depth):
            h = self.block(index, h)
        logits = self.linear("head.1", self.norm("head.0", h))
        powers = np.array([math.exp(z - max(logits)) for z in logits])
        return powers / sum(powers)

    def loss(self, site, h, target):
        return -math.log(self.softmax(site, h)[target])

    def gradient(self, site, h, target, step=1e-5):
        columns = step * np.eye(len(h))
        return np.array([self.loss(site, h + e, target) - self.loss(site, h - e, target) for e in columns]) / (2 * step)


def figures_by_hand(model, batches, samples, seed, credit_of):
    """Per site what both tests say, in loops; `credit_of(site, h, target, error)` is one sample's credit."""
    twin, generator = ByHand(model), torch.Generator().manual_seed(derived_seed(seed, "functional tests"))
    inputs = torch.cat([x for x, _ in batches])[:samples].double().numpy()
    targets = torch.cat([y for _, y in batches])[:samples].tolist()
    streams = [twin.sites(x) for x in inputs]
    errors = [twin.softmax(twin.depth, s[-1]) - np.eye(10)[y] for s, y in zip(streams, targets, strict=True)]
    found = []
    for site in range(twin.depth + 1):
        states = [stream[site] for stream in streams]
        relative = 1e-3 * np.median([math.sqrt(h @ h) for h in states])
        pairs = {(step, form): [] for step in ("absolute", "relative") for form in ("raw", "unit_rms")}
        nudges = {(form, rate): [] for form in ("raw", "unit_rms") for rate in (0.01, 0.003)}
        for h, target, error in zip(states, targets, errors, strict=True):
            before, raw = twin.loss(site, h, target), credit_of(twin, site, h, target, error)
            credits = {"raw": raw, "unit_rms": raw / math.sqrt(sum(raw**2) / len(raw))}
            drawn = torch.randn(32, len(h), generator=generator, dtype=torch.float64).numpy()
            for direction in drawn:
                v = direction / math.sqrt(direction @ direction)
                for step, epsilon in (("absolute", 1e-3), ("relative", relative)):
                    change = twin.loss(site, h + epsilon * v, target) - before
                    for form, credit in credits.items():
                        pairs[step, form].append((credit @ (epsilon * v), change))
            for form, rate in nudges:
                nudges[form, rate].append(twin.loss(site, h - rate * credits[form], target) - before)
        found.append((pairs, nudges))
    return found


def true_gradient(twin, site, h, target, error):
    return twin.gradient(site, h, target)


@pytest.mark.parametrize("method", ["bp", "dfa"])
def test_every_figure_matches_a_network_written_out_by_hand(method, monkeypatch):
    monkeypatch.setattr(functional_tests, "SAMPLES", 13)
    config, run, batches = trained(method)
    found = functional_tests.functional_tests(config, run, batches)
    if method == "dfa":
        feedback = [run.method.feedback(site).double().numpy() for site in range(3)]

    def fed_back(twin, site, h, target, error):
        return error @ feedback[site]

    by_hand = figures_by_hand(run.model, batches, 13, config.seed, true_gradient if method == "bp" else fed_back)
    assert (found["unmeasured"], found["unmeasured_sites"]) == ("", {})
    assert (found["samples"], found["directions"]) == (13, 32)
    for site, (pairs, nudges) in enumerate(by_hand):
        for (step, form), values in pairs.items():
            told, changes = np.array(values).T
            expected = np.corrcoef(told, changes)[0, 1]
            figures = found["perturbation"][step]
            # The network's own states and credit are in fp32.
            assert figures["credit"][form]["rho"][site] == pytest.approx(expected, abs=1e-5)
            assert figures["credit"][form]["credit_spread"][site] == pytest.approx(told.std(), rel=1e-4)
            assert figures["loss_spread"][site] == pytest.approx(changes.std(), rel=1e-4)
            low, high = (figures["credit"][form][bound][site] for bound in ("low", "high"))
            assert (low + high) / 2 == pytest.approx(expected, abs=1e-5)
        for (form, rate), values in nudges.items():
            nudge = found["nudge"][form][f"{rate:g}"]
            error = np.std(values, ddof=1) / math.sqrt(13)
            assert nudge["mean"][site] == pytest.approx(np.mean(values), rel=1e-3, abs=1e-4 * error)
            assert nudge["standard_error"][site] == pytest.approx(error, rel=1e-3)


def fresh(gradient):
    return torch.randn(gradient.shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("change", "low", "high"), [(lambda g: g, 0.99, 1.01), (lambda g: -g, -1.01, -0.99), (fresh, -0.1, 0.1)]
)
def test_the_gradient_foretells_the_loss_its_opposite_the_reverse_and_chance_nothing(change, low, high, monkeypatch):
    config, run, batches = trained("bp")
    gradients = run.method.credits
    monkeypatch.setattr(run.method, "credits", lambda trace: [change(gradient) for gradient in gradients(trace)])
    found = functional_tests.functional_tests(config, run, batches)
    assert found["samples"] == 256
    for step in ("absolute", "relative"):
        assert all(low < rho < high for rho in found["perturbation"][step]["credit"]["raw"]["rho"])


@pytest.mark.parametrize("architecture", ["vit_mini", "small_cnn", "student_net"])
def test_sites_of_any_shape_are_tested(architecture, monkeypatch):
    monkeypatch.setattr(functional_tests, "SAMPLES", 9)
    config, run, batches = trained("bp", architecture, steps=2)
    found = functional_tests.functional_tests(config, run, batches)
    sites = len(run.model.blocks) + 1
    assert len(found["hidden_norm"]) == sites
    # Pooling units have kinks, and what ReLU switches off has no gradient: not quite 1 there.
    assert min(found["perturbation"]["absolute"]["credit"]["raw"]["rho"]) > 0.99
    assert max(found["nudge"]["raw"]["0.01"]["mean"]) < 0


def test_samples_are_the_first_of_whole_batches(monkeypatch):
    monkeypatch.setattr(functional_tests, "SAMPLES", 130)
    config, run, batches = trained("state_bridge", steps=1)
    asked, credits = [], run.method.credits

    def spy(trace):
        asked.append(len(trace.targets))
        return credits(trace)

    monkeypatch.setattr(run.method, "credits", spy)
    sites = functional_tests.sites_to_test(run, batches)
    assert asked == [128, 128]
    assert [len(site.hidden) for site in sites] == [130] * 3
    assert sites[0].targets.equal(torch.cat([y for _, y in batches])[:130])
    assert functional_tests.functional_tests(config, run, batches[:1])["samples"] == 128


def test_the_network_and_every_random_state_are_left_as_they_were():
    config, run, batches = trained("credit_bridge", "small_cnn", steps=1)
    run.model.train()
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    feedback = {name: value.clone() for name, value in run.method.state_dict().items()}
    learning = [p.requires_grad for p in run.model.parameters()]
    random_states = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    first = functional_tests.functional_tests(config, run, batches)
    assert all(value.equal(run.model.state_dict()[name]) for name, value in before.items())
    assert all(value.equal(run.method.state_dict()[name]) for name, value in feedback.items())
    assert {value.dtype for value in run.model.parameters()} == {torch.float32}
    assert all(module.training for module in run.model.modules())
    assert [p.requires_grad for p in run.model.parameters()] == learning
    assert all(p.grad is None for p in (*run.model.parameters(), *run.method.parameters()))
    assert torch.get_rng_state().equal(random_states[0])
    assert np.random.get_state()[1].tolist() == random_states[1]  # noqa: NPY002
    torch.manual_seed(1)
    assert functional_tests.functional_tests(config, run, batches) == first


def test_another_seed_tests_in_other_directions(monkeypatch):
    monkeypatch.setattr(functional_tests, "SAMPLES", 9)
    config, run, batches = trained("dfa")
    one, other = (functional_tests.functional_tests(config.changed(seed=s), run, batches) for s in (1, 2))
    assert one["perturbation"] != other["perturbation"]
    assert one["nudge"] == other["nudge"]


def test_a_network_of_nan_has_a_reason_at_every_site():
    config, run, batches = trained("dfa", steps=1)
    with torch.no_grad():
        run.model.blocks[1].linear2.bias[0] = torch.nan
    found = functional_tests.functional_tests(config, run, batches)
    assert found["unmeasured_sites"] == {
        "0": "its credit is not finite in 256 of 256 samples",
        "1": "its credit is not finite in 256 of 256 samples",
        "2": "h_l is not finite in 256 of 256 samples",
    }
    assert "nudge" not in found
    json.dumps(found, allow_nan=False)


def test_a_site_that_is_not_finite_leaves_the_others_their_figures(monkeypatch):
    config, run, batches = trained("bp", steps=1)
    credits = run.method.credits

    def broken(trace):
        first, second, third = credits(trace)
        return [first, second * torch.nan, third]

    monkeypatch.setattr(run.method, "credits", broken)
    found = functional_tests.functional_tests(config, run, batches)
    assert list(found["unmeasured_sites"]) == ["1"]
    rho = found["perturbation"]["relative"]["credit"]["raw"]["rho"]
    assert (rho[0] > 0.99, rho[1], rho[2] > 0.99) == (True, None, True)
    assert found["nudge"]["unit_rms"]["0.003"]["mean"][1] is None


def test_feedback_that_is_not_there_is_a_reason(monkeypatch):
    config, run, batches = trained("dfa", steps=1)

    def missing(trace):
        raise MissingFeedback("the feedback is not there")

    monkeypatch.setattr(run.method, "credits", missing)
    found = functional_tests.functional_tests(config, run, batches)
    assert found == {"unmeasured": "the feedback is not there"}


def assert_bits_are_the_accuracy(stored):
    """The bits of a finished run against the answers of the network in its checkpoint."""
    from walkback.lab.runs import checkpoint

    result, dataset = stored.result(), dataset_of(stored.config)
    run = assemble(stored.config, dataset.spec)
    checkpoint.newest(stored.checkpoints).restore_networks(run)
    run.model.eval()
    with torch.no_grad():
        answers = [(run.model(x).argmax(1) == y) for x, y in evaluation_batches(dataset.test, 97)]
    correct = unpacked(result)
    assert correct.tolist() == torch.cat(answers).tolist()
    assert correct.mean() == result["accuracy"]


def test_a_finished_run_keeps_both_and_so_does_a_resumed_one(tmp_path):
    config = tiny("dfa")
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, cut, InterruptAfter(1))
    finished, resumed = train_or_resume(config, whole), train_or_resume(config, cut)
    assert_same_run(finished, resumed)
    functional = resumed.result()["functional"]
    assert functional["unmeasured"] == ""
    assert len(functional["perturbation"]["absolute"]["credit"]["raw"]["rho"]) == 3
    assert {len(mean["mean"]) for rates in functional["nudge"].values() for mean in rates.values()} == {3}
    assert len(json.dumps(functional)) < 3000
    assert_bits_are_the_accuracy(resumed)


def test_frozen_runs_keep_both_and_runs_without_blocks_the_bits(tmp_path):
    store = RunStore(tmp_path)
    frozen = train_or_resume(tiny(freezing="blocks"), store)
    assert frozen.result()["functional"]["unmeasured_sites"] == {}
    assert_bits_are_the_accuracy(frozen)
    shallow = train_or_resume(tiny(freezing="shallow"), store)
    assert "no blocks" in shallow.result()["functional"]["unmeasured"]
    assert_bits_are_the_accuracy(shallow)


def test_a_run_that_diverged_ends_with_reasons(tmp_path):
    config = tiny("bp", "student_net", epochs=6, optimizer="sgd", learning_rate=1e30, schedule="constant")
    result = train_or_resume(config, RunStore(tmp_path)).result()
    assert result["ended"].startswith("diverged")
    assert list(result["functional"]["unmeasured_sites"]) == ["0", "1", "2"]
    assert not unpacked(result).any()


def test_a_result_from_before_is_read_as_it_was(tmp_path):
    store = RunStore(tmp_path)
    run = train_or_resume(tiny(epochs=1), store)
    old = {name: value for name, value in run.result().items() if name not in ("functional", "correct")}
    run.result_file.write_text(json.dumps(old))
    again = store.run(run.config)
    assert again.finished
    assert again.result() == old
    assert finished_report(store, again).headline_acc == old["accuracy"]
    assert unpacked(again.result()) is None
