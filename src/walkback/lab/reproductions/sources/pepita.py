"""The PEPITA authors' notebook with its output: 3072-1024-10 on CIFAR-10."""

from __future__ import annotations

from walkback.lab.reproductions.published import Number, OneFactor, Reproduction

NOTEBOOK = "Tutorial_PEPITA_FullyConnectedNets_CIFAR-10.ipynb"
REPRODUCTIONS = (
    Reproduction(
        name="pepita_cifar10",
        title="PEPITA, MLP 3072-1024-10, CIFAR-10",
        source="Dellaferrera and Kreiman, Error-driven input modulation, ICML 39, 2022; github.com/GiorgiaD/PEPITA at "
        "3fe03d8, one run",
        settings={
            "method": "pepita",
            "architecture": "mlp",
            "architecture_options": {"widths": [1024], "bias": "none", "init": "he_uniform", "dropout": 0.1},
            "data": "cifar10",
            "data_options": {"scaling": "unit"},
            "epochs": 20,
            "batch_size": 64,
            "optimizer": "sgd",
            "momentum": 0.9,
            "learning_rate": 0.01,
            "weight_decay": 0.0,
            "schedule": "constant",
            "augment": False,
        },
        numbers=(
            Number(35.12, 1, f"{NOTEBOOK}, line 122"),
            Number(41.40, 5, f"{NOTEBOOK}, line 134"),
            Number(45.05, 10, f"{NOTEBOOK}, line 149"),
            Number(48.61, 20, f"{NOTEBOOK}, line 179"),
        ),
        differs=(
            "They train for 100 epochs, with a tenth of the rate from epochs 61 and 91; these are the first 20.",
            "Their accuracy moves by about four points from one epoch to the next, and so does ours.",
        ),
        one_factor=(
            OneFactor(
                "seed 123",
                "Epoch by epoch the accuracy goes up and down: how far does that of one epoch depend on the seed?",
                {"seed": 123},
            ),
        ),
    ),
)
