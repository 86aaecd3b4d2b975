"""Derivatives of functions of tensors, as PyTorch's ``torch.autograd.functional``.

Each of these takes a function, the tensors to call it with (one, or a tuple) and, where it is about
a product with a vector, that vector. The functions of ``retrograd.func`` do the same and compose
freely; these can say what a function does not depend on (``strict``), and whether what they return
can be differentiated further (``create_graph``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import modes, within
from retrograd.autograd._backward import grad
from retrograd.autograd._batched import standard_basis, taken_out
from retrograd.autograd._levels import opened
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.autograd.forward_ad import dual_level, make_dual, unpack_dual
from retrograd.autograd.grad_mode import enable_grad
from retrograd.ops._batching import Batched, BatchLevel
from retrograd.ops._sections import like
from retrograd.ops.shapes import reshaping, slicing

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]
Tensors = tuple[Any, ...]


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Computes the product of a vector with the Jacobian of a function.

    Args:
        func: a function of tensors that returns a tensor or a tuple of tensors.
        inputs: the arguments, a tensor or a tuple.
        v: the vector: a tensor of the shape of each output. May be None for an output of one
            element.
        create_graph: record the computation, so that the results can be differentiated.
        strict: raise an error if an output does not depend on an input.

    Returns:
        The value of the function, and the product.

    Example:
        >>> from retrograd.autograd.functional import vjp
        >>> vjp(lambda x: x.exp(), torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
        (tensor([1.0000, 2.7183]), tensor([1.0000, 5.4366]))
    """
    call = Call("vjp", func, inputs, create_graph, strict)
    if v is None:
        if len(call.outputs) != 1 or call.outputs[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single element."
            )
        vectors: Tensors = (None,)
    else:
        vectors = call.vectors(v, call.outputs, call.several_outputs)
    with _recording(create_graph):
        result = _gradients(call.outputs, call.inputs, vectors, create_graph)
        products = call.filled(result, call.inputs, "back")
    return call.value(), call.result(products, call.several_inputs)


