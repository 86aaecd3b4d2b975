"""Writes the stubs of names that are made when they are first used: ``python
tests/generate_stubs.py``.

The names, the arguments and their defaults are those of the functions. Types are in the annotations
and, where these say Any, in ``_stub_tables``.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from _stub_tables import (
    ARGUMENTS,
    AXIS,
    NUMBER_LEFT,
    NUMBER_RIGHT,
    OF_FUNCTION,
    OUTPUT_SIZE,
    POLYNOMIALS,
    RESULTS,
    SIGNATURES,
)

import retrograd as torch
from retrograd._scipy_special import FUNCTIONS

SOURCE = Path(torch.__file__).parent
HEADER = '"""Made by tests/generate_stubs.py; a test compares."""\n'
# Annotations in the source that are aliases.
ALIASES = {
    "Dims": "Dims", "Size": "int | None", "Sizes": "Ints | None", "Norm": "str | None",
    "dtypes.dtype": "Dtype", "dtype": "Dtype", "device": "device", "Generator": "Generator",
}  # fmt: skip
# Modules whose functions have types of their own, so that stubs need only name them.
TYPED = (
    "retrograd.arrays._dtypes", "retrograd.arrays._format", "retrograd.arrays._linalg",
    "retrograd.autograd", "retrograd.compiler", "retrograd.files", "retrograd.func",
    "retrograd.tensor._limits",
    "retrograd.tensor._queries", "retrograd.tensor._rng", "retrograd.tensor._tensor",
)  # fmt: skip
# Names of the package and of Tensor that hide Python's own types.
HIDDEN = re.compile(r"(?<![\w.])(bool|float|int)(?!\w|\()")
SHOWN_DEFAULTS = (type(None), bool, int, float, str, tuple)


class Signature(NamedTuple):
    """Arguments, each as written in a stub, and the result."""

    arguments: tuple[str, ...]
    result: str


# -- signatures from the table -----------------------------------------------------------------


def split_arguments(text: str) -> tuple[str, ...]:
    """The arguments of a signature, at the commas outside of brackets."""
    found, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            found.append(text[start:i].strip())
            start = i + 1
    return tuple(x for x in (*found, text[start:].strip()) if x)


def written_signatures() -> dict[str, list[Signature]]:
    """The signatures of the table, by name."""
    found: dict[str, list[Signature]] = {}
    for line in filter(None, SIGNATURES.splitlines()):
        match = re.fullmatch(r"([\w.]+)\((.*)\) -> (.*)", line)
        assert match, line
        found.setdefault(match[1], []).append(Signature(split_arguments(match[2]), match[3]))
    return found


WRITTEN = written_signatures()


def names(arguments: Iterable[str]) -> list[str]:
    """What arguments are called."""
    return [re.split(r"[:=]", a)[0].strip().lstrip("*") for a in arguments if a not in "*/"]


# -- signatures from functions -----------------------------------------------------------------


def annotation(name: str, parameter: inspect.Parameter) -> str:
    """The type of an argument of the function ``name``."""
    word = "input" if parameter.name == "self" else parameter.name
    given = str(parameter.annotation)
    specific = OF_FUNCTION.get(f"{name}.{word}")
    if specific is None and word == "output_size":
        specific = OUTPUT_SIZE
    if specific is None and word in ("other", "exponent") and name in NUMBER_RIGHT:
        specific = "Operand"
    if specific is not None:
        kind = specific
    elif given in ALIASES:
        kind = ALIASES[given]
    elif given == "Sequence[Any]":
        kind = "Sequence[Tensor]"
    elif "Any" in given or parameter.annotation is parameter.empty:
        if word not in ARGUMENTS:
            raise LookupError(f"{name}: annotate {word}, or add it to _stub_tables.ARGUMENTS")
        kind = ARGUMENTS[word]
    else:
        kind = given
    if parameter.default is None and "None" not in kind and kind not in ("Dims", "Device", "Any"):
        kind += " | None"
    return kind


def argument(name: str, parameter: inspect.Parameter) -> str:
    """An argument as a stub writes it."""
    word = "input" if parameter.name == "self" else parameter.name
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{word}: {annotation(name, parameter)}"
    if parameter.default is parameter.empty:
        return text
    default = repr(parameter.default) if isinstance(parameter.default, SHOWN_DEFAULTS) else "..."
    return f"{text} = {default}"


def result_of(space: str, name: str, function: Callable[..., Any]) -> str:
    """The type that a function returns."""
    for key in (f"{space}.{name}", name):
        if key in RESULTS:
            return RESULTS[key]
    given = inspect.signature(function).return_annotation
    given = "Any" if given is inspect.Signature.empty else str(given)
    if given in ALIASES:
        return ALIASES[given]
    return re.sub(r"\bAny\b", "Tensor", given)


def derived(space: str, name: str, function: Callable[..., Any]) -> list[Signature]:
    """The signatures of a function, from itself."""
    function = inspect.unwrap(function)
    arguments: list[str] = []
    keyword_only = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name.startswith("_"):
            continue
        keyword_only |= parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            arguments.append("*")
            keyword_only = True
        arguments.append(argument(name, parameter))
    first = Signature(tuple(arguments), result_of(space, name, function))
    if POLYNOMIALS in name:
        return [_typed(first, "Tensor", "Operand"), _typed(first, "Number", "Tensor")]
    if name in NUMBER_LEFT:
        return [_typed(first, "Tensor", "Operand"), _typed(first, "Number", "Tensor")]
    if name in AXIS:
        return [first, by_axis(first)]
    return [first]


def _typed(signature: Signature, *kinds: str) -> Signature:
    """A signature whose first arguments have other types."""
    arguments = list(signature.arguments)
    for i, kind in enumerate(kinds):
        arguments[i] = f"{names(arguments)[i]}: {kind}"
    return signature._replace(arguments=tuple(arguments))


def by_axis(signature: Signature) -> Signature:
    """The same by NumPy's names, which are keywords."""
    arguments = [a for a in signature.arguments if a != "*"]
    position = names(arguments).index("dim")
    axis = arguments[position].partition(" = ")[0].replace("dim:", "axis:")
    rest = [re.sub(r"^keepdim", "keepdims", a) for a in arguments[position + 1 :]]
    return signature._replace(arguments=(*arguments[:position], "*", axis, *rest))


