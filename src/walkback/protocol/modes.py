"""What our torch function modes share: an interrupt never turns into another error."""

from __future__ import annotations

from types import TracebackType

from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack


class FunctionMode(TorchFunctionMode):
    """A mode that can be left when torch has taken it off already.

    torch takes a mode off its stack while that mode's own code runs. A Ctrl-C at that moment leaves it off, and leaving
    it once more would raise an error of torch's in place of the interrupt.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if any(mode is self for mode in _get_current_function_mode_stack()):  # type: ignore[no-untyped-call]
            super().__exit__(kind, error, where)  # type: ignore[no-untyped-call]
