"""``checkpoint_loop``: gradients equal to the plain loop's, with the states and steps promised."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import math
import tracemalloc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as torch
from retrograd import func
from retrograd.utils.checkpoint import checkpoint, checkpoint_loop
from retrograd.utils.checkpoint._schedule import (
    Advance,
    Backward,
    Free,
    LoopSchedule,
    OnlineChoice,
    Restore,
    Save,
    beta,
    forward_steps,
    repeats_needed,
    reversal,
)

try:
    import torch as pytorch
except ImportError:
    pytorch = None


def plain_loop(body: Callable[..., Any], init: Any, n: int, **_: Any) -> Any:
    return functools.reduce(body, range(n), init)


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit. None is no gradient, which is not zero."""
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def assert_same(ours: Iterable[Any], theirs: Iterable[Any]) -> None:
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert same(a, b), f"number {i}: {a} is not {b}"


# -- schedules, without any loop ---------------------------------------------------------------


@functools.cache
def fewest(n: int, slots: int) -> int:
    """The fewest forward steps, by trying every place for the next state to be kept."""
    if n <= 1:
        return 0
    if slots == 1:
        return n * (n - 1) // 2
    return min(m + fewest(n - m, slots - 1) + fewest(m, slots) for m in range(1, n))


def follow(instructions: Iterable[Any], n: int, slots: int, kept: Any = (), at: int = 0) -> Any:
    """Do what instructions say, and check that it can be done. How often each step is run."""
    states = dict(enumerate(kept))
    runs = [0] * n
    done: list[int] = []
    in_hand: int | None = at
    for do in instructions:
        match do:
            case Save(step, slot):
                assert in_hand == step
                assert slot not in states
                states[slot] = step
            case Restore(step, slot):
                assert states[slot] == step
                in_hand = step
            case Advance(start, stop):
                assert in_hand == start < stop
                in_hand = stop
                for i in range(start, stop):
                    runs[i] += 1
            case Backward(step):
                assert in_hand == step
                in_hand = None
                done.append(step)
            case Free(step, slot):
                assert states.pop(slot) == step
        assert len(states) <= slots
    assert done == list(reversed(range(n)))
    assert not states
    return runs


@pytest.mark.parametrize("slots", range(1, 9))
def test_the_schedule_is_the_best(slots: int) -> None:
    for n in range(90):
        runs = follow(LoopSchedule(n, slots), n, slots)
        assert sum(runs) == fewest(n, slots) == forward_steps(n, slots)
        assert max(runs, default=0) <= repeats_needed(n, slots)


def test_published_figures() -> None:
    # Griewank and Walther (2000): beta(s, r) = (s + r)! / (s! r!), t = r n - beta(s + 1, r - 1).
    assert [beta(10, r) for r in range(5)] == [1, 11, 66, 286, 1001]
    assert repeats_needed(1001, 10) == 4
    assert repeats_needed(1002, 10) == 5
    assert forward_steps(1000, 10) == 4 * 1000 - math.comb(14, 11) == 3636
    assert sum(follow(LoopSchedule(1000, 10), 1000, 10)) == 3636
    assert forward_steps(100, 1) == 4950
    assert [forward_steps(n, 100) for n in (0, 1, 2, 100)] == [0, 0, 1, 99]


def online_runs(n: int, slots: int) -> list[int]:
    """How often each step is run forward if nobody knows ``n`` until the loop ends."""
    choice, kept = OnlineChoice(slots), []
    for i in range(n - 1):
        wanted, dropped = choice.passed(i)
        if dropped is not None:
            kept.remove(dropped)
        if wanted:
            kept.append(i)
        assert len(kept) <= slots
    kept = kept or [0]
    runs = follow(reversal(kept, n, slots, n - 1), n, slots, kept, n - 1)
    return [r + (i < n - 1) for i, r in enumerate(runs)]


def by_level(slots: int) -> Iterable[list[int]]:
    """The states kept by the rule of Wang, Moin and Iaccarino (2009), for each length of the loop
    from 1 on. A new state has level 0. One before a state of a higher level is dispensable, and the
    last such goes. If there is none the newest goes, and the next has a level more than it."""
    states: list[tuple[int, float]] = [(0, math.inf)]  # ending with the one in hand
    while True:
        yield [step for step, _ in states[:-1]] or [0]
        new = states[-1][0] + 1
        levels = [level for _, level in states]
        dispensable = [i for i, level in enumerate(levels) if level < max(levels[i:])]
        if len(states) <= slots:
            states.append((new, 0))
        elif dispensable:
            states.pop(dispensable[-1])
            states.append((new, 0))
        else:
            states[-1] = (new, levels[-1] + 1)


