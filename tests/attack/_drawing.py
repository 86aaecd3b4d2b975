"""The parts of a line: numbers, shapes, leaves, dimensions, indices."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np

SHAPES = (
    (), (3,), (2,), (1,), (1, 1), (1, 3), (2, 1), (2, 3), (2, 3), (2, 3), (3, 2), (3, 3), (2, 2),
    (2, 3, 2), (2, 2, 3), (1, 2, 3), (2, 1, 3, 2), (4,), (0,), (0, 3), (2, 0),
)  # fmt: skip
FLOATS = ("float64", "float32", "float16", "complex128", "complex64")
INTEGERS = ("int64", "int32", "uint8", "int8", "int16")
DTYPES = (*FLOATS, *INTEGERS, "bool")
SPECIAL = ("inf", "-inf", "nan", "0.0", "-0.0", "1.0")
_QUARTERS = tuple(n / 4 for n in range(-9, 10))
_EIGHTHS = tuple(n / 64 for n in range(-130, 131))


def number(random: Random, dtype: str, special: bool) -> str:
    """A number of a dtype, which every float dtype holds exactly."""
    if dtype == "bool":
        return random.choice(("True", "False"))
    if dtype in INTEGERS:
        return str(random.randint(0, 7) if dtype == "uint8" else random.randint(-4, 7))
    if dtype.startswith("complex"):
        return repr(complex(random.choice(_QUARTERS), random.choice(_QUARTERS)))
    if special and random.random() < 0.3:
        return random.choice(SPECIAL)
    return repr(random.choice(_QUARTERS if random.random() < 0.5 else _EIGHTHS))


def nested(texts: list[str], shape: tuple[int, ...]) -> str:
    """Texts of numbers as a nested list."""
    if not shape:
        return texts[0]
    step = len(texts) // shape[0]
    rows = [nested(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(rows)}]"


def tensor(
    random: Random, shape: tuple[int, ...], dtype: str, special: bool = False, more: str = ""
) -> str:
    """The text of a tensor with numbers of its own; one of fifty, to be compiled only once."""
    random = Random(random.randrange(50))
    if 0 in shape:
        return f"torch.zeros({shape}, dtype=torch.{dtype}{more})"
    texts = [number(random, dtype, special) for _ in range(math.prod(shape))]
    return f"torch.tensor({nested(texts, shape)}, dtype=torch.{dtype}{more})"


def literal(array: np.ndarray, dtype: str, more: str = "") -> str:
    """The text of a tensor with given numbers, brought to 64ths."""
    shape = array.shape
    if 0 in shape:
        return f"torch.zeros({shape}, dtype=torch.{dtype}{more})"
    if dtype.startswith("complex"):
        texts = [exactly(complex(x), dtype) for x in array.ravel()]
    else:
        values = array.real if array.dtype.kind == "c" else array
        texts = [exactly(x.item(), dtype) for x in values.ravel()]
    return f"torch.tensor({nested(texts, shape)}, dtype=torch.{dtype}{more})"


def exactly(value: Any, dtype: str) -> str:
    if isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, complex):
        if math.isfinite(value.real) and math.isfinite(value.imag):
            return repr(complex(in_64ths(value.real), in_64ths(value.imag)))
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(in_64ths(value)) if math.isfinite(value) else repr(value)


def in_64ths(value: float) -> float:
    return round(value * 64) / 64 if abs(value) < 1e3 else value


def leaf(
    random: Random, shape: tuple[int, ...], dtype: str, special: bool, requires_grad: bool
) -> str:
    """The text of a leaf, now and then one that does not lie in memory as it is shown."""
    wants = requires_grad and (dtype in FLOATS)
    layout = random.random()
    if layout < 0.85 or not shape or 0 in shape:
        return tensor(random, shape, dtype, special, ", requires_grad=True" if wants else "")
    after = ".requires_grad_()" if wants else ""
    if layout < 0.92 and len(shape) > 1:
        text = tensor(random, shape[::-1], dtype, special)
        return f"{text}.permute({', '.join(map(str, range(len(shape))[::-1]))}){after}"
    if layout < 0.97 or wants:
        text = tensor(random, (2 * shape[0], *shape[1:]), dtype, special)
        return f"{text}[::2]{after}"
    text = tensor(random, (1, *shape[1:]), dtype, special)
    return f"{text}.expand({', '.join(map(str, shape))})"


# -- arguments -----------------------------------------------------------------------------------


def dim(random: Random, ndim: int) -> int:
    """A dimension, counted from either end; now and then one that is not there."""
    if random.random() < 0.02:
        return ndim
    return random.randrange(-ndim, ndim) if ndim else random.choice((0, -1))


def dims(random: Random, ndim: int) -> str:
    if ndim < 2 or random.random() < 0.6:
        return str(dim(random, ndim))
    chosen = random.sample(range(ndim), random.randint(1, ndim))
    return str(tuple(d - ndim if random.random() < 0.3 else d for d in chosen))


def scalar(random: Random, dtype: str = "float64") -> str:
    """A Python number."""
    choice = random.random()
    if choice < 0.4:
        return random.choice(("2", "3", "-1", "1", "0"))
    if choice < 0.9:
        return random.choice(("0.5", "2.5", "-1.5", "0.25"))
    return random.choice(("True", "1j", "(1+2j)", "inf", "-0.5"))


def index(random: Random, shape: tuple[int, ...], arrays: bool) -> str:
    """The text between brackets; with arrays and masks in it only if ``arrays``."""
    parts: list[str] = []
    kinds = ["int", "slice", "all", "none"] + (["list", "tensor", "mask"] if arrays else [])
    for size in shape[: random.randint(0, len(shape))]:
        kind = random.choice(kinds)
        if kind == "none":
            parts.append("None")
        if kind == "int" and size:
            parts.append(str(random.randrange(-size, size)))
        elif kind == "slice":
            start, stop = (random.choice(("", *map(str, range(-size, size + 1)))) for _ in "ab")
            parts.append(f"{start}:{stop}{random.choice(('', ':2'))}")
        elif kind in ("list", "tensor") and size:
            items = [random.randrange(-size, size) for _ in "ab"]
            parts.append(str(items) if kind == "list" else f"torch.tensor({items})")
        elif kind == "mask" and size:
            parts.append(f"torch.tensor({[random.random() < 0.5 for _ in range(size)]})")
        else:
            parts.append(":")
    if not parts or random.random() < 0.15:
        parts.append("...")
    return ", ".join(parts)


def factorings(count: int) -> list[tuple[int, ...]]:
    """The shapes of at most three dimensions that have ``count`` elements."""
    two = [(m, count // m) for m in range(1, count + 1) if count % m == 0]
    three = [(m, a, n // a) for m, n in two for a in range(1, n + 1) if n % a == 0]
    return [(count,), *two, *three] if count else [(0,), (0, 2), (2, 0)]


def broadcastable(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def expands_to(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) <= len(b) and all(m in (1, n) for m, n in zip(a[::-1], b[::-1], strict=False))
