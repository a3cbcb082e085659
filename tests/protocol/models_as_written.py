"""Networks as people write them, each with its forward pass written out once more to return its sites.

`sites(x)` is the truth: the list h_0 … h_L by the rule of docs/protocol.md, and the logits, by hand. It is written
beside `forward`, never from it.
"""

import warnings
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

D, CLASSES, TOKENS = 6, 3, 4
"""Few numbers: each network is run sample by sample in fp64."""


# Plain networks: every layer but the last is a block, and h_0 is the input.


class Sequential(nn.Module):
    """nn.Sequential of Linear and an activation, as the network itself or inside one."""

    def __init__(self, *widths, activation=nn.ReLU, norm=None, inplace=False):
        super().__init__()
        layers = []
        for before, after in pairwise(widths[:-1]):
            layers.append(nn.Linear(before, after))
            if norm is not None:
                layers.append(norm(after))
            layers.append(activation(inplace=True) if inplace else activation())
        self.net = nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))
        self.norm, self.activation = norm, activation

    def forward(self, x):
        return self.net(x)

    def sites(self, x):
        sites, h = [x], x
        for layer in self.net[:-1]:
            if isinstance(layer, self.activation):
                h = F.relu(h) if self.activation is nn.ReLU else torch.tanh(h)
                sites.append(h)
            else:
                h = layer(h)
        return sites, self.net[-1](h)


class FunctionalMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(2 * D, D), nn.Linear(D, D + 1), nn.Linear(D + 1, CLASSES)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        x = F.relu(self.fc1(x))
        x = F.dropout(F.relu(self.fc2(x)), 0.5, training=self.training)
        return self.fc3(x)

    def sites(self, x):
        h0 = x.reshape(len(x), 2 * D)
        h1 = self.fc1(h0).clamp(min=0)
        h2 = self.fc2(h1).clamp(min=0)
        return [h0, h1, h2], self.fc3(h2)


class NamedEnds(nn.Module):
    """A plain MLP whose first layer has a name of its own: a hidden layer all the same."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(D, 5)
        self.hidden = nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 5)])
        self.output = nn.Linear(5, CLASSES)

    def forward(self, x):
        x = torch.tanh(self.input(x))
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.output(x)

    def sites(self, x):
        h1 = self.input(x).tanh()
        h2 = self.hidden[0](h1).tanh()
        h3 = self.hidden[1](h2).tanh()
        return [x, h1, h2, h3], self.output(h3)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, 2), nn.ReLU())
        self.decoder = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, D))

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def sites(self, x):
        h1 = self.encoder[0](x).relu()
        h2 = self.encoder[2](h1).relu()
        h3 = self.decoder[0](h2).relu()
        return [x, h1, h2, h3], self.decoder[2](h3)


class NormAfter(nn.Module):
    """A norm behind each activation belongs to its stage, the last one's too."""

    def __init__(self, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(F.gelu(layer(x)))
        return self.head(x)

    def sites(self, x):
        sites = [x]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            sites.append(norm(F.gelu(layer(sites[-1]))))
        return sites, self.head(sites[-1])


class TerminalNorm(nn.Module):
    """A norm that stands at the end alone is the head's."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.head(self.norm(x))

    def sites(self, x):
        h1 = self.layers[0](x).relu()
        h2 = self.layers[1](h1).relu()
        return [x, h1, h2], self.head(self.norm(h2))


class LeNet(nn.Module):
    """Convolutions and hidden fully connected layers alike are blocks; pooling belongs to what comes before."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(4 * 2 * 2, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return self.fc2(x)

    def sites(self, x):
        h1 = F.max_pool2d(self.conv1(x).relu(), 2)
        h2 = F.max_pool2d(self.conv2(h1).relu(), 2)
        h3 = self.fc1(h2.reshape(len(x), 16)).relu()
        return [x, h1, h2, h3], self.fc2(h3)


class FlatCNN(nn.Module):
    """conv, BatchNorm, ReLU, MaxPool in stages; the average over space is the head's."""

    def __init__(self, depth=2, pool=True):
        super().__init__()
        layers = []
        for number in range(depth):
            layers += [nn.Conv2d(2 if number == 0 else 3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(2)] if pool else []
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(3, CLASSES))
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.5, 0.5)
                module.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.classifier(self.pool(self.features(x)))

    def sites(self, x):
        sites, h = [x], x
        for layer in self.features:
            h = h.relu() if isinstance(layer, nn.ReLU) else layer(h)
            if isinstance(layer, nn.Conv2d):
                sites.append(h)
            else:
                sites[-1] = h
        return sites, self.classifier[1](h.mean((2, 3)))


