"""``checkpoint``, in its two forms.

The form to use, ``use_reentrant=False``, records the graph as always, but with holders in place of
saved values (see ``_frames``). The older one records a single node, whose backward runs the
function again, recorded this time, and starts a backward pass of its own through that.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Self

from retrograd._modes import modes
from retrograd.autograd._backward import backward
from retrograd.autograd._wrap import Plug
from retrograd.autograd.function import Function
from retrograd.autograd.grad_mode import ModeContext, enable_grad, no_grad
from retrograd.autograd.graph import saved_tensors_hooks
from retrograd.tensor._rng import fork_rng, get_rng_state, set_rng_state
from retrograd.utils.checkpoint._debug import Debugging
from retrograd.utils.checkpoint._frames import Frame

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def noop_context_fn() -> Contexts:
    """Two context managers that do nothing: the default ``context_fn`` of ``checkpoint``.

    Returns:
        A pair of context managers.

    Example:
        >>> from retrograd.utils.checkpoint import noop_context_fn
        >>> first_run, second_run = noop_context_fn()
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn, determinism_check: str = "default",
    debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Calls a function without storing its saved values; the backward pass runs it again.

    This takes less memory and more time. The function must compute the same both times; its state
    is its own responsibility. A value that is written in place between the two runs is an error.

    Args:
        function: the function.
        args: its arguments.
        use_reentrant: False is the form to use: it works with every kind of backward pass, takes
            keyword arguments and may be nested. True works only with ``backward()`` without
            ``inputs`` and without ``create_graph``.
        context_fn: returns two context managers, one for each run: see
            ``create_selective_checkpoint_contexts``.
        determinism_check: "default" compares the number, shapes and dtypes of saved values in the
            two runs; "none" compares their number only.
        debug: record the operations of both runs, and show them if the runs differ.
        early_stop: end the second run as soon as everything needed is saved.
        preserve_rng_state: draw the same random numbers in both runs.
        kwargs: keyword arguments of the function.

    Returns:
        The result of the function.

    Example:
        >>> from retrograd.utils.checkpoint import checkpoint
        >>> def layer(x, w):
        ...     return torch.tanh(x @ w)
        >>> w = torch.eye(2, requires_grad=True)
        >>> y = checkpoint(layer, torch.ones(1, 2), w, use_reentrant=False)
        >>> y.sum().backward()  # runs layer again
        >>> w.grad
        tensor([[0.4200, 0.4200],
                [0.4200, 0.4200]])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
            "exception. use_reentrant=False is recommended, but if you need to preserve the "
            "current default behavior, you can pass use_reentrant=True. Refer to docs for more "
            "details on the differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        call = _Call(function, args, kwargs, preserve_rng_state)
        return _recorded(call, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


# -- settings of a thread --------------------------------------------------------------------


class set_checkpoint_early_stop(ModeContext):  # noqa: N801 - PyTorch's name
    """A context manager that overrides ``early_stop`` of the checkpoints whose forward runs in it.

    Args:
        enable: the value to use.

    Example:
        >>> from retrograd.utils.checkpoint import checkpoint, set_checkpoint_early_stop
        >>> def sine(x):
        ...     y = x.sin()
        ...     print("to the end")
        ...     return y
        >>> x = torch.ones(1, requires_grad=True)
        >>> with set_checkpoint_early_stop(False):
        ...     y = checkpoint(sine, x, use_reentrant=False)
        to the end
        >>> y.backward()  # by default, the second run stops after x.sin()
        to the end
    """

    def __init__(self, enable: bool) -> None:
        self.enable = enable

    def changes(self) -> dict[str, Any]:
        return {"checkpoint_early_stop": self.enable}

    def clone(self) -> Self:
        return type(self)(self.enable)


class set_checkpoint_debug_enabled(ModeContext):  # noqa: N801
    """A context manager that overrides ``debug`` of the checkpoints in it.

    Args:
        enabled: the value to use; None does not override.

    Example:
        >>> from retrograd.utils.checkpoint import set_checkpoint_debug_enabled
        >>> with set_checkpoint_debug_enabled(True):
        ...     pass  # errors of checkpoints created here list the operations that ran
    """

    def __init__(self, enabled: bool | None) -> None:
        self.enabled = enabled

    def changes(self) -> dict[str, Any]:
        return {"checkpoint_debug": self.enabled}

    def clone(self) -> Self:
        return type(self)(self.enabled)


# -- use_reentrant=False ---------------------------------------------------------------------


class _Call:
    """A function and what it is called with, to be run a second time as it was run the first."""

    __slots__ = ("args", "context", "function", "kwargs", "rng_state")

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, preserve_rng_state: bool
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.rng_state = get_rng_state() if preserve_rng_state else None
        self.context: AbstractContextManager[Any] = contextlib.nullcontext()

    def again(self, *inputs: Any) -> None:
        with restored_rng(self.rng_state), self.context:
            self.function(*inputs, **self.kwargs)


@contextlib.contextmanager
def restored_rng(state: Any) -> Iterator[None]:
    """A context in which the generator continues from ``state``; its own state is restored
    afterwards. None does nothing."""
    with fork_rng(enabled=state is not None):
        if state is not None:
            set_rng_state(state)
        yield


def _metadata(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


_CHECKS: dict[str, Callable[[Any], Any]] = {"default": _metadata, "none": lambda tensor: None}


def _recorded(
    call: _Call, context_fn: Callable[[], Contexts], determinism_check: str, debug: bool,
    early_stop: bool,
) -> Any:  # fmt: skip
    explain = None
    if debug if modes.checkpoint_debug is None else modes.checkpoint_debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        debugging = Debugging()
        context_fn, explain = debugging.contexts, debugging.explain
    if determinism_check not in _CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}"
        )
    forward_context, call.context = context_fn()
    function, args, kwargs = call.function, call.args, call.kwargs
    if not modes.grad_enabled:
        return function(*args, **kwargs)
    stop = early_stop if modes.checkpoint_early_stop is None else modes.checkpoint_early_stop
    frame = Frame(call.again, args, stop, _CHECKS[determinism_check], explain)
    call.args = ()  # the frame has them, and its own way to keep them
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
        frame.complete = True
    if not frame.complete:
        raise RuntimeError(
            "torch.utils.checkpoint: the forward context provided by context_fn suppressed an "
            "exception raised during the checkpointed forward. This is not supported because "
            "checkpoint cannot return a value for a failed forward."
        )
    return result


