"""A run is what its config hashes to: a file under its name that holds another run is refused, wherever it is read."""

import json
import random
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import SMALL, tiny
from typer.testing import CliRunner

from reference.made_results import epoch, network, row, run_file, write, write_audit, write_run
from walkback.cli.main import app_for
from walkback.errors import RecordError
from walkback.lab.evidence.results import Results
from walkback.lab.present.networks import networks_in
from walkback.lab.runs.baselines import baseline_result, finished_report, matched_baseline
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.ids import DEFAULTS_FILE, checked_id, frozen_settings, held_to_id, run_id_of
from walkback.lab.runs.store import RunStore, described
from walkback.lab.runs.train import train_or_resume
from walkback.lab.studies.audited import load_audit

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "results" / "runs"


def test_the_copy_of_the_defaults_is_what_the_zoo_says():
    made = runpy.run_path(str(ROOT / "tools" / "run_defaults.py"))["defaults"]()
    assert json.loads(DEFAULTS_FILE.read_text()) == made, "make it anew: python tools/run_defaults.py"


def test_ids_from_records_alone_are_those_of_configs():
    r = random.Random(5)
    for _ in range(60):
        config = tiny(
            r.choice(["bp", "fa", "dfa", "state_bridge", "ep"]), r.choice(sorted(SMALL)), seed=r.randrange(99),
            epochs=r.randrange(9), batch_size=r.choice([32, 128]), learning_rate=r.choice([1e-3, 0.5, 1]),
            freezing=r.choice(["none", "blocks", "ladder:1"]), targets=r.choice(["true", "random"]),
            method_options={"penalty": r.choice([0, 0.0, 0.01, 1])}, augment=r.choice([True, False]),
        )  # fmt: skip
        assert run_id_of(config.to_dict()) == config.run_id
        frozen, baseline = frozen_settings(config.to_dict()), matched_baseline(config)
        assert (frozen and run_id_of(frozen)) == (baseline and baseline.run_id)


def test_an_option_that_the_copy_does_not_know_is_asked_of_the_zoo(monkeypatch):
    config = tiny("dfa", method_options={"penalty": 0.01})
    stale = json.loads(DEFAULTS_FILE.read_text())
    del stale["method_options"]["dfa"]["credit_site"], stale["architecture_options"]["resmlp"]
    monkeypatch.setattr("walkback.lab.runs.ids._defaults", lambda: stale)
    assert run_id_of(config.to_dict()) == config.run_id


def test_a_setting_that_a_config_lacks_is_at_its_default():
    config = tiny("dfa").to_dict()
    del config["method_options"]["feedback_of"], config["targets"]
    assert run_id_of(config) == tiny("dfa").run_id


BAD_IDS = ["../../secret/other", "", "abc", "F" * 12, "0" * 13, "0" * 11 + "\n", None, 7, ["0" * 12]]


