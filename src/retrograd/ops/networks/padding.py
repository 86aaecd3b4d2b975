"""Padding: images extended by a constant, or by their own elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import linear
from retrograd.ops._operation import Linear, raw
from retrograd.ops._operation import linear as declare
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel

Sizes = tuple[int, ...]


def sides(pad: Sequence[int], ndim: int) -> tuple[Sizes, Sizes]:
    """What to add before and after each of the last dimensions. ``pad`` begins with the last."""
    before, after = tuple(pad[0::2])[::-1], tuple(pad[1::2])[::-1]
    none = (0,) * (ndim - len(before))
    return (*none, *before), (*none, *after)


def _constant_pad(self: Raw, pad: Sizes, value: Any) -> Raw:
    before, after = sides(pad, self.ndim)
    sizes = tuple(b + s + a for b, s, a in zip(before, self.shape, after, strict=True))
    value = arrays.as_value(value, self.dtype)
    result = arrays.windows.framed(arrays.writable(self), before, sizes, value)
    result = arrays.copy(result) if result.base is not None else result
    return arrays.windows.alike(self, result)


constant_pad_nd: Linear = declare(
    "constant_pad_nd", _constant_pad,
    lambda g, pad: constant_pad_nd(g, pad=tuple(-p for p in pad), value=0), offset="value",
    batch="leading",
    words="The gradient without the padding.",
)  # fmt: skip


# -- frames of an image's own elements -------------------------------------------------------


def _maps(mode: str, sizes: Sequence[int], padding: Sizes) -> list[Any]:
    before, after = sides(padding, len(padding) // 2)
    return [
        arrays.images.padding(mode, n, b, a) for n, b, a in zip(sizes, before, after, strict=True)
    ]


def _framed(self: Raw, mode: str, padding: Sizes) -> Raw:
    sizes = self.shape[self.ndim - len(padding) // 2 :]
    result = arrays.images.resample(self, _maps(mode, sizes, padding))
    return result if mode == "circular" else arrays.windows.alike(self, result)


def _framed_rule(g: Any, self: Any, mode: str, padding: Sizes) -> Any:
    """As in PyTorch, the node keeps its input, and so does that of the gradient."""
    sizes = tuple(self.shape[len(self.shape) - len(padding) // 2 :])
    return unframed(g, self, mode=mode, sizes=sizes, padding=padding)


def _wrapped_rule(g: Any, shape: Sizes, mode: str, padding: Sizes) -> Any:
    sizes = tuple(shape[len(shape) - len(padding) // 2 :])
    return unframed(g, None, mode=mode, sizes=sizes, padding=padding)


def _unframed_rule(g: Any, mode: str, sizes: Sizes, padding: Sizes) -> Any:
    return FRAMED[mode, len(sizes)](g, mode=mode, padding=padding)


def _framing(mode: str, ndim: int) -> Linear:
    word = {"reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}[mode]
    name = f"{word.lower()}_pad{ndim}d"
    node = f"{word}Pad{ndim}DBackward0"
    rule = _wrapped_rule if mode == "circular" else _framed_rule
    return declare(name, _framed, rule, node=node, batch="leading")


FRAMED = {
    (mode, n): _framing(mode, n) for mode in ("reflect", "replicate", "circular") for n in (1, 2, 3)
}
unframed = Linear(  # in its first array, whatever the second
    "unframed",
    lambda self, like, mode, sizes, padding:
        arrays.images.unresample(self, _maps(mode, sizes, padding)),
    inputs=("self", "like"),
    rules={"self": _unframed_rule, "like": lambda g, shape: linear.new_zeros(g, shape)},
    batch="leading",
)  # fmt: skip


# -- what users call -------------------------------------------------------------------------


def _whole(name: str, pad: Any) -> Sizes:
    if hasattr(pad, "__index__") or isinstance(pad, float):
        kind = type(pad).__name__
        raise TypeError(f"{name}(): argument 'pad' (position 2) must be tuple of ints, not {kind}")
    for position, p in enumerate(pad):
        if not hasattr(p, "__index__"):
            raise TypeError(
                f"{name}(): argument 'pad' (position 2) must be tuple of ints, but found element "
                f"of type {type(p).__name__} at pos {position}"
            )
    return tuple(int(p) for p in pad)


@public("torch.constant_pad_nd")
def constant_pad(input: Any, pad: Any, value: Any = 0) -> Any:
    """Pad with a constant value.

    Args:
        pad: numbers of elements to add before and after, from the last dimension on; negative ones
            crop.
        value: the value to pad with.

    Returns:
        The padded tensor.

    Example:
        >>> torch.constant_pad_nd(torch.tensor([1.0, 2.0]), (1, 2), 9.0)
        tensor([9., 1., 2., 9., 9.])
    """
    return _constant(input, _whole("constant_pad_nd", pad), value)


def _constant(input: Any, pad: Sizes, value: Any) -> Any:
    ndim = len(input.shape)
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {len(pad)}while the input has {ndim}dimensions."
        )
    before, after = sides(pad, ndim)
    for n, b, a in zip(input.shape, before, after, strict=True):
        if n + min(b, 0) + min(a, 0) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    return constant_pad_nd(input, pad=pad, value=value)


@public("functional")
def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Pad with a constant, or with elements of the input.

    Args:
        input: the input; for the modes other than "constant", of shape ``(N, C, ...)`` or
            ``(C, ...)``.
        pad: numbers of elements to add before and after, from the last dimension on; negative ones
            crop.
        mode: "constant", "reflect" (mirrored at the border), "replicate" (the border repeated) or
            "circular" (from the opposite side).
        value: the value to pad with in mode "constant"; 0 by default.

    Returns:
        The padded tensor.

    Example:
        >>> row = torch.tensor([[1.0, 2.0, 3.0]])
        >>> torch.nn.functional.pad(row, (1, 2))
        tensor([[0., 1., 2., 3., 0., 0.]])
        >>> torch.nn.functional.pad(row, (1, 2), mode="reflect")
        tensor([[2., 1., 2., 3., 2., 1.]])
    """
    sizes = _whole("pad", pad)
    if isinstance(value, complex):
        raise TypeError("pad(): argument 'value' (position 4) must be float, not complex")
    ndim = len(input.shape)
    if len(sizes) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(sizes) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(sizes)} and input of dimension {ndim}"
        )
    if mode == "constant":
        return _constant(input, sizes, 0.0 if value is None else value)
    if value not in (None, 0):
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    spatial = len(sizes) // 2
    if spatial not in (1, 2, 3) or ndim not in (spatial + 1, spatial + 2):
        raise NotImplementedError(
            f"Padding size {len(sizes)} is not supported for {ndim}D input tensor."
        )
    _refuse_frame(raw(input), sizes, mode)
    return FRAMED[mode, spatial](input, mode=mode, padding=sizes)


