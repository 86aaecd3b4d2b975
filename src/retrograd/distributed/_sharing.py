"""Collectives on a list of tensors: ``all_gather``, ``scatter`` and so on.

What all ranks exchange at once is moved through one array with a row for each rank, in segments
small enough for MPI's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retrograd import arrays
from retrograd.distributed import _reductions as reductions
from retrograd.distributed._arguments import (
    check_count,
    check_dtypes,
    check_shapes,
    check_tensor,
    check_tensors,
    joined,
    outside,
)
from retrograd.distributed._buffers import LIMITS, as_bytes, flat, pieces, to_read, to_write
from retrograd.distributed._calls import DTYPES, Call
from retrograd.distributed._collectives import put_back, run
from retrograd.distributed._errors import MismatchError
from retrograd.distributed._groups import ProcessGroup, is_member, resolve, world
from retrograd.distributed._point_to_point import TAGS
from retrograd.distributed._ranks import in_group
from retrograd.distributed._reductions import ReduceOp
from retrograd.distributed._work import More, Steps, Work
from retrograd.ops._sections import sections

Target = tuple[Any, Callable[[], None]]


def _stretches(row: Any, count: int) -> Iterator[tuple[slice, type[list[Any]]]]:
    """The segments of a flat array to move at once, if ``count`` arrays are moved together, and
    what their requests are collected in."""
    most = max(LIMITS["bytes"] // (row.itemsize * count), 1)
    for start in range(0, max(row.size, 1), most):
        yield slice(start, start + most), More if start + most < row.size else list


def _gathering(
    source: Any, targets: list[Target], count: int, begin: Callable[[Any, Any], Any]
) -> Steps:
    """Gather the arrays of all ranks into ``targets``; ranks without targets only send."""
    row = as_bytes(source)
    for stretch, requests in _stretches(row, count):
        part = row[stretch]
        rows: Any = arrays.empty((count, part.size), "u1") if targets else None
        yield requests([begin(part, rows)])
        for rank, (array, _) in enumerate(targets):
            as_bytes(array)[stretch] = rows[rank]
    for _, written in targets:
        written()


def _parts(tensor: Any, count: int) -> list[Target]:
    """A tensor as one target for each rank."""
    array, written = to_write(tensor)
    rows = array.reshape(count, -1)
    return [(row, written if rank == 0 else _nothing) for rank, row in enumerate(rows)]


def _nothing() -> None:
    """The first part of a tensor reports that the whole was written; the others do nothing."""


def _check_parts(name: str, whole: Any, part: Any, count: int) -> None:
    check_dtypes(whole, part)
    if whole._data.size != part._data.size * count:
        raise ValueError(
            f"{name}: the tensor of all ranks must have {count} times the elements of the tensor "
            f"of one, but they have {whole._data.size} and {part._data.size}"
        )


_ASYNC = """\
Returns:
    The ``Work`` if ``async_op``, else None.
"""


@sections(_ASYNC)
def all_gather(
    tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Collect the tensors of all ranks in a list on each rank.

    Args:
        tensor_list: tensors to receive into, one for each rank.
        tensor: the tensor of this rank.

    Example:
        >>> received = [torch.zeros(2)]
        >>> dist.all_gather(received, torch.ones(2))
        >>> received
        [tensor([1., 1.])]
    """
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    check_dtypes(*tensor_list, tensor)
    if (chosen := joined("all_gather", group)) is None:
        return None
    check_count(tensor_list, chosen.size(), "tensor_list")
    check_shapes(tensor_list, tensor, "tensor_list")
    source, targets = to_read(tensor), [to_write(t) for t in tensor_list]
    move = lambda: _gathering(source, targets, chosen.size(), chosen.data.Iallgather)
    return run(Call("all_gather", tensor), chosen, move, tensor_list, async_op)


@sections(_ASYNC)
def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Collect the tensors of all ranks in one tensor, along its first dimension or along a new one.

    Args:
        output_tensor: tensor to receive into.
        input_tensor: the tensor of this rank.

    Example:
        >>> received = torch.zeros(1, 2)
        >>> dist.all_gather_into_tensor(received, torch.ones(2))
        >>> received
        tensor([[1., 1.]])
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if (chosen := joined("all_gather_into_tensor", group)) is None:
        return None
    _check_parts("all_gather_into_tensor", output_tensor, input_tensor, chosen.size())
    source, targets = to_read(input_tensor), _parts(output_tensor, chosen.size())
    move = lambda: _gathering(source, targets, chosen.size(), chosen.data.Iallgather)
    call = Call("all_gather_into_tensor", input_tensor)
    return run(call, chosen, move, [output_tensor], async_op)


