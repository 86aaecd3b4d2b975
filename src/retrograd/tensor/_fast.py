"""Fast paths to call an operation, for float tensors with nothing special switched on.

``f(x)``, ``f(x, **options)`` and ``f(x, y)`` make up most programs. Each does what ``apply`` does
in fewer steps: compute, make the Tensor, ask where the operands came from, make the node. A fast
path leaves anything that it cannot handle to ``apply``. Steps that they share are inlined in each,
because a function call would take as long as several of them.

Under transforms the same code records operations on bare values. Only what computes the result is
another function there (``AT_LEVEL``). It is the same for values on devices
(``devices/_recording.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from sys import _getframe
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, switch
from retrograd._records import Record
from retrograd._source import known
from retrograd.autograd._history import Meta, become_view, origin
from retrograd.autograd._node import orders
from retrograd.autograd._versions import UNCHANGING, Version
from retrograd.ops._lifted import run_on_bare
from retrograd.ops._operation import Operation
from retrograd.ops._refusals import takes_floats
from retrograd.tensor._calls import (
    FLOAT32,
    FLOAT64,
    any_requires_grad,
    apply,
    apply_by_level,
    is_operand,
    operands_of,
    watch,
    wrong_argument,
)
from retrograd.tensor._overrides import overridden_method, unknown
from retrograd.tensor._tensor import Tensor

LARGE, shared = arrays.LARGE, arrays.shared
has_derivative = arrays.dtypes.has_derivative
NUMBER: Any = object()  # stands for the meta of an operand that is a Python number
new = object.__new__  # makes a Tensor without going through its constructor for users


class Setting(Record):
    """The conditions of a fast path: no mode is on, values under transforms, or values on a
    device."""

    active: Any  # not empty: the fast path must not be taken
    apply: Callable[..., Any]  # called instead
    make_forward: Callable[[Operation], Callable[..., Any]]  # the function that computes the result
    constant: Callable[[Any, Any], Any]  # gives a number as an operand beside another
    floats: tuple[Any, Any] = (FLOAT32, FLOAT64)  # the dtypes that it knows
    node_class: Callable[[Operation], Any] = attrgetter("node_class")
    checks: bool = True  # whether to call the check of an operation


PLAIN = Setting(switch.active, apply, lambda op: op.forward, arrays.constant)


def forward_at_level(op: Operation) -> Callable[..., Any]:
    """The forward of an operation on bare values under transforms."""

    def forward(*values: Any, **options: Any) -> Any:
        return run_on_bare(op, values, options)

    return forward


def unary(op: Operation, setting: Setting = PLAIN) -> Callable[..., Any]:
    """``op(x)`` for an operation without options."""
    active, apply, (float32, float64) = setting.active, setting.apply, setting.floats
    class_of = setting.node_class
    forward, kind = setting.make_forward(op), None
    saves_self, saves_result = "self" in op.saves, "result" in op.saves
    constant, heavy = not op.differentiable, op.heavy and setting is PLAIN
    if op.view or names_shape(op):
        return one_input(op, setting)
    if op.dtypes in ("real", "free") or op.output_names != ("result",) or len(op.saves) > 1:
        return general(op, setting)

    def function(self: Any) -> Any:
        nonlocal kind
        try:
            x = self._data
        except AttributeError:
            raise wrong_argument(op, self, 0) from None
        dtype = x.dtype
        if dtype is not float32 and dtype is not float64:
            return apply(op, (self,), {})
        if active and not modes.frame.states[-1].unrecorded:
            return apply(op, (self,), {})
        try:
            y = shared(forward, x) if heavy and x.size > LARGE else forward(x)
        except TypeError:
            return apply(op, (self,), {})  # which says what is wrong
        result = new(Tensor)
        result._data = y
        result._meta = None
        if active and modes.frame.states[-1].unrecorded:
            result._node = result._version_counter = None
            return result
        meta = self._meta
        origin_node = self._node if meta is None or constant else origin(self)
        if origin_node is None or constant:
            result._node = result._version_counter = None
            return result
        if kind is None:
            kind = class_of(op)
            specialize_alone(function)
        node = result._node = kind()
        node.order = next(orders)
        node.next_nodes = (origin_node,)
        node.extras = None
        if saves_result:
            version = result._version_counter = Version()
            version.count = 0
            node.saved = (y, version, 0)
        else:
            result._version_counter = node.saved = None
            if saves_self:
                version = self._version_counter or watch(self)
                node.saved = (x, version, version.count)
        if meta is not None and meta.number is not None:
            node.get_extras().next_numbers = (meta.number,)
        frame = _getframe(1)
        node.code = code = frame.f_code
        if code is not known.user_code:
            frame = known.user_frame(frame)
            node.code = frame.f_code
        node.lasti = frame.f_lasti
        return result

    return function


def specialize_alone(function: Any) -> None:
    """Give a function a copy of its code. The interpreter specializes code for the types that it
    meets, and the functions of many operations are made of the same code: with nodes of as many
    classes, it would be specialized for none."""
    function.__code__ = function.__code__.replace()


def names_shape(op: Operation) -> bool:
    """Whether a rule names the shape of an input, which the node must then store."""
    return any(rule is not None and "shape" in rule.names for rule in op.rules)


def one_input(op: Operation, setting: Setting = PLAIN) -> Callable[..., Any]:
    """``op(x, **options)``: views, reductions, an elementwise operation with a number."""
    kind = None
    active, apply, (float32, float64) = setting.active, setting.apply, setting.floats
    class_of = setting.node_class
    forward, is_view, keeps_type = setting.make_forward(op), op.view, op.dtypes in ("same", "sum")
    saves_operand = op.saves == op.inputs
    constant = not op.differentiable
    if (op.saves and not saves_operand) or op.output_names != ("result",) or op.dtypes == "free":
        return general(op, setting)

    def function(self: Any, /, **options: Any) -> Any:
        nonlocal kind
        try:
            x = self._data
        except AttributeError:
            raise wrong_argument(op, self, 0) from None
        dtype = x.dtype
        if dtype is not float32 and dtype is not float64:
            return apply(op, (self,), options)
        if active and (is_view or not modes.frame.states[-1].unrecorded):
            return apply(op, (self,), options)
        if not keeps_type:
            for v in options.values():
                if type(v) is not float and type(v) is not int:
                    return apply(op, (self,), options)
        if is_view and not isinstance(x, arrays.ndarray):
            x = self._data = arrays.writable(x)
        try:
            y = forward(x, **options)
        except (TypeError, ValueError):
            return apply(op, (self,), options)  # which says what is wrong
        result = new(Tensor)
        result._data = y
        result._meta = result._version_counter = result._node = None
        if active and modes.frame.states[-1].unrecorded:
            return result
        if self._meta is None or constant:
            origin_node = self._node
        else:  # a view of what was made in inference mode has no history
            origin_node = None if is_view and self._meta.inference else origin(self)
        if is_view:
            become_view(result, self, "plainly")
        if origin_node is None or constant:
            return result
        if kind is None:
            kind = class_of(op)
            specialize_alone(function)
        node = result._node = kind()
        node.order = next(orders)
        node.next_nodes = (origin_node,)
        node.extras = node.outputs = node.saved = None
        node.options = options
        node.infos = ((x.shape, dtype),)
        if saves_operand:
            version = self._version_counter or watch(self)
            node.saved = (x, version, version.count)
        if self._meta is not None and self._meta.number is not None:
            node.get_extras().next_numbers = (self._meta.number,)
        frame = _getframe(1)
        node.code = code = frame.f_code
        if code is not known.user_code:
            frame = known.user_frame(frame)
            node.code = frame.f_code
        node.lasti = frame.f_lasti
        return result

    return function


def several_views(op: Operation) -> Callable[..., Any]:
    """``op(x, **options)`` for an operation that gives several views of ``x``: split, unbind."""
    forward, kind = op.forward, None

    def function(self: Any, /, **options: Any) -> Any:
        nonlocal kind
        x = self._data
        dtype = x.dtype
        if switch.active or not isinstance(x, arrays.ndarray) or dtype.kind != "f":
            return apply(op, (self,), options)
        pieces = forward(x, **options)
        if self._meta is None:
            origin_node = self._node
        else:
            origin_node = None if self._meta.inference else origin(self)
        node = None
        if origin_node is not None:
            if kind is None:
                kind = op.node_class
                specialize_alone(function)
            node = kind()
            node.order = next(orders)
            node.next_nodes = (origin_node,)
            node.extras = node.saved = None
            node.options = options
            node.infos = ((x.shape, dtype),)
            node.outputs = tuple([(piece.shape, dtype) for piece in pieces])
            if self._meta is not None and self._meta.number is not None:
                node.get_extras().next_numbers = (self._meta.number,)
            frame = known.user_frame(_getframe(1))
            node.code, node.lasti = frame.f_code, frame.f_lasti
        results = []
        for number, piece in enumerate(pieces):
            result = new(Tensor)
            result._data = piece
            result._meta = result._version_counter = None
            result._node = node
            become_view(result, self, "multi_output")
            if node is not None:
                result._number = number
            results.append(result)
        return tuple(results)

    return function


def binary(
    op: Operation, setting: Setting = PLAIN, as_operator: bool = False
) -> Callable[..., Any]:
    """``op(x, y)`` for an operation without options; ``y`` may be a Python number.

    ``as_operator``: leave operands that are no numbers, arrays or Tensors to the other side.
    """
    active, apply, (float32, float64) = setting.active, setting.apply, setting.floats
    class_of = setting.node_class
    constant_of = setting.constant
    forward, broadcasts, saves = setting.make_forward(op), op.broadcasts, bool(op.saves)
    if names_shape(op):
        return general(op, setting)
    kind, constant, takes_numbers = None, not op.differentiable, op.number is None
    users_of_first, users_of_second = (op.needed_by.get(name, ()) for name in op.inputs)
    # The fast path knows operations that save nothing, or both operands, each at least for the
    # gradient of the other.
    keeps_first, keeps_second = 0 in users_of_first, 1 in users_of_second
    fits = op.saves == op.inputs and 1 in users_of_first and 0 in users_of_second

    def function(self: Any, other: Any) -> Any:
        nonlocal kind
        if active:
            return slowly(self, other)
        try:
            x = self._data
            dtype = x.dtype
            if type(other) is Tensor or isinstance(other, Tensor):
                y = other._data
                if dtype is not y.dtype or (dtype is not float32 and dtype is not float64):
                    return slowly(self, other)
                result = new(Tensor)
                result._data = forward(x, y)
                meta = other._meta
                if meta is None or constant:
                    other_node = other._node
                elif meta.accumulator is None or (other_node := meta.accumulator()) is None:
                    other_node = origin(other)
            elif (type(other) is float or type(other) is int) and takes_numbers:
                if dtype is not float32 and dtype is not float64:
                    return slowly(self, other)
                y = constant_of(other, x)
                result = new(Tensor)
                result._data = forward(x, y)
                other_node, meta = None, NUMBER
            else:
                return slowly(self, other)
        except (AttributeError, TypeError, ValueError):
            return slowly(self, other)  # which says what is wrong
        result._meta = result._version_counter = None
        self_node = self._node if self._meta is None or constant else origin(self)
        if constant or (self_node is None and other_node is None):
            result._node = None
            return result
        if kind is None:
            kind = class_of(op)
            specialize_alone(function)
        node = result._node = kind()
        node.order = next(orders)
        node.next_nodes = (self_node, other_node)
        node.extras = None
        if saves:
            first_version = second_version = UNCHANGING
            if other_node is None and not keeps_first:
                first = None
            else:
                first = x
                first_version = self._version_counter or watch(self)
            if self_node is None and not keeps_second:
                second = None
            else:
                second = y
                if meta is not NUMBER:
                    second_version = other._version_counter or watch(other)
            node.saved = (
                first, first_version, first_version.count,
                second, second_version, second_version.count,
            )  # fmt: skip
        else:
            node.saved = None
        if broadcasts and meta is not NUMBER and x.shape != y.shape:
            node.get_extras().fit = ((x.shape, dtype), (y.shape, dtype))
        if (self._meta is not None and self._meta.number is not None) or (
            other_node is not None and other._meta is not None and other._meta.number is not None
        ):
            other_number = None if other_node is None else other._number
            node.get_extras().next_numbers = (self._number, other_number)
        frame = _getframe(1)
        node.code = code = frame.f_code
        if code is not known.user_code:
            frame = known.user_frame(frame)
            node.code = frame.f_code
        node.lasti = frame.f_lasti
        return result

    def slowly(self: Any, other: Any) -> Any:
        if active and modes.frame.states[-1].unrecorded:
            result = computed(self, other)
            if result is not None:
                return result
        if type(self) is type(other) is Tensor:  # other than float32 or float64, or on a device
            return apply(op, (self, other), {})
        if not is_operand(other):
            if as_operator:
                return unknown(op.name, self, other)
            result = overridden_method(op.name, (self, other))
            if result is not NotImplemented:
                return result
        return apply(op, operands_of(op, (self, other)), {})

    def computed(self: Any, other: Any) -> Any:
        """The result in no_grad mode; None if operands have to be converted, or are wrong."""
        try:
            x = self._data
            dtype = x.dtype
            if dtype is not float32 and dtype is not float64:
                return None
            if isinstance(other, Tensor):
                y = other._data
                if y.dtype is not dtype:
                    return None
            elif (type(other) is float or type(other) is int) and takes_numbers:
                y = constant_of(other, x)
            else:
                return None
            result = new(Tensor)
            result._data = forward(x, y)
        except (AttributeError, TypeError, ValueError):
            return None
        result._meta = result._version_counter = result._node = None
        return result

    return function if fits or not saves else slowly


def general(op: Operation, setting: Setting = PLAIN) -> Callable[..., Any]:
    """Any other call: arrays positional, options by keyword. Several inputs, outputs and saved
    values, as long as there is nothing to convert."""
    active, apply, (float32, float64) = setting.active, setting.apply, setting.floats
    class_of = setting.node_class
    forward, several_inputs = setting.make_forward(op), op.inputs == ("tensors",)
    check, marked = op.check if setting.checks else None, float32.metadata is not None
    check_floats = not takes_floats(check)
    may_differ = op.dtypes in ("same", "free", "real")  # or must the operands be of one dtype?
    first_differs, is_view = op.dtypes == "where", op.view
    recordable, single = op.differentiable, op.output_names == ("result",)
    may_cast = op.dtypes == "free"  # and then perhaps to integers, which have no history
    with_number, last = op.number, op.inputs[-1]
    has_rule = [True] * len(op.inputs) if op.joint else [rule is not None for rule in op.rules]
    # Where the result has the shape that operands are broadcast to.
    fits, by_shape = op.fits, op.broadcasts and op.family in ("elementwise", "multilinear")
    # What to save: the position of an input or of an output, and whose gradients need it.
    plan = [
        (op.inputs.index(name), users) if name in op.inputs
        else (-1 - op.output_names.index(name), users)
        for name, users in op.needed_by.items()
    ]  # fmt: skip
    kind = None

    def function(*args: Any, **options: Any) -> Any:
        nonlocal kind
        if active or is_view:
            return apply(op, args, options)
        if with_number is not None and type(args[-1]) in (float, int, bool):
            options[last] = args[-1]
            return with_number.function(*args[:-1], **options)  # type: ignore[misc]
        operands = args[0] if several_inputs else args
        raws: list[Any] = []
        dtype, only_floats, one_dtype = None, True, True
        for x in operands:
            if type(x) is not Tensor and not isinstance(x, Tensor):
                if x is None:
                    raws.append(None)
                    continue
                if len(op.inputs) == 1 and not several_inputs and not hasattr(x, "dtype"):
                    raise wrong_argument(op, x, 0)
                return apply(op, args, options)
            data = x._data
            own = data.dtype
            if own is not dtype:
                if own is float32 or own is float64:
                    if dtype is None:
                        dtype = own
                    elif may_differ:
                        one_dtype = False
                    else:
                        return apply(op, args, options)
                elif (
                    own.kind in "cfV" or (own.metadata is None) is marked
                    or not (may_differ or (first_differs and not raws))
                ):  # fmt: skip
                    return apply(op, args, options)
                else:
                    only_floats = False
                    one_dtype = one_dtype and own.kind == "b"
            raws.append(data)
        for v in options.values():
            if type(v) not in PLAIN_OPTIONS:
                if type(v) is complex:
                    return apply(op, args, options)
                one_dtype = False
        if check is not None and (check_floats or not only_floats):
            check(*raws, **options)
        try:
            outputs = forward(raws, **options) if several_inputs else forward(*raws, **options)
        except (TypeError, ValueError):
            return apply(op, args, options)  # which says what is wrong
        results = []
        for output in outputs if type(outputs) is tuple else (outputs,):
            result = new(Tensor)
            result._data = output
            result._meta = result._version_counter = result._node = None
            results.append(result)
        returned = tuple(results) if type(outputs) is tuple else result
        if not recordable or (may_cast and not any_floats(results)):
            return returned
        recorded, numbers = False, None
        nodes: list[Any] = [None] * len(raws)
        # The last first, so that the leaf that is named first has the newest node: of leaves
        # whose gradients wait, that one's is accumulated first, as in PyTorch.
        for i in range(len(raws) - 1, -1, -1):
            x = operands[i]
            if x is None or not (several_inputs or has_rule[i]):
                continue
            meta = x._meta
            nodes[i] = node = x._node if meta is None else origin(x)
            if node is not None:
                recorded = True
                if meta is not None and meta.number is not None:
                    numbers = numbers or [None] * len(raws)
                    numbers[i] = meta.number
        if not recorded:
            return returned
        if kind is None:
            kind = class_of(op)
            specialize_alone(function)
        node = kind()
        node.order = next(orders)
        node.next_nodes = tuple(nodes)
        node.extras = node.saved = node.outputs = None
        node.options = options
        node.infos = infos = tuple([NO_INFO if x is None else (x.shape, x.dtype) for x in raws])
        if single:
            results[0]._node = node
        else:
            node.outputs = tuple([(y.shape, y.dtype) for y in outputs])
            for i, result in enumerate(results):
                if has_derivative(result._data.dtype):
                    result._node = node
                    result._meta = meta = Meta()
                    meta.number = i
        if plan:
            node.saved = saved_values(plan, operands, nodes, results)
        if fits and not (by_shape and one_dtype and all_of_shape(outputs.shape, infos, nodes)):
            node.get_extras().fit = tuple([None if i is NO_INFO else i for i in infos])
        if numbers is not None:
            node.get_extras().next_numbers = tuple(numbers)
        frame = _getframe(1)
        node.code = code = frame.f_code
        if code is not known.user_code:
            frame = known.user_frame(frame)
            node.code = frame.f_code
        node.lasti = frame.f_lasti
        return returned

    return function


NO_INFO: Any = ((), None)  # of an operand that is not there
# Types of options that do not change the dtype of what is computed with float arrays.
PLAIN_OPTIONS = frozenset({bool, int, float, str, tuple, type(None)})


def any_floats(results: Sequence[Tensor]) -> bool:
    """Whether some results have a dtype that can have gradients."""
    for result in results:  # noqa: SIM110 - any() of a generator takes three times as long
        if has_derivative(result._data.dtype):
            return True
    return False


def all_of_shape(shape: Any, infos: Sequence[Any], nodes: Sequence[Any]) -> bool:
    """Whether all operands that receive a gradient have the shape of the result."""
    for info, node in zip(infos, nodes):  # noqa: B905, SIM110 - strict and all() take time here
        if node is not None and info[0] != shape:
            return False
    return True


def saved_values(
    plan: list[tuple[int, tuple[int, ...]]], operands: Any, nodes: list[Any],
    results: Sequence[Tensor],
) -> tuple[Any, ...]:  # fmt: skip
    """The values that a node saves: for each value that its rules name, the value, its version
    counter and the count. None for an operand that only unneeded gradients would use."""
    saved: list[Any] = []
    for position, users in plan:
        if position < 0:
            tensor = results[-1 - position]
        else:
            tensor = operands[position]
            if tensor is None:
                saved += UNNEEDED
                continue
            for i in users:
                if nodes[i] is not None:
                    break
            else:
                saved += UNNEEDED
                continue
        version = tensor._version_counter or watch(tensor)
        saved += (tensor._data, version, version.count)
    return tuple(saved)


UNNEEDED = (None, UNCHANGING, 0)


def by_definition(op: Operation) -> Callable[..., Any]:
    """A composite without rules: where a graph is recorded, as its definition."""
    definition = op.definition
    assert definition is not None

    def function(*args: Any, **options: Any) -> Any:
        if modes.grad_enabled and any_requires_grad(args):
            return definition(*args, **options)
        return apply(op, args, options)

    return function


AT_LEVEL = Setting((), apply_by_level, forward_at_level, lambda number, beside: number)


def builder_for(op: Operation) -> Callable[..., Callable[..., Any]]:
    """The function above that builds the fast path of an operation."""
    if op.definition is not None and not op.has_rules and op.family != "constant":
        return by_definition
    if op.inputs == ("self",) and not op.options:
        return unary
    if len(op.inputs) == 1 and op.view and not op.output_names:
        return several_views
    if len(op.inputs) == 1 and op.inputs != ("tensors",):
        return one_input
    if len(op.inputs) == 2 and not op.options and op.inputs[0] == "self":
        return binary
    return general


def bind(op: Operation) -> Callable[..., Any]:
    """The function that users and rules call on Tensors for an operation of the table."""
    function = builder_for(op)(op)
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.doc
    op.function = function
    return function


def bind_at_level(op: Operation) -> Callable[..., Any]:
    """The function to call on Tensors of bare values under transforms."""
    return builder_for(op)(op, AT_LEVEL)


Operation.bind_at_level = staticmethod(bind_at_level)
