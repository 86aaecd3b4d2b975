"""What functions of functions promise besides values: what they refuse, what they leave alone, how
often they run a function, and what goes in and out of them."""

from __future__ import annotations

import gc
import sys
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import retrograd as torch
from retrograd import _modes
from retrograd.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from retrograd.func._trees import flatten, unflatten

MUTATED = r"attempted to call in-place operation \((\w+)_\) that would mutate a captured Tensor"
X = torch.tensor([1.0, 2.0, 3.0])
WAYS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: grad(f)(X),
    "grad_and_value": lambda f: grad_and_value(f)(X)[0],
    "vjp": lambda f: vjp(f, X)[1](torch.tensor(1.0))[0],
    "jvp": lambda f: jvp(f, (X,), (X,))[1],
    "jacrev": lambda f: jacrev(f)(X),
    "jacfwd": lambda f: jacfwd(f)(X),
    "linearize": lambda f: linearize(f, X)[1](X),
    "hessian": lambda f: hessian(f)(X),
    "grad in vmap": lambda f: vmap(grad(f))(torch.stack([X, X])),
    "vmap in grad": lambda f: grad(lambda x: vmap(lambda y: f(x * y))(torch.ones(2)).sum())(X),
}


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert not _modes.switch.active
    assert _modes.modes.running is None
    assert torch.is_grad_enabled()
    assert X.tolist() == [1, 2, 3]


# -- writes to captured tensors --------------------------------------------------------------


class State:
    """What a function may have captured."""

    def __init__(self) -> None:
        self.tensor = torch.zeros(3)
        self.view = self.tensor[1:]
        self.matrix = torch.zeros(3, 3)
        self.inside_list = [torch.zeros(3)]

    def values(self) -> list[Any]:
        return [self.tensor.tolist(), self.matrix.tolist(), self.inside_list[0].tolist()]


def writes(name: str, state: State) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        if name == "add_":
            state.tensor.add_(1)
        elif name == "setitem":
            state.tensor[0] = 1.0
        elif name == "a view":
            state.view.mul_(2)
        elif name == "a view taken inside":
            state.matrix[1].fill_(3.0)
        elif name == "of a list":
            state.inside_list[0] += 1
        elif name == "copy_":
            state.tensor.copy_(torch.ones(3))
        elif name == "out":
            torch.add(torch.ones(3), torch.ones(3), out=state.tensor)
        elif name == "without recording":
            with torch.no_grad():
                state.tensor.zero_()
        return (x * x).sum()

    return f


WRITES = ["add_", "setitem", "a view", "a view taken inside", "of a list", "copy_", "out",
          "without recording"]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_captured_tensors_are_refused(way: str, name: str) -> None:
    state = State()
    before, version = state.values(), state.tensor._version
    with pytest.raises(RuntimeError, match=MUTATED) as caught:
        WAYS[way](writes(name, state))
    assert "test_func_contracts.py" in str(caught.value)  # the line of the write
    assert state.values() == before
    assert state.tensor._version == version


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_so_are_they_after_a_collection_of_garbage(way: str, collect: bool) -> None:
    """A collection makes no difference."""
    captured = torch.zeros(3)

    def f(x: Any) -> Any:
        mine = torch.zeros(3)
        if collect:
            gc.collect()
        mine.add_(1)
        if collect:
            gc.collect(0)
        mine.add_(1)
        captured.add_(mine)
        return (x * mine).sum()

    with pytest.raises(RuntimeError, match=MUTATED):
        WAYS[way](f)
    assert captured.tolist() == [0, 0, 0]


def test_a_tensor_made_just_before_is_captured() -> None:
    for _ in range(50):
        captured = torch.zeros(2)
        with pytest.raises(RuntimeError, match=MUTATED):
            grad(lambda x, c=captured: c.add_(1).sum() + x)(torch.tensor(1.0))


def test_what_an_outer_function_made_is_captured_by_an_inner_one() -> None:
    def outer(x: Any) -> Any:
        mine = torch.zeros(3)
        mine.add_(1)

        def inner(y: Any) -> Any:
            mine.add_(1)
            return (x * y).sum()

        return grad(inner)(x).sum()

    with pytest.raises(RuntimeError, match=MUTATED):
        grad(outer)(X)


