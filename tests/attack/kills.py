"""Kills training at any moment, and lets ranks fail in all ways: nothing may break or go unnamed.

First, training runs that save after each step are killed (``SIGKILL``) at random moments, started
again from what they left, and killed again. No checkpoint that is there may be broken, and a run
must end with the bits of one that nobody disturbed. Processes are forked from this one, which has
imported everything, so that a kill costs some milliseconds.

Then, programs of a few ranks in which one is killed, ends, raises, is stopped or falls asleep. Each
of the others must say which rank it was and what happened to it, in under 15 seconds.

``python -m tests.attack.kills 1000 100`` makes so many kills and faults, however long it takes.
"""

from __future__ import annotations

import gc
import itertools
import mmap
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import retrograd as torch
from tests import _mpi
from tests.attack._report import Report

STEPS = 12
MOMENTS = ("start", "load", "batch", "forward", "backward", "optimizer", "save", "end")
NAMED_IN = 15.0  # seconds


# -- one process that is killed ------------------------------------------------------------------


class Run:
    """A training run in a folder, in which all is random that can be. ``moment`` is memory that
    the killer sees: what the run is doing."""

    def __init__(self, folder: Path, moment: Any) -> None:
        self.moment = moment
        torch.manual_seed(1)
        nn = torch.nn
        self.model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.3),
                                   nn.Linear(5, 1))  # fmt: skip
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 4, 0.5)
        data = torch.utils.data.TensorDataset(torch.randn(20, 3))
        self.loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
        self.checkpoints = torch.files.Checkpoints(
            folder, keep=2, model=self.model, optimizer=self.optimizer, scheduler=self.scheduler,
            loader=self.loader,
        )  # fmt: skip

    def at(self, moment: str) -> None:
        self.moment[0] = MOMENTS.index(moment)

    def train(self, steps: int = STEPS) -> dict[str, Any]:
        """To the end, from where it was. The end as data."""
        self.at("load")
        step = self.checkpoints.load().get("step", 0)
        while step < steps:
            for (x,) in self.loader:
                self.at("forward")
                self.optimizer.zero_grad()
                loss = self.model(x).square().mean()
                self.at("backward")
                loss.backward()
                self.at("optimizer")
                self.optimizer.step()
                self.scheduler.step()
                step += 1
                self.at("save")
                self.checkpoints.save(step, metric=loss)
                self.moment[1] = step
                self.at("batch")
                if step == steps:
                    break
        self.at("end")
        return {
            "step": step, "model": self.model.state_dict(), "random": torch.get_rng_state(),
            "optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(),
            "loader": self.loader.state_dict(),
        }  # fmt: skip


def _live(folder: Path, moment: Any) -> NoReturn:
    """The life of a forked process."""
    code = 1
    try:
        end = Run(folder / "checkpoints", moment).train()
        torch.save(end, folder / "end.safetensors")
        code = 0
    finally:
        os._exit(code)


def _fork(folder: Path, moment: Any) -> int:
    moment[0:2] = bytes(2)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _live(folder, moment)
    return child


def _code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _killed(child: int, moment: Any, steps: int, fraction: float, seconds: float) -> int:
    """Kill a run after some steps of its own and a part of the time that one takes. How it
    ended: it may have come to its end before."""
    first, before = moment[1], time.monotonic()
    seen = 0
    while seen < steps:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if moment[1] != first:
            first, before, seen = moment[1], time.monotonic(), seen + 1
        time.sleep(100e-6)
    time.sleep(max(before + fraction * seconds - time.monotonic(), 0))
    os.kill(child, signal.SIGKILL)
    return _code(child)


