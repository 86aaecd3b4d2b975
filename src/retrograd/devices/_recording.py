"""Operations on tensors on devices, recorded by the fast paths of ``tensor/_fast.py``.

Whether an operation accepts its operands, which dtype it computes in and whether it has a lowering
depends on the signature of a call, and is determined once for each signature. The fast path takes
the calls whose operands need no conversion and no check of values. Other calls take the general
path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from retrograd import arrays
from retrograd._modes import switch
from retrograd.devices import _calls
from retrograd.devices._caches import Cache
from retrograd.devices._calls import NEW
from retrograd.devices._nodes import node_class
from retrograd.devices._signatures import common_device, keys_of
from retrograd.devices._values import DeviceValue, marked
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import apply_by_level, prepare
from retrograd.tensor._fast import Setting, builder_for


class _GeneralPathError(TypeError):
    """The call has to take the general path."""


@cache
def fast_path(operation: Operation) -> Callable[..., Any] | None:
    """The fast path of an operation for tensors on a device; None if it has none."""
    if operation.view or operation.random:
        return None
    if operation.definition is not None and not operation.has_rules:
        return None
    return builder_for(operation)(operation, ON_DEVICE)


def forward_on_device(operation: Operation) -> Callable[..., Any]:
    """A function that computes an operation on values on a device. It raises ``_GeneralPathError``
    for calls that have to take the general path."""
    calls = Cache()  # by signature; None for the general path
    numbers = _calls.numbers_of(operation)

    def forward(*args: Any, **options: Any) -> Any:
        flat: list[Any] = []
        key = tuple(keys_of(args, flat, numbers))
        if options:
            key = (key, *options, *keys_of(options.values(), flat, numbers))
        call = calls.get(key, NEW)
        if call is NEW:
            simple = _is_simple(operation, args, options)
            call = calls[key] = _calls.find(operation, args, options)[0] if simple else None
        result = NotImplemented if call is None else call(flat, args)
        if result is NotImplemented:
            raise _GeneralPathError
        return result

    return forward


def _is_simple(operation: Operation, args: Any, options: dict[str, Any]) -> bool:
    """Whether a call needs no conversion and no check of values."""
    values = list(args[0]) if operation.inputs == ("tensors",) else list(args)
    try:
        common_device((*args, *options.values()))
        if operation.check is not None:
            operation.check(*values, **options)
        prepared = prepare(operation, values, options)
    except Exception:  # the general path raises the error, or reads values
        return False
    on_device = [type(x) is DeviceValue or not arrays.is_raw(x) for x in values]
    return all(on_device) and all([x is y for x, y in zip(values, prepared, strict=True)])


ON_DEVICE = Setting(
    switch.active, apply_by_level, forward_on_device, lambda number, beside: number,
    floats=(marked(arrays.float32), marked(arrays.float64)),
    node_class=lambda operation: node_class(operation, False), checks=False,
)  # fmt: skip
