"""Claims that rest on the source study's definitions: results made for each status."""

from __future__ import annotations

from types import MappingProxyType

from claim_builders import (
    BRIDGE,
    BROKEN,
    EP,
    FAILING,
    LONG,
    NOT,
    NOT_RUN,
    PARTLY,
    REPRODUCED,
    SEEDS,
    UNDECIDED,
    Behind,
    five,
    in_one,
    joined,
    runs,
    seeds,
)
from own_cases import cnn as own_cnn
from own_cases import vit

from reference.made_results import epoch, null

SOURCE, PENALTY, OWN_PENALTY = "source_resmlp_d256_100ep", "source_penalty_resmlp_d256", "penalty_resmlp_d256"
FAILS_BY_D = seeds("credit_bridge", acc=0.3, frozen=0.349, growth=45.0)
SITES = [0.34, 0.0, 0.0, 0.0, 0.0]
ORDERS = {"all: one": -0.03, "all: two": 0.07, "deep: one": -0.2}
ALIGNED = {**BROKEN, "gamma": SITES, "with_null": null(0.004, 0.01), "orders": ORDERS}
FA_BLOCKS = [0.016, 0.072, -0.085, 0.997, 1.0]
FA = {"acc": 0.4, "frozen": 0.348, "gamma": FA_BLOCKS}


def sourced(behind=MappingProxyType({}), **replaced):
    """The main audit as published, over the three audits that hold it, but for some methods."""
    rows = five(fa_block=seeds("fa_block", **FA)) | replaced
    main = in_one({label: rows[label] for label in (*FAILING, "fa_block")})
    return {f"audit_{SOURCE}": Behind(main, dict(behind)), "audit_source_ep": rows["ep"], f"audit_{LONG}": rows["bp"]}


def aligned(*changes, **figures):
    return sourced(dfa=seeds("dfa", *changes, **ALIGNED | figures))


def policies(mixed=MappingProxyType({}), lacking=MappingProxyType({}), **changes):
    """The ablations of the three audits: which methods each policy walks back, on all seeds or on one."""
    three = list(FAILING)
    found = {"S0": [], "S1": [], "S2": three, "S3": three, "S4": three, "S5": [], "S_full": three} | changes

    def method(label):
        counts = {policy: 3 * (label in back) or int(label in mixed.get(policy, ())) for policy, back in found.items()}
        return {"label": label, "seeds": 3, "walked_back": counts}

    places = {LONG: ("bp", "dfa", "dfa_textbook"), SOURCE: (*FAILING, "fa_block"), "source_ep": ("ep",)}
    about = {"unmeasured": {"d": 0}, "without_alignment": 0}
    return {
        f"ablation_{audit}": about | {"methods": [method(label) for label in labels]} | lacking.get(audit, {})
        for audit, labels in places.items()
    }


def long(*firsts, bp=((None, None, None),), **fields):
    """Temporal studies of the long runs: DFA as given, BP that never fires."""
    return {f"temporal_{SOURCE}": runs("dfa", *firsts, **fields), f"temporal_{LONG}": runs("bp", *bp, **fields)}


def stops(*each):
    entries = [
        {"label": "dfa", "seed": seed, "epochs": 100, "stops": {"(a) or (b)": stop}}
        for seed, stop in zip(SEEDS, each if len(each) == 3 else each * 3, strict=True)
    ]
    return {f"early_stop_{SOURCE}": {"runs": entries}}


def stop(at=4, saved=0.96, cost=0.5):
    return {"epoch": at, "saved": saved, "cost_pp": cost}


def traces(label, epochs, *, first=MappingProxyType({}), last=MappingProxyType({}), **figures):
    """Runs of three seeds whose epochs are alike, but for the untrained network and the last epoch."""
    own = {0: first, epochs: last}
    lines = [epoch(number, **figures | own.get(number, {})) for number in range(epochs + 1)]
    return {(label, seed): {"trace": lines} for seed in SEEDS}


def gammas(*sites, epochs=100, last=None):
    """The long runs of DFA with these cosines at h_0 … h_L, and others at the last epoch."""
    own = {"gamma": last} if last else {}
    return sourced(behind=traces("dfa", epochs, gamma=sites, last=own))


