"""Reading the official CIFAR-10 pickles without running what a pickle can run.

A pickle is a program. The official batches need three names, all of NumPy's; here each stands for an inert
record, and any other name is refused before it is imported.
"""

from __future__ import annotations

import io
import math
import pickle  # nosec B403
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkback.errors import DataError
from walkback.lab.zoo.datasets.fingerprint import Raw


class _Type:
    """Stands for `numpy.dtype`: remembers its code, ignores byte order."""

    def __init__(self, code: object = None, *_rest: object) -> None:
        self.code = code.decode("latin-1") if isinstance(code, bytes) else code

    def __setstate__(self, _state: object) -> None:
        """One-byte numbers have no byte order to restore."""


class _Array:
    """Stands for an array under reconstruction: keeps the state that the pickle hands to it."""

    def __init__(self, *_ignored: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def restored(self) -> NDArray[np.uint8]:
        """The array, if it is one of unsigned bytes and as large as it says."""
        _version, shape, kind, is_fortran, data = self.state
        if kind.code not in ("u1", "|u1") or not isinstance(data, bytes) or len(data) != math.prod(shape):
            raise ValueError("its array is not one of unsigned bytes")
        values: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        array: NDArray[np.uint8] = values.reshape(shape, order="F" if is_fortran else "C")
        return array


_ALLOWED: dict[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        """One of the inert stand-ins; everything else is refused."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR-10 batch needs")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: object) -> Any:
        """The official files have none."""
        raise pickle.UnpicklingError("it holds a persistent reference, which no CIFAR-10 batch does")


def read_batch(content: bytes, where: str) -> Raw:
    """The images (N, 32, 32, 3) and labels of one official batch: rows of 1024 red, 1024 green, 1024 blue."""
    try:
        record = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        rows = record[b"data"].restored()
        labels = np.array(record[b"labels"], dtype=np.int64)
        images = rows.reshape(len(rows), 3, 32, 32).transpose(0, 2, 3, 1)
    # Hostile or truncated bytes can make an unpickler raise nearly anything; all of it means the same here.
    except Exception as error:
        raise DataError(
            f"{where} is not an official CIFAR-10 batch ({type(error).__name__}: {error}). "
            "Nothing in it was run. Fetch the archive again."
        ) from None
    return Raw(np.ascontiguousarray(images), labels)
