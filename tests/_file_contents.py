"""Files in memory, and trees to compare."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np

import retrograd as torch

DTYPES = [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8,
          torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
          torch.complex64, torch.complex128]  # fmt: skip


def saved(obj: Any) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file)
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
