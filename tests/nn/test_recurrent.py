"""Recurrent layers and cells, and sequences of different lengths: beside PyTorch, beside loops
written out in NumPy, and under transforms."""

import contextlib
import copy
import io
import pickle
import textwrap
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd
from retrograd import nn
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import functional_call, grad, jvp, vmap
from retrograd.nn.utils import rnn as sequences


def made(library: Any, expression: str) -> Any:
    library.manual_seed(7)
    return eval(expression, {"nn": library.nn, "torch": library})


# -- beside PyTorch ------------------------------------------------------------------------------

LAYERS = [
    f"nn.{kind}({options})"
    for kind in ("RNN", "LSTM", "GRU")
    for options in (
        "3, 4", "3, 4, bias=False", "3, 4, num_layers=2", "3, 4, bidirectional=True",
        "3, 4, 2, batch_first=True, bidirectional=True", "3, 1, dropout=0.0",
    )
]  # fmt: skip
LAYERS += ["nn.RNN(3, 4, nonlinearity='relu')", "nn.RNN(3, 4, 2, 'relu', False, True)",
           "nn.LSTM(3, 4, proj_size=2)", "nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)",
           "nn.LSTM(3, 4, 2, proj_size=3, bias=False, batch_first=True)"]  # fmt: skip
WAYS = ("batch", "alone", "states", "alone with states", "sorted", "unsorted", "unsorted states")
LENGTHS = {"sorted": [5, 3, 3, 1], "unsorted": [2, 5, 1, 3]}


