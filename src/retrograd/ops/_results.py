"""Named results of functions that return several tensors.

They are tuples whose members have names too, and print as PyTorch prints its return types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

_KNOWN: dict[tuple[str, ...], type[NamedResult]] = {}


class NamedResult(tuple[Any, ...]):
    """A tuple of tensors, each of them an attribute as well."""

    __slots__ = ()
    fields: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, values: Iterable[Any]) -> NamedResult:
        self = super().__new__(cls, values)
        if len(self) != len(cls.fields):
            raise TypeError(
                f"{cls.__module__}.{cls.__name__}() takes a {len(cls.fields)}-sequence "
                f"({len(self)}-sequence given)"
            )
        return self

    def __repr__(self) -> str:
        members = ",\n".join(f"{n}={v!r}" for n, v in zip(self.fields, self, strict=True))
        return f"{type(self).__module__}.{type(self).__name__}(\n{members})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self).__name__, self.fields, tuple(self))


def _restore(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> NamedResult:
    return named_result(name, *fields)(values)


def named_result(name: str, *fields: str) -> type[NamedResult]:
    """The type of results of the function ``name``, with members called ``fields``.

    It is made once; to make a result, call it with the members in a sequence.

    >>> pair = named_result("max", "values", "indices")((3.0, 1))
    >>> pair
    torch.return_types.max(
    values=3.0,
    indices=1)
    >>> pair.values, pair[1]
    (3.0, 1)
    """
    key = (name, *fields)
    if key not in _KNOWN:
        members: dict[str, Any] = {field: _member(i) for i, field in enumerate(fields)}
        module = "torch.return_types"  # under which PyTorch's programs know and print them
        members.update(__slots__=(), fields=fields, __module__=module)
        _KNOWN[key] = type(name, (NamedResult,), members)
    return _KNOWN[key]


def _member(position: int) -> property:
    return property(lambda self: self[position])
