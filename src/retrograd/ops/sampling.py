"""Random numbers: samples for a tensor of parameters, and in-place random fills.

What is drawn does not depend smoothly on anything, so all gradients here are zero: they say, as
PyTorch says, that nothing flows back through a random number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops import _randomness
from retrograd.ops._dims import broadcast
from retrograd.ops._operation import Elementwise, Operation, TensorLike, constant, elementwise, raw
from retrograd.ops._public import public
from retrograd.ops._refusals import without_complex_history
from retrograd.ops.copies import zeros_like
from retrograd.ops.shapes.reshaping import expand


def keep_mask(shape: Sequence[int], p: float, values: Any) -> Any:
    """Ones and zeros, a one with probability ``p``, in the dtype and on the device of some values:
    the numbers that ``bernoulli_(p)`` draws for a new tensor. For dropout, which keeps with
    probability ``1 - p``."""
    dtype = values.dtype
    return _randomness.drawn(
        shape, lambda size: arrays.random.bernoulli(float(p), size, dtype), values
    )


def keep_mask_like(x: Raw, p: float, generator: Any = None) -> Raw:
    """``keep_mask`` in the shape, dtype and memory layout of ``x``: PyTorch draws in the order of
    memory, so that the masks of a tensor and of its transpose are not each other's transpose."""
    return arrays.random.in_memory_order(
        x, lambda shape: arrays.random.bernoulli(float(p), shape, x.dtype, generator)
    )


def checked(name: str, generator: Any) -> Any:
    """A generator, or None for the default one."""
    if generator is None or isinstance(generator, arrays.random.Generator):
        return generator
    raise TypeError(
        f"{name}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}"
    )


def checked_over(target: Any, name: str, generator: Any) -> Any:
    """As ``checked``, for numbers that are written over a tensor."""
    _randomness.check_write(target)
    return checked(name, generator)


# -- written over a tensor -------------------------------------------------------------------


def _over(name: str, node: str, draw: Callable[..., Raw]) -> Elementwise:
    """The operation that forgets a tensor and fills it with what ``draw`` gives for its shape, its
    dtype, a generator and the arguments of the distribution."""

    def forward(self: Raw, arguments: tuple[Any, ...], generator: Any) -> Raw:
        return arrays.random.in_memory_order(
            self, lambda shape: draw(shape, self.dtype, generator, *arguments)
        )

    return elementwise(
        name, forward, lambda g: zeros_like(g), node=node, dtypes="free", batch="random overwrite"
    )


def _normal(self: Raw, mean: float, std: float, generator: Any) -> Raw:
    contiguous = arrays.is_contiguous(self)
    return arrays.random.in_memory_order(
        self,
        lambda shape: arrays.random.normal(shape, self.dtype, generator, mean, std, contiguous),
    )


def _integers(shape: Any, dtype: Any, generator: Any, low: Any, high: Any) -> Raw:
    return arrays.random.integers(low, high, shape, dtype, generator)


def _drawn(name: str) -> Callable[..., Raw]:
    """A distribution of the array layer, which is loaded when a number is first drawn."""
    return lambda *arguments: getattr(arrays.random, name)(*arguments)


uniform_over = _over("uniform_over", "UniformBackward0", _drawn("uniform"))
exponential_over = _over("exponential_over", "ExponentialBackward0", _drawn("exponential"))
cauchy_over = _over("cauchy_over", "CauchyBackward0", _drawn("cauchy"))
log_normal_over = _over("log_normal_over", "LogNormalBackward0", _drawn("log_normal"))
geometric_over = _over("geometric_over", "GeometricBackward0", _drawn("geometric"))
integers_over = _over("integers_over", "RandomBackward2", _integers)
integers_below_over = _over("integers_below_over", "RandomBackward1", _integers)
integers_between_over = _over("integers_between_over", "RandomBackward0", _integers)
bernoulli_number_over = _over(
    "bernoulli_number_over", "BernoulliBackward2",
    lambda shape, dtype, generator, p: arrays.random.bernoulli(p, shape, dtype, generator),
)  # fmt: skip
normal_over = elementwise(
    "normal_over", _normal, lambda g: zeros_like(g), node="NormalBackward0", dtypes="free",
    batch="random overwrite",
)  # fmt: skip


