"""Programs that tests run as several ranks, all after ``PRELUDE``. To start ranks takes longer than
most of them do, so tests run several in one go."""

from __future__ import annotations

PRELUDE = """
import os, sys, time, math
import retrograd as torch
import retrograd.distributed as dist
from retrograd.distributed import ReduceOp, _buffers
if "LIMIT" in os.environ:
    _buffers.LIMITS["bytes"] = int(os.environ["LIMIT"])
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
others = [r for r in range(size) if r != rank]

def raises(kind, words, function, *args, **named):
    try:
        function(*args, **named)
    except kind as error:
        assert words in str(error), f"{words!r} is not in {error}"
        return
    raise AssertionError(f"{words!r} was not raised")
"""

# Every rank can work out what the others have, so each result is compared with the same made in
# one process. Numbers are small integers: sums of them are the same in any order.
DATA = '''
TYPES = [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8,
         torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.complex64, torch.complex128]
LAYOUTS = [(), (0,), (1,), (5,), (3, 4), "transposed", "strided", "backwards"]

def data_of(r, layout, dtype):
    """What rank r has."""
    shape = layout if isinstance(layout, tuple) else (4, 6)
    count = math.prod(shape)
    values = [(7 * i + 3 * r) % 5 - (2 if dtype.is_signed else 0) for i in range(count)]
    if dtype is torch.bool:
        values = [v % 2 == 0 for v in values]
    if dtype.is_complex:
        values = [complex(v, r - v) for v in values]
    x = torch.tensor(values, dtype=dtype).reshape(shape)
    if layout == "transposed":
        return x.t()
    if layout == "strided":
        return x[:, ::2]
    return x.flip(0)[1:] if layout == "backwards" else x

def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
    assert a.tolist() == b.tolist(), (a, b)

def close(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
    assert torch.allclose(a, b, rtol={2: 1e-2}.get(a.element_size(), 1e-6)), (a, b)
'''

REDUCTIONS = (
    DATA
    + """
def combined(tensors, op):
    if tensors[0].dtype is torch.bool:
        lists = [t.reshape(-1).tolist() for t in tensors]
        how = {"SUM": any, "MAX": any, "BOR": any, "PRODUCT": all, "MIN": all, "BAND": all,
               "BXOR": lambda column: sum(column) % 2 == 1}[op.name]
        flat = [how(column) for column in zip(*lists)]
        return torch.tensor(flat, dtype=torch.bool).reshape(tensors[0].shape)
    total = tensors[0].clone()
    for t in tensors[1:]:
        if op in (ReduceOp.SUM, ReduceOp.AVG): total = total + t
        elif op is ReduceOp.PRODUCT: total = total * t
        elif op is ReduceOp.MIN: total = torch.minimum(total, t)
        elif op is ReduceOp.MAX: total = torch.maximum(total, t)
        elif op is ReduceOp.BAND: total = total & t
        elif op is ReduceOp.BOR: total = total | t
        else: total = total ^ t
    return total / len(tensors) if op is ReduceOp.AVG else total

tried = 0
for dtype in TYPES:
    whole = not (dtype.is_floating_point or dtype.is_complex)
    for op in ReduceOp:
        if dtype.is_complex and op not in (ReduceOp.SUM, ReduceOp.AVG):
            raises(ValueError, "on complex tensors", dist.all_reduce, data_of(0, (2,), dtype), op)
            continue
        if whole and op is ReduceOp.AVG:
            raises(RuntimeError, "", dist.all_reduce, data_of(0, (2,), dtype), op)
            continue
        if not whole and op.name in ("BAND", "BOR", "BXOR"):
            raises(RuntimeError, f"Cannot use ReduceOp.{op.name} with non-integral dtype",
                   dist.all_reduce, data_of(0, (2,), dtype), op)
            continue
        # Minima of the wide unsigned types are not among the operations of the library.
        if dtype in (torch.uint16, torch.uint32, torch.uint64) and op.name != "SUM":
            continue
        for layout in LAYOUTS if op is ReduceOp.SUM else [(5,), "transposed"]:
            all_data = [data_of(r, layout, dtype) for r in range(size)]
            expected = combined(all_data, op)
            x = data_of(rank, layout, dtype)
            before = x._version
            alike = close if op is ReduceOp.AVG else same  # a third is rounded
            assert dist.all_reduce(x, op) is None
            alike(x, expected)
            assert x._version > before
            y = data_of(rank, layout, dtype)
            dst = size - 1
            dist.reduce(y, dst, op)
            alike(y, expected if rank == dst else all_data[rank])
            out = torch.zeros_like(all_data[0]).contiguous()
            dist.reduce_scatter(out, [data_of(rank + 3 * k, layout, dtype) for k in range(size)],
                                op)
            alike(out, combined([data_of(r + 3 * rank, layout, dtype) for r in range(size)], op))
            tried += 1
    flat = torch.cat([data_of(rank + 3 * k, (5,), dtype) for k in range(size)])
    part = torch.zeros(5, dtype=dtype)
    dist.reduce_scatter_tensor(part, flat)
    same(part, combined([data_of(r + 3 * rank, (5,), dtype) for r in range(size)], ReduceOp.SUM))
print("reductions tried", tried)
"""
)

