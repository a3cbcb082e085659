"""How many classes there are, for records from before reports kept that. No torch."""

from __future__ import annotations

from walkback.protocol.records import DiagnosticReport

CLASSES = {"cifar10": 10, "digits": 10, "fashion_mnist": 10, "synthetic_teacher": 10}
"""Of walkback's own data sets."""


def with_classes(report: DiagnosticReport, data: str | None) -> DiagnosticReport:
    """The report with the classes of the data set that its run names, where it has none of its own."""
    if report.classes is not None or data not in CLASSES:
        return report
    return report.model_copy(update={"classes": CLASSES[data]})
