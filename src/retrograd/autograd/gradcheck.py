"""``gradcheck``: compares gradients with finite differences.

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

import sys
import warnings
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._backward import grad
from retrograd.autograd._jacobians import (
    GradcheckError,
    Problem,
    Settings,
    as_tuple,
    beside,
    check_constant,
    check_inputs,
    checked_products,
    close,
    derivatives_along,
    differentiable,
    memory_of,
    mismatch,
    numerical_jacobians,
    outputs_of,
    problems,
    repeatable,
    requiring_grad,
    same_gradients,
    unit_gradients,
    values_of,
    vector_products,
    worst_element,
)
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function
from retrograd.ops._sections import like

Tensor = Any


# -- slow mode -------------------------------------------------------------------------------


def _check_slow(problem: Problem, settings: Settings) -> None:
    """Compare whole Jacobians."""
    inputs, outputs = problem.inputs, problem.outputs
    numerical = [numerical_jacobians(problem.evaluate, x, outputs, settings.eps) for x in inputs]
    if not any(o.requires_grad for o in outputs):
        return check_constant(numerical, 0.0)
    for i, output in enumerate(outputs):
        analytical = checked_products(output, inputs, unit_gradients(output), settings)
        for j, a in enumerate(analytical):
            n = numerical[j][i]
            if not close(a, n, settings.rtol, settings.atol).all():
                raise GradcheckError(
                    mismatch(problem, i, j, wrap(n), wrap(a))
                    + worst_element(problem, i, j, n, a, settings)
                )
    return None


# -- fast mode -------------------------------------------------------------------------------


def _direction(tensor: Tensor, generator: arrays.random.Generator) -> Raw:
    """A random vector of length one for the real numbers in ``tensor``, of none below zero: errors
    of one sign add up in it."""
    precision = tensor.dtype.to_real().numpy
    vector = arrays.random.uniform(tensor.numel(), dtypes.default_float(), generator)
    vector = vector.astype(precision)
    return vector / arrays.sqrt(arrays.sum(arrays.square(vector)))


def _check_fast(problem: Problem, settings: Settings) -> None:
    """Compare the Jacobians' projections ``uᵀ J v`` only."""
    inputs, outputs = problem.inputs, problem.outputs
    all_u, all_v, numerical = _projections(problem, settings.eps)
    if not any(o.requires_grad for o in outputs):
        return check_constant(numerical, settings.nondet_tol)
    analytical = [
        checked_products(o, inputs, [v.reshape(o.shape)], settings)
        for o, v in zip(outputs, all_v, strict=True)
    ]
    for (j, u), (i, v) in product(enumerate(all_u), enumerate(all_v)):
        n = arrays.sum(v * numerical[j][i])
        a = _projection(analytical[i][j][:, 0], u)
        # An error of atol in each element of the Jacobian adds up to this in the projection.
        atol = settings.atol * float(sum(arrays.sum(s) for s in u)) * float(arrays.sum(v))
        if not close(a, n, settings.rtol, atol):
            message = mismatch(problem, i, j, n.item(), a.item())
            raise GradcheckError(message + _slow_details(problem, i, j, settings))
    return None


def _projections(problem: Problem, eps: float) -> tuple[list[list[Raw]], list[Raw], list[Any]]:
    """Random directions for inputs and outputs, and how the outputs change along the former."""
    generator = arrays.random.Generator()  # its own, of the same seed: the same verdict every time
    inputs = problem.inputs
    all_u = [[_direction(x, generator) for _ in range(1 + x.is_complex())] for x in inputs]
    numerical: list[Any] = []
    for x, u in zip(inputs, all_u, strict=True):
        steps = [eps * s.reshape(x.shape) * unit for s, unit in zip(u, (1, 1j), strict=False)]
        numerical.append(derivatives_along(problem.evaluate, memory_of(x), steps, eps))
    return all_u, [_direction(o, generator) for o in problem.outputs], numerical


def _check_forward(problem: Problem, settings: Settings, fast: bool, batched: bool) -> None:
    """Compare the tangents of forward mode."""
    from retrograd.autograd import _tangent_checks as tangents  # which brings forward mode along

    if fast:
        tangents.check_projection(problem, settings, *_projections(problem, settings.eps))
    else:
        tangents.check_all(problem, settings)
    if batched:
        tangents.check_batched(problem)


def _projection(gradient: Raw, u: list[Raw]) -> Raw:
    """``uᵀ g``; of a complex gradient, real and imaginary part each along their own direction."""
    if len(u) == 1:
        return arrays.sum(gradient * u[0])
    return arrays.sum(gradient.real * u[0]) + 1j * arrays.sum(gradient.imag * u[1])


