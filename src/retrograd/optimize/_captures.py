"""Captured tensors: those that a function uses but does not take as arguments.

Derivatives of the result of a solver are taken with respect to whatever its functions use: their
arguments, and tensors that they refer to by a closure, an attribute or a global name. The second
kind is found by watching the operations of one call. To call the function with other values in
their place, operations are given these instead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retrograd._modes import modes, within
from retrograd.autograd._levels import value_of
from retrograd.autograd._node import orders
from retrograd.autograd._variables import VariableEnd
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.func._trees import flatten, unflatten
from retrograd.ops import linear
from retrograd.ops._batching import Batched
from retrograd.ops._lifted import Lifted, device_value, tracer
from retrograd.ops._operation import Operation, raw
from retrograd.tensor._calls import apply
from retrograd.tensor._tensor import Tensor
from retrograd.utils.checkpoint._interception import Interceptor


def is_live(x: Any) -> bool:
    """Whether something can be differentiated by, or belongs to a transform."""
    if not isinstance(x, Tensor):
        return False
    value = value_of(x)
    of_transform = isinstance(value, Lifted) and value.level.number  # not just on a device
    return bool(of_transform) or (modes.grad_enabled and x.requires_grad)


def tensors_in(*parts: Any) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    to_visit = list(parts)
    while to_visit:
        x = to_visit.pop()
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            to_visit += x
        elif isinstance(x, dict):
            to_visit += x.values()


class Observer(Interceptor):
    """Sees operations, writes in place and custom Functions alike."""

    def changes(self) -> dict[str, Any]:
        return {**super().changes(), "observer": self}

    def before(self, args: Any) -> Any:
        """The arguments that an operation is to be called with."""
        raise NotImplementedError

    def after(self, result: Any) -> None:
        """Is told what an operation returned."""

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        result = apply(op, self.before(tuple(args)), self.before(options), computed)
        self.after(result)
        return result

    def write(
        self, write_in_place: Callable[..., Any], op: Operation, operands: list[Any],
        options: dict[str, Any],
    ) -> Any:  # fmt: skip
        target, *others = operands
        with within(observer=None):
            result = write_in_place(op, [target, *self.before(others)], self.before(options))
        self.after(result)
        return result

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        with within(observer=None):
            result = function.apply(*self.before(args))
        self.after(result)
        return result

    def asked_for_grad(self, tensor: Any) -> None:
        """That has no part in what is computed."""

    def left(self, source: Any, result: Any) -> None:
        """Is told of a tensor without history, which no operation makes."""
        self.after(result)

    def number(self, source: Any, value: Any) -> Any:
        return value


class Watching(Observer):
    """Finds the tensors that a function uses, can be differentiated by, and were made outside."""

    def __init__(self, *given: Any) -> None:
        self.start = next(orders)  # nodes that are made from here on have lower numbers
        self.levels = modes.levels
        self.captured: dict[int, Tensor] = {}
        self._known = {id(x): x for x in tensors_in(*given)}  # given, or made inside

    def before(self, args: Any) -> Any:
        for x in tensors_in(args):
            if id(x) not in self._known and id(x) not in self.captured and self._is_captured(x):
                self.captured[id(x)] = x
        return args

    def after(self, result: Any) -> None:
        self._known.update({id(x): x for x in tensors_in(result)})

    def _is_captured(self, x: Tensor) -> bool:
        if not is_live(x):
            return False
        data, node, meta = x._data, x._node, x._meta
        if isinstance(data, Lifted):
            inside = data.level in modes.levels and data.level not in self.levels
            if inside:  # it is of a transform inside the function
                return False
        if node is not None:
            return node.order > self.start
        ending = meta.ending() if meta is not None and meta.ending is not None else None
        return not (isinstance(ending, VariableEnd) and ending.order < self.start)


class Replacing(Observer):
    """Gives operations other tensors in place of some."""

    def __init__(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        self._replaced = {id(old): new for old, new in pairs}

    def before(self, args: Any) -> Any:
        if not any(id(x) in self._replaced for x in tensors_in(args)):
            return args
        return self._with_others(args)

    def _with_others(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self._replaced.get(id(x), x)
        if type(x) in (list, tuple):
            return type(x)([self._with_others(part) for part in x])
        if type(x) is dict:
            return {key: self._with_others(part) for key, part in x.items()}
        return x


class Parameters:
    """What the result of a solver can be differentiated by: the tensors in a tree (arguments of its
    functions, bounds and so on), and those that the functions have captured. ``live`` are their
    values now; functions are called with any other values by ``call``."""

    def __init__(self, tree: Any) -> None:
        self._leaves, self._shape = flatten(tree)
        self._places = [i for i, x in enumerate(self._leaves) if is_live(x)]
        for i in self._places:
            # A function may also have captured what it is passed, which is another use of it.
            if type(self._leaves[i]) not in SPARSE:
                self._leaves[i] = self._leaves[i].view_as(self._leaves[i])
        self._captured: list[Tensor] = []
        self._recorded = modes.grad_enabled  # else nothing counts as captured

    def look_at(self, function: Callable[..., Any], *given: Any, plain: bool = False) -> Any:
        """Call a function of what is given and of the tree, and note what it has captured.
        ``plain``: with values in the tree that no transform or history is attached to."""
        leaves = [representative(x) for x in self._leaves] if plain else self._leaves
        tree = unflatten(leaves, self._shape)
        if not modes.levels and not modes.grad_enabled:
            return function(*given, tree)
        with Watching(given, leaves) as watching:
            result = function(*given, tree)
        known = {id(x) for x in self._captured}
        self._captured += [x for key, x in watching.captured.items() if key not in known]
        return result

    def check(self, function: Callable[..., Any], name: str, *given: Any) -> None:
        """RuntimeError if a function uses something that can be differentiated by, and that was
        overlooked: its value must be constant if what is given and the parameters are."""
        values = [representative(v) for v in self.live]
        found = self.call(function, values, *[representative(x) for x in given])
        if any(depends(x) for x in flatten(found)[0]):
            raise RuntimeError(
                f"{name}: the function uses a Tensor that requires grad, or belongs to a "
                "transform, and that could not be followed: it was not passed to the function, and "
                "goes into a transform inside of it. Pass it by args."
            )

    def plainly(self) -> within:
        """A context for calls with values that no transform or history is attached to. Recording
        is left on where there is nothing to record: most operations are faster then."""
        return within(levels=(), grad_enabled=modes.grad_enabled and not self._captured)

    @property
    def live(self) -> list[Tensor]:
        return [self._leaves[i] for i in self._places] + self._captured

    def call(self, function: Callable[..., Any], values: Sequence[Tensor], *given: Any) -> Any:
        """A function of what is given and of the tree, at other values of this and of the tensors
        that the function has captured."""
        if not values:
            return function(*given, unflatten(self._leaves, self._shape))
        count = len(self._places)
        leaves = list(self._leaves)
        for i, value in zip(self._places, values[:count], strict=True):
            leaves[i] = value
        tree = unflatten(leaves, self._shape)
        pairs = list(zip(self._captured, values[count:], strict=True))
        same = all(old._data is new._data for old, new in pairs)
        if not pairs or (same and not modes.grad_enabled and not modes.interceptors):
            return function(*given, tree)  # as it is, which is faster
        with Replacing(pairs):
            return function(*given, tree)

    @property
    def key(self) -> Any:
        """What ``of_values`` depends on besides the function, as a key; None if that cannot be
        said, as with tensors that have no derivatives, which are constants of a solve."""
        leaves = tuple([None if i in self._places else x for i, x in enumerate(self._leaves)])
        if not all(x is None or type(x) in (bool, int, float, str) for x in leaves):
            return None
        captured = tuple(map(id, self._captured))  # which what is kept refers to
        return repr(leaves), self._shape, tuple(self._places), captured, self._recorded

    def of_values(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of what is given and of the tree, as a function of what is given first and of
        the values after it. It refers to no tensor that has a value among these, so that it can be
        traced."""
        bare = copy.copy(self)
        bare._leaves = list(self._leaves)
        for i in self._places:
            bare._leaves[i] = None
        count = len(self.live)

        def called(*args: Any) -> Any:
            given = len(args) - count
            return bare.call(function, args[given:], *args[:given])

        return called


