"""Custom operations: a forward and a backward of the user's own, as one node of the graph.

``Function.apply`` runs ``forward`` unrecorded and, if an input requires grad, leaves a node whose
backward is the user's. The node itself is the ``ctx`` that both receive.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from retrograd import arrays
from retrograd._modes import modes, recording_in, sealed, within
from retrograd._source import user_place
from retrograd.autograd import _custom_results as custom_results
from retrograd.autograd._history import edge
from retrograd.autograd._node import FREED, SECOND_BACKWARD, Node, orders
from retrograd.autograd._once_differentiable import once_differentiable
from retrograd.autograd._operation_node import fit
from retrograd.autograd._saved import Packed, maker_of, modified_error
from retrograd.autograd._versions import UNCHANGING
from retrograd.autograd._wrap import Plug, wrap

CLEARED: Any = object()  # stands where saved values were that are given out only once


class FunctionCtx(Node):
    """The context of a custom Function: what ``forward`` passes on to ``backward``.

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
        """A context manager in which ``saved_tensors`` are those of ``save_for_forward``.

        Returns:
            The context manager.
        """
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
        """The user's ``backward``, or ``vjp``, which is another name of it.

        Returns:
            The function.
        """
        function = self.function
        if function.vjp is Function.vjp:
            return function.backward
        if function.backward is not Function.backward:
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


