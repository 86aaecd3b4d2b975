"""Checking gradients: does what a backward pass computes agree with finite differences?

The Jacobian of an output with respect to an input has a row for each element of the input and a
column for each element of the output. Slow mode computes all of it twice and compares element by
element: numerically, a row at a time, by moving one element of the input a little either way; and
analytically, a column at a time, by one backward pass for each element of the output. Fast mode
compares the one number ``uᵀ J v`` for random directions ``u`` and ``v``: two evaluations and one
backward pass, whatever the sizes.

Gradients with respect to a complex input ``x + iy`` are the conjugate Wirtinger derivatives
``∂/∂x + i ∂/∂y`` of a real function. A complex output therefore counts as two real ones, which are
checked one after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd.arrays import Raw, dtypes, random
from retrograd.autograd._backward import grad, is_tensor
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function

Tensor = Any


class GradcheckError(RuntimeError):
    """Raised by ``gradcheck`` and ``gradgradcheck`` when a check fails."""


class _Settings(NamedTuple):
    """How small the differences are made, and how small they must be."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool


class _Problem(NamedTuple):
    """A function with real outputs, at one point."""

    evaluate: Callable[[], list[Raw]]  # the outputs, for what is in the inputs' memory right now
    inputs: list[Tensor]  # those that require grad
    outputs: list[Tensor]  # those that require grad; if there are none, all of them
    part: str  # of complex outputs: "imaginary" or "real"; "" where there are none
    from_complex: list[bool]  # for each output, whether it is a part of a complex one


# -- inputs and outputs ----------------------------------------------------------------------


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _requiring_grad(values: Any) -> Iterator[Tensor]:
    """The tensors that require grad in a tensor, or in lists and tuples nested at will."""
    if is_tensor(values):
        if values.requires_grad:
            yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _requiring_grad(value)


def _outputs(returned: Any) -> list[Tensor]:
    """The tensors that a function returned, but for integers, which have no derivative."""
    for i, output in enumerate(_as_tuple(returned)):
        if not is_tensor(output):
            kind = type(output).__name__
            raise AttributeError(
                f"'{kind}' object has no attribute 'requires_grad': gradcheck expects `func` to "
                f"return a Tensor or a tuple of Tensors, but output {i} is a {kind}"
            )
    return [o for o in _as_tuple(returned) if o.is_floating_point() or o.is_complex()]


def _differentiable(returned: Any) -> list[Tensor]:
    return [o for o in _outputs(returned) if o.requires_grad]


def _memory(x: Tensor) -> Raw:
    """The array that a tensor keeps its values in, to be written behind autograd's back."""
    return x.detach().numpy()


def _check_inputs(arguments: tuple[Any, ...]) -> list[Tensor]:
    """The inputs to differentiate by, each fit for having its elements moved one by one."""
    for i, argument in enumerate(arguments):
        for x in _requiring_grad(argument):
            if x.dtype not in (dtypes.float64, dtypes.complex128):
                warnings.warn(
                    f"Input #{i} requires gradient and is not a double precision floating point or "
                    "complex. This check will likely fail if all the inputs are not of double "
                    "precision floating point or complex. ",
                    stacklevel=3,
                )
            if x.numel() and arrays.overlaps_itself(_memory(x)):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports "
                    "inputs that are non-overlapping to be able to compute the numerical gradients "
                    "correctly. You should call .contiguous on the input before passing it to "
                    "gradcheck."
                )
    inputs = list(_requiring_grad(arguments))
    if not inputs:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    return inputs


def _problems(func: Callable[..., Any], arguments: tuple[Any, ...], outputs: list[Tensor],
              inputs: list[Tensor]) -> Iterator[_Problem]:  # fmt: skip
    """The function itself if its outputs are real, otherwise its imaginary and its real part."""
    chosen = [i for i, o in enumerate(outputs) if o.requires_grad] or range(len(outputs))
    from_complex = [outputs[i].is_complex() for i in chosen]

    def problem(part: str, taken: Callable[[Tensor], Tensor]) -> _Problem:
        def evaluate() -> list[Raw]:
            now = _outputs(func(*arguments))
            if len(now) != len(outputs):
                raise AssertionError(
                    "Expected `func` to return the same number of outputs when inputs are "
                    f"perturbed, but got: {len(outputs)} and {len(now)}."
                )
            return [_memory(taken(now[i])).copy() for i in chosen]

        return _Problem(evaluate, inputs, [taken(outputs[i]) for i in chosen], part, from_complex)

    if any(o.is_complex() for o in outputs):
        yield problem("imaginary", lambda o: o.imag if o.is_complex() else o)
        yield problem("real", lambda o: o.real if o.is_complex() else o)
    else:
        yield problem("", lambda o: o)


