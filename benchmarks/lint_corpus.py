"""The lint on other people's source: python benchmarks/lint_corpus.py

Fetches packages of this field and its neighbours with pip, runs every rule over them, and sets each finding beside the
verdict that was given by hand (results/lint_corpus.json): `true`, the line does what the finding says, and it can
matter; `harmless`, it does, and cannot matter where it stands; `false`, it does not. What has no verdict yet is
written as `unjudged`. docs/lint_corpus.md is made from that file. `--page` makes the page alone, and fetches nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "results" / "lint_corpus.json", ROOT / "docs" / "lint_corpus.md"
PACKAGES = {
    "biotorch": "0.0.16", "pcx": "0.6.3", "ngclearn": "3.2.3", "bindsnet": "0.3.4", "norse": "1.0.0",
    "snntorch": "1.0.0", "spikingjelly": "2.0.0", "nengo-dl": "3.6.0", "sinabs": "3.1.3", "rockpool": "3.1.0",
    "fflib": "0.3.0", "dni": "0.2.0", "backpack-for-pytorch": "1.7.1", "cockpit-for-pytorch": "1.0.2",
    "delve": "0.1.50", "weightwatcher": "0.7.7", "captum": "0.9.0", "nngeometry": "0.4", "laplace-torch": "0.3",
    "curvlinops-for-pytorch": "3.0.1", "transformer-lens": "4.3.0", "torchjd": "0.18.0", "pytorch-optimizer": "4.1.0",
    "avalanche-lib": "0.6.0", "opacus": "1.6.0", "kronfluence": "1.0.1", "traker": "0.3.2",
    "pytorch-metric-learning": "2.9.0", "torch-cka": "0.21", "lightly": "1.6.0", "loss-landscapes": "3.0.6",
    "pyhessian": "0.1",
}  # fmt: skip
VERDICTS = ("true", "harmless", "false", "unjudged")


def fetch(name: str, version: str, folder: Path) -> Path:
    """The package's source, unpacked and not installed."""
    files, source = folder / "files" / name, folder / "source" / name
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(files), f"{name}=={version}"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    (archive,) = files.iterdir()
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(source)
    else:
        with tarfile.open(archive) as distribution:
            distribution.extractall(source, filter="data")
    return source


def found_in(name: str, version: str, source: Path) -> dict[str, object]:
    from walkback.lint.check import check_paths, chosen_rules

    checked = check_paths([source], chosen_rules())
    findings = [
        {"path": Path(f.path).relative_to(source).as_posix(), "line": f.line, "code": f.code, "source": f.source}
        for f in checked.findings
    ]
    broken = [Path(b.path).relative_to(source).as_posix() for b in checked.broken]
    return {"package": name, "version": version, "files": checked.files, "broken": broken, "findings": findings}


def magma_alignments(source: Path) -> dict[str, float]:
    """The finding in pytorch-optimizer, run: what Magma holds as the alignment of momentum and gradient.

    On the first step the momentum is parallel to the gradient, whatever its size: the cosine is 1.
    """
    import torch

    sys.path.insert(0, str(source))
    from pytorch_optimizer.optimizer.magma import Magma

    held = {}
    for scale in (1.0, 1e-8, 1e-9, 1e-10):
        parameter = torch.nn.Parameter(torch.zeros(4))
        optimizer = Magma(torch.optim.SGD([parameter], lr=0.1), alignment_ema=0.0, foreach=False)
        parameter.grad = scale * torch.tensor([1.0, -1.0, 1.0, -1.0])
        optimizer.step()
        (state,) = optimizer._state.values()
        held[f"{scale:g}"] = round(float(state["alignment"]), 4)
    sys.path.remove(str(source))
    return held


def judged(packages: list[dict[str, object]], before: dict[str, object]) -> list[dict[str, object]]:
    """The findings with the verdicts that they already have, by package, path, code and source line."""
    known = {
        (p["package"], f["path"], f["code"], f["source"]): (f["verdict"], f["note"])
        for p in before.get("packages", [])
        for f in p["findings"]
    }
    for package in packages:
        for f in package["findings"]:
            key = (package["package"], f["path"], f["code"], f["source"])
            f["verdict"], f["note"] = known.get(key, ("unjudged", ""))
    return packages


