"""Prints how complete the docstrings of the public names are: ``python tests/docstring_coverage.py
[--list] [namespace ...]``. ``--list`` also prints what each incomplete docstring lacks.

A docstring is in Google's style. It is complete if it has

- text;
- an ``Args:`` section that names every argument (of a class: every argument of its constructor);
- a ``Returns:`` section, if a function returns something other than None, unless the text begins
  with the result: "The number of elements.", "Returns the dtype.", "Tests whether ...";
- a ``Shape:`` section, if it documents a layer, that is, a module of ``torch.nn`` with a
  ``forward`` of its own;
- an example, unless it documents an exception: lines that begin with ``>>>``.
  tests/project/test_docstrings.py runs them.

A public method of a class needs the first three. A property needs text. An in-place function, such
as ``exp_``, is documented by the function that it is made from. A method of Tensor that is also a
function of ``torch`` names its first argument, ``input``, or not.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import retrograd

NAMESPACES = (
    "torch", "Tensor", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.parametrizations",
    "nn.utils.parametrize", "nn.utils.rnn", "nn.parallel", "optim", "optim.lr_scheduler",
    "optim.swa_utils", "autograd", "autograd.forward_ad", "autograd.function",
    "autograd.functional", "autograd.graph", "func", "linalg", "fft", "special", "random",
    "utils.checkpoint", "utils.data", "amp", "files", "distributed", "distributions",
    "distributions.kl", "distributions.utils", "pipeline", "viz", "optimize", "integrate",
    "interpolate", "masked", "testing", "utils.dlpack", "utils.tensorboard", "quasirandom",
)  # fmt: skip
RESULT = re.compile(r"(Returns|Tests whether|Whether|The|An?|Creates) ")  # the text begins with it
PARTS = ("text", "args", "returns", "shape", "example")
SECTION = re.compile(r"^(Args|Arguments|Returns|Yields|Raises|Shape|Example|Examples|Note):\s*$")
# The names before the colon, with a type in parentheses or without: "dim", "*tensors", "p (float)".
ARGUMENT = re.compile(r"^((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:")
NO_ARGUMENTS = (Exception, enum.Enum)  # constructed by others, or not at all


class Entry:
    """A public name, and what its docstring says."""

    def __init__(self, name: str, value: Any, *, kind: str) -> None:
        self.name = name
        self.value = value
        self.kind = kind  # "function", "class", "property", "method", or a "bound" method

    @cached_property
    def doc(self) -> str:
        own = self.value.__dict__ if self.kind == "class" else None
        if own is not None and not own.get("__doc__"):
            return ""  # what a base class says is about the base class
        return inspect.getdoc(self.value) or ""

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """What a caller may pass, without the ``self`` of a method."""
        if self.kind == "property" or (
            self.kind == "class" and issubclass(self.value, NO_ARGUMENTS)
        ):
            return []
        called = inspect.unwrap(self.value)
        takes_none = self.kind == "class" and called.__init__ is object.__init__
        takes_none = takes_none and "__new__" not in vars(called)
        if self.kind == "class" and takes_none and not _is_named(called):
            return []
        try:
            parameters = list(inspect.signature(self.value).parameters.values())
        except ValueError:  # of a class of C
            return []
        if self.kind == "method" and parameters:
            del parameters[0]
        return [_renamed(p) for p in parameters if not p.name.startswith("_")]

    @cached_property
    def sections(self) -> dict[str, list[str]]:
        """The lines of each section, by its title."""
        found: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in self.doc.splitlines():
            title = SECTION.match(line)
            if title:
                lines = found.setdefault(title[1], [])
            elif line.strip() and not line.startswith(" "):
                lines = []  # back in the text
            else:
                lines.append(line)
        return found

    @cached_property
    def named(self) -> set[str]:
        """The arguments that the ``Args:`` section names."""
        lines = self.sections.get("Args", self.sections.get("Arguments", []))
        indent = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
        found = (ARGUMENT.match(line[indent:]) for line in lines)
        return {word.lstrip("*") for match in found if match for word in match[1].split(", ")}

    @cached_property
    def lacks(self) -> dict[str, str]:
        """What is missing, by part of the docstring."""
        if not self.doc:
            return {"text": "no docstring"}
        found = {}
        unnamed = [p.name for p in self.parameters if p.name not in self.named]
        if unnamed:
            found["args"] = "Args: " + ", ".join(unnamed)
        says = RESULT.match(self.doc) or self.sections.keys() & {"Returns", "Yields"}
        if self._returns_something() and not says:
            found["returns"] = "Returns:"
        if self._is_layer() and "Shape" not in self.sections:
            found["shape"] = "Shape:"
        is_error = self.kind == "class" and issubclass(self.value, Exception)
        if self.kind in ("function", "class") and not is_error and ">>>" not in self.doc:
            found["example"] = "an example"
        return found

    def _returns_something(self) -> bool:
        if self.kind not in ("function", "method", "bound"):
            return False
        function = inspect.unwrap(self.value)
        try:
            result = inspect.signature(function).return_annotation
        except ValueError:
            return True
        return result not in (None, "None", typing.NoReturn, "NoReturn")

    def _is_layer(self) -> bool:
        module = retrograd.nn.Module
        return (
            self.kind == "class" and issubclass(self.value, module)
            and self.value.forward is not module.forward
        )  # fmt: skip


def _is_named(kind: type) -> bool:
    """Whether a class is a named tuple, whose arguments are its fields."""
    return hasattr(kind, "_fields") and issubclass(kind, tuple)


def _renamed(parameter: inspect.Parameter) -> inspect.Parameter:
    """What a rule calls ``self`` users call ``input``."""
    return parameter.replace(name="input") if parameter.name == "self" else parameter


def entries(namespace: str) -> list[Entry]:
    """The public names of a namespace that are documented by themselves."""
    if namespace == "Tensor":
        return list(_members("Tensor", retrograd.Tensor, inherited=True))
    module = (
        retrograd if namespace == "torch" else importlib.import_module(f"retrograd.{namespace}")
    )
    found: list[Entry] = []
    for name in _names(module):
        value = getattr(module, name)
        if inspect.ismodule(value) or not callable(value) or _is_type_alias(value):
            continue
        if inspect.isclass(value):
            found.append(Entry(f"{namespace}.{name}", value, kind="class"))
            if value is not retrograd.Tensor:
                found += _members(f"{namespace}.{name}", value)
        else:
            value = _made_from(name, value, lambda base: getattr(module, base, None))
            found.append(Entry(f"{namespace}.{name}", value, kind="function"))
    return found


def _names(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [
            name for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]  # fmt: skip
    return sorted({name for name in listed if not name.startswith("_")})


def _is_type_alias(value: Any) -> bool:
    return typing.get_origin(value) is not None or isinstance(value, typing.TypeVar)


def _made_from(name: str, value: Any, lookup: Callable[[str], Any]) -> Any:
    """The function that an in-place function is made from; any other function as it is."""
    base = lookup(name.removesuffix("_")) if name.endswith("_") else None
    return base if callable(base) else value


def _members(prefix: str, owner: type, inherited: bool = False) -> Iterator[Entry]:
    """The public methods and properties of a class."""
    for name in sorted(dir(owner) if inherited else vars(owner)):
        if name.startswith("_") or name == "forward":
            continue
        value = inspect.getattr_static(owner, name)
        if isinstance(value, property):
            yield Entry(f"{prefix}.{name}", value, kind="property")
            continue
        value = getattr(owner, name)
        if inspect.isclass(value) or not callable(value):
            continue
        if inherited:
            value = _made_from(name, value, lambda base: getattr(owner, base, None))
        bound = inspect.ismethod(value) or isinstance(
            inspect.getattr_static(owner, name), staticmethod
        )
        yield Entry(f"{prefix}.{name}", value, kind="bound" if bound else "method")


def report(namespaces: list[str], listing: bool) -> None:
    """Print the figures, and what is missing if ``listing``."""
    print(f"{'':28}{'names':>7}" + "".join(f"{part:>9}" for part in PARTS) + f"{'complete':>10}")
    sums = [0] * (len(PARTS) + 2)
    missing: list[tuple[str, str]] = []
    for namespace in namespaces:
        found = entries(namespace)
        row = [len(found)]
        row += [sum(part not in e.lacks and "text" not in e.lacks for e in found) for part in PARTS]
        row += [sum(not e.lacks for e in found)]
        sums = [total + count for total, count in zip(sums, row, strict=True)]
        missing += [(e.name, "; ".join(e.lacks.values())) for e in found if e.lacks]
        print(f"{namespace:28}{row[0]:7}" + "".join(f"{n:9}" for n in row[1:-1]) + f"{row[-1]:10}")
    print(f"{'':28}{sums[0]:7}" + "".join(f"{n:9}" for n in sums[1:-1]) + f"{sums[-1]:10}")
    if listing:
        print()
        for name, what in missing:
            print(f"{name}: {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description="How complete the docstrings are.")
    parser.add_argument("namespaces", nargs="*", help=f"some of: {', '.join(NAMESPACES)}")
    parser.add_argument("--list", action="store_true", help="print what is missing")
    options = parser.parse_args()
    unknown = set(options.namespaces) - set(NAMESPACES)
    if unknown:
        parser.error(f"unknown namespaces: {', '.join(sorted(unknown))}")
    report(options.namespaces or list(NAMESPACES), options.list)


if __name__ == "__main__":
    main()
