"""Ranks that die, fail, leave or do something else: the others stop soon, and say why."""

from __future__ import annotations

import os
import random
import re
import signal
import time

import pytest
from _distributed_programs import PRELUDE
from _mpi import Run, run

SOON = 40  # seconds in which every other rank must have stopped, on a busy machine

# Less patience than by default: a rank is given up after 3 seconds of silence, not 6.
IMPATIENT = """
from retrograd.distributed import _whereabouts
_whereabouts._NEAR, _whereabouts._LOOK = 3.0, 1.0
"""

# And after 3 seconds, not 10, a rank prints which ranks it waits for.
TALKATIVE = """
import os
from retrograd.distributed import _arrival, _work
_work._ASK, _arrival._TELL = (2.0, 599.0), 3.0

def told(*ranks):
    # Whether these ranks have printed something about others.
    return all(os.path.getsize(f"{os.path.dirname(__file__)}/{r}.err") for r in ranks)
"""

# What the ranks are at when one of them is killed.
BUSY = {
    "a collective": "while True: dist.all_reduce(torch.ones(300))",
    "async collectives": """
while True:
    works = [dist.all_reduce(torch.ones(30), async_op=True) for _ in range(8)]
    for work in works: work.wait()
""",
    "a receive": """
if rank == VICTIM: time.sleep(100)
dist.recv(torch.ones(3), VICTIM)
""",
    "a receive from another": """
if rank == VICTIM: time.sleep(100)
dist.recv(torch.ones(3), next(r for r in others if r != VICTIM))
""",
    "a large send": "dist.send(torch.ones(5_000_000), (rank + 1) % size)",
    "a barrier": """
if rank == VICTIM: time.sleep(100)
dist.barrier()
""",
    "computing": """
x = torch.ones(100)
while True: x = x * 1.0
""",
    "sleeping": "time.sleep(100)",
    "a long operation": """
a = torch.rand(3000, 3000)
while True: a @ a
""",
    "leaving": """
if rank == VICTIM: time.sleep(100)
""",
    "all of it": """
x = torch.ones(2000)
while True:
    for _ in range(20): x = x * 1.0
    dist.all_reduce(x)
    works = [dist.isend(x, (rank + 1) % size), dist.irecv(x.clone(), (rank - 1) % size)]
    for work in works: work.wait()
    dist.broadcast(x, 1)
""",
}


def kill(what: str, ranks: int, victim: int, after: float) -> None:
    program = PRELUDE + f"VICTIM = {victim}\nprint('ready')\n" + BUSY[what]
    started = Run(program, ranks)
    try:
        for rank in range(ranks):
            started.printed(rank, "ready")
        time.sleep(after)
        os.kill(started.pid(victim), signal.SIGKILL)
    finally:
        result = started.finish(SOON)
    assert result.code != 0
    for rank in set(range(ranks)) - {victim}:
        said = result.err[rank]
        assert f"rank {rank} stops" in said, result.report()
        assert f"rank {victim} (pid " in said, result.report()
        assert "died" in said, result.report()
        assert said.count("\n") == 1, result.report()


@pytest.mark.parametrize("what", BUSY)
def test_a_rank_is_killed(what):
    kill(what, 3, 1, 0.2)


@pytest.mark.parametrize("seed", range(3))
def test_a_rank_is_killed_at_any_moment(seed):
    chance = random.Random(seed)
    kill("all of it", chance.choice([2, 3, 4]), chance.randrange(2), chance.uniform(0, 0.5))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 8))
def test_a_rank_is_killed_at_any_moment_again(seed):
    chance = random.Random(seed)
    ranks = chance.choice([2, 3, 4])
    kill("all of it", ranks, chance.randrange(ranks), chance.uniform(0, 1))


def test_a_rank_with_workers_is_killed():
    # Forked workers have their parent's connections; they must not keep them open.
    program = PRELUDE + """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, i): time.sleep(0.1); return torch.ones(2)
batches = iter(torch.utils.data.DataLoader(Slow(), 2, num_workers=2))
next(batches)
print("ready")
if rank == 1: time.sleep(100)
dist.barrier()
"""  # fmt: skip
    started = Run(program, 2)
    try:
        started.printed(1, "ready")
        started.printed(0, "ready")
        os.kill(started.pid(1), signal.SIGKILL)
    finally:
        result = started.finish(SOON)
    assert "rank 1 (pid " in result.err[0], result.report()
    assert "died" in result.err[0], result.report()


