"""``autograd.explain`` on gradients that are there: numbers that are the engine's, ways that are
counted right, and nothing changed by looking."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import GROUPS
from samples._pool import evaluate

import retrograd as torch
from retrograd import nn
from retrograd.autograd import explain

try:
    import torch as pytorch
except ImportError:
    pytorch = None


def leaf(*values: float) -> Any:
    return torch.tensor(values, requires_grad=True)


# -- why it is what it is ---------------------------------------------------------------------


def seed() -> tuple[Any, Any, Any]:
    x = torch.ones(2, 2, requires_grad=True)
    y = x + 2
    z = y * y * 3
    return x, z, z.mean()


def test_gradients_of_the_seed_document() -> None:
    x, _, out = seed()
    story = explain(x, out)
    assert torch.equal(story.gradient, torch.full((2, 2), 4.5))
    assert story.number_of_paths == 2
    assert len(story.paths) == 1  # both go through the same operations
    steps = story.paths[0].steps
    assert [step.operation for step in steps] == ["mean", "mul", "mul", "add"]
    assert [step.factor for step in steps] == pytest.approx([0.5, 3.0, math.hypot(3, 3), 1.0])
    assert [step.arrivals for step in steps] == [1, 1, 2, 1]
    twice = steps[2]
    assert [a.norm for a in twice.sent] == [4.5, 4.5]
    assert twice.total.norm == 9.0
    assert "z = y * y * 3" in (steps[1].source or "")


def test_passes_that_add_up() -> None:
    x, z, out = seed()
    v = torch.tensor([[0.1, 1.0], [1.0, 1.0]])
    z.backward(v, retain_graph=True)
    story = explain(x, z, gradient=v)
    assert (story.reason, story.times) == ("equal", 1)
    assert torch.allclose(story.gradient, torch.tensor([[1.8, 18.0], [18.0, 18.0]]))
    story = explain(x, out)
    assert (story.reason, story.times) == ("different", None)
    assert any("adds to .grad" in sentence for sentence in story.known)
    x.grad = None
    for _ in range(3):
        out.backward(retain_graph=True)
    story = explain(x, out)
    assert (story.reason, story.times) == ("accumulated", 3)
    assert str(story).startswith("x.grad is 3 times the gradient of out.")


def test_a_graph_that_is_freed_still_shows_its_ways() -> None:
    x, _, out = seed()
    out.backward()
    story = explain(x, out)
    assert story.reason == "freed"
    assert story.gradient is None
    assert [step.operation for step in story.paths[0].steps] == ["mean", "mul", "mul", "add"]
    assert all(amount is None for step in story.paths[0].steps for amount in step.sent)
    assert explain(x).reason == "present"


@pytest.mark.parametrize("retain", [False, True])
def test_looking_changes_nothing(retain: bool) -> None:
    calls: list[str] = []
    w = leaf(1.0, 2.0)
    h = w.exp()
    if retain:
        h.retain_grad()
    loss = (h * h + h).sum()
    loss.backward(retain_graph=True)
    w.register_post_accumulate_grad_hook(lambda p: calls.append("written"))
    w.register_hook(lambda g: calls.append("hook"))
    nodes = [loss.grad_fn, h.grad_fn]
    before = (w.grad, w.grad.tolist(), h._meta.grad if h._meta else None,
              [(n.extras, n.saved, n.extras and n.extras.needs_visit) for n in nodes])  # fmt: skip
    first = str(explain(w, loss))
    assert str(explain(w, loss)) == first
    after = (w.grad, w.grad.tolist(), h._meta.grad if h._meta else None,
             [(n.extras, n.saved, n.extras and n.extras.needs_visit) for n in nodes])  # fmt: skip
    assert before[0] is after[0]
    assert before[1] == after[1]
    assert before[2] is after[2]
    assert before[3] == after[3]
    assert calls == ["hook", "hook"]  # part of the gradient; nothing was written
    loss.backward()
    assert w.grad.tolist() == [2 * x for x in before[1]]


def test_a_leaf_that_was_never_used_stays_so() -> None:
    x = leaf(1.0)
    assert explain(x).reason == explain(x).reason == "never_used"
    assert x._meta.ending is None


def test_hooks_are_part_of_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g * 10)
    y = x * 3
    y.register_hook(lambda g: g + 1)
    story = explain(x, y.sum())
    assert story.gradient.tolist() == [60.0, 60.0]
    last = story.paths[0].steps[-1]
    assert last.sent[0].norm == pytest.approx(math.sqrt(72))
    assert last.total.norm == pytest.approx(math.sqrt(7200))


def test_a_hook_that_starts_a_pass_of_its_own() -> None:
    x = leaf(3.0)
    y = x * x
    inner = (x * 5).sum()
    y.register_hook(lambda g: g * torch.autograd.grad(inner, x, retain_graph=True)[0])
    story = explain(x, y.sum())
    assert story.gradient.item() == 30.0
    assert [part.amount.value for part in story.parts] == [15.0, 15.0]


def test_parts_and_results_in_the_middle() -> None:
    x = leaf(2.0)
    y = x * 3
    loss = (y**2 + 5 * y).sum()
    story = explain(y, loss)
    assert story.reason == "not_a_leaf"
    assert story.gradient.item() == 17.0
    assert {(part.operation, part.amount.value) for part in story.parts} == {
        ("pow", 12.0),
        ("mul", 5.0),
    }
    assert [path.share for path in story.paths] == pytest.approx([12 / 17, 5 / 17])


def test_one_of_several_outputs() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0)
    a, b = (x * 2).split(2)
    loss = (a * 3).sum() + (b * 5).sum() + (b * 7).sum()
    assert explain(b, loss).gradient.tolist() == [12.0, 12.0]
    assert explain(b, loss).number_of_paths == 2
    assert explain(b, loss).paths[0].steps[-1].total.norm == pytest.approx(math.hypot(12, 12))
    assert "sum of 2" in str(explain(b, loss))
    meeting = next(step for step in explain(x, loss).paths[0].steps if step.arrivals == 3)
    assert not meeting.added
    assert meeting.total.norm == pytest.approx(math.sqrt(2 * 9 + 2 * 144))
    assert "together 3" in str(explain(x, loss))
    assert explain(a, loss).number_of_paths == 1
    assert explain(x, loss).number_of_paths == 3
    assert explain(x, loss).gradient.tolist() == [6.0, 6.0, 24.0, 24.0]
    assert explain(a, b.sum()).reason == "not_connected"


def test_a_leaf_as_its_own_loss() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    story = explain(x, x)
    assert (story.reason, story.gradient.item()) == ("not_yet", 1.0)


def test_several_losses_and_the_loss_itself() -> None:
    x = leaf(2.0)
    y = x * x
    story = explain(x, [y.sum(), (3 * x).sum()])
    assert story.gradient.item() == 7.0
    assert story.number_of_paths == 3
    loss = y.sum()
    story = explain(x, [loss, loss, y.sum()])
    assert (story.gradient.item(), story.number_of_paths, len(story.paths)) == (12.0, 6, 2)
    assert [path.share for path in story.paths] == pytest.approx([2 / 3, 1 / 3])
    story = explain(loss, loss)
    assert story.gradient.item() == 1.0
    assert story.number_of_paths == 1
    assert str(story)


def test_a_model_by_its_names() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    loss = model(torch.randn(5, 3)).square().mean()
    story = explain(model[0].weight, loss)
    loss.backward()
    assert torch.equal(story.gradient, model[0].weight.grad)
    assert story.name == "model.0.weight"
    assert "tanh" in [step.operation for step in story.paths[0].steps]


def test_checkpointed_code() -> None:
    from retrograd.utils.checkpoint import checkpoint

    x = leaf(0.5, 1.5)
    loss = checkpoint(lambda t: t.exp() * t, x, use_reentrant=False).sum()
    story = explain(x, loss)
    loss.backward()
    assert torch.allclose(story.gradient, x.grad)


def test_writes_to_a_part() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    y[0] = y[1] * 3
    story = explain(x, (y * torch.tensor([1.0, 10.0])).sum())
    assert story.gradient.tolist() == [0.0, 13.0]


def test_complex_numbers() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    loss = (x * x.conj()).real.sum()
    story = explain(x, loss)
    loss.backward(retain_graph=True)
    assert torch.equal(story.gradient, x.grad)
    assert explain(x, loss).reason == "equal"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_operations_of_all_kinds(dtype: str) -> None:
    """Of each group of samples some: the gradient is that of ``autograd.grad``."""
    compared = 0
    for expression in (e for group in GROUPS.values() for e in group[::20]):
        torch.manual_seed(0)
        try:
            tensors, results = evaluate(torch, expression, dtype)
        except Exception:  # not for this dtype, which is for test_ops to judge
            continue
        losses = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        ones = [torch.ones_like(loss) for loss in losses]
        for tensor in [t for t in tensors.values() if losses and t.requires_grad]:
            try:
                (gradient,) = torch.autograd.grad(losses, tensor, ones, True, allow_unused=True)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=re.escape(str(error))):
                    explain(tensor, losses, gradient=ones)
                continue
            story = explain(tensor, losses, gradient=ones)
            assert (story.gradient is None) == (gradient is None), expression
            if gradient is not None:
                assert torch.allclose(story.gradient, gradient, equal_nan=True), expression
                compared += 1
    assert compared > 200


# -- what is remarkable -----------------------------------------------------------------------


def test_where_nan_zero_and_nothing_come_from() -> None:
    x = leaf(0.0, 1.0)
    root = x.sqrt()
    note, why, *_ = explain(x, (root * 0).sum()).notes
    assert note.startswith("NaN or infinity first appears in what is passed on by sqrt at")
    assert why == "0/0 at element [0]: the derivative of sqrt is infinite at 0."
    y = leaf(-1.0, -2.0)
    bent = y.relu()
    (note,) = explain(y, (bent * 3).sum()).notes
    assert note.startswith("It becomes zero in relu at")
    (note,) = explain(y, (y - y).sum()).notes
    assert note == "The parts that meet at y cancel out: their sum is zero."
    assert explain(y, (y * 2).sum()).notes == ()


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_gradients_that_are_not_finite_are_compared_too(factor: float) -> None:
    x = leaf(1.0, 2.0)
    loss = (x * torch.tensor([factor, 1.0])).sum()
    loss.backward(retain_graph=True)
    assert explain(x, loss).reason == "equal"
    x.grad = torch.ones(2)
    assert explain(x, loss).reason == "different"


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_is_no_obstacle() -> None:
    x = leaf(0.0)
    with torch.autograd.detect_anomaly():
        root = x.sqrt()
        assert explain(x, (root * 0).sum()).notes


# -- many ways --------------------------------------------------------------------------------


@st.composite
def programs(draw: Any) -> list[tuple[int, int, float, float]]:
    """Steps of a program: which two earlier values are combined, and with which weights."""
    steps = []
    for i in range(draw(st.integers(1, 6))):
        earlier = st.integers(0, i)
        weight = st.sampled_from([-2.0, 0.5, 1.0, 3.0])
        steps.append((draw(earlier), draw(earlier), draw(weight), draw(weight)))
    return steps


def run(steps: list[tuple[int, int, float, float]], x: Any) -> Any:
    values = [x]
    for a, b, wa, wb in steps:
        values.append(values[a] * wa + values[b] * wb)
    return values[-1]


def ways_by_hand(steps: list[tuple[int, int, float, float]]) -> list[float]:
    """The product of weights along every way."""

    def ways(i: int) -> list[float]:
        if i == 0:
            return [1.0]
        a, b, wa, wb = steps[i - 1]
        return [w * wa for w in ways(a)] + [w * wb for w in ways(b)]

    return ways(len(steps))


@given(programs())
def test_all_ways_are_counted_and_their_shares_are_one(
    steps: list[tuple[int, int, float, float]],
) -> None:
    x = torch.tensor(1.5, requires_grad=True)
    loss = run(steps, x)
    story = explain(x, loss, paths=1000)
    by_hand = ways_by_hand(steps)
    assert story.number_of_paths == len(by_hand)
    assert story.gradient.item() == pytest.approx(math.fsum(by_hand))
    shares = [path.share for path in story.paths]
    assert math.fsum(shares) == pytest.approx(1)
    assert shares == pytest.approx(sorted(shares, reverse=True))
    total = math.fsum(part.amount.value for part in story.parts)
    assert total == pytest.approx(story.gradient.item())
    best = explain(x, loss, paths=2)
    assert [path.share for path in best.paths] == pytest.approx(shares[:2])
    if pytorch is not None:
        theirs = pytorch.tensor(1.5, requires_grad=True)
        run(steps, theirs).backward()
        assert story.gradient.item() == pytest.approx(theirs.grad.item())


def test_shares_are_those_of_the_ways_where_nothing_cancels() -> None:
    x = torch.tensor(1.0, requires_grad=True)
    h = x
    for _ in range(4):
        h = h + 0.5 * h
    story = explain(x, h, paths=100)
    by_hand = [0.5**k / 1.5**4 for k in range(5) for _ in range(math.comb(4, k))]
    assert [path.share for path in story.paths] == pytest.approx(by_hand)


def test_ways_beyond_counting() -> None:
    x = torch.ones(2, requires_grad=True)
    h = x
    for _ in range(1100):
        h = h * 0.5 + h * 0.5
    story = explain(x, h.sum())
    assert math.isinf(story.number_of_paths)
    assert "More than 1e308 paths lead from loss to x" in str(story)
    assert len(story.paths) == 3
    assert story.paths[0].hidden == 2201 - 12
    assert story.paths[1].shared > 2000
    assert len(str(story).splitlines()) < 60
    assert story.gradient.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("length", [20_000, pytest.param(1_000_000, marks=pytest.mark.exhaustive)])
def test_long_chains(length: int) -> None:
    x = torch.ones(1, requires_grad=True)
    h = x
    for _ in range(length):
        h = h * 1.0
    story = explain(x, h.sum())
    assert story.paths[0].hidden + len(story.paths[0].steps) == length + 1
    assert story.gradient.item() == 1.0
