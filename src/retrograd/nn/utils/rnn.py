"""Sequences of different lengths, padded to one length or packed without padding.

A packed sequence holds the elements time step by time step, the longest sequence first: the order
in which recurrent layers process them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from retrograd.arrays import dtypes
from retrograd.nn import functional as F
from retrograd.ops.shapes.slicing import stack
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._ranges import arange
from retrograd.tensor._tensor import Tensor


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """Sequences of different lengths without padding.

    ``pack_padded_sequence`` and ``pack_sequence`` create it; programs rarely do.

    Args:
        data: the elements, time step by time step.
        batch_sizes: number of sequences that have an element at each step.
        sorted_indices: the permutation that sorts the sequences by length, or None.
        unsorted_indices: its inverse.

    Example:
        >>> from retrograd.nn.utils.rnn import pack_sequence
        >>> pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).batch_sizes
        tensor([2, 1])
    """

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
        """Convert the data by ``data.to(...)``. The sizes of batches stay on the CPU.

        Args:
            args, kwargs: arguments of ``Tensor.to``.

        Returns:
            The converted sequences.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = [x if x is None else x.to(data.device) for x in self[2:]]
        return type(self)(data, self.batch_sizes, *orders)

    def cpu(self) -> PackedSequence:
        """The sequences on the CPU."""
        return self.to("cpu")

    def cuda(self) -> PackedSequence:
        """The sequences on a GPU."""
        return self.to("cuda")

    def double(self) -> PackedSequence:
        """The sequences as ``float64``."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        """The sequences as ``float32``."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        """The sequences as ``float16``."""
        return self.to(dtype=dtypes.float16)

    def bfloat16(self) -> PackedSequence:
        """The sequences as ``bfloat16``."""
        return self.to(dtype=dtypes.bfloat16)

    def long(self) -> PackedSequence:
        """The sequences as ``int64``."""
        return self.to(dtype=dtypes.int64)

    def int(self) -> PackedSequence:
        """The sequences as ``int32``."""
        return self.to(dtype=dtypes.int32)

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a GPU."""
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Any) -> Any:
    """The inverse of a permutation.

    Args:
        permutation: a tensor of indices, or None.

    Returns:
        A tensor of indices, or None.

    Example:
        >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


# -- packed ----------------------------------------------------------------------------------------


def _present(lengths: Any, length: Any) -> Any:
    """A mask of the elements of padded sequences, ``(length, batch)``."""
    return arange(length, device="cpu").unsqueeze(1) < lengths


def _indices(present: Any) -> Any:
    """The indices of the elements with the first two dimensions flattened, in packed order."""
    return present.reshape(-1).nonzero().squeeze(1)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences.

    Args:
        input: padded sequences, ``(length, batch, ...)``, or ``(batch, length, ...)`` if
            ``batch_first``.
        lengths: their lengths, on the CPU.
        batch_first: whether the batch is the first dimension.
        enforce_sorted: require decreasing lengths. If False, the sequences are sorted.

    Returns:
        A ``PackedSequence``.

    Example:
        >>> padded = torch.tensor([[1, 2], [3, 0]])
        >>> torch.nn.utils.rnn.pack_padded_sequence(padded, [2, 1])[:2]
        (tensor([1, 2, 3]), tensor([2, 1]))
    """
    lengths = as_tensor(lengths, dtype=dtypes.int64, device="cpu")
    x, sorted_indices = input.transpose(0, 1) if batch_first else input, None
    if not enforce_sorted:
        lengths, sorted_indices = lengths.sort(descending=True)
        sorted_indices = sorted_indices.to(input.device)
        x = x.index_select(1, sorted_indices)
    _check_lengths(x, lengths.tolist())
    present = _present(lengths, x.shape[0])
    rows = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    data = rows.index_select(0, _indices(present).to(input.device))
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
    """Pad packed sequences: the inverse of ``pack_padded_sequence``.

    Args:
        sequence: a ``PackedSequence``.
        batch_first: whether the batch is the first dimension of the result.
        padding_value: what to pad with.
        total_length: length of the result; that of the longest sequence by default.

    Returns:
        The padded sequences, and their lengths.

    Example:
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
    lengths = (arange(batch, device="cpu").unsqueeze(1) < sizes).sum(1)
    empty = data.new_full((length * batch, *data.shape[1:]), padding_value)
    places = _indices(_present(lengths, length)).to(data.device)
    padded = empty.index_copy(0, places, data)
    padded = padded.reshape(length, batch, *data.shape[1:])
    if order is not None:
        padded, lengths = padded.index_select(1, order), lengths.index_select(0, order.cpu())
    return padded.transpose(0, 1) if batch_first else padded, lengths


# -- padded ----------------------------------------------------------------------------------------


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:  # fmt: skip
    """Stack sequences, with padding for the shorter ones.

    Args:
        sequences: tensors of shape ``(length, ...)``.
        batch_first: whether the batch is the first dimension of the result.
        padding_value: what to pad with.
        padding_side: "right" or "left".

    Returns:
        A tensor ``(length, batch, ...)``, or ``(batch, length, ...)`` if ``batch_first``.

    Example:
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
    padded = []
    for x in each:
        missing = (length - x.shape[0], 0) if padding_side == "left" else (0, length - x.shape[0])
        widths = [0] * (2 * (x.dim() - 1)) + list(missing)
        padded.append(F.pad(x, widths, value=padding_value) if any(missing) else x)
    rest = padded[0].shape[1:]
    for x in padded:
        if x.shape[1:] != rest:
            raise RuntimeError(
                f"output with shape {[length, *rest]} doesn't match the broadcast shape "
                f"{[length, *x.shape[1:]]}"
            )
    return stack([x.to(padded[0].dtype) for x in padded], 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Split padded sequences into a list, without the padding.

    Args:
        padded_sequences: a tensor ``(length, batch, ...)``, or ``(batch, length, ...)`` if
            ``batch_first``.
        lengths: lengths of the sequences.
        batch_first: whether the batch is the first dimension.

    Returns:
        A list of tensors.

    Example:
        >>> padded = torch.tensor([[1, 2], [3, 0]])
        >>> torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([2, 1]), batch_first=True)
        [tensor([1, 2]), tensor([3])]
    """
    each = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [x[:n].clone() for x, n in zip(each.unbind(0), counts, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences.

    Args:
        sequences: tensors of shape ``(length, ...)``.
        enforce_sorted: require decreasing lengths. If False, the sequences are sorted.

    Returns:
        A ``PackedSequence``.

    Example:
        >>> sequences = [torch.tensor([1, 2]), torch.tensor([3])]
        >>> torch.nn.utils.rnn.pack_sequence(sequences).data
        tensor([1, 3, 2])
    """
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Split a packed sequence into a list of tensors.

    Args:
        packed_sequences: a ``PackedSequence``.

    Returns:
        A list of tensors.

    Example:
        >>> from retrograd.nn.utils.rnn import pack_sequence, unpack_sequence
        >>> unpack_sequence(pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]))
        [tensor([1, 2]), tensor([3])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, True), batch_first=True)
