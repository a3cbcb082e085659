"""Records as they are committed; and the whole way of the held half, on a split of three tiny networks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_scoring import invoke
from tiny import tiny

from walkback.errors import InputError, RecordError
from walkback.lab.validity import bench as bench_module
from walkback.lab.validity import opening, runner, split, table
from walkback.lab.validity.bench import Bench
from walkback.lab.validity.making import make
from walkback.lab.validity.packed import packed_file, read_packed, write_packed
from walkback.lab.validity.runner import Folder

COMMITTED = Path(__file__).parents[3] / "results" / "validity" / "records"


@pytest.fixture(scope="module")
def records():
    configs = [tiny("healthy", 0.0, samples=256, epochs=2, number=n, seed=4_100_000_000 + n) for n in range(2)]
    return [make(config) for config in configs]


def test_packed_records_come_back_and_are_the_same_bytes_twice(records, tmp_path):
    first, second = (write_packed(tmp_path / name / "x.jsonl.gz", records) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    assert list(read_packed(first).values()) == records
    assert read_packed(tmp_path / "none.jsonl.gz") == {}
    first.write_bytes(first.read_bytes()[:-20])
    with pytest.raises(RecordError, match="Restore it"):
        read_packed(first)


def test_a_packed_network_is_not_made_again_and_a_closed_half_is_not_read(records, tmp_path, monkeypatch):
    configs = tuple(record.config for record in records)
    monkeypatch.setattr(runner, "halves", lambda: {"fit": {"healthy": configs}, "held": {"healthy": configs}})
    write_packed(packed_file(tmp_path / "packed", "held", "healthy"), records[:1])
    folder = Folder(tmp_path / "runs", tmp_path / "packed")
    state = runner.progress_of(folder, "held", "healthy", limit=2)
    assert [config.id for config in state.waiting] == [records[1].id]
    closed = Folder(tmp_path / "runs", tmp_path / "packed", halves=("fit",))
    with pytest.raises(InputError, match="held half"):
        list(closed.records("held", "healthy"))
    path = folder.path("held", configs[1])
    path.parent.mkdir(parents=True)
    records[1].save(path)
    (written,) = folder.pack("held", ["healthy", "dead_blocks"])
    assert list(read_packed(written)) == [config.id for config in configs]


@pytest.mark.slow
def test_the_held_half_is_made_packed_opened_and_scored(tmp_path, monkeypatch):
    """`--run held` in two processes, resumed; `--open`, once; and the rates that ship with the panel."""
    of = {
        name: tuple(
            tiny(name, dial, task="digits", level=10, samples=512, epochs=4, number=n, seed=4_200_000_000 + n)
            for n in range(2)
        )
        for name, dial in (("healthy", 0.0), ("frozen_blocks", 1.0))
    }  # fmt: skip
    small = {"fit": of, "held": of}
    monkeypatch.setattr(runner, "halves", lambda: small)
    monkeypatch.setattr(split, "halves", lambda: small)
    monkeypatch.setattr(opening, "commit", lambda: "abc")
    panel = tmp_path / "panel"
    panel.mkdir()
    for name in ("calibrated.json", "calibrated_rates.json"):
        (panel / name).write_bytes((bench_module.HERE / name).read_bytes())
    monkeypatch.setattr(Bench, "at", classmethod(lambda cls, runs, results: cls(
        Folder(runs, results / "records"), results, panel
    )))  # fmt: skip
    results = tmp_path / "results"
    results.mkdir()
    (results / split.SPLIT_FILE).write_text(split.written())
    places = ["--runs", str(tmp_path / "runs"), "--results", str(results)]
    chosen = ["--only", "healthy", "--only", "frozen_blocks"]
    for half in ("fit", "held"):
        assert invoke("--run", half, *chosen, "--limit", "2", "--workers", "2", *places).exit_code == 0
        assert packed_file(results / "records", half, "frozen_blocks").is_file()
    again = invoke("--run", "held", *chosen, "--limit", "2", *places)
    assert "held" not in again.output.replace("held_", "")  # nothing was left to make
    docs = tmp_path / "docs"
    docs.mkdir()
    assert invoke("--score", *places, "--docs", str(docs)).exit_code == 0
    rates = json.loads((panel / "calibrated_rates.json").read_text())
    assert rates["held"] is None
    assert rates["fit"]["found"]["frozen_blocks"]["count"] == 2
    assert invoke("--open", *places, "--docs", str(docs)).exit_code == 0
    rates = json.loads((panel / "calibrated_rates.json").read_text())
    assert rates["held"]["found"]["frozen_blocks"] == rates["fit"]["found"]["frozen_blocks"]
    assert json.loads((results / "opened.json").read_text())[0]["networks"] == 2 + rates["held"]["flagged"]["of"]
    page = (docs / "VALIDITY.md").read_text()
    assert re.search(r"The held part was first scored on \S+ at commit abc\b", page)
    assert "scored again" not in page
    with pytest.raises(InputError, match="was opened on"):
        invoke("--open", *places, "--docs", str(docs))


def test_a_network_on_record_is_made_again_as_it_is():
    """The code of today measures what the code behind the committed records measured, batch norm included."""
    known = [r for r in read_packed(packed_file(COMMITTED, "fit", "bp_as_dfa")).values() if r.config.norm == "batch"]
    record = min(known, key=lambda each: sum(each.cpu_seconds.values()))
    again = make(record.config)
    assert again.own.accuracy == pytest.approx(record.own.accuracy, abs=0.02)
    before, now = table.row_of(record, "fit"), table.row_of(again, "fit")
    assert set(now.readings) == set(before.readings)
    assert now.outcomes["calibrated"] == before.outcomes["calibrated"] == "fail"
    for letter in ("a", "i", "bg", "t", "m", "u", "di"):
        assert now.readings[letter] == pytest.approx(before.readings[letter], rel=0.05, abs=0.02), letter
