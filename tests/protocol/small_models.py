"""Small networks of the kinds that people bring, and batches for them."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

INPUT, WIDTH, CLASSES = 12, 8, 3


def labelled(*sizes, shape=(INPUT,), classes=CLASSES, dtype=torch.float32, seed=1):
    """Batches of the given sizes."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, *shape, generator=generator, dtype=torch.float64).to(dtype),
            torch.randint(0, classes, (size,), generator=generator),
        )
        for size in sizes
    ]


class Residual(nn.Module):
    """h + f(norm(h))."""

    def __init__(self, width=WIDTH, activation=None):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.activation = activation or nn.GELU()
        self.down = nn.Linear(2 * width, width)

    def forward(self, hidden):
        return hidden + self.down(self.activation(self.up(self.norm(hidden))))


class ResMLP(nn.Module):
    """stem, blocks, norm, head; what happens to the stream in between is for subclasses to change."""

    def __init__(self, depth=3, block=Residual):
        super().__init__()
        self.stem = nn.Linear(INPUT, WIDTH)
        self.blocks = nn.ModuleList(block() for _ in range(depth))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def body(self, hidden):
        for block in self.blocks:
            hidden = block(hidden)
        return hidden

    def forward(self, inputs):
        return self.head(self.norm(self.body(self.stem(inputs))))


class DropoutResMLP(ResMLP):
    def __init__(self):
        super().__init__(block=lambda: Residual(activation=nn.Sequential(nn.GELU(), nn.Dropout(0.5))))
        self.dropout = nn.Dropout(0.3)

    def body(self, hidden):
        for block in self.blocks:
            hidden = self.dropout(block(hidden))
        return hidden


class Branch(nn.Module):
    """f alone; the skip is the caller's business."""

    def __init__(self, activation=None):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.activation = activation or nn.GELU()
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, hidden):
        return self.down(self.activation(self.up(hidden)))


class SkipOutside(ResMLP):
    """h + f(h), added outside the block."""

    def __init__(self, depth=3):
        super().__init__(depth, block=Branch)

    def body(self, hidden):
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return hidden


class SkipOutsideInPlace(SkipOutside):
    def body(self, hidden):
        for block in self.blocks:
            hidden += block(hidden)
        return hidden


class PreNormOutside(ResMLP):
    """h + f(norm(h)) with norm, f and skip all on the outside: only the norms see the stream itself."""

    def __init__(self, depth=3):
        super().__init__(depth, block=Branch)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))

    def body(self, hidden):
        for norm, block in zip(self.norms, self.blocks, strict=True):
            hidden = hidden + block(norm(hidden))
        return hidden


class Attributes(nn.Module):
    """fc1 … fc4 and F.relu."""

    def __init__(self, log_softmax=False):
        super().__init__()
        self.log_softmax = log_softmax
        self.fc1 = nn.Linear(INPUT, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, WIDTH)
        self.fc4 = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs):
        hidden = F.relu(self.fc1(inputs / 2))
        hidden = F.relu(self.fc2(hidden))
        hidden = F.relu(self.fc3(hidden))
        logits = self.fc4(hidden)
        return F.log_softmax(logits, dim=-1) if self.log_softmax else logits


def plain_sequential(inplace=False):
    widths = [INPUT, WIDTH, WIDTH, WIDTH, WIDTH]
    layers = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU(inplace=inplace)]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


class ConvBlock(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, images):
        return F.relu(self.norm(self.conv(images)))


class ConvNet(nn.Module):
    """Own CNN: a stem of another kind, blocks with BatchNorm, pooling, head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.features = nn.Sequential(ConvBlock(4, 4), ConvBlock(4, 6), ConvBlock(6, 6))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(6, CLASSES)
        shift_running_statistics(self)

    def forward(self, images):
        return self.head(self.pool(self.features(self.stem(images))).flatten(1))


class FlatConvNet(nn.Module):
    """conv, norm, relu in one flat list."""

    def __init__(self):
        super().__init__()
        layers = []
        for before, after in ((3, 4), (4, 4), (4, 4)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, CLASSES)
        shift_running_statistics(self)

    def forward(self, images):
        return self.head(self.pool(self.features(images)).flatten(1))


def shift_running_statistics(model):
    """Statistics that a network has after training: neither 0 nor 1, and unlike a batch's own."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)


