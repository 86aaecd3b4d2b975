"""Arguments as NumPy takes them: array-likes, dtypes, axes and ``out=``."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import retrograd as torch
from retrograd import Tensor, arrays
from retrograd._source import user_frame
from retrograd.arrays import protocols
from retrograd.autograd._levels import value_of
from retrograd.autograd._wrap import wrap
from retrograd.ops._lifted import Lifted

dtype_of = protocols.dtype_of
Axis = int | Sequence[int] | None


def array(x: Any) -> Any:
    """What an argument is as a tensor: itself, an array without a copy, numbers, or sequences."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (list, tuple)) and any(isinstance(part, Tensor) for part in leaves(x)):
        return torch.stack(promoted([array(part) for part in x]))
    return wrap(arrays.writable(protocols.array_of(x)))


def leaves(tree: Any) -> Iterable[Any]:
    """The members of nested lists and tuples."""
    if isinstance(tree, (list, tuple)):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def floating(x: Any) -> Any:
    """An argument as a tensor of a floating-point or complex dtype; integers are converted to the
    default dtype."""
    x = array(x)
    exact = not (x.is_floating_point() or x.is_complex())
    return x.to(torch.get_default_dtype()) if exact else x


def promoted(tensors: Sequence[Any]) -> list[Any]:
    """Tensors converted to the dtype that they have in common."""
    common = tensors[0].dtype
    for x in tensors[1:]:
        common = torch.promote_types(common, x.dtype)
    return [x.to(common) for x in tensors]


def operands(inputs: Sequence[Any]) -> list[Any]:
    """The arguments of a function of elements as tensors. A Python number takes the dtype of the
    others, unless that is of a lower kind."""
    converted = [x if is_number(x) else array(x) for x in inputs]
    tensors = [x for x in converted if isinstance(x, Tensor)]
    common = tensors[0].dtype if len(tensors) == 1 else torch.result_type(*tensors[:2])
    return [x if isinstance(x, Tensor) else _number(x, common) for x in converted]


def is_number(x: Any) -> bool:
    """Whether something is a number of Python, not of NumPy."""
    return type(x) in (bool, int, float, complex)


def _number(x: Any, dtype: Any) -> Tensor:
    return torch.tensor(x, dtype=torch.result_type(torch.zeros(1, dtype=dtype), x))


def cast(x: Any, dtype: Any) -> Any:
    """A tensor converted to a dtype in any form that NumPy accepts; None leaves it unchanged."""
    return x if dtype is None else x.to(dtype_of(dtype))


def axes_of(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front: all for None."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if not ndim and axes in ((0,), (-1,)):
        return ()  # which NumPy allows
    for a in axes:
        if not -ndim <= a < ndim:
            raise AxisError(f"axis {a} is out of bounds for array of dimension {ndim}")
    result = tuple(int(a) % ndim for a in axes)
    if len(set(result)) < len(result):
        raise ValueError("duplicate value in 'axis'")
    return result


class AxisError(ValueError, IndexError):
    """As NumPy's error of the same name."""


def along_one(
    function: Callable[[Tensor, int], Any], a: Tensor, axis: Axis, keepdims: bool = False
) -> Any:
    """Apply a one-dimensional reduction along several axes, which are moved to the end and
    flattened."""
    axes = axes_of(axis, a.ndim)
    kept_dims = [d for d in range(a.ndim) if d not in axes]
    if len(axes) != 1:
        sizes = [a.shape[d] for d in kept_dims]
        count = count_of(a.shape[d] for d in axes)
        result = function(a.permute(*kept_dims, *axes).reshape(*sizes, count), -1)
    else:
        result = function(a, axes[0])
    if keepdims:
        front = result.ndim - len(kept_dims)
        sizes = [1 if d in axes else n for d, n in enumerate(a.shape)]
        result = result.reshape(*result.shape[:front], *sizes)
    return result


def count_of(sizes: Iterable[int]) -> int:
    """The number of elements of a shape."""
    return torch.Size(tuple(sizes)).numel()


def has_derivative(x: Any) -> bool:
    """Whether a tensor has a history, or belongs to a transform, so that an array would lose it."""
    return isinstance(x, Tensor) and (
        (x.requires_grad and torch.is_grad_enabled()) or isinstance(value_of(x), Lifted)
    )


def into(out: Any, result: Any, name: str, where: Any = True) -> Any:
    """Write a result to ``out=``: a tensor, which records it, or an array."""
    if isinstance(out, tuple):
        if not isinstance(result, tuple):
            return into(out[0], result, name, where)
        pairs = zip(out, result, strict=True)
        return tuple(y if o is None else into(o, y, name, where) for o, y in pairs)
    if out is None:
        return result
    if tuple(out.shape) != tuple(torch.broadcast_shapes(out.shape, result.shape)):
        raise ValueError(
            f"{name}: the result of shape {tuple(result.shape)} does not fit into out, which has "
            f"shape {tuple(out.shape)}"
        )
    if isinstance(out, Tensor):
        out[...] = result if where is True else torch.where(array(where), result, out)
        return out
    if has_derivative(result):
        raise RuntimeError(
            f"{name}: the result has a history, which an array passed as out= cannot keep. Omit "
            "out=, or pass a tensor."
        )
    values = result.detach().numpy()
    if where is True:
        out[...] = values
    else:
        out[array(where).expand(out.shape).numpy()] = values[array(where).expand(out.shape).numpy()]
    return out


def is_augmented_assignment() -> bool:
    """Whether the user's line is ``array += tensor``. Python assigns what that returns, so it need
    not be the array."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] == dis.opmap["BINARY_OP"] and dis._nb_ops[code[at + 1]][1].endswith("=")  # type: ignore[attr-defined]


def refuse(name: str, why: str = "") -> NoReturn:
    """The error for a function that has no counterpart."""
    reason = why or "has no counterpart in retrograd, so it cannot be recorded"
    raise RuntimeError(
        f"{name} {reason}. To compute it without derivatives, pass tensor.detach().numpy(), and "
        "convert the result to a tensor if you need one."
    )


def on_arrays(function: Callable[..., Any], args: Any, named: Any) -> Any:
    """Call a function of NumPy with arrays in place of tensors."""
    return function(*_as_arrays(args), **_as_arrays(named))


def _as_arrays(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.detach().numpy()
    if type(tree) in (list, tuple):
        return type(tree)(_as_arrays(x) for x in tree)
    if type(tree) is dict:
        return {key: _as_arrays(x) for key, x in tree.items()}
    return tree


def tensors_in(tree: Any) -> list[Any]:
    """The tensors among arguments, and in sequences among them."""
    if isinstance(tree, Tensor):
        return [tree]
    if type(tree) is dict:
        tree = tree.values()
    elif type(tree) not in (list, tuple):
        return []
    return [x for part in tree for x in tensors_in(part)]