def made_inside(kind: str, kept: list[Any]) -> Callable[[Any], Any]:
    """Functions that write what they made themselves, and keep it alive in some way."""

    def f(x: Any) -> Any:
        mine = torch.zeros(3)
        if kind == "in a cycle":
            cycle: list[Any] = [mine]
            cycle.append(cycle)
        elif kind == "kept outside":
            kept.append(mine)
        elif kind == "of many":
            kept.extend(torch.zeros(3).add_(i) for i in range(2000))  # collections take place
        elif kind == "as an attribute":
            f.state = mine  # type: ignore[attr-defined]
        elif kind == "by a view":
            kept.append(mine[1:])
        mine += 1
        mine[1:].mul_(1)
        if kind == "collected":
            gc.collect()
        mine.add_(0)
        return (x * mine).sum()

    return f


KINDS = ["dropped", "in a cycle", "of many", "as an attribute", "collected"]


@pytest.mark.parametrize("way", [w for w in WAYS if w not in ("hessian", "jvp", "linearize")])
@pytest.mark.parametrize("kind", KINDS)
def test_writes_to_tensors_made_inside_are_fine(way: str, kind: str) -> None:
    found = WAYS[way](made_inside(kind, []))
    expected = 2.0 if way == "vmap in grad" else 1.0
    assert found.reshape(-1).tolist() == [expected] * found.numel()


@pytest.mark.parametrize("kind", ["kept outside", "by a view"])
def test_what_a_function_puts_where_it_is_seen_from_outside_counts_as_captured(kind: str) -> None:
    """Its age is not known, only that the function could have got it from there."""
    with pytest.raises(RuntimeError, match=MUTATED):
        grad(made_inside(kind, []))(X)


def test_so_are_writes_to_what_is_returned() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        y.mul_(2)
        aux = torch.zeros(3)
        aux[0] = 5.0
        return y.sum(), (aux, aux[0:1], y)

    for _ in range(3):
        gradient, (aux, view, y) = grad(f, has_aux=True)(X)
        assert gradient.tolist() == [2, 2, 2]
        assert aux.tolist() == [5, 0, 0]
        assert view.tolist() == [5]
        assert y.tolist() == [2, 4, 6]


def test_arguments_may_be_written() -> None:
    """As in PyTorch: state that is passed in is not captured."""

    def f(x: Any, state: Any, *, named: Any) -> Any:
        state["count"].add_(1)
        state["count"][0].add_(10)
        named.add_(2)
        return (x * x).sum()

    count, named = torch.zeros(2), torch.zeros(2)
    assert grad(f)(X, {"count": count}, named=named).tolist() == [2, 4, 6]
    assert count.tolist() == [11, 1]
    assert named.tolist() == [2, 2]
    counts = torch.zeros(4, 2)
    per_row = vmap(lambda c: grad(lambda x, c: (x * c.add_(1).sum()).sum())(X, c))(counts)
    assert per_row.tolist() == [[2, 2, 2]] * 4
    assert counts.tolist() == [[1, 1]] * 4


def test_other_threads_may_write_what_they_like() -> None:
    shared = torch.zeros(3)

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: shared.add_(1))
        thread.start()
        thread.join()
        return (x * x).sum()

    assert grad(f)(X).tolist() == [2, 4, 6]
    assert shared.tolist() == [1, 1, 1]


def test_threads_that_collect_garbage_do_not_disturb_each_other() -> None:
    """What is captured is looked up without holding on to objects that others are making."""
    failures: list[BaseException] = []

    def f(x: Any) -> Any:
        mine = [torch.zeros(2) for _ in range(20)]
        garbage = [[i] for i in range(300)]
        for m in mine:
            m.add_(1)
        lengths = tuple(len(g) for g in garbage)
        return (x * mine[0]).sum() + lengths[0]

    def work() -> None:
        try:
            for _ in range(60):
                assert grad(f)(torch.ones(2)).tolist() == [1, 1]
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []


def test_after_the_function_has_run_everything_may_be_written() -> None:
    state = torch.zeros(3)
    _, pull = vjp(torch.sin, X)
    state.add_(1)
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: 1 / 0)(X)
    state.add_(1)
    assert pull(state)[0].shape == (3,)


# -- other things that do not go -------------------------------------------------------------


