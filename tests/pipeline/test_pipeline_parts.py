"""The parts of a pipeline in one process: cuts, values that are sent, and split backward passes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd import distributed, nn, pipeline
from retrograd.pipeline._backward import backward_inputs
from retrograd.pipeline._layers import ties_of
from retrograd.pipeline._partition import boundaries_of
from retrograd.pipeline._stage import Arrived, Routes, Stage
from retrograd.pipeline._values import Form, put_together, taken_apart


@pytest.fixture(autouse=True)
def _alone_again() -> Iterator[None]:
    yield
    if distributed.is_initialized():
        distributed.destroy_process_group()


# -- cuts ----------------------------------------------------------------------------------------


def largest(costs: list[float], boundaries: Any) -> float:
    return max(sum(costs[a:b]) for a, b in itertools.pairwise(boundaries))


@given(st.data())
def test_no_cut_is_better(data: st.DataObject) -> None:
    costs = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=9))
    parts = data.draw(st.integers(1, len(costs)))
    found = pipeline.partition(costs, parts)
    assert len(found) == parts + 1
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0, len(costs))
    inner = itertools.combinations(range(1, len(costs)), parts - 1)
    assert largest(costs, found) == min(largest(costs, (0, *cut, len(costs))) for cut in inner)


def test_cuts_of_many_layers_are_quick_and_right() -> None:
    costs = [float((i * 7919) % 101 + 1) for i in range(2000)]
    found = pipeline.partition(costs, 64)
    limit = largest(costs, found)

    def parts_needed(limit: float) -> int:
        """Filling up one part after the other needs the fewest."""
        count, filled = 1, 0.0
        for cost in costs:
            if filled + cost > limit:
                count, filled = count + 1, 0.0
            filled += cost
        return count

    assert parts_needed(limit) <= 64 < parts_needed(limit - 1)


def test_cuts_are_refused_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="cannot be cut into 3 parts"):
        pipeline.partition([1, 2], 3)
    with pytest.raises(ValueError, match="at least 0"):
        pipeline.partition([1, float("nan")], 1)


def test_ways_to_cut() -> None:
    layers = [("0", nn.Linear(30, 30)), *((str(i), nn.Linear(3, 3)) for i in range(1, 6))]
    assert boundaries_of("uniform", layers, 2, (), None) == [0, 3, 6]
    assert boundaries_of("parameters", layers, 2, (), None) == [0, 1, 6]
    assert boundaries_of([4], layers, 2, (), None) == [0, 4, 6]
    assert boundaries_of([0, 4, 6], layers, 2, (), None) == [0, 4, 6]


def test_profile_finds_the_layer_that_takes_long() -> None:
    class Long(nn.Module):
        def forward(self, x: Any, more: Any = 0) -> Any:
            for _ in range(300):
                x = torch.sin(x)
            return x + more

    layers = [nn.Linear(4, 4), Long(), nn.ReLU(inplace=True), nn.Linear(4, 4)]
    seconds = pipeline.profile(layers, torch.ones(2, 4), skips=[(-1, 1)])
    assert max(range(4), key=seconds.__getitem__) == 1
    assert all(p.grad is None for layer in layers for p in layer.parameters())
    named = [(str(i), layer) for i, layer in enumerate(layers)]
    assert boundaries_of("profile", named, 3, [(-1, 1)], torch.ones(2, 4)) == [0, 1, 2, 4]
    numbers = [nn.Embedding(5, 4), nn.Linear(4, 4)]
    assert len(pipeline.profile(numbers, torch.tensor([1, 2]))) == 2


def test_ties_are_found_and_joined() -> None:
    shared = nn.Linear(2, 2)
    layers = [("a", shared), ("b", nn.Linear(2, 2)), ("c", shared), ("d", nn.Linear(2, 2))]
    assert ties_of(layers, ()) == [("a.weight", "c.weight"), ("a.bias", "c.bias")] or ties_of(
        layers, ()
    ) == [("a.bias", "c.bias"), ("a.weight", "c.weight")]
    joined = ties_of(layers, [("d.weight", "c.weight")])
    assert ("a.weight", "c.weight", "d.weight") in joined


# -- what is sent --------------------------------------------------------------------------------

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
tensors = st.lists(st.integers(0, 3), max_size=3).map(lambda shape: torch.ones(shape))
trees = st.recursive(
    plain | tensors,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a is b
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@given(trees)
def test_values_are_put_together_again(tree: Any) -> None:
    text, found = taken_apart(tree)
    assert same(put_together(text, found), tree)
    assert Form(text).tensors == [(tuple(x.shape), x.dtype) for x in found]


def test_values_that_cannot_be_sent() -> None:
    for value in (object(), {1.5: 2}, {torch.ones(1)}, 1j):
        with pytest.raises(TypeError, match="cannot be sent from one stage to another"):
            taken_apart((torch.ones(1), value))


# -- backward passes in two halves ---------------------------------------------------------------


class Twice(torch.autograd.Function):
    """A custom operation that counts how often it is differentiated."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return 2 * x * w

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        Twice.calls += 1
        x, w = ctx.saved_tensors
        return 2 * gradients[0] * w, 2 * gradients[0] * x


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6))

    def forward(self, x: Any) -> Any:
        return Twice.apply(x, self.weight) + self.weight


