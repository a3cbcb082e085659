"""Networks, batches and options drawn at random for `diagnose`: sound ones, and such as are wrong in some way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from fuzz_held import Finding


def drawn(chance: Random) -> Callable[[], Iterator[Finding]]:
    """What `diagnose` is handed, and what must hold of its report."""
    import torch

    torch.manual_seed(chance.randrange(2**31))
    width, classes, depth = chance.choice((1, 2, 8)), chance.choice((1, 2, 5)), chance.choice((0, 1, 2, 4))
    model = _network(chance, width, classes, depth)
    broken = chance.random() < 0.3 and _break(chance, model)
    batches = _batches(chance, width, classes)
    options = _options(chance)
    return lambda: _diagnosed(model, batches, options, broken)


def _network(chance: Random, width: int, classes: int, depth: int) -> Any:
    from torch import nn

    kinds = (nn.ReLU, nn.Tanh, nn.Identity, nn.GELU, lambda: nn.LayerNorm(width), lambda: nn.Dropout(0.5))
    blocks = [nn.Sequential(nn.Linear(width, width), chance.choice(kinds)()) for _ in range(depth)]
    if chance.random() < 0.4:
        blocks = [_Residual(block) for block in blocks]
    return nn.Sequential(nn.Linear(6, width), *blocks, _Head(width, classes, chance.choice(HEADS)))


HEADS = ("plain", "plain", "plain", "softmax", "dict", "tuple", "nan", "double", "detached", "none", "three axes")


def _Residual(inner: Any) -> Any:  # noqa: N802 - a class, made where torch is imported
    from torch import nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    return Residual()


def _Head(width: int, classes: int, kind: str) -> Any:  # noqa: N802
    from torch import nn

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(width, classes)

        def forward(self, x: Any) -> Any:
            y = self.out(x)
            return {
                "plain": lambda: y, "softmax": lambda: y.softmax(-1), "dict": lambda: {"logits": y},
                "tuple": lambda: (y, x), "nan": lambda: y * float("nan"), "double": y.double, "detached": y.detach,
                "none": lambda: None, "three axes": lambda: y[:, None].expand(-1, 3, -1),
            }[kind]()  # fmt: skip

    return Head()


def _break(chance: Random, model: Any) -> bool:
    """A weight that is not finite; whether it is NaN."""
    import torch

    value = chance.choice((float("nan"), float("inf"), 1e38, 0.0))
    parameter = chance.choice(list(model.parameters()))
    with torch.no_grad():
        parameter.view(-1)[chance.randrange(parameter.numel())] = value
    return value != value


def _batches(chance: Random, width: int, classes: int) -> Any:
    import torch

    def batch() -> Any:
        count = chance.choice((0, 1, 2, 40, 128, 128))
        inputs = torch.randn(count, chance.choice((6, 6, 6, 6, 5)))
        labels = torch.randint(0, max(classes, 1), (count,))
        return chance.choice((
            (inputs, labels), (inputs, labels), (inputs, labels), (inputs, labels), (inputs, labels),
            (inputs, labels + 1), (inputs, labels.float()), (inputs, labels[:-1]), (inputs * float("nan"), labels),
            (inputs,), inputs, {"inputs": inputs, "labels": labels}, None, (inputs.double(), labels), (inputs, -labels),
        ))  # fmt: skip

    if chance.random() < 0.05:
        return chance.choice((None, [], 3, "batches", [[]]))
    return [batch() for _ in range(chance.choice((1, 1, 2, 3)))]


def _options(chance: Random) -> dict[str, Any]:
    odd: tuple[tuple[str, Any], ...] = (
        ("headline_acc", 0.9), ("headline_acc", float("nan")), ("headline_acc", "0.9"), ("headline_acc", 90),
        ("frozen_baseline_acc", 0.1), ("frozen_baseline_acc", float("inf")), ("blocks", "*"), ("blocks", "nothing"),
        ("blocks", ["1"]), ("sites", [0]), ("sites", [99]), ("max_batches", 0), ("max_batches", 1), ("micro_batch", 1),
        ("micro_batch", -1), ("logits", 0), ("logits", "logits"), ("tokens", "flatten"), ("seed", -1), ("panel", "x"),
        ("reference", "declared"), ("gradients", False), ("functional", 4), ("null_draws", 1),
        ("loss", lambda a, b: a.sum()),
        ("credit", lambda hiddens, logits, targets: [h * 0 for h in hiddens]), ("readouts", True),
        ("credit", lambda hiddens, logits, targets: None), ("require_all", True), ("stem", "0"), ("head", "0"),
    )  # fmt: skip
    return dict(chance.sample(odd, chance.choice((0, 0, 1, 2))))


def _diagnosed(model: Any, batches: Any, options: dict[str, Any], broken: bool) -> Iterator[Finding]:
    import torch

    import walkback.errors

    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, mode = torch.get_rng_state(), [module.training for module in model.modules()]
    try:
        try:
            report = walkback.diagnose(model, batches, **options)
        except walkback.errors.WalkbackError:
            raise
        except Exception:
            if _fails_by_itself(model, batches):  # an error of the caller's own network is the caller's
                return
            raise
        if report.outcome == "pass" and broken:
            yield Finding("no passing outcome from NaN", "a network with a NaN among its weights passes")
        report.to_text()
    finally:
        after = model.state_dict()
        same = all(torch.equal(value.nan_to_num(), after[name].nan_to_num()) for name, value in before.items())
        same = same and mode == [module.training for module in model.modules()]
        if not same or not torch.equal(state, torch.get_rng_state()):
            raise AssertionError("the network, its modes or the random state is not as it was")


def _fails_by_itself(model: Any, batches: Any) -> bool:
    """Whether the network cannot be called with one of the batches, whoever calls it."""
    import torch

    for batch in batches:
        try:
            with torch.no_grad(), torch.random.fork_rng():
                model(batch["inputs"] if isinstance(batch, dict) else batch[0])
        except Exception:
            return True
    return False
