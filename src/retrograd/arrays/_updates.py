"""Optimizer kernels, which update parameters and their state in place.

A kernel takes arrays of one shape, the parameter first and its gradient second, and then numbers.
It writes into all of them but the gradient. Steps are done in each other's memory, so that a kernel
needs one or two arrays of scratch; large parameters are worked on in blocks, on several threads,
where these steps stay in the cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.arrays._blocks import workers
from retrograd.arrays._memory import overlaps_itself
from retrograd.arrays._narrow import widened
from retrograd.arrays._numpy import RAW_TYPES, Raw, copy, write

# Of one array. Smaller blocks would fit smaller caches, but then the calls of NumPy, one for each
# step on each block, take longer than what the cache saves.
BLOCK_BYTES = 1 << 19


class Deferred:
    """Stands for an array that a kernel is to be called with later: the call is noted, in a list
    that all stand-ins of an update share."""

    __slots__ = ("calls", "number", "shape")

    def __init__(self, number: int, shape: tuple[int, ...], calls: list[Any]) -> None:
        self.number = number
        self.shape = shape
        self.calls = calls

    def update(self, *call: Any) -> None:
        """Note the call of a kernel."""
        self.calls.append(call)


def update(kernel: Callable[..., None], operands: Sequence[Any], numbers: tuple[Any, ...]) -> None:
    """``kernel(*operands, *numbers)``, where the first operand is the parameter to be written and
    an operand that is None is handed on as it is."""
    param = operands[0]
    if type(param) is not np.ndarray:  # a stand-in, or a value on a device
        param.update(kernel, operands, numbers)
        return
    if param.dtype.kind == "c":  # as PyTorch does: two real numbers that know nothing of each other
        operands = [x if x is None else as_real(x) for x in operands]
        param = operands[0]
    elif not param.ndim:  # whose results would be numbers, which nothing can be written into
        operands = [x if x is None else np.reshape(x, 1) for x in operands]
    numbers = as_numbers(param.dtype, *numbers)
    if not param.flags.forc:
        if overlaps_itself(param):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to "
                "a single memory location. Please clone() the tensor before performing the "
                "operation."
            )
        kernel(*operands, *numbers)
    elif param.nbytes <= BLOCK_BYTES:
        kernel(*operands, *numbers)
    else:
        _in_blocks(kernel, operands, numbers)


def update_whole(
    kernel: Callable[..., None], operands: Sequence[Any], numbers: tuple[Any, ...]
) -> None:
    """As ``update``, for a kernel that looks at the whole of its operands."""
    if type(operands[0]) is not np.ndarray:
        operands[0].update(kernel, operands, numbers)
        return
    wide = [widened(x) for x in operands]
    kernel(*wide, *numbers)
    for number, (given, computed) in enumerate(zip(operands, wide, strict=True)):
        if number != 1 and computed is not given:  # of bfloat16, and not the gradient
            np.copyto(given, computed, casting="unsafe")


def _in_blocks(kernel: Callable[..., None], operands: Sequence[Any], numbers: Any) -> None:
    param = operands[0]
    order = "C" if param.flags.c_contiguous else "F"
    flag = f"{order}_CONTIGUOUS"
    if any(x is not None and not x.flags[flag] for x in operands):
        kernel(*operands, *numbers)
        return
    flat = [x if x is None else x.reshape(-1, order=order) for x in operands]
    count, step = param.size, BLOCK_BYTES // param.itemsize
    starts = iter(range(0, count, step))  # each thread takes the next block that nobody has

    def share(number: int) -> None:
        for start in starts:
            part = slice(start, start + step)
            kernel(*[x if x is None else x[part] for x in flat], *numbers)

    if workers.count == 1:
        share(0)
    else:
        workers.run(share)


def as_real(x: Raw) -> Raw:
    """The real and imaginary parts of a complex array, in its memory."""
    return np.asarray(x)[..., None].view(x.dtype.type(0).real.dtype)


@functools.lru_cache(maxsize=256, typed=True)
def as_numbers(dtype: np.dtype[Any], *numbers: Any) -> tuple[Any, ...]:
    """Floats as arrays of a dtype, which NumPy takes faster than Python's own. Half precision is
    computed in single, as PyTorch does, and rounded when written."""
    kind = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    return tuple(np.array(x, kind) if isinstance(x, float) else x for x in numbers)


def as_number(x: Raw) -> Any:
    """The only element of an array as a NumPy number, which keeps its dtype in arithmetic."""
    return x.reshape(-1)[0] if isinstance(x, np.ndarray) else x


def zeros_like(x: Raw) -> Raw:
    return np.zeros_like(x) if isinstance(x, np.ndarray) else x.filled(0.0)


def filled_like(x: Raw, value: float) -> Raw:
    """An array of one value; of complex numbers, both parts have it."""
    element = complex(value, value) if x.dtype.kind == "c" else value
    return np.full_like(x, element) if isinstance(x, np.ndarray) else x.filled(element)


def scalar(value: float, double: bool) -> Raw:
    """An array of no dimensions, in double or single precision."""
    return np.array(value, np.float64 if double else np.float32)


# -- what kernels have in common -----------------------------------------------------------------


def _wanted(param: Raw, grad: Raw, decay: Raw | None, maximize: bool) -> Raw:
    """The direction to go against: the gradient, or its opposite, plus the decay of weights."""
    if decay is None:
        return -grad if maximize else grad
    wanted = param * decay
    (np.subtract if maximize else np.add)(wanted, grad, wanted)
    return wanted


def _lerp(x: Raw, to: Raw, weight: Raw, scratch: Raw) -> None:
    """Move ``x`` by a part of the way, counted from the nearer end as PyTorch does."""
    np.subtract(to, x, scratch)
    if weight < 0.5:
        scratch *= weight
        x += scratch
    else:
        scratch *= 1 - weight
        np.subtract(to, scratch, x)


def _average_squares(squares: Raw, grad: Raw, keep: Raw, rest: Raw) -> Raw:
    """``squares = keep * squares + rest * grad**2``. The array that is given back is scratch."""
    squares *= keep
    scratch = grad * grad
    scratch *= rest
    squares += scratch
    return scratch


# -- the kernels ---------------------------------------------------------------------------------


def sgd(
    param: Raw, grad: Raw, buffer: Raw | None, lr: Raw, momentum: Raw, rest: Raw,
    decay: Raw | None, first: bool, nesterov: bool, maximize: bool,
) -> None:  # fmt: skip
    if buffer is None and decay is None:
        step = grad * lr
        (np.add if maximize else np.subtract)(param, step, param)
        return
    wanted = _wanted(param, grad, decay, maximize)
    if buffer is None:
        wanted *= lr
        param -= wanted
        return
    if first:
        buffer[...] = wanted
    else:
        buffer *= momentum
        buffer += wanted if rest == 1.0 else wanted * rest
    if nesterov:
        step = buffer * momentum
        step += wanted
        step *= lr
    else:
        step = buffer * lr
    param -= step


def adam(
    param: Raw, grad: Raw, average: Raw, squares: Raw, largest: Raw | None, size: Raw, rest1: Raw,
    beta2: Raw, rest2: Raw, eps: Raw, decay: Raw | None, shrink: Raw | None, maximize: bool,
) -> None:  # fmt: skip
    if shrink is not None:
        param *= shrink
    wanted = _wanted(param, grad, decay, maximize)
    scratch = _average_squares(squares, wanted, beta2, rest2)
    _lerp(average, wanted, rest1, scratch)
    if largest is not None:
        np.maximum(largest, squares, out=largest)
    np.sqrt(squares if largest is None else largest, scratch)
    scratch += eps
    np.divide(average, scratch, scratch)
    scratch *= size
    param -= scratch


def adamax(
    param: Raw, grad: Raw, average: Raw, largest: Raw, size: Raw, rest1: Raw, beta2: Raw, eps: Raw,
    decay: Raw | None, maximize: bool,
) -> None:  # fmt: skip
    wanted = _wanted(param, grad, decay, maximize)
    scratch = np.empty_like(param)
    _lerp(average, wanted, rest1, scratch)
    largest *= beta2
    np.abs(wanted, scratch)
    scratch += eps
    np.maximum(largest, scratch, out=largest)
    np.divide(average, largest, scratch)
    scratch *= size
    param -= scratch


def nadam(
    param: Raw, grad: Raw, average: Raw, squares: Raw, of_grad: Raw, of_average: Raw, rest1: Raw,
    beta2: Raw, rest2: Raw, unbias: Raw, eps: Raw, decay: Raw | None, shrink: Raw | None,
    maximize: bool,
) -> None:  # fmt: skip
    if shrink is not None:
        param *= shrink
    wanted = _wanted(param, grad, decay, maximize)
    scratch = _average_squares(squares, wanted, beta2, rest2)
    _lerp(average, wanted, rest1, scratch)
    np.sqrt(squares, scratch)
    scratch *= unbias
    scratch += eps
    step = average * of_average
    step += wanted * of_grad
    step /= scratch
    param -= step


def radam(
    param: Raw, grad: Raw, average: Raw, squares: Raw, size: Raw, rest1: Raw, beta2: Raw,
    rest2: Raw, eps: Raw | None, decay: Raw | None, shrink: Raw | None, maximize: bool,
) -> None:  # fmt: skip
    """Without ``eps`` the step is not divided by the spread, of which too little is known yet."""
    if shrink is not None:
        param *= shrink
    wanted = _wanted(param, grad, decay, maximize)
    scratch = _average_squares(squares, wanted, beta2, rest2)
    _lerp(average, wanted, rest1, scratch)
    if eps is None:
        np.multiply(average, size, scratch)
    else:
        np.sqrt(squares, scratch)
        scratch += eps
        np.divide(average, scratch, scratch)
        scratch *= size
    param -= scratch


def rmsprop(
    param: Raw, grad: Raw, squares: Raw, average: Raw | None, buffer: Raw | None, lr: Raw,
    alpha: Raw, rest: Raw, eps: Raw, momentum: Raw, decay: Raw | None, maximize: bool,
) -> None:  # fmt: skip
    wanted = _wanted(param, grad, decay, maximize)
    scratch = _average_squares(squares, wanted, alpha, rest)
    if average is None:
        np.sqrt(squares, scratch)
    else:
        _lerp(average, wanted, rest, scratch)
        np.multiply(average, average, scratch)
        np.subtract(squares, scratch, scratch)
        np.sqrt(scratch, scratch)
    scratch += eps
    np.divide(wanted, scratch, scratch)
    if buffer is not None:
        buffer *= momentum
        buffer += scratch
        np.multiply(buffer, lr, scratch)
    else:
        scratch *= lr
    param -= scratch


def adagrad(
    param: Raw, grad: Raw, total: Raw, size: Raw, eps: Raw, decay: Raw | None, maximize: bool
) -> None:
    wanted = _wanted(param, grad, decay, maximize)
    scratch = wanted * wanted
    total += scratch
    np.sqrt(total, scratch)
    scratch += eps
    np.divide(wanted, scratch, scratch)
    scratch *= size
    param -= scratch


def adadelta(
    param: Raw, grad: Raw, squares: Raw, steps: Raw, lr: Raw, rho: Raw, rest: Raw, eps: Raw,
    decay: Raw | None, maximize: bool,
) -> None:  # fmt: skip
    wanted = _wanted(param, grad, decay, maximize)
    scratch = _average_squares(squares, wanted, rho, rest)
    np.add(squares, eps, scratch)
    step = steps + eps
    np.sqrt(scratch, scratch)
    np.sqrt(step, step)
    step /= scratch
    step *= wanted
    _average_squares(steps, step, rho, rest)
    step *= lr
    param -= step


def rprop(
    param: Raw, grad: Raw, previous: Raw, sizes: Raw, shrink: Raw, grow: Raw, smallest: Raw,
    largest: Raw, maximize: bool,
) -> None:  # fmt: skip
    wanted = -grad if maximize else grad
    factor = wanted * previous
    changed_sign, goes_on = factor < 0, factor > 0
    factor.fill(1)
    np.copyto(factor, shrink, where=changed_sign, casting="same_kind")
    np.copyto(factor, grow, where=goes_on, casting="same_kind")
    sizes *= factor
    np.clip(sizes, smallest, largest, out=sizes, casting="same_kind")
    np.copyto(previous, wanted)
    np.copyto(previous, 0, where=changed_sign)
    np.sign(previous, factor)
    np.copyto(factor, 0, where=np.isnan(factor))  # which has no sign, as in PyTorch
    factor *= sizes
    param -= factor


def asgd(
    param: Raw, grad: Raw, average: Raw, lr: Raw, shrink: Raw, mu: Raw | None, decay: Raw | None,
    maximize: bool,
) -> None:  # fmt: skip
    step = _wanted(param, grad, decay, maximize) * lr
    param *= shrink
    param -= step
    if mu is None:
        average[...] = param
    else:
        np.subtract(param, average, step)
        step *= mu
        average += step


def lerp(param: Raw, to: Raw, weight: Raw) -> None:
    """``param`` moved by a part of the way to another array of its shape."""
    _lerp(param, to, weight, np.empty_like(param))


# -- updates that look at the whole of a parameter -----------------------------------------------


def root_mean_square(x: Raw) -> float:
    """The size of a typical element."""
    flat = np.asarray(x).reshape(-1)
    flat = flat.astype(np.float32) if flat.itemsize == 2 else flat
    return float(np.sqrt(np.vdot(flat, flat) / max(flat.size, 1)))


def adafactor(
    param: Raw, grad: Raw, row: Raw | None, column: Raw | None, variance: Raw | None,
    lr: float, weight: float, eps: float | None, least: float, threshold: float,
    shrink: float | None, maximize: bool,
) -> None:  # fmt: skip
    """Adafactor, whose squares of a matrix's gradients are known by their rows and columns only.
    The step is as large as the parameter's typical element asks for, but at least ``least``."""
    kind = param.dtype.type
    tiny = float(np.finfo(kind).eps) if eps is None else eps
    size = max(least, root_mean_square(param)) * lr
    if shrink is not None:
        param *= kind(shrink)
    wanted = -grad if maximize else grad
    if row is None or column is None:
        assert variance is not None
        variance += (wanted * wanted - variance) * kind(weight)
        scale = variance.copy()
    else:
        squares = wanted * wanted
        row += (squares.mean(-1, keepdims=True) - row) * kind(weight)
        column += (squares.mean(-2, keepdims=True) - column) * kind(weight)
        scale = np.matmul(row, column, out=squares)
        scale /= np.maximum(row.mean(-2, keepdims=True), kind(tiny))
    np.maximum(scale, kind(tiny * tiny), out=scale)
    np.sqrt(scale, out=scale)
    np.divide(wanted, scale, out=scale)
    scale *= kind(size / max(1.0, root_mean_square(scale) / threshold))
    param -= scale


