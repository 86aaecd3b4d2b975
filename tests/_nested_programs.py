"""Programs of nested transforms, drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _transform_programs import names
from hypothesis import strategies as st

import retrograd

Shape = tuple[int, ...]

# Steps by what they need. ``{x}`` is what the step works on, ``{y}`` anything of its shape.
ANY = [
    "torch.sin({x})", "torch.cos({x})", "torch.exp(0.5 * {x}.tanh())", "{x}.tanh()",
    "{x}.sigmoid()", "{x} * {x}.tanh()", "{x}.tanh() ** 3", "1 / (1 + {x} * {x})",
    "({x} * {x} + 1).sqrt()", "torch.log({x} * {x} + 1)", "2 ** {x}.tanh()", "-{x}", "{x} / 2",
    "F.softplus({x})", "torch.where(apart({x}) > -0.75, {x}, {x} * {x})", "apart({x}).abs()",
    "torch.where(apart({x}) > -0.75, {x}.sin(), 0.5)", "({x}.tanh() + 2) ** 1.5", "apart({x})",
    "({x}.tanh() + 2) ** {x}.sin()", "torch.atan2({x}, {x} * {x} + 1)", "Sine.apply({x})",
    "Product.apply({x}, {x}.cos())", "F.gelu({x})", "torch.erf({x})", "F.silu({x})",
    "apart({x}).clamp(min=-0.75)", "torch.lerp({x}, {x}.sin(), 0.3)",
    "torch.addcmul({x}, {x}, {x}.cos(), value=0.5)", "{x}.clone()",
    "{x}.masked_fill(apart({x}) > -0.75, 0.25)",
]  # fmt: skip
PAIRS = [
    "{x} + {y}", "{x} * {y}", "{x} - {y}.sin()", "{x} / ({y} * {y} + 1)", "{y}.tanh() * {x}",
    "({x}.tanh() + 2) ** {y}.tanh()", "torch.where(apart({x}) > -0.75, {x}, {y})",
    "torch.stack([{x}, {y}]).sum(0)", "torch.stack([{x}, {y}.sin()], -1)",
    "Product.apply({x}, {y})",
    "torch.maximum(apart({x}), 6 * const(*{x}.shape) + 0 * {y})",
    "torch.hypot({x}, {y} * {y} + 1)", "torch.cat([{x}.reshape(-1), {y}.reshape(-1)])",
    "({x} * {y}).sum()",
]  # fmt: skip
DIMENSIONS = [  # at least one
    "{x}.sum({d})", "{x}.mean({d}, keepdim=True)", "{x}.cumsum({d})", "{x}.softmax({d})",
    "{x}.logsumexp({d})", "apart({x}).max({d}).values", "apart({x}).sort({d}).values",
    "apart({x}).amin({d})", "{x}.flip({d})", "({x}.tanh() + 2).prod({d})", "{x}.log_softmax({d})",
    "({x}.tanh() + 2).cumprod({d})", "{x}.var({d})", "{x}.select({d}, 0)", "{x}.roll(1, {d})",
    "{x}.unsqueeze({d})", "torch.linalg.vector_norm({x} * {x} + 1, dim={d})", "{x}.diff(dim={d})",
    "torch.cat([{x}, {x}.sin()], {d})", "torch.stack([{x}, {x}.sin()], {d})", "{x}[0]", "{x}[-1:]",
    "{x}[..., 0]", "{x}[..., [0, -1]]", "{x}[[1, 0]]", "{x}.reshape(-1)", "{x}.sum()",
    "F.pad({x}, (1, 0))", "{x}.index_select({d}, torch.tensor([0, 1, 1]))", "{x} @ const({n}, 2)",
    "F.linear({x}, const(3, {n}), const(3))", "{x}.unbind({d})[1]", "{x}.narrow({d}, 0, 2)",
    "apart({x}).topk(2, {d}).values", "apart({x}).median({d}).values",
    "{x}.expand(2, *{x}.shape)[1]",
    "F.layer_norm({x}, ({n},), const({n}), const({n}))", "{x}.movedim({d}, 0)",
    "torch.einsum('...i,ij->...j', {x}, const({n}, 3))", "({x} * {x} + 1).norm(dim={d})",
    "{x}.gather(-1, torch.zeros({x}.shape, dtype=torch.int64))",
    "torch.tensordot({x}, const({n}, 2), 1)",
    "{x}.repeat_interleave(2, {d})", "F.softmax({x}, {d})[..., 0]", "{x}.split(1, {d})[0]",
]  # fmt: skip
VECTORS = [
    "torch.outer({x}, {x}.sin())", "{x} @ {x}", "{x}.dot(const({n}))", "torch.diag({x})",
    "F.conv1d({x}[None, None], const(1, 1, 2))[0, 0]", "const({n}, {n}) @ {x}",
    "torch.einsum('i,j->ij', {x}, {x})", "{x}[1:] * {x}[:-1]", "torch.kron({x}, const(2))",
    "torch.linalg.solve(regular(const({n}, {n})), {x})",
    "torch.linalg.solve(regular(torch.outer({x}, {x})), {x})",
    "{x}.expand(2, -1)",
]  # fmt: skip
MATRICES = [
    "{x}.mT", "{x} @ {x}.mT", "{x}.mT @ {x}", "{x}.diagonal()", "{x}.tril()", "{x}.sum((0, 1))",
    "torch.einsum('ij,kj->ik', {x}, {x}.sin())", "{x}.flatten()", "{x}.t()[1]", "{x}.permute(1, 0)",
    "torch.linalg.cholesky({x}.tanh() @ {x}.tanh().mT + 2 * torch.eye({m}, dtype=f64))",
    "F.conv1d({x}[None], const(2, {m}, 2), padding=1)[0]", "torch.bmm({x}[None], {x}.mT[None])[0]",
    "torch.addmm(const({m}, 2), {x}, const({n}, 2))", "{x}.mean((0, 1), keepdim=True)",
    "F.avg_pool1d({x}, 2)", "{x}[0] * {x}[1]", "{x}[:, :1] + {x}", "const(2, {m}) @ {x}",
    "F.cross_entropy({x}, torch.zeros({m}, dtype=torch.int64), reduction='none')",
]  # fmt: skip
SQUARES = [
    "torch.linalg.inv(regular({x}))", "torch.linalg.det(regular({x}))", "{x}.trace()",
    "torch.linalg.solve(regular({x}), {x}.sin())", "torch.linalg.slogdet(regular({x})).logabsdet",
    "torch.linalg.solve(regular({x}), const({n}, 2))", "{x} @ {x}",
    "torch.linalg.matrix_power({x}.tanh(), 3)",
]  # fmt: skip
# Writes to tensors that the function has made itself.
IN_PLACE = [
    ["{r} = {x}.clone()", "{r}.mul_(2.0)"],
    ["{r} = {x}.clone()", "{r}.sin_()"],
    ["{r} = {x} * 1.0", "{r}[0] = {x}[0].sin()"],
    ["{r} = {x} * 1.0", "{r}[..., -1] += {x}[..., 0].cos()"],
    ["{r} = torch.zeros_like({x})", "{r} += {x} * {x}"],
    ["{r} = torch.zeros_like({x})", "{r}.copy_({x}.sin())", "{r}[0].mul_(3.0)"],
    ["{r} = {x}.clone()", "{r}v = {r}[1:]", "{r}v.add_({x}[1:])", "{r}v.tanh_()"],
    ["{r} = {x}.sin()", "{r}.select(-1, 0).mul_({x}.select(-1, 0))"],
    ["{r} = {x}.clone()", "{r}[0:1].cos_()", "{r} *= {x}"],
    ["{r} = {x} + 0.5", "{r}.movedim(0, -1).mul_({x}.movedim(0, -1))"],
]


class Function:
    """A function that has been written down, and what it takes and gives."""

    def __init__(self, text: str, takes: Shape, gives: Shape, cost: float, depth: int) -> None:
        self.text = text
        self.takes = takes
        self.gives = gives
        self.cost = cost  # of a call by differences, in calls of the innermost function
        self.depth = depth


class Writer:
    """Writes a program. Each line is run on plain tensors at once, to know the shapes."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.made = 0
        self.transforms: list[str] = []
        self.space = names(retrograd, None)

    @property
    def source(self) -> str:
        return "\n".join(self.lines) + "\n"

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def name(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def shape(self, name: str) -> Shape:
        return tuple(self.space[name].shape)

    def stand_in(self, name: str, shape: Shape) -> None:
        """Bind a name to some tensor of a shape, for lines after it to be tried on."""
        self.space[name] = self.space["const"](*shape)

    def try_lines(self, lines: list[str]) -> None:
        for line in lines:
            exec(line, self.space)

    # -- functions

    def function(self, takes: Shape, visible: list[str], depth: int, indent: str = "") -> Function:
        """Write a function of one tensor that may use the names visible, with transforms nested
        in it to ``depth``."""
        text, x = self.name("f"), self.name("x")
        self.lines.append(f"{indent}def {text}({x}):")
        self.stand_in(x, takes)
        inner = indent + "    "
        local, deepest, cost = [x], 0, 1.0
        steps = self.draw(st.integers(1, 3))
        nest_at = self.draw(st.integers(0, steps)) if depth else -1
        for i in range(steps + 1):
            if i == nest_at:
                name, used = self.application(local, visible + local, depth, inner)
                deepest, cost = used.depth, cost + used.cost
                local.append(name)
            elif i < steps:
                local.append(self.step(local, visible + local, inner))
        last = local[-1]
        if last != x and self.shape(last) == self.shape(x) and self.draw(st.booleans()):
            last = f"{last} * {x}"
        self.lines.append(f"{inner}return {last}")
        gives = self.shape(local[-1])
        return Function(text, takes, gives, cost, deepest)

    def step(self, local: list[str], visible: list[str], indent: str) -> str:
        """Write a line, or a few, that makes a new tensor out of a local one."""
        x = local[-1] if self.draw(st.integers(0, 3)) else self.pick(local)
        shape = self.shape(x)
        kinds: list[list[Any]] = [ANY]
        alike = [n for n in visible if self.shape(n) == shape]
        kinds.append(PAIRS)
        if shape:
            kinds += [DIMENSIONS, IN_PLACE]
        if len(shape) == 1:
            kinds.append(VECTORS)
        if len(shape) == 2:
            kinds.append(MATRICES)
            if shape[0] == shape[1]:
                kinds.append(SQUARES)
        template = self.pick(self.pick(kinds))
        fill = {
            "x": x, "y": self.pick(alike), "r": self.name("t"),
            "d": self.draw(st.integers(-len(shape), len(shape) - 1)) if shape else 0,
            "n": shape[-1] if shape else 1, "m": shape[-2] if len(shape) > 1 else 1,
        }  # fmt: skip
        made = [template] if isinstance(template, str) else template
        lines = [line.format(**fill) for line in made]
        if isinstance(template, str):
            lines = [f"{fill['r']} = {lines[0]}"]
        if min(shape, default=2) < 2 and template not in ANY + PAIRS:
            lines = [f"{fill['r']} = torch.sin({x})"]  # several steps need two of each
        self.try_lines(lines)
        if self.space[fill["r"]].numel() > 24 or self.space[fill["r"]].ndim > 3:
            lines = [f"{fill['r']} = {x}.sin() * 2"]
            self.try_lines(lines)
        self.lines += [indent + line for line in lines]
        return fill["r"]

    # -- transforms

    def application(
        self, local: list[str], visible: list[str], depth: int, indent: str
    ) -> tuple[str, Function]:
        """Write a function, and a line that applies a transform of it to a local tensor."""
        function = self.transformed(visible, depth, indent)
        point = self.point(function.takes, local)
        result = self.name("t")
        self.lines.append(f"{indent}{result} = {function.text}({point})")
        self.stand_in(result, function.gives)
        return result, function

    def transformed(self, visible: list[str], depth: int, indent: str) -> Function:
        """Write a function and give an expression for a transform of it."""
        stacked = self.draw(st.integers(1, depth))
        takes = self.pick([(2,), (3,), (2, 2), (2, 3), ()])
        function = self.function(takes, visible, depth - stacked, indent)
        left = stacked
        while left > 0:
            function, used = self.transform(function, left)
            left -= used
        return function

    def transform(self, f: Function, left: int) -> tuple[Function, int]:
        """A transform of a function, and how many levels it counts for."""
        size, inputs = int(np.prod(f.gives, initial=1)), int(np.prod(f.takes, initial=1))
        kinds = ["grad", "jvp", "vjp", "linearize", "vmap", "vmap"]
        if size * inputs <= 24:
            kinds += ["jacrev", "jacfwd"]
        if left > 1:
            kinds.append("hessian")
        kind = self.pick(kinds)
        self.transforms.append(kind)
        x = self.name("x")
        made, gives, factor, used = "", f.gives, 8.0, 1
        if kind == "grad":
            made, gives = f"func.grad(lambda {x}: weighted({f.text}({x})))", f.takes
            factor = 8.0 * inputs
        elif kind == "vjp":
            cotangent = f"const{f.gives}" if len(f.gives) != 1 else f"const({f.gives[0]})"
            made, gives = f"(lambda {x}: func.vjp({f.text}, {x})[1]({cotangent})[0])", f.takes
            factor = 8.0 * inputs
        elif kind == "jvp":
            tangent = self.pick([f"{x}.cos()", f"torch.ones_like({x})", f"const(*{x}.shape)"])
            made = f"(lambda {x}: func.jvp({f.text}, ({x},), ({tangent},))[1])"
        elif kind == "linearize":
            made = f"(lambda {x}: func.linearize({f.text}, {x})[1](const(*{x}.shape)))"
        elif kind in ("jacrev", "jacfwd"):
            chunks = self.pick(["", "", ", chunk_size=2"]) if kind == "jacrev" else ""
            made, gives = f"func.{kind}({f.text}{chunks})", (*f.gives, *f.takes)
            factor = 8.0 * inputs
        elif kind == "hessian":
            made = f"func.hessian(lambda {x}: weighted({f.text}({x})))"
            gives, factor, used = (*f.takes, *f.takes), (8.0 * inputs) ** 2, 2
        else:
            return self.vectorized(f), 1
        depth = f.depth + used
        return Function(made, f.takes, gives, f.cost * factor, depth), used

    def vectorized(self, f: Function) -> Function:
        inside = self.draw(st.integers(-len(f.takes) - 1, len(f.takes)))
        outside = self.draw(st.integers(-len(f.gives) - 1, len(f.gives)))
        takes, gives = (
            (*shape[:place], 2, *shape[place:])
            for shape, dim in ((f.takes, inside), (f.gives, outside))
            for place in [dim % (len(shape) + 1)]
        )
        chunks = self.pick(["", "", "", ", chunk_size=1"])
        made = f"func.vmap({f.text}, in_dims={inside}, out_dims={outside}{chunks})"
        if (inside, outside) == (0, 0):
            made = f"func.vmap({f.text})"
        return Function(made, takes, gives, 2 * f.cost, f.depth + 1)

    def point(self, shape: Shape, local: list[str]) -> str:
        """An expression of a shape, made out of a local tensor or out of nothing."""
        alike = [n for n in local if self.shape(n) == shape]
        if alike and self.draw(st.integers(0, 3)):
            return self.pick(alike)
        fixed = f"const({', '.join(map(str, shape))})"
        kinds = [fixed, f"({fixed} + {local[-1]}.mean())", f"({fixed} * {local[0]}.sum().sin())"]
        same_size = [n for n in local if self.space[n].numel() == int(np.prod(shape, initial=1))]
        kinds += [f"{n}.reshape({shape})" for n in same_size[-1:]]
        return self.pick(kinds)


class NestedProgram:
    """A drawn program: transforms nested to a depth, at some point."""

    def __init__(self, source: str, transforms: list[str], cost: float, depth: int) -> None:
        self.source = source
        self.transforms = transforms
        self.cost = cost
        self.depth = depth

    def __repr__(self) -> str:
        return "\n" + self.source


@st.composite
def nested_programs(draw: Any, depth: int = 3) -> NestedProgram:
    writer = Writer(draw)
    function = writer.transformed([], depth, "")
    fixed = f"const({', '.join(map(str, function.takes))})"
    writer.lines.append(f"result = {function.text}({fixed} + 0.25)")
    return NestedProgram(writer.source, writer.transforms, function.cost, function.depth)
