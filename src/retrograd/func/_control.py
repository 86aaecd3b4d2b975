"""Structured control flow: ``cond``, ``while_loop`` and ``scan``.

In eager mode they are Python's own ``if``, ``while`` and ``for``, so that derivatives of every kind
are those of the operations inside. Under ``vmap`` the entries of a batch may want different things:
then both branches are computed and chosen between, and a loop goes on until the last entry has
ended. While a function is compiled, each becomes one line of the program, with the branches or the
body as programs of their own (``compiler/_control.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import modes
from retrograd.func._trees import Shape, describe, flatten, unflatten
from retrograd.ops._lifted import Lifted, bare, tracer
from retrograd.ops.piecewise import where
from retrograd.ops.shapes import reshaping, slicing
from retrograd.tensor._tensor import Size, Tensor


def cond(
    pred: bool | Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:  # fmt: skip
    """Calls one of two functions: ``true_fn(*operands) if pred else false_fn(*operands)``.

    In a compiled function it is an ``if`` in the program, which is then the same one for both
    branches. Both must return tensors of the same shapes and dtypes.

    Under ``vmap``, where entries may differ in ``pred``, both branches are computed and chosen
    between by ``torch.where``. A branch is then evaluated at operands that it was not meant for. If
    its derivative there is infinite or NaN, so is the gradient: have the branch replace such
    operands first.

    Args:
        pred: a bool, or a tensor with one element.
        true_fn: what is called if ``pred`` is true.
        false_fn: what is called if it is not.
        operands: the arguments: tensors, or nested tuples, lists and dictionaries of tensors. What
            the functions capture needs no mention.

    Returns:
        What the function returns.

    Example:
        >>> from retrograd.func import grad, vmap
        >>> def size(x):
        ...     return torch.cond(x > 0, lambda x: 2 * x, lambda x: x**2, (x,))
        >>> size(torch.tensor(3.0)), grad(size)(torch.tensor(-3.0))
        (tensor(6.), tensor(-6.))
        >>> vmap(size)(torch.tensor([3.0, -3.0]))
        tensor([6., 9.])
    """
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(x, Tensor) for x in flatten(operands)[0]
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    if (level := tracer()) is not None:
        return level.cond(pred, true_fn, false_fn, operands)
    return cond_now(pred, true_fn, false_fn, operands)


def cond_now(
    pred: Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any]
) -> Any:
    """``cond`` in eager mode, by the value of ``pred``."""
    with Unwritten("torch.cond", flatten(operands)[0] if modes.grad_enabled else ()):
        if differs(pred):
            results = chosen(pred.reshape(()), true_fn(*operands), false_fn(*operands))
        else:
            results = true_fn(*operands) if pred else false_fn(*operands)
    leaves, shape = flatten(results)
    return unflatten(own_tensors(leaves, flatten(operands)[0]), shape)


def own_tensors(leaves: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Results, with copies of operands and of views, so that writing to a result changes no
    operand, as in a compiled function."""
    known = {id(x) for x in given}
    return [
        x.clone() if isinstance(x, Tensor) and (id(x) in known or x._is_view()) else x
        for x in leaves
    ]


def chosen(pred: Tensor, yes: Any, no: Any) -> Any:
    """The results of two branches, by ``where``."""
    leaves, shape = flatten(yes)
    others, other_shape = flatten(no)
    check_branches(leaves, shape, others, other_shape)
    pairs = zip(leaves, others, strict=True)
    return unflatten([where(pred, a, b) if isinstance(a, Tensor) else a for a, b in pairs], shape)


