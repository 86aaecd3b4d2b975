"""Functions as users call them: ``out=``, ``input=`` and NumPy's spelling of arguments, and names
whose modules are loaded when they are first used."""

from __future__ import annotations

import importlib
import inspect
import re
from _thread import _local
from collections.abc import Callable
from typing import Any

from retrograd._modes import modes, switch
from retrograd.ops import _public
from retrograd.ops._arguments import checked
from retrograd.ops._index import names_of
from retrograd.ops._operation import USERS, Operation
from retrograd.ops._public import NAMES, Face
from retrograd.tensor._calls import wrong_argument
from retrograd.tensor._inplace import in_place, in_place_of
from retrograd.tensor._overrides import INSTALLED, met, sparse_among
from retrograd.tensor._tensor import Tensor

_SPELLINGS = {"axis": "dim", "keepdims": "keepdim"}


class Calls(_local):
    """The public functions that are being called while operations are intercepted."""

    names: tuple[str, ...] = ()


calls = Calls()


def announced(name: str, function: Callable[..., Any], args: Any, named: dict[str, Any]) -> Any:
    """Call a function that is made of operations by other names, and have those who intercept
    operations know which function they are part of."""
    before = calls.names
    calls.names = (*before, name)
    try:
        if modes.autocast is not None:
            return modes.autocast.call(name, function, args, named)
        return function(*args, **named)
    finally:
        calls.names = before


def public(face: Face, name: str, module: str = "retrograd") -> Callable[..., Any]:
    """What a face shows, with the arguments that PyTorch takes everywhere: ``out``, a tensor to
    write the result into; ``input`` by name; ``axis`` and ``keepdims`` for ``dim`` and
    ``keepdim``."""
    function = plain(face, name)
    takes_input = "input" in _parameters(function)  # by that name; if not, it is the first
    takes_out, me = face.out != "no", (name,)
    spellings = [(t, o) for t, o in _SPELLINGS.items() if t not in _parameters(function)]
    composed = not face.is_operation  # an operation is intercepted by itself

    def called(*args: Any, **named: Any) -> Any:
        if INSTALLED and (overriders := INSTALLED[0].asked(args, named)) is not None:
            return INSTALLED[0].override(called, overriders, args, named)
        if composed and switch.active and modes.interceptors and calls.names[-1:] != me:
            return announced(name, called, args, named)
        try:
            if not named:
                return function(*args)
            if "input" in named and not takes_input:
                args = (named.pop("input"), *args)
            for theirs, ours in spellings:
                if theirs in named:
                    named[ours] = named.pop(theirs)
            out = named.pop("out", None) if takes_out else None
            if out is None:
                return function(*args, **named)
            from retrograd.tensor._out import written

            return written(face, name, function, out, args, named)
        except Exception:
            given = (*args, *named.values())
            sparse = sparse_among(given)
            if sparse is None and not met(given):
                raise
        if sparse is not None:
            return sparse.called(name, args, named)
        return called(*args, **named)  # which is overridden

    called.__module__ = module  # where pickle looks for it by its name
    called.__name__ = called.__qualname__ = name
    called.__doc__ = _with_out(function.__doc__) if takes_out else function.__doc__
    called.__wrapped__ = function  # type: ignore[attr-defined]
    called.__signature__ = signature(face, function)  # type: ignore[attr-defined]
    return called


def _with_out(doc: str | None) -> str | None:
    """A docstring whose ``Args:`` section names ``out``, too."""
    text, title, rest = inspect.cleandoc(doc or "").partition("\nArgs:\n")
    if not title or re.search(r"^ +out\b", rest, re.MULTILINE):
        return doc
    arguments, _, rest = rest.partition("\n\n")
    out = "tensor to write the result to"
    if re.match(r"Returns:\n +A (named )?tuple", rest):
        out = "tuple of tensors to write the results to"
    elif "named tuple" in rest:
        out = "tensor, or tuple of tensors, to write the result to"
    return f"{text}{title}{arguments}\n    out: {out}.\n\n{rest}"


def plain(face: Face, name: str) -> Callable[..., Any]:
    """The function on Tensors behind a public function, without the additions of ``public``."""
    if not face.is_operation:
        _public.complete_docstring(face.target)
    if face.writes:
        return _writing(face, name)
    if not face.is_operation:
        function: Callable[..., Any] = face.target
        return function
    if face.accepts:
        return checked(face.target, face.accepts, name)
    return _named(face.target)


def _writing(face: Face, name: str) -> Callable[..., Any]:
    function = face.target
    if face.is_operation and face.accepts in ("", "tensor first"):
        method = in_place(function)
        method.__wrapped__ = _named(function)  # type: ignore[attr-defined]
    else:
        if face.is_operation:
            function = checked(function, face.accepts, name[:-1])
        method = in_place_of(function)
        method.__wrapped__ = function  # type: ignore[attr-defined]
    method.__name__ = method.__qualname__ = name
    return method


def _named(op: Operation) -> Callable[..., Any]:
    """An operation as users call it: its arguments have names."""
    function: Any = op.function
    if not function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return function  # type: ignore[no-any-return]

    def called(*args: Any, **named: Any) -> Any:
        if named:
            args = (*args, *[named.pop(n) for n in op.inputs[len(args) :] if n in named])
        try:
            return function(*args, **named)
        except (AssertionError, AttributeError):
            if args and not isinstance(args[0], (Tensor, list, tuple)):
                raise wrong_argument(op, args[0], 0) from None
            raise

    called.__name__ = called.__qualname__ = op.name
    called.__doc__ = op.doc
    called.__signature__ = inspect.Signature(_of_operation(op))  # type: ignore[attr-defined]
    return called