def with_out(signature: Signature) -> Signature:
    """The same, with the argument ``out``."""
    kind = "Tensor" if signature.result == "Tensor" else "Sequence[Tensor]"
    star = () if any(a.startswith("*") for a in signature.arguments) else ("*",)
    arguments = (*signature.arguments, *star, f"out: {kind} | None = None")
    return signature._replace(arguments=arguments)


def check_names(name: str, function: Callable[..., Any], written: list[Signature]) -> None:
    """A written signature has the arguments that the function has."""
    real = inspect.signature(inspect.unwrap(function)).parameters.values()
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in real):
        return
    ours = {word for signature in written for word in names(signature.arguments)}
    theirs = {"input" if p.name == "self" else p.name for p in real}
    given_by_all = {"out", "axis", "keepdims"}
    if ours - given_by_all != theirs - given_by_all:
        raise ValueError(f"{name}: the table has {sorted(ours)}, the function {sorted(theirs)}")


def function_signatures(space: str, name: str, function: Callable[..., Any]) -> list[Signature]:
    """The overloads of a function of a namespace."""
    for key in (f"{space}.{name}", *([name] if space == "torch" else [])):
        if key in WRITTEN:
            check_names(key, function, WRITTEN[key])
            return WRITTEN[key]
    if space == "torch" and name.endswith("_") and hasattr(torch.Tensor, name):
        return [
            s._replace(arguments=("input: Tensor", *s.arguments[1:]), result="Tensor")
            for s in method_signatures(name)
        ]
    found = derived(space, name, function)
    takes_out = "out" in inspect.signature(function).parameters
    if takes_out and "out" not in names(found[0].arguments):
        return [with_out(s) for s in found]
    return found


# -- methods -----------------------------------------------------------------------------------


def is_bound_later(name: str) -> bool:
    """Whether a method is put on the Tensor class, rather than defined in it."""
    function = getattr(torch.Tensor, name)
    if not inspect.isfunction(function):
        return False
    return not function.__qualname__.startswith(("Tensor.", "Variable.", "TensorLike."))