class Stages(nn.Module):
    """Residual blocks in stages with another module in between, as in Swin or ConvNeXt."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(INPUT, WIDTH)
        self.stages = nn.ModuleList(nn.ModuleList([Residual(), Residual()]) for _ in range(3))
        self.between = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs):
        hidden = self.stem(inputs)
        for number, stage in enumerate(self.stages):
            if number:
                hidden = self.between[number - 1](hidden)
            for block in stage:
                hidden = block(hidden)
        return self.head(hidden)


class Encoder(nn.Module):
    """nn.TransformerEncoder over (B, T, INPUT), or (T, B, INPUT), with a linear head on the mean token."""

    def __init__(self, batch_first=True, depth=2):
        super().__init__()
        self.batch_first = batch_first
        self.embed = nn.Linear(INPUT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=batch_first, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=batch_first)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens, padding=None):
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=padding)
        return self.head(hidden.mean(dim=1 if self.batch_first else 0))


class TokenBlock(nn.Module):
    """Mixes tokens, so that every token reaches every other."""

    def __init__(self, tokens=5):
        super().__init__()
        self.mix = nn.Linear(tokens, tokens)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden):
        hidden = hidden + self.mix(hidden.transpose(1, 2)).transpose(1, 2)
        return hidden + torch.tanh(self.linear(hidden))


class TokenNet(nn.Module):
    """(B, T, INPUT) → logits from token 0, or from the mean of all, or one row per token."""

    def __init__(self, reads="all"):
        super().__init__()
        self.reads = reads
        self.embed = nn.Linear(INPUT, WIDTH)
        self.blocks = nn.ModuleList(TokenBlock() for _ in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        if self.reads == "class_token":
            hidden = hidden[:, 0]
        elif self.reads == "all":
            hidden = hidden.mean(dim=1)
        return self.head(hidden)


class Checkpointed(ResMLP):
    """Activation checkpointing of either kind, in train and eval mode alike."""

    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant

    def body(self, hidden):
        for block in self.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=self.reentrant)
        return hidden


class Shared(ResMLP):
    """One block, applied three times."""

    def __init__(self):
        super().__init__(depth=1)

    def body(self, hidden):
        for _ in range(3):
            hidden = self.blocks[0](hidden)
        return hidden


class InPlaceBlock(Residual):
    def forward(self, hidden):
        hidden += self.down(self.activation(self.up(self.norm(hidden))))
        return hidden


class TupleBlock(Residual):
    """Returns (hidden, weights); takes everything by keyword, a float mask first."""

    def forward(self, *, mask, hidden_states, extra=None):
        hidden = super().forward(hidden_states) * mask
        return {"hidden": hidden, "nested": (hidden.mean(), [None, 3])}


class TupleNet(ResMLP):
    def __init__(self):
        super().__init__(block=TupleBlock)

    def body(self, hidden):
        mask = torch.ones_like(hidden)
        for block in self.blocks:
            hidden = block(mask=mask, hidden_states=hidden)["hidden"]
        return hidden


class Towers(nn.Module):
    """Two equally long chains that know nothing of each other."""

    def __init__(self):
        super().__init__()
        self.left = nn.ModuleList(Residual() for _ in range(3))
        self.right = nn.ModuleList(Residual() for _ in range(3))
        self.stem = nn.Linear(INPUT, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs):
        left, right = self.stem(inputs).tanh().chunk(2, dim=-1)
        left, right = left + 0, right + 0
        for one, other in zip(self.left, self.right, strict=True):
            left, right = one(left), other(right)
        return self.head(left + right)


class Regression(ResMLP):
    """One number per sample, shape (B,)."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, inputs):
        return super().forward(inputs).squeeze(-1)


def sites_of(*blocks):
    """The sites of blocks that hand their output on: the first one's input, then every output."""
    return [("input", blocks[0]), *(("output", block) for block in blocks)]
