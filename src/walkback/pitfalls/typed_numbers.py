"""10: numbers typed from memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

TYPED_CONTROL, MEASURED_CONTROL, WITH_PENALTY = 0.609, 0.585, 0.532
"""The published case: what the text said of plain BP, what the run had, and BP with the penalty."""

_NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+\.\d+(?:[eE][-+]?\d+)?")


def unsupported(text: str, record: Any) -> list[str]:
    """The decimal numbers in a text that no number of a record rounds to, at the digits that are written."""
    known = list(_numbers(record))
    return [word for word in _NUMBER.findall(text) if not any(_rounds_to(value, word) for value in known)]


def _numbers(record: Any) -> Iterator[float]:
    if isinstance(record, dict):
        record = list(record.values())
    if isinstance(record, list | tuple):
        for entry in record:
            yield from _numbers(entry)
    elif isinstance(record, int | float) and not isinstance(record, bool):
        yield float(record)


def _rounds_to(value: float, word: str) -> bool:
    written = word.replace("−", "-")
    mantissa, *power = re.split("[eE]", written)
    digits = len(mantissa.partition(".")[2])
    if power:
        return f"{value:.{digits}e}" == f"{float(written):.{digits}e}"
    return any(round(scaled, digits) == float(written) for scaled in (value, 100 * value))


def reproduce() -> Reproduction:
    """A sentence with a typed control, and the record of the run that it is about."""
    from walkback.protocol.judge import judge
    from walkback.protocol.records import Measurements

    measured = Measurements(residual_norms=[8.7, 8.8], bp_grad_norms=[8e-3, 8e-3], headline_acc=MEASURED_CONTROL)
    record = json.loads(json.dumps(judge(measured, method_name="BP").to_dict()))
    typed = f"The control reaches {TYPED_CONTROL}."
    generated = f"The control reaches {record['headline_acc']:.3f}."
    cost_typed, cost = (100 * (control - WITH_PENALTY) for control in (TYPED_CONTROL, record["headline_acc"]))
    return Reproduction(
        "The record of a control run, a sentence typed about it, and the same sentence filled in from the record.",
        (
            Row("accuracy of the control", f"{TYPED_CONTROL}", f"{record['headline_acc']:.3f}", "0.609 against 0.585"),
            Row("what the penalty then costs BP", f"{cost_typed:.1f} pp", f"{cost:.1f} pp"),
            Row("numbers without a record", ", ".join(unsupported(typed, record)), "none"),
        ),
        (
            Claim("the typed number is in no record", unsupported(typed, record) == [str(TYPED_CONTROL)]),
            Claim("the generated sentence has none that is not", unsupported(generated, record) == []),
            Claim("the conclusion changes by more than two points", cost_typed - cost > 2),
        ),
    )  # fmt: skip


PITFALL = Pitfall(
    number=10,
    title="numbers typed from memory",
    explanation="A figure that is typed into a text lives on when the run behind it is gone, was repeated, or never "
    "was. Nobody can find it again, and every conclusion drawn from it is as wrong as it is.",
    lies='print("the control reaches 0.609")',
    instead="print(f'the control reaches {record[\"accuracy\"]:.3f}')",
    question="Is every number in the text generated from a record that carries its command, config and commit?",
    avoided="A rendering is made from its record alone, and a test holds every number in one against the record. The "
    "pages of studies and benchmarks, and all of the evidence but its notes, are generated from results/ alone, and a "
    "test fails where one is stale. Notes are written by hand, and name the page or command behind a number.",
    where="walkback.protocol.records:DiagnosticReport",
    reproduce=reproduce,
    published="a control of 0.609 that no run had produced; measured, it was 0.585",
)
