"""`walkback.strict()` and its pytest plugin."""

from __future__ import annotations

import math
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import walkback
from walkback.errors import PitfallError
from walkback.lab.zoo import DataSpec, build_model

pytest_plugins = "pytester"

UNIT, TINY = torch.tensor([1.0, 0.0]), 5e-10 * torch.tensor([0.6, 0.8])


@pytest.mark.parametrize(
    "cosine",
    [
        lambda: F.cosine_similarity(UNIT, TINY, dim=0),
        lambda: torch.cosine_similarity(TINY, UNIT, dim=0),
        lambda: nn.CosineSimilarity(dim=0)(UNIT, TINY),
        lambda: F.cosine_similarity(UNIT.repeat(3, 1), torch.stack([UNIT, TINY, UNIT])),
        lambda: F.cosine_similarity(UNIT, torch.zeros(2), dim=0),
        lambda: F.cosine_similarity(UNIT, 1e-3 * UNIT, 0, 0.1),
    ],
)
def test_a_clamped_cosine_raises(cosine):
    assert torch.isfinite(cosine()).all()
    with walkback.strict(), pytest.raises(PitfallError, match=r"norm .* clamps norms at eps.*pitfall 2"):
        cosine()


def test_a_cosine_that_is_right_passes():
    with walkback.strict():
        assert F.cosine_similarity(UNIT, UNIT, dim=0) == 1
        assert F.cosine_similarity(UNIT.double(), TINY.double(), dim=0, eps=1e-150).item() == pytest.approx(0.6)
        assert F.cosine_similarity(UNIT, torch.full((2,), math.nan), dim=0).isnan()
        assert F.cosine_similarity(torch.zeros(0, 4), torch.zeros(0, 4)).shape == (0,)


@pytest.mark.parametrize(
    "norm",
    [
        lambda x: x.norm(),
        lambda x: torch.norm(x),
        lambda x: torch.linalg.norm(x),
        lambda x: torch.linalg.vector_norm(x),
        lambda x: x.reshape(1, -1).norm(dim=1),
    ],
)
def test_underflow_of_half_in_a_norm_raises(norm):
    assert norm(TINY.half()) == 0
    with walkback.strict(), pytest.raises(PitfallError, match=r"float16.*pitfall 3"):
        norm(TINY.half())
    with walkback.strict():
        assert norm(TINY.bfloat16()) > 0
        assert norm(UNIT.half()) == 1
        assert norm(torch.zeros(2)) == 0


def test_gradients_that_underflow_in_a_half_network_are_found():
    model = nn.Linear(4, 4).half()
    (1e-9 * model(torch.ones(2, 4).half()).float().square().sum()).backward()
    with walkback.strict(), pytest.raises(PitfallError, match="underflowed"):
        torch.linalg.vector_norm(model.weight.grad)


@pytest.mark.parametrize(
    "compare",
    [lambda x: x > 50, lambda x: x < 1e-7, lambda x: 50 < x, lambda x: x >= 1, lambda x: x.le(3), lambda x: x.gt(1)],  # noqa: SIM300
)
def test_a_nan_at_a_threshold_raises(compare):
    with walkback.strict(), pytest.raises(PitfallError, match=r"NaN was compared with .*pitfall 9"):
        compare(torch.tensor([math.nan, 1.0]).norm())
    with walkback.strict():
        compare(torch.tensor(3.0))
        assert (torch.tensor([math.nan, 1.0]) > 0).tolist() == [False, True]


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"residual_norms": [1.0, math.nan], "bp_grad_norms": [1e-3, 1e-3]}, r"\(a\) residual growth, > 50"),
        ({"residual_norms": [1.0, 1.0], "bp_grad_norms": [1e-3, math.nan]}, r"\(b\) gradient floor, < 1e-07"),
        ({"residual_norms": [1.0, 1.0], "headline_acc": math.nan, "frozen_baseline_acc": 0.1}, r"\(d\) frozen margin"),
        ({"residual_norms": [1.0, 1.0], "cross_batch_stability": math.nan, "stability_layer": 0}, r"\(c\) direction"),
    ],
)
def test_a_nan_that_walkback_judges_raises(figures, words):
    measured = walkback.Measurements(**figures)
    assert "non-finite values" in walkback.judge(measured).verdict
    with walkback.strict(), pytest.raises(PitfallError, match=words):
        walkback.judge(measured)
    with walkback.strict(nan=False):
        assert "non-finite values" in walkback.judge(measured).verdict


