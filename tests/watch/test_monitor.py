import json
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from watched_networks import CLASSES, INPUTS, WIDTH, Feedback, Net, bp_step, make_batches

import walkback
from walkback.errors import BatchError, InputError
from walkback.lab.registry import METHODS
from walkback.lab.runs.assembly import assemble
from walkback.lab.runs.config import RunConfig
from walkback.lab.zoo import defined_on
from walkback.lab.zoo.datasets import evaluation_batches, load_dataset
from walkback.watch.trace import read_trace

HELD = make_batches(128, 128, seed=9)


def trained(model, step, epochs, monitor, lr=1e-2):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(1, epochs + 1):
        for x, y in make_batches(*[64] * 10, seed=epoch):
            step(model, optimizer, x, y)
        decision = monitor.step(epoch=epoch)
        if decision.stop:
            return epoch, decision
    return epochs, decision


def test_dfa_is_stopped_early_and_bp_is_not(tmp_path):
    model = Net()
    epochs, decision = trained(model, Feedback(model).step, 20, walkback.Monitor(model, HELD, trace=tmp_path / "d"))
    assert epochs < 20
    assert decision.action == "stop"
    assert "residual stream exploded" in decision.reason
    assert decision.first_fired["a"].epoch == epochs
    lines = read_trace(tmp_path / "d")
    assert len(lines) == epochs
    assert (lines[-1].action, lines[-1].reason) == ("stop", decision.reason)
    assert [line.action for line in lines[:-1]] == ["continue"] * (epochs - 1)

    torch.manual_seed(0)
    model = Net()
    epochs, decision = trained(model, bp_step, 20, walkback.Monitor(model, HELD))
    assert (epochs, decision.action) == (20, "continue")


def test_the_figures_are_those_of_diagnose(tmp_path):
    model = Net()
    monitor = walkback.Monitor(model, HELD, trace=tmp_path / "t")
    monitor.step(epoch=1, accuracy=0.5)
    report = walkback.diagnose(model, HELD, headline_acc=0.5)
    for name in ("residual_norms", "bp_grad_norms", "site_stabilities", "drift_shares", "error_size", "samples"):
        assert getattr(monitor.report, name) == getattr(report, name), name
    (line,) = read_trace(tmp_path / "t")
    assert line.residual_norms == pytest.approx(report.residual_norms, rel=1e-5)
    assert (line.accuracy, line.source, line.samples) == (0.5, "probe", 256)


def test_fidelity_to_fp64_is_measured_where_b_fires():
    model = Net()
    monitor = walkback.Monitor(model, HELD)
    monitor.step(epoch=1)
    assert monitor.report.reference_fidelity is None
    with torch.no_grad():
        model.blocks[-1].down.weight.mul_(1e12)
    monitor.step(epoch=2)
    assert monitor.report.reading("b").state == "FIRE"
    assert monitor.report.reference_fidelity == pytest.approx([1.0] * 4, abs=1e-3)


def bits(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def run_of_the_zoo(method, monitored, tmp_path):
    data = load_dataset("digits")
    config = RunConfig(
        method=method, architecture="resmlp", data="digits", seed=0, epochs=2,
        architecture_options={"width": 16, "depth": 2},
    )  # fmt: skip
    torch.manual_seed(0)
    run = assemble(config, data.spec)
    monitor = None
    if monitored:
        loader = DataLoader(TensorDataset(*first_of(data.test, 256)), 64, shuffle=True)
        monitor = walkback.Monitor(
            run.model, loader, every=3, credit=run.method, blocks=list(run.model.blocks), trace=tmp_path / method
        )
    x, y = first_of(data.train, 512)
    for _ in range(2):
        for index in torch.randperm(len(x)).split(64):
            run.step(x[index], y[index])
            if monitor is not None:
                monitor.step()
    return bits(run.model), torch.rand(3), (monitor.decision if monitor else None)


def first_of(split, count):
    return next(iter(evaluation_batches(split, count)))


@pytest.mark.parametrize("method", [name for name in METHODS if not defined_on(name)["resmlp"]])
def test_zoo_runs_train_to_the_same_bits_with_the_monitor_on(method, tmp_path):
    plain, drawn, _ = run_of_the_zoo(method, False, tmp_path)
    watched, drawn_too, decision = run_of_the_zoo(method, True, tmp_path)
    assert all(torch.equal(value, watched[name]) for name, value in plain.items())
    assert torch.equal(drawn, drawn_too)
    assert decision.at.step == 15
    assert len(read_trace(tmp_path / method)) == 5


def test_building_and_stepping_leave_every_generator_alone():
    model = Net(dropout=0.3)
    loader = DataLoader(TensorDataset(*make_batches(256)[0]), 128, shuffle=True)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    walkback.Monitor(model, loader).step(epoch=1)
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])
    assert model.training