class PoolToSpace(nn.Module):
    """Pooling in front of the head that leaves space belongs to the stage, with one stage as with two."""

    def __init__(self, depth):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1) for _ in range(depth))
        self.head = nn.Linear(2 * (8 // 2**depth) ** 2, CLASSES)

    def forward(self, x):
        for conv in self.convs:
            x = F.avg_pool2d(torch.relu(conv(x)), 2)
        return self.head(x.flatten(1))

    def sites(self, x):
        sites = [x]
        for conv in self.convs:
            sites.append(F.avg_pool2d(conv(sites[-1]).relu(), 2))
        return sites, self.head(sites[-1].flatten(1))


class ConvBlock(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(1, after)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Stages(nn.Module):
    """Stages that are modules of their own, of growing width, the first of them on the image itself."""

    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(ConvBlock(2, 3), ConvBlock(3, 4), ConvBlock(4, 4))
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(self.stages(x).mean(dim=(-2, -1)))

    def sites(self, x):
        h1 = self.stages[0](x)
        h2 = self.stages[1](h1)
        h3 = self.stages[2](h2)
        return [x, h1, h2, h3], self.head(h3.flatten(2).mean(2))


# The parent writes the skip.


class Branch(nn.Module):
    def __init__(self, width=D):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, h):
        return self.down(F.gelu(self.up(h)))


ENDS = {
    "mean": lambda h: h.mean(1),
    "last token": lambda h: h[:, -1],
    "max": lambda h: h.amax(dim=1),
    "sum": lambda h: h.sum(dim=1),
    "flatten": lambda h: h.flatten(1),
    "class token": lambda h: h[:, 0],
    "mean of normed": lambda h: F.layer_norm(h, (D,)).mean(1),
}


class ParentSkip(nn.Module):
    """h = h + f(h), and then one of the ways to come from tokens to logits."""

    def __init__(self, end="mean", depth=3, inplace=False):
        super().__init__()
        self.stem = nn.Linear(5, D)
        self.layers = nn.ModuleList(Branch() for _ in range(depth))
        self.head = nn.Linear(D * TOKENS if end == "flatten" else D, CLASSES)
        self.end, self.inplace = end, inplace

    def forward(self, x):
        h = self.stem(x)
        for f in self.layers:
            if self.inplace:
                h += f(h)
            else:
                h = h + f(h)
        return self.head(ENDS[self.end](h))

    def sites(self, x):
        sites = [self.stem(x)]
        for f in self.layers:
            sites.append(f(sites[-1]) + sites[-1])
        return sites, self.head(ENDS[self.end](sites[-1]))


class ParentSkipConv(nn.Module):
    def __init__(self, end, depth=2, after=nn.Identity):
        super().__init__()
        self.stem = nn.Conv2d(2, 3, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(depth))
        self.pool, self.after = nn.AdaptiveAvgPool2d(1), after()
        self.head, self.end = nn.Linear(3, CLASSES), end

    def forward(self, x):
        h = self.stem(x)
        for conv in self.convs:
            h = self.after(h + F.relu(conv(h)))
        if self.end == "mean":
            return self.head(h.mean((2, 3)))
        return self.head(self.pool(h)[:, :, 0, 0] if self.end == "index" else torch.flatten(self.pool(h), 1))

    def sites(self, x):
        sites = [self.stem(x)]
        for conv in self.convs:
            h = sites[-1] + conv(sites[-1]).relu()
            sites.append(h.relu() if isinstance(self.after, nn.ReLU) else h)
        return sites, self.head(sites[-1].mean((2, 3)))


class ParentPreNorm(nn.Module):
    """h + f(norm(h)): the norms, the branches and the skip are all the parent's; norms may be functions."""

    def __init__(self, modules=True, depth=2, stem=True):
        super().__init__()
        self.stem = nn.Linear(5, D) if stem else nn.Identity()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth)) if modules else [None] * depth
        self.branches = nn.ModuleList(Branch() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def normed(self, norm, h):
        return F.layer_norm(h, (D,)) if norm is None else norm(h)

    def forward(self, x):
        h = self.stem(x)
        for norm, branch in zip(self.norms, self.branches, strict=True):
            h = h + branch(self.normed(norm, h))
        return self.head(self.norm(h).mean(1))

    def sites(self, x):
        sites = [self.stem(x)]
        for norm, branch in zip(self.norms, self.branches, strict=True):
            sites.append(sites[-1] + branch(self.normed(norm, sites[-1])))
        return sites, self.head(self.norm(sites[-1]).mean(1))


class ParentPostNorm(nn.Module):
    """norm(h + f(h)): the stream is what comes out of the norms."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(5, D)
        self.branches = nn.ModuleList(Branch() for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for branch, norm in zip(self.branches, self.norms, strict=True):
            h = norm(h + branch(h))
        return self.head(h[:, 0])

    def sites(self, x):
        h0 = self.stem(x)
        h1 = self.norms[0](h0 + self.branches[0](h0))
        h2 = self.norms[1](h1 + self.branches[1](h1))
        return [h0, h1, h2], self.head(h2[:, 0])


class LayerScale(nn.Module):
    """h + γ f(h), with γ a parameter of the parent's."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(D, D)
        self.branches = nn.ModuleList(Branch() for _ in range(2))
        self.gammas = nn.ParameterList(nn.Parameter(torch.rand(D)) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for branch, gamma in zip(self.branches, self.gammas, strict=True):
            h = h + gamma * branch(h)
        return self.head(self.norm(h))

    def sites(self, x):
        h0 = self.stem(x)
        h1 = h0 + self.gammas[0] * self.branches[0](h0)
        h2 = h1 + self.gammas[1] * self.branches[1](h1)
        return [h0, h1, h2], self.head(self.norm(h2))


class Highway(nn.Module):
    """The parent's gate reads the stream before the layer does."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.gates = nn.ModuleList(nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        h = self.stem(x)
        for layer, gate in zip(self.layers, self.gates, strict=True):
            g = torch.sigmoid(gate(h))
            h = g * F.relu(layer(h)) + (1 - g) * h
        return self.head(h)

    def sites(self, x, side=0):
        sites = [self.stem(x)]
        for layer, gate in zip(self.layers, self.gates, strict=True):
            h = sites[-1]
            sites.append(torch.lerp(h, layer(h).clamp(min=0), gate(h).sigmoid()))
        return sites, self.head(sites[-1])


class DenseNet(nn.Module):
    """The parent joins what a block read and what it wrote side by side."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 2, 1)
        self.layers = nn.ModuleList(ConvBlock(2 + 2 * number, 2) for number in range(3))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for layer in self.layers:
            h = torch.cat([h, layer(h)], dim=1)
        return self.head(F.adaptive_avg_pool2d(h, 1).flatten(1))

    def sites(self, x):
        sites = [self.stem(x)]
        for layer in self.layers:
            sites.append(torch.cat([sites[-1], layer(sites[-1])], dim=1))
        return sites, self.head(sites[-1].mean((2, 3)))


class GlobalSkip(nn.Module):
    """A skip around all blocks is not the last block's."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(D, D)
        self.body = nn.Sequential(Block(), Block())
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        return self.head(h + self.body(h))

    def sites(self, x):
        h0 = self.stem(x)
        h1 = self.body[0](h0)
        h2 = self.body[1](h1)
        return [h0, h1, h2], self.head(h2 + h0)


# Blocks that write their own skip.


class Block(nn.Module):
    def __init__(self, width=D):
        super().__init__()
        self.norm, self.branch = nn.LayerNorm(width), Branch(width)

    def forward(self, h):
        return h + self.branch(self.norm(h))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, h):
        batch, tokens, _ = h.shape
        q, k, v = self.qkv(h).reshape(batch, tokens, 3, 2, D // 2).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, D))


class ViTBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.drop_path1 = nn.LayerNorm(D), Attention(), nn.Identity()
        self.norm2, self.mlp, self.drop_path2 = nn.LayerNorm(D), Branch(), nn.Identity()

    def forward(self, x):
        x = x + self.drop_path1(self.attn(self.norm1(x)))
        return x + self.drop_path2(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    """As timm writes it: a class token of std 1e-6, positions, blocks, a norm, and a head on the class token."""

    def __init__(self, pool="token"):
        super().__init__()
        self.patch_embed = nn.Conv2d(2, D, 4, stride=4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, D) * 1e-6)
        self.pos_embed = nn.Parameter(torch.randn(1, 5, D) * 0.02)
        self.pos_drop = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*(ViTBlock() for _ in range(3)))
        self.norm, self.head, self.pool = nn.LayerNorm(D), nn.Linear(D, CLASSES), pool

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = self.pos_drop(x + self.pos_embed)
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x[:, 0] if self.pool == "token" else x[:, 1:].mean(dim=1))

    def sites(self, x):
        patches = self.patch_embed(x).flatten(2).permute(0, 2, 1)
        h0 = torch.cat([self.cls_token.repeat(len(x), 1, 1), patches], 1) + self.pos_embed
        h1 = self.blocks[0](h0)
        h2 = self.blocks[1](h1)
        h3 = self.blocks[2](h2)
        normed = self.norm(h3)
        return [h0, h1, h2, h3], self.head(normed[:, 0] if self.pool == "token" else normed[:, 1:].mean(1))


class BasicBlock(nn.Module):
    """As torchvision writes it."""

    def __init__(self, before, after, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(after), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2, self.downsample = nn.BatchNorm2d(after), downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(2, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.ReLU(True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(3, 3), BasicBlock(3, 3))
        down = nn.Sequential(nn.Conv2d(3, 4, 1, 2, bias=False), nn.BatchNorm2d(4))
        self.layer2 = nn.Sequential(BasicBlock(3, 4, 2, down), BasicBlock(4, 4))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(4, CLASSES)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))

    def sites(self, x):
        sites = [F.max_pool2d(self.bn1(self.conv1(x)).clamp(min=0), 3, 2, 1)]
        for block in (*self.layer1, *self.layer2):
            h = sites[-1]
            inner = block.bn2(block.conv2(block.bn1(block.conv1(h)).clamp(min=0)))
            sites.append((inner + (h if block.downsample is None else block.downsample(h))).clamp(min=0))
        return sites, self.fc(sites[-1].mean((2, 3)))


class Swin(nn.Module):
    """Stages of blocks with patches merged in between, by a module with weights."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.stages = nn.ModuleList(nn.ModuleList([ViTBlock(), ViTBlock()]) for _ in range(2))
        self.merge, self.norm, self.head = nn.Linear(2 * D, D), nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def forward(self, x):
        x = self.embed(x)
        for number, stage in enumerate(self.stages):
            for block in stage:
                x = block(x)
            if number == 0:
                x = self.merge(torch.cat([x[:, 0::2], x[:, 1::2]], dim=-1))
        return self.head(self.norm(x).mean(1))

    def sites(self, x):
        h0 = self.embed(x)
        h1 = self.stages[0][0](h0)
        h2 = self.stages[0][1](h1)
        h2 = self.merge(torch.cat([h2[:, 0::2], h2[:, 1::2]], dim=-1))
        h3 = self.stages[1][0](h2)
        h4 = self.stages[1][1](h3)
        return [h0, h1, h2, h3, h4], self.head(self.norm(h4).mean(1))


class Tower(nn.Module):
    """stem, blocks, norm, head; subclasses say how the blocks are held and run."""

    depth = 3

    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.head = nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, CLASSES)
        self.hold()

    def hold(self):
        self.blocks = nn.ModuleList(Block() for _ in range(self.depth))

    def body(self, h):
        for block in self.blocks:
            h = block(h)
        return h

    def in_order(self):
        return list(self.blocks)

    def forward(self, x):
        return self.head(self.norm(self.body(self.stem(x))))

    def sites(self, x):
        sites = [self.stem(x)]
        for block in self.in_order():
            sites.append(Block.forward(block, sites[-1]))
        return sites, self.head(self.norm(sites[-1]))


class HeldInDict(Tower):
    def hold(self):
        self.blocks = nn.ModuleDict({name: Block() for name in ("early", "middle", "late")})

    def body(self, h):
        for name in self.blocks:
            h = self.blocks[name](h)
        return h

    def in_order(self):
        return [self.blocks["early"], self.blocks["middle"], self.blocks["late"]]


class NestedLists(Tower):
    def hold(self):
        self.groups = nn.ModuleList(nn.ModuleList(Block() for _ in range(2)) for _ in range(2))

    def body(self, h):
        for group in self.groups:
            for block in group:
                h = block(h)
        return h

    def in_order(self):
        return [self.groups[0][0], self.groups[0][1], self.groups[1][0], self.groups[1][1]]


class OtherOrder(Tower):
    def body(self, h):
        for number in (2, 0, 1):
            h = self.blocks[number](h)
        return h

    def in_order(self):
        return [self.blocks[2], self.blocks[0], self.blocks[1]]


class Tied(Tower):
    """One block, three times: depth is the calls."""

    depth = 1

    def body(self, h):
        for _ in range(3):
            h = self.blocks[0](h)
        return h

    def in_order(self):
        return [self.blocks[0]] * 3


class TupleBlock(Block):
    def forward(self, h, mask=None):
        out = super().forward(h)
        return out, out.mean(dim=-1)


class Tuples(Tower):
    """Blocks that return (h, aux)."""

    def hold(self):
        self.blocks = nn.ModuleList(TupleBlock() for _ in range(3))

    def body(self, h):
        for block in self.blocks:
            h, _ = block(h)
        return h


class KeywordBlock(Block):
    def forward(self, *, mask, hidden_states):
        return super().forward(hidden_states) * mask


class Keywords(Tower):
    """Blocks that take everything by keyword, a float mask first."""

    def hold(self):
        self.blocks = nn.ModuleList(KeywordBlock() for _ in range(3))

    def body(self, h):
        mask = torch.ones_like(h)
        for block in self.blocks:
            h = block(mask=mask, hidden_states=h)
        return h


class CheckpointedTower(Tower):
    def body(self, h):
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False)
        return h


