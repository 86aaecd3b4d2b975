"""Gradients and vector-Jacobian products as functions of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from retrograd._modes import modes
from retrograd.autograd._backward import grad as autograd_grad
from retrograd.autograd._levels import raised
from retrograd.autograd._node import AccumulateGrad
from retrograd.autograd._wrap import wrap
from retrograd.autograd.grad_mode import enable_grad
from retrograd.func._trees import Shape, flatten, flatten_as, tree_map, unflatten
from retrograd.ops import linear
from retrograd.tensor._tensor import Tensor

Argnums = int | tuple[int, ...]


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """A function that gives the gradient of ``func``, which returns a single number, with respect
    to the arguments at ``argnums``.

    >>> import retrograd as torch
    >>> from retrograd.func import grad
    >>> grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    >>> grad(grad(torch.sin))(torch.tensor(0.5))
    tensor(-0.4794)
    """

    @wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (found[0], found[1][1]) if has_aux else found[0]

    return gradient


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """As ``grad``, but gives ``(gradient, value)``; with ``has_aux``, ``(gradient, (value, aux))``.

    >>> import retrograd as torch
    >>> from retrograd.func import grad_and_value
    >>> grad_and_value(lambda x: x**2)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @wraps(func)
    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        recording = Recording(chosen(args, argnums))
        with enable_grad():
            output = func(*replaced(args, argnums, recording.tree), **kwargs)
            output, aux = with_aux(output, has_aux, "grad_and_value(f)(*args)")
            if not isinstance(output, Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a tensor, got "
                    f"{type(output)}"
                )
            if output.dim() != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got "
                    f"tensor with {output.dim()} dims. Maybe you forgot to apply a reduction?"
                )
            gradients = recording.pull([output], [None])
        value = recording.cut(output)
        return gradients, (value, recording.cut(aux)) if has_aux else value

    return gradient_and_value


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``func`` and a function that takes a vector to its product with the Jacobian.

    >>> import retrograd as torch
    >>> from retrograd.func import vjp
    >>> y, pull = vjp(torch.exp, torch.tensor([0.0, 1.0]))
    >>> pull(torch.tensor([1.0, 2.0]))
    (tensor([1.0000, 5.4366]),)
    """
    recording = Recording(primals)
    with enable_grad():
        output = func(*recording.tree)
        output, aux = with_aux(output, has_aux, "vjp(f, *primals)")
        outputs, shape = flatten(output)
    for y in outputs:
        if not isinstance(y, Tensor):
            raise RuntimeError(
                "vjp(f, *primals): Expected f(*primals) to return only tensors, got unsupported "
                f"type {type(y)}"
            )

    def pull_back(cotangents: Any, *, retain_graph: bool = True, create_graph: Any = None) -> Any:
        given = matching(outputs, shape, cotangents)
        with enable_grad():
            return recording.pull(outputs, given, retain_graph=True)

    value = recording.cut(output)
    return (value, pull_back, recording.cut(aux)) if has_aux else (value, pull_back)


def matching(outputs: Sequence[Any], shape: Shape, cotangents: Any) -> list[Any]:
    """The vectors given for the outputs of a function, checked against them."""
    try:
        given = flatten_as(shape, cotangents)
    except ValueError as error:
        raise RuntimeError(f"vjp_fn(cotangents): {error}") from None
    for y, c in zip(outputs, given, strict=True):
        if y.shape != c.shape:
            raise RuntimeError(
                f"vjp_fn(cotangents): expected a cotangent of shape {list(y.shape)}, got "
                f"{list(c.shape)}"
            )
    return given


# -- what all of them share ------------------------------------------------------------------


class Recording:
    """Variables that stand for some values while a function of them is recorded.

    A value that has a history of its own gets a variable that continues it: what is computed here
    can then be differentiated from outside, by another transform or by ``backward``.
    """

    def __init__(self, values: Any) -> None:
        leaves, self.shape = flatten(values)
        self.deeper = False  # whether derivatives have a history of their own
        self.recorded_outside = modes.grad_enabled
        self.variables = [self._variable(x) for x in leaves]
        self.tree = unflatten(self.variables, self.shape)

    def _variable(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or x._data.dtype.kind not in "fc":
            return x
        x = raised(x)
        if x.requires_grad and self.recorded_outside:
            self.deeper = True
            return linear.alias(x)
        return wrap(x._data).requires_grad_()

    @property
    def differentiated(self) -> list[Any]:
        return [v for v in self.variables if isinstance(v, Tensor) and v.requires_grad]

    def pull(self, outputs: Sequence[Any], given: Sequence[Any], retain_graph: bool = False) -> Any:
        """Gradients of outputs with respect to the values, in their tree."""
        wanted = self.differentiated
        roots = [(y, g) for y, g in zip(outputs, given, strict=True) if y.requires_grad]
        if not roots:
            found: Sequence[Any] = [zeros_like(v) for v in wanted]
        else:
            deeper = (
                self.deeper
                or leads_elsewhere([y for y, _ in roots], wanted)
                or any(g is not None and g.requires_grad for g in given)
            ) and self.recorded_outside
            self.deeper = self.deeper or deeper
            found = autograd_grad(
                [y for y, _ in roots], wanted, [g for _, g in roots], materialize_grads=True,
                create_graph=deeper, retain_graph=retain_graph or deeper,
            )  # fmt: skip
        gradients = iter(found)
        leaves = [
            next(gradients) if isinstance(v, Tensor) and v.requires_grad else None
            for v in self.variables
        ]
        return unflatten(leaves, self.shape)

    def cut(self, tree: Any) -> Any:
        """Values without the history that was recorded here, unless it goes on outside."""
        return tree_map(self._cut, tree)

    def _cut(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or self.deeper or not x.requires_grad:
            return x
        return wrap(x._data)


def zeros_like(x: Any) -> Any:
    return wrap(x._data).new_zeros(x.shape)


def leads_elsewhere(outputs: Sequence[Any], variables: Sequence[Any]) -> bool:
    """Whether the graph of some outputs ends in other leaves than some variables."""
    own = {id(v) for v in variables}
    to_visit = [y.grad_fn for y in outputs if y.grad_fn is not None]
    seen = set(to_visit)
    while to_visit:
        node = to_visit.pop()
        if isinstance(node, AccumulateGrad):
            if id(node.variable) not in own:
                return True
            continue
        for n in node.next_nodes:
            if n is not None and n not in seen:
                seen.add(n)
                to_visit.append(n)
    return False


def with_aux(output: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return output


def chosen(args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The arguments at ``argnums``: one, or a tuple."""
    if isinstance(argnums, int):
        return args[position(argnums, len(args))]
    if not isinstance(argnums, tuple):
        raise RuntimeError(
            f"argnum should be int or Tuple[int], got: {type(argnums)}"
        )
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    return tuple(args[position(n, len(args))] for n in argnums)


def position(argnum: int, count: int) -> int:
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def replaced(args: tuple[Any, ...], argnums: Argnums, values: Any) -> tuple[Any, ...]:
    """``args`` with others at ``argnums``."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    new = list(args)
    for n, value in zip(numbers, (values,) if isinstance(argnums, int) else values, strict=True):
        new[position(n, len(args))] = value
    return tuple(new)
