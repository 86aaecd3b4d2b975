"""8-bit floats, which NumPy lacks, loaded as float32."""

from __future__ import annotations

import functools
import math

from retrograd import arrays
from retrograd.arrays import Raw, dtypes


def widened(raw: Raw, kind: str) -> Raw:
    """The bits of a narrow format as float32."""
    return _values(kind)[raw]


@functools.cache
def _values(kind: str) -> Raw:
    """The numbers that the 256 patterns of an eight-bit format stand for."""
    of = _power if kind == "F8_E8M0" else _FORMATS[kind]
    return arrays.array([of(code) for code in range(256)], dtypes.float32.numpy)


def _power(code: int) -> float:
    return math.nan if code == 255 else math.ldexp(1.0, code - 127)


def _float(code: int, mantissa_bits: int, bias: int, special: str) -> float:
    """A sign, an exponent and a mantissa. ``special`` says which patterns are no numbers: those
    of IEEE, all ones only ("fn"), or minus zero only ("fnuz")."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if special == "fnuz" and code == 0x80:
        return math.nan
    if special == "fn" and code & 0x7F == 0x7F:
        return math.nan
    if special == "ieee" and exponent == (1 << (7 - mantissa_bits)) - 1:
        return math.nan if mantissa else sign * math.inf
    hidden = 1 << mantissa_bits if exponent else 0
    return sign * math.ldexp(hidden + mantissa, max(exponent, 1) - bias - mantissa_bits)


_FORMATS = {
    "F8_E4M3": functools.partial(_float, mantissa_bits=3, bias=7, special="fn"),
    "F8_E5M2": functools.partial(_float, mantissa_bits=2, bias=15, special="ieee"),
    "F8_E4M3FNUZ": functools.partial(_float, mantissa_bits=3, bias=8, special="fnuz"),
    "F8_E5M2FNUZ": functools.partial(_float, mantissa_bits=2, bias=16, special="fnuz"),
}
