"""Evidence: every claim of the table is there, and every decider comes to each status on results made for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reference.made_results import network, null, write, write_audit
from walkback.cli.main import app
from walkback.errors import InputError, RecordError
from walkback.evidence.claim import Status
from walkback.evidence.results import Results
from walkback.evidence.table import CLAIMS, decide

RECORD, LONG = "resmlp_d256", "resmlp_d256_100ep"
REPRODUCED, PARTLY, NOT, NOT_RUN = Status.REPRODUCED, Status.PARTLY, Status.NOT_REPRODUCED, Status.NOT_RUN
SEEDS = (42, 123, 456)
BROKEN = {"acc": 0.30, "frozen": 0.349, "growth": 1e3, "h": 5e8, "g": 3e-9}
BRIDGE = {**BROKEN, "acc": 0.22}
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


def status(results, claim):
    return next(known for known in CLAIMS if known.id == claim).decided(Results(results)).status


def runs(label, *firsts, **fields):
    """Entries of a temporal study."""
    keys = ("a", "b", "b at 1280")
    return [
        {"label": label, "seed": seed, "epochs": 100, "first": dict(zip(keys, first, strict=True)), **fields}
        for seed, first in zip(SEEDS, firsts, strict=True)
    ]


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


def test_an_audit_as_published_reproduces_its_claims(tmp_path):
    write_audit(tmp_path, RECORD, published())
    for claim in ("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C09", "C29", "N01", "N06"):
        assert status(tmp_path, claim) is REPRODUCED, claim


AUDITS = [
    ("C01", {"bp": seeds("bp", acc=0.5)}, PARTLY),
    ("C01", {"bp": seeds("bp", {"c": 0.5})}, PARTLY),
    ("C01", {"bp": seeds("bp", c=0.5)}, NOT),
    ("C02", {"dfa": seeds("dfa", **BROKEN | {"h": 1e7})}, PARTLY),
    ("C02", {"dfa": seeds("dfa", {"growth": 2.0}, **BROKEN)}, PARTLY),
    ("C02", {"dfa": seeds("dfa", **BROKEN | {"g": 1e-5})}, NOT),
    ("C03", {"state_bridge": seeds("state_bridge", **BRIDGE | {"acc": 0.3})}, PARTLY),
    ("C04", {"credit_bridge": seeds("credit_bridge")}, NOT),
    ("C05", {"ep": seeds("ep", **EP | {"acc": 0.5})}, PARTLY),
    ("C05", {"ep": seeds("ep", **EP | {"c": 0.5})}, NOT),
    ("C06", {"dfa": seeds("dfa", **BROKEN)}, NOT),
    ("C07", {"ep": seeds("ep", **EP | {"frozen": 0.35})}, PARTLY),
    ("C07", {"ep": seeds("ep", **EP | {"growth": 45.0}), "dfa": seeds("dfa", **BROKEN | {"growth": 60.0})}, NOT),
    ("C08", {"ep": seeds("ep", **EP | {"frozen": 0.35})}, PARTLY),
    ("C08", {"ep": seeds("ep", **EP | {"g": 2e-7}), "dfa": seeds("dfa", **BROKEN | {"g": 9e-8})}, NOT),
    ("C09", {"ep": seeds("ep", {"c": 0.5}, **EP)}, PARTLY),
    ("C09", {"ep": seeds("ep", **EP | {"c": 0.5}), "bp": seeds("bp", c=0.5)}, NOT),
    ("C29", {"dfa": seeds("dfa", **BROKEN | {"frozen": 0.37})}, PARTLY),
    ("C29", {"dfa": seeds("dfa", **BROKEN | {"frozen": 0.45})}, NOT),
    ("N01", {"dfa": seeds("dfa", **BROKEN | {"scale_free": 1.0})}, PARTLY),
    ("N06", {"ep": seeds("ep", **EP | {"frozen": 0.35})}, PARTLY),
    ("N06", {"ep": seeds("ep", **EP | {"frozen": 0.35}), "bp": seeds("bp", frozen=0.6)}, NOT),
]


@pytest.mark.parametrize(("claim", "replaced", "expected"), AUDITS)
def test_claims_on_the_audit(tmp_path, claim, replaced, expected):
    write_audit(tmp_path, RECORD, published(**replaced))
    assert status(tmp_path, claim) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, REPRODUCED),
        ({"S1": ["ep"]}, REPRODUCED),
        ({"S3": ["dfa"]}, PARTLY),
        ({"S_full": ["dfa", "state_bridge", "credit_bridge", "ep"]}, PARTLY),
        ({"S1": ["dfa"]}, NOT),
        ({"S_full": ["dfa"]}, NOT),
    ],
)
def test_decision_utility(tmp_path, changes, expected):
    three = ["dfa", "state_bridge", "credit_bridge"]
    found = {"S0": [], "S1": [], "S2": three, "S3": three, "S4": three, "S5": [], "S_full": three} | changes
    policies = {
        name: {"walked_back": [*labels, "dfa_textbook"], "mixed": [], "of": 7} for name, labels in found.items()
    }
    write(tmp_path / f"ablation_{RECORD}.json", {"policies": policies})
    assert status(tmp_path, "C10") is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, REPRODUCED),
        ({"stability": 0.25}, PARTLY),
        ({"verdict": "needs walk-back: BP grad direction is drift-dominated"}, NOT),
        ({"near_chance": False}, NOT),
    ],
)
def test_random_init(tmp_path, changes, expected):
    network = {
        "seed": 42, "accuracy": 0.1, "near_chance": True, "residual_norms": [8.7] * 5, "bp_grad_norms": [8e-3] * 5,
        "stability": 0.15, "verdict": "trustworthy",
    }  # fmt: skip
    write(tmp_path / f"random_init_{RECORD}.json", {"networks": [network | changes]})
    assert status(tmp_path, "C11") is expected


GAMMA = {"alignment": {"low": 0.09, "high": 0.1}}
NEVER = runs("bp", *[(None, None, None)] * 3)
TEMPORAL = [
    ("C12", runs("dfa", *[(10, 20, 4)] * 3) + NEVER, REPRODUCED),
    ("C12", runs("dfa", *[(30, 40, 20)] * 3) + NEVER, PARTLY),
    ("C12", runs("dfa", *[(10, None, 4)] * 3) + NEVER, NOT),
    ("C12", runs("dfa", *[(10, 20, 4)] * 3) + runs("bp", *[(None, 5, 5)] * 3), NOT),
    ("C14", runs("dfa", *[(1, 2, 1)] * 3, **GAMMA), REPRODUCED),
    ("C14", runs("dfa", *[(1, 2, 1)] * 3, alignment={"low": 0.01, "high": 0.1}), PARTLY),
    ("C14", runs("dfa", *[(1, 2, 1)] * 3, alignment={"low": -0.01, "high": 0.1}), NOT),
    ("N03", runs("dfa", (3, 4, 2), (3, 3, 2), (5, None, 2)), REPRODUCED),
    ("N03", runs("dfa", (3, 4, 2), (3, 2, 1), (5, None, 2)), PARTLY),
    ("N03", runs("dfa", *[(5, 4, 2)] * 3), NOT),
]


@pytest.mark.parametrize(("claim", "entries", "expected"), TEMPORAL)
def test_claims_on_the_traces(tmp_path, claim, entries, expected):
    write(tmp_path / f"temporal_{LONG}.json", {"runs": entries})
    assert status(tmp_path, claim) is expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ({"epoch": 4, "saved": 0.96, "cost_pp": 0.5}, REPRODUCED),
        ({"epoch": 4, "saved": 0.96, "cost_pp": 3.0}, PARTLY),
        ({"epoch": 40, "saved": 0.6, "cost_pp": 3.0}, NOT),
        (None, NOT),
    ],
)
def test_stopping_early(tmp_path, stop, expected):
    entries = [{"label": "dfa", "seed": seed, "stops": {"(a) or (b)": stop}} for seed in SEEDS]
    write(tmp_path / f"early_stop_{LONG}.json", {"runs": entries})
    assert status(tmp_path, "C13") is expected


SITES = [0.43, -0.02, -0.02, -0.02, -0.02]
ALIGNED = {**BROKEN, "gamma": SITES, "with_null": null(0.004, 0.01), "orders": {"one": -0.03, "two": 0.07}}


@pytest.mark.parametrize(
    ("claim", "changes", "expected"),
    [
        ("C19", {}, REPRODUCED),
        ("C19", {"with_null": null(0.07, 0.01)}, NOT),
        ("C20", {}, REPRODUCED),
        ("C20", {"orders": {"one": 0.01, "two": 0.07}}, NOT),
        ("C21", {}, REPRODUCED),
        ("C21", {"gamma": [0.1] * 5}, NOT),
    ],
)
def test_claims_on_alignment(tmp_path, claim, changes, expected):
    write_audit(tmp_path, RECORD, published(dfa=seeds("dfa", **ALIGNED | changes)))
    assert status(tmp_path, claim) is expected


@pytest.mark.parametrize(
    ("deep", "broken", "expected"),
    [(0.99, BROKEN, REPRODUCED), (0.93, BROKEN, PARTLY), (0.99, {}, NOT), (0.1, BROKEN, NOT)],
)
def test_near_perfect_alignment_on_a_broken_network(tmp_path, deep, broken, expected):
    write_audit(tmp_path, RECORD, published(credit_bridge=seeds("credit_bridge", gamma=[deep] * 5, **broken)))
    assert status(tmp_path, "N04") is expected


@pytest.mark.parametrize(
    ("c", "shares", "expected"),
    [(0.1136, [0.004, 0.005, 0.4], REPRODUCED), (0.5, [0.004, 0.005, 0.4], PARTLY), (0.5, [0.2, 0.3], NOT)],
)
def test_drift_is_the_batch_size(tmp_path, c, shares, expected):
    write_audit(tmp_path, RECORD, seeds("bp", c=c, rho=0.001))
    drift = [{"drift_share": share} for share in shares]
    write(tmp_path / "sensitivity_recorded_resmlp_d256.json", {"drift": drift})
    assert status(tmp_path, "N02") is expected


def test_fa_against_dfa(tmp_path):
    fa = {"acc": 0.4, "frozen": 0.3, "gamma": [0.33] * 5}
    write_audit(tmp_path, RECORD, published(fa=seeds("fa", **fa)))
    assert status(tmp_path, "C28") is REPRODUCED
    write_audit(tmp_path, RECORD, published(fa=seeds("fa", **fa | {"acc": 0.5})))
    assert status(tmp_path, "C28") is PARTLY
    write_audit(tmp_path, RECORD, published(fa=seeds("fa", **fa | {"acc": 0.2})))
    assert status(tmp_path, "C28") is NOT


def test_other_architectures(tmp_path):
    write_audit(tmp_path, RECORD, published(dfa_textbook=seeds("dfa_textbook")))
    assert status(tmp_path, "N08") is PARTLY  # One architecture of four.
    assert status(tmp_path, "C30") is NOT_RUN
    exploded = seeds("dfa", acc=0.3, growth=100.0)
    for audit in ("small_cnn", "student_net_d128_synthetic_teacher"):
        write_audit(tmp_path, audit, [*exploded, *seeds("dfa_textbook")])
    write_audit(tmp_path, "vit_mini_d128", [*seeds("dfa", **BROKEN), *seeds("dfa_textbook")])
    assert status(tmp_path, "N08") is REPRODUCED
    assert status(tmp_path, "C30") is REPRODUCED
    write_audit(tmp_path, "small_cnn", [*exploded, *seeds("dfa_textbook", growth=100.0)])
    assert status(tmp_path, "N08") is PARTLY
    write_audit(tmp_path, "vit_mini_d128", [*exploded, *seeds("dfa_textbook")])
    assert status(tmp_path, "C30") is PARTLY


def widths(**wide):
    """A width study: at d = 512 the verdicts of d = 256 and ten times the growth, but for what is given."""
    bp, broken = {"fired": "", "growth": 2.0, "accuracy": 0.6}, {"fired": "ab", "growth": 1e3, "accuracy": 0.3}
    narrow = {"bp": bp, "dfa": broken, "state_bridge": broken, "credit_bridge": broken}
    sizes = {256: narrow, 512: {method: row | {"growth": 10 * row["growth"]} for method, row in narrow.items()} | wide}
    return {
        "rows": [
            {
                "label": f"{method} d{size}", "seeds": SEEDS, "accuracies": [row["accuracy"]] * 3,
                "growths": [row["growth"]] * 3, "growths_then": [row["growth"]] * 3, "fired_then": [row["fired"]] * 3,
            }
            for size, rows in sizes.items()
            for method, row in rows.items()
        ]
    }  # fmt: skip


def test_small_cnn_width_and_depth_of_time(tmp_path):
    cnn = published(
        dfa=seeds("dfa", growth=237.0),
        credit_bridge=seeds("credit_bridge", growth=96.0),
        state_bridge=seeds("state_bridge"),
    )
    write_audit(tmp_path, "small_cnn", cnn)
    assert status(tmp_path, "C17") is REPRODUCED
    width, broken = tmp_path / "width_width_resmlp.json", {"fired": "ab", "growth": 1e4, "accuracy": 0.3}
    write(width, widths())
    assert status(tmp_path, "C18") is REPRODUCED
    write(width, widths(state_bridge=broken | {"growth": 999.0}))  # no stronger than at d = 256
    assert status(tmp_path, "C18") is PARTLY
    write(width, widths(dfa=broken | {"growth": 100.0}))
    assert status(tmp_path, "C18") is PARTLY
    calm = {"fired": "", "growth": 2.0, "accuracy": 0.6}
    write(width, widths(dfa=calm, state_bridge=calm, credit_bridge=calm, bp=broken))
    assert status(tmp_path, "C18") is NOT
    write(width, {"rows": widths()["rows"][1:]})
    assert status(tmp_path, "C18") is NOT_RUN
    write(tmp_path / "temporal_vit_mini_d128.json", {"runs": runs("dfa", *[(1, 5, 3)] * 3, final_accuracy=0.22)})
    assert status(tmp_path, "C15") is REPRODUCED
    student = {"runs": runs("dfa", *[(20, None, None)] * 3, final_accuracy=0.33)}
    write(tmp_path / "temporal_student_net_d128_synthetic_teacher.json", student)
    assert status(tmp_path, "C16") is REPRODUCED
    student["runs"] = runs("dfa", *[(2, None, None)] * 3, final_accuracy=0.33)
    write(tmp_path / "temporal_student_net_d128_synthetic_teacher.json", student)
    assert status(tmp_path, "C16") is PARTLY


def test_the_penalty(tmp_path):
    name, strong, weak = "penalty_resmlp_d256", "dfa:penalty=0.01", "dfa:penalty=0.001"
    rows = [
        *seeds("bp", acc=0.585),
        *seeds("bp:penalty=0.01", acc=0.532),
        *seeds("dfa_textbook", **BROKEN),
        *seeds(strong, acc=0.36, frozen=0.346, gamma=[0.151] * 5, with_null=null(0.002, 0.022)),
        *seeds(weak, acc=0.37, frozen=0.346),
    ]
    write_audit(tmp_path, name, rows)
    early = {"deep_alignment": {"first_epochs": -0.008}}
    write(tmp_path / f"temporal_{name}.json", {"runs": runs("dfa_textbook", *[(1, 2, 1)] * 3, **early)})
    for claim in ("C22", "C23", "C24", "C25", "C26", "C27"):
        assert status(tmp_path, claim) is REPRODUCED, claim
    write_audit(tmp_path, name, [r for r in rows if r.method_name != "bp"] + seeds("bp", acc=0.4))
    assert status(tmp_path, "C24") is PARTLY


def test_removing_the_terminal_norm(tmp_path):
    write_audit(tmp_path, RECORD, seeds("dfa_textbook", **BROKEN))
    write_audit(tmp_path, "resmlp_d256_no_terminal_norm", seeds("dfa_textbook", growth=1.3))
    assert status(tmp_path, "N05") is REPRODUCED
    write_audit(tmp_path, "resmlp_d256_no_terminal_norm", seeds("dfa_textbook", growth=130.0))
    assert status(tmp_path, "N05") is NOT


@pytest.mark.parametrize(
    ("agreeing", "one_test", "expected"),
    [
        ((20, 19, 21), False, REPRODUCED),
        ((11, 12, 21), False, PARTLY),
        ((11, 12, 5), False, NOT),
        ((11, 20, 11), True, NOT),  # drawn again is removed again, and does not count.
    ],
)
def test_triangulation(tmp_path, agreeing, one_test, expected):
    tests = zip(("removal", "rerandomised", "probe"), agreeing, strict=True)
    found = {name: {"of": 21, "agree": n, "uses_depth_but_d_fires": 21 - n} for name, n in tests}
    write(tmp_path / f"triangulation_{RECORD}.json", {"agreement": found, "redrawn_is_removed": one_test})
    assert status(tmp_path, "N07") is expected


@pytest.mark.parametrize(
    ("fitted", "expected"),
    [
        ({"g": 6e-8, "error": 1e-6}, REPRODUCED),  # (b) fires because the network is confident.
        ({"g": 6e-8, "error": 0.8}, PARTLY),  # (b) fires as it does on failures.
        ({"growth": 80.0, "g": 6e-8, "error": 0.8}, PARTLY),
    ],
)
def test_false_positives(tmp_path, fitted, expected):
    write_audit(tmp_path, RECORD, published())
    write_audit(tmp_path, "false_positives", [*seeds("cifar10: pre-norm", c=0.5), *seeds("digits: SGD", **fitted)])
    assert status(tmp_path, "N09") is expected


def test_fa_has_to_win_at_every_depth_that_is_on_record(tmp_path):
    write_audit(tmp_path, RECORD, published(fa=seeds("fa", acc=0.4, frozen=0.3, gamma=[0.33] * 5)))
    deep = [r for d in (2, 4, 8) for r in (*seeds(f"fa depth {d}", acc=0.4), *seeds(f"dfa depth {d}", acc=0.3))]
    write_audit(tmp_path, "depth_resmlp_d512", deep)
    assert status(tmp_path, "C28") is REPRODUCED
    write_audit(tmp_path, "depth_resmlp_d512", [*deep[:-6], *seeds("fa depth 8", acc=0.2), *deep[-3:]])
    assert status(tmp_path, "C28") is PARTLY


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
    assert f"[audit_{RECORD}.json](../results/audit_{RECORD}.json)" in text
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
    write(tmp_path / f"temporal_{LONG}.json", {"runs": [{"label": label, "first": {}} for label in ("dfa", "bp")]})
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
