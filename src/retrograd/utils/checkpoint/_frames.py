"""Checkpointed calls, and the recomputation of their saved values.

While the function runs, hooks put a ``Holder`` in every place where a node would have saved a
value. When a backward pass asks for the first of them, the function is run again on the inputs that
it had. The n-th value that it saves now is what the n-th holder stands for.

- A value is given out once in a pass, and let go. What a pass did not ask for goes with the pass.
- Checkpoints may be nested. The inputs of an inner one are values that the outer one saves, so
  they are computed again when the inner one needs them.
- The values come from the second run, but their place in the graph is that of the first.
- A function may be under transforms, or use some. A frame deals with what is recorded outside of
  those that the function opens, and inside of those that it was called under. The rest is kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple, Self, cast

from retrograd import _source
from retrograd._modes import Scope, modes, within
from retrograd._source import Place
from retrograd.autograd._history import edge
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.autograd._saved import Packed, modified_error, pack_value
from retrograd.autograd._versions import UNCHANGING, Version
from retrograd.autograd._wrap import Plug, wrap
from retrograd.autograd.graph import saved_tensors_hooks
from retrograd.tensor._calls import watch
from retrograd.utils.checkpoint._interception import SavingAhead


class CheckpointError(RuntimeError):
    """The recomputation of a checkpointed function differs from its first run."""


TIP = (
    "\nTip: To see a more detailed error message, either pass `debug=True` to\n"
    "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block\n"
    "with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\n"
    "enable checkpoint-debug mode globally.\n"
)


class StopRecomputation(BaseException):
    """Ends the second run once it has saved all that is wanted. It is no Exception, so that a
    function that catches those lets it pass."""


class Saved(NamedTuple):
    """A value without its history, and how often its memory had been written."""

    tensor: Any
    version: Version
    written: int
    place: Place

    @classmethod
    def now(cls, tensor: Any, place: Place) -> Self:
        version: Version = tensor._version_counter or UNCHANGING
        return cls(
            wrap(tensor._data, version=tensor._version_counter), version, version.count, place
        )

    def value(self) -> Any:
        """The value, if nobody has written over it since."""
        if self.version.count != self.written:
            raise changed(self.tensor, self.version, self.written, self.place)
        return self.tensor


class Holder:
    """Stands where a node would have saved a value: the n-th of a checkpointed call, or one that
    is ``kept``."""

    __slots__ = ("__weakref__", "kept", "node", "number", "position")

    def __init__(self, position: int, tensor: Any, kept: Saved | None = None) -> None:
        self.position = position
        self.kept = kept
        node, self.number = edge(tensor)
        # Weak, because a value may be an output of the very node that saves it.
        self.node = None if node is None else weakref.ref(node)

    def at_its_place(self, tensor: Any) -> Any:
        """A value computed again, where the first one stood in the graph."""
        return attached(tensor, self.node() if self.node is not None else None, self.number)


def attached(tensor: Any, node: Node | None, number: int | None) -> Any:
    """The value of ``tensor`` as output ``number`` of ``node``."""
    if node is None:
        return tensor
    if isinstance(node, AccumulateGrad) and node.variable._data is tensor._data:
        return node.variable
    return wrap(tensor._data, node, number, tensor._version_counter)


class Record(NamedTuple):
    """What is known of a value that the first run saved."""

    holder: weakref.ref[Holder]
    metadata: Any
    version: Version  # of its memory
    written: int  # how often that had been written
    place: Place


class Recomputation:
    """The second run of a checkpointed call, for one backward pass."""

    __slots__ = ("before", "complete", "early_stop", "levels", "metadata_of", "records", "saved",
                 "values")  # fmt: skip

    def __init__(self, frame: Frame) -> None:
        self.records = frame.records
        self.complete = frame.complete  # or is this for a pass inside the function's first run?
        self.early_stop = frame.early_stop
        self.metadata_of = frame.metadata_of
        self.levels = frame.levels
        self.before = [record.version.count for record in self.records]
        self.saved: list[Any] = []  # the metadata and place of each value saved by this run
        self.values: dict[int, Saved] = {}

    def pack(self, tensor: Any) -> Any:
        """Store a value, if a saved value may be recomputed from it."""
        if modes.levels != self.levels:
            return tensor
        position = len(self.saved)
        if position >= len(self.records):
            return self._one_too_many(tensor)
        record = self.records[position]
        version: Version = tensor._version_counter or UNCHANGING
        changed_since = version is record.version and version.count != record.written
        if changed_since and version.count == self.before[position]:
            raise changed(tensor, version, record.written, record.place)
        saved = Saved.now(tensor, _source.user_place(2))
        self.saved.append((self.metadata_of(tensor), saved.place))
        if record.holder() is not None:  # or a pass inside the function is through with it
            self.values[position] = saved
        if self.early_stop and self.missing() == 0:
            raise StopRecomputation
        return saved.tensor  # the function may run a backward pass through this graph, too

    def missing(self) -> int:
        """The number of values that are still missing."""
        return len(self.records) - len(self.saved)

    def _one_too_many(self, tensor: Any) -> Any:
        if self.early_stop:
            raise StopRecomputation  # again: the function has caught the first one
        if self.complete:
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than "
                f"during the original forward pass.\n{_at('one more', _source.user_place(3))}{TIP}"
            )
        return wrap(tensor._data, version=tensor._version_counter)

    def check(self) -> None:
        """Whether as many values were saved as in the first run, and alike."""
        first, second = self.records, self.saved
        if len(first) != len(second):
            missing = first[len(second)]
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(first)}\n"
                f"Number of tensors saved during recomputation: {len(second)}.\n"
                f"{_at('first not saved again', missing.place)}{TIP}"
            )
        unlike = [
            f"tensor at position {i}:\nsaved metadata: {one.metadata}\n"
            f"recomputed metadata: {metadata}\n{_at('saved', one.place)}{_at('recomputed', place)}"
            for i, (one, (metadata, place)) in enumerate(zip(first, second, strict=True))
            if one.metadata != metadata and i in self.values
        ]
        if unlike:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass.\n{''.join(unlike)}.\n{TIP}"
            )

    def take(self, position: int) -> Any:
        """Return a value and release it."""
        if position not in self.values:
            overlapping = (
                "Performing two backward calls that overlap (i.e. require the same saved "
                "activation in order to compute gradients) is not allowed while under the "
                "torch.utils.checkpoint.GraphExecGroup context. "
            )
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                f"unpacked once. {overlapping if modes.checkpoint_group is not None else ''}If you "
                "are calling ctx.saved_tensors in backward, make sure to do so only once. "
                "Otherwise please open an issue with details on your use case."
            )
        return self.values.pop(position).value()


def _at(what: str, place: Place) -> str:
    line = _source.describe(place)
    return f"  {what} at {line}\n" if line else ""


def changed(
    tensor: Any, version: Version, count: int, place: Place, node: Node | None = None
) -> RuntimeError:
    """The error for a value that was written since it was saved, at ``place``."""
    saver = cast(Node, SimpleNamespace(source=_source.describe(place)))
    maker = None
    if node is not None and not isinstance(node, AccumulateGrad):
        name = node.name().removesuffix("0").replace("Backward", "")
        maker = f"output {tensor._number or 0} of {name}"
    return modified_error(saver, tensor._data, version, count, maker)


class SavedInput:
    """A tensor that a checkpointed function was called with. Inside another checkpoint it is one
    of the values that are computed again."""

    __slots__ = ("count", "node", "number", "place", "value", "version")

    def __init__(self, tensor: Any) -> None:
        self.version, self.place = watch(tensor), _source.user_place(2)
        self.count = self.version.count
        self.value: Any = tensor
        if modes.saved_tensor_hooks:
            self.node, self.number = edge(tensor)
            hooks = modes.saved_tensor_hooks[-1]
            with within(saved_tensor_hooks=()):  # what a hook computes is not packed itself
                self.value = pack_value(tensor, *hooks)

    def tensor(self) -> Any:
        if isinstance(self.value, Packed):
            return attached(self.value.tensor(), self.node, self.number)
        if self.version.count != self.count:
            raise changed(self.value, self.version, self.count, self.place, edge(self.value)[0])
        return self.value


class Frame:
    """One call of a checkpointed function: its inputs, and what it saved."""

    def __init__(
        self, function: Callable[..., Any], inputs: Sequence[Any], early_stop: bool,
        metadata_of: Callable[[Any], Any],
        explain: Callable[[CheckpointError], CheckpointError] | None,
    ) -> None:  # fmt: skip
        self.function = function
        self.inputs = [SavedInput(x) if isinstance(x, Plug.tensor) else x for x in inputs]
        self.early_stop = early_stop
        self.metadata_of = metadata_of
        self.explain = explain
        self.complete = False  # whether the first run is over
        self.levels = modes.levels  # the transforms around it
        self.autocast = modes.autocast
        self.records: list[Record] = []
        # By the pass that it is for, and gone with that.
        self.recomputed: weakref.WeakKeyDictionary[Any, Recomputation]
        self.recomputed = weakref.WeakKeyDictionary()

    def pack(self, tensor: Any) -> Holder:
        """In the first run: keep nothing of a value but its place in line."""
        if modes.levels != self.levels:
            return Holder(-1, tensor, Saved.now(tensor, _source.user_place(2)))
        holder = Holder(len(self.records), tensor)
        version: Version = tensor._version_counter or UNCHANGING
        self.records.append(
            Record(weakref.ref(holder), self.metadata_of(tensor), version, version.count,
                   _source.user_place(2))
        )  # fmt: skip
        return holder

    def unpack(self, holder: Holder) -> Any:
        """The value that ``holder`` represents, in a backward pass."""
        if holder.kept is not None:
            return holder.at_its_place(holder.kept.value())
        try:
            value = self._recomputation().take(holder.position)
        except CheckpointError as error:
            if self.explain is None:
                raise
            raise self.explain(error) from error
        return holder.at_its_place(value)

    def _recomputation(self) -> Recomputation:
        tasks = modes.tasks
        key: Any = modes.checkpoint_group or (tasks[-1] if tasks else None)
        known = None if key is None else self.recomputed.get(key)
        if known is None:
            known = self._recompute()
            if key is not None:
                self.recomputed[key] = known
        return known

    def _recompute(self) -> Recomputation:
        for level in self.levels:
            if level.closed:
                raise CheckpointError(
                    "torch.utils.checkpoint: the checkpointed function was called under "
                    f"{level.name}, which has ended since, so it cannot be run again as it was."
                )
        inputs = [x.tensor() if isinstance(x, SavedInput) else x for x in self.inputs]
        run = Recomputation(self)
        ahead: AbstractContextManager[Any]
        ahead = SavingAhead(run.pack, run.missing) if self.early_stop else nullcontext()
        casting = None if self.autocast is None else self.autocast.again()
        with within(
            grad_enabled=True, inference=False, levels=self.levels, autocast=casting,
            interceptors=() if casting is None else (casting,),
        ):  # fmt: skip
            try:
                with saved_tensors_hooks(run.pack, _as_it_is), ahead:
                    self.function(*inputs)
            except StopRecomputation:
                pass
        run.check()
        return run


def _as_it_is(value: Any) -> Any:
    return value


# -- several passes as one -------------------------------------------------------------------


class GraphExecGroup(Scope):
    """Backward passes inside this context share recomputed values. They must not need the same
    saved value twice.

    >>> from retrograd.utils.checkpoint import GraphExecGroup, checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> a, b = checkpoint(lambda x: (x.exp(), x.sin()), x, use_reentrant=False)
    >>> with GraphExecGroup():  # runs the function again once, not twice
    ...     a.sum().backward()
    ...     b.sum().backward()
    """

    def __enter__(self) -> Self:
        group = modes.checkpoint_group
        if group is not None:
            raise RuntimeError(
                f"GraphExecGroup contexts cannot be nested. Already inside group {group}"
            )
        self._enter({"checkpoint_group": self})
        return self
