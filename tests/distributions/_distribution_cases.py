"""Every distribution, with some parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Each is made from parameters p(...), which require gradients.
Make = Callable[[Any, Any], Any]
CASES: dict[str, Make] = {
    "Bernoulli": lambda d, p: d.Bernoulli(p(0.3, 0.5, 0.9)),
    "Bernoulli of logits": lambda d, p: d.Bernoulli(logits=p(-2.0, 0.0, 3.0)),
    "Beta": lambda d, p: d.Beta(p(0.4, 1.0, 5.0), p(0.7, 3.0, 2.0)),
    "Binomial": lambda d, p: d.Binomial(7, p(0.2, 0.5, 0.99)),
    "Binomial of logits": lambda d, p: d.Binomial(40, logits=p(-1.0, 0.0, 2.0)),
    "Categorical": lambda d, p: d.Categorical(p([0.2, 0.3, 0.5], [0.1, 0.1, 0.8])),
    "Categorical of logits": lambda d, p: d.Categorical(logits=p([0.0, 1.0], [2.0, -3.0])),
    "Cauchy": lambda d, p: d.Cauchy(p(0.0, -2.0), p(1.0, 0.5)),
    "Chi2": lambda d, p: d.Chi2(p(1.0, 4.5, 0.3)),
    "ContinuousBernoulli": lambda d, p: d.ContinuousBernoulli(p(0.1, 0.5, 0.4995, 0.9)),
    "ContinuousBernoulli of logits": lambda d, p: d.ContinuousBernoulli(logits=p(-2.0, 0.0, 1.0)),
    "Dirichlet": lambda d, p: d.Dirichlet(p([0.3, 2.0, 5.0], [1.0, 1.0, 9.0])),
    "Dirichlet of small": lambda d, p: d.Dirichlet(p(0.3, 0.2, 0.5)),
    "Exponential": lambda d, p: d.Exponential(p(0.5, 3.0)),
    "FisherSnedecor": lambda d, p: d.FisherSnedecor(p(1.0, 3.0, 5.0), p(3.0, 2.0, 9.0)),
    "Gamma": lambda d, p: d.Gamma(p(0.3, 1.0, 7.0), p(1.0, 2.0, 0.5)),
    "GeneralizedPareto": lambda d, p: d.GeneralizedPareto(p(0.0, 1.0), p(1.0, 2.0), p(0.3, -0.4)),
    "GeneralizedPareto of zero": lambda d, p: d.GeneralizedPareto(p(0.0), p(1.0), p(0.0)),
    "Geometric": lambda d, p: d.Geometric(p(0.2, 0.7)),
    "Geometric of logits": lambda d, p: d.Geometric(logits=p(-1.0, 2.0)),
    "Gumbel": lambda d, p: d.Gumbel(p(0.0, 1.0), p(1.0, 3.0)),
    "HalfCauchy": lambda d, p: d.HalfCauchy(p(1.0, 2.5)),
    "HalfNormal": lambda d, p: d.HalfNormal(p(1.0, 2.5)),
    "Independent": lambda d, p: d.Independent(d.Normal(p(0.0, 1.0), p(1.0, 3.0)), 1),
    "InverseGamma": lambda d, p: d.InverseGamma(p(0.8, 3.0), p(1.0, 2.0)),
    "Kumaraswamy": lambda d, p: d.Kumaraswamy(p(0.5, 2.0), p(1.0, 3.0)),
    "LKJCholesky": lambda d, p: d.LKJCholesky(3, p(0.5, 2.0)),
    "Laplace": lambda d, p: d.Laplace(p(0.0, 1.0), p(1.0, 3.0)),
    "LogNormal": lambda d, p: d.LogNormal(p(0.0, 1.0), p(1.0, 0.3)),
    "LogisticNormal": lambda d, p: d.LogisticNormal(p(0.0, 1.0), p(1.0, 0.3)),
    "LowRankMultivariateNormal": lambda d, p: d.LowRankMultivariateNormal(
        p([1.0, 0.0, 2.0], [0.0, 0.0, 0.0]), p([1.0], [0.5], [-1.0]), p(1.0, 2.0, 0.5)
    ),
    "MixtureSameFamily": lambda d, p: d.MixtureSameFamily(
        d.Categorical(p(0.2, 0.8)), d.Normal(p(-1.0, 3.0), p(1.0, 0.5))
    ),
    "Multinomial": lambda d, p: d.Multinomial(5, p([0.2, 0.3, 0.5], [0.1, 0.1, 0.8])),
    "MultivariateNormal": lambda d, p: d.MultivariateNormal(p(1.0, 2.0), p([2.0, 0.5], [0.5, 1.0])),
    "MultivariateNormal of a batch": lambda d, p: d.MultivariateNormal(
        p([1.0, 2.0], [0.0, 1.0], [2.0, 2.0]), scale_tril=p([2.0, 0.0], [0.5, 1.0])
    ),
    "MultivariateNormal of a precision": lambda d, p: d.MultivariateNormal(
        p(1.0, 2.0), precision_matrix=p([2.0, 0.5], [0.5, 1.0])
    ),
    "MultivariateNormal of matrices": lambda d, p: d.MultivariateNormal(
        p(1.0, 2.0), p([[2.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 3.0]])
    ),
    "NegativeBinomial": lambda d, p: d.NegativeBinomial(p(3.0, 0.5), p(0.2, 0.7)),
    "NegativeBinomial of logits": lambda d, p: d.NegativeBinomial(4, logits=p(-1.0, 1.0)),
    "Normal": lambda d, p: d.Normal(p(0.0, 1.0, -3.0), p(1.0, 2.0, 0.1)),
    "Normal of numbers": lambda d, p: d.Normal(p(0.5), 2.0),
    "OneHotCategorical": lambda d, p: d.OneHotCategorical(p([0.2, 0.3, 0.5], [0.1, 0.1, 0.8])),
    "OneHotCategoricalStraightThrough": lambda d, p: d.OneHotCategoricalStraightThrough(
        p([0.2, 0.3, 0.5], [0.1, 0.1, 0.8])
    ),
    "Pareto": lambda d, p: d.Pareto(p(1.0, 2.0), p(0.8, 3.0)),
    "Poisson": lambda d, p: d.Poisson(p(0.5, 3.0, 20.0)),
    "RelaxedBernoulli": lambda d, p: d.RelaxedBernoulli(p(0.7), p(0.3, 0.9)),
    "RelaxedOneHotCategorical": lambda d, p: d.RelaxedOneHotCategorical(
        p(0.7), p([0.2, 0.3, 0.5], [0.1, 0.1, 0.8])
    ),
    "StudentT": lambda d, p: d.StudentT(p(0.8, 1.5, 5.0), p(0.0, 1.0, 2.0), p(1.0, 2.0, 3.0)),
    "TransformedDistribution": lambda d, p: d.TransformedDistribution(
        d.Normal(p(0.0, 1.0), p(1.0, 2.0)), [d.SigmoidTransform(), d.AffineTransform(p(1.0), -3.0)]
    ),
    "Uniform": lambda d, p: d.Uniform(p(0.0, -1.0), p(1.0, 5.0)),
    "VonMises": lambda d, p: d.VonMises(p(0.0, 1.0, -3.0), p(1.0, 4.0, 0.2)),
    "Weibull": lambda d, p: d.Weibull(p(1.0, 2.0), p(0.8, 3.0)),
    "Wishart": lambda d, p: d.Wishart(p(4.0), p([2.0, 0.5], [0.5, 1.0])),
    "Wishart of a batch": lambda d, p: d.Wishart(p(4.0, 5.5), scale_tril=p([2.0, 0.0], [0.5, 1.0])),
}