@pytest.mark.parametrize("way", [*WAYS, "vmap"])
def test_backward_is_refused_inside(way: str) -> None:
    w = torch.ones(3, requires_grad=True)

    def f(x: Any) -> Any:
        (w * 2).sum().backward()
        return (x * x).sum()

    run = WAYS.get(way, lambda f: vmap(f)(torch.stack([X, X])))
    with pytest.raises(RuntimeError, match=r"^backward\(\) called inside a functorch transform"):
        run(f)
    assert w.grad is None


def test_backward_goes_inside_of_a_users_dual_level() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.forward_ad.dual_level():
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: x.tolist(), "the elements"),
        (lambda x: x.numpy(), "the array"),
    ],
)
def test_looking_at_values_under_vmap_is_explained(f: Any, words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        vmap(f)(torch.ones(2, 3))
    assert type(caught.value) is RuntimeError
    assert words in str(caught.value)
    assert "torch.where()" in str(caught.value)


def test_messages_of_vmap_name_the_argument_and_the_shapes() -> None:
    with pytest.raises(ValueError, match=r"argument 1\['b'\]\[0\] has shape \[2, 3\] and in_dim=1"):
        vmap(lambda x, y: x, in_dims=(0, 1))(torch.ones(2), {"a": X[None], "b": [torch.ones(2, 3)]})
    with pytest.raises(ValueError, match=r"It is argument 0, of shape \[3\]"):
        vmap(torch.sin, in_dims=1)(X)
    with pytest.raises(ValueError, match=r"It is argument 1\['n'\]"):
        vmap(lambda x, d: x)(X, {"n": 1})


def test_strict_names_the_output() -> None:
    with pytest.raises(RuntimeError, match=r"independent of the inputs.*\(output 1\)"):
        jvp(lambda x: (x, X), (X,), (X,), strict=True)


# -- how often a function runs ---------------------------------------------------------------


class Counted:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


def network(x: Any) -> Any:
    return (x.tanh() * torch.arange(1.0, 4.0)).cumsum(0)


@pytest.mark.parametrize(
    "run",
    [
        lambda f: jacrev(f)(X), lambda f: jacfwd(f)(X), lambda f: jacrev(f, chunk_size=1)(X),
        lambda f: hessian(f)(X), lambda f: vmap(f)(torch.stack([X] * 5)),
        lambda f: [push(X) for push in [linearize(f, X)[1]] for _ in range(3)],
        lambda f: [pull(X) for pull in [vjp(f, X)[1]] for _ in range(3)],
    ],
)  # fmt: skip
def test_a_function_runs_once(run: Any) -> None:
    counted = Counted(network)
    run(counted)
    assert counted.calls == 1


def test_chunks_run_it_once_each() -> None:
    counted = Counted(torch.sin)
    found = vmap(counted, chunk_size=2)(torch.ones(5, 2))
    assert counted.calls == 3
    assert found.shape == (5, 2)


def test_linearize_takes_one_pass_for_a_tangent() -> None:
    passes = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            passes.append("backward")
            return g * 3

    _, push = linearize(lambda x: Watched.apply(x.sin()), X)
    before = len(passes)
    expected = 3 * X.cos() * X
    for _ in range(3):
        assert torch.allclose(push(X), expected)
    assert len(passes) == before  # what was recorded of it is enough


def test_derivatives_of_plain_functions_take_the_fast_paths() -> None:
    def f(x: Any) -> Any:
        assert not _modes.switch.active
        return (x * x).sum()

    grad(f)(X)
    vjp(f, X)[1](torch.tensor(1.0))
    linearize(f, X)[1](X)


# -- histories -------------------------------------------------------------------------------


def test_results_have_a_history_only_if_there_is_something_outside() -> None:
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def f(x: Any) -> Any:
        return (w * x * x).sum(), (x * 2, w * 2, x * w)

    gradient, (value, aux) = grad_and_value(f, has_aux=True)(X)
    assert gradient.requires_grad
    assert value.requires_grad
    assert [a.requires_grad for a in aux] == [False, True, True]
    gradient.sum().backward(retain_graph=True)
    assert w.grad.tolist() == [2, 4, 6]
    w.grad = None
    value.backward()
    assert w.grad.tolist() == [1, 4, 9]
    with torch.no_grad():
        gradient, (value, aux) = grad_and_value(f, has_aux=True)(X)
    assert not any(t.requires_grad for t in (gradient, value, *aux))
    gradient, value = grad_and_value(lambda x: (x * x).sum())(X)
    assert not gradient.requires_grad
    assert not value.requires_grad
    assert value.grad_fn is None


# Functions of x, in which something is a constant because recording is off.
OFF = {
    "grad": "func.grad(lambda z: z.sin().sum())(x)",
    "vmap of grad": "vmap(func.grad(torch.sin))(x)",
    "the value, too": "vmap(func.grad_and_value(torch.sin))(x)[1]",
    "of vjp": "vmap(lambda y: func.vjp(torch.sin, y)[0])(x)",
    "nested": "vmap(func.grad_and_value(lambda y: func.grad_and_value(torch.sin)(y)[1]))"
    "(x)[1]",
    "captured": "vmap(lambda y: func.grad(lambda z: z.sin() * x.sum())(y))(x)",
    "forward over reverse": "func.jvp(func.grad(lambda z: z.sin().sum()), (x,), (x,))[1]",
    "of values": "func.jvp(lambda y: func.grad_and_value(lambda z: z.sin().sum())(y)[1], "
    "(x,), (x,))[1]",
    "jacrev": "func.jacrev(lambda y: y.exp().cumsum(0))(x).sum(0)",
    "hessian": "func.hessian(lambda y: y.exp().sum())(x).sum(0)",
    "jvp": "func.jvp(lambda y: torch.logsumexp(y * y, 0) * y.prod(), (x,), (x,))[1]",
}  # fmt: skip


@pytest.mark.parametrize("name", OFF)
def test_recording_that_is_off_is_off_for_what_is_outside(name: str) -> None:
    x = torch.tensor([0.3, 0.7, 1.1], dtype=torch.float64)

    def constant(x: Any) -> Any:
        return eval(OFF[name], {"torch": torch, "func": torch.func, "vmap": vmap, "x": x})

    def f(x: Any) -> Any:
        with torch.no_grad():
            c = constant(x)
        return (c * x).sum()

    expected = constant(x).expand(3)
    assert torch.allclose(grad(f)(x), expected, rtol=1e-12)
    assert not torch.allclose(grad(lambda x: (constant(x) * x).sum())(x), expected)


def test_second_derivatives_through_writes_to_views() -> None:
    """A write by an operation that keeps its result, differentiated twice and freed once."""

    def f(x: Any) -> Any:
        y = x.clone()
        y[1:].add_(x[1:])
        y[1:].tanh_()
        return y.sin().sum()

    x = torch.tensor([0.3, 0.5], dtype=torch.float64)
    t = (2 * x[1]).tanh()
    s = 1 - t * t
    expected = [-x[0].sin(), 4 * (-s * s * t.sin() - 2 * t * s * t.cos())]
    assert torch.allclose(grad(lambda x: grad(f)(x).sum())(x), torch.stack(expected), rtol=1e-12)


def test_what_vjp_returns_can_be_differentiated_by_captured_tensors() -> None:
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    value, pull = vjp(lambda x: w * x, X)
    assert value.requires_grad
    (product,) = pull(torch.ones(3))
    assert torch.autograd.grad(product.sum(), w)[0].tolist() == [1, 1, 1]
    v = torch.ones(3, requires_grad=True)
    _, pull = vjp(torch.sin, X)
    (product,) = pull(v)
    assert torch.allclose(torch.autograd.grad(product.sum(), v)[0], X.cos())
    with torch.no_grad():
        assert not pull(v)[0].requires_grad


def test_a_result_that_is_an_argument_shares_its_memory_and_its_version() -> None:
    x = torch.tensor(X.tolist())
    w = torch.ones(3, requires_grad=True)
    y = w * x  # keeps x
    value, _ = vjp(lambda x: x, x)
    value.add_(1)
    assert x.tolist() == [2, 3, 4]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_inference_mode_outside_does_not_matter() -> None:
    with torch.inference_mode():
        x = torch.tensor([1.0, 2.0])
        found = grad(lambda x: (x * x).sum())(x)
        assert found.tolist() == [2, 4]
        assert jacrev(torch.square)(x).tolist() == [[2, 0], [0, 4]]
        assert jvp(torch.square, (x,), (x,))[1].tolist() == [2, 8]
        assert hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 12]]
        assert linearize(torch.square, x)[1](x).tolist() == [2, 8]


