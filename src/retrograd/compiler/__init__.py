"""Compiles functions and their derivatives to straight-line programs."""

from retrograd.compiler._compiled import CannotCompile, Compiled, compile, kernel
from retrograd.compiler._compiled import Quiet as Quiet  # for functions of the library
from retrograd.compiler._controls import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    list_backends,
    nested_compile_region,
    reset,
    set_stance,
)
from retrograd.compiler._program import Kernel, Line, Program, Var

__all__ = [
    "CannotCompile", "Compiled", "Kernel", "Line", "Program", "Var", "allow_in_graph",
    "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "kernel", "list_backends", "nested_compile_region",
    "reset", "set_stance",
]  # fmt: skip