MOVES = (
    DATA
    + """
tried = 0
for dtype in TYPES:
    for layout in LAYOUTS:
        mine = data_of(rank, layout, dtype)
        everyones = [data_of(r, layout, dtype) for r in range(size)]
        def room(): return torch.zeros_like(data_of(9, layout, dtype))
        for src in range(size):
            x = data_of(rank, layout, dtype)
            dist.broadcast(x, src)
            same(x, everyones[src])
        rows = [room() for _ in range(size)]
        dist.all_gather(rows, mine)
        for row, expected in zip(rows, everyones): same(row, expected)
        into = torch.zeros((size, *mine.shape), dtype=dtype)
        dist.all_gather_into_tensor(into, mine)
        same(into, torch.stack(everyones))
        for dst in (0, size - 1):
            rows = [room() for _ in range(size)] if rank == dst else None
            dist.gather(mine, rows, dst)
            if rank == dst:
                for row, expected in zip(rows, everyones): same(row, expected)
            x = room()
            dist.scatter(x, [data_of(5 + r, layout, dtype) for r in range(size)]
                         if rank == dst else None, dst)
            same(x, data_of(5 + rank, layout, dtype))
        rows = [room() for _ in range(size)]
        dist.all_to_all(rows, [data_of(rank + 2 * r, layout, dtype) for r in range(size)])
        for r, row in enumerate(rows): same(row, data_of(r + 2 * rank, layout, dtype))
        x = room()
        works = [dist.isend(mine, r, tag=rank) for r in others]
        for r in others:
            assert dist.recv(x, r, tag=r) == r
            same(x, everyones[r])
        for work in works: work.wait()
        tried += 1
# uneven parts: rank r sends i + 1 rows to rank i
rows = torch.arange(size * (size + 1) // 2) + 100 * rank
out = torch.zeros((rank + 1) * size, dtype=torch.int64)
dist.all_to_all_single(out, rows, [rank + 1] * size, list(range(1, size + 1)))
start = rank * (rank + 1) // 2
assert out.tolist() == [100 * r + start + i for r in range(size) for i in range(rank + 1)]
print("moves tried", tried)
"""
)

