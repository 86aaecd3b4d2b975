"""``out=``: results written into tensors that the caller gives for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import dtypes
from retrograd.autograd._history import meta_of
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import TABLE, Operation
from retrograd.ops._refusals import c_name
from retrograd.ops._results import NamedResult, named_result
from retrograd.tensor._calls import any_requires_grad
from retrograd.tensor._tensor import Tensor

# What is computed in the dtype of the tensor given, whichever that is.
_IN_DTYPE_OF_OUT = {"sum", "prod", "cumsum", "cumprod"}
# What is written into any dtype, and what into those that it can be cast to. Operations on elements
# are among these too, as their declarations say.
_INTO_ANY = {
    "eq", "ne", "lt", "le", "gt", "ge", "greater", "greater_equal", "less", "less_equal",
    "not_equal", "logical_and", "logical_or", "logical_xor", "logical_not", "bernoulli",
}  # fmt: skip
# What has no derivative: the inputs may require grad.
_NO_DERIVATIVE = {
    "all", "any", "argmax", "argmin", "bucketize", "eq", "ge", "greater",
    "greater_equal", "gt", "histc", "isin", "isneginf", "isposinf", "le", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "multinomial",
    "ne", "nonzero", "not_equal", "searchsorted", "signbit",
}  # fmt: skip
_JOINING = {
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "row_stack",
    "column_stack",
}  # fmt: skip
_CAST = {
    "pow", "square", "subtract", "multiply", "divide", "true_divide", "lerp", "outer", "ger",
    "kron", "mean", "diff", "var", "std", "logsumexp", "nansum", "nanmean", "cholesky", "gcd",
    "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip
_AS_COMPUTED = {"clamp", "clip", "clamp_min", "clamp_max"}
_ABSOLUTE = {"abs", "absolute"}  # of complex numbers they are real, or complex in a complex tensor
# What reads elements of its inputs after it has written some of its result.
_NO_OVERLAP = _JOINING | {"gather", "index_select", "take_along_dim", "masked_select"}


def written(
    name: str, function: Callable[..., Any], out: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """The results of a call, written into the tensors given for them."""
    targets: Sequence[Tensor] = out if isinstance(out, (tuple, list)) else (out,)
    given = [*args, *named.values()]
    recorded = targets if name in _NO_DERIVATIVE else (*_flat(given), *targets)
    if modes.grad_enabled and any_requires_grad(recorded):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if name in _IN_DTYPE_OF_OUT and named.get("dtype") is None:
        named = {**named, "dtype": targets[0].dtype}
    result = function(*args, **named)
    pairs = list(zip(targets, result if targets is out else (result,), strict=True))
    for target, value in pairs:
        if not (name in _ABSOLUTE and args and args[0].dtype == target.dtype):
            _check_dtype(name, target, value)
        _check_overlap(name, target, value, _flat(given))
    for target, value in pairs:
        write_out(target, value)
    if isinstance(result, NamedResult):
        return named_result(f"{type(result).__name__}_out", *result.fields)(targets)
    return out


def write_out(target: Tensor, value: Tensor) -> None:
    """Copy ``value`` into a tensor that was given for it, which takes its shape. In another shape
    the elements lie one after the other from where the tensor began, in the memory of its base as
    far as that goes; under a transform, in memory of its own."""
    shape = value._data.shape
    if target._data.shape != shape and any(isinstance(x._data, Lifted) for x in (target, value)):
        target._data = value.new_zeros(shape, dtype=target.dtype)._data
        if target._meta is not None:
            target._meta.view = None
    elif target._data.shape != shape:
        view = None if target._meta is None else target._meta.view
        storage = target if view is None else view.base
        target._data, storage._data = (arrays.writable(t._data) for t in (target, storage))
        memory = arrays.layout.within(storage._data, target._data, shape)
        if memory is None:  # it gets memory of its own, and its base what there is room for
            count = arrays.layout.room(storage._data, target._data)
            begun: Any = arrays.layout.within(storage._data, target._data, (count,))
            begun[...] = value._data.reshape(-1)[:count]
            memory = arrays.empty(shape, target._data.dtype)
            if view is not None:
                meta_of(target).view = None
        target._data = memory
    target.copy_(value)


def _flat(given: Sequence[Any]) -> list[Any]:
    """Arguments, and those in sequences."""
    return [y for x in given for y in (x if isinstance(x, (list, tuple)) else (x,))]


def _check_dtype(name: str, target: Tensor, value: Tensor) -> None:
    have, wanted = value._data.dtype, target._data.dtype
    if have == wanted or name in _INTO_ANY:
        return
    words = [dtypes.type_word(d) for d in (have, wanted)]
    operation = TABLE.get(name)
    by_element = operation is not None and _by_element(operation)
    casts = by_element and operation is not None and operation.dtypes in ("promote", "float")
    if name in _AS_COMPUTED or (by_element and not casts and name not in _CAST):
        raise RuntimeError(f"Found dtype {words[1]} but expected {words[0]}")
    if not casts and name not in _JOINING | _CAST:
        raise RuntimeError(
            f"Expected out tensor to have dtype {c_name(have)}, but got {c_name(wanted)} instead"
        )
    if not dtypes.can_cast(value.dtype, target.dtype):
        if name in _JOINING:
            raise TypeError(
                f"torch.cat(): input types can't be cast to the desired output type {words[1]}"
            )
        raise RuntimeError(
            f"result type {words[0]} can't be cast to the desired output type {words[1]}"
        )


def _by_element(operation: Operation) -> bool:
    return operation.family == "elementwise" or operation.name == "mul"


def _check_overlap(name: str, target: Tensor, value: Tensor, given: Sequence[Any]) -> None:
    """Refuse to write over inputs in another place than where they are read."""
    memory = target._data
    operation = TABLE.get(name)
    by_element = operation is not None and _by_element(operation)
    if not (by_element or name in _NO_OVERLAP) or memory.shape != value._data.shape:
        return
    for other in given:
        if not isinstance(other, Tensor) or not isinstance(memory, arrays.ndarray):
            continue
        how = "full" if other is target else arrays.overlap(memory, other._data)
        if how == "partial" or (how == "full" and name in _NO_OVERLAP):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )
