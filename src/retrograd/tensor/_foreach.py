"""``torch._foreach_add_`` and its relatives: an operation on each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from retrograd._later import MissingNameError
from retrograd.tensor._tensor import Tensor

# Names that are not those of methods.
_METHODS = {"norm": "norm", "max": "max", "powsum": ""}


@cache
def over_lists(name: str) -> Callable[..., Any]:
    """The function ``torch._foreach_name``. Lists among its arguments are taken along."""
    method = _METHODS.get(name.removeprefix("_foreach_"), name.removeprefix("_foreach_"))
    in_place = method.endswith("_")
    called: Any = getattr(Tensor, method, None) if method else None
    if called is None and in_place and hasattr(Tensor, method[:-1]):
        called = _written_over(method[:-1])
    if called is None:
        raise MissingNameError(name, "retrograd")

    def function(self: Any, *others: Any, **named: Any) -> Any:
        count = len(self)
        if not count:
            raise RuntimeError("Tensor list must have at least one tensor.")
        rows = [_each(x, count) for x in others]
        columns = {key: _each(x, count) for key, x in named.items()}
        results = []
        for i, x in enumerate(self):
            given = [row[i] for row in rows]
            options = {key: column[i] for key, column in columns.items()}
            results.append(_call(called, method, x, given, options))
        return self if in_place else tuple(results)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``Tensor.{method}`` for each tensor of a list."
    return function


def _written_over(method: str) -> Callable[..., Any]:
    """A method in place that Tensors do not have: ``maximum_``."""
    return lambda x, *args, **named: x.copy_(getattr(x, method)(*args, **named))


def _each(x: Any, count: int) -> list[Any]:
    """An argument for each tensor: an element of a list, or of a tensor of one dimension."""
    if isinstance(x, (list, tuple)):
        if len(x) != count:
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(x)}"
            )
        return list(x)
    if isinstance(x, Tensor) and x.ndim == 1 and x.numel() == count and count > 1:
        return list(x.tolist())
    return [x] * count


def _call(called: Any, method: str, x: Any, given: list[Any], options: dict[str, Any]) -> Any:
    """``addcmul`` and its like take the factor by name."""
    base = method.removesuffix("_")
    if base in ("addcmul", "addcdiv") and len(given) == 3:
        return called(x, *given[:2], value=given[2])
    if base in ("maximum", "minimum") and isinstance(given[0], (int, float)):
        clamp = "clamp_min" if base == "maximum" else "clamp_max"
        return getattr(x, method.replace(base, clamp))(given[0])
    if base == "norm":
        return called(x, given[0] if given else options.get("ord", 2))
    return called(x, *given, **options)
