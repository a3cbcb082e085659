"""An interrupt while torch has a mode off its stack stays an interrupt."""

import pytest
import torch
from torch.overrides import _get_current_function_mode_stack, _pop_mode

from walkback.protocol.modes import FunctionMode


class Passing(FunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_mode_that_torch_took_off_is_left_without_a_second_error():
    def interrupted():
        _pop_mode()  # what torch does before it calls the mode, where the interrupt comes
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Passing():
        interrupted()
    assert _get_current_function_mode_stack() == []


def test_modes_inside_each_other_are_left_one_by_one():
    with Passing() as outer:
        with Passing():
            torch.ones(2).sum()
        assert _get_current_function_mode_stack() == [outer]
    assert _get_current_function_mode_stack() == []
