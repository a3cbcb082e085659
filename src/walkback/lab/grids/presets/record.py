"""Grids of this project's own readings of the methods, fitted before the source study could be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from walkback.lab.grids.grid import EPOCHS, GridConfig, GridRow, row_of

LONG_EPOCHS, SHORT_EPOCHS = 100, 10
PENALTIES = (0.01, 0.001)
DEPTHS = (2, 4, 8)
WIDTHS = (256, 512)
RECORDED = {"credit_bridge": "credit_bridge_vector"}
"""The method behind a label of the record, where it is called otherwise now: the label keeps the results findable."""


def resmlp_d256() -> tuple[GridConfig, ...]:
    """Every method for 30 epochs, and BP and DFA for as long as the published ones."""
    everything = recorded(["bp", "fa", "dfa", "state_bridge", "credit_bridge", "ep"])
    long = recorded(["bp", "dfa"])
    return (on_cifar10(everything), on_cifar10(long, epochs=LONG_EPOCHS, published_epochs=LONG_EPOCHS))


def recorded(labels: Iterable[str]) -> tuple[GridRow, ...]:
    """The rows of these labels, each of the method that the record has under it; `dfa` is two rows.

    `dfa` normalises the credit per sample, as the published audit seems to have done, and `dfa_textbook` does not. What
    becomes of the network depends on it, so the record has both.
    """
    rows: list[GridRow] = []
    for label in labels:
        if label == "dfa":
            rows.append(row_of("dfa", "dfa", {"credit_norm": "per_sample"}))
            rows.append(row_of("dfa_textbook", "dfa", {"credit_norm": "none"}))
        else:
            rows.append(row_of(label, RECORDED.get(label, label), {}))
    return tuple(rows)


def on_cifar10(rows: tuple[GridRow, ...], **settings: Any) -> GridConfig:
    """ResMLP on CIFAR-10, but for what is given."""
    return GridConfig(**{"architecture": "resmlp", "data": "cifar10", "rows": rows} | settings)


def penalty() -> tuple[GridConfig, ...]:
    """BP and textbook DFA, each without and with the penalty; frozen blocks have none, so baselines are shared."""
    rows = [
        row
        for method, plain in (("bp", "bp"), ("dfa", "dfa_textbook"))
        for row in (
            row_of(plain, method, {}),
            *(row_of(f"{method}:penalty={strength}", method, {"penalty": strength}) for strength in PENALTIES),
        )
    ]
    return (on_cifar10(tuple(rows), called="penalty_resmlp_d256", published_epochs=EPOCHS),)


def no_terminal_norm() -> tuple[GridConfig, ...]:
    """ResMLP whose readout reads h_L as it is."""
    settings = {"architecture_options": {"terminal_norm": False}}
    return (
        on_cifar10(recorded(["bp", "dfa"]), settings=settings, baselines=False, called="resmlp_d256_no_terminal_norm"),
    )


def depth() -> tuple[GridConfig, ...]:
    """FA and DFA at d = 512 and three depths."""
    rows = tuple(
        row_of(f"{method} depth {depth}", method, options, architecture_options={"width": 512, "depth": depth})
        for depth in DEPTHS
        for method, options in (("fa", {}), ("dfa", {"credit_norm": "per_sample"}))
    )
    return (on_cifar10(rows, epochs=SHORT_EPOCHS, baselines=False, called="depth_resmlp_d512"),)


def width() -> tuple[GridConfig, ...]:
    """The published methods at two widths, of one schedule."""
    methods = {"bp": {}, "dfa": {"credit_norm": "per_sample"}, "state_bridge": {}, "credit_bridge": {}}
    rows = tuple(
        row_of(f"{label} d{width}", RECORDED.get(label, label), options, architecture_options={"width": width})
        for width in WIDTHS
        for label, options in methods.items()
    )
    return (on_cifar10(rows, epochs=SHORT_EPOCHS, baselines=False, called="width_resmlp"),)


def small_cnn() -> tuple[GridConfig, ...]:
    """Narrow channels, because a narrow network trained to the end tells more than a wide one that is not."""
    settings = {"architecture": "small_cnn", "settings": {"architecture_options": {"channels": (8, 16, 32)}}}
    rows = (*recorded(["bp", "dfa", "state_bridge", "credit_bridge"]), row_of("ep", "ep", {}, epochs=SHORT_EPOCHS))
    return (on_cifar10(rows, **settings, baselines=False, called="small_cnn"),)


def vit_mini() -> tuple[GridConfig, ...]:
    """BP and DFA on ViT-Mini, which explodes at once."""
    rows = recorded(["bp", "dfa"])
    return (on_cifar10(rows, architecture="vit_mini", epochs=5, baselines=False, called="vit_mini_d128"),)


def student_net() -> tuple[GridConfig, ...]:
    """BP and DFA on the teacher's data, without a terminal norm."""
    rows = recorded(["bp", "dfa"])
    place = {"architecture": "student_net", "data": "synthetic_teacher"}
    return (on_cifar10(rows, **place, epochs=40, baselines=False, called="student_net_d128_synthetic_teacher"),)


