"""Classes and modes that override functions of tensors, by ``__torch_function__``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from retrograd._modes import modes
from retrograd.tensor import _interception
from retrograd.tensor._interception import (
    Intercepted,
    TorchFunctionMode,
    get_default_nowrap_functions,
    install,
    overriding,
)
from retrograd.tensor._public import names_in
from retrograd.tensor._tensor import Tensor


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Tests whether some class or mode overrides a function of the given arguments.

    Args:
        relevant_args: The arguments.

    Example:
        >>> torch.overrides.has_torch_function((torch.zeros(2),))
        False
    """
    return _interception.asked(relevant_args, {}) is not None


def has_torch_function_unary(obj: Any) -> bool:
    """The same for one argument.

    Args:
        obj: The argument.
    """
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """The same for arguments that are passed one by one.

    Args:
        *args: The arguments.
    """
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls the ``__torch_function__`` of the arguments of a function.

    Args:
        public_api: The function that is overridden.
        relevant_args: Its arguments whose classes are asked.
        *args: All of its arguments.
        **kwargs: Its arguments by name.

    Returns:
        What the first class says that does not return ``NotImplemented``.

    Example:
        >>> class Scalar:
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return "overridden"
        >>> def double(x):
        ...     if torch.overrides.has_torch_function((x,)):
        ...         return torch.overrides.handle_torch_function(double, (x,), x)
        ...     return 2 * x
        >>> double(Scalar())
        'overridden'
    """
    overriders = overriding(relevant_args) if modes.overrides else []
    result = _interception.ask(public_api, overriders, args, kwargs)
    if result is NotImplemented:
        name = f"{public_api.__module__}.{public_api.__name__}"
        kinds = list(map(type, overriders))
        raise TypeError(
            f"no implementation found for '{name}' on types that implement __torch_function__: "
            f"{kinds}"
        )
    return result


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator for functions that classes can override.

    Args:
        dispatcher: A function of the same arguments that returns those whose classes are asked.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(called, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return called

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Tests whether an object is a tensor, or of a class that overrides functions.

    Args:
        inp: Any object.

    Example:
        >>> torch.overrides.is_tensor_like(torch.zeros(1)), torch.overrides.is_tensor_like(1)
        (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Returns the functions that classes can override.

    Returns:
        Lists of functions, by the module or class that they are in.
    """
    install()
    result: dict[Any, list[Callable[..., Any]]] = {}
    for name, space in {
        "": "torch", "nn.functional": "functional", "linalg": "linalg", "fft": "fft",
        "special": "special",
    }.items():  # fmt: skip
        module = importlib.import_module(f"retrograd.{name}") if name else sys.modules["retrograd"]
        result[module] = [getattr(module, n) for n in names_in(space)]
    package = sys.modules["retrograd"]
    result[package] += [f for f in vars(package).values() if isinstance(f, Intercepted)]
    result[Tensor] = _methods()
    return result


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Returns a function for each one that classes can override, to test classes with.

    Returns:
        Functions that take any arguments and return -1, by what they stand for.
    """
    functions = [f for several in get_overridable_functions().values() for f in several]
    return {f: lambda *args, **kwargs: -1 for f in functions}


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Returns public functions that classes cannot override."""
    package = sys.modules["retrograd"]
    names = ("is_tensor", "is_storage", "manual_seed", "save", "load", "compile", "vmap",
             "typename", "from_dlpack", "frombuffer", "is_grad_enabled", "set_grad_enabled",
             "get_default_dtype", "set_default_dtype", "get_rng_state", "set_rng_state", "seed",
             "initial_seed", "promote_types", "can_cast", "broadcast_shapes",
             "set_printoptions")  # fmt: skip
    ignored = {getattr(package, name) for name in names}
    return ignored | {getattr(Tensor, name) for name in ("__hash__", "as_subclass")}


def _methods() -> list[Callable[..., Any]]:
    install()
    results: list[Callable[..., Any]] = []
    for name in dir(Tensor):
        member = getattr(Tensor, name)
        if isinstance(member, property):
            results.append(member.__get__)
        elif isinstance(member, Intercepted):
            results.append(member)
    return results


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Tests whether a function is a method of Tensor, or the ``__get__`` of a property.

    Args:
        func: The function, as ``__torch_function__`` receives it.

    Example:
        >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
        True
    """
    return func in _methods() or func.__name__ == "__get__"


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Returns the full name of a function that classes can override.

    Args:
        f: The function.

    Returns:
        The name, or None if there is no such function.

    Example:
        >>> torch.overrides.resolve_name(torch.Tensor.add)
        'torch.Tensor.add'
    """
    if isinstance(f, property):
        f = f.__get__
    for home, functions in get_overridable_functions().items():
        if f in functions:
            where = home.__name__.replace("retrograd", "torch", 1)
            prefix = "torch." if home is Tensor else ""
            return f"{prefix}{where}.{f.__name__}"
    return None


__all__ = [
    "TorchFunctionMode", "get_default_nowrap_functions", "get_ignored_functions",
    "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
    "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip
