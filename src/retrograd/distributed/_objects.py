"""Any Python objects between ranks, pickled. Use it only between ranks that trust each other:
whoever sends a pickle can run code where it is loaded."""

from __future__ import annotations

import pickle
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import wrap
from retrograd.distributed._arguments import joined
from retrograd.distributed._collectives import broadcast
from retrograd.distributed._point_to_point import recv, send
from retrograd.distributed._ranks import in_group
from retrograd.distributed._sharing import all_gather, all_to_all


def _pickled(value: Any) -> Any:
    return wrap(arrays.array(bytearray(pickle.dumps(value))))  # of bytes, as uint8


def _loaded(tensor: Any) -> Any:
    return pickle.loads(tensor._data.tobytes())


def _room(size: Any) -> Any:
    return wrap(arrays.zeros(int(size), "u1"))


def _sizes(tensors: list[Any]) -> Any:
    return wrap(arrays.array([t._data.size for t in tensors], arrays.int64))


def _exchange(outgoing: list[Any], group: Any) -> list[Any]:
    """Send each rank one array of bytes, and receive one from each."""
    sizes = [wrap(arrays.zeros(1, arrays.int64)) for _ in outgoing]
    all_to_all(sizes, [_sizes([t]) for t in outgoing], group)
    incoming = [_room(size._data[0]) for size in sizes]
    all_to_all(incoming, outgoing, group)
    return incoming


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Collect the objects of all ranks in a list on each rank, by pickle.

    Args:
        object_list: list to fill, with an entry for each rank.
        obj: the object of this rank.

    Example:
        >>> received = [None]
        >>> dist.all_gather_object(received, {"loss": 0.5})
        >>> received
        [{'loss': 0.5}]
    """
    if (chosen := joined("all_gather_object", group)) is None:
        return
    mine = _pickled(obj)
    sizes = [wrap(arrays.zeros(1, arrays.int64)) for _ in chosen.ranks]
    all_gather(sizes, _sizes([mine]), chosen)
    # All at the length of the longest, so that they can be gathered.
    longest = max(int(size._data[0]) for size in sizes)
    padded = _room(longest)
    padded._data[: mine._data.size] = mine._data
    rows = [_room(longest) for _ in chosen.ranks]
    all_gather(rows, padded, chosen)
    for rank, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        object_list[rank] = _loaded(wrap(row._data[: int(size._data[0])]))


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """Collect the objects of all ranks in a list on rank ``dst``, by pickle.

    Args:
        obj: the object of this rank.
        object_gather_list: list to fill, on rank ``dst``.

    Example:
        >>> received = [None]
        >>> dist.gather_object("mine", received, dst=0)
        >>> received
        ['mine']
    """
    if (chosen := joined("gather_object", group)) is None:
        return
    root = in_group(chosen, 0 if dst is None and group_dst is None else dst, group_dst)
    if chosen.rank() == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if chosen.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    outgoing = [_pickled(obj) if rank == root else _room(0) for rank in range(chosen.size())]
    incoming = _exchange(outgoing, chosen)
    if object_gather_list:
        object_gather_list[:] = [_loaded(t) for t in incoming]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Copy the objects in the list of rank ``src`` to all ranks, by pickle.

    Args:
        object_list: the objects, or a list of the same length to fill.
        device: no effect.

    Example:
        >>> values = ["a", 2]
        >>> dist.broadcast_object_list(values, src=0)
        >>> values
        ['a', 2]
    """
    if (chosen := joined("broadcast_object_list", group)) is None:
        return
    root = in_group(chosen, 0 if src is None and group_src is None else src, group_src)
    mine = [_pickled(value) for value in object_list] if chosen.rank() == root else []
    sizes = _sizes(mine) if mine else wrap(arrays.zeros(len(object_list), arrays.int64))
    broadcast(sizes, group=chosen, group_src=root)
    for i, size in enumerate(sizes._data.tolist()):
        tensor = mine[i] if mine else _room(size)
        broadcast(tensor, group=chosen, group_src=root)
        if not mine:
            object_list[i] = _loaded(tensor)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Send each rank one object of the list of rank ``src``, by pickle.

    Args:
        scatter_object_output_list: list whose first entry is set.
        scatter_object_input_list: the objects, on rank ``src``.

    Example:
        >>> mine = [None]
        >>> dist.scatter_object_list(mine, ["yours"], src=0)
        >>> mine
        ['yours']
    """
    if (chosen := joined("scatter_object_list", group)) is None:
        return
    root = in_group(chosen, 0 if src is None and group_src is None else src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size >= 1.")
    objects = scatter_object_input_list or []
    if chosen.rank() == root and len(objects) != chosen.size():
        raise ValueError(
            f"scatter_object_input_list must have one object for each of the {chosen.size()} "
            f"ranks of the group, but has {len(objects)}"
        )
    mine = chosen.rank() == root
    outgoing = [_pickled(value) for value in objects] if mine else [_room(0) for _ in chosen.ranks]
    scatter_object_output_list[0] = _loaded(_exchange(outgoing, chosen)[root])


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send objects to another rank, by pickle.

    Args:
        object_list: the objects.
        dst: the receiving rank. A rank cannot send to itself.
        device: no effect.

    Example:
        >>> if dist.get_rank() == 1:  # with two processes or more; here there is one
        ...     dist.send_object_list(["a", 2], dst=0)
    """
    tensors = [_pickled(value) for value in object_list]
    for tensor in (_sizes(tensors), *tensors):
        send(tensor, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive objects from another rank, by pickle.

    Args:
        object_list: list to fill, with as many entries as are sent.
        src: the sending rank; any rank by default.
        device: no effect.

    Returns:
        The rank that the objects came from.

    Example:
        >>> values = [None, None]
        >>> if dist.get_world_size() > 1 and dist.get_rank() == 0:  # here there is one process
        ...     dist.recv_object_list(values, src=1)
    """
    sizes = wrap(arrays.zeros(len(object_list), arrays.int64))
    source = recv(sizes, src, group, group_src=group_src)
    for i, size in enumerate(sizes._data.tolist()):
        tensor = _room(size)
        recv(tensor, source, group)
        object_list[i] = _loaded(tensor)
    return source
