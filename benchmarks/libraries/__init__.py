"""The libraries that are compared, and how to find out which of them are here.

Each library's programs are in a file of their own, which is imported only when it takes part.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.libraries._inputs import Inputs

Run = Callable[[], tuple[object, ...]]


@dataclass(frozen=True)
class Library:
    """One contestant: a library, used in one way."""

    key: str  # what users type
    label: str  # what tables show
    module: str  # what must be importable
    source: str  # the file here that has its programs
    options: dict[str, Any] = field(default_factory=dict)
    in_its_namespace: bool = False  # the programs are given the module itself

    @property
    def version(self) -> str:
        try:
            return importlib.metadata.version(self.module)
        except importlib.metadata.PackageNotFoundError:  # run from its source
            return "(not installed)"

    def why_absent(self) -> str | None:
        """None if it can be used, otherwise the reason why not."""
        spec = importlib.util.find_spec(self.module)
        if spec is None or spec.origin is None:  # a folder of that name is no library
            return "not installed"
        if self.module == "tinygrad":
            return _tinygrad_trouble()
        return None

    def programs(self, inputs: Inputs) -> dict[str, Run]:
        """Each program by name, as a call that runs it forward and backward."""
        source = self._source()
        first = (importlib.import_module(self.module),) if self.in_its_namespace else ()
        made: dict[str, Run] = source.programs(*first, inputs, **self.options)
        return made

    def to_numpy(self, value: object) -> Any:
        return self._source().to_numpy(value)

    def _source(self) -> Any:
        return importlib.import_module(f"benchmarks.libraries.{self.source}")


def _tinygrad_trouble() -> str | None:
    """tinygrad compiles what it computes, so it needs something to compile with."""
    from tinygrad import Device

    try:
        device = Device.DEFAULT
    except RuntimeError as error:
        return f"installed, but: {error}; on a CPU it needs clang"
    if device == "CPU" and shutil.which(os.environ.get("CC", "clang")) is None:
        return "installed, but on a CPU it needs clang"
    return None


LIBRARIES = (
    Library("numpy", "NumPy by hand", "numpy", "by_hand"),
    Library("retrograd", "retrograd", "retrograd", "torch_style", in_its_namespace=True),
    Library("torch", "PyTorch", "torch", "torch_style", in_its_namespace=True),
    Library("jax", "JAX", "jax", "jax_programs", {"jit": False}),
    Library("jax-jit", "JAX, jitted", "jax", "jax_programs", {"jit": True}),
    Library("autograd", "HIPS autograd", "autograd", "hips_programs"),
    Library("mygrad", "MyGrad", "mygrad", "mygrad_programs"),
    Library("tinygrad", "tinygrad", "tinygrad", "tinygrad_programs", {"jit": False}),
    Library("tinygrad-jit", "tinygrad, jitted", "tinygrad", "tinygrad_programs", {"jit": True}),
)
BY_KEY = {library.key: library for library in LIBRARIES}
