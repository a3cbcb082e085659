"""Do functional tests of depth agree with (d)? A block removed, a block made random again, a linear probe per site.

None of the three rests on (a) to (d). Each asks in its own way whether the blocks are used: the largest loss of
accuracy when one block is left out, the same when its weights are drawn again, and what a linear readout gains from h_0
to h_L. All are held to (d)'s own threshold in points, so that none is tuned.

Beside them stand the tests of the credit and of learning, which have no threshold: perturbation ρ, nudge, and by how
much the training loss fell. They need no gradient, so they are there where (b) fires too.
"""

from __future__ import annotations

from typing import Any

from walkback.lab.studies.audited import Audit, TracedRun
from walkback.lab.studies.base import Parts, Result, Study, shown
from walkback.present.numbers import signed
from walkback.present.page import Grid
from walkback.protocol.diagnostics.frozen_margin import FrozenMargin
from walkback.protocol.records import State

TESTS = {"removal": "block removed", "rerandomised": "block redrawn", "probe": "linear probe"}
CREDIT_TESTS = {"rho": "ρ", "nudge": "nudge", "loss_decrease": "loss fell by"}
NOT_MEASURED = "not measured"
THRESHOLD_PP: float = FrozenMargin.thresholds["frozen_acc_margin_pp"].default or 0.0
SAME_TEST_PP = 0.5


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each run with a measured (d), and how often each test agrees with it."""
    runs = [_run(audit, run) for run in audit.traces if run.depth and _has_margin(audit, run)]
    return {
        "threshold_pp": THRESHOLD_PP,
        "runs": runs,
        "agreement": {test: _agreement(runs, test) for test in TESTS},
        "redrawn_is_removed": _redrawn_is_removed(runs),
    }


def _redrawn_is_removed(runs: list[dict[str, Any]]) -> bool:
    """Whether a block drawn again does what no block does, so that the two tests are one.

    It does where blocks start out writing next to nothing to the stream.
    """
    pairs = [(run["points"]["removal"], run["points"]["rerandomised"]) for run in runs]
    return bool(pairs) and all(None not in pair and abs(pair[0] - pair[1]) < SAME_TEST_PP for pair in pairs)


def _has_margin(audit: Audit, run: TracedRun) -> bool:
    return audit.report_of(run).reading(FrozenMargin.letter).state in (State.PASS, State.FIRE)


def _run(audit: Audit, run: TracedRun) -> dict[str, Any]:
    reading, depth = audit.report_of(run).reading(FrozenMargin.letter), run.depth
    assert depth is not None
    points = {
        "removal": _largest_loss(run, [[entry] for entry in depth["blocks_removed"]]),
        "rerandomised": _largest_loss(run, depth["blocks_rerandomised"]),
        "probe": _gain(depth["linear_probes"]),
    }
    return {
        "label": run.label,
        "seed": run.seed,
        "id": run.run_id,
        "accuracy": run.records[-1].accuracy,
        "margin_pp": reading.value,
        "passes_d": reading.state is State.PASS,
        "credit_tests": dict(run.credit_tests),
        "points": points,
        "uses_depth": {test: None if value is None else value >= THRESHOLD_PP for test, value in points.items()},
    }


def _largest_loss(run: TracedRun, blocks: Any) -> float | None:
    """The points lost with the block whose change costs most; several draws of one are averaged."""
    known = [[value for value in draws if value is not None] for draws in blocks]
    means = [sum(draws) / len(draws) for draws in known if draws]
    return 100 * (run.records[-1].accuracy - min(means)) if means else None


def _gain(probes: Any) -> float | None:
    """The points that a linear readout of h_L has over one of h_0."""
    return None if probes[0] is None or probes[-1] is None else 100 * (probes[-1] - probes[0])


def _agreement(runs: list[dict[str, Any]], test: str) -> dict[str, int]:
    """How many runs the test says the same of as (d), and in which way it differs on the others."""
    known = [(run["passes_d"], run["uses_depth"][test]) for run in runs if run["uses_depth"][test] is not None]
    return {
        "of": len(known),
        "agree": sum(passes == uses for passes, uses in known),
        "uses_depth_but_d_fires": sum(uses and not passes for passes, uses in known),
        "d_passes_but_no_use": sum(passes and not uses for passes, uses in known),
    }


def paragraphs(result: Result) -> Parts:
    """One row for each run, then the agreement."""
    headings = ("method", "seed", "(d) margin", *TESTS.values(), *CREDIT_TESTS.values(), "same answer as (d)")
    rows = [
        [
            run["label"],
            str(run["seed"]),
            shown(run["margin_pp"], signed),
            *(shown(run["points"][test], signed) for test in TESTS),
            *(_credit_test(run, test) for test in CREDIT_TESTS),
            ", ".join(TESTS[t] for t, uses in run["uses_depth"].items() if uses == run["passes_d"]) or "none",
        ]
        for run in result["runs"]
    ]
    agreement = [
        [TESTS[test], f"{a['agree']} of {a['of']}", str(a["uses_depth_but_d_fires"]), str(a["d_passes_but_no_use"])]
        for test, a in result["agreement"].items()
    ]
    counted = ("test", "agrees with (d)", "blocks matter, (d) fires", "(d) passes, blocks do not matter")
    same = "A block drawn again costs what its removal does on every network, to half a point: fresh blocks write "
    same += "next to nothing here, and the two tests are one."
    return [
        Grid(headings, rows, "lrrrrrrrrl"),
        Grid(counted, agreement, "lrrr"),
        _on_how_many(result["runs"]),
        *([same] if result["redrawn_is_removed"] else []),
    ]


def _credit_test(run: Result, test: str) -> str:
    # Answers that an earlier walkback gave have none.
    value = (run.get("credit_tests") or {}).get(test)
    return NOT_MEASURED if value is None else signed(value)


def _on_how_many(runs: list[dict[str, Any]]) -> str:
    known = [sum(_credit_test(run, test) != NOT_MEASURED for run in runs) for test in CREDIT_TESTS]
    tested, learnt = f"{min(known[:2])} of {len(runs)}", f"{known[2]} of {len(runs)}"
    return (
        f"ρ and nudge are on record for {tested} networks, the training loss for {learnt}. A run that was made before "
        "these tests were kept has none of them, until it is trained again."
    )


STUDY = Study(
    "triangulation",
    "Do functional tests of depth agree with (d)?",
    "(d) asks whether trained blocks are better than blocks left at random. Three other tests ask whether a network "
    "uses its blocks: how many points of accuracy it loses without one of them (the largest loss of any block), with "
    "one block's weights drawn anew (mean of five draws), and how many points a linear readout of the last hidden "
    "state is better than one of the first. Each answers yes from "
    f"{THRESHOLD_PP:g} points on, which is (d)'s own threshold. They can differ: a network may need a block, and still "
    "be no better than one whose blocks were never trained. Three more figures are of the credit, what a method tells "
    "a block, and need no true gradient. ρ, from -1 to 1: how well it tells the change of the loss in random "
    "directions. The nudge: by how much the loss changes after a step of 0.01 against it (negative is good). And by "
    "how much the mean training loss fell from the first epoch to the last.",
    answer,
    paragraphs,
    lambda audit: any("baseline" in row for row in audit.rows),
    "it needs runs with frozen baselines: walkback lab audit --preset resmlp_d256",
)