MESSAGES = """
# Tags decide which message is meant, whatever the order.
if rank == 0:
    works = [dist.isend(torch.full((3,), float(tag)), 1, tag=tag) for tag in range(10)]
    for work in works: assert work.wait() and work.is_completed() and work.is_success()
elif rank == 1:
    got = {tag: torch.zeros(3) for tag in range(10)}
    works = [(tag, dist.irecv(got[tag], 0, tag=tag)) for tag in reversed(range(10))]
    for tag, work in works:
        work.wait()
        assert got[tag].tolist() == [float(tag)] * 3 and work.source_rank() == 0
# Several with one tag come in the order they were sent.
if rank == 0:
    for k in range(50): dist.isend(torch.full((k % 4,), float(k)), 1)
elif rank == 1:
    got = [torch.zeros(k % 4) for k in range(50)]
    works = [dist.irecv(x, 0) for x in got]
    works[-1].wait()
    for work in works: work.wait()
    assert all(x.tolist() == [float(k)] * (k % 4) for k, x in enumerate(got))
dist.barrier()
# From whoever is first.
if rank == 0:
    x, seen = torch.zeros(2), set()
    for _ in others:
        source = dist.recv(x)
        assert x.tolist() == [source, source]
        seen.add(source)
    assert seen == set(others)
else:
    dist.send(torch.full((2,), float(rank)), 0)
dist.barrier()
# Both ways at once, large: nobody waits for the other to receive first.
n = 3_000 if "LIMIT" in os.environ else 300_000  # in messages of three numbers, or in one
x, y = torch.full((n,), float(rank)), torch.zeros(n)
peer = rank ^ 1
if peer < size:
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer),
                                    dist.P2POp(dist.irecv, y, peer)])
    for work in works: work.wait()
    assert (y == peer).all()
# Async collectives may be waited for in any order, and overlap with messages.
a, b = torch.ones(3), torch.full((2,), float(rank))
first = dist.all_reduce(a, async_op=True)
second = dist.broadcast(b, size - 1, async_op=True)
second.wait(); first.wait()
assert a.tolist() == [size] * 3 and b.tolist() == [size - 1] * 2
assert first.result()[0] is a
# The same where one rank waits for each before it begins the next, and another begins them all.
# Several steps of one call must not get between those of the next.
for turn in range(30):
    x, y, z = torch.arange(2.0 * size) + rank, torch.zeros(2 * size), torch.ones(50)
    rows = [torch.zeros(50) for _ in range(size)]
    calls = [lambda: dist.all_to_all_single(y, x, async_op=True),
             lambda: dist.all_reduce(z, async_op=True),
             lambda: dist.all_gather(rows, torch.full((50,), float(rank)), async_op=True),
             lambda: dist.barrier(async_op=True)]
    works = []
    for call in calls:
        works.append(call())
        if (rank + turn) % 2: works[-1].wait()
    for work in works: work.wait()
    assert y.tolist() == [2.0 * rank + i + r for r in range(size) for i in range(2)]
    assert z.tolist() == [size] * 50
    assert [row[7].item() for row in rows] == list(range(size))
raises(ValueError, "should not be the same as the rank of the current process", dist.send, a, rank)
# To oneself, if nobody waits for it: in the order of sending, of all sizes.
given = [torch.full((n,), float(n)) for n in (3, 0, 200_000)]
works = [dist.isend(x, rank, tag=4) for x in given]
got = [torch.zeros(x.shape[0]) for x in given]
for x in got: works.append(dist.irecv(x, rank, tag=4))
for work in works: work.wait()
assert all(x.tolist() == y.tolist() for x, y in zip(got, given)) and works[-1].source_rank() == rank
raises(ValueError, "Global rank 99 is not part of group", dist.send, a, 99)
raises(ValueError, "tag must be from 0", dist.isend, a, peer if peer < size else 0, tag=-1)
raises(TypeError, "Expected parameter `tensor` of type torch.Tensor", dist.isend, [1], 0)
print("messages done")
"""