def muon(
    param: Raw, grad: Raw, buffer: Raw, size: float, shrink: float, momentum: float, nesterov: bool,
    coefficients: tuple[float, float, float], steps: int, eps: float,
) -> None:  # fmt: skip
    """Muon: momentum whose singular values have all been brought near one."""
    weight, kind = 1 - momentum, param.dtype.type
    scratch = np.empty_like(buffer)
    _lerp(buffer, grad, kind(weight), scratch)
    wanted = buffer
    if nesterov:
        wanted = grad.copy()
        _lerp(wanted, buffer, kind(momentum), scratch)
    step = orthogonal(wanted, coefficients, steps, eps).astype(param.dtype)
    param *= kind(shrink)
    step *= kind(size)
    param -= step


def orthogonal(x: Raw, coefficients: tuple[float, float, float], steps: int, eps: float) -> Raw:
    """A matrix with about the singular vectors of ``x`` and singular values near one, by Newton's
    and Schulz' iteration. As in PyTorch it has the precision of bfloat16: each result is rounded to
    eight bits, and what comes before is computed in single precision."""
    a, b, c = (np.float32(x) for x in coefficients)
    tall = x.shape[0] > x.shape[1]
    x = _to_eight_bits((x.T if tall else x).astype(np.float32))
    norm = _to_eight_bits(np.sqrt(np.vdot(x, x)))
    x = _to_eight_bits(x / np.maximum(norm, np.float32(eps)))
    for _ in range(steps):
        gram = _to_eight_bits(x @ x.T)
        change = _to_eight_bits(_sum_of(c, gram @ gram, b, gram))
        x = _to_eight_bits(_sum_of(np.float32(1), change @ x, a, x))
    return x.T if tall else x