class _FunctionMeta(type):
    """Gives every Function subclass its own class of nodes, named ``<Function>Backward``."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        seen = type(f"{name}Backward", (UserContext,), {"__slots__": ()})
        members = {"function": cls, "user_context": seen, "__doc__": f"The node of {name}."}
        cls._backward_cls = type(f"{name}Backward", (FunctionCtx,), members)


class Function(metaclass=_FunctionMeta):
    """The base class of custom operations.

    A subclass defines static methods: ``forward(ctx, *inputs)``, or ``forward(*inputs)`` together
    with ``setup_context``; ``backward``; and, if it is to be used under transforms, ``jvp`` and
    ``vmap``. It is called by ``apply``, never instantiated.

    Args:
        args: not used.
        kwargs: not used.

    Example:
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
    # Whether backward gets its gradients as one list, from which it can take them to free memory.
    boxed_grads_call = False
    # Whether ``ctx.saved_tensors`` may be read but once, and keeps nothing after that.
    clear_saved_tensors_on_access = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the operation: ``forward(ctx, *inputs)``, or ``forward(*inputs)`` together with
        ``setup_context``.

        Args:
            args: the context, unless there is a ``setup_context``, and the inputs.
            kwargs: not used.

        Returns:
            A tensor, or a tuple of tensors and other values.
        """
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves what ``backward`` needs, if ``forward`` takes no context.

        Args:
            ctx: the context.
            inputs: a tuple of the inputs of ``forward``.
            output: the result of ``forward``.

        Returns:
            None.
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **_: Any) -> Any:
        """Computes the gradients of the inputs from those of the outputs.

        Args:
            ctx: the context.
            grad_outputs: the gradient of each output.

        Returns:
            A gradient, or None, for each input of ``forward``; a tuple if there are several.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **_: Any) -> Any:
        """Computes the tangents of the outputs from those of the inputs, for forward mode.

        Args:
            ctx: the context.
            grad_inputs: the tangent of each input, or None.

        Returns:
            The tangent of each output; a tuple if there are several.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        """Computes the operation on batches. ``generate_vmap_rule = True`` makes it unnecessary.

        Args:
            info: has the attributes ``batch_size`` and ``randomness``.
            in_dims: the batch dimension of each input, or None.
            args: the inputs.

        Returns:
            The outputs, and the batch dimension of each.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs the operation, and records it if one of the inputs requires grad.

        Args:
            args: the inputs of ``forward``.
            kwargs: inputs of ``forward`` by name.

        Returns:
            The result of ``forward``.
        """
        args = _with_defaults(cls, args, kwargs)
        if modes.observer is not None:
            return modes.observer.custom(cls, args)
        if modes.levels:
            return _under_transforms(cls, args)
        output, ctx = run_below(cls, args)
        ctx.saved_for_forward = ()  # which no jvp will ask for
        return output


NEEDS_SETUP_CONTEXT = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
    "...), it must override the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)


def run_under_transforms(
    cls: type[Function], args: tuple[Any, ...]
) -> tuple[Any, FunctionCtx]:
    """Run the operation as the innermost transform that its inputs belong to says, if any. Also
    gives its node."""
    from retrograd.autograd import _custom_transforms as transforms  # loaded with the first of them

    level = transforms.level_of(args)
    if level is None or level.traces:  # a program is made of what its parts do
        return run_below(cls, args)
    if cls.setup_context is Function.setup_context:
        if level.transparent:  # dual numbers made by hand, which PyTorch takes here, too
            lifted = transforms.lifted(level, args)
            return run_below(
                cls, lifted, lambda ctx: transforms.run_with_context(level, cls, ctx, lifted)
            )
        raise RuntimeError(NEEDS_SETUP_CONTEXT)
    args = transforms.lifted(level, args)
    return run_below(cls, args, lambda ctx: transforms.run(level, cls, args))


def _under_transforms(cls: type[Function], args: tuple[Any, ...]) -> Any:
    from retrograd.autograd import _custom_transforms as transforms

    level = transforms.level_of(args)
    if level is not None and not level.traces:
        args = transforms.lifted(level, args)
        if not (modes.records and any(getattr(a, "requires_grad", False) for a in args)):
            return transforms.run(level, cls, args)
    output, ctx = run_under_transforms(cls, args)
    ctx.saved_for_forward = ()  # which no jvp will ask for
    return output


def run_below(
    cls: type[Function], args: tuple[Any, ...],
    forward: Callable[[FunctionCtx], Any] | None = None,
) -> tuple[Any, FunctionCtx]:  # fmt: skip
    """Run the operation, and record it if an input requires grad. Also gives its node.

    ``forward``: what computes its output, where that is not simply its forward."""
    ctx = cls._backward_cls()
    ctx.is_tensor = tuple(isinstance(a, Plug.tensor) for a in args)
    ctx.needs_input_grad = tuple(
        t and a.requires_grad for t, a in zip(ctx.is_tensor, args, strict=True)
    )
    tensors = [a for a, t in zip(args, ctx.is_tensor, strict=True) if t]
    recorded = modes.records and any(ctx.needs_input_grad)
    edges = [edge(t) for t in tensors] if recorded else ()  # as they are before forward writes
    try:
        output = _run_forward(cls, ctx, args, forward)
        outputs = output if isinstance(output, tuple) else (output,)
        marks = custom_results.Marks.take(ctx)
        if recorded:
            custom_results.connect(ctx, args, edges)
        results = custom_results.finish(ctx, marks, tensors, outputs, recorded)
        if recorded:
            custom_results.save(ctx, marks, tensors, outputs, results)
    except BaseException:
        ctx.saved_for_forward = ()  # which may be outputs, and those refer to the ctx
        raise
    return (results if isinstance(output, tuple) else results[0]), ctx


def _with_defaults(
    cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """All arguments in the order of ``forward``'s parameters, with its defaults for those that are
    not given. A forward that takes the ctx gets its own defaults when it is called."""
    separate = cls.setup_context is not Function.setup_context
    if not kwargs and (not separate or len(args) >= _count_of_parameters(cls.forward)):
        return args
    import inspect

    signature = inspect.signature(cls.forward)
    bound = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    bound.apply_defaults()
    for name in bound.kwargs:
        raise TypeError(
            f"forward() got an unexpected keyword argument '{name}'. The arguments of an "
            "autograd.Function are given to it by position, so none can be keyword-only."
        )
    return bound.args if separate else bound.args[1:]


def _count_of_parameters(forward: Callable[..., Any]) -> float:
    """With how many arguments, given by position, a function needs none of its defaults."""
    code = getattr(forward, "__code__", None)
    if code is None or hasattr(forward, "__wrapped__") or code.co_kwonlyargcount:
        return math.inf
    return int(code.co_argcount)


def _run_forward(
    cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...],
    forward: Callable[[FunctionCtx], Any] | None,
) -> Any:  # fmt: skip
    output = forward(ctx) if forward is not None else None
    with within(grad_enabled=False):
        if cls.setup_context is Function.setup_context:
            return output if forward is not None else cls.forward(ctx.user_context(ctx), *args)
        if forward is None:
            output = cls.forward(*args)
        cls.setup_context(ctx.user_context(ctx), args, output)
        return output


class InplaceFunction(Function):
    """The same as ``Function``; kept for programs that derive from it.

    Args:
        args: not used.
        kwargs: not used.

    Example:
        >>> issubclass(torch.autograd.function.InplaceFunction, torch.autograd.Function)
        True
    """


__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
