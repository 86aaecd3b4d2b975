"""Where a backward pass starts: the node of each output, and the first gradient.

Users name outputs by tensors or by edges of the graph, and gradients by tensors, or not at all for
a scalar. All that is checked here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._engine import Root
from retrograd.autograd._history import edge
from retrograd.autograd._node import NOWHERE, Node
from retrograd.autograd._wrap import Plug, wrap
from retrograd.ops._lifted import Lifted, device_value


class GradientEdge(NamedTuple):
    """An edge of the graph: a node, and the index of one of its outputs.

    Args:
        node: the node.
        output_nr: index of the output.
        ownership_token: keeps the node of a leaf alive.

    Example:
        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> torch.autograd.graph.get_gradient_edge(y).output_nr
        0
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


class _KnownEdge(GradientEdge):
    """An edge that knows what its tensor was like, which a node does not know of its results."""

    shape: Any
    dtype: Any


_KnownEdge.__name__ = "GradientEdge"


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Returns the edge of the graph along which the gradient of a tensor flows.

    It stays valid if the tensor is written in place, and keeps no values alive.

    Args:
        tensor: a tensor that requires grad.

    Returns:
        A named tuple of a node and the index of its output, which ``grad`` and ``backward`` accept
        in place of the tensor.

    Example:
        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> torch.autograd.graph.get_gradient_edge(y).node.name()
        'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    node, number = edge(tensor)
    assert node is not None
    result = _KnownEdge(node, number or 0, None)
    result.shape, result.dtype = tensor.shape, tensor.dtype
    return result


def is_tensor(value: object) -> bool:
    return isinstance(value, Plug.tensor)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One tensor or edge, or several, as a tuple."""
    if is_tensor(value) or isinstance(value, GradientEdge):
        return (value,)
    return tuple(value)


def locate(target: Any) -> tuple[Node | None, int | None]:
    """The node and output number of a tensor or edge; the number is None for an only output."""
    if isinstance(target, GradientEdge):
        if not isinstance(target.node, Node):
            raise TypeError(
                f"the node of a GradientEdge must be a Node, but got {type(target.node).__name__}"
            )
        several = getattr(target.node, "outputs", None)
        return target.node, target.output_nr if several is not None else None
    values = target._differentiated
    return edge(target if values is None else values())


def as_gradients(given: Any, count: int) -> tuple[Any, ...]:
    gradients = (None,) * count if given is None else as_tuple(given)
    if len(gradients) != count:
        raise RuntimeError(f"got {count} tensors and {len(gradients)} gradients")
    return gradients


def make_roots(
    outputs: tuple[Any, ...], given: tuple[Any, ...], recorded: bool, batched: bool = False
) -> list[Root]:
    """The node of each output and the gradient to start from: what was given, checked and in the
    output's dtype, or one for a scalar."""
    return [
        root_of(i, output, recorded, g, batched)
        for i, (output, g) in enumerate(zip(outputs, given, strict=True))
    ]


def root_of(i: int, output: Any, recorded: bool, g: Any = None, batched: bool = False) -> Root:
    """The root of output ``i``."""
    plain = type(output) is Plug.tensor
    node, number = edge(output) if plain else locate(output)
    if node is None or node is NOWHERE:
        from retrograd.autograd._explaining._hints import without_history

        raise without_history(
            RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        )
    if g is None:
        data = getattr(output, "_data", None)
        if data is not None and data.size == 1 and data.dtype.kind in dtypes.FLOATS:
            start: Any
            if isinstance(data, Lifted) and not data.level.number:  # on a device
                start = data.level.ones_like(data)
            else:
                start = arrays.ones(data.shape, data.dtype)
                there = device_value(data) if Lifted.device_level is not None else None
                start = start if there is None else there.placed(start)
        else:
            start = implicit_gradient(output)
        return node, number, wrap(start) if recorded else start
    if not is_tensor(g):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    known = output if plain else described(output)
    data, own = getattr(known, "_data", None), g._data
    fits = data is not None and not batched and own.shape == data.shape and own.dtype == data.dtype
    fits = fits and isinstance(own, Lifted) is isinstance(data, Lifted)
    if known is not None and not fits:
        _check_gradient(i, known, g, batched)
        if g.dtype != known.dtype:
            g = g.to(known.dtype)
    return node, number, g if recorded else g._data


def described(output: Any) -> Any:
    """Something of the shape and dtype of an output, which may be an edge; None if its node does
    not know them."""
    if isinstance(output, GradientEdge) and not isinstance(output, _KnownEdge):
        return getattr(output.node, "variable", None)
    return output


def implicit_gradient(output: Any) -> Raw:
    """One, for an output that is a real scalar."""
    known = described(output)
    if known is None or math.prod(known.shape) != 1:
        error = RuntimeError("grad can be implicitly created only for scalar outputs")
        if known is None:
            error.add_note(
                "A GradientEdge made by hand does not say whether it is one. Use "
                "get_gradient_edge(), or give the gradient."
            )
            raise error
        from retrograd.autograd._explaining._hints import not_a_scalar

        raise not_a_scalar(error, output, known)
    dtype = known.dtype.numpy
    if dtype.kind not in dtypes.FLOATS:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {known.dtype}"
        )
    return arrays.ones(tuple(known.shape), dtype)


def _check_gradient(i: int, output: Any, g: Any, batched: bool) -> None:
    shape = tuple(g.shape)[1:] if batched else tuple(g.shape)
    if shape != tuple(output.shape):
        size = type(output.shape)
        mismatch = (
            f"grad_output[{i}] has a shape of {size(shape)} and output[{i}] has a shape of "
            f"{output.shape}."
        )
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                "match the shape of corresponding output, but a mismatch was detected: "
                f"{mismatch} If you only want some tensors in `grad_output` to be considered "
                "batched, consider using vmap."
            )
        raise RuntimeError(f"Mismatch in shape: {mismatch}")
    on_devices = isinstance(g._data, Lifted) or isinstance(getattr(output, "_data", None), Lifted)
    if on_devices and g.device != output.device:
        raise RuntimeError(
            f"invalid gradient at index {i} - expected device {output.device} but got {g.device}"
        )
    if g.dtype.is_complex != output.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a "
            f"dtype of {output.dtype}."
        )
