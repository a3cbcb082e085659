"""Networks of the transformers library, at random initialisation."""

import pytest
import torch
import transformers
from agreement import agrees
from small_models import sites_of

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "num_labels": 3}


def images():
    return [{"pixel_values": torch.randn(n, 3, 16, 16), "labels": torch.randint(0, 3, (n,))} for n in (10, 4)]


def texts():
    batches = []
    for n in (10, 4):
        lengths = torch.randint(2, 7, (n, 1))
        mask = (torch.arange(6) < lengths).long()
        ids = torch.randint(1, 50, (n, 6)) * mask
        batches.append({"input_ids": ids, "attention_mask": mask, "labels": torch.randint(0, 3, (n,))})
    return batches


def test_vit():
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=16, patch_size=8, attn_implementation="eager", **SMALL)
    )
    layers = [name for name, module in model.named_modules() if type(module).__name__ == "ViTLayer"]
    report = agrees(model, images(), sites_of(*layers))
    assert report.sites[1:] == tuple(layers)
    assert report.site_reduction == "class token of (B, T, d)"


def test_bert():
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(vocab_size=50, max_position_embeddings=16, **SMALL)
    )
    report = agrees(model, texts(), sites_of("bert.encoder.layer.0", "bert.encoder.layer.1"))
    assert report.provenance["blocks"] == "bert.encoder.layer.* (found by structure)"
    assert report.site_reduction == "class token of (B, T, d)"
    assert min(report.reference_fidelity) > 0.999


def test_gpt2():
    model = transformers.GPT2ForSequenceClassification(
        transformers.GPT2Config(
            vocab_size=50, n_positions=16, n_embd=16, n_layer=3, n_head=2, num_labels=3,
            pad_token_id=0, bos_token_id=1, eos_token_id=1,
        )
    )  # fmt: skip
    report = agrees(model, texts(), sites_of("transformer.h.0", "transformer.h.1", "transformer.h.2"))
    assert report.provenance["blocks"] == "transformer.h.* (found by structure)"
    assert report.site_reduction == "all tokens, flattened of (B, T, d)"


@pytest.mark.parametrize("layer_type", ["basic", "bottleneck"])
def test_resnet_stages_are_joined(layer_type):
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[2, 1], layer_type=layer_type, num_labels=3
    )
    model = transformers.ResNetForImageClassification(config)
    for buffer in (b for name, b in model.named_buffers() if name.endswith("running_var")):
        buffer.uniform_(0.5, 2)
    stages = [f"resnet.encoder.stages.{stage}.layers.{layer}" for stage, layer in ((0, 0), (0, 1), (1, 0))]
    report = agrees(model, images(), sites_of(*stages))
    assert report.sites == (f"input of {stages[0]}", *stages)
    assert report.site_reduction == "flattened from 4 axes"
