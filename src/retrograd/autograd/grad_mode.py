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
        """A context manager like this one, for each call of a decorated function.

        Returns:
            The new context manager.
        """
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
    """Disables recording, as a context manager or a decorator: results do not require grad.

    Args:
        function: the function to decorate.

    Example:
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
    """Enables recording, as a context manager or a decorator, inside ``no_grad``.

    Args:
        function: the function to decorate.

    Example:
        >>> with torch.no_grad(), torch.enable_grad():
        ...     torch.is_grad_enabled()
        True
    """

    def changes(self) -> dict[str, Any]:
        return {"grad_enabled": True}


class set_grad_enabled(ModeContext):  # noqa: N801
    """Switches recording on or off.

    It takes effect with the call. As a context manager or a decorator, it restores the previous
    mode at its end.

    Args:
        mode: whether to record.

    Example:
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
        """A context manager like this one, for each call of a decorated function.

        Returns:
            The new context manager.
        """
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"


class inference_mode(ModeContext):  # noqa: N801
    """Disables recording, as a context manager or a decorator; results can never be recorded later.

    Tensors created here have no version counter, which is faster than ``no_grad``, and can never be
    used in operations that are recorded.

    Args:
        mode: False to do nothing; or the function to decorate.

    Example:
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
    """Accepted for compatibility. A backward pass always runs in the thread that called it.

    Args:
        mode: what ``is_multithreading_enabled`` returns.

    Example:
        >>> with torch.autograd.set_multithreading_enabled(False):
        ...     torch.autograd.is_multithreading_enabled()
        False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)

    def changes(self) -> dict[str, Any]:
        return {"multithreading": self.mode}

    def clone(self) -> Self:
        return type(self)(self.mode)


def is_multithreading_enabled() -> bool:
    """The mode set by ``set_multithreading_enabled``, which has no effect.

    Example:
        >>> torch.autograd.is_multithreading_enabled()
        True
    """
    return modes.multithreading


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread.

    Example:
        >>> torch.is_grad_enabled()
        True
    """
    return modes.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode.

    Example:
        >>> torch.is_inference_mode_enabled()
        False
    """
    return modes.inference


__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled",
           "set_multithreading_enabled"]  # fmt: skip
