"""Every distribution gives what PyTorch gives: values, gradients, and draws from the same seed."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _distribution_cases import CASES, Make

import retrograd as ours

theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")

DTYPES = ("float32", "float64")
# PyTorch computes these by approximations; here they are exact.
LOOSE = {
    "VonMises": 1e-5,
    "Gamma": 2e-4,
    "Chi2": 2e-4,
    "Beta": 2e-3,
    "Dirichlet": 2e-3,
    "Dirichlet of small": 2e-3,
    "FisherSnedecor": 5e-4,
    "StudentT": 2e-4,
    "InverseGamma": 2e-4,
    "Wishart": 5e-4,
    "Wishart of a batch": 5e-4,
}
DIFFERS = {("Kumaraswamy", "mode")}  # where PyTorch is wrong: docs/differences.md


class Built:
    """A distribution of one library, with its parameters."""

    def __init__(self, library: Any, make: Make, dtype: str, **options: Any) -> None:
        self.library, self.parameters = library, []
        self.dtype = getattr(library, dtype)

        def parameter(*values: Any) -> Any:
            data = values[0] if len(values) == 1 and isinstance(values[0], float) else list(values)
            tensor = library.tensor(data, dtype=self.dtype, requires_grad=True)
            self.parameters.append(tensor)
            return tensor

        self.distribution = make(library.distributions, parameter)

    def outcome(self, compute: Callable[[Any, Any], Any]) -> Any:
        """What is computed, and its gradients by the parameters; or the type of the error."""
        self.library.manual_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                value = compute(self.distribution, self.library)
            except (NotImplementedError, RuntimeError, ValueError) as error:
                return type(error).__name__, []
        if not isinstance(value, self.library.Tensor):
            return value, []
        gradients: list[Any] = []
        if value.requires_grad and np.isfinite(value.detach().numpy()).all():
            shape = value.shape
            weights = self.library.arange(1.0, 1 + value.numel(), dtype=value.dtype).reshape(shape)
            try:
                found = self.library.autograd.grad(
                    (value * weights).sum(), self.parameters, allow_unused=True
                )
            except NotImplementedError:  # igamma has no derivative, in PyTorch neither
                found = []
            gradients = [None if g is None else g.numpy() for g in found]
        return value.detach().numpy(), gradients


def compare(name: str, dtype: str, compute: Callable[[Any, Any], Any], exact: bool = False) -> None:
    if name.startswith("GeneralizedPareto"):
        dtype = "float32"  # PyTorch fails in float64, where it compares with a float32
    here, there = (Built(library, CASES[name], dtype) for library in (ours, theirs))
    found, expected = here.outcome(compute), there.outcome(compute)
    if not isinstance(expected[0], np.ndarray):
        assert str(found[0]) == str(expected[0])
        return
    assert isinstance(found[0], np.ndarray), found
    assert found[0].dtype == expected[0].dtype
    assert found[0].shape == expected[0].shape
    rtol = 3e-5 if dtype == "float32" else 1e-6 if name == "VonMises" else 1e-9
    np.testing.assert_allclose(found[0], expected[0], rtol=rtol, atol=rtol)
    assert len(found[1]) == len(expected[1])
    rtol = max(rtol, LOOSE.get(name, 0.0))
    for ours_grad, their_grad in zip(found[1], expected[1], strict=True):
        if their_grad is None or ours_grad is None:
            other = ours_grad if their_grad is None else their_grad
            assert other is None or not other.any()
        else:
            if name == "Wishart of a batch" and ours_grad.ndim == 2:
                # Of a factor, one triangle is read. The gradient of the other is zero; PyTorch's
                # cholesky_solve gives it another.
                ours_grad, their_grad = np.tril(ours_grad), np.tril(their_grad)
            np.testing.assert_allclose(ours_grad, their_grad, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_draws(name: str, dtype: str) -> None:
    compare(name, dtype, lambda d, t: d.sample())
    compare(name, dtype, lambda d, t: d.sample((4, 2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_differentiable_draws(name: str, dtype: str) -> None:
    def drawn(d: Any, t: Any) -> Any:
        if not d.has_rsample:
            return t.zeros(())
        if name.startswith("Wishart") and t is theirs:
            # Of what PyTorch's rsample gives, which is the second draw, it has no gradients: it has
            # written over a mask that it needs.
            d._bartlett_sampling((3,))
            return d._bartlett_sampling((3,))
        return d.rsample((3,))

    compare(name, dtype, drawn)
    compare(name, dtype, lambda d, t: d.has_rsample)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_densities(name: str, dtype: str) -> None:
    compare(name, dtype, lambda d, t: d.log_prob(d.sample((3,))))
    compare(name, dtype, lambda d, t: d.entropy())
    compare(name, dtype, lambda d, t: d.perplexity())


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_values(name: str) -> None:
    def slope(d: Any, t: Any) -> Any:
        value = d.sample((3,)).detach()
        if not value.is_floating_point():
            return value
        value.requires_grad_()
        (found,) = t.autograd.grad(d.log_prob(value).sum(), value, allow_unused=True)
        return t.zeros(()) if found is None else found

    compare(name, "float64", slope)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("asked", ["mean", "mode", "variance", "stddev"])
def test_moments(name: str, asked: str, dtype: str) -> None:
    if (name, asked) not in DIFFERS:
        compare(name, dtype, lambda d, t: getattr(d, asked))


@pytest.mark.parametrize("name", CASES)
def test_distribution_functions(name: str) -> None:
    compare(name, "float64", lambda d, t: d.cdf(d.sample((3,))))
    inside = (0.1, 0.5, 0.8)
    compare(name, "float64", lambda d, t: d.icdf(
        t.tensor(inside, dtype=t.float64).reshape(3, *[1] * len(d.batch_shape))))  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_shapes_and_text(name: str) -> None:
    for compute in (
        lambda d, t: tuple(d.batch_shape), lambda d, t: tuple(d.event_shape),
        lambda d, t: repr(d), lambda d, t: repr(d.support), lambda d, t: d.support.event_dim,
        lambda d, t: d.support.is_discrete, lambda d, t: d.has_enumerate_support,
        lambda d, t: d.enumerate_support(), lambda d, t: d.enumerate_support(False),
        lambda d, t: list(d.arg_constraints), lambda d, t: repr(d.arg_constraints),
    ):  # fmt: skip
        compare(name, "float32", compute)


@pytest.mark.parametrize("name", CASES)
def test_expanding(name: str) -> None:
    def wide(d: Any) -> Any:
        return d.expand((4, *d.batch_shape))

    compare(name, "float64", lambda d, t: tuple(wide(d).batch_shape))
    compare(name, "float64", lambda d, t: wide(d).sample())
    compare(name, "float64", lambda d, t: wide(d).log_prob(wide(d).sample((2,))))
    compare(name, "float64", lambda d, t: wide(d).variance)
    here = Built(ours, CASES[name], "float32").distribution
    assert type(wide(here)) is type(here)


@pytest.mark.parametrize("name", CASES)
def test_pickling(name: str) -> None:
    built = Built(ours, CASES[name], "float32")
    again = pickle.loads(pickle.dumps(built.distribution))
    assert repr(again) == repr(built.distribution)


# -- what is refused -----------------------------------------------------------------------------

REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a scale": lambda d, t: d.Normal(t.zeros(2), t.tensor([1.0, -1.0])),
    "a number": lambda d, t: d.Normal(0.0, math.nan),
    "a probability": lambda d, t: d.Bernoulli(1.5),
    "a simplex": lambda d, t: d.Categorical(t.tensor([-1.0, 2.0])),
    "a matrix": lambda d, t: d.MultivariateNormal(t.zeros(2), -t.eye(2)),
    "a triangle": lambda d, t: d.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2, 2)),
    "ends": lambda d, t: d.Uniform(2.0, 1.0),
    "both": lambda d, t: d.Bernoulli(0.5, logits=0.0),
    "neither": lambda d, t: d.Categorical(),
    "a value": lambda d, t: d.Exponential(1.0).log_prob(t.tensor(-1.0)),
    "a value of a batch": lambda d, t: d.Chi2(t.ones(2)).log_prob(t.tensor([1.0, -2.0])),
    "a count": lambda d, t: d.Poisson(1.0).log_prob(t.tensor(0.5)),
    "a choice": lambda d, t: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    "a number for a value": lambda d, t: d.Normal(0.0, 1.0).log_prob(1.0),
    "another shape": lambda d, t: d.Normal(t.zeros(2), t.ones(2)).log_prob(t.zeros(3)),
    "another event": lambda d, t: d.Dirichlet(t.ones(3)).log_prob(t.ones(2)),
    "a string": lambda d, t: d.Normal("a", 1.0),
    "dimensions": lambda d, t: d.Independent(d.Normal(0.0, 1.0), 1),
    "a geometric": lambda d, t: d.Geometric(t.tensor([0.0, 0.5])),
    "freedom": lambda d, t: d.Wishart(t.tensor(0.5), t.eye(2)),
    "a small matrix": lambda d, t: d.LKJCholesky(1),
    "counts that differ": lambda d, t: d.Binomial(t.tensor([1.0, 2.0]), t.tensor(0.5)).entropy(),
    "no transform": lambda d, t: d.TransformedDistribution(d.Normal(0.0, 1.0), "exp"),
    "no categorical": lambda d, t: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)),
    "components": lambda d, t: d.MixtureSameFamily(
        d.Categorical(t.ones(2)), d.Normal(t.zeros(3), t.ones(3))
    ),
    "no density": lambda d, t: d.Distribution(validate_args=False).log_prob(t.zeros(())),
    "no mode": lambda d, t: d.Multinomial(2, t.ones(2)).mode,
    "no divergence": lambda d, t: d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name: str) -> None:
    # torch.compile turns this off, as in a test that ran before.
    theirs.distributions.Distribution.set_default_validate_args(True)
    with pytest.raises(Exception) as expected:
        REFUSED[name](theirs.distributions, theirs)
    with pytest.raises(type(expected.value)) as found:
        REFUSED[name](ours.distributions, ours)
    wanted = str(expected.value).replace("torch.distributions.", "retrograd.distributions.")
    if "<class" not in wanted:
        assert str(found.value).split() == str(expected.value).split()


def test_nothing_is_checked_where_that_is_said() -> None:
    d = ours.distributions
    assert d.Normal(0.0, -1.0, validate_args=False).log_prob(ours.tensor(0.0)).isnan()
    d.Distribution.set_default_validate_args(False)
    try:
        assert d.Normal(0.0, -1.0).scale == -1
    finally:
        d.Distribution.set_default_validate_args(True)


def test_a_subclass_that_cannot_be_expanded() -> None:
    class Mine(ours.distributions.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="Subclass Mine of Normal that defines a custom"):
        Mine().expand((2,))


def test_the_mode_of_kumaraswamy() -> None:
    d = ours.distributions.Kumaraswamy(ours.tensor(2.0), ours.tensor(3.0))
    x = ours.linspace(0.001, 0.999, 999)
    assert abs(float(d.mode) - float(x[d.log_prob(x).argmax()])) < 2e-3


def test_modules_have_pytorchs_names() -> None:
    import importlib

    for name in theirs.distributions.__all__:
        module = getattr(theirs.distributions, name).__module__.rpartition(".")[2]
        assert hasattr(importlib.import_module(f"retrograd.distributions.{module}"), name), name
    assert set(theirs.distributions.__all__) <= set(ours.distributions.__all__)
