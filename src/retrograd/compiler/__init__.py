"""Functions, and their derivatives, as programs in straight lines that can be read and run."""

from retrograd.compiler._compiled import CannotCompile, Compiled, compile, kernel
from retrograd.compiler._program import Kernel, Line, Program, Var

__all__ = ["CannotCompile", "Compiled", "Kernel", "Line", "Program", "Var", "compile", "kernel"]
