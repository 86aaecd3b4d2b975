"""Connectionist temporal classification: how unlikely frames of class probabilities make a sequence
of labels, whatever frames these are said in."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw
from retrograd.ops import reducing
from retrograd.ops._operation import Operation, raw
from retrograd.ops._refusals import kernel
from retrograd.ops.elementwise import where
from retrograd.ops.linear import squeeze_dim, unsqueeze
from retrograd.ops.networks.losses import reduction_of

Lengths = tuple[int, ...]


def _ctc(
    log_probs: Raw, targets: Raw, input_lengths: Lengths, target_lengths: Lengths, blank: int,
    zero_infinity: bool,
) -> tuple[Raw, Raw]:  # fmt: skip
    return arrays.sequences.ctc(log_probs, targets, input_lengths, target_lengths, blank)


def _ctc_slope(
    grad_output: Raw, log_probs: Raw, losses: Raw, log_alpha: Raw, targets: Raw,
    lengths: tuple[Lengths, Lengths], blank: int, zero_infinity: bool,
) -> Raw:  # fmt: skip
    return arrays.sequences.ctc_slope(
        grad_output, log_probs, losses, log_alpha, targets, lengths, blank, zero_infinity
    )


def _ctc_rule(
    g: Any, log_probs: Any, result0: Any, result1: Any, targets: Any, input_lengths: Lengths,
    target_lengths: Lengths, blank: int, zero_infinity: bool,
) -> Any:  # fmt: skip
    return ctc_slope(
        g[0], log_probs, raw(result0), raw(result1), targets=raw(targets),
        lengths=(input_lengths, target_lengths), blank=blank, zero_infinity=zero_infinity,
    )  # fmt: skip


def _no_second(g: Any) -> Any:
    raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")


ctc_slope = Operation(
    "ctc_slope", _ctc_slope, inputs=("grad_output", "log_probs", "losses", "log_alpha"),
    rules={"grad_output": _no_second, "log_probs": _no_second}, node="NotImplemented",
)  # fmt: skip
ctc_op = Operation(
    "ctc_loss", _ctc, inputs=("log_probs", "targets"), outputs=("result0", "result1"),
    rules={"log_probs": _ctc_rule},
    check=lambda log_probs, targets, **options: kernel("ctc_loss_cpu", "biuc")(log_probs),
)  # fmt: skip


def _check(log_probs: Any, targets: Any, inputs: Lengths, wanted: Lengths, blank: int) -> None:
    frames, batch, classes = log_probs.shape
    require(0 <= blank < classes, "blank must be in label range")
    require(len(inputs) == batch, "input_lengths must be of size batch_size")
    require(len(wanted) == batch, "target_lengths must be of size batch_size")
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
        require(
            sum(wanted) == targets.shape[0],
            f"Expected tensor to have size {sum(wanted)} at dimension 0, but got size "
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


def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """How unlikely ``log_probs`` (frames, batch, classes) make the labels ``targets``, summed over
    all alignments of labels with frames.

    As in PyTorch, the gradient of ``log_probs`` is the one to hand to ``log_softmax``: it differs
    from that of free numbers by their exponentials, which do not matter there.

    >>> import retrograd as torch
    >>> frames = torch.full((2, 1, 2), 0.5).log()
    >>> torch.nn.functional.ctc_loss(frames, torch.tensor([[1]]), (2,), (1,))
    tensor(0.2877)
    """
    reduction = reduction_of(None, None, reduction)
    inputs, wanted = (
        arrays.sequences.as_lengths(raw(x) if hasattr(x, "_data") else x)
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
        losses = where(arrays.isinf(values), arrays.zeros_like(values), losses)
    if reduction == "mean":
        sizes = arrays.asarray([max(n, 1) for n in wanted], raw(losses).dtype)
        return reducing.mean(losses / sizes)
    if reduction == "sum":
        return reducing.sum(losses)
    return losses if batched else squeeze_dim(losses, dims=(0,))