def no_norm(*firsts, accuracy=0.33, epochs=100, **figures):
    return {
        "audit_source_no_terminal_norm": seeds("dfa", **{"growth": 1e3, "h": 1.2e7, "g": 7.2e-4} | figures),
        "temporal_source_no_terminal_norm": runs(
            "dfa", *firsts or [(20, None, None)], final_accuracy=accuracy, epochs=epochs
        ),
    }


def cnn(b=None, ep_b=None, **replaced):
    """The source's SmallCNN as published but for some methods, with (b) first at an epoch or never; EP on our own."""
    rows = {
        "bp": seeds("bp"),
        "dfa": seeds("dfa", growth=237.0),
        "state_bridge": seeds("state_bridge"),
        "credit_bridge": seeds("credit_bridge", growth=96.0),
    } | replaced
    temporal = joined(*(runs(label, (None, b, b)) for label in rows))
    return {"audit_source_small_cnn": in_one(rows), "temporal_source_small_cnn": temporal, **own_cnn(ep_b)}


def terminal(b=5, **others):
    """Networks with and without a terminal norm as published, but for what is given."""
    resmlp = {f"temporal_{SOURCE}": runs("dfa", (3, b, b))}
    return {**resmlp, **vit(), **cnn(), **no_norm(), **fitted(), **others}


def fitted(b=None):
    """Healthy networks without a terminal norm: on SmallCNN (b) first fires at an epoch, or never."""
    labels = {"digits: SmallCNN": b, "digits: no terminal norm": None, "synthetic_teacher: StudentNet": None}
    return {"temporal_false_positives": joined(*(runs(label, (None, at, at)) for label, at in labels.items()))}


PENALISED, WEAKLY, WEAKEST = (f"dfa:penalty={strength}" for strength in ("0.01", "0.001", "0.0001"))
STATE, CREDIT = "state_bridge:penalty=0.01", "credit_bridge:penalty=0.01"
NULL = null(0.002, 0.022)
REPAIRED = {"acc": 0.36, "frozen": 0.349, "h": 4e4, "g": 1e-6, "gamma": [0.151] * 5, "with_null": NULL}
WEAK = {"acc": 0.36, "frozen": 0.349, "h": 2.2e4, "g": 7e-7, "gamma": [-0.02] * 5, "with_null": NULL}
STATE_ROW = {"acc": 0.453, "frozen": 0.349, "gamma": [0.322] * 5}
CREDIT_ROW = {"acc": 0.36, "frozen": 0.349, "gamma": [0.679] * 5}
FUNCTIONAL = {PENALISED: (0.08, -4.98e-5, 0.095), STATE: (0.402, -1.93e-3, 0.447), CREDIT: (0.464, -4.26e-4, 0.121)}


def penalty(largest=0.01, epochs=30, functional=MappingProxyType({}), bp=0.585, bp_penalised=0.532, **replaced):
    """The penalty as published but for some rows; without it the deep cosine is never larger than that."""
    rows = {
        "dfa": seeds("dfa", **BROKEN, gamma=[0.0] * 5, with_null=null(0.0, 0.02)),
        PENALISED: seeds(PENALISED, **REPAIRED),
        WEAKLY: seeds(WEAKLY, acc=0.37, frozen=0.346),
        WEAKEST: seeds(WEAKEST, **WEAK),
        STATE: seeds(STATE, **STATE_ROW),
        CREDIT: seeds(CREDIT, **CREDIT_ROW),
    } | replaced
    course = traces("dfa", epochs, gamma=[0.4, largest, largest, largest, 0.0])
    tests = {(label, seed): tested(*figures) for label, figures in (FUNCTIONAL | functional).items() for seed in SEEDS}
    own = [*seeds("bp", acc=bp), *seeds("bp:penalty=0.01", acc=bp_penalised)]
    return {f"audit_{PENALTY}": Behind(in_one(rows), course | tests), f"audit_{OWN_PENALTY}": own}


def tested(rho, nudge, decrease):
    """The functional tests in a run's file: at h_0 and h_L, which do not count, whatever."""
    by_credit = {"unit_rms": {"rho": [9.0, *[rho] * 3, 9.0]}}
    functional = {
        "perturbation": {"absolute": {"credit": by_credit}},
        "nudge": {"unit_rms": {"0.01": {"mean": [9.0, *[nudge] * 3, 9.0]}}},
    }
    losses = [{"epoch": epoch, "loss": loss} for epoch, loss in enumerate([None, decrease + 1.5, 1.7, 1.5])]
    return {"functional": functional, "trace": losses}