def fashion_mnist() -> tuple[GridConfig, ...]:
    """Three methods on other data."""
    rows = recorded(["bp", "fa", "dfa"])
    return (on_cifar10(rows, data="fashion_mnist", epochs=SHORT_EPOCHS, called="resmlp_d256_fashion_mnist"),)


def bridge_variants() -> tuple[GridConfig, ...]:
    """The bridges as they are read here, and with one choice at a time made otherwise: which of them explode?"""
    trained = ({"schedule": "constant"}, {"learning_rate": 0.003})
    rows = [
        *_varied("state_bridge", {}, {"target": "scaled"}, {"credit_from": "prediction"}),
        *_varied("state_bridge", {"credit_site": "written"}, {"credit_norm": "none"}, *trained),
        *_varied("credit_bridge", {}, {"target": "raw"}, {"credit_site": "written"}, {"credit_norm": "none"}, *trained),
        # As long as the record's own, so that it tells what annealing did there.
        *_varied("credit_bridge", {"schedule": "constant", "epochs": 30}),
    ]
    return (on_cifar10(tuple(rows), seeds=(42,), epochs=SHORT_EPOCHS, baselines=False, called="bridge_variants"),)


def causes() -> tuple[GridConfig, ...]:
    """What might make DFA and EP differ from the published figures, one change at a time."""
    rows = [
        *_varied(
            "dfa", {}, {"expansion": 4}, {"credit_site": "read"}, {"learning_rate": 0.003}, {"schedule": "constant"}
        ),
        *_varied("ep", {}, {"sweeps": 1}, {"beta": 0.1}),
    ]
    return (on_cifar10(tuple(rows), seeds=(42,), epochs=SHORT_EPOCHS, baselines=False, called="causes"),)


def _varied(method: str, *changes: dict[str, Any]) -> Iterator[GridRow]:
    """Rows of a method with something changed: an option of its own, of the architecture, or of the training."""
    always = {"credit_norm": "per_sample"} if method == "dfa" else {}
    for change in changes:
        label = ":".join([method, *(f"{name}={value}" for name, value in change.items())])
        training = {name: value for name, value in change.items() if name in ("schedule", "learning_rate", "epochs")}
        shape = {name: value for name, value in change.items() if name == "expansion"}
        options = {name: value for name, value in change.items() if name not in training | shape}
        yield row_of(label, RECORDED.get(method, method), always | options, **training, architecture_options=shape)


FITTED, LEARNT, BEGUN = 100, SHORT_EPOCHS, 5
"""Epochs: digits to the end, as much as the middling data sets need, and a beginning on CIFAR-10."""
SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.05}


def false_positives() -> tuple[GridConfig, ...]:
    """BP alone, over data, normalisation, depth, width and optimizer: nothing here should be walked back."""

    def healthy(what: str, data: str, epochs: int, architecture: str = "resmlp", **others: Any) -> GridRow:
        options = {
            name: others.pop(name) for name in ("depth", "width", "norm_position", "terminal_norm") if name in others
        }
        where = {"data": data, "epochs": epochs, "architecture": architecture, "architecture_options": options}
        return row_of(f"{data}: {what}", "bp", {}, **where, **others)

    rows = [
        healthy("ViT-Mini", "digits", FITTED, "vit_mini", width=64),
        healthy("SmallCNN", "digits", FITTED, "small_cnn"),
        healthy("no terminal norm", "digits", FITTED, width=128, terminal_norm=False),
        healthy("width 32", "digits", FITTED, width=32),
        healthy("width 512", "digits", FITTED, width=512),
        healthy("StudentNet", "synthetic_teacher", LEARNT, "student_net"),
    ]
    for data, epochs in (
        ("digits", FITTED),
        ("fashion_mnist", LEARNT),
        ("synthetic_teacher", LEARNT),
        ("cifar10", BEGUN),
    ):
        rows += [
            healthy("pre-norm", data, epochs, width=128),
            healthy("post-norm", data, epochs, width=128, norm_position="post"),
            healthy("SGD", data, epochs, width=128, **SGD),
            *(healthy(f"depth {depth}", data, epochs, width=128, depth=depth) for depth in (2, 16)),
        ]
    return (on_cifar10(tuple(rows), baselines=False, called="false_positives"),)
