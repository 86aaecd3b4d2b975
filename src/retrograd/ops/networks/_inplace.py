"""Functions with an argument ``inplace``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from retrograd.ops._operation import Operation, Planned, Target


def with_inplace(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: give a function that ends in one operation on its first argument the argument
    ``inplace``, which has that operation write over it."""
    own = function.__code__.co_argcount

    @wraps(function)
    def called(*args: Any, inplace: bool = False, **named: Any) -> Any:
        if len(args) == own + 1:
            *args, inplace = args  # type: ignore[assignment]
        if not inplace:
            return function(*args, **named)
        target, *others = args or (named.pop("input"),)
        plan = function(Target(target), *others, **named)
        assert isinstance(plan, Planned), f"{function.__name__} is more than one operation"
        assert Operation.write is not None, "the tensor layer is not loaded"
        return Operation.write(plan.operation, [target, *plan.operands[1:]], plan.options)

    signature = inspect.signature(function)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    added = inspect.Parameter("inplace", kind, default=False, annotation="bool")
    called.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), added]
    )
    return called