@pytest.mark.parametrize(
    ("slots", "at_most"),
    [(1, 1), (2, 1.14), (3, 1.07), (4, 1.06), (5, 1.05), (8, 1.03), (10, 1.03), (15, 1.03)],
)
def test_online(slots: int, at_most: float) -> None:
    ratios, published = [], []
    for n, kept in zip(range(1, 400), by_level(slots), strict=False):
        best = forward_steps(n, slots)
        steps = sum(online_runs(n, slots)) if n % 3 == 2 else None
        runs = follow(reversal(kept, n, slots, n - 1), n, slots, kept, n - 1)
        if n <= beta(slots, 2):
            assert sum(runs) + n - 1 == best
            assert steps in (best, None)
        if steps is not None:
            ratios.append(steps / best)
            published.append((sum(runs) + n - 1) / best)
    assert max(ratios) <= at_most
    assert sum(ratios) / len(ratios) <= 1.03
    if slots > 2:
        assert sum(ratios) <= sum(published)


def test_a_schedule_is_a_picture() -> None:
    assert str(LoopSchedule(4, 2)) == "o> >o> <\no   o<\no> <\no<"
    assert repr(LoopSchedule(4, 2)) == "LoopSchedule(n=4, slots=2)"
    assert str(LoopSchedule(0, 1)) == ""


@pytest.mark.parametrize(
    ("n", "slots", "error"),
    [(-1, 2, ValueError), (3, 0, ValueError), (3.0, 2, TypeError), (3, True, TypeError)],
)
def test_counts_that_make_no_sense(n: Any, slots: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="must be"):
        LoopSchedule(n, slots)
    with pytest.raises(error, match="must be"):
        checkpoint_loop(lambda x, i: x, torch.ones(1), n, slots=slots)


# -- the loop and its gradients ----------------------------------------------------------------


class Cell:
    """A step that uses its parameters several times, each in its own way."""

    def __init__(self, torch: Any = torch, dtype: str = "float32") -> None:
        torch.manual_seed(1)
        dtype = getattr(torch, dtype)
        self.torch = torch
        self.w = torch.randn(4, 4, dtype=dtype, requires_grad=True)
        self.b = torch.randn(4, dtype=dtype, requires_grad=True)
        self.x = torch.randn(3, 4, dtype=dtype, requires_grad=True)
        self.scale = torch.exp(self.b * 0.1)  # captured with its history
        self.calls = 0

    def __call__(self, x: Any, i: int) -> Any:
        self.calls += 1
        y = self.torch.tanh(x @ self.w + self.b) + x * self.b * 0.3
        return y * self.scale + self.w[i % 4] * 0.01 * i

    def loss(self, loop: Any, n: int, **options: Any) -> Any:
        """All of it is used after the loop, and before it, too."""
        y = loop(self, self.x * self.b, n, **options)
        return (y * self.w[1]).sum() + (self.b * self.b * self.scale).sum() + (y * self.x).mean()

    def gradients(self, loop: Any, n: int, **options: Any) -> list[Any]:
        loss = self.loss(loop, n, **options)
        loss.backward()
        return [loss.detach(), *(t.grad for t in (self.w, self.b, self.x))]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 23])
@pytest.mark.parametrize("slots", [1, 2, 3, 5, 23, 40])
def test_gradients_are_those_of_the_plain_loop(n: int, slots: int) -> None:
    expected = Cell().gradients(plain_loop, n)
    cell = Cell()
    assert_same(cell.gradients(checkpoint_loop, n, slots=slots), expected)
    # Each step forward, once more recorded, and the last step once to have the result.
    assert cell.calls == (forward_steps(n, slots) + n + 1 if n else 0)


@pytest.mark.skipif(pytorch is None, reason="PyTorch is not installed")
def test_gradients_are_pytorchs() -> None:
    ours = Cell(dtype="float64").gradients(checkpoint_loop, 12, slots=3)
    theirs = Cell(pytorch, "float64").gradients(plain_loop, 12)
    for a, b in zip(ours, theirs, strict=True):
        assert b.detach().numpy() == pytest.approx(a.numpy(), rel=1e-12, abs=1e-12)


def test_a_thousand_steps_with_ten_slots() -> None:
    n, slots = 1000, 10
    made: list[Any] = []  # a weak reference to the memory of every state that a step has made
    alive: list[int] = []
    cell = Cell()

    def body(x: Any, i: int) -> Any:
        made[:] = [m for m in made if m() is not None]
        alive.append(len(made))  # the state given to this step among them, unless it is the first
        y = cell(x, i)
        made.append(weakref.ref(y._data))
        return y

    def run_counted(loop: Any) -> list[Any]:
        gc.disable()  # nothing waits for the garbage collector
        try:
            y = loop(body, cell.x, n, slots=slots)
            total = (y * 2).sum()
            del y
            total.backward()
        finally:
            gc.enable()
        return [total.detach(), *(t.grad for t in (cell.w, cell.b, cell.x))]

    gradients = run_counted(checkpoint_loop)
    # 10 slots hold the initial state, which the user has made, and 9 more. The tenth that a step
    # has made is the one in hand, which the step begins with.
    assert max(alive) == 10
    assert len(alive) == cell.calls == 3637 + 1000
    made[:] = [m for m in made if m() is not None]
    assert made == []

    cell, alive = Cell(), []
    assert_same(gradients, run_counted(plain_loop))
    assert max(alive) > 900


