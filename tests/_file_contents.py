"""Files in memory, and trees to compare."""

from __future__ import annotations

import io
import json
import math
import random
from collections import Counter, OrderedDict
from typing import Any

import numpy as np
from hypothesis import strategies as st

import retrograd as torch

DTYPES = [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8,
          torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
          torch.complex64, torch.complex128]  # fmt: skip

VALUES: dict[str, Any] = {
    "numbers": [0, 1, -1, 2**53, 2**53 + 1, -(2**64), 7**3000, 0.1, -0.0, 1e308, 5e-324],
    "not finite": [math.inf, -math.inf, math.nan, complex(math.nan, -math.inf), -0.0j, 1 + 2j],
    "constants": [None, True, False, torch.float32, torch.bool, torch.device("cpu")],
    "strings": ["", "é", "a\x00b", "\ud800", "$tensor", "\U0001f600", b"", b"\x00\xff"],
    "sequences": [(), (1,), [[]], torch.Size([2, 3]), {1, "a"}, frozenset([(1, 2)]), set()],
    "keys": {1: "int", "1": "str", None: 0, 2.5: 0, (1, "a"): 0, b"k": 0, "$a": 0, -1: 0},
    "one who writes JSON": {"$tensor": "weight", "x": {"$dict": [[1]]}},
    "kinds of dicts": [OrderedDict([("b", 1), ("a", 2)]), OrderedDict([(2, 1)]), Counter("aab")],
    "state of Python's generator": random.Random(3).getstate(),
    "state of a generator": {"state": torch.Generator().manual_seed(3).get_state()},
    "nothing": {}, "no items": [], "a string": "text", "none": None,
}  # fmt: skip


def saved(obj: Any) -> bytes:
    """A safetensors file."""
    file = io.BytesIO()
    torch.save(obj, file, format="safetensors")
    return file.getvalue()


def loaded(data: bytes) -> Any:
    return torch.load(io.BytesIO(data))


def again(obj: Any) -> Any:
    return loaded(saved(obj))


def same(a: Any, b: Any) -> bool:
    """Whether two trees are of the same types all through, with the same bits in their tensors."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        x, y = a.numpy(force=True), b.numpy(force=True)
        facts = (x.dtype, x.shape, a.requires_grad, x.tobytes())
        return facts == (y.dtype, y.shape, b.requires_grad, y.tobytes())
    if isinstance(a, dict):
        keys = len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
        return keys and all(same(x, y) for x, y in zip(a.values(), b.values(), strict=True))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (set, frozenset)):
        return sorted(map(repr, a)) == sorted(map(repr, b))
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # so that nan is nan and -0.0 is not 0.0
    return bool(a == b)


def ramp(dtype: Any, *shape: int) -> Any:
    return torch.from_numpy(np.arange(math.prod(shape)).reshape(shape).astype(dtype.numpy))


def header_of(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length])  # type: ignore[no-any-return]


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


class OnlyReads:
    """A file object that can only be read on, a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, count: int = -1) -> bytes:
        assert 0 <= count <= 1 << 26, "asks for more than a file can be trusted to have"
        return self._file.read(min(count, 1000))


# -- any tree ------------------------------------------------------------------------------------

tensors = st.builds(
    lambda dtype, shape, grad, turned: _tensor(dtype, shape, grad, turned),
    st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3), st.booleans(), st.booleans(),
)  # fmt: skip


def _tensor(dtype: Any, shape: list[int], grad: bool, turned: bool) -> Any:
    x = ramp(dtype, *shape)
    x = x.mT if turned and x.ndim > 1 else x
    return x.requires_grad_() if grad and (dtype.is_floating_point or dtype.is_complex) else x


text = st.text(st.characters(), max_size=5) | st.sampled_from(["$dict", "__metadata__", "a.b"])
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | text | st.binary(max_size=5)
    | st.complex_numbers() | st.sampled_from(DTYPES)
)  # fmt: skip
hashables = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4
)
trees = st.recursive(
    scalars | tensors,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(text, inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.dictionaries(hashables, inner, max_size=3).map(OrderedDict)
        | st.sets(hashables, max_size=3)
    ),
    max_leaves=12,
)
