"""Evidence: every claim of the table is there, and every decider comes to each status on results made for it."""

from __future__ import annotations

import json
import subprocess
import sys
from types import MappingProxyType

import pytest

from reference.made_results import network, null, row, write, write_audit
from walkback.cli.main import app
from walkback.errors import InputError, RecordError
from walkback.evidence.claim import Status
from walkback.evidence.results import Results
from walkback.evidence.table import CLAIMS, decide
from walkback.protocol.schema import STUDY_VERSION, audit_digest

RECORD, LONG = "resmlp_d256", "resmlp_d256_100ep"
REPRODUCED, PARTLY, NOT, NOT_RUN = Status.REPRODUCED, Status.PARTLY, Status.NOT_REPRODUCED, Status.NOT_RUN
SEEDS = (42, 123, 456)
BROKEN = {"acc": 0.30, "frozen": 0.349, "growth": 1e3, "h": 5e8, "g": 3e-9}
BRIDGE = {**BROKEN, "acc": 0.22}
BROKEN_WITHOUT = {name: value for name, value in BROKEN.items() if name != "frozen"}
FAILING = ("dfa", "state_bridge", "credit_bridge")
FAILS_BY_D = [network("credit_bridge", seed, acc=0.3, frozen=0.349, growth=45.0) for seed in SEEDS]
EP = {"acc": 0.33, "frozen": 0.2, "h": 5e3, "g": 1.5e-4}


def seeds(label, *changes, **figures):
    """Three networks; `changes` are those of single seeds."""
    own = [*changes, {}, {}, {}]
    return [network(label, seed, **figures | own[i]) for i, seed in enumerate(SEEDS)]


def published(**replaced):
    """An audit as published, with the rows of some methods replaced."""
    rows = {
        "bp": seeds("bp"),
        "dfa": seeds("dfa", {"c": 0.4}, **BROKEN),
        "state_bridge": seeds("state_bridge", **BRIDGE),
        "credit_bridge": seeds("credit_bridge", **BROKEN),
        "ep": seeds("ep", **EP),
    }
    return [report for reports in (rows | replaced).values() for report in reports]


def is_audit(name):
    return name.startswith("audit_")


def status(results, claim):
    return next(known for known in CLAIMS if known.id == claim).decided(Results(results)).status


def runs(label, *firsts, **fields):
    """Entries of a temporal study, of three seeds: when (a), (b) and (b) at 1280 first fire."""
    keys, each = ("a", "b", "b at 1280"), firsts if len(firsts) == 3 else firsts * 3
    about = {"label": label, "epochs": 100, "measured": dict.fromkeys(keys, fields.get("epochs", 100))} | fields
    return {
        "runs": [
            about | {"seed": s, "first": dict(zip(keys, f, strict=True))} for s, f in zip(SEEDS, each, strict=True)
        ]
    }


def test_the_table_has_every_claim_once_with_a_rule_and_a_command():
    ids = [claim.id for claim in CLAIMS]
    assert ids == [f"C{n:02d}" for n in range(1, 31)] + [f"N{n:02d}" for n in range(1, 10)]
    for claim in CLAIMS:
        assert claim.sentence
        assert claim.published
        assert claim.rule.endswith(".")
        assert claim.command.startswith("walkback ")


def test_without_results_nothing_was_run(tmp_path):
    decided = decide(Results(tmp_path))
    assert {d.status for d in decided} == {NOT_RUN}
    assert {d.sources for d in decided} == {()}
    assert all("is not on record" in d.measured for d in decided)


def joined(*studies):
    return {"runs": [run for study in studies for run in study["runs"]]}


def policies(mixed=MappingProxyType({}), **changes):
    """An ablation: which methods each policy walks back."""
    three = ["dfa", "state_bridge", "credit_bridge"]
    found = {"S0": [], "S1": [], "S2": three, "S3": three, "S4": three, "S5": [], "S_full": three} | changes
    rows = {
        name: {"walked_back": [*labels, "dfa_textbook"], "mixed": mixed.get(name, []), "of": 7}
        for name, labels in found.items()
    }
    return {f"ablation_{RECORD}": {"policies": rows} | ablated()}


def ablated(seeds=3, unmeasured=0, without_alignment=0):
    methods = [{"label": label, "seeds": seeds} for label in ("bp", *FAILING, "ep", "dfa_textbook")]
    return {"methods": methods, "unmeasured": {"d": unmeasured}, "without_alignment": without_alignment}


