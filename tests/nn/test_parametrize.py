"""Weights that are computed from others: training beside PyTorch from the same seed, and closed
forms."""

import contextlib
import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from _computed_weights import space
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd
from retrograd.nn.utils import parametrizations, parametrize

f64 = retrograd.float64
nn = retrograd.nn


# -- training, beside PyTorch --------------------------------------------------------------------

CASES: dict[str, tuple[int, ...]] = {  # an expression that makes a module; the shape of its input
    "P.weight_norm(linear(3, 4))": (2, 3),
    "P.weight_norm(linear(3, 4), dim=None)": (2, 3),
    "P.weight_norm(linear(3, 4), dim=1)": (2, 3),
    "P.weight_norm(linear(3, 4), 'bias')": (2, 3),
    "P.weight_norm(nn.Conv2d(2, 3, 3, dtype=f64))": (2, 2, 5, 5),
    "P.weight_norm(nn.Conv2d(2, 3, 3, dtype=f64), dim=1)": (2, 2, 5, 5),
    "P.weight_norm(nn.Conv2d(2, 3, 3, dtype=f64), dim=-2)": (2, 2, 5, 5),
    "P.weight_norm(nn.ConvTranspose1d(2, 3, 3, dtype=f64))": (2, 2, 5),
    "P.weight_norm(nn.BatchNorm1d(3, dtype=f64))": (4, 3),
    "P.spectral_norm(linear(3, 4))": (2, 3),
    "P.spectral_norm(linear(20, 40), n_power_iterations=3)": (2, 20),
    "P.spectral_norm(linear(3, 4), dim=1, eps=1e-6)": (2, 3),
    "P.spectral_norm(linear(3, 4), dim=-1)": (2, 3),
    "P.spectral_norm(linear(3, 4), 'bias')": (2, 3),
    "P.spectral_norm(nn.Conv2d(2, 3, 3, dtype=f64))": (2, 2, 5, 5),
    "P.spectral_norm(nn.ConvTranspose2d(2, 3, 3, dtype=f64))": (2, 2, 4, 4),
    "P.spectral_norm(nn.BatchNorm1d(3, dtype=f64))": (4, 3),
    "P.orthogonal(linear(4, 4))": (2, 4),
    "P.orthogonal(linear(3, 5))": (2, 3),
    "P.orthogonal(linear(5, 3))": (2, 5),
    "P.weight_norm(P.spectral_norm(linear(3, 4)), 'bias')": (2, 3),
    "P.spectral_norm(P.weight_norm(linear(3, 4)))": (2, 3),
    "P.spectral_norm(P.orthogonal(linear(3, 4)))": (2, 3),
    "nn.Sequential(P.spectral_norm(linear(3, 4)), nn.Tanh(), P.weight_norm(linear(4, 2)))": (2, 3),
    "parametrized(linear(3, 3), Symmetric())": (2, 3),
    "parametrized(linear(3, 3), Symmetric(), Doubled(), Exp())": (2, 3),
    "parametrized(linear(3, 4), Sum(), Doubled())": (2, 3),
    "parametrized(linear(3, 4).requires_grad_(False), Sum())": (2, 3),
    "parametrized(nn.BatchNorm1d(3, dtype=f64), Exp(), name='running_var')": (4, 3),
    "parametrized(nn.BatchNorm1d(3, dtype=f64).eval(), Exp(), name='running_var')": (4, 3),
    "tied()": (2, 3),
    "P.orthogonal(nn.LSTM(3, 4, dtype=f64), 'weight_hh_l0')": (5, 2, 3),
    "P.spectral_norm(nn.GRUCell(3, 4, dtype=f64), 'weight_hh')": (2, 3),
    "older(nn.utils.weight_norm, nn.GRU(3, 4, dtype=f64), 'weight_hh_l0')": (5, 2, 3),
    "nn.utils.spectral_norm(linear(3, 4))": (2, 3),
    "nn.utils.spectral_norm(linear(3, 4), n_power_iterations=2, eps=1e-8, dim=1)": (2, 3),
    "nn.utils.spectral_norm(nn.ConvTranspose1d(2, 3, 3, dtype=f64))": (2, 2, 5),
    "older(nn.utils.weight_norm, linear(3, 4))": (2, 3),
    "older(nn.utils.weight_norm, linear(3, 4), dim=None)": (2, 3),
    "older(nn.utils.weight_norm, nn.Conv1d(2, 3, 3, dtype=f64), dim=1)": (2, 2, 6),
}  # fmt: skip
for _map in ("matrix_exp", "cayley", "householder"):
    for _sizes in ("3, 3", "3, 5", "5, 3"):
        CASES[f"P.orthogonal(linear({_sizes}), orthogonal_map={_map!r})"] = (2, int(_sizes[0]))
        CASES[f"P.orthogonal(linear({_sizes}), orthogonal_map={_map!r}, "
              "use_trivialization=False)"] = (2, int(_sizes[0]))  # fmt: skip