def page(record: dict[str, object]) -> str:
    packages = record["packages"]
    findings = [(p, f) for p in packages for f in p["findings"]]
    counts = Counter((f["code"], f["verdict"]) for _, f in findings)
    codes = record["rules"]
    total = Counter(f["verdict"] for _, f in findings)
    counts |= {("all", verdict): total[verdict] for verdict in VERDICTS}
    rows = "\n".join(
        f"| {code} | " + " | ".join(str(counts[code, v]) for v in VERDICTS[:3]) + " |" for code in (*codes, "all")
    )
    listed = ", ".join(f"{p['package']} {p['version']}" for p in packages)
    told = "\n".join(
        f"| {p['package']} | {f['path']}:{f['line']} | {f['code']} | {f['verdict']} | {f['note']} |"
        for p, f in findings
        if f["code"] != "WB007" or f["note"]
    )
    held = record["magma"].items()
    magma = ", ".join(f"{alignment} at a gradient of {scale} × [1, −1, 1, −1]" for scale, alignment in held)
    files, broken = sum(p["files"] for p in packages), sum(len(p["broken"]) for p in packages)
    return f"""# The lint on other people's source

Made by `python benchmarks/lint_corpus.py` from `results/lint_corpus.json`, which it also makes: packages as
pip fetches them, every rule over every Python file, and a verdict on each finding. **true**: the line does
what the finding says, and it can matter. **harmless**: it does, and cannot matter where it stands; to
whoever runs the lint that is a false alarm too. **false**: it does not. The verdicts were given by hand,
after reading the lines around; those on WB007 from the line itself, in bulk: harmless in a package's tests,
which read what they have just written, and true elsewhere.

{files:,} files of {len(packages)} packages, {broken} of them not valid Python: {listed}.

| rule | true | harmless | false |
| --- | ---: | ---: | ---: |
{rows}

Five of the nine rules find nothing at all in these packages. On the way to this table
four rules were narrowed because of what they said of such packages: WB001 leaves `x.norm(-2).pow(-2)`
alone, a sum of x⁻² written by someone who knows what p is; WB002 is silent in losses and on embeddings;
WB005 no longer takes a lower-case `b` for feedback; WB007 is silent where a pickle module is given. So the
table is no estimate of precision on code that the rules have never seen. It was made before WB010 to WB013,
which are not in it, before WB006 saw means of a part of the layers and stopped seeing those of one layer, and
before WB005 was narrowed once more: a random tensor now counts only where something feeds it back, which takes
findings away and adds none.

## Every finding but the plain torch.load

| package | place | rule | verdict | why |
| --- | --- | --- | --- | --- |
{told}

## One of them, run

pytorch-optimizer's Magma scales its steps by the alignment of momentum and gradient, a sigmoid of half
their cosine. On a first step the two are parallel, so that the alignment is the same whatever the
gradient's size. What it holds: {magma}. The clamp at 1e-8 makes parallel vectors look unaligned.
"""


def main() -> None:
    before = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if "--page" not in sys.argv:
        from walkback.lint import RULES

        with tempfile.TemporaryDirectory() as folder:
            sources = {name: fetch(name, version, Path(folder)) for name, version in PACKAGES.items()}
            packages = [found_in(name, PACKAGES[name], source) for name, source in sources.items()]
            magma = magma_alignments(sources["pytorch-optimizer"])
        before = {
            "command": "python benchmarks/lint_corpus.py",
            "rules": list(RULES),
            "packages": judged(packages, before),
            "magma": magma,
        }
        RECORD.write_text(json.dumps(before, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(before))
    findings = [f for p in before["packages"] for f in p["findings"]]
    print(f"{len(findings)} findings, of which {sum(f['verdict'] == 'unjudged' for f in findings)} unjudged: {PAGE}")


if __name__ == "__main__":
    main()