def depends(x: Any) -> bool:
    """Whether something is more than a constant of the transforms that are open."""
    if not is_live(x):
        return False
    data = value_of(x)
    while isinstance(data, Lifted):
        if data.moves or (isinstance(data, Batched) and not data.same):
            return True
        data = raw(data.inner)
    return bool(x.requires_grad)


def representative(x: Any) -> Any:
    """A value without history and without transforms: of a batch, that of the first entry."""
    return wrap(_plain(value_of(x))) if isinstance(x, Tensor) else x


def outside(name: str, solve: Callable[..., Tensor], *values: Any) -> Tensor:
    """The result of a solver outside this library, given values without history. A traced program
    cannot contain such a solver; it records that the values were read."""
    level = tracer()
    if level is None or not any(isinstance(raw(x), Lifted) for x in values):
        return solve(*[x.detach() if isinstance(x, Tensor) else x for x in values]).detach()
    level.look(f"{name}()")
    solution = solve(*[representative(x) for x in values])
    return wrap(level.made(raw(solution)))  # type: ignore[no-any-return]


def _plain(data: Any) -> Any:
    if not isinstance(data, Lifted) or data is device_value(data):
        return data
    inner = _plain(raw(data.inner))
    if not isinstance(data, Batched) or data.same:
        return inner
    return raw(linear.select(inner, dim=0, index=0)) if isinstance(inner, Lifted) else inner[0]
