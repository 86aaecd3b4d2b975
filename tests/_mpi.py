"""Starting a program as several ranks, with a watchdog.

Each rank's output goes to files of its own. Whatever happens, nothing that was started is left
running: the launcher and all ranks are in sessions of their own, found again by a mark in their
environment, and are killed when the time is up.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_MARK = "RETROGRAD_TEST_RUN"

# Starts the launcher such that it is told to stop if this process is killed, and cannot leave
# ranks behind. It stops them when it is told to.
_LAUNCHER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):  # it was killed before
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

# Runs a program with its output in files of its own rank.
_WRAPPER = """
import os, runpy, sys
folder, program = sys.argv[1:3]
rank = next(os.environ[n] for n in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
            if n in os.environ)
for number, name in ((1, "out"), (2, "err")):
    file = os.open(f"{folder}/{rank}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, number)
    os.close(file)
with open(f"{folder}/{rank}.pid", "w") as file:
    file.write(str(os.getpid()))
sys.argv = sys.argv[2:]
sys.path.insert(0, os.path.dirname(program))
runpy.run_path(program, run_name="__main__")
"""


@dataclass
class Result:
    """What a run came to."""

    code: int
    out: list[str]  # of each rank
    err: list[str]
    launcher: str  # what mpiexec itself said
    seconds: float

    def report(self) -> str:
        """Everything that was printed, for a failed test."""
        parts = [f"mpiexec ended with {self.code} after {self.seconds:.1f} s: {self.launcher}"]
        for rank, (out, err) in enumerate(zip(self.out, self.err, strict=True)):
            parts.append(f"--- rank {rank} printed\n{out}{err}")
        return "\n".join(parts)


@cache
def mpiexec() -> str | None:
    """The launcher: the one installed with this Python before any other."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


@cache
def _flags(launcher: str) -> tuple[str, ...]:
    told = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=60)
    if "Open MPI" in told.stdout + told.stderr:
        # More ranks than cores, as root in containers, and each free to use any core.
        return ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
    return ()


def is_installed() -> bool:
    """Whether programs can be run as several ranks here."""
    return importlib.util.find_spec("mpi4py") is not None and mpiexec() is not None


