"""Calls between ranks, in real runs of mpiexec."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import _distributed_programs as programs
import _mpi
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import _buffers, _calls, _network
from retrograd.distributed import _mpi as finding


@pytest.mark.parametrize(
    ("ranks", "limit", "parts"),
    [
        (2, None, "REDUCTIONS MOVES MESSAGES AUTOGRAD"),
        (3, None, "REDUCTIONS MOVES MESSAGES OBJECTS BITS GROUPS"),
        # What is over MPI's limit is cut: here the limit is three numbers.
        pytest.param(2, "24", "REDUCTIONS MOVES MESSAGES", marks=pytest.mark.long),
        (4, None, "GROUPS"),
    ],
)
def test_calls(ranks, limit, parts):
    program = programs.PRELUDE + "".join(getattr(programs, part) for part in parts.split())
    result = _mpi.run(program, ranks, timeout=180, env={"LIMIT": limit} if limit else None)
    for out in result.out:
        for part in parts.split():
            how = {"REDUCTIONS": "tried 228", "MOVES": f"tried {15 * 8}"}.get(part, "done")
            assert f"{part.lower()} {how}\n" in out, result.report()
    assert not any(result.err), result.report()


# -- a world of one --------------------------------------------------------------------------


@pytest.fixture
def alone():
    dist.init_process_group()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_alone(alone):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "mpi")
    x = rg.tensor([1.0, 2.0])
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        assert dist.all_reduce(x, op) is None
        assert x.tolist() == [1.0, 2.0]
    y = rg.zeros(2)
    dist.all_gather([y], x)
    assert y.tolist() == [1.0, 2.0]
    dist.reduce_scatter(y, [x * 2])
    assert y.tolist() == [2.0, 4.0]
    dist.scatter(y, [x * 3])
    assert y.tolist() == [3.0, 6.0]
    dist.all_to_all_single(y, x)
    assert y.tolist() == [1.0, 2.0]
    half = rg.tensor([0.5, 1.5], dtype=rg.float16)
    dist.all_reduce(half)
    assert half.tolist() == [0.5, 1.5]
    work = dist.all_reduce(x, async_op=True)
    assert work.wait()
    assert work.is_completed()
    assert work.result()[0] is x
    dist.barrier()
    dist.monitored_barrier()
    assert dist.new_group().size() == 1


def test_messages_to_oneself(alone):
    x, y, z = rg.arange(3.0), rg.zeros(3), rg.zeros(2, 2)
    first = dist.irecv(y, 0, tag=1)
    assert not first.is_completed()
    sent = [dist.isend(x, 0, tag=1), dist.isend(rg.ones(2, 2), 0)]
    assert first.wait()
    assert y.tolist() == [0.0, 1.0, 2.0]
    assert all(work.wait() for work in sent)
    anyone = dist.irecv(z)
    assert anyone.wait()
    assert (z.tolist(), anyone.source_rank()) == ([[1.0, 1.0], [1.0, 1.0]], 0)
    with pytest.raises(RuntimeError, match=r"irecv\(float32\[3\], src=0\) timed out after 0.05 s"):
        dist.irecv(x, 0).wait(0.05)
    with pytest.raises(RuntimeError, match="more than one element"):
        dist.irecv(rg.ones(1).expand(3), 0)


def test_mistakes_in_pytorchs_words(alone):
    x = rg.ones(3)
    for kind, words, call in [
        (TypeError, "Expected parameter `tensor` of type torch.Tensor\n             but got <class "
         "'list'> instead.", lambda: dist.all_reduce([x])),
        (ValueError, "Invalid usage of tensors with different dtypesFound torch.int32 and  "
         "torch.float32", lambda: dist.all_gather([rg.zeros(3, dtype=rg.int32)], x)),
        (ValueError, "Invalid destination rank: destination rank should not be the same as the "
         "rank of the current process.", lambda: dist.send(x, 0)),
        (ValueError, "Argument ``gather_list`` must be specified on destination rank.",
         lambda: dist.gather(x, None, 0)),
        (ValueError, "Argument ``scatter_list`` must be specified on source rank.",
         lambda: dist.scatter(x, None, 0)),
        (RuntimeError, "Split sizes doesn't match total dim 0 size",
         lambda: dist.all_to_all_single(rg.zeros(3), x, [1], [3])),
        (ValueError, "ranks list must not contain duplicate entries, got [0, 0]",
         lambda: dist.new_group([0, 0])),
        (ValueError, "the new group's world size should be less or equal to the world size set by "
         "init_process_group", lambda: dist.new_group([0, 2])),
        (ValueError, "trying to initialize the default process group twice!",
         dist.init_process_group),
        (ValueError, "Must specify global_rank or group_rank", lambda: dist.broadcast(x)),
        (ValueError, "Can't specify both group_rank and global_rank",
         lambda: dist.broadcast(x, 0, group_src=0)),
        # and in words of our own, where PyTorch's backend says something about its own inside
        (ValueError, "tensor_list[0] has the shape [2], but the tensor has [3]",
         lambda: dist.all_gather([rg.zeros(2)], x)),
        (ValueError, "must have one tensor for each of the 1 ranks",
         lambda: dist.all_gather([], x)),
        (ValueError, "must have 1 times the elements",
         lambda: dist.all_gather_into_tensor(rg.zeros(2), x)),
        (TypeError, "op must be one of ReduceOp", lambda: dist.all_reduce(x, "sum")),
    ]:  # fmt: skip
        with pytest.raises(kind) as raised:
            call()
        assert words in str(raised.value)
    assert x.tolist() == [1.0] * 3


def test_before_and_after():
    for call in (dist.get_rank, dist.get_world_size, lambda: dist.all_reduce(rg.ones(1))):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(ValueError, match="backend 'nccl' is not available"):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match="world_size=4 was given"):
        dist.init_process_group(world_size=4)
    with pytest.raises(TypeError, match="Expected timeout argument to be of type"):
        dist.init_process_group(timeout=3)
    assert not dist.is_initialized()
    assert dist.is_available()


def test_mpi_is_missing(monkeypatch):
    monkeypatch.setattr(finding, "is_installed", lambda: False)
    dist.init_process_group()  # alone, it is not needed
    dist.destroy_process_group()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match=r'one of 4 processes.*pip install "retrograd\[mpi\]"'):
        dist.init_process_group()
    assert not dist.is_initialized()


def test_the_package_is_not_loaded_by_the_library():
    program = "import sys, retrograd; print([m for m in sys.modules if 'distributed' in m])"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.strip() == "[]", said


def test_two_launchers_that_do_not_fit():
    _mpi.need_mpi()
    program = "import mpi4py.MPI, retrograd.distributed as d; d.init_process_group()"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PMI_SIZE": "3"},
    )  # fmt: skip
    assert "the launcher started 3 processes, but the MPI" in said.stderr, said


# -- pieces of it ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5, 6, 13, 64, 100])
def test_news_reaches_everybody(size):
    near = {rank: _network.neighbours(rank, size) for rank in range(size)}
    for rank, peers in near.items():
        assert rank not in peers
        assert all(rank in near[peer] for peer in peers)
    for silent in range(0, size, 7):  # a rank that passes nothing on does not cut anybody off
        reached, to_visit = {0 if silent else 1}, [0 if silent else 1]
        while to_visit:
            for peer in near[to_visit.pop()]:
                if peer not in reached and peer != silent:
                    reached.add(peer)
                    to_visit.append(peer)
        assert reached == set(range(size)) - {silent}


def test_fingerprints_differ_where_calls_do():
    def call(name, shape, dtype, *detail):
        return _calls.Call(name, rg.zeros(shape, dtype=dtype), detail).fingerprint()

    prints = {
        call(name, shape, dtype, detail)
        for name in ("all_reduce", "broadcast", "reduce")
        for shape in ((), (0,), (2,), (2, 3), (3, 2), (6,), (1, 6))
        for dtype in (rg.float32, rg.float64, rg.int64)
        for detail in (0, 1)
    }
    assert len(prints) == 3 * 7 * 3 * 2
    assert all(0 <= number < 1 << 62 for number in prints)


@pytest.mark.parametrize(("size", "limit", "count"), [(0, 16, 1), (4, 16, 1), (5, 16, 2)])
def test_pieces(monkeypatch, size, limit, count):
    monkeypatch.setitem(_buffers.LIMITS, "bytes", limit)
    found = _buffers.pieces(rg.arange(size, dtype=rg.int32)._data)
    assert len(found) == count
    assert [n for piece in found for n in piece.tolist()] == list(range(size))


def test_not_in_the_group_is_a_warning(alone):
    with pytest.warns(UserWarning, match="Running all_reduce on global rank 0 which does not"):
        assert dist.all_reduce(rg.ones(1), group=dist.GroupMember.NON_GROUP_MEMBER) is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert dist.recv(rg.ones(1), 0, dist.GroupMember.NON_GROUP_MEMBER) == -1
