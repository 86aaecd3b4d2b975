"""Interrupts small programs at every bytecode, and looks whether anything is broken afterwards.

Python delivers Ctrl-C between two bytecodes, whichever they are. Here KeyboardInterrupt is raised
at the n-th bytecode that a program executes in retrograd's own code, by a trace function, for
every n that there is time for. While the interrupt and its traceback are still at hand, as they
are in an interactive session, all modes must be as before, every transform must be closed, known
computations must give their values, and what the program writes must be either as it was or done.

A single one: ``python -m tests.attack.interrupts PROGRAM [N]``.
"""

from __future__ import annotations

import dis
import functools
import os
import random
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import retrograd as torch
from retrograd import _modes, func, nn, optim, viz
from retrograd.autograd import forward_ad
from retrograd.autograd.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks
from retrograd.utils.checkpoint import checkpoint

from ._report import Report

PACKAGE = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
TENSORS: dict[str, Callable[[], Any]] = {
    "x": lambda: torch.tensor([0.5, -1.0, 2.0]),
    "m": lambda: torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]]),
    "w": lambda: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
}
Given = types.SimpleNamespace


# -- programs: each is given fresh tensors ---------------------------------------------------------


def grad(t: Given) -> None:
    func.grad(lambda x: (x.sin() * x).sum())(t.x)


def grad_of_grad(t: Given) -> None:
    func.grad(lambda x: func.grad(lambda y: (y**3).sum())(x).sum())(t.x)


def vjp(t: Given) -> None:
    _, pull = func.vjp(torch.exp, t.x)
    pull(t.x)


def jvp(t: Given) -> None:
    func.jvp(lambda x: x.exp() * x, (t.x,), (t.x,))


def vmap(t: Given) -> None:
    func.vmap(lambda a: (a * t.x).sum().sin())(t.m)


def vmap_of_grad(t: Given) -> None:
    func.vmap(func.grad(lambda a: (a * t.x).tanh().sum()))(t.m)


def hessian(t: Given) -> None:
    func.hessian(lambda x: (x**2).sum().exp())(t.x[:2])


def jacrev(t: Given) -> None:
    func.jacrev(lambda x: x.sin())(t.x)


def linearize(t: Given) -> None:
    func.linearize(torch.sin, t.x)[1](t.x)


def switches(t: Given) -> None:
    with torch.no_grad():
        t.w * 2
        with torch.enable_grad():
            t.w * 2
    with torch.inference_mode():
        t.w * 2


def decorated(t: Given) -> None:
    @torch.no_grad()
    def double(x: Any) -> Any:
        return x * 2

    double(t.w)


def generator(t: Given) -> None:
    @torch.no_grad()
    def each() -> Iterator[Any]:
        yield t.w * 2
        yield t.w * 3

    steps = each()
    next(steps)
    steps.close()


def suspended(t: Given) -> None:
    def each() -> Iterator[Any]:
        with torch.no_grad():
            yield t.w * 2
            yield t.w * 3

    steps = each()
    try:
        next(steps)
        with torch.enable_grad():
            steps.close()
    finally:  # a generator that goes on living keeps its mode, as in PyTorch
        steps.close()


def anomaly(t: Given) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            torch.autograd.grad((t.w * 2).sum(), t.w)


def hooks_on_saved(t: Given) -> None:
    with saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
        y = t.w.exp()
    torch.autograd.grad(y.sum(), t.w)


def mutation_allowed(t: Given) -> None:
    with allow_mutation_on_saved_tensors():
        y = t.w.clone()
        z = y**2
        y.sin_()
        torch.autograd.grad(z.sum(), t.w)


def recomputed(t: Given) -> None:
    y = checkpoint(lambda w: w.sin().exp(), t.w, use_reentrant=False)
    torch.autograd.grad(y.sum(), t.w)


def recomputed_reentrantly(t: Given) -> Any:
    checkpoint(lambda w: w.sin().exp(), t.w, use_reentrant=True).sum().backward()
    return t.w.grad


def dual_level(t: Given) -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(t.x, t.x)
        forward_ad.unpack_dual(dual.sin() * dual)


def backward(t: Given) -> Any:
    ((t.w * t.x).sin() + t.m).sum().backward()
    return t.w.grad


def backward_with_hooks(t: Given) -> Any:
    y = t.w * t.x
    y.register_hook(lambda g: g * 2)
    t.w.register_post_accumulate_grad_hook(lambda p: None)
    y.sum().backward()
    return t.w.grad


def backward_in_backward(t: Given) -> None:
    @torch.enable_grad()
    def hook(g: Any) -> None:
        torch.autograd.grad((t.w * 3).sum(), t.w)

    y = t.w * t.x
    y.register_hook(hook)
    torch.autograd.grad(y.sum(), t.w)


