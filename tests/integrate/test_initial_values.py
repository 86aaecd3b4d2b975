"""Initial value problems: SciPy's solutions, and their derivatives against closed forms, finite
differences and the equations that sensitivities fulfil."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, hessian, jacfwd, jacrev, vmap
from retrograd.integrate import odeint, solve_ivp

pytestmark = pytest.mark.filterwarnings("ignore:Backwards compatibility")
D = torch.float64
METHODS = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]


def tensor(x: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=D, **options)


def oscillator(t: Any, y: Any, mu: Any) -> Any:
    return torch.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def numpy_oscillator(t: Any, y: Any, mu: Any) -> Any:
    return np.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


@pytest.mark.parametrize("method", METHODS)
def test_methods(method: str) -> None:
    y0, mu = tensor([2.0, 0.0], requires_grad=True), tensor(1.5, requires_grad=True)
    times = [0.0, 0.4, 1.0]
    options = {"rtol": 1e-4, "atol": 1e-6}
    result = solve_ivp(oscillator, (0.0, 1.0), y0, method, times, args=(mu,), **options)
    plain = scipy.integrate.solve_ivp(numpy_oscillator, (0.0, 1.0), [2.0, 0.0], method, times,
                                      args=(1.5,), **options)  # fmt: skip
    np.testing.assert_allclose(result.y.detach(), plain.y, rtol=1e-6, atol=1e-9)
    by_y0, by_mu = torch.autograd.grad(result.y[0, -1], (y0, mu))
    h = 1e-4
    for s, r, gradient in ((h, 0.0, by_y0[0]), (0.0, h, by_mu)):
        high, low = (
            scipy.integrate.solve_ivp(numpy_oscillator, (0.0, 1.0), [2.0 + sign * s, 0.0], "DOP853",
                                      args=(1.5 + sign * r,), rtol=1e-11, atol=1e-12).y[0, -1]
            for sign in (1, -1)
        )  # fmt: skip
        np.testing.assert_allclose(gradient, (high - low) / (2 * h), rtol=1e-2)


def test_finite_differences() -> None:
    y0, mu = tensor([2.0, 0.0], requires_grad=True), tensor(1.5, requires_grad=True)
    times = tensor([0.1, 0.5], requires_grad=True)
    first, last = tensor(0.0, requires_grad=True), tensor(0.6, requires_grad=True)

    def f(y0: Any, mu: Any, times: Any, first: Any, last: Any) -> Any:
        options = {"rtol": 1e-10, "atol": 1e-12}
        inside = solve_ivp(oscillator, (first, 0.6), y0, "DOP853", times, args=(mu,), **options)
        end = solve_ivp(oscillator, (first, last), y0, "DOP853", args=(mu,), **options)
        return inside.y, end.y[:, -1], end.t[-1]

    assert gradcheck(f, (y0, mu, times, first, last), check_forward_ad=True)


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_second_order(method: str) -> None:
    decay = lambda t, y, k: -k * y
    options = {"method": method, "rtol": 1e-6, "atol": 1e-8}
    f = lambda k, y0: solve_ivp(decay, (0, 1.0), y0, args=(k,), **options).y[:, -1]
    k, y0 = tensor(0.7), tensor([2.0])
    exact = lambda k, y0: y0 * torch.exp(-k)
    np.testing.assert_allclose(hessian(lambda k: f(k, y0).sum())(k),
                               hessian(lambda k: exact(k, y0).sum())(k), rtol=1e-5)  # fmt: skip
    np.testing.assert_allclose(jacrev(jacrev(f, 0), 1)(k, y0), jacrev(jacrev(exact, 0), 1)(k, y0),
                               rtol=1e-5)  # fmt: skip
    inputs = (k.clone().requires_grad_(), y0.clone().requires_grad_())
    loose = lambda k, y0: solve_ivp(decay, (0, 0.5), y0, method, args=(k,), rtol=1e-2).y[:, -1]
    assert gradgradcheck(loose, inputs, atol=1e-3)


def test_vmap_is_a_loop() -> None:
    f = lambda k: solve_ivp(lambda t, y: -k * y, (0, 1.0), tensor([1.0]), t_eval=[0.5, 1.0],
                            rtol=1e-6, atol=1e-9).y[0]  # fmt: skip
    batch = tensor([0.5, 1.0, 4.0])
    for g in (f, jacfwd(f), jacrev(f)):
        np.testing.assert_allclose(vmap(g)(batch), np.stack([g(k) for k in batch]), rtol=1e-9)
    np.testing.assert_allclose(vmap(f)(batch)[:, 1], torch.exp(-batch), rtol=1e-4)
    steps = lambda k: solve_ivp(lambda t, y: -k * y, (0, 1.0), tensor([1.0])).y
    with pytest.raises(RuntimeError, match=r"different numbers of steps. Pass t_eval"):
        vmap(steps)(tensor([0.1, 40.0]))


ROBERTSON = [0.04, 3e7, 1e4]


def robertson(t: Any, y: Any, k: Any) -> Any:
    a, b, c = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return torch.stack([c - a, a - b - c, b])


def robertson_by_hand(end: float) -> Any:
    """The state and its derivatives by the rates, from the equations of both together."""
    k = ROBERTSON

    def augmented(t: float, z: Any) -> Any:
        y, s = z[:3], z[3:].reshape(3, 3)
        a, b, c = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
        of_a, of_b, of_c = (
            np.array([k[0], 0, 0]), np.array([0, 2 * k[1] * y[1], 0]),
            np.array([0, k[2] * y[2], k[2] * y[1]]),
        )  # fmt: skip
        by_y = np.array([of_c - of_a, of_a - of_b - of_c, of_b])
        by_k = np.array([[-y[0], 0, y[1] * y[2]], [y[0], -y[1] ** 2, -y[1] * y[2]],
                         [0, y[1] ** 2, 0]])  # fmt: skip
        return np.concatenate([[c - a, a - b - c, b], (by_y @ s + by_k).reshape(-1)])

    start = np.concatenate([[1.0, 0.0, 0.0], np.zeros(9)])
    found = scipy.integrate.solve_ivp(augmented, (0.0, end), start, "Radau", rtol=1e-8, atol=1e-14)
    return found.y[:3, -1], found.y[3:, -1].reshape(3, 3)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_robertson(method: str) -> None:
    """A stiff problem, whose derivatives by the rates must be as precise as the solution."""
    k = tensor(ROBERTSON, requires_grad=True)
    end, rtol = 4.0, 1e-4
    result = solve_ivp(robertson, (0.0, end), tensor([1.0, 0.0, 0.0]), method, args=(k,), rtol=rtol,
                       atol=1e-10)  # fmt: skip
    exact, moved = robertson_by_hand(end)
    np.testing.assert_allclose(result.y[:, -1].detach(), exact, rtol=20 * rtol)
    weights = tensor([1.0, 1e4, 2.0])
    (gradient,) = torch.autograd.grad(weights @ result.y[:, -1], k)
    np.testing.assert_allclose(gradient, weights.numpy() @ moved, rtol=100 * rtol)


def test_backward_step_by_step_is_the_whole() -> None:
    y0, mu = tensor([2.0, 0.0], requires_grad=True), tensor(1.5, requires_grad=True)
    for method in ("RK45", "Radau"):
        y = solve_ivp(oscillator, (0.0, 1.0), y0, method, [0.3, 0.8], args=(mu,)).y
        weights = tensor([[1.0, 2.0], [3.0, -1.0]])
        plain = torch.autograd.grad((weights * y).sum(), (y0, mu), retain_graph=True)
        recorded = torch.autograd.grad((weights * y).sum(), (y0, mu), create_graph=True)
        for a, b in zip(plain, recorded, strict=True):
            np.testing.assert_allclose(a, b.detach(), rtol=1e-3)


def test_a_network_as_the_right_hand_side() -> None:
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    net = torch.nn.Sequential(*layers).double()
    y0 = tensor([1.0, 0.5])
    y = solve_ivp(lambda t, y: net(y), (0, 1.0), y0, rtol=1e-6, atol=1e-9).y[:, -1]
    (y**2).sum().backward()
    weight = net[0].weight
    h, at = 1e-5, (1, 0)
    values = []
    for s in (h, -h):
        with torch.no_grad():
            weight[at] += s
            moved = solve_ivp(lambda t, y: net(y), (0, 1.0), y0, rtol=1e-9, atol=1e-12)
            values.append(moved.y[:, -1])
            weight[at] -= s
    difference = ((values[0] ** 2).sum() - (values[1] ** 2).sum()) / (2 * h)
    np.testing.assert_allclose(weight.grad[at], difference, rtol=1e-4)


# -- events and dense output -------------------------------------------------------------------


def test_events() -> None:
    """A ball that is thrown up: when and where it lands, and how that depends on gravity."""
    fall = lambda t, y, g: torch.stack([y[1], -g + 0 * y[1]])
    ground = lambda t, y, g: y[0]
    ground.terminal, ground.direction = True, -1
    top = lambda t, y, g: y[1]
    g, v = tensor(9.81, requires_grad=True), tensor(3.0, requires_grad=True)

    def thrown(g: Any, v: Any) -> Any:
        y0 = torch.stack([0 * v + 2.0, v])
        options = {"events": [ground, top], "rtol": 1e-8, "atol": 1e-10}
        return solve_ivp(fall, (0, 100.0), y0, args=(g,), **options)

    result = thrown(g, v)
    landing = lambda g, v: (v + (v**2 + 4 * g).sqrt()) / g
    assert result.status == 1
    for found, exact in ((result.t_events[0][0], landing(g, v)), (result.t[-1], landing(g, v)),
                         (result.t_events[1][0], v / g),
                         (result.y_events[1][0, 0], 2 + v**2 / (2 * g)),
                         (result.y[1, -1], v - g * landing(g, v))):  # fmt: skip
        np.testing.assert_allclose(found.detach(), exact.detach(), rtol=1e-9)
        mine = torch.autograd.grad(found, (g, v), retain_graph=True)
        theirs = torch.autograd.grad(exact, (g, v), retain_graph=True)
        np.testing.assert_allclose(mine, theirs, rtol=1e-7)
    time = lambda g: thrown(g, v.detach()).t_events[0][0]
    expected = hessian(lambda g: landing(g, v.detach()))(g.detach())
    np.testing.assert_allclose(hessian(time)(g.detach()), expected, rtol=1e-6)
    with pytest.raises(RuntimeError, match="events and dense_output are not possible under vmap"):
        vmap(time)(tensor([9.0, 10.0]))


def test_dense_output() -> None:
    k = tensor(0.5, requires_grad=True)
    result = solve_ivp(lambda t, y, k: -k * y, (0, 2.0), tensor([1.0]), args=(k,),
                       dense_output=True, rtol=1e-8, atol=1e-10)  # fmt: skip
    at = result.sol(1.3)
    np.testing.assert_allclose(at.detach(), [np.exp(-0.65)], rtol=1e-7)
    np.testing.assert_allclose(torch.autograd.grad(at[0], k)[0], -1.3 * np.exp(-0.65), rtol=1e-6)
    assert result.sol(tensor([0.1, 0.2, 1.9])).shape == (1, 3)
    plain = solve_ivp(lambda t, y: -y, (0, 2.0), tensor([1.0]), dense_output=True)
    assert isinstance(plain.sol(1.0), torch.Tensor)


def test_times_may_go_down() -> None:
    k = tensor(0.5, requires_grad=True)
    y = solve_ivp(lambda t, y, k: -k * y, (1.0, 0.0), tensor([1.0]), t_eval=[0.5, 0.0], args=(k,),
                  rtol=1e-8, atol=1e-10).y  # fmt: skip
    np.testing.assert_allclose(y.detach()[0], np.exp([0.25, 0.5]), rtol=1e-7)
    np.testing.assert_allclose(torch.autograd.grad(y[0, 1], k)[0], np.exp(0.5), rtol=1e-6)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["RK45", "LSODA"]))
def test_random_linear_systems(seed: int, method: str) -> None:
    """Against the exponential of the matrix, which is the exact solution."""
    generator = np.random.default_rng(seed)
    matrix, y0 = tensor(generator.normal(size=(2, 2))), tensor(generator.normal(size=2))
    weights = tensor(generator.normal(size=2))
    mine = lambda matrix: weights @ odeint(lambda y, t: matrix @ y, y0, [0.0, 0.7],
                                           method=method)[-1]  # fmt: skip
    exact = lambda matrix: weights @ torch.linalg.matrix_exp(0.7 * matrix) @ y0
    np.testing.assert_allclose(mine(matrix), exact(matrix), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grad(mine)(matrix), grad(exact)(matrix), rtol=1e-4, atol=1e-5)


def test_odeint_as_scipy() -> None:
    times = np.linspace(0, 2, 5)
    expected = scipy.integrate.odeint(lambda y, t, k: -k * y, [1.0, 2.0], times, args=(0.3,))
    found = odeint(lambda y, t, k: -k * y, np.array([1.0, 2.0]), times, args=(0.3,))
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    state = odeint(lambda t, y: -y, torch.ones(2, 3, dtype=D), tensor(times), tfirst=True)
    assert state.shape == (5, 2, 3)


def test_plain_results_are_scipys() -> None:
    mine = solve_ivp(lambda t, y: -y, (0, 1), np.ones(2))
    theirs = scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1), np.ones(2))
    assert type(mine.y) is np.ndarray
    np.testing.assert_array_equal(mine.y, theirs.y)
    np.testing.assert_array_equal(mine.t, theirs.t)
    stiff = {"method": "BDF", "rtol": 1e-6}
    args = (tensor(ROBERTSON),)
    by_products = solve_ivp(robertson, (0, 40), np.array([1.0, 0, 0]), args=args, **stiff)
    numpy_robertson = lambda t, y: robertson(t, torch.tensor(y), tensor(ROBERTSON)).numpy()
    by_differences = scipy.integrate.solve_ivp(numpy_robertson, (0, 40), [1.0, 0, 0], **stiff)
    np.testing.assert_allclose(by_products.y[:, -1], by_differences.y[:, -1], rtol=1e-4)
    assert by_products.nfev <= by_differences.nfev


def test_bad_input() -> None:
    f = lambda t, y: -y
    with pytest.raises(ValueError, match="expected a method of RK45"):
        solve_ivp(f, (0, 1), tensor([1.0]), "Euler")
    with pytest.raises(ValueError, match="y0 must be a vector"):
        solve_ivp(f, (0, 1), torch.ones(2, 2))
    with pytest.raises(TypeError, match="y0 is complex"):
        solve_ivp(f, (0, 1), torch.ones(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="numbers, got float"):
        solve_ivp(lambda t, y: 1.0, (0, 1), tensor([1.0]))
    with pytest.raises(ValueError, match="of the shape of y0"):
        solve_ivp(lambda t, y: y[:1], (0, 1), tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="t_eval must be a vector"):
        solve_ivp(f, (0, 1), tensor([1.0]), t_eval=0.5)
    with pytest.raises(ValueError, match="Values in `t_eval` are not within `t_span`"):
        solve_ivp(f, (0, 1), tensor([1.0]), t_eval=[0.5, 2.0])
    y0 = tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="times of t_eval must be within t_span"):
        solve_ivp(f, (0, 1), y0, t_eval=[0.5, 2.0])
    with pytest.raises(RuntimeError, match="Required step size is less than spacing"):
        solve_ivp(lambda t, y: y**2, (0, 2), y0)
    with pytest.raises(ValueError, match="odeint: t must be a vector"):
        odeint(f, tensor([1.0]), 3.0)


def test_dense_output_up_to_the_terminal_event_and_no_further() -> None:
    def fall(t: Any, y: Any, g: Any) -> Any:
        return torch.stack([y[1], -g])

    def ground(t: Any, y: Any, g: Any) -> Any:
        return y[0]

    ground.terminal = True  # type: ignore[attr-defined]
    g = torch.tensor(9.81, dtype=torch.float64, requires_grad=True)
    start = torch.tensor([3.0, 0.5], dtype=torch.float64)
    result = solve_ivp(fall, (0, 9), start, args=(g,), events=ground, dense_output=True, rtol=1e-9)
    end = result.t_events[0][0]
    height, speed = result.sol(end)  # which moves with g
    assert abs(height.item()) < 1e-12
    assert abs(float(torch.autograd.grad(height, g, retain_graph=True)[0])) < 1e-12
    expected = -3.0 / (0.5**2 + 2 * 9.81 * 3.0) ** 0.5  # the speed is -sqrt(v² + 2 g h)
    assert abs(float(torch.autograd.grad(speed, g)[0]) - expected) < 1e-8
    with pytest.raises(ValueError, match="times that sol takes must be within"):
        result.sol(torch.tensor([0.1, 5.0], dtype=torch.float64))


def end(fun: Any, method: str, span: Any = (0.0, 1.0)) -> Any:
    """The end of a trajectory from zero, as a function of a parameter."""
    options = {"rtol": 1e-5, "atol": 1e-7}
    return lambda k: solve_ivp(fun, span, tensor([0.0]), method, args=(k,), **options).y[0, -1]


@pytest.mark.parametrize("method", METHODS)
def test_a_jump_that_moves_is_an_error(method: str) -> None:
    # at a time that depends on k, and at a state: y(1) is k, and 1 + k / 2
    at_time = end(lambda t, y, k: torch.where(t < k, 1.0, 0.0) + 0 * y, method)
    at_state = end(lambda t, y, k: torch.where(y < k, 2.0, 1.0) + 0 * y, method)
    for f, derivative in ((at_time, grad), (at_state, jacfwd)):
        np.testing.assert_allclose(f(tensor(0.437)), 0.437 if f is at_time else 1.2185, rtol=1e-2)
        with pytest.raises(RuntimeError, match=r"fun jumps at t = 0\.(437|2)"):
            derivative(f)(tensor(0.437))
    # at a given time, it moves nothing
    fixed = end(lambda t, y, k: k * torch.where(t < 0.4, 2.0, 1.0) + 0 * y, method)
    np.testing.assert_allclose(grad(fixed)(tensor(0.7)), 1.4, rtol=1e-3)


def test_jumps_backwards_and_kinks() -> None:
    backwards = end(lambda t, y, k: torch.where(t < k, 1.0, 0.0) + 0 * y, "RK45", (1.0, 0.0))
    with pytest.raises(RuntimeError, match=r"fun jumps at t = 0\.437"):
        grad(backwards)(tensor(0.437))
    kinked = lambda t, y, k: torch.relu(k - t) + 0 * y  # y(1) is k² / 2
    kink = lambda k: solve_ivp(
        kinked, (0.0, 1.0), tensor([0.0]), args=(k,), rtol=1e-9, atol=1e-11
    ).y[0, -1]
    np.testing.assert_allclose(grad(kink)(tensor(0.437)), 0.437, rtol=1e-8)


def test_a_jump_at_an_event() -> None:
    def hit(t: Any, y: Any, k: Any) -> Any:
        return y[0] - k

    hit.terminal = True  # type: ignore[attr-defined]

    def f(k: Any) -> Any:
        options = {"args": (k,), "events": hit}
        first = solve_ivp(lambda t, y, k: 2 + 0 * y, (0.0, 1.0), tensor([0.0]), **options)
        start, state = first.t_events[0][0], first.y_events[0][0]
        return solve_ivp(lambda t, y: 1 + 0 * y, (start, 1.0), state).y[0, -1]

    np.testing.assert_allclose(grad(f)(tensor(0.437)), 0.5)
    np.testing.assert_allclose(jacfwd(f)(tensor(0.437)), 0.5)


def test_bad_starts_and_times() -> None:
    for method in METHODS:
        with pytest.raises(RuntimeError, match="fun is infinite or NaN at the start, t = 0"):
            solve_ivp(lambda t, y: torch.log(-y), (0, 1), tensor([1.0]), method)
    y0 = tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="t_eval must be in the order of t_span"):
        solve_ivp(lambda t, y: -y, (0, 1), y0, t_eval=[0.5, 0.2])
    assert solve_ivp(lambda t, y: -y, (1, 0), y0, t_eval=[0.5, 0.2]).y.shape == (1, 2)


def test_lists_are_in_double_precision() -> None:
    found = solve_ivp(lambda t, y: [y[1], -y[0]], (0, 1), [1.0, 0.0], rtol=1e-11, atol=1e-12)
    expected = scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -y[0]], (0, 1), [1.0, 0.0], rtol=1e-11, atol=1e-12
    )
    np.testing.assert_array_equal(found.t, expected.t)
    np.testing.assert_allclose(found.y, expected.y, rtol=1e-12, atol=1e-14)
    k = torch.tensor(3.0, dtype=D, requires_grad=True)
    rates = lambda t, y: (-k * y[0], 1)
    end = solve_ivp(rates, (0, 1), [1.0, 0.0], rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(end.detach(), [np.exp(-3), 1], rtol=1e-8)
    np.testing.assert_allclose(torch.autograd.grad(end[0], k)[0], -np.exp(-3), rtol=1e-7)
    assert odeint(lambda y, t: -y, [1.0], [0.0, 1.0]).dtype == np.float64
    with pytest.raises(TypeError, match="fun must return a Tensor, or a list of Tensors and"):
        solve_ivp(lambda t, y: 1.0, (0, 1), [1.0])


@pytest.mark.parametrize("k", [torch.tensor(1.0), torch.tensor(1.0, requires_grad=True)])
def test_times_may_repeat(k: Any) -> None:
    times = [0.0, 0.5, 0.5, 1.0, 1.0]
    found = odeint(lambda y, t: -k * y, tensor([2.0]), times)
    np.testing.assert_allclose(found.detach()[:, 0], 2 * np.exp(-np.array(times)), rtol=1e-6)
    lands = lambda t, y: y[0] - 1.0
    lands.terminal = True  # type: ignore[attr-defined]
    found = solve_ivp(lambda t, y: -k * y, (0, 1), tensor([2.0]), t_eval=times, events=lands,
                      rtol=1e-6)  # fmt: skip
    np.testing.assert_allclose(found.t.detach(), times[:3])  # it ends at log(2)
    np.testing.assert_allclose(found.y.detach()[0], 2 * np.exp(-np.array(times[:3])), rtol=1e-5)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_stiff_methods_in_single_precision(method: str) -> None:
    def end(k: Any) -> Any:
        rate = lambda t, y, k: -k * (y - torch.cos(t))
        start = torch.zeros(1, dtype=k.dtype)
        return solve_ivp(rate, (0, 1), start, method, args=(k,), t_eval=[1.0], rtol=1e-4).y[0, 0]

    exact = lambda k: (k**2 * (np.cos(1) - np.exp(-k)) + k * np.sin(1)) / (k**2 + 1)
    slope = (exact(50 + 1e-4) - exact(50 - 1e-4)) / 2e-4
    k = torch.tensor(50.0, requires_grad=True)
    found = end(k)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.item(), exact(50.0), rtol=1e-3)
    (gradient,) = torch.autograd.grad(found, k)
    assert gradient.dtype == torch.float32
    np.testing.assert_allclose(gradient, slope, rtol=2e-2)
    np.testing.assert_allclose(torch.func.jacfwd(end)(k.detach()), gradient, rtol=1e-3)


def test_a_kink_at_an_event_costs_no_accuracy() -> None:
    """``y' = 1 + 5 relu(y - a)`` has its kink where y is a, at t = a."""
    a = tensor(0.4, requires_grad=True)
    options = {"rtol": 1e-7, "atol": 1e-9}
    exact = 1 - np.exp(3.0)  # the derivative of a + (exp(5 (1 - a)) - 1) / 5
    reaches = lambda t, y: y[0] - a
    reaches.terminal = True  # type: ignore[attr-defined]
    first = solve_ivp(lambda t, y: 1 + 0 * y, (0, 1), tensor([0.0]), events=reaches, **options)
    second = solve_ivp(lambda t, y, a: 1 + 5 * (y - a), (first.t_events[0][0], 1.0),
                       first.y_events[0][0], args=(a,), **options)  # fmt: skip
    (gradient,) = torch.autograd.grad(second.y[0, -1], a)
    np.testing.assert_allclose(gradient, exact, rtol=1e-6)
