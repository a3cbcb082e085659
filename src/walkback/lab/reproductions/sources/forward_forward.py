"""Forward-forward with labels in the image: Hinton's section 3.3, by the settings of a public reimplementation."""

from __future__ import annotations

from walkback.lab.reproductions.published import Number, Reproduction

REPRODUCTIONS = (
    Reproduction(
        name="forward_forward_mnist",
        title="Forward-forward, MLP 784-1000-1000-1000, MNIST",
        source="github.com/loeweX/Forward-Forward at da516f0, which has 1.36 for the paper (Hinton, arXiv 2212.13345) "
        "and 1.47 for its Matlab code",
        settings={
            "method": "forward_forward",
            "method_options": {"peer_normalisation": 0.03},
            "architecture": "mlp",
            "architecture_options": {"widths": [1000, 1000, 1000], "norm": "length"},
            "data": "mnist",
            "data_options": {"scaling": "unit"},
            "epochs": 100,
            "batch_size": 100,
            "optimizer": "sgd",
            "momentum": 0.9,
            "learning_rate": 1e-3,
            "weight_decay": 3e-4,
            "schedule": "cooldown",
            "augment": False,
        },
        numbers=(Number(1.45, 100, "README.md, line 60", "error"),),
        differs=(
            "Their ReLU hands the gradient on where it is zero, too; ours is a plain ReLU.",
            "They answer by a linear readout of the second and third layers; here the label answers that makes these "
            "layers most active.",
            "They train on the first 50,000 samples, and draw weights from N(0, 1/fan_out) with biases at 0.",
        ),
    ),
)