class Cube(torch.autograd.Function):
    """A custom operation."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


def custom(t: Given) -> None:
    torch.autograd.grad(Cube.apply(t.w).sum(), t.w)


def twice(t: Given) -> None:
    (slope,) = torch.autograd.grad((t.w**3).sum(), t.w, create_graph=True)
    torch.autograd.grad(slope.sum(), t.w)


def batched(t: Given) -> None:
    torch.autograd.grad(t.w**2, t.w, torch.eye(3), is_grads_batched=True)


def step(t: Given) -> Any:
    t.w.grad = torch.ones(3)
    optim.SGD([t.w], lr=0.5).step()
    return t.w


def adam(t: Given) -> Any:
    t.w.grad = torch.ones(3)
    optim.Adam([t.w], lr=0.5).step()
    return t.w


def recording(t: Given) -> None:
    layer = nn.Linear(3, 1)
    with viz.recording():
        layer(t.x).sum().backward()


def written(t: Given) -> Any:
    y = t.x
    y.mul_(t.w)
    return y


PROGRAMS: dict[str, Callable[[Given], Any]] = {
    f.__name__: f for f in (
        grad, grad_of_grad, vjp, jvp, vmap, vmap_of_grad, hessian, jacrev, linearize, switches,
        decorated, generator, suspended, anomaly, hooks_on_saved, mutation_allowed, recomputed,
        recomputed_reentrantly, dual_level, backward, backward_with_hooks, backward_in_backward,
        custom, twice, batched, step, adam, recording, written,
    )
}  # fmt: skip
# What each program writes to, by the name of the tensor and whether it is its ``.grad``.
WRITES: dict[str, tuple[str, bool]] = {
    "recomputed_reentrantly": ("w", True), "backward": ("w", True),
    "backward_with_hooks": ("w", True), "step": ("w", False), "adam": ("w", False),
    "written": ("x", False),
}  # fmt: skip


# -- what must hold afterwards ---------------------------------------------------------------------


def modes_are_plain() -> Iterator[str]:
    """What is wrong with the modes of this thread."""
    for name, value in _modes.PLAIN.items():
        if getattr(_modes.modes, name) != value:
            yield f"the mode {name} is {getattr(_modes.modes, name)!r}"
    frame = _modes.modes.frame
    if len(frame.states) != 1 or frame.outer is not None:
        yield "a scope is open"
    if frame.tasks:
        yield "a backward pass is thought to run"
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        yield "nothing is recorded"
    if torch.is_anomaly_enabled():
        yield "anomalies are detected"


def references() -> dict[str, Any]:
    """Computations whose values are known."""
    x = torch.tensor([1.0, 2.0])
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    (w * x).sum().backward()
    y = checkpoint(torch.square, w, use_reentrant=False)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, x) ** 2).tangent.tolist()
    with torch.no_grad():
        unrecorded = (w * 2).requires_grad
    return {
        "backward": w.grad.tolist(),
        "recorded": (w * 2).requires_grad,
        "unrecorded": unrecorded,
        "leaf": torch.ones(1).requires_grad_().is_leaf,
        "grad": func.grad(lambda x: (x**2).sum())(x).tolist(),
        "jvp": func.jvp(torch.square, (x,), (x,))[1].tolist(),
        "vmap": func.vmap(func.grad(torch.square))(x).tolist(),
        "checkpoint": torch.autograd.grad(y.sum(), w)[0].tolist(),
        "dual": tangent,
    }


EXPECTED = {
    "backward": [1.0, 2.0], "recorded": True, "unrecorded": False, "leaf": True,
    "grad": [2.0, 4.0], "jvp": [2.0, 8.0], "vmap": [2.0, 4.0], "checkpoint": [2.0, 4.0],
    "dual": [2.0, 8.0],
}  # fmt: skip


def broken() -> list[str]:
    """What is wrong with the library now; the modes are put right."""
    found = list(modes_are_plain())
    try:
        values = references()
        found += [
            f"{name} gives {value} and not {EXPECTED[name]}"
            for name, value in values.items()
            if value != EXPECTED[name]
        ]
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
    _modes.modes.__init__()  # type: ignore[misc]
    return found


# -- interrupting ----------------------------------------------------------------------------------


@dataclass
class Place:
    """Where an interrupt came."""

    file: str
    line: int
    function: str
    bytecode: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.bytecode}, in {self.function}"


@functools.cache
def _ends_of_locks(code: types.CodeType) -> frozenset[int]:
    """The bytecodes between the body of ``with lock`` and the call that releases the lock. Python
    looks for signals at none of them, so no interrupt comes there; a trace function could raise
    there, and the lock would be held forever."""
    if not any("lock" in name or name.endswith(("accumulating", "accumulators"))
               for name in code.co_names):  # fmt: skip
        return frozenset()
    steps = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "NOP")]
    found: set[int] = set()
    for k in range(len(steps) - 4):
        nothing = [i.opname == "LOAD_CONST" and i.argval is None for i in steps[k : k + 3]]
        call = next(i for i in steps[k + 3 :] if i.opname != "PRECALL")
        if all(nothing) and call.opname == "CALL" and call.arg in (2, 3):
            found.update(i.offset for i in steps[k : k + 5] if i.offset <= call.offset)
            if steps[k - 1].opname == "SWAP":  # with the result of a ``return``
                found.add(steps[k - 1].offset)
    return frozenset(found)


@functools.cache
def _ends_of_handlers(code: types.CodeType) -> frozenset[int]:
    """The bytecodes that end ``except`` blocks. Python looks for signals at none of them; after
    what a trace function raises there, it takes the exception for one that is still handled, and
    shows it as the context of all later ones."""
    return frozenset(i.offset for i in dis.get_instructions(code) if i.opname == "POP_EXCEPT")


class Interrupter:
    """Counts the bytecodes, or lines, that run in retrograd's code, and raises at one of them."""

    def __init__(self, at: int | None, event: str = "opcode") -> None:
        self.at = at
        self.event = event
        self.count = 0
        self.place: Place | None = None
        self.lines: dict[tuple[str, int], int] = {}  # when each was reached first

    def __enter__(self) -> None:
        # Python itself swallows what is raised while a generator is finalized, and says so.
        self.hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        sys.settrace(self.called)

    def __exit__(self, *exc: object) -> None:
        sys.settrace(None)
        sys.unraisablehook = self.hook

    def called(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        """A function is called. That is a place for an interrupt, too."""
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = self.event == "opcode"
        frame.f_trace_lines = self.event == "line"
        self.pass_by(frame)
        return self.reached

    def reached(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if event == self.event:
            self.pass_by(frame)
        return self.reached

    def pass_by(self, frame: types.FrameType) -> None:
        code = frame.f_code
        if self.event == "opcode" and frame.f_lasti in _ends_of_locks(code):
            return
        if frame.f_lasti in _ends_of_handlers(code):
            return
        self.count += 1
        self.lines.setdefault((code.co_filename, frame.f_lineno), self.count)
        if self.count == self.at:
            number = max(frame.f_lasti, 0)
            name = next((i.opname for i in dis.get_instructions(code) if i.offset == number), "?")
            file = "retrograd/" + code.co_filename.removeprefix(PACKAGE)
            self.place = Place(file, frame.f_lineno, code.co_qualname, f"{name} at {number}")
            raise KeyboardInterrupt


def given() -> Given:
    return Given(**{name: make() for name, make in TENSORS.items()})


def written_by(name: str, t: Given) -> Any:
    """The value of what a program writes, as a list."""
    if name not in WRITES:
        return None
    tensor, of_gradient = WRITES[name]
    value = getattr(t, tensor)
    value = value.grad if of_gradient else value
    return None if value is None else value.tolist()


@functools.cache
def outcome(name: str) -> Any:
    """What a program writes if nothing interrupts it."""
    t = given()
    PROGRAMS[name](t)
    return written_by(name, t)


def count(name: str, event: str = "opcode") -> Interrupter:
    """How many places there are in a program."""
    for _ in range(2):  # once to import and to compile what is needed
        interrupter = Interrupter(None, event)
        t = given()
        with interrupter:
            PROGRAMS[name](t)
    return interrupter


def interrupt(name: str, at: int, event: str = "opcode") -> tuple[Place | None, list[str]]:
    """Interrupt a program at a place; where that was, and what is broken."""
    t = given()
    before, after = written_by(name, t), outcome(name)
    interrupter = Interrupter(at, event)
    try:
        with interrupter:
            PROGRAMS[name](t)
    except KeyboardInterrupt as error:
        found = broken()
        value = written_by(name, t)
        if value not in (before, after):
            found.append(f"a tensor is half written: {value}, neither {before} nor {after}")
        del error
    else:
        found = broken()
    if sys.exc_info()[0] is not None:
        found.append(f"{sys.exc_info()[1]!r} is still being handled")
    return interrupter.place, found


def attack(report: Report, seed: int, seconds: float) -> None:
    """Interrupt programs at random places until the time is up, each place once. All programs
    take turns."""
    choose = random.Random(seed)
    places: dict[str, list[int]] = {}
    for name in PROGRAMS:
        places[name] = list(range(1, count(name).count + 1))
        choose.shuffle(places[name])
    report.counts["places"] = sum(map(len, places.values()))
    rows = zip_longest(*places.values())
    end = time.monotonic() + seconds
    for name, at in ((name, at) for row in rows for name, at in zip(places, row, strict=True)):
        if time.monotonic() > end:
            break
        if at is None:  # all places of this program have been tried
            continue
        place, found = interrupt(name, at)
        report.tried += 1
        for what in found:
            report.found(
                f"{name}: {what}, interrupted at {place}",
                f"python -m tests.attack.interrupts {name} {at}",
            )


def main(name: str, at: int | None = None) -> int:
    """One program, at one place or at all."""
    wrong = 0
    for n in range(1, count(name).count + 1) if at is None else [at]:
        place, found = interrupt(name, n)
        wrong += bool(found)
        for what in found:
            print(f"{n}: {place}: {what}")
    print(f"{name}: {n} places, {wrong} broken")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1], *map(int, sys.argv[2:3]))))