def untrained(*changes, **figures):
    """A study of random init, of three seeds."""
    about = {
        "accuracy": 0.1, "near_chance": True, "residual_norms": [8.7] * 5, "bp_grad_norms": [8e-3] * 5,
        "stability": 0.15, "verdict": "trustworthy",
    } | figures  # fmt: skip
    own = [*changes, {}, {}, {}]
    return {f"random_init_{RECORD}": {"networks": [about | {"seed": s} | own[i] for i, s in enumerate(SEEDS)]}}


def long(*firsts, bp=((None, None, None),), **fields):
    """A temporal study of the long runs: DFA as given, BP that never fires."""
    return {f"temporal_{LONG}": joined(runs("dfa", *firsts, **fields), runs("bp", *bp, **fields))}


def stops(*each):
    entries = [
        {"label": "dfa", "seed": seed, "epochs": 100, "stops": {"(a) or (b)": stop}}
        for seed, stop in zip(SEEDS, each if len(each) == 3 else each * 3, strict=True)
    ]
    return {f"early_stop_{LONG}": {"runs": entries}}


def stop(epoch=4, saved=0.96, cost=0.5):
    return {"epoch": epoch, "saved": saved, "cost_pp": cost}


def audit(**replaced):
    return {f"audit_{RECORD}": published(**replaced)}


SITES = [0.34, 0.0, 0.0, 0.0, 0.0]
ORDERS = {"all: one": -0.03, "all: two": 0.07, "deep: one": -0.2}
ALIGNED = {**BROKEN, "gamma": SITES, "with_null": null(0.004, 0.01), "orders": ORDERS}


def aligned(*changes, **figures):
    return audit(dfa=seeds("dfa", *changes, **ALIGNED | figures))


def widths(epochs=10, **wide):
    """Two widths: at d = 512 the verdicts of d = 256 and ten times the growth, but for what is given."""
    narrow = {"bp": CALM, **{label: WIDE | {"growth": 1e3} for label in FAILING}}
    sizes = {256: narrow, 512: {method: row | {"growth": 10 * row["growth"]} for method, row in narrow.items()} | wide}
    rows = {f"{method} d{size}": row for size, rows in sizes.items() for method, row in rows.items()}
    length = {label: epochs if label.endswith("d512") else 10 for label in rows}
    return {
        "audit_width_resmlp": [report for label, row in rows.items() for report in seeds(label, **row)],
        "temporal_width_resmlp": joined(*(runs(label, (1, 1, 1), epochs=length[label]) for label in rows)),
    }


WIDE, CALM = {**BROKEN, "growth": 1e4}, {"growth": 2.0}


def cnn(b=None, **replaced):
    """SmallCNN as published, but for some methods, with (b) first firing at an epoch or never."""
    rows = {
        "bp": seeds("bp"),
        "dfa": seeds("dfa", growth=237.0),
        "state_bridge": seeds("state_bridge"),
        "credit_bridge": seeds("credit_bridge", growth=96.0),
        "ep": seeds("ep", growth=12.0),
        "dfa_textbook": seeds("dfa_textbook"),
    } | replaced
    temporal = joined(*(runs(label, (None, b, b)) for label in rows))
    return {"audit_small_cnn": [r for row in rows.values() for r in row], "temporal_small_cnn": temporal}


def vit(*firsts, textbook=1.1, accuracy=0.22, **figures):
    """ViT-Mini: DFA as given, textbook DFA that grows by a factor."""
    reports = [*seeds("dfa", **BROKEN | figures), *seeds("dfa_textbook", growth=textbook)]
    return {
        "audit_vit_mini_d128": reports,
        "temporal_vit_mini_d128": runs("dfa", *firsts or [(1, 3, 2)], final_accuracy=accuracy),
    }


def student(*firsts, accuracy=0.33, textbook=1.1, growth=100.0):
    name = "student_net_d128_synthetic_teacher"
    return {
        f"audit_{name}": [*seeds("bp"), *seeds("dfa", growth=growth), *seeds("dfa_textbook", growth=textbook)],
        f"temporal_{name}": joined(
            runs("dfa", *firsts or [(20, None, None)], final_accuracy=accuracy),
            *(runs(label, (None, None, None)) for label in ("bp", "dfa_textbook")),
        ),
    }


def architectures(b=5, **others):
    """All four architectures as published, but for what is given."""
    resmlp = {**audit(dfa_textbook=seeds("dfa_textbook")), f"temporal_{RECORD}": runs("dfa", (3, b, b))}
    return {**resmlp, **vit(), **cnn(), **student(), **fitted(), **others}


def fitted(b=None):
    """Healthy networks without a terminal norm: on SmallCNN (b) first fires at an epoch, or never."""
    labels = {"digits: SmallCNN": b, "digits: no terminal norm": None, "synthetic_teacher: StudentNet": None}
    return {"temporal_false_positives": joined(*(runs(label, (None, at, at)) for label, at in labels.items()))}


FA = {"acc": 0.4, "frozen": 0.3, "gamma": [0.33] * 5}
PENALTY, PENALISED, WEAKLY = "penalty_resmlp_d256", "dfa:penalty=0.01", "dfa:penalty=0.001"
TWO_BY_TWO = ("bp", "bp:penalty=0.01", "dfa_textbook", PENALISED)
REPAIRED = {"acc": 0.36, "frozen": 0.346, "h": 4e4, "g": 1e-6, "gamma": [0.151] * 5, "with_null": null(0.002, 0.022)}


def penalty(largest=0.05, **replaced):
    """The penalty as published, but for some rows; without it the deep cosine is never larger than that."""
    rows = {
        "bp": seeds("bp", acc=0.585),
        "bp:penalty=0.01": seeds("bp:penalty=0.01", acc=0.532),
        "dfa_textbook": seeds("dfa_textbook", **BROKEN, gamma=[0.0] * 5, with_null=null(0.0, 0.02)),
        PENALISED: seeds(PENALISED, **REPAIRED),
        WEAKLY: seeds(WEAKLY, acc=0.37, frozen=0.346),
    } | replaced
    deep = {"deep_alignment": {"low": -0.008 if largest else None, "high": largest, "first_epochs": -0.008}}
    return {
        f"audit_{PENALTY}": [report for row in rows.values() for report in row],
        f"temporal_{PENALTY}": runs("dfa_textbook", (1, 2, 1), **deep),
    }


def without_norm(*changes, with_norm=BROKEN, **figures):
    return {
        f"audit_{RECORD}": seeds("dfa_textbook", **with_norm),
        "audit_resmlp_d256_no_terminal_norm": seeds("dfa_textbook", *changes, **figures),
    }


def drift(c, *shares):
    rows = [{"drift_share": share} for share in shares]
    return {f"audit_{RECORD}": seeds("bp", c=c, rho=0.001), "sensitivity_recorded_resmlp_d256": {"drift": rows}}


def triangulated(*agreeing, one_test=False):
    tests = zip(("removal", "rerandomised", "probe"), agreeing, strict=True)
    found = {name: {"of": 21, "agree": n, "uses_depth_but_d_fires": 21 - n} for name, n in tests}
    whole = audit(fa=seeds("fa"), dfa_textbook=seeds("dfa_textbook"))
    return {**whole, f"triangulation_{RECORD}": {"agreement": found, "redrawn_is_removed": one_test}}


def healthy(dfa=BROKEN, others=None, **fitted):
    rows = [r for n in range(19) for r in seeds(f"cifar10: {n}", **others or {})] + seeds("digits: SGD", **fitted)
    failing = {label: seeds(label, **dfa) for label in ("dfa", "state_bridge", "credit_bridge")}
    return {**audit(**failing), "audit_false_positives": rows}


def deeper(*accuracies):
    rows = zip((2, 4, 8), accuracies, strict=False)
    reports = [r for d, fa in rows for r in (*seeds(f"fa depth {d}", acc=fa), *seeds(f"dfa depth {d}", acc=0.3))]
    return {**audit(fa=seeds("fa", **FA)), "audit_depth_resmlp_d512": reports}


