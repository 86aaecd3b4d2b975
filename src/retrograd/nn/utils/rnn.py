"""Sequences of different lengths: padded to one length, or packed without padding.

Packed sequences lie step by step: the first elements of all of them, then all second ones, and so
on, the longest sequence first. That is the order in which recurrent layers need them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from retrograd.arrays import dtypes
from retrograd.nn import functional as F
from retrograd.ops.shaping import stack
from retrograd.tensor._creation import as_tensor
from retrograd.tensor._ranges import arange
from retrograd.tensor._tensor import Tensor


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """Sequences without padding, as ``pack_padded_sequence`` and ``pack_sequence`` make them:
    their elements, and how many sequences have an element in each step."""

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:  # fmt: skip
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with ``data.to(...)``."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def cpu(self) -> PackedSequence:
        """The sequences as they are, since there is no other device."""
        return self

    def double(self) -> PackedSequence:
        """The same sequences in double precision."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        """The same sequences in single precision."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        """The same sequences in half precision."""
        return self.to(dtype=dtypes.float16)

    def long(self) -> PackedSequence:
        """The same sequences as integers."""
        return self.to(dtype=dtypes.int64)

    def int(self) -> PackedSequence:
        """The same sequences as integers of 32 bits."""
        return self.to(dtype=dtypes.int32)

    @property
    def is_cuda(self) -> bool:
        """Never: there is no such device."""
        return False


def invert_permutation(permutation: Any) -> Any:
    """Where each place went.

    >>> import retrograd as torch
    >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


# -- packed ----------------------------------------------------------------------------------------


def _present(lengths: Any, length: Any) -> Any:
    """Where padded sequences, ``(length, batch)``, have elements."""
    return arange(length).unsqueeze(1) < lengths


def _places(present: Any) -> Any:
    """The places of elements if the first two dimensions were one, in the order of packed ones."""
    return present.reshape(-1).nonzero().squeeze(1)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences, ``(length, batch, ...)``, without their padding. They must be sorted by
    length, the longest first, or else they are with ``enforce_sorted=False``.

    >>> import retrograd as torch
    >>> padded = torch.tensor([[1, 2], [3, 0]])
    >>> torch.nn.utils.rnn.pack_padded_sequence(padded, [2, 1])[:2]
    (tensor([1, 2, 3]), tensor([2, 1]))
    """
    lengths = as_tensor(lengths, dtype=dtypes.int64)
    x, sorted_indices = input.transpose(0, 1) if batch_first else input, None
    if not enforce_sorted:
        lengths, sorted_indices = lengths.sort(descending=True)
        x = x.index_select(1, sorted_indices)
    _check_lengths(x, lengths.tolist())
    present = _present(lengths, x.shape[0])
    rows = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    data = rows.index_select(0, _places(present))
    return PackedSequence(data, present.sum(1)[: int(lengths[0])], sorted_indices)


def _check_lengths(x: Any, lengths: list[int]) -> None:
    length, batch = x.shape[:2]
    if not x.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        )
    if min(lengths) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if lengths != sorted(lengths, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if lengths[0] > length:
        raise RuntimeError(
            f"Expected `lengths` to be at most the length of the padded sequences, {length}, but "
            f"got {lengths[0]}"
        )


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The inverse of ``pack_padded_sequence``: padded sequences and their lengths.

    >>> import retrograd as torch
    >>> rnn = torch.nn.utils.rnn
    >>> packed = rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    data, sizes, _, order = sequence
    length = sizes.shape[0]
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {length}"
            )
        length = total_length
    batch = int(sizes[0])
    lengths = (arange(batch).unsqueeze(1) < sizes).sum(1)
    empty = data.new_full((length * batch, *data.shape[1:]), padding_value)
    padded = empty.index_copy(0, _places(_present(lengths, length)), data)
    padded = padded.reshape(length, batch, *data.shape[1:])
    if order is not None:
        padded, lengths = padded.index_select(1, order), lengths.index_select(0, order)
    return padded.transpose(0, 1) if batch_first else padded, lengths


# -- padded ----------------------------------------------------------------------------------------


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:  # fmt: skip
    """Sequences side by side, ``(length, batch, ...)``, the shorter ones filled up.

    >>> import retrograd as torch
    >>> sequences = [torch.tensor([1, 2]), torch.tensor([3])]
    >>> torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    each = list(sequences)
    if not each:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    length = max(x.shape[0] for x in each)
    found = []
    for x in each:
        missing = (length - x.shape[0], 0) if padding_side == "left" else (0, length - x.shape[0])
        around = [0] * (2 * (x.dim() - 1)) + list(missing)
        found.append(F.pad(x, around, value=padding_value) if any(missing) else x)
    rest = found[0].shape[1:]
    for x in found:
        if x.shape[1:] != rest:
            raise RuntimeError(
                f"output with shape {[length, *rest]} doesn't match the broadcast shape "
                f"{[length, *x.shape[1:]]}"
            )
    return stack([x.to(found[0].dtype) for x in found], 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences without what they were filled up with.

    >>> import retrograd as torch
    >>> padded = torch.tensor([[1, 2], [3, 0]])
    >>> torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    each = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [x[:n].clone() for x, n in zip(each.unbind(0), counts, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of different lengths, packed.

    >>> import retrograd as torch
    >>> sequences = [torch.tensor([1, 2]), torch.tensor([3])]
    >>> torch.nn.utils.rnn.pack_sequence(sequences).data
    tensor([1, 3, 2])
    """
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences that were packed, one by one."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, True), batch_first=True)
