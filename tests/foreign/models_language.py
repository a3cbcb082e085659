"""Transformers that bring a loss of their own: language models by hand and of the transformers library, and others."""

import math

import labelled_models as labels
import torch
import torch.nn.functional as F
import transformers
from foreign_case import GROUP, Case, Subject, Truth, doubled, medians
from labelled_models import LENGTH, VOCABULARY
from small_models import shift_running_statistics
from torch import nn


def named_truth(model, batches, blocks, *, shifted=False, argument="", token=None):
    """The truth by hooks on the named blocks of a copy in fp64, sample by sample; the loss is written out here.

    The loss of a sequence is the mean over its scored tokens; `shifted` scores each by the logits one place before.
    """
    twin = doubled(model)
    norms, grads, losses, right = [], [], [], []
    for batch in batches:
        for inputs, target in labels.one_at_a_time(batch):
            sites = []
            with labels.reading([twin.get_submodule(block) for block in blocks], sites):
                output = called(twin, inputs, target, argument)
            logits = output[0] if isinstance(output, tuple) else output.logits
            logits, target = (logits[:, :-1], target[:, 1:]) if shifted else (logits, target)
            kept = target.reshape(-1) >= 0
            scores, wanted = logits.reshape(-1, logits.shape[-1])[kept], target.reshape(-1)[kept]
            each = scores.logsumexp(1) - scores.gather(1, wanted[:, None])[:, 0]
            found = torch.autograd.grad(each.mean(), sites)
            pick = (lambda t: t) if token is None else (lambda t: t[:, token])
            norms.append([float(pick(site.detach()).norm()) for site in sites])
            grads.append([float(pick(grad).norm()) / GROUP for grad in found])
            losses += each.tolist()
            right += (scores.argmax(1) == wanted).tolist()
    spoken = argument or shifted or logits.ndim > 2
    perplexity = math.exp(sum(losses) / len(losses)) if spoken else None
    return Truth(medians(norms), medians(grads), sum(right) / len(right), perplexity=perplexity)


def called(model, inputs, target, argument):
    inputs = inputs if isinstance(inputs, dict) else {"idx": inputs}
    # T5 needs its labels to make the decoder's input; of the others the logits are the same without.
    argument = argument or ("labels" if isinstance(model, transformers.T5ForConditionalGeneration) else "")
    return model(**inputs, **({argument: target} if argument else {}))


def subject(build, batches, blocks, pattern, *, shifted=False, argument="", token=None, remedies=()):
    def make():
        model, data = build(), batches()
        truth = named_truth(model, data, blocks, shifted=shifted, argument=argument, token=token)
        return Subject(model, data, truth, pattern, {}, remedies)

    return make


def texts():
    """The standard form: the labels are the inputs."""
    return [{"input_ids": ids, "labels": ids} for ids in labels.tokens(21, LENGTH).split(13)]


def prompts():
    """Left out of the loss: a third of the tokens."""
    return [{"input_ids": ids, "labels": labels.some_ignored(ids)} for ids in labels.tokens(21, LENGTH).split(13)]


def shifted_pairs():
    """(x, y) with y one ahead, as nanoGPT's loader makes them."""
    return [(ids[:, :-1], ids[:, 1:]) for ids in labels.tokens(21, LENGTH + 1).split(13)]


def translations():
    data = labels.tokens(21, 5), labels.some_ignored(labels.tokens(21, 6, seed=9))
    return [{"input_ids": x, "labels": y} for x, y in zip(*(part.split(13) for part in data), strict=True)]


def sentences():
    """Padded, and one class each."""
    batches = []
    for n in (13, 8):
        mask = (torch.arange(LENGTH) < torch.randint(3, LENGTH + 1, (n, 1))).long()
        ids = torch.randint(2, VOCABULARY, (n, LENGTH)) * mask
        batches.append({"input_ids": ids, "attention_mask": mask, "labels": torch.randint(0, 3, (n,))})
    return batches


def images():
    return [{"pixel_values": torch.randn(n, 3, 16, 16), "labels": torch.randint(0, 3, (n,))} for n in (13, 8)]


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))


class GPTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), CausalSelfAttention(width, heads)
        self.ln_2, self.mlp = (
            nn.LayerNorm(width),
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """In the manner of nanoGPT: embeddings tied to the head, the loss where targets are given, else the last logits."""

    def __init__(self, width=16, heads=2, depth=3):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(VOCABULARY, width),
                "wpe": nn.Embedding(16, width),
                "drop": nn.Dropout(0.1),
                "h": nn.ModuleList(GPTBlock(width, heads) for _ in range(depth)),
                "ln_f": nn.LayerNorm(width),
            }
        )
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        parts = self.transformer
        x = parts["drop"](parts["wte"](idx) + parts["wpe"](torch.arange(idx.shape[1])))
        for block in parts["h"]:
            x = block(x)
        x = parts["ln_f"](x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)


