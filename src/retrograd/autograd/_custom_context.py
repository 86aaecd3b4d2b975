"""The context of a custom operation: the node of the graph, and what its methods see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from retrograd import arrays
from retrograd._modes import modes, recording_in, sealed
from retrograd._source import user_place
from retrograd.autograd._node import FREED, SECOND_BACKWARD, Node, orders
from retrograd.autograd._operation_node import fit
from retrograd.autograd._saved import Packed, maker_of, modified_error
from retrograd.autograd._versions import UNCHANGING
from retrograd.autograd._wrap import Plug, wrap

if TYPE_CHECKING:
    from retrograd.autograd.function import Function

CLEARED: Any = object()  # stands where saved values were that are given out only once


class FunctionCtx(Node):
    """The context of a custom Function, which passes data from ``forward`` to ``backward``.

    It is also the node of the graph. Any attribute may be set on it.

    Example:
        >>> class Scale(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         ctx.factor = factor
        ...         return x * factor
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * ctx.factor, None
        >>> x = torch.ones(2, requires_grad=True)
        >>> Scale.apply(x, 3.0).sum().backward(); x.grad
        tensor([3., 3.])
    """

    __slots__ = ("__dict__",)

    function: ClassVar[type[Function]]
    _base: ClassVar[type[Function]]  # Function itself, whose module imports this one
    user_context: ClassVar[type[UserContext]]
    makes_zeros = True

    def __init__(self) -> None:
        self.order = next(orders)
        self.next_nodes = ()
        self.saved = None
        self.extras = None
        self.code, self.lasti = user_place(3)
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        self.dirty_tensors: tuple[Any, ...] = ()
        self.dirty_places: tuple[int, ...] = ()  # of the tensors given, those that were written
        self.non_differentiable: tuple[Any, ...] = ()
        self.to_save: tuple[Any, ...] | None = None
        self.saved_for_forward: tuple[Any, ...] = ()
        self.in_jvp = False
        self.unrecorded = False  # whether a pass is running backward that is not to be recorded
        self.output_infos: tuple[Any, ...] = ()  # shape and dtype of each
        self.outputs: tuple[Any, ...] | None = None  # the same where there are several
        self.input_infos: tuple[Any, ...] = ()
        self.is_tensor: tuple[bool, ...] = ()
        self.own: dict[str, Any] = {}  # attributes that the user has set: see UserContext

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__.get("own")
        if own is None or name not in own:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return own[name]

    if TYPE_CHECKING:  # users set attributes of their own

        def __setattr__(self, name: str, value: Any) -> None: ...

    # -- what forward calls ------------------------------------------------------------------

    def save_for_backward(self, *tensors: Any) -> None:
        """Saves tensors for ``backward``, which finds them in ``ctx.saved_tensors``.

        Args:
            tensors: inputs, outputs or other tensors, or None.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Saves tensors for ``jvp``, which finds them in ``ctx.saved_tensors``.

        Args:
            tensors: inputs, outputs or other tensors, or None.
        """
        if any(t is not None and not isinstance(t, Plug.tensor) for t in tensors):
            raise AssertionError(
                "save_for_forward expects all arguments to be tensors; you should save non-tensors "
                "as attributes on ctx."
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Declares the inputs that ``forward`` writes in place. They must be returned as outputs.

        Args:
            args: the inputs.
        """
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Declares the outputs that have no gradient.

        Args:
            args: the outputs.
        """
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Sets what ``backward`` receives for an output that nothing depends on.

        Args:
            value: True for zeros (the default), False for None.
        """
        self.materialize_grads = bool(value)

    # -- saved tensors -----------------------------------------------------------------------

    @contextmanager
    def as_in_jvp(self) -> Iterator[None]:
        """A context manager in which ``saved_tensors`` are those of ``save_for_forward``."""
        self.in_jvp = True
        try:
            yield
        finally:
            self.in_jvp = False

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given, at its place in the graph."""
        if self.in_jvp:
            return self.saved_for_forward
        if self.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        if self.saved is CLEARED:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True "
                "is set on the autograd.Function. Either access saved_tensors only once, or set "
                "clear_saved_tensors_on_access=False."
            )
        result = tuple(self._unpack(*entry) for entry in self.saved or ())
        if self.function.clear_saved_tensors_on_access:
            self.saved = CLEARED
        if self.unrecorded:
            return tuple(x if x is None else wrap(x._data) for x in result)
        return result

    def _unpack(
        self, value: Any, version: Any, count: int, number: int | None, origin: Any
    ) -> Any:
        if isinstance(value, Packed):
            value = value.tensor()
            if origin is not None and origin[0] is not None:  # where it stood in the graph
                return wrap(value._data, *origin)
        elif value is not None and version.count != count:
            maker = self if number is not None and number >= 0 else value._node
            output = (number or 0) if maker is self else value._number or 0
            raise modified_error(
                self, value._data, version, count, maker_of(maker, output) if maker else None
            )
        if number is None or value is None:
            return value
        attached = wrap(value._data, None, None, version if version is not UNCHANGING else None)
        if number >= 0:  # an output of ours that has a gradient
            attached._node, attached._number = self, number if self.outputs is not None else None
        return attached

    # -- running backward --------------------------------------------------------------------

    def apply(self, *grads: Any) -> Any:
        """Calls the user's ``backward``.

        Args:
            grads: the gradient of each output.

        Returns:
            What it returns.
        """
        rule, ctx = self.rule(), self.user_context(self)
        return rule(ctx, list(grads)) if self.function.boxed_grads_call else rule(ctx, *grads)

    def rule(self) -> Callable[..., Any]:
        """The user's ``backward``, or ``vjp``, which is another name of it."""
        function = self.function
        if function.vjp is self._base.vjp:
            return function.backward
        if function.backward is not self._base.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        return function.vjp

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        several = self.outputs is not None
        grads = [x if x is None else wrap(x) for x in (g if several else [g])]
        visited = self.extras is not None and self.extras.needs_visit
        if several and self.function.boxed_grads_call and not visited:
            g.clear()  # so that what backward takes out of its list is free
        received = self._call_backward(grads, next_nodes, False)
        return [x if x is None else x._data for x in received]

    def backward_recorded(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        grads = list(g) if self.outputs is not None else [g]
        return self._call_backward(grads, next_nodes, True)

    def _call_backward(
        self, grads: list[Any], next_nodes: Sequence[Node | None], recorded: bool
    ) -> Sequence[Any]:
        rule = self.rule()
        if self.materialize_grads:
            self._fill_with_zeros(grads)
        boxed, needs = self.function.boxed_grads_call, self.needs_input_grad
        nodes = iter(next_nodes)
        self.needs_input_grad = tuple(t and next(nodes) is not None for t in self.is_tensor)
        try:
            with sealed(grad_enabled=recording_in(recorded)):
                self.unrecorded = modes.grad_enabled and not recorded
                ctx = self.user_context(self)
                received = rule(ctx, grads) if boxed else rule(ctx, *grads)
        finally:
            self.needs_input_grad = needs
            self.unrecorded = False
        return self._checked(received)

    def _fill_with_zeros(self, grads: list[Any]) -> None:
        for i, (shape, dtype) in enumerate(self.output_infos):
            if grads[i] is None and dtype is not None:
                grads[i] = wrap(arrays.zeros(shape, dtype))

    def _checked(self, received: Any) -> Sequence[Any]:
        """One gradient for each tensor among the inputs, of its shape and dtype."""
        values = list(received) if isinstance(received, tuple) else [received]
        expected = len(self.is_tensor)
        if len(values) > expected and all(v is None for v in values[expected:]):
            values = values[:expected]
        if len(values) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(values)})"
            )
        checked = []
        for i, (value, is_tensor, info) in enumerate(
            zip(values, self.is_tensor, self.input_infos, strict=True)
        ):
            if value is not None and not isinstance(value, Plug.tensor):
                raise RuntimeError(f"expected Variable or None (got {type(value).__name__})")
            if not is_tensor:
                if value is not None:
                    raise RuntimeError(
                        f"function {self.name()} returned a gradient different than None at "
                        f"position {i + 1}, but the corresponding forward input was not a Variable"
                    )
                continue
            checked.append(value if value is None else self._fitted(i, value, info))
        return checked

    def _fitted(self, i: int, value: Any, info: Any) -> Any:
        shape, dtype = info
        own = tuple(value.shape)
        if own != shape:
            grown = (1,) * (len(own) - len(shape)) + shape
            expandable = len(own) >= len(shape) and all(
                a in (1, b) for a, b in zip(grown, own, strict=True)
            )
            if not expandable:
                raise RuntimeError(
                    f"Function {self.name()} returned an invalid gradient at index {i} - got "
                    f"{list(own)} but expected shape compatible with {list(shape)}"
                )
        return fit(value, shape, dtype)

    def release(self) -> None:
        if self.saved is not None:
            self.saved = FREED


class UserContext:
    """The node as the methods of a Function see it. Attributes that they set are theirs alone,
    whatever attributes the node has: ``ctx.order = 2`` is not the order of the node. They are kept
    by the node, for the next method; this object is not, since it refers to the node."""

    __slots__ = ("__dict__", "__node", "__weakref__")

    # What users may set instead of calling a method.
    NOTED = frozenset({"dirty_tensors", "materialize_grads", "needs_input_grad",
                       "non_differentiable", "saved_for_forward", "to_save"})  # fmt: skip

    def __init__(self, node: FunctionCtx) -> None:
        object.__setattr__(self, "_UserContext__node", node)
        object.__setattr__(self, "__dict__", node.own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__node, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in UserContext.NOTED:
            setattr(self.__node, name, value)
        else:
            self.__dict__[name] = value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.__node)

    def __repr__(self) -> str:
        return repr(self.__node)