def method_signatures(name: str) -> list[Signature]:
    """The overloads of a method of Tensor."""
    if f"Tensor.{name}" in WRITTEN:
        return WRITTEN[f"Tensor.{name}"]
    base = name.removesuffix("_")
    in_place = base != name
    if in_place and f"Tensor.{base}" in WRITTEN:
        found = WRITTEN[f"Tensor.{base}"]
    else:
        function = getattr(torch, base if in_place else name)
        found = function_signatures("torch", base if in_place else name, function)
        if not in_place or base in NUMBER_LEFT or base in ("pow", "float_power"):
            found = [s for s in found if not s.arguments[0].endswith(": Number")]
    result = []
    for signature in found:
        arguments = ["self", *signature.arguments[1:]]
        arguments = [a for a in arguments if not a.startswith("out:")]
        if arguments[-1] == "*":
            del arguments[-1]
        if arguments[1:2] == ["/"]:
            del arguments[1]
        result.append(Signature(tuple(arguments), "Self" if in_place else signature.result))
    return list(dict.fromkeys(result))


BINARY = "add sub mul truediv floordiv mod pow"
BITWISE = "and or xor lshift rshift"
COMPARISONS = "eq ne lt le gt ge"


def operators() -> Iterator[str]:
    for name in BINARY.split():
        yield f"def __{name}__(self, other: Operand) -> Tensor: ..."
        yield f"def __r{name}__(self, other: Operand) -> Tensor: ..."
        yield f"def __i{name}__(self, other: Operand) -> Self: ..."
    for name in BITWISE.split():
        yield f"def __{name}__(self, other: Tensor | int) -> Tensor: ..."
        yield f"def __r{name}__(self, other: Tensor | int) -> Tensor: ..."
        yield f"def __i{name}__(self, other: Tensor | int) -> Self: ..."
    for name in COMPARISONS.split():
        kind = "object" if name in ("eq", "ne") else "Operand"
        ignored = "  # type: ignore[override]" if kind == "object" else ""
        yield f"def __{name}__(self, other: {kind}) -> Tensor: ...{ignored}"
    yield "def __hash__(self) -> int: ..."
    for name in ("matmul", "rmatmul"):
        yield f"def __{name}__(self, other: Tensor | Array) -> Tensor: ..."
    for name in ("neg", "pos", "abs", "invert"):
        yield f"def __{name}__(self) -> Tensor: ..."
    yield "def __getitem__(self, index: Index) -> Tensor: ..."
    yield "def __setitem__(self, index: Index, value: Operand | Array) -> None: ..."


# What the base class, which knows no Tensors, says of any.
HISTORY = """
@property
def grad(self) -> Tensor | None: ...
@grad.setter
def grad(self, value: Tensor | None) -> None: ...
@grad.deleter
def grad(self) -> None: ...
def detach(self) -> Tensor: ...
def detach_(self) -> Self: ...
def requires_grad_(self, requires_grad: bool = True) -> Self: ...
def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Tensor | Sequence[Tensor] | None = None) -> None: ...
def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle: ...
def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle: ...
"""  # noqa: E501


def tensor_stub() -> str:
    """The methods that are put on the Tensor class."""
    lines = HISTORY.strip().splitlines()
    for name in ("T", "mT", "H", "mH"):
        lines += ["@property", f"def {name}(self) -> Tensor: ..."]
    for name in ("real", "imag"):
        lines += ["@property", f"def {name}(self) -> Tensor: ..."]
        lines += [f"@{name}.setter", f"def {name}(self, value: Operand) -> None: ..."]
    lines += operators()
    for name in sorted(n for n in dir(torch.Tensor) if not n.startswith("_")):
        if is_bound_later(name):
            lines += definition(name, method_signatures(name))
    imports = """
        from builtins import bool as _bool, float as _float, int as _int
        from collections.abc import Callable, Sequence
        from typing import Any, Literal, Self, overload

        from retrograd.tensor._typing import *
        from retrograd.autograd._hooks import RemovableHandle
        from retrograd.autograd._variable import Variable
        from retrograd.tensor._rng import Generator
        from retrograd.tensor._tensor import Tensor, device

        class Methods(Variable):
    """
    body = textwrap.indent("\n".join(lines), "    ")
    return HEADER + textwrap.dedent(imports) + HIDDEN.sub(r"_\1", body) + "\n"


# -- text --------------------------------------------------------------------------------------


def definition(name: str, signatures: list[Signature]) -> list[str]:
    """The lines that declare a function."""
    lines = []
    for signature in signatures:
        if len(signatures) > 1:
            lines.append("@overload")
        arguments = ", ".join(signature.arguments)
        lines.append(f"def {name}({arguments}) -> {signature.result}: ...")
    return lines


