"""Logs as spreadsheets and authors write them: semicolons, commas in names, accuracies in per cent."""

import pytest

from walkback.errors import RecordError
from walkback.watch.replay import replay

MAP = "h_0=in,h_L=out,g_L=grad,acc_percent=acc,frozen_acc_percent=frozen"
ROWS = ("in{0}out{0}grad{0}acc{0}frozen", "8{0}4000{0}1e-9{0}61.5{0}40.25")


def replayed(tmp_path, separator=",", columns=MAP, rows=ROWS):
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows).format(separator) + "\n", encoding="utf-8")
    (entry,) = replay(path, columns=columns, blocks=1)
    return entry.report


@pytest.mark.parametrize("separator", [",", ";"])
def test_both_separators_give_the_same_values(tmp_path, separator):
    report = replayed(tmp_path, separator)
    assert (report.headline_acc, report.frozen_baseline_acc) == (0.615, 0.4025)
    assert report.reading("a").value == 500
    assert report.reading("d").value == pytest.approx(21.25)


def test_a_comma_in_the_name_of_a_column(tmp_path):
    rows = ('"norm, in",out,grad', "8,4000,1e-9")
    assert replayed(tmp_path, columns=r"h_0=norm\, in,h_L=out,g_L=grad", rows=rows).residual_norms == (8, 4000)


@pytest.mark.parametrize("key", ["acc", "frozen_acc"])
def test_per_cent_is_not_taken_for_a_share(tmp_path, key):
    with pytest.raises(RecordError, match=f"{key}_percent=COLUMN"):
        replayed(tmp_path, columns=MAP.replace(f"{key}_percent=", f"{key}="))


def test_decimal_commas_are_refused_with_what_to_write(tmp_path):
    with pytest.raises(RecordError, match="Write decimals with a point"):
        replayed(tmp_path, ";", rows=(ROWS[0], ROWS[1].replace("61.5", "61,5")))


def test_a_file_that_is_no_text_is_refused_in_words_of_ones_own(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"a,b\n\x80\x81,1\n")
    with pytest.raises(RecordError, match=r"is not UTF-8 text \(byte 5\)") as caught:
        replay(tmp_path / "log.csv", columns="h_0=a,h_L=b")
    assert "codec" not in str(caught.value)
