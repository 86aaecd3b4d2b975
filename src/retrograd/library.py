"""Custom operations, each declared in one line: its kernel and its derivative.

A declaration says what family an operation belongs to. The family answers for everything else:
gradients of any order, forward mode, ``vmap``, complex numbers, the picture of the graph::

    from retrograd.library import elementwise

    gauss = elementwise(
        "gauss", lambda self: np.exp(-self * self), lambda g, self, result: -2 * g * self * result
    )

The first function is given arrays, and so may be written in NumPy. The others are given Tensors,
and are written in the functions of this package: they are differentiated in turn. The arrays that
an operation takes are called ``self`` and ``other`` (or as ``inputs`` says), ``g`` is the gradient
of the result. What a rule names besides, inputs, ``result`` or options, is kept for it.

These words of a declaration are about what users see:

- ``public``: the namespaces that the name is put into: ``"torch method"`` makes ``torch.gauss(x)``
  and ``x.gauss()``.
- ``in_place=True``: there is ``x.gauss_()``.
- ``out``: what ``torch.gauss(x, out=y)`` may write into; ``"no"`` if there is no ``out=``.
- ``alias``: other names for it. ``doc``: what ``help`` shows.

Without any of them the operation is known only by the value that the declaration returns, which
is called as a function. A name that this package uses cannot be declared; one of your own can be
declared again, as happens in notebooks, and then stands for the new operation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from retrograd import arrays
from retrograd._later import later
from retrograd.autograd._wrap import wrap
from retrograd.ops import _operation as families
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import USERS, Operation, TensorLike
from retrograd.ops._public import public as public
from retrograd.tensor._public import withdraw


def elementwise(
    name: str, forward: Callable[..., Any], rule: Callable[..., Any] | None = None,
    other: Callable[..., Any] | None = None, *, dtypes: str = "float", **declared: Any,
) -> Operation:  # fmt: skip
    """Declare an elementwise operation.

    Args:
        name: What it is called, in errors and by ``public``.
        forward: A function of arrays.
        rule: ``g`` times the derivative by ``self``.
        other: ``g`` times the derivative by ``other``, if the operation takes two arrays.
        dtypes: ``"float"`` converts integers to floats first, ``"promote"`` converts all to one
            dtype, ``"same"`` converts nothing.
        **declared: The words of a declaration. See the top of this module.

    Returns:
        The operation, to be called with Tensors.

    >>> import numpy as np
    >>> from retrograd.library import elementwise
    >>> cube = elementwise("cube", lambda self: self**3, lambda g, self: 3 * g * self**2)
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """
    rules = (_of_tensors(rule), _of_tensors(other))
    return _declared(families.elementwise, name, forward, *rules, dtypes=dtypes, **declared)


def linear(
    name: str, forward: Callable[..., Any], transpose: Callable[..., Any], **declared: Any
) -> Operation:
    """Declare an operation that is linear in its one array.

    Args:
        name: What it is called, in errors and by ``public``.
        forward: A function of an array and of options.
        transpose: The transposed operation, applied to ``g``. ``shape`` is the shape of the input.
        **declared: The words of a declaration. See the top of this module.

    Returns:
        The operation, to be called with Tensors, and options by name.

    >>> from retrograd.library import linear
    >>> backwards = linear("backwards", lambda self: self[::-1], lambda g: torch.flip(g, (0,)))
    >>> x = torch.tensor([1., 4., 9.], requires_grad=True)
    >>> (backwards(x) * torch.tensor([1., 2., 3.])).sum().backward()
    >>> x.grad
    tensor([3., 2., 1.])
    """
    return _declared(families.linear, name, forward, _of_tensors(transpose), **declared)


def multilinear(
    name: str, forward: Callable[..., Any], transposes: dict[str, Callable[..., Any]],
    **declared: Any,
) -> Operation:  # fmt: skip
    """Declare an operation that is linear in each of its arrays, with the others fixed.

    Args:
        name: What it is called, in errors and by ``public``.
        forward: A function of arrays and of options.
        transposes: For each array, by its name, the transposed operation, applied to ``g``.
        **declared: The words of a declaration. See the top of this module.

    Returns:
        The operation, to be called with Tensors, and options by name.

    >>> from retrograd.library import multilinear
    >>> weighted = multilinear(
    ...     "weighted", lambda self, other: self * other,
    ...     {"self": lambda g, other: g * other, "other": lambda g, self: g * self},
    ...     broadcasts=True,
    ... )
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> weighted(x, x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    rules: Any = {n: _of_tensors(rule) for n, rule in transposes.items()}
    return _declared(families.multilinear, name, forward, rules, **declared)


def reduction(
    name: str, forward: Callable[..., Any], rule: Callable[..., Any], **declared: Any
) -> Operation:
    """Declare an operation that reduces all elements, or those along ``dim``, to one number.

    Args:
        name: What it is called, in errors and by ``public``.
        forward: A function of an array and of options, such as ``dim``.
        rule: The gradient of the input: ``g``, expanded, times the derivative of each result by
            the elements that it is made of.
        **declared: The words of a declaration. See the top of this module.

    Returns:
        The operation, to be called with Tensors, and options by name.

    >>> import numpy as np
    >>> from retrograd.library import reduction
    >>> energy = reduction("energy", lambda self: np.sum(self * self), lambda g, self: 2 * g * self)
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> energy(x).backward()
    >>> x.grad
    tensor([2., 4.])
    """
    return _declared(families.reduction, name, forward, _of_tensors(rule), **declared)


def composite(
    name: str, definition: Callable[..., Any], kernel: Callable[..., Any] | None = None,
    inputs: tuple[str, ...] = ("self",), **declared: Any,
) -> Operation:  # fmt: skip
    """Declare an operation by an expression in other operations.

    Args:
        name: What it is called, in errors and by ``public``.
        definition: The expression: a function of Tensors. Derivatives are those of the expression.
        kernel: A function of arrays that computes the same faster, where nothing is recorded.
        inputs: The names of the arguments that are Tensors. The others are options.
        **declared: The words of a declaration. See the top of this module.

    Returns:
        The operation, to be called with Tensors, and options by name.

    >>> from retrograd.library import composite
    >>> swish = composite("swish", lambda self: self * torch.sigmoid(self))
    >>> x = torch.tensor([0.], requires_grad=True)
    >>> swish(x).backward()
    >>> x.grad
    tensor([0.5000])
    """
    on_tensors: Any = _of_tensors(definition)
    return _declared(families.composite, name, on_tensors, kernel, inputs, **declared)


def _declared(family: Callable[..., Operation], name: str, *args: Any, **words: Any) -> Operation:
    if name in USERS:
        withdraw(USERS[name])
    return family(name, *args, table=USERS, **words)


def _of_tensors(function: Callable[..., Any] | None) -> Any:
    """A function of Tensors, called with values that are not inside Tensors. An ordinary backward
    pass makes no Tensors, and neither do transforms."""
    if function is None:
        return None

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        result = function(*[_wrapped(x) for x in args], **named)
        if any(isinstance(x, TensorLike) for x in args):
            return result
        if isinstance(result, (tuple, list)):
            return type(result)(_bare(x) for x in result)
        return _bare(result)

    called.written_as = function  # type: ignore[attr-defined]
    return called


def _wrapped(x: Any) -> Any:
    return wrap(x) if isinstance(x, Lifted) or arrays.is_raw(x) else x


def _bare(x: Any) -> Any:
    return x._data if isinstance(x, TensorLike) else x


if not TYPE_CHECKING:
    __getattr__, __dir__ = later(__name__, names=dict.fromkeys(
        ("custom_op", "CustomOpDef", "register_autograd", "register_fake", "register_kernel",
         "register_vmap"), "_custom_ops"))  # fmt: skip

__all__ = ["composite", "elementwise", "linear", "multilinear", "public", "reduction"]