def need_mpi() -> None:
    """Skip a test where MPI is not installed."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    if mpiexec() is None:
        pytest.skip("there is no mpiexec")


class Run:
    """A program that runs as several ranks."""

    def __init__(self, program: str | Path, ranks: int, env: Mapping[str, str] | None = None):
        need_mpi()
        launcher = mpiexec()
        assert launcher is not None
        self.ranks = ranks
        self.mark = uuid.uuid4().hex
        self.folder = Path(tempfile.mkdtemp(prefix="ranks"))
        (self.folder / "wrapper.py").write_text(_WRAPPER)
        if not isinstance(program, Path):
            text, program = program, self.folder / "program.py"
            program.write_text(textwrap.dedent(text))
        self.command = [
            sys.executable, "-S", "-c", _LAUNCHER, str(os.getpid()),
            launcher, *_flags(launcher), "-n", str(ranks), sys.executable, "-u",
            "-W", "error::ResourceWarning", str(self.folder / "wrapper.py"),
            str(self.folder), str(program),
        ]  # fmt: skip
        self.env = {
            **os.environ, **dict.fromkeys(_THREADS, "1"), "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_btl": "^ofi",  # libfabric sleeps for a second when it looks for networks
            _MARK: self.mark, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **(env or {}),
        }  # fmt: skip
        self.launches = 0
        self._launch()

    def _launch(self) -> None:
        self.launches += 1
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def pid(self, rank: int, timeout: float = 60) -> int:
        """The process of a rank, once it has started."""
        self._wait(lambda: self._read(rank, "pid"), f"rank {rank} has not started", timeout)
        return int(self._read(rank, "pid"))

    def printed(self, rank: int, what: str, timeout: float = 60) -> None:
        """Wait until a rank has printed something."""
        wrong = f"rank {rank} has not printed {what!r}"
        self._wait(lambda: what in self._read(rank, "out"), wrong, timeout)

    def _wait(self, condition: Callable[[], object], wrong: str, timeout: float) -> None:
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                errors = [self._read(rank, "err") for rank in range(self.ranks)]
                raise TimeoutError(f"{wrong}; the ranks' errors: {errors}")
            if self._launcher_hangs() and self.launches < 3:
                self._kill()
                self.process.communicate(timeout=30)
                self._launch()
                end = time.monotonic() + timeout
            time.sleep(0.01)

    def _launcher_hangs(self) -> bool:
        """Whether there are no ranks, as happens to Open MPI's launcher on a busy machine."""
        late = time.monotonic() - self.began > 20 or self.process.poll() is not None
        return late and not any(self._read(rank, "pid") for rank in range(self.ranks))

    def _read(self, rank: int, kind: str) -> str:
        path = self.folder / f"{rank}.{kind}"
        return path.read_text(errors="replace") if path.exists() else ""

    def finish(self, timeout: float = 120) -> Result:
        """Wait for the end, or kill everything when the time is up, and fail."""
        try:
            try:
                said, _ = self.process.communicate(timeout=timeout)
                in_time = True
            except subprocess.TimeoutExpired:
                in_time = False
                self._kill()
                said, _ = self.process.communicate(timeout=30)
            result = Result(
                self.process.returncode, [self._read(r, "out") for r in range(self.ranks)],
                [self._read(r, "err") for r in range(self.ranks)], said,
                time.monotonic() - self.began,
            )  # fmt: skip
            if not in_time:
                pytest.fail(f"still running after {timeout} s\n{result.report()}")
            left = self.left_over()
            if left:
                self._kill()
                pytest.fail(f"processes {left} were left behind\n{result.report()}")
            return result
        finally:
            self._kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    def left_over(self, patience: float = 5) -> list[int]:
        """The processes of this run that are still there, after a moment to go away."""
        end = time.monotonic() + patience
        while (found := self._marked()) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def _marked(self) -> list[int]:
        needle = f"{_MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if needle in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # it ended while we looked, or is not ours
                continue
        return found

    def _kill(self) -> None:
        for pid in [self.process.pid, *self._marked()]:
            if pid != self.process.pid or self.process.poll() is None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def run(
    program: str | Path, ranks: int, *, timeout: float = 120, expect: int | None = 0,
    env: Mapping[str, str] | None = None,
) -> Result:  # fmt: skip
    """Run a program (its text, or the path of a script) as several ranks. ``expect`` is the exit
    code that mpiexec must give; None: any but zero."""
    for _ in range(3):
        result = Run(program, ranks, env).finish(timeout)
        if "listener thread failed to start" not in result.launcher:  # Open MPI, now and then
            break
    good = result.code != 0 if expect is None else result.code == expect
    assert good, result.report()
    return result


def run_torch(program: str, ranks: int, *, timeout: float = 120) -> list[str]:
    """Run a program as several processes that PyTorch brings together. What each printed."""
    with tempfile.TemporaryDirectory(prefix="ranks") as folder:
        path = Path(folder) / "program.py"
        path.write_text(textwrap.dedent(program))
        started = [
            subprocess.Popen(
                [sys.executable, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
                env={**os.environ, **dict.fromkeys(_THREADS, "1"), "LIBRARY": "torch",
                     "MEETING": f"{folder}/meeting", "RANK": str(rank), "SIZE": str(ranks),
                     "GLOO_SOCKET_IFNAME": "lo"},
            )
            for rank in range(ranks)
        ]  # fmt: skip
        try:
            deadline = time.monotonic() + timeout
            told = [p.communicate(timeout=max(deadline - time.monotonic(), 1)) for p in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
    assert not any(p.returncode for p in started), "\n".join(error for _, error in told)
    return [out for out, _ in told]
