import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from watched_networks import CLASSES, INPUTS, WIDTH, Block, Net, bp_step, make_batches

import walkback
from walkback.errors import InputError, WalkbackWarning
from walkback.protocol.reduction import TokenReduction
from walkback.watch.pass_norms import PassNorms, look_at, read_in_full
from walkback.watch.trace import read_trace

HELD = make_batches(64, seed=9)
FIGURES = ("residual_norms", "bp_grad_norms")


def agree(monitor, report, rel=1e-4):
    for name in FIGURES:
        assert getattr(monitor.report, name) == pytest.approx(getattr(report, name), rel=rel), name


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("size", [32, 200])
def test_the_training_pass_shows_what_diagnose_measures_on_the_same_batch(reduction, size):
    model = Net()
    (x, y) = make_batches(size, seed=3)[0]
    monitor = walkback.Monitor(model, HELD, every=1)
    with monitor.watch_training(loss_reduction=reduction):
        F.cross_entropy(model(x), y, reduction=reduction).backward()
        assert monitor.step().measured
    report = walkback.diagnose(model, [(x, y)])
    agree(monitor, report)
    assert monitor.report.error_size == pytest.approx(report.error_size, rel=1e-4)
    assert monitor.report.samples == size


def test_micro_batches_and_a_scaled_loss_are_taken_together():
    model = Net()
    batches = make_batches(32, 32, 32, 32, seed=3)
    monitor = walkback.Monitor(model, HELD, every=1)
    with monitor.watch_training(loss_scale=lambda: 1024.0 / 4):
        for x, y in batches:
            (F.cross_entropy(model(x), y) * 1024 / 4).backward()
        monitor.step()
    agree(monitor, walkback.diagnose(model, batches))
    assert monitor.report.samples == 128


class Checkpointed(Net):
    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False)
        return self.head(self.norm(h))


class Changed(Net):
    """Overwrites the stream after a block has written it."""

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h.mul_(1.0)))


class Shared(nn.Module):
    """One block, called three times."""

    def __init__(self):
        super().__init__()
        self.stem, self.block, self.head = nn.Linear(INPUTS, WIDTH), Block(), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for _ in range(3):
            h = self.block(h)
        return self.head(h)


class ParentSkip(nn.Module):
    """The skip is the parent's, and the last sum is no module's: it is averaged away in front of the head."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(INPUTS, 2 * WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2))

    def forward(self, x):
        h = self.stem(x).unflatten(1, (2, WIDTH))
        for block in self.blocks:
            h = h + block(h)
        return self.head(h.mean(1))


@pytest.mark.parametrize("kind", [Checkpointed, Changed, Shared, ParentSkip])
def test_networks_with_their_own_ways(kind):
    model = kind()
    x, y = make_batches(64, seed=3)[0]
    blocks = "block" if kind is Shared else "blocks.*"
    monitor = walkback.Monitor(model, HELD, every=1, blocks=blocks)
    with monitor.watch_training():
        for _ in range(2):
            F.cross_entropy(model(x), y).backward()
            monitor.step()
    agree(monitor, walkback.diagnose(model, [(x, y)], blocks=blocks))


class Tokens(nn.Module):
    """A class token at the front, which alone is read."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(INPUTS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        h = self.stem(x).unsqueeze(1).expand(-1, 5, -1) + 0.0
        return self.head(self.encoder(h)[:, 0])


def test_tokens_are_reduced_as_diagnose_does():
    model = Tokens()
    x, y = make_batches(32, seed=3)[0]
    monitor = walkback.Monitor(model, HELD, every=1)
    with monitor.watch_training():
        F.cross_entropy(model(x), y).backward()
        monitor.step()
    agree(monitor, walkback.diagnose(model, [(x, y)]))


class Parts(Net):
    """A training step that calls the parts of the model, never the model."""

    def loss(self, x, y):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.norm(h)), y)


def test_a_model_that_is_called_by_its_parts():
    model = Parts()
    x, y = make_batches(64, seed=3)[0]
    monitor = walkback.Monitor(model, HELD, every=1)
    with monitor.watch_training():
        for _ in range(2):
            model.loss(x, y).backward()
            monitor.step()
    agree(monitor, walkback.diagnose(model, [(x, y)]))
    assert monitor.report.error_size is None
    assert monitor.report.samples == 64


def test_passes_without_a_backward_and_evaluation_are_not_looked_at():
    model = Net()
    x, y = make_batches(64, seed=3)[0]
    monitor = walkback.Monitor(model, HELD, every=1)
    with monitor.watch_training():
        with torch.no_grad():
            model(x)
        model(x)
        assert not monitor.step().measured
        model.eval()
        F.cross_entropy(model(x), y).backward()
        assert not monitor.step().measured


def test_training_under_the_hooks_gives_the_same_bits_and_leaves_no_hook():
    def train(watched):
        torch.manual_seed(0)
        model = Net(dropout=0.2)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        monitor = walkback.Monitor(model, HELD, every=2)
        if watched:
            monitor.attach()
        for x, y in make_batches(*[64] * 10, seed=4):
            bp_step(model, optimizer, x, y)
            if watched:
                monitor.step()
        monitor.detach()
        return model

    plain, watched = train(False), train(True)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in watched.modules())


