"""Random straight-line programs have the values and derivatives that PyTorch gives them."""

from __future__ import annotations

from typing import Any

from _programs import (
    LARGEST,
    Draw,
    Program,
    a_dim,
    a_leaf,
    a_tensor,
    a_view,
    an_index,
    broadcastable,
    examples,
    pick,
    torch,
)
from hypothesis import assume, given
from hypothesis import strategies as st

# -- steps -----------------------------------------------------------------------------------

SMOOTH = [
    "-{x}", "{x}.exp()", "{x}.sin()", "{x}.cos()", "{x}.tanh()", "{x}.sigmoid()", "{x} * {x}",
    "{x} ** 2", "{x} ** 3", "{x} ** 0", "torch.pow({x} * {x} + 0.5, 1.5)", "2 ** {x}",
    "({x} * {x} + 0.5).log()", "({x} * {x} + 0.5).sqrt()", "({x} * {x} + 0.5).rsqrt()",
    "1 / ({x} * {x} + 1)", "({x} * {x} + 1).reciprocal()", "1.5 - {x}", "{x} - 1.5", "2 * {x}",
    "{x} / 2", "{x}.expm1()", "({x} * {x}).log1p()", "({x} * {x} + 2).log2()", "{x}.tanh().tan()",
    "({x} * {x} + 2).log10()", "{x}.atan()", "{x}.sinh()", "{x}.cosh()", "{x}.asinh()",
    "({x}.sin() * 0.5).asin()", "({x}.sin() * 0.5).acos()", "({x}.sin() * 0.5).atanh()",
    "({x} * {x} + 1.5).acosh()", "{x}.square()", "{x}.clone()", "{x}.contiguous()", "{x}.exp2()",
]  # fmt: skip
KINKED = [
    "{x}.relu()", "{x}.abs()", "{x}.clamp(-0.5, 0.5)", "{x}.clamp(min=0.5)", "{x}.clamp(max=0.5)",
    "torch.where({x} > 0, {x}, {x} * {x})", "{x}.masked_fill({x} > 0.5, 1.0)", "{x}.sign() * {x}",
    "torch.where({x} > 0, {x}, 0.5)", "torch.where({x} > 0, 0.5, {x})", "{x}[{x} > 0]",
]  # fmt: skip
SMOOTH_PAIRS = [
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y} + 1)",
    # Not a power of zero: what changes with both is wrong there in PyTorch.
    "({x} * {x} + 0.5) ** ({y} * {y} + 1)",
    "torch.add({x}, {y}, alpha=2)", "torch.sub({x}, {y}, alpha=0.5)", "{x} * {y}.exp()",
    "torch.atan2({x}, {y} * {y} + 1)", "torch.mul({x}, {y})",
]  # fmt: skip
KINKED_PAIRS = [
    "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.where({x} > 0, {x}, {y})",
    "torch.where({x} < {y}, {y}, {x} * {y})", "{x}.masked_fill({x} > {y}, 0.5)",
]  # fmt: skip
COMPLEX = [
    "-{x}", "{x}.exp()", "{x}.sin()", "{x}.cos()", "{x}.tanh()", "{x} * {x}", "{x} ** 2",
    "{x} ** 3", "1.5 - {x}", "2j * {x}", "{x} / (1 + 2j)", "{x}.conj()", "{x} * {x}.conj()",
    "({x} * {x}.conj() + 0.5).log()", "1 / ({x} * {x}.conj() + 1)",
    "{x} * {x}.abs()", "{x} * {x}.real", "{x}.imag * {x}", "({x} * {x}.conj() + 0.5).sqrt()",
]  # fmt: skip
COMPLEX_PAIRS = ["{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y}.conj() + 1)"]
REDUCTIONS = ["sum", "mean", "prod", "amax", "amin", "max", "min", "cumsum", "flip"]


def unary(draw: Draw, program: Program, x: str) -> tuple[str, int]:
    if program[x].is_complex():
        return pick(draw, COMPLEX).format(x=x), 1
    return pick(draw, SMOOTH + KINKED if program.firm(x) else SMOOTH).format(x=x), 1