# -- numerically -----------------------------------------------------------------------------


def _central_difference(
    evaluate: Callable[[], list[Raw]], place: Raw, step: Any, eps: float, where: str
) -> list[Raw]:
    """The slope of each output, flat, as the memory ``place`` moves along ``step`` / ``eps``."""
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


def _slopes(
    evaluate: Callable[[], list[Raw]], place: Raw, steps: list[Any], eps: float, where: str = ""
) -> list[Raw]:
    """The derivative of each output along ``steps``: one, or two along x and y of ``x + iy``."""
    differences = [_central_difference(evaluate, place, step, eps, where) for step in steps]
    if len(differences) == 1:
        return differences[0]
    return [along_x + 1j * along_y for along_x, along_y in zip(*differences, strict=True)]


def _numerical_jacobians(
    evaluate: Callable[[], list[Raw]], x: Tensor, outputs: list[Tensor], eps: float
) -> list[Raw]:
    """The Jacobian of each output with respect to ``x``, row by row."""
    memory = _memory(x)
    steps = [eps, eps * 1j] if x.is_complex() else [eps]
    jacobians = [
        arrays.zeros((x.numel(), o.numel()), x._data.dtype if x.is_complex() else o._data.dtype)
        for o in outputs
    ]
    for row, index in enumerate(product(*map(range, memory.shape))):
        slopes = _slopes(evaluate, memory[(*index, ...)], steps, eps, f"on index {index} ")
        for jacobian, slope in zip(jacobians, slopes, strict=True):
            jacobian[row] = slope
    return jacobians


def _check_constant(numerical: list[list[Raw]], tolerance: float) -> None:
    """That a function none of whose outputs requires grad does not depend on its inputs."""
    for j, slopes in enumerate(numerical):
        if not all((arrays.absolute(s) <= tolerance).all() for s in slopes):
            raise GradcheckError(
                "Numerical gradient for function expected to be zero: no output requires grad, but "
                f"they change with input {j}. Is the way from there to the outputs cut, by "
                "detach(), no_grad() or NumPy?"
            )


# -- analytically ----------------------------------------------------------------------------


def _products(
    output: Tensor, inputs: list[Tensor], vectors: Sequence[Raw]
) -> tuple[list[Raw], bool, bool]:
    """``J v`` for each vector ``v`` of the output's shape, by one backward pass each: a matrix for
    each input, with a column for each vector. And whether all gradients were of their inputs'
    sizes, and of their dtypes."""
    matrices = [arrays.zeros((x.numel(), len(vectors)), x._data.dtype) for x in inputs]
    sizes_ok = types_ok = True
    for column, v in enumerate(vectors):
        received = grad(output, inputs, wrap(v.copy()), retain_graph=True, allow_unused=True)
        for matrix, x, g in zip(matrices, inputs, received, strict=True):
            if g is None:
                continue
            types_ok = types_ok and g.dtype == x.dtype
            if g.shape == x.shape:
                matrix[:, column] = arrays.cast(_memory(g), matrix.dtype).reshape(-1)
            else:
                sizes_ok = False
    return matrices, sizes_ok, types_ok


def _unit_gradients(output: Tensor) -> Raw:
    """The gradients that ask for one element of the output each."""
    count = output.numel()
    return arrays.eye(count, dtype=output._data.dtype).reshape(count, *output.shape)


def _same(first: list[Raw], again: list[Raw], tolerance: float) -> bool:
    return all(
        (_close(a, b, 0.0, tolerance) | (arrays.isnan(a) & arrays.isnan(b))).all()
        for a, b in zip(first, again, strict=True)
    )


def _checked_products(
    output: Tensor, inputs: list[Tensor], vectors: Sequence[Raw], settings: _Settings
) -> list[Raw]:
    """The products, computed twice to see that both times they are the same."""
    first, sizes_ok, types_ok = _products(output, inputs, vectors)
    again, _, _ = _products(output, inputs, vectors)
    if settings.check_grad_dtypes and not types_ok:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes_ok:
        raise GradcheckError("Analytical gradient has incorrect size")
    if not _same(first, again, settings.nondet_tol):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output "
            "multiple times gives different values. The tolerance for nondeterminism was "
            f"{settings.nondet_tol}. If backward is meant to use random numbers or other "
            "non-deterministic operations, call gradcheck/gradgradcheck with `nondet_tol=<tol>`."
        )
    return first


