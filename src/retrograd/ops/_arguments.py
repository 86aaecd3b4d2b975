"""Arguments that may be tensors or numbers, and the errors for invalid ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import dtypes
from retrograd.ops._lifted import Lifted
from retrograd.ops._operands import Target
from retrograd.ops._operation import Operation, TensorLike, raw
from retrograd.ops._public import declare, documented
from retrograd.ops._refusals import Check, check_alpha

_TENSORS = (TensorLike, Lifted, *arrays.RAW_TYPES)


def is_number(x: Any) -> bool:
    """Whether ``x`` is a Python number. (np.float64 derives from float, but is an array.)"""
    return isinstance(x, (bool, int, float, complex)) and not arrays.is_raw(x)


def element(value: Any, dtype: Any) -> Any:
    """A value as an element of a dtype; RuntimeError if it does not fit. For unsigned dtypes,
    negative integers wrap around once."""
    whole = isinstance(value, int) and is_number(value)
    if whole and dtype.kind == "u" and -(1 << 8 * dtype.itemsize) < value < 0:
        return arrays.wrapped(value, dtype)
    return arrays.as_value(value, dtype)


def operand(value: Any, dtype: Any) -> Any:
    """A number that an array of ``dtype`` is combined with. Integers wrap around."""
    whole = isinstance(value, int) and dtype.kind in "iu"
    return arrays.wrapped(value, dtype) if whole else value


def check_tensor(function: str, argument: str, position: int, value: Any) -> None:
    """Refuse a number where a tensor is required, with PyTorch's message."""
    if not isinstance(value, _TENSORS):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be Tensor, not "
            f"{type(value).__name__}"
        )


def check_int(function: str, argument: str, position: int, value: Any) -> None:
    """Refuse what is not an integer, with PyTorch's message."""
    if not hasattr(value, "__index__"):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be int, not "
            f"{type(value).__name__}"
        )


def invalid_combination(function: str, *given: Any) -> TypeError:
    """The error for arguments that match none of the signatures of ``function``."""
    kinds = ", ".join("Tensor" if isinstance(x, _TENSORS) else type(x).__name__ for x in given)
    return TypeError(
        f"{function}() received an invalid combination of arguments - got ({kinds}), but expected "
        "one of:"
    )


def number_of(function: str, argument: str, value: Any, target: Any = None) -> Any:
    """A number that may be given as a tensor without dimensions, as a Python number. ``target``:
    what the function was called on, to tell its in-place form."""
    if isinstance(value, (TensorLike, Lifted)) or arrays.is_raw(value):
        if not raw(value).ndim and not getattr(value, "requires_grad", False):
            return raw(value).item()
    elif isinstance(value, (int, float, complex)):
        return value
    function += "_" if type(target) is Target else ""
    kind = "Tensor" if isinstance(value, _TENSORS) else type(value).__name__
    raise TypeError(f"{function}(): argument '{argument}' must be Number, not {kind}")


def older_order(function: str, argument: str, target: Any, *given: Any) -> tuple[Any, ...]:
    """The arguments of a call in the order that PyTorch had once, the number first, with the number
    last; it warns once. ``target``: what the function was called on, to tell its in-place form."""
    number, *tensors = given
    function += "_" if type(target) is Target else ""
    known = _TENSORS if len(tensors) > 1 else (*_TENSORS, int, float, complex)
    if not is_number(number) or not all(isinstance(x, known) for x in tensors):
        count = f"{len(tensors)} positional argument{'s' * (len(tensors) > 1)}"
        raise TypeError(f"{function}() takes {count} but {len(given)} were given")
    if not _warned:
        _warned.append(function)
        names = ["other"] if len(tensors) == 1 else ["tensor1", "tensor2"]
        listed = ", ".join(f"Tensor {name}" for name in names)
        warnings.warn(
            f"This overload of {function} is deprecated:\n\t{function}(Number {argument}, {listed})"
            f"\nConsider using one of the following signatures instead:\n\t{function}({listed}, *, "
            f"Number {argument} = 1)",
            UserWarning,
            stacklevel=4,
        )
    return (*tensors, number)