def deeper(*accuracies, site_zero=0.39, deep=0.0):
    """d = 512 with 4 and 8 blocks: FA of these accuracies, DFA of 0.3."""
    rows = zip((4, 8), accuracies, strict=False)
    gamma = [site_zero, deep, deep, deep, 0.0]
    reports = [
        report
        for depth, fa in rows
        for report in (*seeds(f"fa_block depth {depth}", acc=fa), *seeds(f"dfa depth {depth}", acc=0.3, gamma=gamma))
    ]
    return {**sourced(), "audit_source_depth": reports}


def student(first=None, growth=5.0, epochs=80):
    return {
        "audit_source_student_net": Behind(seeds("dfa"), traces("dfa", epochs, growth=growth)),
        "temporal_source_student_net": runs("dfa", (first, None, None), epochs=epochs),
    }


def random_targets(dfa=1451.0, state=622.5, credit=1997.4, ep=58.6, epochs=5):
    """‖h_L‖ of each method at every epoch, in tens: that of the untrained network is 10."""
    grown = {"dfa": dfa, "state_bridge": state, "credit_bridge": credit, "ep": ep}
    behind = {
        place: run
        for label, growth in grown.items()
        for place, run in traces(label, epochs, growth=growth, first={"growth": 1.0}).items()
    }
    return {"audit_source_random_targets": Behind([r for label in grown for r in seeds(label)], behind)}


def no_skip(*changes, **figures):
    return {"audit_source_no_skip": seeds("dfa", *changes, **BROKEN | {"h": 5e7, "g": 2e-10} | figures)}


TEN = (*SEEDS, 1, 2, 3, 4, 5, 6, 7)


def two_blocks(*accuracies, gamma=0.48, of=TEN):
    """FA of two blocks against 0.349 frozen, with Γ of this over its blocks; 0.40 on the seeds that are not given."""
    own = [{"acc": acc} for acc in accuracies]
    reports = seeds("fa_block depth 2", *own, of=of, acc=0.40, frozen=0.349, gamma=[gamma - 0.48, gamma + 0.48, 1.0])
    return {"audit_source_depth_2": reports}


RISING, FALLING = (0.37, 0.47, 0.53, 0.57, 0.595), (0.35, 0.33, 0.32, 0.31, 0.3)


def ladder(bp=RISING, dfa=FALLING):
    """Accuracies by k = 0 … 4."""
    rungs = {"bp": bp, "dfa": dfa}
    reports = [
        report
        for method, (frozen, *others) in rungs.items()
        for k, acc in enumerate(others, start=1)
        for report in seeds(f"{method} ladder {k}", acc=acc, frozen=frozen)
    ]
    return {"audit_source_ladder": reports}


def cifar100(fa=0.133, dfa=0.088, frozen=0.178):
    rows = {
        "bp": seeds("bp", acc=0.321),
        **{k: seeds(k, acc=v, frozen=frozen) for k, v in (("fa_block", fa), ("dfa", dfa))},
    }
    return {"audit_source_cifar100": in_one(rows)}


def toy(dfa=0.001, state_bridge=0.945, credit_bridge=0.944):
    return {"toy_costate": {"dfa": dfa, "state_bridge": state_bridge, "credit_bridge": credit_bridge}}


