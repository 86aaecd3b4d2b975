"""Messages between stages, on NumPy buffers, without pickling and without blocking.

There is a channel for each link and direction. A message is an envelope of fixed size, then the
form of what is sent if it is new (see ``_values``), then the memory of each tensor as it is. The
receiver learns shapes and dtypes from the form, so buffers always fit. The envelope says which
message this is; if the receiver's schedule expects another, that is an error there and not a hang.

Receives are posted ahead: the envelope of the next message at all times, and the buffers for its
tensors as soon as it has arrived; ``progress`` does this between layers. Thus messages arrive while
this stage computes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import retrograd as torch
from retrograd import distributed
from retrograd.autograd._wrap import wrap
from retrograd.pipeline._stats import Stats
from retrograd.pipeline._values import Form

MAGIC = 0x50495045  # distinguishes a pipeline's envelope from other messages
FIELDS = 6  # magic, step, micro-batch, index of the form, bytes of a new form, tensors
FORMS = 64  # how many forms a channel remembers
AHEAD = 2  # messages that are received ahead of time
TAGS = 3  # of a channel: envelopes, forms, tensors

Message = tuple[Form, list[Any]]


class Sender:
    """The sending end of a channel. What is being sent is kept alive until it has been sent."""

    def __init__(self, peer: int, tag: int, group: Any, stats: Stats) -> None:
        self.peer, self.tag, self.group, self.stats = peer, tag, group, stats
        self.known: dict[str, int] = {}  # forms that the other end knows, and their indices
        self.under_way: deque[tuple[Any, Any]] = deque()

    def send(self, step: int, microbatch: int, form: str, tensors: Sequence[Any]) -> None:
        """Start sending. The tensors must not be written to until they have been sent."""
        slot, text = self.known.get(form), b""
        if slot is None:
            text = form.encode()
            slot = len(self.known) % FORMS
            if slot == 0:
                self.known.clear()  # the other end overwrites old forms with new ones
            self.known[form] = slot
        envelope = [MAGIC, step, microbatch, slot, len(text), len(tensors)]
        self._start(torch.tensor(envelope, dtype=torch.int64), 0)
        if text:
            self._start(torch.frombuffer(bytearray(text), dtype=torch.uint8), 1)
        for x in tensors:
            if x.numel():
                self._start(_memory(x.detach().contiguous()), 2)

    def _start(self, buffer: Any, kind: int) -> None:
        work = distributed.isend(buffer, self.peer, group=self.group, tag=self.tag + kind)
        self.under_way.append((work, buffer))
        self.stats.messages += 1
        self.stats.bytes += buffer.numel() * buffer.element_size()

    def progress(self) -> None:
        """Release buffers whose messages have been sent."""
        while self.under_way and self.under_way[0][0].is_completed():
            self.under_way.popleft()

    def flush(self) -> None:
        """Wait until everything has been sent."""
        while self.under_way:
            self.under_way.popleft()[0].wait()


class _Incoming:
    """A message that is being received."""

    def __init__(self, envelope: list[int], form: Form, buffers: list[Any], works: list[Any]):
        self.envelope, self.form, self.buffers, self.works = envelope, form, buffers, works

    def tensors(self) -> list[Any]:
        return [
            x if shape else wrap(x._data.reshape(())[()])
            for x, (shape, _) in zip(self.buffers, self.form.tensors, strict=True)
        ]


class Receiver:
    """The receiving end: the messages of a batch in the order in which they were sent."""

    def __init__(self, peer: int, tag: int, group: Any, stats: Stats, says: str) -> None:
        self.peer, self.tag, self.group, self.stats, self.says = peer, tag, group, stats, says
        self.forms: dict[int, Form] = {}
        self.expected = 0  # messages of this batch whose envelope has not been posted
        self.envelope: tuple[Any, Any] | None = None
        self.arriving: deque[_Incoming] = deque()

    def expect(self, messages: int) -> None:
        """Set how many messages the next batch has."""
        self.expected = messages
        self._post()

    def _post(self) -> None:
        if self.envelope is None and self.expected and len(self.arriving) < AHEAD:
            self.expected -= 1
            buffer = torch.zeros(FIELDS, dtype=torch.int64)
            self.envelope = (self._receive(buffer, 0), buffer)

    def _receive(self, buffer: Any, kind: int) -> Any:
        return distributed.irecv(buffer, self.peer, group=self.group, tag=self.tag + kind)

    def progress(self) -> None:
        """Post receives for the tensors of a message whose envelope has arrived."""
        while self.envelope is not None and self.envelope[0].is_completed():
            self._open()

    def _open(self) -> None:
        assert self.envelope is not None
        (work, buffer), self.envelope = self.envelope, None
        work.wait()
        envelope = buffer.tolist()
        magic, _, _, slot, new, tensors = envelope
        if magic != MAGIC:
            raise RuntimeError(
                f"{self.says} is not a message of a pipeline. Does another program send to rank "
                f"{distributed.get_rank()} with the same tags?"
            )
        if new:
            text = torch.zeros(new, dtype=torch.uint8)
            self._receive(text, 1).wait()
            self.forms[slot] = Form(bytes(text._data).decode())
        form = self.forms[slot]
        assert len(form.tensors) == tensors
        buffers = [torch.empty(shape or (1,), dtype=dtype) for shape, dtype in form.tensors]
        works = [self._receive(_memory(x), 2) for x in buffers if x.numel()]
        self.arriving.append(_Incoming(envelope, form, buffers, works))
        self._post()

    def receive(self, step: int, microbatch: int) -> Message:
        """The next message, which must be that of this step and micro-batch."""
        if not self.arriving:
            with self.stats.timed("waiting"):
                if self.envelope is None:
                    raise RuntimeError(f"{self.says} was requested more often than it is sent")
                self.envelope[0].wait()
            self._open()
        with self.stats.timed("communication"):
            message = self.arriving.popleft()
            if message.envelope[1:3] != [step, microbatch]:
                raise RuntimeError(
                    f"{self.says} is of micro-batch {message.envelope[2]} of step "
                    f"{message.envelope[1]}, but micro-batch {microbatch} of step {step} is due: "
                    "the ranks do not run the same schedule"
                )
            for work in message.works:
                work.wait()
            self._post()
        return message.form, message.tensors()


class Handover:
    """Both ends of a channel between two stages of the same rank."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()

    def expect(self, messages: int) -> None:
        """Discard the messages of a batch that failed."""
        self.messages.clear()

    def send(self, step: int, microbatch: int, form: str, tensors: Sequence[Any]) -> None:
        # Copies, as between ranks: a layer may write into its input.
        self.messages.append((Form(form), [x.detach().clone() for x in tensors]))

    def receive(self, step: int, microbatch: int) -> Message:
        return self.messages.popleft()


