"""Control flow in programs, as custom Functions.

``forward`` traces the branches or the body as programs and writes one line, which contains them.
Derivatives are control flow again: the gradient of a ``cond`` is a ``cond`` of the gradients of its
branches, and the tangent of a loop is a loop that also carries tangents. So derivatives of any
order, and transforms in any order, need no further code.
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
    """``Cond.apply(blocks, pred, *args)`` calls one of two functions with the arguments."""

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
        float_grads = [grads[i] for i in ctx.floats]
        functions = [pulled(fn, len(args), wanted, ctx.floats) for fn in ctx.blocks.functions]
        blocks = ctx.blocks.derived(*functions)
        try:
            results = Cond.apply(blocks, pred, *args, *float_grads)
        except CannotTrace as error:
            blocks.level.look(f"control flow: {error}")
            results = blocks.functions[0 if pred else 1](*args, *float_grads)
        return (None, None, *spread(results, wanted, len(args)))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        pred, *args = ctx.saved_tensors
        moving = [i for i, x in enumerate(args) if is_float(x)]
        float_tangents = [tangents[2 + i] for i in moving]
        functions = [pushed(fn, len(args), moving, ctx.floats) for fn in ctx.blocks.functions]
        results = Cond.apply(ctx.blocks.derived(*functions), pred, *args, *float_tangents)
        return tuple(spread(results, ctx.floats, ctx.count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, blocks: Blocks, pred: Any, *args: Any) -> Any:
        functions = [batched(fn, in_dims[2:], info) for fn in blocks.functions]
        if in_dims[1] is None:
            results = Cond.apply(blocks.derived(*functions), pred, *args)
            return results, (0,) * len(results)
        yes, no = (function(*args) for function in functions)
        pred = pred.reshape(info.batch_size)
        results = tuple([
            where(pred.reshape(-1, *[1] * (a.dim() - 1)), a, b)
            for a, b in zip(yes, no, strict=True)
        ])  # fmt: skip
        return results, (0,) * len(results)


class WhileLoop(Function):
    """``WhileLoop.apply(blocks, count, *args)``: a loop that carries the first ``count``
    arguments."""

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

        def is_going(*inputs: Any) -> Any:
            return condition(*inputs[:count], *inputs[total:moving])

        def step(*inputs: Any) -> Any:
            values, their_tangents = inputs[:count], inputs[count:total]
            captured, other_tangents = inputs[total:moving], inputs[moving:]
            return forward(*values, *captured, *their_tangents, *other_tangents)

        results = WhileLoop.apply(
            ctx.blocks.derived(is_going, step), total, *args[:count],
            *[tangents[2 + i] for i in carried], *args[count:], *[tangents[2 + i] for i in others],
        )  # fmt: skip
        return tuple(spread(results[count:], carried, count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, blocks: Blocks, count: int, *args: Any) -> Any:
        dims = in_dims[2:]
        inside = (*[0] * count, *dims[count:])
        condition, body = (batched(fn, inside, info) for fn in blocks.functions)

        def is_going(*inputs: Any) -> Any:
            return [condition(*inputs)[0].any()]

        def step(*inputs: Any) -> Any:
            """The next values. Batch entries whose condition is false keep theirs."""
            going, new = condition(*inputs)[0], body(*inputs)
            return [
                where(going.reshape(-1, *[1] * (x.dim() - 1)), x, old)
                for x, old in zip(new, inputs[:count], strict=True)
            ]

        carried = [in_front(x, d, info) for x, d in zip(args[:count], dims, strict=False)]
        results = WhileLoop.apply(blocks.derived(is_going, step), count, *carried, *args[count:])
        return results, (0,) * count


class Slices:
    """The parameters of a scan: how many of its arguments are carried, how many are passed slice by
    slice, in which order, and whether the carried values are stored for a gradient."""

    def __init__(self, carried: int, sliced: int, reverse: bool, keeps: bool) -> None:
        self.carried = carried
        self.sliced = sliced
        self.reverse = reverse
        self.keeps = keeps  # the last results are the carried values before each iteration
        self.ends = carried, carried + sliced


class ScanLoop(Function):
    """``ScanLoop.apply(blocks, slices, *args)``: a loop over slices of arguments. It returns the
    last carried values, and the stacked results of all iterations."""

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
        # The carried values before each iteration, if they are stored.
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

        def step(*inputs: Any) -> Any:
            """The gradients of one iteration, from those of the next."""
            gradients, totals, rest = inputs[:first], inputs[first:second], inputs[second:]
            values, rest = rest[:end], rest[end:]
            of_results, captured_values = rest[: len(results)], rest[len(results) :]
            computed = pull(*values, *captured_values, *gradients, *of_results)
            of_slices = computed[first : first + len(sliced)]
            more = computed[first + len(sliced) :]
            sums = [total + g for total, g in zip(totals, more, strict=True)]
            return [*computed[:first], *sums, *of_slices]

        inputs = [
            *[args[i].new_zeros(args[i].shape) if grads[i] is None else grads[i] for i in carried],
            *[args[i].new_zeros(args[i].shape) for i in captured],
            *kept, *args[start:end], *[grads[i] for i in results], *args[end:],
        ]  # fmt: skip
        count = end + len(results)
        computed = run_scan(ctx.blocks, step, second, count, not slices.reverse, inputs)
        indices = [*carried, *captured, *sliced]
        return (None, None, *spread(computed[: len(indices)], indices, total))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        slices, args = ctx.slices, ctx.saved_tensors
        start, end = slices.ends
        moving = [i for i, x in enumerate(args) if is_float(x)]
        tangent_of = {i: tangents[2 + i] for i in moving}
        tangent_of = {
            i: x.new_zeros(x.shape) if t is None else t
            for (i, t), x in zip(tangent_of.items(), [args[i] for i in moving], strict=True)
        }
        carried, sliced, captured = (
            [i for i in moving if low <= i < high]
            for low, high in ((0, start), (start, end), (end, len(args)))
        )
        push = pushed(ctx.blocks.functions[0], len(args), moving, ctx.floats, values=True)
        a, b = start + len(carried), end + len(carried) + len(sliced)

        def step(*inputs: Any) -> Any:
            """The next carried values, their tangents, the results, and their tangents."""
            values, of_values = inputs[:start], inputs[start:a]
            xs, of_xs = inputs[a : a + end - start], inputs[a + end - start : b]
            rest, of_rest = inputs[b : b + len(args) - end], inputs[b + len(args) - end :]
            results = push(*values, *xs, *rest, *of_values, *of_xs, *of_rest)
            outputs, moved = results[: ctx.count], results[ctx.count :]
            return [
                *outputs[:start],
                *moved[: len(carried)],
                *outputs[start:],
                *moved[len(carried) :],
            ]

        results = run_scan(
            ctx.blocks, step, a, end - start + len(sliced), slices.reverse,
            [*args[:start], *[tangent_of[i] for i in carried], *args[start:end],
             *[tangent_of[i] for i in sliced], *args[end:], *[tangent_of[i] for i in captured]],
        )  # fmt: skip
        moved = [*results[start:a], *results[a + ctx.count - start :]][: len(ctx.floats)]
        return tuple(spread(moved, ctx.floats, ctx.count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, blocks: Blocks, slices: Slices, *args: Any) -> Any:
        start, end = slices.ends
        dims = list(in_dims[2:])
        inputs = [in_front(x, d, info) for x, d in zip(args[:start], dims, strict=False)]
        for x, d in zip(args[start:end], dims[start:end], strict=True):
            inputs.append(x if d is None else x.movedim(d, 1 if x.dim() > 1 else 0))
        inside = (*[0] * start, *[d if d is None else 0 for d in dims[start:end]], *dims[end:])
        function = batched(blocks.functions[0], inside, info)
        results = ScanLoop.apply(blocks.derived(function), slices, *inputs, *args[end:])
        return results, (*[0] * start, *[1] * (len(results) - start))


def run_scan(
    blocks: Blocks, function: Fn, carried: int, sliced: int, reverse: bool, inputs: Sequence[Any]
) -> Any:
    """A loop over slices. If it may be differentiated, the carried values of each iteration are its
    last results."""
    keeps = modes.grad_enabled and any(map(has_history, inputs))

    def keeping(*args: Any) -> Any:
        return [*function(*args), *args[:carried]]

    derived = blocks.derived(keeping if keeps else function)
    try:
        return ScanLoop.apply(derived, Slices(carried, sliced, reverse, keeps), *inputs)
    except CannotTrace as error:
        if not modes.frame.tasks:  # the caller then runs the loop eagerly
            raise
        blocks.level.look(f"control flow: {error}")
        return unrolled(function, carried, sliced, reverse, inputs)


def unrolled(
    function: Fn, carried: int, sliced: int, reverse: bool, inputs: Sequence[Any]
) -> list[Any]:
    """The results of a loop over slices, computed by running each iteration."""
    carry, end = list(inputs[:carried]), carried + sliced
    numbers = range(len(inputs[carried]))
    results = []
    for i in reversed(numbers) if reverse else numbers:
        new = function(*carry, *[x[i] for x in inputs[carried:end]], *inputs[end:])
        carry = new[:carried]
        results.append(new[carried:])
    if reverse:
        results.reverse()
    return [*carry, *[stack(rows) for rows in zip(*results, strict=True)]]