def _sum_of(a: Any, x: Raw, b: Any, y: Raw) -> Raw:
    """``a * x + b * y``, in the memory of ``x``."""
    x *= a
    x += b * y
    return x


def _to_eight_bits(x: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Rounded to bfloat16, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    numbers: np.ndarray[Any, np.dtype[np.float32]] = rounded.view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), numbers)


# -- parameters as one vector --------------------------------------------------------------------


def flattened(parts: Sequence[Raw]) -> Raw:
    """The elements of several arrays as one vector. Complex elements are stored as their real and
    imaginary parts, and bfloat16 is converted to float32."""
    for x in parts:
        if not isinstance(x, RAW_TYPES):  # a value on a device
            return x.flattened(parts)
    reals = (as_real(x) if x.dtype.kind == "c" else np.asarray(widened(x)) for x in parts)
    return np.concatenate([x.reshape(-1) for x in reals])


def add_flat(params: Sequence[Raw], vector: Raw, size: Any) -> None:
    """Add ``size`` times the elements of a vector, as returned by ``flattened``, to arrays."""
    if not isinstance(vector, np.ndarray):
        vector.add_flat_to(params, size)
        return
    begin = 0
    for param in params:
        real = as_real(param) if param.dtype.kind == "c" else param
        part = vector[begin : begin + real.size].reshape(real.shape)
        np.add(real, part.dtype.type(size) * part, out=real, casting="unsafe")
        begin += real.size


def kept(param: Raw) -> Raw:
    """A copy of a parameter's values, for ``put_back``."""
    return copy(param) if isinstance(param, np.ndarray) else param.apart()


def put_back(param: Raw, before: Raw) -> None:
    """Restore a parameter's values from ``kept``."""
    if isinstance(param, np.ndarray):
        write(param, before)
    else:
        param.level.write(param, before)
