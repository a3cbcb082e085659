"""What a data set is: two splits, and how their samples become network inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from walkback.errors import DataError, InputError
from walkback.lab.zoo.contract import DataSpec
from walkback.lab.zoo.datasets.fingerprint import RawPair


@dataclass(frozen=True)
class Preparation:
    """How stored samples become network inputs: crop and flip in training, normalise always.

    Raises:
        InputError: there are not as many means as deviations, a deviation is not positive, or `crop` is negative.

    Examples:
        >>> from walkback.lab import Preparation
        >>> Preparation(mean=(0.5,), std=(0.25,), crop=2).flip
        False
    """

    mean: tuple[float, ...]
    """Of each channel, of pixels scaled to [0, 1]; a set of vectors has one."""
    std: tuple[float, ...]
    """The standard deviation of each channel."""
    crop: int = 0
    """How many black pixels are added on each side before a window of the original size is cut out; 0 is no crop."""
    flip: bool = False
    """Whether images are mirrored at random."""

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not self.mean:
            raise InputError(f"{len(self.mean)} means and {len(self.std)} deviations; give one of each per channel.")
        if not all(deviation > 0 for deviation in self.std):
            raise InputError(f"standard deviations {self.std} must all be positive. Leave out constant channels.")
        if self.crop < 0:
            raise InputError(f"crop is {self.crop}; expected the number of pixels to pad, 0 for no crop.")


Scaling = Literal["standardised", "unit"]
"""`standardised`: pixels less their mean over their deviation, by the preparation. `unit`: pixels from 0 to 1."""


def scaled(owner: str, preparation: Preparation, scaling: Scaling) -> Preparation:
    """The preparation with inputs scaled as asked for."""
    if scaling not in get_args(Scaling):
        raise InputError(f"data set {owner}: scaling is {scaling!r}; expected 'standardised' or 'unit'.")
    if scaling == "standardised":
        return preparation
    channels = len(preparation.mean)
    return replace(preparation, mean=(0.0,) * channels, std=(1.0,) * channels)


AS_IT_IS = Preparation(mean=(0.0,), std=(1.0,))
"""Of vectors that are centred and of unit size already, and of tokens, which are no numbers."""


@dataclass(frozen=True, eq=False)
class Split:
    """Samples as they are stored, with their labels.

    Raises:
        DataError: inputs or labels have another type or shape, or the preparation does not fit them.

    Examples:
        >>> import torch
        >>> from walkback.lab import AS_IT_IS, Split
        >>> split = Split(torch.randn(10, 4), torch.zeros(10, dtype=torch.int64), AS_IT_IS)
        >>> len(split.take(3)), split.input_shape
        (3, (4,))
    """

    inputs: Tensor
    """uint8 images (N, H, W, C), float32 vectors (N, D), or int64 tokens (N, T)."""
    labels: Tensor
    """int64: one for each sample, (N,), or, of tokens, one for each token, (N, T)."""
    preparation: Preparation
    """How they become network inputs."""

    def __post_init__(self) -> None:
        _check_stored(self.inputs, self.labels)
        channels = self.inputs.shape[-1] if self.is_image else 1
        if len(self.preparation.mean) != channels:
            raise DataError(
                f"inputs of shape {tuple(self.inputs.shape)} need {channels} means and deviations, "
                f"the preparation holds {len(self.preparation.mean)}."
            )
        if self.is_text and self.preparation != AS_IT_IS:
            raise DataError("tokens are not numbers, so they can be neither normalised, cropped nor flipped: AS_IT_IS.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_image(self) -> bool:
        """Whether the samples are images, which can be cropped and flipped, and not plain vectors."""
        return self.inputs.ndim == 4

    @property
    def is_text(self) -> bool:
        """Whether the samples are sequences of tokens."""
        return self.inputs.dtype == torch.int64

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one sample's label: () for one class, (T,) for one of each token."""
        return tuple(self.labels.shape[1:])

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one network input: (C, H, W) for images, (D,) for vectors, (T,) for tokens."""
        if not self.is_image:
            return (self.inputs.shape[1],)
        height, width, channels = self.inputs.shape[1:]
        return (channels, height, width)

    def to(self, device: torch.device | str | None) -> Split:
        """The split with both tensors on a device.

        Args:
            device: where to; None leaves them where they are.

        Returns:
            A split.
        """
        if device is None or self.labels.device == torch.device(device):
            return self
        return Split(self.inputs.to(device), self.labels.to(device), self.preparation)

    def take(self, count: int) -> Split:
        """The first samples, for a smaller run or a quick check.

        Args:
            count: how many.

        Returns:
            A split.

        Raises:
            InputError: there are not so many, or `count` is below 1.
        """
        if not 1 <= count <= len(self):
            raise InputError(f"cannot take {count} samples of {len(self)}. Ask for 1 to {len(self)}.")
        return Split(self.inputs[:count], self.labels[:count], self.preparation)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named train and test split over the same classes and input shape.

    Raises:
        DataError: the splits differ in shape, or labels or tokens are out of range.

    Examples:
        >>> import torch
        >>> from walkback.lab import AS_IT_IS, Dataset, Split
        >>> split = Split(torch.randn(10, 4), torch.zeros(10, dtype=torch.int64), AS_IT_IS)
        >>> Dataset("zeros", train=split, test=split, class_names=("zero", "one")).spec.classes
        2
    """

    name: str
    """What it is called."""
    train: Split
    """What is trained on."""
    test: Split
    """What is tested on."""
    class_names: tuple[str, ...]
    """The names of the classes."""
    vocabulary: int | None = None
    """How many different tokens there are, where inputs are tokens."""

    def __post_init__(self) -> None:
        for what, train, test in (
            ("inputs are", self.train.input_shape, self.test.input_shape),
            ("labels are", self.train.target_shape, self.test.target_shape),
        ):
            if train != test:
                raise DataError(
                    f"{self.name}: train {what} {train}, test {what} {test}; both splits must have one shape."
                )
        for part, split in (("train", self.train), ("test", self.test)):
            self._check_range(f"{part} labels", split.labels, self.classes, "classes")
            if split.is_text != (self.vocabulary is not None):
                raise DataError(
                    f"{self.name}: {part} inputs are {split.inputs.dtype} and the vocabulary is {self.vocabulary}; "
                    "expected a vocabulary with int64 tokens, and with nothing else."
                )
            if self.vocabulary is not None:
                self._check_range(f"{part} inputs", split.inputs, self.vocabulary, "tokens")

    def _check_range(self, what: str, codes: Tensor, count: int, of: str) -> None:
        lowest, highest = int(codes.min()), int(codes.max())
        if lowest < 0 or highest >= count:
            raise DataError(
                f"{self.name}: {what} run from {lowest} to {highest}, expected 0 to {count - 1} for {count} {of}."
            )

    def to(self, device: torch.device | str) -> Dataset:
        """The data set with both splits on a device.

        Args:
            device: where to.

        Returns:
            A data set.
        """
        return replace(self, train=self.train.to(device), test=self.test.to(device))

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one network input: (C, H, W), (D,) or (T,)."""
        return self.train.input_shape

    @property
    def spec(self) -> DataSpec:
        """What an architecture needs to know to be built for this data."""
        return DataSpec(self.input_shape, self.classes, self.vocabulary, self.train.target_shape)

    @property
    def preparation(self) -> Preparation:
        """Normalisation and augmentation, which both splits share."""
        return self.train.preparation


def dataset_of(name: str, pair: RawPair, preparation: Preparation, class_names: tuple[str, ...]) -> Dataset:
    """A data set from arrays; torch and NumPy share the memory."""
    train, test = (Split(torch.from_numpy(raw.images), torch.from_numpy(raw.labels), preparation) for raw in pair)
    return Dataset(name, train, test, class_names)


def _check_stored(inputs: Tensor, labels: Tensor) -> None:
    """Refuse anything but what a split is said to hold."""
    stored = (inputs.ndim, inputs.dtype)
    if stored not in ((4, torch.uint8), (2, torch.float32), (2, torch.int64)):
        raise DataError(
            f"inputs are {inputs.dtype} of shape {tuple(inputs.shape)}; "
            "expected uint8 images (N, H, W, C), float32 vectors (N, D) or int64 tokens (N, T)."
        )
    allowed = [inputs.shape[:1], *([inputs.shape] if inputs.dtype == torch.int64 else [])]
    if labels.dtype != torch.int64 or labels.shape not in allowed:
        or_each = f", or one for each of {inputs.shape[1]} tokens" if len(allowed) > 1 else ""
        raise DataError(
            f"labels are {labels.dtype} of shape {tuple(labels.shape)}; "
            f"expected {inputs.shape[0]} int64 labels{or_each}."
        )
    if len(labels) == 0:
        raise DataError("a split without samples; expected at least one.")