def gather(
    tensor: Any, gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Collect the tensors of all ranks in a list on rank ``dst``.

    Args:
        tensor: the tensor of this rank.
        gather_list: tensors to receive into, on rank ``dst``.

    Example:
        >>> received = [torch.zeros(2)]
        >>> dist.gather(torch.ones(2), received, dst=0)
        >>> received
        [tensor([1., 1.])]
    """
    check_tensor(tensor, "tensor")
    wanted = gather_list or []
    check_tensors(wanted, "gather_list")
    check_dtypes(tensor, *wanted)
    if (chosen := joined("gather", group)) is None:
        return None
    root = in_group(chosen, 0 if dst is None and group_dst is None else dst, group_dst)
    _check_list(wanted, "gather_list", chosen.rank() == root, "destination")
    if wanted:
        check_count(wanted, chosen.size(), "gather_list")
        check_shapes(wanted, tensor, "gather_list")
    source, targets = to_read(tensor), [to_write(t) for t in wanted]
    begin = lambda part, rows: chosen.data.Igather(part, rows, root)
    move = lambda: _gathering(source, targets, chosen.size(), begin)
    call = Call("gather", tensor, (root,), f"dst={chosen.ranks[root]}")
    return run(call, chosen, move, wanted, async_op)


def _check_list(tensors: list[Any], name: str, mine: bool, kind: str) -> None:
    if mine and not tensors:
        raise ValueError(f"Argument ``{name}`` must be specified on {kind} rank.")
    if tensors and not mine:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{kind} ranks.")


def scatter(
    tensor: Any, scatter_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Send each rank one tensor of the list of rank ``src``.

    Args:
        tensor: tensor to receive into.
        scatter_list: the tensors, on rank ``src``.

    Example:
        >>> mine = torch.zeros(2)
        >>> dist.scatter(mine, [torch.ones(2)], src=0)
        >>> mine
        tensor([1., 1.])
    """
    check_tensor(tensor, "tensor")
    tensors = scatter_list or []
    check_tensors(tensors, "scatter_list")
    check_dtypes(tensor, *tensors)
    if (chosen := joined("scatter", group)) is None:
        return None
    root = in_group(chosen, 0 if src is None and group_src is None else src, group_src)
    _check_list(tensors, "scatter_list", chosen.rank() == root, "source")
    if tensors:
        check_count(tensors, chosen.size(), "scatter_list")
        check_shapes(tensors, tensor, "scatter_list")
    sources = [to_read(t) for t in tensors]
    array, written = to_write(tensor)

    def move() -> Steps:
        row = as_bytes(array)
        for stretch, requests in _stretches(row, chosen.size()):
            rows = arrays.stack([as_bytes(s)[stretch] for s in sources]) if sources else None
            yield requests([chosen.data.Iscatter(rows, row[stretch], root)])
        written()

    call = Call("scatter", tensor, (root,), f"src={chosen.ranks[root]}")
    return run(call, chosen, move, [tensor], async_op)


def _reducing(
    name: str, output: Any, sources: Callable[[], list[Any]], op: ReduceOp, group: ProcessGroup,
    async_op: bool,
) -> Work | None:  # fmt: skip
    """Reduce the parts of all ranks, and give each rank its part."""
    reductions.check(name, op, output._data.dtype.kind)
    array, written = to_write(output)
    rows_given = sources()

    def move() -> Steps:
        target = flat(array)
        operation = reductions.in_mpi(world.mpi, op, array.dtype.kind)
        for stretch, requests in _stretches(target, group.size()):
            whole = arrays.concatenate([flat(row)[stretch] for row in rows_given])
            numbers, _ = reductions.workable(whole)
            result, back = reductions.workable(target[stretch])
            yield requests([group.data.Ireduce_scatter_block(numbers, result, operation)])
            put_back(target[stretch], result, back, op, group.size())
        written()

    return run(Call(name, output, (op.value,), op.name), group, move, [output], async_op)


@sections(_ASYNC)
def reduce_scatter(
    output: Any, input_list: list[Any], op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce the lists of all ranks element by element, and give each rank one of the results.

    Args:
        output: tensor to receive into.
        input_list: tensors of this rank, one for each rank.

    Example:
        >>> mine = torch.zeros(2)
        >>> dist.reduce_scatter(mine, [torch.ones(2)])
        >>> mine
        tensor([1., 1.])
    """
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    check_dtypes(output, *input_list)
    if (chosen := joined("reduce_scatter", group)) is None:
        return None
    check_count(input_list, chosen.size(), "input_list")
    check_shapes(input_list, output, "input_list")
    sources = lambda: [to_read(t) for t in input_list]
    return _reducing("reduce_scatter", output, sources, op, chosen, async_op)


@sections(_ASYNC)
def reduce_scatter_tensor(
    output: Any, input: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce the tensors of all ranks, and give each rank one part of the result.

    Args:
        output: tensor to receive into.
        input: the tensor of this rank.

    Example:
        >>> mine = torch.zeros(2)
        >>> dist.reduce_scatter_tensor(mine, torch.ones(2))
        >>> mine
        tensor([1., 1.])
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    if (chosen := joined("reduce_scatter_tensor", group)) is None:
        return None
    _check_parts("reduce_scatter_tensor", input, output, chosen.size())
    sources = lambda: list(to_read(input).reshape(chosen.size(), -1))
    return _reducing("reduce_scatter_tensor", output, sources, op, chosen, async_op)


# -- from all to all -------------------------------------------------------------------------


def _exchanging(
    group: ProcessGroup, call: Call, sources: Sequence[Any], targets: Sequence[Target]
) -> Steps:
    """Send each rank its array and receive one from each, once the sizes are known to fit."""
    sizes = arrays.array([s.size for s in sources], arrays.int64)
    incoming = arrays.zeros(len(sources), arrays.int64)
    yield More([group.data.Ialltoall(sizes, incoming)])
    for rank, (array, _) in enumerate(targets):
        if incoming[rank] != array.size:
            raise MismatchError(
                f"rank {group.ranks[rank]} sends {incoming[rank]} elements to rank "
                f"{group.ranks[group.rank()]}, which expects {array.size} in {call} at "
                f"{call.where()}"
            )
    me, requests = group.rank(), []
    for rank, (array, _) in enumerate(targets):
        if rank != me:
            for piece in pieces(as_bytes(array)):
                requests.append(group.data.Irecv(piece, rank, TAGS))
    for rank, source in enumerate(sources):
        if rank != me:
            for piece in pieces(as_bytes(source)):
                requests.append(group.data.Isend(piece, rank, TAGS))
    arrays.write(targets[me][0].reshape(-1), sources[me].reshape(-1))
    yield requests
    for _, written in targets:
        written()


@sections(_ASYNC)
def all_to_all(
    output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send each rank one tensor of a list, and receive one from each.

    Args:
        output_tensor_list: tensors to receive into, one from each rank.
        input_tensor_list: tensors to send, one to each rank.

    Example:
        >>> received = [torch.zeros(2)]
        >>> dist.all_to_all(received, [torch.ones(2)])
        >>> received
        [tensor([1., 1.])]
    """
    if not is_member(group):
        outside("all_to_all")
        return None
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    check_dtypes(*output_tensor_list, *input_tensor_list)
    chosen = resolve(group)
    check_count(output_tensor_list, chosen.size(), "output_tensor_list")
    check_count(input_tensor_list, chosen.size(), "input_tensor_list")
    dtype = input_tensor_list[0]._data.dtype.name
    call = Call("all_to_all", detail=(DTYPES.index(dtype),), words=dtype)
    sources = [to_read(t) for t in input_tensor_list]
    targets = [to_write(t) for t in output_tensor_list]
    move = lambda: _exchanging(chosen, call, sources, targets)
    return run(call, chosen, move, output_tensor_list, async_op)


@sections(_ASYNC)
def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send each rank some rows of a tensor, and receive rows from each.

    Args:
        output: tensor to receive into.
        input: tensor to send.
        output_split_sizes: number of rows from each rank; equal parts by default.
        input_split_sizes: number of rows for each rank; equal parts by default.

    Example:
        >>> received = torch.zeros(2)
        >>> dist.all_to_all_single(received, torch.ones(2))
        >>> received
        tensor([1., 1.])
    """
    if not is_member(group):
        outside("all_to_all_single")
        return None
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_dtypes(output, input)
    chosen = resolve(group)
    sends = _splits(input, input_split_sizes, chosen.size())
    receives = _splits(output, output_split_sizes, chosen.size())
    source = to_read(input)
    array, written = to_write(output)
    sources = [source[part] for part in sends]
    targets: list[Target] = [
        (array[part], written if rank == 0 else _nothing) for rank, part in enumerate(receives)
    ]
    dtype = input._data.dtype.name
    call = Call("all_to_all_single", detail=(DTYPES.index(dtype),), words=dtype)
    move = lambda: _exchanging(chosen, call, sources, targets)
    return run(call, chosen, move, [output], async_op)


def _splits(tensor: Any, sizes: Sequence[int] | None, count: int) -> list[slice]:
    """The rows of a tensor that belong to each rank."""
    rows = tensor._data.shape[0] if tensor._data.ndim else 0
    if not sizes:
        if rows % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [rows // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    ends = [sum(sizes[: rank + 1]) for rank in range(count)]
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