# -- comparing -------------------------------------------------------------------------------


def _close(a: Raw, b: Raw, rtol: float, atol: float) -> Raw:
    """Where ``a`` and ``b`` are equal or differ by a finite ``atol + rtol * |b|`` at most."""
    error = arrays.absolute(a - b)
    return (a == b) | (arrays.isfinite(error) & (error <= atol + rtol * arrays.absolute(b)))


def _mismatch(problem: _Problem, i: int, j: int, numerical: Any, analytical: Any) -> str:
    """PyTorch's message, for output ``i`` and input ``j``."""
    prefix = ""
    if problem.from_complex[i]:
        prefix = f"While considering the {problem.part} part of complex outputs only, "
    return (
        f"{prefix}Jacobian mismatch for output {i} with respect to input {j},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def _worst_element(problem: _Problem, i: int, j: int, numerical: Raw, analytical: Raw,
                   settings: _Settings) -> str:  # fmt: skip
    """Which element of two Jacobians is furthest beyond the tolerance, and by how much."""
    error, size = arrays.absolute(analytical - numerical), arrays.absolute(numerical)
    allowed = settings.atol + settings.rtol * size
    within = _close(analytical, numerical, settings.rtol, settings.atol)
    excess = arrays.where(within, -1.0, error / allowed)
    row, column = divmod(int(arrays.argmax(excess)), error.shape[1])  # NaN counts as the largest
    n, a = numerical[row, column].item(), analytical[row, column].item()
    return (
        f"The worst element is [{row}, {column}], of input element "
        f"{_unflattened(row, problem.inputs[j].shape)} and output element "
        f"{_unflattened(column, problem.outputs[i].shape)}: numerical {n:.8g}, analytical {a:.8g}, "
        f"relative error {float(error[row, column] / size[row, column]):.3g}.\n"
    )


def _unflattened(position: int, shape: tuple[int, ...]) -> list[int]:
    """The index, in an array of a shape, of the element at a position in reading order."""
    index: list[int] = []
    for size in reversed(shape):
        position, rest = divmod(position, size)
        index.insert(0, rest)
    return index


# -- slow mode -------------------------------------------------------------------------------


def _check_slow(problem: _Problem, settings: _Settings) -> None:
    """Compare whole Jacobians."""
    inputs, outputs = problem.inputs, problem.outputs
    numerical = [_numerical_jacobians(problem.evaluate, x, outputs, settings.eps) for x in inputs]
    if not any(o.requires_grad for o in outputs):
        return _check_constant(numerical, 0.0)
    for i, output in enumerate(outputs):
        analytical = _checked_products(output, inputs, _unit_gradients(output), settings)
        for j, a in enumerate(analytical):
            n = numerical[j][i]
            if not _close(a, n, settings.rtol, settings.atol).all():
                raise GradcheckError(
                    _mismatch(problem, i, j, wrap(n), wrap(a))
                    + _worst_element(problem, i, j, n, a, settings)
                )
    return None


# -- fast mode -------------------------------------------------------------------------------


def _direction(tensor: Tensor, generator: random.Generator) -> Raw:
    """A random vector of length one for the real numbers in ``tensor``, of none below zero: errors
    of one sign add up in it."""
    precision = arrays.real(tensor._data).dtype
    vector = random.uniform(tensor.numel(), dtypes.default_float(), generator).astype(precision)
    return vector / arrays.sqrt(arrays.sum(arrays.square(vector)))


