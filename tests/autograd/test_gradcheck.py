"""gradcheck and gradgradcheck pass what is right, find what is wrong, and say so as PyTorch does.

A program is a function of the library to use, so that the same one runs in both.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import itertools
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

JACOBIANS = sys.modules["retrograd.autograd._jacobians"]
MODULE = sys.modules["retrograd.autograd.gradcheck"]  # the name alone may mean the function
MODES = pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
CHECKS = pytest.mark.parametrize("check", ["gradcheck", "gradgradcheck"])
Program = Callable[[Any], tuple[Any, Any]]


@pytest.fixture(name="torch")
def _torch() -> Any:
    return pytest.importorskip("torch", reason="compared with PyTorch, which is not installed")


def raises(error: type[Exception], start: str) -> Any:
    return pytest.raises(error, match="^" + re.escape(start))


def checks_of(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.autograd.gradcheck")


def real(t: Any, *shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).uniform(0.3, 1.7, shape)
    return t.tensor(values.tolist(), dtype=t.float64, requires_grad=True)


def cplx(t: Any, *shape: int, seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed)
    values = numbers.uniform(0.3, 1.7, shape) + 1j * numbers.uniform(0.3, 1.7, shape)
    return t.tensor(values.tolist(), dtype=t.complex128, requires_grad=True)


def custom(t: Any, forward: Any, backward: Any, materialize_grads: bool = True) -> Any:
    """An operation with a backward of the test's own: ``backward(x, *grads)``."""

    class Custom(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(materialize_grads)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return backward(*ctx.saved_tensors, *grads)

    return Custom.apply


def square(t: Any, backward: Callable[..., Any]) -> Any:
    return custom(t, lambda x: x * x, backward)


def one_element(t: Any, x: Any) -> Any:
    """Zeros but for the last element."""
    mask = np.zeros(tuple(x.shape))
    mask[(-1,) * mask.ndim] = 1.0
    return t.tensor(mask, dtype=x.dtype)


RIGHT: dict[str, Program] = {
    "scalar": lambda t: (lambda x: x * x.exp(), real(t)),
    "empty": lambda t: (lambda x: x.sin(), real(t, 0)),
    "empty matrix": lambda t: (
        lambda x: x * x, t.zeros(0, 3, dtype=t.float64, requires_grad=True)),
    "empty output": lambda t: (lambda x: x[:0] * 2, real(t, 3)),
    "matrix": lambda t: (lambda x: x.log().tanh(), real(t, 2, 3)),
    "four dimensions": lambda t: (lambda x: x.sqrt().sum(1), real(t, 1, 2, 3, 1)),
    "reduced": lambda t: (lambda x: x.prod(), real(t, 4)),
    "two inputs": lambda t: (lambda x, y: x @ y, (real(t, 2, 3), real(t, 3, 2, seed=1))),
    "broadcast": lambda t: (lambda x, y: x / y, (real(t, 2, 1), real(t, 3, seed=1))),
    "in a list": lambda t: (lambda x, y: x - y, [real(t, 2), real(t, 2, seed=1)]),
    "several outputs": lambda t: (
        lambda x, y: (x * y, (x * y).sum(), [x.sin()][0]), (real(t, 3), real(t, 3, seed=1))),
    "a list of outputs": lambda t: (lambda x: [x * 2, x.exp()], real(t, 2)),
    "unused": lambda t: (lambda x, y: x.exp(), (real(t, 3), real(t, 2, seed=1))),
    "not all require grad": lambda t: (
        lambda k, x, n: x**k * n, (3, real(t, 3), real(t, 3, seed=1).detach())),
    "the input itself": lambda t: (lambda x: x, real(t, 3)),
    "a view of the input": lambda t: (lambda x: x.view(-1)[1:], real(t, 2, 2)),
    "the same input twice": lambda t: (lambda x, y: x * y, (real(t, 3),) * 2),
    "indexed": lambda t: (lambda x: x[[0, 0, 2]] * x[1], real(t, 3)),
    "in place": lambda t: (lambda x: x.clone().mul_(x).add_(1), real(t, 3)),
    "not a leaf": lambda t: (lambda x: x.exp(), real(t, 3) * 2),
    "not contiguous": lambda t: (lambda x: x.exp(), real(t, 3, 2).detach().t().requires_grad_()),
    "complex": lambda t: (lambda z: z * z.exp(), cplx(t, 2, 2)),
    "complex scalar": lambda t: (lambda z: z.sin(), cplx(t)),
    "complex to real": lambda t: (lambda z: z.abs() * z.real + z.imag, cplx(t, 3)),
    "real to complex": lambda t: (lambda x: x * (1 + 2j), real(t, 3)),
    "conjugated": lambda t: (lambda z: z.conj() * z, cplx(t, 3)),
    "complex division": lambda t: (lambda z, w: z / w, (cplx(t, 2), cplx(t, 2, seed=1))),
    "complex product": lambda t: (lambda z, w: z @ w, (cplx(t, 2, 2), cplx(t, 2, 2, seed=1))),
    "complex and real outputs": lambda t: (lambda z: (z.abs(), z * z, z.imag), cplx(t, 2)),
    "a custom operation": lambda t: (square(t, lambda x, g: g * 2 * x), real(t, 3)),
    "a complex custom operation": lambda t: (
        square(t, lambda z, g: g * 2 * z.conj()), cplx(t, 3)),
}  # fmt: skip

# The program, the part of complex outputs in which it fails first, and the worst element there.
WRONG: dict[str, tuple[Program, str, list[int]]] = {
    "sign": (lambda t: (square(t, lambda x, g: -2 * g * x), real(t, 3)), "", [0, 0]),
    "factor": (lambda t: (square(t, lambda x, g: 2.01 * g * x), real(t, 2, 2)), "", [0, 0]),
    "an element": (
        lambda t: (square(t, lambda x, g: 2 * g * x + g * one_element(t, x)), real(t, 2, 3)),
        "", [5, 5]),
    "a missing conjugate": (
        lambda t: (square(t, lambda z, g: 2 * g * z), cplx(t, 2)), "imaginary", [1, 1]),
    "the real part only": (
        lambda t: (custom(t, lambda z: z.abs(), lambda z, g: g * z.real / z.abs() + 0j),
                   cplx(t, 2)),
        "", [1, 1]),
    "transposed": (
        lambda t: (custom(t, lambda x: x.t() * 1, lambda x, g: g), real(t, 2, 2)), "", [1, 1]),
    "a gradient of zero": (
        lambda t: (custom(t, lambda x: x.exp(), lambda x, g: g * 0), real(t, 3)), "", [0, 0]),
    "no gradient": (
        lambda t: (custom(t, lambda x: x.exp(), lambda x, g: None), real(t, 3)), "", [0, 0]),
    "the real part of the output": (
        lambda t: (custom(t, lambda z: z * 1, lambda z, g: g.imag * 1j + 2 * g.real), cplx(t, 2)),
        "real", [0, 0]),
    "an infinite slope": (
        lambda t: (custom(t, lambda x: (x - 1) * float("inf"), lambda x, g: 3 * g),
                   t.ones(1, dtype=t.float64, requires_grad=True)),
        "", [0, 0]),
    "not a number": (
        lambda t: (square(t, lambda x, g: g * x * float("nan")), real(t, 2)), "", [0, 0]),
    "part detached": (lambda t: (lambda x: x * x.detach(), real(t, 2)), "", [0, 0]),
}  # fmt: skip


def three_outputs(t: Any, if_one_is_missing: Callable[[Any], Any]) -> Any:
    """Slow and fast mode look at one output at a time, so two gradients are missing there."""

    def backward(x: Any, *grads: Any) -> Any:
        if sum(g is None for g in grads) == 1:
            return if_one_is_missing(x)
        return sum((k * g for k, g in enumerate(grads, 2) if g is not None), start=x.detach() * 0)

    return custom(t, lambda x: (x * 2, x * 3, x * 4), backward, materialize_grads=False)


OTHERS: dict[str, Program] = {  # wrong in other ways
    "the second output": lambda t: (
        lambda x: (x.exp(), square(t, lambda x, g: g * x)(x)), real(t, 2)),
    "the second input": lambda t: (
        lambda x, y: x * square(t, lambda x, g: g * x)(y), (real(t, 2), real(t, 2, seed=1))),
    "a complex output among real ones": lambda t: (
        lambda z: (z.real, square(t, lambda z, g: 2 * g * z)(z)), cplx(t, 2)),
    "the second derivative": lambda t: (square(t, lambda x, g: 2 * g * x.detach()), real(t, 2)),
    "a complex second derivative": lambda t: (
        square(t, lambda z, g: 2 * g * z.detach().conj()), cplx(t, 2)),
    "detached": lambda t: (lambda x: x.detach() * 2, real(t, 2)),
    "complex, detached": lambda t: (lambda z: z.detach() * 2, cplx(t, 2)),
    "constant": lambda t: (lambda x: t.ones(2, dtype=t.float64), real(t, 2)),
    "no dependence on the gradient": lambda t: (
        custom(t, lambda x: x.sum(), lambda x, g: x * 0 + 1), real(t, 2)),
    "overlapping": lambda t: (lambda x: x.exp(), real(t, 1).expand(3)),
    "nothing requires grad": lambda t: (lambda x: x.exp(), real(t, 2).detach()),
    "an undefined gradient": lambda t: (
        three_outputs(t, lambda x: t.ones_like(x)), real(t, 2)),
}  # fmt: skip


# -- right and wrong ------------------------------------------------------------------------------


@MODES
@CHECKS
@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name: str, check: str, fast_mode: bool) -> None:
    func, inputs = RIGHT[name](retrograd)
    options = {"check_batched_grad": True, "check_grad_dtypes": True, "fast_mode": fast_mode}
    assert getattr(MODULE, check)(func, inputs, **options) is True


