"""Programs as Python modules, which need only NumPy where possible."""

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
    """The line that imports a function under a name."""
    for operation in TABLE.values():
        if operation.forward is x:
            path = _by_path(x)
            return _import(name, *path) if path else _kernel(name, operation.name)
    path = _by_path(x)
    if path is None:
        raise NotImplementedError(
            f"the program calls {name}(), which needs objects of this process (an optimizer, a "
            "generator of random numbers, statistics of a module) and cannot be saved"
        )
    return _import(name, *path)


def _by_path(x: Any) -> tuple[str, str] | None:
    """The module and the name from which a function can be imported, or None."""
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    if not module or not name or "." in name or "<" in name:
        return None
    try:
        attribute = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return (module, name) if attribute is x and module in sys.modules else None


def _import(name: str, module: str, original: str) -> str:
    return f"from {module} import {original}" + ("" if original == name else f" as {name}")


def _kernel(name: str, operation: str) -> str:
    return f"{name} = __import__('retrograd.compiler', fromlist=['kernel']).kernel({operation!r})"
