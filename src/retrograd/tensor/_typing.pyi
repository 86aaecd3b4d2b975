"""Types of arguments and results, for type checkers only: there is no such module at run time."""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

from numpy.typing import NDArray

from retrograd.arrays._dtypes import dtype
from retrograd.tensor._tensor import Tensor, device

Number: TypeAlias = bool | int | float | complex
Operand: TypeAlias = Tensor | Number
Dtype: TypeAlias = dtype
Device: TypeAlias = str | device | None
Dims: TypeAlias = int | Sequence[int] | None  # None: all of them
Shape: TypeAlias = Sequence[int]
Ints: TypeAlias = int | Sequence[int]  # one for all dimensions of a window, or one for each
Layout: TypeAlias = str
MemoryFormat: TypeAlias = str
Array: TypeAlias = NDArray[Any]
_Index: TypeAlias = (
    None | SupportsIndex | slice | EllipsisType | Tensor | list[Any] | range | Array
)
Index: TypeAlias = _Index | tuple[_Index | tuple[Any, ...], ...]

# -- results with names ------------------------------------------------------------------------

class ValuesIndices(NamedTuple):
    values: Tensor
    indices: Tensor

class MinMax(NamedTuple):
    min: Tensor
    max: Tensor

class Frexp(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class Histogram(NamedTuple):
    hist: Tensor
    bin_edges: Tensor

class TriangularSolve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor

class CholeskyEx(NamedTuple):
    L: Tensor
    info: Tensor

class Lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class Geqrf(NamedTuple):
    a: Tensor
    tau: Tensor

class LUFactor(NamedTuple):
    LU: Tensor
    pivots: Tensor

class LDLFactor(NamedTuple):
    LD: Tensor
    pivots: Tensor

class LDLFactorEx(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor

class HistogramDD(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]

class LUFactorEx(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor

class PLU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor

class LinalgSVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

class Eigen(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class QR(NamedTuple):
    Q: Tensor
    R: Tensor

class SolveEx(NamedTuple):
    result: Tensor
    info: Tensor

class InvEx(NamedTuple):
    inverse: Tensor
    info: Tensor

class Slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor
