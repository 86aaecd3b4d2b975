"""Loading by worker processes: what they give, how they fail, and that they always end.

No test here may hang, and none may leave a process, a piece of shared memory or an open file.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
from test_data import Noisy, Training, plain

import retrograd
from retrograd.autograd import _history, _node
from retrograd.utils import data
from retrograd.utils.data._utils import pool, transport
from retrograd.utils.data._utils.worker import Job

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="about processes of Unix")
SECONDS = 240  # for one test, on a busy machine


class Hangs(BaseException):
    """Not an Exception: nothing that is tested may catch it."""


@pytest.fixture(autouse=True)
def watchdog():
    def bark(*_):
        raise Hangs(f"longer than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def children():
    found = psutil.Process().children(recursive=True)
    helpers = [p for p in found if p.status() != psutil.STATUS_ZOMBIE and is_helper(p)]
    return [p for p in found if p not in helpers]


def is_helper(process):
    """Of Python's own: it keeps one for spawned processes until the program ends."""
    return any("resource_tracker" in word for word in process.cmdline())


def shared_memory():
    maps = Path("/proc/self/maps").read_text().splitlines()
    kept = [line for line in maps if "memfd:retrograd" in line]
    files = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            files.append(os.readlink(f"/proc/self/fd/{fd}"))
    return kept + [f for f in files if "memfd:retrograd" in f], len(files)


