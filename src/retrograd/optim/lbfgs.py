"""L-BFGS: a quasi-Newton method that approximates the Hessian from recent gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd._source import user_place
from retrograd.arrays import Raw
from retrograd.autograd._wrap import array_of, wrap
from retrograd.autograd.grad_mode import enable_grad
from retrograd.ops._lifted import Lifted
from retrograd.optim._line_search import Point, strong_wolfe
from retrograd.optim._rules import (
    check_lr,
    check_may_write,
    check_not_negative,
    check_state_is_beside,
    record_write,
    value_of,
)
from retrograd.optim.optimizer import Optimizer, ParamsT
from retrograd.tensor._tensor import Tensor

# Attributes of a search that are saved in the state, besides the numbers of evaluations.
_KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """Limited-memory BFGS, a quasi-Newton method.

    A step evaluates the function several times, so it needs a closure.

    Args:
        params: the parameters, or groups of them: dictionaries with ``params`` and options. Only
            one group.
        lr: step size of the search.
        max_iter: largest number of iterations per step.
        max_eval: largest number of evaluations per step; ``1.25 * max_iter`` by default.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when parameters or loss change less.
        history_size: number of past steps that approximate the Hessian.
        line_search_fn: None or "strong_wolfe".

    Example:
        >>> x = torch.tensor([-1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=100)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> x.round(decimals=3)
        tensor([1., 1.], grad_fn=<RoundBackward1>)
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1, max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(lr=lr)
        defaults = {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Search for a minimum.

        Args:
            closure: clears the gradients, computes the loss, calls ``backward`` and returns the
                loss.

        Returns:
            The loss at the start.
        """
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        params = group["params"]
        if any([isinstance(p._data, Lifted) and p.device._mesh is not None for p in params]):
            # The approximation of the Hessian computes many sums over all devices. XLA's virtual
            # devices on the CPU deadlock if many of these run at once.
            raise NotImplementedError(
                "LBFGS does not support parameters on a mesh of devices. Use another optimizer, or "
                "keep the parameters on one device."
            )
        # The state concerns all parameters, and is stored with the first.
        state = self.state[params[0]]
        check_state_is_beside(params[0], {"d": state.get("d")})
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        search = _Search(self, enable_grad()(closure), state)
        try:
            return search.run()
        finally:
            search.keep()


class _Search:
    """The search of one step, with its approximation of the Hessian. All vectors are raw arrays of
    all parameters together, on the device of the parameters. Numbers that determine control flow
    are read from the device. Those that only scale vectors are not, because reading waits for the
    device."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any], state: Any) -> None:
        self.optimizer, self.closure, self.state = optimizer, closure, state
        self.group, self.place = optimizer.param_groups[0], user_place(2)
        self.params, self.lr = self.group["params"], _read(value_of(self.group["lr"]))
        self.direction, self.size, changes, steps, inverses, self.scale, grad, loss = (
            _raw(state.get(name)) for name in _KEPT
        )
        self.history = list(zip(changes or (), steps or (), inverses or (), strict=True))
        # What belongs together is set together: an interrupt may come at any time. This is None
        # before the first iteration.
        self.latest = None if grad is None else (self.direction, self.size, grad, loss)

    def keep(self) -> None:
        """Put what the next step needs into the optimizer's state."""
        if self.latest is None:  # there was no iteration
            return
        direction, size, grad, loss = self.latest
        changes, steps, inverses = ([pair[i] for pair in self.history] for i in range(3))
        kept = (direction, size, changes, steps, inverses, self.scale, grad, loss)
        self.state.update({name: _wrapped(x) for name, x in zip(_KEPT, kept, strict=True)})

    # -- the function ----------------------------------------------------------------------------

    def evaluate(self) -> tuple[Any, Raw]:
        """The loss and its gradient where the parameters are now."""
        loss = self.closure()
        self.state["func_evals"] += 1
        parts = [
            arrays.updates.zeros_like(arrays.writable(p._data))
            if p.grad is None
            else array_of(p.grad)
            for p in self.params
        ]
        return loss, arrays.updates.flattened(parts)

    def memory(self) -> list[Raw]:
        for param in self.params:
            param._data = arrays.writable(param._data)
        return [param._data for param in self.params]

    def move(self, size: Any) -> None:
        """Go along the present direction."""
        for param in self.params:
            check_may_write(self.optimizer, param)
        arrays.updates.add_flat(self.memory(), self.direction, size)
        for param in self.params:
            record_write(param, self.place)

    def along(self, size: Any) -> Point:
        """The function at some distance. The parameters are then put back."""
        before = [arrays.updates.kept(data) for data in self.memory()]
        try:
            self.move(size)
            loss, grad = self.evaluate()
        finally:
            for data, values in zip(self.memory(), before, strict=True):
                arrays.updates.put_back(data, values)
            for param in self.params:
                record_write(param, self.place)
        return Point(size, _number(loss), grad, _read(grad @ self.direction))

    # -- the search ------------------------------------------------------------------------------

    def run(self) -> Any:
        group, state = self.group, self.state
        first_evals = state["func_evals"]
        first_loss, grad = self.evaluate()
        loss = _number(first_loss)
        if self.is_optimal(grad):
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            is_first = state["n_iter"] == 1 or self.latest is None
            self.direction = self.next_direction(grad, is_first)
            self.size = (min(1.0, 1.0 / _total(grad)) if is_first else 1.0) * self.lr
            last_grad, last_loss = arrays.copy(grad), loss
            self.latest = (self.direction, self.size, last_grad, last_loss)
            derivative = _read(grad @ self.direction)
            if derivative > -group["tolerance_change"]:
                break
            evals = state["func_evals"] - first_evals
            if group["line_search_fn"] is not None:
                start = Point(0, loss, grad, derivative)
                most, length = group["max_eval"] - evals, _largest(self.direction)
                end, _ = strong_wolfe(self.along, start, self.size, length, most)
                self.size, loss, grad = end.at, end.value, end.grad
                self.latest = (self.direction, self.size, last_grad, last_loss)
                self.move(self.size)
            else:
                self.move(self.size)
                if iteration != group["max_iter"]:  # or nothing would be done with the result
                    new_loss, grad = self.evaluate()
                    loss = _number(new_loss)
            if self.is_done(loss - last_loss, grad, state["func_evals"] - first_evals):
                break
        return first_loss

    def is_optimal(self, grad: Raw) -> bool:
        return bool(_largest(grad) <= self.group["tolerance_grad"])

    def is_done(self, change: float, grad: Raw, evals: int) -> bool:
        tolerance = self.group["tolerance_change"]
        return bool(
            evals >= self.group["max_eval"]
            or self.is_optimal(grad)
            or _largest(self.direction * self.size) <= tolerance
            or abs(change) < tolerance
        )

    def next_direction(self, grad: Raw, is_first: bool) -> Raw:
        """The step of Newton's method, with the inverse of the Hessian that fits the last changes
        of the gradient best (Nocedal and Wright, algorithm 7.4)."""
        if is_first or self.latest is None:
            self.history, self.scale = [], 1
            return -grad
        last_direction, last_size, last_grad, _ = self.latest
        change, step = grad - last_grad, last_direction * last_size
        product = change @ step
        if product > 1e-10:
            if len(self.history) == self.group["history_size"]:
                self.history.pop(0)
            self.history.append((change, step, 1.0 / product))
            self.scale = product / (change @ change)
        weights = []
        wanted = -grad
        for change, step, inverse in reversed(self.history):
            weight = (step @ wanted) * inverse
            weights.append(weight)
            wanted -= weight * change
        direction = wanted * self.scale
        for (change, step, inverse), weight in zip(self.history, reversed(weights), strict=True):
            direction += (weight - (change @ direction) * inverse) * step
        return direction


def _number(loss: Any) -> float:
    return float(loss.detach() if isinstance(loss, Tensor) else loss)


def _read(x: Any) -> Any:
    """A number as a NumPy scalar, which keeps its dtype in arithmetic."""
    return x.host[()] if isinstance(x, Lifted) else x


def _largest(x: Raw) -> Any:
    """The largest magnitude of all elements."""
    return abs(x).max() if isinstance(x, arrays.ndarray) else _read(wrap(x).abs().max()._data)


def _total(x: Raw) -> Any:
    """The sum of the magnitudes of all elements."""
    return abs(x).sum() if isinstance(x, arrays.ndarray) else _read(wrap(x).abs().sum()._data)


def _raw(value: Any) -> Any:
    """A part of a state with raw arrays in place of tensors."""
    if isinstance(value, list):
        return [_raw(x) for x in value]
    if not isinstance(value, Tensor):
        return value
    return value._data if value.ndim else arrays.updates.as_number(value._data)


def _wrapped(value: Any) -> Any:
    if isinstance(value, list):
        return [_wrapped(x) for x in value]
    if isinstance(value, (*arrays.RAW_TYPES, Lifted)):
        return wrap(arrays.writable(value))
    return value


__all__ = ["LBFGS"]
