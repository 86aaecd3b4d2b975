"""Sums of products in the notation of Einstein: ``einsum("bij,bjk->bik", a, b)``.

Every operand is brought into one layout: the dimensions of the result, then those to be summed,
each of size 1 where an operand lacks it. Two operands at a time are then contracted into one, as a
batch of matrix products. So it ends in BLAS, and gradients are those of views and products.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_letters, ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

from retrograd.ops import linear, products
from retrograd.ops._dims import numel
from retrograd.ops._public import public
from retrograd.ops.shapes import diagonals

LETTERS = ascii_uppercase + ascii_lowercase
ELLIPSIS = "."  # one label of a subscript, which stands for any number of dimensions
_SEARCHED = 5  # operands: for so many, every order of contraction is tried


class Equation(NamedTuple):
    """An equation taken apart: the labels of each operand, and those of the result if given."""

    operands: tuple[str, ...]
    output: str | None


@public("torch")
def einsum(*args: Any) -> Any:
    """Computes sums of products by Einstein's summation convention.

    Products are summed over the labels that the result does not have.

    Args:
        *args: An equation such as ``"ij,jk->ik"``, followed by the operands. Alternatively, each
            operand followed by the list of its dimensions as integers, and optionally the list for
            the result.

    Returns:
        The result of the equation.

    Example:
        >>> a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.einsum("ij,kj->ik", a, a)
        tensor([[ 5., 11.],
                [11., 25.]])
        >>> torch.einsum("ii", a)
        tensor(5.)
    """
    text, operands = _equation_and_operands(args)
    for number, x in enumerate(operands):
        if not hasattr(x, "shape"):
            raise TypeError(
                f"expected Tensor as element {number} in argument 1, but got {type(x).__name__}"
            )
    equation = _parsed(text, len(operands))
    layout, kept = _layout(equation, operands)
    _check_sizes(equation, operands)
    laid_out = [
        _laid_out(x, labels, layout) for x, labels in zip(operands, equation.operands, strict=True)
    ]
    if len(laid_out) == 1:
        if len(layout) == kept:
            return laid_out[0]
        return linear.sum_dim(laid_out[0], dim=tuple(range(kept, len(layout))), keepdim=False)
    for i, j in _order([tuple(x.shape) for x in laid_out], kept):
        right, left = laid_out.pop(j), laid_out.pop(i)
        laid_out.append(_contracted(left, right, laid_out, kept))
    result = laid_out[0]
    return result if len(layout) == kept else linear.view(result, size=tuple(result.shape[:kept]))


# -- reading ---------------------------------------------------------------------------------


def _equation_and_operands(args: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Of ``einsum("ij,j", a, b)``, ``einsum("ij,j", [a, b])``, ``einsum(a, [0, 1], b, [1])``."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if hasattr(args[0], "shape"):
        text = ",".join(_as_letters(sublist) for sublist in args[1::2])
        if len(args) % 2:
            text += "->" + _as_letters(args[-1])
        return text, list(args[: len(args) // 2 * 2 : 2])
    if not isinstance(args[0], str):
        raise TypeError(
            f"einsum(): argument 'equation' (position 1) must be str, not {type(args[0]).__name__}"
        )
    if len(args) == 2 and isinstance(args[1], (list, tuple)):
        return args[0], list(args[1])
    return args[0], list(args[1:])


def _as_letters(sublist: Sequence[Any]) -> str:
    results = []
    for entry in sublist:
        if entry is Ellipsis:
            results.append("...")
        elif 0 <= entry < len(LETTERS):
            results.append(LETTERS[entry])
        else:
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range [0, 52)"
            )
    return "".join(results)


@lru_cache(maxsize=256)
def _parsed(text: str, count: int) -> Equation:
    left, arrow, right = text.partition("->")
    subscripts, start = [], 0
    for number, part in enumerate(left.split(",")):
        subscripts.append(_labels(part, start, f"operand {number} ", number))
        start += len(part) + 1
    if len(subscripts) != count:
        how = "fewer" if count < len(subscripts) else "more"
        raise RuntimeError(f"einsum(): {how} operands were provided than specified in the equation")
    output = _labels(right, len(left) + 2, "output ", None) if arrow else None
    for n, label in enumerate(output or ""):
        if label == ELLIPSIS:
            continue
        if label in (output or "")[:n]:
            raise RuntimeError(
                f"einsum(): output subscript {label} appears more than once in the output"
            )
        if not any(label in labels for labels in subscripts):
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any "
                "input operand"
            )
    return Equation(tuple(subscripts), output)


def _labels(part: str, start: int, where: str, number: int | None) -> str:
    """The labels of one subscript, which begins at ``start`` of the equation."""
    result, at = "", 0
    while at < len(part):
        if part[at] == ".":
            if ELLIPSIS in result:
                what = (
                    f"for {where}for which an ellipsis was already found"
                    if number is not None
                    else f"for {where}but an ellipsis (...) was already found"
                )
                raise RuntimeError(f"einsum(): found '.' {what}")
            if part[at : at + 3] != "...":
                dots = "" if number is not None else " (...)"
                raise RuntimeError(
                    f"einsum(): found '.' for {where}that is not part of any ellipsis{dots}"
                )
            result, at = result + ELLIPSIS, at + 3
            continue
        if part[at] in ascii_letters:
            result += part[at]
        elif part[at] != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + at} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
        at += 1
    return result


# -- the common layout -----------------------------------------------------------------------

Label = str | int  # a letter, or a dimension of the ellipsis counted from its end: -1, -2...


def _named(labels: str, ndim: int) -> list[Label]:
    """A label for each dimension of an operand, those of the ellipsis too."""
    hidden = ndim - (len(labels) - labels.count(ELLIPSIS))
    names: list[Label] = []
    for label in labels:
        names += range(-hidden, 0) if label == ELLIPSIS else [label]
    return names


def _layout(equation: Equation, operands: list[Any]) -> tuple[list[Label], int]:
    """The labels of all dimensions, those of the result first, and how many those are."""
    for number, (x, labels) in enumerate(zip(operands, equation.operands, strict=True)):
        letters, ndim = len(labels.replace(ELLIPSIS, "")), len(x.shape)
        if letters != ndim and (ELLIPSIS not in labels or letters > ndim):
            how = (
                f"is more than the number of dimensions ({ndim}) for operand {number}"
                if ELLIPSIS in labels
                else f"does not match the number of dimensions ({ndim}) for operand {number} and "
                "no ellipsis was given"
            )
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({letters}) {how}"
            )
    counts = [
        len(x.shape) - len(labels) + 1
        for x, labels in zip(operands, equation.operands, strict=True)
        if ELLIPSIS in labels
    ]
    hidden = max(counts, default=0)
    output = equation.output
    everything = "".join(equation.operands)
    if output is None:
        output = ELLIPSIS + "".join(c for c in LETTERS if everything.count(c) == 1)
    kept: list[Label] = []
    for label in output:
        kept += range(-hidden, 0) if label == ELLIPSIS else [label]
    summed: list[Label] = [] if ELLIPSIS in output else list(range(-hidden, 0))
    summed += [c for c in LETTERS if c in everything and c not in output]
    return kept + summed, len(kept)


def _check_sizes(equation: Equation, operands: list[Any]) -> None:
    """Whether dimensions of one label agree, or are 1."""
    seen: dict[Label, int] = {}
    for number, (x, labels) in enumerate(zip(operands, equation.operands, strict=True)):
        names = _named(labels, len(x.shape))
        own: dict[Label, int] = {}
        for label, size in zip(names, x.shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {number} but the sizes "
                    f"don't match, {size} != {own[label]}"
                )
            known = seen.get(label, 1)
            if known != 1 and size not in (1, known):
                raise _does_not_broadcast(label, number, size, known, names)
            seen[label] = size if known == 1 else known


def _does_not_broadcast(
    label: Label, number: int, size: int, known: int, names: list[Label]
) -> RuntimeError:
    if isinstance(label, str):
        return RuntimeError(
            f"einsum(): subscript {label} has size {size} for operand {number} which does not "
            f"broadcast with previously seen size {known}"
        )
    place = [n for n in names if isinstance(n, int)].index(label)
    return RuntimeError(
        f"einsum(): dimension {place} covered by ellipsis in operand {number}has size {size} which "
        f"does not broadcast with previously seen ellipsis with size {known} for the respective "
        "dimension"
    )


def _laid_out(x: Any, labels: str, layout: list[Label]) -> Any:
    """An operand with all dimensions of the layout, in its order."""
    names = _named(labels, len(x.shape))
    for label in dict.fromkeys(names):
        while names.count(label) > 1:
            first = names.index(label)
            again = names.index(label, first + 1)
            x = _diagonal(x, first, again)
            del names[again]
    order, new = [], len(names)
    for label in layout:
        if label in names:
            order.append(names.index(label))
        else:
            x = linear.unsqueeze(x, dim=len(x.shape))
            order.append(new)
            new += 1
    return linear.permute(x, dims=tuple(order))


def _diagonal(x: Any, dim1: int, dim2: int) -> Any:
    """Where two dimensions are at the same place, as one, in the place of the first."""
    result = diagonals.diagonal(x, 0, dim1, dim2)
    last = len(result.shape) - 1
    order = list(range(last))
    order.insert(dim1, last)
    return linear.permute(result, dims=tuple(order))


# -- contracting -----------------------------------------------------------------------------


def _order(shapes: list[tuple[int, ...]], kept: int) -> list[tuple[int, int]]:
    """Which two operands to contract, again and again; the result goes to the end of the list."""
    if len(shapes) == 2:
        return [(0, 1)]
    if len(shapes) <= _SEARCHED:
        return _cheapest(tuple(shapes), kept)[1]
    result, shapes = [], list(shapes)
    while len(shapes) > 1:
        pairs = [(i, j) for j in range(len(shapes)) for i in range(j)]
        i, j = min(pairs, key=lambda pair: _work(shapes, pair[0], pair[1], kept)[0])
        after = _work(shapes, i, j, kept)[1]
        shapes = [s for n, s in enumerate(shapes) if n not in (i, j)] + [after]
        result.append((i, j))
    return result


def _cheapest(shapes: tuple[tuple[int, ...], ...], kept: int) -> tuple[int, list[tuple[int, int]]]:
    """The least number of multiplications, and the order that takes no more."""
    if len(shapes) == 1:
        return 0, []
    best: tuple[int, list[tuple[int, int]]] | None = None
    for j in range(len(shapes)):
        for i in range(j):
            cost, after = _work(list(shapes), i, j, kept)
            rest = tuple(s for n, s in enumerate(shapes) if n not in (i, j))
            further, order = _cheapest((*rest, after), kept)
            if best is None or cost + further < best[0]:
                best = cost + further, [(i, j), *order]
    assert best is not None
    return best


def _work(shapes: list[tuple[int, ...]], i: int, j: int, kept: int) -> tuple[int, tuple[int, ...]]:
    """The multiplications that contracting two operands takes, and the shape of the result."""
    both = [max(a, b) for a, b in zip(shapes[i], shapes[j], strict=True)]
    rest = [s for n, s in enumerate(shapes) if n not in (i, j)]
    after = tuple(
        size if d < kept or any(s[d] != 1 for s in rest) else 1 for d, size in enumerate(both)
    )
    return numel(both), after


def _contracted(left: Any, right: Any, others: list[Any], kept: int) -> Any:
    """Two operands multiplied, and summed over what no other needs any more."""
    done = [d for d in range(kept, len(left.shape)) if all(x.shape[d] == 1 for x in others)]
    summed = [d for d in done if left.shape[d] != 1 and right.shape[d] != 1]
    alone = tuple(d for d in done if left.shape[d] != 1 and right.shape[d] == 1)
    if alone:
        left = linear.sum_dim(left, dim=alone, keepdim=True)
    alone = tuple(d for d in done if right.shape[d] != 1 and left.shape[d] == 1)
    if alone:
        right = linear.sum_dim(right, dim=alone, keepdim=True)
    return _as_products(left, right, summed) if summed else left * right


def _as_products(left: Any, right: Any, summed: list[int]) -> Any:
    """A batch of matrix products over the ``summed`` dimensions, which are left with size 1."""
    rest = [d for d in range(len(left.shape)) if d not in summed]
    batch = [d for d in rest if left.shape[d] != 1 and right.shape[d] != 1]
    rows = [d for d in rest if left.shape[d] != 1 and right.shape[d] == 1]
    columns = [d for d in rest if left.shape[d] == 1]
    if rows and columns and columns[-1] < rows[0]:
        left, right, rows, columns = right, left, columns, rows  # so that the result is contiguous
    sizes = [
        numel([x.shape[d] for d in dims])
        for x, dims in ((left, batch), (left, rows), (left, summed), (right, columns))
    ]
    a = linear.permute(left, dims=(*batch, *rows, *summed, *columns))
    b = linear.permute(right, dims=(*batch, *summed, *columns, *rows))
    a = linear.reshape(a, (sizes[0], sizes[1], sizes[2]))
    b = linear.reshape(b, (sizes[0], sizes[2], sizes[3]))
    shape = [left.shape[d] for d in (*batch, *rows)] + [1 for _ in summed]
    shape += [right.shape[d] for d in columns]
    result = linear.view(products._bmm(a, b), size=tuple(shape))
    order = (*batch, *rows, *summed, *columns)
    return linear.permute(result, dims=tuple(order.index(d) for d in range(len(order))))
