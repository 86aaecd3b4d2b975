"""Custom operations: a forward and a backward of the user's own, as one node of the graph.

``Function.apply`` runs ``forward`` unrecorded and, if an input requires grad, leaves a node whose
backward is the user's. The node itself is the ``ctx`` that both receive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from retrograd import arrays
from retrograd._modes import modes, recording_in, set_modes
from retrograd._source import user_place
from retrograd.autograd._history import View, edge, fit, forbidden_write, meta_of, rebase
from retrograd.autograd._node import FREED, SECOND_BACKWARD, Node, orders
from retrograd.autograd._operation_node import Packed, modified_error, pack_value
from retrograd.autograd._versions import UNCHANGING, Version, version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.ops._lifted import Lifted


class FunctionCtx(Node):
    """What a custom operation's ``forward`` tells its ``backward``, and the node between them."""

    __slots__ = ("__dict__",)

    function: ClassVar[type[Function]]
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
        self.non_differentiable: tuple[Any, ...] = ()
        self.to_save: tuple[Any, ...] | None = None
        self.saved_for_forward: tuple[Any, ...] = ()
        self.in_jvp = False
        self.unrecorded = False  # whether a pass is running backward that is not to be recorded
        self.output_infos: tuple[Any, ...] = ()  # shape and dtype of each
        self.outputs: tuple[Any, ...] | None = None  # the same where there are several
        self.input_infos: tuple[Any, ...] = ()
        self.is_tensor: tuple[bool, ...] = ()

    # -- what forward calls ------------------------------------------------------------------

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (inputs, outputs or others) for ``backward``, as ``ctx.saved_tensors``."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Plug.tensor):
                raise TypeError(
                    "save_for_backward can only save variables, but argument "
                    f"{i} is of type {type(t).__name__}"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for ``jvp``."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs ``forward`` has changed in place. They must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for outputs nothing depends on."""
        self.materialize_grads = bool(value)

    # -- saved tensors -----------------------------------------------------------------------

    @contextmanager
    def as_in_jvp(self) -> Iterator[None]:
        """Within it, ``saved_tensors`` are what ``save_for_forward`` was given."""
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
        found = tuple(self._unpack(*entry) for entry in self.saved or ())
        if self.unrecorded:
            return tuple(x if x is None else wrap(x._data) for x in found)
        return found

    def _unpack(
        self, value: Any, version: Any, count: int, number: int | None, origin: Any
    ) -> Any:
        if isinstance(value, Packed):
            value = value.tensor()
            if origin is not None and origin[0] is not None:  # where it stood in the graph
                return wrap(value._data, *origin)
        elif value is not None and version.count != count:
            raise modified_error(self, value._data, version, count)
        if number is None or value is None:
            return value
        attached = wrap(value._data, None, None, version if version is not UNCHANGING else None)
        if number >= 0:  # an output of ours that has a gradient
            attached._node, attached._number = self, number if self.outputs is not None else None
        return attached

    # -- running backward --------------------------------------------------------------------

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        grads = list(g) if self.outputs is not None else [g]
        received = self._call_backward(
            [x if x is None else wrap(x) for x in grads], next_nodes, False
        )
        return [x if x is None else x._data for x in received]

    def backward_recorded(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        grads = list(g) if self.outputs is not None else [g]
        return self._call_backward(grads, next_nodes, True)

    def _call_backward(
        self, grads: list[Any], next_nodes: Sequence[Node | None], recorded: bool
    ) -> Sequence[Any]:
        if self.saved is FREED:
            raise RuntimeError(SECOND_BACKWARD)
        function = type(self).function
        rule = function.vjp if function.vjp is not Function.vjp else function.backward
        if self.materialize_grads:
            grads = self._with_zeros(grads)
        needs = self.needs_input_grad
        nodes = iter(next_nodes)
        self.needs_input_grad = tuple(t and next(nodes) is not None for t in self.is_tensor)
        before = set_modes(grad_enabled=recording_in(recorded))
        self.unrecorded = modes.grad_enabled and not recorded
        try:
            received = rule(self, *grads)
        finally:
            set_modes(**before)
            self.needs_input_grad = needs
            self.unrecorded = False
        return self._checked(received)

    def _with_zeros(self, grads: list[Any]) -> list[Any]:
        return [
            wrap(arrays.zeros(*info)) if g is None and info[1] is not None else g
            for g, info in zip(grads, self.output_infos, strict=True)
        ]

    def _checked(self, received: Any) -> Sequence[Any]:
        """One gradient for each tensor among the inputs, of its shape and dtype."""
        values = list(received) if isinstance(received, (tuple, list)) else [received]
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
                        f"function {self.name()} returned a gradient different from None at "
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


class _FunctionMeta(type):
    """Gives every Function subclass its own class of nodes, named ``<Function>Backward``."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        members = {"function": cls, "__doc__": f"The node of {name}."}
        cls._backward_cls = type(f"{name}Backward", (FunctionCtx,), members)


class Function(metaclass=_FunctionMeta):
    """Base class of custom operations.

    >>> import retrograd as torch
    >>> class Exp(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = torch.zeros(2, requires_grad=True)
    >>> Exp.apply(x).sum().backward(); x.grad
    tensor([1., 1.])
    """

    _backward_cls: ClassVar[type[FunctionCtx]]
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation itself: ``forward(ctx, *inputs)``, or ``forward(*inputs)`` together with
        ``setup_context``."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what ``backward`` needs, where ``forward`` takes no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """One gradient for each input of ``forward``, from those of its outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The operation on batches."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the operation on inputs, and record it if one of them requires grad."""
        if kwargs:
            args = _as_positional(cls, args, kwargs)
        if modes.observer is not None:
            return modes.observer.custom(cls, args)
        if modes.levels:
            return _under_transforms(cls, args)
        output, ctx = run_below(cls, args)
        ctx.saved_for_forward = ()  # which no jvp will ask for
        return output


def run_under_transforms(
    cls: type[Function], args: tuple[Any, ...]
) -> tuple[Any, FunctionCtx]:
    """Run the operation as the innermost transform that its inputs belong to says, if any. Also
    gives its node."""
    from retrograd.autograd import _custom_transforms as transforms  # loaded with the first of them

    level = transforms.level_of(args)
    if level is None:
        return run_below(cls, args)
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            "jacrev, ...), it must override the setup_context staticmethod. For more details, "
            "please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    args = transforms.lifted(level, args)
    return run_below(cls, args, lambda: transforms.run(level, cls, args))


def _under_transforms(cls: type[Function], args: tuple[Any, ...]) -> Any:
    from retrograd.autograd import _custom_transforms as transforms

    level = transforms.level_of(args)
    if level is not None:
        args = transforms.lifted(level, args)
        if not (modes.grad_enabled and any(getattr(a, "requires_grad", False) for a in args)):
            return transforms.run(level, cls, args)
    output, ctx = run_under_transforms(cls, args)
    ctx.saved_for_forward = ()  # which no jvp will ask for
    return output


def run_below(
    cls: type[Function], args: tuple[Any, ...], forward: Callable[[], Any] | None = None
) -> tuple[Any, FunctionCtx]:
    """Run the operation, and record it if an input requires grad. Also gives its node.

    ``forward``: what computes its output, where that is not simply its forward."""
    ctx = cls._backward_cls()
    ctx.is_tensor = tuple(isinstance(a, Plug.tensor) for a in args)
    ctx.needs_input_grad = tuple(
        t and a.requires_grad for t, a in zip(ctx.is_tensor, args, strict=True)
    )
    tensors = [a for a, t in zip(args, ctx.is_tensor, strict=True) if t]
    recorded = modes.grad_enabled and any(ctx.needs_input_grad)
    output = _run_forward(cls, ctx, args, forward)
    outputs = output if isinstance(output, tuple) else (output,)
    if recorded:
        for dirty in ctx.dirty_tensors:
            _check_dirty(dirty)
        _connect(ctx, args, tensors)
    results = _finish(ctx, tensors, outputs, recorded)
    if recorded:
        _save(ctx, tensors, outputs, results)
    ctx.to_save = None
    ctx.dirty_tensors = ctx.non_differentiable = ()
    return (results if isinstance(output, tuple) else results[0]), ctx


def _as_positional(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Keyword arguments in the order of ``forward``'s parameters."""
    import inspect

    separate = cls.setup_context is not Function.setup_context
    signature = inspect.signature(cls.forward)
    bound = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    bound.apply_defaults()
    return bound.args if separate else bound.args[1:]


def _run_forward(
    cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...],
    forward: Callable[[], Any] | None,
) -> Any:  # fmt: skip
    computed = forward() if forward is not None else None
    before = set_modes(grad_enabled=False)
    try:
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        output = computed if forward is not None else cls.forward(*args)
        cls.setup_context(ctx, args, output)
        return output
    finally:
        set_modes(**before)


def _connect(ctx: FunctionCtx, args: tuple[Any, ...], tensors: list[Any]) -> None:
    edges = [edge(t) for t in tensors]
    ctx.order = next(orders)  # after the edges: a node is newer than those its inputs came from
    ctx.next_nodes = tuple(node for node, _ in edges)
    if any(number is not None for _, number in edges):
        ctx.more().next_numbers = tuple(number for _, number in edges)
    ctx.input_infos = tuple(
        (a._data.shape, a._data.dtype) if t else None
        for a, t in zip(args, ctx.is_tensor, strict=True)
    )


def _finish(ctx: FunctionCtx, tensors: list[Any], outputs: tuple[Any, ...], recorded: bool) -> Any:
    """The outputs as results of the node; inputs returned as they were become views of them."""
    for dirty in ctx.dirty_tensors:
        if not any(dirty is o for o in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
    several = len(outputs) > 1
    if recorded:
        infos = [
            (o._data.shape, o._data.dtype) if isinstance(o, Plug.tensor) else ((), None)
            for o in outputs
        ]
        ctx.output_infos = tuple(infos)
        ctx.outputs = ctx.output_infos if several else None
    return tuple(
        _one_output(ctx, o, tensors, i if several else None, recorded)
        for i, o in enumerate(outputs)
    )


def _one_output(
    ctx: FunctionCtx, output: Any, tensors: list[Any], number: int | None, recorded: bool
) -> Any:
    if not isinstance(output, Plug.tensor):
        return output
    if any(output is d for d in ctx.dirty_tensors):
        return _dirty_output(ctx, output, recorded)
    differentiable = arrays.dtypes.has_derivative(output._data.dtype) and not any(
        output is n for n in ctx.non_differentiable
    )
    if any(output is t for t in tensors):  # returned as is: a view of it, with our own backward
        data = output._data = arrays.writable(output._data)
        view = wrap(data, version=version_of(output))
        meta_of(view).view = View(_base_of(output), "custom", view._version_counter.count)
        output = view
    if recorded and differentiable:
        output._node, output._number = ctx, number
        if output._meta is not None and output._meta.view is not None:
            output._meta.view.created = "custom"
    return output


def _base_of(tensor: Any) -> Any:
    return tensor if tensor._base is None else tensor._base


def _check_dirty(tensor: Any) -> None:
    view = tensor._meta.view if tensor._meta is not None else None
    if view is not None and view.created != "plainly":
        raise forbidden_write(tensor, view, directly=True)
    if tensor.requires_grad and tensor.is_leaf:
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation."
        )


def _dirty_output(ctx: FunctionCtx, output: Any, recorded: bool) -> Any:
    version_of(output).bump()
    if recorded and arrays.dtypes.has_derivative(output._data.dtype):
        rebase(output, ctx)
    return output


def _save(ctx: FunctionCtx, tensors: list[Any], outputs: tuple[Any, ...], results: Any) -> None:
    """Keep what ``save_for_backward`` was given. Outputs are kept as bare arrays, so that the node
    does not refer to what refers to it."""
    if ctx.to_save is None:
        return
    hooks = modes.saved_tensor_hooks[-1] if modes.saved_tensor_hooks else None
    entries: list[tuple[Any, Version, int, int | None, Any]] = []
    for t in ctx.to_save:
        if t is None:
            entries.append((None, UNCHANGING, 0, None, None))
            continue
        number = next((i for i, o in enumerate(outputs) if o is t), None)
        if number is not None and not any(t is x for x in tensors):
            result = results[number]
            version, kept = version_of(result), wrap(t._data)
            number = number if result._node is ctx else -1
        else:
            version, kept, number = version_of(t), t, None
        if hooks is None:
            entries.append((kept, version, version.count, number, None))
        else:
            origin = edge(t) if number is None else None
            entries.append((pack_value(kept, *hooks), UNCHANGING, 0, number, origin))
    ctx.saved = tuple(entries)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``backward`` that is not differentiable itself: it runs unrecorded, and
    differentiating what it returned is an error instead of a wrong result."""

    @functools.wraps(function)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        if modes.levels and any(map(_is_differentiated, (*grads, *ctx.saved_tensors))):
            raise RuntimeError(_ONCE)
        before = set_modes(grad_enabled=False)
        try:
            outputs = function(ctx, *grads)
        finally:
            set_modes(**before)
        if not modes.grad_enabled or not any(
            isinstance(g, Plug.tensor) and g.requires_grad for g in grads
        ):
            return outputs
        many = outputs if isinstance(outputs, tuple) else (outputs,)
        failing = _Error([g for g in grads if isinstance(g, Plug.tensor)])
        failing.careful()
        blocked = []
        for output in many:
            if isinstance(output, Plug.tensor):
                output = wrap(output._data, failing)
            blocked.append(output)
        return tuple(blocked) if isinstance(outputs, tuple) else blocked[0]

    return wrapped


_ONCE = "trying to differentiate twice a function that was marked with @once_differentiable"


def _is_differentiated(x: Any) -> bool:
    """Whether a value under transforms moves with something, or its parts have a history."""
    data = getattr(x, "_data", None)
    while isinstance(data, Lifted):
        part, depends = data.level.below(data)
        if (depends and data.level.differentiates) or getattr(part, "requires_grad", False):
            return True
        data = getattr(part, "_data", part)
    return False


class _Error(Node):
    """The node of a gradient that must not be differentiated again."""

    __slots__ = ()

    def __init__(self, grads: list[Any]) -> None:
        edges = [edge(g) for g in grads]  # it lies between them and whatever asks for more
        self.order = next(orders)
        self.next_nodes = tuple(node for node, _ in edges)
        self.saved = None
        self.extras = None
        if any(number is not None for _, number in edges):
            self.more().next_numbers = tuple(number for _, number in edges)
        self.code, self.lasti = user_place(3)

    def backward(self, g: Any, next_nodes: Sequence[Node | None]) -> Sequence[Any]:
        raise RuntimeError(_ONCE)

    backward_recorded = backward


_Error.__name__ = "Error"


class InplaceFunction(Function):
    """A Function that may work in place; kept for programs that derive from it."""


__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
