"""Every error that a docstring of the API reference names is raised by a call, as that class and no other."""

from __future__ import annotations

import inspect
import shutil

import pytest
import torch
from api_page import ENTRIES, docstring_of, items, methods, sections, thing_at
from torch import nn

import walkback
from walkback.lab import AS_IT_IS, Dataset, DataSpec, LocalMethod, Preparation, Split, as_site
from walkback.lab.zoo import build_method, build_model
from walkback.protocol.diagnostics.reading_maker import ReadingMaker
from walkback.protocol.readings import Interval
from walkback.protocol.records import UpdateProvenance
from walkback.watch.policy import StopPolicy

ELSEWHERE = {
    "MissingLibrary": "tests/lean, where libraries are missing",
    "walkback.protocol.diagnose.diagnose WalkbackError": "tests/protocol/test_distributed.py, in several processes",
    "walkback.integrations.lightning.WalkbackCallback InputError": "tests/integrations, with a trainer",
    "walkback.integrations.transformers.WalkbackCallback InputError": "tests/integrations, with a trainer",
    "walkback.pytest_plugin.walkback_strict PitfallError": "tests/guard, in a test run of its own",
}
"""What no call in one process can raise, and where it is raised."""
NAN = float("nan")


def net():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])


def batches():
    return [(torch.randn(16, 8), torch.randint(8, (16,)))]


def measured(**fields):
    return walkback.Measurements(**{"residual_norms": [8.0, 9.0], "bp_grad_norms": [1e-3, 1e-3]} | fields)


def report():
    return walkback.judge(measured())


class Unused(nn.Module):
    """Its logits do not depend on what its blocks make."""

    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)]), nn.Linear(8, 8)

    def forward(self, inputs):
        hidden = inputs
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(inputs)


