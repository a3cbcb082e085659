"""Small networks that return a loss of their own for their labels, and what that loss says of them, the slow way."""

import copy

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from small_models import Residual
from torch import nn

VOCABULARY, LENGTH = 40, 7
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def tokens(*shape, seed=3):
    return torch.randint(2, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def some_ignored(labels, seed=5):
    """The same labels, with about a third not to be scored."""
    left = torch.rand(labels.shape, generator=torch.Generator().manual_seed(seed)) < 0.35
    left[:, :2] = False
    return labels.masked_fill(left, -100)


def gpt2(vocabulary=VOCABULARY, positions=16):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=vocabulary, n_positions=positions, n_embd=16, n_layer=2, n_head=2, loss_type="ForCausalLM",
            **SPECIAL,
        )
    )  # fmt: skip


def llama():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, **SMALL, **SPECIAL)
    )


def t5():
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0,
        pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def bert(kind, **settings):
    config = transformers.BertConfig(vocab_size=VOCABULARY, max_position_embeddings=16, **SMALL, **settings)
    return kind(config)


def vit():
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=16, patch_size=8, num_labels=3, **SMALL)
    )


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=3
    )
    return transformers.ResNetForImageClassification(config)


class LowRank(nn.Module):
    """A layer that stays as it is, and a small one beside it that learns."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer, self.down, self.up = layer, nn.Linear(width, 2, bias=False), nn.Linear(2, width, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


class Wrapped(nn.Module):
    """What hands on whatever it is called with, as wrappers of adapters do."""

    def __init__(self, model):
        super().__init__()
        self.base_model = model

    def forward(self, *args, **kwargs):
        return self.base_model(*args, **kwargs)


def adapted_gpt2():
    model = gpt2()
    for block in model.transformer.h:
        block.mlp.c_proj = nn.Sequential(block.mlp.c_proj, LowRank(nn.Identity(), 16))
    return Wrapped(Wrapped(model))


class Mixing(nn.Module):
    """h + f(the mean of what came before), as a causal layer does."""

    def __init__(self, width):
        super().__init__()
        self.rest = Residual(width)

    def forward(self, hidden):
        counts = torch.arange(1, hidden.shape[1] + 1, dtype=hidden.dtype).view(1, -1, 1)
        return self.rest(hidden + hidden.cumsum(dim=1) / counts)


class SmallGPT(nn.Module):
    """As nanoGPT does it: targets that have been moved already, and the last logits alone where there are none."""

    def __init__(self, zero_head=False):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.blocks = nn.ModuleList(Mixing(8) for _ in range(2))
        self.head = nn.Linear(8, VOCABULARY)
        if zero_head:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    def forward(self, idx, targets=None):
        hidden = self.embed(idx)
        for block in self.blocks:
            hidden = block(hidden)
        if targets is None:
            return self.head(hidden[:, [-1]]), None
        logits = self.head(hidden)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def own_gradient_norms(model, batches, blocks, name="labels"):
    """‖∂ℓ/∂h_l‖ / 128 by the model's own loss for one sample at a time, the median over samples, in fp64."""
    model = copy.deepcopy(model).double().eval()
    modules = dict(model.named_modules())
    norms = []
    for batch in batches:
        for inputs, labels in one_at_a_time(batch):
            sites = []
            with reading([modules[block] for block in blocks], sites):
                output = called(model, inputs, labels, name)
            loss = output[1] if isinstance(output, tuple) else output.loss
            grads = torch.autograd.grad(loss, sites)
            norms.append([float(np.sqrt((grad.numpy() ** 2).sum())) / 128 for grad in grads])
    return np.median(np.array(norms), axis=0)


def called(model, inputs, labels, name="labels"):
    if isinstance(inputs, dict):
        return model(**inputs, **{name: labels})
    return model(inputs, **{name: labels})


def one_at_a_time(batch):
    inputs, labels = (batch, batch["labels"]) if isinstance(batch, dict) else batch
    labels = labels.double() if labels.is_floating_point() else labels
    for at in range(len(labels)):
        if isinstance(inputs, dict):
            yield {k: exact(v[at : at + 1]) for k, v in inputs.items() if k != "labels"}, labels[at : at + 1]
        else:
            yield exact(inputs[at : at + 1]), labels[at : at + 1]


def exact(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


class reading:  # noqa: N801
    """Collects h_0 … h_L: what goes into the first block, and what each hands on."""

    def __init__(self, blocks, sites):
        self.blocks, self.sites = blocks, sites

    def __enter__(self):
        self.handles = [self.blocks[0].register_forward_pre_hook(self.entering, with_kwargs=True)]
        self.handles += [block.register_forward_hook(self.leaving) for block in self.blocks]

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()

    def entering(self, module, args, kwargs):
        self.sites.append(args[0] if args else kwargs["hidden_states"])

    def leaving(self, module, args, output):
        self.sites.append(output[0] if isinstance(output, tuple) else output)
