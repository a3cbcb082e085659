"""Make src/walkback/lab/runs/run_defaults.json anew: the defaults of every setting and option of a run.

    python tools/run_defaults.py

An option that is added to the zoo is added here; a test says when this was forgotten.
"""

from __future__ import annotations

import json
from typing import Any

from walkback.lab.registry import ARCHITECTURES, DATASETS, METHODS
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.ids import DEFAULTS_FILE
from walkback.lab.runs.options import default_options

REGISTRIES = {"method_options": METHODS, "architecture_options": ARCHITECTURES, "data_options": DATASETS}


def defaults() -> dict[str, Any]:
    """Of the settings, and of the options of everything in the zoo."""
    fields = RunConfig.model_fields.items()
    settings = {name: f.default for name, f in fields if not f.is_required() and name not in REGISTRIES}
    of = {
        section: {name: default_options(section, name) for name in names.own} for section, names in REGISTRIES.items()
    }
    return {"settings": settings} | of


if __name__ == "__main__":
    DEFAULTS_FILE.write_text(json.dumps(defaults(), indent=1) + "\n", encoding="utf-8")
