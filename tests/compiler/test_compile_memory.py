"""Results of compiled functions, and gradients, share memory only where eager ones do."""

from typing import Any

import pytest

import retrograd as torch
from retrograd import nn


def weights(*sizes: int) -> list[Any]:
    return [torch.linspace(0.5, size, size).requires_grad_() for size in sizes]


USES = {
    "sum": lambda w, v: (w + v) * torch.arange(3.0),
    "cat": lambda w, v: torch.cat([w, v]).sin(),
    "stack": lambda w, v: torch.stack([w, v]).sin(),
    "view": lambda w, v: (w.view(3, 1) + v.view(3, 1)).sin(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("clipped", [False, True])
def test_gradients_share_no_memory(use: str, clipped: bool) -> None:
    """Rules may return the same array, or parts of one, for several parameters."""
    results = []
    for compiled in (False, True):
        pair = weights(3, 3) if use != "cat" else weights(3, 2)
        optimizer = torch.optim.SGD(pair, 0.1)

        def step(pair: Any = pair, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            USES[use](*pair).sum().backward()
            if clipped:
                nn.utils.clip_grad_norm_(pair, 0.5)
            optimizer.step()

        run = torch.compile(step, fullgraph=True) if compiled else step
        values = []
        for _ in range(3):
            run()
            values += [x.tolist() for w in pair for x in (w, w.grad)]
            pair[0].grad.add_(1)
            values.append(pair[1].grad.tolist())
        results.append(values)
    assert results[1] == results[0]


def test_a_gradient_that_is_an_argument_is_copied() -> None:
    (w,), ones = weights(3), torch.ones(3)

    @torch.compile(fullgraph=True)
    def scaled(g: Any) -> None:
        w.view_as(w).backward(g)
        w.grad.mul_(2)

    for _ in range(3):
        w.grad = None
        scaled(ones)
        assert w.grad.tolist() == [2.0] * 3
        w.grad.add_(1)
        assert ones.tolist() == [1.0] * 3


def test_parts_of_one_tensor_as_gradients() -> None:
    w, v = weights(2, 3)

    @torch.compile(fullgraph=True)
    def store(x: Any) -> None:
        twice = x * 2
        w.grad, v.grad = twice[:2], twice[2:]

    for _ in range(3):
        store(torch.arange(5.0))
        assert (w.grad.tolist(), v.grad.tolist()) == ([0, 2], [4, 6, 8])


COPIES = {
    "clone": lambda x: x.clone().t(),
    "row of a clone": lambda x: x.clone()[0],
    "times one": lambda x: (x * 1.0).t(),
    "minus zero": lambda x: (x - 0.0)[:, 1],
}


@pytest.mark.parametrize("name", COPIES)
def test_a_view_of_a_copy_of_an_argument(name: str) -> None:
    function = torch.compile(COPIES[name], fullgraph=True)
    x = torch.ones(2, 3)
    for _ in range(3):
        function(x).add_(1)
        assert x.tolist() == [[1.0] * 3] * 2


def row_and_original(x: Any) -> Any:
    y = x * 2
    return y.clone()[0], y


def row_before_a_write(x: Any) -> Any:
    y = x * 2
    row = y.clone()[0]
    y[:, 0] = 9.0
    return row, y


def transpose_before_a_write(x: Any) -> Any:
    y = x * 2
    transposed = (y * 1.0).t()
    y.fill_(3.0)
    return transposed + transposed, y + 1


@pytest.mark.parametrize("function", [
    row_and_original, row_before_a_write, transpose_before_a_write,
])
@pytest.mark.parametrize("shape", [(2, 3), (200, 300)])
def test_views_of_copies_are_not_overwritten(function: Any, shape: Any) -> None:
    run = torch.compile(function, fullgraph=True)
    x = torch.ones(shape)
    expected = [y.tolist() for y in function(x)]
    for _ in range(3):
        first, second = run(x)
        assert [first.tolist(), second.tolist()] == expected
        first.add_(1)
        assert second.tolist() == expected[1]


def overwritten_results(x: Any) -> dict[str, tuple[Any, Any]]:
    """Results that users may overwrite, and results whose derivatives need the same values."""
    y, mask, constant = x.exp(), (x.detach() > 0).float(), torch.ones(2, 2) * 2
    return {
        "detached": (y.detach(), y.sin()),
        "view": (y.detach().t(), y.sin()),
        "row": (y.detach()[0], y.sin()),
        "with a history": (y, y.sin()),
        "mask": (mask, x * mask),
        "constant": (constant, x * constant),
    }


@pytest.mark.parametrize("name", overwritten_results(torch.ones(2, 2)))
def test_results_that_are_overwritten_before_backward(name: str) -> None:
    """The gradient is that of the call, where an eager call would raise an error."""
    function = torch.compile(lambda x: overwritten_results(x)[name], fullgraph=True)
    x = torch.linspace(-1, 1, 4).view(2, 2).requires_grad_()
    (expected,) = torch.autograd.grad(overwritten_results(x)[name][1].sum(), x)
    for _ in range(3):
        first, second = function(x)
        with torch.no_grad():
            first.add_(1)
        (found,) = torch.autograd.grad(second.sum(), x)
        assert found.tolist() == expected.tolist()


def test_a_result_that_is_overwritten_with_history() -> None:
    function = torch.compile(torch.sigmoid, fullgraph=True)
    x = torch.linspace(-1, 1, 3).requires_grad_()
    expected = (torch.sigmoid(x) * (1 - torch.sigmoid(x)) * 3).tolist()
    for _ in range(3):
        (found,) = torch.autograd.grad(function(x).mul_(3).sum(), x)
        assert found.tolist() == pytest.approx(expected)


def test_a_parameter_that_is_overwritten_before_backward() -> None:
    """The program may have saved a view of it."""
    model = nn.Linear(3, 3)
    function = torch.compile(lambda x: model(x.tanh()), fullgraph=True)
    for _ in range(3):
        y = function(torch.ones(2, 3, requires_grad=True))
        with torch.no_grad():
            model.weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_views_of_arguments_that_require_grad() -> None:
    """A program cannot create them: writing to one changes the other, and its gradient."""
    compiled = torch.compile(lambda x: x.view(-1))
    leaf = torch.ones(2, 2, requires_grad=True)
    with pytest.warns(UserWarning, match="a new view of a tensor that requires grad"):
        compiled(leaf * 1)
    x = leaf * 1
    compiled(x).mul_(3)
    x.sum().backward()
    assert leaf.grad.tolist() == [[3, 3], [3, 3]]