MANY = {"dfa": CALM, "state_bridge": CALM, "credit_bridge": CALM, "bp": WIDE}
CASES = [
    *((claim, audit(), REPRODUCED) for claim in ("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C09", "C29")),
    *((claim, audit(), REPRODUCED) for claim in ("N01", "N06")),
    ("C01", audit(bp=seeds("bp", acc=0.5)), PARTLY),
    ("C01", audit(bp=seeds("bp", {"c": 0.5})), PARTLY),
    ("C01", audit(bp=seeds("bp", c=0.5)), NOT),
    ("C02", audit(dfa=seeds("dfa", **BROKEN | {"h": 1e7})), PARTLY),
    ("C02", audit(dfa=seeds("dfa", {"growth": 2.0}, **BROKEN)), PARTLY),
    ("C02", audit(dfa=seeds("dfa", **BROKEN | {"g": 1e-5})), NOT),
    ("C03", audit(state_bridge=seeds("state_bridge", **BRIDGE | {"acc": 0.3})), PARTLY),
    ("C03", audit(state_bridge=seeds("state_bridge", **BRIDGE | {"g": 1e-5})), NOT),
    ("C04", audit(credit_bridge=seeds("credit_bridge", **BROKEN | {"acc": 0.2})), PARTLY),
    ("C04", audit(credit_bridge=seeds("credit_bridge")), NOT),
    ("C05", audit(ep=seeds("ep", **EP | {"acc": 0.5})), PARTLY),
    ("C05", audit(ep=seeds("ep", **EP | {"c": 0.5})), NOT),
    ("C06", audit(dfa=seeds("dfa", **BROKEN)), NOT),
    ("C07", audit(ep=seeds("ep", **EP | {"frozen": 0.35})), PARTLY),
    ("C07", audit(dfa=seeds("dfa", **BROKEN | {"growth": 60.0, "acc": 0.2}), credit_bridge=FAILS_BY_D), PARTLY),
    ("C07", audit(ep=seeds("ep", **EP | {"growth": 45.0}), dfa=seeds("dfa", **BROKEN | {"growth": 60.0})), NOT),
    ("C08", audit(ep=seeds("ep", **EP | {"frozen": 0.35})), PARTLY),
    ("C08", audit(dfa=seeds("dfa", **BROKEN | {"g": 9e-8})), PARTLY),  # 1667 times apart, not 24,338
    ("C08", audit(ep=seeds("ep", **EP | {"g": 2e-7}), dfa=seeds("dfa", **BROKEN | {"g": 9e-8})), NOT),
    ("C08", audit(**{label: seeds(label, **BROKEN | {"g": 0.0}) for label in FAILING}), REPRODUCED),
    ("C09", audit(ep=seeds("ep", {"c": 0.5}, **EP)), PARTLY),
    ("C09", audit(ep=seeds("ep", **EP | {"c": 0.5}), bp=seeds("bp", c=0.5)), NOT),
    ("C10", policies(), REPRODUCED),
    ("C10", policies(S1=["ep"]), REPRODUCED),
    ("C10", policies(S3=["dfa"]), PARTLY),
    ("C10", policies(mixed={"S_full": ["bp"]}), PARTLY),  # one seed of a healthy method walked back
    ("C10", policies(mixed={"S1": ["dfa"]}), NOT),  # found on some seeds is not found on none
    ("C10", policies(S_full=["dfa", "state_bridge", "credit_bridge", "ep"]), PARTLY),
    ("C10", policies(S1=["dfa"]), NOT),
    ("C10", policies(S_full=["dfa"]), NOT),
    *(
        ("C10", {f"ablation_{RECORD}": policies()[f"ablation_{RECORD}"] | lacking}, NOT_RUN)
        for lacking in (ablated(seeds=1), ablated(unmeasured=1), ablated(without_alignment=1), {"methods": []})
    ),
    ("C11", untrained(), REPRODUCED),
    ("C11", untrained(stability=0.25), PARTLY),
    ("C11", untrained({"verdict": "needs walk-back: BP grad direction is drift-dominated"}), PARTLY),
    ("C11", untrained(verdict="needs walk-back: BP grad direction is drift-dominated"), NOT),
    ("C11", untrained(near_chance=False), NOT),
    ("C11", {f"random_init_{RECORD}": {"networks": []}}, NOT_RUN),
    ("C12", long((10, 20, 4)), REPRODUCED),
    ("C12", long((30, 40, 20)), PARTLY),
    ("C12", long((3, 4, 4)), PARTLY),  # (a) sooner than published
    ("C12", long((10, None, 4)), NOT),
    ("C12", long((10, 20, 4), bp=[(None, 5, 5)]), NOT),
    ("C12", long((10, 20, 4), epochs=30), NOT_RUN),
    ("C12", long((10, 20, 4), measured={"a": 99, "b": 99, "b at 1280": 99}), NOT_RUN),  # BP's `never` is of 99 epochs
    ("C13", stops(stop()), REPRODUCED),
    ("C13", stops(stop(cost=3.0)), PARTLY),
    ("C13", stops(stop(epoch=40, saved=0.6, cost=3.0)), NOT),
    ("C13", stops(stop(), stop(), None), NOT),
    ("C14", long((1, 2, 1), alignment={"low": 0.09, "high": 0.1}), REPRODUCED),
    ("C14", long((1, 2, 1), alignment={"low": 0.01, "high": 0.1}), PARTLY),
    ("C14", long((1, 2, 1), alignment={"low": -0.01, "high": 0.1}), NOT),
    ("C14", long((1, 2, 1), alignment={"low": None, "high": None}), NOT_RUN),
    ("C15", vit(), REPRODUCED),
    ("C15", vit((3, 5, 4)), PARTLY),
    ("C15", vit(accuracy=0.4), PARTLY),
    ("C15", vit((None, 5, 4)), NOT),
    ("C16", student(), REPRODUCED),
    ("C16", student((2, None, None)), PARTLY),
    ("C16", student((20, 21, 20)), NOT),
    ("C17", cnn(), REPRODUCED),
    ("C17", cnn(dfa=seeds("dfa", growth=9e3)), PARTLY),
    ("C17", cnn(ep=seeds("ep", growth=90.0)), PARTLY),
    ("C17", cnn(b=3), NOT),  # (b) fired on the way
    ("C18", widths(), REPRODUCED),
    ("C18", widths(state_bridge=WIDE | {"growth": 999.0}), PARTLY),  # no stronger than at d = 256
    ("C18", widths(dfa=WIDE | {"growth": 100.0}), PARTLY),
    ("C18", widths(**MANY), NOT),
    ("C18", widths(epochs=30), NOT_RUN),
    ("C19", aligned(), REPRODUCED),
    ("C19", aligned(gamma=[0.5] * 5), PARTLY),
    ("C19", aligned(with_null=null(0.07, 0.01)), NOT),
    ("C20", aligned(), REPRODUCED),
    ("C20", aligned(orders={"all: one": -0.03, "all: two": 0.2}), PARTLY),
    ("C20", aligned(orders={"all: one": 0.01, "all: two": 0.07, "deep: one": -0.2}), NOT),
    ("C21", aligned(), REPRODUCED),
    ("C21", aligned({"gamma": [0.1] * 5}), PARTLY),
    ("C21", aligned(gamma=[0.1] * 5), NOT),
    *((claim, penalty(), REPRODUCED) for claim in ("C22", "C23", "C24", "C25", "C26", "C27")),
    ("C22", penalty(dfa_textbook=seeds("dfa_textbook", h=4e8)), PARTLY),  # nothing to repair, and (d) fires
    ("C22", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"acc": 0.45})}), PARTLY),
    ("C22", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"g": 3e-5})}), PARTLY),
    ("C22", penalty(**{PENALISED: seeds(PENALISED, **BROKEN | {"frozen": 0.1})}), NOT),
    ("C23", penalty(**{WEAKLY: seeds(WEAKLY, acc=0.40, frozen=0.346)}), PARTLY),
    ("C23", penalty(**{WEAKLY: seeds(WEAKLY, acc=0.35, frozen=0.346)}), NOT),
    ("C23", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"frozen": 0.3})}), NOT),  # whatever λ is
    ("C24", penalty(bp=seeds("bp", acc=0.4)), PARTLY),
    ("C24", penalty(**{label: seeds(label, acc=0.8) for label in TWO_BY_TWO}), NOT),
    ("C25", penalty(**{"bp:penalty=0.01": seeds("bp:penalty=0.01", acc=0.6)}), PARTLY),
    ("C25", penalty(**{"bp:penalty=0.01": seeds("bp:penalty=0.01", acc=0.38)}), NOT),
    ("C26", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"gamma": [0.3] * 5})}), PARTLY),
    ("C26", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"gamma": [0.01] * 5})}), NOT),
    ("C27", penalty(**{PENALISED: seeds(PENALISED, {"gamma": [0.01] * 5}, **REPAIRED)}), PARTLY),
    ("C27", penalty(largest=0.1), NOT),  # there without the penalty too
    ("C27", penalty(largest=None), NOT_RUN),
    ("C27", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"gamma": [0.01] * 5})}), NOT),  # nor with it
    ("C28", audit(fa=seeds("fa", **FA)), REPRODUCED),
    ("C28", audit(fa=seeds("fa", **FA | {"acc": 0.5})), PARTLY),
    ("C28", audit(fa=seeds("fa", **FA | {"acc": 0.2})), NOT),
    ("C28", deeper(0.4, 0.4, 0.4), REPRODUCED),
    ("C28", deeper(0.4), NOT_RUN),  # the other depths are not on record
    ("C28", audit(fa=seeds("fa", {"gamma": None}, **FA)), NOT_RUN),
    ("C28", deeper(0.4, 0.4, 0.2), PARTLY),
    ("C29", audit(dfa=seeds("dfa", **BROKEN | {"frozen": 0.37})), PARTLY),
    ("C29", audit(dfa=seeds("dfa", **BROKEN | {"frozen": 0.45})), NOT),
    ("C29", audit(dfa=seeds("dfa", {"frozen": None}, **BROKEN)), NOT_RUN),
    ("C30", architectures(), REPRODUCED),
    ("C30", architectures(b=None), PARTLY),
    ("C30", architectures(**fitted(b=60)), PARTLY),  # it fires without a norm, on a confident network
    ("C30", architectures(b=None, **vit((1, None, 2)), **cnn(b=3), **student((20, 21, 20)), **fitted(b=60)), NOT),
    ("N01", audit(dfa=seeds("dfa", **BROKEN | {"scale_free": 1.0})), PARTLY),
    ("N01", audit(**{label: seeds(label, **BROKEN | {"fidelity": 0.5}) for label in FAILING}), NOT),
    ("N01", audit(bp=seeds("bp", scale_free=None)), NOT_RUN),
    ("N01", audit(dfa=seeds("dfa", {"fidelity": None}, **BROKEN)), NOT_RUN),
    ("N02", drift(0.1136, 0.004, 0.005, 0.4), REPRODUCED),
    ("N02", drift(0.5, 0.004, 0.005, 0.4), PARTLY),
    ("N02", drift(0.5, 0.2, 0.3), NOT),
    ("N02", drift(0.1136, 0.004) | {f"audit_{RECORD}": seeds("bp", {"rho": None}, c=0.1136)}, NOT_RUN),
    ("N03", long((3, 4, 2), (3, 5, 2), (5, None, 2)), REPRODUCED),
    ("N03", long((3, 4, 2), (3, 3, 2), (5, None, 2)), PARTLY),  # together is not before
    ("N03", long((3, 4, 2), (3, 2, 1), (5, None, 2)), PARTLY),
    ("N03", long((5, 4, 2)), NOT),
    ("N04", audit(credit_bridge=seeds("credit_bridge", gamma=[0.99] * 5, **BROKEN)), REPRODUCED),
    ("N04", audit(credit_bridge=seeds("credit_bridge", gamma=[0.93] * 5, **BROKEN)), PARTLY),
    ("N04", audit(credit_bridge=seeds("credit_bridge", gamma=[0.99] * 5)), NOT),
    ("N04", audit(credit_bridge=seeds("credit_bridge", gamma=[0.1] * 5, **BROKEN)), NOT),
    ("N05", without_norm(growth=1.3), REPRODUCED),
    ("N05", without_norm({"growth": 130.0}, growth=1.3), PARTLY),
    ("N05", without_norm(growth=130.0), NOT),
    ("N05", without_norm(growth=1.3, with_norm={}), NOT),  # there was nothing to remove
    ("N06", audit(ep=seeds("ep", **EP | {"frozen": 0.35})), PARTLY),
    ("N06", audit(ep=seeds("ep", **EP | {"frozen": 0.35}), bp=seeds("bp", frozen=0.6)), NOT),
    ("N07", triangulated(20, 19, 21), REPRODUCED),
    ("N07", triangulated(11, 12, 21), PARTLY),
    ("N07", triangulated(11, 12, 5), NOT),
    ("N07", triangulated(11, 20, 11, one_test=True), NOT),  # drawn again is removed again, and does not count
    ("N07", triangulated(20, 19, 21) | {f"audit_{RECORD}": published()}, NOT_RUN),  # not of this audit's networks
    ("N08", audit(dfa_textbook=seeds("dfa_textbook")), PARTLY),  # one architecture of four
    ("N08", architectures(), REPRODUCED),
    ("N08", architectures(**cnn(dfa_textbook=seeds("dfa_textbook", growth=100.0))), PARTLY),
    ("N08", audit(dfa=seeds("dfa"), dfa_textbook=seeds("dfa_textbook")), NOT),
    ("N09", healthy(g=6e-8, error=1e-6), REPRODUCED),  # (b) fires because the network is confident
    ("N09", healthy(others={"c": 0.5}, g=6e-8, error=1e-6), PARTLY),  # nothing tells (c) on them from (c) on failures
    ("N09", healthy(others={"frozen": None}, g=6e-8, error=1e-6), PARTLY),  # (d) was not measured
    ("N09", healthy(g=6e-8, error=0.8), PARTLY),  # (b) fires as it does on failures
    ("N09", healthy(), PARTLY),  # (b) fires on none, so nothing is told apart
    ("N09", healthy(acc=0.1, g=6e-8, error=1e-6), NOT_RUN),  # no healthy network
    ("N09", healthy(g=6e-8, error=1e-6) | {"audit_false_positives": seeds("digits: SGD")}, NOT_RUN),
    ("N09", healthy(growth=80.0, g=6e-8, error=0.8), PARTLY),
    ("N09", healthy(dfa={**BROKEN, "fidelity": 0.5}, growth=80.0, g=6e-8, error=0.8), NOT),
]  # fmt: skip


