"""Runs an attack in processes of its own, and tells what they die or hang of."""

from __future__ import annotations

import importlib
import mmap
import multiprocessing
import os
import pkgutil
import random
import signal
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._report import Report

IN_PYTORCH = "# in PyTorch"  # the last line of a program that runs there, not here
LIMIT = 20.0  # seconds that one program may take, in attacks that say what they try
LIMITS = {"devices": 120.0}  # XLA compiles each operation of a program
_JOURNAL_SIZE = 1 << 16
_PACKAGE = __package__ or "tests.attack"


def attacks() -> dict[str, str]:
    """The attacks there are, each with the first line of its docstring."""
    found = {}
    folder = Path(__file__).parent
    for info in pkgutil.iter_modules([str(folder)]):
        if not info.name.startswith("_"):
            text = (folder / f"{info.name}.py").read_text()
            found[info.name] = text.split('"""')[1].strip().splitlines()[0]
    return found


def derived(seed: int, job: int, start: int) -> int:
    """The seed of a worker: the given one for the first, and others that follow from it."""
    if job == start == 0:
        return seed
    return random.Random(f"{seed} {job} {start}").randrange(1 << 31)


# -- in the worker -------------------------------------------------------------------------------


class Journal:
    """Where a worker writes what it is about to do, for the parent to read if it is lost."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _JOURNAL_SIZE)

    def write(self, text: str, tried: int) -> None:
        """Note what is tried now, and how much was tried before."""
        data = text.encode()[: _JOURNAL_SIZE - 24]
        self._map[:8] = bytes(8)  # nothing, while it is being written
        self._map[24 : 24 + len(data)] = data
        self._map[16:24] = tried.to_bytes(8, "little")
        self._map[8:16] = time.monotonic_ns().to_bytes(8, "little")
        self._map[:8] = len(data).to_bytes(8, "little")

    def read(self) -> tuple[str, float]:
        """What is being tried, and since when; an empty text if nothing is."""
        length = int.from_bytes(self._map[:8], "little")
        since = int.from_bytes(self._map[8:16], "little") / 1e9
        return self._map[24 : 24 + length].decode(errors="replace"), since

    def tried(self) -> int:
        return int.from_bytes(self._map[16:24], "little")


def work(
    name: str, seed: int, seconds: float, most: int | None, journal: str, pipe: Any
) -> None:  # fmt: skip
    """The main function of a worker."""
    os.setsid()  # Ctrl-C is for the parent, which ends the whole group
    report = Report(name, seed, most=most)
    notes = Journal(journal)
    report.watcher = lambda text: notes.write(text, report.tried)
    done = threading.Event()
    parent = os.getppid()

    def tell() -> None:
        while not done.wait(1.0):
            if os.getppid() != parent:
                os._exit(1)
            pipe.send(told(report))

    threading.Thread(target=tell, daemon=True).start()
    try:
        ours = (Path(__file__).parent / f"{name}.py").exists()
        module = importlib.import_module(f"{_PACKAGE}.{name}" if ours else name)
        module.attack(report, seed, seconds)
        report.trying("")
    except BaseException:
        title = f"{name}: the attack itself failed: {traceback.format_exc().splitlines()[-1]}"
        report.found(title, f"seed {seed}\n{traceback.format_exc()}")
        report.trying("")
    done.set()
    pipe.send(told(report))
    pipe.send("done")


def told(report: Report) -> dict[str, Any]:
    """A copy of a report that can be sent."""
    return {
        "tried": report.tried,
        "counts": dict(report.counts),
        "findings": [(finding.title, finding.reproduce) for finding in list(report.findings)],
    }


# -- in the parent -------------------------------------------------------------------------------


class Worker:
    """A process that runs an attack, and what it has told so far."""

    def __init__(self, name: str, seed: int, seconds: float, most: int | None = None) -> None:
        self.name, self.seed, self.limit = name, seed, LIMITS.get(name, LIMIT)
        file = tempfile.NamedTemporaryFile(prefix="attack-", delete=False)
        file.truncate(_JOURNAL_SIZE)
        file.close()
        self._path = file.name
        self.journal = Journal(file.name)
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=work, args=(name, seed, seconds, most, file.name, theirs)
        )
        self.process.start()
        theirs.close()
        self.last: dict[str, Any] = {"tried": 0, "counts": {}, "findings": []}
        self.ended = False
        self._began = (0.0, 0.0)  # when a program began, and how long was computed by then

    def look(self) -> str | None:
        """Read what it tells; if it has crashed or hangs, say so and end it."""
        try:
            while self._pipe.poll():
                message = self._pipe.recv()
                if message == "done":
                    self.ended = True
                else:
                    self.last = message
        except (EOFError, OSError):
            self.process.join(5)
        if self.ended:
            return None
        program, since = self.journal.read()
        if not self.process.is_alive():
            self.ended = True
            code = self.process.exitcode or 0
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return self.told(f"the process ended with {how}", program)
        if program and self.hangs(since):
            self.end()
            return self.told(f"it does not return within {self.limit:.0f} s", program)
        return None

    def hangs(self, since: float) -> bool:
        """Whether what began at a time takes too long: by the time that it has computed for, as the
        machine may be busy with other things; or by the clock, if it only waits."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        if self._began[0] != since:
            self._began = since, used
        passed = time.monotonic() - since
        computes = used - self._began[1] > self.limit / 2
        return passed > self.limit and (computes or passed > 15 * self.limit)

    def told(self, how: str, program: str) -> str:
        last = program.splitlines()[-1] if program else f"{self.name}, seed {self.seed}"
        return f"{how}: {last[:120]}\n{program or f'seed {self.seed}'}"

    def end(self) -> None:
        """End the process and whatever it has started."""
        self.ended = True
        if self.process.pid is not None and self.process.is_alive():
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.process.kill()
        self.process.join(5)

    def close(self) -> None:
        self.end()
        Path(self._path).unlink(missing_ok=True)