def test_workers_of_ranks():
    result = run(PRELUDE + """
class Squares(torch.utils.data.Dataset):
    def __len__(self): return 6
    def __getitem__(self, i):
        raises(RuntimeError, "forked from a rank", dist.get_rank)
        return torch.tensor(float(i * i))
for epoch in range(2):
    total = sum(batch.sum() for batch in torch.utils.data.DataLoader(Squares(), 2, num_workers=2))
    dist.all_reduce(total)
assert total.item() == 55 * size
print("good")
""", 2)  # fmt: skip
    assert all("good" in out for out in result.out), result.report()


def test_a_rank_is_killed_whose_program_has_ended():
    # It stays for what others still need of it; without it they would wait for ever.
    started = Run(PRELUDE + """
print("ready")
if rank == 0:
    dist.isend(torch.ones(3_000_000), 1)
else:
    time.sleep(2)
    dist.recv(torch.ones(3_000_000), 0)
""", 2)  # fmt: skip
    try:
        for rank in (0, 1):
            started.printed(rank, "ready")
        time.sleep(0.5)
        os.kill(started.pid(0), signal.SIGKILL)
    finally:
        result = started.finish(SOON)
    assert "rank 0 (pid " in result.err[1], result.report()
    assert "died" in result.err[1], result.report()


def test_a_rank_raises():
    result = run(PRELUDE + """
def train():
    if rank == 1: raise ValueError("no such thing")
    dist.all_reduce(torch.ones(2))
train()
""", 3, expect=None)  # fmt: skip
    assert result.err[1].count("Traceback") == 1, result.report()
    assert result.err[1].endswith("ValueError: no such thing\n"), result.report()
    for rank in (0, 2):
        assert result.err[rank].count("\n") == 1, result.report()
        assert "failed: ValueError: no such thing" in result.err[rank], result.report()
        assert "rank 1 (pid " in result.err[rank], result.report()
        assert "program.py" in result.err[rank], result.report()


def test_a_rank_says_that_it_failed():
    result = run(PRELUDE + """
if rank == 0: dist.fail(OSError("the disk is full"))
while True: time.sleep(1)
""", 2, expect=None)  # fmt: skip
    assert "OSError: the disk is full" in result.err[0]
    assert "rank 0 (pid " in result.err[1], result.report()
    assert "failed: OSError: the disk is full" in result.err[1], result.report()


@pytest.mark.parametrize(
    ("last", "how"),
    [
        ("sys.exit(0)", "its program ended"),
        ("sys.exit(3)", "its program ended"),
        ("dist.destroy_process_group(); time.sleep(60)", "it called destroy_process_group"),
    ],
)
def test_a_rank_leaves_early(last, how):
    result = run(PRELUDE + f"""
x = torch.ones(1_000_000)
for _ in range(3): dist.all_reduce(x)
if rank == 1:
    dist.isend(x, 0)
    dist.isend(x, 0, tag=2)
    {last}
dist.recv(x)  # what it has sent is there
dist.recv(x, 1, tag=2)
words = "has left ({how}), but rank 0 needs it for "
for needs, name in [
    (lambda: dist.all_reduce(x), "all_reduce(float32[1000000], SUM)"),
    (lambda: dist.new_group([0]), "new_group([0])"),
    (lambda: dist.recv(x, 1), "irecv(float32[1000000], src=1)"),
    (lambda: dist.recv(x), "irecv(float32[1000000], from any rank)"),
    (lambda: dist.recv(x, 1, tag=2), "irecv(float32[1000000], src=1, tag=2)"),
    (lambda: dist.send(x, 1), "isend(float32[1000000], dst=1)"),
    (lambda: dist.monitored_barrier(), "irecv(uint8[1], src=1"),
]:
    raises(dist.PeerError, words + name, needs)
print("good")
dist.barrier()
""", 2, expect=None)  # fmt: skip
    assert "good" in result.out[0], result.report()
    said = result.err[0]
    assert "rank 0 stops at " in said, result.report()
    assert "rank 1 (pid " in said, result.report()
    assert f"has left ({how}), but rank 0 needs it for barrier()" in said, result.report()
    assert said.count("\n") == 1, result.report()


