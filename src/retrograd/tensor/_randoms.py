"""Creation of tensors of random numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import sampling
from retrograd.ops._dims import numel
from retrograd.ops._randomness import drawn
from retrograd.ops._sections import complete_all
from retrograd.tensor._creation import MEANINGS, OPTIONS, allocated, finished, numpy_dtype, size_of
from retrograd.tensor._like import LIKE_OPTIONS, in_layout_of, tensor_like
from retrograd.tensor._memory_formats import check_strided
from retrograd.tensor._tensor import Tensor


def no_such_call(name: str, *given: Any) -> TypeError:
    """What PyTorch says of a call that fits none of its signatures."""
    kinds = ", ".join(type(x).__name__ for x in given)
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({kinds}), but expected one "
        "of:"
    )


def _sampled(distribution: str, name: str, numbers: str) -> Callable[..., Tensor]:
    def function(
        *sizes: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        if not sizes and size is None:
            raise no_such_call(name)
        check_strided(name, layout)
        sample = getattr(arrays.random, distribution)
        wanted = numpy_dtype(dtype, None if out is None else out._data.dtype, name)
        shape = size_of(name, sizes, size)

        def draw(shape: tuple[int, ...], dtype: Any) -> Raw:
            return drawn(shape, lambda s: sample(s, dtype, generator))

        data = allocated(draw, shape, wanted, device)
        return finished(name, data, out, dtype, requires_grad, device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Creates a tensor of random numbers from {numbers}.

Args:
    *sizes: The shape, as integers or as one sequence.
    size: The shape as a sequence, passed by keyword.
    generator: The generator of the random numbers. The default is the global generator.
    out: The tensor to write the result to.
    {OPTIONS}

Returns:
    A tensor of random numbers.

Example:
    >>> torch.{name}(2, 3, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3])
"""
    return function


_UNIFORM = "the uniform distribution on ``[0, 1)``"
_NORMAL = "the standard normal distribution"
rand = _sampled("uniform", "rand", _UNIFORM)
randn = _sampled("normal", "randn", _NORMAL)


