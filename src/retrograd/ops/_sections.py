"""Sections of docstrings that several functions or classes share, written once.

``@sections(text)`` merges the sections of ``text`` into a docstring: what stands under ``Args:`` in
``text`` is appended to the ``Args:`` of the docstring, and a section that the docstring lacks is
inserted where it belongs.

``complete`` adds the arguments that mean the same in a whole family of functions or classes to the
``Args:`` of those that take them and do not document them. ``complete_result`` does the same for
results that follow from an argument.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])
SPATIAL = {1: ["L"], 2: ["H", "W"], 3: ["D", "H", "W"]}
SIZES = {1: "an int", 2: "an int, or a tuple of 2", 3: "an int, or a tuple of 3"}
_ORDER = ("", "Args", "Shape", "Returns", "Raises", "Example")
_TITLE = re.compile(rf"^({'|'.join(_ORDER[1:])}):\n", re.MULTILINE)
_NAMED = re.compile(r"(Returns|Tests whether|Whether|The|An?|Creates) ")  # the result, at once
_ENTRY = re.compile(r"^ {4}(?=\S)", re.MULTILINE)  # where the text about an argument begins


def sections(text: str, spatial: int = 0, **words: str) -> Callable[[T], T]:
    """Decorate a function or class: merge the sections of ``text`` into its docstring.

    Names in braces in ``text`` are replaced by ``words``. For a layer or function of one, two or
    three spatial dimensions, ``{n}`` is their number, ``{sizes}`` how a size is given, ``{input}``
    the spatial dimensions of the input, ``{output}`` those of the output and ``{kernel}`` those of
    a window.
    """
    if spatial:
        names = SPATIAL[spatial]
        words |= {
            "n": str(spatial), "sizes": SIZES[spatial], "input": ", ".join(names),
            "output": ", ".join(f"{name}_out" for name in names),
            "kernel": ", ".join(f"K_{name.lower()}" for name in names) if spatial > 1 else "K",
        }  # fmt: skip
    shared = _parsed(text.format(**words))

    def insert(target: T) -> T:
        if target.__doc__:  # python -OO removes docstrings
            own = _parsed(inspect.cleandoc(target.__doc__))
            for title, lines in shared.items():
                gap = "\n" if title else "\n\n"
                own[title] = f"{own[title]}{gap}{lines}" if title in own else lines
            parts = [f"{title}:\n{own[title]}" for title in _ORDER[1:] if title in own]
            target.__doc__ = "\n\n".join((own[""], *parts))
        return target

    return insert


def _parsed(text: str) -> dict[str, str]:
    """The text of each section by its title; the title of the first part is empty."""
    first, *rest = _TITLE.split(text)
    parsed = dict(zip(rest[::2], rest[1::2], strict=True))
    return {title: lines.strip("\n") for title, lines in {"": first, **parsed}.items() if lines}


def complete(target: T, meanings: Mapping[str, str]) -> T:
    """Document the arguments of a function or class that its docstring does not mention, but
    ``meanings`` does, under one name or several: ``"a"`` or ``"a, b"``. The ``Args:`` section comes
    to be in the order of the signature."""
    doc = target.__doc__  # None under python -OO
    if not doc:
        return target
    if isinstance(target, type):
        order = _arguments(target.__init__)  # type: ignore[misc]
    else:
        order = _arguments(target)
        if "self" in order:  # a method, which users may call as a function of ``input``
            order["input"] = order["self"]
    missing = [key for key in meanings if f" {key}: " not in doc]
    missing = [key for key in missing if not order.keys().isdisjoint(key.split(", "))]
    if not missing:
        return target
    text, title, rest = inspect.cleandoc(doc).partition("\nArgs:\n")
    own, gap, rest = rest.partition("\n\n")
    if not title:
        next_section = _TITLE.search(text)
        end = next_section.start() if next_section else len(text)
        text, gap, rest = f"{text[:end].rstrip()}\n", "\n\n", text[end:]
    entries = [entry.rstrip() for entry in _ENTRY.split(own)[1:]]
    documented = {name for entry in entries for name in _names(entry)}
    capital = any(entry.partition(": ")[2][:1].isupper() for entry in entries[:1])
    for key in missing:
        names = [name for name in key.split(", ") if name in order.keys() - documented]
        if names:
            meaning = meanings[key]
            meaning = (meaning[0].upper() if capital else meaning[0]) + meaning[1:]
            entries.append(f"{', '.join(names)}: {meaning}")
    entries.sort(key=lambda entry: min(order.get(name, len(order)) for name in _names(entry)))
    args = "\n".join(f"    {entry}" for entry in entries)
    target.__doc__ = f"{text}\nArgs:\n{args}{gap}{rest}".rstrip()
    return target


def complete_result(function: Callable[..., Any], results: Mapping[str, str]) -> None:
    """Add a ``Returns:`` section to a docstring that has none: that of the first argument in
    ``results`` that the function takes. What the summary names needs no section for its shape."""
    doc, names = function.__doc__, _arguments(function)
    if not doc or "Returns:\n" in doc:
        return
    name = next((name for name in results if name in names), "")
    if name and not (name == "input" and _NAMED.match(doc)):
        text, own = results[name], re.search(r"for a loss per (\w+)\.", doc)
        text = text.replace("loss per element", f"loss per {own[1]}") if own else text
        sections(f"Returns:\n    {text}\n")(function)


def like(source: Callable[..., Any], **meanings: str) -> Callable[[T], T]:
    """Decorate a function or class: what its docstring does not say of its arguments and its result
    is as in that of ``source``, or as in ``meanings``."""
    said = _parsed(inspect.cleandoc(source.__doc__ or ""))
    entries = [entry.rstrip() for entry in _ENTRY.split(f"\n{said.get('Args', '')}")[1:]]
    known = {name: meaning for name, _, meaning in (entry.partition(": ") for entry in entries)}

    def insert(target: T) -> T:
        complete(target, {**known, **meanings})
        doc = target.__doc__
        if doc and "Returns" in said and "Returns:" not in doc and not isinstance(target, type):
            sections("Returns:\n{returns}", returns=said["Returns"])(target)
        return target

    return insert


def complete_all(
    scope: Mapping[str, Any], meanings: Mapping[str, str], results: Mapping[str, str] | None = None
) -> None:
    """Complete the public functions and classes of a module or package, given its ``globals()``."""
    for name, value in scope.items():
        home = getattr(value, "__module__", None) or ""
        if callable(value) and not name.startswith("_") and home.startswith(scope["__name__"]):
            complete(value, meanings)
            if results and not isinstance(value, type):
                complete_result(value, results)


def _names(entry: str) -> list[str]:
    return re.findall(r"\w+", entry.partition(":")[0])


def _arguments(function: Callable[..., Any]) -> dict[str, int]:
    """The position of every argument by its name."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or hasattr(function, "__signature__"):
        return {name: i for i, name in enumerate(inspect.signature(function).parameters)}
    names, plain = code.co_varnames, code.co_argcount  # which is a hundred times faster
    named = plain + code.co_kwonlyargcount
    rest = named + bool(code.co_flags & inspect.CO_VARARGS)
    end = rest + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    ordered = (*names[:plain], *names[named:rest], *names[plain:named], *names[rest:end])
    return {name: i for i, name in enumerate(ordered)}