@pytest.mark.parametrize("what", ["dist.all_reduce(x, async_op=True)", "dist.isend(x, 0)"])
def test_a_rank_leaves_amid_a_call(what):
    # An interrupt ends a call that others count on: it has not been made.
    result = run(PRELUDE + f"""
x = torch.ones(4)
dist.barrier()
if rank == 1:
    def interrupted(*args, **named):
        sys.exit(0)
    calls = dist.group.WORLD.calls
    class Interrupted:
        def __getattr__(self, name):
            return interrupted if name in ("Iallreduce", "Isend") else getattr(calls, name)
    dist.group.WORLD.calls = Interrupted()
    {what}
dist.all_reduce(x) if {"all_reduce" in what} else dist.recv(x, 1)
""", 2, expect=None)  # fmt: skip
    assert "rank 1 (pid " in result.err[0], result.report()
    assert "has left (its program ended), but rank 0 needs it for " in result.err[0]


def test_a_rank_leaves_in_time():
    # What it has sent before it left still arrives, however late somebody asks for it.
    result = run(PRELUDE + """
x = torch.ones(1_000_000)
for destroys in (True, False):
    if rank == 1:
        works = [dist.isend(x, 0), dist.all_reduce(torch.ones(2), async_op=True)]
    else:
        time.sleep(0.7)
        y = torch.zeros(1_000_000)
        dist.recv(y, 1)
        z = torch.ones(2)
        dist.all_reduce(z)
        assert (y == 1).all() and z.tolist() == [2, 2]
    if destroys:
        dist.destroy_process_group()
        dist.init_process_group()
print("good")
""", 2)  # fmt: skip
    assert all("good" in out for out in result.out), result.report()


# What rank 0 calls, what rank 1, and what both are told.
DIFFERENT = [
    ("dist.all_reduce(x)", "dist.broadcast(x, 0)",
     ["rank 0: all_reduce(float32[4], SUM)", "rank 1: broadcast(float32[4], src=0)"]),
    ("dist.all_reduce(x)", "dist.all_reduce(x[:3])",
     ["rank 0: all_reduce(float32[4], SUM)", "rank 1: all_reduce(float32[3], SUM)"]),
    ("dist.all_reduce(x)", "dist.all_reduce(x.double()[:2])",
     ["rank 0: all_reduce(float32[4], SUM)", "rank 1: all_reduce(float64[2], SUM)"]),
    ("dist.all_reduce(x)", "dist.all_reduce(x, ReduceOp.MAX)",
     ["rank 0: all_reduce(float32[4], SUM)", "rank 1: all_reduce(float32[4], MAX)"]),
    ("dist.broadcast(x, 0)", "dist.broadcast(x, 1)",
     ["rank 0: broadcast(float32[4], src=0)", "rank 1: broadcast(float32[4], src=1)"]),
    ("dist.barrier()", "dist.new_group([0])", ["rank 0: barrier()", "rank 1: new_group([0])"]),
    ("dist.new_group([1])", "dist.new_group([0])",
     ["rank 0: new_group([1])", "rank 1: new_group([0])"]),
    ("dist.all_to_all_single(x, x.clone())", "dist.all_to_all_single(x.int(), x.int())",
     ["rank 0: all_to_all_single(float32)", "rank 1: all_to_all_single(int32)"]),
    ("dist.all_reduce(x, async_op=True); dist.recv(x, 1, tag=9)", "dist.barrier()",
     ["rank 0: all_reduce(float32[4], SUM)", "rank 1: barrier()"]),
]  # fmt: skip


