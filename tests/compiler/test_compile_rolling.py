"""Loops found in straight lines: a rolled program gives to the bit what the program gives."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import retrograd as torch
from retrograd.compiler._program import Program
from retrograd.compiler.xla._rolling import LEAST_COUNT, rolled

STEPS = 60


def array(*shape: int, seed: int = 0) -> Any:
    return torch.tensor(0.5 * np.random.RandomState(seed).randn(*shape).astype(np.float32))


def program_of(function: Callable[..., Any], *args: Any) -> Program:
    compiled = torch.compile(function, fullgraph=True)
    compiled(*args)
    program: Program = compiled.program
    return program


def same(program: Program) -> Program:
    """The rolled program, after it has given what the program gives."""
    found = rolled(program, program.outputs)
    random = np.random.RandomState(1)
    values = [
        (0.3 * random.randn(*v.shape)).astype(v.dtype) if v.shape else v.dtype.type(0.3)
        for v in program.inputs
    ]
    for x, y in zip(program.run(*values), found.run(*values), strict=True):
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()
    return found


def scans(program: Program) -> list[Any]:
    return [line for line in program.lines if line.operation.name == "scan"]


def gradients(loss: Callable[..., Any], *args: Any) -> Program:
    wrt = tuple(range(len(args)))
    return program_of(lambda *x: torch.func.grad(loss, argnums=wrt)(*x), *args)


def cell(w: Any, u: Any, b: Any, x: Any, h: Any, c: Any) -> Any:
    i, f, k, o = (x @ w + h @ u + b).chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * k.tanh()
    return o.sigmoid() * c.tanh(), c


WEIGHTS = array(3, 16), array(4, 16, seed=1), array(16, seed=2)


def test_the_gradient_of_an_lstm_is_two_loops() -> None:
    steps = [array(2, 3, seed=k) for k in range(STEPS)]
    start = torch.zeros(2, 4)

    def loss(w: Any, u: Any, b: Any) -> Any:
        h = c = start
        for x in steps:
            h, c = cell(w, u, b, x, h, c)
        return h.sum()

    program = gradients(loss, *WEIGHTS)
    found = same(program)
    forward, backward = scans(found)
    assert [x.operation.reverse for x in (forward, backward)] == [False, True]
    assert forward.operation.programs[0].inputs[2].shape == (2, 3)  # a step, after h and c
    assert len(program.lines) > 40 * STEPS
    assert len(found.lines) < 120


def test_steps_that_are_indexed_in_the_loop_and_all_states_used_afterwards() -> None:
    def loss(w: Any, u: Any, b: Any, x: Any) -> Any:
        h = c = torch.zeros(2, 4)
        states = []
        for t in range(STEPS):
            h, c = cell(w, u, b, x[:, t], h, c)
            states.append(h)
        return torch.stack(states), c, states[7] + states[-2]

    found = same(program_of(loss, *WEIGHTS, array(2, STEPS, 3)))
    assert len(scans(found)) == 1


def test_the_gradient_of_steps_that_are_indexed_in_the_loop() -> None:
    """A gradient of ``x[:, t]`` is one of x that is zero elsewhere, at another place each time."""

    def loss(w: Any, u: Any, b: Any, x: Any) -> Any:
        h = c = torch.zeros(2, 4)
        x, states = x.exp(), []
        for t in range(STEPS):
            h, c = cell(w, u, b, x[:, t], h, c)
            states.append(h)
        return torch.stack(states, 1).pow(3).sum()

    found = same(gradients(loss, *WEIGHTS, array(2, STEPS, 3)))
    assert [x.operation.reverse for x in scans(found)] == [False, True]


def test_the_gradient_of_an_integration_step_by_step() -> None:
    def loss(y: Any, k: Any) -> Any:
        for _ in range(100):
            y = y + 0.01 * torch.sin(k * y) * torch.exp(-y * y)
        return y.sum()

    found = same(gradients(loss, array(3), array(3, seed=1)))
    assert len(scans(found)) == 2
    assert len(found.lines) < 100


def test_rows_of_one_array_are_not_taken_apart_and_put_together() -> None:
    def loss(w: Any, x: Any) -> Any:
        h, states = w[0], []
        for row in x.split(2):
            h = torch.tanh(row.sum(0) * h + w[1])
            h = (h * h).sin() - h.cos() * w[0]
            states.append(h)
        return torch.cat(states).pow(2).sum(), torch.stack(states)

    found = same(program_of(loss, array(2, 5), array(2 * STEPS, 5)))
    assert len(scans(found)) == 1
    assert len(found.lines) < 40


def test_a_loop_over_nothing_but_its_own_state() -> None:
    def power(a: Any, v: Any) -> Any:
        for _ in range(150):
            v = a @ v
            v = v / v.norm()
        return v

    (loop,) = scans(same(program_of(power, array(5, 5), array(5))))
    assert loop.operation.sliced == 1  # which only says how often


def test_layers_that_take_turns_are_one_loop_of_both() -> None:
    weights = [array(4, 4, seed=k) for k in range(2)]
    biases = [array(4, seed=k) for k in range(2)]

    def function(h: Any) -> Any:
        for _ in range(120):
            for w, b in zip(weights, biases, strict=True):
                h = torch.tanh(h @ w + b)
        return h

    (loop,) = scans(same(program_of(function, array(2, 4))))
    assert len(loop.operation.programs[0].lines) == 6


def test_steps_that_look_back_two_steps_are_repeated_in_pairs() -> None:
    def function(a: Any, b: Any) -> Any:
        for _ in range(300):
            a, b = b, torch.sin(a + b)
        return b

    (loop,) = scans(same(program_of(function, array(3), array(3, seed=1))))
    assert len(loop.operation.programs[0].lines) == 4


def test_large_operands_that_differ_are_not_stacked() -> None:
    weights = [array(30, 30, seed=k) for k in range(STEPS)]

    def function(h: Any) -> Any:
        for w in weights:
            for _ in range(3):
                h = torch.tanh(h @ w)
                h = h + 1
        return h

    assert not scans(same(program_of(function, array(1, 30))))


def test_options_that_differ_are_no_loop() -> None:
    def function(x: Any) -> Any:
        for k in range(200):
            x = (x * (-0.0 if k % 2 else 0.0)).tanh() + k
        return x

    assert not scans(same(program_of(function, array(3))))


def test_a_long_chain_of_slices() -> None:
    def tail(x: Any) -> Any:
        for _ in range(1500):
            x = x[1:]
        return x * 2

    same(program_of(tail, array(1510)))


def test_an_operand_of_some_steps_that_is_computed_by_others() -> None:
    rows = [array(4, seed=k) for k in range(STEPS)]

    def function(x: Any) -> Any:
        held = x
        for k in range(STEPS):
            y = torch.sin(held * (held if k == 30 else rows[k])) + held.cos()
            held = (y * y).tanh() - y.exp() * 0.1
        return held

    same(program_of(function, array(4)))


def test_short_programs_stay_as_they_are() -> None:
    def function(x: Any) -> Any:
        for _ in range(2 * LEAST_COUNT):
            x = torch.tanh(x * x)
        return x

    program = program_of(function, array(3))
    assert rolled(program, program.outputs) is program


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "mul": lambda x, y: torch.sin(x * y),
    "tanh": lambda x, y: torch.tanh(x - y), "swap": lambda x, y: y - x,
    "sin": lambda x, y: torch.sin(x),
}  # fmt: skip


def random_loop(seed: int) -> Program:
    """Steps of operations on values of the same step, of the last one, of one that is longer ago,
    of operands of the step, and of operands of all steps."""
    random = Random(seed)
    kinds = ["here", "here", "before", "slice", "fixed", *["long ago"] * (seed % 4 == 0)]
    body = [
        (random.choice(sorted(OPERATIONS)),
         *[(random.choice(kinds), random.randrange(26)) for _ in range(2)])
        for _ in range(random.randrange(18, 26))
    ]  # fmt: skip
    count = random.choice([45, 60])
    strange = random.choice([None, None, 0, 5, count - 1])  # a step with one line more
    slices = [[array(4, seed=k + 100 * i) for i in range(2)] for k in range(count)]
    asked = [(random.randrange(count), random.randrange(10)) for _ in range(seed % 4)]

    def function(first: Any, fixed: Any) -> Any:
        steps: list[list[Any]] = [[first] * len(body)] * 2
        for k in range(count):
            now: list[Any] = []
            for name, *operands in body:
                sources = {"here": now or steps[-1], "before": steps[-1], "slice": slices[k],
                           "fixed": [fixed], "long ago": steps[-2]}  # fmt: skip
                x, y = (sources[kind][i % len(sources[kind])] for kind, i in operands)
                now.append(OPERATIONS[name](x, y))
            now[-1] = torch.tanh(sum(now))  # so that all are needed
            if k == strange:
                now[-1] = now[-1].exp()
            steps.append(now)
        return [*steps[-1], *[steps[k + 2][i % len(body)] for k, i in asked]]

    return program_of(function, array(4), array(4, seed=1))


def test_random_loops() -> None:
    programs = [random_loop(seed) for seed in range(14)]
    found = [bool(scans(same(program))) for program in programs]
    assert sum(found) >= 6
    assert all(x for x, program in zip(found, programs, strict=True) if len(program.lines) > 700)


def test_the_derivative_of_a_loop_that_sums_up() -> None:
    rows = [array(6, seed=k) for k in range(STEPS)]

    def loss(w: Any, v: Any) -> Any:
        total, z = torch.zeros(()), v
        for row in rows:
            z = torch.tanh(z * w + row).sigmoid() * v
            z = (z.exp() + z.sin() * row.cos()).tanh() - z * z
            total = total + (z * z).sum() + z.amax()
        return total

    found = same(gradients(loss, array(6), array(6, seed=9)))
    assert len(scans(found)) == 2
