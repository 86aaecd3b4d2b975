"""Derivatives of solutions by the implicit function theorem.

Where ``F(x, p) = 0`` defines ``x`` as a function of parameters ``p``, and ``A`` is the derivative
of ``F`` by ``x``, a tangent of ``p`` moves ``x`` by ``-A⁻¹ F_p dp``, and a gradient of ``x`` gives
``-F_pᵀ A⁻ᵀ g`` for ``p``. Two operations are declared that way, each with both modes and a rule for
batches: the solution of an equation (``Solution``) and that of the linear equations with ``A``
(``LinearSolution``), of which only products with ``A`` are needed, by ``jvp`` and ``vjp`` of ``F``.
Their derivatives are written in terms of themselves and of ``F``, with the solution as a value that
depends on the parameters in its turn. So derivatives of any order follow, and nothing is known here
about how the equation was solved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, within
from retrograd.autograd._wrap import wrap
from retrograd.autograd.function import Function
from retrograd.func._forward import jvp
from retrograd.func._jacobians import jacfwd
from retrograd.func._programs import Evaluation
from retrograd.func._reverse import vjp
from retrograd.func._vectorized import vmap
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import raw
from retrograd.ops.linear import stack
from retrograd.optimize._captures import Parameters, outside, representative
from retrograd.optimize._points import Point
from retrograd.optimize._programs import fits, kept
from retrograd.tensor._tensor import Tensor

DENSE = 500  # up to how many unknowns the matrix of the linear equations is formed
SINGULAR = 1e-14  # the reciprocal of a condition number that leaves no correct digits
TOLERANCE = 1e-10  # of linear equations that are solved by iteration
FAR = 1e-3  # a Newton step from the solution that is larger, relative to it, is an error


class Problem:
    """An equation and its solver, on vectors; ``values`` are the values of the parameters.

    What SciPy returned is kept in ``results``: under ``vmap`` there are several.
    """

    name = "implicit"
    symmetric = False  # whether the derivative of the residual is
    point: Point

    def __init__(self, tree: Any) -> None:
        self.parameters = Parameters(tree)
        self.results: list[Any] = []
        self.has_derivatives = False
        self._keys: Any = None  # of the unknowns, and of the parameters
        self.known = False  # whether it is known what the user's functions have captured

    def evaluation(
        self, fun: Any, what: str, make: Callable[[], Callable[..., Any]], kind: str
    ) -> Evaluation:
        """A function made of the user's, of the unknowns and of the values of the parameters."""
        return kept(fun, self._key(what), make, kind)

    def _key(self, what: str) -> Any:
        if self._keys is None:
            self._keys = self.point.key, self.parameters.key
        return None if self._keys[1] is None else (what, *self._keys)

    def look_at(self, fun: Any) -> None:
        """Find the tensors that the user's functions capture. If a compiled ``fun`` from an earlier
        solve can be reused, there are none."""
        values = [representative(x) for x in self.parameters.live]
        at = self.point.vector
        self.known = not modes.levels and any(
            fits(fun, self._key(what), at, *values) for what in ("gradient", "jacobian", "value")
        )
        if not self.known:
            self.parameters.look_at(self.functions, at)
            self._keys = None

    def functions(self, x: Tensor, tree: Any) -> Any:
        """The values of the user's functions, from the tree of parameters."""
        raise NotImplementedError

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        """The solution, from values that no transform or history is attached to."""
        raise NotImplementedError

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        """What is zero at the solution, as a differentiable function."""
        raise NotImplementedError

    def check(self, x: Tensor, values: Sequence[Tensor]) -> None:
        """RuntimeError if the solution has no derivatives for a reason that only this kind of
        problem knows."""

    def solution(self, x0: Tensor | None) -> Tensor:
        """The solution, with derivatives if any parameter requires them."""
        live = self.parameters.live
        self.has_derivatives = bool(live)
        if not live and not (x0 is not None and isinstance(raw(x0), Lifted)):
            return self.plain_solution(x0, ())
        if not self.known:
            self.parameters.check(self.functions, self.name, self.point.vector)
        found: Tensor = Solution.apply(self, x0, *live)
        return found

    # -- what the operations below are made of -----------------------------------------------

    def plain_solution(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        def solve(x0: Any, *values: Tensor) -> Tensor:
            with self.parameters.plainly():
                return self.solve(x0, values)

        return outside(self.name, solve, x0, *values)

    def product(
        self, transposed: bool, x: Tensor, values: Sequence[Tensor], v: Tensor
    ) -> Tensor:
        """The derivative of the residual by ``x``, times a vector or each column of a matrix."""
        if v.ndim == 2:
            one = lambda column: self.product(transposed, x, values, column)
            return vmap(one, in_dims=1, out_dims=1)(v)  # type: ignore[no-any-return]
        f = lambda x: self.residual(x, values)
        return vjp(f, x)[1](v)[0] if transposed else jvp(f, (x,), (v,))[1]  # type: ignore[no-any-return]

    def value(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        """The residual, from plain values."""
        return self.residual(x, values)

    def matrix(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        """The derivative of the residual by ``x``, from plain values."""
        found: Tensor = jacfwd(lambda x: self.residual(x, values))(x)
        return found

    def linear_solution(
        self, transposed: bool, right: Tensor, x: Tensor, values: Sequence[Tensor]
    ) -> Tensor:
        """The solution of linear equations, from plain values."""
        with within(levels=(), grad_enabled=True):
            self.check(x, values)
            residual = raw(self.value(x, values).detach())
            if not arrays.isfinite(residual).all():
                raise RuntimeError(f"{self.name}: the function is infinite or NaN at its solution.")
            if x.numel() <= DENSE:
                found, step = self._by_matrix(transposed, right, x, values, residual)
            else:
                found, step = self._by_products(transposed, right, x, values, residual)
        check_near(self.name, step, raw(x))
        return wrap(arrays.asarray(found, raw(right).dtype))  # type: ignore[no-any-return]

    def _by_matrix(
        self, transposed: bool, right: Tensor, x: Tensor, values: Sequence[Tensor], residual: Any
    ) -> tuple[Any, Any]:
        factors = arrays.solvers.Factors(raw(self.matrix(x, values).detach()))
        check_regular(self.name, factors)
        return factors.solved(raw(right), transposed), factors.solved(residual, False)

    def _by_products(
        self, transposed: bool, right: Tensor, x: Tensor, values: Sequence[Tensor], residual: Any
    ) -> tuple[Any, Any]:
        f = lambda x: self.residual(x, values)
        _, pull = vjp(f, x)

        def back(v: Any) -> Any:
            return raw(pull(wrap(arrays.asarray(v, raw(x).dtype)))[0].detach())

        def forth(v: Any) -> Any:
            return raw(jvp(f, (x,), (wrap(arrays.asarray(v, raw(x).dtype)),))[1].detach())

        def solved(product: Callable[[Any], Any], b: Any) -> Any:
            found, left = arrays.solvers.iterated(product, b, self.symmetric, TOLERANCE)
            if not left <= 1e-6:
                raise RuntimeError(
                    f"{self.name}: the linear equations for the derivatives were not solved: an "
                    f"iteration leaves {left:.1e} of the right-hand side. They are singular, or "
                    "ill-conditioned."
                )
            return found

        b = raw(right)
        product = back if transposed and not self.symmetric else forth
        columns = [b] if b.ndim == 1 else [b[:, i] for i in range(b.shape[1])]
        found = [solved(product, column) for column in columns]
        step = solved(forth, residual)
        return (found[0] if b.ndim == 1 else arrays.solvers.columns(found)), step


def check_regular(name: str, factors: Any) -> None:
    """RuntimeError if equations for derivatives cannot be solved."""
    if not factors.condition > SINGULAR:
        raise RuntimeError(
            f"{name}: the solution has no derivatives, or they cannot be computed: the derivative "
            "of the equation by x is "
            + ("singular." if factors.finite else "infinite or NaN.")
            + " The solution may not be isolated, as where there are more unknowns than the "
            "equation determines."
        )


def check_near(name: str, step: Any, x: Any) -> None:
    """Raise a RuntimeError if a Newton step moves far away from the solution."""
    far = arrays.solvers.step_scale(step, x)
    if not far <= FAR:
        raise RuntimeError(
            f"{name}: derivatives were asked for, but the solver did not converge: Newton's method "
            f"would still move x by {far:.1e} of its size. They would be wrong. Ask for a smaller "
            "tolerance, or start nearer to the solution."
        )


# -- the two operations --------------------------------------------------------------------------


def _pulled(
    f: Callable[..., Any], at: Sequence[Tensor], needed: Sequence[bool], g: Tensor
) -> list[Any]:
    """Gradients of a function with respect to those of its arguments that need one."""
    places = [i for i, x in enumerate(at) if needed[i] and x.is_floating_point()]
    found: list[Any] = [None] * len(at)
    if places:
        chosen = _at_places(f, at, places)
        for i, gradient in zip(places, vjp(chosen, *[at[i] for i in places])[1](g), strict=True):
            found[i] = gradient
    return found


def _pushed(f: Callable[..., Any], at: Sequence[Tensor], tangents: Sequence[Any]) -> Any:
    """The tangent of a function; None if no argument moves."""
    places = [i for i, t in enumerate(tangents) if t is not None]
    if not places:
        return None
    primals = tuple(at[i] for i in places)
    return jvp(_at_places(f, at, places), primals, tuple(tangents[i] for i in places))[1]


def _at_places(
    f: Callable[..., Any], at: Sequence[Tensor], places: Sequence[int]
) -> Callable[..., Any]:
    def chosen(*some: Tensor) -> Any:
        whole = list(at)
        for i, x in zip(places, some, strict=True):
            whole[i] = x
        return f(*whole)

    return chosen


def _entries(info: Any, in_dims: Sequence[Any], args: Sequence[Any]) -> list[list[Any]]:
    """The arguments for each entry of a batch."""
    return [
        [a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=True)]
        for i in range(info.batch_size)
    ]


class Solution(Function):
    """What solves a problem, as a function of its parameters."""

    @staticmethod
    def forward(problem: Problem, x0: Any, *values: Tensor) -> Tensor:
        return problem.plain_solution(x0, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.problem, _, *values = inputs
        ctx.save_for_backward(output, *values)
        ctx.save_for_forward(output, *values)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if g is None:
            return (None,) * len(ctx.needs_input_grad)
        problem = ctx.problem
        x, *values = ctx.saved_tensors
        w = LinearSolution.apply(problem, True, g, x, *values)
        residual = lambda *values: problem.residual(x, values)
        return None, None, *_pulled(residual, values, ctx.needs_input_grad[2:], -w)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        problem = ctx.problem
        x, *values = ctx.saved_tensors
        moved = _pushed(lambda *values: problem.residual(x, values), values, tangents[2:])
        return None if moved is None else -LinearSolution.apply(problem, False, moved, x, *values)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        return stack([Solution.apply(*entry) for entry in _entries(info, in_dims, args)], dim=0), 0


class LinearSolution(Function):
    """The solution of linear equations with the derivative of a problem's residual by ``x``, or
    with its transpose, for a vector or for each column of a matrix."""

    @staticmethod
    def forward(
        problem: Problem, transposed: bool, right: Tensor, x: Tensor, *values: Tensor
    ) -> Tensor:
        solve = lambda right, x, *values: problem.linear_solution(transposed, right, x, values)
        return outside(problem.name, solve, right, x, *values)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.problem, ctx.transposed, _, *point = inputs
        ctx.save_for_backward(output, *point)
        ctx.save_for_forward(output, *point)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if g is None:
            return (None,) * len(ctx.needs_input_grad)
        problem, transposed = ctx.problem, ctx.transposed
        solution, *point = ctx.saved_tensors
        by_right = LinearSolution.apply(problem, not transposed, g, *point)
        product = lambda x, *values: problem.product(transposed, x, values, solution)
        return None, None, by_right, *_pulled(product, point, ctx.needs_input_grad[3:], -by_right)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        problem, transposed = ctx.problem, ctx.transposed
        solution, *point = ctx.saved_tensors
        product = lambda x, *values: problem.product(transposed, x, values, solution)
        moved = _pushed(product, point, tangents[3:])
        right = tangents[2]
        if moved is not None:
            right = -moved if right is None else right - moved
        return None if right is None else LinearSolution.apply(problem, transposed, right, *point)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **_: Any) -> Any:
        if any(d is not None for d in in_dims[3:]):
            entries = _entries(info, in_dims, args)
            return stack([LinearSolution.apply(*entry) for entry in entries], dim=0), 0
        problem, transposed, right, *point = args
        columns = right.movedim(in_dims[2], 1)  # (unknowns, batch) or (unknowns, batch, columns)
        flat = columns.reshape(columns.shape[0], -1)
        found = LinearSolution.apply(problem, transposed, flat, *point)
        return found.reshape(columns.shape), 1


# -- for solvers of one's own --------------------------------------------------------------------


class _Own(Problem):
    def __init__(
        self, solver: Callable[..., Any], optimality: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        super().__init__(args)
        self.solver = lambda args: solver(*args)
        self.optimality = optimality
        # The solver is run before it is known what there is to differentiate by.
        with within(grad_enabled=False):
            self.found = self.parameters.look_at(self.solver, plain=True)
        self.point = Point(self.found, self.name)
        self.parameters.look_at(self.functions, self.point.vector)
        lifted = any(isinstance(raw(x), Lifted) for x in self.parameters.live)
        self.first = None if lifted else self.point.vector

    def solve(self, x0: Any, values: Sequence[Tensor]) -> Tensor:
        if self.first is not None:
            return self.first
        return Point(self.parameters.call(self.solver, values), self.name).vector

    def functions(self, x: Tensor, tree: Any) -> Tensor:
        left = self.optimality(self.point.tree(x), *tree)
        return self.point.residual_of(left, "optimality")

    def residual(self, x: Tensor, values: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.parameters.call(self.functions, values, x)
        return found


def implicit(solver: Callable[..., Any], optimality: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the result of any solver differentiable.

    Derivatives follow from the equation that the result fulfils, by the implicit function theorem,
    whatever the solver does: in both modes, of any order, and under ``vmap``. ``solver`` itself is
    not differentiated, and need not be written with Tensors.

    Args:
        solver: A function of tensors that returns the solution: a Tensor, or a tuple, list or
            dictionary of them. It is called with tensors without history.
        optimality: A function of a solution and of the arguments of ``solver``, which is zero
            for the solution: as many numbers as the solution has, nested in any way. For a
            minimum, it is the gradient. For a fixed point of ``g``, it is ``x - g(x)``.

    Returns:
        A function of the arguments of ``solver`` that returns its result, with derivatives by the
        arguments, and by tensors that ``optimality`` uses and that were not passed to it.

    Raises:
        RuntimeError: when derivatives are asked for and do not exist (the derivative of
            ``optimality`` by the solution is singular), or would be wrong (the result is far from
            a solution).

    Example:
        >>> import retrograd as torch
        >>> from retrograd.optimize import implicit
        >>> def bisect(a):  # the square root of a
        ...     low, high = torch.zeros(()), a + 1
        ...     for _ in range(40):
        ...         middle = (low + high) / 2
        ...         low, high = (middle, high) if middle**2 < a else (low, middle)
        ...     return middle
        >>> root = implicit(bisect, lambda x, a: x**2 - a)
        >>> a = torch.tensor(4.0, requires_grad=True)
        >>> x = root(a); x.backward(); a.grad
        tensor(0.2500)
    """

    def solution(*args: Any) -> Any:
        problem = _Own(solver, optimality, args)
        if not problem.parameters.live:
            return problem.found
        return problem.point.user_tree(problem.solution(None), keep_tensors=True)

    return solution
