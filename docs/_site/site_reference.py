"""The pages of the API reference, written from docstrings when the site is built.

Many public names are made when they are first used, so the reference is read off the objects, not
off their source. ``tests/docstring_coverage.py`` knows the public names and the sections of a
docstring; ``tests/project/test_docstrings.py`` checks that these sections are complete.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from docstring_coverage import NAMESPACES, SECTION, Entry, entries

import retrograd
from retrograd.ops._index import INDEX
from retrograd.ops._public import NAMES

MEMBERS = ("method", "bound", "property")
SHOWN_DEFAULTS = (type(None), bool, int, float, complex, str, tuple)
CODE = re.compile(r"(``.+?``|`[^`\n]+`)", re.S)
# What an argument is named by: "dim", "*tensors", "foreach, fused", "p (float)".
ARGUMENT = re.compile(r"^((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*)((?: \([^)]*\))?):\s*(.*)$")
# Topics of the functions of ``torch``: title, file, some names, and the modules that declare them.
TOPICS = (
    ("creating tensors", "creation", "tensor zeros arange randn from_numpy", (
        "tensor._creation", "tensor._like", "tensor._ranges", "tensor._randoms", "tensor._windows",
        "tensor._conversion", "tensor._rng", "arrays._generator", "ops.sampling", "tensor._indices",
        "tensor._memory",
    )),
    ("element by element", "elementwise", "exp sin pow maximum clip", (
        "ops.pointwise", "ops.elementwise", "ops.piecewise", "ops.comparisons", "tensor._methods",
    )),
    ("reductions and scans", "reductions", "sum mean max std cumsum", ("ops.reductions",)),
    ("shapes, indexing, sorting", "shapes", "cat reshape gather sort roll", (
        "ops.shapes", "ops.linear", "ops.selecting")),
    ("linear algebra", "algebra", "matmul einsum kron cross det", (
        "ops.algebra", "ops.products", "ops.multilinear")),
    ("networks and signals", "networks", "conv2d dropout embedding lstm stft", (
        "ops.networks", "ops.signals")),
    ("types, modes, files and more", "more", "no_grad save compile set_default_dtype", ("",)),
)  # fmt: skip
# The other pages: namespaces, with what each is about.
SPACES = {
    "nn": "Modules, layers and losses",
    "nn.functional": "What layers and losses compute, as functions",
    "nn.init": "Initial values of parameters",
    "nn.utils": "Clipping gradients, and parameters as vectors",
    "nn.utils.parametrize": "Parameters computed from others",
    "nn.utils.parametrizations": "Ready-made parametrizations",
    "nn.utils.rnn": "Sequences of different lengths",
    "nn.parallel": "Models trained by several processes",
    "optim": "Optimizers",
    "optim.lr_scheduler": "Learning rates that change during training",
    "optim.swa_utils": "Averages of weights",
    "autograd": "Gradients, explanations and checks",
    "autograd.function": "Operations of your own, with their derivatives",
    "autograd.graph": "Nodes, hooks and saved tensors",
    "autograd.functional": "Jacobians and Hessians, in PyTorch's older style",
    "autograd.forward_ad": "Forward mode with dual numbers",
    "func": "Transforms of functions",
    "linalg": "Linear algebra",
    "fft": "Fourier transforms",
    "special": "Special functions",
    "signal.windows": "Windows",
    "masked": "Reductions that skip masked elements",
    "sparse": "Products with sparse matrices",
    "optimize": "Minima, roots and fits, by SciPy's solvers",
    "integrate": "Differential equations and integrals",
    "interpolate": "Interpolation and splines",
    "distributions": "Probability distributions",
    "distributions.kl": "Kullback-Leibler divergences",
    "random": "The state of random numbers",
    "compiler": "Functions and derivatives as programs",
    "library": "Declaring operations",
    "utils.data": "Data sets and data loaders",
    "utils.checkpoint": "Recomputing in place of storing",
    "utils.dlpack": "Memory shared with other libraries",
    "utils.benchmark": "Timing",
    "amp": "Lower precision",
    "files": "Saving and loading",
    "distributed": "Communication between processes",
    "pipeline": "Models split across processes",
    "profiler": "Where time and memory go",
    "viz": "Pictures of graphs, and pages that step through a pass",
    "testing": "Comparing tensors in tests",
    "quasirandom": "Sobol sequences",
    "array_api": "The functions of the array API standard",
    "overrides": "Functions that handle classes of your own",
    "jit": "Names of scripting and tracing, for programs that use them",
    "hub": "Models and weights from elsewhere",
    "utils.tensorboard": "Logs for TensorBoard",
}  # fmt: skip


class Written(NamedTuple):
    """A page: its title in the navigation, its path below ``reference/``, and its text."""

    title: str
    path: str
    text: str


def pages(only: Iterable[str] = ()) -> Iterator[Written]:
    """All pages of the reference, or those of some namespaces."""
    spaces = [*SPACES, *(name for name in NAMESPACES if name not in {"torch", "Tensor", *SPACES})]
    wanted = set(only) or {"torch", "Tensor", *spaces}
    written = []
    if "torch" in wanted:
        by_topic = _by_topic()
        for title, file, *_ in TOPICS:
            text = _page(f"torch: {title}", "", by_topic[file])
            written.append(Written(f"torch: {title}", f"torch-{file}.md", text))
    if "Tensor" in wanted:
        text = _page("torch.Tensor", retrograd.Tensor.__doc__ or "", entries("Tensor"))
        written.append(Written("torch.Tensor", "Tensor.md", text))
    for space in spaces:
        if space in wanted:
            module = importlib.import_module(f"retrograd.{space}")
            doc = inspect.getdoc(module) or ""
            if "loaded name by name" in doc:  # which is about the source
                doc = f"{SPACES[space]}."
            text = _page(f"torch.{space}", doc, entries(space))
            written.append(Written(f"torch.{space}", f"{space}.md", text))
    return iter([Written("Overview", "index.md", _overview(written)), *written])


def _overview(written: list[Written]) -> str:
    lines = [
        "# API reference", "",
        "Every public function, class and method, with its arguments and an example. The pages are "
        "written from the docstrings, so `help(torch.sum)` says the same. Examples begin with "
        "`import retrograd as torch`.", "",
        "[Operations](../operations.md) lists the derivative of every operation, and "
        "[Differences](../differences.md) says where behaviour differs from PyTorch's.", "",
        "| page | names | |", "| --- | --- | --- |",
    ]  # fmt: skip
    about = {f"torch: {title}": _listed(names) for title, _, names, _ in TOPICS}
    about["torch.Tensor"] = "Methods and attributes of tensors"
    for page in written:
        count = len(re.findall(r"^`````+\{py:", page.text, re.M))
        space = page.title.removeprefix("torch.")
        said = about.get(page.title) or SPACES.get(space) or _about(space)
        lines.append(f"| [{page.title}]({page.path}) | {count} | {said} |")
    lines += ["", "```{toctree}", ":hidden:", "", *(page.path for page in written), "```"]
    return "\n".join(lines) + "\n"


def _listed(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split()) + ", ..."


def _about(space: str) -> str:
    """What a namespace that is not among ``SPACES`` says of itself."""
    doc = inspect.getdoc(importlib.import_module(f"retrograd.{space}")) or ""
    return _escaped(_summary(doc).partition(". ")[0].rstrip("."))


@functools.cache
def _declared() -> dict[str, str]:
    """The module that declares a function of ``torch``, for those of modules loaded late."""
    return {
        name: module for module, spaces in INDEX.items() for name in spaces.get("torch", "").split()
    }


def _by_topic() -> dict[str, list[Entry]]:
    """The entries of ``torch``, by the file of their topic."""
    found: dict[str, list[Entry]] = {file: [] for _, file, *_ in TOPICS}
    topic = ""
    for entry in entries("torch"):
        if entry.kind in ("function", "class"):  # a member stays with its class
            module = _module_of(entry.name.removeprefix("torch."), entry.value)
            topic = next(f for _, f, _, starts in TOPICS if module.startswith(starts))
        found[topic].append(entry)
    return found


def _module_of(name: str, value: Any) -> str:
    name = name if name in _declared() else name.removesuffix("_")
    if name in _declared():
        return _declared()[name]
    face = NAMES["torch"].get(name)
    if face is not None and face.is_operation:
        modules = {"linear": "ops.linear", "reduction": "ops.reductions"}
        return modules.get(face.target.family, "ops.elementwise")
    module = getattr(inspect.unwrap(value), "__module__", "") or ""
    return module.removeprefix("retrograd.")


# -- a page --------------------------------------------------------------------------------------


def _page(title: str, about: str, found: list[Entry]) -> str:
    """The page of a namespace."""
    lines = inspect.cleandoc(about).splitlines()
    parts = [f"# {title}", "", *_body(lines), ""]
    at = 0
    while at < len(found):
        end = at + 1
        if found[at].kind == "class":  # whose members come after it
            while end < len(found) and found[end].kind in MEMBERS:
                end += 1
        parts += _object(found[at], found[at + 1 : end])
        at = end
    return "\n".join(parts) + "\n"


def _object(entry: Entry, members: list[Entry]) -> Iterator[str]:
    """The description of a function or a class, its members inside."""
    full = entry.name if entry.name.startswith("torch") else f"torch.{entry.name}"
    kind = {"class": "py:class", "function": "py:function", "property": "py:property"}
    yield f"``````{{{kind.get(entry.kind, 'py:method')}}} {_signature(entry, full)}"
    yield ""
    yield from _description(entry)
    for member in members:
        own = member.name.rpartition(".")[2]
        word = "py:property" if member.kind == "property" else "py:method"
        yield f"`````{{{word}}} {_signature(member, own)}"
        yield ""
        yield from _description(member)
        yield "`````"
        yield ""
    yield "``````"
    yield ""


def _description(entry: Entry) -> Iterator[str]:
    space, _, own = entry.name.rpartition(".")
    if entry.kind == "function" and own.endswith("_") and _is_in_place(entry, own):
        yield f"`{own.removesuffix('_')}`, written over its input.\n"
    elif space == "Tensor" and (link := _as_function(own)):
        yield link
    else:
        yield from _body(entry.doc.splitlines())
    yield ""


def _is_in_place(entry: Entry, own: str) -> bool:
    return getattr(entry.value, "__name__", own) == own.removesuffix("_")


def _as_function(own: str) -> str:
    """What a method that is also a function of ``torch`` says: a summary, and a link."""
    base = own if hasattr(retrograd, own) else own.removesuffix("_")
    function, method = getattr(retrograd, base, None), getattr(retrograd.Tensor, base, None)
    if not callable(function) or inspect.isclass(function) or base not in _targets():
        return ""
    said, theirs = inspect.getdoc(method) or "", inspect.getdoc(function) or ""
    if not said or said.splitlines()[0] != theirs.splitlines()[0]:
        return ""
    how = "" if base == own else " Writes the result over the tensor."
    link = f"See {{py:func}}`torch.{base}` for the arguments."
    return f"{_escaped(_summary(said))}{how} {link}\n"


@functools.cache
def _targets() -> dict[str, str]:
    """The file that documents each function of ``torch``."""
    return {
        e.name.removeprefix("torch."): file for file, found in _by_topic().items() for e in found
        if e.kind == "function"
    }  # fmt: skip


def _summary(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split())


def _signature(entry: Entry, shown: str) -> str:
    """The call, in one line."""
    if entry.kind == "property" or (entry.kind == "class" and not entry.parameters):
        return shown
    try:
        parameters = list(inspect.signature(entry.value).parameters.values())
    except ValueError:  # a class of C
        return shown
    if entry.kind == "method" and parameters:
        del parameters[0]
    words = [_parameter(p) for p in parameters if not p.name.startswith("_")]
    return f"{shown}({', '.join(_with_markers(parameters, words))})"


def _with_markers(parameters: list[inspect.Parameter], words: list[str]) -> list[str]:
    """With a star in front of the arguments that are given by name."""
    shown = [p for p in parameters if not p.name.startswith("_")]
    kinds = [p.kind for p in shown]
    only = inspect.Parameter.KEYWORD_ONLY
    if only in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        words = [*words[: kinds.index(only)], "*", *words[kinds.index(only) :]]
    return words


def _parameter(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    name = "input" if p.name == "self" else p.name
    if p.default is p.empty:
        return f"{star}{name}"
    default = p.default
    if isinstance(default, SHOWN_DEFAULTS):
        shown = repr(default)
    elif isinstance(default, ModuleType) or callable(default):
        shown = getattr(default, "__name__", "...")
    else:
        shown = str(default)
    return f"{name}={'...' if ' at 0x' in shown or ' object' in shown else shown}"


# -- docstrings ----------------------------------------------------------------------------------


def _body(lines: list[str]) -> list[str]:
    """A docstring in Google's style as Markdown."""
    found: list[str] = []
    at = 0
    while at < len(lines):
        title = SECTION.match(lines[at])
        at += 1
        if not title:
            start = at - 1
            while at < len(lines) and not SECTION.match(lines[at]):
                at += 1
            found += [*_text(lines[start:at]), ""]
            continue
        start = at
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith(" ")):
            at += 1
        found += [*_section(title[1], inspect.cleandoc("\n" + "\n".join(lines[start:at]))), ""]
    return found


