"""Losses and distances where some numbers are not finite."""

from typing import Any

import pytest

import retrograd as torch

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
HOLES = [[-INF, 0.0, 0.0], [1.0, 2.0, 3.0], [NAN, INF, 1.0]]
CLASSES = [-100, 2, -100]


def images(x: Any) -> Any:
    """Rows of classes as an image of one row, with the classes along dimension 1."""
    return x.T.reshape(1, 3, 1, 3)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, [5.0, 5.0, 2.0]])
@pytest.mark.parametrize("as_image", [False, True])
def test_numbers_of_ignored_targets_do_not_count(
    reduction: str, weight: Any, as_image: bool
) -> None:
    target = torch.tensor(CLASSES)
    factor = 1.0 if weight is None else 2.0
    divisor = factor if reduction == "mean" else 1.0
    weight = None if weight is None else torch.tensor(weight)

    def loss(x: Any) -> Any:
        args = (images(x), target.reshape(1, 1, 3)) if as_image else (x, target)
        return F.nll_loss(*args, weight=weight, reduction=reduction)

    x = torch.tensor(HOLES, requires_grad=True)
    value = -3.0 * factor / divisor
    assert loss(x).flatten().tolist() == ([0.0, value, 0.0] if reduction == "none" else [value])

    slope = -factor / divisor
    (grad,) = torch.autograd.grad(loss(x).sum(), x, create_graph=True)
    expected = [[0.0] * 3, [0.0, 0.0, slope], [0.0] * 3]
    assert grad.tolist() == expected
    assert torch.func.grad(lambda x: loss(x).sum())(x.detach()).tolist() == expected
    many = torch.stack([x.detach(), x.detach()])
    batched = torch.func.vmap(loss)(many)
    assert batched.reshape(2, -1).tolist() == [loss(x).flatten().tolist()] * 2
    slopes = torch.func.vmap(torch.func.grad(lambda x: loss(x).sum()))(many)
    assert slopes.tolist() == [expected] * 2
    moved = torch.func.jvp(loss, (x.detach(),), (x.detach(),))[1]  # a linear function
    assert moved.tolist() == loss(x).tolist()


def test_gradients_of_ignored_losses_do_not_count() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    given = torch.tensor([INF, 2.0], requires_grad=True)
    losses = F.nll_loss(x, torch.tensor([1, 0]), ignore_index=1, reduction="none")
    (grad,) = torch.autograd.grad(losses, x, given, create_graph=True)
    assert grad.tolist() == [[0.0, 0.0], [-2.0, 0.0]]
    (back,) = torch.autograd.grad(grad, given, torch.tensor([[INF, NAN], [3.0, NAN]]))
    assert back.tolist() == [0.0, -3.0]


def test_cross_entropy_of_ignored_infinities() -> None:
    x, target = torch.tensor(HOLES), torch.tensor(CLASSES)
    alone = F.cross_entropy(x[1:2], target[1:2])
    assert F.cross_entropy(x, target).item() == alone.item()
    smooth = {"label_smoothing": 0.25, "weight": torch.tensor([1.0, 2.0, 3.0])}
    alone = F.cross_entropy(x[1:2], target[1:2], **smooth)
    assert F.cross_entropy(x, target, **smooth).item() == pytest.approx(alone.item(), rel=1e-6)


def test_margins_that_do_not_count() -> None:
    # The third class is no label, and the -1 ends the labels before it.
    labels = torch.tensor([[-1, 0, 1]])
    assert F.multilabel_margin_loss(torch.tensor([[0.0, 1.0, INF]]), labels).item() == 0
    labels = torch.tensor([[2, -1, 0]])
    assert F.multilabel_margin_loss(torch.tensor([[-INF, 1.0, INF]]), labels).item() == 0
    scores = torch.tensor([[0.5, 0.5, NAN]])
    assert F.multi_margin_loss(scores, torch.tensor([1])).item() == pytest.approx(1 / 3)


def test_margins_differentiated_twice() -> None:
    x = torch.tensor([[0.5, 0.0, -3.0]], dtype=torch.float64)
    hessian = [2 / 3, -2 / 3, 0.0, -2 / 3, 2 / 3, 0.0, 0.0, 0.0, 0.0]

    def loss(x: Any) -> Any:  # (1 - 0.5 + 0)² / 3
        return F.multi_margin_loss(x, torch.tensor([0]), p=2)

    for found in (torch.func.hessian(loss)(x), torch.autograd.functional.hessian(loss, x)):
        assert found.flatten().tolist() == pytest.approx(hessian)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(loss(x), x, create_graph=True)
    assert grad.tolist() == [pytest.approx([-1 / 3, 1 / 3, 0.0])]
    (back,) = torch.autograd.grad(grad[0, 0], x)
    assert back.tolist() == [pytest.approx([2 / 3, -2 / 3, 0.0])]
    several = torch.tensor([[0, 2, -1], [1, -1, 0]])
    y = torch.tensor([[0.1, 0.3, 0.8], [0.2, -0.4, 0.5]], dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda y: F.multilabel_margin_loss(y, several), y)


