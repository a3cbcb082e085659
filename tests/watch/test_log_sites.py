"""Which sites the values of a log are of: a gradient at the wrong site would be a wrong verdict that nothing shows."""

import json

import pytest

import walkback
from walkback.errors import InputError, RecordError
from walkback.protocol.records import State
from walkback.watch.replay import replay


def written(tmp_path, rows):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


H, G = [8.0, 9.0, 10.0], [1e-3, 1e-9]
"""Norms at three sites, and gradients behind the two blocks alone."""


@pytest.mark.parametrize(("h", "g"), [(H, G), (H[:2], [1e-3, *G]), (H, [1e-3]), (H, [])])
def test_lists_of_different_lengths_are_refused_as_by_the_api(tmp_path, h, g):
    with pytest.raises(InputError):
        walkback.Measurements(residual_norms=h, bp_grad_norms=g)
    with pytest.raises(RecordError):
        replay(written(tmp_path, [{"h": h, "g": g}] * 2), columns="h=h,g=g")


def test_the_refusal_names_both_lengths_and_how_to_name_the_sites(tmp_path):
    path = written(tmp_path, [{"ep": 1, "h": H, "g": G}] * 2)
    with pytest.raises(
        RecordError, match=r"h at epoch 1 is a list of 3 values.*g at epoch 1 .*2 values.*g_1\.\.L=COLUMN"
    ):
        replay(path, columns="h=h,g=g,epoch=ep")


def test_gradients_behind_the_blocks_are_at_the_sites_that_the_map_names(tmp_path):
    (entry,) = replay(written(tmp_path, [{"h": H, "g": G}] * 2), columns="h=h,g_1..L=g")
    assert entry.report.residual_norms == tuple(H)
    assert entry.report.extra == {"g_1": 1e-3, "g_2": 1e-9}
    reading = entry.report.reading("b")
    assert (reading.state, reading.site, reading.value) == (State.FIRE, 2, 1e-9)


def test_a_site_beside_a_list_of_the_others_is_the_whole_stream(tmp_path):
    path = written(tmp_path, [{"stem": 8.0, "blocks": [9.0, 10.0]}] * 2)
    (entry,) = replay(path, columns="h_0=stem,h_1..L=blocks")
    assert entry.report.residual_norms == tuple(H)
    with pytest.raises(RecordError, match="h_1 twice"):
        replay(path, columns="h_1=stem,h_1..L=blocks")


@pytest.mark.parametrize("blocks", [None, 2])
def test_a_list_that_changes_its_length_on_the_way_is_refused(tmp_path, blocks):
    path = written(tmp_path, [{"h": H}, {"h": H[:2]}])
    with pytest.raises(RecordError, match="at step 2"):
        replay(path, columns="h=h", blocks=blocks)


def test_runs_of_different_depth_in_one_file_are_no_change_of_length(tmp_path):
    path = written(tmp_path, [{"run": "deep", "h": H}, {"run": "flat", "h": H[:2]}])
    assert [len(entry.report.residual_norms) for entry in replay(path, columns="h=h,name=run")] == [3, 2]


@pytest.mark.parametrize(
    ("columns", "blocks", "words"),
    [
        ("h=h", 4, "--blocks is 4.*list of 3 values"),
        ("h_0..1=h", None, "h_0..1 holds 3 values; expected 2"),
        ("h=h,g_5=one", None, "names site 5"),
        ("h_0=h", None, "expected a number.*called h"),
        ("h=one", None, "expected a list of numbers.*h_0=COLUMN"),
    ],
)
def test_a_list_that_does_not_fit_its_name_is_refused(tmp_path, columns, blocks, words):
    with pytest.raises(RecordError, match=words):
        replay(written(tmp_path, [{"h": H, "one": 1.0}] * 2), columns=columns, blocks=blocks)


def table(tmp_path, *rows):
    path = tmp_path / "log.csv"
    path.write_text("a,b,c,x,y\n" + "\n".join(rows) + "\n")
    return path


def test_numbered_columns_that_differ_ask_for_the_number_of_blocks(tmp_path):
    path, columns = table(tmp_path, "8,9,10,1e-3,1e-9"), "h_0=a,h_1=b,h_2=c,g_0=x,g_1=y"
    with pytest.raises(RecordError, match=r"h is recorded at the sites 0 to 2.*g .* 0 to 1.*--blocks"):
        replay(path, columns=columns)
    (entry,) = replay(path, columns=columns, blocks=2)
    assert "a proxy for the deepest site 2" in entry.report.reading("b").sentence
    (entry,) = replay(path, columns=columns.replace("g_1", "g_2").replace("g_0", "g_1"))
    assert entry.report.reading("b").site == 2


def test_an_empty_cell_makes_no_shallower_network(tmp_path):
    path = table(tmp_path, "8,9,10,1e-3,1e-3", "8,9,,1e-3,1e-3")
    (entry,) = replay(path, columns="h_0=a,h_1=b,h_2=c,g_1=x,g_2=y")
    assert entry.report.last_site == 2
    assert entry.report.reading("a").state is State.UNDECIDED


def test_a_list_in_a_cell_of_a_table_is_refused_with_what_to_write(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('h\n"[8, 9, 10]"\n')
    with pytest.raises(RecordError, match="A cell of a table holds one number"):
        replay(path, columns="h=h")
