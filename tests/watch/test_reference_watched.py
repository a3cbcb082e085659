"""The monitor measures against the true gradient too, and says where the training pass does not hold it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from watched_networks import WIDTH, Block, Net, make_batches

import walkback
from walkback.errors import InputError, WalkbackWarning
from walkback.protocol import reference_source
from walkback.watch.trace import read_trace

HELD = make_batches(64, 64, seed=9)


class Feedback(Function):
    """The identity, with a made-up way back."""

    factor = 3.0

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return Feedback.factor * grad


class Bent(Block):
    def forward(self, h):
        return super().forward(Feedback.apply(h))


def bent():
    torch.manual_seed(0)
    model = Net()
    model.blocks = nn.ModuleList(Bent() for _ in range(3))
    return model


def plain_of(model):
    plain = Net()
    plain.load_state_dict(model.state_dict())
    return plain


def test_the_monitor_sees_through():
    model = bent()
    monitor = walkback.Monitor(model, HELD)
    monitor.step(epoch=1)
    assert monitor.report.bp_grad_norms == pytest.approx(walkback.diagnose(plain_of(model), HELD).bp_grad_norms)
    assert monitor.report.reference_check.seen_through == ("Feedback",)


def test_the_training_pass_of_such_a_network_is_refused():
    monitor = walkback.Monitor(bent(), HELD, every=1)
    with (
        pytest.raises(InputError, match=r"a backward pass of its own \(Feedback\).*Leave out watch_training"),
        monitor.watch_training(),
    ):
        pass


def test_a_backward_pass_of_its_own_that_is_right_is_read(monkeypatch):
    monkeypatch.setattr(Feedback, "factor", 1.0)
    model = bent()
    (x, y) = make_batches(32, seed=3)[0]
    monitor = walkback.Monitor(model, HELD, every=1)
    with monitor.watch_training():
        F.cross_entropy(model(x), y).backward()
        monitor.step()
    assert monitor.report.bp_grad_norms == pytest.approx(
        walkback.diagnose(plain_of(model), [(x, y)]).bp_grad_norms, rel=1e-4
    )


def test_backward_hooks_are_warned_of():
    model = Net()
    model.blocks[0].register_full_backward_hook(lambda _m, _i, _o: None)
    monitor = walkback.Monitor(model, HELD, every=1)
    with pytest.warns(WalkbackWarning, match="modules of the network have backward hooks"), monitor.watch_training():
        pass


class Detached(Block):
    def forward(self, h):
        return h.detach() + super().forward(h) - h


def test_without_a_reference_the_rest_is_measured_and_the_trace_says_why(tmp_path):
    model = Net()
    model.blocks = nn.ModuleList(Detached() for _ in range(3))
    monitor = walkback.Monitor(model, HELD, trace=tmp_path / "t")
    assert monitor.step(epoch=1).action == "continue"
    assert monitor.report.reading("a").state is walkback.State.PASS
    assert "block 3 (blocks.2)" in monitor.report.reading("b").sentence
    (line,) = read_trace(tmp_path / "t")
    assert line.bp_grad_norms is None
    judged = walkback.judge(line.measurements())
    assert judged.reading("b").sentence == monitor.report.reading("b").sentence
    with pytest.raises(InputError, match="Leave out watch_training"), monitor.watch_training():
        pass


def test_a_trace_says_nothing_of_a_reference_that_passed(tmp_path):
    monitor = walkback.Monitor(Net(), HELD, trace=tmp_path / "t")
    monitor.step(epoch=1)
    assert "reference_check" not in (tmp_path / "t").read_text(encoding="utf-8")


def test_the_check_is_made_again_where_the_network_changes_and_not_else(monkeypatch):
    made = []
    plain = reference_source.find_reference
    monkeypatch.setattr(reference_source, "find_reference", lambda *args: made.append(1) or plain(*args))
    model = Net()
    monitor = walkback.Monitor(model, HELD)
    for epoch in range(3):
        monitor.step(epoch=epoch)
    assert len(made) == 1
    model.blocks[1].drop = nn.Sequential(nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH))
    monitor.step(epoch=3)
    assert len(made) == 2
    model.blocks[1].forward = lambda h: Feedback.apply(Block.forward(model.blocks[1], h))
    monitor.step(epoch=4)
    assert len(made) == 3
    assert monitor.report.reference_check.seen_through == ("Feedback",)


def test_without_gradients():
    monitor = walkback.Monitor(Net(), HELD, gradients=False)
    monitor.step(epoch=1, accuracy=0.5)
    assert monitor.report.reading("a").state is walkback.State.PASS
    assert "gradients=False" in monitor.report.reading("b").sentence
    assert monitor.report.alignment.unavailable.startswith("by design")


def test_a_twin():
    model = bent()
    monitor = walkback.Monitor(model, HELD, reference=plain_of(model))
    monitor.step(epoch=1)
    assert monitor.report.reference_check.twin
    assert monitor.report.bp_grad_norms == pytest.approx(walkback.diagnose(plain_of(model), HELD).bp_grad_norms)
