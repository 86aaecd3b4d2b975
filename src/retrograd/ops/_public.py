"""The public interface of an operation or function, declared once.

An operation says it among the arguments of its declaration, a function by a decorator. Both take
the same words::

    exp = elementwise("exp", ..., public="torch method", in_place="torch method", doc="...")

    @public("torch method", in_place=True)
    def clamp(input, min=None, max=None): ...

- ``public``: the namespaces that the name is in: ``torch`` (``torch.exp``), ``method``
  (``Tensor.exp``), ``special``, ``linalg``, ``fft``, ``functional``. ``special.psi`` means that it
  is called ``psi`` there.
- ``alias``: more names, in the namespaces that do not say how it is called there.
- ``in_place``: the namespaces that have ``exp_``, which writes the result over the first argument:
  ``method``, ``torch``, ``functional``. ``True`` is short for ``method``. Nothing else is needed:
  an operation is done in place by itself, and a function is called with a ``Target`` to see what
  it would do.
- ``out``: what ``out=`` may be given for the result. See ``OUT``.
- ``axis``: False if the method does not take ``axis`` for ``dim``, as the function does. Looking
  for it would slow down a short method.
- ``announces``: a method that is loaded at import is made of operations by other names, which
  policies of selective checkpoints are to know by its name, too.
- ``accepts``: what an operation of two operands takes for them. See ``ACCEPTS``.
- ``doc``: what ``help`` shows: a summary, or a summary and an example. ``documented`` adds the
  sections that elementwise operations have in common. A function has a docstring instead, which
  need not name the arguments and results that ``ARGUMENTS`` and ``RESULTS`` document:
  ``complete_docstring`` adds them when the function is first looked up.
- ``example``: a call, and what it prints. ``returns``: ``"A bool tensor"`` if the result is one.

``NAMES`` holds what has been declared so far. What can be declared by modules that are not loaded
yet is listed in ``_index``, which ``tests/generate_index.py`` writes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from retrograd._records import Record
from retrograd.ops._index import names_of

NAMESPACES = ("torch", "method", "special", "linalg", "fft", "functional")

OUT = {
    "same": "a tensor of the dtype of the result",
    "cast": "a tensor of a dtype that the result can be cast to",
    "any": "a tensor of any dtype",
    "any precision": "a tensor of numbers like those of the result, complex or not",
    "computed": "a tensor of the dtype that is computed in",
    "joined": "a tensor of a dtype that what is joined can be cast to",
    "its dtype": "a tensor of any dtype: the result is computed in it",
    # and, after a comma
    "constant": "the arguments may require grad: the result does not depend on them smoothly",
    "apart": "the tensor must not share memory with the arguments",
    "aligned": "an argument that shares memory with the tensor must be the same elements",
    "copied": "the tensor may share memory with the arguments in any way",
    "or complex": "of complex numbers the result is real, but may be written into a complex tensor",
    "no": "nothing: there is no out=",
}
ACCEPTS = {
    "tensors": "all operands are tensors, not numbers",
    "either": "either operand may be a number, but not both",
    "tensor first": "only the second operand may be a number",
}

# What arguments mean in every function that does not say otherwise.
ARGUMENTS = {
    "input": "the input tensor.",
    "keepdim": "keep the reduced dimensions, with size 1.",
    "dtype": "dtype to convert ``input`` to before the computation.",
    "tensors": "a sequence of tensors.",
    "generator": "the generator of the random numbers; by default, the global generator.",
    "size_average, reduce": "deprecated; use ``reduction``.",
    "reduction": '"mean", "sum", or "none" for a loss per element.',
    "inplace": "overwrite the input.",
}
# What functions that take an argument return, if they do not say otherwise.
RESULTS = {
    "reduction": 'The loss: a scalar, or a tensor with a loss per element if ``reduction`` is '
    '"none".',
    "keepdim": "A tensor without the reduced dimensions, unless ``keepdim`` is true.",
    "input": "A tensor of the shape of ``input``.",
}

Function = TypeVar("Function", bound=Callable[..., Any])


class Face(Record):
    """What one declaration says about the names that users know something by."""

    name: str
    target: Any  # an operation or a function
    doc: str | None
    out: str
    accepts: str
    is_operation: bool
    axis: bool  # whether the method takes ``axis`` for ``dim``, as the function does
    announces: bool  # whether the method says that it is called
    writes: bool  # whether this is the form that writes in place


# The faces by namespace and name.
NAMES: dict[str, dict[str, Face]] = {space: {} for space in NAMESPACES}
# Are called with the name and the face of every method that is declared after the import.
binders: list[Callable[[str, Face], None]] = []


def declare(
    target: Any, name: str, public: str = "", *, alias: str = "", in_place: str | bool = "",
    out: str = "", accepts: str = "", doc: str | None = None, is_operation: bool = False,
    axis: bool = True, announces: bool = False,
) -> None:  # fmt: skip
    """Enter an operation or a function under its public names."""
    if out and not OUT.keys() >= set(out.split(", ")):
        raise ValueError(f"{name}: out={out!r} is none of {[*OUT]}")
    if accepts and accepts not in ACCEPTS:
        raise ValueError(f"{name}: accepts={accepts!r} is none of {[*ACCEPTS]}")
    if in_place and not public and not is_operation:
        from retrograd.ops._sections import sections

        sections("Returns:\n    ``input`` itself.\n")(target)
    face = Face(name, target, doc, out, accepts, is_operation, axis, announces, False)
    _enter(face, public, (name, *alias.split()))
    if in_place:
        words = "method" if in_place is True else str(in_place)
        names = tuple(f"{n}_" for n in (name, *alias.split()))
        _enter(face.replaced(name=names[0], writes=True), words, names)


def _enter(face: Face, public: str, names: tuple[str, ...]) -> None:
    for word in public.split():
        space, _, own = word.partition(".")
        if space not in NAMES:
            raise ValueError(f"{face.name}: there is no namespace {space!r}, only {NAMESPACES}")
        if own and face.writes:
            own += "_"
        for name in (own,) if own else names:
            later = names_of(space).get(name)  # in a module that may not be loaded yet
            if name in NAMES[space] or (later and f"retrograd.{later}" not in sys.modules):
                raise ValueError(f"{space}.{name} is declared already")
            NAMES[space][name] = face
            if space == "method":
                for bind in binders:
                    bind(name, face)


def public(
    namespaces: str = "", *, name: str | None = None, alias: str = "",
    in_place: str | bool = "", out: str = "no", axis: bool = True, announces: bool = False,
) -> Callable[[Function], Function]:  # fmt: skip
    """A decorator: make a function public. See the top of this module."""

    def decorate(function: Function) -> Function:
        _hide_private_arguments(function)
        declare(function, name or function.__name__, namespaces, alias=alias, in_place=in_place,
                out=out, axis=axis, announces=announces)  # fmt: skip
        return function

    return decorate


def named(function: Function, name: str, doc: str | None) -> Function:
    """Give a function that was made by another one the name and the docstring that users see."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def complete_docstring(function: Callable[..., Any]) -> None:
    """Add what ``ARGUMENTS`` and ``RESULTS`` say to the docstring of a public function."""
    from retrograd.ops._sections import complete, complete_result

    complete(function, ARGUMENTS)
    complete_result(function, RESULTS)


