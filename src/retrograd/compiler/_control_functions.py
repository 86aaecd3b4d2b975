"""Control flow in programs, as custom Functions.

``forward`` traces the branches or the body as programs and writes one line, which holds them.
Derivatives are control flow again: the gradient of a ``cond`` is a ``cond`` of the gradients of its
branches, and the tangent of a loop is a loop that carries tangents along. So derivatives of any
order, and transforms in any order, follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd._modes import modes
from retrograd.autograd.function import Function
from retrograd.compiler._blocks import (
    Blocks,
    CannotTrace,
    Fn,
    Part,
    given_in_rows,
    programs_of,
    restore,
    write,
    write_loop,
)
from retrograd.compiler._control_lines import Branch, Scan, While
from retrograd.compiler._derived import batched, in_front, is_float, one_of, pulled, pushed, spread
from retrograd.compiler._rehearsal import has_history
from retrograd.ops.piecewise import where
from retrograd.ops.shapes.slicing import stack


class Cond(Function):
    """``Cond.apply(blocks, pred, *args)``: one of two functions of the arguments."""

    @staticmethod
    def forward(blocks: Blocks, pred: Any, *args: Any) -> Any:
        level = blocks.level
        condition, now = level.known(pred)
        taken = 0 if now.item() else 1
        pairs = [level.known(x) for x in args]
        examples = [(value, var.name) for var, value in pairs]
        states = [g.saved() for g in level.generators]
        after: list[Any] = states
        parts = []
        for number, function in enumerate(blocks.functions):
            restore(level, states)
            parts.append(Part(blocks, function, examples))
            if number == taken:
                after = [g.saved() for g in level.generators]
        restore(level, after)
        programs, free = programs_of(parts, ["if_true", "if_false"])
        used = [condition, *[var for var, _ in pairs], *free]
        return write(blocks, Branch(*programs), used, parts[taken].values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        blocks, *tensors = inputs
        ctx.blocks = blocks
        ctx.floats = [i for i, y in enumerate(output) if is_float(y)]
        ctx.count = len(output)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.mark_non_differentiable(*[y for y in output if not is_float(y)])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pred, *args = ctx.saved_tensors
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        given = [grads[i] for i in ctx.floats]
        functions = [pulled(fn, len(args), wanted, ctx.floats) for fn in ctx.blocks.functions]
        blocks = ctx.blocks.derived(*functions)
        try:
            found = Cond.apply(blocks, pred, *args, *given)
        except CannotTrace as error:
            blocks.level.look(f"control flow: {error}")
            found = blocks.functions[0 if pred else 1](*args, *given)
        return (None, None, *spread(found, wanted, len(args)))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        pred, *args = ctx.saved_tensors
        moving = [i for i, x in enumerate(args) if is_float(x)]
        given = [tangents[2 + i] for i in moving]
        functions = [pushed(fn, len(args), moving, ctx.floats) for fn in ctx.blocks.functions]
        found = Cond.apply(ctx.blocks.derived(*functions), pred, *args, *given)
        return tuple(spread(found, ctx.floats, ctx.count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, blocks: Blocks, pred: Any, *args: Any) -> Any:
        functions = [batched(fn, in_dims[2:], info) for fn in blocks.functions]
        if in_dims[1] is None:
            found = Cond.apply(blocks.derived(*functions), pred, *args)
            return found, (0,) * len(found)
        yes, no = (function(*args) for function in functions)
        pred = pred.reshape(info.batch_size)
        found = tuple([
            where(pred.reshape(-1, *[1] * (a.dim() - 1)), a, b)
            for a, b in zip(yes, no, strict=True)
        ])  # fmt: skip
        return found, (0,) * len(found)


class WhileLoop(Function):
    """``WhileLoop.apply(blocks, count, *args)``: a loop that carries the first arguments."""

    @staticmethod
    def forward(blocks: Blocks, count: int, *args: Any) -> Any:
        level = blocks.level
        pairs = [given_in_rows(level, x) for x in args[:count]]
        pairs += [level.known(x) for x in args[count:]]
        examples = [(value, var.name) for var, value in pairs]
        states = [g.saved() for g in level.generators]
        parts = [Part(blocks, function, examples) for function in blocks.functions]
        restore(level, states)
        (condition, body), free = programs_of(parts, ["condition", "body"])
        return write_loop(blocks, While(condition, body, count), pairs, free)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.blocks, ctx.count, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.mark_non_differentiable(*[y for y in output if not is_float(y)])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "the gradient of while_loop() needs the values of all iterations, and a compiled "
            "function does not keep them. Use torch.scan(), which does, for a known number of "
            "iterations, or forward mode"
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        args, count = ctx.saved_tensors, ctx.count
        condition, body = ctx.blocks.functions
        carried = [i for i in range(count) if is_float(args[i])]
        others = [i for i in range(count, len(args)) if is_float(args[i])]
        total, moving = count + len(carried), len(args) + len(carried)
        forward = pushed(body, len(args), [*carried, *others], carried, values=True)

        def is_going(*given: Any) -> Any:
            return condition(*given[:count], *given[total:moving])

        def step(*given: Any) -> Any:
            values, their_tangents = given[:count], given[count:total]
            captured, other_tangents = given[total:moving], given[moving:]
            return forward(*values, *captured, *their_tangents, *other_tangents)

        found = WhileLoop.apply(
            ctx.blocks.derived(is_going, step), total, *args[:count],
            *[tangents[2 + i] for i in carried], *args[count:], *[tangents[2 + i] for i in others],
        )  # fmt: skip
        return tuple(spread(found[count:], carried, count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, blocks: Blocks, count: int, *args: Any) -> Any:
        dims = in_dims[2:]
        inside = (*[0] * count, *dims[count:])
        condition, body = (batched(fn, inside, info) for fn in blocks.functions)

        def is_going(*given: Any) -> Any:
            return [condition(*given)[0].any()]

        def step(*given: Any) -> Any:
            """The next values; those of entries that have ended stay as they are."""
            going, new = condition(*given)[0], body(*given)
            return [
                where(going.reshape(-1, *[1] * (x.dim() - 1)), x, old)
                for x, old in zip(new, given[:count], strict=True)
            ]

        carried = [in_front(x, d, info) for x, d in zip(args[:count], dims, strict=False)]
        found = WhileLoop.apply(blocks.derived(is_going, step), count, *carried, *args[count:])
        return found, (0,) * count


class Slices:
    """How a loop goes through slices: how many of its arguments it carries, how many come slice by
    slice, and from which end; and whether the carried values are kept for a gradient."""

    def __init__(self, carried: int, sliced: int, reverse: bool, keeps: bool) -> None:
        self.carried = carried
        self.sliced = sliced
        self.reverse = reverse
        self.keeps = keeps  # the last results are the values that each iteration began with
        self.ends = carried, carried + sliced


class ScanLoop(Function):
    """``ScanLoop.apply(blocks, slices, *args)``: a loop through slices of arguments. It gives the
    last values that it carried, and results for all slices."""

    @staticmethod
    def forward(blocks: Blocks, slices: Slices, *args: Any) -> Any:
        level, (start, end) = blocks.level, slices.ends
        pairs = [given_in_rows(level, x) for x in args[:end]]
        pairs += [level.known(x) for x in args[end:]]
        first = -1 if slices.reverse else 0
        examples = [
            (value[first], one_of(var.name)) if start <= i < end else (value, var.name)
            for i, (var, value) in enumerate(pairs)
        ]
        states = [g.saved() for g in level.generators]
        part = Part(blocks, blocks.functions[0], examples, owned=start)
        restore(level, states)
        (body,), free = programs_of([part], ["body"])
        operation = Scan(body, slices.carried, slices.sliced, slices.reverse)
        return write_loop(blocks, operation, pairs, free, start if slices.keeps else 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.blocks, ctx.slices, *tensors = inputs
        ctx.count = len(output)
        ctx.floats = [i for i, y in enumerate(output) if is_float(y)]
        # Those of the results that are what each iteration began with, if they are kept.
        kept = output[ctx.count - ctx.slices.carried :] if ctx.slices.keeps else ()
        ctx.save_for_backward(*tensors, *kept)
        ctx.save_for_forward(*tensors)
        ctx.mark_non_differentiable(*[y for y in output if not is_float(y)])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        slices, (start, end) = ctx.slices, ctx.slices.ends
        total = len(ctx.needs_input_grad) - 2
        saved = ctx.saved_tensors
        args, kept = saved[:total], saved[total:]
        needed = ctx.needs_input_grad[2:]
        carried = [i for i in range(start) if is_float(args[i])]
        others = [i for i in range(start, total) if needed[i]]
        sliced = [i for i in others if i < end]
        captured = [i for i in others if i >= end]
        results = [i for i in ctx.floats if i >= start and grads[i] is not None]
        pull = pulled(ctx.blocks.functions[0], total, [*carried, *others], [*carried, *results])
        first, second = len(carried), len(carried) + len(captured)

        def step(*given: Any) -> Any:
            """The gradients of one iteration, from those of the one after it."""
            gradients, totals, rest = given[:first], given[first:second], given[second:]
            values, rest = rest[:end], rest[end:]
            of_results, captured_values = rest[: len(results)], rest[len(results) :]
            found = pull(*values, *captured_values, *gradients, *of_results)
            of_slices = found[first : first + len(sliced)]
            more = found[first + len(sliced) :]
            sums = [total + g for total, g in zip(totals, more, strict=True)]
            return [*found[:first], *sums, *of_slices]

        given = [
            *[args[i].new_zeros(args[i].shape) if grads[i] is None else grads[i] for i in carried],
            *[args[i].new_zeros(args[i].shape) for i in captured],
            *kept, *args[start:end], *[grads[i] for i in results], *args[end:],
        ]  # fmt: skip
        found = run_scan(ctx.blocks, step, second, end + len(results), not slices.reverse, given)
        places = [*carried, *captured, *sliced]
        return (None, None, *spread(found[: len(places)], places, total))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        slices, args = ctx.slices, ctx.saved_tensors
        start, end = slices.ends
        moving = [i for i, x in enumerate(args) if is_float(x)]
        given = {i: tangents[2 + i] for i in moving}
        given = {
            i: x.new_zeros(x.shape) if t is None else t
            for (i, t), x in zip(given.items(), [args[i] for i in moving], strict=True)
        }
        carried, sliced, captured = (
            [i for i in moving if low <= i < high]
            for low, high in ((0, start), (start, end), (end, len(args)))
        )
        push = pushed(ctx.blocks.functions[0], len(args), moving, ctx.floats, values=True)
        a, b = start + len(carried), end + len(carried) + len(sliced)

        def step(*given: Any) -> Any:
            """The next values and their tangents, and results and theirs."""
            values, of_values = given[:start], given[start:a]
            xs, of_xs = given[a : a + end - start], given[a + end - start : b]
            rest, of_rest = given[b : b + len(args) - end], given[b + len(args) - end :]
            found = push(*values, *xs, *rest, *of_values, *of_xs, *of_rest)
            outputs, moved = found[: ctx.count], found[ctx.count :]
            return [
                *outputs[:start],
                *moved[: len(carried)],
                *outputs[start:],
                *moved[len(carried) :],
            ]

        found = run_scan(
            ctx.blocks, step, a, end - start + len(sliced), slices.reverse,
            [*args[:start], *[given[i] for i in carried], *args[start:end],
             *[given[i] for i in sliced], *args[end:], *[given[i] for i in captured]],
        )  # fmt: skip
        moved = [*found[start:a], *found[a + ctx.count - start :]][: len(ctx.floats)]
        return tuple(spread(moved, ctx.floats, ctx.count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, blocks: Blocks, slices: Slices, *args: Any) -> Any:
        start, end = slices.ends
        dims = list(in_dims[2:])
        given = [in_front(x, d, info) for x, d in zip(args[:start], dims, strict=False)]
        for x, d in zip(args[start:end], dims[start:end], strict=True):
            given.append(x if d is None else x.movedim(d, 1 if x.dim() > 1 else 0))
        inside = (*[0] * start, *[d if d is None else 0 for d in dims[start:end]], *dims[end:])
        function = batched(blocks.functions[0], inside, info)
        found = ScanLoop.apply(blocks.derived(function), slices, *given, *args[end:])
        return found, (*[0] * start, *[1] * (len(found) - start))


def run_scan(
    blocks: Blocks, function: Fn, carried: int, sliced: int, reverse: bool, given: Sequence[Any]
) -> Any:
    """A loop through slices. Where its gradient may be asked for, the carried values are among its
    results, after the others."""
    keeps = modes.grad_enabled and any(map(has_history, given))

    def keeping(*given: Any) -> Any:
        return [*function(*given), *given[:carried]]

    derived = blocks.derived(keeping if keeps else function)
    try:
        return ScanLoop.apply(derived, Slices(carried, sliced, reverse, keeps), *given)
    except CannotTrace as error:
        if not modes.frame.tasks:  # the caller runs all of it by its values then
            raise
        blocks.level.look(f"control flow: {error}")
        return unrolled(function, carried, sliced, reverse, given)


def unrolled(
    function: Fn, carried: int, sliced: int, reverse: bool, given: Sequence[Any]
) -> list[Any]:
    """The results of a loop through slices, by running each of its iterations."""
    carry, end = list(given[:carried]), carried + sliced
    numbers = range(len(given[carried]))
    results = []
    for i in reversed(numbers) if reverse else numbers:
        found = function(*carry, *[x[i] for x in given[carried:end]], *given[end:])
        carry = found[:carried]
        results.append(found[carried:])
    if reverse:
        results.reverse()
    return [*carry, *[stack(rows) for rows in zip(*results, strict=True)]]
