"""Recording: what a program computed, and every step of its backward passes, as they were."""

import gc
import threading
import weakref

import numpy as np
import pytest
import torch as pytorch
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd import _modes, nn, viz
from retrograd._source import describe
from retrograd.autograd._node import FREED, AccumulateGrad
from retrograd.nn._calling import EVERYWHERE
from retrograd.utils.checkpoint import checkpoint
from retrograd.viz._made import made_of
from retrograd.viz._recording import record_pass


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values if len(values) > 1 else values[0], requires_grad=True)


def elements(described) -> list:
    return np.asarray(described.value.array).tolist()


def names(record) -> list[str]:
    short = {"torch::autograd::AccumulateGrad": "leaf"}
    return [short.get(s.node.name(), s.node.name().removesuffix("0")) for s in record.steps]


def line_of(place) -> str:
    return describe(place).split(": ", 1)[1]


# -- forward -------------------------------------------------------------------------------------


def test_every_operation_is_noted_with_what_it_was_given_and_gave() -> None:
    x, c = leaf(1.0, 2.0), torch.tensor([3.0, 4.0])
    with viz.recording():
        a = x * c
        b = a.exp()
        d = torch.cat([b, c])
        e = d.sum(0)
    made = made_of(a.grad_fn)
    assert [elements(d) for d in made.inputs] == [[1.0, 2.0], [3.0, 4.0]]
    assert [d.constant for d in made.inputs] == [False, True]
    assert [d.name for d in made.inputs] == ["x", "c"]
    assert elements(made.outputs[0]) == [3.0, 8.0]
    assert made_of(b.grad_fn).inputs[0].identity == made.outputs[0].identity
    joined = made_of(d.grad_fn)
    assert joined.inputs[1].identity == made.inputs[1].identity  # the same constant
    assert [d.shape for d in joined.inputs] == [(2,), (2,)]
    assert elements(made_of(e.grad_fn).outputs[0]) == e.item()


def test_numbers_are_no_inputs_and_several_outputs_are_all_noted() -> None:
    x = leaf(3.0, 1.0, 2.0)
    with viz.recording():
        y = 2.0 * x
        values, indices = y.sort()
    assert len(made_of(y.grad_fn).inputs) == len(y.grad_fn.next_nodes)
    outputs = made_of(values.grad_fn).outputs
    assert [d.dtype for d in outputs] == ["float32", "int64"]
    assert elements(outputs[1]) == indices.tolist()


def test_values_are_copies_and_large_ones_summaries() -> None:
    x, big = leaf(1.0, 2.0), torch.ones(100, requires_grad=True)
    with viz.recording(max_elements=10):
        y, z = x * 1, big * 3
        made = made_of(y.grad_fn)
        with torch.no_grad():
            x.fill_(9.0)
    assert elements(made.inputs[0]) == [1.0, 2.0]
    value = made_of(z.grad_fn).outputs[0].value
    assert value.array is None
    assert value.to_json() == {
        "shape": [100], "dtype": "float32", "data": None, "some": [3.0] * 8,
        "min": 3.0, "max": 3.0, "mean": 3.0, "norm": 30.0, "nan": 0, "inf": 0,
    }  # fmt: skip


def test_writes_in_place_are_noted_with_what_was_there_before() -> None:
    x = leaf(1.0, 2.0, 3.0)
    with viz.recording():
        y = x * 1
        first = y.grad_fn
        y.mul_(torch.tensor([2.0, 2.0, 2.0]))
        made = made_of(y.grad_fn)
        y[1:].add_(10.0)
        whole = made_of(y.grad_fn)
    assert elements(made_of(first).outputs[0]) == [1.0, 2.0, 3.0]
    assert [elements(d) for d in made.inputs] == [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]]
    assert elements(made.outputs[0]) == [2.0, 4.0, 6.0]
    assert y.grad_fn.name() == "CopySlices"
    assert elements(whole.inputs[0]) == [2.0, 4.0, 6.0]
    assert elements(whole.outputs[0]) == [2.0, 14.0, 16.0]
    assert y.tolist() == [2.0, 14.0, 16.0]


