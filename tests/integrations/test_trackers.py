import math
import sys

import pytest
import torch
from example_files import load

from walkback.errors import InputError, MissingLibrary, RecordError
from walkback.extras import optional
from walkback.watch.policy import Decision
from walkback.watch.replay import replay
from walkback.watch.trace import TraceLine

pytestmark = pytest.mark.filterwarnings("ignore")  # the trackers warn of their own dependencies

LINE = TraceLine(
    epoch=2, step=20, accuracy=0.5, residual_norms=(1.0, 60.0), bp_grad_norms=(1e-3, 2e-3), error_size=0.7,
    site_stabilities=(0.1, 0.2), fired=("a",), action="stop", reason="(a) residual stream exploded at epoch 2",
)  # fmt: skip


def test_the_example_logs_to_both_and_reads_the_events_back(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    decision, summary, entry = load("06_tensorboard_and_wandb").main(tmp_path)
    assert decision.action == "stop"
    assert summary["walkback/verdict"].startswith("epoch 1: (a)")
    assert summary["walkback/first_fired/a"] == "epoch 1"
    assert "walkback/h_norm/site_4" in summary
    assert entry.course.stop == decision.at
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    with pytest.raises(RecordError, match="no public reader"):
        replay(folder)


def test_events_hold_the_scalars_per_site_and_the_verdict_as_text(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from walkback.integrations.tensorboard import TensorBoardLog

    log = TensorBoardLog(tmp_path)
    log(LINE, Decision())
    log.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (norm,) = events.Scalars("walkback/h_norm/site_1")
    assert (norm.step, norm.value) == (20, 60.0)
    (text,) = events.Tensors("walkback/verdict/text_summary")
    assert b"epoch 2, step 20: (a) fired; stop: (a) residual stream exploded" in text.tensor_proto.string_val[0]
    (entry,) = replay(tmp_path)
    assert entry.report.residual_norms == (1.0, 60.0)
    assert entry.report.cross_batch_stability == pytest.approx(0.1)
    assert entry.course.first_fired["a"].epoch == 2


def test_events_of_another_program_are_read_through_a_map(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path))
    for step, last in ((10, 2.0), (20, 200.0), (30, math.inf)):
        writer.add_scalar("stream/first", 1.0, step)
        writer.add_scalar("stream/last", last, step)
    writer.close()
    (entry,) = replay(tmp_path, columns="h_0=stream/first,h_1=stream/last,step=step")
    assert entry.course.first_fired["a"].step == 20
    assert entry.report.verdict == "needs walk-back: non-finite values"
    with pytest.raises(InputError, match="Its columns: step, stream/first, stream/last"):
        replay(next(tmp_path.glob("*tfevents*")))


def test_an_event_file_without_scalars(tmp_path):
    (tmp_path / "events.out.tfevents.1").write_bytes(b"")
    with pytest.raises(RecordError, match="holds no scalars"):
        replay(tmp_path)


def test_wandb_needs_a_run():
    from walkback.integrations.wandb import WandbLog

    with pytest.raises(InputError, match=r"wandb\.init"):
        WandbLog()


@pytest.mark.parametrize("extra", ["lightning", "transformers", "tensorboard", "wandb"])
def test_a_missing_library_is_an_error_with_the_command_that_installs_it(extra, monkeypatch):
    for name in (extra, "lightning.pytorch"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"walkback.integrations.{extra}", raising=False)
    with pytest.raises(MissingLibrary, match=rf'pip install "walkback\[{extra}\]"'):
        {
            "lightning": lambda: __import__("walkback.integrations.lightning"),
            "transformers": lambda: __import__("walkback.integrations.transformers"),
            "tensorboard": lambda: _board(),
            "wandb": lambda: _wandb(),
        }[extra]()


def _board():
    from walkback.integrations.tensorboard import TensorBoardLog

    TensorBoardLog("/nowhere")


def _wandb():
    from walkback.integrations.wandb import WandbLog

    WandbLog()


def test_an_optional_module_that_is_there():
    assert optional("torch") is torch