def test_peak_memory() -> None:
    def peak(loop: Any) -> float:
        """In states."""
        x = torch.ones(100_000, dtype=torch.float64, requires_grad=True)
        tracemalloc.start()
        try:
            loop(lambda x, i: (x.sin() * 2 + x).cos(), x, 200, slots=6).sum().backward()
            return tracemalloc.get_traced_memory()[1] / 800_000
        finally:
            tracemalloc.stop()

    peak(plain_loop)  # so that memory kept for later use is there before
    assert peak(checkpoint_loop) < 6 + 12
    assert peak(plain_loop) > 2 * 200


def online(stop_at: int) -> Any:
    """A loop that counts in its state, and finds out that it is at an end when it is there."""

    def loop(body: Any, init: Any, n: int, *, slots: int) -> Any:
        def counting(state: Any, i: int) -> Any:
            x, steps = state
            assert steps == i
            return body(x, i), steps + 1

        limit = None if stop_at <= n else n
        return checkpoint_loop(
            counting, (init, 0), limit, slots=slots, until=lambda state: state[1] == stop_at
        )[0]

    return loop


@pytest.mark.parametrize(("n", "slots"), [(0, 1), (1, 1), (2, 1), (9, 2), (40, 3), (150, 10)])
def test_a_loop_that_ends_when_it_ends(n: int, slots: int) -> None:
    expected = Cell().gradients(plain_loop, n)
    cell = Cell()
    assert_same(cell.gradients(online(n), n, slots=slots), expected)
    assert cell.calls == (sum(online_runs(n, slots)) + n + 1 if n else 0)
    assert_same(Cell().gradients(online(10**6), n, slots=slots), expected)


def test_states_alive_where_the_end_is_not_known() -> None:
    made: list[Any] = []
    alive: list[int] = []

    def body(x: Any, i: int) -> Any:
        alive.append(sum(m() is not None for m in made))
        y = (x * x).cos()
        made.append(weakref.ref(y._data))
        return y

    x = torch.ones(3, requires_grad=True)
    steps = iter(range(300))
    y = checkpoint_loop(body, x, slots=5, until=lambda _: next(steps) == 250)
    loss = y.sum()
    del y
    loss.backward()
    assert max(alive) == 5


# -- what a step may capture -------------------------------------------------------------------


def test_grad_and_inputs_and_hooks() -> None:
    def everything(loop: Any) -> list[Any]:
        cell = Cell()
        seen: list[Any] = []
        cell.scale.retain_grad()
        cell.w.register_hook(lambda g: seen.append(g) or g * 2)
        cell.scale.register_hook(seen.append)
        cell.b.register_post_accumulate_grad_hook(lambda b: seen.append(b.grad.clone()))
        y = loop(cell, cell.x, 9, slots=2)
        y.register_hook(seen.append)
        loss = (y * cell.w[0]).sum()
        got = torch.autograd.grad(loss, (cell.scale, cell.w, y), retain_graph=True)
        assert cell.w.grad is None
        loss.backward(inputs=[cell.x, cell.w], retain_graph=True)
        assert cell.b.grad is None
        loss.backward()
        return [*got, *seen, cell.x.grad, cell.w.grad, cell.b.grad, cell.scale.grad]

    assert_same(everything(checkpoint_loop), everything(plain_loop))


def test_only_what_is_wanted_is_computed() -> None:
    asked: list[str] = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, name: str) -> Any:
            ctx.name = name
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            asked.append(ctx.name)
            return g, None

    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    y = checkpoint_loop(
        lambda x, i: x * Watched.apply(a, "a") + Watched.apply(b, "b"), torch.ones(2), 5, slots=2
    )
    torch.autograd.grad(y.sum(), a)
    assert asked == ["a"] * 5


def test_outputs_of_one_node_captured_apart() -> None:
    def gradients(loop: Any) -> list[Any]:
        w = torch.arange(6.0).reshape(3, 2).requires_grad_()
        first, second, third = (w * 0.3).unbind()
        y = loop(lambda x, i: (x * first).sin() + (second if i % 2 else third), first, 7, slots=2)
        (y * second).sum().backward()
        return [w.grad]

    assert_same(gradients(checkpoint_loop), gradients(plain_loop))


def test_a_tensor_that_only_some_steps_use() -> None:
    def gradients(loop: Any) -> list[Any]:
        a, b, c = (torch.full((2,), 0.5 + k, requires_grad=True) for k in range(3))

        def body(x: Any, i: int) -> Any:
            if x.sum().item() > 2:
                return x * 0.3 + b * 0.1
            return x * a + (c if i in (11, 12) else 1)

        (loop(body, torch.ones(2), 20, slots=3) * 3).sum().backward()
        return [a.grad, b.grad, c.grad]

    got = gradients(checkpoint_loop)
    assert all(g.abs().sum() > 0 for g in got)
    assert_same(got, gradients(plain_loop))


