"""Data to train and audit on, each set found by its name, verified by content, and held in memory.

dataset = load_dataset("cifar10")
batches = Batches(dataset.train, 128, seed=42, augment=True, shuffle=True)
for inputs, labels in batches.epoch(0): ...
held_out = held_out_batches(dataset)    # what diagnostics are measured on
"""

from walkback.lab.zoo.datasets.catalogue import State, Status, fetch, load_dataset, sources, status
from walkback.lab.zoo.datasets.loader import Batch, Batches, evaluation_batches, held_out_batches, normalised
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, Split

__all__ = [
    "Batch",
    "Batches",
    "Dataset",
    "Preparation",
    "Split",
    "State",
    "Status",
    "evaluation_batches",
    "fetch",
    "held_out_batches",
    "load_dataset",
    "normalised",
    "sources",
    "status",
]