def inputs_for(module: Any, way: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs, of which there are four sequences of five steps, and initial states."""
    random = np.random.default_rng(3)
    alone = way.startswith("alone")
    shape = (5, 3) if alone else (4, 5, 3) if module.batch_first else (5, 4, 3)
    count = module.num_layers * (2 if module.bidirectional else 1)
    sizes = [module.proj_size or module.hidden_size]
    sizes += [module.hidden_size] if module.mode == "LSTM" else []
    states = [random.standard_normal((count, n) if alone else (count, 4, n)) for n in sizes]
    return [random.standard_normal(shape)], states if "states" in way else []


def outputs_of(found: Any) -> list[Any]:
    output, states = found
    output = output.data if hasattr(output, "batch_sizes") else output
    return [output, *(states if isinstance(states, tuple) else (states,))]


def weighted_sum(library: Any, outputs: list[Any]) -> Any:
    total = 0
    for i, y in enumerate(outputs):
        weight = np.cos(np.arange(y.numel()) + i).reshape(tuple(y.shape))
        total = total + (y * library.from_numpy(weight).to(y.dtype)).sum()
    return total


def run(library: Any, module: Any, way: str, dtype: str) -> dict[str, np.ndarray]:
    module.to(getattr(library, dtype))
    module.zero_grad()
    inputs, states = (
        [library.from_numpy(x.astype(dtype)).requires_grad_() for x in arrays]
        for arrays in inputs_for(module, way)
    )
    hx = None if not states else tuple(states) if len(states) > 1 else states[0]
    x, lengths = inputs[0], LENGTHS.get(way.split()[0])
    if lengths:
        x = library.nn.utils.rnn.pack_padded_sequence(
            x, lengths, module.batch_first, enforce_sorted=way == "sorted"
        )
    outputs = outputs_of(module(x, hx))
    weighted_sum(library, outputs).backward()
    found = {f"output {i}": y.detach().numpy() for i, y in enumerate(outputs)}
    found |= {f"gradient of input {i}": v.grad.numpy() for i, v in enumerate(inputs + states)}
    return found | {n: p.grad.numpy() for n, p in module.named_parameters()}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        scale = 1 + np.abs(value).max(initial=0)
        np.testing.assert_allclose(
            ours[key], value, rtol=tolerance, atol=tolerance * scale, err_msg=key
        )


@pytest.mark.parametrize("expression", LAYERS)
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_layer_is_pytorchs(torch: Any, expression: str) -> None:
    theirs, ours = made(torch, expression), made(retrograd, expression)
    assert repr(ours) == repr(theirs)
    start = {n: x.numpy() for n, x in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(start)
    for name, value in ours.state_dict().items():
        assert np.array_equal(value.numpy(), start[name]), f"{name} starts from other numbers"
    assert [len(w) for w in ours.all_weights] == [len(w) for w in theirs.all_weights]
    for way in WAYS:
        for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-5)):
            found = run(retrograd, ours, way, dtype)
            assert_same(found, run(torch, theirs, way, dtype), tolerance)


CELLS = ["nn.RNNCell(3, 4)", "nn.RNNCell(3, 4, False, 'relu')", "nn.LSTMCell(3, 4)",
         "nn.LSTMCell(3, 4, bias=False)", "nn.GRUCell(3, 4)",
         "nn.GRUCell(3, 4, False)"]  # fmt: skip


@pytest.mark.parametrize("expression", CELLS)
@pytest.mark.parametrize("alone", [False, True])
def test_cell_is_pytorchs(torch: Any, expression: str, alone: bool) -> None:
    random = np.random.default_rng(5)
    shape = (3,) if alone else (2, 3)
    xs = random.standard_normal((3, *shape))
    found = []
    for library in (torch, retrograd):
        cell = made(library, expression).double()
        state, hidden = None, []
        for x in xs:  # the first step begins without a state
            state = cell(library.from_numpy(x), state)
            hidden.append(state[0] if isinstance(state, tuple) else state)
        weighted_sum(library, hidden).backward()
        results = {f"{i}": h.detach().numpy() for i, h in enumerate(hidden)}
        results |= {n: p.grad.numpy() for n, p in cell.named_parameters()}
        found.append((repr(cell), results))
    assert found[0][0] == found[1][0]
    assert_same(found[1][1], found[0][1], 1e-10)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_the_same_elements_are_dropped(torch: Any, kind: str) -> None:
    found = []
    for library in (torch, retrograd):
        layer = made(library, f"nn.{kind}(3, 4, num_layers=3, dropout=0.5, bidirectional=True)")
        x = library.from_numpy(np.random.default_rng(1).standard_normal((5, 2, 3))).float()
        library.manual_seed(11)
        trained = layer(x)[0].detach().numpy()
        found.append({"trained": trained, "used": layer.eval()(x)[0].detach().numpy()})
    assert_same(found[1], found[0], 1e-5)
    assert not np.allclose(found[1]["trained"], found[1]["used"])


PREAMBLE = """
from warnings import catch_warnings, simplefilter
rnn = nn.utils.rnn
def attempt(function, *args, **kwargs):
    with catch_warnings(record=True) as caught:
        simplefilter("always")
        try:
            result = function(*args, **kwargs)
            print(result if not isinstance(result, nn.Module) else repr(result))
        except Exception as error:
            print(type(error).__name__, str(error))
    print([str(w.message) for w in caught])
"""
SCRIPTS = {
    "options": """
        for cls in (nn.RNN, nn.LSTM, nn.GRU):
            for bad in ({"dropout": 2}, {"dropout": True}, {"dropout": 0.5}, {"bias": 1},
                        {"batch_first": 0}, {"num_layers": 0}, {"proj_size": -1},
                        {"proj_size": 4}, {"hidden_size": 0}, {"hidden_size": 2.0}):
                attempt(cls, **({"input_size": 3, "hidden_size": 4} | bad))
        attempt(nn.RNN, 2, 3, nonlinearity="sin")
        attempt(nn.RNNBase, "X", 2, 3)
        attempt(nn.LSTM, "3", 4)
        attempt(nn.LSTM, 0, 4)
    """,
    "bad inputs": """
        for layer in (nn.RNN(3, 4), nn.LSTM(3, 4), nn.GRU(3, 4)):
            attempt(layer, torch.ones(3))
            attempt(layer, torch.ones(2, 2, 2))
            attempt(layer, torch.ones(2, 2))
            attempt(layer, torch.ones(0, 2, 3))
            attempt(layer, torch.ones(2, 2, 3, dtype=torch.float64))
        for layer in (nn.RNN(3, 4), nn.GRU(3, 4)):
            attempt(layer, torch.ones(2, 2, 3), torch.ones(1, 4))
            attempt(layer, torch.ones(2, 3), torch.ones(1, 1, 4))
            attempt(layer, torch.ones(2, 2, 3), torch.ones(1, 3, 4))
        layer, h = nn.LSTM(3, 4), torch.ones(1, 2, 4)
        attempt(layer, torch.ones(2, 2, 3), (h, h[0]))
        attempt(layer, torch.ones(2, 3), (h, h))
        attempt(layer, torch.ones(2, 2, 3), (h, h[:, :1]))
        attempt(layer, torch.ones(2, 2, 3), (h[:, :, :3], h))
        packed = rnn.pack_sequence([torch.ones(2, 3), torch.ones(1, 3)])
        attempt(nn.GRU(3, 4), packed, h[:, :1])
        for cell in (nn.RNNCell(3, 4), nn.GRUCell(3, 4)):
            attempt(cell, torch.ones(1, 1, 3))
            attempt(cell, torch.ones(1, 3), torch.ones(1, 1, 4))
            attempt(cell, torch.ones(1, 3), torch.ones(2, 4))
            attempt(cell, torch.ones(1, 2))
        attempt(nn.LSTMCell(3, 4), torch.ones(1, 3), (torch.ones(1, 4), torch.ones(1, 1, 4)))
        attempt(nn.LSTMCell(3, 4), torch.ones(1, 3), (torch.ones(1, 4), torch.ones(1, 3)))
        attempt(nn.RNNCell(3, 4, nonlinearity="sin"), torch.ones(1, 3))
    """,
    "packing": """
        x = torch.arange(12.0).reshape(4, 3)
        attempt(rnn.pack_padded_sequence, x, [3, 2, 2])
        attempt(rnn.pack_padded_sequence, x, torch.tensor([4, 2, 1]))
        attempt(rnn.pack_padded_sequence, x, [2, 3, 1, 2], True, enforce_sorted=False)
        attempt(rnn.pack_padded_sequence, x, [1, 2, 3])
        attempt(rnn.pack_padded_sequence, x, [2, 1])
        attempt(rnn.pack_padded_sequence, x, [2, 1, 0])
        attempt(rnn.pack_padded_sequence, torch.ones(0, 3), [1, 1, 1])
        packed = rnn.pack_padded_sequence(x, [2, 3, 1], enforce_sorted=False)
        attempt(rnn.pad_packed_sequence, packed)
        attempt(rnn.pad_packed_sequence, packed, True, -1.0, 5)
        attempt(rnn.pad_packed_sequence, packed, total_length=2)
        attempt(rnn.unpack_sequence, packed)
        attempt(rnn.pack_sequence, [torch.ones(1), torch.ones(2)])
        attempt(rnn.pack_sequence, [torch.ones(1, 2), torch.ones(2, 2)], enforce_sorted=False)
        attempt(rnn.invert_permutation, torch.tensor([2, 0, 1]))
        attempt(rnn.invert_permutation, None)
        print(packed.to(torch.float64).data.dtype, packed.to(torch.float32) is packed)
        print(packed.double().data.dtype, packed.long().data.dtype, packed.is_cuda)
        attempt(rnn.PackedSequence, (torch.ones(1), torch.tensor([1])))
        attempt(rnn.PackedSequence, torch.ones(1))
    """,
    "padding": """
        short, long = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
        attempt(rnn.pad_sequence, [short, long])
        attempt(rnn.pad_sequence, [short, long], True, -1.0)
        attempt(rnn.pad_sequence, [short, long], padding_value=7, padding_side="left")
        attempt(rnn.pad_sequence, [torch.ones(1, 2), torch.ones(2, 2)], batch_first=True)
        attempt(rnn.pad_sequence, torch.ones(2, 3))
        attempt(rnn.pad_sequence, [])
        attempt(rnn.pad_sequence, 3)
        attempt(rnn.pad_sequence, [short, long], padding_side="middle")
        attempt(rnn.pad_sequence, [torch.ones(2, 1), torch.ones(3, 2)])
        attempt(rnn.pad_sequence, [short, torch.tensor([1])])
        padded = rnn.pad_sequence([short, long])
        attempt(rnn.unpad_sequence, padded.clone(), torch.tensor([2, 3]))
        attempt(rnn.unpad_sequence, padded.T.clone(), torch.tensor([2, 3]), batch_first=True)
    """,
}


def printed(library: Any, script: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(PREAMBLE + textwrap.dedent(script), {"torch": library, "nn": library.nn})
    return out.getvalue()


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_prints_the_same(torch: Any, name: str) -> None:
    assert printed(retrograd, SCRIPTS[name]) == printed(torch, SCRIPTS[name])


# -- loops in NumPy ----------------------------------------------------------------------------


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_hand(kind: str, x: np.ndarray, w: dict[str, np.ndarray], reverse: bool) -> np.ndarray:
    """One layer in one direction, for one sequence, a step at a time."""
    suffix = "_l0_reverse" if reverse else "_l0"
    h = c = np.zeros(w[f"weight_hh{suffix}"].shape[1])
    found = []
    for row in x[::-1] if reverse else x:
        a = w[f"weight_ih{suffix}"] @ row + w[f"bias_ih{suffix}"]
        b = w[f"weight_hh{suffix}"] @ h + w[f"bias_hh{suffix}"]
        if kind == "LSTM":
            i, f, g, o = np.split(a + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        elif kind == "GRU":
            (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
            z = sigmoid(az + bz)
            h = (1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * h
        else:
            h = np.tanh(a + b)
        found.append(h)
    return np.array(found[::-1] if reverse else found)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_layer_is_the_loop_written_out(kind: str) -> None:
    retrograd.manual_seed(2)
    layer = getattr(nn, kind)(3, 4, bidirectional=True).double()
    x = np.random.default_rng(4).standard_normal((6, 2, 3))
    weights = {n: p.detach().numpy() for n, p in layer.named_parameters()}
    output = layer(retrograd.from_numpy(x))[0].detach().numpy()
    for b in range(2):
        both = [by_hand(kind, x[:, b], weights, reverse) for reverse in (False, True)]
        np.testing.assert_allclose(output[:, b], np.concatenate(both, 1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_packed_sequences_do_not_see_each_other(kind: str, lengths: list[int], seed: int) -> None:
    """Outputs, states and gradients are those of every sequence by itself."""
    retrograd.manual_seed(seed)
    layer = getattr(nn, kind)(2, 3, num_layers=2, bidirectional=True).double()
    each = [retrograd.randn(n, 2, dtype=retrograd.float64, requires_grad=True) for n in lengths]
    packed = sequences.pack_sequence(each, enforce_sorted=False)
    output, states = layer(packed)
    found = sequences.unpack_sequence(output)
    states = states if isinstance(states, tuple) else (states,)
    total = sum((y**2).sum() for y in (*found, *states))
    wanted = [*each, *layer.parameters()]
    grads = retrograd.autograd.grad(total, wanted)
    alone, expected = 0, []
    for x in each:
        y, s = layer(x)
        alone = alone + sum((v**2).sum() for v in (y, *(s if isinstance(s, tuple) else (s,))))
        expected.append(y)
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-12, atol=1e-14)
    for g, h in zip(grads, retrograd.autograd.grad(alone, wanted), strict=True):
        np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-9, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6), batch_first=st.booleans(),
    features=st.integers(0, 3),
)  # fmt: skip
def test_packing_and_padding_undo_each_other(
    lengths: list[int], batch_first: bool, features: int
) -> None:
    trailing = (features,) if features else ()
    each = [retrograd.randn(n, *trailing) for n in lengths]
    padded = sequences.pad_sequence(each, batch_first, padding_value=-1.0)
    packed = sequences.pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
    assert packed.data.shape[0] == sum(lengths)
    again, counts = sequences.pad_packed_sequence(packed, batch_first, -1.0)
    assert counts.tolist() == lengths
    assert retrograd.equal(again, padded)
    for x, y in zip(sequences.unpack_sequence(packed), each, strict=True):
        assert retrograd.equal(x, y)


def test_too_long_a_length_is_refused() -> None:
    with pytest.raises(RuntimeError, match="at most the length of the padded sequences, 4"):
        sequences.pack_padded_sequence(retrograd.ones(4, 2), [5, 1])


def test_gates_that_are_shut_do_not_overflow() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("LSTM", "GRU"):
            layer = getattr(nn, kind)(2, 3)
            output = layer(retrograd.full((4, 1, 2), 1e4))[0]
            output.sum().backward()
            assert output.isfinite().all()
            assert layer.weight_ih_l0.grad.isfinite().all()


# -- derivatives of derivatives, and transforms ------------------------------------------------


def network(kind: str, **options: Any) -> tuple[Any, dict[str, Any], Any]:
    retrograd.manual_seed(1)
    layer = getattr(nn, kind)(2, 3, **options).double()
    x = retrograd.randn(4, 2, 2, dtype=retrograd.float64)
    return layer, {n: p.detach() for n, p in layer.named_parameters()}, x


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}), ("GRU", {"bidirectional": True}), ("LSTM", {}), ("LSTM", {"proj_size": 2}),
    ("GRU", {"bias": False}), ("RNN", {"bias": False, "bidirectional": True}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_second_derivatives(kind: str, options: dict[str, Any]) -> None:
    layer, weights, x = network(kind, **options)
    names = list(weights)

    def outputs(x: Any, *values: Any) -> tuple[Any, ...]:
        found = functional_call(layer, dict(zip(names, values, strict=True)), (x[:3, :1],))
        return tuple(outputs_of(found))

    leaves = [v.clone().requires_grad_() for v in (x, *weights.values())]
    assert gradcheck(outputs, leaves)
    assert gradgradcheck(outputs, leaves, atol=1e-4)


def loss(layer: Any, weights: dict[str, Any], x: Any) -> Any:
    return sum((y**2).sum() for y in outputs_of(functional_call(layer, weights, (x,))))


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_gradients_of_each_sample(kind: str, options: dict[str, Any]) -> None:
    layer, weights, x = network(kind, **options)
    many = retrograd.stack([x, 2 * x, -x])
    found = vmap(grad(lambda w, v: loss(layer, w, v)), (None, 0))(weights, many)
    for i in range(3):
        alone = grad(lambda w, v: loss(layer, w, v))(weights, many[i])
        for name, g in alone.items():
            np.testing.assert_allclose(found[name][i].numpy(), g.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_several_networks_at_once(kind: str, options: dict[str, Any]) -> None:
    layer, weights, x = network(kind, **options)
    many = {n: retrograd.stack([w, 0.5 * w]) for n, w in weights.items()}
    found = vmap(lambda w: functional_call(layer, w, (x,))[0])(many)
    for i in range(2):
        alone = functional_call(layer, {n: w[i] for n, w in many.items()}, (x,))[0]
        np.testing.assert_allclose(found[i].numpy(), alone.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_tangents_are_limits_of_differences(kind: str, options: dict[str, Any]) -> None:
    layer, weights, x = network(kind, **options)
    moved = {n: retrograd.randn_like(w) for n, w in weights.items()}
    along = retrograd.randn_like(x)

    def at(step: float) -> Any:
        return loss(layer, {n: w + step * moved[n] for n, w in weights.items()}, x + step * along)

    _, tangent = jvp(lambda w, v: loss(layer, w, v), (weights, x), (moved, along))
    slope = (at(1e-5) - at(-1e-5)).item() / 2e-5
    assert tangent.item() == pytest.approx(slope, rel=1e-7)


def test_layers_are_copied_and_pickled() -> None:
    layer = nn.LSTM(2, 3)
    x = retrograd.ones(4, 1, 2)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert retrograd.equal(other(x)[0], layer(x)[0])
        with retrograd.no_grad():
            other.weight_hh_l0.add_(1)
        assert not retrograd.equal(other(x)[0], layer(x)[0])


def test_last_states_have_memory_of_their_own() -> None:
    """A state that is written into, between pieces of a long sequence, leaves the graph intact."""
    layer = nn.LSTM(2, 3)
    output, (h, c) = layer(retrograd.ones(4, 1, 2))
    with retrograd.no_grad():
        h.zero_()
        c.zero_()
    output.sum().backward()
    assert output[-1].abs().sum().item() > 0


def test_a_frozen_weight_gets_no_gradient() -> None:
    layer = nn.GRU(2, 3)
    layer.weight_hh_l0.requires_grad_(False)
    layer(retrograd.ones(4, 1, 2))[0].sum().backward()
    assert layer.weight_hh_l0.grad is None
    assert layer.weight_ih_l0.grad.abs().sum().item() > 0
