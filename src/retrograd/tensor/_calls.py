"""How an operation is called on Tensors, the general path: compute on the arrays, whatever their
dtypes, and record a node, whatever modes are on.

What most programs do most of the time has faster paths, in ``_fast``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd._source import is_own, user_place
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._history import become_view, edge, meta_of
from retrograd.autograd._levels import as_tensor, value_of
from retrograd.autograd._node import Node, orders
from retrograd.autograd._operation_node import OperationNode
from retrograd.autograd._saved import pack_saved
from retrograd.autograd._versions import UNCHANGING, Version, version_of
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.ops import copies
from retrograd.ops._arguments import is_number
from retrograd.ops._lifted import Level, Lifted, LooksAtValues, highest_level, tracer
from retrograd.ops._operation import Operation, any_arrays
from retrograd.tensor._overrides import sparse_among
from retrograd.tensor._tensor import Tensor

Number = (bool, int, float, complex)
OPERANDS = (Tensor, *Number)
FLOAT32, FLOAT64 = arrays.float32, arrays.float64


# -- dtypes ----------------------------------------------------------------------------------


def prepare(op: Operation, raws: list[Any], options: dict[str, Any]) -> list[Any]:
    """The operands, converted to the dtype that PyTorch would compute in."""
    rule = op.dtypes
    if rule in ("same", "free", "real"):
        return raws
    if rule in ("promote", "float") and one_float(raws, options):
        return raws
    if rule == "sum":
        return [_cast(x, arrays.int64) if x.dtype.kind in "biu" else x for x in raws]
    if rule == "first":
        return [raws[0], *(_cast_value(x, raws[0].dtype) for x in raws[1:])]
    if rule == "where":
        common = dtypes.result_type(raws[1:])
        return [raws[0], *(_cast_value(x, common) for x in raws[1:])]
    numbers: list[Any] = []
    if op.family == "elementwise":  # whose options take part in the arithmetic
        numbers = [v for k, v in options.items() if k != "alpha" and is_number(v)]
    common = dtypes.result_type([*(x for x in raws if x is not None), *numbers])
    if rule == "float" and common.kind not in dtypes.INEXACT:
        common = dtypes.default_float()
    if common.kind in "iu":
        raws = [arrays.wrapped(x, common) if is_number(x) else x for x in raws]
    return [_cast(x, common) if is_value(x) else x for x in raws]


def one_float(values: Sequence[Any], options: dict[str, Any]) -> bool:
    """Whether all arrays among some values are of one float dtype, and no number takes part that
    would convert them."""
    dtype = None
    for x in values:
        if isinstance(x, Lifted) or arrays.is_raw(x):
            own = x.dtype
            if dtype is None and (own is FLOAT32 or own is FLOAT64):
                dtype = own
            elif own is not dtype or dtype is None:
                return False
        elif isinstance(x, complex):
            return False
    return not any([isinstance(v, complex) for v in options.values()])


def _cast_value(x: Any, dtype: Any) -> Raw:
    if is_number(x):
        return arrays.asarray(x, dtype)
    return _cast(x, dtype) if x.dtype.kind != "b" or dtype.kind == "b" else x


def _cast(x: Any, dtype: Any) -> Any:
    if not isinstance(x, Lifted):
        return arrays.cast(x, dtype)
    return x if x.dtype == dtype else copies.to_dtype(x, dtype=dtype)


# -- the general path ------------------------------------------------------------------------


def apply(op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any = None) -> Any:
    """Call ``op`` on Tensors, Python numbers and raw arrays, in any mode.

    ``computed``: its output, where that is known already and only to be recorded."""
    now = modes.frame.states[-1]
    if now.interceptors:
        return now.interceptors[-1](op, args, options, computed)
    if now.levels:
        if now.only_levels and computed is None and are_bare(args, options):
            at_level = op.at_level
            if at_level is not None and (op.check is None or not now.levels[0].traces):
                return at_level(*args, **options)
        level = level_for(op, args, options)
        if level is not None:
            return apply_lifted(level, op, args, options, computed)
    elif args and isinstance(args[0], Tensor) and isinstance(args[0]._data, Lifted):
        level = args[0]._data.level
        if not level.number:  # a value on a device, or on ``meta``
            if computed is None and (fast := level.fast_path(op)) is not None:
                return fast(*args, **options)
            return apply_lifted(level, op, args, options, computed)
    if not now.grad_enabled and not now.inference and computed is None:
        result = unrecorded(op, args, options)
        if result is not None:
            return result
    several_inputs = op.inputs == ("tensors",)
    operands = list(args[0]) if several_inputs else list(args)
    given, named = op, options
    op, operands, options = for_number(op, operands, options)
    raws: Any = None
    try:
        if op.view:
            operands[0]._data = arrays.writable(operands[0]._data)
        raws = checked(op, operands, options)
        if computed is not None:
            output = computed
        else:
            output = op.compute((raws,) if several_inputs else raws, options)
    except LooksAtValues:
        if any_ended([*operands, *options.values()]):
            return apply(op, *without_ended(args, options))
        level = level_of(args, named)
        if level is not None and not level.number:  # values on the meta device
            return apply_lifted(level, given, args, named)
        raise
    except NotImplementedError:
        if (sparse := sparse_among(args)) is None:
            raise
        return sparse.called(given.name, tuple(args), named)
    except (TypeError, ValueError) as error:
        if raws is None:  # a check says it in words of its own
            raise
        raise in_pytorchs_words(op, raws, error) from None
    if not isinstance(output, tuple):
        return finish(op, operands, raws, options, (output,))[0]
    return finish(op, operands, raws, options, output)


# -- under transforms ------------------------------------------------------------------------


def are_bare(args: Sequence[Any], options: dict[str, Any]) -> bool:
    """Whether operands are bare values of one transform, its constants and Python numbers, so that
    an elementwise operation on them can be called as one on arrays is. Constants with a history
    must not be: what is done to them is recorded by the levels below."""
    level: Level | None = None
    for x in args:
        if isinstance(x, Tensor):
            meta, data = x._meta, x._data
            if meta is not None and (meta.view is not None or meta.inference):
                return False
            if isinstance(data, Lifted):
                if data.bare_dtype is None:
                    return False
                own = data.level
                if own is not level:
                    if level is not None or own.closed:
                        return False
                    level = own
            elif x._node is not None or (meta is not None and meta.requires_grad) or tracer():
                return False  # a trace notes what comes from elsewhere
        elif type(x) is not float and type(x) is not int and x is not None:
            return False
    return level is not None and not (options and any_arrays(options))


def level_for(op: Operation, args: Sequence[Any], options: dict[str, Any]) -> Level | None:
    """The transform that runs an operation. Random numbers are drawn by the innermost open one."""
    return modes.levels[-1] if op.random else level_of(args, options)


def level_of(args: Sequence[Any], options: dict[str, Any]) -> Level | None:
    """The innermost transform that some arguments, or lists of them, belong to."""
    highest: Level | None = None
    for values in (args, options.values()):
        for x in values:
            if isinstance(x, Tensor):
                x = x._data if x._meta is None else value_of(x)
            if isinstance(x, Lifted):
                level: Level | None = x.level
            elif type(x) in (list, tuple):
                level = level_of(x, {})
            else:
                continue
            if level is not None and (highest is None or level.number > highest.number):
                highest = level
    return highest


def apply_by_level(op: Operation, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call ``op`` on Tensors of which some belong to a transform."""
    level = level_for(op, args, options)
    assert level is not None
    return apply_lifted(level, op, args, options)


def apply_lifted(
    level: Level, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any = None
) -> Any:
    """Call ``op`` on Tensors of which some belong to a transform. For it, Tensors of the levels
    below are constants, history and all; what is recorded here lies above it."""
    if level.closed:
        return apply(op, *without_ended(args, options))
    several_inputs = op.inputs == ("tensors",)
    operands = list(args[0]) if several_inputs else list(args)
    op, operands, options = for_number(op, operands, options)
    if not level.number:
        level.check_devices(operands)
        operands = level.with_recorded_numbers(operands)
    elif Lifted.device_level is not None:  # not below: constants of rules may be on the CPU
        Lifted.device_level.check_devices(operands, transformed=True)
    if op.definition is not None and computed is None and not level.records_whole(op):
        return defined(op, operands, options)
    operands = [lifted_to(level, x) for x in operands]
    if op.view:
        operands[0]._data.hold(as_tensor)
    raws = [x._data if isinstance(x, Tensor) else x for x in operands]
    check_lifted(op, raws, options)
    raws = prepare(op, raws, options)
    output = computed
    if output is None:
        output = applied(level, op, (raws,) if several_inputs else tuple(raws), options)
    if isinstance(output, tuple):
        return finish(op, operands, raws, options, output)
    return finish(op, operands, raws, options, (output,))[0]


