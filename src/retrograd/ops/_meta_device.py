"""Tensors on the device ``meta``: a shape, strides and a dtype, but no memory.

Such a value is of a level below all others, which is never closed. It holds an array whose memory
is reserved but not used: the operating system gives out memory when it is first written, and this
is not. What an operation gives is found out with as little work as its family allows:

- An operation that gives views is simply run. So strides are true.
- An elementwise operation is run on single elements, which gives the dtype; shapes broadcast.
- A reduction along dimensions is run on single elements, too; the shape loses these dimensions.
- Products of matrices, and what draws random numbers, say their shapes here.
- A composite is its definition.
- All others are run on zeros. That takes as long as on the CPU, and as much memory while it lasts.

The fast paths know nothing of all this: a value refuses what is done to arrays, and the careful
path then asks whether the refusal came from here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._batching_declarations import Refused
from retrograd.ops._dims import broadcast
from retrograd.ops._lifted import Level, Lifted, LooksAtValues, TensorLike, raw

NO_DATA = "Cannot copy out of meta tensor; no data!"


class NoDataError(LooksAtValues, NotImplementedError):
    """Somebody needs the elements of a tensor that has none."""

    transform = "the meta device"


class MetaValue(Lifted):
    """A shape, strides and a dtype, as an array that is not to be looked at."""

    __slots__ = ("array",)

    def __init__(self, array: Raw) -> None:
        self.level = META_LEVEL
        self.array = array

    @property
    def inner(self) -> Any:
        return self.array

    @property
    def shared(self) -> Any:
        return None

    @property
    def differs(self) -> bool:
        return True

    def hold(self, as_tensor: Any) -> None:
        pass

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        self.refuse(ufunc.__name__)

    def item(self) -> Any:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")

    def tolist(self) -> Any:
        raise NoDataError(NO_DATA)

    def detached(self) -> Lifted:
        return self

    def text(self, suffixes: str) -> str:
        dtype = dtypes.from_numpy_dtype(self.array.dtype)
        named = "" if dtype is dtypes.get_default_dtype() else f", dtype={dtype}"
        return f"tensor(..., device='meta', size={self.array.shape}{named}{suffixes})"

    def refuse(self, what: str) -> NoReturn:
        raise NoDataError(NO_DATA)


class MetaLevel(Level):
    """The level of all values without memory."""

    name = "the meta device"
    transparent = True
    without_memory = True

    def __init__(self) -> None:
        super().__init__()
        self.number = 0  # below all transforms

    def constant(self, x: Any) -> Lifted:
        # PyTorch refuses tensors of the CPU beside those of the meta device, other than numbers.
        # Here rules and definitions may make such, and the result is on the meta device anyway.
        return MetaValue(arrays.writable(raw(x)))

    def run(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if operation.definition is not None:
            return self.by_definition(operation, args, options)
        return self.run_on_parts(operation, args, options)

    def run_on_parts(self, operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if isinstance(operation.batch, Refused):
            raise NotImplementedError(
                f"{operation.name}: the shape of the result depends on values, which tensors on "
                "the meta device do not have"
            )
        computed = result_of(operation, args, {n: _array(x) for n, x in options.items()})
        if isinstance(computed, (tuple, list)):
            return tuple([MetaValue(arrays.writable(x)) for x in computed])
        return MetaValue(arrays.writable(computed))

    def run_elementwise(self, operation: Any, args: Any, options: dict[str, Any]) -> Any:
        return self.run_on_parts(operation, tuple(args), options)

    def below(self, x: Any) -> tuple[Any, bool]:
        return (x, True)

    def write(self, target: Any, result: Any, moves: bool = True) -> None:
        pass  # there is nothing to write to


def _array(x: Any) -> Any:
    """The array of a value; lists of values likewise."""
    if isinstance(x, TensorLike):
        x = x._data
    if isinstance(x, MetaValue):
        return x.array
    if type(x) in (list, tuple):
        return type(x)(map(_array, x))
    return x


def result_of(operation: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Arrays of the shapes and dtypes that an operation gives."""
    given = [_array(x) for x in args]
    if operation.random or operation.batch == "random overwrite":
        return given[0]
    try:
        result = _from_one_element(operation, given, options)
    except Exception:  # some operations need more elements; genuine errors are raised again below
        result = None
    if result is not None:
        return result
    result = operation.compute(given, options)
    if operation.view:
        return result
    if isinstance(result, (tuple, list)):
        return tuple([_spread(x, x.shape) for x in result])
    return _spread(result, result.shape)


def _from_one_element(operation: Any, given: list[Any], options: dict[str, Any]) -> Any:
    """The results' shapes and dtypes, determined by computing the operation on single elements.
    None if that is not possible."""
    placed = "where" in options  # by indices: operands are not broadcast against each other
    if (operation.of_elements and not placed) or operation.batch == "pointwise":
        shape: tuple[int, ...] = ()
        for x in given:
            shape = broadcast(shape, x.shape) if arrays.is_raw(x) else shape
        return _spread(operation.compute(list(map(_one, given)), options), shape)
    if options.keys() >= {"dim", "keepdim"} and len(given) == 1:
        result = _reduced(operation, given, options)
        if result is not None:
            return result
    if operation.batch == "product" and len(given) == 2:
        a, b = given
        if a.ndim >= 2 and b.ndim >= 2:
            return _spread(
                operation.compute(list(map(_one, given)), options),
                (*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]),
            )
    return None


def _one(x: Any) -> Any:
    """A single element of an array, with as many dimensions; none where a dimension has none."""
    return x[(slice(0, 1),) * x.ndim] if arrays.is_raw(x) else x


def _spread(computed: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(computed, tuple):
        return tuple([_spread(x, shape) for x in computed])
    return arrays.layout.reserved(shape, computed.dtype)


def _reduced(operation: Any, given: list[Raw], options: dict[str, Any]) -> Any:
    """What a reduction along dimensions gives; None if it has another number of dimensions."""
    x, dim = given[0], options["dim"]
    if 0 in x.shape or not x.ndim:
        return None
    along = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = {d % x.ndim for d in along}
    if options["keepdim"]:
        shape = tuple([1 if d in dims else n for d, n in enumerate(x.shape)])
    else:
        shape = tuple([n for d, n in enumerate(x.shape) if d not in dims])
    computed = operation.compute([_one(x)], options)
    several = computed if isinstance(computed, tuple) else (computed,)
    return _spread(computed, shape) if all(y.ndim == len(shape) for y in several) else None


META_LEVEL = MetaLevel()