def differs(x: Any) -> bool:
    """Whether a tensor has another value for each entry of a batch."""
    return isinstance(x._data, Lifted) and x._data.differs


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> Any:
    """Calls ``body_fn`` again and again, as long as ``cond_fn`` says so.

    The same as::

        values = carried_inputs
        while cond_fn(*values):
            values = body_fn(*values)
        return values

    In a compiled function it is a ``while`` in the program, which is then the same one for any
    number of iterations. Forward-mode derivatives (``jvp``, ``jacfwd``) go through it there;
    gradients need the values of all iterations, which ``scan`` keeps.

    Under ``vmap``, where entries may end at different times, the loop goes on until all have ended;
    the values of an entry stay as they are from where it ends.

    Args:
        cond_fn: takes the values and returns a bool, or a tensor of no dimensions and dtype bool.
        body_fn: takes the values and returns a tuple of new ones, of the same shapes and dtypes.
        carried_inputs: a tuple of the values to begin with: tensors and ints, or nested tuples,
            lists and dictionaries of these.

    Returns:
        A tuple of the values for which ``cond_fn`` is false.

    Example:
        >>> def root(a):  # Newton's method
        ...     def is_far(x):
        ...         return (x * x - a).abs() > 1e-5 * a
        ...     def step(x):
        ...         return ((x + a / x) / 2,)
        ...     return torch.while_loop(is_far, step, (a,))[0]
        >>> root(torch.tensor(9.0))
        tensor(3.)
        >>> torch.func.vmap(root)(torch.tensor([4.0, 9.0, 100.0]))
        tensor([ 2.,  3., 10.])
        >>> torch.func.grad(root)(torch.tensor(9.0))
        tensor(0.1667)
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    leaves = flatten(carried_inputs)[0]
    if not all(isinstance(x, (Tensor, int)) for x in leaves):
        types = tuple(type(x) for x in leaves)
        raise AssertionError(
            f"{leaves} can only be of {(Tensor, int)} but got {types}: the values that a loop "
            "carries are tensors and ints"
        )
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"carried_inputs must be a tuple or list, got {type(carried_inputs)}")
    if (level := tracer()) is not None:
        return level.while_loop(cond_fn, body_fn, carried_inputs)
    return while_loop_now(cond_fn, body_fn, carried_inputs)


def while_loop_now(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Sequence[Any]
) -> Any:
    """``while_loop`` as long as the values say."""
    leaves, shape = flatten(carried)
    operands = leaves
    safe = None  # values for which the condition held
    while True:
        going = checked_condition(cond_fn(*carried))
        if isinstance(going, bool) or not differs(going):
            if not going:
                break
            leaves = next_values(body_fn, leaves, shape)
        else:
            if not bare(going).any():
                break
            if safe is None:
                safe = leaves
            else:
                safe = [_frozen(going, x, s) for x, s in zip(leaves, safe, strict=True)]
            values = next_values(body_fn, safe, shape)
            leaves = [_where(going, a, b) for a, b in zip(values, leaves, strict=True)]
        carried = unflatten(leaves, shape)
    return tuple(unflatten(own_tensors(leaves, operands), shape))


def _frozen(going: Tensor, x: Any, before: Any) -> Any:
    """A value to go on with. For entries that have ended, this is a value for which they had not:
    the body is not meant for others, and may have no finite derivative there."""
    return _where(going, x, before.detach() if isinstance(before, Tensor) else before)


def _where(going: Tensor, a: Any, b: Any) -> Any:
    if not isinstance(a, Tensor) and a == b:
        return a
    return where(going, a, b)


def checked_condition(going: Any) -> Any:
    """What ``cond_fn`` returned, if that is a condition."""
    is_scalar = isinstance(going, Tensor) and not going.dim() and going._data.dtype.kind == "b"
    if not isinstance(going, bool) and not is_scalar:
        raise RuntimeError(
            f"cond_fn must return a boolean scalar tensor or a boolean but got {going}"
        )
    return going


def next_values(body_fn: Callable[..., Any], leaves: Sequence[Any], shape: Shape) -> list[Any]:
    """The leaves that ``body_fn`` returns, which must have the shapes and dtypes of its
    arguments."""
    with Unwritten("torch.while_loop", leaves):
        new = body_fn(*unflatten(leaves, shape))
    return checked_values(leaves, shape, new)


def checked_values(leaves: Sequence[Any], shape: Shape, new: Any) -> list[Any]:
    """The leaves of what ``body_fn`` returned."""
    if not isinstance(new, (tuple, list)):
        raise AssertionError(f"body_fn should return a tuple but got {type(new)}")
    values, own = flatten(new)
    if len(values) != len(leaves) or own.parts != shape.parts:
        raise RuntimeError(
            "Expected body_fn_output and carried_inputs to have same number of outputs but got "
            f"lhs:{new} and rhs:{list(leaves)}"
        )
    check_alike(values, leaves, "body_fn_output", "carried_inputs")
    return values


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Goes through tensors slice by slice, carrying a value along: a loop with results.

    The same as::

        carry, ys = init, []
        for x in xs:
            carry, y = combine_fn(carry, x)
            ys.append(y)
        return carry, torch.stack(ys)

    In a compiled function it is a ``for`` in the program, whose length does not depend on the
    number of slices. Its gradient is a loop, too, for which the carried values are kept.

    PyTorch has it as ``torch._higher_order_ops.scan``, which is there as well.

    Args:
        combine_fn: takes the carried value and a slice, and returns the next carried value, of the
            same shapes and dtypes, and a result for the slice.
        init: the carried value to begin with: a tensor, or nested tuples, lists and dictionaries of
            tensors.
        xs: what to go through: a tensor, or nested tensors, of one size along ``dim``.
        dim: the dimension to go along.
        reverse: whether to begin with the last slice. Results stay beside their slices.

    Returns:
        The last carried value, and the results stacked along ``dim``.

    Example:
        >>> def step(total, x):
        ...     total = total + x
        ...     return total, total * 2
        >>> torch.scan(step, torch.tensor(0.0), torch.tensor([1.0, 2.0, 3.0]))
        (tensor(6.), tensor([ 2.,  6., 12.]))
        >>> torch.scan(step, torch.tensor(0.0), torch.tensor([1.0, 2.0, 3.0]), reverse=True)
        (tensor(6.), tensor([12., 10.,  6.]))
    """
    slices, _ = flatten(xs)
    if not slices:
        return init, []
    dim = checked_scan(combine_fn, flatten(init)[0], slices, dim, reverse)
    if (level := tracer()) is not None:
        result = level.scan(combine_fn, init, xs, dim, reverse)
    else:
        result = scan_now(combine_fn, init, xs, dim, reverse)
    return result  # type: ignore[no-any-return]


