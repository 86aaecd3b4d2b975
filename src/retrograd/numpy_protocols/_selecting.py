"""NumPy's functions that sort, search, select and count elements."""

from __future__ import annotations

from typing import Any

import retrograd as torch
from retrograd import Tensor, arrays
from retrograd.numpy_protocols._arguments import array, operands, refuse


def _flat(a: Any, axis: int | None) -> tuple[Tensor, int]:
    """The array and the axis to work along: all elements, if none is named."""
    a = array(a)
    return (a.reshape(-1), 0) if axis is None or not a.ndim else (a, axis)


def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *,
         stable: bool | None = None) -> Any:  # fmt: skip
    a, axis = _flat(a, axis)
    return torch.sort(a, dim=axis, stable=True).values


def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *,
            stable: bool | None = None) -> Any:  # fmt: skip
    a, axis = _flat(a, axis)
    return torch.argsort(a, dim=axis, stable=True)


def partition(a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """Sorted: all of the order that a partition promises, and more."""
    return sort(a, axis)


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: Any = None,
                 order: Any = None) -> Any:  # fmt: skip
    return argsort(a, axis)


def lexsort(keys: Any, axis: int = -1) -> Any:
    keys = [array(k) for k in keys]
    order = torch.argsort(keys[0], dim=axis, stable=True)
    for key in keys[1:]:
        by = torch.argsort(torch.take_along_dim(key, order, axis), dim=axis, stable=True)
        order = torch.take_along_dim(order, by, axis)
    return order


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    a, v = operands((a, v))
    a, v = a.detach(), v.detach()
    a = a if sorter is None else a[array(sorter)]
    return torch.searchsorted(a.to(torch.result_type(a, v)), v.to(torch.result_type(a, v)),
                              right=side == "right")  # fmt: skip


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    x, bins = operands((x, bins))
    falling = bins.shape[0] > 1 and bool(bins[0] > bins[-1])
    bins = torch.flip(bins, (0,)) if falling else bins
    bin_numbers = searchsorted(bins, x, "left" if right != falling else "right")
    return bins.shape[0] - bin_numbers if falling else bin_numbers


def nonzero(a: Any) -> tuple[Any, ...]:
    a = array(a)
    if not a.ndim:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() "
            "instead."
        )
    return tuple(torch.nonzero(a, as_tuple=True))


def flatnonzero(a: Any) -> Any:
    return torch.nonzero(array(a).reshape(-1), as_tuple=True)[0]


def argwhere(a: Any) -> Any:
    return torch.argwhere(array(a))


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None,
         mode: str = "raise") -> Any:  # fmt: skip
    a, axis = _flat(a, axis)
    index = array(indices).to(torch.int64)
    if mode == "wrap":
        index = torch.remainder(index, a.shape[axis])
    elif mode == "clip":
        index = torch.clamp(index, 0, a.shape[axis] - 1)
    return a[(slice(None),) * (axis % a.ndim) + (index,)]


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    arr, axis = _flat(arr, axis)
    return torch.take_along_dim(arr, array(indices).to(torch.int64), axis)


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    a, axis = _flat(a, axis)
    indices = torch.nonzero(array(condition), as_tuple=True)[0]
    return torch.index_select(a, axis, indices)


def extract(condition: Any, arr: Any) -> Any:
    return compress(array(condition).reshape(-1), array(arr).reshape(-1))


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    x = array(x)
    if weights is None:
        return torch.bincount(x, minlength=minlength)
    weights = array(weights)
    size = max(minlength, int(x.max()) + 1 if x.numel() else 0)
    return weights.new_zeros(size).index_add(0, x.to(torch.int64), weights)


def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         kind: Any = None) -> Any:  # fmt: skip
    tensors = [array(x) for x in (element, test_elements)]
    tensors = [x.to(torch.uint8) if x.dtype is torch.bool else x for x in tensors]
    if any(x.is_complex() for x in tensors):
        same = (tensors[0][..., None] == tensors[1].reshape(-1)).any(-1)
        return ~same if invert else same
    return torch.isin(*tensors, invert=invert)


def sort_complex(a: Any) -> Any:
    refuse("numpy.sort_complex")


# -- what differs -----------------------------------------------------------------------------


def unique(ar: Any, return_index: bool = False, return_inverse: bool = False,
           return_counts: bool = False, axis: int | None = None, *, equal_nan: bool = True,
           sorted: bool = True) -> Any:  # fmt: skip
    """The values are gathered, at the first place where each is, so they have a derivative."""
    ar, dim = _flat(ar, axis)
    if ar.is_complex():  # in the order of NumPy: by real parts, then by imaginary parts
        if axis is not None:
            refuse("numpy.unique of complex numbers along an axis")
        inverse, counts = (array(x) for x in arrays.protocols.unique(ar.detach().numpy()))
    else:
        _, inverse, counts = torch.unique(
            ar.detach(), return_inverse=True, return_counts=True, dim=dim
        )
    size = counts.shape[0]
    order = torch.argsort(inverse, stable=True)
    first = order[torch.cumsum(counts, 0) - counts] if size else order
    results = [torch.index_select(ar, dim, first)]
    extras = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    results += [x for wanted, x in extras if wanted]
    return results[0] if len(results) == 1 else tuple(results)


def unique_values(x: Any) -> Any:
    return unique(x)
