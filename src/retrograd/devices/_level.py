"""The level of all values on devices. It is below all transforms and is never closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from retrograd import arrays
from retrograd._modes import BELOW, modes
from retrograd.compiler._program import Step
from retrograd.devices import _calls, _deferred, _nodes, _pending, _recording
from retrograd.devices._caches import Cache
from retrograd.devices._signatures import keys_of, on_one_device, two_devices
from retrograd.devices._values import DeviceValue, View, find_kind, put, seen
from retrograd.ops import copies
from retrograd.ops._lifted import Level, Lifted, TensorLike, raw
from retrograd.ops._widened import is_narrow, run_widened

np = arrays.programs.numpy


class _Inside(threading.local):
    """The state of a thread."""

    depth = 0  # the number of nested operations that are running
    looks = False  # whether elements may be read, by a copy on the CPU


class DeviceLevel(Level):
    """Runs operations by their lowerings to XLA, compiled once for each signature."""

    __slots__ = ("_ones", "_state")

    name = "a device"
    transparent = True

    def __init__(self) -> None:
        super().__init__()
        self.number = 0  # below all transforms
        self._state = _Inside()
        self._ones = Cache(1000)  # by kind

    @property
    def inside(self) -> bool:
        """Whether a rule or definition is running. Its constants may be arrays on the CPU."""
        frame = modes.frame
        return bool(self._state.depth or frame.tasks or frame.shared is BELOW)

    @property
    def looks(self) -> bool:
        return self._state.looks

    def constant(self, x: Any) -> Lifted:
        data = raw(x)
        if isinstance(data, DeviceValue):
            return data
        return data  # type: ignore[no-any-return]

    def ones_like(self, x: Any) -> Lifted:
        """Ones. Their XLA array is cached, because every backward pass starts from one."""
        device = x.memory.device
        _deferred.begin_pass()
        if device._mesh is not None or _pending.tracing.expected is not None:
            where = None if device._mesh is None else x.array.sharding
            return put(arrays.ones(x.shape, x.dtype), device, where)
        kind = find_kind(device, x.shape, x.dtype)
        array = self._ones.get(kind)
        if array is None:
            array = self._ones[kind] = put(arrays.ones(x.shape, x.dtype), device).memory.array
        return _calls.of_kind(kind, array)

    def separately(self) -> AbstractContextManager[None]:
        """A block in which a repeated operation gives bitwise equal results."""
        return _deferred.separately()

    def records_whole(self, operation: Any) -> bool:
        """A composite is recorded as one node if it has rules, as on the CPU."""
        return bool(operation.has_rules)

    def check_devices(self, operands: Sequence[Any], transformed: bool = False) -> None:
        if self.inside:
            return
        device = other = None
        for x in operands:
            if isinstance(x, TensorLike):
                value = _bottom(x._data) if transformed else x._data
                if isinstance(value, DeviceValue):
                    device = value.memory.device
                elif arrays.is_raw(value) and len(x._data.shape):
                    other = "cpu"
        if device is not None and other is not None:
            raise two_devices(device, other)
        if other is not None and not transformed:  # the value on a device is an option: an index
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )

    def with_recorded_numbers(self, operands: list[Any]) -> list[Any]:
        if self.inside or not modes.grad_enabled:
            return operands
        moved = list(operands)
        for i, x in enumerate(operands):
            data = x._data if isinstance(x, TensorLike) else None
            if arrays.is_raw(data) and x.requires_grad:
                device = first_device(operands)
                moved[i] = x if device is None else x.to(device)
        return moved

    def on_one_device(self, one: DeviceValue, other: DeviceValue) -> bool:
        return on_one_device(one.memory, other.memory)

    def check(self, check: Any, values: Any, options: dict[str, Any]) -> None:
        """Run an operation's check, which may read values."""
        state = self._state
        before = state.looks
        try:  # twice, here and below, because an interrupt can stop one
            try:
                state.looks = True
                check(*values, **options)
            finally:
                state.looks = before
        finally:
            state.looks = before

    def apply(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        state = self._state
        depth = state.depth
        try:
            try:
                state.depth = depth + 1
                return self.run(operation, args, options)
            finally:
                state.depth = depth
        finally:
            state.depth = depth

    def fast_path(self, operation: Any) -> Callable[..., Any] | None:
        return _recording.fast_path(operation)

    def node_class(self, operation: Any, narrow: bool) -> Any:
        return _nodes.node_class(operation, narrow)

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        for x in args:
            if isinstance(x, arrays.ndarray) and x.ndim and not self.inside:
                # This may be a tensor on the CPU.
                next(y for y in args if isinstance(y, DeviceValue)).refuse(operation.name)
        if operation.view:
            return _views(operation, args, options)
        if operation.name in ("to_device", "redistribute"):
            return operation.forward(*args, **options)
        call, flat = _calls.find(operation, args, options)
        result = NotImplemented if call is None else call(flat, args)
        if result is not NotImplemented:
            return result
        if operation.definition is not None and not _calls.is_known(operation):
            return self.by_definition(operation, args, options)
        return on_host(operation, args, options)

    def by_definition(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if any([is_narrow(x) for x in args]) and not operation.moves_only:
            return run_widened(self.defined, _to_dtype, operation, args, options)
        return self.defined(operation, args, options)

    def defined(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        state = self._state
        depth = state.depth
        try:
            try:
                state.depth = depth + 1
                result = operation.definition(*args, **options)
            finally:
                state.depth = depth
        finally:
            state.depth = depth
        device = first_device((*args, *options.values()))
        if isinstance(result, (tuple, list)):
            return tuple([_on(y, device) for y in result])
        return _on(result, device)

    def run_on_parts(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self.run(operation, args, options)

    def run_elementwise(self, operation: Any, args: Any, options: dict[str, Any]) -> Any:
        return self.run(operation, tuple(args), options)

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x, True)

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        memory = target.memory
        same = (result.shape, result.dtype) == (target.shape, target.dtype)
        if same and not target.steps and isinstance(result, DeviceValue):
            memory.hold(result.content)
        else:
            memory.hold(_calls.written(target, result))


def _bottom(value: Any) -> Any:
    """The innermost part of a value, which belongs to no transform."""
    while isinstance(value, Lifted) and value.level.number:
        value = raw(value.inner)
    return value


_known_views = Cache()  # by signature: whether the operation returns several views, and these


def _views(operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Views of a value. Nothing is computed. Their descriptions are cached by signature."""
    source = args[0]
    flat: list[Any] = []
    key = (operation, source._kind or source.kind, *options,
           *keys_of(options.values(), flat))  # fmt: skip
    known: tuple[bool, list[View]] | None = _known_views.get(key)
    if known is None:
        layouts = operation.forward(source.layout, **options)
        if operation.name == "as_strided" and source.steps:
            return _of_memory(operation, source, layouts, options)
        several = isinstance(layouts, (tuple, list))
        known = several, [
            source.view(y, Step(operation, options, i if several else None))
            for i, y in enumerate(layouts if several else (layouts,))
        ]
        if not flat:
            _known_views[key] = known
    several, views = known
    return tuple(map(source.part, views)) if several else source.part(views[0])


def _of_memory(operation: Any, source: DeviceValue, layout: Any, options: dict[str, Any]) -> Any:
    """``as_strided`` of a view. The result may contain elements outside of that view, so it is
    described as a view of the whole memory."""
    whole = source.whole
    if whole.dtype != source.dtype:
        raise RuntimeError(
            f"as_strided: on the device {source.memory.device}, a view as another dtype "
            f"({source.dtype} of {whole.dtype}) is not supported. Use clone() first."
        )
    start = options["start"] + arrays.layout.offset(source.layout)
    of_whole = {**options, "start": start, "own": arrays.strides(whole.layout)}
    return whole.part(whole.view(layout, Step(operation, of_whole, None)))


def on_host(operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """An operation computed by NumPy on copies of its operands. Its results are moved to the
    device."""
    device = first_device((*args, *options.values()))
    values = [seen(_bare(x)) for x in args]
    result = operation.compute(values, {name: seen(_bare(x)) for name, x in options.items()})
    if isinstance(result, (tuple, list)):
        return tuple([put(y, device) for y in result])
    return put(result, device)


def _to_dtype(x: Any, dtype: Any) -> Any:
    return copies.to_dtype(raw(x), dtype=dtype)


def _on(x: Any, device: Any) -> Any:
    """A result, moved to a device if a definition computed it on the CPU from constants."""
    x = raw(x)
    return x if isinstance(x, Lifted) else put(x, device)


def _bare(x: Any) -> Any:
    return type(x)(map(_bare, x)) if type(x) in (list, tuple) else raw(x)


def first_device(values: Any) -> Any:
    """The device of the first value that is on one."""
    for x in values:
        x = raw(x)
        if isinstance(x, DeviceValue):
            return x.memory.device
        if type(x) in (list, tuple) and (device := first_device(x)) is not None:
            return device
    return None


Lifted.device_level = DeviceLevel()