# -- use_reentrant=True ----------------------------------------------------------------------


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detaches the tensors among some inputs from the graph, as leaves that require grad if they
    did.

    Args:
        inputs: a tuple of tensors and other values.

    Returns:
        A tuple of the detached tensors and the other values.

    Example:
        >>> from retrograd.utils.checkpoint import detach_variable
        >>> x = torch.ones(1, requires_grad=True) * 2
        >>> detach_variable((x, "another value"))
        (tensor([2.], requires_grad=True), 'another value')
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Plug.tensor) else x
        for x in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no tensor among some inputs requires grad.

    Args:
        inputs: tensors and other values.

    Example:
        >>> from retrograd.utils.checkpoint import check_backward_validity
        >>> check_backward_validity([torch.ones(1, requires_grad=True)])
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, Plug.tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class CheckpointFunction(Function):
    """The custom Function of a checkpoint with ``use_reentrant=True``.

    Args:
        args: not used.
        kwargs: not used.

    Example:
        >>> x = torch.ones(1, requires_grad=True)
        >>> y = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True)
        >>> y.grad_fn.name()
        'CheckpointFunctionBackward'
    """

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = get_rng_state() if preserve_rng_state else None
        # Tensors are saved as a node saves them; the rest is kept with gaps for them.
        ctx.others = [None if isinstance(x, Plug.tensor) else x for x in args]
        ctx.positions = [i for i, x in enumerate(args) if isinstance(x, Plug.tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Runs the function again, and computes the gradients of its inputs.

        Args:
            ctx: the context.
            grads: the gradient of each output.

        Returns:
            A gradient, or None, for each input.
        """
        _check_pass()
        inputs = list(ctx.others)
        for i, tensor in zip(ctx.positions, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        with restored_rng(ctx.rng_state), enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, Plug.tensor) else outputs
        pairs = [
            (output, g)
            for output, g in zip(outputs, grads, strict=True)
            if isinstance(output, Plug.tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([output for output, _ in pairs], [g for _, g in pairs])
        gradients = [x.grad if isinstance(x, Plug.tensor) else None for x in detached]
        return None, None, *gradients


def _check_pass() -> None:
    """Refuse the backward passes that would come out wrong."""
    if any(task.needed is not None for task in modes.tasks):
        raise RuntimeError(
            "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
            "passing an `inputs` parameter to .backward(). To resolve this error, you can either "
            "set use_reentrant=False, or call .backward() without passing the `inputs` argument."
        )
    if modes.tasks[-1].recorded:
        raise RuntimeError(
            "When use_reentrant=True, torch.utils.checkpoint is incompatible with "
            "create_graph=True: the gradients would lack their dependence on the inputs. To "
            "resolve this error, set use_reentrant=False."
        )