class Channels:
    """The channels of one rank. ``rank_of`` gives the rank that runs a virtual stage."""

    def __init__(
        self, own: Iterable[int], links: Iterable[tuple[int, int]], rank_of: Any, group: Any,
        stats: Stats,
    ) -> None:  # fmt: skip
        self.stats = stats
        self.senders: dict[tuple[int, int], Any] = {}
        self.receivers: dict[tuple[int, int], Any] = {}
        own = set(own)
        for number, (source, target) in enumerate(sorted(links)):
            for direction, (a, b) in enumerate(((source, target), (target, source))):
                tag = (2 * number + direction) * TAGS
                what = "activation" if direction == 0 else "gradient"
                if a in own and b in own:
                    self.senders[a, b] = self.receivers[a, b] = Handover()
                elif a in own:
                    self.senders[a, b] = Sender(rank_of(b), tag, group, stats)
                elif b in own:
                    says = f"the next {what} from stage {a} (rank {rank_of(a)}) for stage {b}"
                    self.receivers[a, b] = Receiver(rank_of(a), tag, group, stats, says)
        self._far_senders = [x for x in self.senders.values() if isinstance(x, Sender)]
        self._far_receivers = [x for x in self.receivers.values() if isinstance(x, Receiver)]

    def expect(self, messages: dict[tuple[int, int], int]) -> None:
        """Set how many messages of the next batch each link has."""
        for link, receiver in self.receivers.items():
            receiver.expect(messages.get(link, 0))

    def progress(self) -> None:
        """Advance pending sends and receives; to be called often."""
        for receiver in self._far_receivers:
            receiver.progress()
        for sender in self._far_senders:
            sender.progress()

    def flush(self) -> None:
        """Wait until everything has been sent on all channels."""
        with self.stats.timed("communication"):
            for sender in self._far_senders:
                sender.flush()


def _memory(x: Any) -> Any:
    """The memory of a contiguous tensor, as bytes."""
    data = x.reshape(1)._data if x.dim() == 0 else x._data
    return wrap(data.reshape(-1).view("uint8"))
