"""Nøkland and Eidnes' perceptron with local losses on MNIST."""

from __future__ import annotations

from typing import Any

from walkback.lab.reproductions.published import Number, Reproduction

CODE = (
    "Nøkland and Eidnes, Training neural networks with local error signals, ICML 36, 2019; "
    "github.com/anokland/local-loss at 7b3b40b"
)
NETWORK: dict[str, Any] = {
    "architecture": "mlp",
    "architecture_options": {
        "widths": [1024, 1024, 1024],
        "activation": "leaky_relu",
        "norm": "batch",
        "dropout": 0.1,
    },
    "data": "mnist",
    "data_options": {"crop": 2},
    "epochs": 100,
    "batch_size": 128,
    "optimizer": "adam",
    "learning_rate": 5e-4,
    "weight_decay": 0.0,
    "schedule": "steps",
    "milestones": [50, 75, 89, 94],
    "step_factor": 0.25,
}
DIFFERS = (
    "A layer's loss sees what dropout leaves of it; theirs sees the whole layer, and dropout is behind it.",
    "The layers learn in one step of one optimizer; theirs step one after the other, each with its own.",
)
ERRORS = {"predsim": 0.62, "pred": 0.68, "sim": 0.80}


REPRODUCTIONS = (
    *(
        Reproduction(
            name=f"local_loss_mnist_{loss}",
            title=f"Local loss {loss}, MLP of three times 1024, MNIST moved by two pixels",
            source=CODE,
            settings={**NETWORK, "method": "local_loss", "method_options": {"loss": loss}},
            numbers=(Number(error, 100, "README.md, line 23", "error"),),
            differs=DIFFERS,
        )
        for loss, error in ERRORS.items()
    ),
    Reproduction(
        name="local_loss_mnist_bp",
        title="Backpropagation beside local losses, MLP of three times 1024, MNIST moved by two pixels",
        source=CODE,
        settings={**NETWORK, "method": "bp"},
        numbers=(Number(0.75, 100, "README.md, line 23", "error"),),
        differs=DIFFERS[1:],
    ),
)