def test_a_step_that_uses_something_else_the_second_time() -> None:
    used = [torch.ones(2, requires_grad=True)]
    y = checkpoint_loop(lambda x, i: x * used[0], torch.ones(2), 3, slots=1)
    used[0] = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"ran step 2 again.*a leaf tensor of shape \(2,\)"):
        y.sum().backward()
    y = checkpoint_loop(lambda x, i: x * used[0], torch.ones(2), 3, slots=1)
    used[0] = used[0].exp()
    with pytest.raises(RuntimeError, match=r"the result of ExpBackward0, made at .*used.0. = used"):
        y.sum().backward()
    y = checkpoint_loop(lambda x, i: x * used[0], torch.ones(2), 3, slots=1)
    used[0] = used[0].detach()
    with pytest.raises(RuntimeError, match=r"step 2 .* did not depend on the same tensors"):
        y.sum().backward()
    w = torch.ones(2, requires_grad=True)
    used[0] = w
    y = checkpoint_loop(lambda x, i: x * used[0], torch.ones(2), 3, slots=1)
    used[0] = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"step 0 .* did not depend on the same tensors"):
        torch.autograd.grad(y.sum(), w, create_graph=True)


def test_nothing_requires_grad() -> None:
    y = checkpoint_loop(lambda x, i: x * 2, torch.ones(2), 3, slots=1)
    assert not y.requires_grad
    assert y.tolist() == [8.0, 8.0]
    w = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        y = checkpoint_loop(lambda x, i: x * w * 2, torch.ones(2), 3, slots=1)
    assert not y.requires_grad


def test_no_gradient_is_not_a_zero() -> None:
    w = torch.ones(2, requires_grad=True)
    v = torch.ones(2, requires_grad=True)
    calls = []

    def body(x: Any, i: int) -> Any:
        calls.append(i)
        return (x * w).detach() * v if i == 5 else x * w

    checkpoint_loop(body, w * 1, 8, slots=2).sum().backward()
    assert v.grad.tolist() == [1.0, 1.0]
    assert w.grad.tolist() == [2.0, 2.0]  # of the steps 6 and 7
    assert calls[8:] == [7, 5, 6, 5]  # nothing before step 5 is gone through
    x = torch.ones(2, requires_grad=True)
    y = checkpoint_loop(lambda x, i: x.detach() * v, x, 3, slots=2)
    assert torch.autograd.grad(y.sum(), (x, v), allow_unused=True)[0] is None


# -- states ------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "left right")


def test_states_of_all_kinds() -> None:
    def gradients(loop: Any) -> list[Any]:
        w = torch.full((2,), 0.7, requires_grad=True)
        h = torch.ones(2, requires_grad=True)
        given = h * 2
        init = {
            "pair": Pair(given, [torch.zeros(2), None]),
            "count": 0,
            "steps": torch.tensor(0),
            "same": (given, given),
            "w": w,
            "text": "a",
        }

        def body(state: Any, i: int) -> Any:
            pair = state["pair"]
            assert type(pair) is Pair
            assert state["count"] == state["steps"].item() == i
            a, b = state["same"]
            left = (pair.left * state["w"] + pair.right[0] * w).sin()
            both = (a * w + b * left).cos()
            return {
                "same": (both, both),
                "pair": Pair(left, [pair.right[0] + both * state["w"], None]),
                "count": state["count"] + 1,
                "steps": state["steps"] + 1,
                "w": state["w"],
                "text": state["text"] + "b",
            }

        out = loop(body, init, 11, slots=3)
        assert (out["count"], out["steps"].item(), out["text"]) == (11, 11, "a" + "b" * 11)
        assert out["same"][0] is out["same"][1]
        assert out["w"] is w
        assert not out["steps"].requires_grad
        total = out["pair"].left * w + out["pair"].right[0] + out["same"][0] * out["same"][1]
        (total * out["w"]).sum().backward()
        return [w.grad, h.grad, out["pair"].left.detach()]

    assert_same(gradients(checkpoint_loop), gradients(plain_loop))


def test_a_state_in_which_parts_are_passed_on() -> None:
    def gradients(loop: Any) -> list[Any]:
        u, v = (torch.full((2,), 0.3 + k, requires_grad=True) for k in range(2))

        def body(state: Any, i: int) -> Any:
            x, y, z = state
            return y, (x * y + z * u).sin(), z  # y becomes x, z stays, u is z

        x, y, z = loop(body, (u, v * 2, u), 13, slots=3)
        (x * y + z).sum().backward()
        return [u.grad, v.grad]

    assert_same(gradients(checkpoint_loop), gradients(plain_loop))


def test_only_one_part_of_the_result_is_used() -> None:
    def gradients(loop: Any) -> list[Any]:
        w = torch.full((3,), 0.3, requires_grad=True)
        body = lambda s, i: ((s[0] * w).sin(), s[1] + s[0] * w)
        _, total = loop(body, (torch.ones(3), torch.zeros(3)), 6, slots=2)
        total.sum().backward()
        return [w.grad]

    assert_same(gradients(checkpoint_loop), gradients(plain_loop))


