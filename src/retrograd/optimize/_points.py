"""The unknowns of a solver: a vector for SciPy, a tree of tensors or arrays for the user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import wrap
from retrograd.func._trees import broadcast_to, flatten, unflatten
from retrograd.ops._lifted import device_value
from retrograd.ops._operation import raw
from retrograd.ops.shapes import slicing
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._tensor import Tensor


class Point:
    """A tree of tensors or arrays, as one vector and back."""

    never_changes = True  # so that a program that refers to it need not compare it at each call

    def __init__(self, tree: Any, name: str) -> None:
        leaves, self.shape = flatten(tree)
        if self.shape.kind in (list, tuple) and all(_is_number(x) for x in leaves):
            leaves, self.shape = flatten(arrays.asarray(leaves, arrays.float64))
        self.name = name
        if not leaves:
            raise ValueError(f"{name}: there is nothing to solve for: x0 is empty.")
        self.are_tensors = [isinstance(x, Tensor) for x in leaves]
        tensors = [self._tensor(x) for x in leaves]
        self.shapes = [tuple(x.shape) for x in tensors]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.dtypes = [x.dtype for x in tensors]
        self.dtype = self.dtypes[0]
        for dtype in self.dtypes[1:]:
            self.dtype = dtypes.promote_types(self.dtype, dtype)
        self.vector = self._flat(tensors)

    def _tensor(self, x: Any) -> Tensor:
        if isinstance(x, Tensor):
            found = on_cpu(x.detach())
        elif arrays.is_raw(x):
            found = as_tensor(x)
        elif _is_number(x):  # SciPy takes a number for a vector of one element
            found = wrap(arrays.asarray([x], arrays.float64))
        else:
            raise TypeError(
                f"{self.name}: expected x0 to be a Tensor, an array, a list of numbers, or a tree "
                f"of Tensors and arrays, got {type(x).__name__}."
            )
        if found.is_complex():
            raise TypeError(
                f"{self.name}: x0 is complex. Solve for the real and imaginary parts: "
                "torch.view_as_real() makes them one Tensor."
            )
        if found.is_floating_point():
            return found
        return found.to(dtypes.get_default_dtype() if isinstance(x, Tensor) else dtypes.float64)

    def _flat(self, leaves: Sequence[Tensor]) -> Tensor:
        if len(leaves) == 1 and leaves[0].ndim == 1:
            return leaves[0]
        parts = [x.reshape(-1).to(self.dtype) for x in leaves]
        found: Tensor = parts[0] if len(parts) == 1 else slicing.cat(parts)
        return found

    @property
    def key(self) -> Any:
        """What ``tree`` depends on, as a key."""
        return self.name, self.shape, tuple(self.shapes), tuple(map(str, self.dtypes))

    @property
    def count(self) -> int:
        """The number of unknowns."""
        return sum(self.sizes)

    def tree(self, vector: Tensor) -> Any:
        """A vector as the tree of tensors that the user's function takes."""
        if len(self.shapes) == 1:
            (shape,) = self.shapes
            one = vector if tuple(vector.shape) == shape else vector.reshape(shape)
            return unflatten([one], self.shape)
        parts = slicing.split(vector, self.sizes)
        leaves = [
            part.reshape(shape).to(dtype)
            for part, shape, dtype in zip(parts, self.shapes, self.dtypes, strict=True)
        ]
        return unflatten(leaves, self.shape)

    def user_tree(self, vector: Tensor, keep_tensors: bool = False) -> Any:
        """A vector as a tree of the kind that the user gave: tensors and arrays, as they were.
        ``keep_tensors``: tensors only, since they have derivatives."""
        tree = self.tree(vector)
        if keep_tensors or all(self.are_tensors):
            return tree
        if self.shape.kind is None:
            return raw(tree)
        leaves, shape = flatten(tree)
        pairs = zip(leaves, self.are_tensors, strict=True)
        return unflatten([x if is_tensor else raw(x) for x, is_tensor in pairs], shape)

    def vector_of(self, tree: Any, what: str) -> Tensor:
        """A tree of tensors of this shape as a vector."""
        leaves, _ = flatten(tree)
        if any(not isinstance(x, Tensor) for x in leaves):
            kinds = {type(x).__name__ for x in leaves if not isinstance(x, Tensor)}
            raise TypeError(
                f"{self.name}: {what} must return Tensors, got {', '.join(sorted(kinds))}. Write "
                "it with operations on Tensors, so that it can be differentiated."
            )
        parts = [x if x.ndim == 1 else x.reshape(-1) for x in leaves]
        found: Tensor = parts[0] if len(parts) == 1 else slicing.cat(parts)
        return found

    def residual_of(self, tree: Any, what: str) -> Tensor:
        """As ``vector_of``, for a function that must return as many numbers as there are
        unknowns."""
        vector = self.vector_of(tree, what)
        if vector.numel() != self.count:
            raise ValueError(
                f"{self.name}: {what} must return as many numbers as there are unknowns, "
                f"{self.count}, got {vector.numel()}."
            )
        return vector

    def limits(self, tree: Any) -> Tensor:
        """A limit for each unknown: from one number for all, a vector, or a tree like x0 with a
        number, an array or a Tensor for each leaf."""
        if self.shape.kind is not None and isinstance(tree, (list, tuple, dict)):
            leaves = broadcast_to(tree, self.shape)
        elif len(self.shapes) == 1 or _is_number(tree):
            leaves = [tree] * len(self.shapes)
        else:
            leaves = None
        whole = None if leaves is not None else as_tensor(tree, dtype=self.dtype)
        if whole is not None and whole.numel() == self.count:
            return whole.reshape(-1)
        if leaves is None:
            raise ValueError(f"{self.name}: bounds must be numbers, vectors, or trees like x0.")
        tensors = [as_tensor(x, dtype=self.dtype) for x in leaves]
        return self._flat(
            [
                x if tuple(x.shape) == shape else x.expand(shape)
                for x, shape in zip(tensors, self.shapes, strict=True)
            ]
        )


def as_data(x: Any) -> Tensor:
    """What a user gave, as a floating point Tensor. Numbers that are in no Tensor, such as those of
    a list or of a column of a data frame, are converted to double precision, as SciPy does."""
    if not isinstance(x, Tensor) and not any(isinstance(part, Tensor) for part in flatten(x)[0]):
        x = arrays.asarray(x)
    found = on_cpu(as_tensor(x))
    return found if found.is_floating_point() or found.is_complex() else found.double()


def on_cpu(x: Tensor) -> Tensor:
    """The tensor, if it is on the CPU, where SciPy computes; otherwise a TypeError."""
    if device_value(x) is not None:
        raise TypeError(
            f"SciPy's solvers compute on the CPU, but a tensor passed to one is on {x.device}. "
            "Pass x.cpu(). A function passed to a solver may move its argument to the device and "
            "its result back."
        )
    return x


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)