def binary(draw: Draw, program: Program, x: str) -> tuple[str, int]:
    fitting = [n for n in program.names if broadcastable(program[x].shape, program[n].shape)]
    y = pick(draw, fitting)
    if program[x].is_complex() or program[y].is_complex():
        return pick(draw, COMPLEX_PAIRS).format(x=x, y=y), 1
    pairs = SMOOTH_PAIRS + KINKED_PAIRS if program.firm(x, y) else SMOOTH_PAIRS
    return pick(draw, pairs).format(x=x, y=y), 1


def product(draw: Draw, program: Program, x: str) -> tuple[str, int]:
    shape = program[x].shape
    if not shape:
        return f"{x} * {x}", 1
    alike = [n for n in program.names if program[n].dtype == program[x].dtype]
    fitting = [f"{x} @ {n}" for n in alike if multiply(shape, program[n].shape)]
    if len(shape) > 1:
        fitting += [f"{x} @ {x}.mT", f"{x}.mT @ {x}.conj()"]
        if shape[-1]:
            fitting.append(f"torch.matmul({x}.mT, {x}[..., 0, None])")
    else:
        fitting += [f"torch.outer({x}, {x})", f"{x}.dot({x})", f"{x} @ {x}"]
    return pick(draw, fitting), 1


def multiply(a: Any, b: Any) -> bool:
    if not b:
        return False
    inner = b[-2] if len(b) > 1 else b[0]
    return bool(a[-1] == inner and broadcastable(tuple(a[:-2]), tuple(b[:-2])))


def reduction(draw: Draw, program: Program, x: str) -> tuple[str, int]:
    ndim = program[x].ndim
    dim, keep = a_dim(draw, ndim), pick(draw, ["", ", keepdim=True"])
    kind = pick(draw, REDUCTIONS)
    if program[x].is_complex() and kind in ("amax", "amin", "max", "min"):
        kind = "sum"
    if kind in ("amax", "amin", "max", "min") and (not program.firm(x) or not program[x].numel()):
        kind = "mean"
    if kind == "cumsum":
        return f"{x}.cumsum({dim})", 1
    if kind == "flip":
        return (f"{x}.flip({dim})" if ndim else f"{x} + 1"), 1
    if kind not in ("amax", "amin") and draw(st.booleans()):
        return f"{x}.{kind}()", 1
    if kind in ("max", "min"):
        return pick(draw, [f"{x}.{kind}({dim}{keep})[0]", f"{x}.{kind}({dim}{keep}).values"]), 1
    if kind != "prod" and ndim > 1 and draw(st.booleans()):
        dims = draw(st.permutations(range(ndim)))[: draw(st.integers(1, ndim))]
        return f"{x}.{kind}({tuple(dims)}{keep})", 1
    return f"{x}.{kind}({dim}{keep})", 1


def joining(draw: Draw, program: Program, x: str) -> tuple[str, int]:
    shape = program[x].shape
    alike = [n for n in program.names if program[n].shape == shape]
    parts = [x, *draw(st.lists(st.sampled_from(alike), max_size=2))]
    dim = a_dim(draw, len(shape))
    kind = "cat" if shape and draw(st.booleans()) else "stack"
    return f"torch.{kind}([{', '.join(parts)}], {dim})", 1


def indexing(draw: Draw, program: Program, x: str) -> tuple[str, int]:
    # What is picked from what is not row by row lies in memory as each library likes.
    source = x if program[x].is_contiguous() else f"{x}.contiguous()"
    return f"{source}[{an_index(draw, tuple(program[x].shape), arrays=True)}]", 1


def viewing(draw: Draw, program: Program, x: str) -> tuple[str, int]:
    expression, results = a_view(draw, program, x)
    if ".view(" in expression and not program[x].is_contiguous():
        expression = expression.replace(".view(", ".reshape(")
    return expression, results


STEPS = [unary, unary, binary, binary, product, reduction, joining, indexing, viewing, viewing]