MAIN_CASES = [
    *((f"C{n:02d}", sourced(), REPRODUCED) for n in (2, 3, 4, 5, 6, 7, 8, 9, 28, 29, 31)),
    ("C02", sourced(dfa=seeds("dfa", **BROKEN | {"h": 1e7})), PARTLY),
    ("C02", sourced(dfa=seeds("dfa", {"growth": 2.0}, **BROKEN)), PARTLY),
    ("C02", sourced(dfa=seeds("dfa", **BROKEN | {"g": 1e-5})), NOT),
    ("C03", sourced(state_bridge=seeds("state_bridge", **BRIDGE | {"acc": 0.3})), PARTLY),
    ("C03", sourced(state_bridge=seeds("state_bridge", **BRIDGE | {"g": 1e-5})), NOT),
    ("C04", sourced(credit_bridge=seeds("credit_bridge", **BROKEN | {"acc": 0.2})), PARTLY),
    ("C04", sourced(credit_bridge=seeds("credit_bridge")), NOT),
    ("C05", sourced(ep=seeds("ep", **EP | {"acc": 0.5})), PARTLY),
    ("C05", sourced(ep=seeds("ep", **EP | {"c": 0.5})), NOT),
    ("C06", sourced(dfa=seeds("dfa", **BROKEN)), NOT),
    ("C06", sourced(dfa=seeds("dfa", {"c": 0.4, "c_interval": None}, **BROKEN, **UNDECIDED)), NOT),
    ("C07", sourced(ep=seeds("ep", **EP | {"frozen": 0.35})), PARTLY),
    ("C07", sourced(dfa=seeds("dfa", **BROKEN | {"growth": 60.0, "acc": 0.2}), credit_bridge=FAILS_BY_D), PARTLY),
    ("C07", sourced(ep=seeds("ep", **EP | {"growth": 45.0}), dfa=seeds("dfa", **BROKEN | {"growth": 60.0})), NOT),
    ("C08", sourced(ep=seeds("ep", **EP | {"frozen": 0.35})), PARTLY),
    ("C08", sourced(ep=seeds("ep", **EP, **UNDECIDED)), REPRODUCED),  # which walks no network back
    ("C08", sourced(dfa=seeds("dfa", **BROKEN | {"g": 9e-8})), PARTLY),  # 1667 times apart, not 24,338
    ("C08", sourced(ep=seeds("ep", **EP | {"g": 2e-7}), dfa=seeds("dfa", **BROKEN | {"g": 9e-8})), NOT),
    ("C08", sourced(**{label: seeds(label, **BROKEN | {"g": 0.0}) for label in FAILING}), REPRODUCED),
    ("C09", sourced(ep=seeds("ep", UNDECIDED, **EP)), PARTLY),
    ("C09", sourced(ep=seeds("ep", {"c": 0.5}, **EP)), PARTLY),
    ("C09", sourced(ep=seeds("ep", **EP | {"c": 0.5}), bp=seeds("bp", c=0.5)), NOT),
    ("C10", policies(), REPRODUCED),
    ("C10", policies(S1=["ep"]), REPRODUCED),
    ("C10", policies(S2=[*FAILING, "fa_block"], S_full=[*FAILING, "fa_block"]), REPRODUCED),  # FA is none of the five
    ("C10", policies(S3=["dfa"]), PARTLY),
    ("C10", policies(mixed={"S_full": ["bp"]}), PARTLY),  # one seed of a healthy method walked back
    ("C10", policies(mixed={"S1": ["dfa"]}), NOT),  # found on some seeds is not found on none
    ("C10", policies(S_full=[*FAILING, "ep"]), PARTLY),
    ("C10", policies(S1=["dfa"]), NOT),
    ("C10", policies(S_full=["dfa"]), NOT),
    *(
        ("C10", policies(lacking={audit: lacking}), NOT_RUN)
        for audit in (LONG, SOURCE, "source_ep")
        for lacking in ({"unmeasured": {"d": 1}}, {"without_alignment": 1}, {"methods": []})
    ),
    ("C12", long((10, 20, 4)), REPRODUCED),
    ("C12", long((30, 40, 20)), PARTLY),
    ("C12", long((3, 4, 4)), PARTLY),  # (a) sooner than published
    ("C12", long((10, None, 4)), NOT),
    ("C12", long((10, 20, 4), bp=[(None, 5, 5)]), NOT),
    ("C12", long((10, 20, 4), epochs=30), NOT_RUN),
    ("C12", long((10, 20, 4), measured={"a": 99, "b": 99, "b at 1024": 99}), NOT_RUN),  # BP's `never` is of 99 epochs
    ("C13", stops(stop()), REPRODUCED),
    ("C13", stops(stop(cost=3.0)), PARTLY),
    ("C13", stops(stop(at=40, saved=0.6, cost=3.0)), NOT),
    ("C13", stops(stop(), stop(), None), NOT),
    ("C14", gammas(0.4, 0.0, 0.0, 0.0, -0.9), REPRODUCED),  # h_L is read by no block
    ("C14", gammas(0.4, 0.0, 0.0, 0.0, 0.0, last=[0.04, 0.0, 0.0, 0.0, 0.0]), PARTLY),
    ("C14", gammas(0.4, 0.0, 0.0, 0.0, 0.0, last=[-0.04, 0.0, 0.0, 0.0, 0.0]), NOT),
    ("C14", gammas(0.4, 0.0, 0.0, 0.0, 0.0, epochs=99), NOT_RUN),
    ("C14", sourced(behind=traces("dfa", 100, gamma=())), NOT_RUN),
    ("C19", aligned(), REPRODUCED),
    ("C19", aligned(gamma=[0.5] * 5), PARTLY),
    ("C19", aligned(with_null=null(0.07, 0.01)), NOT),
    ("C19", aligned(with_null=None), NOT_RUN),
    ("C20", aligned(), REPRODUCED),
    ("C20", aligned(orders={"all: one": -0.03, "all: two": 0.2}), PARTLY),
    ("C20", aligned(orders={"all: one": 0.01, "all: two": 0.07, "deep: one": -0.2}), NOT),
    ("C20", aligned({"orders": {}}), NOT_RUN),
    ("C20", aligned({"gamma": None}), NOT_RUN),
    ("C21", aligned(), REPRODUCED),
    ("C21", aligned(gamma=[0.34, 0.0, 0.0, 0.0, 0.9]), REPRODUCED),  # h_L is read by no block
    ("C21", aligned({"gamma": [0.1] * 5}), PARTLY),
    ("C21", aligned(gamma=[0.1] * 5), NOT),
    ("C28", sourced(fa_block=seeds("fa_block", **FA | {"acc": 0.5})), PARTLY),
    ("C28", sourced(fa_block=seeds("fa_block", **FA | {"gamma": [0.33] * 5})), PARTLY),  # as a mean, not per block
    ("C28", sourced(fa_block=seeds("fa_block", **FA | {"frozen": 0.30})), PARTLY),
    ("C28", sourced(fa_block=seeds("fa_block", **FA | {"acc": 0.2})), NOT),
    ("C28", sourced(fa_block=seeds("fa_block", **FA | {"g": 1e-8})), NOT),
    ("C28", deeper(0.4, 0.4), REPRODUCED),
    ("C28", deeper(0.4), NOT_RUN),  # the other depth is not on record
    ("C28", sourced(fa_block=seeds("fa_block", {"gamma": None}, **FA)), NOT_RUN),
    ("C28", deeper(0.4, 0.2), PARTLY),
    ("C29", sourced(dfa=seeds("dfa", **BROKEN | {"frozen": 0.37})), PARTLY),
    ("C29", sourced(dfa=seeds("dfa", **BROKEN | {"frozen": 0.45})), NOT),
    ("C29", sourced(dfa=seeds("dfa", {"frozen": None}, **BROKEN)), NOT_RUN),
    ("C31", sourced(fa_block=seeds("fa_block", **FA | {"gamma": [0.15, 0.0, 0.0, 0.99, 1.0]})), PARTLY),
    ("C31", sourced(fa_block=seeds("fa_block", {"gamma": [0.3] * 5}, **FA)), PARTLY),
    ("C31", sourced(fa_block=seeds("fa_block", **FA | {"gamma": [0.33] * 5})), NOT),
    ("C31", sourced(fa_block=seeds("fa_block", **FA | {"gamma": [0.0, 0.0, -0.5, 0.99, 1.0]})), NOT),  # another block's
    ("C31", sourced(fa_block=seeds("fa_block", **FA | {"gamma": [0.0, 0.0, 0.0, 0.3, 1.0]})), NOT),  # h_L
    ("N03", long((3, 4, 2), (3, 5, 2), (5, None, 2)), REPRODUCED),
    ("N03", long((3, 4, 2), (3, 3, 2), (5, None, 2)), PARTLY),  # together is not before
    ("N03", long((3, 4, 2), (3, 2, 1), (5, None, 2)), PARTLY),
    ("N03", long((5, 4, 2)), NOT),
]  # fmt: skip

