"""Which library comes with which extra, and the one sentence that says so where a library is missing.

walkback itself needs NumPy, pydantic, rich and typer. Whatever else it can use is imported where it is used, and is
part of an extra: `pip install "walkback[torch]"`. The table is held against pyproject.toml by a test.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from walkback.errors import MissingLibrary

EXTRAS = {
    "torch": ("torch", "scipy"),
    "jax": ("jax", "jaxlib", "scipy"),
    "equinox": ("equinox",),
    "flax": ("flax",),
    "figures": ("matplotlib",),
    "html": ("jinja2", "markupsafe"),
    "lab": ("safetensors", "sklearn", "PIL", "filelock", "fsspec", "tomli"),
    "lightning": ("lightning", "pytorch_lightning"),
    "transformers": ("transformers", "accelerate"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "ray": ("ray",),
    "s3": ("s3fs",),
}
"""The libraries of each extra, by the names that they are imported by; the lab's has torch's too."""
_EXTRA_OF = {library: extra for extra, libraries in reversed(EXTRAS.items()) for library in libraries}
WHOLE = {"lab": ("torch", "lab"), "all": ("torch", "figures", "html", "lab")}
"""Extras that hold others."""


def missing(error: ImportError, library: str = "", whole: str = "") -> MissingLibrary | None:
    """The error that names the command, if what could not be imported is a library of an extra.

    Args:
        error: what an import raised.
        library: what was asked for; by default, what the error names.
        whole: one of `WHOLE`, to be named for every library in it: whoever asks needs more than what was missed first.
    """
    library = library or (error.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(library, "")
    wanted = whole if extra in WHOLE.get(whole, ()) else extra
    told = isinstance(error, MissingLibrary)
    if not extra or (told and wanted == extra):
        return None
    reason = error.__cause__ if told else error
    words = f'{library} cannot be imported ({reason}); what installs it is: pip install "walkback[{wanted}]"'
    return MissingLibrary(words, name=library)


@contextmanager
def naming_extras(library: str = "", whole: str = "") -> Iterator[None]:
    """Where an import fails for want of an extra, say which command installs it; see `missing`."""
    try:
        yield
    except ImportError as error:
        told = missing(error, library, whole)
        if told is None:
            raise
        raise told from error


def optional(module: str) -> Any:
    """Import a module of a library that an extra brings, or say which command installs it."""
    with naming_extras(module.partition(".")[0]):
        return importlib.import_module(module)