@st.composite
def programs(draw: Draw, dtypes: tuple[str, ...] = ("float64",), length: int = 8) -> Program:
    """A program of a few leaves and then a few steps, run on both sides as far as it goes."""
    program = Program()
    for _ in range(draw(st.integers(1, 3))):
        program.make(a_leaf(draw, pick(draw, dtypes), grads=st.integers(0, 3).map(bool)))
    if not any(program[n].requires_grad for n in program.names):
        program.run(f"{program.names[0]}.requires_grad_()")
    for _ in range(draw(st.integers(1, length))):
        x = pick(draw, program.names)
        expression, results = pick(draw, STEPS)(draw, program, x)
        if too_large(program, expression):
            continue
        program.make(expression, results)
    for name in program.names:
        program.compare_tensor(name)
        program.compare_history(name)
    return program


def too_large(program: Program, expression: str) -> bool:
    """Whether a result would be so large (or so long) that rounding drowns the comparison."""
    result = eval(expression, dict(program.theirs))
    parts = result if isinstance(result, tuple) else (result,)
    return any(
        r.numel() > 200 or not bool(torch.isfinite(r).all()) or bool((r.abs() > LARGEST).any())
        for r in parts
    )


def leaves(program: Program) -> list[str]:
    return [n for n in program.names if program[n].is_leaf and program[n].requires_grad]


def results(program: Program) -> list[str]:
    found = [n for n in program.names if not program[n].is_leaf]
    assume(found)
    return found


def a_loss(draw: Draw, program: Program, name: str) -> str:
    """A scalar with a gradient that differs from element to element."""
    tensor = program[name]
    if tensor.is_complex():
        return f"({name} * {name}.conj()).real.sum()"
    kinds = [f"{name}.sum()", f"({name} * {name}).sum()", f"{name}.sin().mean()"]
    weights = f"torch.arange(1, {tensor.numel() + 1}).reshape({tuple(tensor.shape)})"
    return pick(draw, [*kinds, f"({name} * {weights}).sum()"])


def with_grad(program: Program) -> list[str]:
    return [n for n in program.names if program[n].requires_grad]


def dtype_name(program: Program, name: str) -> str:
    return str(program[name].dtype).removeprefix("torch.")


def compare_grads(program: Program) -> None:
    for name in program.names:
        program.compare(f"{name}.grad", program.close)


# -- first derivatives -----------------------------------------------------------------------

MIXED = ("float64", "float64", "float64", "float32")
COMPLEX_MIXED = ("complex128", "complex128", "float64")


@examples(240)
@given(st.data(), programs())
def test_gradients_of_every_leaf(data: Any, program: Program) -> None:
    program.run(f"{a_loss(data.draw, program, pick(data.draw, results(program)))}.backward()")
    compare_grads(program)


@examples(100)
@given(st.data(), programs(MIXED))
def test_gradients_with_mixed_dtypes(data: Any, program: Program) -> None:
    program.run(f"{a_loss(data.draw, program, pick(data.draw, results(program)))}.backward()")
    compare_grads(program)


@examples(100)
@given(st.data(), programs(COMPLEX_MIXED, length=6))
def test_gradients_of_complex_programs(data: Any, program: Program) -> None:
    program.run(f"{a_loss(data.draw, program, pick(data.draw, results(program)))}.backward()")
    compare_grads(program)


@examples(100)
@given(st.data(), programs())
def test_several_roots_with_gradients_given(data: Any, program: Program) -> None:
    roots = data.draw(st.lists(st.sampled_from(results(program)), min_size=1, max_size=3))
    given_gradients = [
        a_tensor(data.draw, tuple(program[r].shape), dtype_name(program, r)) for r in roots
    ]
    arguments = f"[{', '.join(roots)}], [{', '.join(given_gradients)}]"
    program.run(f"torch.autograd.backward({arguments}, retain_graph=True)")
    compare_grads(program)
    targets = data.draw(st.lists(st.sampled_from(with_grad(program)), min_size=1, max_size=3))
    program.run(
        f"g = torch.autograd.grad([{', '.join(roots)}], [{', '.join(targets)}], "
        f"[{', '.join(given_gradients)}], allow_unused=True)"
    )
    for i in range(len(targets)):
        program.compare(f"g[{i}]", program.close)


@examples(100)
@given(st.data(), programs())
def test_inputs_restrict_what_is_accumulated(data: Any, program: Program) -> None:
    loss = a_loss(data.draw, program, pick(data.draw, results(program)))
    inputs = data.draw(st.lists(st.sampled_from(with_grad(program)), min_size=1, max_size=3))
    program.run(f"{loss}.backward(inputs=[{', '.join(inputs)}])")
    compare_grads(program)