@pytest.mark.parametrize("run_id", BAD_IDS)
def test_what_is_no_id_makes_no_path(run_id, tmp_path):
    with pytest.raises(RecordError, match="expected an id of 12 hex digits"):
        checked_id(run_id, "a file")
    with pytest.raises(RecordError, match="expected an id of 12 hex digits"):
        RunStore(tmp_path).at(run_id)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store with a run, its baseline and another run."""
    store = RunStore(tmp_path_factory.mktemp("held") / "runs")
    config = tiny("bp", epochs=1)
    for each in (config, matched_baseline(config), tiny("bp", epochs=1, seed=8)):
        train_or_resume(each, store)
    return store


@pytest.fixture
def store(trained, tmp_path):
    shutil.copytree(trained.root, tmp_path / "runs")
    return RunStore(tmp_path / "runs")


RUN, FROZEN, OTHER = tiny("bp", epochs=1), matched_baseline(tiny("bp", epochs=1)), tiny("bp", epochs=1, seed=8)


def change(store, run, **fields):
    path = store.run(run).result_file
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_baseline_by_its_name_that_holds_another_run_is_refused(store):
    assert finished_report(store, RUN).frozen_baseline_acc is not None
    other = json.loads(store.run(OTHER).result_file.read_text())
    for disguise in ({}, {"id": FROZEN.run_id}, described(FROZEN) | {"config": other["config"]}):
        store.run(FROZEN).result_file.write_text(json.dumps(other | disguise))
        with pytest.raises(RecordError, match="holds another run than it should"):
            finished_report(store, RUN)
        with pytest.raises(RecordError, match="holds another run than it should"):
            networks_in([RUN.run_id], store)


def test_a_config_with_one_option_changed_is_another_run(store):
    config = FROZEN.to_dict()
    config["method_options"]["credit_norm"] = "per_sample"
    change(store, FROZEN, config=config)
    with pytest.raises(RecordError, match=f"expected {FROZEN.run_id}, it says {FROZEN.run_id}, and its config is that"):
        baseline_result(store, store.run(RUN).result())


def test_another_baseline_than_the_matched_one_is_refused(store):
    change(store, RUN, baseline={"id": OTHER.run_id, "command": ""})
    with pytest.raises(RecordError, match=f"names {OTHER.run_id} as its frozen baseline; by its config that is"):
        finished_report(store, RUN)


def test_a_baseline_outside_the_folder_is_not_read(store, tmp_path):
    (tmp_path / "secret").mkdir()
    shutil.copy(store.run(FROZEN).result_file, tmp_path / "secret" / "other.json")
    change(store, RUN, baseline={"id": "../secret/other", "command": ""})
    with pytest.raises(RecordError, match=r"names the run '../secret/other'; expected an id of 12 hex digits"):
        finished_report(store, RUN)
    single = tmp_path / "archive" / f"{RUN.run_id}.json"
    write(single, json.loads(store.run(RUN).result_file.read_text()))
    with pytest.raises(RecordError, match="expected an id of 12 hex digits"):
        networks_in([str(single)], store)


def test_a_baseline_beside_the_file_of_a_run_is_held_to_its_id(store, tmp_path):
    folder = tmp_path / "archive"
    folder.mkdir()
    for config in (RUN, FROZEN):
        shutil.copy(store.run(config).result_file, folder / f"{config.run_id}.json")
    (shown,) = networks_in([str(folder / f"{RUN.run_id}.json")], store)
    assert shown.report.frozen_baseline_acc is not None
    shutil.copy(store.run(OTHER).result_file, folder / f"{FROZEN.run_id}.json")
    with pytest.raises(RecordError, match="holds another run than it should"):
        networks_in([str(folder / f"{RUN.run_id}.json")], store)


def test_a_file_that_is_called_as_another_run_is_refused_and_one_with_a_name_of_its_own_is_not(store, tmp_path):
    shutil.copy(store.run(RUN).result_file, tmp_path / f"{OTHER.run_id}.json")
    with pytest.raises(RecordError, match="holds another run than it should"):
        networks_in([str(tmp_path / f"{OTHER.run_id}.json")], store)
    shutil.copy(store.run(RUN).result_file, tmp_path / "mine.json")
    assert networks_in([str(tmp_path / "mine.json")], store)[0].run_id == RUN.run_id


def test_the_settings_of_a_run_are_held_to_its_folder(store):
    path = store.run(RUN).folder / "config.json"
    path.write_text(json.dumps(described(OTHER)))
    with pytest.raises(RecordError, match="holds another run than it should"):
        _ = store.run(RUN).settings


def audit_with(tmp_path, run="aaa", baseline="fff"):
    write_run(tmp_path, "aaa", [epoch(n) for n in range(3)])
    write_run(tmp_path, "fff", [epoch(n, acc=0.3) for n in range(3)])
    write_run(tmp_path, "other", [epoch(n, acc=0.2) for n in range(3)])
    return write_audit(tmp_path, "made", [network("bp", 1)], [row("bp", 1, run, baseline)])


@pytest.mark.parametrize("name", ["aaa", "fff"])
def test_studies_hold_runs_and_baselines_to_their_ids(tmp_path, name):
    path = audit_with(tmp_path)
    assert load_audit(path).traces[0].frozen_accuracies[0] == 0.3
    run_file(tmp_path, name).write_bytes(run_file(tmp_path, "other").read_bytes())
    with pytest.raises(RecordError, match="holds another run than it should"):
        _ = load_audit(path).traces


@pytest.mark.parametrize("place", ["id", "baseline"])
def test_an_audit_that_names_a_run_elsewhere_is_refused(tmp_path, place):
    path = audit_with(tmp_path)
    data = json.loads(path.read_text())
    data["runs"][0][place] = "../../secret/other"
    write(path, data)
    with pytest.raises(RecordError, match="expected an id of 12 hex digits"):
        _ = load_audit(path).traces


def test_evidence_holds_runs_to_their_ids(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path, f"run{seed}", [epoch(0)])
    write_audit(tmp_path, "made", [], [row("bp", seed, f"run{seed}") for seed in (1, 2, 3)])
    assert len(Results(tmp_path).run_files("made", "bp")) == 3
    run_file(tmp_path, "run2").write_bytes(run_file(tmp_path, "run3").read_bytes())
    with pytest.raises(RecordError, match="holds another run than it should"):
        Results(tmp_path).run_files("made", "bp")
    data = json.loads((tmp_path / "audit_made.json").read_text())
    data["runs"][1]["id"] = "../audit_made"
    write(tmp_path / "audit_made.json", data)
    with pytest.raises(RecordError, match="expected an id of 12 hex digits"):
        Results(tmp_path).run_files("made", "bp")


def test_the_command_tells_it_in_a_sentence(store, tmp_path):
    change(store, RUN, baseline={"id": "../../secret/other", "command": ""})
    done = CliRunner().invoke(app_for(()), ["report", str(store.run(RUN).result_file)], standalone_mode=False)
    assert isinstance(done.exception, RecordError)
    assert "'../../secret/other'" in str(done.exception)


def test_every_run_on_record_is_the_run_that_its_name_says():
    for path in RUNS.glob("*.json"):
        held_to_id(json.loads(path.read_text()), path.stem, path)


def test_holding_a_run_to_its_id_needs_no_torch():
    path = next(RUNS.glob("*.json"))
    code = (
        "import sys, json; from walkback.lab.runs.ids import held_to_id; "
        f"held_to_id(json.load(open({str(path)!r})), {path.stem!r}, 'x'); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_config_that_is_none_is_told():
    with pytest.raises(RecordError, match="there is no method called 'nobody'"):
        held_to_id({"id": "0" * 12, "config": RunConfig.to_dict(RUN) | {"method": "nobody"}}, None, "x")
    for config in ({}, {"method": 3}, {"method": []}):
        with pytest.raises(RecordError, match="x holds another run than it should"):
            held_to_id({"id": "0" * 12, "config": config}, None, "x")


@pytest.mark.parametrize("without", [{}, {"method_options": {}}, {"method_options": None}])
def test_settings_without_options_have_the_baseline_of_the_defaults(without):
    settings = {"arch": "resmlp", "data": "digits", "method": "dfa", "seed": 1, "freezing": "none"}
    assert frozen_settings(settings | without)["method_options"] == {"penalty": 0.0}