def test_nothing_is_left_in_grad_of_arguments_and_captured_tensors() -> None:
    x, w = (torch.tensor(X.tolist(), requires_grad=True) for _ in range(2))
    for run in (grad, jacrev, jacfwd, hessian):
        run(lambda x: (w * x * x).sum())(x)
    assert x.grad is None
    assert w.grad is None


def test_hooks_inside_functions_are_called() -> None:
    seen = []

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: seen.append(g.tolist()))
        x.register_hook(lambda g: g * 10)
        return y.sum()

    assert grad(f)(X).tolist() == [20, 20, 20]
    assert seen == [[1, 1, 1]]


def test_the_graph_is_let_go() -> None:
    import weakref

    alive: list[Any] = []

    def f(x: Any) -> Any:
        y = x.exp()
        alive.append(weakref.ref(y))
        return y.sum()

    gc.disable()
    try:
        for run in (grad(f), grad_and_value(f), jacrev(f), jacfwd(f)):
            run(X)
        vmap(grad(f))(torch.stack([X, X]))
        assert len(alive) == 5
        assert [r() for r in alive] == [None] * 5
    finally:
        gc.enable()


# -- trees -----------------------------------------------------------------------------------

Pair = namedtuple("Pair", ["left", "right"])


@pytest.mark.parametrize(
    "tree",
    [
        1, None, (), [], {}, (1, None), Pair(1, [2]), OrderedDict(b=1, a=(2,)), {"b": 1, "a": [2]},
        defaultdict(list, a=1), deque([1, 2], maxlen=3), torch.Size([2, 3]),
        [{"a": (1, [2, None])}],
    ],
)  # fmt: skip
def test_trees_are_put_together_as_they_were(tree: Any) -> None:
    leaves, shape = flatten(tree)
    again = unflatten(leaves, shape)
    assert again == tree
    assert type(again) is type(tree)
    assert getattr(again, "maxlen", None) == getattr(tree, "maxlen", None)
    assert getattr(again, "default_factory", None) is getattr(tree, "default_factory", None)