def _refuse_frame(x: Raw, pad: Sizes, mode: str) -> None:
    spatial, shape = len(pad) // 2, list(x.shape)
    before, after = sides(pad, spatial)
    sizes = shape[-spatial:]
    if mode == "circular":
        if any(max(b, a) > n for n, b, a in zip(sizes, before, after, strict=True)):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        for n, b, a in zip(sizes, before, after, strict=True):
            left = n + min(b, 0) + min(a, 0)  # of the input, which there must be some of to wrap
            if n + b + a < 0 or left <= 0 < n + b + a or (left < 0 < b):
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
    elif 0 in shape[len(shape) - spatial - 1 :]:
        raise RuntimeError(
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly 0 batch "
            f"size and other non-zero dimensions for input, but got: {shape}"
        )
    if mode == "reflect":
        for d in reversed(range(spatial)):
            if before[d] >= sizes[d] or after[d] >= sizes[d]:
                raise RuntimeError(
                    f"Argument #{2 * (spatial - d) + 2}: Padding size should be less than the "
                    f"corresponding input dimension, but got: padding ({before[d]}, {after[d]}) at "
                    f"dimension {len(shape) - spatial + d} of input {shape}"
                )
    results = [n + b + a for n, b, a in zip(sizes, before, after, strict=True)]
    if min(results) < 0 and max(results) > 0:
        wanted = [*shape[:-spatial], *results]
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(results)}: {wanted}"
        )
    if max(results) < 1 and mode != "circular":
        names = "DHW"[-spatial:]
        have, got = (
            [f"{c}: {n}" for c, n in zip(names, values, strict=True)] for values in (sizes, results)
        )
        comma = ", " if spatial == 2 else " "
        raise RuntimeError(
            f"input ({comma.join(have)}) is too small. Calculated output {' '.join(got)}"
        )
    if mode != "circular":
        word = "reflection" if mode == "reflect" else "replication"
        kernel(f"{word}_pad{spatial}d", "b")(x)
