"""How many classes an answer is chosen from: measured where the targets are class indices, and known nowhere else."""

from __future__ import annotations

import pytest
import torch
from small_models import CLASSES, INPUT, Regression, ResMLP, labelled

import walkback
from walkback.errors import WalkbackError
from walkback.protocol.losses import Answers, count_correct
from walkback.protocol.records import DiagnosticReport, Measurements


def test_diagnose_counts_the_classes_that_the_network_chooses_from():
    report = walkback.diagnose(ResMLP(), labelled(20, 7))
    assert report.classes == CLASSES
    given = walkback.diagnose(ResMLP(), labelled(20, 7), headline_acc=0.4)
    assert (given.classes, given.headline_acc) == (CLASSES, 0.4)
    assert DiagnosticReport.from_dict(report.to_dict()).classes == CLASSES


def test_a_loss_of_numbers_has_no_classes():
    batches = [(torch.randn(30, INPUT), torch.randn(30))]
    report = walkback.diagnose(Regression(), batches, loss=lambda out, y: (out - y).square())
    assert report.classes is None


def test_one_number_is_no_choice_and_counts_add_up():
    assert count_correct(torch.randn(5, 1), torch.zeros(5, dtype=torch.long)) is None
    some = count_correct(torch.randn(5, 7), torch.zeros(5, dtype=torch.long))
    assert some.classes == 7
    assert Answers(0, 0, 0).plus(some).classes == some.plus(some).classes == 7


@pytest.mark.parametrize("classes", [1, 0, -10, 2**60])
def test_a_number_of_classes_that_nothing_has_is_refused(classes):
    with pytest.raises(ValueError, match="classes"):
        Measurements(classes=classes)


def test_records_from_before_say_nothing_of_classes():
    old = walkback.judge(Measurements(residual_norms=[1, 1], bp_grad_norms=[1e-3, 1e-3])).to_dict()
    del old["classes"]
    assert DiagnosticReport.from_dict({**old, "schema_version": 1}).classes is None
    with pytest.raises(WalkbackError, match="classes"):
        DiagnosticReport.from_dict({**old, "classes": 1})
