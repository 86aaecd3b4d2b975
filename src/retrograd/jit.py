"""``torch.jit``: decorators and functions that return what they are given, and say so once.

There is no TorchScript. Programs that use it to be faster run as they are; ``torch.compile`` makes
programs of functions here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from retrograd.nn.module import Module

T = TypeVar("T")
_said: list[str] = []


def _say(name: str) -> None:
    if not _said:
        _said.append(name)
        warnings.warn(
            f"torch.jit.{name} returns what it is given: there is no TorchScript here. Use "
            "torch.compile for a program of a function.",
            stacklevel=3,
        )


def script(obj: T, *args: Any, **options: Any) -> T:
    """Returns its argument unchanged.

    Args:
        obj: what PyTorch would compile.
        *args: ignored.
        **options: ignored.

    Returns:
        ``obj``.
    """
    _say("script")
    return obj


def trace(func: T, example_inputs: Any = None, *args: Any, **options: Any) -> T:
    """Returns its argument unchanged.

    Args:
        func: what PyTorch would trace.
        example_inputs: ignored.
        *args: ignored.
        **options: ignored.

    Returns:
        ``func``.
    """
    _say("trace")
    return func


trace_module = script_if_tracing = script


def _as_it_is(fn: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator that returns the function unchanged."""
    return fn if callable(fn) else lambda function: function


_overload_method = ignore = unused = export = interface = script_method = _as_it_is
freeze = optimize_for_inference = optimized_execution = script


def is_scripting() -> bool:
    """Whether TorchScript runs the code: always False."""
    return False


def is_tracing() -> bool:
    """Whether TorchScript traces the code: always False."""
    return False


def annotate(the_type: Any, the_value: T) -> T:
    """Returns the value. TorchScript uses the type."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001 - PyTorch's name
    """Whether an object is of a type, which may be a container of types."""
    import builtins
    from typing import get_origin

    return builtins.isinstance(obj, get_origin(target_type) or target_type)


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Any:
    """Call a function; ``wait`` returns the result."""
    from concurrent.futures import Future

    done: Future[T] = Future()
    done.set_result(func(*args, **kwargs))
    return done


def wait(future: Any) -> Any:
    """Returns the result of the function passed to ``fork``."""
    return future.result()


def _no_files(*given: Any, **named: Any) -> NoReturn:
    """Raises a RuntimeError: TorchScript files are not supported."""
    raise RuntimeError(
        "there is no TorchScript here: save the state of a module by torch.save(module.state_dict()"
        ", path), or a program by torch.compile(function).save(path)"
    )


load = save = _no_files


class Attribute(NamedTuple):
    """A value of a module with its type, which programs give to TorchScript."""

    value: Any
    type: Any


class ScriptModule(Module):
    """PyTorch's base class of compiled modules; here an ordinary ``Module``. ``script`` does not
    return one."""


ScriptFunction = type("ScriptFunction", (), {"__doc__": "No object is an instance."})
RecursiveScriptModule = TracedModule = ScriptFunction

__all__ = [
    "Attribute", "Final", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "TracedModule", "annotate", "export", "fork", "freeze", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "load", "optimize_for_inference", "optimized_execution", "save",
    "script", "script_if_tracing", "script_method", "trace", "trace_module", "unused", "wait",
]  # fmt: skip
