"""Tangents of memory that is seen through several views, whichever of them it is written through.

Programs of views and writes are drawn at random. Their tangents are compared with differences of
the programs themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import retrograd as torch
from retrograd.autograd import forward_ad

VIEWS = ["[:1]", "[-1]", "[..., 1:]", "[..., 0]", ".unsqueeze(0)", ".view(-1)", "[None, ...]",
         ".squeeze()", ".transpose(0, -1)", ".chunk(2)[1]", ".unbind()[0]", ".expand(2, 2, 3)[1]",
         ".flatten()", ".real", ".view_as(t0)"]  # fmt: skip
NUMBERS = ["x[0, 1]", "x.sum()", "x[1, 2] * x[0, 0]", "0.5", "t{j}.mean()", "t{j}.view(-1)[0]"]
WRITES = ["t{i}.copy_({n})", "t{i}.mul_({n})", "t{i}.add_({n})", "t{i}[...] = {n}", "t{i}.zero_()",
          "t{i}[:1] = {n}", "t{i}.sub_(t{j})", "t{i}.copy_(t{j})", "t{i}[-1] *= {n}",
          "t{i}.unsqueeze_(0)", "t{i}.fill_(torch.as_tensor({n}))"]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> list[str]:
    """Lines that work on ``x``, of two rows and three columns. Some may raise."""
    lines = ["t0 = x.new_zeros(2, 3)", "t1 = torch.ones(2, 3, dtype=torch.float64)", "t2 = x * x"]
    count = len(lines)
    for _ in range(draw(st.integers(2, 9))):
        i, j = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        if draw(st.booleans()):
            lines.append(f"t{count} = t{i}{draw(st.sampled_from(VIEWS))}")
            count += 1
        else:
            number = draw(st.sampled_from(NUMBERS))
            lines.append(draw(st.sampled_from(WRITES)).replace("{n}", number)
                         .format(i=i, j=j))  # fmt: skip
    return lines


def function(lines: list[str], names: list[str]) -> Callable[[Any], Any]:
    """The program as a function that returns what it calls by the names, one after the other."""

    def run(x: Any) -> Any:
        known: dict[str, Any] = {"torch": torch, "x": x}
        for line in lines:
            exec(line, known)
        return tuple(known[name] for name in names)

    return run


def joined(tensors: tuple[Any, ...]) -> Any:
    return torch.cat([t.reshape(-1) for t in tensors])


def runnable(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines that raise nothing, and the names that they make."""
    known: dict[str, Any] = {"torch": torch, "x": POINT.clone()}
    kept = []
    for line in lines:
        try:
            exec(line, known)
        except (RuntimeError, IndexError, NameError, KeyError):
            continue
        kept.append(line)
    return kept, sorted(n for n in known if n[0] == "t" and n[1:].isdigit())


POINT = torch.tensor([[0.3, -0.7, 0.9], [0.5, 1.1, -0.2]], dtype=torch.float64)
WAY = torch.tensor([[1.0, -0.5, 0.25], [0.75, 0.4, -1.0]], dtype=torch.float64)


def differences(f: Callable[[Any], Any]) -> Any:
    """How ``f`` moves along the way, by its values nearby."""
    h = 1e-5
    return (f(POINT + h * WAY) - f(POINT - h * WAY)) / (2 * h)


def by_levels(f: Callable[[Any], Any]) -> Any:
    with forward_ad.dual_level():
        found = f(forward_ad.make_dual(POINT.clone(), WAY.clone()))
        pairs = [forward_ad.unpack_dual(y) for y in found]
        return joined(tuple(p.primal * 0 if p.tangent is None else p.tangent for p in pairs))


def by_jvp(f: Callable[[Any], Any], point: Any = POINT, way: Any = WAY) -> Any:
    return joined(torch.func.jvp(f, (point,), (way,))[1])


def by_map(f: Callable[[Any], Any]) -> Any:
    points, ways = POINT.expand(2, 2, 3), torch.stack([WAY, 2 * WAY])
    found = torch.func.vmap(lambda x, t: by_jvp(f, x, t))(points, ways)
    assert torch.allclose(2 * found[0], found[1])
    return found[0]


MODES = {"func.jvp": by_jvp, "forward_ad": by_levels, "vmap": by_map}


@pytest.mark.filterwarnings("ignore")  # an operation that vmap does entry by entry
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=programs())
def test_tangents_are_differences(mode: str, lines: list[str]) -> None:
    lines, names = runnable(lines)
    note("\n".join(lines))
    f = function(lines, names)
    expected = differences(lambda x: joined(f(x.clone())))
    try:
        found = MODES[mode](f)
    except RuntimeError as error:
        if mode == "vmap" and "vmap: inplace arithmetic" in str(error):
            return  # a tensor that is the same for all entries cannot be written with them
        if mode == "vmap" and "was given another shape in place" in str(error):
            return  # which part of it an older view is cannot be told there, and is refused
        raise
    note(f"{expected}\n{found}")
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-6 * (1 + expected.abs().max().item()))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=programs())
def test_tangents_of_tangents_are_differences_of_them(lines: list[str]) -> None:
    lines, names = runnable(lines)
    note("\n".join(lines))
    f = function(lines, names)
    expected = differences(lambda x: by_jvp(f, x.clone()))
    found = torch.func.jvp(lambda x: by_jvp(f, x), (POINT,), (WAY,))[1]
    scale = 1e-5 * (1 + expected.abs().max().item())
    assert torch.allclose(found, expected, rtol=1e-4, atol=scale)


X, T = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])


def older_view(y: Any) -> Any:
    b = torch.zeros(2)
    v = b[0]
    b.copy_(y)
    return v


def test_a_view_from_before_the_write_moves_with_its_base() -> None:
    func = torch.func
    value, tangent = func.jvp(older_view, (X,), (T,))
    assert (value.item(), tangent.item()) == (1.0, 3.0)
    assert func.jacfwd(older_view)(X).tolist() == [1.0, 0.0]
    assert func.hessian(lambda y: older_view(y * y))(X).tolist() == [[2.0, 0.0], [0.0, 0.0]]
    twice = func.jvp(lambda a: func.jvp(older_view, (a * a,), (a,))[1], (X,), (T,))
    assert [t.item() for t in twice] == [1.0, 3.0]
    with forward_ad.dual_level():
        shown = older_view(forward_ad.make_dual(X.clone(), T))
        assert repr(shown) == "tensor(1., tangent=tensor(3.))"
        assert forward_ad.unpack_dual(shown).tangent.item() == 3.0


def test_an_older_view_inside_further_transforms() -> None:
    func = torch.func

    def within(use: Callable[[Any, Any], Any]) -> list[float]:
        def f(y: Any) -> Any:
            b = torch.zeros(2, 2)
            v = b[0]
            b.copy_(y)
            return use(v, y)

        found: list[float] = func.jvp(f, (X,), (T,))[1].tolist()
        return found

    assert within(lambda v, y: func.vmap(lambda z: z * z)(v)) == [6.0, 20.0]
    assert within(lambda v, y: func.vmap(lambda z: v)(y)) == [[3.0, 5.0], [3.0, 5.0]]
    assert within(lambda v, y: func.grad(lambda z: (z * z).sum())(v)) == [6.0, 10.0]
    assert within(lambda v, y: func.grad(lambda z: (z.sum(), v), has_aux=True)(y)[1]) == [3.0, 5.0]
    assert within(lambda v, y: func.jvp(lambda z: v, (y,), (y,))[0]) == [3.0, 5.0]
    assert within(lambda v, y: func.jvp(lambda z: z * v, (y,), (y,))[1]) == [6.0, 20.0]


@pytest.mark.parametrize("mode", ["forward_ad", "func.jvp"])
def test_an_older_view_is_written_after_its_base_was_reshaped_in_place(mode: str) -> None:
    def f(x: Any) -> tuple[Any, ...]:
        base = torch.ones(2, 2, dtype=torch.float64)
        view = base[:1]
        base.copy_(x[0, 1])
        base.unsqueeze_(0)
        view.copy_(x[0, 1])
        base.mul_(x[0, 1])  # x², whose tangent was that of x
        return base, view

    expected = differences(lambda x: joined(f(x)))
    assert torch.allclose(MODES[mode](f), expected, atol=1e-6)
