"""One program for PyTorch's ``gloo`` and for this library: what they print must be the same.

``LIBRARY`` says which it is run with. Each line of its output is a case: its name and what it
came to, which may be an error.
"""

from __future__ import annotations

PROGRAM = """
import json, os
if os.environ["LIBRARY"] == "torch":
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo", init_method=f"file://{os.environ['MEETING']}",
                            rank=int(os.environ["RANK"]), world_size=int(os.environ["SIZE"]))
else:
    import retrograd as torch
    import retrograd.distributed as dist
    from retrograd.distributed.algorithms.join import Join
    from retrograd.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
Op = dist.ReduceOp

def plain(value):
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), plain(value.tolist())]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return round(value, 9) if isinstance(value, float) else value

def case(name, function):
    try:
        came = plain(function())
    except Exception as error:
        came = [type(error).__name__, str(error)]
    print(json.dumps([name, came]), flush=True)

def data(dtype=torch.float32, shape=(2, 3), r=None):
    r = rank if r is None else r
    count = 1
    for n in shape: count *= n
    return (torch.arange(count).reshape(shape) * (r + 1) % 7 + r).to(dtype)

def zeros(count, *args, **named):
    return [torch.zeros_like(data(*args, **named)) for _ in range(count)]
"""

CALLS = '''
def changed(x, call):
    """What a call returns, and what it makes of a tensor."""
    return [call(x), x]

for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.float16):
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        case(f"all_reduce {dtype} {op}", lambda: changed(
            data(dtype), lambda x: dist.all_reduce(x, getattr(Op, op))))
for op in ("BAND", "BOR", "BXOR"):
    case(f"all_reduce {op}", lambda: changed(
        data(torch.int64), lambda x: dist.all_reduce(x, getattr(Op, op))))
case("all_reduce default", lambda: changed(data(), dist.all_reduce))
case("all_reduce turned", lambda: changed(data().t(), dist.all_reduce))
case("all_reduce nothing", lambda: changed(torch.zeros(0), dist.all_reduce))
case("all_reduce number", lambda: changed(torch.tensor(2.0), dist.all_reduce))
for src in range(size):
    case(f"broadcast {src}", lambda: changed(data(), lambda x: dist.broadcast(x, src)))
    case(f"reduce {src}", lambda: (
        x := data(), dist.reduce(x, src), x if rank == src else None)[1:])
    case(f"gather {src}", lambda: (
        rows := zeros(size) if rank == src else None, dist.gather(data(), rows, src), rows)[1:])
    case(f"scatter {src}", lambda: (
        x := torch.zeros(2, 3), dist.scatter(
            x, [data(r=10 + r) for r in range(size)] if rank == src else None, src), x)[1:])
case("all_gather", lambda: (rows := zeros(size), dist.all_gather(rows, data()), rows)[1:])
case("all_gather turned", lambda: (
    rows := [torch.zeros(3, 2) for _ in range(size)],
    dist.all_gather(rows, data().t().contiguous()), rows)[1:])
case("all_gather_into_tensor in a row", lambda: (
    out := torch.zeros(2 * size, 3), dist.all_gather_into_tensor(out, data()), out)[1:])
for op in ("SUM", "MAX"):
    case(f"reduce_scatter {op}", lambda: (
        x := torch.zeros(2, 3), dist.reduce_scatter(
            x, [data(r=rank + 2 * k) for k in range(size)], getattr(Op, op)), x)[1:])
    case(f"reduce_scatter_tensor {op}", lambda: (
        x := torch.zeros(2, 3), dist.reduce_scatter_tensor(
            x, data(shape=(2 * size, 3)), getattr(Op, op)), x)[1:])
case("all_to_all_single", lambda: (
    out := torch.zeros(size, 3), dist.all_to_all_single(out, data(shape=(size, 3))), out)[1:])
case("all_to_all_single uneven", lambda: (
    out := torch.zeros(size * (rank + 1)), dist.all_to_all_single(
        out, data(shape=(size * (size + 1) // 2,)), [rank + 1] * size,
        list(range(1, size + 1))), out)[1:])

def asynchronous():
    a, b, rows = data(), data(), zeros(size)
    works = [dist.all_reduce(a, async_op=True), dist.broadcast(b, 1, async_op=True),
             dist.all_gather(rows, data(r=rank + 3), async_op=True)]
    for work in reversed(works): work.wait()
    return [a, b, rows, [work.is_completed() for work in works]]
case("async", asynchronous)

def messages():
    peers = [r for r in range(size) if r != rank]
    works = [dist.isend(data(r=rank + r), r, tag=5 + r) for r in peers]
    got = []
    for r in reversed(peers):
        x = torch.zeros(2, 3)
        got.append([dist.recv(x, r, tag=5 + rank), x])
    for work in works: work.wait()
    return got
case("messages", messages)

def from_any():
    if rank:
        return dist.send(data(), 0, tag=3)
    x, seen = torch.zeros(2, 3), {}
    for _ in range(size - 1):
        source = dist.recv(x, tag=3)
        seen[source] = x.tolist()
    return [seen[r] for r in range(1, size)]
case("from any", from_any)

def in_group():
    pair = dist.new_group([1, 2])
    if pair is dist.GroupMember.NON_GROUP_MEMBER:
        return [dist.get_rank(pair), dist.get_world_size(pair)]
    x, y = data(), data()
    dist.all_reduce(x, group=pair)
    dist.broadcast(y, 2, group=pair)
    return [x, y, dist.get_rank(pair), dist.get_world_size(pair), dist.get_global_rank(pair, 0),
            dist.get_group_rank(pair, 2), dist.get_process_group_ranks(pair)]
case("in a group", in_group)

def objects():
    found, mine, one = [None] * size, [None], ["a", {"b": [rank]}] if rank == 1 else [None] * 2
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    dist.broadcast_object_list(one, 1)
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 2 else None, 2)
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * 2, gathered, 0)
    return [found, one, mine, gathered]
case("objects", objects)
case("barrier", dist.barrier)
case("monitored_barrier", dist.monitored_barrier)
# Mistakes that every rank notices before anything is sent.
x = data()
for name, wrong in {
    "no tensor": lambda: dist.all_reduce([x]),
    "other dtypes": lambda: dist.all_gather([x.int()] * size, x),
    "to itself": lambda: dist.send(x, rank),
    "no list": lambda: dist.gather(x, None, rank),
    "a list too many": lambda: dist.gather(x, zeros(size), (rank + 1) % size),
    "no source": lambda: dist.broadcast(x),
    "two sources": lambda: dist.broadcast(x, 0, group_src=0),
    "a stranger": lambda: dist.broadcast(x, 0, group_src=size + 1),
    "twice": lambda: dist.new_group([0, 0]),
    "too many ranks": lambda: dist.new_group(list(range(size + 1))),
    "a rank too high": lambda: dist.new_group([0, size]),
    "no operation": lambda: dist.P2POp(dist.send, x, 0),
    "no list of operations": lambda: dist.batch_isend_irecv(x),
    "again": lambda: dist.init_process_group(),
}.items():
    case("wrong: " + name, wrong)
'''