@MODES
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_fail_at_the_right_element(name: str, fast_mode: bool) -> None:
    program, part, worst = WRONG[name]
    func, inputs = program(retrograd)
    prefix = f"While considering the {part} part of complex outputs only, " if part else ""
    with pytest.raises(GradcheckError) as caught:
        gradcheck(func, inputs, fast_mode=fast_mode)
    message = str(caught.value)
    assert message.startswith(
        f"{prefix}Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"
    )
    assert "\nanalytical:" in message
    assert f"The worst element is {worst}, of input element " in message
    assert gradcheck(func, inputs, fast_mode=fast_mode, raise_exception=False) is False


def test_the_message_names_the_worst_element_and_its_relative_error() -> None:
    x = retrograd.tensor([[1.0, 2.0]], dtype=retrograd.float64, requires_grad=True)
    wrong = square(retrograd, lambda x, g: 2 * g * x - g * one_element(retrograd, x))
    message = (
        "Jacobian mismatch for output 0 with respect to input 0,\n"
        "numerical:tensor([[2.0000, 0.0000],\n"
        "        [0.0000, 4.0000]], dtype=torch.float64)\n"
        "analytical:tensor([[2., 0.],\n"
        "        [0., 3.]], dtype=torch.float64)\n"
        "The worst element is [1, 1], of input element [0, 1] and output element [0, 1]: "
        "numerical 4, analytical 3, relative error 0.25.\n"
    )
    with pytest.raises(GradcheckError) as slow:
        gradcheck(wrong, x)
    assert str(slow.value) == message
    with pytest.raises(GradcheckError) as without_atol:  # nothing to divide by where all is zero
        gradcheck(wrong, x, atol=0.0)
    assert str(without_atol.value) == message
    with pytest.raises(GradcheckError) as fast:
        gradcheck(wrong, x, fast_mode=True)
    summary, details = str(fast.value).split("\n\nThe above quantities")
    assert float(re.search("numerical:(.*)", summary)[1]) == pytest.approx(3.2, abs=1.2)
    assert "in slow mode:\n\nNumerical:\n tensor([[2.0000, 0.0000]" in details
    assert "The max per-element difference (slow mode) is: 1.000000000" in details
    assert details.endswith(message[message.index("The worst") :])


