"""The ``digits`` task: a small convolutional network that recognizes handwritten digits.

Everything here is written in PyTorch's names and takes the library as an argument, so that the
same code runs on either. ``data/README.md`` says where the images come from.
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import Any, ClassVar

SIDE = 8
DARKEST = 16
SPLIT_SEED = 0  # the same images are held out whatever the seed of a run


class Digits:
    """Training images in batches, a model, its loss, and its score on images it has not seen."""

    files: ClassVar[dict[str, str]] = {}  # what ``closing`` writes, and what that is
    fingerprint = "digits"  # of the data

    def __init__(self, torch: Any, settings: dict[str, Any]) -> None:
        self._torch = torch
        data = settings["data"]
        images, labels = read(torch)
        count = len(images) - data["test_size"]
        (images, self._test_images), (labels, self._test_labels) = (
            (x[:count], x[count:]) for x in shuffled(torch, images, labels)
        )
        self.about = {"training images": count, "test images": data["test_size"]}
        self.model = model(torch, **settings["model"])
        self.loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(images, labels), batch_size=data["batch_size"],
            shuffle=True, generator=torch.Generator().manual_seed(settings["seed"]),
        )  # fmt: skip
        self._loss = torch.nn.CrossEntropyLoss()

    def loss(self, batch: Any) -> Any:
        """How far off the model is on a batch."""
        images, labels = batch
        return self._loss(self.model(images), labels)

    def evaluate(self) -> dict[str, float]:
        """The loss and the share of digits read correctly, on the test images."""
        scores = self.model(self._test_images)
        right = scores.argmax(dim=1) == self._test_labels
        return {
            "test_loss": self._loss(scores, self._test_labels).item(),
            "test_accuracy": right.sum().item() / len(right),
        }

    def closing(self) -> dict[str, str]:
        """Files to write at the end."""
        return {}


def model(torch: Any, channels: int, hidden: int) -> Any:
    """A convolution, the largest of each 2 by 2, and two linear layers. For images this small, a
    second convolution takes longer and reads no better."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(channels * (SIDE // 2) ** 2, hidden), nn.ReLU(), nn.Linear(hidden, 10),
    )  # fmt: skip


def read(torch: Any) -> tuple[Any, Any]:
    """All images, with pixels from 0 to 1, and their digits.

    >>> import retrograd
    >>> images, labels = read(retrograd)
    >>> images.shape, labels[:5]
    (torch.Size([1797, 1, 8, 8]), tensor([0, 1, 2, 3, 4]))
    """
    packed = files("retrograd.training").joinpath("data", "digits.csv.gz").read_bytes()
    # Bytes of numbers, since tensors are made of those much faster than of lists.
    numbers = bytearray(map(int, gzip.decompress(packed).replace(b"\n", b",").split(b",")[:-1]))
    table = torch.frombuffer(numbers, dtype=torch.uint8).reshape(-1, SIDE * SIDE + 1)
    images = table[:, :-1].to(torch.float32) / DARKEST
    return images.reshape(-1, 1, SIDE, SIDE), table[:, -1].to(torch.int64)


def shuffled(torch: Any, *tensors: Any) -> list[Any]:
    """Tensors in one random order, which is always the same."""
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    order = torch.randperm(len(tensors[0]), generator=generator)
    return [tensor[order] for tensor in tensors]
