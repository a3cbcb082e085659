"""What the page of evidence tells first: what differs and which part, what was tried, what is still missing."""

from __future__ import annotations

import re

import pytest
from claim_builders import NOT, NOT_RUN, PARTLY, RECORD, SEEDS, put, seeds
from own_cases import published
from source_cases import FA, SOURCE, sourced

from reference.made_results import network, row, write, write_audit
from walkback.lab.evidence.results import Results
from walkback.lab.evidence.table import CLAIMS, decide, markdown
from walkback.lab.evidence.themes import THEMES
from walkback.lab.evidence.tried import Record
from walkback.lab.runs.ids import all_settings, run_id_of

DFA = {"credit_norm": "rms", "credit_site": "read"}


def settings(seed=42, epochs=100, architecture_options=None, **options):
    return {
        "method": "dfa", "architecture": "resmlp", "data": "cifar10", "seed": seed, "epochs": epochs,
        "method_options": DFA | options, "architecture_options": architecture_options or {}, "data_options": {},
    }  # fmt: skip


def put_run(results, config, **figures):
    """A run of these settings on record, with its own report."""
    run_id = run_id_of(config)
    report = network("dfa", config["seed"], gamma=[0.4, 0.0, 0.0, 0.0, 0.0], **{"frozen": None} | figures)
    write(
        results / "runs" / f"{run_id}.json", {"id": run_id, "config": config, "trace": [], "report": report.to_dict()}
    )
    return run_id


def audited(results, reports, **figures):
    """The main audit of the source with DFA's runs behind it; what is given is of those runs."""
    ids = [put_run(results, settings(seed), **figures) for seed in SEEDS]
    rows = [row("dfa", seed) | {"id": run_id} for seed, run_id in zip(SEEDS, ids, strict=True)]
    write_audit(results, SOURCE, reports, rows)


def page_of(results, notes):
    return markdown(decide(Results(results)), notes, Results(results), "results")


def section(page, heading):
    return page.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_every_published_claim_answers_one_question():
    asked = [claim for theme in THEMES for claim in theme.claims]
    assert sorted(asked) == [claim.id for claim in CLAIMS if not claim.is_finding]


def test_a_claim_that_differs_is_told_first_with_its_part_and_its_why(tmp_path):
    put(tmp_path, sourced(dfa=seeds("dfa", acc=0.3, frozen=0.349, growth=1e3, h=5e8, g=1e-5)))
    (tmp_path / "C02.md").write_text("**Why.** The clock was wrong.\n\nMore of it.\n")
    told = section(page_of(tmp_path, tmp_path), "Where the two differ, and why")
    (line,) = [line for line in told.splitlines() if line.startswith("- [C02]")]
    assert "(a), (b) and (d) fire (0 of 3)" in line
    assert "The clock was wrong." in line
    assert "More of it" not in line
    assert "C03" not in told  # which is reproduced
    (unknown,) = [line for line in told.splitlines() if line.startswith("- [C08]")]
    assert "Why is not known." in unknown


def test_where_nothing_differs_it_says_so(tmp_path):
    assert "none differs" in section(page_of(tmp_path, tmp_path), "Where the two differ, and why")


@pytest.mark.parametrize("there", [0, 1, 2])
def test_some_seeds_of_three_are_counted_and_decide_nothing(tmp_path, there):
    """The rows that an audit has of runs that are not finished say how many there will be."""
    reports = [r for r in sourced()[f"audit_{SOURCE}"].reports if r.seed in SEEDS[:there] or r.method_name != "dfa"]
    rows = [row("dfa", seed, error="" if n < there else "not finished") for n, seed in enumerate(SEEDS)]
    write_audit(tmp_path, SOURCE, reports, rows)
    found = {d.claim.id: d for d in decide(Results(tmp_path))}
    for claim in ("C02", "C06", "C19", "C20", "C21", "C29"):
        assert found[claim].status is NOT_RUN
        assert f"{there} of 3 seeds of dfa" in found[claim].measured
    waiting = section(page_of(tmp_path, tmp_path), "What is still to be run")
    assert f"{there} of 3 seeds of dfa" in waiting


def test_what_was_tried_is_found_among_the_runs_on_record(tmp_path):
    reports = seeds("dfa", acc=0.3, frozen=0.349, growth=1e3, h=5e8, g=1e-5)
    audited(tmp_path, reports, growth=1e3)
    shorter = put_run(tmp_path, settings(epochs=30), acc=0.25, growth=70.0)
    put_run(tmp_path, settings(epochs=30, credit_site="written"))  # two settings differ
    put_run(tmp_path, settings(seed=7, epochs=30))  # another seed
    bare = put_run(tmp_path, settings(seed=123, architecture_options={"terminal_norm": False}), growth=2.0)
    results = Results(tmp_path)
    decided = next(claim for claim in CLAIMS if claim.id == "C02").decided(results)
    assert decided.status is NOT
    tried = {each.change.setting: each for each in Record(results).one_factor(decided)}
    assert {name: each.runs for name, each in tried.items()} == {
        "epochs": (shorter,), "architecture.terminal_norm": (bare,)
    }  # fmt: skip
    assert "100 → 30" in tried["epochs"].words
    assert "0.250" in tried["epochs"].words
    assert "(a) fires on 1 of 1" in tried["epochs"].words
    page = page_of(tmp_path, tmp_path)
    assert "100 → 30" in page
    assert f"[42](results/runs/{decided.rows[0]['id']}.json)" in page


def test_that_nothing_was_tried_is_told(tmp_path):
    audited(tmp_path, seeds("dfa", acc=0.3, frozen=0.349, growth=1e3, h=5e8, g=1e-5))
    facts = re.search(r'<a id="c02"></a>.*?<a id=', page_of(tmp_path, tmp_path), re.DOTALL)[0]
    assert "no run on record differs" in facts


def test_an_option_that_came_later_has_its_default_in_an_older_record():
    older = settings()
    newer = settings(architecture_options={"residual_add": True, "w2_std": 0.01})
    assert all_settings(older) == all_settings(newer)
    assert all_settings(settings(architecture_options={"w2_std": 0.5})) != all_settings(older)


def test_the_readings_of_both_are_named_from_the_runs(tmp_path):
    audited(tmp_path, seeds("dfa"))
    own = {**settings(credit_norm="per_sample", credit_site="written")}
    write_audit(tmp_path, RECORD, published(), [row("dfa", 42) | {"id": put_run(tmp_path, own)}])
    table = section(page_of(tmp_path, tmp_path), "The two readings of each method")
    (line,) = [line for line in table.splitlines() if line.startswith("| dfa |")]
    _, _, source, variant, _ = line.split("|")
    assert "credit\\_site=read" in source
    assert "credit\\_site=written" in variant


def test_every_partly_says_which_half(tmp_path):
    put(tmp_path, sourced(fa_block=seeds("fa_block", **FA | {"acc": 0.5})))
    found = {d.claim.id: d for d in decide(Results(tmp_path))}
    assert found["C28"].status is PARTLY
    assert any("accuracies" in part for part in found["C28"].outcome.fails)
    assert any("cosines per block" in part for part in found["C28"].outcome.holds)
    facts = re.search(r'<a id="c28"></a>.*?<a id=', page_of(tmp_path, tmp_path), re.DOTALL)[0]
    assert "which part: Holds:" in facts