def put(results, files):
    """Audits first, then the studies, each of the audit that is there."""
    for name, content in files.items():
        if is_audit(name):
            write_audit(results, name.removeprefix("audit_"), content)
    for name, content in files.items():
        if not is_audit(name):
            about = {"study_version": STUDY_VERSION, "audit_digest": digest_behind(name, results)}
            write(results / f"{name}.json", about | content)


def digest_behind(study, results):
    """Of the audit that a study is named by, as it is on record now; None where there is none."""
    found = [path for path in results.glob("audit_*.json") if study.endswith(path.stem.removeprefix("audit"))]
    return audit_digest(json.loads(max(found, key=lambda path: len(path.name)).read_text())) if found else None


@pytest.mark.parametrize(("claim", "files", "expected"), CASES)
def test_what_results_make_of_a_claim(tmp_path, claim, files, expected):
    put(tmp_path, files)
    assert status(tmp_path, claim) is expected


def test_every_claim_comes_to_every_status():
    reached = {(claim, expected) for claim, _, expected in CASES}
    wanted = {(claim.id, outcome) for claim in CLAIMS for outcome in (REPRODUCED, PARTLY, NOT)}
    assert wanted - reached == {("C06", PARTLY)}  # mixed over seeds, or not


def of_one_seed(content):
    """The reports of an audit, or the answer of a study, that hold one seed of three."""
    if isinstance(content, list):
        return [report for report in content if report.seed == 42]
    one = {key: [e for e in content[key] if e["seed"] == 42] for key in ("runs", "networks") if key in content}
    methods = [method | {"seeds": 1} for method in content.get("methods", ())]
    return content | one | ({"methods": methods} if methods else {})