@like(vjp)
def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Computes the product of the Jacobian of a function with a vector.

    It runs two backward passes. ``func.jvp`` runs one forward pass.

    Args:
        v: the vector: a tensor of the shape of each input. May be None for one input of one
            element.

    Example:
        >>> from retrograd.autograd.functional import jvp
        >>> jvp(lambda x: x.exp(), torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
        (tensor([1.0000, 2.7183]), tensor([1.0000, 5.4366]))
    """
    call = Call("jvp", func, inputs, create_graph, strict, v)
    with enable_grad():
        start = tuple(_zeros(y) for y in call.outputs)
        pulled = _gradients(call.outputs, call.inputs, start, True)
        call.check(pulled, "grad_inputs")
    with _recording(create_graph):
        result = _gradients(pulled, start, call.v, create_graph)
        products = call.filled(result, call.outputs, "back_trick")
    return call.value(), call.result(products, call.several_outputs)


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Computes the product of a vector with the Hessian of a function.

    Args:
        func: a function of tensors that returns a tensor of one element.
        inputs: the arguments, a tensor or a tuple.
        v: the vector: a tensor of the shape of each input. May be None for one input of one
            element.
        create_graph: record the computation, so that the results can be differentiated.
        strict: raise an error if the value or a gradient does not depend on an input.

    Returns:
        The value of the function, and the product.

    Example:
        >>> from retrograd.autograd.functional import vhp
        >>> vhp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
        (tensor(9.), tensor([  6., 120.]))
    """
    call = Call("vhp", func, inputs, create_graph, strict, v)
    gradient = call.gradient()
    with _recording(create_graph):
        result = _gradients(gradient, call.inputs, call.v, create_graph)
        products = call.filled(result, call.inputs, "double_back")
    return call.value(), call.result(products, call.several_inputs)


@like(vhp)
def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Computes the product of the Hessian of a function with a vector.

    It equals that of ``vhp``, which is faster, if second derivatives are continuous.

    Example:
        >>> from retrograd.autograd.functional import hvp
        >>> hvp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
        (tensor(9.), tensor([  6., 120.]))
    """
    call = Call("hvp", func, inputs, create_graph, strict, v)
    gradient = call.gradient()
    with enable_grad():
        start = tuple(_zeros(x) for x in call.inputs)
        pulled = _gradients(gradient, call.inputs, start, True)
    with _recording(create_graph):
        result = _gradients(pulled, start, call.v, create_graph)
        products = call.filled(result, call.inputs, "double_back_trick")
    return call.value(), call.result(products, call.several_inputs)


def jacobian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Computes the Jacobian of a function.

    Args:
        func: a function of tensors that returns a tensor or a tuple of tensors.
        inputs: the arguments, a tensor or a tuple.
        create_graph: record the computation, so that the result can be differentiated.
        strict: raise an error if an output does not depend on an input; otherwise the derivatives
            are zeros.
        vectorize: compute all rows (or columns, in forward mode) at once.
        strategy: "reverse-mode", or "forward-mode", which needs ``vectorize``.

    Returns:
        A tensor of the shape of the output followed by that of the input; for several inputs, a
        tuple of them; for several outputs, a tuple of these.

    Example:
        >>> from retrograd.autograd.functional import jacobian
        >>> jacobian(lambda x: x.exp(), torch.tensor([0.0, 1.0]))
        tensor([[1.0000, 0.0000],
                [0.0000, 2.7183]])
        >>> jacobian(lambda x, y: x.sum() * y, (torch.ones(2), torch.tensor([3.0])), vectorize=True)
        (tensor([[3., 3.]]), tensor([[2.]]))
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    call = Call("jacobian", func, inputs, create_graph, strict)
    if vectorize and strict:
        raise RuntimeError(_not_together("strict=True", "`vectorized=True`", "`vectorize=False`"))
    with enable_grad():
        rows = _all_rows(call) if vectorize else _row_by_row(call)
    blocks = tuple(tuple(_detached(x, create_graph) for x in row) for row in rows)
    return _unpacked(blocks, call.several_outputs, call.several_inputs)


def hessian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Computes the second derivatives of a function.

    Args:
        func: a function of tensors that returns a tensor of one element.
        inputs: the arguments, a tensor or a tuple.
        create_graph: record the computation, so that the result can be differentiated.
        strict: raise an error if the value or a gradient does not depend on an input; otherwise the
            derivatives are zeros.
        vectorize: compute all rows at once.
        outer_jacobian_strategy: "reverse-mode", or "forward-mode", which needs ``vectorize``.

    Returns:
        The Hessian: a tensor of the shape of the input twice; for several inputs, a tuple of
        tuples.

    Example:
        >>> from retrograd.autograd.functional import hessian
        >>> hessian(lambda x: x[0] ** 2 * x[1], torch.tensor([3.0, 5.0]))
        tensor([[10.,  6.],
                [ 6.,  0.]])
    """
    several, tensors = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def number(*args: Any) -> Any:
        output = func(*args)
        several_outputs, outputs = _as_tuple(output, OUTPUTS, "hessian")
        _check_requires_grad(outputs, "outputs", strict)
        _check_number("hessian", several_outputs, outputs)
        return output.squeeze()

    def gradient(*args: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":  # what is detached does not move either
            args = tuple(x if x.requires_grad else _variable_of(x) for x in args)
        result = jacobian(number, args, create_graph=True)
        _check_requires_grad(result, "jacobian", strict)
        return result

    result = jacobian(
        gradient, tensors, create_graph, strict, vectorize, strategy=outer_jacobian_strategy
    )
    return _unpacked(result, several, several)


# -- one call of the user's function ---------------------------------------------------------

OUTPUTS = "outputs of the user-provided function"


class Call:
    """A function called, while recording, with variables in place of the inputs."""

    def __init__(
        self, name: str, func: Function, inputs: Any, create_graph: bool, strict: bool,
        v: Any = False,
    ) -> None:  # fmt: skip
        """``v``: the vector for the inputs; False if there is none to be."""
        self.name = name
        self.create_graph = create_graph
        self.strict = strict
        with enable_grad():
            self.several_inputs, given = _as_tuple(inputs, "inputs", name)
            self.inputs = tuple(_variable(x, create_graph) for x in given)
            self.v: Tensors = (None,)
            if v is not None and v is not False:
                self.v = self.vectors(v, self.inputs, self.several_inputs)
            elif v is None and (len(self.inputs) != 1 or self.inputs[0].numel() != 1):
                raise RuntimeError(
                    "The vector v can only be None if the input to the user-provided function is a "
                    "single Tensor with a single element."
                )
            self.several_outputs, self.outputs = _as_tuple(func(*self.inputs), OUTPUTS, name)
            self.check(self.outputs, "outputs")

    def vectors(self, v: Any, others: Tensors, several: bool) -> Tensors:
        """The vectors passed by the user, checked against the shapes they are multiplied with."""
        _, given = _as_tuple(v, "v", self.name)
        if len(given) != len(others):
            if several:
                raise RuntimeError(
                    f"v is a tuple of invalid length: should be {len(others)} but got {len(given)}."
                )
            raise RuntimeError("The given v should contain a single Tensor.")
        for i, (x, other) in enumerate(zip(given, others, strict=True)):
            if x.shape != other.shape:
                which = f"Entry {i} in " if several else ""
                raise RuntimeError(
                    f"{which}v has invalid size: should be {other.shape} but got {x.shape}."
                )
        if self.create_graph:
            return given
        return tuple(x.detach() for x in given)

    def gradient(self) -> Tensors:
        """The gradient of the one number that the function returned, recorded."""
        _check_number(self.name, self.several_outputs, self.outputs)
        with enable_grad():
            result = _gradients(self.outputs, self.inputs, (None,), True)
        self.check(result, "jacobian")
        return result

    def check(self, tensors: Tensors, role: str) -> None:
        _check_requires_grad(tensors, role, self.strict)

    def filled(self, gradients: Tensors, like: Tensors, stage: str) -> Tensors:
        """Gradients, with zeros for inputs that nothing depends on; ``strict`` makes these an
        error."""
        filled = []
        for i, (g, x) in enumerate(zip(gradients, like, strict=True)):
            if self.strict and g is None:
                raise RuntimeError(INDEPENDENT[stage].format(i=i))
            if self.strict and self.create_graph and not g.requires_grad:
                what = "hessian" if "double" in stage else "jacobian"
                raise RuntimeError(
                    f"The {what} of the user-provided function is independent of input {i}. This "
                    "is not allowed in strict mode when create_graph=True."
                )
            filled.append(_zeros(x, False) if g is None else g)
        return tuple(filled)

    def value(self) -> Any:
        return self.result(self.outputs, self.several_outputs)

    def result(self, tensors: Tensors, several: bool) -> Any:
        """Tensors for the user: with a history only if ``create_graph`` is set."""
        result = tuple(_detached(x, self.create_graph) for x in tensors)
        return result if several else result[0]


INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {i}. This is not "
    "allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the "
    "grad_outputs when using the double backward trick to compute forward mode gradients. This is "
    "not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This "
    "is not allowed in strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in "
    "the grad_jacobian. This is not allowed in strict mode as it prevents from using the double "
    "backward trick to replace forward mode AD.",
}
CONSTANT = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs "
    "must be computed in a differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the "
    "user-provided function. This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided "
    "function with respect to input {i} is independent of the input. This is not allowed in strict "
    "mode. You should ensure that your function is twice differentiable and that the jacobian "
    "depends on the inputs (this would be violated by a linear function for example).",
}


