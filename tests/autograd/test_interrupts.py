"""Modes come back whatever happens: interrupts at any place, generators that are closed, backward
passes inside each other."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from attack import interrupts

import retrograd
from retrograd import _modes
from retrograd.autograd._engine import queue_callback
from retrograd.autograd.graph import saved_tensors_hooks
from retrograd.compiler._trace import Trace

# -- interrupts ----------------------------------------------------------------------------------


def tried(name: str, places: list[int], event: str) -> list[str]:
    """What is broken by an interrupt, at each of some places of a program."""
    wrong = []
    for at in places:
        place, found = interrupts.interrupt(name, at, event)
        wrong += [f"{place}: {what}" for what in found]
    return wrong


@pytest.mark.parametrize(
    "name",
    ["grad", "jvp", "switches", "generator", "dual_level", "step",
     *(pytest.param(name, marks=pytest.mark.long) for name in
       ("vmap", "hooks_on_saved", "recomputed", "backward_with_hooks", "custom"))],
)  # fmt: skip
def test_an_interrupt_at_any_line_leaves_nothing_behind(name: str) -> None:
    places = sorted(interrupts.count(name, "line").lines.values())
    assert len(places) > 20
    assert tried(name, places, "line") == []


def test_an_interrupt_at_any_line_of_a_trace_leaves_tensors_as_they_were() -> None:
    u = retrograd.tensor([1.0, 3.0], requires_grad=True)
    w, h = retrograd.tensor([0.5, 2.0], requires_grad=True), u * 2
    kind, node = type(w._data), h.grad_fn

    def run(interrupter: interrupts.Interrupter) -> None:
        compiled = retrograd.compile(lambda x: (x * w * h).sum())
        with interrupter:
            compiled(retrograd.ones(2))

    for _ in range(2):  # once to import what is needed
        counted = interrupts.Interrupter(None, "line")
        run(counted)
    lines = {
        (method.__code__.co_filename, number)
        for method in (Trace.run, Trace.lift, Trace.settle, Trace.watch_seeds)
        for _, _, number in method.__code__.co_lines()
    }
    places = [n for line, n in counted.lines.items() if line in lines]
    assert len(places) > 30
    wrong = []
    for at in places:
        interrupter = interrupts.Interrupter(at, "line")
        with pytest.raises(KeyboardInterrupt):
            run(interrupter)
        y = (w * h).sum()
        slopes = [g.tolist() for g in retrograd.autograd.grad(y, [u, w], retain_graph=True)]
        if (
            [type(x._data) for x in (u, w, h)] != [kind] * 3
            or slopes != [[1.0, 4.0], [2.0, 6.0]]
            or h.grad_fn is not node
            or interrupts.broken()
        ):
            wrong.append(interrupter.place)
    assert wrong == []


def test_an_interrupt_at_any_bytecode_of_a_switch_leaves_nothing_behind() -> None:
    lines = interrupts.count("decorated").lines
    ours = [n for (file, _), n in lines.items() if file.endswith(("_modes.py", "grad_mode.py"))]
    assert len(ours) > 20
    last = max(ours)
    assert tried("decorated", list(range(1, last + 1)), "opcode") == []


def test_the_interrupter_finds_what_an_interrupt_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    class careless:
        def __enter__(self) -> None:
            self.before = _modes.set_modes(grad_enabled=False)

        def __exit__(self, *exc: object) -> None:
            _modes.set_modes(**self.before)

    def program(t: Any) -> None:
        with careless():
            t.w * 2

    monkeypatch.setitem(interrupts.PROGRAMS, "careless", program)
    wrong = tried("careless", list(range(1, interrupts.count("careless").count + 1)), "opcode")
    assert any("grad_enabled is False" in what for what in wrong)


def test_a_second_interrupt_in_the_handler_of_the_first() -> None:
    def interrupted() -> None:
        try:
            with retrograd.no_grad():
                raise KeyboardInterrupt
        finally:
            assert retrograd.is_grad_enabled()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert retrograd.is_grad_enabled()
    assert not _modes.switch.active


# -- scopes that end in another order --------------------------------------------------------------


def test_scopes_of_generators_end_on_their_own() -> None:
    def unrecorded() -> Iterator[bool]:
        with retrograd.no_grad():
            yield retrograd.is_grad_enabled()

    steps = unrecorded()
    assert next(steps) is False
    assert not retrograd.is_grad_enabled()  # as in PyTorch, while the generator is in its block
    with retrograd.autograd.set_detect_anomaly(True):
        steps.close()
    assert retrograd.is_grad_enabled()
    assert not retrograd.is_anomaly_enabled()
    with retrograd.no_grad():
        steps = unrecorded()
        next(steps)
    assert not retrograd.is_grad_enabled()
    del steps
    assert retrograd.is_grad_enabled()


def test_a_generator_left_in_a_transform_does_not_keep_that_open() -> None:
    kept = []

    def unrecorded() -> Iterator[None]:
        with retrograd.no_grad():
            yield

    def f(x: Any) -> Any:
        kept.append(unrecorded())
        next(kept[0])
        return x * 2

    x = retrograd.tensor([1.0, 2.0])
    assert retrograd.func.vmap(f)(x).tolist() == [2.0, 4.0]
    assert retrograd.is_grad_enabled()
    w = retrograd.ones(1, requires_grad=True)
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3.0]


def test_what_is_set_for_good_outlives_scopes_of_other_modes() -> None:
    with retrograd.autograd.set_detect_anomaly(True):
        retrograd.set_grad_enabled(False)
    assert not retrograd.is_grad_enabled()
    with retrograd.enable_grad():
        retrograd.set_grad_enabled(False)
        assert not retrograd.is_grad_enabled()
    assert not retrograd.is_grad_enabled()
    with retrograd.set_grad_enabled(True):
        assert retrograd.is_grad_enabled()
    assert not retrograd.is_grad_enabled()
    retrograd.set_grad_enabled(True)
    assert not _modes.switch.active


def test_scopes_entered_by_hand_and_by_a_stack() -> None:
    scope = retrograd.no_grad()
    scope.__enter__()
    with scope:
        assert not retrograd.is_grad_enabled()
    assert not retrograd.is_grad_enabled()
    scope.__exit__(None, None, None)
    assert retrograd.is_grad_enabled()
    with contextlib.ExitStack() as stack:
        stack.enter_context(retrograd.no_grad())
        stack.enter_context(retrograd.inference_mode())
        assert retrograd.is_inference_mode_enabled()
    assert retrograd.is_grad_enabled()
    assert not _modes.switch.active


def test_decorated_generators_are_closed_in_the_mode() -> None:
    seen = []

    @retrograd.no_grad()
    def unrecorded() -> Iterator[bool]:
        try:
            yield retrograd.is_grad_enabled()
            yield retrograd.is_grad_enabled()
        finally:
            seen.append(retrograd.is_grad_enabled())

    steps = unrecorded()
    assert next(steps) is False
    assert retrograd.is_grad_enabled()
    steps.close()
    assert seen == [False]


def test_decorated_coroutines_run_in_the_mode() -> None:
    @retrograd.no_grad()
    async def unrecorded() -> bool:
        await asyncio.sleep(0)
        return retrograd.is_grad_enabled()

    @retrograd.no_grad()
    async def each() -> AsyncIterator[bool]:
        yield retrograd.is_grad_enabled()
        await asyncio.sleep(0)
        yield retrograd.is_grad_enabled()

    async def main() -> list[Any]:
        both = await asyncio.gather(unrecorded(), unrecorded())
        return [both, [item async for item in each()], retrograd.is_grad_enabled()]

    assert asyncio.run(main()) == [[False, False], [False, False], True]


# -- backward passes -------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_a_pass_leaves_modes_as_it_found_them(fails: bool) -> None:
    outer = saved_tensors_hooks(lambda x: x, lambda x: x)
    inner = saved_tensors_hooks(lambda x: 1 / 0, lambda x: x)

    def hook(g: Any) -> None:
        outer.__exit__(None, None, None)
        assert not _modes.modes.saved_tensor_hooks
        inner.__enter__()
        retrograd.autograd.set_detect_anomaly(True)
        retrograd.set_grad_enabled(False)
        if fails:
            raise ZeroDivisionError

    w = retrograd.ones(2, requires_grad=True)
    y = w * 2
    y.register_hook(hook)
    outer.__enter__()
    before = _modes.modes.saved_tensor_hooks
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
        y.sum().backward()
    assert _modes.modes.saved_tensor_hooks == before
    assert retrograd.is_grad_enabled()
    assert not retrograd.is_anomaly_enabled()
    assert (w.exp().sum()).requires_grad
    outer.__exit__(None, None, None)
    assert _modes.modes.saved_tensor_hooks == ()


def nested(depth: int, at_the_end: Any) -> Any:
    """A leaf after backward passes inside each other, each started by a hook."""
    w = retrograd.ones(1, requires_grad=True)

    def run(level: int) -> None:
        def hook(g: Any) -> None:
            run(level + 1) if level < depth else at_the_end()

        with retrograd.enable_grad():
            y = w * 2
            y.register_hook(hook)
            y.sum().backward()

    run(1)
    return w


@pytest.mark.parametrize("depth", [2, 300, 2000])
def test_passes_inside_each_other(depth: int) -> None:
    seen: list[Any] = []

    def at_the_end() -> None:
        seen.append((len(_modes.modes.tasks), threading.get_ident()))
        queue_callback(lambda: seen.append("over"))

    with retrograd.autograd.graph.disable_saved_tensors_hooks("not here"):
        w = nested(depth, lambda: (at_the_end(), seen.append(_modes.modes.hooks_disabled)))
    assert w.grad.tolist() == [2.0 * depth]
    assert seen[0][0] == depth
    assert seen[1:] == ["not here", "over"]
    assert (seen[0][1] == threading.get_ident()) == (depth < 16)
    assert not _modes.modes.tasks


def test_errors_of_passes_deep_inside_others() -> None:
    def fail() -> None:
        raise ZeroDivisionError("deep inside")

    with pytest.raises(ZeroDivisionError, match="deep inside"):
        nested(100, fail)
    assert retrograd.is_grad_enabled()
    assert not _modes.modes.tasks
