"""Guards: the state that a function can reach, and the check that it is unchanged.

A function can see the objects that its closure, its globals, its defaults and its ``self`` refer
to, and the objects that these refer to: modules with their parameters and buffers, optimizers with
their state and options, numbers, flags. ``Watch`` visits all of them once. It numbers the tensors,
and writes a guard function that runs before each later call. This visits the same objects and
compares Python values by value, objects by identity, and tensors by shape, dtype, layout and
``requires_grad``. It looks up the tensors again, so gradients and states that are new tensors in
each step are taken as they are now.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import switch
from retrograd._source import is_own
from retrograd.arrays._generator import Generator
from retrograd.autograd._wrap import SPARSE
from retrograd.compiler._changing import asked_for, computes_only, effect_in, is_hidden
from retrograd.compiler._guards import (
    Condition,
    accumulator_has_hooks,
    fits,
    function_of,
    merged,
    separate,
)
from retrograd.compiler._used_names import names_in
from retrograd.func._trees import Shape, is_nest
from retrograd.ops._lifted import device_value
from retrograd.tensor._tensor import Tensor

MOST_OBJECTS = 100_000
MOST_COMPARED = 100_000  # elements of an array that is compared before each call
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
DICTS = (dict, OrderedDict, defaultdict)
_FOREIGN = frozenset({"numpy", "scipy", "torch", "jax", "jaxlib", *sys.stdlib_module_names})
_EMPTY = types.CellType()
_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


class Held:
    """A container that was searched: its name in the guard function, and its contents.

    ``kind`` determines how entries are set: "items" (of a dict or a list), "set", "slots" (of an
    object), "cell" or "grad" (of a tensor, which is then the container).
    """

    __slots__ = ("container", "contents", "kind", "local")

    def __init__(self, kind: str, container: Any, contents: Any, local: str) -> None:
        self.kind = kind
        self.container = container
        self.contents = contents
        self.local = local


def watch(
    function: Any, args: tuple[Any, ...], named: dict[str, Any], strict: bool = False
) -> Watch:
    """The objects that a function can see. Only attributes that its code uses are searched, and
    which these are is known after all code that it can reach has been searched. ``strict``: code
    that may have effects, and objects that cannot be compared, are problems."""
    names: set[str] = set()
    while True:
        result = Watch(function, args, named, names, strict)
        if result._names <= names or result.problem is not None:
            return result
        names = names | result._names


class Watch:
    """The objects that a function can see when it is called with some arguments. ``known``: the
    names that its code uses, as far as known. Other attributes of users' objects are ignored."""

    def __init__(
        self, function: Any, args: tuple[Any, ...], named: dict[str, Any], known: set[str],
        strict: bool = False,
    ) -> None:  # fmt: skip
        self._known = known
        self._strict = strict
        self._by_name = not known & _ANY_NAME
        self.tensors: list[Any] = []
        self.names: list[str] = []  # of the tensors, according to their paths
        self.lines_of_tensors: list[str] = []  # the expressions that lead to them
        self.locals: list[str] = []  # the names of the tensors in the guard function
        self.is_argument: list[bool] = []
        self.held: list[Held] = []
        self.generators: list[Any] = []
        self.foreign_generators: list[Any] = []  # NumPy's
        self.problem: str | None = None
        self.lines: list[str] = []
        self.objects: dict[str, Any] = {"Tensor": Tensor}
        self._named: dict[int, str] = {}  # the names in ``objects``
        self._seen: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self.on_device: set[int] = set()  # numbers of tensors
        self._classes: set[type] = set()  # that were searched
        self._kept: list[Any] = []
        self._counted = 0
        self._to_visit: deque[tuple[Any, str, str, bool]] = deque()
        # The options of optimizers, by the id of their group. Each step reads numbers again.
        self.options: dict[int, dict[str, Any]] = {}
        self._sets_options = False  # whether the user's code can see such a group
        self._exact: dict[int, str] = {}  # lines that compare such numbers exactly
        self._names: set[str] = set()  # the names that the user's code uses
        self._visit(args, "args", "", True)
        self._visit(named, "named", "", True)
        self._go()
        self._visit(function, self._object(function), "", False)
        self._go()
        if "backward" in self._names and any(
            x._node is not None and x.requires_grad and argument
            for x, argument in zip(self.tensors, self.is_argument, strict=True)
        ):
            self.problem = "it calls backward(), and an argument was computed outside"

    def _go(self) -> None:
        while self._to_visit and self.problem is None:
            self._counted += 1
            if self._counted > MOST_OBJECTS:
                self.problem = "it can see too many objects to compare them at each call"
            self._look_at(*self._to_visit.popleft())

    def _visit(self, x: Any, expression: str, path: str, argument: bool) -> None:
        self._to_visit.append((x, expression, path, argument))

    def _object(self, x: Any) -> str:
        """A name for an object in the guard function."""
        name = self._named.setdefault(id(x), f"o{len(self.objects)}")
        self.objects[name] = x
        return name

    def _local(self, expression: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def _require(self, condition: str) -> None:
        self.lines.append(Condition(condition))

    # -- one value -----------------------------------------------------------------------------

    def _look_at(self, x: Any, expression: str, path: str, argument: bool) -> None:
        kind = type(x)
        if isinstance(x, Tensor) and kind not in SPARSE:  # a sparse tensor is an object
            self._look_at_tensor(x, expression, path, argument)
        elif kind in PLAIN:
            self._look_at_plain(x, expression)
        elif kind is Shape:
            self._require(f"{expression} is {self._object(x)}")
        elif kind in (list, tuple) or kind in DICTS or isinstance(x, tuple):
            self._look_at_container(x, expression, path, argument)
        elif isinstance(x, (set, frozenset)):
            self._look_at_set(x, expression, path)
        elif isinstance(x, (dict, list, deque)):
            self.problem = f"{path or 'the function'} refers to a {kind.__name__}"
        elif hasattr(kind, "_has_sparse_gradients") and x._has_sparse_gradients():
            self.problem = f"{path or 'the function'} is an embedding with sparse gradients"
        else:
            if expression not in self.objects:
                self._require(f"{expression} is {self._object(x)}")
            self._look_into(x, path)

    def _look_at_set(self, x: Any, expression: str, path: str) -> None:
        if not all(type(part) in PLAIN for part in x):
            self.problem = f"{path or 'the function'} refers to a set of objects"
        known = self._seen.get(id(x))
        if known is not None:
            self._require(f"{expression} is {known}")
            return
        local = self._seen[id(x)] = self._local(expression)
        self._kept.append(x)
        contents = type(x)(x)
        self._require(f"type({local}) is {self._object(type(x))}")
        self._require(f"{local} == {self._object(contents)}")
        if isinstance(x, set) and x is not switch.active:  # which tracing itself changes
            self.held.append(Held("set", x, contents, local))

    def local_of(self, x: Any) -> str | None:
        """The name of a container in the guard function; None if it was not searched."""
        local = self._seen.get(id(x), "?")
        is_container = is_nest(x) or isinstance(x, (set, frozenset))
        return local if is_container and local not in ("?", "args", "named") else None

    def _look_at_number_of_group(self, x: float, expression: str) -> None:
        """Guard a number of an optimizer: the program only depends on whether it is zero."""
        local = self._local(expression)
        self._exact[len(self.lines)] = Condition(f"{local} == {x!r}")
        self._require(f"type({local}) is float and bool({local}) is {bool(x)}")

    def _look_at_plain(self, x: Any, expression: str) -> None:
        kind = type(x)
        if x is None or kind is bool or x is Ellipsis:
            self._require(f"{expression} is {x!r}")
            return
        local = f"v{len(self.lines)}"
        same = f"{local} == {x!r}"
        if kind is complex or (kind is float and not (math.isfinite(x) and x)):
            # The sign of a zero matters, and NaN is not equal to itself.
            same = f"repr({local}) == {repr(x)!r}"
        self._require(f"type({local} := {expression}) is {kind.__name__} and {same}")

    def _look_at_tensor(self, x: Any, expression: str, path: str, argument: bool) -> None:
        known = self._numbers.get(id(x))
        if known is not None:
            self._require(f"{expression} is {self.locals[known]}")
            return
        number = self._numbers[id(x)] = len(self.tensors)
        local = f"v{len(self.lines)}"
        self.lines.append(f"{local} = {expression}; d{number} = {local}._data; "
                          f"m{number} = {local}._meta")  # fmt: skip
        self.tensors.append(x)
        self.names.append(path)
        self.lines_of_tensors.append(expression)
        self.locals.append(local)
        self.is_argument.append(argument)
        meta, data = x._meta, x._data
        if not arrays.is_raw(data) and device_value(data) is not data:
            self.problem = "a tensor that it can see belongs to a transform"
            return
        kind = "Tensor" if type(x) is Tensor else self._object(type(x))
        self._require(f"type({local}) is {kind}")
        attributes = vars(x)
        if argument and not attributes:
            self._require(f"not {local}.__dict__")
        for name in attributes.keys() & self._known if self._by_name else list(attributes):
            part = f"{local}.__dict__[{name!r}]"
            self._visit(attributes[name], part, f"{path}.{name}", argument)
        if arrays.is_raw(data):
            strides = f" and d{number}.strides == {data.strides}" if data.ndim else ""
            same = f"d{number}.dtype is {self._dtype(data.dtype)}"
            same += f" and d{number}.shape == {data.shape}{strides}"
        else:
            self.on_device.add(number)
            whole = None if data.steps else data.kind
            test = functools.partial(
                fits, whole, data.memory.device, data.dtype, data.shape, data.strides
            )
            same = f"{self._object(test)}(d{number})"
            if whole is not None:  # most are no views; this comparison is faster
                same = f"d{number}._kind is {self._object(whole)} or {same}"
        self._require(same)
        if meta is None:
            leaf = "is None" if x._node is None else "is not None"
            self._require(f"m{number} is None or not m{number}.requires_grad and "
                          f"m{number}.grad is None")  # fmt: skip
            self._require(f"{local}._node {leaf}")
            return
        if x._node is None and meta.requires_grad:
            self._require(f"{local}._node is None and m{number}.requires_grad and "
                          f"m{number}.inference is {meta.inference}")  # fmt: skip
        else:
            self._require(f"{local}.requires_grad is {x.requires_grad}")
            self._require(f"{local}.is_leaf is {x.is_leaf}")
            self._require(f"(m{number} is not None and m{number}.inference) is {meta.inference}")
        if x.is_leaf and (meta.requires_grad or meta.grad is not None):
            grad = f"m{number}.grad"
            self.held.append(Held("grad", x, meta.grad, local))
            self._visit(meta.grad, grad, f"{path}.grad", False)
        elif x.is_leaf:
            self._require(f"m{number} is None or m{number}.grad is None")
        if x.is_leaf and meta.requires_grad:
            self._look_at_accumulator(meta, f"m{number}", path)
        for hooks, attribute in ((meta.hooks, "hooks"), (meta.post_hooks, "post_hooks")):
            if hooks:
                self._visit(hooks, f"m{number}.{attribute}", f"{path}.{attribute}", False)

    def _look_at_accumulator(self, meta: Any, local: str, path: str) -> None:
        """Where the gradient of a leaf arrives: hooks may be registered there after the trace."""
        if not (meta.hooks or meta.post_hooks):
            self._require(f"not ({local}.hooks or {local}.post_hooks)")
        if accumulator_has_hooks(meta):
            self.problem = f"there are hooks of the node that accumulates the gradient of {path}"
        self.objects["hooked"] = accumulator_has_hooks
        self._require(f"{local}.accumulator is None or {local}.accumulator() is None or "
                      f"not hooked({local})")  # fmt: skip

    def _dtype(self, dtype: Any) -> str:
        name = f"dtype_{dtype.name}"
        self.objects[name] = dtype
        return name

    def _look_at_container(self, x: Any, expression: str, path: str, argument: bool) -> None:
        known = self._seen.get(id(x))
        if known is not None:
            self._require(f"{expression} is {known}")
            self._sets_options = self._sets_options or id(x) in self.options
            return
        local = expression if expression in ("args", "named") else self._local(expression)
        self._seen[id(x)] = local
        self._kept.append(x)
        kind = type(x)
        name = kind.__name__ if kind in (list, tuple, dict) else self._object(kind)
        self._require(f"type({local}) is {name} and len({local}) == {len(x)}")
        if kind in DICTS:
            self.held.append(Held("items", x, dict(x), local))
            loose = id(x) in self.options
            if len(x) > 1 and not loose and all(type(key) is str for key in x):
                self._require(f"[*{local}] == {list(x)}")
            for key, value in x.items():
                if loose and type(value) is float and math.isfinite(value):
                    self._look_at_number_of_group(value, f"{local}[{key!r}]")
                    continue
                text = repr(key) if type(key) in (str, int, bool) else self._object(key)
                part = f"{key}" if type(key) in (str, int) else ""
                self._visit(value, f"{local}[{text}]", _joined(path, part), argument)
        else:
            if kind is list:
                self.held.append(Held("items", x, list(x), local))
            for i, value in enumerate(x):
                part = f"{path}[{i}]" if path else "" if local == "args" else str(i)
                self._visit(value, f"{local}[{i}]", part, argument)

    # -- objects that are compared by identity --------------------------------------------------

    def _look_into(self, x: Any, path: str) -> None:
        if id(x) in self._seen:
            return
        self._seen[id(x)] = "?"
        self._kept.append(x)
        if self._strict and not computes_only(x):
            self.problem = f"it can see {path or 'something'}, which may do more than compute"
        elif isinstance(x, arrays.dtypes.dtype) or getattr(type(x), "never_changes", False):
            return
        elif isinstance(x, types.FunctionType):
            self._look_into_function(x, path)
        elif isinstance(x, types.MethodType):
            self._visit(x.__self__, f"{self._object(x)}.__self__", "", False)
            self._look_into(x.__func__, path)
        elif isinstance(x, functools.partial):
            name = self._object(x)
            self._visit(x.func, f"{name}.func", path, False)
            self._visit(x.args, f"{name}.args", path, False)
            self._visit(x.keywords, f"{name}.keywords", path, False)
        elif hasattr(type(x), "compiled_function"):  # its programs do not matter
            self._visit(x.compiled_function, f"{self._object(x)}.compiled_function", path, False)
        elif isinstance(x, Generator):
            self.generators.append(x)
        elif isinstance(x, arrays.ndarray):
            self._compare_array(x, path)
        elif isinstance(x, (type, types.ModuleType)):
            self._look_at_namespace(x, self._known, path)
        elif isinstance(x, _CACHED):
            self._visit(x.__wrapped__, f"{self._object(x)}.__wrapped__", path, False)
        elif isinstance(x, (types.CodeType, *_FUNCTIONS)):
            return
        elif is_hidden(x):
            self.problem = (
                f"it can see {path or 'an object'}, a {type(x).__name__}, whose contents cannot be "
                "compared with those in the next call. Pass the value as an argument"
            )
        elif isinstance(x, _GETTERS):
            self._names.add("getattr")
        elif hasattr(x, "__next__") and not hasattr(x, "__dict__"):
            self.problem = (
                f"{path or 'what it refers to'} is an iterator, which returns another value "
                "in each call. Pass the value as an argument"
            )
        elif arrays.programs.is_generator(x):
            self.foreign_generators.append(x)
        elif not _is_foreign(type(x)) or type(x).__module__ in _WITH_ATTRIBUTES:
            self._look_into_object(x, path)

    def _compare_array(self, x: Any, path: str) -> None:
        """Compare the elements of an array, because NumPy does not count writes."""
        if x.size > MOST_COMPARED or x.dtype.hasobject:
            self.problem = (
                f"it can see {path or 'a NumPy array'}, which cannot be compared with its contents "
                f"in the next call, as a NumPy array of more than {MOST_COMPARED:,} numbers or of "
                "objects. Pass it as a Tensor"
            )
        else:
            self.objects["same"] = arrays.programs.same
            self._require(f"same({self._object(x)}, {self._object(arrays.copy(x))})")

    def _look_into_object(self, x: Any, path: str) -> None:
        kind = type(x)
        steps_are_traced = getattr(kind, "steps_are_traced", False)
        if steps_are_traced and kind.__module__.split(".")[0] == "retrograd":
            self.options.update((id(group), dict(group)) for group in x.param_groups)
            self._kept.append(x.param_groups)
        shared = getattr(kind, "shared_hooks", None)  # of all modules, or of all optimizers
        if shared is not None and id(shared) not in self._seen:
            if any(shared):
                self._visit(shared, self._object(shared), "", False)
            else:
                self._seen[id(shared)] = "?"
                self._require(f"not any({self._object(shared)})")
        attributes = getattr(x, "__dict__", None)
        if kind.__module__.split(".")[0] != "retrograd":
            self._require(f"type({self._object(x)}) is {self._object(kind)}")
        if type(attributes) is dict:
            local = self._object(attributes)
            seen = attributes
            if self._by_name and _is_of_user(kind) and "collections" not in _homes(kind):
                seen = {k: v for k, v in attributes.items() if k in self._known or k[:1] == "_"
                        or k in ("training", "param_groups", "state", "defaults")}  # fmt: skip
                lacking = self._object(frozenset(self._known - attributes.keys()))
                self._require(f"{lacking}.isdisjoint({local})")
                self.held.append(
                    Held("attributes of", attributes, (dict(seen), self._known), local)
                )
            else:
                self._require(f"len({local}) == {len(attributes)}")
                self.held.append(Held("items", attributes, dict(attributes), local))
            for key, value in seen.items():
                at = path if key in ("_parameters", "_buffers", "_modules") else _joined(path, key)
                self._visit(value, f"{local}[{key!r}]", at, False)
        for kind in type(x).__mro__:
            slots = list(_slots(kind))
            if slots and kind.__module__.split(".")[0] != "retrograd":
                local = self._object(x)
                values = {slot: getattr(x, slot) for slot in slots if hasattr(x, slot)}
                self.held.append(Held("slots", x, (values, slots), local))
                for slot in slots:
                    if slot not in values:
                        self._require(f"not hasattr({local}, {slot!r})")
            for slot in slots:
                if hasattr(x, slot):
                    self._visit(getattr(x, slot), f"{self._object(x)}.{slot}",
                                _joined(path, slot), False)  # fmt: skip
            self._look_into_class(kind, path)

    def _look_into_class(self, kind: type, path: str) -> None:
        """Search the methods of a class, and its attributes that the user's code uses."""
        home = kind.__module__.split(".")[0]
        if home == "builtins" or home in _FOREIGN or kind in self._classes:
            return
        self._classes.add(kind)
        own, local = home == "retrograd", self._object(kind)
        if not own:
            self._require(f"len(vars({local})) == {len(vars(kind))}")
        for name, value in vars(kind).items():
            expression = f"vars({local})[{name!r}]"
            used = name in self._known
            function = _function_of(value)
            if isinstance(function, types.FunctionType):
                if not is_own(function.__code__.co_filename):
                    self._look_into(function, path)
                    if self._strict or used or name in ("forward", "__call__"):
                        self._require(f"{expression} is {self._object(value)}")
            elif (type(value) in PLAIN and not name.startswith("__")) or (
                used and not own and not isinstance(value, _SLOTS)
            ):  # fmt: skip
                self._visit(value, expression, path, False)

    def _look_into_function(self, f: types.FunctionType, path: str) -> None:
        module = (f.__globals__.get("__name__") or "").split(".")[0]
        own = is_own(f.__code__.co_filename)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            local = self._object(cell)
            try:
                contents = cell.cell_contents
            except ValueError:
                continue
            # Variables of this package's functions. Programs run only while no mode is on.
            if own and self._strict and (type(contents) in PLAIN or contents is switch.active):
                continue
            self.held.append(Held("cell", cell, contents, local))
            self._visit(contents, f"{local}.cell_contents", name, False)
        if f.__defaults__:
            self._visit(f.__defaults__, f"{self._object(f)}.__defaults__", f.__name__, False)
        if f.__kwdefaults__:
            self._visit(f.__kwdefaults__, f"{self._object(f)}.__kwdefaults__", f.__name__, False)
        if own or module in _FOREIGN:
            return
        local = self._object(f)  # reloading a module may replace the code of functions
        self._require(f"{local}.__code__ is {self._object(f.__code__)}")
        self._look_at_globals(f)
        used = {name: x for name, x in vars(f).items() if name in self._known}
        if used:
            local = self._local(f"vars({local})")
            self.held.append(Held("attributes of", vars(f), (used, used), local))
            for name, value in used.items():
                self._visit(value, f"{local}[{name!r}]", _joined(path, name), False)

    def _look_at_globals(self, f: types.FunctionType) -> None:
        namespace, local = f.__globals__, self._object(f.__globals__)
        used_names = names_in(f.__code__)
        names = used_names.all
        self._names.update(names)
        if self._strict and (effect := effect_in(used_names, namespace)) is not None:
            self.problem = f"it uses {effect}, which may do more than compute"
        for name in sorted(used_names.globals - namespace.keys()):
            if name in ("eval", "exec", "globals"):
                self.problem = f"it uses {name}(), which can access any variable"
            elif not hasattr(builtins, name):
                self._require(f"{name!r} not in {local}")
        used = {n: namespace[n] for n in names if n in namespace}
        cells = [c.cell_contents for c in f.__closure__ or () if c != _EMPTY]
        for value in (*used.values(), *cells, *[sys.modules.get(m) for m in used_names.imported]):
            self._look_for_changes(asked_for(value, used_names.attributes))
        self.held.append(Held("globals", namespace, (used, used_names.stored), local))
        for name, value in used.items():
            if isinstance(value, (types.ModuleType, type)):
                self._require(f"{local}[{name!r}] is {self._object(value)}")
                self._look_at_namespace(value, names, name)
            else:
                self._visit(value, f"{local}[{name!r}]", name, False)

    def _look_for_changes(self, asked: str | None) -> None:
        if asked is not None:
            self.problem = (
                f"it can call {asked}, which may return another value in each call. Call it "
                "outside, and pass the value as an argument"
            )

    def _look_at_namespace(self, x: Any, names: Collection[str], path: str) -> None:
        """Visit the attributes of a module or a class that the user's code uses."""
        home = x.__name__ if isinstance(x, types.ModuleType) else x.__module__
        if home.split(".")[0] in _FOREIGN or home.split(".")[0] == "retrograd":
            return
        attributes, local = vars(x), self._object(x)
        used = {n: attributes[n] for n in names if n in attributes}
        self.held.append(Held("attributes", x, used, local))
        if isinstance(x, type):
            for kind in x.__mro__:
                self._look_into_class(kind, path)
            return
        for name, value in used.items():
            if isinstance(value, types.ModuleType):
                self._require(f"{local}.{name} is {self._object(value)}")
                self._look_at_namespace(value, names, f"{path}.{name}")
            else:
                self._visit(value, f"{local}.{name}", f"{path}.{name}", False)

    # -- the guard function ----------------------------------------------------------------------

    def guarded(
        self, name: str, then: Sequence[str], written: list[int], overwritten: list[int],
        exact: bool, others: dict[str, Any],
    ) -> Callable[..., Any]:  # fmt: skip
        """A function of ``args`` and ``named`` that returns ``missed`` if anything has changed, and
        otherwise runs the lines ``then``. In these, ``self.locals`` are the names of the tensors,
        ``d0``, ``d1`` those of their arrays, and ``others`` are further names. ``written``: tensors
        that must not share memory with others. ``overwritten``: tensors whose arrays must be
        writable. ``exact``: numbers of optimizers must be equal, too."""
        lines = list(self.lines)
        if exact or self._sets_options or "param_groups" in self._names:
            for number, line in self._exact.items():
                lines[number] = line
        lines = merged(lines)
        if len(self.tensors) > 1:  # one tensor in two places has one gradient
            identities = f"len({{*map(id, ({', '.join(self.locals)}))}})"
            lines.append(f"if {identities} != {len(self.tensors)}: return missed")
        if written and len(self.tensors) > 1:
            lines.append(separate(len(self.tensors), self.on_device, written))
        lines += [f"d{i} = {self.locals[i]}._data = writable(d{i})" for i in overwritten]
        return function_of(name, lines, then, {**self.objects, **others})


_ANY_NAME = {"getattr", "setattr", "hasattr", "delattr", "vars", "__dict__", "__getattr__",
             "__getattribute__", "attrgetter", "asdict", "astuple", "format"}  # fmt: skip
_GETTERS = (operator.attrgetter, operator.methodcaller)
_CACHED = type(functools.lru_cache(str))
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_WITH_ATTRIBUTES = ("types", "argparse", "collections")  # classes here whose objects are searched


def _homes(kind: type) -> set[str]:
    """The modules that a class and its bases are from."""
    return {base.__module__ for base in kind.__mro__}


def _function_of(value: Any) -> Any:
    """The function that an attribute of a class calls, or the attribute itself."""
    if isinstance(value, (functools.cached_property, functools.partialmethod)):
        return value.func
    return getattr(value, "__func__", getattr(value, "fget", value))


def _is_of_user(kind: type) -> bool:
    """Whether only the user's code accesses public attributes of objects of a class."""
    return all(
        base is object
        or base.__module__.split(".")[0] != "retrograd"
        or base.__name__ in ("Module", "Callable_", "Stateful", "Tree")
        for base in kind.__mro__
    ) and kind.__module__.split(".")[0] != "retrograd"


def _joined(path: str, part: str) -> str:
    return f"{path}.{part}" if path and part else path or part


def _slots(kind: type) -> Iterator[str]:
    slots = vars(kind).get("__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if not name.startswith("__"):
            yield name


def _is_foreign(kind: type) -> bool:
    return kind.__module__.split(".")[0] in _FOREIGN
