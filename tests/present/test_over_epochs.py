import numpy as np

from walkback.present.figures.over_epochs import History, plot
from walkback.present.figures.style import save

RUNS = [
    History("BP", [1, 1.1, 1.2], [8e-3, 1e-3, 5e-4], [0.1, 0.4, 0.1], [0.1, 0.5, 0.6], [0.1, 0.3, 0.35]),
    History("DFA", [1, 400, None], [8e-3, 1e-6, float("nan")], [None, 0.2, 0.1], [0.1, 0.3, 0.3]),
]


def lines(axes):
    return {line.get_label(): line.get_ydata() for line in axes.get_lines()}


def test_each_panel_draws_every_run_and_its_threshold():
    growth, gradient, drift, accuracy = plot(RUNS).axes
    for axes, threshold in ((growth, 50.0), (gradient, 1e-7), (drift, 0.3)):
        drawn = axes.get_lines()
        assert [line.get_label() for line in drawn[:2]] == ["BP", "DFA"]
        assert list(drawn[-1].get_ydata()) == [threshold, threshold]
    assert list(lines(growth)["BP"]) == [1, 1.1, 1.2]
    assert growth.get_yscale() == gradient.get_yscale() == "log"
    assert len(accuracy.get_lines()) == 3  # two runs, one of them with its frozen baseline
    assert np.isnan(lines(growth)["DFA"][2])


def test_a_figure_is_written_in_the_format_of_its_name(tmp_path):
    for name, start in (("f.png", b"\x89PNG"), ("f.svg", b"<?xml"), ("f.pdf", b"%PDF")):
        assert save(plot(RUNS), tmp_path / name).read_bytes().startswith(start)