def test_trees_go_through_all_transforms() -> None:
    point = OrderedDict(pair=Pair(X, [X * 2]), d=defaultdict(int, z=X * 3))

    def f(p: Any) -> Any:
        assert isinstance(p["pair"], Pair)
        assert isinstance(p["d"], defaultdict)
        return Pair((p["pair"].left * p["pair"].right[0]).sum(), {"z": p["d"]["z"] * 2})

    for found in (jacrev(f)(point), jacfwd(f)(point)):
        assert isinstance(found, Pair)
        assert isinstance(found.left, OrderedDict)
        assert found.left["pair"].left.tolist() == [2, 4, 6]
        assert found.left["pair"].right[0].tolist() == [1, 2, 3]
        assert found.right["z"]["d"]["z"].tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
        assert found.right["z"]["pair"].left.tolist() == [[0] * 3] * 3
    mapped = vmap(lambda p: f(p)._replace(right=p["d"]))(point)
    assert isinstance(mapped.right, defaultdict)
    value, push = linearize(f, point)
    assert push(point).left.item() == 2 * value.left.item()
    values, sorted_places = vmap(lambda x: torch.sort(x, 0))(torch.tensor([[2.0, 1.0]]))
    assert values.tolist() == [[1, 2]]
    assert sorted_places.tolist() == [[1, 0]]


def test_dicts_may_be_given_in_another_order() -> None:
    _, pull = vjp(lambda x: {"a": x, "b": 2 * x}, X)
    assert pull({"b": torch.ones(3), "a": torch.zeros(3)})[0].tolist() == [2, 2, 2]
    found = vmap(lambda d: d["a"] - d["b"], in_dims=({"b": None, "a": 0},))
    assert found({"a": X, "b": torch.tensor(1.0)}).tolist() == [0, 1, 2]


def test_aux_may_be_anything() -> None:
    """Beyond PyTorch, where an aux is Tensors."""
    for run in (grad, jacrev, jacfwd):
        _, aux = run(lambda x: (x.sum(), {"n": 3, "s": "word", "none": None}), has_aux=True)(X)
        assert aux == {"n": 3, "s": "word", "none": None}


