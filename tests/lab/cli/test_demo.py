import json
import subprocess
import sys

import pytest

from walkback.cli.output import folder_for
from walkback.errors import InputError


def test_demo_trains_judges_and_writes_what_it_says(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "walkback", "demo", "--epochs", "2", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == [
        "bp.html", "bp.json", "demo.png", "dfa.html", "dfa.json", "report.html"
    ]  # fmt: skip
    bp, dfa = (json.loads((out / f"{name}.json").read_text()) for name in ("bp", "dfa"))
    assert bp["frozen_baseline_acc"] is not None
    assert dfa["alignment"]["null"]["draws"] == 20
    assert max(b / a for a, b in zip(dfa["residual_norms"], dfa["residual_norms"][1:], strict=False)) > 50
    assert "residual stream exploded" in dfa["verdict"]
    assert "residual stream exploded" not in bp["verdict"]
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "4 networks trained and 2 judged" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(str(out / "report.html"))
    page = (out / "report.html").read_text()
    assert page.count('<tbody id="n') == 2
    assert "scaled DFA, seed 0: (a) first fires at epoch" in page
    assert "scaled DFA, seed 0" in done.stdout


def test_an_output_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "walkback", "demo", "--out", str(tmp_path / "file" / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot write into" in done.stderr


def test_a_folder_that_takes_no_file_is_refused_before_the_work(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    assert folder_for(tmp_path / "new").is_dir()
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(InputError, match=r"cannot write into .*No space left on device"):
        folder_for(tmp_path / "new")
