"""Transforms and constraints are PyTorch's: values, inverses, Jacobians, shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as ours

theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")

# A transform, and values of its domain.
Make = Callable[[Any, Any], tuple[Any, Any]]
VECTOR, MATRIX = [[0.3, -1.0, 2.0], [0.0, 0.5, -0.2]], [[1.0, 2.0], [0.5, -0.3]]
TRANSFORMS: dict[str, Make] = {
    "Exp": lambda d, t: (d.ExpTransform(), t(VECTOR)),
    "Power": lambda d, t: (d.PowerTransform(t(2.5)), t([0.5, 1.0, 3.0])),
    "Sigmoid": lambda d, t: (d.SigmoidTransform(), t(VECTOR)),
    "Softplus": lambda d, t: (d.SoftplusTransform(), t(VECTOR)),
    "Tanh": lambda d, t: (d.TanhTransform(), t(VECTOR)),
    "Abs": lambda d, t: (d.AbsTransform(), t([1.0, 2.0])),
    "Affine": lambda d, t: (d.AffineTransform(1.0, -2.0), t(VECTOR)),
    "Affine of tensors": lambda d, t: (
        d.AffineTransform(t([1.0, 0.0, 2.0]), t([[2.0], [3.0]])),
        t(VECTOR),
    ),
    "Affine of vectors": lambda d, t: (
        d.AffineTransform(t(0.0), t([1.0, 2.0, 3.0]), event_dim=1),
        t(VECTOR),
    ),
    "CorrCholesky": lambda d, t: (d.CorrCholeskyTransform(), t(VECTOR)),
    "Softmax": lambda d, t: (d.SoftmaxTransform(), t(VECTOR)),
    "StickBreaking": lambda d, t: (d.StickBreakingTransform(), t(VECTOR)),
    "LowerCholesky": lambda d, t: (d.LowerCholeskyTransform(), t(MATRIX)),
    "PositiveDefinite": lambda d, t: (d.PositiveDefiniteTransform(), t(MATRIX)),
    "Compose": lambda d, t: (
        d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.StickBreakingTransform()]),
        t(VECTOR),
    ),
    "identity": lambda d, t: (d.identity_transform, t(VECTOR)),
    "Independent": lambda d, t: (d.IndependentTransform(d.ExpTransform(), 1), t(VECTOR)),
    "Reshape": lambda d, t: (d.ReshapeTransform((3,), (3, 1)), t(VECTOR)),
    "Cat": lambda d, t: (
        d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=1, lengths=[1, 2]),
        t(VECTOR),
    ),
    "Stack": lambda d, t: (
        d.StackTransform([d.ExpTransform(), d.AffineTransform(0.0, 3.0)]),
        t(VECTOR),
    ),
    "Cumulative": lambda d, t: (
        d.CumulativeDistributionTransform(d.Normal(t(0.5), t(2.0))),
        t(VECTOR),
    ),
}


def both(name: str, cache: int = 0) -> list[tuple[Any, Any, Any]]:
    made = []
    for library in (ours, theirs):
        tensor = lambda values, t=library: t.tensor(values, dtype=t.float64)
        transform, x = TRANSFORMS[name](library.distributions, tensor)
        made.append((library, transform.with_cache(cache) if cache else transform, x))
    return made


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_inverses_and_jacobians(name: str) -> None:
    results = []
    for library, transform, x in both(name):
        x = x.requires_grad_()
        y = transform(x)
        back = transform.inv(y)
        try:
            slope = transform.log_abs_det_jacobian(x, y)
            inverse_slope = transform.inv.log_abs_det_jacobian(y, x)
            (grad,) = library.autograd.grad(slope.sum() + (y * y).sum(), x)
            numbers = [slope, inverse_slope, grad]
        except NotImplementedError:
            numbers = []
        facts = [
            tuple(transform.forward_shape(x.shape)),
            tuple(transform.inverse_shape(y.shape)),
            transform.bijective,
            repr(transform),
            repr(transform.inv),
            transform.inv.inv is transform,
            transform.domain.event_dim,
            transform.codomain.event_dim,
            repr(transform.codomain),
            repr(transform.inv.domain),
            bool(transform.codomain.check(y).all()),
        ]
        results.append(([t.detach().numpy() for t in (y, back, *numbers)], facts))
    (found, our_facts), (expected, their_facts) = results
    assert our_facts == their_facts
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_caches_and_equality(name: str) -> None:
    if name in ("identity",):
        return
    (_, transform, x), (_, reference, _) = both(name, cache=1)
    y = transform(x)
    if name not in ("Compose",):
        assert transform(x) is y
        assert transform.inv(y) is x
    assert transform.with_cache(1) is transform
    assert transform._cache_size == reference._cache_size == 1
    again = both(name)[0][1]
    assert (again == both(name)[0][1]) == (both(name)[1][1] == both(name)[1][1])
    assert sign_of(again) == sign_of(both(name)[1][1])


def sign_of(transform: Any) -> Any:
    try:
        sign = transform.sign
    except NotImplementedError:
        return "none"
    return sign.tolist() if hasattr(sign, "tolist") else sign


CONSTRAINTS: dict[str, tuple[str, Any]] = {
    "boolean": ("boolean", [0.0, 1.0, 0.5]),
    "real": ("real", [0.0, float("nan"), float("inf")]),
    "positive": ("positive", [-1.0, 0.0, 1.0]),
    "nonnegative": ("nonnegative", [-1.0, 0.0, 1.0]),
    "unit_interval": ("unit_interval", [-0.1, 0.0, 1.0, 1.1]),
    "nonnegative_integer": ("nonnegative_integer", [-1.0, 0.0, 0.5, 2.0]),
    "positive_integer": ("positive_integer", [0.0, 1.0, 1.5]),
    "greater_than": ("greater_than(1.0)", [0.5, 1.0, 2.0]),
    "greater_than_eq": ("greater_than_eq(1.0)", [0.5, 1.0, 2.0]),
    "less_than": ("less_than(1.0)", [0.5, 1.0, 2.0]),
    "interval": ("interval(-1.0, 2.0)", [-2.0, -1.0, 2.0, 3.0]),
    "half_open_interval": ("half_open_interval(-1.0, 2.0)", [-2.0, -1.0, 2.0, 3.0]),
    "integer_interval": ("integer_interval(0, 2)", [-1.0, 0.0, 0.5, 2.0, 3.0]),
    "simplex": ("simplex", [[0.5, 0.5], [0.5, 0.6], [-0.5, 1.5]]),
    "one_hot": ("one_hot", [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]),
    "multinomial": ("multinomial(3)", [[1.0, 2.0], [2.0, 2.0], [-1.0, 1.0]]),
    "real_vector": ("real_vector", [[0.0, 1.0], [float("nan"), 1.0]]),
    "lower_triangular": ("lower_triangular", [[[1.0, 0.0], [1.0, -1.0]], [[1.0, 2.0], [0.0, 1.0]]]),
    "lower_cholesky": ("lower_cholesky", [[[1.0, 0.0], [1.0, -1.0]], [[1.0, 0.0], [5.0, 1.0]]]),
    "corr_cholesky": ("corr_cholesky", [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [5.0, 1.0]]]),
    "square": ("square", [[[1.0, 0.0], [0.6, 0.8]]]),
    "symmetric": ("symmetric", [[[1.0, 0.5], [0.5, 0.8]], [[1.0, 0.0], [5.0, 1.0]]]),
    "positive_definite": (
        "positive_definite",
        [[[1.0, 0.5], [0.5, 0.8]], [[1.0, 2.0], [2.0, 1.0]]],
    ),
    "positive_semidefinite": (
        "positive_semidefinite",
        [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]]],
    ),
    "independent": ("independent(c.positive, 1)", [[1.0, 2.0], [-1.0, 2.0]]),
    "cat": ("cat([c.positive, c.real], 0, [1, 2])", [-1.0, -1.0, 2.0]),
    "stack": ("stack([c.positive, c.real])", [[-1.0, 1.0], [-1.0, 1.0]]),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name: str) -> None:
    text, values = CONSTRAINTS[name]
    facts = []
    for library in (ours, theirs):
        c = library.distributions.constraints
        constraint = eval(f"c.{text}", {"c": c})
        checked = constraint.check(library.tensor(values))
        shown = [repr(constraint), constraint.is_discrete, constraint.event_dim]
        for registry in (library.distributions.biject_to, library.distributions.transform_to):
            try:
                shown.append(repr(registry(constraint)))
            except NotImplementedError as error:
                shown.append(str(error))
        facts.append((checked.tolist(), shown))
    assert facts[0][0] == facts[1][0]
    assert [str(x).replace("_Parts", "") for x in facts[0][1]] == [str(x) for x in facts[1][1]]


def test_dependent_constraints() -> None:
    for library in (ours, theirs):
        c = library.distributions.constraints
        assert c.is_dependent(c.dependent)
        assert c.dependent(event_dim=2).event_dim == 2
        with pytest.raises(NotImplementedError, match="event_dim cannot be determined statically"):
            _ = c.dependent.event_dim
        with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
            c.dependent.check(library.ones(1))
        assert c.is_dependent(library.distributions.Uniform.support)
