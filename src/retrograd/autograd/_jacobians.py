"""Jacobians, numerical and analytical, and how gradcheck compares them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._backward import grad
from retrograd.autograd._roots import is_tensor
from retrograd.autograd._wrap import wrap
from retrograd.ops._lifted import device_value

Tensor = Any


class GradcheckError(RuntimeError):
    """Raised by ``gradcheck`` and ``gradgradcheck`` when a check fails."""


class Settings(NamedTuple):
    """How small the differences are made, and how small they must be."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool


class Problem(NamedTuple):
    """A function with real outputs, at one point."""

    evaluate: Callable[[], list[Raw]]  # the outputs, for what is in the inputs' memory right now
    at: Callable[[Tensor, Tensor], list[Tensor]]  # the outputs with another tensor for an input
    inputs: list[Tensor]  # those that require grad
    outputs: list[Tensor]  # those that require grad; if there are none, all of them
    part: str  # of complex outputs: "imaginary" or "real"; "" where there are none
    from_complex: list[bool]  # for each output, whether it is a part of a complex one


# -- inputs and outputs ----------------------------------------------------------------------


def as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def requiring_grad(values: Any) -> Iterator[Tensor]:
    """The tensors that require grad in a tensor, or in lists and tuples nested at will."""
    if is_tensor(values):
        if values.requires_grad:
            yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from requiring_grad(value)


def outputs_of(returned: Any) -> list[Tensor]:
    """The tensors that a function returned, but for integers, which have no derivative."""
    for i, output in enumerate(as_tuple(returned)):
        if not is_tensor(output):
            kind = type(output).__name__
            raise AttributeError(
                f"'{kind}' object has no attribute 'requires_grad': gradcheck expects `func` to "
                f"return a Tensor or a tuple of Tensors, but output {i} is a {kind}"
            )
    return [o for o in as_tuple(returned) if o.is_floating_point() or o.is_complex()]


def differentiable(returned: Any) -> list[Tensor]:
    return [o for o in outputs_of(returned) if o.requires_grad]


def values_of(x: Tensor) -> Raw:
    """The values of a tensor as a NumPy array: its memory, or for a tensor on a device, a copy."""
    values: Raw = x.detach()._array(force=True)
    return values


def beside(x: Tensor, values: Raw) -> Tensor:
    """A tensor with the values of an array, on the device of ``x``."""
    there = device_value(x)
    return wrap(values if there is None else there.placed(values))


def repeatable(inputs: list[Tensor]) -> AbstractContextManager[None]:
    """A block in which repeated operations give bitwise equal results on the device of the inputs,
    as they always do on the CPU."""
    for x in inputs:
        there = device_value(x)
        if there is not None:
            block: AbstractContextManager[None] = there.level.separately()
            return block
    return nullcontext()


class OnDevice:
    """Elements of a tensor on a device, with the interface of an array for reading and writing.
    XLA's arrays are immutable, so writes go to a copy on the CPU, and all of it is then copied to
    the device."""

    def __init__(self, value: Any, whole: Raw, part: Raw) -> None:
        self.value = value
        self.whole = whole  # all elements, on the CPU
        self.part = part  # a view of some of them
        self.shape = part.shape

    def __getitem__(self, index: Any) -> OnDevice:
        return OnDevice(self.value, self.whole, self.part[index])

    def copy(self) -> Raw:
        return self.part.copy()

    def __setitem__(self, index: Any, values: Any) -> None:
        self.part[index] = values
        self.value.level.write(self.value, self.value.placed(self.whole))


def memory_of(x: Tensor) -> Any:
    """The memory of a tensor for writes that autograd does not record: an array or ``OnDevice``."""
    there = device_value(x)
    if there is None:
        return x.detach()._array()
    return OnDevice(there, whole := there.host, whole)


def layout_of(x: Tensor) -> Raw:
    """An array with the strides of a tensor. Its elements may be meaningless."""
    there = device_value(x)
    return x.detach()._array() if there is None else there.layout


def check_inputs(arguments: tuple[Any, ...]) -> list[Tensor]:
    """The inputs to differentiate by, each fit for having its elements moved one by one."""
    for i, argument in enumerate(arguments):
        for x in requiring_grad(argument):
            if x.dtype not in (dtypes.float64, dtypes.complex128):
                warnings.warn(
                    f"Input #{i} requires gradient and is not a double precision floating point or "
                    "complex. This check will likely fail if all the inputs are not of double "
                    "precision floating point or complex. ",
                    stacklevel=3,
                )
            if x.numel() and arrays.overlaps_itself(layout_of(x)):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports "
                    "inputs that are non-overlapping to be able to compute the numerical gradients "
                    "correctly. You should call .contiguous on the input before passing it to "
                    "gradcheck."
                )
    inputs = list(requiring_grad(arguments))
    if not inputs:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    return inputs


def replaced(values: Any, x: Tensor, other: Tensor) -> Any:
    """Lists and tuples, nested at will, with another tensor in the place of ``x``."""
    if isinstance(values, (tuple, list)):
        return type(values)(replaced(value, x, other) for value in values)
    return other if values is x else values


def problems(func: Callable[..., Any], arguments: tuple[Any, ...], outputs: list[Tensor],
              inputs: list[Tensor]) -> Iterator[Problem]:  # fmt: skip
    """The function itself if its outputs are real, otherwise its imaginary and its real part."""
    chosen = [i for i, o in enumerate(outputs) if o.requires_grad] or range(len(outputs))
    from_complex = [outputs[i].is_complex() for i in chosen]

    def problem(part: str, taken: Callable[[Tensor], Tensor]) -> Problem:
        def at(x: Tensor, other: Tensor) -> list[Tensor]:
            now = outputs_of(func(*replaced(arguments, x, other)))
            return [taken(now[i]) for i in chosen]

        def evaluate() -> list[Raw]:
            now = outputs_of(func(*arguments))
            if len(now) != len(outputs):
                raise AssertionError(
                    "Expected `func` to return the same number of outputs when inputs are "
                    f"perturbed, but got: {len(outputs)} and {len(now)}."
                )
            return [values_of(taken(now[i])).copy() for i in chosen]

        parts = [taken(outputs[i]) for i in chosen]
        return Problem(evaluate, at, inputs, parts, part, from_complex)

    if any(o.is_complex() for o in outputs):
        yield problem("imaginary", lambda o: o.imag if o.is_complex() else o)
        yield problem("real", lambda o: o.real if o.is_complex() else o)
    else:
        yield problem("", lambda o: o)


# -- numerically -----------------------------------------------------------------------------


def central_difference(
    evaluate: Callable[[], list[Raw]], place: Any, step: Any, eps: float, where: str
) -> list[Raw]:
    """The derivative of each output, flattened, as ``place`` moves along ``step`` / ``eps``."""
    before = place.copy()
    try:
        place[...] = before - step
        lower = evaluate()
        place[...] = before + step
        upper = evaluate()
    finally:
        place[...] = before
    for a, b in zip(lower, upper, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            what = "shape" if a.shape != b.shape else "dtype"
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed "
                f"{where}by {eps}, but got: {what}s {getattr(wrap(a), what)} and "
                f"{getattr(wrap(b), what)}."
            )
    return [(b - a).reshape(-1) / (2 * eps) for a, b in zip(lower, upper, strict=True)]


def derivatives_along(
    evaluate: Callable[[], list[Raw]], place: Any, steps: list[Any], eps: float, where: str = ""
) -> list[Raw]:
    """The derivative of each output along ``steps``: one, or two along x and y of ``x + iy``."""
    differences = [central_difference(evaluate, place, step, eps, where) for step in steps]
    if len(differences) == 1:
        return differences[0]
    return [along_x + 1j * along_y for along_x, along_y in zip(*differences, strict=True)]


def numerical_jacobians(
    evaluate: Callable[[], list[Raw]], x: Tensor, outputs: list[Tensor], eps: float
) -> list[Raw]:
    """The Jacobian of each output with respect to ``x``, row by row."""
    memory = memory_of(x)
    steps = [eps, eps * 1j] if x.is_complex() else [eps]
    jacobians = [
        arrays.zeros((x.numel(), o.numel()), (x if x.is_complex() else o).dtype.numpy)
        for o in outputs
    ]
    for row, index in enumerate(product(*map(range, memory.shape))):
        entry, on = memory[(*index, ...)], f"on index {index} "
        derivatives = derivatives_along(evaluate, entry, steps, eps, on)
        for jacobian, derivative in zip(jacobians, derivatives, strict=True):
            jacobian[row] = derivative
    return jacobians


def check_constant(numerical: list[list[Raw]], tolerance: float) -> None:
    """That a function none of whose outputs requires grad does not depend on its inputs."""
    for j, derivatives in enumerate(numerical):
        if not all((arrays.absolute(s) <= tolerance).all() for s in derivatives):
            raise GradcheckError(
                "Numerical gradient for function expected to be zero: no output requires grad, but "
                f"they change with input {j}. Is the way from there to the outputs cut, by "
                "detach(), no_grad() or NumPy?"
            )


