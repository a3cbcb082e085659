"""Functions of the API that are called with a name that they do not take."""

from __future__ import annotations

import inspect
import pickle
import warnings

import pytest

import walkback
from walkback.errors import InputError, WalkbackError, WalkbackWarning

NORMS = {"residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: walkback.judge(**NORMS), r"walkback\.Measurements\(residual_norms=…\)"),
        (lambda: walkback.judge(walkback.Measurements(**NORMS), sed=1), "Did you mean 'seed'"),
        (lambda: walkback.partial_audit(**NORMS), r"walkback\.PartialMeasurements\(residual_norms=…\)"),
        (lambda: walkback.partial_audit(walkback.PartialMeasurements(blocks=2), sed=1), "Did you mean 'seed'"),
        (lambda: walkback.diagnose(None, [], frozen_baseline=0.3), "Did you mean 'frozen_baseline_acc'"),
        (lambda: walkback.frozen_baseline(None, None, batches=[]), "eval_batches"),
        (lambda: walkback.provenance(None, None, [], step=1), "Known: "),
        (lambda: walkback.combine(names=[]), "Known: reports"),
        (lambda: walkback.replay("x.json", treshold=1), "Did you mean 'thresholds'"),
    ],
)
def test_an_argument_that_is_not_taken_is_both_kinds_of_error_and_says_what_is(call, told):
    with pytest.raises(WalkbackError, match=told) as raised:
        call()
    assert isinstance(raised.value, TypeError)


def test_functions_keep_their_signatures_and_can_be_pickled():
    assert list(inspect.signature(walkback.judge).parameters)[:2] == ["measured", "thresholds"]
    assert walkback.judge.__module__ == "walkback.protocol.judge"
    assert pickle.loads(pickle.dumps(walkback.combine)) is walkback.combine


@pytest.mark.parametrize("given", [["a.json"], "a.json", ("a.json", "b.json")])
def test_files_are_no_reports(given):
    with pytest.raises(InputError, match=r"the text 'a\.json'.*walkback\.DiagnosticReport\.load"):
        walkback.combine(given)


def test_one_report_and_other_things_are_no_list_of_reports():
    report = walkback.judge(walkback.Measurements(**NORMS))
    for given in (report, {"a": report}, [report, 3], None):
        with pytest.raises(InputError, match="expected a list of reports"):
            walkback.combine(given)


def test_a_warning_about_a_training_function_names_the_line_of_its_caller():
    torch = pytest.importorskip("torch")

    def make():
        return torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(4)])

    def train(model):
        inputs, labels = torch.randn(8, 4), torch.randint(4, (8,))
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        return 0.5

    batches = [(torch.randn(8, 4), torch.randint(4, (8,)))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        walkback.frozen_baseline(train, make, batches, blocks=["1", "2"])
    assert [each.filename for each in caught if each.category is WalkbackWarning] == [__file__]