def made(library: Any, expression: str) -> Any:
    names = space(library)
    library.manual_seed(11)
    return eval(expression, names)


def arrays(tensors: Any) -> dict[str, np.ndarray]:
    return {name: x.detach().numpy().copy() for name, x in tensors}


def trained(library: Any, module: Any, shape: tuple[int, ...], steps: int = 4) -> list[Any]:
    """What each of some steps of gradient descent computes: result, gradients, state after it."""
    random, seen = np.random.default_rng(1), []
    for _ in range(steps):
        x = library.from_numpy(random.standard_normal(shape)).requires_grad_()
        module.zero_grad()
        result = module(x)
        result = result[0] if isinstance(result, tuple) else result
        weight = np.cos(np.arange(result.numel())).reshape(tuple(result.shape))
        (result * result * library.from_numpy(weight)).sum().backward()
        gradients = [(n, p.grad) for n, p in module.named_parameters() if p.grad is not None]
        found = {"result": result.detach().numpy(), "input": x.grad.numpy(), **arrays(gradients)}
        with library.no_grad():
            for p in module.parameters():
                if p.grad is not None:
                    p.sub_(p.grad, alpha=0.01)
        seen.append(
            found | {f"state {n}": x for n, x in arrays(module.state_dict().items()).items()}
        )
    return seen


def assert_close(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=tolerance, atol=tolerance * (1 + np.abs(value).max()),
            err_msg=name,
        )  # fmt: skip


@pytest.mark.parametrize("expression", CASES)
def test_training_is_pytorchs(torch: Any, expression: str) -> None:
    theirs, ours = made(torch, expression), made(retrograd, expression)
    assert repr(ours) == repr(theirs)
    assert_close(arrays(ours.state_dict().items()), arrays(theirs.state_dict().items()), 1e-13)
    assert torch.rand(1).item() == retrograd.rand(1).item(), "as many random numbers were drawn"
    shape = CASES[expression]
    for mine, expected in zip(
        trained(retrograd, ours, shape), trained(torch, theirs, shape), strict=True
    ):
        assert_close(mine, expected)
    theirs.eval(), ours.eval()
    assert_close(*(trained(lib, m, shape, 1)[0] for lib, m in ((retrograd, ours), (torch, theirs))))
    # What one library has learned is the other's state.
    state = {n: retrograd.from_numpy(x) for n, x in arrays(theirs.state_dict().items()).items()}
    fresh = made(retrograd, expression).eval()
    fresh.load_state_dict(state)
    assert_close(
        *(trained(lib, m, shape, 1)[0] for lib, m in ((retrograd, fresh), (torch, theirs)))
    )


@pytest.mark.parametrize("expression", CASES)
def test_single_precision_starts_from_the_same_numbers(torch: Any, expression: str) -> None:
    single = expression.replace("dtype=f64", "dtype=torch.float32")
    found = []
    for library in (torch, retrograd):
        names = space(library)
        names["f64"] = library.float32
        library.manual_seed(3)
        found.append(arrays(eval(single, names).state_dict().items()))
    assert {x.dtype for x in found[1].values()} - {np.dtype("int64")} == {np.dtype("float32")}
    assert_close(found[1], found[0], 5e-6)


