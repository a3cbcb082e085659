"""What is wrong with a file is told by its shape; whatever else goes wrong is walkback's own fault, and shown so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from walkback.cli import main
from walkback.errors import InputError, RecordError
from walkback.lab.present import networks as shown
from walkback.lab.runs.shapes import AuditShape, ResultShape, RowShape, require_result, require_shape
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.schema import naming_source

RESULTS = Path(__file__).parents[3] / "results"
AUDIT = RESULTS / "audit_student_net_d128_synthetic_teacher.json"
ROW = json.loads(AUDIT.read_text())["runs"][0]
RESULT = json.loads((RESULTS / "runs" / f"{ROW['id']}.json").read_text())
REQUIRED = [name for name, field in ResultShape.model_fields.items() if field.is_required()]
WRONG = [
    ("seed", ["config", "seed"], "42"),
    ("options", ["config", "method_options"], None),
    ("baseline", ["baseline", "id"], "../../secret/other"),
    ("accuracy", ["accuracy"], 1.5),
    ("accuracy", ["accuracy"], True),
    ("trace", ["trace"], []),
    ("entry 1 of its trace", ["trace", 1, "accuracy"], None),
    ("entry 1 of its trace", ["trace", 1, "residual_norms"], [[1]]),
    ("test_samples", ["test_samples"], 0),
    ("versions", ["versions", "torch"], 2),
    ("depth", ["depth", "linear_probes"], "much"),
]


def changed(value, place, new):
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return copy


def test_what_is_on_record_has_its_shape():
    for path in sorted((RESULTS / "runs").glob("*.json"))[::12]:
        require_result(json.loads(path.read_text()), path)
    for path in RESULTS.glob("audit_*.json"):
        require_shape(AuditShape, json.loads(path.read_text()), path)


@pytest.mark.parametrize("name", REQUIRED)
def test_every_field_that_is_read_must_be_there(name):
    with pytest.raises(RecordError, match=rf"run.json is corrupt.*{name} is missing"):
        require_result({key: value for key, value in RESULT.items() if key != name}, "run.json")


@pytest.mark.parametrize(("name", "place", "new"), WRONG)
def test_and_of_the_right_kind(name, place, new):
    with pytest.raises(RecordError, match=rf"run.json.*{name}") as told:
        require_result(changed(RESULT, place, new), "run.json")
    assert ".py" not in str(told.value)


@pytest.mark.parametrize("place", [["accuracy"], ["trace", -1, "accuracy"], ["report", "headline_acc"]])
def test_an_accuracy_that_was_edited_in_one_place_is_refused(place):
    with pytest.raises(RecordError, match=r"run\.json contradicts itself on the accuracy of its run: "):
        require_result(changed(RESULT, place, RESULT["accuracy"] - 0.1), "run.json")


@pytest.mark.parametrize("name", ["id", "baseline"])
def test_an_id_in_an_audit_leads_nowhere_else(name):
    with pytest.raises(RecordError, match=f"{name} is "):
        require_shape(RowShape, ROW | {name: "../../x"}, "audit_x.json")


@pytest.mark.parametrize("fault", [KeyError("x"), IndexError(), TypeError(), ZeroDivisionError(), AttributeError()])
def test_a_fault_of_our_own_stays_one(fault):
    with pytest.raises(type(fault)) as raised, naming_source("a.json"):
        raise fault
    assert raised.value is fault


def test_what_is_refused_inside_a_record_names_its_file():
    with pytest.raises(InputError, match=r"^a.json: no$"), naming_source("a.json"):
        raise InputError("no")
    with pytest.raises(RecordError, match=r"a.json is corrupt.*residual_norms"), naming_source("a.json"):
        DiagnosticReport.model_validate({"residual_norms": "large"})


def test_a_fault_of_our_own_ends_a_command_with_its_traceback_and_no_word_of_damage(monkeypatch, capsys, tmp_path):
    def slip(*_):
        return {}["nothing"]

    monkeypatch.setattr(shown, "_configuration", slip)
    (tmp_path / "run.json").write_text(json.dumps(RESULT))
    monkeypatch.setattr(sys, "argv", ["walkback", "report", str(tmp_path / "run.json")])
    with pytest.raises(SystemExit) as ended:
        main.run()
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert "Traceback" in error
    assert "KeyError: 'nothing'" in error
    assert "corrupt" not in error