def run(
    name: str, seed: int, seconds: float, jobs: int, progress: Callable[[Report, float], None],
    most: int | None = None,
) -> tuple[Report, bool]:  # fmt: skip
    """Run an attack in some processes; the report, and whether Ctrl-C ended it. ``most`` is how
    much each process tries, in attacks that count."""
    end = time.monotonic() + seconds
    report = Report(name, seed)
    workers = [Worker(name, derived(seed, job, 0), seconds, most) for job in range(jobs)]
    asked = [most] * jobs
    every, starts, crashes, interrupted = list(workers), 0, 0, False
    lost: list[tuple[str, str]] = []
    try:
        while any(not worker.ended for worker in workers):
            time.sleep(0.2)
            for job, worker in enumerate(workers):
                trouble = None if worker.ended else worker.look()
                if trouble is None:
                    continue
                title, _, program = trouble.partition("\n")
                if program.endswith(IN_PYTORCH):
                    crashes += 1
                else:
                    lost.append((title, program))
                left = end - time.monotonic()
                if most is not None:  # but for what it was lost by
                    asked[job] = max((asked[job] or 0) - worker.journal.tried() - 1, 0)
                if left > 2 and starts < 200:
                    starts += 1
                    workers[job] = Worker(name, derived(seed, job, starts), left, asked[job])
                    every.append(workers[job])
            gather(report, every, lost, crashes)
            progress(report, end - time.monotonic())
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for worker in every:
            worker.close()
    gather(report, every, lost, crashes)
    return report, interrupted


def gather(
    report: Report, workers: list[Worker], lost: list[tuple[str, str]], crashes: int
) -> None:
    """Sum up what the workers have told."""
    report.tried = sum(worker.last["tried"] for worker in workers)
    report.counts = Counter()
    report.findings = []
    for worker in workers:
        report.counts.update(worker.last["counts"])
        for title, reproduce in worker.last["findings"]:
            report.found(title, reproduce)
            report.counts["findings"] -= 1  # it is counted already
    if crashes:
        report.counts["known: PyTorch crashed, or did not return"] = crashes
    for title, program in lost:
        report.found(title, program)