@examples(100)
@given(st.data(), programs())
def test_a_retained_graph_runs_again_and_a_freed_one_says_so(data: Any, program: Program) -> None:
    program.make(a_loss(data.draw, program, pick(data.draw, results(program))))
    loss = program.names[-1]
    program.run(f"{loss}.backward(retain_graph=True)")
    compare_grads(program)
    # PyTorch may give two leaves of one element the same memory for .grad (those of a stack whose
    # sum is taken, for one). Each then accumulates the other's gradient, which is wrong.
    grads = [program.theirs[name].grad for name in leaves(program)]
    places = [g.data_ptr() for g in grads if g is not None and g.numel()]
    if len(set(places)) < len(places):
        return
    program.run(f"{loss}.backward()")
    compare_grads(program)
    if program.run(f"{loss}.backward()") is None:  # nothing had been saved
        compare_grads(program)


@examples(120)
@given(st.data(), programs())
def test_hooks_and_retained_gradients(data: Any, program: Program) -> None:
    hooks = [
        "{}.retain_grad()",
        "{}.register_hook(lambda g: None if g is None else g * 2)",
        "{0}.register_hook(lambda g: None if g is None else seen.append(('{0}', g.clone())))",
    ]
    program.run("seen = []")
    for _ in range(data.draw(st.integers(1, 4))):
        program.run(pick(data.draw, hooks).format(pick(data.draw, with_grad(program))))
    program.run(f"{a_loss(data.draw, program, pick(data.draw, results(program)))}.backward()")
    compare_grads(program)
    program.compare(f"[name for name, g in seen if name not in {leaves(program)}]")
    program.run("seen.sort(key=lambda entry: entry[0])")  # the order of leaves is its own
    program.compare("[name for name, g in seen]")
    for i in range(len(program.theirs["seen"])):
        program.compare(f"seen[{i}][1]", program.close)


# -- higher derivatives ----------------------------------------------------------------------


def differentiate_again(data: Any, program: Program, orders: int) -> None:
    """Take gradients of gradients, each time of a weighted sum of those before."""
    loss = a_loss(data.draw, program, pick(data.draw, results(program)))
    targets = ", ".join(leaves(program))
    for order in range(orders):
        more = ", create_graph=True" if order < orders - 1 else ""
        failed = program.run(
            f"g = torch.autograd.grad({loss}, [{targets}]{more}, allow_unused=True)"
        )
        assert failed is None
        for i in range(len(leaves(program))):
            program.compare(f"g[{i}]", program.close)
            program.compare(f"g[{i}] is not None and g[{i}].requires_grad")
        terms = [
            f"(g[{i}] * g[{i}].conj()).real.sum() / {i + 2}"
            for i, g in enumerate(program.theirs["g"])
            if g is not None and g.requires_grad and float(g.detach().abs().max()) < LARGEST
        ]
        if not terms:
            return
        program.run(f"loss = {' + '.join(terms)}")
        loss = "loss"


@examples(160)
@given(st.data(), programs(length=5))
def test_second_derivatives(data: Any, program: Program) -> None:
    differentiate_again(data, program, 2)


@examples(60)
@given(st.data(), programs(length=3))
def test_third_derivatives(data: Any, program: Program) -> None:
    differentiate_again(data, program, 3)


@examples(80)
@given(st.data(), programs(COMPLEX_MIXED, length=4))
def test_second_derivatives_of_complex_programs(data: Any, program: Program) -> None:
    differentiate_again(data, program, 2)


@examples(60)
@given(st.data(), programs(length=5))
def test_backward_that_makes_a_graph_can_be_differentiated(data: Any, program: Program) -> None:
    program.run(
        f"{a_loss(data.draw, program, pick(data.draw, results(program)))}"
        ".backward(create_graph=True)"
    )
    compare_grads(program)
    reached = [n for n in leaves(program) if program[n].grad is not None]
    assume(any(program[n].grad.requires_grad for n in reached))
    squares = " + ".join(f"({n}.grad * {n}.grad).sum()" for n in reached)
    program.run(f"({squares}).backward()")
    compare_grads(program)