class CheckpointedParentSkip(ParentSkip):
    """The skip is the parent's, the branch is computed again on the way back."""

    def forward(self, x):
        h = self.stem(x)
        for f in self.layers:
            h = h + checkpoint(f, h, use_reentrant=False)
        return self.head(h.mean(1))


class StochasticDepth(Tower):
    def body(self, h):
        for block in self.blocks:
            if self.training and torch.rand(()) < 0.5:
                continue
            h = block(h)
        return h


class EarlyExit(Tower):
    """Logits after every block; the last ones count."""

    def __init__(self):
        super().__init__()
        self.exits = nn.ModuleList(nn.Linear(D, CLASSES) for _ in range(2))

    def forward(self, x):
        h, outputs = self.stem(x), []
        for number, block in enumerate(self.blocks):
            h = block(h)
            outputs.append(self.exits[number](h) if number < 2 else self.head(self.norm(h)))
        return outputs


class OtherKinds(Tower):
    """Blocks of two kinds in one list."""

    def hold(self):
        self.blocks = nn.ModuleList([Block(), OtherBlock(), Block(), OtherBlock()])

    def sites(self, x):
        sites = [self.stem(x)]
        for block in self.blocks:
            sites.append(block(sites[-1]))
        return sites, self.head(self.norm(sites[-1]))


class OtherBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.value = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, h):
        return h + torch.sigmoid(self.gate(h)) * self.value(h)


class Experts(nn.Module):
    """A mixture: each token goes to the expert that the router likes most."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(D, 3)
        self.experts = nn.ModuleList(Branch() for _ in range(3))

    def forward(self, h):
        flat = h.reshape(-1, D)
        weights, chosen = self.router(flat).softmax(-1).max(-1)
        mixed = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():
                mixed[mine] = weights[mine, None] * expert(flat[mine])
        return h + mixed.view_as(h)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.layers = nn.ModuleList(Experts() for _ in range(2))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(h.mean(1))

    def sites(self, x):
        sites = [self.embed(x)]
        for layer in self.layers:
            rows = []
            for token in sites[-1].reshape(-1, D):
                weights = layer.router(token).softmax(-1)
                best = int(weights.argmax())
                rows.append(token + weights[best] * layer.experts[best](token))
            sites.append(torch.stack(rows).reshape(sites[-1].shape))
        return sites, self.head(sites[-1].mean(1))


class Scan(nn.Module):
    """A selective scan over time inside the block, as in Mamba."""

    def __init__(self):
        super().__init__()
        self.inputs, self.decay, self.out = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, h):
        state, states = torch.zeros_like(h[:, 0]), []
        drive, decay = self.inputs(h), torch.sigmoid(self.decay(h))
        for t in range(h.shape[1]):
            state = decay[:, t] * state + (1 - decay[:, t]) * drive[:, t]
            states.append(state)
        return self.out(torch.stack(states, dim=1))


class StateSpace(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.mixers = nn.ModuleList(Scan() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        for norm, mixer in zip(self.norms, self.mixers, strict=True):
            h = h + mixer(norm(h))
        return self.head(self.norm(h)[:, -1])

    def sites(self, x):
        h0 = self.embed(x)
        h1 = h0 + self.mixers[0](self.norms[0](h0))
        h2 = h1 + self.mixers[1](self.norms[1](h1))
        return [h0, h1, h2], self.head(self.norm(h2[:, -1]))


class LSTMStack(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.layers = nn.ModuleList(nn.LSTM(D, D, batch_first=True) for _ in range(2))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        for layer in self.layers:
            h, _ = layer(h)
        return self.head(h[:, -1])

    def sites(self, x):
        h0 = self.embed(x)
        h1 = self.layers[0](h0)[0]
        h2 = self.layers[1](h1)[0]
        return [h0, h1, h2], self.head(h2[:, -1])


class GRULastState(nn.Module):
    """One recurrent layer of which the last state alone is used."""

    def __init__(self):
        super().__init__()
        self.embed, self.gru = nn.Embedding(10, D), nn.GRU(D, D, batch_first=True)
        self.head = nn.Linear(D, CLASSES)

    def forward(self, ids):
        _, last = self.gru(self.embed(ids))
        return self.head(last[-1])

    def sites(self, ids):
        h0 = self.embed(ids)
        last = self.gru(h0)[1]
        return [h0, last], self.head(last[0])


class SqueezeExcite(nn.Module):
    """A plain CNN but for a gate beside each convolution."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)])
        self.gates = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.head = nn.Linear(3, CLASSES)

    def forward(self, x):
        for conv, gate in zip(self.convs, self.gates, strict=True):
            x = F.relu(conv(x))
            x = x * torch.sigmoid(gate(x.mean((2, 3))))[:, :, None, None]
        return self.head(x.mean((2, 3)))

    def sites(self, x):
        sites = [x]
        for conv, gate in zip(self.convs, self.gates, strict=True):
            h = conv(sites[-1]).relu()
            sites.append(h * torch.sigmoid(gate(h.mean((2, 3)))).reshape(len(x), 3, 1, 1))
        return sites, self.head(sites[-1].mean((2, 3)))


class Encoder(nn.Module):
    """nn.TransformerEncoder, sequence first."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        layer = nn.TransformerEncoderLayer(D, 2, 8, batch_first=False, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(D), enable_nested_tensor=False)
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x.transpose(0, 1))).mean(0))

    def sites(self, x):
        h0 = self.embed(x.transpose(0, 1))
        h1 = self.encoder.layers[0](h0)
        h2 = self.encoder.layers[1](h1)
        return [h0, h1, h2], self.head(self.encoder.norm(h2).mean(0))


class TwoOutputs(Tower):
    """Returns (features, logits)."""

    def forward(self, x):
        h = self.body(self.stem(x))
        return h, self.head(self.norm(h))


class FurtherArgument(Tower):
    """Needs an argument that no batch brings."""

    def forward(self, x, temperature, *, bias=None):
        logits = super().forward(x) / temperature
        return logits if bias is None else logits + bias

    def sites(self, x):
        sites, logits = super().sites(x)
        return sites, logits / 0.5 + torch.arange(3.0)


class Siamese(nn.Module):
    """One encoder for two inputs, and logits from how they differ."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(D, D), Block(), Block(), Block())
        self.head = nn.Linear(D, CLASSES)

    def forward(self, pair):
        left, right = (self.encoder(side) for side in pair.unbind(1))
        return self.head((left - right).abs())

    def sites(self, pair, side=0):
        sides = []
        for number in (0, 1):
            h = [self.encoder[0](pair[:, number])]
            for block in self.encoder[1:]:
                h.append(block(h[-1]))
            sides.append(h)
        return sides[side], self.head((sides[0][-1] - sides[1][-1]).abs())