@pytest.mark.parametrize("claim", [claim.id for claim in CLAIMS])
def test_one_seed_of_three_decides_nothing(tmp_path, claim):
    files = next(files for known, files, expected in CASES if known == claim and expected is REPRODUCED)
    put(tmp_path, {name: of_one_seed(content) for name, content in files.items()})
    assert status(tmp_path, claim) is NOT_RUN


BY_STUDIES = ["C10", "C11", "C12", "C13", "C14", "C15", "C16", "C17", "C18", "C27", "C30", "N02", "N03", "N07"]


@pytest.mark.parametrize("claim", BY_STUDIES)
def test_a_study_of_another_version_decides_nothing(tmp_path, claim):
    files = next(files for known, files, expected in CASES if known == claim and expected is REPRODUCED)
    put(tmp_path, {n: c if is_audit(n) else c | {"study_version": STUDY_VERSION - 1} for n, c in files.items()})
    assert status(tmp_path, claim) is NOT_RUN


@pytest.mark.parametrize("claim", [claim for claim in BY_STUDIES if claim != "N02"])  # which is of a recorded audit
@pytest.mark.parametrize("change", ["the runs", "the reports"])
def test_a_study_of_the_audit_as_it_was_decides_nothing(tmp_path, claim, change):
    files = next(files for known, files, expected in CASES if known == claim and expected is REPRODUCED)
    behind = {name[name.index("resmlp") :] for name in files if not is_audit(name) and "resmlp" in name}
    audits = {f"audit_{name}": seeds("dfa") for name in behind if f"audit_width_{name}" not in files} | files
    put(tmp_path, audits)
    assert status(tmp_path, claim) is REPRODUCED
    for path in tmp_path.glob("audit_*.json"):
        audit = json.loads(path.read_text())
        if change == "the runs":
            audit["runs"] = [*audit["runs"], row("other", 42, run_id="new")]
        else:
            audit["reports"] = [report | {"notes": "made again"} for report in audit["reports"]]
        write(path, audit)
    assert status(tmp_path, claim) is NOT_RUN


