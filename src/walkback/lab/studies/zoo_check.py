"""Does the zoo behave as its recipes say? Short CIFAR-10 runs, each beside what a prototype of it showed.

Before a method of the zoo was written, its recipe was tried in a prototype: other code, mostly one seed, not part of
this project. Prototypes say what to expect, and their figures stand in the last column. A row says “same order” where
every one of them is met within what is stated below, or differs and how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from walkback.lab.registry import METHODS
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.stamp import stamp
from walkback.lab.runs.store import RunStore
from walkback.present.page import Grid, Page
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth
from walkback.protocol.judge import read
from walkback.protocol.records import Measurements, State
from walkback.protocol.wording import written
from walkback.watch.trace_line import TraceLine

ACCURACY_TOLERANCE = 0.05
"""How far an accuracy may lie from the prototype's and still be called the same."""
FACTOR = 10.0
"""How many times larger or smaller a norm, a growth or a gradient may be and still be of the same order."""
COSINE_TOLERANCE = 0.1
SEEN = (ResidualGrowth.letter, GradientFloor.letter)
"""The diagnostics whose firing the prototypes tell of."""


@dataclass(frozen=True)
class Recipe:
    """One run and what the prototype of it showed; a range is (low, high)."""

    name: str
    settings: Mapping[str, Any]
    accuracy: tuple[float, float]
    growth: tuple[float, float] | None = None
    gradient: tuple[float, float] | None = None
    stream: tuple[float, float] | None = None
    """‖h_L‖."""
    deep_cosine: tuple[float, float] | None = None
    fires: str | None = None
    """The letters among a and b that fired in the prototype; None where it does not say."""
    seeds: tuple[int, ...] = (42,)

    @property
    def expected(self) -> dict[str, Any]:
        """What the prototype showed, without what it did not."""
        figures = {name: getattr(self, name) for name in (*CHECKS, "fires")}
        return {name: figure for name, figure in figures.items() if figure is not None}

    def configs(self, precision: str = "fp32") -> list[RunConfig]:
        """The runs of this recipe, one per seed."""
        common = {"architecture": "resmlp", "data": "cifar10", "precision": precision}
        return [RunConfig(**common, **self.settings, seed=seed) for seed in self.seeds]


PER_SAMPLE = {"credit_norm": "per_sample"}
FAST = {"learning_rate": 3e-3, "schedule": "constant", "optimizer": "adam", "weight_decay": 0.0}

RECIPES: Sequence[Recipe] = (
    Recipe("BP, cosine, 6 epochs", {"method": "bp", "epochs": 6}, (0.515, 0.515), fires=""),
    Recipe(
        "BP, constant rate, 30 epochs", {"method": "bp", "epochs": 30, "schedule": "constant"}, (0.579, 0.579),
        growth=(1.05, 1.05), gradient=(2.2e-4, 2.2e-4), stream=(270, 290), fires="",
    ),
    Recipe(
        "FA, 8 epochs", {"method": "fa", "epochs": 8}, (0.455, 0.455), growth=(1.09, 1.09), deep_cosine=(0.33, 0.41),
        fires="",
    ),
    Recipe(
        "DFA per sample, constant rate, 12 epochs",
        {"method": "dfa", "method_options": PER_SAMPLE, "epochs": 12, "schedule": "constant"}, (0.27, 0.30),
        growth=(1100, 1100), gradient=(8e-9, 8e-9), stream=(4.2e7, 4.2e7), fires="ab",
    ),
    Recipe(
        "DFA textbook, Adam 3e-3, 8 epochs", {"method": "dfa", "epochs": 8, **FAST}, (0.29, 0.33), fires="ab",
        seeds=(42, 123, 456),
    ),
    Recipe(
        "DFA, blocks frozen, Adam 3e-3, 8 epochs", {"method": "dfa", "epochs": 8, "freezing": "blocks", **FAST},
        (0.341, 0.345), fires="",
    ),
    Recipe(
        "DFA, blocks frozen, 8 epochs", {"method": "dfa", "epochs": 8, "freezing": "blocks"}, (0.356, 0.356), fires="",
    ),
    Recipe(
        "DFA + penalty 0.01, 8 epochs", {"method": "dfa", "epochs": 8, "method_options": {"penalty": 0.01}},
        (0.362, 0.362), growth=(1.0, 1.0), deep_cosine=(0.145, 0.145), fires="",
    ),
    Recipe(
        "State Bridge, constant rate, 3 epochs", {"method": "state_bridge", "epochs": 3, "schedule": "constant"},
        (0.155, 0.172), growth=(230, 660), fires="ab", seeds=(42, 123, 456),
    ),
    Recipe(
        "Credit Bridge, constant rate, 8 epochs",
        {"method": "credit_bridge_vector", "epochs": 8, "schedule": "constant"},
        (0.24, 0.24), gradient=(1.9e-7, 1.9e-7), deep_cosine=(0.91, 0.99), fires="a",
    ),
    Recipe(
        "Credit Bridge textbook, 3e-3, 6 epochs",
        {
            "method": "credit_bridge_vector", "epochs": 6, "schedule": "constant", "learning_rate": 3e-3,
            "method_options": {"credit_norm": "none"},
        },
        (0.307, 0.307), deep_cosine=(0.98, 0.997), fires="ab",
    ),
    Recipe("EP, cosine, 6 epochs", {"method": "ep", "epochs": 6}, (0.509, 0.509), fires=""),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One recipe and one seed: what was measured, and how it compares."""

    recipe: str
    seed: int
    run_id: str
    command: str
    expected: dict[str, Any] = field(default_factory=dict)
    """What the prototype showed, where it showed it; a range is (low, high)."""
    measured: dict[str, float | str | None] = field(default_factory=dict)
    """Empty where the run is not finished."""
    differs: tuple[str, ...] = ()


def compare(recipe: Recipe, config: RunConfig, result: Mapping[str, Any] | None) -> Row:
    """A finished run beside its prototype; None where it is not trained yet."""
    row = Row(recipe.name, config.seed, config.run_id, config.command, recipe.expected)
    if result is None:
        return row
    measured = _figures(result)
    differs = [
        name for name, same in CHECKS.items() if name in row.expected and not same(measured[name], *row.expected[name])
    ]
    if recipe.fires is not None and measured["fires"] != recipe.fires:
        differs.append(f"fires ({measured['fires'] or 'nothing'}, not {recipe.fires or 'nothing'})")
    return replace(row, measured=measured, differs=tuple(differs))


def _figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """What is checked of a run; of one that could not be measured, its accuracy alone."""
    report = result["report"] or {}
    norms = {name: report.get(name) for name in ("residual_norms", "bp_grad_norms")}
    measured = Measurements(**norms)  # which reads the words that stand for NaN and infinities
    lines = [TraceLine.model_validate(entry) for entry in result["trace"]]
    fired = {r.letter for line in lines for r in read(line.measurements()) if r.state is State.FIRE}
    alignment = report.get("alignment") or {}
    return {
        "accuracy": result["accuracy"],
        "growth": measured.max_per_block_growth,
        "gradient": measured.bp_grad_norms[-1] if measured.bp_grad_norms else None,
        "stream": measured.residual_norms[-1] if measured.residual_norms else None,
        "deep_cosine": alignment.get("deep"),
        "fires": "".join(letter for letter in SEEN if letter in fired),
    }


def _within(tolerance: float) -> Callable[[float | None, float, float], bool]:
    def same(value: float | None, low: float, high: float) -> bool:
        return value is not None and low - tolerance <= value <= high + tolerance

    return same


def _within_factor(value: float | None, low: float, high: float) -> bool:
    return value is not None and low / FACTOR <= value <= high * FACTOR


CHECKS: Mapping[str, Callable[..., bool]] = {
    "accuracy": _within(ACCURACY_TOLERANCE),
    "growth": _within_factor,
    "gradient": _within_factor,
    "stream": _within_factor,
    "deep_cosine": _within(COSINE_TOLERANCE),
}
"""Each figure with the rule by which it counts as the same."""


def recipes_in(precision: str) -> list[Recipe]:
    """The recipes that can be trained in a precision: some methods can in fp32 alone."""
    return [r for r in RECIPES if precision == "fp32" or not METHODS.load(r.settings["method"]).fp32_only]


def configs_in(precision: str) -> list[RunConfig]:
    """The runs of all these."""
    return [config for recipe in recipes_in(precision) for config in recipe.configs(precision)]


def stem(precision: str) -> str:
    """What the files of a check are called."""
    return "zoo_check" if precision == "fp32" else f"zoo_check_{precision}"


def check(store: RunStore, precision: str = "fp32") -> dict[str, Any]:
    """Every recipe beside its prototype, from the finished runs of a store."""
    rows = []
    for recipe in recipes_in(precision):
        for config in recipe.configs(precision):
            stored = store.run(config)
            rows.append(compare(recipe, config, stored.result() if stored.finished else None))
    tolerances = {"accuracy": ACCURACY_TOLERANCE, "factor": FACTOR, "cosine": COSINE_TOLERANCE}
    return {"command": command(precision), "tolerances": tolerances, "rows": [asdict(row) for row in rows], **stamp()}


def command(precision: str) -> str:
    """The command line that makes the check."""
    return "walkback lab check" if precision == "fp32" else f"walkback lab check --precision {precision}"


def page(result: Mapping[str, Any]) -> Page:
    """The table, from its JSON alone."""
    within = result["tolerances"]
    rule = (
        f"A figure counts as the same where an accuracy is within {within['accuracy']:g} of the expected range, a "
        f"norm, growth or gradient within a factor of {within['factor']:g}, a cosine within {within['cosine']:g}, and "
        "(a) and (b) fire at some epoch where they were expected to. Deep Γ is the mean cosine over the "
        "sites past the first, at the end."
    )
    headings = ["run", "seed", "accuracy", "growth", "‖h_L‖", "‖g_L‖", "deep Γ", "(a), (b) fired", "so", "expected"]
    table = Grid(headings, [_cells(row) for row in result["rows"]], "lrrrrrrlll")
    precision = result["command"].partition(" --precision ")[2] or "fp32"
    about = (
        f"From results/{stem(precision)}.json, by: `{command(precision)}`. {__doc__.partition(chr(10) * 2)[2].strip()}"
    )
    return Page("The recipes of the zoo, checked", [about, rule, table])


def _cells(row: Mapping[str, Any]) -> list[str]:
    head, m = [row["recipe"], str(row["seed"])], row["measured"]
    if not m:
        return [*head, "not trained yet", *[""] * 6, _expectation(row["expected"])]
    numbers = [written(m[name]) for name in ("growth", "stream", "gradient", "deep_cosine")]
    verdict = "differs: " + ", ".join(row["differs"]) if row["differs"] else "same order"
    return [
        *head,
        f"{100 * m['accuracy']:.2f} %",
        *numbers,
        m["fires"] or "none",
        verdict,
        _expectation(row["expected"]),
    ]


def _expectation(expected: Mapping[str, Any]) -> str:
    """The figures of the prototype in one cell."""
    words = {"accuracy": "", "growth": "growth", "stream": "‖h_L‖", "gradient": "‖g_L‖", "deep_cosine": "deep Γ"}
    parts = [f"{word} {_range(expected[name], name)}".strip() for name, word in words.items() if name in expected]
    fires = [f"fires {expected['fires'] or 'nothing'}"] if "fires" in expected else []
    return ", ".join(parts + fires)


def _range(bounds: Sequence[float], name: str) -> str:
    low, high = (f"{100 * bound:.1f} %" if name == "accuracy" else written(bound) for bound in bounds)
    return low if low == high else f"{low} to {high}"