def older_factors(function: str, names: str, *given: Any) -> tuple[Any, ...]:
    """The arguments of a call in the order that PyTorch had once, ``addmm(beta, input, alpha, mat1,
    mat2)`` or ``input.addmm(beta, alpha, mat1, mat2)``, with the factors last; it warns once.
    ``names``: those of the last two."""
    numbers = [x for x in given if is_number(x)]
    tensors = [x for x in given if isinstance(x, _TENSORS)]
    kinds = "".join("n" if is_number(x) else "t" for x in given)
    function += "_" if type(given[0]) is Target else ""
    if len(tensors) != 3 or kinds not in ("ntntt", "nttt", "tnntt", "tntt"):
        count = 3 - (kinds[:1] == "t" and type(given[0]) is Target)
        raise TypeError(
            f"{function}() takes {count} positional arguments but {len(given)} were given"
        )
    if not _warned:
        _warned.append(function)
        first, second = names.split()
        factors = ["Number beta", "Number alpha"][: len(numbers)]
        last = [f"Tensor {first}", f"Tensor {second}"]
        before = [factors[0], "Tensor input", *factors[1:]] if kinds[0] == "n" else factors
        input = ["Tensor input"] if kinds[0] == "n" else []
        warnings.warn(
            f"This overload of {function} is deprecated:\n\t{function}({', '.join(before + last)})"
            f"\nConsider using one of the following signatures instead:\n\t{function}("
            f"{', '.join(input + last)}, *, Number beta = 1, Number alpha = 1)",
            UserWarning,
            stacklevel=4,
        )
    return (*tensors, *numbers, 1)[:5]


_warned: list[str] = []


def check_operands(function: str, *given: Any) -> None:
    """Refuse what is neither a tensor nor a number; and numbers, if there is no tensor."""
    known = all(isinstance(x, _TENSORS) or is_number(x) for x in given)
    if not known or not any(isinstance(x, _TENSORS) for x in given):
        raise invalid_combination(function, *given)


def factor(common: Any, alpha: Any) -> Any:
    """``alpha`` for scaling one side of a sum of dtype ``common``, if it may."""
    check_alpha(common, alpha)
    if common.kind == "b":
        return bool(alpha)
    return element(alpha, common) if common.kind in "iu" else alpha


def with_number(check: Check) -> Check:
    """A check of operands, for an operation that takes one of them as an option."""
    return lambda *operands, **numbers: check(*operands, *numbers.values())


def check_target(input: Any, other: Any) -> None:
    """If ``input`` is to be written: whether what is computed from both can be."""
    if type(input) is Target:
        have = dtypes.from_numpy_dtype(dtypes.result_type([raw(input), raw(other)]))
        if not dtypes.can_cast(have, input.dtype):
            words = [dtypes.type_word(d.numpy) for d in (have, input.dtype)]
            raise RuntimeError(
                f"result type {words[0]} can't be cast to the desired output type {words[1]}"
            )


class Plug:
    """Holds what the layers above plug in: what to do with operands that only look like tensors,
    and a function that returns ``torch.sparse``."""

    sparse: Callable[[], Any]
    override: Callable[[str, tuple[Any, ...]], Any] = staticmethod(lambda *call: NotImplemented)


def checked(operation: Operation, accepts: str, name: str) -> Callable[..., Any]:
    """An operation of two operands as users call it by a name: its arguments are checked first.
    ``accepts`` is one of the words of ``_public.ACCEPTS``."""
    one_kind = operation.dtypes == "promote"

    def tensors(input: Any, other: Any) -> Any:
        try:
            check_tensor(name, "input", 1, input)
            check_tensor(name, "other", 2, other)
        except TypeError:
            result = Plug.override(name, (input, other))
            if result is NotImplemented:
                raise
            return result
        if one_kind:
            check_target(input, other)
        return operation(input, other)

    def either(input: Any, other: Any) -> Any:
        try:
            check_operands(name, input, other)
        except TypeError:
            result = Plug.override(name, (input, other))
            if result is NotImplemented:
                raise
            return result
        check_target(input, other)
        return operation(input, other)

    def tensor_first(input: Any, other: Any) -> Any:
        if not isinstance(input, TensorLike):
            raise invalid_combination(name, input, other)
        return operation.function(input, other)  # type: ignore[misc]

    checks = {"tensors": tensors, "either": either, "tensor first": tensor_first}
    function = checks[accepts]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = operation.doc
    return function


def either_number(
    name: str, both: Operation, first: Operation, second: Operation, doc: str, **face: Any
) -> Callable[..., Any]:
    """``f(input, other)`` where either may be a number; numbers have operations of their own."""

    def function(input: Any, other: Any) -> Any:
        check_operands(name, input, other)
        if is_number(input):
            return first(other, self=input)
        return second(input, other=other) if is_number(other) else both(input, other)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = documented(doc, ("self", "other"), "either")
    declare(function, name, **face)
    return function