def _section(title: str, text: str) -> list[str]:
    shown = {"Args": "Arguments", "Examples": "Example"}.get(title, title)
    head = ["{.section}", f"**{shown}**", ""]
    lines = text.splitlines()
    if title in ("Example", "Examples"):
        return [*head, *_example(lines)]
    if title in ("Args", "Arguments", "Raises"):
        return [*head, *_arguments(lines)]
    return [*head, *_text(lines)]


def _arguments(lines: list[str]) -> list[str]:
    """A list of definitions."""
    found: list[str] = []
    for line in lines:
        match = ARGUMENT.match(line)
        if match:
            names = ", ".join(f"`{name}`" for name in match[1].split(", "))
            found += ["", f"{names}{_escaped(match[2])}", f":   {_escaped(match[3])}"]
        else:
            found.append(f"    {_escaped(line.strip())}" if line.strip() else "")
    return found


def _example(lines: list[str]) -> list[str]:
    """Sessions as blocks of code, other lines as text."""
    found: list[str] = []
    inside = False
    for line in lines:
        if line.startswith(">>>") and not inside:
            found += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            found += ["```", ""]
            inside = False
        found.append(line if inside else _escaped(line))
    return [*found, "```", ""] if inside else found


def _text(lines: list[str]) -> list[str]:
    """Paragraphs, lists and sessions."""
    if any(line.lstrip().startswith(">>>") for line in lines):
        first = next(i for i, line in enumerate(lines) if line.lstrip().startswith(">>>"))
        session = inspect.cleandoc("\n" + "\n".join(lines[first:])).splitlines()
        return [*_text(lines[:first]), "", *_example(session)]
    found: list[str] = []
    for line in lines:
        is_item = re.match(r"\s*([-*]|\d+\.) ", line)
        was_text = found and found[-1].strip() and not re.match(r"\s*([-*]|\d+\.) ", found[-1])
        if is_item and was_text and not found[-1].startswith("  "):
            found.append("")  # Markdown begins a list after an empty line
        if line.rstrip().endswith("::"):
            line = line.rstrip()[:-1]
        found.append(line if line.startswith("    ") else _escaped(line))
    return found


def _escaped(text: str) -> str:
    """Text in which only code is marked up."""
    parts = CODE.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*_<\[\]|])", r"\\\1", parts[i].replace("&", "&amp;"))
        parts[i] = re.sub(r"^(\s*)\\\* ", r"\1- ", parts[i]).replace(r"\<", "&lt;")
    return "".join(parts)
