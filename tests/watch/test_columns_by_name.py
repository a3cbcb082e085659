"""A log whose columns are called by walkback's own words, and nothing else, needs no map; any other is refused."""

import pytest

from walkback.errors import InputError, RecordError
from walkback.watch.replay import replay

ROWS = "1,8,9,0.004,0.6\n2,8,900,0.004,0.62\n"


def log_of(tmp_path, header, rows=ROWS):
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n{rows}")
    return path


def test_it_is_read_as_with_the_map_and_says_so(tmp_path):
    path = log_of(tmp_path, "epoch,h_0,h_1,g_1,acc")
    (named,) = replay(path)
    (mapped,) = replay(path, columns="epoch=epoch,h_0=h_0,h_1=h_1,g_1=g_1,acc=acc")
    assert named.report.measurements == mapped.report.measurements
    assert named.report.reading("a").value == pytest.approx(900 / 8)
    assert "epoch, h_0, h_1, g_1, acc" in named.report.notes
    assert not mapped.report.notes


def test_what_columns_do_not_show_is_still_taken_from_the_caller(tmp_path):
    path = log_of(tmp_path, "epoch,h_0,h_1,g_1,acc")
    (at_128,), (at_256,) = replay(path), replay(path, loss_batch=256)
    assert at_256.report.reading("b").value == pytest.approx(2 * at_128.report.reading("b").value)
    assert "256 samples" in at_256.report.notes


@pytest.mark.parametrize(
    "header",
    [
        "epoch,h_0,h_1,g_1,loss",  # a word of the map that a log may mean otherwise
        "epoch,h_0,h_2,g_2,acc",  # a site is missing
        "epoch,h_1,h_2,g_2,acc",  # so is the input
        "epoch,h_0,h_1,g_0,acc",  # no gradient at the last block
        "epoch,h_0,h_1,g_2,acc",  # a gradient behind the last block
        "epoch,h_0,h_01,g_1,acc",
        "epoch,H_0,H_1,g_1,acc",
        "step,h_0,h_1,g_1,acc",
    ],
)
def test_anything_else_is_refused(header, tmp_path):
    with pytest.raises(InputError, match="--map"):
        replay(log_of(tmp_path, header))


def test_an_accuracy_in_per_cent_is_refused(tmp_path):
    with pytest.raises(RecordError, match="share from 0 to 1"):
        replay(log_of(tmp_path, "epoch,h_0,h_1,g_1,acc", "1,8,9,0.004,61.2\n"))
