"""``torch.distributions``: probability distributions; the same seed gives PyTorch's samples.

>>> import retrograd as torch
>>> d = torch.distributions.Normal(torch.tensor(0.0, requires_grad=True), 1.0)
>>> d.log_prob(torch.tensor(1.0))
tensor(-1.4189, grad_fn=<SubBackward0>)
"""

import sys as _sys

from retrograd.distributions import (
    _categorical,
    _compound,
    _counts,
    _gamma,
    _multivariate,
    _real,
    _relaxed,
    _transformed,
    constraint_registry,
    constraints,
    transforms,
    utils,
)  # fmt: skip
from retrograd.distributions import distribution as distribution
from retrograd.distributions import kl as kl
from retrograd.distributions._categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from retrograd.distributions._compound import (
    Independent,
    MixtureSameFamily,
    TransformedDistribution,
)
from retrograd.distributions._counts import (
    Bernoulli,
    Binomial,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from retrograd.distributions._gamma import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, StudentT
from retrograd.distributions._multivariate import (
    LKJCholesky,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
)
from retrograd.distributions._real import (
    Cauchy,
    Exponential,
    GeneralizedPareto,
    Laplace,
    Normal,
    Uniform,
    VonMises,
)
from retrograd.distributions._relaxed import (
    ContinuousBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from retrograd.distributions._transformed import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from retrograd.distributions.constraint_registry import biject_to, transform_to
from retrograd.distributions.distribution import Distribution, ExponentialFamily
from retrograd.distributions.kl import kl_divergence, register_kl
from retrograd.distributions.transforms import *  # noqa: F403
from retrograd.distributions.transforms import __all__ as _transforms
from retrograd.ops._sections import complete_all as _complete_all

# PyTorch has a module for each distribution; programs import from them.
_MODULES = {
    _categorical: ("categorical", "multinomial", "one_hot_categorical"),
    _compound: ("independent", "mixture_same_family", "transformed_distribution"),
    _counts: ("bernoulli", "binomial", "geometric", "negative_binomial", "poisson"),
    _gamma: ("beta", "chi2", "dirichlet", "fishersnedecor", "gamma", "studentT"),
    _multivariate: ("lkj_cholesky", "lowrank_multivariate_normal", "multivariate_normal",
                    "wishart"),
    _real: ("cauchy", "exponential", "generalized_pareto", "laplace", "normal", "uniform",
            "von_mises"),
    _relaxed: ("continuous_bernoulli", "relaxed_bernoulli", "relaxed_categorical"),
    _transformed: ("gumbel", "half_cauchy", "half_normal", "inverse_gamma", "kumaraswamy",
                   "log_normal", "logistic_normal", "pareto", "weibull"),
    distribution: ("exp_family",),
}  # fmt: skip
for _module, _names in _MODULES.items():
    for _name in _names:
        globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _module

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli",
    "Dirichlet", "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT",
    "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to",
    "constraint_registry", "constraints", "kl_divergence", "register_kl", "transform_to",
    "transforms", "utils", *_transforms,
]  # fmt: skip

_complete_all(globals(), {
    "validate_args": "whether parameters and values are checked.",
    "cache_size": "0 or 1.",
    "temperature": "how soft the draws are.",
})  # fmt: skip
