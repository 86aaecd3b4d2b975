"""Transforms nested to depth three, in programs drawn at random, have the right values.

Three judges: PyTorch's run of the same text; differences of the function and loops, which need no
library; and, for polynomials, exact arithmetic.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from _nested_programs import NestedProgram, nested_programs
from _transform_programs import (
    LIBRARIES,
    NEEDS_PYTORCH,
    Differences,
    LoopsForVmap,
    OutermostByDifferences,
    PyTorch,
    closeness,
    examples,
    library_named,
    listing,
    run,
)
from hypothesis import assume, event, given
from hypothesis import strategies as st

import retrograd

# What PyTorch 2.13 gets wrong. Where one of these is in a program, differences have the last word.
PYTORCH_IS_WRONG = (
    "linalg.solve(",  # a tangent of a tangent takes the factorization for a constant
    ".apply(",  # and what a custom Function has saved
    "linalg.det(",  # third derivatives, and NaN for some
    "linalg.slogdet(",
    "layer_norm(",  # a derivative of its tangent takes mean and deviation for constants
)


def ours(program: NestedProgram) -> np.ndarray:
    """The result of a program; an error in it is a failure that shows the program."""
    try:
        result = run(program.source, retrograd, retrograd.func)
    except Exception as error:
        error.add_note(f"in the program:\n{listing(program.source)}")
        raise
    assert np.isfinite(result).all(), listing(program.source)  # what is drawn is smooth there
    assume(np.abs(result).max(initial=0) < 1e8)
    event(f"depth {program.depth}")
    for kind in sorted(set(program.transforms)):
        event(f"with {kind}")
    return result


def must_agree(
    program: NestedProgram, got: np.ndarray, expected: np.ndarray, tolerance: float, judge: str
) -> None:
    if closeness(got, expected) > tolerance:
        raise AssertionError(
            f"{judge} gives\n{expected}\nand retrograd\n{got}\nfor the program:\n"
            f"{listing(program.source)}"
        )


# -- against PyTorch -------------------------------------------------------------------------


@NEEDS_PYTORCH
@examples(125)
@given(nested_programs())
def test_nested_transforms_have_pytorchs_values(program: NestedProgram) -> None:
    torch = library_named("torch")
    got = ours(program)
    try:
        expected = run(program.source, torch, PyTorch())
    except RuntimeError as error:
        # All that is drawn is allowed. PyTorch refuses some of it: a mapped tangent written over
        # one that is not, a write into a gradient known to be zero, rules that write in place.
        event(f"PyTorch cannot: {str(error)[:60]}")
        compare_with_differences(program, got)
        return
    if closeness(got, expected) > 1e-9 and any(x in program.source for x in PYTORCH_IS_WRONG):
        event("PyTorch is wrong")
        compare_with_differences(program, got)
    else:
        must_agree(program, got, expected, 1e-9, "PyTorch")


# -- against differences ---------------------------------------------------------------------

# How many calls of the innermost function nested differences may take.
AFFORDABLE = 600


@examples(80)
@given(nested_programs(depth=2))
def test_nested_transforms_are_limits_of_differences(program: NestedProgram) -> None:
    compare_with_differences(program, ours(program))


@examples(30)
@given(nested_programs(depth=3))
def test_deeply_nested_transforms_are_limits_of_differences(program: NestedProgram) -> None:
    compare_with_differences(program, ours(program))


def compare_with_differences(program: NestedProgram, got: np.ndarray) -> None:
    judge = Differences if program.cost < AFFORDABLE else OutermostByDifferences
    event(judge.__name__)
    expected = run(program.source, retrograd, judge(retrograd, 0.03))
    if closeness(got, expected) < 1e-6:
        return
    # A function that turns sharply needs smaller steps. If they change the quotient as much as it
    # differs from what we got, then it is no judge.
    finer = run(program.source, retrograd, judge(retrograd, 0.01))
    assume(closeness(got, finer) < 1e-6 or closeness(expected, finer) < 1e-5)
    must_agree(program, got, finer, 1e-5, judge.__name__)


@NEEDS_PYTORCH
@examples(25)
@given(nested_programs(depth=1))
def test_differences_are_a_good_judge_of_pytorch(program: NestedProgram) -> None:
    torch = library_named("torch")
    expected = run(program.source, torch, PyTorch())
    assume(np.abs(expected).max(initial=0) < 1e8)
    assert closeness(run(program.source, torch, Differences(torch)), expected) < 1e-2
    assert closeness(run(program.source, torch, Differences(torch, 0.01)), expected) < 1e-5


# -- vmap against a loop ---------------------------------------------------------------------


@examples(75)
@given(nested_programs())
def test_vmap_does_what_a_loop_does(program: NestedProgram) -> None:
    assume("vmap" in program.transforms)
    got = ours(program)
    expected = run(program.source, retrograd, LoopsForVmap(retrograd))
    must_agree(program, got, expected, 1e-10, "a loop")


# -- against exact arithmetic ----------------------------------------------------------------
#
# A function inside a function, each differentiated, that use each other's variables: the shape in
# which a library confuses one derivative's infinitesimal with another's. With polynomials all of
# it can be worked out exactly.

Polynomial = dict[tuple[int, ...], Fraction]  # powers of the variables -> coefficient
VARIABLES = 3


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for a, c in p.items():
        for b, d in q.items():
            powers = tuple(i + j for i, j in zip(a, b, strict=True))
            found[powers] = found.get(powers, Fraction(0)) + c * d
    return found


def plus(p: Polynomial, q: Polynomial) -> Polynomial:
    return {k: p.get(k, Fraction(0)) + q.get(k, Fraction(0)) for k in {*p, *q}}


def derivative(p: Polynomial, variable: int) -> Polynomial:
    found: Polynomial = {}
    for powers, c in p.items():
        if powers[variable]:
            lower = tuple(k - (i == variable) for i, k in enumerate(powers))
            found[lower] = c * powers[variable]
    return found


def substituted(p: Polynomial, variable: int, q: Polynomial) -> Polynomial:
    """``p`` with the polynomial ``q`` in place of a variable."""
    total: Polynomial = {}
    for powers, c in p.items():
        term = {tuple(0 if i == variable else k for i, k in enumerate(powers)): c}
        for _ in range(powers[variable]):
            term = times(term, q)
        total = plus(total, term)
    return total


def text_of(p: Polynomial) -> str:
    terms = []
    for powers, c in sorted(p.items()):
        factors = [str(int(c))] + [f"x{i} ** {k}" for i, k in enumerate(powers) if k]
        terms.append(" * ".join(factors))
    return " + ".join(terms) or "0"


# Ways to differentiate a function of a number at a point.
DERIVATIVES = [
    "func.grad({f})({p})",
    "func.jvp({f}, ({p},), (one,))[1]",
    "func.vjp({f}, {p})[1](one)[0]",
    "func.jacrev({f})({p})",
    "func.jacfwd({f})({p})",
    "func.linearize({f}, {p})[1](one)",
    "func.grad_and_value({f})({p})[0]",
    "func.vmap(func.grad({f}))(({p}).expand(2))[1]",
    "func.vmap(lambda t: func.jvp({f}, ({p},), (t,))[1])(torch.eye(2, dtype=f64)[0])[0]",
    "func.grad(lambda v: func.vmap({f})(v).sum())(({p}).reshape(1))[0]",
]


@st.composite
def polynomials(draw: Any, variables: int) -> Polynomial:
    """A polynomial in the first few variables."""
    found: Polynomial = {}
    for _ in range(draw(st.integers(1, 3))):
        powers = [draw(st.integers(0, 2)) if i < variables else 0 for i in range(VARIABLES)]
        found[tuple(powers)] = Fraction(draw(st.integers(-3, 3)))
    return {k: c for k, c in found.items() if c}


@st.composite
def confusions(draw: Any) -> tuple[str, Polynomial]:
    """Text that differentiates to depth three, and what it is as a polynomial in ``x0``."""

    def level(variable: int) -> tuple[str, Polynomial]:
        """What a function of ``x<variable>`` returns."""
        own = draw(polynomials(variable + 1))
        body = f"({text_of(own)}) + 0 * x{variable}"
        if variable + 1 < VARIABLES:
            inner, value = level(variable + 1)
            point = draw(polynomials(variable + 1))
            way = DERIVATIVES[draw(st.integers(0, len(DERIVATIVES) - 1))]
            f = f"(lambda x{variable + 1}: {inner})"
            p = f"({text_of(point)} + 0 * x{variable})"
            found = substituted(derivative(value, variable + 1), variable + 1, point)
            body = f"({body}) * {way.format(f=f, p=p)} + x{variable}"
            own = plus(times(own, found), {unit(variable): Fraction(1)})
        return body, own

    body, value = level(0)
    way = DERIVATIVES[draw(st.integers(0, len(DERIVATIVES) - 1))]
    text = way.format(f=f"(lambda x0: {body})", p="x")
    return text, derivative(value, 0)


def unit(variable: int) -> tuple[int, ...]:
    return tuple(int(i == variable) for i in range(VARIABLES))


@examples(100)
@given(confusions(), st.integers(-2, 3))
def test_derivatives_inside_derivatives_are_not_confused(
    drawn: tuple[str, Polynomial], point: int
) -> None:
    text, expected = drawn
    exact = sum(c * point ** powers[0] for powers, c in expected.items())
    assume(abs(exact) < 2**53)
    source = f"one = torch.ones((), dtype=f64)\nx = torch.tensor({point}.0, dtype=f64)\n"
    source += f"result = {text}\n"
    try:
        got = run(source, retrograd, retrograd.func)
    except Exception as error:
        error.add_note(f"in the program:\n{listing(source)}")
        raise
    assert float(got) == float(exact), listing(source)


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_exact_judge_is_right(name: str) -> None:
    library = library_named(name)
    source = (
        "one = torch.ones((), dtype=f64)\nx = torch.tensor(3.0, dtype=f64)\n"
        "result = func.grad(lambda x0: x0 * func.grad(lambda x1: x0 * x1)(x0 * x0))(x)"
    )
    x, y = {unit(0): Fraction(1)}, {unit(1): Fraction(1)}
    inner = substituted(derivative(times(x, y), 1), 1, times(x, x))
    exact = derivative(times(x, inner), 0)
    assert exact == {unit(0): 2}
    assert float(run(source, library, library.func)) == 6.0


@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")  # PyTorch's own, of its own
@pytest.mark.parametrize("name", LIBRARIES)
def test_writes_that_have_no_derivative_leave_those_of_all_levels(name: str) -> None:
    """PyTorch leaves the history as it was, and the tangent; so does each transform for those
    around it."""
    torch = library_named(name)
    grad, jvp, vmap = torch.func.grad, torch.func.jvp, torch.func.vmap
    x, v = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([1.0, -1.0, 0.5])
    f = lambda x: (x * x).logical_and_(torch.tensor([1.0, 1.0, 0.0]))
    inside = lambda x: jvp(f, (x,), (v,))
    slope, curve = [2.0, -0.0, 2.0], [2.0, 2.0, 0.5]
    (value, first), (moved, second) = jvp(inside, (x,), (v,))
    assert value.tolist() == [1.0, 0.0, 0.0]
    assert first.tolist() == moved.tolist() == slope
    assert second.tolist() == curve
    assert grad(lambda x: inside(x)[0].sum())(x).tolist() == [2.0, 0.0, 4.0]
    rows, tangents = torch.stack([x, x]), torch.stack([v, v])
    assert jvp(vmap(f), (rows,), (tangents,))[1].tolist() == [slope, slope]
    assert vmap(inside)(rows)[1].tolist() == [slope, slope]
    assert grad(lambda x: vmap(f)(x).sum())(rows).tolist() == [[2.0, 0.0, 4.0]] * 2
