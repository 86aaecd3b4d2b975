"""Layers that are products: ``linear`` and ``bilinear``."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.ops import linear as moving
from retrograd.ops import products
from retrograd.ops._dims import numel
from retrograd.ops._operation import composite, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import c_name
from retrograd.ops.algebra._matrix import check_tensors
from retrograd.ops.algebra.addmm import addmm
from retrograd.ops.shapes import reshaping


@public("functional")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Linear map: ``input @ weight.T + bias``.

    Args:
        input: the input, of shape ``(..., in_features)``.
        weight: the matrix, of shape ``(out_features, in_features)``, or a vector of size
            ``in_features``.
        bias: bias to add, of shape ``(out_features,)``, or None.

    Returns:
        The output, of shape ``(..., out_features)``.

    Example:
        >>> torch.nn.functional.linear(torch.ones(2), torch.eye(2), torch.tensor([1.0, 2.0]))
        tensor([2., 3.])
    """
    check_tensors("linear", input=input, weight=weight)
    ndim = raw(input).ndim
    if not ndim or not raw(weight).ndim:
        raise RuntimeError(
            "both arguments to linear need to be at least 1D, but they are "
            f"{ndim}D and {len(weight.shape)}D"
        )
    transposed = reshaping.t(weight)
    if bias is None:
        return products.matmul(input, transposed)
    if ndim == 2:
        return addmm(bias, input, transposed)
    if arrays.is_contiguous(raw(input)) and (len(weight.shape) == 2 or bias.shape):
        rows = tuple(input.shape[:-1])
        flat = moving.view(input, size=(numel(rows), input.shape[-1]))
        result = addmm(bias, flat, transposed)
        return moving.view(result, size=(*rows, result.shape[-1]))
    return products.matmul(input, transposed) + bias


def _trilinear(i1: Any, i2: Any, i3: Any) -> Any:
    return _matched(_weighted(i2, i3), i1)


def _weighted(i2: Any, i3: Any) -> Any:
    """The last dimension of the weights summed up with every row of ``i3``."""
    outputs, width, last = i2.shape
    flat = moving.reshape(i2, (outputs * width, last))
    return moving.reshape(products.mm(i3, moving.t(flat)), (i3.shape[0], outputs, width))


def _matched(weighted: Any, i1: Any) -> Any:
    """Of each row, the matrix times the vector."""
    column = moving.reshape(i1, (*i1.shape, 1))
    return moving.reshape(products.bmm(weighted, column), tuple(weighted.shape[:2]))


def _each_pair(g: Any, i1: Any) -> Any:
    """The products of all elements of two rows, as one row."""
    pairs = moving.reshape(g, (*g.shape, 1)) * moving.reshape(i1, (i1.shape[0], 1, i1.shape[1]))
    return moving.reshape(pairs, (i1.shape[0], g.shape[1] * i1.shape[1]))


def _first(g: Any, i2: Any, i3: Any) -> Any:
    row = moving.reshape(g, (g.shape[0], 1, g.shape[1]))
    product = products.bmm(row, _weighted(i2, i3))
    return moving.reshape(product, (g.shape[0], i2.shape[1]))


def _weights(g: Any, i1: Any, i3: Any) -> Any:
    flat = products.mm(moving.t(_each_pair(g, i1)), i3)
    return moving.reshape(flat, (g.shape[1], i1.shape[1], i3.shape[1]))


def _last(g: Any, i1: Any, i2: Any) -> Any:
    flat = moving.reshape(i2, (i2.shape[0] * i2.shape[1], i2.shape[2]))
    return products.mm(_each_pair(g, i1), flat)


trilinear = composite(
    "trilinear", _trilinear, inputs=("i1", "i2", "i3"),
    rules={"i1": _first, "i2": _weights, "i3": _last},
)  # fmt: skip


@public("torch functional")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Bilinear map: ``input1 @ weight[k] @ input2 + bias[k]`` for each output feature ``k``.

    Args:
        input1: the first input, of shape ``(..., in1_features)``.
        input2: the second input, of shape ``(..., in2_features)``.
        weight: matrices, of shape ``(out_features, in1_features, in2_features)``.
        bias: bias to add, of shape ``(out_features,)``, or None.

    Returns:
        The output, of shape ``(..., out_features)``.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.nn.functional.bilinear(x, x, torch.eye(2).reshape(1, 2, 2))
        tensor([5.])
    """
    check_tensors("bilinear", input1=input1, input2=input2, weight=weight)
    _check_bilinear(input1, input2, weight, bias)
    rows = tuple(input1.shape[:-1])
    flat = [moving.reshape(x, (numel(rows), x.shape[-1])) for x in (input1, input2)]
    result = trilinear(flat[0], weight, flat[1])
    result = moving.reshape(result, (*rows, weight.shape[0]))
    return result if bias is None else result + bias


def _check_bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> None:
    if len({raw(x).dtype for x in (input1, input2, weight)}) > 1:
        words = [c_name(raw(x).dtype) for x in (input1, input2, weight)]
        raise RuntimeError(
            f"All tensors must have the same dtype, got input1: {words[0]}, input2: {words[1]}, "
            f"weight: {words[2]}"
        )
    if len(input1.shape) != len(input2.shape):
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {len(input1.shape)} and "
            f"{len(input2.shape)}"
        )
    for d, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if a != b:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {d}: got {a} and {b}"
            )
    for name, x, d in (("input1", input1, 1), ("input2", input2, 2)):
        if x.shape[-1] != weight.shape[d]:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {x.shape[-1]} but "
                f"expected {weight.shape[d]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
            f"{weight.shape[0]}"
        )
