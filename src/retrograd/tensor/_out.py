"""``out=``: writing results into tensors of the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import dtypes
from retrograd.autograd._history import meta_of
from retrograd.autograd._unrecorded import note_change
from retrograd.ops._lifted import Lifted, tracer
from retrograd.ops._operation import TABLE, Operation
from retrograd.ops._public import Face
from retrograd.ops._refusals import c_name
from retrograd.ops._results import NamedResult, named_result
from retrograd.tensor._calls import any_requires_grad
from retrograd.tensor._device import CPU, META
from retrograd.tensor._tensor import Tensor
from retrograd.tensor._write_steps import layout_in_memory


def written(
    face: Face, name: str, function: Callable[..., Any], out: Any, args: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:  # fmt: skip
    """The results of a call, written into the tensors given for them."""
    words = words_of(face)
    targets: Sequence[Tensor] = out if isinstance(out, (tuple, list)) else (out,)
    given = [*args, *named.values()]
    recorded = targets if "constant" in words else (*_flat(given), *targets)
    if modes.grad_enabled and any_requires_grad(recorded):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if "its dtype" in words and named.get("dtype") is None:
        named = {**named, "dtype": targets[0].dtype}
    result = function(*args, **named)
    pairs = list(zip(targets, result if targets is out else (result,), strict=True))
    for target, value in pairs:
        if not ("or complex" in words and args and args[0].dtype == target.dtype):
            _check_dtype(name, words, target, value)
        _check_overlap(face, words, target, _flat(given))
        _check_device(target, value)
    for target, value in pairs:
        write_out(target, value)
    if isinstance(result, NamedResult):
        return named_result(f"{type(result).__name__}_out", *result.fields)(targets)
    return out


def words_of(face: Face) -> set[str]:
    """What a declaration says about ``out=``. What an operation on elements does not say follows
    from what it says about dtypes."""
    words = set(face.out.split(", ")) - {""}
    if face.is_operation:
        op = face.target
        if not op.differentiable:
            words.add("constant")
        if not face.out:
            casts = op.dtypes in ("promote", "float")
            words.add("same" if not _by_element(op) else "cast" if casts else "computed")
    return words


def write_out(target: Tensor, value: Tensor) -> None:
    """Copy ``value`` into a tensor that was given for it, which takes its shape. In another shape
    the elements lie one after the other from where the tensor began, in the memory of its base as
    far as that goes; under a transform, in memory of its own."""
    shape, before = value._data.shape, (target._data.shape, target._data.dtype)
    if target._data.shape != shape and any(isinstance(x._data, Lifted) for x in (target, value)):
        like = value if isinstance(value._data, Lifted) else target  # which may be on a device
        target._data = like.new_zeros(shape, dtype=target.dtype)._data
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
    if target.requires_grad:
        note_change(target, before)
    target.copy_(value)


def _check_device(target: Tensor, value: Tensor) -> None:
    """Raise a RuntimeError if a tensor to write to is on another device than what is written. A
    number may come from the CPU."""
    lifted = isinstance(target._data, Lifted) or isinstance(value._data, Lifted)
    if not lifted or tracer() is not None or target.device == value.device:
        return
    if META in (target.device, value.device):
        raise RuntimeError(
            f"Attempting to copy from device {value.device} to device {target.device}, but "
            "cross-device copies are not allowed!"
        )
    if value._data.ndim or value.device != CPU:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{value.device} and {target.device}!"
        )


def _flat(given: Sequence[Any]) -> list[Any]:
    """Arguments, and those in sequences."""
    return [y for x in given for y in (x if isinstance(x, (list, tuple)) else (x,))]


def _check_dtype(name: str, words: set[str], target: Tensor, value: Tensor) -> None:
    have, wanted = value._data.dtype, target._data.dtype
    if have == wanted or "any" in words:
        return
    kinds = [dtypes.type_word(d) for d in (have, wanted)]
    if "any precision" in words:
        if have.kind == wanted.kind:
            return
        kind = "complex" if have.kind == "c" else "floating point"
        name = name.removeprefix("fft_").replace("2", "n")
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {kinds[1]}")
    if "computed" in words:
        raise RuntimeError(f"Found dtype {kinds[1]} but expected {kinds[0]}")
    if words.isdisjoint(("cast", "joined")):
        raise RuntimeError(
            f"Expected out tensor to have dtype {c_name(have)}, but got {c_name(wanted)} instead"
        )
    if not dtypes.can_cast(value.dtype, target.dtype):
        if "joined" in words:
            raise TypeError(
                f"torch.cat(): input types can't be cast to the desired output type {kinds[1]}"
            )
        raise RuntimeError(
            f"result type {kinds[0]} can't be cast to the desired output type {kinds[1]}"
        )


def _by_element(operation: Operation) -> bool:
    return operation.family == "elementwise" or operation.name == "mul"


def _check_overlap(face: Face, words: set[str], target: Tensor, given: Sequence[Any]) -> None:
    """Refuse to write over inputs in another place than where they are read."""
    memory = layout_in_memory(target)
    operation = face.target if face.is_operation else TABLE.get(face.name)
    aligned = operation is not None and (operation.broadcasts or operation.batch == "pointwise")
    checked = not words.isdisjoint(("apart", "aligned")) or (aligned and "copied" not in words)
    if not checked or not isinstance(memory, arrays.ndarray):
        return
    for other in given:
        if not isinstance(other, Tensor):
            continue
        how = "full" if other is target else arrays.overlap(memory, layout_in_memory(other))
        if how == "partial" or (how == "full" and "apart" in words):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )
