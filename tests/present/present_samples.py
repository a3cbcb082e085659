"""Reports to render: one with everything measured, and every awkward one that could be thought of."""

from __future__ import annotations

import math
from typing import Any

from walkback.protocol.judge import judge
from walkback.protocol.records import (
    Alignment,
    DiagnosticReport,
    Interval,
    Measurements,
    NullAlignment,
    Reading,
    State,
)
from walkback.protocol.thresholds import DiagnosticThresholds

HOSTILE = "<script>alert(1)</script> \"q\" 'a' \\ | `x` \x1b[31m\n# h {%_&#$~^} @me :smile: [bold]b[/] שלום \u202eevil"

NAN, INF = math.nan, math.inf


def around(values: list[float], share: float = 0.02) -> tuple[Interval, ...]:
    how = f"order statistics, simultaneous over {len(values)} sites"
    return tuple(Interval(low=v * (1 - share), high=v * (1 + share), level=0.95, how=how) for v in values)


NORMS = [35824.796875, 73202040.0, 174312304.0, 339040960.0, 435299520.0]
GRADS = [4.39066155877299e-07, 4.1912620041273385e-09, 4.183721813433294e-09, 4.174094847542165e-09,
         4.174704582027289e-09]  # fmt: skip
SHARES = [0.0021, -0.00031, 0.00083, 0.00121, 0.0015]

ALIGNMENT = Alignment(
    sites=(0.429, -0.031, -0.012, -0.0254, 0.0017),
    site_medians=(0.441, -0.028, -0.011, -0.0234, 0.0021),
    deep=-0.0167,
    orders={"mean of site means": 0.0725, "median of site medians": -0.011},
    null=NullAlignment(
        draws=20,
        site_means=(0.0012, 0.0007, -0.0011, 0.0004, 0.0009),
        site_sds=(0.021, 0.0067, 0.0071, 0.0069, 0.0073),
        site_z=(20.4, -4.73, -1.54, -3.74, 0.11),
        deep_mean=0.0043,
        deep_sd=0.00702,
        deep_z=-2.99,
    ),
    neighbours=(0.0123, 0.0052, -0.0031, 0.0208),
    mark="(b) fired: a Γ from code that clamps norms would be wrong here.",
)


def full(**changes: Any) -> DiagnosticReport:
    """An exploded DFA network with every figure measured."""
    figures: dict[str, Any] = {
        "sites": ["stem", *(f"blocks.{i}" for i in range(4))],
        "site_reduction": "(B, d) as is",
        "samples": 1280,
        "residual_norms": NORMS,
        "residual_norm_intervals": around(NORMS),
        "bp_grad_norms": GRADS,
        "bp_grad_norm_intervals": around(GRADS, 0.05),
        "error_size": 0.912,
        "scale_free_gradients": [2.21, 41.3, 98.7, 191.0, 252.0],
        "reference_fidelity": [1.0, 0.99999, 0.99998, 1.0, 0.99997],
        "stability_layer": 2,
        "cross_batch_stability": 0.047060725092887876,
        "cross_batch_stability_interval": Interval(low=-0.011, high=0.105, level=0.95, how="jackknife over 10 groups"),
        "site_stabilities": [0.213, -0.041, 0.047060725092887876, 0.0662, 0.0893],
        "drift_shares": SHARES,
        "drift_share_intervals": [
            Interval(low=s - 0.0005, high=s + 0.0005, level=0.95, how="jackknife over 10 groups") for s in SHARES
        ],
        "groups": 10,
        "headline_acc": 0.3107,
        "headline_samples": 10000,
        "frozen_baseline_acc": 0.349,
        "frozen_baseline_samples": 10000,
        "nonfinite_hiddens": [0] * 5,
        "nonfinite_grads": [0] * 5,
        "nonfinite_logits": 0,
        "alignment": ALIGNMENT,
    }
    words = {"method_name": "DFA", "notes": "4-block d=256 ResMLP, CIFAR-10", "seed": 42}
    for name in ("method_name", "notes", "seed"):
        words[name] = changes.pop(name, words[name])
    after = {name: changes.pop(name) for name in ("warnings", "provenance", "readings") if name in changes}
    thresholds = changes.pop("thresholds", DiagnosticThresholds())
    report = judge(Measurements(**{**figures, **changes}), thresholds, **words)
    provenance = {"walkback": "0.1.0", "torch": "2.13.0", "device": "cpu", "precision": "float32"}
    return report.model_copy(update={"provenance": provenance, **after})


def healthy(**changes: Any) -> DiagnosticReport:
    """A BP network without a frozen baseline: three passes and a gap."""
    norms = [
        251.83087158203125,
        226.57342529296875,
        212.16461181640625,
        205.60723876953125,
        205.75946044921875,
    ]
    grads = [0.0004396044823806733, 0.0004709330096375197, 0.0004792391264345497, 0.00045345001854002476,
             0.0003701267414726317]  # fmt: skip
    return full(
        **{
            "method_name": "BP",
            "residual_norms": norms,
            "residual_norm_intervals": around(norms),
            "bp_grad_norms": grads,
            "bp_grad_norm_intervals": around(grads),
            "headline_acc": 0.6149,
            "frozen_baseline_acc": None,
            "frozen_baseline_samples": None,
            "alignment": None,
            **changes,
        }
    )


def empty() -> DiagnosticReport:
    """Nothing at all was measured."""
    return judge(Measurements(), DiagnosticThresholds())


