"""Hugging Face Trainer: one callback, and a run with a learning rate that blows the network up stops by itself.

Needs `pip install "walkback[transformers]"`. A small ViT with random weights learns synthetic images; nothing is
downloaded. The callback measures at every evaluation and, as its budget allows, between steps.
"""

import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

from walkback.integrations.transformers import WalkbackCallback

CLASSES, SIZE = 4, 16


class Images(Dataset):
    """Noise around one of a few patterns; the pattern is the class."""

    def __init__(self, samples, seed):
        g = torch.Generator().manual_seed(0)
        patterns = torch.randn(CLASSES, 3, SIZE, SIZE, generator=g)
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, CLASSES, (samples,), generator=g)
        self.images = 0.3 * patterns[self.labels] + torch.randn(samples, 3, SIZE, SIZE, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def accuracy(prediction):
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids).mean()}


def train(learning_rate, folder, epochs=4):
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=SIZE, patch_size=4, hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=64, num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    args = TrainingArguments(
        output_dir=str(folder), num_train_epochs=epochs, learning_rate=learning_rate, lr_scheduler_type="constant",
        per_device_train_batch_size=64, per_device_eval_batch_size=128, eval_strategy="epoch", save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True, seed=0, dataloader_pin_memory=False,
    )  # fmt: skip
    watch = WalkbackCallback(trace=Path(folder) / f"lr_{learning_rate:g}.jsonl")
    trainer = Trainer(
        model=ViTForImageClassification(config), args=args, train_dataset=Images(768, 1), eval_dataset=Images(256, 2),
        compute_metrics=accuracy, callbacks=[watch],
    )  # fmt: skip
    trainer.train()
    decision = watch.monitor.decision
    done = f"{trainer.state.global_step} of {trainer.state.max_steps} steps"
    print(f"learning rate {learning_rate:g}: {decision.action} after {done}. {decision.reason}")
    return trainer.state, decision


def main(folder):
    return {rate: train(rate, folder) for rate in (1e-3, 0.1)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
