"""Every case, in the order of the table, and the tool that writes the table."""

import importlib.util
from functools import cache
from pathlib import Path

import models_feedback
import models_further
import models_language
import models_special
import models_streams

CASES = [
    *models_feedback.CASES,
    *models_streams.CASES,
    *models_special.CASES,
    *models_language.CASES,
    *models_further.CASES,
]
PAGE_TOOL = Path(__file__).parents[2] / "tools" / "foreign_table.py"


@cache
def tool(path):
    """A tool as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