def test_ranks_that_do_different_things():
    # The error is everybody's, and those who catch it can go on.
    body = "".join(
        f"""
def mine():
    {mine}
def theirs():
    {theirs}
for words in {words!r}:
    raises(dist.MismatchError, words, mine if rank == 0 else theirs)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    y = torch.ones(3)
    dist.all_reduce(y)
    assert y.tolist() == [size] * 3
"""
        for mine, theirs, words in DIFFERENT
    )
    result = run(PRELUDE + "x = torch.arange(4.0)\n" + body + """
# Several begun at once, of which one does not fit.
y = torch.ones(3)
works = [dist.all_reduce(y, async_op=True),
         dist.all_reduce(x, (ReduceOp.MIN, ReduceOp.MAX)[rank], async_op=True),
         dist.broadcast(y, 0, async_op=True)]
raises(dist.MismatchError, "MAX", works[1].wait)
works[0].wait(); works[2].wait()
assert y.tolist() == [size] * 3 and x.tolist() == [0.0, 1.0, 2.0, 3.0]
# Messages: who receives is told, and the others go on.
if rank == 0:
    raises(dist.MismatchError, "rank 1 sent float32[2, 2] to rank 0, which receives float32[4] at ",
           dist.recv, x, 1)
    raises(dist.MismatchError, "rank 1 sent int32[4] to rank 0, which receives float32[4] at ",
           dist.recv, x, 1)
else:
    dist.send(x.reshape(2, 2), 0); dist.send(x.int(), 0)
assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
print("good")
dist.all_to_all_single(x[:3], x, [2, 1], [2, 2] if rank == 0 else [3, 1])
""", 2, expect=None)  # fmt: skip
    assert all("good" in out for out in result.out), result.report()
    words = "rank 1 sends 3 elements to rank 0, which expects 1 in all_to_all_single(float32) at "
    assert words in result.err[0], result.report()
    assert "rank 0 (pid " in result.err[1], result.report()
    assert f"failed: retrograd.distributed.MismatchError: {words}" in result.err[1], result.report()


def test_an_error_of_all_ranks_is_everybodys():
    result = run(PRELUDE + "dist.broadcast(torch.ones(2), rank)", 2, expect=None)
    for err in result.err:
        assert "rank 0: broadcast(float32[2], src=0) at " in err, result.report()
        assert "rank 1: broadcast(float32[2], src=1) at " in err, result.report()


def test_an_error_can_be_caught():
    # A program may save what it has; it is not interrupted in that.
    started = Run(PRELUDE + """
print("ready")
if rank == 1: time.sleep(100)
try:
    dist.barrier()
except dist.PeerError as error:
    assert error.rank == 1
    time.sleep(0.1)  # Open MPI leaves half a second before it kills
    print("saved", flush=True)
    raise
""", 2)  # fmt: skip
    try:
        for rank in (0, 1):
            started.printed(rank, "ready")
        os.kill(started.pid(1), signal.SIGKILL)
    finally:
        result = started.finish(SOON)
    assert "saved" in result.out[0], result.report()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_launcher_is_stopped(number):
    started = Run(PRELUDE + "print('ready')\nwhile True: dist.all_reduce(torch.ones(3))", 3)
    try:
        for rank in range(3):
            started.printed(rank, "ready")
        started.process.send_signal(number)
    finally:
        result = started.finish(SOON)
    assert result.code != 0
    # The launcher may kill one rank before another has stopped, which then says that it died.
    assert not any("Traceback" in err for err in result.err), result.report()


def test_one_rank_is_told_to_end():
    started = Run(PRELUDE + "print('ready')\nwhile True: dist.all_reduce(torch.ones(3))", 2)
    try:
        for rank in range(2):
            started.printed(rank, "ready")
        os.kill(started.pid(1), signal.SIGTERM)
    finally:
        result = started.finish(SOON)
    assert "rank 1 (pid " in result.err[0], result.report()
    assert "was ended by SIGTERM" in result.err[0], result.report()


def test_a_program_that_handles_the_signal_itself():
    # Its handler is called, and the reason is printed all the same.
    started = Run(PRELUDE + """
import signal
def mine(number, frame):
    print("my handler", flush=True)
    os._exit(7)
if rank == 0: signal.signal(signal.SIGTERM, mine)
print("ready")
while True: torch.ones(3) * 2
""", 2)  # fmt: skip
    try:
        for rank in range(2):
            started.printed(rank, "ready")
        os.kill(started.pid(1), signal.SIGKILL)
    finally:
        result = started.finish(SOON)
    assert "my handler" in result.out[0], result.report()
    assert "rank 0 stops: rank 1 (pid " in result.err[0], result.report()


def test_nobody_comes():
    result = run(PRELUDE + """
from datetime import timedelta
if rank == 0:
    work = dist.irecv(torch.ones(2), 1)
    assert not work.is_completed()
    raises(RuntimeError, "irecv(float32[2], src=1) timed out after 0.3 seconds", work.wait, 0.3)
    group = dist.group.WORLD
    dist.send(torch.ones(2), 1)
else:
    dist.recv(torch.ones(2), 0)
    dist.send(torch.ones(2), 0)
if rank == 0: work.wait()
print("good")
""", 2)  # fmt: skip
    assert all("good" in out for out in result.out), result.report()


