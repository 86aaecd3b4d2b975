"""Recorded passes: every step of them as it was, and looking without touching."""

from typing import Any

import numpy as np
import pytest
from test_viz_recording import Square, elements_of, leaf, names

import retrograd as torch
from retrograd import _modes, nn, viz
from retrograd.autograd._engine import queue_callback
from retrograd.autograd._node import FREED, AccumulateGrad
from retrograd.utils.checkpoint import checkpoint
from retrograd.viz import _values
from retrograd.viz._node_info import recorded_info
from retrograd.viz._recording import record_pass
from retrograd.viz._values import Value

# -- backward ------------------------------------------------------------------------------------


def test_a_pass_is_told_step_by_step() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with viz.recording() as story:
        h = x * w
        loss = (h + h.exp() * 0.1).sum()
        loss.backward()
    (record,) = story.passes
    assert names(record) == [
        "SumBackward", "AddBackward", "MulBackward", "ExpBackward", "MulBackward", "leaf", "leaf"
    ]  # fmt: skip
    product = record.steps[4]
    assert product.node is h.grad_fn
    parts = [elements_of(p.value) for p in product.parts]
    assert [p.sender.name() for p in product.parts] == ["AddBackward0", "ExpBackward0"]
    np.testing.assert_array_equal(np.float32(parts[0]) + np.float32(parts[1]),
                                  np.float32(elements_of(product.incoming[0])))  # fmt: skip
    assert [(n, elements_of(v)) for n, v in product.saved] == [
        ("self", [1.0, 2.0]), ("other", [3.0, 4.0])
    ]  # fmt: skip
    ends = {s.node.variable: s for s in record.steps if isinstance(s.node, AccumulateGrad)}
    for tensor, position in ((x, 0), (w, 1)):
        assert elements_of(ends[tensor].after) == tensor.grad.tolist()
        assert elements_of(product.outgoing[position][1]) == tensor.grad.tolist()
        assert ends[tensor].before is None
    assert h.grad_fn.saved is FREED  # as after any pass
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_the_story_of_a_pass_is_pytorchs(pytorch: Any) -> None:
    """What PyTorch's own hooks on nodes see, node by node in the order they ran."""

    def program(t, note):
        t.manual_seed(0)
        rng = np.random.default_rng(0)
        x, w, v = (t.tensor(rng.normal(size=s), requires_grad=True) for s in ((4, 3), (3, 5), (5,)))
        h = t.tanh(x @ w)
        y = (h * v).sum(1) + h.max(1).values
        loss = t.nn.functional.softplus(y).mean() + (w**2).sum() * 0.1
        nodes, todo = [], [loss.grad_fn]
        while todo:
            node = todo.pop()
            if node not in nodes:
                nodes.append(node)
                todo += [n for n, _ in node.next_functions if n is not None]
        note(nodes)
        loss.backward()

    expected = []

    def watch(nodes):
        for node in nodes:
            if "Accumulate" not in node.name():
                node.register_hook(
                    lambda sent, came, node=node: expected.append((node.name(), came, sent))
                )

    program(pytorch, watch)
    with viz.recording() as story:
        program(torch, lambda nodes: None)
    found = [s for s in story.passes[0].steps if not isinstance(s.node, AccumulateGrad)]
    assert sorted(s.node.name() for s in found) == sorted(name for name, _, _ in expected)
    for name, came, sent in expected:
        alike = [s for s in found if s.node.name() == name and matches(s, came, sent)]
        assert alike, name


def matches(step, came, sent) -> bool:
    mine = [v for v in step.incoming if v is not None]
    theirs = [g for g in came if g is not None]
    out = [v for _, v in step.outgoing if v is not None]
    wanted = [g for g in sent if g is not None]
    pairs = [*zip(mine, theirs, strict=False), *zip(out, wanted, strict=False)]
    same = all(v.shape == tuple(g.shape) and np.allclose(v.array, g.numpy()) for v, g in pairs)
    return same and len(mine) == len(theirs) and len(out) == len(wanted)


