"""Random programs of control flow inside of control flow, with captured tensors, under transforms:
compiled equal to eager, or an error that says what to write instead. ``NESTED=5000-5500`` runs the
programs of these seeds."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

import retrograd as torch
from retrograd.func import grad, hessian, jacrev, jvp, vmap

FIRST, _, LAST = os.environ.get("NESTED", "5044-5052").partition("-")
SEEDS = [*range(int(FIRST), int(LAST)), *([5132, 5451] if "NESTED" not in os.environ else [])]
SIMPLE = ["sin", "mul", "add", "view", "cat"]
CLEAR = "Pass it as an operand|Use torch.scan"  # what errors say


def steps_of(rng: random.Random, depth: int) -> list[Any]:
    """A random function, as a list of steps."""
    steps: list[Any] = []
    kinds = ["sin", "mul", "add", "cond", "scan", "while", "view", "cat"] if depth else SIMPLE
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(kinds)
        if kind == "cond":
            branches = steps_of(rng, depth - 1), steps_of(rng, depth - 1)
            steps.append((kind, *branches, rng.choice([True, False]), rng.randrange(3)))
        elif kind == "scan":
            body = steps_of(rng, depth - 1)
            steps.append((kind, body, rng.choice([True, False]), rng.choice([True, False])))
        elif kind == "while":
            steps.append((kind, rng.randint(0, 3)))
        else:
            steps.append((kind, rng.randrange(3)))
    return steps


def run(steps: list[Any], h: Any, given: list[Any]) -> Any:
    """The function of ``h`` and of tensors that branches and bodies capture."""
    for kind, *rest in steps:
        h = STEPS[kind](h, given, *rest)
    return h


def run_cond(h: Any, given: Any, yes: Any, no: Any, captures: bool, number: int) -> Any:
    holds = h.sum() > given[number][0]
    if captures:
        return torch.cond(holds, lambda: run(yes, h, given), lambda: run(no, h, given))
    return torch.cond(holds, lambda h: run(yes, h, given), lambda h: run(no, h, given), (h,))


def run_scan(h: Any, given: Any, body: Any, reverse: bool, sums: bool) -> Any:
    def step(carry: Any, x: Any) -> Any:
        y = run(body, carry + x * 0.3, given)
        return y, y * h

    xs = torch.stack([given[0], h, given[1]])
    carry, ys = torch.scan(step, h, xs, reverse=reverse)
    return ys.sum(0) * 0.2 + carry if sums else carry


def run_while(h: Any, given: Any, count: int) -> Any:
    start = torch.zeros((), dtype=h.dtype), h.detach()
    return h + torch.while_loop(lambda n, d: n < count, lambda n, d: (n + 1, d * 0.5), start)[1]


STEPS: dict[str, Any] = {
    "sin": lambda h, given, i: h.sin(),
    "mul": lambda h, given, i: h * given[i],
    "add": lambda h, given, i: h + given[i] * 0.5,
    "view": lambda h, given, i: h.flip(0)[None].expand(2, -1)[1],
    "cat": lambda h, given, i: torch.cat([h[1:], h[:1]]),
    "cond": run_cond, "scan": run_scan, "while": run_while,
}  # fmt: skip


def both(a: Any, c: Any) -> Any:
    """Batches of two."""
    return torch.stack([a, a * -1]), torch.stack([c, c * 2])


def over(f: Any, a: Any, b: Any, c: Any) -> Any:
    a, c = both(a, c)
    return vmap(f, (0, None, 0))(a, b, c)


def of_leaves(f: Any, *args: Any) -> Any:
    leaves = [x.detach().requires_grad_() for x in args]
    return torch.autograd.grad(f(*leaves), leaves, allow_unused=True, materialize_grads=True)


TRANSFORMS: dict[str, Any] = {
    "id": lambda f: f,
    "grad": lambda f: grad(f, argnums=(0, 1, 2)),
    "hess": lambda f: hessian(f, argnums=(0, 2)),
    "jvp": lambda f: lambda *args: jvp(f, args, args),
    "vmapgrad": lambda f: lambda *args: over(grad(f, argnums=(0, 1)), *args),
    "gradvmap": lambda f: grad(lambda *args: over(f, *args).sum(), argnums=(0, 1, 2)),
    "jacrevgrad": lambda f: jacrev(grad(f, argnums=1), argnums=2),
    "leaf": lambda f: lambda *args: of_leaves(f, *args),
}


def leaves(x: Any) -> list[Any]:
    return [y for part in x for y in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def program(seed: int) -> tuple[Any, list[Any]]:
    """A random function, and several lists of arguments for it."""
    rng = random.Random(seed)
    steps = steps_of(rng, 2)
    transform = TRANSFORMS[rng.choice(list(TRANSFORMS))]
    function = transform(lambda a, b, c: run(steps, a, [b, c, a * b]).sum())
    generator = torch.Generator().manual_seed(seed)
    args = [torch.randn(3, dtype=torch.float64, generator=generator) for _ in range(3)]
    return function, [args, [-x for x in args], args[::-1]]


@pytest.mark.parametrize("seed", SEEDS)
def test_nested_programs(seed: int) -> None:
    function, arguments = program(seed)
    compiled = torch.compile(function, fullgraph=True)
    for given in arguments:
        expected = function(*given)
        try:
            found = compiled(*given)
        except RuntimeError as error:
            if "NESTED" in os.environ and any(x in str(error) for x in CLEAR.split("|")):
                pytest.skip(str(error))
            raise
        for a, b in zip(leaves(expected), leaves(found), strict=True):
            torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-10)
    assert len(compiled.entries) == 1


@pytest.mark.parametrize("seed", [7065, 7080])  # a scan in a scan, a cond in a scan
def test_derivatives_that_cannot_be_traced_run_eagerly(seed: int) -> None:
    function, arguments = program(seed)
    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match="captures a tensor by which a higher derivative is taken"):
        found = compiled(*arguments[0])
    for a, b in zip(leaves(function(*arguments[0])), leaves(found), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-10)
