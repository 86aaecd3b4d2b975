"""``torch.utils.tensorboard``: files that TensorBoard shows. It need not be installed to write
them; to look at them, ``pip install tensorboard`` and run ``tensorboard --logdir runs``."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from retrograd.autograd.grad_mode import no_grad
from retrograd.ops.reductions.counting import histogram
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._creation import tensor, zeros
from retrograd.tensor._tensor import Tensor
from retrograd.utils import _events
from retrograd.utils._events import EventFile

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """Writes scalars, histograms, images and texts for TensorBoard.

    Args:
        log_dir: The folder to write to. By default, one in ``runs`` that is named after the time
            and the host.
        comment: The end of the name of that folder.
        purge_step: Accepted for compatibility; it has no effect.
        max_queue: Accepted for compatibility: every event is written at once.
        flush_secs: Accepted for compatibility.
        filename_suffix: The end of the names of files.

    Example:
        >>> import tempfile
        >>> from retrograd.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     for step in range(3):
        ...         writer.add_scalar("loss", 1 / (step + 1), step)
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir: str = os.fspath(log_dir)
        self._suffix = filename_suffix
        self._files: dict[str, EventFile] = {}
        self._open("")

    def _open(self, name: str) -> EventFile:
        """The file of events in a folder below that of the writer."""
        if name not in self._files:
            folder = os.path.join(self.log_dir, name) if name else self.log_dir
            self._files[name] = EventFile(folder, self._suffix)
        return self._files[name]

    def get_logdir(self) -> str:
        """Returns the folder that is written to."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None,
        walltime: float | None = None, new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Writes a number.

        Args:
            tag: The name of the curve.
            scalar_value: The number, or a tensor of one element.
            global_step: The step that it belongs to.
            walltime: The time of the event, in seconds; by default, now.
            new_style: Accepted for compatibility.
            double_precision: Accepted for compatibility.
        """
        self._open("").add(_events.scalar(tag, float(_plain(scalar_value))), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Writes several numbers that are drawn in one plot.

        Args:
            main_tag: The name of the plot.
            tag_scalar_dict: The numbers by the names of their curves.
            global_step: The step that they belong to.
            walltime: The time of the event, in seconds; by default, now.
        """
        for tag, value in tag_scalar_dict.items():
            file = self._open(f"{main_tag.replace('/', '_')}_{tag}")
            file.add(_events.scalar(main_tag, float(_plain(value))), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Writes a histogram.

        Args:
            tag: The name of the histogram.
            values: The numbers: a tensor or an array.
            global_step: The step that they belong to.
            bins: The number of bins, or ``"tensorflow"``: bins that grow with the distance from 0.
            walltime: The time of the event, in seconds; by default, now.
            max_bins: Accepted for compatibility.
        """
        with no_grad():
            numbers = as_tensor(values).detach().double().reshape(-1)
            if not numbers.numel():
                raise ValueError("The input has no element.")
            edges = _edges() if bins == "tensorflow" else bins
            counts, limits = histogram(numbers, edges)
            squares = (numbers * numbers).sum()
            facts: tuple[Any, ...] = (
                numbers.min(), numbers.max(), numbers.numel(), numbers.sum(), squares
            )  # fmt: skip
            heights, borders = counts.tolist(), limits.tolist()
            taken = [i for i, n in enumerate(heights) if n]
            start, end = taken[0], taken[-1] + 1
            # Only right limits are written: an empty bin has the limit at the left.
            shown = [heights[start - 1] if start else 0.0, *heights[start:end]]
            value = _events.histogram(tag, map(float, facts), borders[start : end + 1], shown)
        self._open("").add(value, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Writes an image.

        Args:
            tag: The name of the picture.
            img_tensor: The picture: floats from 0 to 1, or uint8.
            global_step: The step that it belongs to.
            walltime: The time of the event, in seconds; by default, now.
            dataformats: What its dimensions are: a permutation of ``"CHW"`` or ``"HW"``; with
                ``"N"``, for several pictures beside each other.
        """
        picture = _as_pixels(as_tensor(img_tensor).detach(), dataformats.upper())
        height, width = picture.shape[:2]
        pixels = picture.contiguous().numpy().tobytes()
        self._open("").add(_events.image(tag, height, width, pixels), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Writes several images side by side.

        Args:
            tag: The name of the picture.
            img_tensor: The pictures: floats from 0 to 1, or uint8.
            global_step: The step that they belong to.
            walltime: The time of the event, in seconds; by default, now.
            dataformats: What the dimensions are: a permutation of ``"NCHW"``.
        """
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Writes a text, in Markdown.

        Args:
            tag: The name of the text.
            text_string: The text.
            global_step: The step that it belongs to.
            walltime: The time of the event, in seconds; by default, now.
        """
        self._open("").add(_events.text(tag, text_string), global_step, walltime)

    def flush(self) -> None:
        """Writes all pending events."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Closes the files. Later additions go to new files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _edges() -> Tensor:
    """The borders of bins that grow by a tenth from one to the next."""
    value, limits = 1e-12, []
    while value < 1e20:
        limits.append(value)
        value *= 1.1
    made: Tensor = tensor([*[-v for v in reversed(limits)], 0.0, *limits]).double()
    return made


def _as_pixels(picture: Tensor, names: str) -> Tensor:
    """A picture as a tensor of uint8 with the dimensions height, width and colour."""
    if len(names) != picture.ndim or len(set(names)) != len(names):
        raise AssertionError(
            "size of input tensor and input format are different. tensor shape: "
            f"{tuple(picture.shape)}, input_format: {names}"
        )
    if "N" in names:
        picture = _grid(picture.permute(*[names.index(n) for n in "NCHW"]))
        names = "CHW"
    if "C" not in names:
        picture, names = picture.unsqueeze(-1), f"{names}C"
    picture = picture.permute(*[names.index(n) for n in "HWC"])
    if picture.shape[2] == 1:
        picture = picture.expand(-1, -1, 3)
    if picture.is_floating_point():
        picture = (picture * 255).clamp(0, 255)
    return picture.byte()[:, :, :3]


def _grid(pictures: Tensor) -> Tensor:
    """Pictures beside each other, at most eight in a row."""
    n, channels, height, width = pictures.shape
    columns = min(n, 8)
    rows = -(-n // columns)
    made = zeros(channels, height * rows, width * columns, dtype=pictures.dtype)
    for i in range(n):
        top, left = i // columns * height, i % columns * width
        made[:, top : top + height, left : left + width] = pictures[i]
    return made