def test_seeds_are_paired_by_what_they_are_not_by_where_they_stand(tmp_path):
    files = penalty(**{PENALISED: seeds(PENALISED, {"gamma": [0.01] * 5}, **REPAIRED)})
    temporal = files[f"temporal_{PENALTY}"]["runs"]
    temporal[0]["deep_alignment"] = temporal[0]["deep_alignment"] | {"high": 0.5}  # the seed that fails anyway
    for order in (temporal, temporal[::-1]):
        put(tmp_path, files | {f"temporal_{PENALTY}": {"runs": order}})
        assert status(tmp_path, "C27") is PARTLY


@pytest.mark.parametrize("claim", ["C01", "C02", "C03", "C04", "C07", "C08", "C29", "N06"])
def test_a_baseline_that_is_missing_decides_nothing(tmp_path, claim):
    bare = {label: seeds(label, frozen=None, **BROKEN_WITHOUT) for label in FAILING}
    write_audit(
        tmp_path, RECORD, published(bp=seeds("bp", frozen=None), ep=seeds("ep", **EP | {"frozen": None}), **bare)
    )
    assert status(tmp_path, claim) is NOT_RUN


def test_a_run_that_failed_decides_nothing(tmp_path):
    write_audit(tmp_path, RECORD, published(), [row("bp", 789, error="ran out of memory")])
    assert status(tmp_path, "C01") is NOT_RUN
    assert status(tmp_path, "C02") is REPRODUCED