@public(in_place=True)
def uniform(self: Any, *bounds: float, generator: Any = None, **named: Any) -> Any:
    """Fills a tensor with numbers from the uniform distribution on ``[from, to)``.

    Args:
        *bounds: The bounds ``from`` and ``to``. The defaults are 0 and 1.
        **named: The bounds ``from`` and ``to``, passed by keyword.
    """
    low, high = _arguments(bounds, named, {"from": 0.0, "to": 1.0})
    generator = checked_over(self, "uniform_", generator)
    return uniform_over(self, arguments=(float(low), float(high)), generator=generator)


@public(in_place="method.normal")
def normal_in_place(
    self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Any:
    """Fills a tensor with numbers from a normal distribution.

    Args:
        mean: The mean.
        std: The standard deviation.
    """
    generator = checked_over(self, "normal_", generator)
    return normal_over(self, mean=float(mean), std=float(std), generator=generator)


@public(in_place=True)
def exponential(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    """Fills a tensor with numbers from an exponential distribution.

    Args:
        lambd: The rate; the mean is its reciprocal.
    """
    return exponential_over(
        self, arguments=(float(lambd),), generator=checked_over(self, "exponential_", generator)
    )


@public(in_place=True)
def cauchy(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    """Fills a tensor with numbers from a Cauchy distribution.

    Args:
        median: The median.
        sigma: The scale, which is half the interquartile range.
    """
    return cauchy_over(
        self,
        arguments=(float(median), float(sigma)),
        generator=checked_over(self, "cauchy_", generator),
    )


@public(in_place=True)
def log_normal(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    """Fills a tensor with numbers from a log-normal distribution.

    Args:
        mean: The mean of the logarithm of the numbers.
        std: The standard deviation of the logarithm of the numbers.
    """
    return log_normal_over(
        self,
        arguments=(float(mean), float(std)),
        generator=checked_over(self, "log_normal_", generator),
    )


@public(in_place=True)
def geometric(self: Any, p: float, *, generator: Any = None) -> Any:
    """Fills a tensor with numbers from a geometric distribution: trials up to the first success.

    Args:
        p: The probability of success in each trial.
    """
    return geometric_over(
        self, arguments=(float(p),), generator=checked_over(self, "geometric_", generator)
    )


@public(in_place=True)
def random(self: Any, *bounds: int, generator: Any = None, **named: Any) -> Any:
    """Fills a tensor with integers from a discrete uniform distribution.

    Args:
        *bounds: The bound ``to``, which is excluded, or ``from`` and ``to``. By default, the
            integers cover the range of the dtype.
        **named: The bounds ``from`` and ``to``, passed by keyword.
    """
    generator = checked_over(self, "random_", generator)
    only_to = len(bounds) == 1 and "to" not in named
    given = (None, *bounds) if only_to else bounds
    low, high = _arguments(given, named, {"from": None, "to": None})
    if low is not None:
        return integers_between_over(self, arguments=(low, high), generator=generator)
    if high is not None:
        return integers_below_over(self, arguments=(0, high), generator=generator)
    return integers_over(self, arguments=(None, None), generator=generator)


def _arguments(given: tuple[Any, ...], named: dict[str, Any], defaults: dict[str, Any]) -> Any:
    """Arguments by position and by name, where one of the names is a word that Python keeps."""
    unknown = next((n for n in named if n not in defaults), None)
    if unknown is not None or len(given) > len(defaults):
        raise TypeError(f"unexpected argument {unknown or given[-1]!r}")
    return {**defaults, **dict(zip(defaults, given, strict=False)), **named}.values()


# -- with probabilities given for each -------------------------------------------------------


def _bernoulli(self: Raw, generator: Any) -> Raw:
    chances = arrays.writable(self)
    return arrays.random.bernoulli(chances, self.shape, self.dtype, generator)


def _bernoulli_by(self: Raw, p: Raw, generator: Any) -> Raw:
    chances = arrays.expand(arrays.writable(p), self.shape)
    if arrays.is_contiguous(self):
        return arrays.random.bernoulli(chances, self.shape, self.dtype, generator)
    order = arrays.random.memory_order(self)
    chances = arrays.permute(chances, order)
    return arrays.random.in_memory_order(
        self, lambda shape: arrays.random.bernoulli(chances, shape, self.dtype, generator)
    )


def _check_chances(self: Raw, p: Any, generator: Any = None) -> None:
    expand(p, self.shape)  # raises what PyTorch raises if that cannot be


bernoulli_of = elementwise(
    "bernoulli_of", _bernoulli, lambda g: zeros_like(g), node="BernoulliBackward0", random=True,
)  # fmt: skip
bernoulli_over = Elementwise(
    "bernoulli_over", _bernoulli_by, inputs=("self", "p"),
    rules={"self": lambda g: zeros_like(g), "p": lambda g: zeros_like(g)},
    node="BernoulliBackward1", dtypes="free", check=_check_chances, batch="random overwrite",
)  # fmt: skip


def _not_implemented(name: str) -> Callable[..., Any]:
    def rule(g: Any) -> Any:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return rule


bernoulli_like = elementwise(
    "bernoulli_like",
    lambda self, p, generator: arrays.random.bernoulli(p, self.shape, self.dtype, generator),
    _not_implemented("bernoulli"), node="NotImplemented", random=True,
)  # fmt: skip


@public("torch method", out="any, aligned")
def bernoulli(input: Any, p: float | None = None, *, generator: Any = None) -> Any:
    """Draws zeros and ones from Bernoulli distributions.

    Args:
        input: The probabilities of a one.
        p: One probability for all elements, used in place of ``input``.

    Returns:
        Zeros and ones in the shape and dtype of ``input``.

    Example:
        >>> torch.bernoulli(torch.tensor([0.0, 1.0, 1.0]))
        tensor([0., 1., 1.])
    """
    generator = checked("bernoulli", generator)
    if p is not None:
        return bernoulli_like(input, p=float(p), generator=generator)
    return without_complex_history("bernoulli", bernoulli_of(input, generator=generator))


@public(in_place="method.bernoulli")
def bernoulli_in_place(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Fills a tensor with zeros and ones from Bernoulli distributions.

    Args:
        p: The probability of a one: a number or a tensor of probabilities.
    """
    generator = checked_over(self, "bernoulli_", generator)
    if isinstance(p, TensorLike):
        return bernoulli_over(self, p, generator=generator)
    return bernoulli_number_over(self, arguments=(float(p),), generator=generator)


# -- normal numbers of many means or deviations ----------------------------------------------


def _standard(shape: tuple[int, ...], dtype: Any, generator: Any, std: float = 1.0) -> Raw:
    return arrays.random.normal(shape, dtype, generator, 0.0, std)


def _normal_of_both(self: Raw, std: Raw, generator: Any) -> Raw:
    shape = broadcast(self.shape, std.shape)
    return _standard(shape, self.dtype, generator) * arrays.cast(std, self.dtype) + self


def _check_std(std: Any, kernel_of: Any) -> None:
    """Refuse deviations that are none, and dtypes that there are no normal numbers of."""
    if isinstance(std, float):
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    elif std.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    elif std.size and not arrays.all(arrays.greater_equal(std, 0)):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if kernel_of.dtype.kind in "biu":
        word = dtypes.type_word(kernel_of.dtype)
        raise NotImplementedError(f"\"normal_kernel_cpu\" not implemented for '{word}'")


normal_of_mean = elementwise(
    "normal_of_mean",
    lambda self, std, generator: _standard(self.shape, self.dtype, generator, std) + self,
    lambda g: zeros_like(g), node="NormalBackward1",
    check=lambda self, std, generator: _check_std(std, self), dtypes="free", random=True,
)  # fmt: skip
normal_of_std = elementwise(
    "normal_of_std",
    lambda self, mean, generator:
        _standard(self.shape, self.dtype, generator) * self + self.dtype.type(mean),
    lambda g: zeros_like(g), node="NormalBackward2",
    check=lambda self, mean, generator: _check_std(self, self), dtypes="free", random=True,
)  # fmt: skip
normal_of_both = Elementwise(
    "normal_of_both", _normal_of_both, inputs=("self", "std"),
    rules={"self": lambda g: zeros_like(g), "std": lambda g: zeros_like(g)},
    node="NormalBackward3", check=lambda self, std, generator: _check_std(std, self),
    dtypes="free", random=True,
)  # fmt: skip


def normal(mean: Any, std: Any, generator: Any = None) -> Any:
    """Normal numbers, where the means or the deviations, or both, are tensors."""
    generator = checked("normal", generator)
    if not isinstance(mean, TensorLike):
        return normal_of_std(std, mean=float(mean), generator=generator)
    if not isinstance(std, TensorLike):
        drawn = normal_of_mean(mean, std=float(std), generator=generator)
    else:
        drawn = normal_of_both(mean, std, generator=generator)
    return without_complex_history("normal", drawn)


# -- counts and choices ----------------------------------------------------------------------


def _refuse_kernel(kernel: str) -> Callable[..., None]:
    def check(self: Raw, generator: Any = None) -> None:
        if self.dtype.kind not in dtypes.FLOATS:
            word = dtypes.type_word(self.dtype)
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{word}'")

    return check


poisson_of = elementwise(
    "poisson_of", lambda self, generator: arrays.random.poisson(arrays.writable(self), generator),
    lambda g: zeros_like(g), node="PoissonBackward0", check=_refuse_kernel("poisson_cpu"),
    random=True,
)  # fmt: skip


@public("torch")
def poisson(input: Any, generator: Any = None) -> Any:
    """Draws numbers from Poisson distributions.

    Args:
        input: The expected numbers of events.

    Returns:
        The numbers of events, in the shape and dtype of ``input``.

    Example:
        >>> torch.poisson(torch.zeros(3))
        tensor([0., 0., 0.])
    """
    return poisson_of(input, generator=checked("poisson", generator))


def _binomial(self: Raw, prob: Raw, generator: Any) -> Raw:
    return arrays.random.binomial(arrays.writable(self), arrays.writable(prob), generator)


def _check_binomial(self: Raw, prob: Raw, generator: Any) -> None:
    for name, x in (("count", self), ("prob", prob)):
        if x.dtype.kind not in dtypes.FLOATS:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: "
                f"{dtypes.type_word(x.dtype)}"
            )
    if self.dtype != prob.dtype:
        have, want = (dtypes.type_word(x.dtype) for x in (prob, self))
        raise RuntimeError(f"Found dtype {have} but expected {want}")


binomial_of = Elementwise(
    "binomial_of", _binomial, inputs=("self", "prob"),
    rules={"self": _not_implemented("binomial"), "prob": _not_implemented("binomial")},
    node="NotImplemented", check=_check_binomial, random=True,
)  # fmt: skip


@public("torch")
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """Draws numbers from binomial distributions.

    Args:
        count: The numbers of trials.
        prob: The probabilities of success in each trial.

    Returns:
        The numbers of successes, in the shape to which ``count`` and ``prob`` are broadcast.

    Example:
        >>> torch.binomial(torch.tensor([5.0, 5.0]), torch.tensor([0.0, 1.0]))
        tensor([0., 5.])
    """
    return binomial_of(count, prob, generator=checked("binomial", generator))


def _multinomial(self: Raw, num_samples: int, replacement: bool, generator: Any) -> Raw:
    return arrays.ascontiguous(arrays.random.multinomial(self, num_samples, replacement, generator))


multinomial_of: Operation = constant("multinomial_of", _multinomial, random=True, batch="leading")


@public("torch method", out="same, constant")
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Draws indices from the multinomial distribution of each row of weights.

    Args:
        input: A vector of weights, or a matrix with one row of weights for each distribution. They
            need not sum to one.
        num_samples: The number of indices to draw from each row.
        replacement: Whether an index may be drawn more than once.

    Returns:
        A tensor of integers, ``num_samples`` for each row.

    Example:
        >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
        tensor([1, 1])
    """
    weights, generator = raw(input), checked("multinomial", generator)
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if weights.dtype.kind not in dtypes.FLOATS:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{dtypes.type_word(weights.dtype)}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    return multinomial_of(
        input, num_samples=num_samples, replacement=bool(replacement), generator=generator
    )
