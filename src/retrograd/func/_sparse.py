"""Sparse Jacobians and Hessians: which entries there are, and their values at the cost of a few
directional derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import Plug, wrap
from retrograd.func._arguments import as_tensor, check_outputs
from retrograd.func._cuts import Composed, Cuts, Plan
from retrograd.func._cuts import find as find_cuts
from retrograd.func._forward import jvp
from retrograd.func._programs import Evaluation
from retrograd.func._reverse import grad, vjp
from retrograd.func._sparsity import check_point, find
from retrograd.func._vectorized import vmap
from retrograd.ops._operation import raw
from retrograd.tensor._tensor import Tensor

patterns, coloring, symmetric = arrays.patterns, arrays.coloring, arrays.symmetric
bidirectional = arrays.bidirectional


class _Compressed:
    """What sparse Jacobians and Hessians share: a pattern, and forms of the result."""

    pattern: Any
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

    def _given(self, x: Tensor) -> None:
        if tuple(x.shape) != self._input:
            raise ValueError(
                f"expected x of shape {list(self._input)}, for which the pattern was found, got "
                f"{list(x.shape)}. Make a new one for other shapes."
            )

    _input: tuple[int, ...]

    _count = 0  # of evaluations
    checked = True  # whether some of them are compared with a product

    def _check(self, values: Any, product: Callable[[Tensor], Tensor], x: Tensor) -> None:
        """ValueError if the function is not the one that was followed: if the pattern was found at
        another point and is not the one at ``x``, or if a call does something else than the one
        before. The latter is looked at after 1, 2, 4, 8 evaluations and so on."""
        self._count += 1
        if self.local and not _agrees(patterns.assembled(self.pattern, values), product, x):
            raise ValueError(
                "the pattern at this x is not the one that was found: the function looks at values "
                "that depend on x, and does something else for this one. Make a new sparse matrix "
                "here, or choose by torch.where() in the function."
            )
        if self._count & (self._count - 1) or self.local or not self.checked:
            return
        if not _agrees(patterns.assembled(self.pattern, values), product, x, roughly=True):
            raise ValueError(
                "a product with a random vector is not what jvp gives: the function computes "
                "something else than when its pattern was found. It must do the same in every "
                "call. Make a new sparse matrix if something that it uses has changed."
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


def evaluation(
    function: Callable[[Tensor], Any], compile: bool | None, chunk_size: int | None
) -> Any:
    """A function to be called for many points: as a program at once, never, or, for None, after a
    few calls. A program has all chunks one after the other, so that one with chunks is long."""
    if compile:
        return Plug.compiler().compile(function)
    if compile is None and chunk_size is None:
        return Evaluation(function, "matrix")
    return function


class Seeds:
    """The directions of products: for each colour, a tensor with ones where it is."""

    never_changes = True  # so that a program that refers to it need not compare it at each call

    def __init__(self, colors: Any, shape: tuple[int, ...]) -> None:
        self.colors = colors
        self.count: int = coloring.count(colors)
        self.shape = shape

    def __call__(self, dtype: Any) -> Tensor:
        seeds: Tensor = wrap(coloring.seeds(self.colors, dtype)).reshape(-1, *self.shape)
        return seeds

    def push(self, func: Callable[[Tensor], Any], chunk_size: int | None, x: Tensor) -> Tensor:
        """The products with the Jacobian of ``func``, a row for each colour."""
        seeds = self(raw(x).dtype)
        push = vmap(lambda v: jvp(func, (x,), (v,))[1], chunk_size=chunk_size)
        products: Tensor = push(seeds).reshape(len(seeds), -1)
        return products

    def curve(self, func: Callable[[Tensor], Any], chunk_size: int | None, x: Tensor) -> Tensor:
        """The products with the Hessian of ``func``."""
        return self.push(grad(func), chunk_size, x)


class Products:
    """The entries of a Jacobian from products with it and with its transpose, by a colouring."""

    never_changes = True

    def __init__(
        self, pattern: Any, colors: Any, chunk_size: int | None,
        shapes: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> None:  # fmt: skip
        """``shapes``: of the input and of the output."""
        self.column_colors, self.row_colors = colors
        self.chunk_size = chunk_size
        self.column_seeds = Seeds(self.column_colors, shapes[0])
        self.row_seeds = Seeds(self.row_colors, shapes[1])
        by_rows = bidirectional.by_rows(pattern, colors)
        rows, columns = patterns.entries(pattern)
        # Where each entry is in the products, one after the other.
        outputs, inputs = pattern.shape
        self.by_rows = by_rows
        self.forward = self.column_colors[columns[~by_rows]] * outputs + rows[~by_rows]
        self.reverse = self.row_colors[rows[by_rows]] * inputs + columns[by_rows]
        forward, reverse = self.column_seeds.count, self.row_seeds.count
        self.mode = "both" if forward and reverse else "reverse" if reverse else "forward"
        self.nnz = pattern.nnz

    def compressed(
        self, func: Callable[[Tensor], Any], x: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """The products with the Jacobian and with its transpose that hold all entries, a row for
        each colour."""
        forward = reverse = None
        if self.column_seeds.count:
            forward = self.column_seeds.push(func, self.chunk_size, x)
        if self.row_seeds.count:
            seeds = self.row_seeds(raw(x).dtype)
            _, pull = vjp(func, x)
            back = vmap(lambda g: pull(g)[0], chunk_size=self.chunk_size)
            reverse = back(seeds).reshape(len(seeds), -1)
        return forward, reverse

    def values(self, compressed: tuple[Tensor | None, Tensor | None], dtype: Any) -> Any:
        """The values of all entries, in the order of the pattern."""
        read = [
            None if x is None else raw(x.detach()).reshape(-1).take(index)
            for x, index in zip(compressed, (self.forward, self.reverse), strict=True)
        ]
        known = [values for values in read if values is not None]
        if len(known) == 1:
            return known[0]
        values = arrays.zeros((self.nnz,), dtype)
        if known:
            values[~self.by_rows], values[self.by_rows] = known
        return values


class SparseJacobian(_Compressed):
    """The Jacobian of a function as a sparse matrix. Made by ``sparse_jacobian``."""

    def __init__(
        self, func: Callable[[Tensor], Any], x: Tensor, pattern: Any, method: Any, local: bool,
        chunk_size: int | None, compile: bool | None,
    ) -> None:  # fmt: skip
        self.func = func
        self.pattern = pattern
        self.local = local
        self._input = tuple(x.shape)
        self._method = method
        self._compressed = evaluation(partial(method.compressed, func), compile, chunk_size)
        self.mode: str = method.mode
        self.column_colors, self.row_colors = method.column_colors, method.row_colors

    @property
    def colors(self) -> Any:
        """The colour of each column in forward mode, and of each row in reverse mode or if the
        function is cut. In mode "both" it is the pair of them. Columns and rows that take part in
        no product have the colour -1."""
        if self.mode == "both":
            return self.column_colors, self.row_colors
        return self.column_colors if self.mode == "forward" else self.row_colors

    @property
    def color_count(self) -> int:
        """The number of directional derivatives that one evaluation takes."""
        return coloring.count(self.column_colors) + coloring.count(self.row_colors)

    def __repr__(self) -> str:
        rows, columns = self.shape
        count = self.color_count
        product = f"product{'' if count == 1 else 's'} in"
        how = {
            "both": f"{product} both modes", "forward": f"{product} forward mode",
            "reverse": f"{product} reverse mode", "cut": f"pass{'' if count == 1 else 'es'} back "
            "to where elements are gathered",
        }[self.mode]  # fmt: skip
        if isinstance(self._method, Composed):
            how = "products with an intermediate value and passes back to it"
        return f"<sparse Jacobian, {rows} × {columns}: {self.nnz} entries, from {count} {how}>"

    def __call__(self, x: Tensor, form: str = "csr") -> Any:
        """The Jacobian at ``x``.

        Args:
            x: Where to evaluate.
            form: "csr" for a SciPy ``csr_array``, "dense" for a Tensor, "triplets" for the rows,
                columns and values of all entries.
        """
        x = as_tensor(x)
        self._given(x)
        values = self._method.values(self._compressed(x), raw(x).dtype)
        self._check(values, lambda v: jvp(self.func, (x,), (v,))[1], x)
        return self._in_form(values, form)


class SparseHessian(_Compressed):
    """The Hessian of a scalar function as a sparse matrix. Made by ``sparse_hessian``."""

    def __init__(
        self, func: Callable[[Tensor], Any], x: Tensor, pattern: Any, mode: str,
        order: str | None, chunk_size: int | None, compile: bool | None,
    ) -> None:  # fmt: skip
        self.func = func
        self.pattern = pattern
        self._input = tuple(x.shape)
        self._recovery = symmetric.recovery(pattern, mode, order)
        self.colors = self._recovery.colors
        products = partial(Seeds(self.colors, self._input).curve, func, chunk_size)
        self._products = evaluation(products, compile, chunk_size)
        self.mode = self._recovery.name

    @property
    def color_count(self) -> int:
        """The number of products that one evaluation takes."""
        return coloring.count(self.colors)

    def __repr__(self) -> str:
        n = self.shape[0]
        count = self.color_count
        how = ", by substitution" if self.mode == "substitution" else ""
        return (
            f"<sparse Hessian, {n} × {n}: {self.nnz} entries, from {count} "
            f"product{'' if count == 1 else 's'}{how}>"
        )

    def __call__(self, x: Tensor, form: str = "csr") -> Any:
        """The Hessian at ``x``.

        Args:
            x: Where to evaluate.
            form: As for a sparse Jacobian.
        """
        x = as_tensor(x)
        self._given(x)
        if not self.nnz:
            return self._in_form(arrays.zeros((0,), raw(x).dtype), form)
        values = self._recovery.values(raw(self._products(x).detach()))
        self._check(values, lambda v: jvp(grad(self.func), (x,), (v,))[1], x)
        return self._in_form(values, form)


def sparse_jacobian(
    func: Callable[[Tensor], Any], x: Tensor, *, pattern: Any = None, mode: str = "auto",
    order: str | None = None, chunk_size: int | None = None, check: bool = True,
    compile: bool | None = None,
) -> SparseJacobian:  # fmt: skip
    """Computes the sparse Jacobian of a function with a few directional derivatives.

    The pattern and a colouring are found here, once. Columns that share no row have one colour,
    and are computed together.

    Args:
        func: A function of one Tensor that returns one Tensor.
        x: An argument of the shape and dtype that it will be evaluated for. The pattern is found
            for every value of that shape if ``func`` allows it. If it branches on values, the
            pattern is that at this ``x``, and each evaluation is checked by one more product.
        pattern: A known pattern, as any matrix of the right shape, dense or sparse; its nonzero
            entries count. See ``banded``.
        mode: "forward" to colour columns, "reverse" to colour rows, "both" to compute dense rows
            in reverse mode and the rest in forward mode, or dense columns in forward mode and the
            rest in reverse mode. "cut" is for functions that gather elements of ``x`` and then
            work row by row: a pass backward goes no further than to what was gathered, and gives a
            row of the Jacobian for each of these rows. "auto" takes the cheapest.
        order: The order in which columns are coloured: "natural", "largest_first",
            "smallest_last" or "incidence_degree". By default several colourings are compared.
        chunk_size: The number of directions to compute at a time, to bound memory.
        check: Compare one product with a random vector with ``jvp``, which shows with certainty,
            but for chance, whether a given pattern misses an entry. Without it, evaluations are not
            checked either.
        compile: Whether to make a program of the evaluation by ``torch.compile``, at the first one.
            By default one is made after three, unless ``func`` does more than compute or there is a
            ``chunk_size``: results are the same to the bit.

    Returns:
        An object ``jac``: ``jac(x)`` is a SciPy ``csr_array``, ``jac.pattern`` the pattern,
        ``jac.color_count`` the number of derivatives that an evaluation takes.

    Example:
        >>> from retrograd.func import sparse_jacobian
        >>> jac = sparse_jacobian(lambda x: x[1:] * x[:-1], torch.ones(1000))
        >>> jac
        <sparse Jacobian, 999 × 1000: 1998 entries, from 2 products in forward mode>
        >>> jac(torch.arange(1000.0))[[5], 5:7].toarray()
        array([[6., 5.]], dtype=float32)
    """
    what = "sparse_jacobian(f, x)"
    modes = ("auto", "forward", "reverse", "both", "cut")
    if mode not in modes:
        raise ValueError(f"{what}: expected a mode of {', '.join(modes)}, got {mode!r}.")
    x = as_tensor(x)
    check_point(x, what)
    plan = None
    has_pattern = pattern is not None
    if has_pattern:
        output = func(x.detach())
        check_outputs([output], what)
        shape, local = tuple(output.shape), False
        pattern = _given_pattern(pattern, (output.numel(), x.numel()), what)
    elif mode in ("auto", "cut"):
        plan, pattern, shape, local = find_cuts(func, x, what)
    else:
        pattern, shape, local = find(func, x, what)
    method: Any = None
    if mode == "cut" and plan is None:
        raise ValueError(
            f"{what}: the function cannot be cut: it is not known to gather elements and then to "
            "work on rows of them. Use another mode."
        )
    if plan is not None and (mode == "cut" or plan.cost < bidirectional.least_cost(pattern)):
        method = _cut(plan, chunk_size, x)
    else:
        colors = bidirectional.color(pattern, mode, order)
        if plan is not None and plan.cost < colors.cost:
            method = _cut(plan, chunk_size, x)
        else:
            method = Products(pattern, colors, chunk_size, (tuple(x.shape), shape))
    jac = SparseJacobian(func, x, pattern, method, local, chunk_size, compile)
    jac.checked = not has_pattern
    if has_pattern and check:
        _compare(jac(x), lambda v: jvp(func, (x,), (v,))[1], x, what)
        jac.checked = True
    return jac


def _cut(plan: Plan, chunk_size: int | None, x: Tensor) -> Cuts:
    """The way to compute a Jacobian by a plan."""
    middle = plan.middle
    if middle is None:
        return Cuts(plan)
    columns = arrays.full((plan.inner.shape[1],), -1, arrays.int64)
    columns[plan.parts.columns] = coloring.columns(plan.parts.inner)
    colors = bidirectional.Colors(columns, arrays.full((middle.size,), -1, arrays.int64))
    shapes = tuple(x.shape), middle.shape
    return Composed(plan, Products(plan.inner, colors, chunk_size, shapes))


def sparse_hessian(
    func: Callable[[Tensor], Any], x: Tensor, *, pattern: Any = None, mode: str = "direct",
    order: str | None = None, chunk_size: int | None = None, check: bool = True,
    compile: bool | None = None,
) -> SparseHessian:  # fmt: skip
    """Computes the sparse Hessian of a scalar function with a few Hessian-vector products.

    The colourings use that a Hessian is symmetric. With a star colouring, an entry is read off the
    product that has it alone, or the one that has its mirror image alone. An acyclic colouring
    needs fewer products, and entries are found by substitution: some are what is left of a sum of
    several once the others are subtracted. An entry that is much smaller than those beside it
    loses digits by that, which is why it is not the default.

    Args:
        func: A function of one Tensor that returns one number.
        x: An argument of the shape and dtype that it will be evaluated for.
        pattern: A known pattern, symmetric.
        mode: "direct" for a star colouring, "substitution" for an acyclic one, "auto" for the one
            that takes fewer products.
        order: The order in which columns are coloured: "natural", "largest_first" or
            "smallest_last". By default several colourings are compared.
        chunk_size: The number of directions to compute at a time, to bound memory.
        check: Compare one product with a random vector, as in ``sparse_jacobian``.
        compile: Whether to make a program of the evaluation, as in ``sparse_jacobian``.

    Returns:
        An object ``hess``: ``hess(x)`` is a SciPy ``csr_array``.

    Example:
        >>> from retrograd.func import sparse_hessian
        >>> hess = sparse_hessian(lambda x: (x[1:] * x[:-1]).sum(), torch.ones(3))
        >>> hess(torch.ones(3)).toarray()
        array([[0., 1., 0.],
               [1., 0., 1.],
               [0., 1., 0.]], dtype=float32)
    """
    what = "sparse_hessian(f, x)"
    if mode not in ("direct", "substitution", "auto"):
        raise ValueError(f"{what}: expected a mode of direct, substitution or auto, got {mode!r}.")
    x = as_tensor(x)
    check_point(x, what)
    has_pattern = pattern is not None
    if has_pattern:
        local = False
        pattern = _given_pattern(pattern, (x.numel(), x.numel()), what)
        pattern = patterns.union([pattern, patterns.transposed(pattern)])
    else:
        pattern, _, local = find(grad(func), x, what)
        pattern = patterns.union([pattern, patterns.transposed(pattern)])
    hess = SparseHessian(func, x, pattern, mode, order, chunk_size, compile)
    hess.local = local
    hess.checked = not has_pattern
    if has_pattern and check:
        _compare(hess(x), lambda v: jvp(grad(func), (x,), (v,))[1], x, what)
        hess.checked = True
    return hess


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


def _agrees(
    matrix: Any, product: Callable[[Tensor], Tensor], x: Tensor, roughly: bool = False
) -> bool:
    """Whether a matrix gives what a product with a random vector is."""
    v = patterns.generic((x.numel(),)).astype(raw(x).dtype)
    wanted = raw(product(wrap(v).reshape(x.shape)).detach().reshape(-1))
    return bool(patterns.agree(matrix @ v, wanted, abs(matrix) @ abs(v), roughly))