PENALTY_CASES = [
    *((c, penalty(), REPRODUCED) for c in ("C22", "C23", "C24", "C25", "C26", "C27", "C36", "C37", "C38")),
    ("C22", penalty(dfa=seeds("dfa", h=4e8)), PARTLY),  # nothing to repair, and (d) fires
    ("C22", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"acc": 0.45})}), PARTLY),
    ("C22", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"g": 3e-5})}), PARTLY),
    ("C22", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"frozen": 0.36})}), PARTLY),  # a margin of 0
    ("C22", penalty(**{PENALISED: seeds(PENALISED, **BROKEN | {"frozen": 0.1})}), NOT),
    ("C23", penalty(**{WEAKLY: seeds(WEAKLY, acc=0.40, frozen=0.346)}), PARTLY),
    ("C23", penalty(**{WEAKLY: seeds(WEAKLY, acc=0.35, frozen=0.346)}), NOT),
    ("C23", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"frozen": 0.3})}), NOT),  # whatever λ is
    ("C24", penalty(bp=0.4), PARTLY),
    ("C24", penalty(bp=0.8, bp_penalised=0.8, **{x: seeds(x, acc=0.8) for x in ("dfa", PENALISED)}), NOT),
    ("C25", penalty(bp_penalised=0.6), PARTLY),
    ("C25", penalty(bp_penalised=0.38), NOT),
    ("C26", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"gamma": [0.3] * 5})}), PARTLY),
    ("C26", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"gamma": [0.01] * 5})}), NOT),
    ("C26", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"gamma": [0.9, 0.0, 0.0, 0.0, 0.9]})}), NOT),
    ("C27", penalty(**{PENALISED: seeds(PENALISED, {"gamma": [0.01] * 5}, **REPAIRED)}), PARTLY),
    ("C27", penalty(largest=0.1), NOT),  # there without the penalty too
    ("C27", penalty(largest=-0.1), NOT),
    ("C27", penalty(epochs=29), NOT_RUN),
    ("C27", penalty(**{PENALISED: seeds(PENALISED, **REPAIRED | {"gamma": [0.01] * 5})}), NOT),  # nor with it
    ("C36", penalty(**{STATE: seeds(STATE, **STATE_ROW | {"acc": 0.37})}), PARTLY),  # not far more accurate
    ("C36", penalty(**{CREDIT: seeds(CREDIT, **CREDIT_ROW | {"acc": 0.40})}), PARTLY),  # no longer as DFA is
    ("C36", penalty(**{CREDIT: seeds(CREDIT, **CREDIT_ROW | {"gamma": [0.3] * 5})}), PARTLY),  # the cosine's order
    ("C36", penalty(functional={STATE: (0.402, -6e-4, 0.447)}), PARTLY),  # a nudge of 1.4 times Credit Bridge's
    ("C36", penalty(functional={STATE: (0.402, -1.93e-3, 0.2)}), PARTLY),
    ("C36", penalty(functional={CREDIT: (0.3, -4.26e-4, 0.121)}), PARTLY),  # ρ
    ("C36", penalty(
        functional={STATE: (0.402, 1e-3, 0.01)},
        **{STATE: seeds(STATE, **STATE_ROW | {"acc": 0.3, "gamma": [0.9] * 5})},
    ), NOT),
    ("C36", penalty(functional={STATE: (None, -1.93e-3, 0.447)}), NOT_RUN),
    ("C37", penalty(**{STATE: seeds(STATE, **STATE_ROW | {"acc": 0.40})}), PARTLY),
    ("C37", penalty(**{STATE: seeds(STATE, {"acc": 0.36}, **STATE_ROW)}), PARTLY),
    ("C37", penalty(**{STATE: seeds(STATE, **STATE_ROW | {"acc": 0.36})}), NOT),
    ("C38", penalty(**{WEAKEST: seeds(WEAKEST, **WEAK | {"gamma": [0.151] * 5})}), PARTLY),  # it is there
    ("C38", penalty(**{WEAKEST: seeds(WEAKEST, **WEAK | {"h": 2e6})}), PARTLY),
    ("C38", penalty(**{WEAKEST: seeds(WEAKEST, **BROKEN | {"gamma": [0.151] * 5, "with_null": NULL})}), NOT),
]  # fmt: skip