def test_empty_tensors() -> None:
    empty = torch.zeros(0)
    assert grad(torch.sum)(empty).shape == (0,)
    for way in (jacrev, jacfwd):
        assert way(torch.sin)(empty).shape == (0, 0)
        assert way(lambda x: x.sum() * X)(empty).shape == (3, 0)
        assert way(lambda x: x[:0])(X).shape == (0, 3)
    assert vmap(torch.sin)(torch.zeros(0, 3)).shape == (0, 3)
    assert vmap(torch.sin, chunk_size=1)(torch.zeros(0, 3)).shape == (0, 3)


# -- modules ---------------------------------------------------------------------------------


class Module:
    """The least that a module is."""

    training = True

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def _named(self, wanted: bool, prefix: str, seen: set[int] | None) -> Iterator[tuple[str, Any]]:
        for name, member in list(self.__dict__.items()):
            if isinstance(member, Module):
                yield from member._named(wanted, f"{prefix}{name}.", seen)
            elif isinstance(member, torch.Tensor) and member.requires_grad is wanted:
                known = set() if seen is None else seen
                if id(member) not in known:
                    known.add(id(member))
                    yield f"{prefix}{name}", member

    def named_parameters(self, remove_duplicate: bool = True) -> Any:
        return self._named(True, "", set() if remove_duplicate else None)

    def named_buffers(self, remove_duplicate: bool = True) -> Any:
        return self._named(False, "", set() if remove_duplicate else None)


class Linear(Module):
    def __init__(self, scale: float = 1.0) -> None:
        weight = torch.full((3,), scale, requires_grad=True)
        super().__init__(weight=weight, count=torch.zeros(()))

    def __call__(self, x: Any) -> Any:
        self.count = self.count + 1
        return (self.weight * x).sum()


class Net(Module):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(first=Linear(scale), second=Linear(10 * scale))

    def __call__(self, x: Any, *, fail: bool = False) -> Any:
        y = self.first(x) * x
        if fail:
            raise ZeroDivisionError
        return self.second(y)


class Registered(Module):
    """With dicts of parameters and buffers, as PyTorch's modules have them."""

    def __init__(self) -> None:
        self._parameters = {"weight": torch.ones(3, requires_grad=True), "bias": None}
        self._buffers = {"shift": torch.zeros(3)}

    def __getattr__(self, name: str) -> Any:
        for store in ("_parameters", "_buffers"):
            if name in self.__dict__[store]:
                return self.__dict__[store][name]
        raise AttributeError(name)

    def named_parameters(self, remove_duplicate: bool = True) -> Any:
        return [(n, p) for n, p in self._parameters.items() if p is not None]

    def named_buffers(self, remove_duplicate: bool = True) -> Any:
        return list(self._buffers.items())

    def __call__(self, x: Any) -> Any:
        return self.weight * x + self.shift


def state(module: Any) -> dict[str, Any]:
    return dict([*module.named_parameters(), *module.named_buffers()])


def test_functional_call_replaces_and_restores() -> None:
    net = Net()
    before = state(net)
    given = {"first.weight": torch.zeros(3), "second.count": torch.tensor(5.0)}
    assert functional_call(net, given, X).item() == 0
    after = state(net)
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before if name != "first.count")
    assert net.first.count.item() == 1  # what was not given is the module's own state
    assert given["second.count"].item() == 6  # what was is in the dict
    assert net.second.count.item() == 0


def test_functional_call_restores_after_errors() -> None:
    net = Net()
    before = state(net)
    with pytest.raises(ZeroDivisionError):
        functional_call(net, {"first.weight": X, "second.weight": X}, (X,), {"fail": True})
    with pytest.raises(TypeError, match=r"second\.weight.*is not an instance of torch\.Tensor"):
        functional_call(net, {"first.weight": X, "second.weight": 1.0}, X)
    with pytest.raises(AttributeError, match="Net has no attribute `third`"):
        functional_call(net, {"first.weight": X, "third.weight": X}, X)
    after = state(net)
    assert all(after[name] is before[name] for name in ("first.weight", "second.weight"))


def test_functional_call_under_transforms() -> None:
    net = Net()
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(parameters: Any, x: Any) -> Any:
        return functional_call(net, parameters, x)

    found = grad(loss)(parameters, X)
    # (w1 . x) (w2 . x), with w1 = 1, w2 = 10
    assert found["first.weight"].tolist() == [60, 120, 180]
    assert found["second.weight"].tolist() == [6, 12, 18]
    each = vmap(grad(loss), in_dims=(None, 0))(parameters, torch.stack([X, 2 * X]))
    assert each["first.weight"].tolist() == [[60, 120, 180], [240, 480, 720]]
    assert net.first.weight.grad is None