def _slow_details(problem: Problem, i: int, j: int, settings: Settings) -> str:
    """What slow mode finds where fast mode has failed: it can tell the element."""
    x, output = problem.inputs[j], problem.outputs[i]
    numerical = numerical_jacobians(problem.evaluate, x, problem.outputs, settings.eps)[i]
    (analytical,), _, _ = vector_products(output, [x], unit_gradients(output))
    largest = arrays.amax(arrays.absolute(numerical - analytical))
    details = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode: they are sums over all elements, weighted at random. Below, we recompute \n"
        "numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {wrap(numerical)}\nAnalytical:\n{wrap(analytical)}\n\n"
        f"The max per-element difference (slow mode) is: {largest}.\n"
    )
    if close(analytical, numerical, settings.rtol, settings.atol).all():
        return details + (
            "Fast gradcheck failed but element-wise differences are small. This means that the\n"
            "test might've passed in slow_mode! Call gradcheck/gradgradcheck with "
            "`fast_mode=False`."
        )
    return details + worst_element(problem, i, j, numerical, analytical, settings)


# -- other things that a backward must do ----------------------------------------------------


def _zeros_for(outputs: list[Tensor]) -> list[Tensor]:
    return [beside(o, arrays.zeros(o.shape, o.dtype.numpy)) for o in outputs]


def _check_batched(outputs: list[Tensor], inputs: list[Tensor]) -> None:
    """That two gradients in a batch give what each of them gives alone."""
    generator = arrays.random.Generator()
    for i, output in enumerate(outputs):
        batch = arrays.random.normal((2, *output.shape), output.dtype.numpy, generator)
        alone = [
            grad(output, inputs, beside(output, g), retain_graph=True, allow_unused=True)
            for g in batch
        ]
        try:
            batched = grad(
                output, inputs, beside(output, batch), retain_graph=True, allow_unused=True,
                is_grads_batched=True,
            )  # fmt: skip
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\n{_BATCHED_FAILED}"
            ) from error
        for j, (x, got, *expected) in enumerate(zip(inputs, batched, *alone, strict=True)):
            zeros = arrays.zeros(x.shape, x.dtype.numpy)
            stacked = arrays.stack([zeros if g is None else values_of(g) for g in expected])
            values = arrays.zeros(stacked.shape, stacked.dtype) if got is None else values_of(got)
            if values.shape != stacked.shape or not close(values, stacked, 1e-5, 1e-8).all():
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
        if not (arrays.absolute(values_of(g)) <= (1e-8 if masked else 0.0)).all():
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
        outputs = differentiable(func(*arguments))
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
        if not all((values_of(g) == 0).all() for g in received if g is not None):
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
    """Compares the gradients of a function with finite differences.

    It also checks that a second backward pass gives the same gradients, and that gradients of zero
    lead to gradients of zero.

    Args:
        func: a function of tensors that returns a tensor or a tuple of tensors.
        inputs: the arguments, a tensor or a tuple. Those that require grad are checked; they should
            be of double precision.
        eps: step of the central differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: raise ``GradcheckError`` on failure; otherwise return False.
        nondet_tol: by how much two backward passes may differ.
        check_undefined_grad: check that missing gradients of outputs are treated as zeros.
        check_grad_dtypes: check that gradients have the dtypes of their inputs.
        check_batched_grad: check batches of gradients, computed by ``vmap``.
        check_batched_forward_grad: check batches of tangents, computed by ``vmap``.
        check_forward_ad: check the tangents of forward mode.
        check_backward_ad: check the gradients of reverse mode.
        fast_mode: compare random projections of the Jacobians rather than whole Jacobians.
        masked: let gradients of zero lead to gradients of almost zero.

    Returns:
        True if all checks pass.

    Example:
        >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(lambda x: (x.sin(), x.prod()), x)
        True
        >>> torch.autograd.gradcheck(lambda x: x * x.detach(), x, raise_exception=False)
        False
    """
    _require_one_of(check_forward_ad=check_forward_ad, check_backward_ad=check_backward_ad)
    _require_for("check_batched_grad", check_batched_grad, check_backward_ad=check_backward_ad)
    _require_for(
        "check_batched_forward_grad", check_batched_forward_grad, check_forward_ad=check_forward_ad
    )
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(
                f"{name} must be greater than or equal to zero, but got {tolerance:g}"
            )
    arguments = as_tuple(inputs)
    variables = check_inputs(arguments)
    settings = Settings(eps, atol, rtol, nondet_tol, check_grad_dtypes)
    try:
        with repeatable(variables):
            outputs = outputs_of(func(*arguments))
            for problem in problems(func, arguments, outputs, variables):
                if check_backward_ad:
                    (_check_fast if fast_mode else _check_slow)(problem, settings)
                if check_forward_ad:
                    _check_forward(problem, settings, fast_mode, check_batched_forward_grad)
            if not check_backward_ad:
                return True
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


