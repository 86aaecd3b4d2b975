"""Connectionist temporal classification: the negative log likelihood of a sequence of labels,
summed over all its alignments with frames of class probabilities."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops._arguments import invalid_combination
from retrograd.ops._batching import BatchLevel, folded, in_channels, out_of_channels, unfolded
from retrograd.ops._batching_declarations import own
from retrograd.ops._dims import is_integer
from retrograd.ops._lifted import bare
from retrograd.ops._operands import is_lifted
from retrograd.ops._operation import Operation, Reduction, raw, undifferentiable
from retrograd.ops._public import public
from retrograd.ops._refusals import kernel
from retrograd.ops.comparisons import isinf
from retrograd.ops.copies import to_dtype, zeros_like
from retrograd.ops.linear import reshape, squeeze_dim, unsqueeze
from retrograd.ops.networks.losses import reduction_of
from retrograd.ops.piecewise import maximum, where
from retrograd.ops.reductions import basic as reductions

Lengths = tuple[int, ...]  # an array, or what stands for one, if they differ between entries


def _ctc_backward(
    grad_output: Raw, log_probs: Raw, losses: Raw, log_alpha: Raw, targets: Raw,
    lengths: tuple[Lengths, Lengths], blank: int, zero_infinity: bool,
) -> Raw:  # fmt: skip
    return arrays.sequences.ctc_backward(
        grad_output, log_probs, losses, log_alpha, targets, lengths, blank, zero_infinity
    )


def _ctc_rule(
    g: Any, log_probs: Any, result0: Any, result1: Any, targets: Any, input_lengths: Lengths,
    target_lengths: Lengths, blank: int, zero_infinity: bool,
) -> Any:  # fmt: skip
    return ctc_backward(
        g[0], log_probs, raw(result0), raw(result1), targets=raw(targets),
        lengths=(input_lengths, target_lengths), blank=blank, zero_infinity=zero_infinity,
    )  # fmt: skip


def _of_all(level: BatchLevel, lengths: Any) -> Any:
    """The lengths of all entries one after the other."""
    return lengths * level.size if type(lengths) is tuple else raw(folded(level, lengths))


@own("sequences are the second dimension of the probabilities, the first of all else")
def _ctc_of_many(level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]) -> Any:
    """The sequences of all entries are treated as one longer batch of sequences."""
    log_probs, targets = args
    names = ("input_lengths", "target_lengths")
    lengths = {n: _of_all(level, options[n]) for n in names}
    result = op(in_channels(level, log_probs), folded(level, targets), **{**options, **lengths})
    return tuple(unfolded(level, y, log_probs.shape[1]) for y in result)


@own("sequences are the second dimension of the probabilities, the first of all else")
def _ctc_backward_of_many(
    level: BatchLevel, op: Operation, args: list[Any], options: dict[str, Any]
) -> Any:
    grad_output, log_probs, *rest = args
    result = op(
        folded(level, grad_output), in_channels(level, log_probs),
        *(folded(level, x) for x in rest),
        **{**options, "targets": raw(folded(level, options["targets"])),
           "lengths": tuple(_of_all(level, n) for n in options["lengths"])},
    )  # fmt: skip
    return out_of_channels(level, result)


ctc_backward = undifferentiable(
    "ctc_backward", _ctc_backward,
    RuntimeError("derivative for aten::_ctc_loss_backward is not implemented"),
    inputs=("grad_output", "log_probs", "losses", "log_alpha"), node="NotImplemented",
    batch=_ctc_backward_of_many,
)  # fmt: skip
ctc_op = Reduction(
    "ctc_loss",
    lambda log_probs, targets, input_lengths, target_lengths, blank, zero_infinity:
        arrays.sequences.ctc(log_probs, targets, input_lengths, target_lengths, blank),
    inputs=("log_probs", "targets"), outputs=("result0", "result1"),
    rules={"log_probs": _ctc_rule}, reduced=(0, 2), batch=_ctc_of_many,
    check=lambda log_probs, targets, **options: kernel("ctc_loss_cpu", "biucV")(log_probs),
)  # fmt: skip


def _check(log_probs: Any, targets: Any, inputs: Any, wanted: Any, blank: int) -> None:
    frames, batch, classes = log_probs.shape
    require(0 <= blank < classes, "blank must be in label range")
    require(len(inputs) == batch, "input_lengths must be of size batch_size")
    require(len(wanted) == batch, "target_lengths must be of size batch_size")
    inputs, wanted = map(arrays.sequences.as_lengths, (bare(inputs), bare(wanted)))
    for length in wanted:
        require(
            length >= 0,
            f"Expected target_lengths to have value at least 0, but got value "
            f"{length} (while checking arguments for ctc_loss_allocate_outputs)",
        )
    for length in inputs:
        require(
            0 <= length <= frames,
            "Expected input_lengths to have value at most "
            f"{frames}, but got value {length} (while checking arguments for "
            "ctc_loss_allocate_outputs)",
        )
    if targets.ndim == 1:
        sums = [sum(wanted[i : i + batch]) for i in range(0, len(wanted), max(batch, 1))]
        require(
            all(n == targets.shape[0] for n in sums or [0]),
            f"Expected tensor to have size {max(sums or [0])} at dimension 0, but got size "
            f"{targets.shape[0]} for argument #2 'targets' (while checking arguments for "
            "ctc_loss_allocate_outputs)",
        )
    else:
        most = max(wanted, default=0)
        require(
            targets.shape[0] == batch and targets.shape[1] >= most,
            f"Expected tensor to have size at least {most} at dimension 1, but got size "
            f"{targets.shape[1]} for argument #2 'targets' (while checking arguments for "
            "ctc_loss_allocate_outputs)",
        )


def require(condition: bool, words: str) -> None:
    """Raise a RuntimeError unless ``condition`` holds."""
    if not condition:
        raise RuntimeError(words)


def _check_kinds(log_probs: Any, targets: Any, inputs: Any, wanted: Any, blank: Any) -> None:
    """Refuse lengths that are no integers, and lengths of two kinds."""
    lengths = (inputs, wanted)
    tensors = [hasattr(x, "dtype") for x in lengths]
    whole = [
        hasattr(x, "dtype") or (isinstance(x, (list, tuple)) and all(map(is_integer, x)))
        for x in lengths
    ]
    if tensors[0] != tensors[1] or not all(whole) or not is_integer(blank):
        raise invalid_combination("ctc_loss", log_probs, targets, inputs, wanted, blank)
    for name, x in zip(("input", "target"), lengths, strict=True):
        require(
            not hasattr(x, "dtype") or raw(x).dtype.kind in "iu",
            f"{name}_lengths must be integral",
        )


@public("functional")
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """Connectionist temporal classification loss.

    The negative log likelihood of a sequence of labels, summed over all its alignments with a
    longer sequence of predictions. As in PyTorch, the gradient assumes that ``log_probs`` is a
    result of ``log_softmax``: it is right for the logits, not for ``log_probs`` on their own.

    Args:
        log_probs: logarithms of probabilities, of shape ``(T, N, C)`` or ``(T, C)``.
        targets: labels, of shape ``(N, S)``, or those of all sequences joined.
        input_lengths: number of predictions of each sequence.
        target_lengths: number of labels of each sequence.
        blank: index of the blank label.
        reduction: "mean" (of the losses divided by the lengths of the targets), "sum", or "none"
            for a loss per sequence.
        zero_infinity: replace infinite losses, of targets too long for their input, by zero.

    Example:
        >>> frames = torch.full((2, 1, 2), 0.5).log()
        >>> torch.nn.functional.ctc_loss(frames, torch.tensor([[1]]), (2,), (1,))
        tensor(0.2877)
    """
    reduction = reduction_of(None, None, reduction)
    _check_kinds(log_probs, targets, input_lengths, target_lengths, blank)
    inputs, wanted = (
        reshape(raw(x), (-1,)) if is_lifted(x) else arrays.sequences.as_lengths(raw(x))
        for x in (input_lengths, target_lengths)
    )
    batched = log_probs.ndim == 3
    if not batched:
        log_probs = unsqueeze(log_probs, dim=1)
    _check(log_probs, targets, inputs, wanted, blank)
    losses = ctc_op(
        log_probs, targets, input_lengths=inputs, target_lengths=wanted, blank=blank,
        zero_infinity=zero_infinity,
    )[0]  # fmt: skip
    if zero_infinity:
        values = raw(losses)
        losses = where(isinf(values), zeros_like(values), losses)
    if reduction == "mean":
        dtype = raw(losses).dtype
        if is_lifted(wanted):
            sizes = maximum(to_dtype(wanted, dtype=dtype), arrays.asarray(1, dtype))
        else:
            sizes = arrays.asarray([max(n, 1) for n in wanted], dtype)
        return reductions.mean(losses / sizes)
    if reduction == "sum":
        return reductions.sum(losses)
    return losses if batched else squeeze_dim(losses, dims=(0,))
