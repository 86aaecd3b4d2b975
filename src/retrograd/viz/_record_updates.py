"""Records optimizer steps: the change of each parameter, and its formula."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from retrograd._source import Place
from retrograd.autograd._explaining._facts import grad_of
from retrograd.viz._numbers import COARSE, IDENTIFIER, named, number, of_numbers
from retrograd.viz._record_tensors import Tensors
from retrograd.viz._values import Value

MOST = 100  # parameters of a step that are kept
Line = tuple[str, str, float | None]  # what is set, its formula, and its new value


@dataclass(slots=True)
class Changed:
    """A parameter in one step of an optimizer."""

    tensor: weakref.ref[Any]
    grad: Value
    options: dict[str, Any]  # of its group
    state: dict[str, float]  # numbers that the optimizer keeps of it: for the first element
    before: Value
    after: Value | None = None
    kept: dict[str, float] = field(default_factory=dict)  # the state after the step


@dataclass(slots=True)
class Update:
    """One step of an optimizer."""

    optimizer: str  # its class
    place: Place
    changes: list[Changed]
    left_out: int = 0  # parameters


def begun(optimizer: Any, tensors: Tensors, place: Place) -> Update:
    """A step that is about to be made."""
    result = Update(type(optimizer).__name__, place, [])
    for group in optimizer.param_groups:
        options = {name: x for name, x in group.items() if type(x) in (bool, int, float, tuple)}
        if (lr := _first(group.get("lr"))) is not None:
            options["lr"] = lr
        for p in group["params"]:
            grad = grad_of(p)
            grad = None if grad is None else tensors.value_of(grad)
            before = tensors.value_of(p)
            if grad is None or before is None:
                continue
            if len(result.changes) == MOST:
                result.left_out += 1
                continue
            state = _numbers_of(optimizer.state.get(p, {}))
            result.changes.append(Changed(weakref.ref(p), grad, options, state, before))
    return result


def ended(update: Update, optimizer: Any, tensors: Tensors) -> None:
    """The step was made."""
    for change in update.changes:
        p = change.tensor()
        if p is not None:
            change.after = tensors.value_of(p)
            change.kept = _numbers_of(optimizer.state.get(p, {}))


def _numbers_of(state: Any) -> dict[str, float]:
    numbers = {name: _first(x) for name, x in state.items() if isinstance(name, str)}
    return {name: x for name, x in numbers.items() if x is not None}


def _first(x: Any) -> float | None:
    """A number, or the first element of a tensor of real numbers."""
    array = getattr(x, "_data", None)
    if isinstance(x, (int, float)):
        return float(x)
    if array is None or not getattr(array, "size", 0) or array.dtype.kind not in "fiuV":
        return None
    return float(array.flat[0])


# -- formulas ------------------------------------------------------------------------------------


def formulas(update: Update, change: Changed, name: str) -> list[dict[str, str]]:
    """How an optimizer changed a parameter, in names and, of the first element, in numbers."""
    if change.after is None:
        return []
    before, grad, after = change.before.first, change.grad.first, change.after.first
    if before is None or grad is None or after is None:
        return []
    values = {name: x for name, x in change.options.items() if type(x) in (int, float)}
    values |= {"p": before, "grad": grad, **change.state}
    exact = COARSE.get(change.before.dtype, 1e-4)
    lines = LINES[update.optimizer](change, after) if update.optimizer in LINES else []
    equations = in_numbers(lines, values, exact)
    if not equations and math.isfinite(after):  # another rule, or one of several elements
        lines, values["change"] = [("p", "p + change", after)], after - before
        equations = in_numbers(lines, values, exact)
    names = {"p": name, "grad": f"{name}.grad" if IDENTIFIER.fullmatch(name) else "grad"}
    where = "[0]: " if change.before.size > 1 else ""
    return [
        {"formula": f"{names.get(left, left)} ← {named(right, names)}",
         "numbers": where + equations[i] if equations else ""}
        for i, (left, right, _) in enumerate(lines)
    ]  # fmt: skip


def in_numbers(lines: list[Line], values: dict[str, Any], exact: float) -> list[str]:
    """Formulas in numbers, each with the results of those before; none if one is not true."""
    values, result = dict(values), []
    for left, right, new in lines:
        text = "" if new is None else of_numbers(right, values, new, exact)
        if not text:
            return []
        result.append(text)
        values[left] = new
    return result


def _direction(options: dict[str, Any], decays: bool = True) -> str:
    """The gradient that is followed."""
    grad = "−grad" if options.get("maximize") else "grad"
    decay = decays and options.get("weight_decay")
    return f"({grad} + weight_decay · p)" if decay else f"({grad})" if grad[0] == "−" else grad


def _sgd(change: Changed, after: float) -> list[Line]:
    options, grad = change.options, _direction(change.options)
    if not options.get("momentum"):
        return [("p", f"p − lr · {grad}", after)]
    memory = change.kept.get("momentum_buffer")
    added = f"(1 − dampening) · {grad}" if options.get("dampening") else grad
    first = "momentum_buffer" not in change.state
    moved = f"({grad} + momentum · buffer)" if options.get("nesterov") else "buffer"
    return [("buffer", grad if first else f"momentum · momentum_buffer + {added}", memory),
            ("p", f"p − lr · {moved}", after)]  # fmt: skip


def _adam(change: Changed, after: float, decoupled: bool = False) -> list[Line]:
    options, kept = change.options, change.kept
    m, v, step = kept.get("exp_avg"), kept.get("exp_avg_sq"), kept.get("step")
    if m is None or v is None or not step or options.get("amsgrad"):
        return []
    grad = _direction(options, decays=not decoupled)
    beta1, beta2 = options["betas"]
    b1, b2, t = number(beta1), number(beta2), number(int(step))
    one = "exp_avg" in change.state
    start = "p · (1 − lr · weight_decay)" if decoupled and options.get("weight_decay") else "p"
    return [
        ("m", (f"{b1} · exp_avg + " if one else "") + f"(1 − {b1}) · {grad}", m),
        ("v", (f"{b2} · exp_avg_sq + " if one else "") + f"(1 − {b2}) · {grad}²", v),
        ("m_hat", f"m / (1 − {b1}^{t})", m / (1 - beta1**step)),
        ("v_hat", f"v / (1 − {b2}^{t})", v / (1 - beta2**step)),
        ("p", f"{start} − lr · m_hat / (sqrt(v_hat) + eps)", after),
    ]


LINES: dict[str, Callable[[Changed, float], list[Line]]] = {
    "SGD": _sgd,
    "Adam": _adam,
    "AdamW": partial(_adam, decoupled=True),
}
