"""Pure functions made of drawn calls, and transforms of them."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from ._machine import Facts
from ._templates import by_shape

_SIMPLE = (
    "torch.sin({x})", "{x} * {x}", "torch.tanh({x}) + 1", "{x}.exp()", "{x}.sum()", "{x} * 2.5",
    "{x}.square().sum(0)", "{x}.cumsum(0)", "torch.softmax({x}, -1)", "{x}.prod()", "{x}[..., :1]",
    "{x}.transpose(0, -1)", "{x}.unsqueeze(0)", "torch.sigmoid({x})", "{x}.flatten()", "{x} - {y}",
    "{x} * {y}", "torch.where({x} > 0, {x}, {y})", "{x}.clone().mul_({x})", "{x}.abs()", "{x}.T",
    "torch.cat([{x}, {x}])", "torch.stack([{x}, {x} * 2])", "{x} @ {x}.T", "{x}.pow(3)",
    "{x}.max()", "{x}.mean(-1)", "{x}.clone().fill_(2) * {x}", "{x}.detach() * {x}",
    "{x}.logsumexp(-1)",
    "torch.func.grad(lambda z: z.sin().sum())({x})", "torch.func.vmap(torch.sin)({x})",
    "torch.func.jvp(torch.sin, ({x},), ({x},))[1]", "{x}.sort(0)[0]", "{x} / ({x} * {x} + 1)",
    "torch.func.vjp(torch.exp, {x})[1]({x})[0]", "torch.func.jacrev(torch.sin)({x}).sum()",
)  # fmt: skip
_SEES_VALUES = re.compile(r"item\(|tolist|nonzero|unique|masked_select|\[\w+ > |bincount|histc|if ")


class Functions:
    """Draws functions of one tensor, and lines that transform them."""

    def __init__(
        self, random: Random, live: dict[str, Facts], values: dict[str, Any], main: str
    ) -> None:
        self.random, self.live, self.values, self.main = random, live, values, main

    def call(self, shape: tuple[int, ...], x: str) -> tuple[list[str], str]:
        """A call with ``x``, and the lines that must come before it, if it takes other tensors."""
        choices = by_shape().get(shape)
        if not choices or self.random.random() < 0.45:
            others = [n for n, f in self.live.items() if f.top < 100 and f.shape == shape]
            y = self.random.choice(others) if others else "2.0"
            return [], self.random.choice(_SIMPLE).format(x=x, y=y)
        template, operand = self.random.choice(choices)
        if self.main.startswith("complex") and not template.complex:
            return [], f"{x} * {x}"
        before, names = [], {operand.name: x}
        for other in template.operands:
            if other is operand:
                continue
            fitting = [n for n, f in self.live.items()
                       if f.top < 100 and other.fits(f.shape, f.dtype, self.main)]  # fmt: skip
            if fitting and self.random.random() < 0.7:
                names[other.name] = self.random.choice(fitting)
            else:
                name = f"c{len(self.values)}_{len(before)}"
                before.append(f"{name} = {other.text(self.main, '')}")
                names[other.name] = name
        return before, template.filled(names)

    def function(self, x: Any, space: dict[str, Any]) -> tuple[list[str], list[str]] | None:
        """The statements of a function body that runs in PyTorch for ``x``; and lines before it.

        The body names its argument ``x``, and what it computes ``x`` again.
        """
        lines: list[str] = []
        body: list[str] = []
        scope = dict(space)
        value = x
        for _ in range(self.random.randint(1, 3)):
            before, call = self.call(tuple(value.shape), "x")
            if _SEES_VALUES.search(call):
                continue
            try:
                for line in before:
                    exec(line, scope)
                scope["x"] = value
                result = eval(call, scope)
            except Exception:
                continue
            if isinstance(result, (tuple, list)):
                places = [i for i, r in enumerate(result) if is_float(r)]
                if not places:
                    continue
                place = self.random.choice(places)
                call, result = f"{call}[{place}]", result[place]
            if not is_float(result) or result.numel() > 30 or not is_tame(result):
                continue
            lines += before
            body.append(call)
            value = result
        if not body:
            return None
        return lines, body

    def line(self, a: str, space: dict[str, Any]) -> tuple[list[str], str] | None:
        """Lines that define what is needed, and an expression that transforms a function at a
        tensor ``a``."""
        random = self.random
        value = self.values[a].detach()
        batched = value.ndim > 0 and value.shape[0] > 0 and random.random() < 0.45
        made = self.function(value[0] if batched else value, space)
        if made is None:
            return None
        lines, body = made
        statements = "; ".join(f"x = {call}" for call in body)
        lines = [*lines, f"def f(x): {statements}; return x"]
        scalar = "lambda x: f(x).sum()"
        if self.main.startswith("complex"):
            scalar = "lambda x: f(x).abs().sum()"
        if batched:
            return lines, random.choice((
                f"torch.func.vmap(f)({a})",
                f"torch.func.vmap(torch.func.grad({scalar}))({a})",
                f"torch.func.vmap(torch.func.jacrev(f))({a})",
                f"torch.func.vmap(torch.func.jacfwd(f))({a})",
                f"torch.func.vmap(lambda x: torch.func.jvp(f, (x,), (x,)))({a})",
                f"torch.func.vmap(lambda x: torch.func.vjp(f, x)[1](f(x))[0])({a})",
                f"torch.func.grad(lambda y: ({scalar})(torch.func.vmap(f)(y)))({a})",
                f"torch.func.jvp(torch.func.vmap(f), ({a},), ({a},))",
                f"torch.func.vmap(torch.func.hessian({scalar}))({a})",
                f"torch.func.jacrev(torch.func.vmap(f))({a})",
                f"torch.func.vmap(lambda x: torch.func.vmap(f)(torch.stack([x, x * 2])))({a})",
                f"torch.func.vmap(f, in_dims=-1)({a}.movedim(0, -1))",
                f"torch.func.vmap(lambda x, y: f(x) * y)({a}, torch.arange({a}.shape[0]))"
                if random.random() < 0.3 else f"torch.func.vmap(f, chunk_size=1)({a})",
            ))  # fmt: skip
        return lines, random.choice((
            f"torch.func.grad({scalar})({a})",
            f"torch.func.grad_and_value({scalar})({a})",
            f"torch.func.vjp(f, {a})[1](f({a}))",
            f"torch.func.jvp(f, ({a},), ({a},))",
            f"torch.func.jacrev(f)({a})",
            f"torch.func.jacfwd(f)({a})",
            f"torch.func.hessian({scalar})({a})",
            f"torch.func.jacfwd(torch.func.jacrev(f))({a})",
            f"torch.func.grad(lambda y: torch.func.grad({scalar})(y).square().sum())({a})",
            f"torch.func.jvp(torch.func.grad({scalar}), ({a},), ({a},))",
            f"torch.func.jvp(lambda y: torch.func.jvp(f, (y,), (y,))[1], ({a},), ({a},))",
            f"torch.func.vjp(lambda y: torch.func.jvp(f, (y,), (y,))[1], {a})[1](f({a}))",
            f"torch.autograd.functional.jacobian(f, {a})",
            f"torch.autograd.functional.hvp({scalar}, {a}, {a})",
            f"torch.utils.checkpoint.checkpoint(f, {a}, use_reentrant=False)",
        ))  # fmt: skip


def is_float(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and (
        value.is_floating_point() or value.is_complex()
    )


def is_tame(value: Any) -> bool:
    if not value.numel():
        return True
    top = float(value.detach().abs().max())
    return top < 1e4  # false for NaN


