"""``compile``: traces a function for each new kind of arguments, and runs the program."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import inspect
import keyword
import linecache
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from retrograd import ops
from retrograd._modes import modes
from retrograd._source import depth_of_user, line_number
from retrograd.compiler import xla
from retrograd.compiler._cost import Cost, cost_of, measured
from retrograd.compiler._entry import MISSED, Entry, abandon, has_effects
from retrograd.compiler._host_copies import HostCopies
from retrograd.compiler._printing import source
from retrograd.compiler._program import Program
from retrograd.compiler._trace import Trace
from retrograd.compiler._tracing import TraceLevel
from retrograd.compiler._watching import Watch, watch
from retrograd.ops._operation import TABLE

# A program for a device is verified by running it on the CPU, unless it moves more bytes than this.
MOST_BYTES = 1 << 33
MOST_PROGRAMS = 16  # for one function; beyond that, it runs eagerly
# While a function is traced, the tensors that it can see hold traced values.
_tracing = threading.RLock()


def kernel(name: str) -> Any:
    """The function of arrays that implements an operation. Saved programs use it.

    >>> from retrograd.compiler import kernel
    >>> kernel("neg")(2)
    -2
    """
    if name not in TABLE:
        import pkgutil

        for info in pkgutil.walk_packages(ops.__path__, "retrograd.ops."):
            importlib.import_module(info.name)
    return TABLE[name].forward


class CannotCompile(RuntimeError):  # noqa: N818 - reads as a statement
    """A function cannot be compiled, for example because it branches on values."""


class Compiled:
    """A compiled function.

    A call has the same effect as a call of the function. ``source`` is the program that ran last,
    as Python code.
    """

    quiet = False  # whether the library compiles the function, without being asked by the user

    def __init__(
        self, function: Callable[..., Any], fullgraph: bool, limit: int, backend: str = "numpy"
    ) -> None:
        copied = ("__dict__",) if isinstance(function, types.FunctionType) else ()
        functools.update_wrapper(self, function, updated=copied)  # the state of objects changes
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self.fullgraph = fullgraph
        self.limit = limit
        self.backend = backend
        self.entries: list[Entry] = []
        self.last: Entry | None = None
        self.eager_because: str | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        state = modes.frame.states[-1]
        if (
            self.eager_because is not None or state.levels or state.interceptors
            or state.saved_tensor_hooks or state.running is not None or state.observer is not None
        ):  # fmt: skip
            profiled = getattr(modes.observer, "compiled", None)
            if profiled is not None and self.eager_because is None:
                return profiled(self, args, named)  # which calls this again without the observer
            return self.function(*args, **named)
        last = self.last
        if last is not None:
            result = last.call(args, named)
            if result is not MISSED:
                return result
            for entry in self.entries:
                if entry is not last and (result := entry.call(args, named)) is not MISSED:
                    self.last = entry
                    return result
        with _tracing:
            return self._trace(args, named)

    def __reduce__(self) -> Any:  # a copy has its own programs
        return Compiled, (self.function, self.fullgraph, self.limit, self.backend)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @property
    def compiled_function(self) -> Any:
        """The original function."""
        return self.function

    @property
    def program(self) -> Program:
        """The program that was traced or run last."""
        if self.last is None:
            raise RuntimeError("there is no program yet: call the function first")
        return self.last.program

    @property
    def source(self) -> str:
        """The program as Python code."""
        return source(self.program)

    @property
    def cost(self) -> Cost:
        """Operations, bytes moved and memory of the program, compared with an eager call."""
        self.program
        assert self.last is not None
        return cost_of(self.last.program, self.last.traced)

    def save(self, path: Any) -> None:
        """Writes the program as a Python module. It needs only NumPy, unless the program calls
        kernels of this package, which it then imports."""
        from retrograd.compiler._saving import module_text

        text = module_text(self.program)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def __str__(self) -> str:
        return self.source if self.last is not None else f"<compiled {self.__name__}, not yet run>"

    # -- tracing -------------------------------------------------------------------------------

    def _trace(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        for entry in self.entries:  # another thread may have traced the function meanwhile
            if (result := entry.call(args, named)) is not MISSED:
                return result
        if len(self.entries) >= self.limit:
            self._give_up(
                f"it has been traced {self.limit} times, for other shapes, dtypes, Python values "
                "or state each time. Pass what changes as a Tensor of one shape.", None,
            )  # fmt: skip
            return self.function(*args, **named)
        seen = watch(self.function, args, named, self.quiet)
        if seen.problem is not None:
            self._give_up(seen.problem + ".", None)
            return self.function(*args, **named)
        names = names_for(seen, self.function)
        copies = HostCopies(seen.tensors)
        if copies.is_mixed:
            self._give_up("it can see tensors on two devices, and a program runs on one. Move "
                          "them to one device.", None)  # fmt: skip
            return self.function(*args, **named)
        trace: Trace | None = None
        try:
            copies.begin()
            on_numpy = self.backend == "numpy" and copies.device is None
            level = TraceLevel() if on_numpy else TraceLevel(False, xla.COMPOSITES)
            level.device = copies.device
            trace = Trace(self.function, seen, names, _identifier(self.__name__), level)
            with collector_paused():
                result = trace.run(args, named)
                entry = Entry(trace, self.backend, self.quiet)
                large = copies.device is not None and (
                    measured(entry.traced).bytes_moved > MOST_BYTES
                )  # fmt: skip
                if trace.recorded or (trace.reason is None and not large):
                    trace.verify(entry)
            copies.end(trace)
            self._settle_on(entry, trace)
            return entry.first_result(trace, result)
        except BaseException:
            try:
                copies.end(trace)
            finally:
                if trace is not None:
                    abandon(trace)
            raise

    def _settle_on(self, entry: Entry, trace: Trace) -> None:
        """Use a program from now on, unless there is a reason not to."""
        if self.quiet and trace.reason is None and has_effects(entry):
            trace.reason = ("it changes what it can see.", None)
        if trace.reason is not None:
            self._give_up(*trace.reason)
        else:
            self.last = entry
            self.entries.append(entry)

    def _give_up(self, reason: str, place: Any) -> None:
        """Run eagerly from now on, and warn; with ``fullgraph``, raise an error."""
        where = ""
        if place is not None and place[0] is not None:
            code, offset = place
            number = line_number(code, offset)
            text = linecache.getline(code.co_filename, number).strip()
            where = f"\n  {code.co_filename}:{number}" + (f": {text}" if text else "")
        message = f"compile: {self.__name__}() cannot be compiled: {reason}{where}"
        if self.fullgraph:
            raise CannotCompile(message)
        self.eager_because = message
        warnings.warn(
            f"{message}\nIt runs eagerly from now on.", UserWarning, stacklevel=depth_of_user()
        )


class Quiet(Compiled):
    """A function that is compiled only if that changes nothing but its speed. A function
    with side effects, or one that is called with new shapes or state again and again, runs eagerly,
    without a warning."""

    quiet = True

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, False, 2)

    def arrays(self, *args: Any) -> Any:
        """The raw arrays of the Tensors that the function returns. MISSED if the latest program
        does not fit the call."""
        state = modes.frame.states[-1]
        if (
            self.last is None or state.levels or state.interceptors or state.saved_tensor_hooks
            or state.running is not None or state.observer is not None
        ):  # fmt: skip
            return MISSED
        return self.last.arrays(args)

    def fits(self, *args: Any) -> bool:
        """Whether the latest program fits these arguments and the state visible to the function."""
        return self.last is not None and self.last.fits(args)

    def _trace(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if others_may_run():  # other threads might use tensors that hold traced values meanwhile
            return self.function(*args, **named)
        try:
            return super()._trace(args, named)
        except Exception as error:  # an error of the function itself is raised again
            self._give_up(str(error), None)
            return self.function(*args, **named)

    def _give_up(self, reason: str, place: Any) -> None:
        self.eager_because = reason
        self.entries.clear()
        self.last = None


def others_may_run() -> bool:
    """Whether the user has other threads. Those of notebooks do not count."""
    return any(
        thread is not threading.current_thread()
        and not thread.name.startswith(("retrograd", "IOPub"))
        and type(thread).__module__.split(".")[0] not in ("IPython", "ipykernel")
        for thread in threading.enumerate()
    )


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would search a growing program again and again and
    find no garbage. Settings that the user's function makes are kept."""
    threshold, *others = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        if gc.get_threshold()[0] == 0:
            gc.set_threshold(threshold, *others)