def _check_requires_grad(tensors: Any, role: str, strict: bool) -> None:
    if not strict:
        return
    for i, x in enumerate(tensors if isinstance(tensors, tuple) else (tensors,)):
        if x is None:
            raise RuntimeError(INDEPENDENT["back"].format(i=i))
        if not x.requires_grad:
            raise RuntimeError(CONSTANT[role].format(i=i))


def _check_number(name: str, several: bool, outputs: Tensors) -> None:
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )


def _as_tuple(values: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """Whether there are several values, and the tuple of them, checked to be Tensors."""
    several = isinstance(values, tuple)
    tensors = values if several else (values,)
    for i, x in enumerate(tensors):
        if not isinstance(x, Plug.tensor):
            which = f"value at index {i}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the "
                f"{which} has type {type(x)}."
            )
    return several, tensors


def _variable(x: Any, create_graph: bool) -> Any:
    """A new Tensor, to tell the input from the same Tensor captured by the function. Its history
    goes on only if the result is to have one."""
    return x.view_as(x) if create_graph and x.requires_grad else _variable_of(x)


def _variable_of(x: Any) -> Any:
    return wrap(x._data, version=version_of(x)).requires_grad_()


def _zeros(x: Any, requires_grad: bool = True) -> Any:
    zeros = wrap(x._data).new_zeros(x.shape)
    return zeros.requires_grad_() if requires_grad else zeros


def _detached(x: Any, create_graph: bool) -> Any:
    return x if create_graph or not x.requires_grad else x.detach()


def _recording(create_graph: bool) -> within:
    """Recording, if there is to be a graph; otherwise as it is outside."""
    return within(grad_enabled=create_graph or modes.grad_enabled)