def test_gradients_that_hooks_change_are_told_as_they_flowed() -> None:
    x = leaf(1.0, 2.0)
    with viz.recording() as story:
        y = x * 3
        y.register_hook(lambda g: g * 10)
        y.grad_fn.register_hook(lambda sent, came: (sent[0] + 1, None))
        y.retain_grad()
        y.sum().backward()
    step = story.passes[0].steps[1]
    assert elements_of(step.arrived[0]) == [1.0, 1.0]
    assert elements_of(step.incoming[0]) == [10.0, 10.0]
    assert elements_of(step.outgoing[0][1]) == [31.0, 31.0] == x.grad.tolist()
    assert y.grad.tolist() == [10.0, 10.0]


def test_a_gradient_that_a_hook_wrote_to_is_told_as_it_arrived() -> None:
    """Which no hook should do: the sum has sent the same array to both."""
    x = leaf(1.0, 2.0)
    with viz.recording() as story:
        p = x * 2
        q = x * 3
        q.register_hook(lambda g: g.mul_(10))
        ((p + q) * 1).sum().backward()
    steps = {step.node: step for step in story.passes[0].steps}
    for node, factor in ((p.grad_fn, 2), (q.grad_fn, 3)):
        step = steps[node]
        came, sent = elements_of(step.incoming[0]), elements_of(step.outgoing[0][1])
        assert sent == [factor * g for g in came]
    assert elements_of(steps[p.grad_fn].incoming[0]) == [10.0, 10.0]
    assert x.grad.tolist() == [50.0, 50.0]


def test_accumulation_is_told_before_any_hook_steps() -> None:
    x = leaf(1.0)
    seen = []

    def step(p):
        seen.append(p.grad.item())
        p.grad = None

    with viz.recording() as story:
        (x * 2).backward()
        (x * 3).backward()
        x.register_post_accumulate_grad_hook(step)
        (x * 4).backward()
    ends = [record.steps[-1] for record in story.passes]
    assert [None if s.before is None else elements_of(s.before) for s in ends] == [None, 2.0, 5.0]
    assert [elements_of(s.after) for s in ends] == [2.0, 5.0, 9.0]
    assert seen == [9.0]
    assert x.grad is None
    assert len(x._meta.post_hooks) == 1


def test_grad_and_inputs_say_where_gradients_are_taken_out() -> None:
    x, w = leaf(1.0), leaf(2.0)
    with viz.recording() as story:
        y = x * w
        (g,) = torch.autograd.grad(y * 3, y, retain_graph=True)
        (y * 3).backward(inputs=[w])
    taken, accumulated = story.passes
    assert taken.steps[-1].captured
    assert elements_of(taken.steps[-1].incoming[0]) == g.item() == 3.0
    assert taken.steps[-1].outgoing == []
    assert x.grad is None
    assert elements_of(accumulated.steps[-1].after) == w.grad.item()
    assert names(accumulated) == ["MulBackward", "MulBackward", "leaf"]


def test_a_pass_inside_a_pass_is_a_pass_of_its_own() -> None:
    x, other = leaf(1.0, 2.0), leaf(3.0)

    def hook(g):
        with torch.enable_grad():
            (other * 2).backward()
        return g * 2

    with viz.recording() as story:
        y = x * 3
        y.register_hook(hook)
        y.sum().backward()
    assert [names(r) for r in story.passes] == [
        ["SumBackward", "MulBackward", "leaf"], ["MulBackward", "leaf"]
    ]  # fmt: skip
    assert x.grad.tolist() == [6.0, 6.0]
    assert other.grad.item() == 2.0


def test_an_error_ends_the_story_and_nothing_is_left_behind() -> None:
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            _ = ctx.saved_tensors
            raise ValueError("no")

    x = leaf(1.0)
    calls = []

    def unpack(kept):
        calls.append(1)
        return kept

    with viz.recording() as story:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = Bad.apply(x * 1)
        packed = y.grad_fn.saved[0][0]
        with pytest.raises(ValueError, match="no"):
            (y * 2).backward()
    (record,) = story.passes
    assert record.error.message == "ValueError: no"
    assert not record.steps[-1].ran
    assert packed.unpack is unpack
    assert calls == [1]
    document = story.to_json(pictures=False)["passes"][0]
    message, note = document["error"].splitlines()
    assert message == "ValueError: no"
    assert note.startswith("in the backward of BadBackward, recorded at ")
    assert not document["steps"][-1]["done"]
    x.grad = None
    (x * 5).backward()
    assert x.grad.item() == 5.0


