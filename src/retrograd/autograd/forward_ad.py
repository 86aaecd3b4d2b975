"""Forward mode: tangents that travel with values, as PyTorch's ``torch.autograd.forward_ad``."""

from __future__ import annotations

from typing import Any, NamedTuple

from retrograd._modes import modes, set_modes
from retrograd.arrays import dtypes
from retrograd.autograd._duals import Dual, DualLevel
from retrograd.autograd._history import edge
from retrograd.autograd._levels import as_tensor
from retrograd.autograd._wrap import wrap
from retrograd.ops._operation import TensorLike


class UserLevel(DualLevel):
    """A level that the user entered, rather than a function of functions."""

    __slots__ = ()

    transparent = True


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, None if it has none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> UserLevel:
    """Begin a level, on which tensors can be given tangents. Prefer ``dual_level``.

    >>> import retrograd as torch
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    >>> x * x
    tensor(4., tangent=tensor(4.))
    >>> fwAD.exit_dual_level()
    >>> x * x
    tensor(4.)
    """
    level = UserLevel()
    set_modes(levels=(*modes.levels, level))
    return level


def exit_dual_level(*, level: UserLevel | None = None) -> None:
    """End a level, the innermost if none is given. Tensors lose their tangents of it."""
    levels = modes.levels
    if not levels or (level is not None and level is not levels[-1]):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    levels[-1].closed = True
    set_modes(levels=levels[:-1])


class dual_level:  # noqa: N801 - PyTorch's name
    """Within it, tensors can be given tangents. Levels may be nested, beyond PyTorch.

    >>> import retrograd as torch
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x**3).tangent
    tensor(12.)
    """

    def __enter__(self) -> UserLevel:
        self.level = enter_dual_level()
        return self.level

    def __exit__(self, *exc: object) -> None:
        exit_dual_level(level=self.level)


def _chosen(level: UserLevel | None) -> UserLevel | None:
    """The level given, or the innermost that a user entered."""
    if level is not None:
        return level
    return next((x for x in reversed(modes.levels) if isinstance(x, UserLevel)), None)


def make_dual(tensor: Any, tangent: Any, *, level: UserLevel | None = None) -> Any:
    """``tensor`` with a tangent, which whatever is computed with it takes along.

    >>> import retrograd as torch
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])).sum()
    tensor(3., tangent=tensor(1.))
    """
    level = _chosen(level)
    if level is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, TensorLike):
            raise TypeError(
                f"make_dual(): argument '{name}' must be Tensor, not {type(x).__name__}"
            )
        if x._data.dtype.kind not in "fc":
            raise ValueError(f"Expected {_ROLES[name]} to be floating point or complex, but got: "
                             f"{x.dtype}")  # type: ignore[attr-defined]  # fmt: skip
    _check_tangent(tensor, tangent)
    node, number = edge(tensor)
    return wrap(Dual(level, tensor, tangent), node, number)


_ROLES = {"tensor": "primal", "tangent": "tangent"}


def _check_tangent(tensor: Any, tangent: Any) -> None:
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    if tensor._data.dtype != tangent._data.dtype:
        have, given = (dtypes.from_numpy_dtype(x._data.dtype) for x in (tensor, tangent))
        raise RuntimeError(
            "Expected the tangent to have the dtype of the value that it belongs to, but got "
            f"{given} for a tensor of {have}"
        )


def unpack_dual(tensor: Any, *, level: UserLevel | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor; the tangent is None where it has none.

    >>> import retrograd as torch
    >>> import retrograd.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x.exp())
    UnpackedDualTensor(primal=tensor(7.3891), tangent=tensor(7.3891))
    """
    level, data = _chosen(level), tensor._data
    if isinstance(data, Dual) and (data.level is level or (level is None and data.level.closed)):
        tangent = None if data.level.closed else data.tangent
        return UnpackedDualTensor(
            as_tensor(data.primal), tangent if tangent is None else as_tensor(tangent)
        )
    return UnpackedDualTensor(tensor, None)
