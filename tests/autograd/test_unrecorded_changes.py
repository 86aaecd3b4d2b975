"""Shapes and dtypes that change where nothing is recorded."""

import pytest

import retrograd as torch


def leaf() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3).requires_grad_()


def by_data(shape):
    def change(y):
        y.data = y.detach().clone().as_strided(shape, (0,) * len(shape))

    return change


MISFITS = {
    "t_": lambda y: y.t_(),
    "transpose_": lambda y: y.transpose_(0, 1),
    "unsqueeze_": lambda y: y.unsqueeze_(1),
    "as_strided_": lambda y: y.as_strided_((6,), (1,)),
    "fewer dimensions": lambda y: y.as_strided_((3,), (1,)),
    "set_": lambda y: y.set_(torch.ones(3, 2)),
    "out": lambda y: torch.mul(torch.ones(3, 2), 2, out=y),
    "data": by_data((3, 2)),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("change", MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("used_before", [False, True])
def test_a_gradient_of_another_shape_is_an_error(change, used_before) -> None:
    x = leaf()
    y = x * 2
    loss = (y * 3).sum() if used_before else 0
    with torch.no_grad():
        change(y)
    with pytest.raises(RuntimeError, match=r"cannot be passed on to MulBackward0, .*\[2, 3\]"):
        torch.autograd.grad((y * y).sum() + loss, x)
    assert x.grad is None


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("change", MISFITS.values(), ids=MISFITS)
def test_a_leaf_of_another_shape_takes_no_gradients_of_the_former_one(change) -> None:
    x = leaf()
    before = (x * 3).sum()
    with torch.no_grad():
        change(x)
    shape = x.shape
    for loss in (before, before + (x * x).sum()):
        with pytest.raises(RuntimeError, match=r"shape \[2, 3\] cannot be added to that of a leaf"):
            torch.autograd.grad(loss, x, retain_graph=True)
    (x * x).sum().backward()
    assert x.grad.shape == shape
    assert torch.equal(x.grad, 2 * x.detach())


def test_a_gradient_of_copies_is_summed() -> None:
    x = leaf()
    y = x * 2
    loss = (y * 3).sum()
    with torch.no_grad():
        y.as_strided_((4, 2, 3), (0, 3, 1))
    (gradient,) = torch.autograd.grad((y * y).sum() + loss, x, create_graph=True)
    # PyTorch gives the same: 4 times 2 y dy/dx, and 3 dy/dx.
    assert torch.equal(gradient, 4 * 8 * x + 6)
    assert torch.equal(torch.autograd.grad(gradient.sum(), x)[0], torch.full((2, 3), 32.0))


def test_a_gradient_has_the_dtype_of_the_history() -> None:
    x = leaf()
    y = x * 2
    y.data = torch.full((2, 3), 5.0, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((y * y).sum(), x)
    assert gradient.dtype is torch.float32
    assert torch.equal(gradient, torch.full((2, 3), 20.0))


def test_a_leaf_in_another_dtype_takes_gradients_of_both() -> None:
    x = leaf()
    x.register_hook(lambda g: g * 10)
    before = (x * 3).sum()
    x.data = x.data.double()
    (before + (x * x).sum()).backward()
    assert x.grad.dtype is torch.float64
    assert torch.equal(x.grad, 10 * (2 * x.detach() + 3))


def test_views_follow_a_base_whose_shape_has_changed() -> None:
    x = leaf()
    y = x * 2
    view = y[:, :2]
    with torch.no_grad():
        view.t_()
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    (gradient,) = torch.autograd.grad((view * weights).sum(), x)
    assert torch.equal(gradient, torch.tensor([[2.0, 6.0, 0.0], [4.0, 8.0, 0.0]]))
    with torch.no_grad():
        y.t_()
    with pytest.raises(RuntimeError, match="cannot be passed on"):
        torch.autograd.grad((view * weights).sum(), x)


def test_a_view_of_another_shape_has_the_history_of_its_elements() -> None:
    x = leaf()
    y = x * 2
    view = y[:1]
    with torch.no_grad():
        view.t_()
    (gradient,) = torch.autograd.grad((view * torch.tensor([[1.0], [2.0], [3.0]])).sum(), x)
    assert torch.equal(gradient, torch.tensor([[2.0, 4.0, 6.0], [0.0, 0.0, 0.0]]))