@like(gradcheck)
def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True, fast_mode: bool = False,
    masked: bool = False,
) -> bool:  # fmt: skip
    """Compares second derivatives of a function with finite differences of its gradients.

    It is ``gradcheck`` of the function that computes the gradients of ``func`` from its inputs and
    from ``grad_outputs``.

    Args:
        inputs: the arguments: see ``gradcheck``.
        grad_outputs: gradients of the outputs that require grad; random ones by default.
        gen_non_contig_grad_outputs: make the random gradients non-contiguous.
        check_fwd_over_rev: check forward mode over reverse mode.
        check_rev_over_rev: check reverse mode over reverse mode.

    Example:
        >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradgradcheck(lambda x: x.exp() * x, x)
        True
    """
    backward = {"check_rev_over_rev": check_rev_over_rev}
    _require_one_of(check_fwd_over_rev=check_fwd_over_rev, **backward)
    _require_for("check_undefined_grad", check_undefined_grad, **backward)
    _require_for("check_batched_grad", check_batched_grad, **backward)
    arguments = as_tuple(inputs)
    if grad_outputs is None:
        starts = tuple(
            _random_gradient(o, gen_non_contig_grad_outputs)
            for o in differentiable(func(*arguments))
        )
    else:
        starts = as_tuple(grad_outputs)

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        given, grads = args[: len(arguments)], args[len(arguments) :]
        returned = func(*given)
        outputs, variables = differentiable(returned), list(requiring_grad(given))
        if not outputs:  # no gradients: what is left to check is that there should be none
            return as_tuple(returned)
        received = grad(outputs, variables, grads, create_graph=True, allow_unused=True)
        return tuple(g for g in received if g is not None)

    return gradcheck(
        gradients, (*arguments, *starts), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, masked=masked,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
    )  # fmt: skip


def _require_one_of(**options: bool) -> None:
    if not any(options.values()):
        raise AssertionError(f"Expected at least one of {' or '.join(options)} to be True")


def _require_for(option: str, asked: bool, **needed: bool) -> None:
    (name,) = needed
    if asked and not needed[name]:
        raise AssertionError(f"Setting {option}=True requires {name} to be True")


def _random_gradient(output: Tensor, with_gaps: bool) -> Tensor:
    """Numbers from [-1, 1) in the shape of ``output``, from the default generator."""
    values = arrays.random.uniform(tuple(output.shape), output.dtype.numpy, None, -1.0, 1.0)
    if with_gaps and values.size > 1:
        return beside(output, values.repeat(2, -1))[..., ::2].requires_grad_()
    return beside(output, values).requires_grad_()


# -- kept for programs that use them ---------------------------------------------------------


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any], input_idx: int, inputs: Any, outputs: Any, eps: float,
    input: Any = None, is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The Jacobian of each output of ``fn`` with respect to one input, by central differences.

    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> get_numerical_jacobian_wrt_specific_input(lambda x: x * 3, 0, (x,), (x * 3,), 1e-3)
    (tensor([[3.0000, 0.0000],
            [0.0000, 3.0000]], dtype=torch.float64),)
    """
    arguments = as_tuple(inputs)
    x = arguments[input_idx] if input is None else input
    if not x.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    shapes = outputs_of(outputs)
    if any(o.is_complex() for o in shapes) and (x.is_complex() or not is_forward_ad):
        raise AssertionError("Expected ds_dx to be real-valued, not complex")

    def evaluate() -> list[Raw]:
        return [values_of(o).copy() for o in outputs_of(fn(*arguments))]

    return tuple([beside(x, j) for j in numerical_jacobians(evaluate, x, shapes, eps)])


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The Jacobians of the first output of ``fn``, which takes the inputs as one tuple, with
    respect to each input that requires grad, or to ``target``. Deprecated, as in PyTorch."""
    arguments = as_tuple(inputs)
    outputs = outputs_of(fn(arguments))
    _check_private("get_numerical_jacobian", grad_out, outputs)
    return tuple(
        get_numerical_jacobian_wrt_specific_input(
            lambda *args: fn(args), 0, arguments, outputs, eps, input=x
        )[0]
        for x in requiring_grad(arguments if target is None else target)
    )


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """The Jacobians of ``output`` with respect to each input that requires grad; and whether they
    came out the same twice, in the right sizes, and in the right dtypes. Deprecated, as in
    PyTorch."""
    _check_private("get_analytical_jacobian", grad_out, [output])
    variables, units = list(requiring_grad(inputs)), unit_gradients(output)
    first, sizes_ok, types_ok = vector_products(output, variables, units)
    again, _, _ = vector_products(output, variables, units)
    jacobians = tuple([beside(x, j) for x, j in zip(variables, first, strict=True)])
    return jacobians, same_gradients(first, again, nondet_tol), sizes_ok, types_ok


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


class _Callable(ModuleType):
    """This module, which a program may import before it calls ``autograd.gradcheck``: the name
    then means the module, and calling it must check gradients all the same."""

    def __call__(self, *args: Any, **kwargs: Any) -> bool:
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

__all__ = ["GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian",
           "get_numerical_jacobian_wrt_specific_input", "gradcheck", "gradgradcheck"]  # fmt: skip