class SiameseMLP(nn.Module):
    """Two plain towers with the same weights."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU())
        self.head = nn.Linear(8, CLASSES)

    def forward(self, pair):
        return self.head(torch.cat([self.encoder(pair[:, 0]), self.encoder(pair[:, 1])], dim=1))

    def sites(self, pair, side=0):
        sides = []
        for number in (0, 1):
            h0 = pair[:, number]
            h1 = self.encoder[0](h0).relu()
            sides.append([h0, h1, self.encoder[2](h1).relu()])
        return sides[side], self.head(torch.cat([sides[0][-1], sides[1][-1]], dim=1))


class TwoTowers(nn.Module):
    """Two encoders of equal length."""

    def __init__(self):
        super().__init__()
        self.left = nn.ModuleList(Block() for _ in range(2))
        self.right = nn.ModuleList(Block() for _ in range(2))
        self.stem, self.head = nn.Linear(D, 2 * D), nn.Linear(D, CLASSES)

    def forward(self, x):
        left, right = self.stem(x).tanh().chunk(2, dim=-1)
        for block in self.left:
            left = block(left)
        for block in self.right:
            right = block(right)
        return self.head(left * right)

    def sites(self, x, side=0):
        start = self.stem(x).tanh()
        towers = []
        for blocks, h in ((self.left, start[:, :D] * 1), (self.right, start[:, D:] * 1)):
            h1 = blocks[0](h)
            towers.append([h, h1, blocks[1](h1)])
        return towers[side], self.head(towers[0][-1] * towers[1][-1])


class EncoderDecoder(nn.Module):
    """The decoder's blocks read the encoder's last output too."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.encoder = nn.ModuleList(Block() for _ in range(2))
        self.decoder = nn.ModuleList(CrossBlock() for _ in range(2))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        memory, h = self.embed(x), self.embed(x.flip(1))
        for block in self.encoder:
            memory = block(memory)
        for block in self.decoder:
            h = block(h, memory)
        return self.head(h.mean(1))

    def sites(self, x, side=0):
        m0, h0 = self.embed(x), self.embed(x.flip(1))
        m1 = self.encoder[0](m0)
        m2 = self.encoder[1](m1)
        h1 = self.decoder[0](h0, m2)
        h2 = self.decoder[1](h1, m2)
        return [[m0, m1, m2], [h0, h1, h2]][side], self.head(h2.mean(1))


class CrossBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.memory = Branch(), nn.Linear(D, D)

    def forward(self, h, memory):
        h = h + self.own(h)
        return h + F.softmax(h @ self.memory(memory).transpose(1, 2), dim=-1) @ memory


class UNet(nn.Module):
    """Skips across: what each way down writes is joined on the way up."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.middle = ConvBlock(2, 3), ConvBlock(3, 4), ConvBlock(4, 4)
        self.up2, self.up1 = ConvBlock(8, 3), ConvBlock(6, 3)
        self.head = nn.Conv2d(3, CLASSES, 1)

    def forward(self, x):
        e1 = self.down1(x)
        e2 = self.down2(F.max_pool2d(e1, 2))
        m = self.middle(F.max_pool2d(e2, 2))
        d2 = self.up2(torch.cat([F.interpolate(m, scale_factor=2), e2], dim=1))
        d1 = self.up1(torch.cat([F.interpolate(d2, scale_factor=2), e1], dim=1))
        return self.head(d1).mean((2, 3))

    def sites(self, x):
        e1 = self.down1(x)
        e2 = self.down2(F.max_pool2d(e1, 2))
        m = self.middle(F.max_pool2d(e2, 2))
        joined2 = torch.cat([F.interpolate(m, scale_factor=2), e2], dim=1)
        d2 = self.up2(joined2)
        joined1 = torch.cat([F.interpolate(d2, scale_factor=2), e1], dim=1)
        d1 = self.up1(joined1)
        return [x, e1, e2, joined2, joined1, d1], self.head(d1).mean((2, 3))


class Parallel(nn.Module):
    """Attention and feed-forward side by side, as in GPT-J, written by the parent."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.attn = nn.ModuleList(Attention() for _ in range(2))
        self.mlp = nn.ModuleList(Branch() for _ in range(2))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        for norm, attn, mlp in zip(self.norms, self.attn, self.mlp, strict=True):
            n = norm(h)
            h = h + attn(n) + mlp(n)
        return self.head(h.mean(1))

    def sites(self, x, side=0):
        h0 = self.embed(x)
        n = self.norms[0](h0)
        h1 = h0 + self.attn[0](n) + self.mlp[0](n)
        n = self.norms[1](h1)
        h2 = h1 + self.attn[1](n) + self.mlp[1](n)
        return [h0, h1, h2], self.head(h2.mean(1))


class SpikingMLP(nn.Module):
    """Leaky integration unrolled over three steps of the same input; the outputs are added up."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, CLASSES)

    def forward(self, x):
        mem1 = mem2 = torch.zeros(len(x), D, dtype=x.dtype)
        total = 0
        for _ in range(3):
            mem1 = 0.9 * mem1 + self.fc1(x)
            mem2 = 0.9 * mem2 + self.fc2(torch.sigmoid(mem1))
            total = total + self.fc3(torch.sigmoid(mem2))
        return total


class CellRNN(nn.Module):
    """A cell that is called once for each token."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(5, D), nn.Linear(D, CLASSES)

    def forward(self, x):
        h = torch.zeros(len(x), D, dtype=x.dtype)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)


class HandRNN(nn.Module):
    """The same, of two layers, written with Linear."""

    def __init__(self):
        super().__init__()
        self.x1, self.h1 = nn.Linear(5, D), nn.Linear(D, D)
        self.x2, self.h2 = nn.Linear(D, D), nn.Linear(D, D)
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        a = b = torch.zeros(len(x), D, dtype=x.dtype)
        for t in range(x.shape[1]):
            a = torch.tanh(self.x1(x[:, t]) + self.h1(a))
            b = torch.tanh(self.x2(a) + self.h2(b))
        return self.head(b)


