"""Forward mode: tangents that travel with values, as PyTorch's ``torch.autograd.forward_ad``."""

from __future__ import annotations

from typing import Any, NamedTuple

from retrograd._modes import Scope, modes
from retrograd.arrays import dtypes
from retrograd.autograd._duals import Dual, DualLevel
from retrograd.autograd._history import edge
from retrograd.autograd._levels import as_tensor, value_of
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import ModeContext
from retrograd.ops._operation import TensorLike
from retrograd.ops.copies import to_dtype


class UserLevel(DualLevel):
    """A level that the user entered by hand, rather than a transform."""

    __slots__ = ("scope",)

    transparent = True

    def __init__(self) -> None:
        super().__init__()
        self.scope: _Level | None = None  # if it was not entered by ``with``


class _Level(Scope):
    """The scope of a level."""

    def __init__(self) -> None:
        self.level = UserLevel()

    def __enter__(self) -> None:
        self.level.opened_by = self._enter({"levels": (*modes.levels, self.level)})


class UnpackedDualTensor(NamedTuple):
    """A named tuple of a value and its tangent.

    Args:
        primal: the value.
        tangent: its tangent, or None.

    Example:
        >>> import retrograd.autograd.forward_ad as fwAD
        >>> fwAD.unpack_dual(torch.tensor(2.0))
        UnpackedDualTensor(primal=tensor(2.), tangent=None)
    """

    primal: Any
    tangent: Any


def user_levels() -> list[UserLevel]:
    """The levels that are open, outermost first. Users refer to them by their positions here."""
    return [level for level in modes.levels if isinstance(level, UserLevel)]


def enter_dual_level() -> int:
    """Enters a level of forward mode. Prefer the context manager ``dual_level``.

    Returns:
        The number of the level.

    Example:
        >>> import retrograd.autograd.forward_ad as fwAD
        >>> level = fwAD.enter_dual_level()
        >>> x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        >>> x * x
        tensor(4., tangent=tensor(4.))
        >>> fwAD.exit_dual_level()
        >>> x * x
        tensor(4.)
    """
    number = len(user_levels())
    scope = _Level()
    scope.level.scope = scope  # which is kept by the level, as long as that is open
    scope.__enter__()
    return number


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves a level of forward mode. Tensors lose the tangents of that level.

    Args:
        level: number of the level; the innermost by default.

    Example:
        >>> import retrograd.autograd.forward_ad as fwAD
        >>> level = fwAD.enter_dual_level()
        >>> fwAD.exit_dual_level(level=level)
    """
    last = len(user_levels()) - 1
    if level is None and last < 0:
        raise RuntimeError("Dual level must be a positive number. No level has been entered.")
    innermost = modes.levels[-1] if modes.levels else None
    if (level is not None and level != last) or not isinstance(innermost, UserLevel):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    if innermost.scope is None:
        raise RuntimeError(
            "Trying to exit a forward AD level that a `with` statement has entered. It ends with "
            "the statement."
        )
    innermost.scope.__exit__(None, None, None)
    innermost.scope = None


class dual_level(ModeContext):  # noqa: N801 - PyTorch's name
    """A context manager or a decorator that enters a level of forward mode.

    Inside, tensors can be given tangents by ``make_dual``. Levels can be nested, which PyTorch does
    not support, and are numbered from the outermost.

    Example:
        >>> import retrograd.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        ...     fwAD.unpack_dual(x**3).tangent
        tensor(12.)
    """

    def __enter__(self) -> int:
        number, level = len(user_levels()), UserLevel()
        level.opened_by = self._enter({"levels": (*modes.levels, level)})
        return number


def _chosen(number: int | None, what: str) -> UserLevel | None:
    """The level of a number, the innermost if none is given."""
    levels = user_levels()
    if number is None:
        return levels[-1] if levels else None
    if not 0 <= number < len(levels):
        raise RuntimeError(
            f"Invalid level given to {what}: {number}. There are {len(levels)} levels, numbered "
            "from 0."
        )
    return levels[number]


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Attaches a tangent to a tensor. Operations on the result compute the tangents of their
    results.

    Args:
        tensor: the value.
        tangent: a tensor of the same shape. It is converted to the dtype of ``tensor``.
        level: number of the level; the innermost by default.

    Returns:
        A tensor with the value and the tangent.

    Example:
        >>> import retrograd.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])).sum()
        tensor(3., tangent=tensor(1.))
    """
    chosen = _chosen(level, "_make_dual")
    if chosen is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, TensorLike):
            raise TypeError(
                f"make_dual(): argument '{name}' must be Tensor, not {type(x).__name__}"
            )
    tangent = checked_tangent(tensor, tangent)
    data = value_of(tensor)
    if chosen.owns(data):
        if data.tangent is not None:
            raise RuntimeError(
                "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
                f"same level {user_levels().index(chosen)} is not supported."
            )
        tensor = as_tensor(data.primal)
    node, number = edge(tensor)
    return wrap(Dual(chosen, tensor, tangent), node, number)


def checked_tangent(tensor: Any, tangent: Any) -> Any:
    """A tensor that can be the tangent of another, in the dtype of that."""
    for role, x in (("primal", tensor), ("tangent", tangent)):
        if x._data.dtype.kind not in dtypes.INEXACT:
            raise ValueError(f"Expected {role} to be floating point or complex, but got: {x.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    if tangent._data.dtype.kind == "c" and tensor._data.dtype.kind in dtypes.FLOATS:
        have, given = (dtypes.from_numpy_dtype(x._data.dtype) for x in (tensor, tangent))
        raise RuntimeError(
            "Expected the tangent to have the dtype of the value that it belongs to, but got "
            f"{given} for a tensor of {have}"
        )
    if tensor._data.dtype != tangent._data.dtype:
        return to_dtype(tangent, dtype=tensor._data.dtype)
    return tangent


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor.

    Args:
        tensor: a tensor.
        level: number of the level; the innermost by default.

    Returns:
        A named tuple ``(primal, tangent)``. The tangent is None if there is none.

    Example:
        >>> import retrograd.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        ...     fwAD.unpack_dual(x.exp())
        UnpackedDualTensor(primal=tensor(7.3891), tangent=tensor(7.3891))
    """
    chosen, data = _chosen(level, "_unpack_dual"), value_of(tensor)
    if isinstance(data, Dual) and (data.level is chosen or data.level.closed):
        tangent = None if data.level.closed else data.tangent
        return UnpackedDualTensor(
            as_tensor(data.primal), tangent if tangent is None else as_tensor(tangent)
        )
    return UnpackedDualTensor(tensor, None)


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
           "unpack_dual"]  # fmt: skip