def _check_fast(problem: _Problem, settings: _Settings) -> None:
    """Compare the Jacobians' projections ``uᵀ J v`` only."""
    inputs, outputs, eps = problem.inputs, problem.outputs, settings.eps
    generator = random.Generator()  # its own, always of the same seed: the same verdict every time
    all_u = [[_direction(x, generator) for _ in range(1 + x.is_complex())] for x in inputs]
    numerical = []
    for x, u in zip(inputs, all_u, strict=True):
        steps = [eps * s.reshape(x.shape) * unit for s, unit in zip(u, (1, 1j), strict=False)]
        numerical.append(_slopes(problem.evaluate, _memory(x), steps, eps))
    if not any(o.requires_grad for o in outputs):
        return _check_constant(numerical, settings.nondet_tol)
    all_v = [_direction(o, generator) for o in outputs]
    analytical = [
        _checked_products(o, inputs, [v.reshape(o.shape)], settings)
        for o, v in zip(outputs, all_v, strict=True)
    ]
    for (j, u), (i, v) in product(enumerate(all_u), enumerate(all_v)):
        n = arrays.sum(v * numerical[j][i])
        a = _projection(analytical[i][j][:, 0], u)
        # An error of atol in each element of the Jacobian adds up to this in the projection.
        atol = settings.atol * float(sum(arrays.sum(s) for s in u)) * float(arrays.sum(v))
        if not _close(a, n, settings.rtol, atol):
            message = _mismatch(problem, i, j, n.item(), a.item())
            raise GradcheckError(message + _slow_details(problem, i, j, settings))
    return None


def _projection(gradient: Raw, u: list[Raw]) -> Raw:
    """``uᵀ g``; of a complex gradient, real and imaginary part each along their own direction."""
    if len(u) == 1:
        return arrays.sum(gradient * u[0])
    return arrays.sum(gradient.real * u[0]) + 1j * arrays.sum(gradient.imag * u[1])


def _slow_details(problem: _Problem, i: int, j: int, settings: _Settings) -> str:
    """What slow mode finds where fast mode has failed: it can tell the element."""
    x, output = problem.inputs[j], problem.outputs[i]
    numerical = _numerical_jacobians(problem.evaluate, x, problem.outputs, settings.eps)[i]
    (analytical,), _, _ = _products(output, [x], _unit_gradients(output))
    largest = arrays.amax(arrays.absolute(numerical - analytical))
    details = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode: they are sums over all elements, weighted at random. Below, we recompute \n"
        "numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {wrap(numerical)}\nAnalytical:\n{wrap(analytical)}\n\n"
        f"The max per-element difference (slow mode) is: {largest}.\n"
    )
    if _close(analytical, numerical, settings.rtol, settings.atol).all():
        return details + (
            "Fast gradcheck failed but element-wise differences are small. This means that the\n"
            "test might've passed in slow_mode! Call gradcheck/gradgradcheck with "
            "`fast_mode=False`."
        )
    return details + _worst_element(problem, i, j, numerical, analytical, settings)


# -- other things that a backward must do ----------------------------------------------------


def _zeros_for(outputs: list[Tensor]) -> list[Tensor]:
    return [wrap(arrays.zeros(o.shape, o._data.dtype)) for o in outputs]


def _check_batched(outputs: list[Tensor], inputs: list[Tensor]) -> None:
    """That two gradients in a batch give what each of them gives alone."""
    generator = random.Generator()
    for i, output in enumerate(outputs):
        batch = random.normal((2, *output.shape), output._data.dtype, generator)
        alone = [grad(output, inputs, wrap(g), retain_graph=True, allow_unused=True) for g in batch]
        try:
            batched = grad(
                output, inputs, wrap(batch), retain_graph=True, allow_unused=True,
                is_grads_batched=True,
            )  # fmt: skip
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\n{_BATCHED_FAILED}"
            ) from error
        for j, (x, got, *expected) in enumerate(zip(inputs, batched, *alone, strict=True)):
            zeros = arrays.zeros(x.shape, x._data.dtype)
            stacked = arrays.stack([zeros if g is None else _memory(g) for g in expected])
            values = arrays.zeros(stacked.shape, stacked.dtype) if got is None else _memory(got)
            if values.shape != stacked.shape or not _close(values, stacked, 1e-5, 1e-8).all():
                raise GradcheckError(
                    f"For output {i} and input {j}:\n\n{_BATCHED_FAILED}\n\n"
                    f"Got:\n{wrap(values)}\n\nExpected:\n{wrap(stacked)}"
                )


_BATCHED_FAILED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation, that is\n"
    "autograd.grad with is_grads_batched=True. To leave this check out, call "
    "gradcheck/gradgradcheck\nwith `check_batched_grad=False`."
)


def _check_proportional(outputs: list[Tensor], inputs: list[Tensor], masked: bool) -> None:
    """That from gradients of zero come gradients of zero."""
    received = grad(outputs, inputs, _zeros_for(outputs), allow_unused=True)
    for x, g in zip(inputs, received, strict=True):
        if g is None:
            continue
        if not (arrays.absolute(_memory(g)) <= (1e-8 if masked else 0.0)).all():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype != x.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


