"""Networks that keep a state, activations written by hand, recurrent cells, and labels of another name."""

import torch
import torch.nn.functional as F
from foreign_case import Case, Subject, doubled, truth_of
from models_as_written import CLASSES, D
from models_language import GPT, subject, texts
from small_models import labelled
from torch import nn

VECTORS, STEPS = (D,), 4


class OneHidden(nn.Module):
    """A hidden layer, an activation that is written out, and a head."""

    def __init__(self, activation):
        super().__init__()
        self.hidden, self.activation = nn.Linear(D, 8), activation
        self.head = nn.Linear(activation(torch.zeros(1, 8)).shape[1], CLASSES)

    def forward(self, x):
        return self.head(self.activation(self.hidden(x)))

    def sites(self, x):
        h = self.activation(self.hidden(x))
        return [x, h], self.head(h)


def maxout(z):
    return z.view(len(z), -1, 2).max(dim=-1).values


def gated(z):
    a, b = z.chunk(2, dim=1)
    return a * torch.sigmoid(b)


def softplus(z):
    return torch.log(1 + torch.exp(z))


def both_signs(z):
    return torch.cat([F.relu(z), F.relu(-z)], dim=1)


def lateral(z):
    return F.relu(z - z.mean(dim=1, keepdim=True))


def one_hidden(activation):
    def build():
        model, data = OneHidden(activation), labelled(23, 14, shape=VECTORS)
        return Subject(model, data, truth_of(doubled(model).sites, data), "hidden")

    return build


class Neuron(nn.Module):
    """Leaks, and keeps its membrane from call to call, until somebody resets it."""

    def __init__(self):
        super().__init__()
        self.v = 0.0

    def forward(self, x):
        self.v = 0.5 * self.v + x
        return torch.tanh(self.v)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.n1, self.fc2, self.n2 = nn.Linear(D, 9), Neuron(), nn.Linear(9, 7), Neuron()
        self.head = nn.Linear(7, CLASSES)

    def forward(self, x):
        return self.head(self.n2(self.fc2(self.n1(self.fc1(x)))))

    def sites(self, x):
        h1 = self.fc1(x).tanh()
        h2 = self.fc2(h1).tanh()
        return [x, h1, h2], self.head(h2)


def stateful():
    """More samples than are measured at once, in batches of one size: a state would be carried on."""
    model, data = Stateful(), labelled(700, 700, 700, shape=VECTORS)
    truth = truth_of(doubled(model).sites, data)

    def also(report):
        assert report.reference_check.passed is True
        assert (model.n1.v, model.n2.v) == (0.0, 0.0)

    return Subject(model, data, truth, "fc*", also=also)


class Cells(nn.Module):
    """Two LSTM cells, step by step."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LSTMCell(D, 9), nn.LSTMCell(9, 7)
        self.head = nn.Linear(7, CLASSES)

    def forward(self, x):
        return self.head(self.steps(x)[-1])

    def steps(self, x):
        """x at the last step, and what both layers hand on there."""
        a, b = [(x.new_zeros(len(x), width), x.new_zeros(len(x), width)) for width in (9, 7)]
        for step in range(x.shape[1]):
            now = x[:, step]
            a = self.first(now, a)
            b = self.second(a[0], b)
        return [now, a[0], b[0]]

    def sites(self, x):
        sites = self.steps(x)
        return sites, self.head(sites[-1])


def cells():
    model, data = Cells(), labelled(23, 14, shape=(STEPS, D))
    chosen = f"first#{STEPS},second#{STEPS}"
    return Subject(model, data, truth_of(doubled(model).sites, data), chosen, {"blocks": chosen})


class SkipsWithoutStem(nn.Module):
    """The parent writes the skips, and no layer comes before the first of them."""

    def __init__(self, embedded, layers, norm):
        super().__init__()
        self.embed = nn.Embedding(10, D) if embedded else nn.Identity()
        self.first = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.second = nn.ModuleList(nn.Linear(D, D) for _ in range(3)) if layers == 2 else [nn.Identity()] * 3
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3)) if norm else [nn.Identity()] * 3
        self.head = nn.Linear(D, CLASSES)

    def start(self, x):
        return self.embed(x).mean(dim=1) if isinstance(self.embed, nn.Embedding) else x

    def forward(self, x):
        h = self.start(x)
        for first, second, norm in zip(self.first, self.second, self.norms, strict=True):
            h = h + second(torch.tanh(first(norm(h))))
        return self.head(h)

    def sites(self, x):
        sites = [self.start(x)]
        for number in range(3):
            h = self.norms[number](sites[-1])
            sites.append(sites[-1] + self.second[number](self.first[number](h).tanh()))
        return sites, self.head(sites[-1])


def without_stem(embedded, layers=1, norm=False):
    def build():
        model = SkipsWithoutStem(embedded, layers, norm)
        words = [(torch.randint(0, 10, (n, 4)), torch.randint(0, CLASSES, (n,))) for n in (23, 14)]
        data = words if embedded else labelled(23, 14, shape=VECTORS)
        return Subject(model, data, truth_of(doubled(model).sites, data), "first.*")

    return build


class OtherName(GPT):
    """Its labels come as `y`, and it shifts them itself."""

    def forward(self, idx, y=None):
        logits, _ = super().forward(idx, idx)
        if y is None:
            return logits, None
        return logits, F.cross_entropy(logits[:, :-1].flatten(0, 1), y[:, 1:].flatten())


def text_pairs():
    return [(batch["input_ids"], batch["labels"]) for batch in texts()]


CASES = [
    Case(
        "One hidden layer, maxout",
        "An activation may take numbers together.",
        one_hidden(maxout),
    ),
    Case("One hidden layer, gated", "A gate that is written out belongs to the stage.", one_hidden(gated)),
    Case("One hidden layer, softplus by hand", "An activation is more than its first function.", one_hidden(softplus)),
    Case("One hidden layer, both signs", "An activation may widen the layer.", one_hidden(both_signs)),
    Case("One hidden layer, inhibited", "So does centring in front of the activation.", one_hidden(lateral)),
    Case("Skips from the input on", "The first block has a skip around it as the others.", without_stem(False)),
    Case("Skips from an embedding on", "An embedding reads no stream, and is none of its layers.", without_stem(True)),
    Case("Skips around two layers, no stem", "One skip, one block, also from the input on.", without_stem(False, 2)),
    Case("Skips around a norm and two layers", "The skip begins before the norm.", without_stem(True, 2, norm=True)),
    Case("Neurons that keep their state", "Every pass begins from the state that the network came with.", stateful),
    Case("LSTM cells, the last step", "A cell's own state is no site: h_0 is the input at that step.", cells),
    Case(
        "GPT whose labels are called y",
        "The argument that makes a loss is found, whatever its name.",
        subject(OtherName, text_pairs, [f"transformer.h.{i}" for i in range(3)], "transformer.h.*", shifted=True),
    ),
]
