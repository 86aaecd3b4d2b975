"""Switching recording on and off: ``no_grad``, ``enable_grad``, ``inference_mode``.

Each works as a context manager and as a decorator, and for its own thread only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import isgeneratorfunction
from typing import Any, Self

from retrograd._modes import modes, set_modes


class ModeContext:
    """A context manager, also usable as a decorator, that sets modes and restores them."""

    def __init__(self) -> None:
        self._before: list[dict[str, Any]] = []

    def changes(self) -> dict[str, Any]:
        raise NotImplementedError

    def clone(self) -> Self:
        return type(self)()

    def __enter__(self) -> None:
        self._before.append(set_modes(**self.changes()))

    def __exit__(self, *exc: object) -> None:
        set_modes(**self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isgeneratorfunction(function):
            return self._around_each_step(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _around_each_step(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds while the generator runs, not while its caller does."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step, value = generator.send, None
            while True:
                try:
                    with self.clone():
                        item = step(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, value = generator.send, (yield item)
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    step, value = generator.throw, error

        return wrapped


class no_grad(ModeContext):  # noqa: N801 - PyTorch's name
    """Record nothing: results do not require grad.

    >>> import retrograd as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = object.__new__(cls)
        if function is None:
            return made
        ModeContext.__init__(made)  # @no_grad without parentheses
        return made(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__()

    def changes(self) -> dict[str, Any]:
        return {"grad_enabled": False}


class enable_grad(no_grad):  # noqa: N801
    """Record again inside ``no_grad``.

    >>> import retrograd as torch
    >>> with torch.no_grad(), torch.enable_grad():
    ...     torch.is_grad_enabled()
    True
    """

    def changes(self) -> dict[str, Any]:
        return {"grad_enabled": True}


class set_grad_enabled(ModeContext):  # noqa: N801
    """Record or not, from this call on; as a context manager, until its end.

    >>> import retrograd as torch
    >>> with torch.set_grad_enabled(False):
    ...     torch.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        self._before.append(set_modes(grad_enabled=self.mode))

    def __enter__(self) -> None:
        if not self._before:  # entered again
            self._before.append(set_modes(grad_enabled=self.mode))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        set_modes(**self._before.pop())  # as a decorator it acts inside the function only
        return super().__call__(function)

    def clone(self) -> Self:
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"


class inference_mode(ModeContext):  # noqa: N801
    """``no_grad`` for good: tensors made here can never take part in recorded operations.

    >>> import retrograd as torch
    >>> with torch.inference_mode():
    ...     torch.ones(1).is_inference()
    True
    """

    def __new__(cls, mode: Any = True) -> Any:
        made = object.__new__(cls)
        if isinstance(mode, bool):
            return made
        cls.__init__(made)  # @inference_mode without parentheses
        return made(mode)

    def __init__(self, mode: Any = True) -> None:
        super().__init__()
        self.mode = mode if isinstance(mode, bool) else True

    def changes(self) -> dict[str, Any]:
        return {"inference": self.mode, "grad_enabled": not self.mode}

    def clone(self) -> Self:
        return type(self)(self.mode)


class set_multithreading_enabled(ModeContext):  # noqa: N801
    """Accepted as in PyTorch. A backward pass always runs in the thread that called it."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)

    def changes(self) -> dict[str, Any]:
        return {"multithreading": self.mode}

    def clone(self) -> Self:
        return type(self)(self.mode)


def is_multithreading_enabled() -> bool:
    """What ``set_multithreading_enabled`` says."""
    return modes.multithreading


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread."""
    return modes.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return modes.inference


__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled",
           "set_multithreading_enabled"]  # fmt: skip
