"""Ten claims computed a second time, from the files of runs, by json and numpy alone.

Nothing of walkback is imported. Audits are read for one thing: which run stands behind which label and seed. The
thresholds, rules and definitions are written down here anew, from the published sentences and the page.

Each function gives the claim's status and the figures that its line on the page has to show, in their order; a claim
whose runs are not all there raises `Missing`, with what is.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not reproduced"
SOURCE, LONG, PENALTY = "source_resmlp_d256_100ep", "resmlp_d256_100ep", "source_penalty_resmlp_d256"
FAILING = ("dfa", "state_bridge", "credit_bridge")
EXPLODES, FLOOR, CEILING, MARGIN = 50.0, 1e-7, 0.30, 2.0


class Missing(Exception):
    """Runs that a claim needs are not on record."""


def load(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def numbers(values):
    """As an array; JSON has words for what is not finite."""
    return np.array([float(value) for value in values])


def finished(results, audit, label, needed=3):
    """The run files of a label by seed, each with its baseline's accuracy; all of its seeds have to be there."""
    path = results / f"audit_{audit}.json"
    if not path.exists():
        raise Missing(f"{path.name} is not on record")
    rows = [row for row in load(path)["runs"] if row["label"] == label]
    there = [row for row in rows if (results / "runs" / f"{row['id']}.json").exists()]
    if len(there) < max(needed, len(rows)):
        raise Missing(f"{len(there)} of {max(needed, len(rows))} seeds of {label}")
    found = {}
    for row in there:
        run = load(results / "runs" / f"{row['id']}.json")
        frozen = results / "runs" / f"{row['baseline']}.json" if row.get("baseline") else None
        run["frozen"] = load(frozen)["accuracy"] if frozen and frozen.exists() else None
        found[row["seed"]] = run
    return found


def growth(norms):
    norms = numbers(norms)
    return float(np.max(norms[1:] / norms[:-1]))


def fired(run):
    """Which of the four tests fire at the end of a run."""
    report = run["report"]
    found = set()
    found |= {"a"} if not growth(report["residual_norms"]) <= EXPLODES else set()
    found |= {"b"} if not numbers(report["bp_grad_norms"])[-1] >= FLOOR else set()
    found |= {"c"} if not float(report["cross_batch_stability"]) <= CEILING else set()
    if run["frozen"] is not None:
        found |= {"d"} if not 100 * (run["accuracy"] - run["frozen"]) >= MARGIN - 1e-9 else set()
    return found


def within(value, low, high, tolerance):
    return low - tolerance <= value <= high + tolerance


def of_one_order(value, low, high):
    return low / 10 <= value <= high * 10


def ends(values):
    """What a span shows: lowest and highest, or the one figure where both are written alike."""
    low, high = float(np.min(values)), float(np.max(values))
    return [low] if f"{low:.2e}" == f"{high:.2e}" else [low, high]


def weigh(cases, figures=()):
    if not any(cases):
        return NOT
    return REPRODUCED if all(cases) and all(figures) else PARTLY


def c03(results):
    runs = finished(results, SOURCE, "state_bridge").values()
    cases = [{"a", "b", "d"} <= fired(run) for run in runs]
    scores = [run["accuracy"] for run in runs]
    last = [[run["report"][name][-1] for run in runs] for name in ("residual_norms", "bp_grad_norms")]
    counts = [sum(letter in fired(run) for run in runs) for letter in "abcd"]
    shown = [sum(cases), len(cases), *ends(scores), *ends(last[0]), *ends(last[1]), *[n for n in counts if n]]
    return weigh(cases, [within(score, 0.17, 0.25, 0.03) for score in scores]), shown


def c10(results):
    """What accuracy and Γ object to, and what each test adds; Γ over all sites."""
    methods = {"bp": finished(results, LONG, "bp"), **{m: finished(results, SOURCE, m) for m in FAILING}}
    methods["ep"] = finished(results, "source_ep", "ep")
    letters = {"S0": "", "S1": "", "S2": "a", "S3": "b", "S4": "d", "S5": "c", "S_full": "abcd"}
    objections = {
        policy: {m: [_objects(run, policy, letters[policy]) for run in runs.values()] for m, runs in methods.items()}
        for policy in letters
    }
    all_of = {policy: {m for m, each in found.items() if all(each)} for policy, found in objections.items()}
    some = {policy: {m for m, each in found.items() if any(each)} for policy, found in objections.items()}
    blind = not some["S1"] & set(FAILING)
    each = all(set(FAILING) <= all_of[policy] for policy in ("S2", "S3", "S4"))
    exact = all_of["S_full"] == some["S_full"] == set(FAILING)
    partly = PARTLY if blind and set(FAILING) <= all_of["S_full"] else NOT
    shown = [number for policy in letters for number in (*_digits(policy), len(all_of[policy]), 5)]
    return REPRODUCED if blind and each and exact else partly, shown