OTHER_CASES = [
    *((c, no_norm(), REPRODUCED) for c in ("C16", "C33")),
    ("C16", no_norm((2, None, None)), PARTLY),
    ("C16", no_norm(accuracy=0.4), PARTLY),
    ("C16", no_norm((20, 21, 20)), NOT),
    ("C16", no_norm(epochs=30), NOT_RUN),
    ("C17", cnn(), REPRODUCED),
    ("C17", cnn(dfa=seeds("dfa", growth=9e3)), PARTLY),
    ("C17", cnn(state_bridge=seeds("state_bridge", growth=90.0)), PARTLY),
    ("C17", cnn(b=3), PARTLY),  # (b) fired on the way, but for EP, which is of another record
    ("C17", cnn(b=3, ep_b=3), NOT),
    ("C30", terminal(), REPRODUCED),
    ("C30", terminal(b=None), PARTLY),
    ("C30", terminal(**fitted(b=60)), PARTLY),  # it fires without a norm, on a confident network
    ("C30", terminal(
        b=None, **vit((1, None, 2)), **cnn(b=3, ep_b=3), **no_norm((20, 21, 20)), **fitted(b=60)
    ), NOT),
    ("C32", student(), REPRODUCED),
    ("C32", student(growth=30.0), PARTLY),
    ("C32", student(first=40, growth=60.0), NOT),
    ("C32", student(epochs=40), NOT_RUN),
    ("C33", no_norm(h=1e9), PARTLY),
    ("C33", no_norm(g=1e-6), PARTLY),
    ("C33", no_norm((40, None, None), (60, None, None), (20, None, None)), PARTLY),
    ("C33", no_norm((None, None, None)), NOT),
    ("C34", random_targets(), REPRODUCED),
    ("C34", random_targets(dfa=1.5e5), PARTLY),  # it grows too fast
    ("C34", random_targets(ep=150.0), PARTLY),
    ("C34", random_targets(dfa=5.0, state=5.0, credit=5.0, ep=1e3), NOT),
    ("C34", random_targets(epochs=4), NOT_RUN),  # EP is read at epoch 5
    ("C35", no_skip(), REPRODUCED),
    ("C35", no_skip(h=1e10), PARTLY),
    ("C35", no_skip({"g": 1e-5}), PARTLY),
    ("C35", no_skip(g=1e-5), NOT),
    ("C39", two_blocks(0.341, 0.345, 0.347), REPRODUCED),
    ("C39", two_blocks(0.36, 0.36), PARTLY),  # (d) fires, and none is under frozen
    ("C39", two_blocks(0.341, 0.345, gamma=0.3), PARTLY),
    ("C39", two_blocks(*[0.341] * 10), PARTLY),  # on all is not on some
    ("C39", two_blocks(), NOT),
    ("C39", two_blocks(0.341, of=TEN[:9]), NOT_RUN),
    ("C40", cifar100(), REPRODUCED),
    ("C40", cifar100(fa=0.2), PARTLY),
    ("C40", cifar100(frozen=0.3), PARTLY),
    ("C40", cifar100(fa=0.2, dfa=0.2), NOT),
    ("C41", ladder(), REPRODUCED),
    ("C41", ladder(bp=(0.37, 0.47, 0.46, 0.57, 0.595)), PARTLY),
    ("C41", ladder(bp=(0.37, 0.38, 0.39, 0.40, 0.41)), PARTLY),  # it rises, but by 4 points
    ("C41", ladder(dfa=(0.35, 0.33, 0.36, 0.31, 0.3)), PARTLY),
    ("C41", ladder(bp=FALLING, dfa=RISING), NOT),
    ("C41", ladder(dfa=(None, 0.33, 0.36, 0.31, 0.3)), NOT_RUN),
    ("C42", deeper(0.4, 0.4), REPRODUCED),
    ("C42", deeper(0.4, 0.4, site_zero=0.25), PARTLY),
    ("C42", deeper(0.4, 0.4, deep=0.2), NOT),
    ("C42", deeper(0.4), NOT_RUN),
    ("C43", toy(), REPRODUCED),
    ("C43", toy(dfa=0.3), PARTLY),
    ("C43", toy(credit_bridge=0.5), PARTLY),
    ("C43", toy(state_bridge=0.5, credit_bridge=0.5), NOT),
]  # fmt: skip
