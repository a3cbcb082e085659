"""One name for each method wherever a reader meets it; the record keeps its labels."""

import csv
import io
from pathlib import Path

import pytest
from present_samples import full

from walkback.lab.present.networks import networks_in
from walkback.lab.runs.store import RunStore
from walkback.lab.studies.audited import load_audit
from walkback.present import tables
from walkback.present.figures.style import pretty
from walkback.present.method_names import in_shown_names, recorded_as, shown_name
from walkback.present.network import Network, by_method

AUDIT = Path("results/audit_resmlp_d256.json")
PER_SAMPLE = {"credit_norm": "per_sample"}


@pytest.mark.parametrize(
    ("label", "options", "name"),
    [
        ("dfa", PER_SAMPLE, "scaled DFA"),
        ("dfa", {"credit_norm": "none"}, "DFA"),
        ("dfa", {}, "DFA"),
        ("dfa_textbook", {"credit_norm": "none"}, "DFA"),
        ("dfa depth 4", PER_SAMPLE, "scaled DFA depth 4"),
        ("dfa:penalty=0.01", {"penalty": 0.01}, "DFA, λ = 0.01"),
        ("dfa:schedule=constant:epochs=30", PER_SAMPLE, "scaled DFA, schedule=constant, epochs=30"),
        ("credit_bridge", {}, "Credit Bridge"),
        ("cifar10: SGD", {}, "cifar10: SGD"),  # a label that begins with no method
        ("dfa2", PER_SAMPLE, "dfa2"),
        ("my dfa", PER_SAMPLE, "my dfa"),
    ],
)
def test_a_label_has_one_name(label, options, name):
    assert shown_name(label, options) == name
    assert pretty(name) == name  # figures draw what tables show


@pytest.fixture(scope="module")
def networks():
    return in_shown_names(networks_in([str(AUDIT)], RunStore("nowhere", "nowhere")))


def test_the_two_rules_of_an_audit_have_two_names_and_the_record_its_own(networks):
    labels = {network.method: network.recorded for network in networks}
    assert labels["scaled DFA"] == "dfa"
    assert labels["DFA"] == "dfa_textbook"
    assert set(load_audit(AUDIT).labels) == set(labels.values())
    assert recorded_as(networks) == (
        "scaled DFA is dfa (credit_norm=per_sample); DFA is dfa_textbook (credit_norm=none)"
    )


def test_tables_of_every_form_have_the_names(networks):
    assert set(by_method(networks)) >= {"BP", "DFA", "scaled DFA", "EP"}
    for text in (tables.as_markdown(networks), tables.as_latex(networks)):
        assert "scaled DFA" in text
        assert recorded_as(networks).split(";")[0].split(" (")[0] in text.replace("\\_", "_")
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(networks))))
    assert {(row["method"], row["recorded_method"]) for row in rows} >= {("scaled DFA", "dfa"), ("DFA", "dfa_textbook")}


def test_what_somebody_named_keeps_its_name():
    mine = [Network(full(method_name="dfa"))]
    assert [network.method for network in in_shown_names(mine)] == ["dfa"]
    assert recorded_as(mine) == ""
