"""A small finished run whose files say that its method is `evil:X`, as a stranger could have made them."""

from __future__ import annotations

import json

from safetensors import safe_open
from safetensors.torch import save as to_bytes

from walkback.lab.runs.checkpoint import digest
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.ids import frozen_settings, run_id_of
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume

EVIL = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\nclass X: pass\n"


def stored_run(folder):
    """Paths by what they are: the run's folder, its result, a checkpoint, a record, and a TOML file of settings."""
    (folder / "evil.py").write_text(EVIL)
    config = RunConfig(
        method="dfa", architecture="resmlp", data="digits", seed=0, epochs=1, batch_size=640,
        architecture_options={"width": 12, "depth": 2},
    )  # fmt: skip
    stored = train_or_resume(config, RunStore(folder / "runs"))
    settings = config.to_dict() | {"method": "evil:X"}
    run_id = run_id_of(settings)
    made = stored.folder.rename(folder / "runs" / run_id)
    for name in ("config.json", "result.json"):
        data = json.loads((made / name).read_text())
        data |= {"config": settings, "id": run_id}
        data["baseline"] = {"id": run_id_of(frozen_settings(settings)), "command": "walkback lab train"}
        if data.get("report"):
            data["report"]["panel"] = "evil:X"
        (made / name).write_text(json.dumps(data))
    report = json.loads((made / "result.json").read_text())["report"]
    (folder / "record.json").write_text(json.dumps(report))
    checkpoint = sorted((made / "checkpoints").iterdir())[-1]
    (folder / "c.safetensors").write_bytes(_saying(checkpoint, settings))
    (folder / "c.toml").write_text(
        'method = "evil:X"\narchitecture = "resmlp"\ndata = "digits"\nseed = 0\nepochs = 1\n'
    )
    return {
        "folder": str(folder),
        "runs": str(folder / "runs"),
        "run": str(made),
        "result": str(made / "result.json"),
        "record": str(folder / "record.json"),
        "checkpoint": str(folder / "c.safetensors"),
        "toml": str(folder / "c.toml"),
    }


def _saying(path, settings):
    """The checkpoint with another config in its header, and the digest that goes with it."""
    with safe_open(path, framework="pt") as file:
        header = dict(file.metadata())
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    del header["digest"]
    header["config"] = json.dumps(settings)
    return to_bytes(tensors, header | {"digest": digest(tensors, header)})
