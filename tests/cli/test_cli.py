"""The command line as a user meets it: real processes, real exit statuses."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"

SCRIPT = """
import torch
LIMIT = 3
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
    def forward(self, h):
        return h + {gain} * torch.tanh(self.linear(h))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)

def batches():
    g = torch.Generator().manual_seed(0)
    return [(torch.randn(128, 8, generator=g), torch.randint(0, 4, (128,), generator=g)) for _ in range(3)]

def pair():
    torch.manual_seed(0)
    return Net(), batches()

def mapping():
    model, data = pair()
    return dict(model=model, eval_batches=data, frozen_baseline_acc=0.0, headline_acc=0.9, method_name="mine")

def further():
    model, data = pair()

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model

        def forward(self, x, scale):
            logits = self.net(x) * scale
            return logits * 0, logits

    return Pair(), data

def misspelt():
    model, data = pair()
    return dict(model=model, eval_batches=data, frozen_baseline=0.0)

def nothing():
    return None

def number():
    return 3

def half():
    return {"model": pair()[0]}

def failing():
    raise ValueError("the disk of the user is on fire")

def endless():
    import time
    print("ready", flush=True)
    time.sleep(60)
"""


def walkback(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "walkback", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT.replace("{gain}", "1"))
    return path


@pytest.fixture
def exploding(tmp_path):
    path = tmp_path / "exploding.py"
    path.write_text(SCRIPT.replace("{gain}", "1e4"))
    return path


def test_a_healthy_network_exits_0_and_writes_its_report(script, tmp_path):
    done = walkback("diagnose", f"{script}:mapping", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("verdict: trustworthy on (a), (b)")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["verdict"] == "trustworthy"
    assert report["method_name"] == "mine"
    assert "\x1b[" not in done.stdout
    assert "<html" in (tmp_path / "r.html").read_text()


def test_a_walk_back_exits_1(exploding):
    done = walkback("diagnose", f"{exploding}:pair")
    assert done.returncode == 1, done.stderr
    assert "residual stream exploded" in done.stdout.splitlines()[0]


def test_a_module_path_works_as_a_target(script):
    assert walkback("diagnose", "mine:pair", cwd=script.parent).returncode == 0


def test_require_all_exits_3_where_d_is_missing(script):
    done = walkback("diagnose", f"{script}:pair", "--require-all")
    assert done.returncode == 3
    assert "incomplete: (d) not measured" in done.stdout


def test_thresholds_and_blocks_are_options(script):
    assert walkback("diagnose", f"{script}:pair", "--h-norm-explosion-ratio", "0.5").returncode == 1
    done = walkback("diagnose", f"{script}:pair", "--blocks", "blocks.0", "--full")
    assert done.returncode == 0
    assert "stem: stem; blocks: blocks.0 (1); between: nothing; head: blocks.1, head" in done.stdout
    assert "1 block;" in done.stdout


def test_how_the_network_is_divided_and_called(script, tmp_path):
    done = walkback("diagnose", f"{script}:further")
    assert done.returncode == 2
    assert "goes into forward_kwargs=" in done.stderr
    given = ("--forward-kwargs", '{"scale": 0.5}')
    assert "logits=0, logits=1" in walkback("diagnose", f"{script}:further", *given).stderr
    ends = ("--stem", "net.stem", "--head", "net.head", "--logits", "1", "--json", tmp_path / "r.json")
    assert walkback("diagnose", f"{script}:further", *given, *ends).returncode == 0
    parts = json.loads((tmp_path / "r.json").read_text())["provenance"]["parts"]
    assert parts == "stem: net.stem; blocks: net.blocks.* (2); between: nothing; head: net.head"
    done = walkback("diagnose", f"{script}:pair", "--blocks", "blocks.*,!blocks.1", "--logits", "y")
    assert "of which logits='y' picks nothing" in done.stderr
    assert "not valid JSON" in walkback("diagnose", f"{script}:pair", "--forward-kwargs", "{").stderr
    assert "expected a JSON object" in walkback("diagnose", f"{script}:pair", "--forward-kwargs", "[1]").stderr


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.py:make", "there is no file nowhere.py"),
        ("no_colon.py", "expected file.py:function"),
        ("{script}:absent", "has no function 'absent'"),
        ("{script}:LIMIT", "{script}:LIMIT is int, not a function; expected"),
        ("{script}:nothing", "returned NoneType; expected (model, batches)"),
        ("{script}:number", "number returned int; expected (model, batches).\n"),
        ("{script}:half", "half returned a mapping with model; expected 'model' and 'eval_batches'"),
        ("{script}:failing", "raised ValueError: the disk of the user is on fire (at"),
        ("{script}:misspelt", "'frozen_baseline' that diagnose does not take. Did you mean 'frozen_baseline_acc'?"),
        ("not_a_package_at_all:make", "raised ModuleNotFoundError"),
    ],
)
def test_a_bad_target_exits_2_with_one_sentence(script, target, words):
    done = walkback("diagnose", target.replace("{script}", str(script)))
    assert done.returncode == 2
    assert words.replace("{script}", str(script)) in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_bad_options_exit_2(script):
    refused = walkback("diagnose", f"{script}:pair", "--g-norm-floor", "-1").stderr
    assert "--g-norm-floor: expected a number above 0" in refused
    assert "DiagnosticThresholds" not in refused
    assert (
        "'--g-norm-floor': expected a number" in walkback("diagnose", f"{script}:pair", "--g-norm-floor", "abc").stderr
    )
    done = walkback("diagnose", f"{script}:pair", "--blocks", "blokcs.*")
    assert done.returncode == 2
    assert "matches no module" in done.stderr
    done = walkback("diagnose", f"{script}:pair", "--json", script.parent / "no" / "r.json")
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert walkback("diagnos").returncode == 2
    assert walkback("replay").returncode == 2


def test_ctrl_c_exits_130(script):
    process = subprocess.Popen(
        [sys.executable, "-m", "walkback", "diagnose", f"{script}:endless"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors


def test_replay_of_the_recorded_audits(tmp_path):
    files = [GOLDEN / "resmlp_d256_audit_3seed.json", GOLDEN / "cnn_audit_3seed.json"]
    done = walkback("replay", *files, "--json", tmp_path / "out.json")
    assert done.returncode == 1
    entries = json.loads((tmp_path / "out.json").read_text())
    assert len(entries) == 30
    assert entries[0]["name"] == "bp_s42"
    assert {"name", "verdict", "readings"} <= set(entries[0])
    assert sum(entry["verdict"] == "trustworthy" for entry in entries) == 6 + 9
    assert "dfa_s123" in done.stdout


def test_replay_of_a_trustworthy_report_exits_0(script, tmp_path):
    walkback("diagnose", f"{script}:mapping", "--json", tmp_path / "r.json")
    assert walkback("replay", tmp_path / "r.json").returncode == 0


def test_replay_of_a_broken_file_exits_2_and_writes_nothing(tmp_path):
    (tmp_path / "bad.json").write_text('{"reports": 3')
    done = walkback("replay", tmp_path / "bad.json", "--json", tmp_path / "out.json")
    assert done.returncode == 2
    assert "bad.json breaks off" in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_schema_is_json_schema_and_describes_a_saved_report(script, tmp_path):
    done = walkback("schema")
    schema = json.loads(done.stdout)
    walkback("diagnose", f"{script}:mapping", "--json", tmp_path / "r.json")
    assert set(json.loads((tmp_path / "r.json").read_text())) == set(schema["properties"])
    assert walkback("schema", "--list").stdout.split()[0] == "DiagnosticReport"
    assert "Did you mean 'Measurements'" in walkback("schema", "Measurement").stderr


def test_help_imports_no_torch():
    code = "import sys; sys.argv = ['walkback', '--help']; from walkback.cli.main import app; "
    code += "app(sys.argv[1:]); assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