def _hide_private_arguments(function: Callable[..., Any]) -> None:
    """Leave ``*_older``, which takes arguments in an order that is deprecated, out of the signature
    that users see."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_VARARGS:
        return
    if code.co_varnames[code.co_argcount + code.co_kwonlyargcount].startswith("_"):
        signature = inspect.signature(function)
        shown = [p for p in signature.parameters.values() if not p.name.startswith("_")]
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]


def documented(
    doc: str, inputs: tuple[str, ...], accepts: str, example: tuple[str, str] | None = None,
    returns: str = "A tensor",
) -> str:  # fmt: skip
    """The documentation of an elementwise operation: its ``doc``, with the sections ``Args:`` and
    ``Returns:`` if it has none of its own, and its example."""
    text, prompt, lines = doc.strip().replace("\n    ", "\n").partition(">>>")
    if "Args:" not in text and inputs in (("self",), ("self", "other")):
        text, title, own = text.partition("Returns:")
        if len(inputs) == 1:
            arguments = "    input: the input tensor.\n"
            shape = "of the same shape as ``input``."
        else:
            first = " or a number" if accepts == "either" else ""
            second = "" if accepts == "tensors" else " or a number"
            arguments = (
                f"    input: the first operand, a tensor{first}.\n"
                f"    other: the second operand, a tensor{second}, broadcast with ``input``.\n"
            )
            shape = "of the shape that ``input`` and ``other`` broadcast to."
        result = own.strip() if title else f"{returns} {shape}"
        text = f"{text.rstrip()}\n\nArgs:\n{arguments}\nReturns:\n    {result}\n\n"
    if example is not None:
        prompt, lines = ">>>", f" {example[0]}\n{example[1]}"
    if prompt and "Example:" not in text:
        lines = f"{prompt}{lines}".rstrip().replace("\n", "\n    ")
        return f"{text.rstrip()}\n\nExample:\n    {lines}\n"
    return f"{text}{prompt}{lines}"
