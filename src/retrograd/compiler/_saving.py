"""Programs as modules: text that runs by itself, on NumPy alone where that is enough."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from retrograd import arrays
from retrograd.compiler._printing import Text, array_text
from retrograd.compiler._program import Program
from retrograd.ops._operation import TABLE


def module_text(program: Program) -> str:
    """A Python module that defines the program as a function of arrays.

    Raises NotImplementedError for what needs objects of this process, such as an optimizer.
    """
    text = Text(program)
    imports, constants = ["import numpy as np"], []
    for name, x in text.names.items():
        if name == "np":
            continue
        if isinstance(x, (arrays.ndarray, arrays.programs.numpy.generic)):
            constants.append(f"{name} = {array_text(x)}")
        elif type(x) in (float, complex):
            constants.append(f"{name} = {type(x).__name__}({str(x)!r})")
        else:
            imports.append(_imported(name, x))
    if "bfloat16" in "".join([text.text, *constants]):
        imports.append("import ml_dtypes  # from which NumPy knows bfloat16")
    inputs = "".join(f"    {v.name}: {v.dtype.name}{list(v.shape)}\n" for v in program.inputs)
    title = f"{program.name}(), as a program in straight lines."
    return (
        f'"""{title}\n\nArrays that it takes:\n\n{inputs}"""\n\n'
        + "\n".join(sorted(imports, key=lambda line: line != "import numpy as np"))
        + "\n"
        + "".join(f"\n{line}" for line in constants)
        + f"\n\n\n{text.text}"
    )


def _imported(name: str, x: Any) -> str:
    """The line that makes a function known under its name."""
    for operation in TABLE.values():
        if operation.forward is x:
            found = _by_path(x)
            return _import(name, *found) if found else _kernel(name, operation.name)
    found = _by_path(x)
    if found is None:
        raise NotImplementedError(
            f"the program calls {name}(), which needs objects of this process (an optimizer, a "
            "generator of random numbers, statistics of a module) and cannot be saved"
        )
    return _import(name, *found)


def _by_path(x: Any) -> tuple[str, str] | None:
    """The module and the name that a function can be imported by."""
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    if not module or not name or "." in name or "<" in name:
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return (module, name) if found is x and module in sys.modules else None


def _import(name: str, module: str, found: str) -> str:
    return f"from {module} import {found}" + ("" if found == name else f" as {name}")


def _kernel(name: str, operation: str) -> str:
    return f"{name} = __import__('retrograd.compiler', fromlist=['kernel']).kernel({operation!r})"
