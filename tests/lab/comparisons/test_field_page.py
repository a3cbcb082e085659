"""docs/FIELD.md and its figure from made-up records: every cell leads to its record, and nothing is typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from walkback.cli import main
from walkback.lab.comparisons.differences import over_seeds, paired
from walkback.lab.comparisons.findings import sentences
from walkback.lab.comparisons.plan import BP, FROZEN
from walkback.lab.comparisons.plotted import NETWORKS, cell_of, field_of
from walkback.lab.comparisons.presets import FIELD
from walkback.lab.comparisons.publish import publish
from walkback.lab.comparisons.record import COMPARISON_VERSION, READS, comparison_file, write_comparison
from walkback.lab.comparisons.tables import depth_words, difference, gamma_words, health, outcomes, scores

ROOT = Path(__file__).parents[3]
SEEDS = (42, 123, 456)


def answers(share, seed):
    import numpy as np

    return np.random.default_rng(seed).random(400) < share


def arm(label, share, *, gamma=None, outcome="pass", case="gains", remarks=(), others=None):
    bits = [answers(share, seed) for seed in SEEDS]
    runs = [
        {
            "seed": seed, "run": f"{position:012x}", "command": "c", "error": "", "accuracy": share, "loss": 1.0,
            "ended": "", "unmeasured": "", "verdicts": {"calibrated": {"outcome": outcome, "words": ""}},
            "growth": 1.5, "depth_gain": 0.3, "depth_case": case, "gamma": gamma, "gamma_z": None,
            "no_gamma": "" if gamma is not None else "by design", "rho": None,
        }
        for position, seed in enumerate(SEEDS)
    ]  # fmt: skip
    rates = [{"rate": 0.001, "run": "f" * 12, "command": "c", "error": "", "accuracy": 0.5, "loss": 1.0, "ended": ""}]
    to = {name: None if label == name else paired(bits, other) for name, other in (others or {}).items()}
    return {
        "label": label, "method": "bp", "options": {}, "default_rate": 0.001, "rates": rates, "chosen_by": "accuracy",
        "best": 0.001, "remarks": list(remarks), "runs": runs, "accuracy": over_seeds([each.mean() for each in bits]),
        "loss": None, "to_bp": to.get(BP), "to_frozen": to.get(FROZEN),
    }  # fmt: skip


def made_up(name="field_mlp_mnist", outcome="fail"):
    others = {BP: [answers(0.9, seed) for seed in SEEDS], FROZEN: [answers(0.5, seed) for seed in SEEDS]}
    arms = [
        arm(BP, 0.9, gamma=1.0, others=others),
        arm(FROZEN, 0.5, gamma=1.0, case="", others=others),
        arm("dfa", 0.7, gamma=0.2, outcome=outcome, remarks=["The best rate is at the end."], others=others),
        arm("mono_forward", 0.4, case="harmful", others=others),
    ]
    return {
        "comparison_version": COMPARISON_VERSION, "name": name, "command": f"walkback lab compare --preset {name}",
        "config": {"architecture": "mlp", "data": "mnist", "epochs": 2, "budget": 1, "seeds": 3, "settings": {}},
        "validation": {"samples": 40, "seed": 1, "share": 0.1}, "seeds": list(SEEDS), "trained_on": "the rest",
        "test_reads": {"how": READS, "tuning_runs": 4, "reads_of_each_tuning_run": 0, "final_runs": 12,
                       "reads_of_each_final_run": 1},
        "arms": arms, "undefined": {"forward_forward": "it is <not> defined here."},
    }  # fmt: skip


def written(tmp_path, *records):
    results, page = tmp_path / "results", tmp_path / "docs" / "FIELD.md"
    for record in records:
        write_comparison(comparison_file(results, record["name"]), record)
    made = list(publish(results, page))
    return made, page.read_text(encoding="utf-8")


def test_without_a_record_the_page_says_what_is_missing_and_the_commands(tmp_path):
    made, text = written(tmp_path)
    assert [path.name for path in made] == ["FIELD.md"]
    for name in FIELD:
        assert f"walkback lab compare --preset {name}" in text
    assert "Not on record yet" in text
    assert "![" not in text


def test_every_cell_with_a_value_leads_to_its_record(tmp_path):
    made, text = written(tmp_path, made_up())
    assert {path.name for path in made} == {"field.png", "FIELD.md"}
    (row,) = [line for line in text.splitlines() if line.startswith("| dfa | 0.001 |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")][2:]
    assert all(re.fullmatch(r"(\[[^]]+\]\(\.\./results/[^)]+\) ?)+", cell) for cell in cells)
    assert "../results/compare_field_mlp_mnist.json" in row
    assert f"[42](../results/runs/{'0' * 12}.json)" in row
    assert r"(\!)" in row
    assert "The best rate is at the end." in text
    assert "&lt;not&gt;" in text or r"\<not\>" in text


def test_the_findings_are_counted(tmp_path):
    found = " ".join(sentences(made_up()))
    assert "1 of 2 methods: better than blocks left at random" in found
    assert "2 of 2 methods: worse than backpropagation" in found
    assert "1 of 2 methods: use their depth" in found
    assert "is known of 1 methods: from 0.20 (dfa) to 0.20 (dfa)" in found
    assert "broken in every run (dfa)" in found
    other = " ".join(sentences(made_up(outcome="pass")))
    assert "0 of 2 methods: have a network that is called broken" in other


def test_the_page_defines_its_words_before_it_uses_them_in_tables(tmp_path):
    _, text = written(tmp_path, made_up())
    words = text.index("## The words")
    for heading in scores(made_up()).headings + health(made_up()).headings:
        assert text.rindex(heading.replace("_", "\\_")) > words
    for word in ("frozen", "credit", "Γ", "ρ", "panel", "depth gain", "interval", "validation samples"):
        assert re.search(rf"^\| {word} \|", text, re.MULTILINE), word


def test_a_cell_of_the_figure_is_its_record(tmp_path):
    record = made_up()
    cell = cell_of(record, "dfa")
    frozen, best = record["arms"][2]["to_frozen"]["mean"], record["arms"][0]["to_frozen"]["mean"]
    assert cell.gain == pytest.approx(100 * frozen)
    assert cell.share == pytest.approx(frozen / best)
    assert (cell.gamma, cell.failed, cell.of) == (pytest.approx(0.2), 3, 3)
    assert cell_of(record, "forward_forward").words == "not defined"
    assert cell_of(None, "dfa").words == cell_of(record, "ep").words == "not run"
    field = field_of({"field_mlp_mnist": record}, ["bp", "dfa"])
    assert len(field.cells) == 2 * len(NETWORKS)


def test_the_figure_is_narrow_enough_for_a_phone(tmp_path):
    from walkback.present.figures.field import WIDTH, plot
    from walkback.present.figures.style import PRINT

    figure = plot(field_of({"field_mlp_mnist": made_up()}, ["bp", "dfa", "mono_forward"]))
    assert figure.get_size_inches()[0] == WIDTH
    sizes = [text.get_fontsize() for text in figure.axes[0].texts if text.get_text()]
    # At 400 px of width a point is 400 / (72 · WIDTH) px; nothing is smaller than what phones show as small print.
    assert min(sizes) * 400 / (72 * WIDTH) > 7
    assert max(sizes) <= PRINT


def test_words_of_tables():
    record = made_up()
    assert difference(None) == "–"
    assert gamma_words(record["arms"][3]) == "no credit"
    assert outcomes(record["arms"][2], "calibrated") == "fail"
    record["arms"][2]["runs"][0]["verdicts"]["calibrated"]["outcome"] = "pass"
    assert outcomes(record["arms"][2], "calibrated") == "fail 2, pass 1"
    frozen = record["arms"][1]
    assert frozen["label"] == "frozen"
    assert outcomes(frozen, "calibrated") == "–"  # it is what (d) is measured against, and has no margin
    assert depth_words(frozen) == "is the baseline"
    assert outcomes(record["arms"][2], "june2026") == "–"


def test_the_page_in_docs_is_the_one_of_the_record(tmp_path):
    from walkback.lab.comparisons.estimate import ESTIMATE_FILE
    from walkback.lab.comparisons.page import page_of
    from walkback.lab.comparisons.publish import on_record
    from walkback.protocol.schema import read_json

    cost = ROOT / "results" / ESTIMATE_FILE
    made = page_of(on_record(ROOT / "results"), "../results", read_json(cost) if cost.exists() else {})
    assert made.markdown() == (ROOT / "docs" / "FIELD.md").read_text(encoding="utf-8"), "run: make record"


def test_the_command_writes_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    assert main.app(["lab", "compare", "--page", "docs/FIELD.md"]) == 0
    assert "FIELD.md" in capsys.readouterr().out
    assert (tmp_path / "docs" / "FIELD.md").exists()