def test_each_guard_can_be_left_out():
    with walkback.strict(cosine=False):
        F.cosine_similarity(UNIT, TINY, dim=0)
    with walkback.strict(half=False):
        assert TINY.half().norm() == 0
    with walkback.strict(nan=False):
        assert not torch.tensor(math.nan) > 3


def test_it_ends_with_its_block_also_after_an_exception():
    with pytest.raises(PitfallError), walkback.strict():
        TINY.half().norm()
    assert TINY.half().norm() == 0
    assert "non-finite" in walkback.judge(walkback.Measurements(residual_norms=[1.0, math.nan])).verdict


def test_it_is_in_force_in_its_own_thread_alone():
    seen = []
    with walkback.strict():
        other = threading.Thread(target=lambda: seen.append(float(TINY.half().norm())))
        other.start()
        other.join()
    assert seen == [0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_diagnose_meets_none_of_them(dtype, scale):
    model = build_model("resmlp", DataSpec((16,), classes=10), width=32).to(dtype)
    inputs, targets = torch.randn(256, 16).to(dtype), torch.randint(0, 10, (256,))

    def credit(hiddens, logits, targets):
        return [scale * torch.randn(h.shape, generator=torch.Generator().manual_seed(0)).to(h.dtype) for h in hiddens]

    def loss(logits, targets):
        return scale * F.cross_entropy(logits.float(), targets, reduction="none")

    plain = walkback.diagnose(model, [(inputs, targets)], credit=credit, loss=loss)
    with walkback.strict():
        guarded = walkback.diagnose(model, [(inputs, targets)], credit=credit, loss=loss)
    assert guarded.to_dict() == plain.to_dict()


PLUGIN = """
import pytest, torch

def crush():
    return torch.tensor([5e-10]).half().norm()

def test_without(): assert crush() == 0

@pytest.mark.walkback
def test_marked(): crush()

@pytest.mark.walkback(half=False)
def test_partly(): assert crush() == 0

def test_fixture(walkback_strict): crush()

class TestAll:
    pytestmark = pytest.mark.walkback
    def test_in_class(self): crush()
"""


def test_the_plugin(pytester):
    pytester.makepyfile(PLUGIN)
    result = pytester.runpytest_inprocess("--strict-markers", "-p", "no:xdist")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["*PitfallError: a norm of float16 values is 0*"])


def test_the_mark_is_explained(pytester):
    result = pytester.runpytest_inprocess("--markers", "-p", "no:xdist")
    result.stdout.fnmatch_lines(["@pytest.mark.walkback(cosine=True, half=True, nan=True): run the test under*"])


def test_a_wrong_word_in_the_mark_is_an_error(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.walkback(cosin=True)\ndef test(): pass")
    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(failed=1)


def test_loading_the_plugin_imports_no_torch(tmp_path):
    (tmp_path / "test_it.py").write_text("import sys\ndef test():\n    assert 'torch' not in sys.modules\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_a_training_run_under_the_guard_is_not_told_as_unmeasured(monkeypatch):
    from walkback.lab.runs import measure

    def diverged(*_, **__):
        raise PitfallError("NaN was about to be compared")

    monkeypatch.setattr(measure, "report_on", diverged)
    with pytest.raises(PitfallError):
        measure.report_if_possible(None, None, [], None, null_draws=0)


def test_operands_given_by_name_are_watched_and_sound_ones_let_through():
    values = torch.ones(3)
    with walkback.strict():
        assert bool(torch.gt(input=values, other=0.3).all())
        assert bool(values.gt(other=0.3).all())
        assert float(torch.linalg.norm(input=values)) == pytest.approx(3**0.5)
        with pytest.raises(PitfallError, match="NaN was compared"):
            torch.gt(input=torch.tensor(float("nan")), other=0.3)
        with pytest.raises(PitfallError, match="NaN was compared"):
            torch.gt(x1=torch.tensor(float("nan")), x2=0.3)
        with pytest.raises(PitfallError, match="float16"):
            torch.linalg.vector_norm(x=torch.zeros(3, dtype=torch.float16))
