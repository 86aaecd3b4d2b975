"""A folder of checkpoints: the last few, and the best."""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import Any

from retrograd.files._checkpoints import load_checkpoint, save_checkpoint
from retrograd.files._format import FileFormatError
from retrograd.files._saving import peek
from retrograd.tensor._tensor import Tensor

_NAME = re.compile(r"step-(\d{8}|[1-9]\d{8,})\.safetensors")


class Checkpoints:
    """The checkpoints of a training run in a folder.

    The latest ``keep`` are kept, and the one with the best metric; older ones are removed.

    Args:
        folder: the folder.
        keep: number of checkpoints to keep.
        best: "min" if the lowest metric is the best, "max" if the highest.
        parts: what has a state, by name; see ``save_checkpoint``.

    Example:
        >>> import retrograd as torch, tempfile
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> checkpoints = torch.files.Checkpoints(
        ...     tempfile.mkdtemp(), keep=2, model=model, optimizer=optimizer)
        >>> start = checkpoints.load().get("step", 0)  # nothing there: from the beginning
        >>> for step in range(start, 4):
        ...     model(torch.ones(2)).square().sum().backward()
        ...     optimizer.step()
        ...     _ = checkpoints.save(step + 1, metric=abs(step - 1))
        >>> checkpoints.steps(), checkpoints.load()["step"], checkpoints.load("best")["step"]
        ([2, 3, 4], 4, 2)
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep: int = 3, best: str = "min",
                 **parts: Any) -> None:  # fmt: skip
        if type(keep) is not int or keep < 1:
            raise ValueError(f"keep must be a number of checkpoints, 1 or more, not {keep!r}")
        if best not in ("min", "max"):
            raise ValueError(f"best must be 'min' or 'max', not {best!r}")
        self.folder, self.keep, self.parts = os.fspath(folder), keep, parts
        self._sign = 1 if best == "min" else -1

    def save(self, step: int, *, metric: Any = None, **values: Any) -> str:
        """Save the state of the run after ``step`` steps.

        Args:
            step: the number of steps.
            metric: a number to compare checkpoints by.
            values: further values, which ``load`` returns.

        Returns:
            The path of the file.
        """
        if type(step) is not int or step < 0:
            raise ValueError(f"step must be an integer, 0 or more, not {step!r}")
        later = [s for s in self.steps() if s > step]
        if later:
            raise RuntimeError(
                f"{self.folder} has a checkpoint of step {later[-1]}, which is after step {step}. "
                "Go on from there with load(), use another folder, or remove what is there."
            )
        os.makedirs(self.folder, exist_ok=True)
        path = self.path(step)
        if metric is not None:
            metric = float(metric.item() if isinstance(metric, Tensor) else metric)
        save_checkpoint(path, **self.parts, step=step, metric=metric, **values)
        kept = {*self.steps()[-self.keep :], self._best_step()}
        for old in self.steps():
            if old not in kept:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path(old))
        return path

    def load(self, which: str = "latest", *, strict: bool = True,
             random: bool = True) -> dict[str, Any]:  # fmt: skip
        """Restore all parts. Without any checkpoint, "latest" changes nothing.

        Args:
            which: "latest" or "best".
            strict: require that all parts of the checkpoint are given.
            random: restore the default random generators.

        Returns:
            The values that were saved, with ``step`` and ``metric``; empty without a checkpoint.
        """
        if which not in ("latest", "best"):
            raise ValueError(f"which must be 'latest' or 'best', not {which!r}")
        path = self.latest() if which == "latest" else self.best()
        if path is None:
            if which == "best":
                raise FileNotFoundError(
                    f"{self.folder} has no checkpoint that was saved with a metric"
                )
            return {}
        return load_checkpoint(path, strict=strict, random=random, **self.parts)

    def steps(self) -> list[int]:
        """The steps of the existing checkpoints."""
        if not os.path.isdir(self.folder):
            return []
        numbers = [_NAME.fullmatch(name) for name in os.listdir(self.folder)]
        return sorted(int(match[1]) for match in numbers if match)

    def path(self, step: int) -> str:
        """The file of a checkpoint.

        Args:
            step: its number of steps.
        """
        return os.path.join(self.folder, f"step-{step:08d}.safetensors")

    def latest(self) -> str | None:
        """The path of the latest checkpoint, or None."""
        steps = self.steps()
        return self.path(steps[-1]) if steps else None

    def best(self) -> str | None:
        """The path of the checkpoint with the best metric, or None."""
        step = self._best_step()
        return None if step is None else self.path(step)

    def _best_step(self) -> int | None:
        metrics = {step: self._metric(step) for step in self.steps()}
        known = {s: self._sign * m for s, m in metrics.items() if m is not None}
        return min(known, key=lambda s: (known[s], -s)) if known else None

    def _metric(self, step: int) -> float | None:
        try:
            metric = peek(self.path(step), "values", "metric")
        except (FileFormatError, FileNotFoundError):
            return None  # damaged, or gone meanwhile: not the best
        return metric if isinstance(metric, float) and not math.isnan(metric) else None