def test_a_method_that_failed_is_not_run(tmp_path):
    write_audit(tmp_path, RECORD, [r for r in published() if r.method_name != "ep"])
    assert status(tmp_path, "C05") is NOT_RUN
    assert status(tmp_path, "C01") is REPRODUCED


def evidence(*arguments):
    return app(["evidence", *map(str, arguments)], standalone_mode=False)


def test_the_command_prints_and_writes(tmp_path, capsys):
    results, notes = tmp_path / "results", tmp_path / "notes"
    write_audit(results, RECORD, published())
    notes.mkdir()
    (notes / "C01.md").write_text("Tried a longer run.\n")
    out, page = tmp_path / "e.json", tmp_path / "EVIDENCE.md"
    assert evidence("--results", results, "--json", out, "--write", page, "--notes", notes) == 0
    claims = {claim["id"]: claim for claim in json.loads(out.read_text())["claims"]}
    assert len(claims) == 39
    assert claims["C01"]["status"] == "reproduced"
    assert claims["C01"]["source"] == [f"{results.as_posix()}/audit_{RECORD}.json"]
    assert {"id", "status", "published", "measured", "source", "rule", "command"} <= set(claims["C12"])
    text = page.read_text()
    assert f"[audit_{RECORD}.json](results/audit_{RECORD}.json)" in text
    assert "Tried a longer run." in text
    assert "reproduced" in capsys.readouterr().out


def test_bad_results_are_named(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        evidence("--results", tmp_path / "nowhere")
    (tmp_path / f"audit_{RECORD}.json").write_text('{"reports": 3}')
    with pytest.raises(RecordError, match="no list of reports"):
        evidence("--results", tmp_path)
    (tmp_path / f"audit_{RECORD}.json").write_text('{"repo')
    with pytest.raises(RecordError, match="is not JSON"):
        evidence("--results", tmp_path)


def test_a_study_that_lacks_what_a_claim_reads_is_named(tmp_path):
    short = [{"label": label, "first": {}} for label in ("dfa", "bp")]
    put(tmp_path, {f"temporal_{LONG}": {"runs": short}})
    with pytest.raises(RecordError, match=f"C12 cannot be decided from temporal_{LONG}.json"):
        status(tmp_path, "C12")


def test_bad_input_is_a_sentence_and_exit_status_2(tmp_path):
    command = [sys.executable, "-m", "walkback", "evidence", "--results", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("walkback: there is no folder")
    assert "Traceback" not in done.stderr


def test_evidence_needs_no_torch(tmp_path):
    code = "import sys; from walkback.cli.main import app; app(sys.argv[1:], standalone_mode=False)"
    code += "; assert 'torch' not in sys.modules"
    arguments = ["evidence", "--results", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
