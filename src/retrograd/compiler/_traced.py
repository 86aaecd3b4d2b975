"""Traced values: arrays, with the program variables that represent them.

Values of a program do not change, but memory does. ``Memory`` is some memory and the variable of
its current contents. A traced value is all or a part of it, described by view steps. After a write
to any part, the others become views of the new contents when they are next used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retrograd import arrays
from retrograd.autograd._levels import as_tensor
from retrograd.compiler._program import Step, Var
from retrograd.ops._lifted import Lifted

if TYPE_CHECKING:
    from retrograd.compiler._writer import ProgramWriter


class Memory:
    """The memory of traced values: the variable of its current contents, and a counter of
    writes."""

    __slots__ = ("block", "shared", "value", "var", "version")

    def __init__(self, var: Var, value: Any, block: Any) -> None:
        self.var = var
        self.value = value  # the array
        self.block = block  # the block of lines that may write to it
        self.version = 0
        self.shared = False  # whether it is also the memory of an operand or another result


class Traced(Lifted):
    """An array, and the program variable that represents it."""

    __slots__ = ("_var", "bare_dtype", "has_history", "memory", "seen", "steps", "value")

    level: ProgramWriter
    bare_dtype: Any

    def __init__(
        self, level: ProgramWriter, value: Any, var: Var, memory: Memory | None = None,
        steps: tuple[Step, ...] = (),
    ) -> None:  # fmt: skip
        self.level = level
        self.value = value
        self._var = var
        self.memory = Memory(var, value, level.lines) if memory is None else memory
        self.steps = steps
        self.seen = self.memory.version
        dtype = var.dtype
        self.bare_dtype = dtype if dtype is arrays.float32 or dtype is arrays.float64 else None
        self.has_history = False  # whether its Tensor has one, which tracing hides

    @property
    def var(self) -> Var:
        """The variable of the current value."""
        memory = self.memory
        if self.seen != memory.version:
            var, value = memory.var, memory.value
            for step in self.steps:
                value = step(value)
                var = self.level.viewed(var, step, value, memory.block)
            self._var, self.seen = var, memory.version
        if memory.block is not self.level.lines:
            self.level.lines.note_captured(self)
        return self._var

    # Attributes of arrays. Guards check them, so a program may depend on them.

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.value.shape
        return shape

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        strides: tuple[int, ...] = self.value.strides
        return strides

    @property
    def ndim(self) -> int:
        return int(self.value.ndim)

    @property
    def size(self) -> int:
        return int(self.value.size)

    def detached(self) -> Traced:
        return self

    def as_gradient(self, like: Any = None) -> Traced:
        """The same value in separate memory. Variables do not change, so a line that copies it is
        needed only for another layout."""
        copy, var = arrays.copy(self.value), self.var
        if copy.strides != var.strides:
            var = self.level.copied(var, copy)
        return Traced(self.level, copy, var)

    def plus(self, g: Any) -> Traced:
        self.hold(as_tensor)
        self.level.write(self, Lifted.operations["add"](self, g))
        return self

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        self.value = arrays.writable(self.value)
        if not self.steps:
            self.memory.value = self.value

    def text(self, suffixes: str) -> str:
        if not self.level.closed:
            self.level.look("print()")
        return repr(as_tensor(self.value))[:-1] + suffixes + ")"

    # Reading values.

    def looked_at(self, how: str) -> Any:
        """The array, for code that reads it other than by operations."""
        if not self.level.closed:
            self.level.look(how)
        elif self.has_history:
            raise RuntimeError(
                "compile: a function that can see this tensor is being traced in another thread. "
                "No other thread can use it until tracing ends. Call the compiled function once "
                "before you start other threads that use its tensors."
            )
        return self.value

    def afterwards(self, operation: Any, *args: Any) -> Any:
        return operation(*_values([self, *args], "arithmetic"))

    @property
    def inner(self) -> Any:
        return self.value

    @property
    def shared(self) -> Any:
        return self.value

    @property
    def differs(self) -> bool:
        return False

    def item(self) -> Any:
        return self.looked_at("item()").item()

    def truth(self) -> bool:
        return bool(self.looked_at("bool()").item())

    def tolist(self) -> Any:
        return self.looked_at("tolist()").tolist()

    def __array__(self, *args: Any, **named: Any) -> Any:
        return self.looked_at("numpy()").__array__(*args, **named)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        operation = Lifted.operations.get(ufunc.__name__)
        if operation is not None and method == "__call__" and not named and not self.level.closed:
            return operation(*inputs)
        name = f"NumPy's {ufunc.__name__}()"
        named = {key: _values(x, name) for key, x in named.items()}
        return getattr(ufunc, method)(*[_values(x, name) for x in inputs], **named)

    def __array_function__(self, function: Any, *call: Any) -> Any:
        _, args, named = call
        name = f"NumPy's {function.__name__}()"
        return function(*_values(args, name), **{k: _values(x, name) for k, x in named.items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.value, name):
            raise AttributeError(name)
        return getattr(self.looked_at(f"its {name}"), name)

    def __getitem__(self, index: Any) -> Any:
        return self.looked_at("an element")[index]

    def __bool__(self) -> bool:
        return self.truth()


def _values(x: Any, how: str) -> Any:
    if type(x) in (list, tuple):
        return type(x)([_values(part, how) for part in x])
    return x.looked_at(how) if isinstance(x, Traced) else x
