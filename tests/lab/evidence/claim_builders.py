"""Results made up for claims: networks of three seeds, what studies say of them, and the runs behind them."""

from __future__ import annotations

import json
from typing import NamedTuple

from reference.made_results import network, row, write, write_audit, write_run
from walkback.lab.evidence.claim import Status
from walkback.protocol.schema import STUDY_VERSION, audit_digest

RECORD, LONG = "resmlp_d256", "resmlp_d256_100ep"
REPRODUCED, PARTLY, NOT, NOT_RUN = Status.REPRODUCED, Status.PARTLY, Status.NOT_REPRODUCED, Status.NOT_RUN
SEEDS = (42, 123, 456)
BROKEN = {"acc": 0.30, "frozen": 0.349, "growth": 1e3, "h": 5e8, "g": 3e-9}
BRIDGE = {**BROKEN, "acc": 0.22}
EP = {"acc": 0.33, "frozen": 0.2, "h": 5e3, "g": 1.5e-4}
UNDECIDED = {"c_interval": (-0.6, 0.8)}
"""Of (c): so wide that it neither fires nor passes."""
FAILING = ("dfa", "state_bridge", "credit_bridge")
STUDIES = ("temporal", "early_stop", "ablation", "random_init", "triangulation", "sensitivity")


class Behind(NamedTuple):
    """An audit's reports with the files of its runs, by label and seed."""

    reports: list
    runs: dict


def seeds(label, *changes, of=SEEDS, **figures):
    """A network of each seed; `changes` are those of single seeds."""
    own = [*changes, *[{}] * len(of)]
    return [network(label, seed, **figures | own[i]) for i, seed in enumerate(of)]


def five(**replaced):
    """The five methods as published, with the rows of some replaced, by method."""
    return {
        "bp": seeds("bp"),
        "dfa": seeds("dfa", {"c": 0.4}, **BROKEN),
        "state_bridge": seeds("state_bridge", **BRIDGE),
        "credit_bridge": seeds("credit_bridge", **BROKEN),
        "ep": seeds("ep", **EP),
    } | replaced


def in_one(rows):
    return [report for reports in rows.values() for report in reports]


def runs(label, *firsts, **fields):
    """Entries of a temporal study, of three seeds: when (a), (b) and (b) at 1024 first fire."""
    keys, each = ("a", "b", "b at 1024"), firsts if len(firsts) == 3 else firsts * 3
    about = {"label": label, "epochs": 100, "measured": dict.fromkeys(keys, fields.get("epochs", 100))} | fields
    return {
        "runs": [
            about | {"seed": s, "first": dict(zip(keys, f, strict=True))} for s, f in zip(SEEDS, each, strict=True)
        ]
    }


def joined(*studies):
    return {"runs": [run for study in studies for run in study["runs"]]}


def is_audit(name):
    return name.startswith("audit_")


def is_study(name):
    return name.startswith(tuple(f"{study}_" for study in STUDIES))


def audit_behind(name):
    """Of a study's file, the name of its audit."""
    return next(name.removeprefix(f"{study}_") for study in STUDIES if name.startswith(f"{study}_"))


def put(results, files):
    """Audits first, then the studies, each of the audit that is there, and other files as they are."""
    for name, content in files.items():
        if is_audit(name):
            put_audit(results, name.removeprefix("audit_"), content)
    for name, content in files.items():
        if is_study(name):
            about = {"study_version": STUDY_VERSION, "audit_digest": digest_behind(name, results)}
            write(results / f"{name}.json", about | content)
        elif not is_audit(name):
            write(results / f"{name}.json", content)


def put_audit(results, name, content):
    reports, files = content if isinstance(content, Behind) else (content, {})
    ids = {place: f"{name}-{number}" for number, place in enumerate(files)}
    for place, run_id in ids.items():
        write_run(results, run_id, **{"trace": []} | files[place])
    write_audit(results, name, reports, [row(*place, run_id) for place, run_id in ids.items()])


def digest_behind(study, results):
    """Of the audit that a study is of, as it is on record now; None where there is none."""
    path = results / f"audit_{audit_behind(study)}.json"
    return audit_digest(json.loads(path.read_text())) if path.exists() else None


def of_one_seed(content):
    """The reports of an audit, or the answer of a study, that hold one seed of three."""
    if isinstance(content, Behind):
        return Behind(
            of_one_seed(content.reports), {place: run for place, run in content.runs.items() if place[1] == 42}
        )
    if isinstance(content, list):
        return [report for report in content if report.seed == 42]
    one = {key: [e for e in content[key] if e["seed"] == 42] for key in ("runs", "networks") if key in content}
    methods = [method | {"seeds": 1} for method in content.get("methods", ())]
    return content | one | ({"methods": methods} if methods else {})