def test_views_and_numbers_without_dimensions() -> None:
    def gradients(loop: Any) -> list[Any]:
        w = torch.tensor(0.9, requires_grad=True)
        x = torch.arange(6.0).requires_grad_()
        y = loop(lambda x, i: (x * w).reshape(2, 3).T.reshape(-1).flip(0), x, 5, slots=2)
        y += 1
        y.sum().backward()
        z = loop(lambda z, i: (z * w).sin(), w, 5, slots=2)
        z.backward()
        pieces = loop(lambda p, i: torch.cat([p[1] * w, p[0]]).split(3), (x[:3], x[3:]), 4, slots=2)
        (pieces[0] * pieces[1]).sum().backward()
        return [x.grad, w.grad]

    assert_same(gradients(checkpoint_loop), gradients(plain_loop))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda s, i: (s[0], s[1]) if i < 2 else [s[0], s[1]],
            r"\(\*, \*\), and step 2.*\[\*, \*\]",
        ),
        (lambda s, i: (s[0], s[1], 0), r"\(\*, \*\), and step 0 returned \(\*, \*, \*\)"),
        (lambda s, i: (s[0], s[1][:, None]), r"part 1 was .*\(2,\).* step 0 returned .*\(2, 1\)"),
        (lambda s, i: (s[0], s[1].double()), "float32, and step 0 returned .*float64"),
        (lambda s, i: (1.0, s[1]), "part 0 was a tensor .*, and step 0 returned no tensor"),
    ],
)
def test_another_state_than_the_one_given(body: Any, message: str) -> None:
    for grad in (True, False):
        with torch.set_grad_enabled(grad), pytest.raises(ValueError, match=message):
            checkpoint_loop(body, (torch.ones(2, requires_grad=True), torch.ones(2)), 5, slots=2)


@dataclasses.dataclass
class Hiding:
    x: Any


def test_a_state_in_which_tensors_hide() -> None:
    x = torch.ones(2, requires_grad=True)
    for init in (Hiding(x), {"a": collections.UserDict(b=x)}):
        with pytest.raises(TypeError, match="tensors in an object of type"):
            checkpoint_loop(lambda state, i: state, init, 2, slots=1)
    # What holds no tensors is a value like any other.
    y, rest = checkpoint_loop(lambda s, i: (s[0] * 2, s[1]), (x, x.shape), 2, slots=1)
    assert rest == (2,)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_neither_n_nor_until() -> None:
    with pytest.raises(TypeError, match="needs n, the number of steps, or until"):
        checkpoint_loop(lambda x, i: x, torch.ones(1), slots=1)


# -- random numbers, exceptions, writes ----------------------------------------------------------


def test_random_numbers() -> None:
    def gradients(loop: Any) -> list[Any]:
        torch.manual_seed(5)
        w = torch.ones(4, requires_grad=True)
        body = lambda x, i: (x * w + torch.randn(3)[:1] * x).sin() * torch.rand(4)
        y = loop(body, torch.ones(4), 17, slots=3)
        after_loop = torch.rand(2)
        y.sum().backward()
        return [w.grad, y.detach(), after_loop, torch.rand(2)]

    expected = gradients(plain_loop)
    assert_same(gradients(checkpoint_loop), expected)
    assert_same(gradients(online(17)), expected)
    again = functools.partial(checkpoint_loop, preserve_rng_state=False)
    with pytest.raises(RuntimeError, match=r"ran step 16 again .* it made another state"):
        gradients(again)
    different = gradients(functools.partial(again, determinism_check="none"))
    assert not same(different[0], expected[0])
    assert same(different[2], expected[2])


class TroubleError(Exception):
    pass


def test_exceptions_come_through() -> None:
    w = torch.ones(2, requires_grad=True)
    fails_in: list[int] = [3]

    def body(x: Any, i: int) -> Any:
        torch.rand(1)
        if i == fails_in[0]:
            raise TroubleError("no")
        return x * w

    with pytest.raises(TroubleError) as caught:
        checkpoint_loop(body, torch.ones(2), 6, slots=2)
    assert str(caught.value) == "no"
    assert caught.value.__notes__ == ["in step 3 of checkpoint_loop"]

    fails_in[0] = -1
    y = checkpoint_loop(body, torch.ones(2), 6, slots=2)
    fails_in[0] = 3
    state = torch.get_rng_state()
    with pytest.raises(TroubleError) as caught:
        y.sum().backward()
    assert "in step 3 of checkpoint_loop" in caught.value.__notes__
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert w.grad is None
    fails_in[0] = -1  # and nothing is lost
    y.sum().backward()
    assert w.grad.tolist() == [6.0, 6.0]