@pytest.mark.parametrize(
    ("loss", "target", "message"),
    [
        (F.multi_margin_loss, [0, 3], "target out of range"),
        (F.multi_margin_loss, [-1, 0], "target out of range"),
        (F.multilabel_margin_loss, [[0, 3, -1], [0, -1, 0]], "'target' is out of range"),
        (F.multilabel_margin_loss, [[0, -1, 0], [-2, 0, 1]], "'target' is out of range"),
        (F.nll_loss, [0, 3], "Target 3 is out of bounds"),
        (F.nll_loss, [-1, 0], "Target -1 is out of bounds"),
        (F.binary_cross_entropy, [[1.0] * 3] * 2, "between 0 and 1"),
    ],
)
def test_values_that_are_refused_under_transforms(loss: Any, target: Any, message: str) -> None:
    x, target = torch.full((2, 3), 2.0), torch.tensor(target)
    several = torch.stack([x, x]), torch.stack([target, target])
    with pytest.raises((RuntimeError, IndexError), match=message):
        loss(x, target)
    with pytest.raises((RuntimeError, IndexError), match=message):
        torch.func.vmap(loss)(*several)
    with pytest.raises((RuntimeError, IndexError), match=message):
        torch.func.jvp(lambda x: loss(x, target), (x,), (x,))
    with pytest.raises((RuntimeError, IndexError), match=message):
        torch.func.vmap(torch.func.grad(loss))(*several)


@pytest.mark.parametrize("loss", [F.mse_loss, F.huber_loss, F.smooth_l1_loss, F.soft_margin_loss])
def test_targets_of_another_dtype_under_transforms(loss: Any) -> None:
    x = torch.tensor([[0.25, -1.5], [2.0, 0.5]])
    for target in (torch.tensor([[True, False], [True, True]]), torch.tensor([[1, -1], [1, 1]])):
        expected = [loss(a, b).item() for a, b in zip(x, target, strict=True)]
        assert torch.func.vmap(loss)(x, target).tolist() == pytest.approx(expected)
        slope = torch.func.grad(loss)(x, target)
        moved = torch.func.jvp(lambda x, t=target: loss(x, t), (x,), (x,))[1]
        assert moved.item() == pytest.approx((slope * x).sum().item())


def test_distances_that_count_differences_pass_on_nan() -> None:
    x = torch.tensor([[INF, 1.0], [INF, 2.0], [-INF, 1.0], [0.0, 1.0]])
    assert str(F.pdist(x, 0).tolist()) == "[nan, 1.0, 1.0, 2.0, 2.0, 1.0]"
    assert str(torch.cdist(x[:1], x, 0).tolist()) == "[[nan, nan, 1.0, 1.0]]"


@pytest.mark.parametrize("loss", [F.huber_loss, F.soft_margin_loss])
def test_losses_in_the_dtype_of_the_input(loss: Any) -> None:
    x, y = torch.tensor([1.25, 3.0], requires_grad=True), torch.tensor([1.0, -1.0])
    wide = loss(x, y.double())
    assert wide.dtype is torch.float32
    assert wide.item() == pytest.approx(loss(x, y).item())
    assert loss(x, y.double(), reduction="none").dtype is torch.float32
    (grad,) = torch.autograd.grad(wide, x)
    assert grad.dtype is torch.float32
    assert grad.tolist() == pytest.approx(torch.autograd.grad(loss(x, y), x)[0].tolist())
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output"):
        loss(torch.tensor([1, 3]), y)


def test_binary_cross_entropy_refuses_other_dtypes() -> None:
    x = torch.tensor([0.25, 0.5])
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        F.binary_cross_entropy(x, x.double())


def test_cosine_similarity_of_floats_and_integers() -> None:
    x = torch.tensor([[3.0, 4.0]], requires_grad=True)
    found = F.cosine_similarity(x, torch.tensor([[1, 0]]))
    assert (found.tolist(), found.dtype) == ([pytest.approx(0.6)], torch.float32)
    (grad,) = torch.autograd.grad(found.sum(), x)
    assert grad.tolist() == [pytest.approx([0.128, -0.096])]


@pytest.mark.parametrize(
    ("name", "names"),
    [("MSELoss", "input target"), ("SmoothL1Loss", "input target"),
     ("GaussianNLLLoss", "input target var"), ("MarginRankingLoss", "input1 input2 target"),
     ("TripletMarginLoss", "anchor positive negative")],
)  # fmt: skip
def test_modules_take_tensors_by_name(name: str, names: str) -> None:
    given = [torch.tensor([[1.0, 2.5]]), torch.tensor([[0.5, 1.0]]), torch.tensor([[1.0, 2.0]])]
    named = dict(zip(names.split(), given, strict=False))
    loss = getattr(torch.nn, name)()
    assert loss(**named).item() == loss(*named.values()).item()


@pytest.mark.filterwarnings("ignore:.*different to the input size")
def test_gradients_of_operands_that_have_the_shape_of_the_result_and_were_broadcast() -> None:
    x = torch.tensor(0.5, requires_grad=True)
    y = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    torch.nn.functional.mse_loss(x, y).backward()
    assert x.grad.shape == ()
    assert x.grad.item() == pytest.approx(-3.0)
    assert y.grad.tolist() == pytest.approx([1 / 3, 1.0, 5 / 3])

    mask = torch.tensor([[True, False, True], [False, False, True]])
    y.grad = None
    (y.masked_select(mask) * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert y.grad.tolist() == [1, 0, 110]
