"""Recording: what a program computed, as it was, and everything as without."""

import gc
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd import _modes, nn, viz
from retrograd._source import describe
from retrograd.autograd._node import AccumulateGrad
from retrograd.nn._calling import GLOBAL_HOOKS
from retrograd.utils.checkpoint import checkpoint
from retrograd.viz._node_info import recorded_info


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
    made = recorded_info(a.grad_fn)
    assert [elements(d) for d in made.inputs] == [[1.0, 2.0], [3.0, 4.0]]
    assert [d.constant for d in made.inputs] == [False, True]
    assert [d.name for d in made.inputs] == ["x", "c"]
    assert elements(made.outputs[0]) == [3.0, 8.0]
    assert recorded_info(b.grad_fn).inputs[0].identity == made.outputs[0].identity
    joined = recorded_info(d.grad_fn)
    assert joined.inputs[1].identity == made.inputs[1].identity  # the same constant
    assert [d.shape for d in joined.inputs] == [(2,), (2,)]
    assert elements(recorded_info(e.grad_fn).outputs[0]) == e.item()


def test_numbers_are_no_inputs_and_several_outputs_are_all_noted() -> None:
    x = leaf(3.0, 1.0, 2.0)
    with viz.recording():
        y = 2.0 * x
        values, indices = y.sort()
    assert len(recorded_info(y.grad_fn).inputs) == len(y.grad_fn.next_nodes)
    outputs = recorded_info(values.grad_fn).outputs
    assert [d.dtype for d in outputs] == ["float32", "int64"]
    assert elements(outputs[1]) == indices.tolist()


def test_values_are_copies_and_large_ones_summaries() -> None:
    x, big = leaf(1.0, 2.0), torch.ones(100, requires_grad=True)
    with viz.recording(max_elements=10):
        y, z = x * 1, big * 3
        made = recorded_info(y.grad_fn)
        with torch.no_grad():
            x.fill_(9.0)
    assert elements(made.inputs[0]) == [1.0, 2.0]
    value = recorded_info(z.grad_fn).outputs[0].value
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
        made = recorded_info(y.grad_fn)
        y[1:].add_(10.0)
        whole = recorded_info(y.grad_fn)
    assert elements(recorded_info(first).outputs[0]) == [1.0, 2.0, 3.0]
    assert [elements(d) for d in made.inputs] == [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]]
    assert elements(made.outputs[0]) == [2.0, 4.0, 6.0]
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
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
    made = recorded_info(z.grad_fn.next_nodes[0])
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
    made = recorded_info(y.grad_fn)
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
    assert [recorded_info(n).module for n in (relu, tanh, linear)] == ["2", "1", "1.lin"]
    assert recorded_info(linear).module_types == ("Inner", "Linear")
    assert recorded_info(loss.grad_fn).module == "criterion"
    assert recorded_info(after.grad_fn).module == ""
    assert recorded_info(linear).inputs[0].name == "1.lin.bias"


def test_a_module_that_raises_leaves_no_path_behind() -> None:
    class Bad(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    model = nn.Sequential(nn.Sequential(Bad()))
    x = leaf(1.0)
    with viz.recording():
        with pytest.raises(KeyboardInterrupt):  # of which no hook is told
            model(x)
        z = x * 2
        inner = nn.Sequential(nn.Tanh())
        y = inner(x)
    assert recorded_info(z.grad_fn).module == ""
    assert recorded_info(y.grad_fn).module == "inner.0"


def test_parameters_are_named_after_the_variables_of_their_modules() -> None:
    first, last, loss_of = nn.Linear(2, 3), nn.Linear(3, 1), nn.MSELoss()
    with viz.recording() as story:
        loss_of(last(first(torch.ones(1, 2))), torch.zeros(1, 1)).backward()
    found = {item["name"] for item in story.to_json(pictures=False)["graph"]["items"]}
    assert {"first.weight", "first.bias", "last.weight", "last.bias"} <= found
    model = nn.Sequential(first, last)
    del first, last
    with viz.recording() as story:
        loss_of(model(torch.ones(1, 2)), torch.zeros(1, 1)).backward()
    found = {item["name"] for item in story.to_json(pictures=False)["graph"]["items"]}
    assert {"0.weight", "0.bias", "1.weight", "1.bias"} <= found  # what has none is no second one


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
    cuts = [recorded_info(r.grad_fn).inputs[1] for r in results]
    assert [c.cut for c in cuts] == ["detach", "detach", "detach", "no_grad", "item"]
    assert [line_of(c.cut_place) for c in cuts] == [
        "detached = h.detach()", "detached = h.detach()", "data = h.data",
        "unrecorded = h.exp()", "number = h.sum().item()",
    ]  # fmt: skip
    assert recorded_info(plain.grad_fn).inputs[1].cut is None


def test_what_never_had_a_history_is_not_cut() -> None:
    x, c = leaf(1.0), torch.tensor(2.0)
    with viz.recording():
        with torch.no_grad():
            d = c * 2
        y = x * d * c.detach() * (x > 0)
    node = y.grad_fn
    while node.next_nodes:
        assert all(d is None or d.cut is None for d in recorded_info(node).inputs)
        node = node.next_nodes[0]


# -- the state outside ---------------------------------------------------------------------------


def test_a_recording_leaves_everything_as_it_was() -> None:
    x = leaf(1.0)
    active = set(_modes.switch.active)
    with pytest.raises(ZeroDivisionError), viz.recording():
        x * 2
        _ = 1 / 0
    assert _modes.modes.interceptor is None
    assert _modes.modes.observer is None
    assert _modes.modes.pass_observer is None
    assert _modes.switch.active == active
    assert not any(GLOBAL_HOOKS.values())
    assert recorded_info((x * 2).grad_fn) is None
    assert (x * 2).grad_fn.extras is None


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
    assert recorded_info(a.grad_fn) is not None
    assert recorded_info(b.grad_fn) is not None


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
            found[name] = recorded_info((x * 2).grad_fn)
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
    assert not any(GLOBAL_HOOKS.values())


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


def test_a_recording_and_a_profiler_observe_the_same_pass() -> None:
    w = torch.tensor([0.0, 4.0], requires_grad=True)
    with viz.recording() as story, torch.profiler.profile():
        y = torch.where(w > 0, w.sqrt(), torch.zeros(2))
        y.sum().backward()
        with pytest.warns(UserWarning, match="not a leaf"):
            assert y.grad is None
    why = {mark["kind"]: mark["why"] for mark in story.to_json()["marks"]}
    assert why["nan"][0] == "0/0 at element [0]: the derivative of sqrt is infinite at 0."
    assert why["no_gradient"][-1].startswith("What to do: Call y.retain_grad() before backward()")


def test_what_comes_after_the_last_pass_that_is_kept_takes_the_fast_path() -> None:
    w = torch.tensor(2.0, requires_grad=True)
    module = torch.nn.Linear(1, 1)
    with viz.recording(max_passes=1) as story, torch.enable_grad():
        assert not _modes.modes.frame.states[-1].plain
        (w * w).backward()
        assert _modes.modes.frame.states[-1].plain
        y = module(w.reshape(1)) * w
        assert y.grad_fn.extras is None or not y.grad_fn.extras.metadata
        y.sum().backward()
        with pytest.warns(UserWarning, match="not a leaf"):
            assert y.grad is None
    assert story.passes_left_out == 1
    assert [mark.kind for mark in story.marks] == ["no_gradient"]