# -- analytically ----------------------------------------------------------------------------


def vector_products(
    output: Tensor, inputs: list[Tensor], vectors: Sequence[Raw]
) -> tuple[list[Raw], bool, bool]:
    """``J v`` for each vector ``v`` of the output's shape, by one backward pass each: a matrix for
    each input, with a column for each vector. And whether all gradients were of their inputs'
    sizes, and of their dtypes."""
    matrices = [arrays.zeros((x.numel(), len(vectors)), x.dtype.numpy) for x in inputs]
    sizes_ok = types_ok = True
    for column, v in enumerate(vectors):
        vector = beside(output, v.copy())
        received = grad(output, inputs, vector, retain_graph=True, allow_unused=True)
        for matrix, x, g in zip(matrices, inputs, received, strict=True):
            if g is None:
                continue
            types_ok = types_ok and g.dtype == x.dtype
            if g.shape == x.shape:
                matrix[:, column] = arrays.cast(values_of(g), matrix.dtype).reshape(-1)
            else:
                sizes_ok = False
    return matrices, sizes_ok, types_ok


def unit_gradients(output: Tensor) -> Raw:
    """The gradients that ask for one element of the output each."""
    count = output.numel()
    return arrays.eye(count, dtype=output.dtype.numpy).reshape(count, *output.shape)


def same_gradients(first: list[Raw], again: list[Raw], tolerance: float) -> bool:
    return all(
        (close(a, b, 0.0, tolerance) | (arrays.isnan(a) & arrays.isnan(b))).all()
        for a, b in zip(first, again, strict=True)
    )


def checked_products(
    output: Tensor, inputs: list[Tensor], vectors: Sequence[Raw], settings: Settings
) -> list[Raw]:
    """The products, computed twice to see that both times they are the same."""
    first, sizes_ok, types_ok = vector_products(output, inputs, vectors)
    again, _, _ = vector_products(output, inputs, vectors)
    if settings.check_grad_dtypes and not types_ok:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes_ok:
        raise GradcheckError("Analytical gradient has incorrect size")
    if not same_gradients(first, again, settings.nondet_tol):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output "
            "multiple times gives different values. The tolerance for nondeterminism was "
            f"{settings.nondet_tol}. If backward is meant to use random numbers or other "
            "non-deterministic operations, call gradcheck/gradgradcheck with `nondet_tol=<tol>`."
        )
    return first


# -- comparing -------------------------------------------------------------------------------


def close(a: Raw, b: Raw, rtol: float, atol: float) -> Raw:
    """Where ``a`` and ``b`` are equal or differ by a finite ``atol + rtol * |b|`` at most."""
    error = arrays.absolute(a - b)
    return (a == b) | (arrays.isfinite(error) & (error <= atol + rtol * arrays.absolute(b)))


def mismatch(
    problem: Problem, i: int, j: int, numerical: Any, analytical: Any, mode: str = ""
) -> str:
    """PyTorch's message, for output ``i`` and input ``j``."""
    prefix = ""
    if problem.from_complex[i]:
        prefix = f"While considering the {problem.part} part of complex outputs only, "
    return (
        f"{prefix}Jacobian {mode}mismatch for output {i} with respect to input {j},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def worst_element(problem: Problem, i: int, j: int, numerical: Raw, analytical: Raw,
                   settings: Settings) -> str:  # fmt: skip
    """Which element of two Jacobians is furthest beyond the tolerance, and by how much."""
    error, size = arrays.absolute(analytical - numerical), arrays.absolute(numerical)
    allowed = settings.atol + settings.rtol * size
    within = close(analytical, numerical, settings.rtol, settings.atol)
    excess = arrays.where(within, -1.0, error / allowed)
    row, column = divmod(int(arrays.argmax(excess)), error.shape[1])  # NaN counts as the largest
    n, a = numerical[row, column].item(), analytical[row, column].item()
    return (
        f"The worst element is [{row}, {column}], of input element "
        f"{unflattened(row, problem.inputs[j].shape)} and output element "
        f"{unflattened(column, problem.outputs[i].shape)}: numerical {n:.8g}, analytical {a:.8g}, "
        f"relative error {float(error[row, column] / size[row, column]):.3g}.\n"
    )


def unflattened(position: int, shape: tuple[int, ...]) -> list[int]:
    """The index, in an array of a shape, of the element at a position in reading order."""
    index: list[int] = []
    for size in reversed(shape):
        position, rest = divmod(position, size)
        index.insert(0, rest)
    return index