class ForwardForward(nn.Module):
    """Layers that are trained one by one; the logits are each label's goodness, by a pass for each."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(D + CLASSES, D), nn.Linear(D, D)])

    def forward(self, x):
        goodness = []
        for label in range(CLASSES):
            h = torch.cat([x, F.one_hot(torch.full((len(x),), label), CLASSES).to(x.dtype)], dim=1)
            total = 0
            for layer in self.layers:
                h = F.relu(layer(h.detach() / (h.norm(dim=1, keepdim=True) + 1e-4)))
                total = total + h.square().mean(dim=1)
            goodness.append(total)
        return torch.stack(goodness, dim=1)


# What trying further ones found.


class VGG(nn.Module):
    """Containers of convolutions, and a classifier with a hidden layer: each layer is a block, however it is held."""

    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.block2 = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(nn.Linear(16, 5), nn.ReLU(True), nn.Dropout(), nn.Linear(5, CLASSES))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.block2(self.block1(x))), 1))

    def sites(self, x, blocks=slice(None)):
        h1 = F.max_pool2d(self.block1[0](x).relu(), 2)
        h2 = self.block2[0](h1).relu()
        h3 = F.adaptive_avg_pool2d(self.block2[2](h2).relu(), 2)
        h4 = self.classifier[0](h3.flatten(1)).relu()
        return [x, h1, h2, h3, h4][blocks], self.classifier[3](h4)


class Maxout(nn.Module):
    """The activation takes an axis away, and is no pooling of tokens."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(D, 10), nn.Linear(5, 8), nn.Linear(4, CLASSES)

    def forward(self, x):
        x = self.fc1(x).view(-1, 5, 2).max(-1).values
        x = self.fc2(x).view(-1, 4, 2).max(-1).values
        return self.fc3(x)

    def sites(self, x):
        h1 = self.fc1(x).reshape(-1, 5, 2).amax(-1)
        h2 = self.fc2(h1).reshape(-1, 4, 2).amax(-1)
        return [x, h1, h2], self.fc3(h2)


class Prototypes(nn.Module):
    """The head is a function of a parameter, so that every layer is a hidden one."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU())
        self.prototypes = nn.Parameter(torch.randn(CLASSES, 4))

    def forward(self, x):
        return -torch.cdist(self.features(x), self.prototypes)

    def sites(self, x):
        h1 = self.features[0](x).relu()
        h2 = self.features[2](h1).relu()
        return [x, h1, h2], -(h2[:, None] - self.prototypes).square().sum(-1).sqrt()


class LayersInDicts(nn.Module):
    """Attention and feed-forward by the parent, each with its norm; the last norm is the head's."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"ln1": nn.LayerNorm(D), "attn": Attention(), "ln2": nn.LayerNorm(D), "mlp": Branch()})
            for _ in range(2)
        )
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = x + layer["attn"](layer["ln1"](x))
            x = x + layer["mlp"](layer["ln2"](x))
        return self.head(self.norm(x)[:, -1])

    def sites(self, x):
        sites = [self.embed(x)]
        for layer in self.layers:
            h = sites[-1] + layer["attn"](layer["ln1"](sites[-1]))
            sites.append(h + layer["mlp"](layer["ln2"](h)))
        return sites, self.head(self.norm(sites[-1])[:, -1])


class DenseLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(1, width), nn.Conv2d(width, 2, 3, padding=1)

    def forward(self, features):
        return self.conv(F.relu(self.norm(torch.cat(features, dim=1))))


class DenseBlock(nn.ModuleDict):
    """As torchvision writes it: every layer reads the list of all before it."""

    def __init__(self, width):
        super().__init__({f"layer{n}": DenseLayer(width + 2 * n) for n in range(2)})

    def forward(self, x):
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, dim=1)


class TorchvisionDenseNet(nn.Module):
    def __init__(self):
        super().__init__()

        def transition():
            return nn.Sequential(nn.GroupNorm(1, 7), nn.ReLU(), nn.Conv2d(7, 3, 1), nn.AvgPool2d(2))

        self.features = nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), DenseBlock(3), transition(), DenseBlock(3), nn.GroupNorm(1, 7)
        )
        self.classifier = nn.Linear(7, CLASSES)

    def forward(self, x):
        features = F.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(features, (1, 1)), 1))

    def sites(self, x):
        stem, first, between, second, norm = self.features
        h0 = stem(x)
        h1 = between(first(h0))
        h2 = second(h1)
        return [h0, h1, h2], self.classifier(norm(h2).relu().mean((2, 3)))


class ReZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.alpha = nn.Parameter(torch.rand(3))

    def forward(self, x):
        h = self.stem(x)
        for number, layer in enumerate(self.layers):
            h = h + self.alpha[number] * F.relu(layer(h))
        return self.head(h)

    def sites(self, x):
        sites = [self.stem(x)]
        for number, layer in enumerate(self.layers):
            sites.append(sites[-1] + self.alpha[number] * layer(sites[-1]).relu())
        return sites, self.head(sites[-1])


class NeuralODE(nn.Module):
    """One function, four steps of Euler's rule: depth is the calls."""

    def __init__(self):
        super().__init__()
        self.stem, self.field, self.head = nn.Linear(D, D), Branch(), nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for _ in range(4):
            h = h + 0.25 * self.field(h)
        return self.head(h)

    def sites(self, x):
        sites = [self.stem(x)]
        for _ in range(4):
            sites.append(sites[-1] + self.field(sites[-1]) / 4)
        return sites, self.head(sites[-1])