# -- ranks that hang ---------------------------------------------------------------------------

# What the ranks are at when rank 1 is stopped.
WAITING = {
    "a collective": "while True: dist.all_reduce(torch.ones(300))",
    "a receive": """
if rank == 1: time.sleep(100)
dist.recv(torch.ones(3), 1)
""",
    "a chain of receives": """
if rank == 1: time.sleep(100)
dist.recv(torch.ones(3), rank - 1 if rank else 2) if rank == 0 else dist.recv(torch.ones(3), 1)
""",
    "leaving": "if rank == 1: time.sleep(100)",
}


@pytest.mark.parametrize("what", WAITING)
def test_a_rank_is_stopped(what):
    # The first with the patience that users get.
    patience = "" if what == "a collective" else IMPATIENT
    started = Run(PRELUDE + patience + "print('ready')\n" + WAITING[what], 3)
    try:
        for rank in range(3):
            started.printed(rank, "ready")
        time.sleep(0.5)
        os.kill(started.pid(1), signal.SIGSTOP)
    finally:
        result = started.finish(SOON)
    assert result.code != 0
    for rank in (0, 2):
        said = result.err[rank]
        assert f"rank {rank} stops" in said, result.report()
        assert re.search(
            r"rank 1 \(pid \d+ on \S+\) is stopped by a signal: no sign of life since "
            r"\d\d:\d\d:\d\d \(\d+ s ago\), when it was at \S+program.py:\d+: ", said
        ), result.report()  # fmt: skip
        assert said.count("\n") == 1, result.report()


def test_a_rank_is_stopped_and_goes_on():
    # For a time that is not long enough to give it up, and all of them for longer than that.
    started = Run(PRELUDE + IMPATIENT + """
print("ready")
if rank == 1:
    while not os.path.exists(f"{os.path.dirname(__file__)}/enough"): time.sleep(0.1)
dist.barrier()
print("good")
""", 2)  # fmt: skip
    try:
        for rank in range(2):
            started.printed(rank, "ready")
        for stopped, seconds in (((1,), 0.5), ((0, 1), 5)):
            for rank in stopped:
                os.kill(started.pid(rank), signal.SIGSTOP)
            time.sleep(seconds)
            for rank in stopped:
                os.kill(started.pid(rank), signal.SIGCONT)
        time.sleep(1.5)  # they have looked at each other
        (started.folder / "enough").touch()
    finally:
        result = started.finish(SOON)
    assert result.code == 0, result.report()
    assert all("good" in out for out in result.out), result.report()


@pytest.mark.parametrize(
    ("busy", "heard"),
    [
        ("while not told(0, 1): time.sleep(0.1)", "which is at "),
        pytest.param("while not told(0, 1): pass", "which is at ", marks=pytest.mark.exhaustive),
        # A handler of a signal that comes amid a wait.
        (
            "signal.setitimer(signal.ITIMER_REAL, 0.5)\ndist.recv(torch.ones(2), 0, tag=9)",
            "which is at ",
        ),
        # One operation that lets no other thread run: no sign of life, but it computes.
        ("hold_on(7)", "which has not been heard of for "),
    ],
)
def test_a_rank_that_is_busy_is_named_and_waited_for(busy, heard):
    program = (
        PRELUDE
        + TALKATIVE
        + f"""
import ctypes, signal
def handler(*_):
    while not told(0, 1): time.sleep(0.1)
signal.signal(signal.SIGALRM, handler)
def hold_on(seconds):
    libc, end = ctypes.PyDLL(None), time.time() + seconds  # this way of calling keeps the lock
    libc.qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    room = ctypes.create_string_buffer(8_000_000)
    sys.setswitchinterval(1000)  # no thread gets the lock between two calls
    while time.time() < end: libc.qsort(room, 8_000_000, 1, libc.strcmp)
    sys.setswitchinterval(0.005)
def busy():
    {busy.replace(chr(10), chr(10) + "    ")}
x = torch.ones(2)
dist.all_reduce(x)
if rank == 0: dist.isend(x, 2, tag=9) if "tag=9" in {busy!r} and time.sleep(1) is None else 0
if rank == 2: busy()
if rank == 0:
    dist.recv(x, 1)  # which waits for rank 2
else:
    y = x.clone()
    if rank == 1: dist.recv(y, 2); dist.send(y, 0)
    else: dist.send(y, 1)
print("good", x.tolist())
"""
    )
    result = run(program, 3)
    assert all("good [3.0, 3.0]" in out for out in result.out), result.report()
    for rank in (0, 1):
        words = rf"rank {rank} has waited for \d+ s in irecv\(float32\[2\], src="
        assert re.match(words, result.err[rank]), result.report()
        assert re.search(rf"for rank 2 \(pid \d+ on \S+\), {heard}", result.err[rank]), (
            result.report()
        )
        assert "program.py:" in result.err[rank].partition("for rank 2")[2], result.report()
        assert result.err[rank].count("\n") == 1, result.report()
    assert result.err[2] == "", result.report()