def _same(a: Any, b: Any) -> bool:
    """Whether two trees of data are the same to the bit."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()
    return type(a) is type(b) and bool(a == b)


def _broken(folder: Path) -> list[str]:
    """The checkpoints of a folder that cannot be read."""
    found = []
    for path in sorted(folder.glob("step-*.safetensors")):
        try:
            torch.load(path)
        except Exception as error:
            found.append(f"{path.name}: {error}")
    return found


def kill_training(
    report: Report, chance: random.Random, for_seconds: float, most: float = float("inf")
) -> None:
    """Kill training runs for some seconds, or so many times."""
    moment = mmap.mmap(-1, 16)  # shared with what is forked
    # In memory where there is such a place: to wait for a disk would be most of the time.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="kills", dir=memory) as name:
        Run(Path(name) / "warm", moment).train()  # imports and compiles for all that are forked
        gc.freeze()  # so that they need not copy what this process has
        whole = Path(name) / "whole"
        whole.mkdir()
        began = time.monotonic()
        if _code(_fork(whole, moment)) != 0:
            raise RuntimeError("the run that nobody disturbs fails")
        seconds = (time.monotonic() - began) / STEPS
        end = torch.load(whole / "end.safetensors")
        until = time.monotonic() + for_seconds
        for number in itertools.count():
            if time.monotonic() > until or report.counts["kills"] >= most:
                break
            folder = Path(name) / str(number)
            folder.mkdir()
            _kill_one_run(report, chance, folder, moment, seconds)
            if not _same(torch.load(folder / "end.safetensors"), end):
                report.found("a run that was killed ends with other bits", _how(report))
            report.counts["runs killed and ended"] += 1
            shutil.rmtree(folder)


def _kill_one_run(
    report: Report, chance: random.Random, folder: Path, moment: Any, seconds: float
) -> None:
    """Kill one run some times, then let it come to its end."""
    for _ in range(chance.randint(4, 16)):
        steps = chance.choice((0, 0, 0, 1, 1, 2))
        # A life begins with a fork and loading, which take longer than a step.
        fraction = chance.uniform(0, 1.5 if steps else 4)
        code = _killed(_fork(folder, moment), moment, steps, fraction, seconds)
        report.tried += 1
        if code == -signal.SIGKILL:
            report.counts["kills"] += 1
            report.counts[f"kills: {MOMENTS[moment[0]]}"] += 1
        else:
            report.counts["ended before the kill"] += 1
            if code != 0:
                report.found("a run does not go on from a checkpoint", _how(report))
        for broken in _broken(folder / "checkpoints"):
            report.found(f"a broken checkpoint: {broken}", _how(report))
        if code == 0:
            break
    if _code(_fork(folder, moment)) != 0:
        report.found("a run does not go on from a checkpoint", _how(report))


def _how(report: Report) -> str:
    return f"python -m tests.attack kills --seed {report.seed}  # try {report.tried}"


# -- ranks that fail -----------------------------------------------------------------------------

PRELUDE = """
import os, signal, sys, threading, time
import retrograd as torch
from retrograd import distributed as dist, nn, pipeline
kind, victim, after = os.environ["FAULT"].split()
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
def fault(number, frame):
    os.write(1, f"fault {time.time()}\\n".encode())
    if kind == "kill": os.kill(os.getpid(), signal.SIGKILL)
    if kind == "stop": os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "exit": sys.exit(0)
    if kind == "hard-exit": os._exit(3)
    if kind == "raise": raise ArithmeticError("as the attack wants it")
    while True: time.sleep(1000)
def begin():
    dist.barrier()
    if rank == int(victim):
        signal.signal(signal.SIGALRM, fault)
        signal.setitimer(signal.ITIMER_REAL, float(after))
"""
PROGRAMS = {
    "collectives": """
x = torch.ones(2000)
part = dist.new_group([0, 1])
begin()
while True:
    dist.all_reduce(x / size)
    dist.broadcast(x, 1)
    works = [dist.isend(x, (rank + 1) % size), dist.irecv(x.clone(), (rank - 1) % size)]
    for work in works: work.wait()
    rows = [torch.zeros(2000) for _ in range(size)]
    dist.all_gather(rows, x, async_op=True).wait()
    dist.barrier(part)
    for _ in range(20): x = x * 1.0
    dist.all_gather_object([None] * size, {"rank": rank})
""",
    "ddp": """
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 1)), bucket_cap_mb=0.001)
optimizer = torch.optim.Adam(model.parameters())
begin()
while True:
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()
""",
    "pipeline": """
layers = [nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)]
pipe = pipeline.Pipeline(
    nn.Sequential(*layers), size, microbatches=4, schedule="1f1b",
    loss_fn=nn.functional.mse_loss, optimizer=lambda p: torch.optim.SGD(p, lr=0.01))
def batches():
    while True: yield torch.ones(4, 4), torch.ones(4, 1)