@pytest.mark.parametrize("expression", [e for e in CASES if "older" not in e and "utils" not in e])
def test_copies_are_independent_and_equal(expression: str) -> None:
    module, shape = made(retrograd, expression), CASES[expression]
    replica = copy.deepcopy(module)
    assert repr(replica) == repr(module)
    assert {id(p) for p in replica.parameters()}.isdisjoint(id(p) for p in module.parameters())
    before = arrays(module.state_dict().items())
    first = trained(retrograd, replica, shape)
    assert_close(arrays(module.state_dict().items()), before, 0)
    for a, b in zip(trained(retrograd, module, shape), first, strict=True):
        assert_close(a, b, 0)
    # and so is a module of the same making that is given the state
    other = made(retrograd, expression)
    other.load_state_dict(module.state_dict())
    assert_close(arrays(other.state_dict().items()), arrays(module.state_dict().items()), 0)


# -- closed forms --------------------------------------------------------------------------------


def random(*shape: int) -> Any:
    return retrograd.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape))


@pytest.mark.parametrize("dim", [0, 1, 2, None])
def test_weight_norm_is_length_times_direction(dim: int | None) -> None:
    layer = parametrizations.weight_norm(nn.Conv1d(3, 4, 2, dtype=f64), dim=dim)
    originals = layer.parametrizations.weight
    g, v = originals.original0, originals.original1
    others = tuple(d for d in range(3) if d != dim)
    lengths = np.sqrt((v.detach().numpy() ** 2).sum(axis=others, keepdims=True))
    assert g.shape == (() if dim is None else lengths.shape)
    np.testing.assert_allclose(g.detach().numpy(), lengths.reshape(g.shape), rtol=1e-14)
    with retrograd.no_grad():
        g.mul_(3)
    direction = v.detach().numpy() / lengths
    np.testing.assert_allclose(layer.weight.detach().numpy(), 3 * direction * lengths, rtol=1e-13)
    out = random(4, 3, 2)
    (layer.weight * out).sum().backward()
    along = (direction * out.numpy()).sum(axis=others, keepdims=True)
    np.testing.assert_allclose(g.grad.numpy(), along.reshape(g.shape), rtol=1e-10)
    expected = 3 * (out.numpy() - along * direction)  # g / ||v|| * what is across the direction
    np.testing.assert_allclose(v.grad.numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (5, 2, 3)])
def test_spectral_norm_is_the_largest_singular_value(shape: tuple[int, ...]) -> None:
    layer = nn.Module()
    layer.weight = nn.Parameter(random(*shape))
    parametrizations.spectral_norm(layer, n_power_iterations=400)
    original = layer.parametrizations.weight.original
    matrix = original.detach().numpy().reshape(shape[0], -1)
    u, s, vh = np.linalg.svd(matrix)
    weight, out = layer.weight, random(*shape)
    np.testing.assert_allclose(weight.detach().numpy().reshape(matrix.shape), matrix / s[0], 1e-12)
    (weight * out).sum().backward()
    given = out.numpy().reshape(matrix.shape)
    expected = given / s[0] - (given * matrix).sum() / s[0] ** 2 * np.outer(u[:, 0], vh[0])
    np.testing.assert_allclose(original.grad.numpy().reshape(matrix.shape), expected, rtol=1e-8)


def test_power_iterations_are_done_in_training_only() -> None:
    layer = parametrizations.spectral_norm(nn.Linear(6, 5, dtype=f64))
    norm = layer.parametrizations.weight[0]
    layer.parametrizations.weight.original.data.copy_(random(5, 6))
    layer.eval()
    u, v = norm._u, norm._v
    before = u.clone()
    assert layer.weight.equal(layer.weight)
    assert norm._u.equal(before)
    layer.train()
    matrix = layer.parametrizations.weight.original.detach()
    expected_u = matrix @ v
    expected_u = expected_u / expected_u.norm()
    expected_v = matrix.T @ expected_u
    expected_v = expected_v / expected_v.norm()
    weight = layer.weight
    np.testing.assert_allclose(norm._u.numpy(), expected_u.numpy(), rtol=1e-14)
    np.testing.assert_allclose(norm._v.numpy(), expected_v.numpy(), rtol=1e-14)
    assert norm._u is u, "the buffer keeps its memory"
    sigma = expected_u @ matrix @ expected_v
    np.testing.assert_allclose(weight.detach().numpy(), (matrix / sigma).numpy(), rtol=1e-13)
    # Two calls in a row, and backward through both: the second wrote into u and v.
    first, second = layer(random(6)), layer(random(6) + 1)
    (first - second).sum().backward()
    assert layer.parametrizations.weight.original.grad.isfinite().all()