def randint(low: Any = None, high: Any = None, size: Any = None, *, generator: Any = None,
            out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
            requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Creates a tensor of random integers, uniformly distributed on ``[low, high)``.

    It is called as ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        low: The lowest integer. The default is 0.
        high: The integer above the highest one.
        size: The shape of the result.
        dtype: The dtype of the result. The default is int64.

    Example:
        >>> torch.randint(5, 6, (2,))
        tensor([5, 5])
    """
    given = [x for x in (low, high, size) if x is not None]
    if size is None:
        if high is None:
            raise no_such_call("randint", *given)
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if high is None:
        raise no_such_call("randint", *given)
    low = 0 if low is None else low
    wanted = numpy_dtype(dtype, arrays.int64 if out is None else out._data.dtype, "randint")
    shape = size_of("randint", (size,))
    data = drawn(shape, lambda s: arrays.random.integers(low, high, s, wanted, generator))
    return finished("randint", data, out, dtype, requires_grad, device)


def randperm(n: int, *, generator: Any = None, out: Any = None, dtype: Any = None,
             layout: Any = None, device: Any = None, requires_grad: bool = False,
             pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Creates a random permutation of the integers from 0 to ``n - 1``.

    Args:
        n: The number of integers.
        dtype: The dtype of the result. The default is int64.

    Returns:
        A 1-D tensor.

    Example:
        >>> torch.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    if not hasattr(n, "__index__"):
        raise TypeError(
            f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}"
        )
    wanted = numpy_dtype(dtype, arrays.int64 if out is None else out._data.dtype, "randperm")
    data = drawn((operator.index(n),), lambda shape: _permutations(shape, wanted, generator))
    return finished("randperm", data, out, dtype, requires_grad, device)


def _permutations(shape: tuple[int, ...], dtype: Any, generator: Any) -> Raw:
    """As many as ``shape`` says, each along the last dimension."""
    if len(shape) == 1:
        return arrays.random.permutation(shape[0], dtype, generator)
    count = numel(shape[:-1])
    results = [arrays.random.permutation(shape[-1], dtype, generator) for _ in range(count)]
    return arrays.reshape(arrays.array(results, dtype), shape)


def _is_laid_out_in_order(like: Tensor) -> bool:
    """Whether a new tensor like another is contiguous, as that need not be itself."""
    if like.is_contiguous() or not arrays.is_raw(like._data):
        return like.is_contiguous()
    return arrays.layout_order(like._data) == list(range(like._data.ndim))


def _sampled_like(name: str, numbers: str, draw: Callable[..., Raw]) -> Callable[..., Tensor]:
    """``draw`` is given a shape, a dtype, a generator and whether the result is contiguous."""

    def function(
        input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        contiguous = memory_format == "contiguous" or (
            isinstance(input, Tensor) and _is_laid_out_in_order(input)
        )

        def fill(shape: tuple[int, ...], wanted: Any) -> Raw:
            return drawn(shape, lambda s: draw(s, wanted, generator, contiguous))

        data = in_layout_of(name, input, dtype, memory_format, fill)
        return tensor_like(input, data, requires_grad, device, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Creates a tensor in the shape of another one, from {numbers}.

Args:
    input: The tensor that determines the shape and, by default, the dtype.
    generator: The generator of the random numbers. The default is the global generator.
    {LIKE_OPTIONS}

Returns:
    A tensor of random numbers.

Example:
    >>> torch.{name}(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
"""
    return function


def _draw_uniform(shape: Any, dtype: Any, generator: Any, contiguous: bool) -> Raw:
    return arrays.random.uniform(shape, dtype, generator)


def _draw_normal(shape: Any, dtype: Any, generator: Any, contiguous: bool) -> Raw:
    return arrays.random.normal(shape, dtype, generator, 0.0, 1.0, contiguous)


rand_like = _sampled_like("rand_like", _UNIFORM, _draw_uniform)
randn_like = _sampled_like("randn_like", _NORMAL, _draw_normal)


def randint_like(input: Any, low: Any = None, high: Any = None, **options: Any) -> Tensor:
    """Creates a tensor of random integers in the shape and dtype of another tensor.

    It is called as ``randint_like(input, high)`` or ``randint_like(input, low, high)``.

    Args:
        input: The tensor that determines the shape and, by default, the dtype.
        low: The lowest integer. The default is 0.
        high: The integer above the highest one.
        **options: The options of ``rand_like``, such as ``dtype`` and ``requires_grad``.

    Example:
        >>> torch.randint_like(torch.zeros(2), 5, 6)
        tensor([5., 5.])
    """
    if high is None:
        low, high = 0, low
    if high is None:
        raise no_such_call("randint_like", input)
    low = 0 if low is None else low

    def draw(shape: Any, dtype: Any, generator: Any, contiguous: bool) -> Raw:
        return arrays.random.integers(low, high, shape, dtype, generator)

    return _sampled_like("randint_like", "", draw)(input, **options)


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None,
           out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
           pin_memory: bool = False, requires_grad: bool = False) -> Any:  # fmt: skip
    """Creates a tensor of random numbers from normal distributions.

    Args:
        mean: The mean: a number, or a tensor of means.
        std: The standard deviation: a number, or a tensor of standard deviations.
        size: The shape of the result, if both ``mean`` and ``std`` are numbers.
        dtype: The dtype of the result.

    Example:
        >>> torch.normal(torch.tensor([1.0, 2.0]), 0.0)
        tensor([1., 2.])
    """
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        if out is not None:  # what is drawn is as precise as what it is written to
            mean, std = (x.to(out.dtype) if isinstance(x, Tensor) else x for x in (mean, std))
        result = sampling.normal(mean, std, generator)
        return result if out is None else finished("normal", result._data, out, None)
    wanted = numpy_dtype(dtype, None if out is None else out._data.dtype, "normal")
    shape = size_of("normal", () if size is None else (size,))
    data = drawn(
        shape, lambda s: arrays.random.normal(s, wanted, generator, float(mean), float(std))
    )
    return finished("normal", data, out, dtype, requires_grad, device)


complete_all(globals(), {
    **MEANINGS, "out": "The tensor to write the result to.",
    "generator": "The generator of the random numbers. The default is the global generator.",
})  # fmt: skip