def names_for(seen: Watch, function: Any) -> list[str]:
    """Names for the tensors that a function can see: of its arguments, of variables, and of
    parameters by their path."""
    arguments = names_of_arguments(function) if any(seen.is_argument) else []
    taken: set[str] = set()
    results = []
    for path, is_argument, expression in zip(
        seen.names, seen.is_argument, seen.lines_of_tensors, strict=True
    ):
        wanted = path
        if is_argument and expression.startswith("args["):
            number = int(expression[5 : expression.index("]")])
            wanted = arguments[number] if number < len(arguments) else f"x{number}"
        wanted = _identifier(wanted.replace(".", "_").replace("[", "_").replace("]", "")) or "x"
        name, count = wanted, 1
        while name in taken or keyword.iskeyword(name) or name == "np":
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name)
        results.append(name)
    return results


def names_of_arguments(function: Any) -> list[str]:
    """The names of the arguments of a function, or of the ``forward`` of a module."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if not isinstance(function, (types.FunctionType, types.MethodType)):
        function = getattr(function, "forward", None)
    try:
        return [p.name for p in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []


def _identifier(name: str) -> str:
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"program{name}"


def compile(  # noqa: A001 - PyTorch's name
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str = "numpy", mode: str | None = None, options: Any = None, disable: bool = False,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Compiles a function to a straight-line program with the same results.

    The function is traced for each new combination of shapes, dtypes and Python values, and the
    program runs from then on. If a program would depend on the values of tensors, the function runs
    eagerly, with one warning.

    Args:
        model: The function or module. Without it, a decorator is returned.
        fullgraph: Whether a function that cannot be compiled is an error.
        dynamic: Accepted for compatibility; it has no effect.
        backend: ``"numpy"``, or ``"xla"``, which needs JAX (``pip install 'retrograd[xla]'``) and
            gives results equal to rounding. ``"inductor"`` and ``"eager"`` are accepted and mean
            ``"numpy"``.
        mode: Accepted for compatibility; it has no effect.
        options: Accepted for compatibility; it has no effect.
        disable: Whether to return the function as it is.
        name: Accepted for compatibility; it has no effect.

    Returns:
        The compiled function; for a module, a module with the same parameters.

    Example:
        >>> from retrograd.func import grad
        >>> slope = torch.compile(grad(lambda x: (x * x).sum()))
        >>> slope(torch.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """
    if model is None:
        return lambda f: compile(f, fullgraph=fullgraph, backend=backend, disable=disable)
    if disable:
        return model
    if backend not in ("numpy", "xla", "inductor", "eager"):
        raise RuntimeError(f"Invalid backend: {backend!r}, must be 'numpy' or 'xla'")
    if not callable(model):
        raise RuntimeError("compile() takes a function or a Module")
    if backend == "xla":
        xla.check_available()
    compiled = Compiled(model, fullgraph, MOST_PROGRAMS, "xla" if backend == "xla" else "numpy")
    nn = sys.modules.get("retrograd.nn.module")
    if nn is None or not isinstance(model, nn.Module):
        return compiled
    from retrograd.compiler._modules import OptimizedModule

    return OptimizedModule(compiled)