def train(model):
    """One step of everything that still requires a gradient."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    inputs, labels = batches()[0]
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def one_step(model, batch):
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()


def monitor(**settings):
    return walkback.Monitor(net(), batches(), **settings)


def monitor_of_lost_trace(folder):
    (folder / "runs").mkdir()
    watching = monitor(trace=folder / "runs" / "trace.jsonl")
    shutil.rmtree(folder / "runs")
    return watching


def corrupt(folder):
    (folder / "corrupt.json").write_text("{")
    (folder / "trace.jsonl").write_text('{"epoch": 1}\nno JSON\n{"epoch": 2}\n')
    (folder / "log.csv").write_text("epoch,norm\n1,8\n")
    return folder


OTHER = walkback.FrozenBaseline(accuracy=0.1, network={"other.weight": (1,)}, frozen_blocks=("other",))
ZEROS = torch.zeros(4, dtype=torch.int64)
SPEC = DataSpec((8,), classes=3)
PROTOCOL, WATCH, LAB = "walkback.protocol", "walkback.watch", "walkback.lab.zoo"
D, B, P = f"{PROTOCOL}.diagnose.diagnose", f"{PROTOCOL}.baseline.frozen_baseline", f"{PROTOCOL}.provenance.provenance"
M, R = f"{WATCH}.monitor.Monitor", f"{PROTOCOL}.records.DiagnosticReport"


def small():
    return build_model("resmlp", SPEC, width=16, depth=2)


class Constant(LocalMethod):
    def credits_at(self, trace, sites):
        return [torch.ones_like(trace.hiddens[site]) for site in sites], None


def strictly(call):
    with walkback.strict():
        call()


CALLS = {
    f"{D} BatchError": lambda tmp: walkback.diagnose(net(), []),
    f"{D} BlocksError": lambda tmp: walkback.diagnose(net(), batches(), blocks="nowhere.*"),
    f"{D} NoGradient": lambda tmp: walkback.diagnose(Unused(), batches(), blocks="blocks.*"),
    f"{D} BaselineError": lambda tmp: walkback.diagnose(net(), batches(), frozen_baseline_acc=OTHER),
    f"{D} CreditError": lambda tmp: walkback.diagnose(net(), batches(), credit=lambda hiddens, logits, targets: []),
    f"{D} UnknownName": lambda tmp: walkback.diagnose(net(), batches(), panel="may2026"),
    f"{D} InputError": lambda tmp: walkback.diagnose(net(), batches(), headline_acc=61),
    f"{PROTOCOL}.judge.judge UnknownName": lambda tmp: walkback.judge(measured(), panel="may2026"),
    f"{PROTOCOL}.judge.judge InputError": lambda tmp: walkback.judge(measured(), panel="math:pi"),
    f"{PROTOCOL}.judge.judge PitfallError": lambda tmp: strictly(lambda: walkback.judge(measured(error_size=NAN))),
    f"{B} BaselineError": lambda tmp: walkback.frozen_baseline(lambda model: None, net, batches()),
    f"{B} BatchError": lambda tmp: walkback.frozen_baseline(train, net, []),
    f"{B} BlocksError": lambda tmp: walkback.frozen_baseline(train, net, batches(), blocks="nowhere.*"),
    f"{B} InputError": lambda tmp: walkback.frozen_baseline(train, net(), batches()),
    f"{P} BatchError": lambda tmp: walkback.provenance(net(), one_step, []),
    f"{P} BlocksError": lambda tmp: walkback.provenance(net(), one_step, batches(), blocks="nowhere.*"),
    f"{P} CreditError": lambda tmp: walkback.provenance(net(), one_step, batches(), lambda h, logits, targets: []),
    f"{P} InputError": lambda tmp: walkback.provenance(net(), None, batches()),
    f"{PROTOCOL}.seeds.combine InputError": lambda tmp: walkback.combine([]),
    f"{PROTOCOL}.seeds.SeedSummary.diagnostic UnknownName": lambda tmp: walkback.combine([report()]).diagnostic("z"),
    "walkback.present.text.compare InputError": lambda tmp: walkback.compare([report()], ["a", "b"]),
    f"{M} BatchError": lambda tmp: walkback.Monitor(net(), []),
    f"{M} BlocksError": lambda tmp: monitor(blocks="nowhere.*"),
    f"{M} BaselineError": lambda tmp: monitor(frozen_baseline_acc=OTHER),
    f"{M} RecordError": lambda tmp: monitor(trace=corrupt(tmp) / "trace.jsonl"),
    f"{M} InputError": lambda tmp: monitor(patience=0),
    f"{M}.step InputError": lambda tmp: monitor().step(epoch=1, loss="low"),
    f"{M}.step RecordError": lambda tmp: monitor_of_lost_trace(tmp).step(epoch=1),
    f"{M}.watch_training InputError": lambda tmp: monitor().watch_training(loss_reduction="none").__enter__(),
    f"{M}.attach InputError": lambda tmp: monitor().attach(loss_reduction="none"),
    f"{WATCH}.policy.Decision InputError": lambda tmp: walkback.Decision(action="wait"),
    f"{WATCH}.policy.StopPolicy InputError": lambda tmp: StopPolicy(patience=0),
    f"{WATCH}.policy.StopPolicy.of InputError": lambda tmp: StopPolicy.of("!", 1, 0),
    f"{WATCH}.replay.replay RecordError": lambda tmp: walkback.replay(corrupt(tmp) / "corrupt.json"),
    f"{WATCH}.replay.replay UnknownName": lambda tmp: walkback.replay(corrupt(tmp) / "log.csv", panel="may2026"),
    f"{WATCH}.replay.replay InputError": lambda tmp: walkback.replay(corrupt(tmp) / "log.csv"),
    f"{WATCH}.partial.partial_audit InputError": lambda tmp: walkback.partial_audit(
        walkback.PartialMeasurements(blocks=1, residual_norms={7: 1.0})
    ),
    f"{WATCH}.partial.partial_audit UnknownName": lambda tmp: walkback.partial_audit(
        walkback.PartialMeasurements(blocks=1), panel="may2026"
    ),
    f"{WATCH}.partial.PartialMeasurements InputError": lambda tmp: walkback.PartialMeasurements(blocks=0),
    f"{WATCH}.partial.PartialMeasurements.measurements InputError": lambda tmp: walkback.PartialMeasurements(
        blocks=1, residual_norms={0: -1.0, 1: 1.0}
    ).measurements(),
    f"{PROTOCOL}.schema.Record InputError": lambda tmp: Interval(low=0.0),
    f"{PROTOCOL}.schema.Record.save InputError": lambda tmp: report().save(tmp / "nowhere" / "report.json"),
    f"{PROTOCOL}.measurements.Measurements InputError": lambda tmp: measured(residual_norms=[8.0]),
    f"{R} InputError": lambda tmp: walkback.DiagnosticReport(residual_norms=[8.0], bp_grad_norms=[1e-3, 1e-3]),
    f"{R}.under UnknownName": lambda tmp: report().under("may2026"),
    f"{R}.under InputError": lambda tmp: report().under("math:pi"),
    f"{R}.reading RecordError": lambda tmp: report().reading("?"),
    f"{R}.render UnknownName": lambda tmp: report().render("poem"),
    f"{R}.to_html InputError": lambda tmp: report().to_html(tmp / "nowhere" / "page.html"),
    f"{R}.load RecordError": lambda tmp: walkback.DiagnosticReport.load(tmp / "missing.json"),
    f"{R}.from_dict RecordError": lambda tmp: walkback.DiagnosticReport.from_dict({"schema_version": 99}),
    f"{PROTOCOL}.readings.Reading InputError": lambda tmp: walkback.Reading(letter="a", name="growth", state="MAYBE"),
    f"{PROTOCOL}.found.Alignment InputError": lambda tmp: walkback.Alignment(sites="high"),
    f"{PROTOCOL}.found.ReferenceCheck InputError": lambda tmp: walkback.ReferenceCheck(candidate="mine"),
    f"{PROTOCOL}.found.UpdateProvenance InputError": lambda tmp: UpdateProvenance(steps=0),
    f"{PROTOCOL}.found.UpdateProvenance.load RecordError": lambda tmp: UpdateProvenance.load(tmp / "missing.json"),
    f"{PROTOCOL}.scores.Score InputError": lambda tmp: walkback.Score(value=61),
    f"{PROTOCOL}.scores.FrozenBaseline InputError": lambda tmp: walkback.FrozenBaseline(),
    f"{PROTOCOL}.scores.FrozenBaseline.load RecordError": lambda tmp: walkback.FrozenBaseline.load(
        tmp / "missing.json"
    ),
    f"{PROTOCOL}.thresholds.DiagnosticThresholds InputError": lambda tmp: walkback.DiagnosticThresholds(growth=2),
    f"{PROTOCOL}.seeds.SeedSummary InputError": lambda tmp: walkback.SeedSummary(),
    "walkback.registry.register UnknownName": lambda tmp: walkback.register("verdicts", "mine", None),
    "walkback.registry.register InputError": lambda tmp: walkback.register("renderers", "no name", str),
    "walkback.guard.strict PitfallError": lambda tmp: strictly(
        lambda: torch.cosine_similarity(torch.zeros(3), torch.ones(3), dim=0)
    ),
    "walkback.integrations.wandb.WandbLog InputError": lambda tmp: thing_at("walkback.integrations.wandb.WandbLog")(),
    f"{LAB}.build_model UnknownName": lambda tmp: build_model("perceiver", SPEC),
    f"{LAB}.build_model InputError": lambda tmp: build_model("resmlp", SPEC, colour=1),
    f"{LAB}.build_method UnknownName": lambda tmp: build_method("hebb", small()),
    f"{LAB}.build_method InputError": lambda tmp: build_method("dfa", small(), colour=1),
    f"{LAB}.contract.Method InputError": lambda tmp: build_method("fa", small(), penalty=-1.0),
    f"{LAB}.contract.CreditlessMethod InputError": lambda tmp: build_method("local_loss", small(), credit_norm="rms"),
    f"{LAB}.methods.local_step.LocalMethod InputError": lambda tmp: Constant(small(), credit_site="both"),
    f"{LAB}.methods.site_vectors.as_site InputError": lambda tmp: as_site(torch.zeros(2, 3, 4), (5, 4)),
    f"{LAB}.datasets.splits.Split DataError": lambda tmp: Split(torch.zeros(4, 2, 2), ZEROS, AS_IT_IS),
    f"{LAB}.datasets.splits.Split.take InputError": lambda tmp: Split(torch.zeros(4, 2), ZEROS, AS_IT_IS).take(9),
    f"{LAB}.datasets.splits.Dataset DataError": lambda tmp: Dataset(
        "d", Split(torch.zeros(4, 2), ZEROS, AS_IT_IS), Split(torch.zeros(4, 3), ZEROS, AS_IT_IS), ("a", "b")
    ),
    f"{LAB}.datasets.splits.Preparation InputError": lambda tmp: Preparation(mean=(0.5,), std=(0.0,)),
    f"{PROTOCOL}.diagnostics.reading_maker.ReadingMaker.non_finite PitfallError": lambda tmp: strictly(
        lambda: ReadingMaker("a", "growth", ">", 50.0).non_finite("h_1 is NaN")
    ),
    f"{PROTOCOL}.diagnostics.reading_maker.ReadingMaker.judged PitfallError": lambda tmp: strictly(
        lambda: ReadingMaker("a", "growth", ">", 50.0).judged(NAN, reason="", fired="", passed="")
    ),
}


def documented():
    """`path Error` of everything on the page; what a class takes over is documented where it is defined."""
    for path in ENTRIES:
        thing = thing_at(path)
        yield from (f"{path} {name}" for name in items(sections(docstring_of(thing)), "Raises"))
        for method, function in methods(thing) if inspect.isclass(thing) else ():
            if method != "save" or path.endswith(".Record"):
                yield from (f"{path}.{method} {name}" for name in items(sections(function.__doc__), "Raises"))


def test_every_documented_error_has_its_call():
    expected = {each for each in documented() if each not in ELSEWHERE and each.split()[1] not in ELSEWHERE}
    assert set(CALLS) == expected


@pytest.mark.parametrize("documented", CALLS)
def test_the_call_raises_that_error(documented, tmp_path):
    with pytest.raises(walkback.errors.WalkbackError) as raised:
        CALLS[documented](tmp_path)
    assert type(raised.value).__name__ == documented.split()[1], raised.value
