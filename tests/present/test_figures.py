"""The figures, drawn from recorded audits and from runs trained here; structure and numbers, not pixels."""

import json
from pathlib import Path

import pytest
from figure_samples import AUDIT, TRACES, shown, trained
from present_samples import AWKWARD, NAN, broken, full, healthy, many_sites
from typer.testing import CliRunner

from walkback.cli.main import app_for
from walkback.errors import InputError, RecordError, WalkbackError
from walkback.lab.present.figures import figure_named
from walkback.lab.present.networks import networks_in
from walkback.present.figures import FIGURES
from walkback.present.figures.style import save
from walkback.present.figures.temporal import Column
from walkback.present.network import Network
from walkback.protocol.schema import STUDY_VERSION

SENSITIVITY = "results/sensitivity_recorded_resmlp_d256.json"


def words(axes):
    return " ".join(" ".join(text.get_text().split()) for text in axes.texts)


def marks(axes, shape):
    return [float(y) for line in axes.get_lines() if line.get_marker() == shape for y in line.get_ydata()]


@pytest.fixture(scope="module")
def penalised(tmp_path_factory):
    """BP and DFA with and without the penalty, trained here."""
    folder = tmp_path_factory.mktemp("penalty")
    penalties = [("bp", {}), ("dfa", {}), ("dfa", {"penalty": 0.01})]
    store = trained(folder, *penalties)
    return networks_in([run.run_id for run in store], store)


def test_the_audit_marks_every_seed_at_its_figure_and_draws_the_thresholds():
    panels = FIGURES.load("audit")(shown(AUDIT)).axes
    for axes, letter, limit in zip(panels, "abcd", (50.0, 1e-7, 0.3, 2.0), strict=True):
        readings = [network.report.reading(letter) for network in shown(AUDIT)]
        fired = sorted(r.value for r in readings if r.value is not None and r.state == "FIRE")
        passed = sorted(r.value for r in readings if r.value is not None and r.state == "PASS")
        assert sorted(marks(axes, "s")) == fired
        assert sorted(marks(axes, "o")) == passed
        assert any(list(line.get_ydata()) == [limit, limit] for line in axes.get_lines())
        assert f"{limit:g}" in words(axes)
    assert [label.get_text() for label in panels[0].get_xticklabels()] == [
        "BP", "DFA", "State\nBridge", "Credit\nBridge", "EP"
    ]  # fmt: skip
    assert words(panels[3]).count("not measured") == 2  # BP and EP have no frozen baseline on record


def test_the_headline_has_what_papers_report_above_and_the_tests_below():
    accuracy, cosine, *tests = FIGURES.load("headline")(shown(AUDIT)).axes
    reports = [network.report for network in shown(AUDIT)]
    assert sorted(marks(accuracy, "o")) == sorted(100 * r.headline_acc for r in reports)
    frozen = [100 * r.frozen_baseline_acc for r in reports if r.frozen_baseline_acc is not None]
    assert sorted(marks(accuracy, "_")) == sorted(frozen)
    assert "not measured" in words(cosine)  # the recorded audit has no Γ per site
    for axes, letter in zip(tests, "abcd", strict=True):
        fired = sorted(r.reading(letter).value for r in reports if r.reading(letter).state == "FIRE")
        assert sorted(marks(axes, "s")) == fired
    aligned = report_with_gamma()
    _, cosine, *_ = FIGURES.load("headline")([Network(aligned)]).axes
    assert marks(cosine, "o") == [pytest.approx(0.2)]  # over the blocks; h_L is read by none


def report_with_gamma():
    from reference.made_results import network

    return network("dfa", gamma=[0.4, 0.2, 0.1, 0.1, 0.9])


@pytest.mark.parametrize("name", ["audit", "sites", "headline"])
@pytest.mark.parametrize("report", ["empty", "nan", "many_sites", "hostile", "zeros", "extremes"])
def test_awkward_reports_are_drawn(name, report, tmp_path):
    figure = FIGURES.load(name)([Network(AWKWARD[report])])
    assert save(figure, tmp_path / "f.svg").stat().st_size > 1000


def test_what_is_not_finite_or_not_measured_is_said():
    assert "not finite" in words(FIGURES.load("audit")([Network(full()), Network(broken(NAN))]).axes[0])
    assert "was not measured" in words(FIGURES.load("audit")([Network(healthy())]).axes[3])
    assert "not measured" in words(FIGURES.load("sites")([Network(healthy())]).axes[2])


def test_the_course_has_a_column_for_each_architecture_and_says_what_is_missing():
    networks = shown(*TRACES)
    figure = FIGURES.load("temporal")([Column("ResMLP", networks), Column("ViT-Mini", [], "make it with: a command")])
    panels = dict(zip(("h", "", "g", "", "acc", ""), figure.axes, strict=False))
    assert len(figure.axes) == 6
    assert all("make it with: a command" in words(axes) for axes in figure.axes[1::2])
    dfa = next(n for n in networks if "dfa" in n.method)
    drawn = [list(line.get_ydata()) for line in panels["g"].get_lines()]
    assert dfa.series("gradient") in drawn
    crosses = [x for line in panels["g"].get_lines() if line.get_marker() == "X" for x in line.get_xdata()]
    assert crosses == [dfa.positions[dfa.first_fired["b"]]]


