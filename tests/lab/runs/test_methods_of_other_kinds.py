"""Methods that hand out no credit, answer by themselves, act after each step, or are not defined everywhere."""

from __future__ import annotations

import copy
from typing import ClassVar

import pytest
import torch
from tiny_runs import Snapshot, assert_same_run, tiny
from torch import nn

from walkback.cli import main
from walkback.errors import InputError
from walkback.lab.grids.train_grid import train_missing
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.baselines import finished_report
from walkback.lab.runs.depth_tests import accuracies_answered, depth_tests
from walkback.lab.runs.measure import accuracy_on
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.lab.zoo.contract import CreditlessMethod, Method, StepResult
from walkback.lab.zoo.methods.dfa import DFA
from walkback.registry import register, unregister


class Centres(CreditlessMethod):
    """Draws every site towards the centre of its class; a class is answered by the nearest centre at the last site."""

    gamma: ClassVar[str] = "nothing comes back from the head."
    paper: ClassVar[str] = "made up for this test"

    def draw(self, generator):
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("noise", torch.zeros(3))
        sizes = [torch.Size(shape).numel() for shape in self.model.site_shapes]
        self.centres = nn.ParameterList(nn.Parameter(torch.randn(10, size, generator=generator)) for size in sizes)
        self.model.head.requires_grad_(False)

    def distances(self, inputs):
        hidden = self.model.stem(inputs)
        yield torch.cdist(hidden.flatten(1), self.centres[0])
        for block, centres in zip(self.model.blocks, list(self.centres)[1:], strict=True):
            hidden = block(hidden.detach())
            yield torch.cdist(hidden.flatten(1), centres)

    def accumulate(self, inputs, targets):
        found = list(self.distances(inputs))
        losses = [nn.functional.cross_entropy(-one, targets) for one in found]
        sum(losses).backward()
        return StepResult(sum(losses).detach(), -found[-1].detach())

    def after_step(self):
        self.steps += 1
        self.noise.copy_(torch.randn(3))

    def predict(self, inputs):
        *_, last = self.distances(inputs)
        return -last


class Squares(DFA):
    """DFA, but for networks with more than two blocks."""

    defined_on: ClassVar[str] = "networks of one or two blocks"
    no_null: ClassVar[str] = ""

    @classmethod
    def why_not(cls, model):
        return "it has more than two blocks." if len(model.blocks) > 2 else ""


@pytest.fixture(autouse=True)
def _registered():
    kinds = {"centres": Centres, "squares": Squares}
    for name, kind in kinds.items():
        register("methods", name, kind)
    yield
    for name in kinds:
        unregister("methods", name)


def test_what_has_no_credit_is_measured_by_what_it_has(tmp_path):
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    config = tiny("centres", epochs=3)
    stored = train_or_resume(config, whole, Snapshot(whole.root, cut.root, epoch=1))
    assert_same_run(stored, train_or_resume(config, cut))
    result = stored.result()
    assert result["report"]["alignment"]["unavailable"].startswith("by design: ")
    assert result["report"]["alignment"]["sites"] is None
    assert result["report"]["bp_grad_norms"] is None
    assert result["functional"] == {"unmeasured": "by design: nothing comes back from the head."}
    assert "alignment" not in result["trace"][-1]
    report = finished_report(whole, stored)
    assert report.headline_acc == result["accuracy"]
    shown = report.render("text")
    assert "N/A: by design" in shown
    frozen = train_or_resume(tiny("centres", epochs=1, freezing="blocks"), whole)
    assert "Γ" not in finished_report(whole, frozen).notes


def test_what_happens_after_a_step_is_saved_with_the_run(tmp_path):
    from walkback.lab.runs import checkpoint

    stored = train_or_resume(tiny("centres", epochs=2), RunStore(tmp_path))
    kept = checkpoint.newest(stored.checkpoints).part("method")
    assert kept["steps"] == 4
    assert kept["noise"].all()


def test_its_own_answer_is_what_is_counted_and_what_blocks_are_removed_from():
    config = tiny("centres")
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    for _ in range(20):
        run.step(*next(iter_batches(dataset)))
    figures = depth_tests(config, run.method, dataset)
    for index in range(2):
        twin = copy.deepcopy(run.method)
        twin.__dict__["model"] = copy.deepcopy(run.model)
        twin.model.blocks[index] = nn.Identity()
        assert figures["blocks_removed"][index] == accuracy_by_hand(twin, dataset)
    assert accuracy_on(run.method, dataset.test).value == accuracy_by_hand(run.method, dataset)
    same = accuracies_answered(run.method, [[block] for block in run.model.blocks], dataset.test)
    assert same == [[accuracy_by_hand(run.method, dataset)]] * 2


def iter_batches(dataset):
    from walkback.lab.zoo.datasets import evaluation_batches

    return evaluation_batches(dataset.train, 640)


def accuracy_by_hand(method, dataset):
    from walkback.lab.zoo.datasets import evaluation_batches

    inputs, targets = next(evaluation_batches(dataset.test, len(dataset.test)))
    with torch.no_grad():
        return int((method.predict(inputs).argmax(1) == targets).sum()) / len(targets)


def test_credit_norm_is_refused_where_there_is_no_credit(tmp_path):
    with pytest.raises(InputError, match="has no credit to scale: credit_norm is 'rms'; expected 'none'"):
        train_or_resume(tiny("centres", method_options={"credit_norm": "rms"}), RunStore(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_where_it_is_not_defined_nothing_is_trained(tmp_path, monkeypatch, capsys):
    deep = {"architecture_options": {"width": 12, "depth": 3}}
    with pytest.raises(InputError, match="is not defined on this network: it has more than two blocks"):
        train_or_resume(tiny("squares", **deep), RunStore(tmp_path / "runs"))
    with pytest.raises(InputError, match="it has more than two blocks"):
        train_missing([tiny("bp", **deep), tiny("squares", **deep)], RunStore(tmp_path / "runs"), None, print, print)
    assert not (tmp_path / "runs").exists()
    assert train_or_resume(tiny("squares", epochs=0), RunStore(tmp_path / "runs")).finished

    monkeypatch.chdir(tmp_path)
    words = ["lab", "train", "--method", "squares", "--arch", "resmlp", "--data", "digits", "--runs", "elsewhere"]
    monkeypatch.setattr("sys.argv", ["walkback", *words])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 2
    assert "is not defined on this network: it has more than two blocks." in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


class Half(Centres):
    has_credit: ClassVar[bool] = True


class Silent(Centres):
    gamma: ClassVar[str] = ""


class Lonely(DFA):
    has_credit: ClassVar[bool] = False


class Own(DFA):
    def predict(self, inputs):
        return self.model(inputs)


class Numbered(DFA):
    paper = 1986


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Half, r"says that it has a credit \(has_credit is True\)"),
        (Lonely, r"says that it has none \(has_credit is False\)"),
        (Silent, "no gamma that says why"),
        (Own, "answers by a predict of its own"),
        (Numbered, "its paper is 1986; expected a sentence"),
    ],
)
def test_what_says_one_thing_and_does_another_is_refused(kind, message):
    with pytest.raises(InputError, match=message):
        register("methods", "odd", kind)
    assert issubclass(kind, Method)
