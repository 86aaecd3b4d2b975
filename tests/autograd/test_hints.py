"""Hints below the messages of common errors: the user's line, the cause, and what to do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import retrograd as torch
from retrograd import nn
from retrograd.nn import functional


def hint_of(error: type[Exception], call: Callable[[], object]) -> str:
    """What is said below the message of an error."""
    with pytest.raises(error) as caught:
        call()
    return "\n".join(getattr(caught.value, "__notes__", ()))


def line_of(function: Callable[..., object], text: str, which: int = 0) -> str:
    """``test_hints.py:12`` for a line of a function."""
    lines, start = inspect.getsourcelines(function)
    found = [start + i for i, line in enumerate(lines) if text in line]
    return f"test_hints.py:{found[which]}:"


def test_backward_of_a_vector() -> None:
    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.backward()

    hint = hint_of(RuntimeError, program)
    assert f"at {line_of(program, 'y.backward')} y.backward()" in hint
    assert "y has shape [3]" in hint
    assert "y.sum().backward()" in hint
    assert "y.backward(gradient=v), with v of shape [3]" in hint


def test_backward_of_something_without_elements() -> None:
    x = torch.ones(0, requires_grad=True)
    assert "shape [0]" in hint_of(RuntimeError, (x * 2).backward)


def test_the_same_backward_twice() -> None:
    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        loss = (x * x).sum()
        loss.backward()  # first
        loss.backward()  # second

    hint = hint_of(RuntimeError, program)
    assert f"by the first backward at {line_of(program, '# first')}" in hint
    assert f"at {line_of(program, '# second')}" in hint
    assert "compute the loss again" in hint


def test_two_losses_of_one_graph() -> None:
    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        shared = x.exp()
        first, second = (shared * shared).sum(), shared.sin().sum()
        first.backward()
        second.backward()

    hint = hint_of(RuntimeError, program)
    assert f"share exp at {line_of(program, 'x.exp')}" in hint
    assert f"by the first backward at {line_of(program, 'first.backward')}" in hint
    assert "(loss1 + loss2).backward()" in hint


def test_hidden_state_that_is_carried_over() -> None:
    def program() -> None:
        w = torch.ones(2, 2, requires_grad=True)
        state = torch.zeros(2)
        for _ in range(2):
            state = torch.tanh(w @ state + 1)
            loss = state.sum()
            loss.backward()

    hint = hint_of(RuntimeError, program)
    carried = "state is carried over from before the first backward, at "
    assert carried + line_of(program, "loss.backward") in hint
    assert f"It was made at {line_of(program, 'torch.tanh')}" in hint
    assert "state = state.detach()" in hint
    assert "call the first with retain_graph" not in hint


def test_hidden_state_of_a_layer() -> None:
    def program() -> None:
        rnn = nn.LSTM(2, 2)
        state = None
        for _ in range(2):
            out, state = rnn(torch.ones(3, 1, 2), state)
            out.sum().backward()

    hint = hint_of(RuntimeError, program)
    assert f"at {line_of(program, 'rnn(torch')}" in hint
    assert ".detach()" in hint


def test_value_that_was_computed_before_the_loop() -> None:
    def program() -> None:
        w = torch.ones(2, requires_grad=True)
        scale = w.exp()
        for i in range(2):
            loss = (scale * i).square().sum()
            loss.backward()

    hint = hint_of(RuntimeError, program)
    assert f"scale was computed once, at {line_of(program, 'w.exp')}" in hint
    assert "move that line into the loop" in hint


def test_passes_that_do_not_come_to_the_node_are_not_blamed() -> None:
    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        loss = x.exp().sum()
        loss.backward()  # first
        x.sin().sum().backward()  # another
        loss.backward()

    assert line_of(program, "# first") in hint_of(RuntimeError, program)
    assert line_of(program, "# another") not in hint_of(RuntimeError, program)


@pytest.mark.parametrize("text", ["w -= 0.1", "w[0] = 3.0", "w.zero_()"])
def test_leaf_written_in_place(text: str) -> None:
    w = torch.ones(3, requires_grad=True)
    hint = hint_of(RuntimeError, lambda: exec(text, {"w": w}))
    assert "w is a leaf" in hint
    assert "with torch.no_grad():" in hint
    assert "w.clone()" in hint


def test_saved_value_written_in_place() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    y += 1
    assert "x = x + 1, not x += 1" in hint_of(RuntimeError, loss.backward)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.tensor([1, 2], requires_grad=True),
        lambda: torch.ones(2, dtype=torch.int64, requires_grad=True),
        lambda: torch.tensor([1, 2]).requires_grad_(),
        lambda: nn.Parameter(torch.tensor([1, 2])),
    ],
)
def test_integers_that_require_grad(call: Callable[[], object]) -> None:
    hint = hint_of(RuntimeError, call)
    assert "int64" in hint
    assert "dtype=torch.float32" in hint
    assert "test_hints.py:" in hint


class InList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]


class InDict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = {"a": nn.Linear(2, 2)}


class Loose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = [nn.Parameter(torch.ones(2))]


@pytest.mark.parametrize(
    ("make", "what", "cure"),
    [
        (InList, "model.layers is a plain list of Linears", "use nn.ModuleList"),
        (InDict, "model.heads is a plain dict of Linears", "use nn.ModuleDict"),
        (Loose, "model.scales is a plain list of Parameters", "use nn.ParameterList"),
    ],
)
def test_optimizer_without_parameters(make: Callable[[], nn.Module], what: str, cure: str) -> None:
    model = make()
    hint = hint_of(ValueError, lambda: (model, torch.optim.SGD(model.parameters(), lr=0.1)))
    assert what in hint
    assert cure in hint
    assert "test_hints.py:" in hint


def test_optimizer_of_an_empty_list() -> None:
    assert "use nn.ModuleList" in hint_of(ValueError, lambda: torch.optim.SGD([], lr=0.1))


@pytest.mark.parametrize(
    ("input", "target", "cure"),
    [
        ((4, 1), (4,), "use target.unsqueeze(-1), or input.squeeze(-1)."),
        ((4,), (4, 1), "use target.squeeze(-1)."),
        ((4, 1), (1, 4), "reshape one of them: target.view_as(input)."),
    ],
)
def test_loss_whose_shapes_broadcast(
    input: tuple[int, ...], target: tuple[int, ...], cure: str
) -> None:
    expected = re.escape(f"{list(input)} and target {list(target)} broadcast to [4, 4]")
    with pytest.warns(UserWarning, match=rf"have the same size\.\n  Input {expected}") as caught:
        functional.mse_loss(torch.ones(input), torch.ones(target))
    assert str(caught[0].message).endswith(cure)
    assert caught[0].filename == __file__
    hint = hint_of(
        ValueError, lambda: functional.binary_cross_entropy(torch.ones(input), torch.ones(target))
    )
    assert hint.endswith(cure)


def test_shapes_that_broadcast_to_one_of_them_get_no_hint() -> None:
    with pytest.warns(UserWarning, match=r"Please ensure they have the same size\.$"):
        functional.mse_loss(torch.ones(4, 3), torch.ones(3))


def test_messages_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.ones(3, requires_grad=True).backward()
    assert str(caught.value) == "grad can be implicitly created only for scalar outputs"
