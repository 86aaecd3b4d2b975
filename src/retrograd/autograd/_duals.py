"""Dual numbers: a value and its tangent.

The parts of a dual number are values of the levels below, so that whatever is done to compute a
tangent is itself recorded, batched or differentiated, if those levels do that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.arrays import dtypes
from retrograd.autograd._forward import call, push_forward
from retrograd.autograd._history import Positions, View, become_view, meta_of
from retrograd.autograd._levels import as_tensor, keep_up
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import wrap
from retrograd.ops import copies, linear
from retrograd.ops._lifted import (
    LazyTangent,
    Level,
    Lifted,
    bare_dtype_of,
    bare_option,
    descending,
    run_on_bare,
)
from retrograd.ops._operands import unrecorded
from retrograd.ops._operation import Operation, TensorLike, raw


class Dual(Lifted):
    """A value and its tangent; None is a tangent of zero.

    Tangents are shared freely, so they are not written: a value that is written gets one of its
    own first, which lies in memory as the value does. A view's is the same view of that.
    """

    __slots__ = ("_seen", "_tangent", "bare_dtype", "owned", "part", "primal", "view_of")

    bare_dtype: Any

    def __init__(self, level: Level, primal: Any, tangent: Any) -> None:
        self.level = level
        self.primal = primal
        self._tangent = tangent
        dtype = bare_dtype_of(primal)
        if tangent is not None and bare_dtype_of(tangent) is not dtype:
            dtype = None
        self.bare_dtype = dtype
        self.owned = False
        # For a view: the value that it is a view of, and how; and the tangent of that by which
        # its own was found.
        self.view_of: tuple[Dual, Callable[[Any], Any]] | None = None
        self._seen: Any = None
        # For a view that was there before its base was taken in: which part of the base it is.
        # What is taken of the base's tangent is a copy, then, and no view.
        self.part: Any = None

    @property
    def inner(self) -> Any:
        return self.primal

    @property
    def moves(self) -> bool:
        return (self._tangent if self.view_of is None else self.tangent) is not None

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.primal, self.tangent)

    def hold(self, as_tensor: Callable[[Any], Any]) -> None:
        self.primal = as_tensor(self.primal)
        self.bare_dtype = None

    def become_view(self, of: Dual, take: Callable[[Any], Any]) -> None:
        """Record the base of the view, and how to take the same view of a tangent."""
        self.view_of = (of, take)
        self.bare_dtype = None
        # A tangent that is written shows in its views, which the one at hand may not be.
        self._seen = _UNSEEN if of.view_chain[-1].owned else of.tangent

    @property
    def is_written(self) -> bool:
        """Whether its tangent is one that may be written."""
        return self.owned if self.view_of is None else self.view_chain[-1].owned

    @property
    def view_chain(self) -> list[Dual]:
        """The value, its base, the base of its base, and so on."""
        chain = [self]
        while chain[-1].view_of is not None:
            chain.append(chain[-1].view_of[0])
        return chain

    @property
    def tangent(self) -> Any:
        """The tangent, or None."""
        if self.view_of is None:
            if type(self._tangent) is LazyTangent:
                self._tangent = self._tangent.compute()
            return self._tangent
        for view in reversed(self.view_chain[:-1]):
            assert view.view_of is not None
            base, take = view.view_of
            if view._seen is not base._tangent or view.part is not None:
                view._seen = base._tangent
                view._tangent = None if base._tangent is None else take(base._tangent)
        return self._tangent

    def write_tangent(self, new: Any) -> None:
        """Write ``new`` as the tangent of the value, which is part of the tangent of its base."""
        chain = self.view_chain
        top = next((k for k, dual in enumerate(chain) if dual.part is not None), len(chain) - 1)
        source = chain[top]
        old = source.tangent
        if not source.owned or not levels_of(new) <= levels_of(old):
            source._tangent, source.owned = writable(source.primal, old, new), source.part is None
        result = source._tangent
        for view in reversed(chain[:top]):
            assert view.view_of is not None
            result = view.view_of[1](result)
        result.copy_(as_tensor(new))
        if source.part is not None:
            assert source.view_of is not None
            base, part = source.view_of[0], source.part
            whole = writable(base.primal, base.tangent, new)
            # The base may be a view in turn, of what it was before its shape was changed in place.
            base.write_tangent(part.elsewhere(whole) + part.back(source._tangent))

    def item(self) -> Any:
        """The one element as a number."""
        return as_tensor(self.primal).item()

    def tolist(self) -> Any:
        """The elements as nested lists of numbers."""
        return as_tensor(self.primal).tolist()

    def __array__(self, *given: Any, **named: Any) -> Any:
        return as_tensor(self.primal).detach().__array__(*given, **named)

    def detached(self) -> Lifted:
        """The value without its tangent."""
        return Dual(self.level, as_tensor(self.primal).detach(), None)

    def as_gradient(self, like: Any = None) -> Lifted:
        """The value and its tangent as an unrecorded pass gives them: without a history. What a
        transform computes may have one, which leads outside of it."""
        if not self.level.transparent or modes.running is not None:
            return self
        tangent = None if self.tangent is None else as_tensor(self.tangent).detach()
        return Dual(self.level, as_tensor(self.primal).detach(), tangent)

    def plus(self, g: Any) -> Any:
        return super().plus(g).as_gradient()

    def text(self, suffixes: str) -> str:
        primal = as_tensor(self.primal)
        if self.level.closed:
            return repr(primal)
        tangent = self.tangent
        shown = "" if tangent is None else f", tangent={as_tensor(tangent).detach()!r}"
        text = repr(primal)[:-1]
        return f"{text}{shown}{'' if text.endswith(suffixes) else suffixes})"


class DualLevel(Level):
    """The level of forward mode: every operation computes tangents, too."""

    __slots__ = ("in_inference",)

    name = "forward mode"
    differentiates = True

    def __init__(self) -> None:
        super().__init__()
        self.in_inference = modes.inference  # entered further in, inference mode stops tangents

    def run_on_parts(
        self, operation: Operation, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        given = args[0] if operation.inputs == ("tensors",) else args
        primals: list[Any] = []
        tangents: list[Any] = []
        written: list[Any] = []
        for x in given:
            if isinstance(x, Dual) and x.level is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                if x.is_written:
                    written.append(x.tangent)
            else:
                primals.append(self.primal_of(x))
                tangents.append(None)
        if options:
            options = {name: bare_option(self.primal_of(value)) for name, value in options.items()}
        # A view of a bare value has no memory that anybody else could write to.
        shares = operation.view and getattr(given[0], "bare_dtype", None) is None
        primals, tangents = self.in_kind(operation, primals, tangents, shares or bool(written))
        computed = call(operation, primals, options)
        outputs = list(computed) if isinstance(computed, (tuple, list)) else [computed]
        moved: Any = (None,) * len(outputs)
        if not self.stopped and operation.differentiable and any([t is not None for t in tangents]):
            moved = push_forward(operation, primals, tangents, options, outputs, not written)
            if written and not operation.view:
                moved = [_apart(t, written) for t in moved]
        results = tuple([
            Dual(self, y, t if raw(y).dtype.kind in dtypes.INEXACT else None)
            for y, t in zip(outputs, moved, strict=True)
        ])  # fmt: skip
        if shares and operation.differentiable and isinstance(given[0], Dual):
            for i, result in enumerate(results):
                result.become_view(given[0], taking(operation, options, i))
        return results if isinstance(computed, (tuple, list)) else results[0]

    def run_elementwise(
        self, operation: Operation, args: Sequence[Any], options: dict[str, Any]
    ) -> Lifted:
        primals: list[Any] = []
        tangents: list[Any] = []
        moves = False
        for x in args:
            if type(x) is Dual and x.level is self:
                primal, tangent = x.primal, x._tangent
                if isinstance(primal, TensorLike):
                    if not primal._is_plain:
                        return self._by_parts(operation, args, options)
                    primal = primal._data
                if tangent is not None:
                    moves = True
                    if isinstance(tangent, TensorLike):
                        if not tangent._is_plain:
                            return self._by_parts(operation, args, options)
                        tangent = tangent._data
                primals.append(primal)
                tangents.append(tangent)
            else:
                primals.append(x)
                tangents.append(None)
        y = run_on_bare(operation, primals, options)
        if not moves or not operation.differentiable or self.stopped:
            return Dual(self, y, None)
        (tangent,) = push_forward(operation, primals, tangents, options, (y,))
        return Dual(self, y, tangent)

    def _by_parts(self, operation: Operation, args: Sequence[Any], options: Any) -> Lifted:
        result: Lifted = self.run(operation, tuple(args), options)
        return result

    @property
    def stopped(self) -> bool:
        """Whether tangents stop here, because of inference mode."""
        return modes.frame.states[-1].inference and not self.in_inference

    def takes_whole(self, operation: Operation) -> bool:
        return operation.jvp is not None or operation.symmetric

    def looks_at_no_mode(self, operation: Operation) -> bool:
        return operation.tangent_by_family and not (operation.view or operation.random)

    def in_kind(
        self, operation: Operation, primals: list[Any], tangents: list[Any], shares: bool
    ) -> tuple[list[Any], list[Any]]:
        """Values and tangents for an operation to work on: bare, which is faster, or Tensors, where
        there is something to record, or memory to share, or a rule that may ask for Tensors."""
        if operation.tangent_on_bare and not (shares or modes.inference):
            result = unrecorded([*primals, *tangents], operation.converts)
            if result is not None:
                return result[: len(primals)], result[len(primals) :]
        return [_tensor_of(x) for x in primals], [_tensor_of(t) for t in tangents]

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x.primal, x.tangent is not None) if self.owns(x) else (x, False)

    def take_in(self, tensor: Any) -> None:
        take_in(self, tensor)

    def adopt(self, tensor: Any) -> None:
        base: Dual = tensor._meta.view.base._data
        inner, part = inner_view(tensor, base.primal)
        result = Dual(self, inner, None)
        result.become_view(base, part.take)
        result.part = part
        become_lifted_view(tensor, result, part)

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        if not moves:
            target.primal.detach().copy_(as_tensor(result.primal))
            return
        target.primal.copy_(as_tensor(result.primal))
        tangent = result.tangent
        if tangent is None:
            if target.tangent is None:
                return
            tangent = copies.zeros_like(target.tangent)
        target.write_tangent(tangent)

    def left_of(self, x: Any) -> Any:
        return as_tensor(x.primal)

    def constant(self, x: Any) -> Lifted:
        return Dual(self, x, None)

    def owns(self, x: Any) -> bool:
        return isinstance(x, Dual) and x.level is self

    def primal_of(self, x: Any) -> Any:
        """A value as the levels below know it."""
        if isinstance(x, tuple) and any(isinstance(part, Lifted) for part in x):
            return tuple(self.primal_of(part) for part in x)
        return x.primal if self.owns(x) else x

    def tangent_of(self, x: Any) -> Any:
        return x.tangent if self.owns(x) else None


def take_in(level: Any, tensor: Any) -> None:
    """As ``Level.take_in``, for levels whose values have a part that is written when they are."""
    view = tensor._meta.view if tensor._meta is not None else None
    if view is not None:
        if not level.owns(view.base._data):
            level.take_in(view.base)
        level.adopt(tensor)
        return
    inner = wrap(tensor._data, tensor._node, tensor._number, tensor._version_counter)
    if tensor.requires_grad and tensor._node is None:
        inner.requires_grad_()  # and writing it will be refused
    tensor._data = level.constant(inner)
    tensor._node = tensor._meta = tensor._version_counter = None


def inner_view(tensor: Any, base: Any) -> tuple[Any, Any]:
    """A view from outside as a view of ``base``, the value of what its base has become; and which
    part of it that is."""
    view = tensor._meta.view
    inner = wrap(tensor._data, tensor._node, tensor._number, tensor._version_counter)
    meta_of(inner).view = View(base, view.created, view.seen)
    inner._meta.view.part = view.part
    keep_up(inner)
    part = inner._meta.view.part
    if part is None:
        return inner, Positions(base, inner)
    part.check(view.base, tensor)
    return inner, part


def become_lifted_view(tensor: Any, value: Lifted, part: Any) -> None:
    """Make a view one of a level, like its base."""
    view = tensor._meta.view
    tensor._data, tensor._node, tensor._meta = value, None, None
    become_view(tensor, view.base, view.created)
    tensor._meta.view.part, tensor._meta.view.seen = part, -1  # its history is that of the base


_UNSEEN = object()


def _tensor_of(x: Any) -> Any:
    """A value as a Tensor; anything else, such as a number, as it is."""
    return wrap(x) if arrays.is_raw(x) or isinstance(x, Lifted) else x


def _apart(tangent: Any, written: list[Any]) -> Any:
    """A tangent, or a copy of it if it shares memory with one that may be written."""
    for other in written:
        if tangent is other or (
            isinstance(tangent, TensorLike)
            and isinstance(other, TensorLike)
            and version_of(tangent) is version_of(other)
        ):
            return copies.clone(tangent)
    return tangent


def writable(primal: Any, old: Any, new: Any) -> Any:
    """A tangent of a value, ``old`` or zeros, that ``new`` can be written into."""
    tangent = copies.zeros_like(as_tensor(primal))
    for x in [new] if old is None else [new, old]:  # for each entry of a batch, if one of them is
        zero = linear.sum_all(copies.zeros_like(x))
        # Complex if it was written through view_as_complex().
        if copies.is_complex(zero) and not copies.is_complex(tangent):
            zero = copies.real(zero)
        tangent = tangent + zero
    if old is not None:
        tangent.copy_(as_tensor(old))
    return tangent


def levels_of(x: Any) -> set[int]:
    """The levels that a value depends on the transforms of."""
    return {level.number for level, _, depends in descending(raw(x)) if depends}


def taking(op: Operation, options: dict[str, Any], i: int) -> Callable[[Any], Any]:
    def take(tangent: Any) -> Any:
        result = op(tangent, **options)
        return result[i] if isinstance(result, (tuple, list)) else result

    return take