def test_packed_values_are_unpacked_once_and_shown() -> None:
    x = leaf(1.0, 2.0)
    calls = []

    def unpack(kept):
        calls.append(kept)
        return torch.from_numpy(kept)

    with viz.recording() as story:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), unpack):
            y = x.exp()
        y.sum().backward()
    ((name, value),) = story.passes[0].steps[1].saved
    assert name == "result"
    assert elements_of(value) == y.tolist()
    assert len(calls) == 1


def test_create_graph_is_recorded_and_so_is_the_pass_through_it() -> None:
    x = leaf(2.0)
    with viz.recording() as story:
        (g,) = torch.autograd.grad(x**3, x, create_graph=True)
        g.backward()
    first, second = story.passes
    assert elements_of(first.steps[-1].incoming[0]) == 12.0
    assert elements_of(second.steps[-1].after) == 12.0 == x.grad.item()
    assert recorded_info(g.grad_fn) is not None


def test_passes_and_steps_beyond_the_limit_are_counted() -> None:
    x = leaf(1.0)
    with viz.recording(max_passes=2, max_steps=3) as story:
        for _ in range(5):
            y = x
            for _ in range(10):
                y = y * 2
            y.backward()
    assert len(story.passes) == 2
    assert story.passes_left_out == 3
    assert names(story.passes[0]) == ["MulBackward"] * 3 + ["leaf"]
    assert story.passes[0].count == 11
    assert x.grad.item() == 5 * 1024
    document = story.to_json(pictures=False)
    assert document["passes"][0]["left_out"] == 7
    assert document["limits"]["passes_left_out"] == 3


def test_gradients_taken_out_on_the_way_are_told() -> None:
    x = leaf(2.0)
    with viz.recording() as story:
        h = x * 3
        gh, gx = torch.autograd.grad(h * h, [h, x])
    taken = [s for s in story.passes[0].steps if s.captured]
    assert [elements_of(s.incoming[0]) for s in taken] == [gh.item(), gx.item()] == [12.0, 36.0]
    assert [len(s.outgoing) for s in taken] == [2, 0]
    steps = story.to_json(pictures=False)["passes"][0]["steps"]
    assert steps[1]["rule"]["formulas"][0] == "grad_self = grad · other"
    assert "taken out here" in steps[2]["rule"]["words"]


def test_nothing_is_noted_once_no_pass_will_be_kept() -> None:
    x = leaf(1.0)
    with viz.recording(max_passes=1):
        for number in range(3):
            y = x * 2
            y.mul_(3.0)
            z = Square.apply(y, torch.tensor(1.0))
            noted = [recorded_info(n) is not None for n in (y.grad_fn, z.grad_fn)]
            assert noted == [number == 0] * 2
            z.backward()


# -- looking without touching --------------------------------------------------------------------


def test_record_pass_leaves_everything_as_it_was() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x.grad = torch.tensor([10.0, 20.0])
    had, stepped = x.grad, []
    w.register_post_accumulate_grad_hook(lambda p: stepped.append(p))
    h = x * w
    h.retain_grad()
    loss = h.exp().sum()
    story = record_pass(loss)
    ends = {s.node.variable: s for s in story.passes[0].steps if isinstance(s.node, AccumulateGrad)}
    assert x.grad is had
    assert had.tolist() == [10.0, 20.0]
    assert w.grad is None
    assert h.grad is None
    assert stepped == []
    assert len(w._meta.post_hooks) == 1
    assert elements_of(ends[x].before) == [10.0, 20.0]
    loss.backward()
    assert elements_of(ends[x].after) == x.grad.tolist()
    assert elements_of(ends[w].after) == w.grad.tolist()
    assert stepped == [w]
    assert _modes.modes.pass_observer is None


