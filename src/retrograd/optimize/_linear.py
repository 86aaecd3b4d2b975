"""``cg`` and ``gmres``: linear systems given by matrix-vector products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd.optimize._equations import as_args, solved, vector, wide
from retrograd.optimize._implicit import Problem
from retrograd.optimize._points import Point
from retrograd.sparse import SparseTensor
from retrograd.tensor._tensor import Tensor


class _Linear(Problem):
    """``A x = b``, where ``A`` is a function."""

    def __init__(
        self, product: Callable[..., Any], matrix: Any, b: Any, x0: Any, args: tuple[Any, ...],
        name: str, options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.name, self.options = name, options
        self.product_with = product
        self.symmetric = name == "cg"
        self.point = Point(b if x0 is None else x0, name)
        if x0 is None:
            self.point.vector = 0.0 * self.point.vector
        super().__init__((matrix, b, args))
        self.parameters.look_at(self.functions, self.point.vector)

    def functions(self, x: Tensor, tree: Any) -> Tensor:
        matrix, b, args = tree
        found = self.product_with(matrix, x.reshape(b.shape), *args)
        left: Tensor = self.point.residual_of(found, "A") - b.reshape(-1)
        return left

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.parameters.call(self.functions, values, x)
        return found

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        zero = 0.0 * x0
        right = -self.residual(zero, values)

        def product(v: Any) -> Any:
            return wide(self.residual(vector(v, x0), values) + right)

        result = arrays.solvers.linear(self.name, product, wide(right), wide(x0), self.options)
        if not result.success:
            raise RuntimeError(
                f"{self.name}: no convergence after {result.nit} iterations: {result.left:.1e} of "
                "the right-hand side is left. Raise maxiter, or give a preconditioner M."
            )
        self.results.append(result)
        return vector(result.x, x0)


def _solved(
    name: str, matrix: Any, b: Tensor, x0: Any, args: Any, options: dict[str, Any]
) -> Tensor:
    if not isinstance(b, Tensor) or b.ndim != 1:
        raise TypeError(f"{name}: expected b to be a Tensor with one dimension.")
    if isinstance(matrix, SparseTensor):
        product = lambda values, x, *_: matrix._with(values) @ x
        given: Any = matrix._values()
    elif isinstance(matrix, Tensor):
        product, given = lambda a, x, *_: a @ x, matrix
    elif callable(matrix):
        product, given = lambda _, x, *args: matrix(x, *args), None
    else:
        raise TypeError(
            f"{name}: expected A to be a matrix, a sparse matrix or a function of a vector, got "
            f"{type(matrix).__name__}."
        )
    problem = _Linear(product, given, b, x0, as_args(args), name, options)
    found = solved(problem)[1]
    return found if found.shape == b.shape else found.reshape(b.shape)


def cg(
    A: Any, b: Tensor, x0: Any = None, *, args: Any = (), rtol: float = 1e-10,  # noqa: N803
    atol: float = 0.0, maxiter: int | None = None, M: Any = None,  # noqa: N803
) -> Tensor:  # fmt: skip
    """Solves linear equations with a symmetric positive definite matrix by conjugate gradients, as
    ``scipy.sparse.linalg.cg`` does, with derivatives.

    Args:
        A: A matrix, a sparse matrix, or a function that multiplies a vector by the matrix.
        b: The right-hand side: a vector.
        x0: Where to start; by default at zero.
        args: Further arguments of ``A``, if it is a function.
        rtol: What may be left of the right-hand side, relative to its size.
        atol: What may be left of the right-hand side.
        maxiter: The largest number of iterations.
        M: A preconditioner: a function of an array, or anything that SciPy takes.

    Returns:
        The solution, differentiable by ``b``, by ``A`` and ``args``, and by tensors that a function
        ``A`` has captured.

    Raises:
        RuntimeError: if the iteration does not converge.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import cg
        >>> k = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        >>> b = torch.ones(3, dtype=torch.float64)
        >>> x = cg(lambda x: k * x, b); x.sum().backward(); k.grad  # x = b / k
        tensor(-0.7500, dtype=torch.float64)
    """
    options = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "M": M}
    return _solved("cg", A, b, x0, args, options)


def gmres(
    A: Any, b: Tensor, x0: Any = None, *, args: Any = (), rtol: float = 1e-10,  # noqa: N803
    atol: float = 0.0, restart: int | None = None, maxiter: int | None = None,
    M: Any = None,  # noqa: N803
) -> Tensor:  # fmt: skip
    """Solves linear equations by the method of generalized minimal residuals, as
    ``scipy.sparse.linalg.gmres`` does, with derivatives.

    Args:
        A: A matrix, a sparse matrix, or a function that multiplies a vector by the matrix.
        b: The right-hand side: a vector.
        x0: Where to start; by default at zero.
        args: Further arguments of ``A``, if it is a function.
        rtol: What may be left of the right-hand side, relative to its size.
        atol: What may be left of the right-hand side.
        restart: The number of iterations between restarts.
        maxiter: The largest number of restarts.
        M: A preconditioner: a function of an array, or anything that SciPy takes.

    Returns:
        The solution, differentiable as that of ``cg``.

    Raises:
        RuntimeError: if the iteration does not converge.

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import gmres
        >>> a = torch.tensor([[2.0, 1.0], [0.0, 4.0]], dtype=torch.float64)
        >>> gmres(a, torch.tensor([4.0, 8.0], dtype=torch.float64)).round(decimals=6)
        tensor([1., 2.], dtype=torch.float64)
    """
    options = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "M": M, "restart": restart}
    return _solved("gmres", A, b, x0, args, options)
