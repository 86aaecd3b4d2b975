"""Making Tensors below the layer that defines them: the tensor layer plugs its class in here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.arrays import Raw
from retrograd.ops._operation import TensorLike


class Plug:
    """Holds the Tensor class once the tensor layer has been loaded, and once the package has been,
    functions that return ``torch.compiler``, what answers NumPy's protocols, ``torch.sparse``,
    the namespace of the array API, and tensors on devices."""

    tensor: type[Any] = TensorLike
    compiler: Callable[[], Any]
    protocols: Callable[[], Any]
    sparse: Callable[[], Any]
    array_api: Callable[[], Any]
    devices: Callable[[], Any]


SPARSE: set[type] = set()  # classes of sparse tensors, once there are any: gradients may be such


def wrap(
    data: Raw, node: Any = None, number: int | None = None, version: Any = None, meta: Any = None
) -> Any:
    """A Tensor of ``data``, output ``number`` of ``node`` where it comes out of one."""
    tensor: Any = object.__new__(Plug.tensor)
    tensor._data = data
    tensor._node = node
    tensor._version_counter = version
    tensor._meta = meta
    if number is not None:
        tensor._number = number
    return tensor


def as_tensor(g: Any) -> Any:
    """A gradient of a pass that is not recorded, as a Tensor. Sparse ones always are."""
    return g if type(g) in SPARSE else wrap(g)


def total(a: Any, b: Any) -> Any:
    """The sum of two gradients of which one or both may be sparse: dense unless both are."""
    if type(a) in SPARSE and type(b) not in SPARSE:
        a, b = b, a  # a sparse tensor plus a dense one, in this order, is an error
    return a + b if isinstance(a, Plug.tensor) else (wrap(a) + b)._data


def array_of(g: Any) -> Any:
    """The array of a gradient, sparse or not."""
    return (g.to_dense() if type(g) in SPARSE else g)._data