@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("mapped", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_orthogonal_matrices_stay_orthogonal(
    shape: tuple[int, ...], mapped: str, trivialized: bool
) -> None:
    layer = nn.Module()
    layer.weight = nn.Parameter(random(*shape))
    parametrizations.orthogonal(layer, orthogonal_map=mapped, use_trivialization=trivialized)
    original, target = layer.parametrizations.weight.original, random(*shape)

    def distance_to_identity() -> float:
        weight = layer.weight.detach()
        weight = weight.mT if shape[-2] < shape[-1] else weight
        return float((weight.mT @ weight - retrograd.eye(min(shape[-2:]), dtype=f64)).abs().max())

    losses = []
    for _ in range(20):
        assert distance_to_identity() < 1e-12
        loss = ((layer.weight - target) ** 2).sum()
        losses.append(loss.item())
        (gradient,) = retrograd.autograd.grad(loss, original)
        with retrograd.no_grad():
            original.sub_(gradient, alpha=0.02)
    assert losses[-1] < losses[0]
    start = original.detach().clone().requires_grad_()
    if mapped == "householder":  # the diagonal holds signs, which differences would move
        with retrograd.no_grad():
            diagonal = start.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(diagonal.sign() * 1.5)
    assert retrograd.autograd.gradcheck(layer.parametrizations.weight[0], (start,))


def test_an_orthogonal_matrix_is_kept_as_it_is() -> None:
    layer = nn.Linear(4, 4, dtype=f64)
    start = nn.init.orthogonal_(layer.weight).detach().clone()
    parametrizations.orthogonal(layer)
    np.testing.assert_allclose(layer.weight.detach().numpy(), start.numpy(), atol=1e-14)


def test_unitary_matrices() -> None:
    layer = nn.Module()
    layer.weight = nn.Parameter(retrograd.complex(random(3, 4), random(3, 4) + 1))
    for mapped in ("matrix_exp", "cayley"):
        unitary = parametrizations.orthogonal(copy.deepcopy(layer), orthogonal_map=mapped)
        weight = unitary.weight
        np.testing.assert_allclose((weight @ weight.mH).detach().numpy(), np.eye(3), atol=1e-13)
        (weight.real * random(3, 4)).sum().backward()
        assert unitary.parametrizations.weight.original.grad.isfinite().all()


# -- what is better than in PyTorch --------------------------------------------------------------


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return 2 * x

    def right_inverse(self, x: Any) -> Any:
        return x / 2


def test_a_parametrization_that_is_refused_leaves_the_tensor_as_it_was() -> None:
    class Cut(Doubled):
        def forward(self, x: Any) -> Any:
            return x[:1]

    layer = nn.Linear(2, 2)
    weight, before = layer.weight, layer.weight.detach().clone()
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Cut())
    assert layer.weight is weight
    assert type(layer) is nn.Linear
    assert weight.equal(before)


def test_removing_from_a_copy_leaves_the_other_parametrized() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    replica = copy.deepcopy(layer)
    assert type(replica) is type(layer)
    parametrize.remove_parametrizations(replica, "weight")
    assert type(replica) is nn.Linear
    assert layer.weight.equal(replica.weight)
    assert parametrize.is_parametrized(layer, "weight")
    with parametrize.cached():  # each of two copies has its own value
        other = copy.deepcopy(layer)
        other.parametrizations.weight.original.data.zero_()
        assert layer.weight.equal(replica.weight)
        assert not other.weight.any()


