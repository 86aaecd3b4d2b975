"""Losses in forward mode, by every argument that moves: those too that reverse mode refuses."""

from typing import Any

import numpy as np
import pytest

import retrograd as torch

F = torch.nn.functional
RANDOM = np.random.default_rng(0)
X, Y, W = (RANDOM.uniform(0.1, 0.9, (4, 3)) for _ in range(3))
ROW, SIGNS, CLASSES = W[0], np.sign(X - 0.5), torch.tensor([0, 2, 1, 1])


def tensor(array: Any) -> Any:
    return torch.from_numpy(np.array(array))


MOVING = {
    "huber_loss": (lambda x, y: F.huber_loss(x, y, delta=0.2), (X, Y)),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.2), (X, Y)),
    "binary_cross_entropy": (lambda x, y, w: F.binary_cross_entropy(x, y, w), (X, Y, W)),
    "binary_cross_entropy_with_logits": (
        lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p),
        (X, Y, W, ROW),
    ),
    "soft_margin_loss": (lambda x, y: F.soft_margin_loss(x, y), (X, SIGNS)),
    "soft_margin_loss of complex numbers": (
        lambda x, y: F.soft_margin_loss(x, y), (X + 1j * Y, SIGNS),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVING)
def test_each_argument_moves_a_loss_as_differences_say(name: str) -> None:
    loss, arrays = MOVING[name]
    for i, array in enumerate(arrays):
        t = RANDOM.standard_normal(array.shape)
        t = t + 1j * RANDOM.standard_normal(array.shape) if array.dtype.kind == "c" else t

        def function(x: Any, i: int = i) -> Any:
            given = [tensor(a) for a in arrays]
            return loss(*given[:i], x, *given[i + 1 :])

        moved = torch.func.jvp(function, (tensor(array),), (tensor(t),))[1]
        ends = [function(tensor(array + step * t)) for step in (1e-6, -1e-6)]
        slope = (ends[0] - ends[1]) / 2e-6
        assert moved.item() == pytest.approx(slope.item(), rel=1e-6, abs=1e-8), i


@pytest.mark.parametrize(
    "loss",
    [
        lambda w: F.nll_loss(tensor(X), CLASSES, w),
        lambda w: F.cross_entropy(tensor(X), CLASSES, w),
        lambda w: F.multi_margin_loss(tensor(X), CLASSES, weight=w),
    ],
)
def test_weights_that_cannot_move_are_refused(loss: Any) -> None:
    """A tangent of 0 would be wrong."""
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        torch.func.jvp(loss, (tensor(ROW),), (tensor(ROW),))
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        loss(tensor(ROW).requires_grad_())


def test_a_target_of_soft_margins_has_no_gradient() -> None:
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'target'"):
        F.soft_margin_loss(tensor(X), tensor(SIGNS).requires_grad_())


def test_complex_soft_margins_without_a_gradient() -> None:
    z = X + 1j * Y
    expected = np.log1p(np.exp(-SIGNS * z))
    whole = F.soft_margin_loss(tensor(z), tensor(SIGNS), reduction="none")
    assert whole.numpy() == pytest.approx(expected)
    batched = torch.func.vmap(F.soft_margin_loss)(tensor(z), tensor(SIGNS))
    assert batched.numpy() == pytest.approx(expected.mean(1))
    with pytest.raises(RuntimeError, match="soft_margin_loss does not support automatic"):
        F.soft_margin_loss(tensor(z).requires_grad_(), tensor(SIGNS))


def test_what_is_detached_in_place_does_not_move() -> None:
    x = tensor(ROW)

    def function(x: Any) -> Any:
        y = x * 2
        y.detach_()
        return y * x

    moved = torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]
    assert moved.numpy() == pytest.approx(2 * ROW)  # of the second factor alone


def test_a_quotient_by_zero_moves_to_the_right_side() -> None:
    def quotient(x: Any) -> Any:
        return (1 + x) / x

    zero = torch.zeros((), dtype=torch.float64)
    for t, expected in ((1.0, -np.inf), (-1.0, np.inf)):
        assert torch.func.jvp(quotient, (zero,), (torch.full_like(zero, t),))[1].item() == expected