def test_the_penalty_figure_draws_trained_runs_with_their_margins(penalised):
    stream, gradient, accuracy = FIGURES.load("penalty")(penalised).axes
    assert len(penalised) == 3
    for network in penalised:
        assert network.series("stream") in [list(line.get_ydata()) for line in stream.get_lines()]
        assert network.series("gradient") in [list(line.get_ydata()) for line in gradient.get_lines()]
        margin = 100 * (network.report.headline_acc - network.report.frozen_baseline_acc)
        assert f"{margin:+.1f}" in words(accuracy)


def test_the_penalty_figure_says_what_is_not_on_record(penalised):
    figure = FIGURES.load("penalty")(penalised[:1], "walkback lab audit …")
    assert "not on record: walkback lab audit …" in figure.get_suptitle()
    assert all("not on record: a command" in words(axes) for axes in FIGURES.load("penalty")([], "a command").axes)


def test_the_sensitivity_figure_draws_every_sweep_and_the_safe_range():
    panels = figure_named("sensitivity", [SENSITIVITY], Path("results")).axes
    growth = panels[0]
    walked_back = growth.get_lines()[0].get_ydata()
    assert (max(walked_back), min(walked_back)) == (13, 9)
    (grey,) = growth.patches
    assert grey.get_x() == pytest.approx(10.961, abs=1e-3)
    assert "50" in words(growth)
    assert "not measured" in words(panels[3])


def test_sites_are_drawn_with_the_floor_and_the_null():
    stream, gradient, alignment = FIGURES.load("sites")([Network(full())]).axes
    assert list(stream.get_lines()[0].get_ydata()) == list(full().residual_norms)
    assert "(b) fires < 1e-07" in words(gradient)
    assert len(alignment.collections) == 1  # the null's band
    assert FIGURES.load("sites")([Network(many_sites())]).axes[0].get_lines()[0].get_marker() in ("", "None")


@pytest.mark.parametrize(("name", "start"), [("f.png", b"\x89PNG"), ("f.svg", b"<?xml"), ("f.pdf", b"%PDF")])
def test_equal_figures_are_equal_files(name, start, tmp_path):
    first = save(FIGURES.load("sites")([Network(full())]), tmp_path / name).read_bytes()
    assert first.startswith(start)
    assert save(FIGURES.load("sites")([Network(full())]), tmp_path / name).read_bytes() == first


def test_what_is_on_record_is_found_by_its_name(tmp_path):
    with pytest.raises(InputError, match="walkback lab audit --preset resmlp_d256"):
        figure_named("audit", [], tmp_path)
    with pytest.raises(InputError, match="walkback lab audit --preset resmlp_d256"):
        figure_named("temporal", [], tmp_path)
    with pytest.raises(InputError, match="penalty"):
        figure_named("penalty", [], tmp_path)
    with pytest.raises(InputError, match="walkback lab study sensitivity"):
        figure_named("sensitivity", [], tmp_path)
    (tmp_path / "s.json").write_text(json.dumps({"study_version": STUDY_VERSION}))
    with pytest.raises(RecordError, match="not the answer of the sensitivity study"):
        figure_named("sensitivity", [str(tmp_path / "s.json")], tmp_path)


def test_an_audit_made_here_is_drawn_by_the_command(tmp_path):
    folder = tmp_path / "results"
    trained(tmp_path, ("bp", {}), ("dfa", {"credit_norm": "per_sample"}))
    settings = ["--arch", "resmlp", "--data", "digits", "--methods", "bp", "dfa:credit_norm=per_sample", "--seeds", "7"]
    more = ["--epochs", "2", "--set", "arch.width=12", "--set", "arch.depth=2", "--set", "batch_size=640"]
    place = ["--set", "learning_rate=0.01", "--name", "resmlp_d256", "--no-train", "--results", str(folder)]
    run = CliRunner()
    made = run.invoke(
        app_for(()), ["lab", "audit", *settings, *more, *place, "--runs", str(tmp_path / "runs")], standalone_mode=False
    )
    assert (folder / "audit_resmlp_d256.json").exists(), made.output
    for name in ("audit", "temporal", "sites", "penalty"):
        out = tmp_path / f"{name}.svg"
        command = ["figure", name, "--results", str(folder), "-o", str(out)]
        result = run.invoke(app_for(()), command, standalone_mode=False, catch_exceptions=False)
        assert result.return_value == 0
        assert out.stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nope",), "there is no figure called 'nope'"),
        (("audit", "nowhere.json"), "there is no such file"),
        (("sites", str(AUDIT), "-o", "x.gif"), "ends in .png, .svg or .pdf"),
        (("sites", str(AUDIT), "-o", "/nowhere/x.png"), "cannot write /nowhere/x.png"),
    ],
)
def test_bad_input_ends_in_a_sentence(arguments, expected):
    result = CliRunner().invoke(app_for(()), ["figure", *arguments], standalone_mode=False)
    assert isinstance(result.exception, WalkbackError)
    assert expected in str(result.exception)