class Normed(nn.Module):
    """A weight that is computed once and used twice: ways off the path that meet."""

    def __init__(self) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(6, 6))
        self.length = nn.Parameter(torch.rand(6, 1))

    def forward(self, x: Any) -> Any:
        weight = self.direction * self.length / self.direction.norm(dim=1, keepdim=True)
        return torch.tanh(x @ weight) @ weight + Twice.apply(x, weight[0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.lstm(x.unsqueeze(1))[0].squeeze(1)


class Pieces(nn.Module):
    """Several outputs of one node, and writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x: Any) -> Any:
        a, b = self.linear(x).chunk(2, dim=1)
        y = torch.cat([a * self.weight, b], dim=1)
        z = y * 1
        z[:, 0] = self.weight[0] * y[:, 1]
        z.mul_(2)
        return z


MODELS = {
    "linear": lambda: nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)),
    "norm": lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.BatchNorm1d(6)),
    "custom": lambda: nn.Sequential(Custom(), nn.Linear(6, 6), Custom()),
    "meeting": lambda: nn.Sequential(Normed(), Normed()),
    "recurrent": lambda: nn.Sequential(Recurrent(), Recurrent()),
    "pieces": lambda: nn.Sequential(Pieces(), nn.Linear(6, 6), Pieces()),
    "transformer": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, dropout=0.0),
        nn.Flatten(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_two_halves_are_one_pass(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    parameters = list(model.parameters())
    x = torch.randn(5, 6, dtype=torch.float64)

    def outputs(leaf: Any) -> Any:
        y = model(leaf * 1)
        return [y, y.sum(dim=0)]

    whole = x.clone().requires_grad_()
    given_gradients = [torch.randn_like(y) for y in outputs(whole)]
    for p in parameters:
        p.grad = None
    Twice.calls = 0
    torch.autograd.backward(outputs(whole), given_gradients)
    calls = Twice.calls
    wanted = [p.grad for p in parameters]

    for p in parameters:
        p.grad = None
    Twice.calls = 0
    leaf = x.clone().requires_grad_()
    halves = backward_inputs(outputs(leaf), given_gradients, [leaf])
    assert halves is not None
    (of_input,), later = halves
    assert torch.allclose(of_input, whole.grad, rtol=0, atol=1e-12)
    assert leaf.grad is None
    assert all(p.grad is None for p in parameters)
    later.run()
    assert all(torch.allclose(p.grad, w, rtol=0, atol=1e-12)
               for p, w in zip(parameters, wanted, strict=True))  # fmt: skip
    assert Twice.calls == calls


def test_every_gradient_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for weights in the second half, those for inputs in the first."""
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 8))
    x = torch.randn(5, 6).requires_grad_()
    torch.autograd.backward([model(x * 1)], [torch.ones(5, 8)])
    y = model(x * 1)
    kind = type(y.grad_fn)
    asked: list[tuple[Any, tuple[bool, ...]]] = []
    original = kind.backward

    def spy(node: Any, g: Any, next_nodes: Any) -> Any:
        asked.append((node, tuple(n is not None for n in next_nodes)))
        return original(node, g, next_nodes)

    monkeypatch.setattr(kind, "backward", spy)
    halves = backward_inputs([y], [torch.ones_like(y)], [x])
    assert halves is not None
    first, asked = asked, []
    halves[1].run()
    assert len(first) == len(asked) == 2
    assert {node for node, _ in first} == {node for node, _ in asked}
    for (_, a), (_, b) in zip(
        sorted(first, key=lambda c: c[0].order),
        sorted(asked, key=lambda c: c[0].order),
        strict=True,
    ):
        assert all(in_first != in_second for in_first, in_second in zip(a, b, strict=True))
        assert sum(a) == 1


def test_hooks_keep_a_pass_whole() -> None:
    w = torch.ones(2, requires_grad=True)
    x = torch.ones(2, requires_grad=True)
    seen: list[Any] = []
    y = x * w
    y.register_hook(seen.append)
    assert backward_inputs([y * 2], [torch.ones(2)], [x]) is None
    assert seen == []
    assert x.grad is None


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_recomputes_keeps_a_pass_whole(reentrant: bool) -> None:
    linear = nn.Linear(2, 2)
    x = torch.ones(1, 2, requires_grad=True)
    runs: list[int] = []

    def layer(x: Any) -> Any:
        runs.append(1)
        return torch.tanh(linear(x))

    y = torch.utils.checkpoint.checkpoint(layer, x * 1, use_reentrant=reentrant)
    assert backward_inputs([y * 2], [torch.ones(1, 2)], [x]) is None
    assert len(runs) == 1
    assert x.grad is None


