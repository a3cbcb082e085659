"""DRTP as others measured it with its authors' code, after ten epochs: FC1-500 on MNIST and CIFAR-10."""

from __future__ import annotations

from typing import Any

from walkback.lab.reproductions.published import Number, Reproduction

CODE = (
    "measured with the code of Frenkel, Lefebvre and Bol (github.com/ChFrenkel/DirectRandomTargetProjection) by the "
    "authors of github.com/fluegelk/DEFP at 42facba, rounded to a point, one seed"
)
FILE = "test/test_results_at_epoch.py"
NETWORK: dict[str, Any] = {
    "architecture": "mlp",
    "architecture_options": {"widths": [500], "activation": "tanh", "output": "sigmoid"},
    "epochs": 10,
    "optimizer": "adam",
    "weight_decay": 0.0,
    "schedule": "constant",
    "augment": False,
}
MNIST: dict[str, Any] = {"data": "mnist", "data_options": {"scaling": "unit"}, "batch_size": 60}
CIFAR: dict[str, Any] = {"data": "cifar10", "batch_size": 100}
RATES = "Rates and batches are those of feedforward/parameters.py, lines 39 to 49 and 94 to 114."


def _of(name: str, title: str, method: str, rate: float, data: dict[str, Any], accuracy: float, line: int) -> Any:
    settings = {**NETWORK, **data, "method": method, "learning_rate": rate}
    numbers = (Number(accuracy, 10, f"{FILE}, line {line}"),)
    return Reproduction(name, f"{title}, tanh MLP of 500 units, sigmoid outputs", CODE, settings, numbers, (RATES,))


REPRODUCTIONS: tuple[Reproduction, ...] = (
    _of("drtp_mnist", "DRTP, MNIST", "drtp", 1.5e-4, MNIST, 93.0, 39),
    _of("drtp_mnist_bp", "Backpropagation beside DRTP, MNIST", "bp", 1.5e-4, MNIST, 97.0, 38),
    _of("drtp_cifar10", "DRTP, CIFAR-10", "drtp", 1.5e-4, CIFAR, 43.0, 44),
    _of("drtp_cifar10_bp", "Backpropagation beside DRTP, CIFAR-10", "bp", 1.5e-5, CIFAR, 42.0, 43),
)
