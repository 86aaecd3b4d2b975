"""The array API standard, 2024.12, on tensors: what ``Tensor.__array_namespace__()`` returns.

The names, arguments and results are those of https://data-apis.org/array-api/2024.12/, and no
others, except ``special`` (see there). Functions are recorded, so what is written for the standard
can be differentiated. dtypes are promoted as the standard says: a tensor of no dimensions counts as
any other, while operators (``x + y``) follow PyTorch. ``size`` is a method of tensors, as in
PyTorch; elsewhere the attributes and methods are those of the standard.

>>> import retrograd as torch
>>> x = torch.tensor([3.0, 4.0], requires_grad=True)
>>> xp = x.__array_namespace__()
>>> xp.linalg.vector_norm(xp.astype(x, xp.float64))
tensor(5., dtype=torch.float64, grad_fn=<LinalgVectorNormBackward0>)
"""

# ruff: noqa: F403 - the standard's names

from retrograd import (
    bool,
    complex64,
    complex128,
    e,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)
from retrograd.array_api import _creation, _elements, _shapes, _statistics, fft, linalg
from retrograd.array_api import special as special
from retrograd.array_api._creation import *
from retrograd.array_api._dtypes import *
from retrograd.array_api._dtypes import __all__ as _of_dtypes
from retrograd.array_api._elements import *
from retrograd.array_api._info import __array_namespace_info__
from retrograd.array_api._shapes import *
from retrograd.array_api._statistics import *

__array_api_version__ = "2024.12"
__all__ = [
    "__array_api_version__", "__array_namespace_info__", "bool", "complex64", "complex128", "e",
    "fft", "float32", "float64", "inf", "int8", "int16", "int32", "int64", "linalg", "nan",
    "newaxis", "pi", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip
__all__ += [*_creation.__all__, *_of_dtypes, *_elements.__all__, *_shapes.__all__]
__all__ += _statistics.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