def test_no_input_needs_a_gradient() -> None:
    w = torch.ones(2, requires_grad=True)
    halves = backward_inputs([w * 3], [torch.ones(2)], [])
    assert halves is not None
    assert halves[0] == []
    halves[1].run()
    assert w.grad.tolist() == [3, 3]


# -- stages --------------------------------------------------------------------------------------


def run_two_stages(split: bool, recompute: int | None) -> list[Any]:
    """Two stages by hand: what a pipeline does between processes."""
    torch.manual_seed(3)
    layers = [("0", nn.Linear(6, 6)), ("1", nn.Dropout(0.5)), ("2", nn.Linear(6, 6)),
              ("3", nn.Dropout(0.5))]  # fmt: skip
    routes = Routes([0, 2, 4], [(0, 3)])
    layers[3] = ("3", lambda x, skipped: x * skipped)
    a = Stage(0, layers[:2], routes, recompute=recompute)
    b = Stage(1, layers[2:], routes, recompute=recompute, loss_fn=lambda y, t: (y - t).pow(2).sum())
    x, t = torch.randn(3, 6), torch.randn(3, 6)
    (form, sent) = a.forward(0, {}, inputs=x, moment=(1, 2))[1]
    arrived = Arrived(Form(form), [y.detach().clone() for y in sent], recording=True)
    (_, loss) = b.forward(0, {0: arrived}, targets=t, moment=(1, 2))[-1]
    if split:
        back = b.backward_input(0, {})
        assert (layers[2][1].weight.grad is None) == (recompute is None)
        a.backward_input(0, {1: back[0]})
        b.backward_weight(0)
        a.backward_weight(0)
    else:
        a.backward(0, {1: b.backward(0, {})[0]})
    assert a.in_flight == b.in_flight == {}
    return [loss, layers[0][1].weight.grad, layers[2][1].weight.grad]


def test_stages_by_hand() -> None:
    wanted = run_two_stages(False, None)
    torch.manual_seed(3)
    first, _, second = nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 6)
    for split, recompute in itertools.product([False, True], [None, 1, 2]):
        found = run_two_stages(split, recompute)
        assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert torch.equal(first.weight, first.weight)
    assert second.weight.shape == wanted[2].shape


def test_recomputing_keeps_less() -> None:
    def kept(recompute: int | None) -> int:
        layers = [(str(i), nn.Tanh()) for i in range(12)]
        stage = Stage(
            0, layers, Routes([0, 12], []), recompute=recompute, loss_fn=lambda y, t: y.sum()
        )
        packed: list[Any] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x):
            stage.forward(0, {}, inputs=torch.ones(2, requires_grad=True))
        return len(packed)

    assert kept(None) == 12
    assert kept(4) < 6


def test_checkpoint_chooses_layers() -> None:
    runs: list[str] = []

    class Counts(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def forward(self, x: Any) -> Any:
            runs.append(self.name)
            return x.exp()

    pipe = pipeline.Pipeline(
        [nn.Linear(2, 2), Counts("a"), Counts("b")], microbatches=1,
        loss_fn=lambda y, t: y.sum(), checkpoint=lambda layer: getattr(layer, "name", "") == "b",
    )  # fmt: skip
    pipe.train_batch(iter([(torch.ones(1, 2), None)]))
    assert runs == ["a", "b", "b"]


@settings(max_examples=30)
@given(st.data())
def test_routes_bring_every_skip_to_its_layer(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 8))
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1))))
    pairs = st.tuples(st.integers(-1, count - 2), st.integers(0, count - 1))
    skips = [(i, j) for i, j in data.draw(st.lists(pairs, max_size=4)) if i < j]
    routes = Routes([0, *cuts, count], skips)
    for i, j in skips:
        source, target = routes.stage_of(i), routes.stage_of(j)
        if source != target:
            assert (source, target) in routes.links
            assert i in routes.sent(source, target)
    for source, target in routes.links:
        assert (None in routes.sent(source, target)) == (target == source + 1)


def test_errors_say_which_layer() -> None:
    pipe = pipeline.Pipeline(
        [nn.Linear(2, 3), nn.Linear(2, 2)], microbatches=1, loss_fn=lambda y, t: y.sum()
    )
    with pytest.raises(RuntimeError) as caught:
        pipe.train_batch(iter([(torch.ones(1, 2), None)]))
    assert caught.value.__notes__ == ["in the forward pass of layer '1' (Linear) of stage 0"]