def test_a_timeout_says_who_is_late_and_where():
    started = Run(PRELUDE + """
from datetime import timedelta
short = timedelta(seconds=1.5)
three = dist.new_group([0, 1, 2], timeout=short)
dist.barrier()
def asleep():
    time.sleep(100)
if rank == 1: asleep()
errors = []
for call in (
    lambda: dist.all_reduce(torch.ones(2), group=three),
    lambda: dist.irecv(torch.ones(2), 1).wait(0.5),
    lambda: dist.monitored_barrier(three),
)[:3 if rank == 0 else 2]:
    try:
        call()
    except RuntimeError as error:
        errors.append(str(error))
print(*errors, "done", sep="\\n", flush=True)
time.sleep(100)
""", 3)  # fmt: skip
    try:
        for rank in (0, 2):
            started.printed(rank, "done")
        os.kill(started.pid(1), signal.SIGKILL)
    finally:
        result = started.finish(SOON)
    for rank, what in (
        (0, ("all_reduce(float32[2], SUM) timed out after 1.5 seconds, at ",
             "irecv(float32[2], src=1) timed out after 0.5 seconds, at ",
             "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 1500 ms: ")),
        (2, ("all_reduce(float32[2], SUM) timed out after 1.5 seconds, at ",
             "irecv(float32[2], src=1) timed out after 0.5 seconds, at ")),
    ):  # fmt: skip
        lines = result.out[rank].splitlines()[:-1]
        assert len(lines) == len(what), result.report()
        for line, words in zip(lines, what, strict=True):
            assert line.startswith(words), result.report()
            assert re.search(
                r"it waited for rank 1 \(pid \d+ on \S+\), which is at \S+program.py:\d+: "
                r"time.sleep\(100\)$", line
            ), result.report()  # fmt: skip


def test_ranks_that_wait_for_each_other():
    result = run(PRELUDE + """
time.sleep(0.2 * rank)
x = torch.ones(2)
work = dist.irecv(x, 1 - rank)
try:
    work.wait(4)
except RuntimeError as error:
    print(error)
dist.isend(x, 1 - rank).wait()
""", 2)  # fmt: skip
    told = result.out[0]
    assert "it waited for ranks that wait for each other: " in told, result.report()
    assert "rank 0 in irecv(float32[2], src=1); " in told, result.report()
    assert "rank 1 in irecv(float32[2], src=0) at " in told, result.report()


def test_a_rank_that_never_comes():
    result = run("""
import os, time
from datetime import timedelta
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 1: time.sleep(100)
import retrograd.distributed as dist
try:
    dist.init_process_group(timeout=timedelta(seconds=2))
except RuntimeError as error:
    print(error, flush=True)
    raise
""", 3, expect=None)  # fmt: skip
    said = result.out[0] + result.out[2]
    assert re.search(
        r"init_process_group timed out after 2 seconds: rank 1 \(pid \d+ on \S+\) has not called "
        "it", said
    ), result.report()  # fmt: skip


def test_a_rank_that_comes_late():
    # One has started MPI before, by itself, and waits inside of it.
    result = run(TALKATIVE + """
import time
from datetime import timedelta
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 0: from mpi4py import MPI
if rank == 1:
    while not told(2): time.sleep(0.1)
import retrograd.distributed as dist
dist.init_process_group(timeout=timedelta(seconds=40))
dist.barrier()
print("good")
""", 3)  # fmt: skip
    assert all("good" in out for out in result.out), result.report()
    assert re.fullmatch(
        r"rank 2 has waited for \d+ s in init_process_group: rank 1 \(pid \d+ on \S+\) has not "
        r"called it\n", result.err[2]
    ), result.report()  # fmt: skip