def named_segments():
    """As Python's shared_memory would name them. Other programs have others there."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(("psm_", "retrograd"))}


@pytest.fixture(autouse=True)
def nothing_is_left(watchdog):
    segments, (_, files) = named_segments(), shared_memory()
    assert children() == []
    yield
    if children() or shared_memory()[0] or shared_memory()[1] > files + 2:
        gc.collect()  # what an exception's traceback held
    assert children() == []
    kept, now = shared_memory()
    assert kept == []
    assert now <= files + 2  # Python opens some for spawned processes, and keeps them
    assert named_segments() <= segments


# -- what they give ----------------------------------------------------------------------------


class Told(data.Dataset):
    """Each sample tells who made it, and draws from every stream there is."""

    library = retrograd

    def __getitem__(self, index):
        info = self.library.utils.data.get_worker_info()
        return {"index": index, "random": random.random(), "numpy": np.random.rand(2),
                "tensor": self.library.rand(2), "id": info.id, "workers": info.num_workers,
                "seed": self.library.tensor(info.seed), "same": info.dataset is self,
                "threads": self.library.get_num_threads()}  # fmt: skip

    def __len__(self):
        return 17


def told_by(library):
    return type("ToldBy", (Told,), {"library": library})()


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 1},
        {"num_workers": 2},
        {"num_workers": 2, "batch_size": 4, "drop_last": True},
        {"num_workers": 2, "batch_size": None},
        {"num_workers": 2, "prefetch_factor": 1},
        {"num_workers": 2, "prefetch_factor": 50, "batch_size": 2},
        {"num_workers": 2, "persistent_workers": True, "batch_size": 2},
        {"num_workers": 2, "generator": 5, "batch_size": 2},
    ],
)
def test_batches_and_random_numbers_are_those_of_pytorch(torch, options):
    def run(library):
        given = dict(options)
        if "generator" in given:
            given["generator"] = library.Generator().manual_seed(given["generator"])
        library.manual_seed(3)
        loader = library.utils.data.DataLoader(told_by(library), shuffle=True, **given)
        return [plain(list(loader)) for _ in range(2)], library.rand(3).tolist()

    ours, theirs = run(retrograd), run(torch)
    assert ours == theirs
    assert retrograd.utils.data.get_worker_info() is None


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_ways_to_start(method):
    dataset = data.TensorDataset(retrograd.arange(40.0).reshape(20, 2), retrograd.arange(20))

    def batches(**options):
        retrograd.manual_seed(1)
        return plain(list(data.DataLoader(dataset, 6, shuffle=True, **options)))

    assert batches(num_workers=2, multiprocessing_context=method) == batches()
    if method == "forkserver":
        from multiprocessing import forkserver

        forkserver._forkserver._stop()


class Counts(data.IterableDataset):
    def __init__(self, *counts):
        self.counts = counts

    def __iter__(self):
        info = data.get_worker_info()
        number = 0 if info is None else info.id
        return iter(range(100 * number, 100 * number + self.counts[number]))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    ("counts", "size", "expected"),
    [
        ((4, 4), None, [0, 100, 1, 101, 2, 102, 3, 103]),
        ((4, 4), 3, [[0, 1, 2], [100, 101, 102], [3], [103]]),
        ((1, 5), None, [0, 100, 101, 102, 103, 104]),
        ((6, 0), 2, [[0, 1], [2, 3], [4, 5]]),
        ((0, 0), 2, []),
    ],
)
def test_iterable_datasets(counts, size, expected, persistent):
    loader = data.DataLoader(Counts(*counts), size, num_workers=2, persistent_workers=persistent)
    for _ in range(3):
        assert [b.tolist() if size else b for b in loader] == expected


def test_iterable_datasets_as_in_pytorch(torch):
    def run(library):
        class Stream(library.utils.data.IterableDataset):
            def __iter__(self):
                start = 10 * library.utils.data.get_worker_info().id
                return iter(range(start, start + 7))

            def __len__(self):
                return 5

        loader = library.utils.data.DataLoader(Stream(), 2, num_workers=2)
        assert len(loader) == 3
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = plain(list(loader))
        # From Python 3.12 on, forking a process that has threads is another warning.
        seen = [w for w in seen if "fork" not in str(w.message)]
        assert len(seen) == 3
        return found, [re.sub("<.*?object at 0x[0-9a-f]+>", "", str(w.message)) for w in seen]

    assert run(retrograd) == run(torch)


class Large(data.Dataset):
    def __init__(self, count=8, elements=100_000):
        self.count, self.elements = count, elements

    def __getitem__(self, index):
        x = np.full(self.elements, index, np.float32)
        return retrograd.from_numpy(x), x[::2], x.reshape(2, -1).T, index, np.zeros(0)

    def __len__(self):
        return self.count


def test_large_arrays_are_shared_not_copied():
    loader = data.DataLoader(Large(), 2, num_workers=2)
    batches = list(loader)
    assert len(shared_memory()[0]) > 0  # they lie there
    for number, (a, b, c, index, empty) in enumerate(batches):
        assert index.tolist() == [2 * number, 2 * number + 1]
        assert (a.shape, b.shape, c.shape, empty.shape) == (
            (2, 100_000), (2, 50_000), (2, 50_000, 2), (2, 0))  # fmt: skip
        for x in (a, b, c):
            assert (x.reshape(2, -1) == index.reshape(2, 1)).all()
        a += 1  # writable, and nobody else's
        assert (b.reshape(2, -1) == index.reshape(2, 1)).all()
        a.requires_grad_()
        (a * 2).sum().backward()
        assert a._data.ctypes.data % 64 == 0
    a = b = c = x = None
    del batches


def test_more_large_batches_than_may_be_mapped():
    loader = data.DataLoader(Large(150, 40_000), 1, num_workers=1)
    batches = [batch[0] for batch in loader]
    assert [float(b.sum()) for b in batches] == [40_000.0 * n for n in range(150)]
    assert len(transport._mapped) <= transport._MOST_MAPPED
    batches[-1] += 1
    del batches


def test_no_shared_memory_left_to_give(monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "memfd_create", refuse)  # inherited by the workers
    batches = list(data.DataLoader(Large(4), 2, num_workers=2))
    assert [float(b[0].mean()) for b in batches] == [0.5, 2.5]


class Words(data.Dataset):
    def __getitem__(self, index):
        return "x"

    def __len__(self):
        return 10**6


def test_long_requests_and_long_answers_at_once():
    """Neither side may wait for the other to read: each has more to write than a pipe holds."""
    sampler = [[7] * 100_000] * 12
    loader = data.DataLoader(
        Words(), batch_sampler=sampler, collate_fn=lambda b: b[0] * 10**6, num_workers=2,
        prefetch_factor=5,
    )  # fmt: skip
    assert [len(b) for b in loader] == [10**6] * 12


class Slow(data.Dataset):
    def __getitem__(self, index):
        if index == 0:
            time.sleep(1.5)
        return index

    def __len__(self):
        return 30


def test_any_order_when_order_does_not_matter():
    loader = data.DataLoader(Slow(), None, num_workers=2, in_order=False)
    seen = list(loader)
    assert sorted(seen) == list(range(30))
    assert seen[0] != 0
    assert seen.index(0) > 5
    assert list(data.DataLoader(Slow(), None, num_workers=2)) == list(range(30))


def test_persistent_workers_stay():
    loader = data.DataLoader(Told(), None, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    pids = {w.pid for w in iterator._workers}
    first = [sample["random"] for sample in iterator]
    again = iter(loader)
    assert again is iterator
    assert {w.pid for w in again._workers} == pids
    assert [sample["random"] for sample in again] != first
    for _ in range(3):  # left early
        assert next(iter(loader))["index"] == 0
    assert [sample["index"] for sample in loader] == list(range(17))
    assert {w.pid for w in iter(loader)._workers} == pids


def test_persistent_workers_end_with_their_loader():
    loader = data.DataLoader(range(9), num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 9
    assert len(children()) == 2
    gc.disable()
    try:
        del loader
        assert children() == []
    finally:
        gc.enable()


def test_what_a_worker_is_told_first():
    seen = []

    def init(worker_id):
        seen.append(worker_id)
        data.get_worker_info().dataset.counts = (worker_id, worker_id + 1)

    loader = data.DataLoader(Counts(9, 9), None, num_workers=2, worker_init_fn=init)
    assert list(loader) == [100, 101]
    assert seen == []  # that happened elsewhere


# -- failures ----------------------------------------------------------------------------------


class TwoArgumentsError(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


class Fails(data.Dataset):
    def __init__(self, error, at=3):
        self.error, self.at = error, at

    def __getitem__(self, index):
        if index == self.at:
            raise self.error
        return index

    def __len__(self):
        return 8


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("bad sample"), ValueError),
        (KeyError("bad sample"), KeyError),
        (TwoArgumentsError("bad sample", 2), RuntimeError),
        (StopIteration("bad sample"), StopIteration),
        (BrokenPipeError("bad sample"), BrokenPipeError),
        (UnicodeDecodeError("utf8", b"", 0, 1, "bad sample"), RuntimeError),
    ],
)
def test_an_exception_comes_with_its_traceback(torch, error, kind):
    def run(library):
        loader = library.utils.data.DataLoader(Fails(error), None, num_workers=2)
        iterator = iter(loader)
        assert [next(iterator) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(kind) as caught:
            next(iterator)
        assert list(iterator) == [4, 5, 6, 7]
        return str(caught.value)

    ours, theirs = run(retrograd), run(torch)
    assert ours.splitlines()[:2] == theirs.splitlines()[:2]
    assert ours.splitlines()[0] == f"Caught {type(error).__name__} in DataLoader worker process 1."
    assert ours.splitlines()[1] == "Original Traceback (most recent call last):"
    assert ours.splitlines()[-1] == theirs.splitlines()[-1]
    assert "raise self.error" in ours
    assert "test_data_workers.py" in ours


def test_an_exception_that_only_the_worker_knows():
    class LocalError(Exception):
        pass

    with pytest.raises(RuntimeError, match=r"Caught LocalError in DataLoader worker process 0\."):
        list(data.DataLoader(Fails(LocalError("odd"), 0), num_workers=1))


class EndsTheProgramError(Exception):
    def __init__(self, words):
        if "worker" in words:
            raise SystemExit(words)


class WordlessError(Exception):
    def __init__(self, words):
        super().__init__()


class CannotBeShownError(Exception):
    def __str__(self):
        raise ValueError


class CannotBePickledError(Exception):
    def __reduce__(self):
        raise TypeError("not this one")


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("odd"), ValueError),
        (TwoArgumentsError("odd", 2), RuntimeError),
        (EndsTheProgramError("odd"), RuntimeError),
        (WordlessError("odd"), WordlessError),
        (CannotBeShownError("odd"), RuntimeError),
        (CannotBePickledError("odd"), CannotBePickledError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_workers_are_gone_after_an_exception(error, kind, kept):
    # At once, without the garbage collector, and also for one who keeps the exception.
    exceptions = []
    gc.collect()  # what PyTorch has left behind in other tests
    gc.disable()
    try:
        try:
            for _ in data.DataLoader(Fails(error), None, num_workers=2):
                pass
        except Exception as caught:
            found = type(caught)
            text = "".join(traceback.format_exception(caught))
            if kept:
                exceptions.append(caught)
        assert found is kind
        assert f"Caught {type(error).__name__} in DataLoader worker process 1." in text
        assert "raise self.error" in text
        assert ("odd" in text) is not (type(error) in (WordlessError, CannotBeShownError))
        assert multiprocessing.active_children() == []
    finally:
        gc.enable()


def test_what_cannot_be_sent():
    loader = data.DataLoader(Fails(None, -1), None, collate_fn=lambda x: lambda: x, num_workers=1)
    with pytest.raises((AttributeError, RuntimeError), match=r"Caught .* in DataLoader worker"):
        next(iter(loader))


def test_failing_before_the_first_sample():
    def init(worker_id):
        raise ValueError(f"worker {worker_id} will not")

    loader = data.DataLoader(range(5), num_workers=2, worker_init_fn=init)
    iterator = iter(loader)
    for number in (0, 1):
        with pytest.raises(ValueError, match=f"process {number}.\n(.*\n)*.*worker {number} will"):
            next(iterator)

    class NoStart(data.IterableDataset):
        def __iter__(self):
            raise ValueError("no start")

    with pytest.raises(ValueError, match=r"Caught ValueError in DataLoader worker process 0\."):
        list(data.DataLoader(NoStart(), num_workers=1))


def test_a_dataset_that_cannot_be_sent_to_a_spawned_worker():
    loader = data.DataLoader(
        range(3), collate_fn=lambda x: x, num_workers=2, multiprocessing_context="spawn"
    )
    with (
        pytest.warns(UserWarning, match="Got pickle error when attempting to start a worker"),
        pytest.raises((AttributeError, TypeError), match=r"pickle|local object"),
    ):
        iter(loader)


class Dies(data.Dataset):
    def __init__(self, how):
        self.how = how

    def __getitem__(self, index):
        if index == 3:
            self.how()
        return index

    def __len__(self):
        return 8


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    ("how", "fate"),
    [
        (killed, "worker 1 was killed by signal SIGKILL"),
        (lambda: os._exit(3), "worker 1 ended with exit code 3"),
        (lambda: sys.exit(4), "worker 1 ended with exit code 4"),
    ],
)
def test_a_worker_that_dies(how, fate, persistent):
    loader = data.DataLoader(
        Dies(how), None, num_workers=2, persistent_workers=persistent, prefetch_factor=1
    )
    iterator = iter(loader)
    pid = iterator._workers[1].pid
    seen = []
    with pytest.raises(RuntimeError) as caught:
        seen.extend(iterator)  # it is told as soon as it is known, maybe before 2 has come
    assert seen == [0, 1, 2][: len(seen)]
    words = str(caught.value)
    assert words.startswith(f"DataLoader worker (pid(s) {pid}) exited unexpectedly")
    assert fate in words
    with pytest.raises(RuntimeError, match="have been stopped"):
        next(iterator)
    assert next(iter(loader)) == 0  # another epoch, with new workers


def test_a_worker_killed_from_outside():
    loader = data.DataLoader(Slow(), None, num_workers=2)
    iterator = iter(loader)
    threading.Timer(0.3, os.kill, (iterator._workers[0].pid, signal.SIGKILL)).start()
    with pytest.raises(RuntimeError, match="exited unexpectedly: worker 0 was killed by signal"):
        next(iterator)


def test_a_worker_that_dies_and_leaves_a_child(monkeypatch, tmp_path):
    """The child holds the pipe open, so nothing tells that the worker is gone but asking."""
    monkeypatch.setattr(pool, "CHECK_SECONDS", 0.2)

    def leave_a_child():
        child = os.fork()
        if child == 0:
            while not (tmp_path / "enough").exists():
                time.sleep(0.02)
        else:
            (tmp_path / "child").write_text(str(child))
        os._exit(3)

    try:
        with pytest.raises(RuntimeError, match="ended with exit code 3"):
            list(data.DataLoader(Dies(leave_a_child), None, num_workers=1))
    finally:
        (tmp_path / "enough").touch()
    assert all_gone([int((tmp_path / "child").read_text())])


def test_a_worker_that_closes_what_is_not_its_own():
    with pytest.raises(RuntimeError, match="worker"):
        list(data.DataLoader(Dies(lambda: os.closerange(3, 500)), None, num_workers=1))


def test_a_sample_number_that_cannot_be_sent():
    numbers = iter([0, 1, lambda: 2, 3])
    loader = data.DataLoader(Dies(None), None, sampler=numbers, num_workers=1, prefetch_factor=1)
    iterator = iter(loader)
    assert next(iterator) == 0
    with pytest.raises((AttributeError, TypeError), match=r"pickle|local object"):
        next(iterator)
    assert list(iterator) == []


def test_too_slow():
    loader = data.DataLoader(Slow(), None, num_workers=2, timeout=0.2)
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0\.2 seconds$"):
        next(iterator)
    seen = []
    while len(seen) < 30:
        try:
            seen.append(next(iterator))
        except RuntimeError as error:  # again, while the first is loaded or the machine is busy
            if "timed out" not in str(error):
                raise
    assert seen == list(range(30))


# -- ends --------------------------------------------------------------------------------------


def test_dropped_half_way(monkeypatch):
    monkeypatch.setattr(pool, "GRACE_SECONDS", 50.0)  # nobody is waited for
    for _ in range(3):
        iterator = iter(data.DataLoader(Large(), 2, num_workers=2))
        pids = [w.pid for w in iterator._workers]
        next(iterator)
        start = time.monotonic()
        del iterator
        assert not any(psutil.pid_exists(pid) for pid in pids)
        assert time.monotonic() - start < 40
    for number, _ in enumerate(data.DataLoader(Large(), 2, num_workers=2)):
        if number == 1:
            break


class Steady(data.Dataset):
    def __getitem__(self, index):
        time.sleep(0.1 if index < 4 else 4)
        return index

    def __len__(self):
        return 100


def test_workers_do_not_finish_their_list(monkeypatch):
    monkeypatch.setattr(pool, "GRACE_SECONDS", 50.0)  # in which they could
    iterator = iter(data.DataLoader(Steady(), num_workers=2, prefetch_factor=12))
    next(iterator)
    start = time.monotonic()
    del iterator
    assert time.monotonic() - start < 30


class NoPickle:
    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


@pytest.mark.parametrize("error", [OSError("no"), BrokenPipeError("no"), ValueError("no")])
def test_errors_of_pickling_are_errors_of_the_sample(error):
    loader = data.DataLoader([NoPickle(error)], num_workers=1, collate_fn=lambda b: b[0])
    with pytest.raises(type(error), match=r"Caught .* in DataLoader worker process 0"):
        list(loader)


def test_stuck_workers_are_ended(monkeypatch):
    monkeypatch.setattr(pool, "GRACE_SECONDS", 0.2)

    class Stuck(data.Dataset):
        def __getitem__(self, index):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(100)

        def __len__(self):
            return 3

    iterator = iter(data.DataLoader(Stuck(), num_workers=2))
    time.sleep(0.3)
    start = time.monotonic()
    del iterator
    assert time.monotonic() - start < 50


def test_a_forked_copy_of_an_iterator_stops_nobody():
    iterator = iter(data.DataLoader(Slow(), None, num_workers=1))
    child = os.fork()
    if child == 0:
        iterator.pool.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert list(iterator) == list(range(30))


def script(tmp_path, code, **options):
    path = tmp_path / "program.py"
    # A program that was started in the background may ignore what comes from the keyboard.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    path.write_text(listens + textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, **options,
    )  # fmt: skip


PROGRAM = """
    import os, sys, time
    import retrograd as torch

    class Data(torch.utils.data.Dataset):
        def __getitem__(self, index):
            time.sleep({pause})
            return torch.zeros(200_000) + index
        def __len__(self):
            return 10**6

    if __name__ == "__main__":
        loader = torch.utils.data.DataLoader(Data(), num_workers=2, persistent_workers={persistent},
                                             multiprocessing_context="{method}")
        batches = iter(loader)
        next(batches)
        print(*[w.pid for w in batches._workers], flush=True)
        {then}
    """


def running_in_group(group):
    """Those that only wait to be buried by who started them are not running."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def all_gone(pids):
    """Whether processes end, however busy the machine is."""
    pids = list(pids)
    until = time.monotonic() + 40
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
def test_the_program_ends(tmp_path, method, persistent):
    code = PROGRAM.format(pause=0, method=method, persistent=persistent, then="sys.exit(5)")
    out, err = (program := script(tmp_path, code)).communicate(timeout=120)
    assert (program.returncode, err) == (5, "")
    assert all_gone(map(int, out.split()))


