"""``autograd.explain``: the right reason for every case in which there is no gradient."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import retrograd as torch
from retrograd.autograd import explain
from retrograd.autograd._explaining import Explanation


def leaf(*values: float) -> Any:
    return torch.tensor(values, requires_grad=True)


class Stop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> None:
        return None


# -- why .grad is None ------------------------------------------------------------------------


def result() -> Explanation:
    x = leaf(1.0)
    y = x * 2
    return explain(y)


def retained() -> Explanation:
    y = leaf(1.0) * 2
    y.retain_grad()
    return explain(y)


def converted() -> Explanation:
    w = leaf(1.0)
    w = w.to(torch.float64)
    return explain(w)


def overwritten() -> Explanation:
    x, y = leaf(1.0), torch.zeros(1)
    y += x
    return explain(y)


def integers() -> Explanation:
    return explain(torch.tensor([1, 2]))


def plain() -> Explanation:
    return explain(torch.ones(2))


def detached() -> Explanation:
    y = leaf(1.0) * 2
    d = y.detach()
    assert y is not None
    return explain(d)


def constant() -> Explanation:
    u = torch.ones(2)
    loss = (u * leaf(1.0, 2.0)).sum()
    return explain(u, loss)


def inference() -> Explanation:
    with torch.inference_mode():
        x = torch.ones(2)
    return explain(x)


def unused() -> Explanation:
    return explain(leaf(1.0))


def unused_by_loss() -> Explanation:
    w, v = leaf(1.0), leaf(1.0)
    loss = (v * 2).sum()
    return explain(w, loss)


def gone() -> Explanation:
    x = leaf(1.0)
    (x * 2).sum().backward()
    x.grad = None
    return explain(x)


def waiting() -> Explanation:
    x = leaf(1.0)
    y = x.exp()
    assert y is not None
    return explain(x)


def not_called() -> Explanation:
    x = leaf(1.0)
    return explain(x, x.exp().sum())


def in_no_grad() -> Explanation:
    x = leaf(1.0)
    with torch.no_grad():
        loss = (x * 2).sum()
    return explain(x, loss)


def unseen(source: str) -> Explanation:
    """What is said where the source cannot be read."""
    names: dict[str, Any] = {"torch": torch, "leaf": leaf, "explain": explain}
    exec(source, names)
    story = names["story"]
    assert isinstance(story, Explanation)
    return story


def detached_unseen() -> Explanation:
    return unseen("y = leaf(1.0) * 2\nd = y.detach()\nstory = explain(d)")


def in_no_grad_unseen() -> Explanation:
    return unseen(
        "x = leaf(1.0)\nwith torch.no_grad():\n    loss = (x * 2).sum()\nstory = explain(x, loss)"
    )


def now_in_no_grad() -> Explanation:
    return unseen(
        "x = leaf(1.0)\nwith torch.no_grad():\n    loss = (x * 2).sum()\n"
        "    story = explain(x, loss)"
    )


def cut_unseen() -> Explanation:
    return unseen(
        "w, v = leaf(1.0), leaf(2.0)\nh = w * 3\nloss = (h.detach() * v).sum()\n"
        "story = explain(w, loss)"
    )


def compared() -> Explanation:
    x = leaf(1.0)
    return explain(x, x > 0)


def cut() -> Explanation:
    w, v = leaf(1.0), leaf(2.0)
    h = w * 3
    loss = (h.detach() * v).sum()
    return explain(w, loss)


def copied() -> Explanation:
    w = leaf(1.0)
    copy = w.detach().requires_grad_()
    loss = (copy * 2).sum()
    return explain(w, loss)


def later() -> Explanation:
    w, v = leaf(1.0), leaf(1.0)
    loss = (v * 2).sum()
    used = w * 2
    assert used is not None
    return explain(w, loss)


def viewed() -> Explanation:
    w = leaf(1.0, 2.0)
    with torch.no_grad():
        v = w[:1]
    return explain(v)


def vector() -> Explanation:
    x = leaf(1.0, 2.0)
    return explain(x, x * x)


def stopped() -> Explanation:
    x = leaf(1.0)
    loss = (Stop.apply(x) * 2).sum()
    return explain(x, loss)


def cleared() -> Explanation:
    x = leaf(1.0)
    loss = x.exp().sum()
    loss.backward()
    x.grad = None
    return explain(x, loss)


def named_others() -> Explanation:
    a, b = leaf(1.0), leaf(1.0)
    loss = (a.exp() * b.exp()).sum()
    loss.backward(inputs=[a])
    return explain(b, loss)


def changed() -> Explanation:
    x = leaf(1.0)
    e = x.exp()
    loss = (e * e).sum()
    e.add_(1)
    return explain(x, loss)


def changed_part() -> Explanation:
    x, y = leaf(1.0, 2.0), torch.zeros(2)
    factor = torch.ones(1)
    y[:1] = x[:1]
    y[:1].mul_(factor)
    loss = y.sum()
    factor.add_(1)
    return explain(x, loss)


CASES: list[tuple[Callable[[], Explanation], str, str]] = [
    (result, "not_a_leaf", "y is the result of mul at test_explain.py"),
    (retained, "not_yet", "It retains its gradient"),
    (converted, "not_a_leaf", "in another shape or dtype"),
    (overwritten, "not_a_leaf", "y was overwritten in place, by add at test_explain.py"),
    (integers, "not_floating", "It holds int64."),
    (plain, "requires_grad_is_false", "requires_grad=True"),
    (detached, "requires_grad_is_false", "by .detach(): it returns the values without"),
    (detached_unseen, "requires_grad_is_false", "the same memory as y, the result of mul"),
    (constant, "requires_grad_is_false", "used the values of u as a constant: mul at"),
    (inference, "requires_grad_is_false", "inference_mode"),
    (unused, "never_used", "nothing recorded has used"),
    (unused_by_loss, "not_connected", "loss leads to v. No recorded operation has used w."),
    (gone, "unknown", "no graph that still exists leads to x"),
    (waiting, "unknown", "name the loss: explain(x, loss)"),
    (not_called, "not_yet", "no pass has used them up"),
    (in_no_grad, "loss_is_cut", "by torch.no_grad(): nothing is recorded in the block."),
    (in_no_grad_unseen, "loss_is_cut", "was computed in no_grad(), with detach()"),
    (now_in_no_grad, "loss_is_cut", "Recording is switched off right now"),
    (compared, "loss_is_cut", "holds bool, which has no gradient"),
    (cut, "not_connected", "loss leads to v. The graph is cut at test_explain.py:"),
    (cut_unseen, "not_connected", "h leads to w, but mul at <string>:3 used its values"),
    (copied, "not_connected", "another leaf with the memory of w: copy."),
    (later, "not_connected", "w came into use only after loss was computed."),
    (viewed, "view_in_no_grad", "its gradient goes nowhere"),
    (vector, "not_scalar", "grad can be implicitly created only for scalar outputs"),
    (stopped, "no_gradient", "None is given back by, Stop at test_explain.py"),
    (cleared, "cleared", "x.grad is None, though a backward pass has run."),
    (named_others, "other_inputs", "b.grad is None: a backward pass has run, but not to b."),
    (changed, "changed_in_place", "e.add_(1)"),
    (changed_part, "changed_in_place", "factor.add_(1)"),
]


@pytest.mark.parametrize(
    ("case", "reason", "words"), CASES, ids=[case.__name__ for case, *_ in CASES]
)
def test_why_there_is_no_gradient(case: Callable[[], Explanation], reason: str, words: str) -> None:
    story = case()
    assert story.reason == reason
    assert words in " ".join(str(story).split()), str(story)
    assert repr(story) == str(story)
    assert max(map(len, str(story).splitlines())) <= 80


def test_every_reason_is_documented_and_tried() -> None:
    documented = set((explain.__doc__ or "").split('"')[1::2])
    tried = {reason for _, reason, _ in CASES}
    assert documented == tried | {"equal", "accumulated", "different", "freed", "present"}


def test_what_is_known_and_what_is_likely_are_apart() -> None:
    story = in_no_grad_unseen()
    assert story.known == ()
    assert any("no_grad()" in sentence for sentence in story.likely)
    story = now_in_no_grad()
    assert any("no_grad()" in sentence for sentence in story.known)
    assert story.likely == ()


def test_a_hook_that_clears_gradients_is_named() -> None:
    x = leaf(1.0)

    def forget(tensor: Any) -> None:
        tensor.grad = None

    x.register_post_accumulate_grad_hook(forget)
    loss = x.exp().sum()
    loss.backward()
    story = explain(x, loss)
    assert story.reason == "cleared"
    assert any("forget at test_explain.py" in sentence for sentence in story.known)


def test_lines_of_code_and_names_are_only_text() -> None:
    odd = {"{x}": leaf(1.0)}
    y = odd["{x}"] * len("{} {0} %s")
    assert 'y = odd["{x}"] * len("{} {0} %s")' in " ".join(str(explain(y)).split())
    assert str(explain(y, name="{x}")).startswith("{x}.grad is None")


# -- how it is asked --------------------------------------------------------------------------


def test_what_is_no_tensor() -> None:
    with pytest.raises(TypeError, match=r"explain\(\) takes a Tensor or a Module, but got int"):
        explain(1)
    with pytest.raises(TypeError, match="the loss must be a Tensor, but element 0 is float"):
        explain(leaf(1.0), [1.0])
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        explain(x := leaf(1.0, 2.0), x * 2, gradient=torch.ones(3))


def test_inside_a_transform_it_says_so() -> None:
    def f(x: Any) -> Any:
        explain(x)
        return x

    with pytest.raises(RuntimeError, match="inside a function that is being transformed"):
        torch.func.vmap(f)(torch.ones(2))


def test_it_is_loaded_when_first_used() -> None:
    code = (
        "import sys, retrograd\n"
        "assert not any('_explaining' in name for name in sys.modules)\n"
        "assert 'explain' in retrograd.autograd.__all__ and retrograd.autograd.explain\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