def _digits(policy):
    return [int(policy[1])] if policy[1].isdigit() else []


def _objects(run, policy, letters):
    at_chance = not 100 * (run["accuracy"] - 0.1) > 5
    misaligned = policy != "S0" and not np.mean(numbers(run["report"]["alignment"]["sites"])) > 0
    return bool(at_chance or misaligned or fired(run) & set(letters))


def c11(results):
    """The untrained network of each seed is the first line of the trace of any method."""
    untrained = {seed: run["trace"][0] for seed, run in finished(results, "resmlp_d256", "bp").items()}
    for label in ("dfa", "ep"):
        for seed, run in finished(results, "resmlp_d256", label).items():
            assert run["trace"][0]["residual_norms"] == untrained[seed]["residual_norms"]
    cases, figures, drift = [], [], []
    for line in untrained.values():
        h, g = numbers(line["residual_norms"]), numbers(line["bp_grad_norms"])
        middle = numbers(line["site_stabilities"])[len(h) // 2]
        drift.append(middle)
        sound = growth(h) <= EXPLODES and g[-1] >= FLOOR and middle <= CEILING
        cases.append(abs(100 * (line["accuracy"] - 0.1)) <= 5 and sound)
        figures.append(bool(np.all(np.abs(h - 8.7) <= 0.87)))
        figures.append(bool(np.all((g >= 8e-3 / 1.25) & (g <= 8e-3 * 1.25))))
        figures.append(within(middle, 0.08, 0.18, 0.05))
    last = [[line[name][-1] for line in untrained.values()] for name in ("residual_norms", "bp_grad_norms")]
    scores = [line["accuracy"] for line in untrained.values()]
    shown = [sum(cases), len(cases), *ends(scores), *ends(last[0]), *ends(last[1]), *ends(drift)]
    return weigh(cases, figures), shown


def c14(results):
    cases, figures, shown = [], [], []
    for run in finished(results, SOURCE, "dfa").values():
        lines = [line for line in run["trace"] if 1 <= line["epoch"] <= 100]
        if len(lines) < 100 or not all(line.get("alignment") for line in lines):
            raise Missing("Γ of some epoch")
        gammas = [np.mean(numbers(line["alignment"])[:-1]) for line in lines]
        low, high = float(min(gammas)), float(max(gammas))
        cases.append(low > 0)
        figures += [within(low, 0.087, 0.107, 0.05), within(high, 0.087, 0.107, 0.05)]
        shown += [low, high]
    return weigh(cases, figures), shown


def c18(results):
    methods = ("bp", *FAILING)
    runs = {(m, d): finished(results, "width_resmlp", f"{m} d{d}") for m in methods for d in (256, 512)}
    alike, stronger = [], []
    for method in methods:
        for seed, wide in runs[method, 512].items():
            narrow = runs[method, 256][seed]
            alike.append(fired(wide) & {"a", "b"} == fired(narrow) & {"a", "b"})
            if method != "bp":
                sizes = [growth(run["report"]["residual_norms"]) for run in (wide, narrow)]
                stronger.append(sizes[0] > sizes[1])
    grown = [growth(run["report"]["residual_norms"]) for run in runs["dfa", 512].values()]
    scores = [run["accuracy"] for run in runs["bp", 512].values()]
    figures = [*stronger, *(of_one_order(g, 6e3, 7e4) for g in grown), *(within(s, 0.6, 0.61, 0.03) for s in scores)]
    shown = [256, sum(alike), len(alike), sum(stronger), len(stronger), *ends(grown), *ends(scores)]
    return weigh(alike, figures), shown


def c24(results):
    places = {
        ("penalty_resmlp_d256", "bp"): 0.585,
        ("penalty_resmlp_d256", "bp:penalty=0.01"): 0.532,
        (PENALTY, "dfa"): 0.301,
        (PENALTY, "dfa:penalty=0.01"): 0.360,
    }
    means = [float(np.mean([run["accuracy"] for run in finished(results, *place).values()])) for place in places]
    cases = [within(mean, figure, figure, 0.03) for mean, figure in zip(means, places.values(), strict=True)]
    return weigh(cases), [means[0], 0.01, means[1], means[2], 0.01, means[3]]


def _ever_under_floor(run):
    lines = [line for line in run["trace"] if line["epoch"] >= 1]
    return any(not float(line["bp_grad_norms"][-1]) >= FLOOR for line in lines if line.get("bp_grad_norms"))


def c30(results):
    normed = {SOURCE: ("dfa",), "vit_mini_d128": ("dfa",)}
    bare = {
        "source_small_cnn": ("bp", "dfa", "state_bridge", "credit_bridge"),
        "small_cnn": ("bp", "dfa", "state_bridge", "credit_bridge", "ep", "dfa_textbook"),
        "source_no_terminal_norm": ("dfa",),
        "false_positives": ("digits: SmallCNN", "digits: no terminal norm", "synthetic_teacher: StudentNet"),
    }
    cases, counts = [], []
    for audits, expected in ((normed, True), (bare, False)):
        for audit, labels in audits.items():
            runs = [run for label in labels for run in finished(results, audit, label).values()]
            agree = [_ever_under_floor(run) is expected for run in runs]
            cases.append(all(agree))
            counts.append((sum(agree), len(agree)))
    return weigh(cases), counts


def _blocks(run):
    return numbers(run["report"]["alignment"]["sites"])[:-1]


def c31(results):
    runs = list(finished(results, SOURCE, "fa_block").values())
    cosines = [_blocks(run) for run in runs]
    cases = [blocks[-1] >= 0.9 and np.max(np.abs(blocks[:-1])) <= 0.2 for blocks in cosines]
    means = np.mean(cosines, axis=0)
    figures = np.abs(means - np.array([0.016, 0.072, -0.085, 0.997])) <= 0.05
    return weigh(cases, figures), [sum(cases), len(cases), *np.concatenate(cosines).tolist()]


def c38(results):
    weak, plain = (finished(results, PENALTY, label) for label in ("dfa:penalty=0.0001", "dfa"))
    mended = {x: [x in fired(plain[seed]) and x not in fired(weak[seed]) for seed in weak] for x in "ab"}
    still, figures, deep = [], [], []
    for run in weak.values():
        null, report = run["report"]["alignment"]["null"], run["report"]
        cosine, centre = float(np.mean(_blocks(run)[1:])), float(np.mean(numbers(null["site_means"])[1:-1]))
        spread = float(np.sqrt(np.sum(numbers(null["site_sds"])[1:-1] ** 2))) / (len(null["site_sds"]) - 2)
        still.append(not cosine > centre + 3 * spread)
        deep += [cosine, centre, spread]
        figures += [within(run["accuracy"], 0.36, 0.36, 0.03), within(cosine, -0.02, -0.02, 0.05)]
        figures += [of_one_order(float(report["residual_norms"][-1]), 2.2e4, 2.2e4)]
        figures += [of_one_order(float(report["bp_grad_norms"][-1]), 7e-7, 7e-7)]
    last = [[run["report"][name][-1] for run in weak.values()] for name in ("residual_norms", "bp_grad_norms")]
    counts = [number for found in (mended["a"], mended["b"], still) for number in (sum(found), len(found))]
    scores = [run["accuracy"] for run in weak.values()]
    status = weigh([*mended["a"], *mended["b"], *still], figures)
    return status, [*counts, *deep, *ends(last[0]), *ends(last[1]), *ends(scores)]


def c43(results):
    path = results / "toy_costate.json"
    if not path.exists():
        raise Missing(f"{path.name} is not on record")
    published = {"dfa": 0.001, "state_bridge": 0.945, "credit_bridge": 0.944}
    found = {method: float(load(path)[method]) for method in published}
    near = [abs(found[method] - figure) <= 0.05 for method, figure in published.items()]
    return weigh([found["state_bridge"] >= 0.9, found["credit_bridge"] >= 0.9], near), list(found.values())


SECOND = {
    "C03": c03, "C10": c10, "C11": c11, "C14": c14, "C18": c18, "C24": c24, "C30": c30, "C31": c31, "C38": c38,
    "C43": c43,
}  # fmt: skip