def test_interrupted_while_a_spawned_worker_is_still_starting(tmp_path):
    """The first one is ready, the second one is not: its module is imported slowly."""
    slow = f"""
    import os, time
    if __name__ != "__main__":  # in a worker
        try:
            os.close(os.open({str(tmp_path / "first")!r}, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            time.sleep(1)
    """
    program = script(tmp_path, slow + PROGRAM.format(
        pause=0.05, method="spawn", persistent=False, then="[None for _ in batches]"
    ))  # fmt: skip
    assert len(program.stdout.readline().split()) == 2
    os.killpg(program.pid, signal.SIGINT)
    _, err = program.communicate(timeout=120)
    assert err.count("Traceback") == 1, err


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_interrupted_from_the_keyboard(tmp_path, method):
    then = "[None for _ in batches]"
    code = PROGRAM.format(pause=0.05, method=method, persistent=False, then=then)
    program = script(tmp_path, code)
    pids = [int(word) for word in program.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.2)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, err = program.communicate(timeout=120)
    assert program.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert all_gone(pids)


def test_interrupted_at_any_moment(tmp_path):
    """While workers are starting, too."""
    code = """
        import retrograd as torch
        loader = torch.utils.data.DataLoader(range(40), num_workers=2)
        print("go", flush=True)
        try:
            while True:
                list(loader)
        except KeyboardInterrupt:
            pass
        """
    for moment in np.linspace(0, 0.12, 5):
        program = script(tmp_path, code)
        program.stdout.readline()
        time.sleep(moment)
        os.killpg(program.pid, signal.SIGINT)
        _, err = program.communicate(timeout=120)
        assert "Traceback" not in err, err
        assert all_gone(running_in_group(program.pid))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_end_when_the_program_is_killed(tmp_path, method):
    then = "time.sleep(100)"
    code = PROGRAM.format(pause=0.01, method=method, persistent=False, then=then)
    program = script(tmp_path, code)
    pids = [int(word) for word in program.stdout.readline().split()]
    program.kill()
    assert all_gone(pids)
    _, err = program.communicate(timeout=120)
    assert "Traceback" not in err


