"""Every pass begins from the state that the network came with, and a network in fp64 from that state in fp64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import walkback
from walkback.protocol.pass_state import passes_alike


def convolutional():
    """Running statistics are buffers, and so are copied into fp64 with the weights."""
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Tanh()) for _ in range(3)]
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), *stages, nn.Flatten(), nn.Linear(4 * 36, 5))


def test_a_network_with_buffers_is_checked_and_compared_in_fp64():
    batches = [(torch.randn(128, 1, 6, 6), torch.randint(5, (128,))) for _ in range(2)]
    report = walkback.diagnose(convolutional(), batches)
    assert report.reference_check.passed is True
    assert report.reference_check.error < 1e-6  # in fp32 differences are good to some thousandths
    assert min(report.reference_fidelity) == pytest.approx(1.0, abs=1e-6)


class Counting(nn.Module):
    """Keeps how often it was called in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs):
        self.calls = self.calls + 1
        return inputs * self.calls


def test_of_two_such_contexts_the_inner_state_holds_and_both_are_put_back():
    model, ones = Counting(), torch.ones(2)
    outer = model.calls
    with passes_alike(model):
        assert [model(ones).tolist() for _ in range(2)] == [[1.0, 1.0]] * 2
        model._buffers["calls"] = torch.full((), 10.0, dtype=torch.float64)
        with passes_alike(model):
            results = [model(ones.double()) for _ in range(2)]
            assert [result.tolist() for result in results] == [[11.0, 11.0]] * 2
            assert model.calls.dtype == torch.float64
        assert model(ones).tolist() == [1.0, 1.0]
    assert model.calls is outer
    assert outer.item() == 0
