"""``grad`` and ``vjp``: gradients and vector-Jacobian products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._backward import differentiate
from retrograd.autograd._backward import grad as autograd_grad
from retrograd.autograd._levels import raised, value_of
from retrograd.autograd._node import orders
from retrograd.autograd._roots import make_roots
from retrograd.autograd._variables import Variables
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import wrap
from retrograd.func._arguments import (
    Argnums,
    Given,
    as_tensor,
    check_outputs,
    check_tensor,
    chosen,
    has_arrays,
    replaced,
    takes_arrays,
    with_aux,
)
from retrograd.func._captured import Running
from retrograd.func._trees import describe, flatten, flatten_as, tree_map, unflatten
from retrograd.ops import linear
from retrograd.ops._operation import raw
from retrograd.tensor._tensor import Tensor


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """Transforms a function into one that computes its gradient, by reverse mode.

    Args:
        func: a function that returns a tensor of one element.
        argnums: index of the argument to differentiate with respect to, or a tuple of indices. The
            argument may be a tensor, or nested tuples, lists and dictionaries of tensors. Arrays
            are taken as well, and their gradients are arrays.
        has_aux: whether ``func`` returns a pair of the value and other results, which are passed
            on.

    Returns:
        A function of the same arguments. It returns the gradient, nested as the argument; a tuple
        of gradients if ``argnums`` is a tuple; and with ``has_aux`` a pair of that and the other
        results.

    Example:
        >>> from retrograd.func import grad
        >>> grad(torch.sin)(torch.tensor(0.0))
        tensor(1.)
        >>> grad(grad(torch.sin))(torch.tensor(0.5))
        tensor(-0.4794)
        >>> loss = lambda w, x: (w["a"] * x + w["b"]).square().sum()
        >>> grad(loss)({"a": torch.tensor(1.0), "b": torch.tensor(2.0)}, torch.tensor([3.0, 4.0]))
        {'a': tensor(78.), 'b': tensor(22.)}
    """

    @wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        gradients, _, aux = _gradient_and_value(func, argnums, has_aux, args, kwargs)
        return (gradients, aux) if has_aux else gradients

    return takes_arrays(gradient, argnums, has_aux)


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """Transforms a function into one that computes its gradient and its value.

    Args:
        func: a function that returns a tensor of one element.
        argnums: index or indices of the arguments to differentiate with respect to: see ``grad``.
        has_aux: whether ``func`` returns a pair of the value and other results, which are passed
            on.

    Returns:
        A function that returns ``(gradient, value)``; with ``has_aux``, ``(gradient, (value,
        aux))``.

    Example:
        >>> from retrograd.func import grad_and_value
        >>> grad_and_value(lambda x: x**2)(torch.tensor(3.0))
        (tensor(6.), tensor(9.))
    """

    @wraps(func)
    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        gradients, value, aux = _gradient_and_value(func, argnums, has_aux, args, kwargs)
        return gradients, (value, aux) if has_aux else value

    return takes_arrays(gradient_and_value, argnums, True)


def _gradient_and_value(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:  # fmt: skip
    what = "grad_and_value(f)(*args)"
    recording = Recording(func, chosen(args, argnums), args, kwargs)
    with recording.running:
        output = func(*replaced(args, argnums, recording.tree), **kwargs)
    output, aux = with_aux(output, has_aux, what)
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{what}: Expected f(*args) to return a Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"{what}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} "
            "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    gradients = recording.gradient(output)
    value, aux = recording.cut(output), recording.cut(aux) if has_aux else None
    recording.close()
    return gradients, value, aux


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Computes a function and returns its vector-Jacobian product as a function.

    Args:
        func: a function of tensors, or of nested tuples, lists and dictionaries of tensors.
        primals: the arguments of ``func``.
        has_aux: whether ``func`` returns a pair of results and other values, which are passed on.

    Returns:
        The results, and a function that takes one tensor for each result, nested as the results
        are, and returns a tuple with a gradient for each argument. It can be called any number of
        times, and mapped by ``vmap``. With ``has_aux``, the other values come third.

    Example:
        >>> from retrograd.func import vjp
        >>> y, pull_back = vjp(torch.exp, torch.tensor([0.0, 1.0]))
        >>> pull_back(torch.tensor([1.0, 2.0]))
        (tensor([1.0000, 5.4366]),)
    """
    if has_arrays(primals):
        return _vjp_of_arrays(func, Given(primals), has_aux)
    recording = Recording(func, primals, primals)
    with recording.running:
        output = func(*recording.tree)
    return recording.with_pull_back(output, has_aux)


def _vjp_of_arrays(func: Callable[..., Any], given: Given, has_aux: bool) -> Any:
    value, pull_back, *aux = vjp(func, *given.tree, has_aux=has_aux)

    def pull_back_arrays(cotangents: Any, **named: Any) -> Any:
        return given.derivatives(pull_back(tree_map(as_tensor, cotangents), **named))

    return (given.values(value), pull_back_arrays, *given.values(aux))


# -- what all of them share ------------------------------------------------------------------


class Recording:
    """The variables that replace values while a function of them is recorded.

    A value that has a history of its own gets a variable that continues it: what is computed here
    can then be differentiated from outside, by another transform or by ``backward``.
    """

    def __init__(
        self, func: Callable[..., Any] | None, values: Any, *given: Any,
        scope: Variables | None = None,
    ) -> None:  # fmt: skip
        # The context for the function to run in; made first, as are the variables for it.
        self.running = Running(func, given, grad_enabled=True, inference=False)
        self.recorded_outside = modes.grad_enabled and not modes.inference
        self.scope = Variables() if scope is None else scope
        leaves, self.shape = flatten(values)
        self.variables = [self._variable(x) for x in leaves]
        self.tree = unflatten(self.variables, self.shape)

    def _variable(self, x: Any) -> Any:
        check_tensor(x)
        x = raised(x)
        if x.requires_grad and self.recorded_outside:
            return linear.alias(x)
        return self.scope.make(x)

    def has_outer_history(self, output: Any) -> bool:
        """Whether a result is recorded outside, too: what it was computed from is more than the
        variables, or goes on behind them."""
        return self.recorded_outside and self.scope.leads_elsewhere(output)

    def close(self) -> None:
        """Nothing more is computed with the variables, except by ``pull``."""
        self.scope.close()

    def gradient(self, output: Any) -> Any:
        """The gradients of a number with respect to the values, in their tree. The graph is not
        needed any more afterwards."""
        if not output.requires_grad or modes.levels or self.scope.leads_elsewhere(output):
            return self.pull([output], [None], retain_graph=False)
        # Nobody else knows the variables: what a backward pass adds to their ``.grad`` is ours.
        differentiate(make_roots((output,), (None,), recorded=False), False, False)
        grads = [v._meta.grad for v in self.variables]
        pairs = zip(self.variables, grads, strict=True)
        return unflatten([zeros_for(v) if g is None else g for v, g in pairs], self.shape)

    def pull(
        self, outputs: Sequence[Any], given: Sequence[Any], *, retain_graph: bool = True,
        create_graph: bool | None = None, batched: bool = False,
    ) -> Any:  # fmt: skip
        """Gradients of outputs with respect to the values, in their tree. They are recorded if
        there is more to differentiate them by, and their history leads to that alone.
        ``batched``: of many vectors at once, which are along the first dimension of what is
        given."""
        since = next(orders)
        grads = self.pulled(
            outputs, given, retain_graph=retain_graph, create_graph=create_graph, batched=batched
        )
        separate = self.scope.separate(grads, since)
        return unflatten([_with_memory(g) for g in separate], self.shape)

    def pulled(
        self, outputs: Sequence[Any], given: Sequence[Any], *, retain_graph: bool = True,
        create_graph: bool | None = None, batched: bool = False,
    ) -> list[Any]:  # fmt: skip
        """As ``pull``, as a list, and with a history that may lead to the variables as well."""
        count = given[0].shape[:1] if batched else ()
        roots = [(y, g) for y, g in zip(outputs, given, strict=True) if y.requires_grad]
        if not roots:
            return [zeros_for(v, count) for v in self.variables]
        recorded = (modes.grad_enabled if create_graph is None else create_graph) and (
            any(g is not None and g.requires_grad for _, g in roots)
            or any(self.has_outer_history(y) for y, _ in roots)
        )
        grads = autograd_grad(
            [y for y, _ in roots], self.variables, [g for _, g in roots], create_graph=recorded,
            retain_graph=retain_graph or recorded, allow_unused=True, is_grads_batched=batched,
        )  # fmt: skip
        pairs = zip(self.variables, grads, strict=True)
        return [zeros_for(v, count) if g is None else g for v, g in pairs]

    def with_pull_back(self, output: Any, has_aux: bool) -> Any:
        """The result of ``vjp``: the outputs and the pull-back function."""
        output, aux = with_aux(output, has_aux, "vjp(f, *primals)")
        outputs, shape = flatten(output)
        check_outputs(outputs, "vjp(f, *primals)")
        for y in outputs:
            if not (y.is_floating_point() or y.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                    f"Tensor with dtype {y.dtype}"
                )

        def pull_back(
            cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
        ) -> Any:
            try:
                leaves = flatten_as(shape, cotangents)
            except ValueError:
                raise RuntimeError(
                    "Expected pytree structure of cotangents to be the same as pytree structure of "
                    f"outputs to the function. cotangents: {describe(flatten(cotangents)[1])}, "
                    f"primal output: {describe(shape)}"
                ) from None
            return self.pull(outputs, leaves, retain_graph=retain_graph, create_graph=create_graph)

        value, aux = self.cut(output), self.cut(aux) if has_aux else None
        self.close()
        return (value, pull_back, aux) if has_aux else (value, pull_back)

    def cut(self, tree: Any) -> Any:
        """Values without the history recorded here, unless it continues outside of the
        transform."""
        return tree_map(self._cut, tree)

    def _cut(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.requires_grad or self.has_outer_history(x):
            return x
        return wrap(value_of(x), version=version_of(x))


def _with_memory(g: Any) -> Any:
    """A gradient in which every element has memory of its own, so that one can be written."""
    data = raw(g)
    return g.clone() if arrays.is_raw(data) and arrays.overlaps_itself(data) else g


def zeros_for(variable: Any, count: tuple[int, ...] = ()) -> Any:
    return wrap(variable._data).new_zeros((*count, *variable.shape))
