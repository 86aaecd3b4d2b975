"""Collating a list of samples into a batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import _batches, dtypes
from retrograd.ops.shapes.slicing import stack
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._creation import check_array, new_tensor, tensor
from retrograd.tensor._tensor import Tensor

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
_NO_NUMBERS = "SUO"  # kinds of arrays of words and objects
_LARGE = 1 << 63  # from here on, not an int64


# -- collections of the kind they were -------------------------------------------------------


def _mapping_like(sample: Any, values: dict[Any, Any]) -> Any:
    """``values`` in a mapping as the sample is one, with what else that may carry."""
    try:
        if isinstance(sample, MutableMapping):
            filled = copy.copy(sample)
            filled.update(values)
            return filled
        return type(sample)(values)
    except TypeError:  # it cannot be copied, or made from a dict
        return values


def _sequence_like(sample: Any, values: list[Any]) -> Any:
    """``values`` in a sequence as the sample is one; in a list for a tuple, as ever in PyTorch."""
    if isinstance(sample, tuple):
        return type(sample)(*values) if hasattr(sample, "_fields") else values
    try:
        if isinstance(sample, MutableSequence):
            filled = copy.copy(sample)
            for index, value in enumerate(values):
                filled[index] = value
            return filled
        return type(sample)(values)
    except TypeError:  # it cannot be copied, or made from a list
        return values


# -- one sample ------------------------------------------------------------------------------


def default_convert(data: Any) -> Any:
    """Converts the NumPy arrays of a sample to tensors, as a loader without batches does.

    Args:
        data: a sample.

    Returns:
        The sample with tensors for arrays.

    Example:
        >>> import numpy as np
        >>> from retrograd.utils.data import default_convert
        >>> default_convert({"x": np.array([0, 1]), "name": "a"})
        {'x': tensor([0, 1]), 'name': 'a'}
    """
    if isinstance(data, Tensor):
        return data
    if arrays.is_raw(data):
        words = data.dtype.kind in (_NO_NUMBERS if isinstance(data, arrays.ndarray) else "U")
        return data if words else as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _sequence_like(data, [default_convert(element) for element in data])
    return data


# -- a batch ---------------------------------------------------------------------------------


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Collate a batch with a table of functions, one for each type. A function receives the list,
    and the table as ``collate_fn_map``.

    >>> def longest(batch, *, collate_fn_map):
    ...     return max(batch, key=len)
    >>> collate([("a", 1), ("bcd", 2)], collate_fn_map={**default_collate_fn_map, str: longest})
    ['bcd', tensor([1, 2])]
    """
    first = batch[0]
    if collate_fn_map is not None:
        function = collate_fn_map.get(type(first))
        if function is None:
            kinds = (kind for kind in collate_fn_map if isinstance(first, kind))
            function = next((collate_fn_map[kind] for kind in kinds), None)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: [sample[key] for sample in batch] for key in first}
        return _mapping_like(
            first, {k: collate(v, collate_fn_map=collate_fn_map) for k, v in columns.items()}
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        parts = zip(*batch, strict=False)
    elif isinstance(first, Sequence):
        if any([len(sample) != len(first) for sample in batch]):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = zip(*batch, strict=True)
    else:
        raise TypeError(default_collate_err_msg_format.format(type(first)))
    return _sequence_like(first, [collate(p, collate_fn_map=collate_fn_map) for p in parts])


def is_plain(x: Any) -> bool:
    """Whether picking and joining such tensors leaves no trace in a graph."""
    return type(x) is Tensor and arrays.is_raw(x._data) and not x.requires_grad


def _alike(raw: Sequence[Any]) -> bool:
    """Whether arrays have one shape and dtype."""
    shape, dtype = raw[0].shape, raw[0].dtype
    return all([x.shape == shape and x.dtype == dtype for x in raw])


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """One tensor of tensors."""
    if all(map(is_plain, batch)):
        raw = [sample._data for sample in batch]
        if _alike(raw):
            return new_tensor(_batches.stacked(raw))
    for index, sample in enumerate(batch):
        if not isinstance(sample, Tensor):
            name = type(sample).__qualname__
            if type(sample).__module__ != "builtins":
                name = f"{type(sample).__module__}.{name}"
            raise TypeError(f"expected Tensor as element {index} in argument 0, but got {name}")
    return stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """One tensor of NumPy arrays."""
    if batch[0].dtype.kind in _NO_NUMBERS:
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    stacks = collate_fn_map is not None and collate_fn_map.get(Tensor) is collate_tensor_fn
    if stacks and all(isinstance(array, arrays.ndarray) for array in batch) and _alike(batch):
        check_array(batch[0])
        return new_tensor(_batches.stacked(batch))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """One tensor of NumPy's numbers."""
    kind = batch[0].dtype.kind
    if kind in "SU":
        return batch
    if kind not in "biufc":
        raise TypeError(default_collate_err_msg_format.format(type(batch[0])))
    return as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """One tensor of Python's numbers, as precise as they are."""
    if set(map(type, batch)) == {float}:
        return new_tensor(arrays.array(batch, arrays.float64))
    return tensor(batch, dtype=dtypes.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """One tensor of integers or truths."""
    if set(map(type, batch)) == {int} and min(batch) > -_LARGE and max(batch) < _LARGE:
        return new_tensor(arrays.array(batch, arrays.int64))
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Words stay in their list."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    arrays.RAW_TYPES[0]: collate_numpy_array_fn,
    arrays.RAW_TYPES[1]: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Combines a list of samples into a batch.

    Tensors, arrays and numbers are stacked along a new first dimension, strings are listed, and
    collections become collections of batches.

    Args:
        batch: the samples.

    Returns:
        The batch.

    Example:
        >>> from retrograd.utils.data import default_collate
        >>> default_collate([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
        {'x': tensor([1, 2]), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