def signature(face: Face, function: Callable[..., Any]) -> inspect.Signature:
    """How a public function is called."""
    kinds = inspect.Parameter
    result = inspect.signature(function)
    parameters = list(result.parameters.values())
    if parameters and parameters[0].name == "self":
        parameters[0] = parameters[0].replace(name="input", kind=kinds.POSITIONAL_OR_KEYWORD)
    if face.out != "no" and not face.writes:
        out = kinds("out", kinds.KEYWORD_ONLY, default=None, annotation="Any")
        end = -1 if parameters and parameters[-1].kind is kinds.VAR_KEYWORD else len(parameters)
        parameters.insert(end, out)
    returned = "Any" if result.return_annotation is result.empty else result.return_annotation
    return inspect.Signature(parameters, return_annotation=returned)


def _of_operation(op: Operation) -> list[inspect.Parameter]:
    kinds = inspect.Parameter
    results = [kinds(n, kinds.POSITIONAL_OR_KEYWORD, annotation="Any") for n in op.inputs]
    defaults = op.forward.__defaults__ or () if op.options else ()
    values = [kinds.empty] * (len(op.options) - len(defaults)) + list(defaults)
    for name, value in zip(op.options, values, strict=True):
        results.append(kinds(name, kinds.KEYWORD_ONLY, default=value, annotation="Any"))
    return results


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()


# -- methods ---------------------------------------------------------------------------------


def bind_method(name: str, face: Face, at_import: bool = False) -> None:
    """Give the Tensor class a method that has been declared, perhaps while the package was being
    imported."""
    if face.accepts == "tensor first":  # as it always is
        face = face.replaced(accepts="")
    function = plain(face, name)
    spelled = face.axis and not set(_SPELLINGS.values()).isdisjoint(_parameters(function))
    # What is loaded at import is short, and mostly called as the operation that it ends in.
    part = not face.is_operation and not face.writes and (face.announces or not at_import)
    method = _method(function, name) if spelled or part else function
    setattr(Tensor, name, INSTALLED[0].member(name, method) if INSTALLED else method)


def _method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A method that also knows NumPy's names of arguments, and says that it is called."""

    def method(*args: Any, **named: Any) -> Any:
        if switch.active and modes.interceptors and calls.names[-1:] != (name,):
            return announced(name, method, args, named)
        try:
            if not named:
                return function(*args)
            for theirs, ours in _SPELLINGS.items():
                if theirs in named:
                    named[ours] = named.pop(theirs)
            return function(*args, **named)
        except Exception:
            if not met((*args, *named.values())):
                raise
        return INSTALLED[0].overridden(getattr(Tensor, name), args, named)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    method.__wrapped__ = function  # type: ignore[attr-defined]
    return method


class LazyMethod:
    """A placeholder that is replaced by the method on first access, which may load a module."""

    __slots__ = ("module", "name")

    def __init__(self, name: str, module: str | None = None) -> None:
        self.name = name
        self.module = module

    def __get__(self, instance: Any, owner: type) -> Any:
        if self.module is None:
            bind_method(self.name, NAMES["method"][self.name], at_import=True)
        else:
            load(self.module)  # which declares it
            assert self.name in NAMES["method"], f"{self.name}: run tests/generate_index.py"
        # Not by getattr: a subclass may define the method, too, and be calling this by super().
        return vars(Tensor)[self.name].__get__(instance, owner)


def bind_methods() -> None:
    """Give the Tensor class its methods: those that are declared, and those of the index."""
    for name in NAMES["method"]:
        setattr(Tensor, name, LazyMethod(name))
    for name, module in names_of("method").items():
        setattr(Tensor, name, LazyMethod(name, module))
    _public.binders.append(bind_method)


def load(module: str) -> None:
    """Import a module of the index."""
    importlib.import_module(f"retrograd.{module}")


def withdraw(op: Operation) -> None:
    """Remove a user's declaration."""
    del USERS[op.name]
    for space, faces in NAMES.items():
        for name in [n for n, face in faces.items() if face.target is op]:
            del faces[name]
            home = Tensor if space == "method" else _homes.get(space)
            if home is not None and name in vars(home):
                delattr(home, name)


# -- namespaces ------------------------------------------------------------------------------


def names_in(space: str) -> list[str]:
    """The names of a namespace, loaded or not."""
    return list({**NAMES[space], **names_of(space)})


_homes: dict[str, Any] = {}  # the modules that the names of namespaces are put into


def namespace(module: str, space: str) -> tuple[Callable[[str], Any], list[str]]:
    """``__getattr__`` and ``__all__`` for a module whose names are those of a namespace."""

    def __getattr__(name: str) -> Any:  # noqa: N807 - what Python calls it
        if name not in NAMES[space]:
            place = names_of(space).get(name)
            if place is None:
                from retrograd._later import MissingNameError

                raise MissingNameError(name, module)
            load(place)
        value = public(NAMES[space][name], name, module)
        home = _homes[space] = importlib.import_module(module)
        setattr(home, name, value)
        return value

    return __getattr__, names_in(space)
