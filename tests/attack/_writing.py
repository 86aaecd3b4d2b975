"""Writes a random program, line by line, by what the lines before have given in PyTorch."""

from __future__ import annotations

from random import Random
from typing import Any

from . import _drawing as draw
from ._comparing import Difference, is_tensor
from ._functions import Functions
from ._machine import Libraries
from ._steps import Steps
from ._templates import CRASHES, CRASHES_UNLESS_FIT, CRASHES_UNLESS_PIVOTS, Template, chosen

MAIN = ("float64",) * 10 + ("float32",) * 4 + ("complex128",) * 2 + ("float16", "complex64")


class Writer:
    """One program: its lines are run as they are drawn."""

    def __init__(self, seed: int, libraries: Libraries) -> None:
        self.random = random = Random(seed)
        self.machine = libraries.machine()
        self.main = random.choice(MAIN)
        self.special = random.random() < 0.12  # infinities and NaN among the leaves
        self.made = 0
        self.steps = Steps(random, self.machine.live, self.machine.theirs)
        self.functions = Functions(random, self.machine.live, self.machine.theirs, self.main)
        self.failures = 0

    def write(self) -> Difference | None:
        """Draw and run a program; what it does otherwise than in PyTorch, if anything."""
        found = None
        for _ in range(self.random.randint(2, 3)):
            found = found or self.leaf()
        style = self.random.random()
        length = self.random.randint(3, 9)
        templates = 0.15 if style < 0.45 else 0.9 if style > 0.85 else 0.45
        transforms = 0.25 if 0.45 <= style < 0.6 else 0.0
        while found is None and length and not self.machine.is_over:
            length -= 1
            choice = self.random.random()
            if choice < transforms:
                found = self.transform()
            elif choice < transforms + templates:
                found = self.sample(chosen(self.random, self.main))
            else:
                found = self.drawn()
        return found or (None if self.machine.is_over else self.end())

    # -- lines -------------------------------------------------------------------------------

    def name(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def leaf(self) -> Difference | None:
        random = self.random
        shape = random.choice(draw.SHAPES)
        dtype = self.main if random.random() < 0.8 else random.choice(draw.DTYPES)
        wants = random.random() < 0.75
        return self.machine.step(
            f"{self.name()} = {draw.leaf(random, shape, dtype, self.special, wants)}"
        )

    def assign(self, expression: str, modes: bool = True) -> Difference | None:
        """A line that gives a new name to the value of an expression, and names for its parts."""
        name = self.name()
        prefix = ""
        choice = self.random.random() if modes else 1
        if choice < 0.06:
            prefix = "with torch.no_grad(): "
        elif choice < 0.07:
            prefix = "with torch.inference_mode(): "
        elif choice < 0.08:
            prefix = "with torch.enable_grad(): "
        found = self.machine.step(f"{prefix}{name} = {expression}")
        if found is None and not self.machine.failed:
            value = self.machine.theirs.get(name)
            if isinstance(value, (tuple, list)):
                places = [i for i, part in enumerate(value) if is_tensor(part)]
                for i in self.random.sample(places, min(2, len(places))):
                    found = found or self.machine.step(f"{self.name()} = {name}[{i}]")
        return found

    def operand(self) -> str | None:
        """A tensor to go on with: rather a young one, and none with huge numbers."""
        live = self.machine.live
        names = [n for n, f in live.items() if f.top < 1e4 and size_of(f.shape) <= 60]
        if self.special:
            names = [n for n, f in live.items() if size_of(f.shape) <= 60]
        if not names:
            return None
        young = names[-4:]
        return self.random.choice(young if self.random.random() < 0.6 else names)

    def drawn(self) -> Difference | None:
        x = self.operand()
        if x is None:
            return self.leaf()
        text = self.steps.draw(x)
        if text is None:
            return None
        if not text.startswith("!"):
            return self.assign(text)
        prefix = "with torch.no_grad(): " if self.random.random() < 0.12 else ""
        return self.machine.step(prefix + text[1:])

    def sample(self, template: Template) -> Difference | None:
        random, live = self.random, self.machine.live
        if self.special and CRASHES.search(template.text):
            return None
        names: dict[str, str] = {}
        fits = self.main in ("float64", "float32")
        for operand in template.operands:
            fitting = [n for n, f in live.items() if f.top < 1e4
                       and operand.fits(f.shape, f.dtype, self.main)]  # fmt: skip
            if operand.dtype and CRASHES_UNLESS_PIVOTS.search(template.text):
                fitting = []
            if fitting and random.random() < 0.65:
                names[operand.name] = random.choice(fitting)
                continue
            if random.random() < 0.04 and live and not CRASHES_UNLESS_FIT.search(template.text):
                names[operand.name] = random.choice(list(live))  # which may not fit
                fits = False
                continue
            more = ", requires_grad=True" if random.random() < 0.7 else ""
            name = self.name()
            dtype = operand.dtype or self.main
            if random.random() < 0.25 and dtype in draw.FLOATS and operand.dtype is None:
                text = draw.leaf(random, operand.array.shape, dtype, self.special, bool(more))
            else:
                text = operand.text(self.main, more)
            found = self.machine.step(f"{name} = {text}")
            if found is not None:
                return found
            names[operand.name] = name
        expression = template.filled(names)
        if not template.differentiable:
            found = self.machine.step(f"with torch.no_grad(): {self.name()} = {expression}")
        else:
            found = self.assign(expression)
        if found is not None:
            found.misfit = not fits
        return found

    def transform(self) -> Difference | None:
        x = self.operand()
        facts = self.machine.live.get(x or "")
        if x is None or facts is None or facts.dtype != self.main or size_of(facts.shape) > 12:
            return self.drawn()
        made = self.functions.line(x, self.machine.theirs)
        if made is None:
            return None
        for line in made[0]:
            found = self.machine.step(line)
            if found is not None:
                return found
        return self.assign(made[1], modes=False)

    # -- the end: derivatives ----------------------------------------------------------------

    def end(self) -> Difference | None:
        """Take gradients of something, by one of the ways, and compare everything once more."""
        machine, random = self.machine, self.random
        if not machine.libraries.torch.is_grad_enabled():
            machine.step("torch.set_grad_enabled(True)")
        results, leaves = [], []
        for name in machine.live:
            tensor = machine.theirs[name]
            if tensor.requires_grad:
                (leaves if is_leaf(tensor) else results).append(name)
        if not results:
            return machine.compare_all("", gradients=True)
        root = results[-1] if random.random() < 0.6 else random.choice(results)
        way = random.random()
        numbers = f"torch.linspace(-1, 1.5, {root}.numel(), dtype={root}.dtype)"
        weight = f"{numbers}.reshape({root}.shape)"
        if machine.theirs[root].dtype.is_complex:
            loss = f"torch.view_as_real({root}.resolve_conj()).sum()"
        else:
            loss = f"{root}.sum()"
        if way < 0.3:
            lines = [f"{root}.backward({weight})"]
        elif way < 0.45 or not leaves:
            lines = [f"{loss}.backward()"]
        else:
            wanted = ", ".join(leaves)
            name, again = self.name(), self.name()
            lines = [
                f"{name} = torch.autograd.grad({root}, [{wanted}], {weight}, create_graph=True,"
                " allow_unused=True)",
                f"{again} = sum((torch.view_as_real(g.resolve_conj()) if g.is_complex() else g)"
                f".square().sum() for g in {name} if g is not None)",
                f"{again}.backward()",
            ]
        for line in lines:
            found = machine.step(line)
            if found is not None:
                return found
            if machine.failed:
                break
        # Which gradients a pass had added before it failed is not defined.
        return None if machine.is_over else machine.compare_all("", gradients=True)


def is_leaf(tensor: Any) -> bool:
    try:
        return bool(tensor.is_leaf)
    except RuntimeError:  # a view that was made without recording, of what was written since
        return False


def size_of(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size