def broken(value: float) -> DiagnosticReport:
    """The same non-finite value in every place that holds a number."""
    five = [value] * 5
    spread = tuple(Interval(low=value, high=value, level=0.95, how="") for _ in five)
    return full(
        residual_norms=five, residual_norm_intervals=spread, bp_grad_norms=five,
        bp_grad_norm_intervals=spread, error_size=value, scale_free_gradients=five,
        reference_fidelity=five, cross_batch_stability=value,
        cross_batch_stability_interval=spread[0], site_stabilities=five, drift_shares=five,
        drift_share_intervals=spread, nonfinite_hiddens=[0, 3, 128, 128, 128], nonfinite_grads=[128] * 5,
        nonfinite_logits=17, extra={"trace": value},
        alignment=Alignment(
            # A cosine that is undefined is NaN; none is infinite.
            sites=[NAN] * 5, site_medians=[NAN] * 5, deep=NAN, orders={"mean": value}, neighbours=[NAN] * 4,
            null=NullAlignment(
                draws=2, site_means=five, site_sds=five, site_z=five,
                deep_mean=value, deep_sd=value, deep_z=value,
            ),
        ),
    )  # fmt: skip


def broken_scores() -> DiagnosticReport:
    return full(headline_acc=NAN, frozen_baseline_acc=NAN)


def many_sites(count: int = 200) -> DiagnosticReport:
    norms = [8.7 * 1.01**i * (80 if i >= 120 else 1) for i in range(count)]
    grads = [8e-3 / (1 + i) for i in range(count)]
    return full(
        sites=[f"transformer.encoder.layer.{i}.output.dense" for i in range(count)],
        residual_norms=norms, residual_norm_intervals=around(norms), bp_grad_norms=grads,
        bp_grad_norm_intervals=around(grads), scale_free_gradients=[2.0] * count,
        reference_fidelity=[1.0] * count, site_stabilities=[0.1] * count, cross_batch_stability=0.1,
        drift_shares=[0.001] * count,
        drift_share_intervals=None, nonfinite_hiddens=None, nonfinite_grads=None, stability_layer=100,
        alignment=Alignment(
            sites=[0.2] * count, deep=0.2, neighbours=[0.01] * (count - 1), no_null="BP has none"
        ),
    )  # fmt: skip


def one_block() -> DiagnosticReport:
    return judge(
        Measurements(residual_norms=[8.7, 9.1], bp_grad_norms=[8e-3, 8.1e-3], headline_acc=0.1),
        DiagnosticThresholds(),
        method_name="init",
    )


def hostile() -> DiagnosticReport:
    long = (HOSTILE + " ") * 120
    report = full(
        method_name=HOSTILE, notes=long, sites=[f"{HOSTILE}{i}" for i in range(5)], site_reduction=HOSTILE,
        extra={HOSTILE: 1.5}, warnings=(HOSTILE, long), provenance={HOSTILE: HOSTILE},
        alignment=ALIGNMENT.model_copy(update={"mark": HOSTILE, "orders": {HOSTILE: 0.1}}),
    )  # fmt: skip
    readings = tuple(r.model_copy(update={"sentence": HOSTILE}) for r in report.readings)
    return report.model_copy(update={"readings": readings})


def undecided() -> DiagnosticReport:
    report = healthy(warnings=("credit at site 3 is constant over samples",), seed=None)
    reading = report.reading("a").model_copy(update={"state": State.UNDECIDED, "sentence": "Only a bound is known."})
    others = tuple(r for r in report.readings if r.letter != "a")
    return report.model_copy(update={"readings": (reading, *others), "complete": False})


def no_feedback() -> DiagnosticReport:
    why = "the checkpoint holds no feedback matrices"
    return full(alignment=Alignment(unavailable=why))


def bare_reading() -> DiagnosticReport:
    """A diagnostic of someone's own, with no threshold and nothing said."""
    reading = Reading(letter="e", name="own figure", state=State.PASS, value=1.5)
    return full(readings=(reading,))


def fragile() -> DiagnosticReport:
    norms = [1.0, 50.4, 51.0, 51.0, 52.0]
    return full(residual_norms=norms, residual_norm_intervals=around(norms))


def zeros() -> DiagnosticReport:
    """A stream that ends at its first block, and no gradient at all."""
    return full(
        residual_norms=[8.7, 0.0, 0.0, 0.0, 0.0], residual_norm_intervals=None, bp_grad_norms=[0.0] * 5,
        bp_grad_norm_intervals=None,
    )  # fmt: skip


def extremes() -> DiagnosticReport:
    norms, grads = [1e-320, 1e307, 1e-300, 1e300, 1.0], [1e307, 1e-38, 5e-324, 1.0, 1e300]
    return full(
        residual_norms=norms, residual_norm_intervals=around(norms), bp_grad_norms=grads,
        bp_grad_norm_intervals=around(grads),
    )  # fmt: skip


AWKWARD: dict[str, DiagnosticReport] = {
    "full": full(),
    "healthy": healthy(),
    "empty": empty(),
    "nan": broken(NAN),
    "inf": broken(INF),
    "minus_inf": broken(-INF),
    "nan_scores": broken_scores(),
    "many_sites": many_sites(),
    "one_block": one_block(),
    "hostile": hostile(),
    "undecided": undecided(),
    "no_feedback": no_feedback(),
    "bare_reading": bare_reading(),
    "fragile": fragile(),
    "zeros": zeros(),
    "extremes": extremes(),
}
"""Every report that a renderer must survive, by name."""
