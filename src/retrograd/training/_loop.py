"""The training loop, which runs with retrograd or PyTorch: the library is an argument."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any


class Loop:
    """A task, an optimizer and a schedule, and how far they have come."""

    def __init__(self, torch: Any, task: Any, settings: dict[str, Any]) -> None:
        self._torch = torch
        self.task = task
        self.total: int = settings["steps"] or settings["epochs"] * len(task.loader)
        self.step = 0
        options = {k: v for k, v in settings["optimizer"].items() if v is not None}
        make = getattr(torch.optim, options.pop("name"))
        self.optimizer = make(task.model.parameters(), **options)
        factor = functools.partial(learning_rate_factor, total=self.total, **settings["schedule"])
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, factor)
        self._clip = settings["clip_gradients"]

    def parts(self) -> dict[str, Any]:
        """All that has a state."""
        return {
            "model": self.task.model, "optimizer": self.optimizer, "scheduler": self.scheduler,
            "loader": self.task.loader,
        }  # fmt: skip

    def losses(self) -> Iterator[float]:
        """Train, and give the loss of every step."""
        self.task.model.train()
        while self.step < self.total:
            for batch in self.task.loader:
                loss = self._one_step(batch)
                self.step += 1
                yield loss
                if self.step == self.total:
                    return

    def _one_step(self, batch: Any) -> float:
        self.optimizer.zero_grad()
        loss = self.task.loss(batch)
        loss.backward()
        if self._clip:
            self._torch.nn.utils.clip_grad_norm_(self.task.model.parameters(), self._clip)
        self.optimizer.step()
        self.scheduler.step()
        value: float = loss.item()
        return value

    def evaluate(self) -> dict[str, float]:
        """How well the model does on what it is not trained on."""
        self.task.model.eval()
        with self._torch.no_grad():
            scores: dict[str, float] = self.task.evaluate()
        self.task.model.train()
        return scores

    @property
    def learning_rate(self) -> float:
        """That of the last step, or of the first."""
        rate: float = self.scheduler.get_last_lr()[0]
        return rate


def learning_rate_factor(step: int, total: int, name: str, warmup: float, floor: float) -> float:
    """What the learning rate of a step is multiplied by: up in a line while it warms up, and then
    down to ``floor``.

    >>> [round(learning_rate_factor(i, 8, "linear", 0.25, 0.0), 2) for i in range(8)]
    [0.5, 1.0, 1.0, 0.83, 0.67, 0.5, 0.33, 0.17]
    """
    rising = math.ceil(total * warmup)
    if step < rising:
        return (step + 1) / rising
    if name == "constant":
        return 1.0
    done = min(1.0, (step - rising) / max(1, total - rising))
    left = 1 - done if name == "linear" else (1 + math.cos(math.pi * done)) / 2
    return floor + (1 - floor) * left
