"""Classes that override functions of tensors by ``__torch_function__``, as far as is looked at
before there is one. ``_interception`` has the rest, and is loaded when it is first needed: when a
subclass of Tensor is defined, when a mode is entered, and when a call has failed on an object that
only looks like a tensor.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from retrograd.ops._arguments import Plug
from retrograd.tensor._tensor import Tensor

INSTALLED: list[Any] = []  # holds the module ``_interception`` once functions are to be checked


def interception() -> Any:
    """The module that does what is described above."""
    return importlib.import_module("retrograd.tensor._interception")


def _disabled(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The ``__torch_function__`` of a class that overrides nothing, such as Parameter."""
    with interception().DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


disabled: Any = _disabled


def overrides(kind: type) -> bool:
    """Whether a class overrides functions. Tensor itself does not."""
    function = getattr(kind, "__torch_function__", None)
    return function is not None and function is not disabled and kind is not Tensor


# -- calls that have failed ------------------------------------------------------------------


def met(values: Iterable[Any]) -> bool:
    """Whether an object that overrides functions is among the arguments of a call that failed.
    From then on functions are checked; this call is to be overridden by whoever asks."""
    if INSTALLED:
        return False
    for x in values:
        items = x if isinstance(x, (tuple, list)) else (x,)
        if any([overrides(type(item)) for item in items]):
            interception().install()
            return True
    return False


def sparse_among(values: Iterable[Any]) -> Any:
    """The class of a sparse tensor among the arguments of a call that failed, or None."""
    for x in values:
        for item in x[:1] if isinstance(x, (tuple, list)) else (x,):
            if type(item).__module__ == "retrograd.sparse":
                return type(item)
    return None


def unknown(name: str, self: Any, other: Any) -> Any:
    """An operator on an operand that Tensors do not know, by its name or that of the method that it
    means."""
    return INSTALLED[0].operator(name, (self, other)) if met((other,)) else NotImplemented


def overridden_method(name: str, args: tuple[Any, ...]) -> Any:
    """What a method that was refused its arguments gives if their classes override it;
    NotImplemented if they do not."""
    if (sparse := sparse_among(args)) is not None:
        return sparse.called(name, args, {})
    if not INSTALLED and not any(overrides(type(x)) for x in args):
        return NotImplemented
    return interception().overridden_method(name, args)


Plug.override = staticmethod(overridden_method)


# -- subclasses of Tensor --------------------------------------------------------------------


def as_subclass(self: Tensor, cls: type) -> Any:
    """Returns the tensor as one of a subclass: a view with the same memory and history.

    Args:
        cls: The subclass of Tensor.

    Returns:
        A tensor of that class.

    Example:
        >>> class Image(torch.Tensor):
        ...     pass
        >>> torch.zeros(2).as_subclass(Image) + 1
        Image([1., 1.])
    """
    return interception().as_subclass(self, cls)


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
    """A tensor of a subclass that shares the memory of ``data``, without its history."""
    return interception().make_subclass(cls, data, require_grad)


def torch_function(
    cls: Any, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Calls a function, and converts its results to tensors of this class.

    Args:
        func: The function.
        types: The classes among its arguments that override functions.
        args: Its arguments.
        kwargs: Its arguments by name.

    Returns:
        The result, or NotImplemented if there is a class that this one is no subclass of.
    """
    return interception().by_default(cls, func, types, args, kwargs)


def _init_subclass(cls: Any, /, **options: Any) -> None:
    super(Tensor, cls).__init_subclass__(**options)
    if overrides(cls):
        cls._shown_as = cls.__name__
        interception().install()


for _name, _value in {
    "as_subclass": as_subclass, "_make_subclass": staticmethod(_make_subclass),
    "__torch_function__": classmethod(torch_function),
    "__init_subclass__": classmethod(_init_subclass),
}.items():  # fmt: skip
    setattr(Tensor, _name, _value)