class GraphLayer(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.lin, self.bias = nn.Linear(before, after, bias=False), nn.Parameter(torch.zeros(after))

    def forward(self, x, adjacency):
        return adjacency @ self.lin(x) + self.bias


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([GraphLayer(5, D), GraphLayer(D, D)])
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        adjacency = torch.eye(TOKENS, dtype=x.dtype) + 0.1
        for layer in self.layers:
            x = F.relu(layer(x, adjacency))
        return self.head(x.mean(1))

    def sites(self, x):
        adjacency = torch.eye(TOKENS, dtype=x.dtype) + 0.1
        h1 = self.layers[0](x, adjacency).relu()
        h2 = self.layers[1](h1, adjacency).relu()
        return [x, h1, h2], self.head(h2.mean(1))


class InABuffer(Tower):
    """Every block's output is written into one tensor, and read from it again."""

    def body(self, h):
        buffer = torch.zeros(len(h), 4, D, dtype=h.dtype)
        buffer[:, 0] = h
        for number, block in enumerate(self.blocks):
            buffer[:, number + 1] = block(buffer[:, number].clone())
        return buffer[:, -1]


class Scripted(Tower):
    """TorchScript shows none of its functions; autograd's graph stands in."""

    def __init__(self):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.between = torch.jit.script(nn.Linear(D, D).double())

    def body(self, h):
        for block in self.blocks:
            h = self.between(block(h))
        return h

    def sites(self, x):
        sites = [self.stem(x)]
        for block in self.blocks:
            sites.append(F.linear(block(sites[-1]), self.between.weight, self.between.bias))
        return sites, self.head(self.norm(sites[-1]))


class Gated(nn.Module):
    """Two layers side by side at each depth, and no skip."""

    def __init__(self):
        super().__init__()
        self.values = nn.ModuleList(nn.Linear(D, D) for _ in range(2))
        self.gates = nn.ModuleList(nn.Linear(D, D) for _ in range(2))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        for value, gate in zip(self.values, self.gates, strict=True):
            x = value(x) * torch.sigmoid(gate(x))
        return self.head(x)

    def sites(self, x, side=0):
        sites = [x]
        for value, gate in zip(self.values, self.gates, strict=True):
            sites.append(value(sites[-1]) * torch.sigmoid(gate(sites[-1])))
        return sites, self.head(sites[-1])


class Coupled(nn.Module):
    """The stream is two tensors, as in RevNet."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(D, 2 * D), nn.Linear(2 * D, CLASSES)
        self.blocks = nn.ModuleList(CoupledBlock() for _ in range(2))

    def forward(self, x):
        pair = self.stem(x).chunk(2, dim=-1)
        for block in self.blocks:
            pair = block(*pair)
        return self.head(torch.cat(pair, dim=-1))


class CoupledBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.g = Branch(), Branch()

    def forward(self, a, b):
        a = a + self.f(b)
        return a, b + self.g(a)


class WaveNet(nn.Module):
    """Blocks return (stream, output); the logits come from the sum of the outputs."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.blocks = nn.ModuleList(WaveBlock() for _ in range(3))

    def forward(self, x):
        h, total = self.stem(x), 0
        for block in self.blocks:
            h, out = block(h)
            total = total + out
        return self.head(F.relu(total))


class WaveBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.stay, self.leave = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, h):
        mixed = torch.tanh(self.mix(h))
        return h + self.stay(mixed), self.leave(mixed)


class FixedPoint(nn.Module):
    """A layer that is called on what it wrote, from zero on; what it wrote first is h_0."""

    def __init__(self):
        super().__init__()
        self.inject, self.layer, self.head = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, CLASSES)

    def forward(self, x):
        u = self.inject(x)
        z = torch.zeros_like(u)
        for _ in range(4):
            z = torch.tanh(self.layer(z) + u)
        return self.head(z)

    def sites(self, x):
        u = self.inject(x)
        sites = [torch.tanh(self.layer.bias + u)]
        for _ in range(3):
            sites.append(torch.tanh(self.layer(sites[-1]) + u))
        return sites, self.head(sites[-1])


class Conditioned(nn.Module):
    """What each block wrote is scaled by something that another input says."""

    def __init__(self):
        super().__init__()
        self.stem, self.embed, self.head = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.scales = nn.ModuleList(nn.Linear(D, D) for _ in range(2))

    def forward(self, pair):
        h, condition = self.stem(pair[:, 0]), torch.tanh(self.embed(pair[:, 1]))
        for block, scale in zip(self.blocks, self.scales, strict=True):
            h = block(h) * scale(condition)
        return self.head(h)

    def sites(self, pair):
        h0, condition = self.stem(pair[:, 0]), torch.tanh(self.embed(pair[:, 1]))
        h1 = self.blocks[0](h0) * self.scales[0](condition)
        h2 = self.blocks[1](h1) * self.scales[1](condition)
        return [h0, h1, h2], self.head(h2)


class LoRA(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.base = nn.Linear(before, after)
        self.down, self.up = nn.Linear(before, 2, bias=False), nn.Linear(2, after, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class LowRank(nn.Module):
    """A plain MLP of layers with something beside them: the layers inside hand on directly, and are no blocks."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(LoRA(D, 5), nn.ReLU(), LoRA(5, 5), nn.ReLU(), LoRA(5, CLASSES))

    def forward(self, x):
        return self.net(x)

    def sites(self, x):
        h1 = self.net[0](x).relu()
        h2 = self.net[2](h1).relu()
        return [x, h1, h2], self.net[4](h2)


class LinearBranches(nn.Module):
    """The layers of a branch hand on directly; the stream goes around them."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.head = nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, CLASSES)
        self.branches = nn.ModuleList(nn.Sequential(nn.Linear(D, 9), nn.Linear(9, D)) for _ in range(2))

    def forward(self, x):
        h = self.stem(x)
        for branch in self.branches:
            h = h + torch.tanh(branch(h))
        return self.head(self.norm(h))

    def sites(self, x):
        sites = [self.stem(x)]
        for branch in self.branches:
            sites.append(sites[-1] + torch.tanh(branch[1](branch[0](sites[-1]))))
        return sites, self.head(self.norm(sites[-1]))


class SkipAroundTwo(nn.Module):
    """The parent writes a skip around two layers at a time, of two lists or of one."""

    def __init__(self, lists=2):
        super().__init__()
        self.stem, self.head = nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.up = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.lists = lists
        if lists == 1:
            self.layers = nn.ModuleList(layer for pair in zip(self.up, self.down, strict=True) for layer in pair)
            del self.up, self.down

    def pairs(self):
        if self.lists == 1:
            return zip(self.layers[::2], self.layers[1::2], strict=True)
        return zip(self.up, self.down, strict=True)

    def forward(self, x):
        h = self.stem(x)
        for up, down in self.pairs():
            h = h + down(F.gelu(up(h)))
        return self.head(h)

    def sites(self, x):
        sites = [self.stem(x)]
        for up, down in self.pairs():
            sites.append(sites[-1] + down(F.gelu(up(sites[-1]))))
        return sites, self.head(sites[-1])


class RungeKutta(nn.Module):
    """A step calls the field four times; a stage is a step."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.field = nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.Linear(D, D))

    def step(self, h):
        a = self.field(h)
        b = self.field(h + 0.25 * a)
        c = self.field(h + 0.25 * b)
        return h + (a + 2 * b + 2 * c + self.field(h + 0.5 * c)) / 12

    def forward(self, x):
        return self.head(self.step(self.step(self.stem(x))))

    def sites(self, x):
        h0 = self.stem(x)
        h1 = self.step(h0)
        h2 = self.step(h1)
        return [h0, h1, h2], self.head(h2)


class ShallowStages(nn.Module):
    """Stages of one block each, in containers like the one that holds the stem."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU())
        self.layer1, self.layer2 = nn.Sequential(BasicBlock(4, 4)), nn.Sequential(BasicBlock(4, 4))
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))

    def sites(self, x):
        h0 = self.stem(x)
        h1 = self.layer1[0](h0)
        h2 = self.layer2[0](h1)
        return [h0, h1, h2], self.head(h2.mean((2, 3)))