def test_a_state_written_in_place() -> None:
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"wrote to its state in place, in step 2 \(to part 0"):
        checkpoint_loop(lambda x, i: (x.mul_(2) if i == 2 else x) * w, torch.ones(2), 4, slots=2)
    x = torch.ones(2)
    y = checkpoint_loop(lambda x, i: x * w, x, 4, slots=2)
    x.zero_()
    with pytest.raises(RuntimeError, match="by an inplace operation: part 0 of the state before"):
        y.sum().backward()
    buffer = torch.zeros(2)

    def reuse(x: Any, i: int) -> Any:
        with torch.no_grad():
            buffer.copy_(x)
        return buffer, x * w

    with pytest.raises(RuntimeError, match="in place"):
        y = checkpoint_loop(lambda s, i: reuse(s[1], i), (torch.ones(2), torch.ones(2)), 9, slots=4)
        y[1].sum().backward()


def test_a_parameter_changed_before_the_backward_pass() -> None:
    w = torch.ones(2, requires_grad=True)
    y = checkpoint_loop(lambda x, i: x + w, torch.ones(2), 4, slots=2)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match=r"FloatTensor \[2\].*version 1; expected version 0"):
        y.sum().backward()


def test_a_backward_pass_inside_a_step() -> None:
    def body(x: Any, i: int) -> Any:
        (x * 2).sum().backward()
        return x * w

    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="inside the body of checkpoint_loop") as caught:
        checkpoint_loop(body, w * 1, 3, slots=2)
    assert "in step 1 of checkpoint_loop" in caught.value.__notes__

    def force(loop: Any) -> list[Any]:
        k = torch.tensor([0.3, 0.4], requires_grad=True)

        def leapfrog(state: Any, i: int) -> Any:
            x, v = state
            energy = (k * x**4).sum() + (x.cos() * k).sum()
            (slope,) = torch.autograd.grad(energy, x, create_graph=True)
            return x + 0.1 * v, v - 0.1 * slope

        start = torch.tensor([1.0, 2.0], requires_grad=True)
        x, _ = loop(leapfrog, (start, torch.zeros(2)), 12, slots=3)
        (x * x).sum().backward()
        return [k.grad, start.grad]

    assert_same(force(checkpoint_loop), force(plain_loop))


def test_a_step_that_makes_something_else_the_second_time() -> None:
    w = torch.ones(2, requires_grad=True)
    start, constant = torch.ones(1000), torch.ones(1000)

    def loss() -> Any:
        return checkpoint_loop(lambda x, i: (x * w[0] + constant).sin(), start, 5, slots=2).sum()

    kept = loss()
    constant[:500] = 2  # which no operation has saved
    with pytest.raises(RuntimeError, match="ran step 0 again"):
        torch.autograd.grad(kept, w, create_graph=True)
    kept = loss()
    constant.mul_(2)
    with pytest.raises(RuntimeError, match="ran step 4 again"):
        kept.backward()
    assert w.grad is None
    with pytest.raises(ValueError, match='must be "default" or "none", but got \'never\''):
        checkpoint_loop(lambda x, i: x, w, 1, slots=1, determinism_check="never")


def test_leaves_that_a_step_makes_for_itself() -> None:
    def gradients(loop: Any) -> list[Any]:
        w = torch.tensor([0.3, 0.4], requires_grad=True)

        def downhill(x: Any, i: int) -> Any:
            here = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad((w * here**4).sum(), here, create_graph=True)
            return x - 0.1 * slope + here * 0.1

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        loop(downhill, x, 12, slots=3).sum().backward()
        return [w.grad, x.grad]

    assert_same(gradients(checkpoint_loop), gradients(plain_loop))

    # The gradient of a leaf that others know must not be lost.
    known: list[Any] = []

    def telling(x: Any, i: int) -> Any:
        leaf = torch.ones(2, requires_grad=True)
        if i == 1 and telling_now:
            known.append(leaf)
        return x * leaf + w

    w = torch.ones(2, requires_grad=True)
    telling_now = False
    y = checkpoint_loop(telling, torch.ones(2), 3, slots=1)
    telling_now = True
    with pytest.raises(RuntimeError, match=r"ran step 1 again.*a leaf tensor of shape \(2,\)"):
        y.sum().backward()
    assert known[-1].grad is None
    assert w.grad is None


# -- several passes, derivatives of derivatives, nestings ----------------------------------------


def test_several_passes_over_one_graph() -> None:
    cell = Cell()
    loss = cell.loss(checkpoint_loop, 12, slots=3)
    plain = Cell()
    plain_loss = plain.loss(plain_loop, 12)
    for _ in range(2):
        loss.backward(retain_graph=True)
        plain_loss.backward(retain_graph=True)
        assert_same(
            [cell.w.grad, cell.b.grad, cell.x.grad], [t.grad for t in (plain.w, plain.b, plain.x)]
        )
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_double_backward() -> None:
    def second(loop: Any, n: int) -> list[Any]:
        cell = Cell(dtype="float64")
        seen: list[Any] = []
        cell.w.register_hook(seen.append)
        loss = cell.loss(loop, n, slots=2)
        leaves = (cell.w, cell.b, cell.x)
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        total = sum((g * g).sum() for g in first)
        total.backward()
        return [*first, *seen, *(t.grad for t in leaves)]

    for n in (1, 2, 6):
        for a, b in zip(second(checkpoint_loop, n), second(plain_loop, n), strict=True):
            assert b.detach().numpy() == pytest.approx(a.detach().numpy(), rel=1e-12, abs=1e-12)