# -- threads and forks -------------------------------------------------------------------------


class Computes(data.Dataset):
    """Enough for several threads, were there any."""

    def __getitem__(self, index):
        x = retrograd.linspace(0.0, 1.0, 600_000)
        return retrograd.sigmoid(x).sum() + retrograd.rand(1000).sum() * 0

    def __len__(self):
        return 6


def test_threads_of_the_main_process_do_not_survive_a_fork():
    before = retrograd.get_num_threads()
    retrograd.set_num_threads(3)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            retrograd.sigmoid(retrograd.linspace(0.0, 1.0, 600_000))
            retrograd.rand(10_000)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        expected = Computes()[0].item()
        for _ in range(3):
            for batch in data.DataLoader(Computes(), 3, num_workers=2):
                assert batch.flatten().tolist() == pytest.approx([expected] * 3, rel=1e-5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        retrograd.set_num_threads(before)


def test_locks_held_at_the_time_of_the_fork():
    locks = (retrograd.default_generator.lock, _node._accumulating,
             _history._making_accumulators)  # fmt: skip
    held, done = threading.Event(), threading.Event()

    def hold():
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            done.wait()

    class Learns(data.Dataset):
        def __getitem__(self, index):
            x = retrograd.rand(3, requires_grad=True)
            with retrograd.enable_grad():
                (x * 2).sum().backward()
            return x.grad

        def __len__(self):
            return 2

    job = Job(Learns(), False, False, data.default_convert, False, 1, None, 1)
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        workers = pool.WorkerPool(job, multiprocessing.get_context("fork"))
    finally:
        done.set()
        thread.join()
    workers.send(0, 0, 0)
    task, parcel = workers.receive(30)
    workers.stop()
    assert task == 0
    assert parcel.open().tolist() == [2, 2, 2]


def test_no_fork_within_a_worker():
    """As in PyTorch: workers have no workers."""

    class Nested(data.Dataset):
        def __getitem__(self, index):
            return list(data.DataLoader(range(3), num_workers=1))

        def __len__(self):
            return 1

    with pytest.raises(AssertionError, match="daemonic processes are not allowed to have children"):
        list(data.DataLoader(Nested(), num_workers=1))


# -- stopping and going on ---------------------------------------------------------------------


WORKER_MAKERS = {
    "shuffled": lambda: data.DataLoader(Noisy(), 4, shuffle=True, num_workers=2),
    "one": lambda: data.DataLoader(Noisy(), 4, shuffle=True, num_workers=1, prefetch_factor=5),
    "generator": lambda: data.DataLoader(
        Noisy(), 4, shuffle=True, num_workers=2, generator=retrograd.Generator().manual_seed(3)
    ),
    "iterable": lambda: data.DataLoader(Counts(7, 12), 2, num_workers=2),
    "replacement": lambda: data.DataLoader(
        Noisy(), 3, num_workers=2,
        sampler=data.RandomSampler(Noisy(), True, 40, retrograd.Generator().manual_seed(3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WORKER_MAKERS)
def test_going_on_with_workers(kind):
    make = WORKER_MAKERS[kind]
    retrograd.manual_seed(5)
    whole, _ = Training(make).run(2)
    for stop in (1, 2, 5, 6, 7, 9, len(whole) - 1):
        retrograd.manual_seed(5)
        first, saved = Training(make).run(2, stop)
        retrograd.manual_seed(1234)
        rest, _ = Training(make).load(saved).run(2)
        assert first + rest == whole, stop


def test_going_on_with_persistent_workers():
    """The order goes on, and so does the stream of the main process. What workers draw begins
    anew, as `load_state_dict` says."""

    def make():
        return data.DataLoader(
            range(23), 4, shuffle=True, num_workers=2, persistent_workers=True
        )  # fmt: skip

    retrograd.manual_seed(5)
    whole, _ = Training(make).run(3)
    for stop in (2, 7, 9, 14):
        retrograd.manual_seed(5)
        first, saved = Training(make).run(3, stop)
        retrograd.manual_seed(1234)
        rest, _ = Training(make).load(saved).run(3)
        assert first + rest == whole, stop


def test_a_state_in_no_order():
    loader = data.DataLoader(range(9), 2, num_workers=2, in_order=False)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(RuntimeError, match="in_order=False has no state_dict during an epoch"):
        loader.state_dict()
    list(iterator)
    assert loader.state_dict()["finished"]