GROUPS = """
assert dist.group.WORLD is dist.GroupMember.WORLD and dist.get_backend() == "mpi"
last = dist.new_group(list(range(1, size)))
assert dist.get_rank(last) == (rank - 1 if rank else -1)
assert dist.get_world_size(last) == (size - 1 if rank else -1)
x = torch.tensor([rank])
if rank:
    dist.all_reduce(x, group=last)
    assert x.item() == sum(range(1, size))
    y = torch.tensor([rank])
    dist.broadcast(y, size - 1, last)  # ranks are those of the world
    assert y.item() == size - 1
    dist.broadcast(y.fill_(rank), group=last, group_src=0)
    assert y.item() == 1
    assert dist.get_global_rank(last, 0) == 1 and dist.get_group_rank(last, 1) == 0
    assert dist.get_process_group_ranks(last) == list(range(1, size))
    raises(ValueError, "Global rank 0 is not part of group", dist.broadcast, y, 0, last)
    dist.destroy_process_group(last)
    raises(ValueError, "was destroyed", dist.all_reduce, y, group=last)
else:
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert dist.all_reduce(x, group=last) is None
    assert "does not belong to the given group" in str(caught[0].message)
    assert dist.get_rank(last) == -1
pairs = [dist.new_group([a, b]) for a in range(size) for b in range(a + 1, size)]
for group in pairs:  # in different groups, calls need no common order
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        x = torch.tensor([2.0 ** rank])
        dist.all_reduce(x, group=group)
        assert x.item() == sum(2.0 ** r for r in group.ranks)
raises(ValueError, "must not contain duplicate entries", dist.new_group, [0, 0])
raises(ValueError, f"Rank {size} is out of range", dist.new_group, [size])
raises(ValueError, "initialize the default process group twice", dist.init_process_group)
dist.barrier()
dist.destroy_process_group()
assert not dist.is_initialized()
raises(ValueError, "has not been initialized", dist.get_rank)
dist.init_process_group("mpi", rank=rank, world_size=size)  # again
x = torch.tensor([1.0])
dist.all_reduce(x)
assert x.item() == size
print("groups done")
"""

OBJECTS = """
found = [None] * size
dist.all_gather_object(found, {"rank": rank, "text": "x" * 100 * rank})
assert found == [{"rank": r, "text": "x" * 100 * r} for r in range(size)]
values = [1, "two", {"three": 3}] if rank == 1 else [None] * 3
dist.broadcast_object_list(values, 1)
assert values == [1, "two", {"three": 3}]
found = [None] * size if rank == 0 else None
dist.gather_object(("of", rank), found, 0)
assert found == ([("of", r) for r in range(size)] if rank == 0 else None)
got = [None]
dist.scatter_object_list(got, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
assert got == [f"for {rank}"]
if rank == 0:
    dist.send_object_list(["a", [1.5]], 1)
elif rank == 1:
    got = [None, None]
    assert dist.recv_object_list(got, 0) == 0 and got == ["a", [1.5]]
print("objects done")
"""

AUTOGRAD = """
w = torch.ones(2, requires_grad=True)
dist.all_reduce(w)  # a leaf: written, no graph, as in PyTorch
assert w.tolist() == [size] * 2 and w.is_leaf and w.grad_fn is None
y = w * 3
dist.all_reduce(y)  # the graph does not know of it
assert y.tolist() == [3.0 * size * size] * 2
y.sum().backward()
assert w.grad.tolist() == [3.0, 3.0]
x = torch.ones(2, requires_grad=True)
saved = x.exp()
dist.broadcast(saved, 0)
if rank == 0:
    saved.sum().backward()  # the sender's is as it was
else:
    raises(RuntimeError, "modified by an inplace operation", saved.sum().backward)
raises(RuntimeError, "more than one element", dist.all_reduce, torch.ones(1).expand(3))
def inside(v):
    dist.all_reduce(v)
    return v
raises(RuntimeError, "inside a transform", torch.func.vmap(inside), torch.ones(2, 2))
print("autograd done")
"""

# Sums of floats depend on their order: it must be the same for all, to the last bit.
BITS = """
torch.manual_seed(rank)
x = torch.randn(1001) * 10.0 ** torch.randint(-6, 6, (1001,))
dist.all_reduce(x)
rows = [torch.zeros(1001) for _ in range(size)]
dist.all_gather(rows, x)
assert all(row.tolist() == x.tolist() for row in rows)
print("bits done")
"""