TRAINING = """
class Model(torch.nn.Module):
    def __init__(self, dtype=torch.float64):
        super().__init__()
        numbers = lambda *shape: torch.arange(1.0, 1.0 + shape[0] * shape[-1]).reshape(shape) / 7
        self.a = torch.nn.Parameter(numbers(4, 3).to(dtype) + rank)  # rank 0's will be used
        self.b = torch.nn.Parameter(numbers(2, 4).to(dtype).cos())
        self.spare = torch.nn.Parameter(numbers(2, 2).to(dtype))
        self.register_buffer("count", torch.zeros(2, dtype=dtype))

    def forward(self, x, spare=False):
        with torch.no_grad(): self.count += rank + 1
        y = torch.tanh(x @ self.a.t()) @ self.b.t()
        return y @ self.spare if spare else y

def batch(k):
    return (torch.arange(6.0, dtype=torch.float64).reshape(2, 3) + k + 2 * rank).sin()

def state(model):
    return [[p.detach().clone(), None if p.grad is None else p.grad.clone()]
            for p in model.parameters()] + [model.module.count.clone()]

def train(steps, join=None, spare=lambda k: True, accumulate=False, average=None, **options):
    model = DDP(Model(), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seen = []
    def loop():
        for k in range(steps):
            optimizer.zero_grad()
            if accumulate and k % 2:
                with model.no_sync():
                    model(batch(k + 9), spare(k)).pow(2).mean().backward()
            model(batch(k), spare(k)).pow(2).mean().backward()
            seen.append(state(model))
            optimizer.step()
    if join is None:
        loop()
    else:
        with model.join(**join): loop()
    seen.append([s for s in state(model)])
    return seen

case("steps", lambda: train(3))
case("steps in views", lambda: train(3, gradient_as_bucket_view=True))
case("unused", lambda: train(4, spare=lambda k: (k + rank) % 2 == 0, find_unused_parameters=True))
case("gathered", lambda: train(4, accumulate=True))
case("own buffers", lambda: train(2, broadcast_buffers=False))
# Ranks with different numbers of batches.
case("join", lambda: train(1 + rank, join={}))
case("join downwards", lambda: train(3 - rank, join={}))
case("join, none", lambda: train(2 * (rank > 0), join={}))
case("join, divided by those that train", lambda: train(
    1 + 2 * rank, join={"divide_by_initial_world_size": False}))
case("join, unused", lambda: train(
    1 + rank, join={}, spare=lambda k: (k + rank) % 2 == 0, find_unused_parameters=True))
case("join, gathered", lambda: train(2 + rank, join={}, accumulate=True))
case("join, even", lambda: train(2, join={}))
case("join, off", lambda: train(2, join={"enable": False}))
case("join, throws", lambda: train(2 + rank, join={"throw_on_early_termination": True}))
case("join, throws, even", lambda: train(2, join={"throw_on_early_termination": True}))
case("after", lambda: train(2))
case("nothing to join", lambda: Join([]))
"""