def test_an_exploding_bp_run_is_stopped_from_its_own_passes(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
    monitor = walkback.Monitor(model, HELD, every=1, trace=tmp_path / "t")
    with monitor.watch_training():
        for x, y in make_batches(*[64] * 40, seed=4):
            bp_step(model, optimizer, x, y)
            if monitor.step().stop:
                break
    assert monitor.decision.at.step < 40
    assert monitor.decision.stop
    assert '"source":"training"' in (tmp_path / "t").read_text()


def test_with_a_budget_the_hooks_look_only_now_and_then():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    monitor = walkback.Monitor(model, HELD, budget=0.05)
    with monitor.watch_training():
        measured = 0
        for x, y in make_batches(*[256] * 200, seed=4):
            bp_step(model, optimizer, x, y)
            measured += monitor.step().measured
    assert 1 <= measured < 100


def steps_of(model, monitor, batch, change=lambda step: None, steps=6):
    """Steps without an optimizer, each after a change to the model; which of them measured."""
    x, y = batch
    measured = []
    for step in range(1, steps + 1):
        change(step)
        F.cross_entropy(model(x), y).backward()
        measured.append(monitor.step().measured)
    return measured


def test_step_upon_step_only_what_is_new_is_judged_and_written(tmp_path):
    model = Net()
    monitor = walkback.Monitor(model, HELD, every=1, trace=tmp_path / "t")

    def grow(step):
        if step == 3:
            with torch.no_grad():
                model.stem.weight.mul_(2)

    with monitor.watch_training():
        measured = steps_of(model, monitor, make_batches(64, seed=3)[0], grow)
    # The light look at step 3 sees the change, and the next pass is read in full.
    assert measured == [True, False, False, True, False, False]
    assert [line.step for line in read_trace(tmp_path / "t")] == [1, 4]
    agree(monitor, walkback.diagnose(model, make_batches(64, seed=3)))


@pytest.mark.parametrize("factor", [1e3, 1e17, 1e25, float("nan")])
def test_a_light_look_misses_no_explosion_however_large(factor):
    model = Net()
    monitor = walkback.Monitor(model, HELD, every=1)
    batch = make_batches(64, seed=3)[0]

    def explode(step):
        if step == 3:
            with torch.no_grad():
                model.blocks[1].down.weight.mul_(factor)

    with monitor.watch_training():
        steps_of(model, monitor, batch, explode, steps=4)
    assert monitor.decision.stop
    assert monitor.decision.at.step == 4
    if factor < 1e20:  # beyond, the network's own LayerNorm overflows
        agree(monitor, walkback.diagnose(model, [batch]))


def test_a_stream_that_is_changed_in_place_is_looked_at_as_it_was(tmp_path):
    model = Changed()
    monitor = walkback.Monitor(model, HELD, every=1, trace=tmp_path / "t")
    batch = make_batches(64, seed=3)[0]

    def grow(step):
        if step == 5:
            with torch.no_grad():
                model.stem.weight.mul_(2)

    with monitor.watch_training():
        measured = steps_of(model, monitor, batch, grow, steps=8)
    assert measured == [True, False, False, False, False, True, False, False]
    agree(monitor, walkback.diagnose(model, [batch]))


def test_a_gradient_that_shrinks_under_the_floor_is_seen():
    model = Net()
    monitor = walkback.Monitor(model, HELD, every=1)

    def shrink(step):
        if step == 3:
            with torch.no_grad():
                model.head.weight.mul_(1e-9)

    with monitor.watch_training():
        steps_of(model, monitor, make_batches(64, seed=3)[0], shrink, steps=4)
    assert monitor.decision.reason == "(b) BP grad at numerical floor at step 4"
    assert monitor.report.reading("b").case == "scale"


def hooked(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_now_and_then_every_reading_is_full_and_no_hook_is_there_in_between():
    model = Net()
    monitor = walkback.Monitor(model, HELD, every=2)
    hooks = []
    with monitor.watch_training():
        measured = steps_of(model, monitor, make_batches(64, seed=3)[0], lambda step: hooks.append(hooked(model)))
    assert measured == [False, True] * 3
    assert hooks == [0, 5] * 3


class Hidden(nn.Module):
    """Blocks of which one can blow the stream up and the next shrink it back."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def test_what_the_ends_of_the_stream_hide_is_seen_within_fifty_steps():
    model = Hidden()
    for block in model.blocks:
        nn.init.orthogonal_(block.weight)
    monitor = walkback.Monitor(model, HELD, every=1, blocks="blocks.*")

    def hide(step):
        if step == 3:
            with torch.no_grad():
                model.blocks[1].weight.mul_(1000)
                model.blocks[2].weight.div_(1000)

    hooks = []
    with monitor.watch_training():

        def change(step):
            hide(step)
            hooks.append(hooked(model))

        measured = steps_of(model, monitor, make_batches(64, seed=3)[0], change, steps=60)
    assert measured.index(True, 1) == 51
    assert monitor.decision.first_fired["a"].step == 52
    # A light look needs two hooks, a full one all of them.
    assert hooks[1:51] == [2] * 50
    assert hooks[51] == 6


@pytest.mark.parametrize("reduction", list(TokenReduction))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(9, 8), (9, 3, 8), (9, 2, 4, 4)])
def test_a_light_look_sees_the_level_of_a_full_reading(reduction, dtype, shape):
    site = (torch.randn(shape, dtype=torch.float64) * 1e3).to(dtype)
    full, light = PassNorms(2, full=True), PassNorms(2, full=False)
    for seen in (full, light):
        seen.hiddens = [seen.take(site, reduction), seen.take(2 * site, reduction)]
        seen.grads = [seen.take(site, reduction), seen.take(3 * site, reduction)]
    _, expected = read_in_full([full], [4.0])
    assert look_at(light, reduction, 4.0) == pytest.approx(expected, rel=1e-3 if dtype is torch.bfloat16 else 1e-5)
    assert light.samples == full.samples == 9


def test_nan_in_the_training_pass_stops_the_run():
    model = Net()
    monitor = walkback.Monitor(model, HELD, every=1)
    x, y = make_batches(64, seed=3)[0]
    x[0, 0] = float("nan")
    with monitor.watch_training():
        F.cross_entropy(model(x), y).backward()
        assert "non-finite" in monitor.step().reason


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_what_cannot_be_watched_is_said():
    monitor = walkback.Monitor(Net(), HELD)
    with pytest.raises(InputError, match="loss_reduction is 'max'"):
        monitor.attach(loss_reduction="max")
    compiled = walkback.Monitor(torch.compile(Net()), HELD)
    with pytest.raises(InputError, match="hooks in a compiled model do not run"):
        compiled.attach()


def test_a_stream_of_zeros_in_the_training_pass_is_told_and_training_goes_on(tmp_path):
    class Silent(Net):
        def forward(self, x):
            return super().forward(x * 0)

    model = Silent()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "head" not in name:
                parameter.zero_()
    monitor = walkback.Monitor(model, HELD, every=1, trace=tmp_path / "trace.jsonl")
    with monitor.watch_training():
        (x, y) = make_batches(32, seed=3)[0]
        F.cross_entropy(model(x), y).backward()
        with pytest.warns(WalkbackWarning, match="not measured: .*a stream of zeros"):
            decision = monitor.step()
    assert not decision.stop
    assert monitor.report is None
    assert "stream of zeros" in read_trace(tmp_path / "trace.jsonl")[-1].unmeasured


def test_functions_are_watched_for_no_longer_than_a_pass():
    model = ParentSkip()
    x, y = make_batches(64, seed=3)[0]
    monitor = walkback.Monitor(model, HELD, every=1)
    assert monitor.probe.chain.taps[-1].step
    with monitor.watch_training():
        with pytest.raises(RuntimeError):
            model(x[:, :-1])
        assert not torch.overrides._get_current_function_mode_stack()
        F.cross_entropy(model(x), y).backward()
        assert not torch.overrides._get_current_function_mode_stack()
        assert monitor.step().measured
    agree(monitor, walkback.diagnose(model, [(x, y)]))


def test_the_logits_among_what_a_model_returns():
    class Pair(Net):
        def forward(self, x, scale):
            logits = super().forward(x) * scale
            return logits.detach() * 2, logits

    model = Pair()
    x, y = make_batches(64, seed=3)[0]
    how = {"logits": 1, "forward_kwargs": {"scale": 0.5}, "head": "norm", "stem": "stem"}
    monitor = walkback.Monitor(model, HELD, every=1, **how)
    with monitor.watch_training():
        F.cross_entropy(model(x, 0.5)[1], y).backward()
        monitor.step()
    report = walkback.diagnose(model, [(x, y)], **how)
    agree(monitor, report)
    assert monitor.report.error_size == pytest.approx(report.error_size, rel=1e-4)
    monitor.step(epoch=1)
    assert monitor.report.residual_norms == walkback.diagnose(model, HELD, **how).residual_norms


def test_a_network_whose_first_block_reads_the_input_is_warned_of_once():
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)))
    inputs, labels = torch.randn(16, 8), torch.randint(8, (16,))
    monitor = walkback.Monitor(model, [(inputs, labels)], blocks=["0", "1"], every=1)
    said = pytest.warns(WalkbackWarning, match=r"no gradient at 'input of 0'.*blocks=")
    with said as told, monitor.watch_training():
        for _ in range(3):
            nn.functional.cross_entropy(model(inputs), labels).backward()
            assert not monitor.step().measured
    assert len(told) == 1
    assert told[0].filename == __file__
    nn.functional.cross_entropy(model(inputs), labels).backward()
    assert monitor.step().measured