def test_second_derivatives_with_respect_to_something_else() -> None:
    def mixed(loop: Any) -> list[Any]:
        a = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
        b = torch.tensor([0.5, 0.6], dtype=torch.float64, requires_grad=True)
        x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        y = loop(lambda x, i: (x * a).sin() * b + x * b.exp(), x, 5, slots=2)
        (first,) = torch.autograd.grad(y.sum(), a, create_graph=True)
        second = torch.autograd.grad(first.sum(), (a, b, x), create_graph=True)
        return [
            first.detach(),
            *(g.detach() for g in second),
            *torch.autograd.grad(second[1].sum(), (b, x)),
        ]

    for ours, plain in zip(mixed(checkpoint_loop), mixed(plain_loop), strict=True):
        assert plain.numpy() == pytest.approx(ours.numpy(), rel=1e-12)


def test_gradcheck() -> None:
    w = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)

    def f(w: Any, x: Any) -> Any:
        return checkpoint_loop(lambda s, i: ((s[1] * w).sin(), s[0] * s[1]), (x, x + w), 4, slots=2)

    assert torch.autograd.gradcheck(f, (w, x))
    assert torch.autograd.gradgradcheck(f, (w, x))


X = torch.tensor([1.0, 2.0], dtype=torch.float64)
W = torch.tensor([0.3, 0.7], dtype=torch.float64)
ROWS = torch.tensor([[0.1, 0.2], [-1.0, 0.5], [2.0, 1.0]], dtype=torch.float64)
grad, jvp, vjp, vmap = func.grad, func.jvp, func.vjp, func.vmap


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: grad(f)(X, W),
        lambda f: grad(f, argnums=1)(X, W),
        lambda f: grad(lambda x: grad(f)(x, W).sum())(X),
        lambda f: jvp(f, (X, W), (W, X))[1],
        lambda f: vmap(f, in_dims=(0, None))(ROWS, W),
        lambda f: vmap(grad(f), in_dims=(0, None))(ROWS, W),
        lambda f: vmap(vjp(lambda x: f(x, ROWS, dim=-1), X)[1])(torch.eye(3, dtype=W.dtype))[0],
        lambda f: jvp(lambda x: grad(f)(x, W), (X,), (W,))[1],
        lambda f: grad(lambda x: jvp(f, (x, W), (W, W))[1])(X),
        lambda f: grad(lambda x: vmap(lambda y: f(x * y, W))(ROWS[:, 0]).sum())(X),
    ],
)
def test_in_transforms(transformed: Any) -> None:
    def using(loop: Any) -> Any:
        def f(x: Any, w: Any, dim: Any = None) -> Any:
            y = loop(lambda x, i: (x * w).sin() + x * 0.5, x + w * 0, 6, slots=2) * w
            return y.sum() if dim is None else y.sum(dim)

        return f

    assert_same([transformed(using(checkpoint_loop))], [transformed(using(plain_loop))])


def test_gradients_in_a_batch() -> None:
    def batched(loop: Any) -> list[Any]:
        x = X.clone().requires_grad_()
        y = loop(lambda x, i: (x * W).sin() + x * 0.5, x, 6, slots=2)
        return list(torch.autograd.grad(y, x, torch.eye(2, dtype=x.dtype), is_grads_batched=True))

    assert_same(batched(checkpoint_loop), batched(plain_loop))


def test_steps_are_run_again_outside_of_a_transform_that_is_open() -> None:
    def jacobian(loop: Any) -> list[Any]:
        torch.manual_seed(3)
        x = X.clone().requires_grad_()

        def body(x: Any, i: int) -> Any:
            here = x.detach().requires_grad_()  # which transforms do not allow
            (slope,) = torch.autograd.grad((here**3).sum(), here)
            return (x * torch.rand(2, dtype=x.dtype)).sin() + slope * 0.1

        y = loop(body, x, 5, slots=2)
        rows = vmap(lambda g: torch.autograd.grad(y, x, g)[0])
        return [rows(torch.eye(2, dtype=X.dtype))]

    assert_same(jacobian(checkpoint_loop), jacobian(plain_loop))