def test_cached_values_are_good_for_what_they_were_made_of() -> None:
    layer = nn.Linear(2, 2, bias=False)
    parametrize.register_parametrization(layer, "weight", Doubled())
    name = "parametrizations.weight.original"
    x = retrograd.ones(2)
    with parametrize.cached():
        with retrograd.no_grad():
            assert not layer.weight.requires_grad
        layer(x).sum().backward()  # recorded, though the value was there
        assert layer.parametrizations.weight.original.grad.equal(retrograd.full((2, 2), 2.0))
        results = [
            retrograd.func.functional_call(layer, {name: retrograd.full((2, 2), value)}, x)
            for value in (0.0, 1.0)
        ]
        assert (results[1] - results[0]).equal(retrograd.full((2,), 4.0))


def test_caching_is_a_matter_of_one_thread() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    seen = []
    with parametrize.cached():
        thread = threading.Thread(target=lambda: seen.append(layer.weight is layer.weight))
        thread.start()
        thread.join()
        assert layer.weight is layer.weight
    assert seen == [False]


def test_an_error_in_a_parametrization_is_shown() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * self.factor if self.training else x

    layer = nn.Linear(2, 2).eval()
    parametrize.register_parametrization(layer, "weight", Wrong())
    layer.train()
    with pytest.raises(
        RuntimeError, match=r"`weight` of ParametrizedLinear could not be.*'factor'"
    ):
        layer(retrograd.ones(2))


def test_classes_are_shared_and_freed() -> None:
    class Local(nn.Linear):
        pass

    layers = [Local(2, 2), Local(2, 2)]
    for layer in layers:
        parametrize.register_parametrization(layer, "weight", Doubled())
    assert type(layers[0]) is type(layers[1])
    parametrize.register_parametrization(layers[0], "bias", Doubled())
    assert type(layers[0]) is not type(layers[1])
    assert type(layers[0]).__name__ == "ParametrizedLocal"
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layers[0])
    known = weakref.ref(Local)
    del layers, layer, Local
    gc.collect()  # the derived classes, which are found by their base
    gc.collect()
    assert known() is None


# -- any chain of parametrizations ---------------------------------------------------------------


class Shifted(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1

    def right_inverse(self, x: Any) -> Any:
        return x - 1


class Halves(nn.Module):  # of two tensors, so it can only be the first
    def forward(self, x: Any, y: Any) -> Any:
        return x + y

    def right_inverse(self, z: Any) -> Any:
        return z / 4, 3 * z / 4


SLOPES = {Doubled: 2.0, Shifted: 1.0}


@given(first=st.booleans(), kinds=st.lists(st.sampled_from(list(SLOPES)), min_size=1, max_size=4),
       copied=st.booleans(), cached=st.booleans())  # fmt: skip
@settings(max_examples=25)
def test_chains_can_be_read_assigned_trained_copied_and_removed(
    first: bool, kinds: list[Any], copied: bool, cached: bool
) -> None:
    layer = nn.Linear(2, 3, dtype=f64)
    start = layer.weight.detach().clone()
    chain = [Halves(), *(kind() for kind in kinds)] if first else [kind() for kind in kinds]
    steps = [(lambda x: 2 * x) if kind is Doubled else (lambda x: x + 1) for kind in kinds]
    for one in chain:
        parametrize.register_parametrization(layer, "weight", one)
    # The first takes the value over. What comes after it changes the value.
    expected = start
    for step in steps if first else steps[1:]:
        expected = step(expected)
    np.testing.assert_allclose(layer.weight.detach().numpy(), expected.numpy(), atol=1e-12)
    layer = copy.deepcopy(layer) if copied else layer
    value = random(3, 2)
    layer.weight = value
    with parametrize.cached() if cached else contextlib.nullcontext():
        np.testing.assert_allclose(layer.weight.detach().numpy(), value.numpy(), atol=1e-12)
        (layer.weight * value).sum().backward()
    slope = np.prod([SLOPES[kind] for kind in kinds])
    for original in layer.parametrizations.weight.parameters():
        np.testing.assert_allclose(original.grad.numpy(), slope * value.numpy(), atol=1e-12)
    other = nn.Linear(2, 3, dtype=f64)
    for one in chain:
        parametrize.register_parametrization(other, "weight", one)
    other.load_state_dict(layer.state_dict())
    assert other.weight.equal(layer.weight)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert list(layer.state_dict()) == ["bias", "weight"]
    assert layer.weight.equal(other.weight)