def _gradients(
    outputs: Sequence[Any], inputs: Tensors, given: Sequence[Any], create_graph: bool, *,
    retain_graph: bool | None = None, batched: bool = False,
) -> Tensors:  # fmt: skip
    """Gradients by the inputs of those outputs that have any; None where there is none."""
    pairs = [
        (y, g) for y, g in zip(outputs, given, strict=True) if y is not None and y.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    result: Tensors = grad(
        [y for y, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True,
        create_graph=create_graph, retain_graph=retain_graph, is_grads_batched=batched,
    )  # fmt: skip
    return result


# -- Jacobians -------------------------------------------------------------------------------


def _row_by_row(call: Call) -> list[list[Any]]:
    """For each output, for each input, its Jacobian: one backward pass for each element."""
    blocks = []
    for i, y in enumerate(call.outputs):
        rows: list[list[Any]] = [[] for _ in call.inputs]
        for k in range(y.numel()):
            result = _gradients(
                (y.reshape(-1)[k],), call.inputs, (None,), call.create_graph, retain_graph=True
            )
            for j, (g, x) in enumerate(zip(result, call.inputs, strict=True)):
                if call.strict and g is None:
                    raise RuntimeError(
                        f"Output {i} of the user-provided function is independent of input {j}. "
                        "This is not allowed in strict mode."
                    )
                if call.strict and call.create_graph and not g.requires_grad:
                    raise RuntimeError(
                        "The jacobian of the user-provided function is independent of input "
                        f"{i}. This is not allowed in strict mode when create_graph=True."
                    )
                rows[j].append(_zeros(x, False) if g is None else g)
        blocks.append(
            [
                slicing.stack(r).reshape((*y.shape, *x.shape))
                if r
                else wrap(x._data).new_zeros((*y.shape, *x.shape))
                for r, x in zip(rows, call.inputs, strict=True)
            ]
        )
    return blocks


def _all_rows(call: Call) -> list[list[Any]]:
    """As ``_row_by_row``, by one pass for all of them."""
    outputs, inputs = call.outputs, call.inputs
    sizes = [y.numel() for y in outputs]
    result = _gradients(outputs, inputs, standard_basis(outputs), call.create_graph, batched=True)
    by_input = []
    for g, x in zip(result, inputs, strict=True):
        rows = wrap(x._data).new_zeros((sum(sizes), *x.shape)) if g is None else g
        pieces = slicing.split(rows, sizes)
        pairs = zip(pieces, outputs, strict=True)
        by_input.append([piece.reshape((*y.shape, *x.shape)) for piece, y in pairs])
    return [list(of_output) for of_output in zip(*by_input, strict=True)]


def _forward_jacobian(
    func: Function, inputs: Any, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    """The Jacobian by one pass forward, for all columns."""
    forward = '`strategy="forward-mode"`'
    if create_graph:
        raise NotImplementedError(
            _not_together("create_graph=True", forward, '`strategy="reverse-mode"`', " (yet)")
        )
    if strict:
        raise RuntimeError(
            _not_together("strict=True", forward, '`strategy="reverse-mode"`', " (yet)")
        )
    several_inputs, tensors = _as_tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )
    sizes = [x.numel() for x in tensors]
    with opened(BatchLevel(sum(sizes))) as level, dual_level():
        directions = [wrap(Batched(level, e)) for e in standard_basis(tensors)]
        duals = [make_dual(x, t) for x, t in zip(tensors, directions, strict=True)]
        several_outputs, outputs = _as_tuple(func(*duals), OUTPUTS, "jacobian")
        columns = []
        for y in outputs:
            value, tangent = unpack_dual(y)
            columns.append(taken_out(level, _zeros(value, False) if tangent is None else tangent))
    blocks = []
    for y in columns:
        pieces = slicing.split(reshaping.movedim(y, 0, -1), sizes, dim=-1)
        pairs = zip(pieces, tensors, strict=True)
        blocks.append(tuple(p.reshape((*y.shape[1:], *x.shape)) for p, x in pairs))
    return _unpacked(tuple(blocks), several_outputs, several_inputs)


def _unpacked(blocks: Any, several_outputs: bool, several_inputs: bool) -> Any:
    """A Jacobian for each output and input, without the tuples of what is single."""
    if not several_inputs:
        blocks = tuple(row[0] for row in blocks)
    return blocks if several_outputs else blocks[0]


def _not_together(one: str, other: str, instead: str, yet: str = "") -> str:
    off = one.replace("True", "False")
    return (
        f"torch.autograd.functional.jacobian: `{one}` and {other} are not supported together"
        f"{yet}. Please either set `{off}` or {instead}."
    )