def test_record_pass_drops_what_hooks_want_done_when_the_pass_is_over() -> None:
    x, done = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda g: queue_callback(lambda: done.append(g.item())))
    record_pass(y * 3)
    assert done == []
    looked, other = [], leaf(5.0) * y

    def look(g):  # inside a real pass
        if not looked:
            looked.append(True)
            record_pass(other)

    x.register_hook(look)
    (y * 3).backward(retain_graph=True)
    assert looked
    assert done == [3.0]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_record_pass_leaves_what_checkpoints_reach_as_it_was(use_reentrant: bool) -> None:
    layer, x = nn.Linear(2, 2), leaf(1.0, 2.0)
    loss = checkpoint(layer, x, use_reentrant=use_reentrant).sum()
    story = record_pass(loss)
    assert layer.weight.grad is None
    ends = {
        s.node.variable: s for r in story.passes for s in r.steps if hasattr(s.node, "variable")
    }
    loss.backward()
    assert elements_of(ends[layer.weight].after) == layer.weight.grad.tolist()


def test_record_pass_puts_things_back_when_a_hook_raises() -> None:
    x = leaf(1.0)
    x.grad = torch.tensor(5.0)
    had = x.grad
    y = x * 2

    def hook(g):
        raise KeyError("mine")

    handle = y.register_hook(hook)
    with pytest.raises(KeyError, match="mine"):
        record_pass(y * 1)
    handle.remove()
    assert x.grad is had
    assert _modes.modes.pass_observer is None
    y.backward()
    assert x.grad.item() == 7.0


def test_record_pass_says_what_is_wrong() -> None:
    x = leaf(1.0, 2.0)
    loss = x.exp().sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"freed the values that ExpBackward0 .*loss = x.exp"):
        record_pass(loss)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        record_pass(x * 2)
    with pytest.raises(RuntimeError, match="does not require grad"):
        record_pass(torch.ones(1))
    x.grad = None
    story = record_pass(x * 2, torch.tensor([1.0, 10.0]))
    assert elements_of(story.passes[0].steps[-1].after) == [2.0, 20.0]


def test_exploring_a_vector_needs_a_gradient_to_begin_with() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"shape \[2\]: .*grad_tensors=torch.ones_like"):
        viz.explore(x * 2)
    page = viz.explore([x * 2, x.sum()], grad_tensors=[torch.tensor([1.0, 10.0]), None])
    assert page.story["passes"][0]["steps"][-1]["accumulate"]["after"]["data"] == [3.0, 21.0]


def test_record_pass_finds_names_where_it_is_called() -> None:
    model, x = nn.Linear(2, 1), leaf(1.0, 2.0)
    several = [leaf(1.0), leaf(2.0)]
    loss = model(x).sum() * several[0] * several[1]
    doc = record_pass(loss).to_json(pictures=False)
    names = {item["name"] for item in doc["graph"]["items"] if item["kind"] == "leaf"}
    assert names == {"weight", "bias", "x", "several[0]", "several[1]"}
    given = record_pass(loss, params=((f"my.{n}", p) for n, p in model.named_parameters()))
    items = given.to_json(pictures=False)["graph"]["items"]
    assert {"my.weight", "my.bias"} <= {item["name"] for item in items}


def test_record_pass_in_a_recording_is_no_pass_of_the_program() -> None:
    x = leaf(1.0)
    with viz.recording() as story:
        y = x * 2
        looked = record_pass(y)
        y.backward()
    assert len(story.passes) == len(looked.passes) == 1


def test_large_values_are_those_of_their_moment_however_late_they_are_summarised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = np.arange(1000.0)
    array[7] = np.nan
    before = _values._waiting.bytes
    late = Value(array)
    assert _values._waiting.bytes == before + array.nbytes
    monkeypatch.setattr(_values, "MOST_WAITING", 0)
    at_once = Value(array)
    assert _values._waiting.bytes == before + array.nbytes
    assert late.holds(array)
    assert not late.finite
    array[:] = 1.0
    assert not late.holds(array)
    assert late.to_json() == at_once.to_json()
    assert (late.nan, late.to_json()["max"], late.finite) == (1, 999.0, False)
    assert late.same_as(at_once)
    assert _values._waiting.bytes == before
    monkeypatch.undo()
    for value in (Value(array), Value(array)):
        assert not value.same_as(late)
    del value
    assert _values._waiting.bytes == before