def test_training_steps_are_measured_by_the_cadence_and_epochs_always():
    model = Net()
    monitor = walkback.Monitor(model, HELD, every=4)
    assert [monitor.step().measured for _ in range(8)] == [False, False, False, True] * 2
    assert monitor.step(epoch=1).measured
    assert not monitor.step(epoch=1).measured
    assert monitor.step(epoch=1, accuracy=0.5).measured
    assert monitor.steps == 9


def test_a_budget_keeps_the_monitor_within_its_share():
    model = Net()
    monitor = walkback.Monitor(model, HELD[:1], budget=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = make_batches(512)[0]
    measured = 0
    for _ in range(150):
        bp_step(model, optimizer, x, y)
        measured += monitor.step().measured
    assert 2 <= measured < 150
    assert monitor.overhead < 0.6


def test_a_monitor_goes_on_with_its_trace(tmp_path):
    path = tmp_path / "t.jsonl"
    model = Net()
    feedback = Feedback(model)
    epochs, decision = trained(model, feedback.step, 20, walkback.Monitor(model, HELD, trace=path, run="dfa"))
    with path.open("a") as file:
        file.write('{"epoch": 99, "half')
    with pytest.warns(UserWarning, match="dropped"):
        again = walkback.Monitor(model, HELD, trace=path, run="dfa")
    assert again.decision.action == "stop"
    assert again.decision.first_fired == decision.first_fired
    assert again.step(epoch=epochs + 1).first_fired == decision.first_fired
    assert [line.epoch for line in read_trace(path)] == list(range(1, epochs + 2))


def test_a_killed_process_leaves_a_readable_trace(tmp_path):
    script = f"""
        import sys, torch
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import walkback
        from watched_networks import Net, make_batches
        monitor = walkback.Monitor(Net(), make_batches(32), trace={str(tmp_path / "t.jsonl")!r})
        epoch = 0
        while True:
            epoch += 1
            monitor.step(epoch=epoch)
            if epoch == 3:
                print("ready", flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    _, *whole = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().split("\n")[:-1]]
    assert [line["epoch"] for line in whole] == list(range(1, len(whole) + 1))
    assert len(whole) >= 3


def test_a_network_that_cannot_be_measured_any_more_goes_on_training(tmp_path):
    model = Net()
    monitor = walkback.Monitor(model, HELD, trace=tmp_path / "t")
    monitor.step(epoch=1)
    model.blocks[1] = nn.Identity()
    with pytest.warns(UserWarning, match="epoch 2: not measured"):
        decision = monitor.step(epoch=2)
    assert decision.action == "continue"
    first, second = read_trace(tmp_path / "t")
    assert first.unmeasured == ""
    assert "sites" in second.unmeasured


def test_nan_in_the_network_stops_the_run():
    model = Net()
    monitor = walkback.Monitor(model, HELD)
    with torch.no_grad():
        model.head.bias[0] = float("nan")
    assert "non-finite values" in monitor.step(epoch=1).reason


def test_a_frozen_baseline_lets_the_monitor_judge_d():
    model = Net()
    monitor = walkback.Monitor(model, HELD, frozen_baseline_acc=0.3, stop_on="d", warmup=2)
    assert not monitor.step(epoch=1, accuracy=0.31).stop
    assert "frozen-random" in monitor.step(epoch=2, accuracy=0.31).reason
    assert not monitor.step(epoch=3, accuracy=0.5).stop


def test_logs_and_the_live_line_hear_of_every_measurement(capsys):
    heard = []
    monitor = walkback.Monitor(Net(), HELD, logs=[lambda line, decision: heard.append((line.epoch, decision.action))],
                               live=True)  # fmt: skip
    monitor.step(epoch=1, accuracy=0.25)
    monitor.step(epoch=2, accuracy=0.5)
    assert heard == [(1, "continue"), (2, "continue")]
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("epoch 1  acc 25.00 %  ‖h_L‖")
    assert len(shown) == 2


def test_alignment_is_traced_where_the_credit_is_known(tmp_path):
    def credit(hiddens, logits, targets):
        error = logits.softmax(1) - F.one_hot(targets, CLASSES)
        return [error @ torch.ones(CLASSES, WIDTH) + h for h in hiddens]

    monitor = walkback.Monitor(Net(), HELD, credit=credit, trace=tmp_path / "t")
    monitor.step(epoch=1)
    (line,) = read_trace(tmp_path / "t")
    assert len(line.alignment) == 4
    assert line.deep_alignment is not None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"batches": []}, "eval_batches is empty"),
        ({"batches": [torch.randn(4, INPUTS)]}, "without targets"),
        ({"batches": HELD, "stop_on": "x"}, "diagnostic 'x'"),
        ({"batches": HELD, "every": 0}, "every is 0"),
        ({"batches": HELD, "budget": 2}, "budget is 2"),
        ({"batches": HELD, "patience": 0}, "patience is 0"),
        ({"batches": HELD, "blocks": "nowhere.*"}, "nowhere"),
        ({"batches": HELD, "tokens": "flat"}, "token reduction 'flat'"),
        ({"batches": HELD, "trace": "/dev/null/t"}, "cannot write the trace"),
    ],
)
def test_bad_input_is_refused_before_training_starts(arguments, expected):
    batches = arguments.pop("batches")
    with pytest.raises((InputError, BatchError), match=expected):
        walkback.Monitor(Net(), batches, **arguments)


@pytest.mark.parametrize(("accuracy", "came"), [(61.0, "is 61.0 and looks like per cent"), ("0.61", "is '0.61'")])
def test_an_accuracy_that_is_none_is_refused_before_anything_is_measured(accuracy, came, tmp_path):
    monitor = walkback.Monitor(Net(), HELD, trace=tmp_path / "t")
    with pytest.raises(InputError, match=f"accuracy {came}"):
        monitor.step(epoch=1, accuracy=accuracy)
    assert not monitor.decision.measured
    assert read_trace(tmp_path / "t") == []
    decision = monitor.step(epoch=1, accuracy=torch.tensor(0.61))
    assert (decision.measured, read_trace(tmp_path / "t")[0].accuracy) == (True, 0.61)


def test_what_could_not_be_measured_is_not_called_measured(tmp_path):
    model = Net()
    monitor = walkback.Monitor(model, HELD, trace=tmp_path / "t")
    model.forward = lambda x: x[:, :0]
    with pytest.warns(UserWarning, match="not measured"):
        decision = monitor.step(epoch=1)
    assert (decision.measured, decision.stop, monitor.report) == (False, False, None)
    assert read_trace(tmp_path / "t")[0].unmeasured


def test_a_network_of_nan_stops_the_run_whatever_accuracy_is_given():
    model = Net()
    monitor = walkback.Monitor(model, HELD)
    for parameter in model.parameters():
        parameter.data.fill_(float("nan"))
    decision = monitor.step(epoch=1, accuracy=0.1)
    assert (decision.action, decision.measured) == ("stop", True)