class _UndefinedGrad(Function):
    """The identity, with no gradient at all: what an output looks like that nothing depends on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


def _check_undefined(func: Callable[..., Any], arguments: tuple[Any, ...], count: int,
                     inputs: list[Tensor]) -> None:  # fmt: skip
    """That a backward treats the missing gradient of any one output, and of all, as zero."""
    cases = [range(count)] + ([range(i, i + 1) for i in range(count)] if count > 1 else [])
    for undefined in cases:
        outputs = _differentiable(func(*arguments))
        outputs = [_UndefinedGrad.apply(o) if i in undefined else o for i, o in enumerate(outputs)]
        try:
            received = grad(outputs, inputs, _zeros_for(outputs), allow_unused=True)
        except (RuntimeError, TypeError, AttributeError) as error:  # what None leads to
            _warn_of_undefined()
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. The gradient of an "
                "output that nothing depends on is None where ctx.set_materialize_grads(False) "
                "asks for that."
            ) from error
        if not all((_memory(g) == 0).all() for g in received if g is not None):
            _warn_of_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are "
                "undefined or zero."
            )


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by "
        "default, but it may break existing callers of this function. If this is true for you, you "
        'can call this function with "check_undefined_grad=False" to disable the feature',
        stacklevel=4,
    )


# -- what users call -------------------------------------------------------------------------


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
    check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:  # fmt: skip
    """Whether the gradients of ``func`` with respect to those of its ``inputs`` that require grad
    agree with central differences of width ``eps``, to ``atol + rtol * |difference|``.

    The inputs should be of double precision. On failure it raises ``GradcheckError``, or returns
    False with ``raise_exception=False``. It also checks that a second backward pass gives the same
    to within ``nondet_tol``; that gradients of zero lead to gradients of zero, and so do missing
    ones (``check_undefined_grad``); on request, that gradients have their inputs' dtypes
    (``check_grad_dtypes``) and that batches of them work (``check_batched_grad``). ``fast_mode``
    compares random projections of the Jacobians in place of whole ones. ``masked=True`` lets
    gradients of zero lead to gradients of almost zero.

    >>> import retrograd as torch
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradcheck(lambda x: (x.sin(), x.prod()), x)
    True
    >>> gradcheck(lambda x: x * x.detach(), x, raise_exception=False)
    False
    """
    _require_one_of(check_forward_ad=check_forward_ad, check_backward_ad=check_backward_ad)
    _require_for("check_batched_grad", check_batched_grad, check_backward_ad=check_backward_ad)
    _require_for(
        "check_batched_forward_grad", check_batched_forward_grad, check_forward_ad=check_forward_ad
    )
    if check_forward_ad:
        raise _no_forward_mode("gradcheck", "check_forward_ad")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(
                f"{name} must be greater than or equal to zero, but got {tolerance:g}"
            )
    arguments = _as_tuple(inputs)
    variables = _check_inputs(arguments)
    settings = _Settings(eps, atol, rtol, nondet_tol, check_grad_dtypes)
    try:
        outputs = _outputs(func(*arguments))
        for problem in _problems(func, arguments, outputs, variables):
            (_check_fast if fast_mode else _check_slow)(problem, settings)
        outputs = [o for o in outputs if o.requires_grad]
        if check_batched_grad:
            _check_batched(outputs, variables)
        _check_proportional(outputs, variables, bool(masked))
        if check_undefined_grad:
            _check_undefined(func, arguments, len(outputs), variables)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True, fast_mode: bool = False,
    masked: bool = False,
) -> bool:  # fmt: skip
    """Whether second derivatives are right: ``gradcheck`` of the function that computes the
    gradients of ``func``, with respect to its ``inputs`` and to ``grad_outputs``.

    ``grad_outputs`` are the gradients of the outputs that require grad, random ones if not given
    (with gaps in their memory for ``gen_non_contig_grad_outputs``). The rest is as in
    ``gradcheck``.

    >>> import retrograd as torch
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x.exp() * x, x)
    True
    """
    backward = {"check_rev_over_rev": check_rev_over_rev}
    _require_one_of(check_fwd_over_rev=check_fwd_over_rev, **backward)
    _require_for("check_undefined_grad", check_undefined_grad, **backward)
    _require_for("check_batched_grad", check_batched_grad, **backward)
    if check_fwd_over_rev:
        raise _no_forward_mode("gradgradcheck", "check_fwd_over_rev")
    arguments = _as_tuple(inputs)
    if grad_outputs is None:
        starts = tuple(
            _random_gradient(o, gen_non_contig_grad_outputs)
            for o in _differentiable(func(*arguments))
        )
    else:
        starts = _as_tuple(grad_outputs)

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        given, grads = args[: len(arguments)], args[len(arguments) :]
        returned = func(*given)
        outputs, variables = _differentiable(returned), list(_requiring_grad(given))
        if not outputs:  # no gradients: what is left to check is that there should be none
            return _as_tuple(returned)
        received = grad(outputs, variables, grads, create_graph=True, allow_unused=True)
        return tuple(g for g in received if g is not None)

    return gradcheck(
        gradients, (*arguments, *starts), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _require_one_of(**options: bool) -> None:
    if not any(options.values()):
        raise AssertionError(f"Expected at least one of {' or '.join(options)} to be True")


def _require_for(option: str, asked: bool, **needed: bool) -> None:
    (name,) = needed
    if asked and not needed[name]:
        raise AssertionError(f"Setting {option}=True requires {name} to be True")


def _no_forward_mode(function: str, option: str) -> NotImplementedError:
    return NotImplementedError(
        f"retrograd has no forward-mode AD yet, so there is nothing for {option}=True to check. "
        f"Call {function} with {option}=False, the default, to check gradients of backward passes."
    )


def _random_gradient(output: Tensor, with_gaps: bool) -> Tensor:
    """Numbers from [-1, 1) in the shape of ``output``, from the default generator."""
    values = random.uniform(tuple(output.shape), output._data.dtype, None, -1.0, 1.0)
    if with_gaps and values.size > 1:
        values = values.repeat(2, -1)[..., ::2]
    return wrap(values).requires_grad_()


# -- kept for programs that use them ---------------------------------------------------------


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any], input_idx: int, inputs: Any, outputs: Any, eps: float,
    input: Any = None, is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The Jacobian of each output of ``fn`` with respect to one input, by central differences.

    >>> import retrograd as torch
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> get_numerical_jacobian_wrt_specific_input(lambda x: x * 3, 0, (x,), (x * 3,), 1e-3)
    (tensor([[3.0000, 0.0000],
            [0.0000, 3.0000]], dtype=torch.float64),)
    """
    arguments = _as_tuple(inputs)
    x = arguments[input_idx] if input is None else input
    if not x.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    shapes = _outputs(outputs)
    if any(o.is_complex() for o in shapes) and (x.is_complex() or not is_forward_ad):
        raise AssertionError("Expected ds_dx to be real-valued, not complex")

    def evaluate() -> list[Raw]:
        return [_memory(o).copy() for o in _outputs(fn(*arguments))]

    return tuple(map(wrap, _numerical_jacobians(evaluate, x, shapes, eps)))


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The Jacobians of the first output of ``fn``, which takes the inputs as one tuple, with
    respect to each input that requires grad, or to ``target``. Deprecated, as in PyTorch."""
    arguments = _as_tuple(inputs)
    outputs = _outputs(fn(arguments))
    _check_private("get_numerical_jacobian", grad_out, outputs)
    return tuple(
        get_numerical_jacobian_wrt_specific_input(
            lambda *args: fn(args), 0, arguments, outputs, eps, input=x
        )[0]
        for x in _requiring_grad(arguments if target is None else target)
    )


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """The Jacobians of ``output`` with respect to each input that requires grad; and whether they
    came out the same twice, in the right sizes, and in the right dtypes. Deprecated, as in
    PyTorch."""
    _check_private("get_analytical_jacobian", grad_out, [output])
    variables, units = list(_requiring_grad(inputs)), _unit_gradients(output)
    first, sizes_ok, types_ok = _products(output, variables, units)
    again, _, _ = _products(output, variables, units)
    return tuple(map(wrap, first)), _same(first, again, nondet_tol), sizes_ok, types_ok


def _check_private(name: str, grad_out: float, outputs: list[Tensor]) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are "
        "deprecating it and it will be removed in a future version of PyTorch.",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(
            f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0."
        )
    if any(o.is_complex() for o in outputs):
        raise ValueError(
            f"Expected output to be non-complex. {name} no longer supports functions that return "
            "complex outputs."
        )


__all__ = ["GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian",
           "get_numerical_jacobian_wrt_specific_input", "gradcheck", "gradgradcheck"]  # fmt: skip
