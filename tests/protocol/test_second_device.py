"""A network on a second device that has numbers gives the figures that it gives on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from walkback.errors import InputError
from walkback.protocol.devices import autocasting, require_one_device


@pytest.fixture(scope="module")
def found():
    script = Path(__file__).with_name("on_second_device.py")
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("measure", ["diagnose", "monitor", "training pass"])
def test_the_figures_are_those_of_the_cpu(found, measure):
    """The batches were on the CPU; they are moved to the network."""
    there, here = found["lazy"][measure], found["cpu"][measure]
    assert there.keys() == here.keys()
    assert here["residual_norms"]
    assert here["bp_grad_norms"]
    for name, figure in here.items():
        same = None if figure is None else pytest.approx(figure, rel=1e-4, abs=1e-6)
        assert there[name] == same, name


def test_so_are_the_readings_the_alignment_and_the_check_of_the_gradient(found):
    there, here = found["lazy"], found["cpu"]
    assert there["states"] == here["states"]
    assert there["alignment"] == pytest.approx(here["alignment"], rel=1e-3, abs=1e-5)
    assert there["checked"] is here["checked"] is True
    assert (there["device"], here["device"]) == ("lazy:0", "cpu")


def test_a_network_that_is_spread_over_two_devices_is_refused(found):
    for sentence in found["spread"]:
        assert "spread over 2 devices (0.weight on cpu, 3.weight on lazy:0)" in sentence
        assert "to('cpu')" in sentence


def test_a_device_without_fp64_is_refused():
    class Elsewhere(nn.Module):
        """A parameter that says it is on Apple's GPU."""

        def __init__(self):
            super().__init__()
            self._parameters["weight"] = type("There", (), {"device": torch.device("mps", 0)})()

    with pytest.raises(InputError, match=r"on the device mps:0, which has no fp64.*to\('cpu'\)"):
        require_one_device(Elsewhere())


def test_whether_autocast_is_on_can_be_asked_of_any_device():
    assert not autocasting(torch.device("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert autocasting(torch.device("cpu"))
        assert not autocasting(torch.device("meta"))
