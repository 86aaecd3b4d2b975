"""Switching recording on and off: ``no_grad``, ``enable_grad``, ``inference_mode``.

Each works as a context manager and as a decorator, and for its own thread only.
"""

from __future__ import annotations

import functools
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Self

from retrograd._modes import Scope, modes, set_modes


class ModeContext(Scope):
    """A context manager, also usable as a decorator, that sets modes and restores them."""

    def clone(self) -> Self:
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isgeneratorfunction(function):
            wrapped = self._around_generator(function)
        elif iscoroutinefunction(function):
            wrapped = self._around_coroutine(function)
        elif isasyncgenfunction(function):
            wrapped = self._around_asynchronous_generator(function)
        else:

            def wrapped(*args: Any, **kwargs: Any) -> Any:
                with self.clone():
                    return function(*args, **kwargs)

        return functools.wraps(function)(wrapped)

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return (yield from self._step_by_step(function(*args, **kwargs)))

        return wrapped

    def _around_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            return await self._awaited(function(*args, **kwargs))

        return wrapped

    def _around_asynchronous_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            generator = function(*args, **kwargs)
            step: Coroutine[Any, Any, Any] = generator.asend(None)
            while True:
                try:
                    item = await self._awaited(step)
                except StopAsyncIteration:
                    return
                try:
                    step = generator.asend((yield item))
                except GeneratorExit:
                    await self._awaited(generator.aclose())
                    raise
                except BaseException as error:
                    step = generator.athrow(error)

        return wrapped

    def _step_by_step(self, generator: Any) -> Generator[Any, Any, Any]:
        """A generator, or what is awaited. The mode holds while it runs, not while others do."""
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
                with self.clone():
                    generator.close()
                raise
            except BaseException as error:
                step, value = generator.throw, error

    @types.coroutine
    def _awaited(self, coroutine: Any) -> Generator[Any, Any, Any]:
        return (yield from self._step_by_step(coroutine))


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
        return made(function)  # @no_grad without parentheses

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        pass

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
        self.mode = bool(mode)
        self._before = modes.grad_enabled
        try:
            set_modes(grad_enabled=self.mode)
        except BaseException:  # an interrupt
            set_modes(grad_enabled=self._before)
            raise

    def changes(self) -> dict[str, Any]:
        set_modes(grad_enabled=self._before)  # what holds outside, and so afterwards
        return {"grad_enabled": self.mode}

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        set_modes(grad_enabled=self._before)  # as a decorator it acts inside the function only
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
        self.mode = mode if isinstance(mode, bool) else True

    def changes(self) -> dict[str, Any]:
        return {"inference": self.mode, "grad_enabled": not self.mode}

    def clone(self) -> Self:
        return type(self)(self.mode)


class set_multithreading_enabled(ModeContext):  # noqa: N801
    """Accepted as in PyTorch. A backward pass always runs in the thread that called it."""

    def __init__(self, mode: bool) -> None:
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
