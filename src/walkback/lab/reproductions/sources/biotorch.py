"""biotorch's benchmark of LeNet on MNIST and Fashion-MNIST."""

from __future__ import annotations

from typing import Any

from walkback.lab.reproductions.published import Number, Reproduction

CODE = "github.com/jsalbert/biotorch at 74fad0d, Benchmarks.md; the test split is its validation split"
NETWORK: dict[str, Any] = {
    "architecture": "lenet",
    "epochs": 100,
    "batch_size": 64,
    "optimizer": "sgd",
    "momentum": 0.9,
    "weight_decay": 1e-3,
    "schedule": "steps",
    "milestones": [50, 75],
    "augment": False,
}
DIFFERS = (
    "The configurations for MNIST that its README names are not in the repository, and the page does not state the "
    "rate: those of its LeNet on CIFAR-10 with SGD are taken.",
    "The best of 100 epochs by the test split is reported there, and so here: it is no estimate for other samples.",
    "Feedback and sign matrices have this project's scales, not biotorch's Xavier draws.",
)
METHODS: dict[str, tuple[str, str, float, dict[str, Any], int]] = {
    "bp": ("Backpropagation", "bp", 0.1, {}, 10),
    "fa": ("Feedback alignment", "fa", 1e-3, {}, 11),
    "dfa": ("DFA", "dfa", 1e-4, {}, 15),
    "usf": ("Sign symmetry, uSF", "sign_symmetry", 0.1, {}, 12),
}
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
ERRORS = {
    "mnist": {"bp": 0.91, "fa": 1.7, "dfa": 1.61, "usf": 0.94},
    "fashion_mnist": {"bp": 9.2, "fa": 13.06, "dfa": 12.81, "usf": 9.69},
}


def _of(data: str, name: str) -> Reproduction:
    title, method, rate, options, line = METHODS[name]
    return Reproduction(
        name=f"biotorch_{data}_{name}",
        title=f"{title}, LeNet, {TITLES[data]}",
        source=CODE,
        settings={**NETWORK, "data": data, "method": method, "learning_rate": rate, "method_options": options},
        numbers=(Number(ERRORS[data][name], 100, f"Benchmarks.md, line {line}", "best error"),),
        differs=DIFFERS,
    )


REPRODUCTIONS = tuple(_of(data, name) for data in ERRORS for name in METHODS)
