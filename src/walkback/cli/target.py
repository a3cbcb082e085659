"""`file.py:function` and `package.module:function`: the caller's own code, imported by name."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import walkback
from walkback.errors import InputError, WalkbackError
from walkback.extras import missing

Made = TypeVar("Made")
ENGINES = ("torch", "jax")
"""Without which a network cannot be measured: walkback brings them as extras."""
EXPECTED = (
    "expected file.py:function or package.module:function, where the function returns (model, batches) or a mapping "
    "of walkback.diagnose's arguments, or of walkback.jax.diagnose's"
)
IN_JAX = {"apply", "params", "blocks", "batches"}
"""The arguments that say a network is written in JAX."""


def call_target(target: str) -> dict[str, Any]:
    """Import the function, call it, and return the arguments for `diagnose`."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InputError(f"TARGET is {target!r}; {EXPECTED}.")
    module = run_theirs(lambda: _module(place), target)
    if not hasattr(module, name):
        raise InputError(f"{place} has no function {name!r}; {EXPECTED}.")
    function = getattr(module, name)
    if not callable(function):
        raise InputError(f"{target} is {type(function).__name__}, not a function; {EXPECTED}.")
    _check_takes_nothing(function, target)
    return _arguments(run_theirs(function, target), target)


def place_of(target: str) -> tuple[Path, int]:
    """The file and the line of a function that was called; the target itself, line 1, where it is no function."""
    place, _, name = target.rpartition(":")
    if not place or Path(target).exists():
        return Path(target), 1
    file = Path(place)
    if not place.endswith(".py"):
        file = Path(getattr(sys.modules.get(place), "__file__", None) or place)
    function = getattr(sys.modules.get(file.stem if place.endswith(".py") else place), name, None)
    code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
    return file, code.co_firstlineno if code is not None and Path(code.co_filename).name == file.name else 1


def _check_takes_nothing(function: Callable[..., Any], target: str) -> None:
    """Refuse a function that cannot be called without arguments, by name of what it asks for."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each.name for each in parameters if each.default is each.empty and each.kind not in variadic]
    if needed:
        takes = f"an argument {needed[0]}" if len(needed) == 1 else f"the arguments {', '.join(needed)}"
        raise InputError(f"{target} takes {takes}; it is called without any. Give defaults, or wrap it in a function.")


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(place)
    path = Path(place)
    if not path.is_file():
        raise InputError(f"there is no file {place}; {EXPECTED}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def run_theirs(step: Callable[[], Made], what: str) -> Made:
    """Run what is the caller's code, or runs it; a failure is told with the line that it happened in."""
    try:
        return step()
    except (WalkbackError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too, which would otherwise pass for a verdict
        if isinstance(error, ImportError) and error.name in ENGINES and (told := missing(error)):
            raise told from error
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not _is_library(frame.filename)]
        where = (theirs or frames)[-1]
        raise InputError(
            f"{what} raised {type(error).__name__}: {error} (at {where.filename}:{where.lineno}). "
            "Correct that code, then run again."
        ) from error


def _is_library(file: str) -> bool:
    """Whether a line is in what is installed, or in walkback, and so not one that the caller can mend."""
    return "site-packages" in file or file.startswith("<") or Path(file).is_relative_to(Path(walkback.__file__).parent)


def _arguments(result: Any, target: str) -> dict[str, Any]:
    if isinstance(result, Mapping) and (result.keys() >= {"model", "eval_batches"} or result.keys() >= IN_JAX):
        return dict(result)
    if isinstance(result, tuple) and len(result) == 2:
        return {"model": result[0], "eval_batches": result[1]}
    if isinstance(result, Mapping):
        holds = ", ".join(sorted(map(str, result))) or "nothing"
        raise InputError(
            f"{target} returned a mapping with {holds}; expected 'model' and 'eval_batches' in it, or, "
            "for JAX, 'apply', 'params', 'blocks' and 'batches'."
        )
    of = f" of {len(result)}" if isinstance(result, tuple) else ""
    raise InputError(f"{target} returned {type(result).__name__}{of}; expected (model, batches).")