def test_fast_mode_says_when_slow_mode_would_have_passed() -> None:
    # Each element is off by a little less than rtol, all in one direction, and cancels nearly.
    slopes = retrograd.tensor([1000.0, -900.0], dtype=retrograd.float64)
    almost = custom(
        retrograd, lambda x: x * slopes, lambda x, g: g * (slopes + 0.9e-3 * slopes.abs())
    )
    assert gradcheck(almost, real(retrograd, 2))
    with pytest.raises(GradcheckError, match="Fast gradcheck failed but element-wise differences"):
        gradcheck(almost, real(retrograd, 2), fast_mode=True)


def test_fast_mode_evaluates_a_few_times_only() -> None:
    calls = itertools.count()
    x = real(retrograd, 50, 40)
    assert gradcheck(lambda x: (next(calls), x.sin())[1], x, fast_mode=True)
    assert next(calls) == 4  # outputs, one step each way, and undefined gradients


# -- compared with PyTorch ------------------------------------------------------------------------

EVERYTHING: dict[str, Program] = {**RIGHT, **{k: v[0] for k, v in WRONG.items()}, **OTHERS}


def verdict(t: Any, check: str, program: Program, **options: Any) -> Any:
    """True, or the error's type and the message's first line and numbers."""
    t.manual_seed(0)  # gradgradcheck draws its grad_outputs
    func, inputs = program(t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(checks_of(t), check)(func, inputs, **options)
        except Exception as error:
            return type(error).__name__, str(error)


@MODES
@CHECKS
@pytest.mark.parametrize("name", EVERYTHING)
def test_the_verdict_is_pytorchs(torch: Any, name: str, check: str, fast_mode: bool) -> None:
    ours, theirs = (
        verdict(t, check, EVERYTHING[name], fast_mode=fast_mode) for t in (retrograd, torch)
    )
    if theirs is not True and theirs[0] == "TypeError":
        # gradgradcheck of what has no gradient: PyTorch calls the function without its inputs.
        assert "missing 1 required positional argument" in theirs[1]
        assert ours == verdict(retrograd, "gradcheck", EVERYTHING[name], fast_mode=fast_mode)
        return
    if theirs is True or "mismatch" not in theirs[1]:
        hint = " Please look"  # at a file of PyTorch's own
        assert ours == theirs or ours[1].startswith(theirs[1].split(hint)[0])
        assert ours is theirs or ours[0] == theirs[0]
        return
    pattern = r"(.*)\nnumerical:(.*)\nanalytical:(.*?)\n(\n|The worst|\Z)"
    parts = [re.match(pattern, message, re.DOTALL).groups()[:3] for _, message in (ours, theirs)]
    assert parts[0][0] == parts[1][0]
    for our_numbers, their_numbers in zip(parts[0][1:], parts[1][1:], strict=True):
        values = [
            [float(x) for x in re.findall(r"[-+]?(?:nan|\d+\.?\d*(?:e[-+]\d+)?)", text)]
            for text in (our_numbers, their_numbers)
        ]
        np.testing.assert_allclose(*values, rtol=1e-3, atol=2e-4)


@CHECKS
def test_the_signature_is_pytorchs(torch: Any, check: str) -> None:
    ours, theirs = (
        [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
        for function in (getattr(MODULE, check), getattr(checks_of(torch), check))
    )
    assert ours == theirs


def test_fast_mode_projects_on_pytorchs_vectors(torch: Any) -> None:
    inputs, outputs = (real(torch, 2, 3), cplx(torch, 5)), (real(torch, 4),)
    all_v, all_u, _ = checks_of(torch)._make_vectors(inputs, outputs, use_forward_ad=False)
    expected = [all_u[0], *all_u[1], all_v[0]]
    generator = retrograd.Generator()
    shapes = [real(retrograd, 2, 3), *[cplx(retrograd, 5)] * 2, real(retrograd, 4)]
    for tensor, vector in zip(shapes, expected, strict=True):
        np.testing.assert_allclose(MODULE._direction(tensor, generator), vector.numpy(), rtol=1e-14)


@pytest.mark.parametrize("make", [real, cplx])
def test_gradgradcheck_draws_the_gradients_that_pytorch_draws(torch: Any, make: Any) -> None:
    torch.manual_seed(3)
    retrograd.manual_seed(3)
    expected = torch.testing.make_tensor(
        (2, 5), dtype=make(torch, 1).dtype, device="cpu", low=-1, high=1
    )
    drawn = MODULE._random_gradient(make(retrograd, 2, 5), False)
    np.testing.assert_array_equal(drawn.detach().numpy(), expected.numpy())


def test_the_jacobians_are_pytorchs(torch: Any) -> None:
    def jacobians(t: Any) -> list[Any]:
        x, y, z = real(t, 2), real(t, 2, 2, seed=1), cplx(t, 2)
        checks = checks_of(t)
        private = "was part of PyTorch's private API and not meant to be exposed"
        with pytest.warns(FutureWarning, match=private) as warned:
            numerical = checks.get_numerical_jacobian(lambda args: args[0] @ args[1], (x, y))
        with pytest.warns(FutureWarning, match=private):
            by_target = checks.get_numerical_jacobian(lambda _: x.exp(), (y,), target=[x])
        with pytest.warns(FutureWarning, match=private):
            analytical, *flags = checks.get_analytical_jacobian((x, y), x @ y)
        specific = checks.get_numerical_jacobian_wrt_specific_input(
            lambda x, z: (z.abs(), x.sin(), x.argmax()), 1, (x, z), (z.abs(), x.sin()), 1e-4
        )
        assert flags == [True, True, True]
        assert [w.filename for w in warned] == [__file__]
        return [*numerical, *by_target, *analytical, *specific]

    for ours, theirs in zip(jacobians(retrograd), jacobians(torch), strict=True):
        assert str(ours.dtype) == str(theirs.dtype)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-9)


# -- tolerances -----------------------------------------------------------------------------------


def off_by(delta: float) -> Any:
    """The function 3x with a gradient of 3 + delta."""
    return custom(retrograd, lambda x: 3 * x, lambda x, g: (3 + delta) * g)


@MODES
@pytest.mark.parametrize(
    ("delta", "atol", "rtol", "passes"),
    [
        (0.9e-5, 1e-5, 0.0, True),
        (1.1e-5, 1e-5, 0.0, False),
        (2.9e-3, 0.0, 1e-3, True),
        (3.1e-3, 0.0, 1e-3, False),
        (-2.9e-3, 0.0, 1e-3, True),
        (-3.1e-3, 0.0, 1e-3, False),
        (3.9e-3, 1e-3, 1e-3, True),
        (4.1e-3, 1e-3, 1e-3, False),
        (1e-3, 0.0, 0.0, False),
        (100.0, float("inf"), 0.0, True),
        (float("nan"), float("inf"), 0.0, False),
        (float("inf"), 1.0, 1.0, False),
    ],
)
def test_an_error_may_be_atol_and_rtol(
    delta: float, atol: float, rtol: float, passes: bool, fast_mode: bool
) -> None:
    options = {"atol": atol, "rtol": rtol, "fast_mode": fast_mode, "check_undefined_grad": False}
    x = retrograd.tensor([0.5], dtype=retrograd.float64, requires_grad=True)
    if passes or np.isfinite(delta):
        assert gradcheck(off_by(delta), x, raise_exception=False, **options) is passes
    else:
        with pytest.raises(
            GradcheckError, match=f"analytical {delta}, relative error {delta}".lower()
        ):
            gradcheck(off_by(delta), x, **options)


@MODES
def test_each_element_may_be_off_by_atol(fast_mode: bool) -> None:
    def outcome(delta: float) -> bool:
        total = custom(
            retrograd,
            lambda x: x.sum() * retrograd.ones(3, dtype=x.dtype),
            lambda x, g: ((1 + delta) * g.sum()).expand(5),
        )
        options = {"rtol": 0.0, "atol": 1e-5, "fast_mode": fast_mode, "raise_exception": False}
        return gradcheck(total, real(retrograd, 5), **options)

    assert outcome(0.99e-5) is True
    assert outcome(1.01e-5) is False


@MODES
def test_the_width_of_the_difference_is_eps(fast_mode: bool) -> None:
    x = retrograd.tensor([1.0], dtype=retrograd.float64, requires_grad=True)
    cube = lambda x: x**3  # its central difference is off by eps squared
    options = {"atol": 0.0, "rtol": 1e-3, "fast_mode": fast_mode, "raise_exception": False}
    assert gradcheck(cube, x, eps=0.04, **options) is True
    assert gradcheck(cube, x, eps=0.06, **options) is False


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_negative_tolerance_is_an_error(name: str) -> None:
    message = f"^{name} must be greater than or equal to zero, but got -0.5$"
    with pytest.raises(RuntimeError, match=message) as caught:
        gradcheck(lambda x: x, real(retrograd, 2), **{name: -0.5})
    assert not isinstance(caught.value, GradcheckError)


# -- the other checks -----------------------------------------------------------------------------


@MODES
def test_a_backward_that_is_not_deterministic(fast_mode: bool) -> None:
    signs = itertools.cycle([1.0, -1.0])
    noisy = square(retrograd, lambda x, g: g * (2 * x + 1e-7 * next(signs)))
    options = {"fast_mode": fast_mode, "check_undefined_grad": False}
    x = real(retrograd, 1)
    with raises(GradcheckError, "Backward is not reentrant, i.e., running backward"):
        gradcheck(noisy, x, **options)
    with pytest.raises(GradcheckError, match="The tolerance for nondeterminism was 1e-07"):
        gradcheck(noisy, x, nondet_tol=1e-7, **options)
    assert gradcheck(noisy, x, nondet_tol=3e-7, **options)


def test_not_a_number_in_the_second_run_only_is_not_deterministic() -> None:
    values = itertools.cycle([1.0, float("nan")])
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(square(retrograd, lambda x, g: g * 2 * x * next(values)), real(retrograd, 1))


@MODES
def test_a_backward_that_writes_into_the_gradient_it_gets(fast_mode: bool) -> None:
    # In fast mode PyTorch gives it the same memory twice, and takes it for nondeterministic.
    func = square(retrograd, lambda x, g: g.mul_(2 * x))
    assert gradcheck(func, real(retrograd, 2), fast_mode=fast_mode)


def test_an_undefined_gradient_counts_as_zero() -> None:
    x = real(retrograd, 2)
    assert gradcheck(three_outputs(retrograd, lambda x: None), x)
    careless = three_outputs(retrograd, lambda x: x * None)
    ones = three_outputs(retrograd, retrograd.ones_like)
    for func, message in (
        (careless, "Expected backward function to handle undefined output grads."),
        (ones, "Expected all input grads to be undefined or zero when all output grads are"),
    ):
        with (
            pytest.warns(UserWarning, match='"check_undefined_grad=False" to disable') as warned,
            raises(GradcheckError, message) as caught,
        ):
            gradcheck(func, x)
        assert [w.filename for w in warned] == [__file__]
        assert isinstance(caught.value.__cause__, TypeError) == (func is careless)
        assert gradcheck(func, x, check_undefined_grad=False)


@MODES
def test_a_gradient_must_be_a_multiple_of_what_comes_in(fast_mode: bool) -> None:
    x = real(retrograd, 2)
    constant = custom(retrograd, lambda x: x.sum(), lambda x, g: x.detach() * 0 + 1)
    with raises(GradcheckError, "backward not multiplied by grad_output"):
        gradcheck(constant, x, fast_mode=fast_mode)
    nearly = custom(retrograd, lambda x: x.sum(), lambda x, g: x.detach() * 0 + g + 1e-9)
    options = {"fast_mode": fast_mode, "check_undefined_grad": False, "raise_exception": False}
    assert gradcheck(nearly, x, masked=True, **options) is True
    assert gradcheck(nearly, x, masked=False, **options) is False


def test_gradients_of_another_dtype_or_size(monkeypatch: pytest.MonkeyPatch) -> None:
    x = real(retrograd, 2)
    backward = MODULE.grad
    for change, options, message in (
        (lambda g: g.float(), {"check_grad_dtypes": True}, "^Gradient has dtype mismatch$"),
        (lambda g: g * (1 + 0j), {"check_grad_dtypes": True}, "^Gradient has dtype mismatch$"),
        (lambda g: g.float(), {}, "^grad is incorrect type$"),
        (lambda g: g[:1], {}, "^Analytical gradient has incorrect size$"),
    ):
        for module in (MODULE, JACOBIANS):
            monkeypatch.setattr(
                module, "grad", lambda *a, c=change, **k: [c(g) for g in backward(*a, **k)]
            )
        with pytest.raises(GradcheckError, match=message):
            gradcheck(lambda x: x * 2, x, **options)


def test_batches_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    x = real(retrograd, 2)
    backward = MODULE.grad

    def wrong(*args: Any, is_grads_batched: bool = False, **options: Any) -> Any:
        received = backward(*args, is_grads_batched=is_grads_batched, **options)
        return [g + 1e-3 if is_grads_batched else g for g in received]

    def failing(*args: Any, is_grads_batched: bool = False, **options: Any) -> Any:
        if is_grads_batched:
            raise RuntimeError("no batches")
        return backward(*args, **options)

    for grad, message in (
        (wrong, "^For output 0 and input 0:\n\ngradcheck or gradgradcheck failed while testing"),
        (failing, "^While computing batched gradients, got: no batches\n\n"),
    ):
        monkeypatch.setattr(MODULE, "grad", grad)
        assert gradcheck(lambda x: x.sin(), x)
        with pytest.raises(GradcheckError, match=message):
            gradcheck(lambda x: x.sin(), x, check_batched_grad=True)


# -- inputs and outputs ---------------------------------------------------------------------------


def test_inputs_in_single_precision_are_warned_of() -> None:
    x = real(retrograd, 2).detach().float().requires_grad_()
    with pytest.warns(
        UserWarning, match="^Input #1 requires gradient and is not a double"
    ) as warned:
        assert gradcheck(lambda _, x: x * 2, (0, x), eps=1e-2, atol=1e-2) is True
    assert [w.filename for w in warned] == [__file__]


def test_unsuitable_inputs() -> None:
    x = real(retrograd, 3)
    with raises(ValueError, "gradcheck expects at least one input tensor to require"):
        gradcheck(lambda x: x, x.detach())
    with raises(RuntimeError, "The 1th input has a dimension with stride 0. gradcheck"):
        gradcheck(lambda _, x: x, (None, x.expand(2, 3)))


def test_tensors_in_nested_lists_are_inputs_too() -> None:
    x, y = real(retrograd, 2), real(retrograd, 2, seed=1)
    assert gradcheck(lambda pair, k: pair[0] * pair[1] ** k, ([x, y], 2))
    with pytest.raises(GradcheckError, match="mismatch for output 0 with respect to input 1,"):
        gradcheck(lambda pair: pair[0] * (pair[1] * pair[1].detach()), ((x, y),))


@MODES
def test_nothing_is_left_behind(fast_mode: bool) -> None:
    x, z = real(retrograd, 2), cplx(retrograd, 2)
    x.grad = retrograd.ones(2, dtype=retrograd.float64)
    before = x.tolist(), z.tolist(), x._version, z._version, retrograd.get_rng_state().tolist()
    assert gradcheck(lambda x, z: x * z, (x, z), fast_mode=fast_mode, check_batched_grad=True)
    calls = itertools.count()

    def fails(x: Any, z: Any) -> Any:
        if next(calls) % 3 == 2:  # with an element of x moved
            raise KeyError("in the middle")
        return x * z

    with pytest.raises(KeyError, match="in the middle"):
        gradcheck(fails, (x, z), fast_mode=fast_mode, raise_exception=False)
    after = x.tolist(), z.tolist(), x._version, z._version, retrograd.get_rng_state().tolist()
    assert after == before
    assert x.grad.tolist() == [1.0, 1.0]


@MODES
def test_outputs_without_a_gradient_among_others(fast_mode: bool) -> None:
    x = real(retrograd, 3)
    outputs = lambda x: (x.argmax(), x > 1, x.detach(), x.sin(), x.argmin(), x * 2)
    assert gradcheck(outputs, x, fast_mode=fast_mode)
    assert gradgradcheck(outputs, x, fast_mode=fast_mode)
    assert gradcheck(lambda x: x.argmax(), x, fast_mode=fast_mode)
    with raises(GradcheckError, "Jacobian mismatch for output 1 with respect to"):
        gradcheck(lambda x: (*outputs(x)[:4], x * x.detach()), x, fast_mode=fast_mode)


@MODES
def test_outputs_cut_from_the_graph(fast_mode: bool) -> None:
    x = real(retrograd, 2)
    message = "^Numerical gradient for function expected to be zero: .* change with input 0."
    for func in (lambda x: x.detach(), lambda x: retrograd.from_numpy(x.detach().numpy() * 2)):
        with pytest.raises(GradcheckError, match=message):
            gradcheck(func, x, fast_mode=fast_mode)
    with retrograd.no_grad(), pytest.raises(GradcheckError, match=message):
        gradcheck(lambda x: x * 2, x, fast_mode=fast_mode)
    assert gradcheck(lambda x: x.detach() * 1e-9, x, fast_mode=True, nondet_tol=1e-6)


def test_outputs_that_are_not_tensors_or_change() -> None:
    x = retrograd.tensor([1.0], dtype=retrograd.float64, requires_grad=True)
    with raises(AttributeError, "'int' object has no attribute 'requires_grad': gradcheck expects"):
        gradcheck(lambda x: (x, 3), x)
    for func, message in (
        (lambda x: x[x > 1], r"same shape .* on index \(0,\) by 1e-06, .*\[0\]\) and .*\[1\]\)\.$"),
        (
            lambda x: x if x.item() <= 1 else x.float(),
            "same dtype .* torch.float64 and torch.float32",
        ),
        (lambda x: x if x.item() <= 1 else (x, x), "same number of outputs .* 1 and 2"),
    ):
        with pytest.raises(AssertionError, match=message):
            gradcheck(func, x, raise_exception=False)


# -- what may be asked for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "options"),
    [
        ("gradcheck", {"check_backward_ad": False}),
        ("gradcheck", {"check_backward_ad": False, "check_batched_grad": True,
                       "check_forward_ad": True}),
        ("gradcheck", {"check_batched_forward_grad": True}),
        ("gradgradcheck", {"check_rev_over_rev": False}),
        ("gradgradcheck", {"check_rev_over_rev": False, "check_fwd_over_rev": True}),
        ("gradgradcheck", {"check_rev_over_rev": False, "check_fwd_over_rev": True,
                           "check_undefined_grad": False, "check_batched_grad": True}),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other(torch: Any, check: str, options: Any) -> None:
    ours, theirs = (
        verdict(t, check, lambda t: (lambda x: x, real(t, 2)), **options)
        for t in (retrograd, torch)
    )
    assert ours == theirs
    assert ours[0] == "AssertionError"


@MODES
def test_what_is_differentiable_once_says_so(fast_mode: bool) -> None:
    """PyTorch takes the missing derivative for zero, and calls that a mismatch."""
    once = retrograd.autograd.function.once_differentiable(lambda x, g: 2 * g * x)
    func, x = square(retrograd, once), real(retrograd, 2)
    assert gradcheck(func, x, fast_mode=fast_mode)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        gradgradcheck(func, x, fast_mode=fast_mode)


# -- forward mode --------------------------------------------------------------------------------


def wrong_tangent(torch: Any) -> Any:
    """The identity, with a right gradient and a wrong tangent."""

    def forward(x: Any) -> Any:
        return x * 1

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    members = {"forward": forward, "setup_context": setup_context, "backward": lambda ctx, g: g,
               "jvp": lambda ctx, t: 2 * t}  # fmt: skip
    static = {n: staticmethod(f) for n, f in members.items()}
    return type("Wrong", (torch.autograd.Function,), static).apply


@MODES
@pytest.mark.filterwarnings("ignore:.torch.jit.script.*:DeprecationWarning")
def test_tangents_are_checked(torch: Any, fast_mode: bool) -> None:
    for t in (retrograd, torch):
        check = t.autograd.gradcheck
        x, z = real(t, 3), cplx(t, 2)
        for options in ({}, {"check_batched_forward_grad": True}, {"check_backward_ad": False}):
            options = {"check_forward_ad": True, "fast_mode": fast_mode, **options}
            assert check(lambda x: (x.sin() * x.sum(), x.exp()), (x,), **options)
            assert check(lambda x, z: (z * z.abs() * x.sum(), z.exp()), (x, z), **options)
        wrong = wrong_tangent(t)
        assert check(wrong, (x,), fast_mode=fast_mode)
        with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch"):
            check(wrong, (x,), check_forward_ad=True, fast_mode=fast_mode)
        assert not check(lambda x: x * x.detach(), (x,), check_forward_ad=True, fast_mode=fast_mode,
                         check_backward_ad=False, raise_exception=False)  # fmt: skip


@MODES
@pytest.mark.filterwarnings("ignore:.torch.jit.script.*:DeprecationWarning")
def test_forward_over_reverse_is_checked(torch: Any, fast_mode: bool) -> None:
    for t in (retrograd, torch):
        check = t.autograd.gradgradcheck
        options = {"check_fwd_over_rev": True, "fast_mode": fast_mode}
        assert check(lambda x: x.sin() * x.sum(), (real(t, 3),), **options)
        assert check(lambda z: z.exp() * z, (cplx(t, 2),), **options)
        alone = {"check_rev_over_rev": False, "check_undefined_grad": False}
        assert check(lambda x: x.exp() * x, (real(t, 3),), **options, **alone)


@MODES
def test_gradgradcheck_with_given_gradients(fast_mode: bool) -> None:
    x = real(retrograd, 2)
    both = lambda x: (x.exp(), x.sum() ** 3)
    fixed = retrograd.tensor([1.0, -2.0], dtype=retrograd.float64)
    assert gradgradcheck(both, x, (fixed, None), fast_mode=fast_mode)
    assert gradgradcheck(both, x, (real(retrograd, 2), real(retrograd)), fast_mode=fast_mode)
    wrong = square(retrograd, lambda x, g: 2 * g * x + 0 * (g - g.detach()) * x)
    assert gradgradcheck(wrong, x, fixed, fast_mode=fast_mode)
    wrong = square(retrograd, lambda x, g: 2 * g.detach() * x)
    assert gradgradcheck(wrong, x, fixed, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="with respect to input 1,"):
        gradgradcheck(wrong, x, fast_mode=fast_mode)


def test_gradgradcheck_with_gradients_that_have_gaps() -> None:
    strides = []
    func = custom(retrograd, lambda x: x * 1, lambda x, g: (strides.append(g.stride()), g * 1)[1])
    assert gradgradcheck(func, real(retrograd, 2, 3), gen_non_contig_grad_outputs=True)
    assert (6, 2) in strides


@pytest.mark.filterwarnings("ignore:.*private API:FutureWarning")
def test_the_jacobians_that_are_not_to_be_had() -> None:
    x, z = real(retrograd, 2), cplx(retrograd, 2)
    numerical, analytical = MODULE.get_numerical_jacobian, MODULE.get_analytical_jacobian
    specific = MODULE.get_numerical_jacobian_wrt_specific_input
    with raises(ValueError, "Expected grad_out to be 1.0. get_numerical_jacobian no longer"):
        numerical(lambda args: args[0], (x,), grad_out=2.0)
    with raises(ValueError, "Expected output to be non-complex. get_numerical_jacobian no longer"):
        numerical(lambda args: args[0] * 2, (z,))
    with raises(ValueError, "Expected grad_out to be 1.0. get_analytical_jacobian no longer"):
        analytical((x,), x * 2, grad_out=2.0)
    with raises(ValueError, "Expected output to be non-complex. get_analytical_jacobian no longer"):
        analytical((z,), z * 2)
    with raises(AssertionError, "Expected input to have requires_grad=True"):
        specific(lambda x: x * 1, 0, (x.detach(),), (x,), 1e-3)
    with raises(AssertionError, "Expected ds_dx to be real-valued, not complex"):
        specific(lambda x: x * 1, 0, (z,), (z,), 1e-3)
    (jacobian,) = specific(lambda x: x * 2j, 0, (x,), (z,), 1e-3, is_forward_ad=True)
    np.testing.assert_allclose(jacobian.numpy(), 2j * np.eye(2), atol=1e-9)


def test_the_examples_in_the_docstrings() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, attempted = doctest.testmod(MODULE, optionflags=flags, extraglobs={"torch": retrograd})
    assert (failed, attempted > 5) == (0, True)
