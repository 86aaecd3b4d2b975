"""Checks of arguments, with PyTorch's error messages."""

from __future__ import annotations

import warnings
from typing import Any

from retrograd.autograd._wrap import Plug
from retrograd.distributed._groups import ProcessGroup, is_member, resolve, world


def check_tensor(value: Any, name: str) -> None:
    """Raise an error unless the argument is a tensor."""
    if not isinstance(value, Plug.tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def check_tensors(value: Any, name: str) -> None:
    """Raise an error unless the argument is a list of tensors."""
    wanted = f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]"
    if not isinstance(value, list):
        raise TypeError(f"{wanted}\n             but got {type(value)} instead.")
    if not all(isinstance(v, Plug.tensor) for v in value):
        raise TypeError(
            f"{wanted}\n             but got {type(value)} with elements of type "
            f"{[type(v) for v in value]}."
        )


def check_dtypes(*tensors: Any) -> None:
    """Refuse tensors of different dtypes."""
    first = tensors[0]
    for tensor in tensors:
        if tensor._data.dtype != first._data.dtype:
            raise ValueError(
                "Invalid usage of tensors with different dtypes"
                f"Found {first.dtype} and  {tensor.dtype}"
            )


def check_count(tensors: list[Any], size: int, name: str) -> None:
    """Refuse a list that does not have one tensor for each rank."""
    if len(tensors) != size:
        raise ValueError(
            f"`{name}` must have one tensor for each of the {size} ranks of the group, "
            f"but has {len(tensors)}"
        )


def check_shapes(tensors: list[Any], like: Any, name: str) -> None:
    """Refuse tensors in a list whose shape is not that of the tensor they belong to."""
    for i, tensor in enumerate(tensors):
        if tensor._data.shape != like._data.shape:
            raise ValueError(
                f"{name}[{i}] has the shape {list(tensor._data.shape)}, but the tensor has "
                f"{list(like._data.shape)}: they must be the same"
            )


def joined(name: str, group: Any) -> ProcessGroup | None:
    """The group that an argument ``group`` means. For one that this process is not in, a warning,
    and None."""
    if is_member(group):
        return resolve(group)
    outside(name, 4)
    return None


def outside(name: str, stacklevel: int = 3) -> None:
    """Warn that a call was made on a group that this process is not in."""
    rank = -1 if world.group is None else world.group.rank()
    warnings.warn(
        f"Running {name} on global rank {rank} which does not belong to the given group.",
        stacklevel=stacklevel,
    )
