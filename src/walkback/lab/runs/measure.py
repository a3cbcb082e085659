"""What is measured at the end of every epoch: accuracy on the test split, and all diagnostics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from walkback.errors import PitfallError, RunError, WalkbackError
from walkback.lab.runs.assembly import Assembly
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.zoo import Ladder, Method, read_freezing
from walkback.lab.zoo.answers import are_right, mean_loss, sample_losses
from walkback.lab.zoo.datasets import Batch, Dataset, Split, evaluation_batches, held_out_batches
from walkback.lab.zoo.modes import evaluating
from walkback.protocol.diagnose import diagnose
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.scores import Score
from walkback.watch.trace_line import rounded, traced_figures

HELD_OUT_BATCHES, HELD_OUT_SIZE = 10, 128
"""The published protocol: ten batches of 128 from the test split."""
EVALUATION_BATCH = 200
NO_BLOCKS = "freezing 'shallow' leaves no blocks, and so nothing to diagnose."


def held_out(dataset: Dataset) -> list[Batch]:
    """The batches that every epoch of every run on this data is diagnosed on."""
    return held_out_batches(dataset, HELD_OUT_BATCHES, min(HELD_OUT_SIZE, len(dataset.test)))


def accuracy_on(method: Method, split: Split) -> Score:
    """The share of the method's right answers on a whole split; a NaN logit counts as a wrong answer."""
    return share_of(correct_on(method, split))


def share_of(correct: torch.Tensor) -> Score:
    """The accuracy from one boolean per answer, (N,), or (N, T) where every token has one."""
    answers = None if correct.ndim == 1 else correct.numel()
    return Score(value=int(correct.sum()) / correct.numel(), samples=len(correct), answers=answers)


def correct_on(method: Method, split: Split) -> torch.Tensor:
    """Whether each answer to a split is right, in the split's order, shaped like its labels."""
    batches = evaluation_batches(split, EVALUATION_BATCH)
    with evaluating(method), evaluating(method.model), torch.inference_mode():
        return torch.cat([are_right(method.predict(inputs), targets) for inputs, targets in batches])


def loss_on(method: Method, split: Split) -> float | None:
    """The mean loss of the head over all answers to a split, in nats; None for a method that does not answer by it."""
    if not method.answers_by_head():
        return None
    summed = 0.0
    with evaluating(method), evaluating(method.model), torch.inference_mode():
        for inputs, targets in evaluation_batches(split, EVALUATION_BATCH):
            summed += float(mean_loss(method.predict(inputs), targets, method.model.output)) * len(targets)
    return summed / len(split)


def right_answers(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """How many answers have their largest logit at their own class, and no NaN."""
    return are_right(logits, targets).sum()


def report_on(
    config: RunConfig, run: Assembly, batches: list[Batch], accuracy: Score, **arguments: Any
) -> DiagnosticReport:
    """The network's report, without (d); `arguments` go to `walkback.diagnose` as they are."""
    if not len(run.model.blocks):
        raise RunError(NO_BLOCKS)
    settings: dict[str, Any] = {
        "headline_acc": accuracy,
        "method_name": config.method,
        "notes": " ".join([f"Run {config.run_id}, {config.name}.", *_what_else(config, run.method)]),
        "blocks": list(run.model.blocks),
        "seed": config.seed,
    }
    if run.model.output != "softmax":
        settings["loss"] = partial(sample_losses, output=run.model.output)
    # What no loss at the head has trained has no gradient to be judged by.
    settings |= {"credit": run.method} if run.method.answers_by_head() else {"gradients": False}
    return diagnose(run.model, batches, **settings | arguments)


def _what_else(config: RunConfig, method: Method) -> Iterator[str]:
    """What a reader has to know of how it was trained, and the name alone does not explain."""
    if config.targets == "random":
        yield (
            "It was trained on labels drawn at random, anew for every batch; accuracy and diagnostics are measured on "
            "the true labels of the test split."
        )
    if config.targets == "permuted":
        yield (
            "It was trained on the labels of the training split dealt out anew among its samples, once; accuracy and "
            "diagnostics are measured on the true labels of the test split."
        )
    if method.model.output == "sigmoid":
        yield "Its outputs are sigmoids, and its loss is a binary cross-entropy for each class, summed over classes."
    if config.precision != "fp32":
        yield f"The passes of its training steps computed in {config.precision}; it was measured in fp32."
    freezing = read_freezing(config.freezing)
    if isinstance(freezing, Ladder):
        blocks = len(method.model.blocks)
        learnt = "the last" if freezing.last == 1 else f"the last {freezing.last}"
        yield f"Of its {blocks} blocks only {learnt} learnt, beside stem and head."
        unread = blocks - freezing.last - 1  # sites that no block which learns reads or writes
        if unread and method.has_credit:
            sites = "h_1" if unread == 1 else f"h_1 to h_{unread}"
            yield f"No block followed the credit of {sites}, so Γ there says nothing of training."


def report_if_possible(
    config: RunConfig, run: Assembly, batches: list[Batch], accuracy: Score, *, null_draws: int, **arguments: Any
) -> DiagnosticReport | str:
    """The report, or why there is none: a run whose network cannot be measured is still a run, and goes on."""
    try:
        return report_on(config, run, batches, accuracy, null_draws=null_draws, **arguments)
    except PitfallError:
        raise  # somebody asked for it, with walkback.strict()
    except WalkbackError as error:
        return str(error)


def epoch_record(epoch: int, accuracy: Score, report: DiagnosticReport | str, **figures: float | None) -> EpochRecord:
    """One line of the trace, in six significant digits; `figures` are the loss, the rate and the seconds."""
    measured: dict[str, Any] = (
        {"unmeasured": report} if isinstance(report, str) else traced_figures(report, report.readings)
    )
    return EpochRecord(epoch=epoch, **measured | rounded({"accuracy": accuracy.value} | figures))
