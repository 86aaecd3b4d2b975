"""Functions of ``nn.functional`` with an argument ``inplace``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from retrograd.ops._operands import Target
from retrograd.ops._operation import Operation, Planned
from retrograd.ops._public import declare


def with_inplace(
    namespaces: str = "", *, in_place: str = "", out: str = "no"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: make a function that ends in one operation on its first argument public. In
    ``nn.functional`` it has the argument ``inplace``, which has that operation write over the first
    argument. In the other ``namespaces`` it does not."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name, called = function.__name__, _with_argument(function)
        declare(called, name, "functional", out=out)
        declare(function, name, namespaces, in_place=in_place, out=out)
        return called

    return decorate


def _with_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    own = function.__code__.co_argcount

    @wraps(function)
    def called(*args: Any, inplace: bool = False, **named: Any) -> Any:
        if len(args) == own + 1:
            *args, inplace = args  # type: ignore[assignment]
        if not inplace:
            return function(*args, **named)
        target, *others = args or (named.pop("input"),)
        plan = function(Target(target), *others, **named)
        assert isinstance(plan, Planned), f"{name} is more than one operation"
        assert Operation.write is not None, "the tensor layer is not loaded"
        return Operation.write(plan.operation, [target, *plan.operands[1:]], plan.options)

    name, signature = function.__name__, inspect.signature(function)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    added = inspect.Parameter("inplace", kind, default=False, annotation="bool")
    called.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), added]
    )
    del called.__wrapped__  # which has another signature
    return called