def test_functional_call_with_registered_tensors() -> None:
    module = Registered()
    found = functional_call(module, ({"weight": X}, {"shift": torch.ones(3)}), X)
    assert found.tolist() == [2, 5, 10]
    assert module.weight.tolist() == [1, 1, 1]
    assert functional_call(module, {"bias": X}, X).tolist() == [1, 2, 3]
    assert module._parameters["bias"] is None
    functional_call(module, {"other": X}, X)
    assert "other" not in module.__dict__


def test_tied_weights() -> None:
    net = Net()
    net.second.weight = net.first.weight
    given = {"first.weight": torch.zeros(3)}
    assert functional_call(net, given, X).item() == 0
    assert list(given) == ["first.weight"]
    assert functional_call(net, {"first.weight": 2 * X}, X).item() == 28 * 28
    assert functional_call(net, {"first.weight": X}, X, tie_weights=False).item() == 14 * 6
    with pytest.raises(ValueError, match=r"functional_call got multiple values for keys \['first.we"
                       r"ight', 'second.weight'\], which are tied"):  # fmt: skip
        functional_call(net, {"first.weight": X, "second.weight": 2 * X}, X)
    both = {"first.weight": X, "second.weight": X}
    assert functional_call(net, both, X).item() == 14 * 14
    assert net.first.weight is net.second.weight
    # and the gradient goes to the one
    found = grad(lambda p: functional_call(net, p, X))({"first.weight": X})
    assert found["first.weight"].tolist() == [28, 56, 84]


def test_strict_names() -> None:
    net = Net()
    names = {"first.weight": X, "first.count": X, "second.weight": X}
    with pytest.raises(RuntimeError, match=r"Error\(s\) in reparametrizing for Net:\n\tUnexpected "
                       r"key\(s\): 'no'.\n\tMissing key\(s\): 'second.count'."):  # fmt: skip
        functional_call(net, {**names, "no": X}, X, strict=True)
    everything = {**names, "second.count": torch.zeros(())}
    assert functional_call(net, everything, X, strict=True).item() == 14 * 14


def test_bad_dicts() -> None:
    net = Net()
    with pytest.raises(ValueError, match="Expected parameter_and_buffer_dicts to be a dict"):
        functional_call(net, 3, X)
    with pytest.raises(ValueError, match="Expected all elements of parameter_and_buffer_dicts"):
        functional_call(net, [{}, 3], X)
    with pytest.raises(ValueError, match=r"\['a'\] appeared in multiple dictionaries"):
        functional_call(net, ({"a": X}, {"a": X}), X)


def test_an_ensemble() -> None:
    models = [Net(1.0), Net(2.0)]
    parameters, buffers = stack_module_state(models)
    assert parameters["first.weight"].shape == (2, 3)
    assert all(p.is_leaf and p.requires_grad for p in parameters.values())
    assert not any(b.requires_grad for b in buffers.values())
    call = vmap(lambda p, b, x: functional_call(models[0], (p, b), x), in_dims=(0, 0, None))
    found = call(parameters, buffers, X)
    assert found.tolist() == [360, 1440]
    found.sum().backward()
    assert parameters["second.weight"].grad.tolist() == [[6, 12, 18], [12, 24, 36]]
    assert models[0].first.weight.grad is None


def test_bad_ensembles() -> None:
    with pytest.raises(RuntimeError, match="Expected at least one model, got 0"):
        stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        stack_module_state([Net(), Linear()])
    evaluated = Net()
    evaluated.training = False
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        stack_module_state([Net(), evaluated])

    class Mixed(Module):
        def named_parameters(self, remove_duplicate: bool = True) -> Any:
            return [("weight", self.weight)]

        def named_buffers(self, remove_duplicate: bool = True) -> Any:
            return []

    mixed = [Mixed(weight=torch.ones(1, requires_grad=True)), Mixed(weight=torch.ones(1))]
    with pytest.raises(RuntimeError, match="Expected weight from each model to have the same"):
        stack_module_state(mixed)