class RectifiedLinear(nn.Linear):
    """A layer with its activation inside."""

    def forward(self, x):
        return torch.relu(super().forward(x))


class Goodness(nn.Module):
    """What the head reads is the square of the last layer's activity, which is no second activation of it."""

    def __init__(self, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(RectifiedLinear(D, D) for _ in range(depth))
        self.readout = nn.Linear(D, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.readout(x.pow(2))

    def sites(self, x):
        sites = [x]
        for layer in self.layers:
            sites.append(layer(sites[-1]))
        return sites, self.readout(sites[-1].pow(2))


class Hypernetwork(nn.Module):
    """A layer that writes the weights of the others, and is no part of the stream."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.codes, self.writer = nn.Parameter(torch.randn(3, 4)), nn.Linear(4, D * D)

    def forward(self, x):
        h = self.stem(x)
        for code in self.codes:
            h = h + torch.tanh(F.linear(h, self.writer(code).view(D, D)))
        return self.head(h)


class HalfBare(nn.Module):
    """Some layers are modules; those behind them, or before them, are bare parameters."""

    def __init__(self, first=False):
        super().__init__()
        self.fc, self.head, self.first = nn.Linear(D, D), nn.Linear(D, CLASSES), first
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(D, D)) for _ in range(2))

    def forward(self, x):
        h = x if self.first else torch.relu(self.fc(x))
        for weight in self.weights:
            h = torch.relu(h @ weight)
        return self.head(torch.relu(self.fc(h)) if self.first else h)


class TwoReadouts(nn.Module):
    """A recurrent network of which the output layer is called at each step, and its last output used."""

    def __init__(self):
        super().__init__()
        self.to_state, self.to_output = nn.Linear(5 + D, D), nn.Linear(5 + D, CLASSES)

    def forward(self, x):
        h = x.new_zeros(len(x), D)
        for t in range(x.shape[1]):
            both = torch.cat([x[:, t], h], dim=1)
            h, out = torch.tanh(self.to_state(both)), self.to_output(both)
        return out


class SkipIn(nn.Module):
    """The input joins the stream again, half way."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, D) for width in (D, D, 2 * D, D))
        self.out = nn.Linear(D, CLASSES)

    def forward(self, x):
        return self.sites(x)[1]

    def sites(self, x):
        sites = [x]
        for number, layer in enumerate(self.layers):
            h = F.relu(layer(sites[-1]))
            sites.append(torch.cat([x, h], dim=1) if number == 1 else h)
        return sites, self.out(sites[-1])


class NeighboursByLikeness(nn.Module):
    """A graph's edges are computed from the input, and every layer uses them."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(5, D), nn.Linear(D, D), nn.Linear(D, D)
        self.out = nn.Linear(D, CLASSES)

    def forward(self, x):
        return self.sites(x)[1]

    def sites(self, x):
        edges, sites = torch.softmax(x @ x.transpose(1, 2), dim=-1), [x]
        for layer in (self.w1, self.w2, self.w3):
            sites.append(F.relu(edges @ layer(sites[-1])))
        return sites, self.out(sites[-1].mean(1))


class SequenceToSequence(nn.Module):
    """The decoder reads what the encoder wrote and begins at its last state: two tensors pass between them."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.GRU(5, D, batch_first=True), nn.GRU(D, D, batch_first=True)
        self.out = nn.Linear(D, CLASSES)

    def forward(self, x):
        states, last = self.encoder(x)
        return self.out(self.decoder(states[:, -1:].expand(-1, 3, -1).contiguous(), last)[0][:, -1])


class Swish(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.full((1,), 1.5))

    def forward(self, x):
        return x * torch.sigmoid(self.slope * x)


def largest(x):
    """The two largest of each row, and zeros."""
    return x * (x >= x.topk(2, dim=1).values[:, -1:])


class OneActivation(nn.Module):
    """One hidden layer, and an activation that is more than a function of each number by itself, or has a weight."""

    def __init__(self, kind):
        super().__init__()
        self.fc, self.out = nn.Linear(D, D), nn.Linear(D, CLASSES)
        self.act = {"softmax": nn.Softmax(dim=1), "largest": largest, "swish": Swish()}[kind]

    def forward(self, x):
        return self.out(self.act(self.fc(x)))

    def sites(self, x):
        h1 = self.act(self.fc(x))
        return [x, h1], self.out(h1)


class ClassifierPerLayer(nn.Module):
    """Each layer has a classifier of its own, and their logits are added up."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.classifiers = nn.ModuleList(nn.Linear(D, CLASSES) for _ in range(3))

    def forward(self, x):
        return self.sites(x)[1]

    def sites(self, x):
        sites, logits = [x], 0
        for layer, classifier in zip(self.layers, self.classifiers, strict=True):
            sites.append(F.relu(layer(sites[-1])))
            logits = logits + classifier(sites[-1])
        return sites, logits