def test_a_view_of_what_was_written_since_is_noted_too() -> None:
    x = leaf(1.0, 2.0)
    with viz.recording():
        y = x * 1
        part = y[:1]
        y.mul_(5.0)
        z = part * 2
    made = made_of(z.grad_fn.next_nodes[0])
    assert elements(made.outputs[0]) == [5.0]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        return x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad, None


def test_custom_functions_are_noted_and_their_inside_is_not() -> None:
    x, scale = leaf(1.0, 3.0), torch.tensor(2.0)
    with viz.recording() as story:
        y = Square.apply(x, scale)
        y.sum().backward()
    made = made_of(y.grad_fn)
    assert [elements(d) for d in made.inputs] == [[1.0, 3.0], 2.0]
    assert elements(made.outputs[0]) == [2.0, 18.0]
    assert story.marks == []
    assert names(story.passes[0]) == ["SumBackward", "SquareBackward", "leaf"]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x):
        return torch.tanh(self.lin(x))


def test_operations_know_the_module_they_ran_in() -> None:
    model = nn.Sequential(Inner(), nn.ModuleDict({"a": Inner()})["a"], nn.ReLU())
    criterion = nn.MSELoss()
    with viz.recording():
        out = model(torch.ones(1, 2))
        loss = criterion(out, torch.zeros(1, 2))
        after = loss * 2
    relu = out.grad_fn
    tanh = relu.next_nodes[0]
    linear = tanh.next_nodes[0]
    assert [made_of(n).module for n in (relu, tanh, linear)] == ["2", "1", "1.lin"]
    assert made_of(linear).module_types == ("Inner", "Linear")
    assert made_of(loss.grad_fn).module == "criterion"
    assert made_of(after.grad_fn).module == ""
    assert made_of(linear).inputs[0].name == "1.lin.bias"


