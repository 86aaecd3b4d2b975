"""Records on each node what its operation received and returned, as the program runs.

Operations are seen by an interceptor, which the general path of calling them asks first. In-place
writes, custom Functions and what leaves the graph (``detach``, ``item``) notify the ``observer`` of
the thread. Each new node gets a ``NodeInfo``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import modes, within
from retrograd._source import user_place
from retrograd.autograd._node import Node
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import apply
from retrograd.tensor._tensor import Tensor
from retrograd.utils.checkpoint._interception import Interceptor
from retrograd.viz._answers import Answers
from retrograd.viz._node_info import Described, NodeInfo, note, recorded_info
from retrograd.viz._record_modules import Modules
from retrograd.viz._record_tensors import Tensors

NUMBERS = frozenset((bool, int, float))  # operands that are noted with a node


class Recorder(Interceptor):
    """Observes the operations of a thread, and records on their nodes what they received and
    returned."""

    def __init__(self, tensors: Tensors, modules: Modules, answers: Answers | None = None) -> None:
        super().__init__()
        self.answers = answers
        self.tensors = tensors
        self.modules = modules
        self.paused = False  # whether recording has ended
        self._inside = 0  # how many custom Functions are running their forward

    # -- operations --------------------------------------------------------------------------

    def handle(
        self, op: Operation, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        result = apply(op, args, options, computed)
        if self.paused:
            return result
        operands = list(args[0]) if op.inputs == ("tensors",) else list(args)
        results = [x for x in as_results(result) if isinstance(x, Tensor)]
        node = next((x._node for x in results if x._node is not None), None)
        if node is None:
            self._note_cut(op, operands, results)
        elif recorded_info(node) is None:
            self._note_origins(operands)
            inputs = [self.tensors.describe(x) for x in operands]
            if node.operation is not op:
                # A transform has run the definition of the operation. The node is that of the last
                # part, which had other operands.
                inputs, operands = [None] * len(node.next_nodes), []
            tensors = [x for x in options.values() if isinstance(x, Tensor)]
            constants = [self.tensors.describe(x) for x in tensors if not x.requires_grad]
            self._note(node, inputs, constants, results, operands)
        return result

    def write(
        self, write_in_place: Callable[..., Any], op: Operation, operands: list[Any],
        options: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Perform an in-place write, and record the nodes that it gives the tensor and its base."""
        if self._is_elsewhere():
            return self._without(write_in_place, op, operands, options)
        target = operands[0]
        base = target._base if target._is_view() else None
        self._note_origins(operands)
        described = [self.tensors.describe(x) for x in operands]
        whole = self.tensors.describe(base)
        result = self._without(write_in_place, op, operands, options)
        node = target._node
        if node is None:
            self._note_cut(op, operands[1:], [target])
        elif base is None:
            self._note(node, described, [], [target], operands)
        elif base._node is not None:
            self._note(base._node, [whole, *described[1:]], [], [base])
            self._note(node, [self.tensors.describe(base)], [], [target])
        return result

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Run a custom Function, and record its node. What happens inside is not recorded."""
        if self._is_elsewhere():
            return self._without(function.apply, *args)
        tensors = [x for x in args if isinstance(x, Tensor)]
        self._note_origins(tensors)
        described = [self.tensors.describe(x) for x in tensors]
        self._inside += 1
        try:
            result = self._without(function.apply, *args)
        finally:
            self._inside -= 1
        results = [x for x in as_results(result) if isinstance(x, Tensor)]
        node = next((x._node for x in results if x._node is not None), None)
        if node is None:
            self._note_cut(None, tensors, results)
        elif recorded_info(node) is None:
            self._note(node, described, [], results)
        return result

    def _without(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call something without being notified of it."""
        with within(observer=None):
            return function(*args)

    def _is_elsewhere(self) -> bool:
        """Whether a transform works on the parts of values, or a checkpoint recomputes: such
        operations are not recorded."""
        return modes.interceptor is None or self.paused

    def _note(
        self, node: Node, given: Sequence[Described | None], more: Sequence[Described | None],
        results: Sequence[Tensor], operands: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        if recorded_info(node) is not None:
            return
        inputs = list(given)
        count = len(node.next_nodes)
        if len(inputs) > count and all(x is None for x in inputs[count:]):
            inputs = inputs[:count]  # numbers that became options
        call = self.modules.current
        outputs = [self.tensors.describe(x) for x in results]
        note(
            node,
            NodeInfo(
                outputs=tuple(x for x in outputs if x is not None),
                inputs=(*inputs, *more),
                module=call.path,
                module_types=call.types,
                numbers={i: x for i, x in enumerate(operands) if type(x) in NUMBERS} or None,
            ),
        )

    def _note_origins(self, operands: Sequence[Any]) -> None:
        """Record what can still be seen of nodes that were not observed: created before the
        recording, or by a view whose base was written to."""
        for x in operands:
            if not isinstance(x, Tensor) or x._node is None or recorded_info(x._node) is not None:
                continue
            if getattr(x._node, "outputs", None) is None:
                described = self.tensors.describe(x)
                assert described is not None
                unknown: tuple[Described | None, ...] = (None,) * len(x._node.next_nodes)
                note(x._node, NodeInfo((described,), unknown, ran=False))

    # -- leaving the graph -------------------------------------------------------------------

    def _is_outside(self) -> bool:
        """Whether the user's program is running, and not a rule or a custom Function."""
        return not self._inside and not modes.tasks and not self._is_elsewhere()

    def _note_cut(
        self, op: Operation | None, operands: Sequence[Any], results: Sequence[Tensor]
    ) -> None:
        """Record results without a history whose operands have one, or were detached from one."""
        if self._inside or modes.tasks or (op is not None and not op.differentiable):
            return
        known = next((cut for x in operands if (cut := self.tensors.is_cut(x)) is not None), None)
        has_history = any(isinstance(x, Tensor) and x.requires_grad for x in operands)
        if known is None and not modes.grad_enabled and has_history:
            known = ("no_grad", user_place(2))
        if known is not None:
            for x in results:
                if x._data.dtype.kind in "fcV" and not x.requires_grad:
                    self.tensors.cut(x, *known)

    def left(self, source: Tensor, result: Tensor) -> None:
        """``detach`` or ``.data`` has returned the same memory without its history."""
        if not self._is_outside():
            return
        if source.requires_grad:
            self.tensors.cut(result, "detach", user_place(2))
        elif (known := self.tensors.is_cut(source)) is not None:
            self.tensors.cut(result, *known)

    def asked_for_grad(self, tensor: Tensor) -> None:
        """The program has looked at the ``.grad`` of a result, which is None."""
        if not self._inside and not modes.tasks and self.answers is not None:
            self.answers.asked_for_grad(tensor)

    def number(self, source: Tensor, value: Any) -> Any:
        """``item`` has taken a number out of a tensor."""
        if self._is_outside() and source.requires_grad:
            self.tensors.number(value, user_place(2))
        return value


def as_results(result: Any) -> tuple[Any, ...]:
    """The results of an operation as a tuple."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