def test_a_loop_in_a_loop() -> None:
    def nested(outer: Any, inner: Any) -> list[Any]:
        cell = Cell()

        def body(x: Any, i: int) -> Any:
            return inner(lambda y, j: cell(y, j) + x * cell.w[0], x, 4, slots=2) * cell.b

        y = outer(body, cell.x, 5, slots=2)
        (y * cell.w[2]).sum().backward()
        return [cell.w.grad, cell.b.grad, cell.x.grad]

    expected = nested(plain_loop, plain_loop)
    assert_same(nested(checkpoint_loop, plain_loop), expected)
    assert_same(nested(plain_loop, checkpoint_loop), expected)
    assert_same(nested(checkpoint_loop, checkpoint_loop), expected)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_with_checkpoint(use_reentrant: bool) -> None:
    def inside(loop: Any, keep: Any) -> list[Any]:
        cell = Cell()
        y = loop(lambda x, i: keep(cell, x, i), cell.x, 7, slots=2)
        (y * 2).sum().backward()
        return [cell.w.grad, cell.b.grad, cell.x.grad]

    def outside(keep: Any, loop: Any) -> list[Any]:
        cell = Cell()
        y = keep(lambda x: loop(cell, x.exp(), 7, slots=2) * 3, cell.x)
        (y * 2).sum().backward()
        return [cell.w.grad, cell.b.grad, cell.x.grad]

    keep = functools.partial(checkpoint, use_reentrant=use_reentrant)
    call = lambda f, *args: f(*args)
    if not use_reentrant:  # which accumulates the gradients of what a function captures itself
        assert_same(inside(checkpoint_loop, keep), inside(plain_loop, call))
    assert_same(outside(keep, checkpoint_loop), outside(call, plain_loop))


def test_saved_tensors_hooks_see_what_is_kept() -> None:
    packed: list[Any] = []

    def pack(t: Any) -> Any:
        packed.append(t)
        return t.detach().clone()

    cell = Cell()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = checkpoint_loop(cell, cell.x * 2, 20, slots=4)
    assert len(packed) == 4 + 1  # four states and the one in hand; nothing of the steps' graphs
    total = (y * 2).sum()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        total.backward()
    assert len(packed) == 4 + 1
    plain = Cell()
    (plain_loop(plain, plain.x * 2, 20) * 2).sum().backward()
    assert_same([cell.w.grad, cell.b.grad, cell.x.grad], [plain.w.grad, plain.b.grad, plain.x.grad])


def test_the_node() -> None:
    w = torch.ones(2, requires_grad=True)
    y = checkpoint_loop(lambda x, i: x * w, torch.ones(2), 3, slots=2)
    assert y.grad_fn.name() == "CheckpointLoopBackward"
    assert [n.name() for n, _ in y.grad_fn.next_functions] == ["torch::autograd::AccumulateGrad"]
    assert "checkpoint_loop(lambda x, i: x * w" in y.grad_fn.source
    seen: list[Any] = []
    y.grad_fn.register_hook(lambda grads, _: seen.append(grads[0].tolist()))
    ((y + w) * 1).sum().backward()
    assert seen == [[3.0, 3.0]]  # what the loop gives, without what came to w before
    assert w.grad.tolist() == [4.0, 4.0]


def test_in_anomaly_mode() -> None:
    expected = Cell().gradients(plain_loop, 6)
    with torch.autograd.set_detect_anomaly(True):
        assert_same(Cell().gradients(checkpoint_loop, 6, slots=2), expected)


# -- loops drawn at random -----------------------------------------------------------------------


@st.composite
def programs(draw: Any) -> Any:
    """The body of a loop with three parts in its state and three tensors captured: for each part
    of the new state a list of (operation, operand, operand)."""
    operand = st.integers(0, 5)
    operations = st.sampled_from(["add", "mul", "sin", "pass", "sub", "shared", "branch"])
    line = st.tuples(operations, operand, operand)
    return draw(st.lists(st.lists(line, min_size=1, max_size=3), min_size=3, max_size=3))


def run_program(program: Any, state: Any, i: int, captured: list[Any]) -> Any:
    made: list[Any] = []
    for lines in program:
        values = [*state, *captured]
        for operation, a, b in lines:
            x, y = values[a], values[b]
            match operation:
                case "add":
                    x = x + y
                case "mul":
                    x = x * y * 0.7
                case "sin":
                    x = (x * 1.3).sin()
                case "sub":
                    x = y - x * x * 0.1
                case "shared":
                    x = made[-1] if made else x
                case "branch":
                    x = x * y if i % 3 else x
            values.append(x)
            values[a] = x
        made.append(x)
    return tuple(made)


@given(
    programs(),
    st.integers(0, 9),
    st.integers(1, 4),
    st.booleans(),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_any_body(program: Any, n: int, slots: int, ends_itself: bool, grads: list[bool]) -> None:
    def gradients(loop: Any) -> list[Any]:
        leaves = [
            torch.full((2,), 0.3 + 0.11 * k, requires_grad=needs) for k, needs in enumerate(grads)
        ]
        init = (leaves[0], leaves[1] * 1.1, leaves[2])
        captured = [leaves[3], leaves[4].exp(), leaves[0] if grads[5] else leaves[5]]
        out = loop(lambda s, i: run_program(program, s, i, captured), init, n, slots=slots)
        loss = (out[0] * captured[0] + out[1] * out[2] + captured[1] * init[1]).sum()
        if loss.requires_grad:
            loss.backward()
        return [loss.detach(), *(leaf.grad for leaf in leaves)]

    loop = online(n) if ends_itself else checkpoint_loop
    assert_same(gradients(loop), gradients(plain_loop))