def applied(
    level: Level, op: Operation, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:  # fmt: skip
    """The result of an operation at a level. Shapes and dtypes that do not fit raise PyTorch's
    errors."""
    try:
        return level.apply(op, args, options)
    except (TypeError, ValueError) as error:
        if isinstance(error, ValueError) and "broadcast" not in str(error):
            raise
        raise in_pytorchs_words(op, args, error) from None


def defined(op: Operation, operands: list[Any], options: dict[str, Any]) -> Any:
    """A composite as its definition, of operands in the dtype to compute in. They stay on their
    levels: what the definition computes from constants is none of the transform's business."""
    raws = [x._data if isinstance(x, Tensor) else x for x in operands]
    check_lifted(op, raws, options)
    assert op.definition is not None
    prepared = prepare(op, raws, options)
    if prepared is raws:
        bare = modes.now.only_levels and are_bare(operands, options)
        if bare and not any_requires_grad(operands):
            result = op.definition(*raws, **options)
            return tuple(map(as_tensor, result)) if isinstance(result, tuple) else as_tensor(result)
    else:
        operands = [
            p if not isinstance(x, Tensor)
            else x if p.dtype == r.dtype
            else copies.to_dtype(x, dtype=p.dtype)
            for x, r, p in zip(operands, raws, prepared, strict=True)
        ]  # fmt: skip
    result = op.definition(*operands, **options)
    return tuple(map(as_tensor, result)) if isinstance(result, tuple) else as_tensor(result)


def lifted_to(level: Level, x: Any) -> Any:
    """An operand as a Tensor of ``level``; a constant of it if it belongs to a lower level."""
    if isinstance(x, Tensor):
        data = x._data
        if isinstance(data, Lifted) and data.level is level:
            return x
        node, number = edge(x) if level.transparent else (None, None)
        return wrap(level.constant(x), node, number, version=version_of(x))
    if isinstance(x, Lifted):
        return wrap(x if x.level is level else level.constant(wrap(x)))
    return wrap(level.constant(wrap(x))) if arrays.is_raw(x) else x


def check_lifted(op: Operation, raws: Sequence[Any], options: dict[str, Any]) -> None:
    """Run the check of an operation on the shapes that the user sees. A check that needs values
    which are not available here is run by the levels below."""
    if op.check is None:
        return
    if (level := tracer()) is not None:
        level.check(op.check, raws, options)
        return
    try:
        op.check(*raws, **options)
    except LooksAtValues:
        below = highest_level(raws)
        if below is not None and not below.number:
            below.check(op.check, raws, options)


def any_ended(values: Sequence[Any]) -> bool:
    """Whether the transform of some value has ended."""
    results = [x._data if isinstance(x, Tensor) else x for x in values]
    return any(isinstance(x, Lifted) and x.level.closed for x in results)


def without_ended(
    args: Sequence[Any], options: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments in which values of ended transforms are replaced by their plain values."""

    def left_of(x: Any) -> Any:
        if type(x) in (list, tuple):
            return type(x)(map(left_of, x))
        data = x._data if isinstance(x, Tensor) else x
        ended = isinstance(data, Lifted) and data.level.closed
        return data.level.left_of(data) if ended else x

    return [left_of(x) for x in args], {name: left_of(x) for name, x in options.items()}


def unrecorded(op: Operation, args: Sequence[Any], options: dict[str, Any]) -> Tensor | None:
    """The result in no_grad mode for operands that are all of one float dtype, so that there is
    nothing to promote or to check; None if that is not so."""
    if not op.broadcasts or op.view or op.check is not None or op.number is not None:
        return None
    dtype, raws = None, []
    for x in args:
        if isinstance(x, Tensor):
            own = x._data.dtype
            if own is not FLOAT32 and own is not FLOAT64:
                return None
            if dtype is not None and own is not dtype:
                return None
            dtype, x = own, x._data
        elif type(x) is not float and type(x) is not int:
            return None
        raws.append(x)
    try:
        result: Tensor = wrap(op.forward(*raws, **options))
    except (TypeError, ValueError):
        return None  # the general path reports what is wrong
    return result


def for_number(
    op: Operation, operands: list[Any], options: dict[str, Any]
) -> tuple[Operation, list[Any], dict[str, Any]]:
    """The operation to call if the last operand is a Python number and there is one for that."""
    if op.number is None or not is_number(operands[-1]):
        return op, operands, options
    return op.number, operands[:-1], {**options, op.inputs[-1]: operands[-1]}


def checked(op: Operation, operands: list[Any], options: dict[str, Any]) -> list[Any]:
    """The operands as arrays, in the dtype to compute in, after the check of the operation."""
    raws = [x._data if isinstance(x, Tensor) else x for x in operands]
    if op.check is not None:
        op.check(*raws, **options)
    return prepare(op, raws, options)


def finish(
    op: Operation, operands: Sequence[Any], raws: Sequence[Any],
    options: dict[str, Any], outputs: tuple[Raw, ...],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Wrap the outputs, as results of a new node if anything among the operands requires grad."""
    results = tuple([wrap(x) for x in outputs])
    if op.view:
        mark_views(op, operands[0], results, options)
        if results and not results[0]._is_view():  # of what was made in inference mode
            return results
    elif modes.inference:
        for result in results:
            meta_of(result).inference = True
    if not (modes.records and op.differentiable and any_requires_grad(operands)):
        return results
    if not any([dtypes.has_derivative(x.dtype) for x in outputs]):
        return results
    node = make_node(op, operands, raws, options)
    multiple = op.output_names != ("result",)
    if multiple:
        node.outputs = tuple([(x.shape, x.dtype) for x in outputs])
    for i, result in enumerate(results):
        if dtypes.has_derivative(result._data.dtype):
            result._node = node
            if multiple:
                result._number = i
    if op.saves:
        values = dict(zip(op.inputs, raws, strict=False))
        values.update(zip(op.output_names, results, strict=False))
        node.saved = save_values(op, node, operands, values)
        if modes.saved_tensor_hooks:
            pack_saved(node)
    return results


def mark_views(
    op: Operation, source: Tensor, results: tuple[Tensor, ...], options: dict[str, Any]
) -> None:
    """Make results that share the memory of ``source`` views of it, noting what forbids writing
    through them."""
    created = "plainly" if op.output_names == ("result",) else "multi_output"
    if not modes.grad_enabled:
        created = "inference" if modes.inference else "no_grad"
    for result in results:
        become_view(result, source, created)
    if isinstance(source._data, Lifted) and results and results[0]._is_view():
        before = source._meta.view if source._meta is not None else None
        first = before.part if before is not None else None
        from retrograd.autograd._parts import Part

        if before is not None and op.name == "as_strided":  # it may exceed the view
            from retrograd.ops.shapes.viewing import strided_from

            options, source, first = strided_from(before.base, source, options), before.base, None
        for i, result in enumerate(results):
            part = Part(source, first, op, options, (i, len(results)))
            meta_of(result).view.part = part  # type: ignore[union-attr]


def any_requires_grad(operands: Sequence[Any]) -> bool:
    for x in operands:  # any() of a generator takes three times as long
        if isinstance(x, Tensor) and (
            x._node is not None or (x._meta is not None and x.requires_grad)
        ):
            return True
    return False


def make_node(
    op: Operation, operands: Sequence[Any], raws: Sequence[Any],
    options: dict[str, Any],
) -> OperationNode:  # fmt: skip
    """A node whose edges lead to the nodes of the operands. The caller saves values."""
    lifted = [x for x in raws if isinstance(x, Lifted)]
    narrow = arrays.any_narrow(raws) or (lifted and any([x.dtype.kind == "V" for x in lifted]))
    if lifted:
        node: OperationNode = lifted[0].level.node_class(op, bool(narrow))()
    else:
        node = (op.narrow_node_class if narrow else op.node_class)()
    has_gradient = op.rules if not op.joint else (True,) * len(operands)
    # The last first, so that the node of the leaf that is named first is the newest, and gradients
    # are accumulated in this order, as in PyTorch.
    backwards = zip(reversed(operands), reversed(has_gradient), strict=True)
    edges = [edge(x) if rule and isinstance(x, Tensor) else (None, None) for x, rule in backwards]
    edges.reverse()
    node.order = next(orders)
    node.next_nodes = tuple([n for n, _ in edges])
    node.extras = node.saved = node.outputs = None
    node.options = options
    node.infos = tuple([_info(x) for x in operands])
    node.code, node.lasti = user_place(2)
    numbers = tuple([number for _, number in edges])
    if numbers.count(None) != len(numbers):
        node.get_extras().next_numbers = numbers
    if op.fits:
        infos = [info if info[1] is not None else None for info in node.infos]
        node.get_extras().fit = tuple(infos)
    if not op.adjoint and any_complex(node.infos, raws, options):
        node.extras_for_visit().conjugate = True
    if modes.anomaly:
        node.extras_for_visit().trace = forward_trace()
    return node


def any_complex(infos: Sequence[Any], raws: Sequence[Any], options: dict[str, Any]) -> bool:
    """Whether an operand, a number or an option is complex."""
    for _, dtype in infos:
        if dtype is not None and dtype.kind == "c":
            return True
    for x in raws:
        if isinstance(x, complex):
            return True
    for x in options.values():
        if isinstance(x, complex) or (is_value(x) and x.dtype.kind == "c"):
            return True
    return False


def is_value(x: Any) -> bool:
    """Whether ``x`` is an array, or what stands for one under a transform."""
    return arrays.is_raw(x) or isinstance(x, Lifted)


def _info(x: Any) -> tuple[tuple[int, ...], Any]:
    data = x._data if isinstance(x, Tensor) else x
    return (data.shape, data.dtype) if is_value(data) else ((), None)


def save_values(
    op: Operation, node: Node, operands: Sequence[Any], values: dict[str, Any]
) -> tuple[Any, ...] | None:
    """What the node keeps: for each value its rules name, the value, its version, and the count.

    A value that only an unneeded gradient would use is not kept.
    """
    if not op.saves:
        return None
    saved: list[Any] = []
    for name, users in op.needed_by.items():
        value = values.get(name)
        unneeded = all([node.next_nodes[i] is None for i in users])
        if value is None or (unneeded and name in op.inputs):  # PyTorch keeps every output
            saved += (None, UNCHANGING, 0)
            continue
        if isinstance(value, Tensor):  # an output
            version, value = version_of(value), value._data
        else:
            operand = operands[op.inputs.index(name)]
            version = version_to_watch(operand, value)
        saved += (value, version, version.count)
    return tuple(saved)


def version_to_watch(operand: Any, value: Any) -> Version:
    """The counter that tells whether a saved input was written: none if it is our own copy."""
    if not isinstance(operand, Tensor) or operand._data is not value:
        return UNCHANGING
    return watch(operand)


def watch(tensor: Tensor) -> Version:
    """The counter of a tensor that is being saved for backward."""
    if tensor._meta is not None and tensor._meta.inference:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
            "inference mode in computation tracked by autograd. To work around this, you can make "
            "a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
            "instead of `torch.inference_mode()`."
        )
    return version_of(tensor)


def forward_trace() -> str:
    """The stack of user frames, for anomaly mode."""
    import traceback

    frames = [f for f in traceback.extract_stack() if not is_own(f.filename)]
    return "".join(traceback.format_list(frames)).rstrip()


def in_pytorchs_words(op: Operation, raws: Sequence[Any], error: Exception) -> Exception:
    """The error of PyTorch that corresponds to an error of NumPy; any other error as it is."""
    text = str(error)
    if "boolean subtract" in text:
        return RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if "boolean negative" in text:
        return RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    shapes = [x.shape for x in raws if hasattr(x, "shape")]
    if "broadcast" not in text or len(shapes) < 2:
        return error if isinstance(error, TypeError) else RuntimeError(f"{op.name}(): {text}")
    a, b = shapes[-2:]
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    differing = [d for d in range(n) if a[d] != b[d] and 1 not in (a[d], b[d])]
    if not differing:
        return RuntimeError(f"{op.name}(): {text}")
    d = differing[-1]
    return RuntimeError(
        f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) "
        f"at non-singleton dimension {d}"
    )


def is_operand(value: Any) -> bool:
    """Whether ``value`` can be an operand of arithmetic with a Tensor."""
    if isinstance(value, OPERANDS):
        return type(value) not in SPARSE
    return is_value(value)


def operands_of(op: Operation, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments if they are Tensors, numbers or arrays; TypeError in PyTorch's words if not."""
    for position, x in enumerate(args):
        if not is_operand(x):
            raise wrong_argument(op, x, position)
    if any(isinstance(x, Tensor) for x in args):
        return args
    if op.name in ("add", "sub", "mul", "div") and all(map(is_number, args)):
        return tuple(wrap(arrays.asarray(x, dtypes.result_type([x]))) for x in args)
    raise wrong_argument(op, args[0], 0)


def wrong_argument(op: Operation, value: Any, position: int) -> Exception:
    if type(value) in SPARSE:
        return NotImplementedError(
            f"{op.name} does not support sparse tensors: use it on x.to_dense()"
        )
    name = "input" if position == 0 else op.inputs[position]
    return TypeError(
        f"{op.name}(): argument '{name}' (position {position + 1}) must be Tensor, not "
        f"{type(value).__name__}"
    )
