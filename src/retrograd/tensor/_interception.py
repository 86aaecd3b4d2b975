"""``__torch_function__``: classes and modes that override functions of tensors.

A class overrides functions if it defines ``__torch_function__``: a subclass of Tensor, or a class
that only looks like one. Where such an object is among the arguments of a public function, a
method, an operator or a property, its class is asked in place of calling the function.

**Nobody pays for it who does not use it.** As long as no class is known that overrides anything,
tensors have the methods that they have, and nothing is checked. ``install`` puts an object that
checks in the place of every method. It is called when a subclass of Tensor is defined, when a mode
is entered, and when an object that looks like a tensor is first passed to something that does not
know what to do with it. The objects compare equal to the functions that they stand for: programs
keep tables of functions, which they may have filled before.

Code of the layers up to this one calls the functions without asking, whatever the class.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any

from retrograd._modes import Scope, modes, within
from retrograd._source import GENERATED, PACKAGE
from retrograd.ops.linear import alias
from retrograd.tensor._overrides import INSTALLED, overrides
from retrograd.tensor._tensor import Tensor

Function = Callable[..., Any]
_lock = threading.Lock()
_PLAIN = frozenset({Tensor, int, float, bool, complex, str, slice, type(None)})
# The files of layers whose calls are not intercepted, and the answers so far.
_LAYERS = ("arrays", "ops", "autograd", "tensor")
_INSIDE = (GENERATED, *[f"{PACKAGE}{layer}{os.sep}" for layer in _LAYERS])
_is_inside: dict[str, bool] = {}


class DisableTorchFunctionSubclass(Scope):
    """A context in which classes override nothing; modes still do."""

    def changes(self) -> dict[str, Any]:
        return {"overrides": False}


class DisableTorchFunction(Scope):
    """A context in which neither classes nor modes override anything."""

    def changes(self) -> dict[str, Any]:
        return {"overrides": False, "function_modes": ()}


class TorchFunctionMode(Scope):
    """A context in which calls of tensor functions go to the ``__torch_function__`` of this object.
    Functions called inside it go to the enclosing mode.

    Example:
        >>> class Log(torch.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     y = torch.exp(torch.zeros(1))
        zeros
        exp
    """

    def __torch_function__(
        self, func: Function, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def changes(self) -> dict[str, Any]:
        return {"function_modes": (*modes.function_modes, self)}

    def __enter__(self) -> Any:
        install()
        self._enter(self.changes())
        return self


# -- who overrides ---------------------------------------------------------------------------


def overriding(values: Iterable[Any], overriders: list[Any] | None = None) -> list[Any]:
    """The objects among ``values``, and in lists of them, whose classes override functions: one of
    each class, in the order in which they are asked. Subclasses come before their bases."""
    overriders = [] if overriders is None else overriders
    for x in values:
        kind = type(x)
        if kind in _PLAIN:
            continue
        if kind is tuple or kind is list:
            overriding(x, overriders)
        elif overrides(kind) and not any(type(other) is kind for other in overriders):
            later = [i for i, other in enumerate(overriders) if issubclass(kind, type(other))]
            overriders.insert(later[0] if later else len(overriders), x)
    return overriders


def asked(args: Iterable[Any], named: dict[str, Any]) -> list[Any] | None:
    """Who is to be asked about a call in the modes that are on; None if nobody is."""
    now = modes.frame.states[-1]
    overriders = overriding(args) if now.overrides else []
    if overriders is not None and named and now.overrides:
        overriding(named.values(), overriders)
    return overriders if overriders or now.function_modes else None


def ask(func: Function, overriders: list[Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What the innermost mode and the classes of objects, in turn, say that a call results in."""
    types = tuple(map(type, overriders))
    stack = modes.function_modes
    if stack:
        with within(function_modes=stack[:-1]):
            result = stack[-1].__torch_function__(func, types, args, named)
        if result is not NotImplemented:
            return result
    for x in overriders:
        result = type(x).__torch_function__(func, types, args, named)
        if result is not NotImplemented:
            return result
    return NotImplemented


def override(
    func: Function, overriders: list[Any], args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """The same; TypeError if nobody knows."""
    result = ask(func, overriders, args, named)
    if result is NotImplemented:
        raise refusal(func, overriders)
    return result


def overridden(func: Function, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A call in which some class overrides the function, by what that says."""
    return override(func, overriding((*args, *named.values())), args, named)


def refusal(func: Function, overriders: Iterable[Any]) -> TypeError:
    """The error of a function that none of the classes of its arguments implements."""
    module = (getattr(func, "__module__", None) or "torch").replace("retrograd", "torch", 1)
    name = f"{module}.{func.__name__}"
    if module == "torch.nn.functional" and func.__name__ not in _COMPILED:
        return TypeError(
            f"no implementation found for '{name}' on types that implement __torch_function__: "
            f"{[*map(type, overriders)]}"
        )
    if isinstance(func, Member):
        name = f"torch.Tensor.{func.__name__}"
    elif module == "torch.nn.functional":
        name = f"torch.nn.{func.__name__}"
    elif module in ("torch.linalg", "torch.fft", "torch.special"):  # as PyTorch calls them inside
        name = f"{module}.{module.removeprefix('torch.')}_{func.__name__}"
    kinds = "\n".join(f"  - tensor subclass {type(x)}" for x in overriders)
    return TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
        f"NotImplemented:\n\n{kinds}"
    )


# -- what is put in the place of functions ---------------------------------------------------


class Intercepted:
    """A function that first checks whether the classes of its arguments override it."""

    def __init__(self, function: Function, name: str, module: str = "retrograd") -> None:
        self.function = self.__wrapped__ = function
        self.__name__ = self.__qualname__ = name
        self.__doc__ = function.__doc__
        self.__module__ = module

    def __call__(self, *args: Any, **named: Any) -> Any:
        overriders = asked(args, named)
        if overriders is None or is_inside(sys._getframe(1)):
            return self.function(*args, **named)
        return override(self, overriders, args, named)

    def __eq__(self, other: object) -> bool:
        return self is other or self.function is other

    def __hash__(self) -> int:
        return hash(self.function)

    def __reduce__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"


class Creator(Intercepted):
    """A function that makes a tensor of what it is given, and so asks modes only."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not modes.function_modes:
            return self.function(*args, **named)
        return override(self, [], args, named)


def is_inside(frame: Any) -> bool:
    """Whether a frame is of code whose calls are not intercepted."""
    file: str = frame.f_code.co_filename
    inside = _is_inside.get(file)
    if inside is None:
        inside = _is_inside[file] = file.startswith(_INSIDE) and not file.endswith("_foreach.py")
    return inside


class Member(Intercepted):
    """A method."""

    def __init__(self, function: Function, name: str) -> None:
        super().__init__(function, name)
        self.__qualname__ = f"Tensor.{name}"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)


class Operator(Member):
    """An operator, which is passed to classes as the method that it means."""

    def __init__(self, function: Function, name: str) -> None:
        super().__init__(function, name)
        self.meaning = OPERATORS[name]
        if name in ("__pow__", "__ipow__"):
            self.__name__ = {"__pow__": "pow", "__ipow__": "pow_"}[name]  # as PyTorch calls them

    def __call__(self, *args: Any, **named: Any) -> Any:
        overriders = asked(args, named)
        if overriders is None or is_inside(sys._getframe(1)):
            return self.function(*args, **named)
        return ask(getattr(Tensor, self.meaning), overriders, args, named)


class Iteration(Member):
    """``iter(x)``, which is passed to classes as ``unbind``."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        overriders = asked(args, named)
        if overriders is None or is_inside(sys._getframe(1)) or not args[0]._data.ndim:
            return self.function(*args, **named)
        return iter(override(Tensor.unbind, overriders, (*args, 0), named))


class Attribute:
    """A property. It is passed to classes as the ``__get__`` or ``__set__`` of the property."""

    def __init__(self, member: property) -> None:
        self.member = self.function = member
        self.__doc__ = member.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        member = self.member
        if instance is None:
            return member
        overriders = asked((instance,), {})
        if overriders is None or is_inside(sys._getframe(1)):
            return member.__get__(instance)
        return override(member.__get__, overriders, (instance,), {})

    def __set__(self, instance: Any, value: Any) -> None:
        member = self.member
        overriders = asked((instance, value), {})
        if overriders is None or is_inside(sys._getframe(1)):
            member.__set__(instance, value)
        else:
            override(member.__set__, overriders, (instance, value), {})

    def __delete__(self, instance: Any) -> None:
        self.member.__delete__(instance)


# The methods that operators are passed as; the others are passed as they are.
OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__div__": "div", "__rtruediv__": "__rdiv__", "__mod__": "remainder",
    "__matmul__": "matmul", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt",
    "__ge__": "ge", "__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__iadd__": "add_",
    "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__idiv__": "div_",
    "__ifloordiv__": "floor_divide_", "__imod__": "remainder_",
}  # fmt: skip
_AS_THEY_ARE = (
    "and", "or", "xor", "eq", "pow", "ipow", "floordiv", "lshift", "rshift", "rsub", "rdiv",
    "rpow", "rmatmul", "rfloordiv",
    "rmod", "rlshift", "rrshift", "iand", "ior", "ixor", "ilshift", "irshift",
)  # fmt: skip
OPERATORS.update({f"__{name}__": f"__{name}__" for name in _AS_THEY_ARE})
# What is never intercepted.
_APART = frozenset({"__new__", "__init__", "__init_subclass__", "__hash__", "as_subclass"})
# Functions of the package that are not declared as the others are.
_FUNCTIONS = (
    "arange", "bartlett_window", "blackman_window", "detach", "empty",
    "empty_like", "empty_strided", "equal", "eye", "full", "full_like",
    "get_device", "hamming_window", "hann_window", "is_complex", "is_floating_point",
    "is_inference", "kaiser_window", "linspace", "logspace", "normal", "numel", "ones",
    "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "range", "result_type", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
    "zeros_like",
)  # fmt: skip


# Functions of ``nn.functional`` that are compiled in PyTorch, and say it in other words.
_COMPILED = frozenset({
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_",
    "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "cosine_similarity", "elu_", "gelu", "hardshrink", "hardtanh_",
    "leaky_relu_", "linear", "logsigmoid", "one_hot", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_",
    "scaled_dot_product_attention", "selu_", "softplus", "softshrink", "threshold_",
})  # fmt: skip


def member(name: str, value: Any) -> Any:
    """What a member of the Tensor class is replaced by once functions are checked."""
    if name in _APART or (name.startswith("_") and not name.endswith("__")):
        return value
    if isinstance(value, property):
        return Attribute(value)
    if not isinstance(value, FunctionType):
        return value
    if name == "__iter__":
        return Iteration(value, name)
    return (Operator if name in OPERATORS else Member)(value, name)


def install() -> None:
    """Check the arguments of functions from now on, in all threads."""
    with _lock:
        if INSTALLED:
            return
        members: dict[str, Any] = {}
        for kind in reversed(Tensor.__mro__[:-1]):
            members.update(vars(kind))
        for name, value in members.items():
            replaced = member(name, value)
            if replaced is not value:
                setattr(Tensor, name, replaced)
        _replace("retrograd", _FUNCTIONS)
        _replace("retrograd", ("as_tensor", "asarray", "from_numpy", "tensor"), Creator)
        _replace("retrograd.autograd", ("backward", "grad"))
        INSTALLED.append(sys.modules[__name__])


def _replace(module: str, names: Iterable[str], kind: type[Intercepted] = Intercepted) -> None:
    """Put functions that check in a module, and where it is known as a module of ``torch``."""
    home = sys.modules[module]
    others = [sys.modules.get("torch")] if module == "retrograd" else []
    for name in names:
        function = getattr(home, name)
        setattr(home, name, kind(function, name, module))
        for other in others:
            if other is not None and vars(other).get(name) is function:
                setattr(other, name, getattr(home, name))


def uninstall() -> None:
    """Undo ``install``, for tests: whoever runs next is not to pay for it."""
    with _lock:
        for home in (Tensor, *map(sys.modules.get, ("retrograd", "torch", "retrograd.autograd"))):
            for name, value in list(vars(home).items()) if home is not None else ():
                if isinstance(value, (Intercepted, Attribute)):
                    setattr(home, name, value.function)
        INSTALLED.clear()


def operator(name: str, args: tuple[Any, ...]) -> Any:
    """What classes say that an operator results in, by its name or that of the method that it
    means."""
    return ask(getattr(Tensor, OPERATORS.get(name, name)), overriding(args), args, {})


def overridden_method(name: str, args: tuple[Any, ...]) -> Any:
    """What classes say that a method results in that was refused its arguments; NotImplemented if
    it runs as part of a public function, which is then what is overridden."""
    frame: Any = sys._getframe(1)
    while frame is not None and is_inside(frame):
        code = frame.f_code
        if code.co_name == "called" and code.co_filename.endswith("_public.py"):
            return NotImplemented
        frame = frame.f_back
    if not (hasattr(Tensor, name) and modes.overrides and overriding(args)):
        return NotImplemented
    install()
    return overridden(getattr(Tensor, name), args, {})


# -- subclasses of Tensor --------------------------------------------------------------------


def as_subclass(self: Tensor, cls: type) -> Any:
    """``Tensor.as_subclass``."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not "
            "possible. Make sure your class inherits from Tensor."
        )
    return of_class(alias(self), cls)


def of_class(tensor: Tensor, cls: type[Tensor]) -> Any:
    """A new tensor, converted to a subclass in place."""
    result: Any = object.__new__(cls)
    for slot in ("_data", "_node", "_version_counter", "_meta"):
        setattr(result, slot, getattr(tensor, slot))
    return result


def make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
    """A tensor of a subclass that shares the memory of ``data``, without its history."""
    result = of_class(Tensor.detach(data), cls)
    if require_grad:
        result.requires_grad_()
    return result


def converted(result: Any, cls: type[Tensor]) -> Any:
    """A result, or the results in a tuple or list, as tensors of a subclass."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        items = [converted(x, cls) for x in result]
        return type(result)(*items) if hasattr(result, "_make") else type(result)(items)
    return result


def get_default_nowrap_functions() -> set[Function]:
    """Returns the functions whose results ``Tensor.__torch_function__`` does not convert.

    Returns:
        Those of the properties that are tensors on their own: ``grad`` and ``_base``.
    """
    return {Tensor.grad.__get__, Tensor._base.__get__}


def by_default(cls: Any, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
    """``Tensor.__torch_function__``."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        if cls is Tensor or func in get_default_nowrap_functions():
            return result
        return converted(result, cls)