def namespace_stub(space: str, module: ModuleType, imports: str = "") -> str:
    """The stub of a module whose functions are loaded by name."""
    lines, exported = [], []
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isclass(value):
            exported.append(f"from {home(value)} import {name} as {name}")
        else:
            lines += definition(name, function_signatures(space, name, value))
    head = """
        from collections.abc import Callable, Sequence
        from typing import Any, Literal, overload

        from retrograd.tensor._typing import *
        from retrograd.tensor._rng import Generator
        from retrograd.tensor._tensor import Tensor, device
    """
    return HEADER + textwrap.dedent(head) + "\n".join([*exported, "", *lines, ""])


def package_stub() -> str:
    """The stub of the package itself."""
    modules, exported, lines = [], [], []
    for name in sorted(set(torch.__all__)):
        value = getattr(torch, name)
        kind = type(value)
        if inspect.ismodule(value):
            modules.append(f"from retrograd import {name} as {name}")
        elif isinstance(value, torch.dtype):
            lines.append(f"{name}: dtype")
        elif kind is float or isinstance(value, str) or value is None:
            lines.append(f"{name}: {'float' if kind is float else 'str' if value else 'None'}")
        elif kind.__name__ == "TensorType":
            lines.append(f"{name}: type[Tensor]")
        elif kind.__name__ == "StorageType":
            lines.append(f"{name}: type[TypedStorage]")
        elif kind is torch.Generator:
            exported.append(f"from retrograd.tensor._rng import {name} as {name}")
        elif inspect.isclass(value) or (_has_types(value) and name not in WRITTEN):
            exported.append(f"from {home(value)} import {name} as {name}")
        else:
            lines += definition(name, function_signatures("torch", name, value))
    head = """
        from builtins import bool as _bool, float as _float, int as _int
        from collections.abc import Sequence
        from typing import Any, Literal, overload

        from retrograd.tensor._typing import *
    """
    lines.append("__version__: str")
    body = HIDDEN.sub(r"_\1", "\n".join(lines)).replace("\n_", "\n_")
    body = re.sub(r"^_(bool|float|int): dtype", r"\1: dtype", body, flags=re.M)
    return HEADER + textwrap.dedent(head) + "\n".join([*modules, *exported, "", body, ""])


def home(value: Any) -> str:
    """The module that defines a class or a function, whatever it says of itself."""
    declared = re.compile(rf"^(class|def) {value.__name__}\b", re.M)
    for name, module in list(sys.modules.items()):
        known = name.startswith("retrograd.") and vars(module).get(value.__name__) is value
        if known and declared.search(inspect.getsource(module)):
            return name
    raise LookupError(f"no module defines {value!r}")


def _has_types(value: Any) -> bool:
    module = getattr(value, "__module__", "") or ""
    return module.startswith(TYPED) and not hasattr(value, "__wrapped__")


def scipy_functions() -> str:
    """Those of SciPy's special functions that are in the namespace beside PyTorch's."""
    x, y = (torch.ones((), dtype=torch.float64) for _ in range(2))
    lines = []
    for name, function in sorted(FUNCTIONS.items()):
        names = list(inspect.signature(function).parameters)
        several = type(function(*[x, y][: len(names)])) is tuple if len(names) < 3 else False
        arguments = "".join(f"{n}: Operand, " for n in names)
        result = "tuple[Tensor, ...]" if several else "Tensor"
        lines.append(f"def {name}({arguments}/) -> {result}: ...\n")
    return "".join(lines)


def stubs() -> dict[Path, str]:
    """Every stub, by the file that it belongs in."""
    found = pytorch_stubs()
    found[SOURCE / "special.pyi"] += scipy_functions()
    return found


def pytorch_stubs() -> dict[Path, str]:
    return {
        SOURCE / "__init__.pyi": package_stub(),
        SOURCE / "tensor" / "_bound.pyi": tensor_stub(),
        **{
            SOURCE / (space.replace(".", "/") + ".pyi"): namespace_stub(space, module)
            for space, module in {
                "nn.functional": torch.nn.functional, "linalg": torch.linalg, "fft": torch.fft,
                "special": torch.special,
            }.items()
        },
    }  # fmt: skip


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
        print(path.relative_to(SOURCE.parent))
