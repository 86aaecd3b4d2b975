"""Log-space sums over all alignments of labels with frames (CTC), for a whole batch.

The labels of a sequence are laid out with blanks between and around them: positions ``0, 2, 4...``
are blanks. An alignment starts at one of the first two positions and ends at one of the last two.
With each frame it stays, advances by one, or skips a blank between two labels that differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from retrograd.arrays._numpy import Raw

Lengths = tuple[int, ...]
_NEVER = -np.inf


class _Layout(NamedTuple):
    """Labels with blanks, one row for each sequence."""

    labels: Raw  # (batch, positions)
    skips: Raw  # (batch, positions): 0 if the position two before may lead here, else -inf
    ends: Raw  # (batch,): the last position


def _lay_out(targets: Raw, target_lengths: Lengths, blank: int) -> _Layout:
    lengths = np.asarray(target_lengths, np.int64)
    most = int(lengths.max(initial=0))
    labels = np.full((len(lengths), 2 * most + 1), blank, np.int64)
    if targets.ndim == 1:
        inside = np.arange(most) < lengths[:, None]
        labels[:, 1::2][inside] = targets
    else:
        labels[:, 1::2] = targets[:, :most]
    skips = np.full(labels.shape, _NEVER)
    skips[:, 3::2][labels[:, 3::2] != labels[:, 1:-2:2]] = 0
    return _Layout(labels, skips, 2 * lengths)


def _moved(x: Raw, by: int) -> Raw:
    """``x`` with its columns moved to the right (or left), and nothing in their place."""
    out = np.full_like(x, _NEVER)
    if by > 0:
        out[:, by:] = x[:, :-by]
    else:
        out[:, :by] = x[:, -by:]
    return out


def _emissions(log_probs: Raw, layout: _Layout) -> Raw:
    """The log-probability of each position in each frame; none of positions beyond the last."""
    frames = np.broadcast_to(layout.labels, (len(log_probs), *layout.labels.shape))
    result = np.take_along_axis(log_probs, frames, 2)
    beyond = np.arange(result.shape[2]) > layout.ends[:, None]
    return np.where(beyond, log_probs.dtype.type(_NEVER), result)


def ctc(
    log_probs: Raw, targets: Raw, input_lengths: Lengths, target_lengths: Lengths, blank: int
) -> tuple[Raw, Raw]:
    """The negative log-likelihoods of the targets, and the log-probabilities of all beginnings of
    alignments, by sequence, frame and place."""
    layout = _lay_out(targets, target_lengths, blank)
    emitted = _emissions(log_probs, layout)
    frames, batch, positions = emitted.shape
    alpha = np.full((batch, frames, positions), _NEVER, log_probs.dtype)
    skips = layout.skips.astype(log_probs.dtype)
    if frames:
        alpha[:, 0, :2] = emitted[0, :, :2]
    for t in range(1, frames):
        before = alpha[:, t - 1]
        paths = np.logaddexp(before, _moved(before, 1))
        if positions > 2:
            paths = np.logaddexp(paths, _moved(before, 2) + skips)
        alpha[:, t] = paths + emitted[t]
    rows, last = np.arange(batch), np.asarray(input_lengths, np.int64) - 1
    final = alpha[rows, last] if frames else np.zeros((batch, positions), log_probs.dtype)
    at_end = final[rows, layout.ends]
    before_end = np.where(layout.ends > 0, final[rows, layout.ends - 1], _NEVER)
    losses = -np.logaddexp(at_end, before_end).astype(log_probs.dtype)
    nothing = np.where(layout.ends > 0, np.inf, 0)  # the loss where there are no frames at all
    return np.where(last < 0, nothing, losses).astype(log_probs.dtype), alpha


def ctc_backward(
    g: Raw, log_probs: Raw, losses: Raw, alpha: Raw, targets: Raw, lengths: tuple[Lengths, Lengths],
    blank: int, zero_infinity: bool,
) -> Raw:  # fmt: skip
    """The gradient with respect to what ``log_softmax`` gave ``log_probs`` for: probabilities less
    how often each class is expected to be said in a frame."""
    layout = _lay_out(targets, lengths[1], blank)
    emitted = _emissions(log_probs, layout)
    frames, batch, positions = emitted.shape
    skips = layout.skips.astype(log_probs.dtype)
    last = np.asarray(lengths[0], np.int64) - 1
    ending = np.full((batch, positions), _NEVER, log_probs.dtype)
    rows = np.arange(batch)
    ending[rows, np.maximum(layout.ends - 1, 0)] = 0
    ending[rows, layout.ends] = 0
    out = np.exp(log_probs)
    beta = np.full((batch, positions), _NEVER, log_probs.dtype)
    for t in range(frames - 1, -1, -1):
        paths = np.logaddexp(beta, _moved(beta, -1))
        if positions > 2:
            paths = np.logaddexp(paths, _moved(beta + skips, -2))
        paths = np.where((last == t)[:, None], ending, paths)
        expected = np.exp(alpha[:, t] + paths + losses[:, None])
        for position in range(positions):
            out[t, rows, layout.labels[:, position]] -= expected[:, position]
        beta = paths + emitted[t]
    out *= np.asarray(g)[:, None]
    out[np.arange(frames)[:, None] > last] = 0
    if zero_infinity:
        out[:, np.isinf(losses)] = 0
    return out


def as_lengths(values: Any) -> Lengths:
    """Lengths given as an array or as a sequence of numbers."""
    return tuple(int(v) for v in np.asarray(values).reshape(-1))