def test_a_module_that_raises_leaves_no_path_behind() -> None:
    class Bad(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    model = nn.Sequential(Bad())
    x = leaf(1.0)
    with viz.recording():
        with pytest.raises(KeyboardInterrupt):
            model(x)
        inner = nn.Sequential(nn.Tanh())
        y = inner(x)
        z = x * 2
    assert made_of(y.grad_fn).module.endswith("0")
    assert made_of(z.grad_fn).module in ("", "0")  # KeyboardInterrupt is told to no hook


# -- being cut off -------------------------------------------------------------------------------


def test_cuts_are_told_by_how_and_where() -> None:
    x = leaf(1.0, 2.0)
    with viz.recording():
        h = x * 2
        detached = h.detach()
        further = detached + 1
        data = h.data
        with torch.no_grad():
            unrecorded = h.exp()
        number = h.sum().item()
        results = [x * c for c in (detached, further, data, unrecorded, number)]
        plain = x * torch.tensor([1.0, 1.0])
    cuts = [made_of(r.grad_fn).inputs[1] for r in results]
    assert [c.cut for c in cuts] == ["detach", "detach", "detach", "no_grad", "item"]
    assert [line_of(c.cut_place) for c in cuts] == [
        "detached = h.detach()", "detached = h.detach()", "data = h.data",
        "unrecorded = h.exp()", "number = h.sum().item()",
    ]  # fmt: skip
    assert made_of(plain.grad_fn).inputs[1].cut is None


def test_what_never_had_a_history_is_not_cut() -> None:
    x, c = leaf(1.0), torch.tensor(2.0)
    with viz.recording():
        with torch.no_grad():
            d = c * 2
        y = x * d * c.detach() * (x > 0)
    node = y.grad_fn
    while node.next_nodes:
        assert all(d is None or d.cut is None for d in made_of(node).inputs)
        node = node.next_nodes[0]


# -- the state outside ---------------------------------------------------------------------------


def test_a_recording_leaves_everything_as_it_was() -> None:
    x = leaf(1.0)
    before = dict(vars(_modes.modes))
    active = _modes.switch.active
    with pytest.raises(ZeroDivisionError), viz.recording():
        x * 2
        _ = 1 / 0
    assert _modes.modes.interceptor is None
    assert _modes.modes.observer is None
    assert _modes.modes.pass_observer is None
    assert _modes.switch.active == active
    assert not any(EVERYWHERE.values())
    assert made_of((x * 2).grad_fn) is None
    assert (x * 2).grad_fn.extras is None
    assert before.get("interceptor") is None


def test_a_recording_can_be_opened_again_but_not_twice_at_once() -> None:
    x, once = leaf(2.0), viz.recording()
    with once as story:
        (x * x).backward()
        with pytest.raises(RuntimeError, match="open already"):
            once.__enter__()
    with once:
        (x * x).backward()
    assert len(story.passes) == 2


def test_one_recording_inside_another() -> None:
    x = leaf(2.0)
    with viz.recording() as outer:
        a = x * 3
        with viz.recording() as inner:
            b = a * 2
            b.backward()
        (x * 5).backward()
    assert len(inner.passes) == len(outer.passes) == 1
    assert made_of(a.grad_fn) is not None
    assert made_of(b.grad_fn) is not None


def test_looking_keeps_no_tensor_alive() -> None:
    x = leaf(1.0, 2.0)
    gc.disable()
    try:
        with viz.recording():
            y = x * 2
            gone = weakref.ref(y)
            del y
            assert gone() is None
    finally:
        gc.enable()


def test_each_thread_records_its_own() -> None:
    x = leaf(1.0)
    found = {}

    def work(name: str) -> None:
        if name == "plain":
            found[name] = made_of((x * 2).grad_fn)
            return
        with viz.recording() as story:
            (x * 3).backward()
        found[name] = story

    with viz.recording() as story:
        threads = [threading.Thread(target=work, args=(n,)) for n in ("plain", "own")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (x * 2).backward()
    assert found["plain"] is None
    assert [elements_of(s.after) for s in found["own"].passes[0].steps[-1:]] == [3.0]
    assert len(story.passes) == 1
    assert not any(EVERYWHERE.values())


def elements_of(value) -> list:
    return np.asarray(value.array).tolist()


# -- everything else works in a recording as outside ---------------------------------------------


def programs():
    def checkpointed(reentrant):
        def run(x):
            y = checkpoint(lambda a: (a.sin() * a).exp(), x * 1, use_reentrant=reentrant)
            return torch.autograd.grad(y.sum(), x)[0] if not reentrant else through_backward(y, x)

        return run

    def through_backward(y, x):
        x.grad = None
        y.sum().backward()
        found, x.grad = x.grad, None
        return found

    def hooks(x):
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: t.detach().numpy(), torch.from_numpy
        ):
            return torch.autograd.grad((x * x).sum(), x)[0]

    return {
        "grad": lambda x: torch.func.grad(lambda a: (a * a).sum())(x.detach()),
        "vmap of grad": lambda x: torch.func.vmap(torch.func.grad(torch.sin))(x.detach()),
        "jvp": lambda x: torch.func.jvp(torch.sin, (x.detach(),), (torch.ones(3),))[1],
        "hessian": lambda x: torch.func.hessian(lambda a: (a**3).sum())(x.detach()),
        "grad in a graph": lambda x: torch.autograd.grad(
            torch.func.grad(lambda a: (a**3).sum())(x).sum(), x
        )[0],
        "batched": lambda x: torch.autograd.grad(
            x**2, x, torch.eye(3), is_grads_batched=True
        )[0],
        "second derivative": lambda x: torch.autograd.grad(
            torch.autograd.grad((x**3).sum(), x, create_graph=True)[0].sum(), x
        )[0],
        "checkpoint": checkpointed(False),
        "reentrant checkpoint": checkpointed(True),
        "hooks on saved values": hooks,
        "in place under vmap": lambda x: torch.func.vmap(lambda a: (a * 1).mul_(2.0))(x.detach()),
    }  # fmt: skip


@pytest.mark.parametrize("name", programs())
def test_programs_give_the_same_in_a_recording(name: str) -> None:
    program = programs()[name]
    expected = program(leaf(0.5, 1.0, 1.5))
    with viz.recording() as story:
        found = program(leaf(0.5, 1.0, 1.5))
    assert found.tolist() == expected.tolist()
    for record in story.passes:
        assert record.error is None
    if story.passes:
        assert story.to_json(pictures=False)["passes"]


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


def test_the_story_of_a_pass_is_pytorchs() -> None:
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
    assert record.error == "ValueError: no"
    assert not record.steps[-1].ran
    assert packed.unpack is unpack
    assert calls == [1]
    document = story.to_json(pictures=False)["passes"][0]
    assert document["error"] == "ValueError: no"
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
    assert made_of(g.grad_fn) is not None


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
            noted = [made_of(n) is not None for n in (y.grad_fn, z.grad_fn)]
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


# -- any program ---------------------------------------------------------------------------------

OPERATIONS = {
    "tanh": lambda a, b: torch.tanh(a),
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "row": lambda a, b: a + b[0],
    "mm": lambda a, b: a @ b,
    "t": lambda a, b: a.t(),
    "max": lambda a, b: a * a.max(1, keepdim=True).values,
    "view": lambda a, b: a.reshape(4).flip(0).view(2, 2),
    "write": lambda a, b: (a * 1).add_(b),
    "part": lambda a, b: part_written(a, b),
    "split": lambda a, b: torch.cat(a.split(1, 0)[::-1]),
    "detach": lambda a, b: a * b.detach(),
    "custom": lambda a, b: Square.apply(a, torch.tensor(0.5, dtype=a.dtype)),
}


def part_written(a, b):
    whole = a * 1
    whole[0].mul_(b[1])
    return whole


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=12,
    )
)
def test_recorded_programs_get_the_same_gradients(steps) -> None:
    def run():
        rng = np.random.default_rng(0)
        leaves = [torch.tensor(rng.normal(size=(2, 2)), requires_grad=True) for _ in range(2)]
        values = list(leaves)
        for name, i, j in steps:
            values.append(OPERATIONS[name](values[i % len(values)], values[j % len(values)]))
        loss = sum(v.sum() for v in values[2:])
        loss.backward()
        return leaves

    expected = [x.grad for x in run()]
    with viz.recording() as story:
        leaves = run()
    record = story.passes[0]
    ends = {id(s.node.variable): s for s in record.steps if isinstance(s.node, AccumulateGrad)}
    for x, grad in zip(leaves, expected, strict=True):
        if grad is None:
            assert x.grad is None
        else:
            assert x.grad.tolist() == grad.tolist() == elements_of(ends[id(x)].after)
    for step in record.steps:
        check_that_parts_add_up(step)
    assert [len(r.steps) for r in story.passes] == [record.count]


def check_that_parts_add_up(step) -> None:
    for number, value in enumerate(step.arrived):
        parts = [p.value.array for p in step.parts if p.number == number and p.value is not None]
        if value is not None and parts:
            np.testing.assert_allclose(sum(parts), value.array, rtol=1e-12, atol=1e-12)


def test_long_chains_are_no_problem() -> None:
    x = leaf(1.0)
    with viz.recording(max_steps=100) as story:
        y = x
        for _ in range(20_000):
            y = y * 1.0
        y.backward()
    assert story.passes[0].count == 20_001
    assert x.grad.item() == 1.0
