"""Sparse Jacobians and Hessians: which entries there are, and their values at the cost of a few
directional derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd.autograd._levels import is_of, opened
from retrograd.autograd._patterns import Dependent, PatternLevel
from retrograd.autograd._wrap import wrap
from retrograd.func._arguments import check_outputs
from retrograd.func._captured import Running
from retrograd.func._forward import jvp
from retrograd.func._reverse import grad, vjp
from retrograd.func._vectorized import vmap
from retrograd.ops._operation import raw
from retrograd.tensor._tensor import Tensor

patterns, coloring = arrays.patterns, arrays.coloring


def sparsity(func: Callable[[Tensor], Any], x: Tensor, *, every_value: bool = False) -> Any:
    """The pattern of the Jacobian of ``func``: which outputs can depend on which inputs.

    It is found by one run of ``func`` that follows dependencies, never by evaluating derivatives.
    It may contain entries that turn out to be zero, and misses none that is not.

    Args:
        func: A function of one Tensor that returns one Tensor.
        x: Where to look: choices that ``func`` makes by values, by ``where`` or by sorting, are
            made as for this ``x``.
        every_value: Find a pattern that holds for every ``x`` of this shape. A function that
            branches on values, or takes elements at indices that it computes, is refused.

    Returns:
        A SciPy sparse array of bool, with a row for each element of the output, in reading order,
        and a column for each element of ``x``.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.func import sparsity
        >>> sparsity(lambda x: x[1:] * x[:-1], torch.ones(4)).toarray().astype(int)
        array([[1, 1, 0, 0],
               [0, 1, 1, 0],
               [0, 0, 1, 1]])
    """
    return _follow(func, x, every_value, "sparsity(f, x)")[0]


def hessian_sparsity(func: Callable[[Tensor], Any], x: Tensor, *, every_value: bool = False) -> Any:
    """The pattern of the Hessian of a scalar function: that of the Jacobian of its gradient, made
    symmetric.

    Args:
        func: A function of one Tensor that returns one number.
        x: Where to look, as for ``sparsity``.
        every_value: As for ``sparsity``.

    Returns:
        A SciPy sparse array of bool, square.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.func import hessian_sparsity
        >>> hessian_sparsity(lambda x: (x[1:] * x[:-1]).sum(), torch.ones(3)).toarray().astype(int)
        array([[0, 1, 0],
               [1, 0, 1],
               [0, 1, 0]])
    """
    found, _ = _follow(grad(func), x, every_value, "hessian_sparsity(f, x)")
    return patterns.union([found, patterns.transposed(found)])


def _follow(
    func: Callable[[Tensor], Any], x: Tensor, every_value: bool, what: str
) -> tuple[Any, tuple[int, ...]]:
    """The pattern of a function, and the shape of its output."""
    _check(x, what)
    count = x.numel()
    with opened(PatternLevel(count, local=not every_value)) as level:
        given = wrap(Dependent(level, x.detach(), patterns.identity(count)))
        with Running(func, x):
            output = func(given)
        check_outputs([output], what)
        if output.is_complex():
            raise TypeError(f"{what}: func returned complex numbers, which are not supported.")
        if every_value and level.looked:
            raise RuntimeError(
                f"{what}: func looks at values that depend on x, so what it depends on may be "
                "different for another x. Leave every_value out for the pattern at this x."
            )
        pattern = output._data.pattern if is_of(level, output) else None
        if pattern is None:
            pattern = patterns.empty(output.numel(), count)
        return pattern, tuple(output.shape)


def _count(colors: Any) -> int:
    return int(colors.max(initial=-1)) + 1


def _check(x: Any, what: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: expected x to be a Tensor, got {type(x)}.")
    if not x.is_floating_point():
        raise TypeError(
            f"{what}: expected x of a floating-point dtype, got {x.dtype}. Complex numbers are not "
            "supported; integers have no derivatives."
        )


class _Compressed:
    """What sparse Jacobians and Hessians share: a pattern, a colouring, batched derivatives."""

    pattern: Any
    colors: Any
    chunk_size: int | None
    # Whether the pattern was found at one point only, so that every evaluation is checked.
    local: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return tuple(self.pattern.shape)

    @property
    def nnz(self) -> int:
        """The number of entries of the pattern."""
        return int(self.pattern.nnz)

    @property
    def color_count(self) -> int:
        """The number of directional derivatives that one evaluation takes."""
        return _count(self.colors)

    def _given(self, x: Tensor) -> None:
        if tuple(x.shape) != self._input:
            raise ValueError(
                f"expected x of shape {list(self._input)}, for which the pattern was found, got "
                f"{list(x.shape)}. Make a new one for other shapes."
            )

    _input: tuple[int, ...]

    def _check(self, values: Any, product: Callable[[Tensor], Tensor], x: Tensor) -> None:
        """ValueError if the pattern was found at another point, and is not the one at ``x``."""
        if self.local and not _agrees(patterns.assembled(self.pattern, values), product, x):
            raise ValueError(
                "the pattern at this x is not the one that was found: the function looks at values "
                "that depend on x, and does something else for this one. Make a new sparse matrix "
                "here, or choose by torch.where() in the function."
            )

    def _in_form(self, values: Any, form: str) -> Any:
        if form == "csr":
            return patterns.assembled(self.pattern, values)
        rows, columns = patterns.entries(self.pattern)
        if form == "triplets":
            return rows, columns, values
        if form == "dense":
            return wrap(patterns.assembled(self.pattern, values).toarray())
        raise ValueError(f"expected a form of 'csr', 'dense' or 'triplets', got {form!r}.")


class SparseJacobian(_Compressed):
    """The Jacobian of a function as a sparse matrix. Made by ``sparse_jacobian``."""

    def __init__(
        self, func: Callable[[Tensor], Any], x: Tensor, pattern: Any, output: tuple[int, ...],
        mode: str, order: str | None, chunk_size: int | None,
    ) -> None:  # fmt: skip
        self.func = func
        self.pattern = pattern
        self.chunk_size = chunk_size
        self._input = tuple(x.shape)
        self._output = output
        by_columns = by_rows = None
        if mode in ("auto", "forward"):
            by_columns = coloring.columns(pattern, order)
        if mode in ("auto", "reverse"):
            by_rows = coloring.columns(patterns.transposed(pattern), order)
        # A product with the transposed Jacobian takes about twice the time of one with it.
        cheap = by_rows is None
        if by_columns is not None and by_rows is not None:
            cheap = _count(by_columns) <= 2 * _count(by_rows)
        self.mode = "forward" if cheap else "reverse"
        self.colors = by_columns if cheap else by_rows

    def __repr__(self) -> str:
        rows, columns = self.shape
        return (
            f"<sparse Jacobian, {rows} × {columns}: {self.nnz} entries, from {self.color_count} "
            f"product{'' if self.color_count == 1 else 's'} in {self.mode} mode>"
        )

    def __call__(self, x: Tensor, form: str = "csr") -> Any:
        """The Jacobian at ``x``.

        Args:
            x: Where to evaluate.
            form: "csr" for a SciPy ``csr_array``, "dense" for a Tensor, "triplets" for the rows,
                columns and values of all entries.
        """
        self._given(x)
        rows, columns = patterns.entries(self.pattern)
        seeds = wrap(coloring.seeds(self.colors, raw(x).dtype))
        if not len(seeds):
            return self._in_form(arrays.zeros((0,), raw(x).dtype), form)
        if self.mode == "forward":
            directions = seeds.reshape(-1, *self._input)
            found = vmap(lambda v: jvp(self.func, (x,), (v,))[1], chunk_size=self.chunk_size)(
                directions
            )
            index = (self.colors[columns], rows)
        else:
            _, pull = vjp(self.func, x)
            directions = seeds.reshape(-1, *self._output)
            found = vmap(lambda g: pull(g)[0], chunk_size=self.chunk_size)(directions)
            index = (self.colors[rows], columns)
        compressed = raw(found.detach().reshape(len(seeds), -1))
        self._check(compressed[index], lambda v: jvp(self.func, (x,), (v,))[1], x)
        return self._in_form(compressed[index], form)


class SparseHessian(_Compressed):
    """The Hessian of a scalar function as a sparse matrix. Made by ``sparse_hessian``."""

    def __init__(
        self, func: Callable[[Tensor], Any], x: Tensor, pattern: Any, order: str | None,
        chunk_size: int | None,
    ) -> None:  # fmt: skip
        self.func = func
        self.pattern = pattern
        self.chunk_size = chunk_size
        self._input = tuple(x.shape)
        self.colors = coloring.star(pattern, order or "largest_first")
        self._direct = coloring.readable(pattern, self.colors)

    def __repr__(self) -> str:
        n = self.shape[0]
        count = self.color_count
        return (
            f"<sparse Hessian, {n} × {n}: {self.nnz} entries, from {count} "
            f"product{'' if count == 1 else 's'}>"
        )

    def __call__(self, x: Tensor, form: str = "csr") -> Any:
        """The Hessian at ``x``.

        Args:
            x: Where to evaluate.
            form: As for a sparse Jacobian.
        """
        self._given(x)
        seeds = wrap(coloring.seeds(self.colors, raw(x).dtype)).reshape(-1, *self._input)
        if not self.nnz:
            return self._in_form(arrays.zeros((0,), raw(x).dtype), form)
        gradient = grad(self.func)
        found = vmap(lambda v: jvp(gradient, (x,), (v,))[1], chunk_size=self.chunk_size)(seeds)
        compressed = raw(found.detach().reshape(len(seeds), -1))
        rows, columns = patterns.entries(self.pattern)
        own = compressed[self.colors[columns], rows]
        mirrored = compressed[self.colors[rows], columns]
        values = arrays.where(self._direct, own, mirrored)
        self._check(values, lambda v: jvp(gradient, (x,), (v,))[1], x)
        return self._in_form(values, form)


def sparse_jacobian(
    func: Callable[[Tensor], Any], x: Tensor, *, pattern: Any = None, mode: str = "auto",
    order: str | None = None, chunk_size: int | None = None, check: bool = True,
) -> SparseJacobian:  # fmt: skip
    """The Jacobian of ``func`` as a sparse matrix, computed by few directional derivatives.

    The pattern and a colouring are found here, once. Columns that share no row have one colour,
    and are computed together.

    Args:
        func: A function of one Tensor that returns one Tensor.
        x: An argument of the shape and dtype that it will be evaluated for. The pattern is found
            for every value of that shape if ``func`` allows it. If it branches on values, the
            pattern is that at this ``x``, and each evaluation is checked by one more product.
        pattern: A known pattern, as any matrix of the right shape, dense or sparse; its nonzero
            entries count. See ``banded``.
        mode: "forward" to colour columns, "reverse" to colour rows, "auto" for the cheaper.
        order: The order in which columns are coloured: "natural", "largest_first",
            "smallest_last" or "incidence_degree". By default the better of the first two.
        chunk_size: The number of directions to compute at a time, to bound memory.
        check: Compare one product with a random vector with ``jvp``, which shows with certainty,
            but for chance, whether a given pattern misses an entry.

    Returns:
        An object ``jac``: ``jac(x)`` is a SciPy ``csr_array``, ``jac.pattern`` the pattern,
        ``jac.color_count`` the number of derivatives that an evaluation takes.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.func import sparse_jacobian
        >>> jac = sparse_jacobian(lambda x: x[1:] * x[:-1], torch.ones(1000))
        >>> jac
        <sparse Jacobian, 999 × 1000: 1998 entries, from 2 products in forward mode>
        >>> jac(torch.arange(1000.0))[[5], 5:7].toarray()
        array([[6., 5.]], dtype=float32)
    """
    what = "sparse_jacobian(f, x)"
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"{what}: expected a mode of auto, forward or reverse, got {mode!r}.")
    _check(x, what)
    given = pattern is not None
    if given:
        output = func(x.detach())
        check_outputs([output], what)
        shape, local = tuple(output.shape), False
        pattern = _given_pattern(pattern, (output.numel(), x.numel()), what)
    else:
        pattern, shape, local = _found(func, x, what)
    jac = SparseJacobian(func, x, pattern, shape, mode, order, chunk_size)
    jac.local = local
    if given and check:
        _compare(jac(x), lambda v: jvp(func, (x,), (v,))[1], x, what)
    return jac


def sparse_hessian(
    func: Callable[[Tensor], Any], x: Tensor, *, pattern: Any = None, order: str | None = None,
    chunk_size: int | None = None, check: bool = True,
) -> SparseHessian:  # fmt: skip
    """The Hessian of a scalar function as a sparse matrix, computed by few products with it.

    The colouring is a star colouring, which uses that a Hessian is symmetric: an entry is read off
    the product that has it alone, or the one that has its mirror image alone.

    Args:
        func: A function of one Tensor that returns one number.
        x: An argument of the shape and dtype that it will be evaluated for.
        pattern: A known pattern, symmetric.
        order: The order in which columns are coloured: "largest_first" or "natural".
        chunk_size: The number of directions to compute at a time, to bound memory.
        check: Compare one product with a random vector, as in ``sparse_jacobian``.

    Returns:
        An object ``hess``: ``hess(x)`` is a SciPy ``csr_array``.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.func import sparse_hessian
        >>> hess = sparse_hessian(lambda x: (x[1:] * x[:-1]).sum(), torch.ones(3))
        >>> hess(torch.ones(3)).toarray()
        array([[0., 1., 0.],
               [1., 0., 1.],
               [0., 1., 0.]], dtype=float32)
    """
    what = "sparse_hessian(f, x)"
    _check(x, what)
    given = pattern is not None
    if given:
        local = False
        pattern = _given_pattern(pattern, (x.numel(), x.numel()), what)
        pattern = patterns.union([pattern, patterns.transposed(pattern)])
    else:
        pattern, _, local = _found(grad(func), x, what)
        pattern = patterns.union([pattern, patterns.transposed(pattern)])
    hess = SparseHessian(func, x, pattern, order, chunk_size)
    hess.local = local
    if given and check:
        _compare(hess(x), lambda v: jvp(grad(func), (x,), (v,))[1], x, what)
    return hess


def banded(rows: int, columns: int, lower: int, upper: int) -> Any:
    """The pattern of a banded matrix.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        lower: Number of diagonals below the main one.
        upper: Number of diagonals above it.

    Returns:
        A SciPy sparse array of bool, for ``sparse_jacobian(..., pattern=...)``.

    Example:
        >>> from retrograd.func import banded
        >>> banded(3, 3, 1, 0).toarray().astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [0, 1, 1]])
    """
    return patterns.banded(rows, columns, lower, upper)


def _found(
    func: Callable[[Tensor], Any], x: Tensor, what: str
) -> tuple[Any, tuple[int, ...], bool]:
    """A pattern for every value, or the one at ``x`` if ``func`` looks at values; and which."""
    try:
        return (*_follow(func, x, True, what), False)
    except RuntimeError as error:
        if "looks at values" not in str(error):
            raise
    return (*_follow(func, x, False, what), True)


def _given_pattern(pattern: Any, shape: tuple[int, int], what: str) -> Any:
    pattern = patterns.from_array(raw(pattern) if isinstance(pattern, Tensor) else pattern)
    if tuple(pattern.shape) != shape:
        raise ValueError(
            f"{what}: the Jacobian has the shape {list(shape)}, but the pattern has "
            f"{list(pattern.shape)}."
        )
    return pattern


def _compare(matrix: Any, product: Callable[[Tensor], Tensor], x: Tensor, what: str) -> None:
    """ValueError if a product with the matrix is not what it should be."""
    if not _agrees(matrix, product, x):
        raise ValueError(
            f"{what}: the pattern given misses entries: a product with a random vector is not what "
            "jvp gives. Leave the pattern out to have it found."
        )


def _agrees(matrix: Any, product: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether a matrix gives what a product with a random vector is."""
    v = patterns.generic((x.numel(),)).astype(raw(x).dtype)
    wanted = raw(product(wrap(v).reshape(x.shape)).detach().reshape(-1))
    return bool(patterns.agree(matrix @ v, wanted, abs(matrix) @ abs(v)))