class PaddedGPT(GPT):
    """Leaves padding, the token 0, out of its loss."""

    def forward(self, idx, targets=None):
        logits, _ = super().forward(idx, targets)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


class MarkedGPT(GPT):
    """Is told of padding by −100."""

    def forward(self, idx, targets=None):
        return super().forward(idx, targets.clamp(min=0))


def padded_pairs():
    """Sequences of several lengths, the first ones whole; the truth has −100 where padding is."""
    batches = []
    for ids in labels.tokens(21, LENGTH + 1).clamp(min=1).split(13):
        lengths = (LENGTH + 5 - torch.arange(len(ids))).clamp(min=3)
        padded = ids * (torch.arange(LENGTH + 1) < lengths[:, None])
        batches.append((padded[:, :-1], padded[:, 1:]))
    return batches


def padded():
    model, data = PaddedGPT(), padded_pairs()
    marked = [(x, y.masked_fill(y == 0, -100)) for x, y in data]
    twin = MarkedGPT()
    twin.load_state_dict(model.state_dict())
    truth = named_truth(twin, marked, [f"transformer.h.{i}" for i in range(3)], argument="targets")
    return Subject(model, data, truth, "transformer.h.*")


class LoRALinear(nn.Module):
    """A frozen layer, and beside it two thin ones that learn."""

    def __init__(self, base, rank=2, alpha=4.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(rank, base.in_features) / rank)
        self.lora_B = nn.Parameter(torch.randn(base.out_features, rank) / rank)
        self.scaling, self.dropout = alpha / rank, nn.Dropout(0.05)

    def forward(self, x):
        return self.base(x) + self.dropout(x) @ self.lora_A.t() @ self.lora_B.t() * self.scaling


def lora():
    """Adapters on queries and values of a Llama whose own weights are frozen."""
    model = labels.llama().requires_grad_(False)
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(layer.self_attn, name, LoRALinear(getattr(layer.self_attn, name)))
    return model


def resnet():
    model = labels.resnet()
    shift_running_statistics(model)
    return model


def bert_classifier():
    return labels.bert(transformers.BertForSequenceClassification, num_labels=3)


def bert_masked():
    return labels.bert(transformers.BertForMaskedLM)


def two(prefix):
    return f"{prefix}.0", f"{prefix}.1"


STAGES = ("resnet.encoder.stages.0.layers.0", "resnet.encoder.stages.1.layers.0")

CASES = [
    Case(
        "GPT as in nanoGPT",
        "(logits, loss); without targets it gives the last logits alone.",
        subject(GPT, shifted_pairs, [f"transformer.h.{i}" for i in range(3)], "transformer.h.*", argument="targets"),
    ),
    Case(
        "GPT with padding",
        "A target that its own loss leaves out is found, where the first sequences have none too.",
        padded,
    ),
    Case(
        "Hugging Face GPT-2",
        "Labels are the inputs, and the model shifts them itself.",
        subject(labels.gpt2, texts, two("transformer.h"), "transformer.h.*", shifted=True),
    ),
    Case(
        "Hugging Face GPT-2, prompts left out",
        "−100 is not scored, after the shift.",
        subject(labels.gpt2, prompts, two("transformer.h"), "transformer.h.*", shifted=True),
    ),
    Case(
        "Hugging Face Llama",
        "Norms in fp32 inside, rotary positions, shifted labels.",
        subject(labels.llama, texts, two("model.layers"), "model.layers.*", shifted=True),
    ),
    Case(
        "LoRA on Llama",
        "Frozen weights with adapters inside the blocks.",
        subject(lora, texts, two("model.layers"), "model.layers.*", shifted=True),
    ),
    Case(
        "Hugging Face T5",
        "Encoder and decoder are two chains: one is chosen.",
        subject(
            labels.t5,
            translations,
            two("decoder.block"),
            "decoder.block.*",
            remedies=({"blocks": "decoder.block.*"},),
        ),
        refused=(r"blocks='decoder\.block\.\*'",),
    ),
    Case(
        "Hugging Face BERT, masked tokens",
        "Labels as they are, a part of them scored.",
        subject(bert_masked, prompts, two("bert.encoder.layer"), "bert.encoder.layer.*"),
    ),
    Case(
        "Hugging Face BERT, classes",
        "Padding, and the class token alone is read.",
        subject(bert_classifier, sentences, two("bert.encoder.layer"), "bert.encoder.layer.*", token=0),
    ),
    Case(
        "Hugging Face ViT",
        "A mapping of pixels, and the class token.",
        subject(labels.vit, images, two("vit.layers"), "vit.layers.*", token=0),
    ),
    Case(
        "Hugging Face ResNet",
        "Stages of different widths, joined.",
        subject(resnet, images, STAGES, "resnet.encoder.stages.*"),
    ),
]
