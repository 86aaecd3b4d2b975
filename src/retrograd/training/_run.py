"""A training run from its settings to its files, which can be stopped and resumed at any step."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import retrograd as torch
from retrograd._errors import InterruptedRunError, UserError, one_line
from retrograd.files import Checkpoints, FileFormatError, load, load_checkpoint, save
from retrograd.training import _curves, _folder, _metrics
from retrograd.training._loop import Loop
from retrograd.training._progress import Progress, duration
from retrograd.training.chars import Chars
from retrograd.training.digits import Digits
from retrograd.viz import Report

TASKS: dict[str, Callable[..., Any]] = {"digits": Digits, "chars": Chars}
CHECKPOINTS = "checkpoints"
WEIGHTS = "model.safetensors"
REPORT = "report.html"


class Run:
    """All of a run: what is trained, how far it has come, and the figures so far."""

    def __init__(self, settings: dict[str, Any], say: Callable[[str], None]) -> None:
        self.settings = settings
        self.say = say
        torch.manual_seed(settings["seed"])
        self.task = TASKS[settings["task"]](torch, settings)
        try:
            self.loop = Loop(torch, self.task, settings)
        except (TypeError, ValueError) as error:  # options that the optimizer refuses
            raise UserError(f"optimizer: {one_line(error)}") from None
        self.records: list[dict[str, Any]] = []
        self._pending: list[float] = []  # losses since the last record
        self._seconds = 0.0  # in earlier parts of the run
        self._scores: dict[str, float] = {}

    def resume(self, checkpoint: Path) -> None:
        """Go back to where a checkpoint was made."""
        result = read_values(checkpoint)
        if result["data"] != self.task.fingerprint:
            raise UserError(f"{checkpoint}: the data have changed, so the run cannot be resumed")
        try:
            load_checkpoint(checkpoint, **self.loop.parts())
        except RuntimeError as error:
            raise UserError(one_line(error)) from None
        self.loop.step = result["step"]
        self._pending, self._seconds = result["pending"], result["seconds"]
        self._scores = result["scores"]
        self.records = _metrics.read(checkpoint.parent.parent, result["step"])

    def announcement(self, folder: Path) -> str:
        """What is about to happen."""
        loop = self.loop
        parameters = sum(p.numel() for p in self.task.model.parameters())
        data = ", ".join(f"{count:,} {what}" for what, count in self.task.about.items())
        where = f"going on after step {loop.step} of" if loop.step else "training for"
        return (
            f"{self.settings['task']}: {data}; a model of {parameters:,} parameters\n"
            f"{where} {loop.total} steps; files go to {folder}"
        )

    def train(self, folder: Path, quiet: bool) -> None:
        """Train to the end, or until a signal comes."""
        loop, keep = self.loop, self.settings["keep_checkpoints"]
        metrics = _metrics.Metrics(folder, self.records)
        checkpoints = Checkpoints(folder / CHECKPOINTS, keep=keep, **loop.parts())
        if not (folder / _folder.CONFIG).exists():
            # What has a configuration can be resumed, so there is a checkpoint first.
            self._save(checkpoints)
            _folder.write_config(folder, self.settings)
        progress = Progress(loop.total, loop.step, quiet)
        began = time.monotonic() - self._seconds
        title = f"{self.settings['task']}: {folder.name}"
        with (
            contextlib.closing(metrics), contextlib.closing(progress), signals() as received,
            Report(folder / REPORT, self.task.model, loop.optimizer, title=title) as report,
        ):  # fmt: skip
            report.continue_from(self.records)
            for loss in loop.losses():
                if not math.isfinite(loss):
                    report.step(loss)
                    raise UserError(self._diverged(loss))
                self._pending.append(loss)
                self._seconds = time.monotonic() - began
                evaluated = self._note(metrics)
                report.step(loss, **(self._scores if evaluated else {}))
                progress.step(loss, self._scores)
                if self._due("checkpoint_every") or received:
                    metrics.settle()
                    self._save(checkpoints)
                if received and loop.step < loop.total:
                    raise InterruptedRunError(received[0], self._interrupted(folder))

    def _due(self, interval: str) -> bool:
        step, every = self.loop.step, int(self.settings[interval])
        return step % every == 0 or step == self.loop.total

    def _note(self, metrics: _metrics.Metrics) -> bool:
        """Add the figures of this step, if it is their turn; whether the model was evaluated."""
        evaluated = self._due("evaluate_every")
        if not evaluated and not self._due("log_every"):
            return False
        record = {
            "step": self.loop.step,
            "epoch": round(self.loop.step / len(self.task.loader), 4),
            "loss": sum(self._pending) / len(self._pending),
            "learning_rate": self.loop.learning_rate,
            "seconds": round(self._seconds, 3),
        }
        self._pending = []
        if evaluated:
            self._scores = self.loop.evaluate()
        metrics.add(record | (self._scores if evaluated else {}))
        return evaluated

    def _save(self, checkpoints: Checkpoints) -> None:
        checkpoints.save(
            self.loop.step, settings=self.settings, data=self.task.fingerprint,
            pending=self._pending, seconds=self._seconds, scores=self._scores,
        )  # fmt: skip

    def _diverged(self, loss: float) -> str:
        rate = self.loop.learning_rate
        return (
            f"the loss is {loss} at step {self.loop.step}: training has diverged; try a lower "
            f"learning rate (optimizer.lr, now {rate:.3g}) or clip_gradients"
        )

    def _interrupted(self, folder: Path) -> str:
        step, total = self.loop.step, self.loop.total
        return (
            f"stopped after step {step} of {total}; go on with: retrograd train --resume {folder}"
        )

    def finish(self, folder: Path) -> None:
        """Write the weights, the pictures and what else the task has, and say what there is."""
        name, scores = self.settings["task"], self._scores
        told = f"test loss {scores['test_loss']:.4f}"
        if "test_accuracy" in scores:
            told = f"test accuracy {scores['test_accuracy']:.2%}, {told}"
        told += f", after {self.loop.total} steps in {duration(self._seconds)}"
        save(self.task.model.state_dict(), folder / WEIGHTS)
        written = [(WEIGHTS, "the weights, for torch.load or any reader of safetensors")]
        for file, text in self.task.closing().items():
            _folder.write_text(folder / file, text)
            if file == "sample.txt":
                self.say(f"The model writes:\n\n{text}")
            written.append((file, self.task.files[file]))
        drawn = _curves.draw(folder, f"{name}: {told}", self.records)
        if drawn:
            written.append((", ".join(path.name for path in drawn), "the curves"))
        written.append((REPORT, "the report of the run, to be opened in a browser"))
        written.append((_metrics.NAME, "the figures, as JSON lines"))
        written.append((f"{CHECKPOINTS}/", "where --resume goes on from"))
        self.say(f"{name}: {told}")
        if not drawn:
            self.say("There are no curves: they need matplotlib (pip install matplotlib).")
        width = max(len(file) for file, _ in written)
        self.say(f"The files are in {folder}:")
        for file, about in written:
            self.say(f"  {file:<{width}}  {about}")


def read_values(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint of a run says of it."""
    try:
        tree = load(checkpoint)
    except FileFormatError as error:
        raise UserError(one_line(error)) from None
    values = tree.get("values") if isinstance(tree, dict) else None
    if not isinstance(values, dict) or not {"settings", "data", "pending"} <= set(values):
        raise UserError(f"{checkpoint} is not a checkpoint of a run of retrograd train")
    return values


@contextlib.contextmanager
def signals() -> Iterator[list[int]]:
    """Signals to stop are put in the list, so that a step is never left half done. A second one
    does what it always does."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # where signals arrive elsewhere
        return
    before: dict[int, Any] = {}

    def note(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(number, before[number])

    try:
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            before[number] = signal.getsignal(number)
            signal.signal(number, note)
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