def checked_scan(combine_fn: Any, init: list[Any], xs: list[Any], dim: Any, reverse: Any) -> int:
    """Check the arguments of ``scan``; returns the non-negative dimension."""
    for x in xs:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All xs leaves must be a Tensor but got {x}")
    rank = xs[0].dim()
    low, high = -max(rank, 1), max(rank, 1) - 1
    if isinstance(dim, bool) or not isinstance(dim, int) or not low <= dim <= high:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
        )
    first: int = dim + rank if dim < 0 else dim
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not init:
        raise RuntimeError("scan() operator requires init leaves.")
    for x in init:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All init leaves must be a Tensor but got {x}")
    if any(x.dim() <= first or not x.shape[first] for x in xs):
        raise RuntimeError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    sizes = [x.shape[first] for x in xs]
    if len(set(sizes)) > 1:
        raise RuntimeError(
            f"All xs leaves must have the same size along the scan dimension, but got {sizes}"
        )
    return first


def scan_now(
    combine_fn: Callable[..., Any], init: Any, xs: Any, dim: int, reverse: bool
) -> tuple[Any, Any]:
    """``scan``, one slice after the other."""
    carry, shape = flatten(init)
    whole, xs_shape = flatten(xs)
    columns = [slicing.unbind(x, dim) for x in whole]
    rows: list[list[Any]] = []
    ys_shape = None
    count = len(columns[0])
    for i in reversed(range(count)) if reverse else range(count):
        x = [column[i] for column in columns]
        with Unwritten("torch.scan", [*carry, *x]):
            pair = combine_fn(unflatten(carry, shape), unflatten(x, xs_shape))
        carry, ys, own = combined(carry, shape, pair)
        if ys_shape is not None and own != ys_shape:
            raise RuntimeError(
                "combine_fn must return results that are nested in the same way for all slices, "
                f"but got {describe(ys_shape)} and {describe(own)}"
            )
        ys_shape = own
        rows.append(ys)
    if reverse:
        rows.reverse()
    return unflatten(own_tensors(carry, flatten(init)[0]), shape), stacked(rows, ys_shape, dim)