data = batches()
pipe.train_batch(data)
begin()
while True: pipe.train_batch(data)
""",
}
# What the others must say of the victim, after its name.
WORDS = {
    "kill": r"died",
    "hard-exit": r"died",
    "exit": r"has left \(its program ended\)",
    "raise": r"failed: ArithmeticError: as the attack wants it",
    "stop": r"is stopped by a signal: no sign of life since .* when it was at \S+program\.py:\d+",
    "sleep": r".*which is at \S+program\.py:\d+: while True: time\.sleep\(1000\)",
}
HANGS = ("stop", "sleep")


@dataclass
class Fault:
    """What happens to which rank of what program, and when."""

    kind: str
    program: str
    ranks: int
    victim: int
    after: float

    def make(self) -> tuple[float, str]:
        """Let it happen. The seconds until the last of the others has named it, and what was
        wrong, if anything was."""
        text = PRELUDE + PROGRAMS[self.program]
        run = _mpi.Run(text, self.ranks, {"FAULT": f"{self.kind} {self.victim} {self.after}"})
        try:
            return self._watch(run)
        finally:
            run._kill()
            run.process.communicate()
            shutil.rmtree(run.folder, ignore_errors=True)

    def _watch(self, run: Any) -> tuple[float, str]:
        run.printed(self.victim, "fault", timeout=120)
        began = float(run._read(self.victim, "out").split()[1])
        named = re.compile(rf"rank {self.victim} \(pid {run.pid(self.victim)} on \S+?\),? ?"
                           + WORDS[self.kind])  # fmt: skip
        left = set(range(self.ranks)) - {self.victim}
        took = 0.0
        while left and time.time() < began + NAMED_IN + 5:
            for rank in sorted(left):
                if named.search(run._read(rank, "err")):
                    left.discard(rank)
                    took = time.time() - began
            time.sleep(0.01)
        said = {rank: run._read(rank, "err")[-2000:] for rank in range(self.ranks)}
        if left:
            return took, f"ranks {sorted(left)} did not name it: {said}"
        blamed = {int(r) for text in said.values() for r in re.findall(r"rank (\d+) \(pid", text)}
        if self.kind not in ("exit", "raise") and blamed - {self.victim}:
            return took, f"ranks {sorted(blamed)} are blamed: {said}"
        return took, "" if took < NAMED_IN else f"it took {took:.1f} s"


def faults(chance: random.Random) -> Iterator[Fault]:
    """Faults of all kinds, without end."""
    while True:
        kinds = list(WORDS)
        chance.shuffle(kinds)
        for kind in kinds:
            ranks = chance.choice((2, 3))
            program = chance.choice(list(PROGRAMS))
            yield Fault(kind, program, ranks, chance.randrange(ranks), chance.uniform(0.001, 0.5))


def fail_ranks(
    report: Report, chance: random.Random, for_seconds: float, most: float = float("inf"),
    at_once: int = 3,
) -> None:  # fmt: skip
    """Let ranks fail for some seconds, or so many times. Most of the time is spent waiting, so
    there are several programs at once."""
    coming = faults(chance)
    until = time.monotonic() + for_seconds
    with ThreadPoolExecutor(at_once) as pool:
        while time.monotonic() < until and report.counts["faults of ranks"] < most:
            some = [next(coming) for _ in range(at_once)]
            for fault, (took, wrong) in zip(some, pool.map(Fault.make, some), strict=True):
                report.tried += 1
                report.counts["faults of ranks"] += 1
                report.counts[f"faults: {fault.kind}"] += 1
                report.counts[f"faults in {fault.program}"] += 1
                report.counts["hangs"] += fault.kind in HANGS
                key = f"most milliseconds to name: {fault.kind}"
                report.counts[key] = max(report.counts[key], round(took * 1000))
                if wrong:
                    report.found(f"{fault}: {wrong}", _how(report))


def attack(report: Report, seed: int, seconds: float) -> None:
    """Half of the time for each; ranks only where MPI is installed."""
    chance = random.Random(seed)
    ranks = _mpi.is_installed()
    kill_training(report, chance, seconds * (0.5 if ranks else 1))
    if ranks:
        fail_ranks(report, chance, seconds / 2)


def main(kills: int, failures: int, seed: int = 0) -> int:
    """So many of each."""
    report = Report("kills", seed)
    chance = random.Random(seed)
    began = time.monotonic()
    never = float("inf")
    if kills:
        kill_training(report, chance, never, kills)
    print(f"{time.monotonic() - began:.1f} s", flush=True)
    if failures:
        fail_ranks(report, chance, never, failures)
    for key, count in sorted(report.counts.items()):
        print(f"{key}: {count}")
    print(f"{time.monotonic() - began:.1f} s, {len(report.findings)} findings")
    for finding in report.findings:
        print(finding)
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