def combined(carry: list[Any], shape: Shape, found: Any) -> tuple[list[Any], list[Any], Shape]:
    """What ``combine_fn`` returned: the leaves of the next carried value, and those of its result
    and how they are nested."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise RuntimeError(
            "combine_fn must return a pair, the next carried value and a result for the slice, "
            f"but got {found}"
        )
    new, own = flatten(found[0])
    if own != shape:
        raise RuntimeError(
            f"Expected init and carry to have same number of outputs but got lhs:{carry} and "
            f"rhs:{new}"
        )
    check_alike(carry, new, "init", "carry")
    ys, ys_shape = flatten(found[1])
    for y in ys:
        if y is not None and not isinstance(y, Tensor):
            raise RuntimeError(f"combine_fn must return tensors, but got {y}")
    return new, ys, ys_shape


def stacked(rows: list[list[Any]], shape: Shape | None, dim: int) -> Any:
    """The results for all slices. Those of fewer dimensions are stacked along the first one."""
    assert shape is not None
    results: list[Any] = []
    for column in zip(*rows, strict=True):
        if column[0] is None:
            results.append(None)
            continue
        whole = slicing.stack(list(column), 0)
        results.append(reshaping.movedim(whole, 0, dim) if 0 < dim < whole.dim() else whole)
    return unflatten(results, shape)


# -- checks that several have ------------------------------------------------------------------


class Unwritten:
    """Within it, some tensors must not be written: they are the caller's."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        self.before = [(x, x._version) for x in values if isinstance(x, Tensor)]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None and any(x._version != version for x, version in self.before):
            raise RuntimeError(
                f"{self.name}: Encountered input mutation. Higher order ops do not support input "
                "mutation: return the new value, or clone() the tensor before writing to it"
            )


def check_branches(leaves: list[Any], shape: Shape, others: list[Any], other_shape: Shape) -> None:
    """RuntimeError if two branches do not return the same: nests, shapes and dtypes."""
    if shape != other_shape:
        raise RuntimeError(
            "Unmatched output spec from torch.cond branches: true branch tree_spec "
            f"{describe(shape)} vs false branch tree_spec {describe(other_shape)}."
        )
    for a, b in zip(leaves, others, strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a._data.dtype != b._data.dtype:
            raise RuntimeError(
                "When merging two branches' output in torch.cond,  expected same dtype but got "
                f"{a.dtype} and {b.dtype}."
            )
    check_alike(leaves, others, "true_fn_output", "false_fn_output")


def check_alike(these: Sequence[Any], those: Sequence[Any], name: str, other_name: str) -> None:
    """Raise a RuntimeError if corresponding values differ in shape or dtype."""
    differences = []
    for i, (a, b) in enumerate(zip(these, those, strict=True)):
        text = difference(a, b)
        if text:
            differences.append(f"pair[{i}] differ in {text}, where lhs is {a!r} and rhs is {b!r}")
    if differences:
        raise RuntimeError(
            f"Expected {name} and {other_name} to have same metadata but found:\n"
            + "\n".join(differences)
        )


def difference(a: Any, b: Any) -> str:
    """Describe how the metadata of two values differ."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        texts = []
        if a.shape != b.shape:
            texts.append(f"'shape: {Size(a.shape)} vs {Size(b.shape)}'")
        if a._data.dtype != b._data.dtype:
            texts.append(f"'dtype: {a.dtype} vs {b.dtype}'")
        return ", ".join(texts)
    if a is None and b is None:
        return ""
    if isinstance(a, (bool, int)) and isinstance(b, (bool, int)):
        return ""
    return f"type: {a} vs {b}"
