"""Views and in-place writes under transforms: what is written through a view is seen by its base
and by other views of it, in values, tangents and gradients, however transforms are nested.

Each program is a function of a matrix. Under a transform it must give what a loop over entries, a
second pass backward, or PyTorch gives.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.func import grad, jvp, vmap

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script.*:DeprecationWarning")
Program = Callable[[Any, Any], Any]


def column_written(torch: Any, x: Any) -> Any:
    y = x * 1
    y[:, 1] = x[:, 0] ** 2
    return y * x


def base_written_after_view(torch: Any, x: Any) -> Any:
    y = x.clone()
    row = y[0]
    y.mul_(x)
    return row.sin().sum() * y


def view_written_and_both_used(torch: Any, x: Any) -> Any:
    y = x.exp() * 1
    diagonal = y.diagonal()
    diagonal.mul_(x[0, :2])
    return y * diagonal.sum()


def view_of_view(torch: Any, x: Any) -> Any:
    y = x.clone()
    part = y.t()[1:]
    part[0].copy_(x[:, 2] * x[:, 0])
    part.mul_(3)
    return y.tanh() + part.sum()


def two_views(torch: Any, x: Any) -> Any:
    y = x.clone()
    first, second = y[0], y[:, 0]
    first.mul_(x[1])
    second.mul_(x[:, 2])
    return torch.cat([first * second.sum(), y.flatten()])


def reshaped(torch: Any, x: Any) -> Any:
    y = x.sin()
    y.view(-1)[1:4].neg_()
    return y.reshape(3, 2) * x.t()


def turned_then_written(torch: Any, x: Any) -> Any:
    y = (x * 2).t()
    y[1].mul_(x[:, 0])
    return y.cumsum(0)


def places_written(torch: Any, x: Any) -> Any:
    y = x.clone()
    y[[1, 0], [2, 0]] = x[0, :2].cos()
    return y.prod()


def places_of_a_view_written(torch: Any, x: Any) -> Any:
    y = x.clone()
    y[:, 1:][[1, 1, 0], [0, 1, 1]] += x[1] * x[0]
    return y**2


def number_written(torch: Any, x: Any) -> Any:
    y = x * x
    y[0, 1:] = 2.5
    return (y * x).sum(1)


def filled(torch: Any, x: Any) -> Any:
    y = x.clone()
    y[1].fill_(x[0, 0])
    y.select(1, 2).zero_()
    return y.exp()


def mask_written(torch: Any, x: Any) -> Any:
    y = x.clone()
    y.masked_fill_(torch.tensor([[True, False, True], [False, False, True]]), 3.0)
    return y * x


def narrowed(torch: Any, x: Any) -> Any:
    y = x.clone()
    y.narrow(1, 1, 2).add_(x[:, :2], alpha=2)
    y.unfold(1, 2, 2).mul_(x[0, 0])
    return y.sum(0)


def shape_taken_in_place(torch: Any, x: Any) -> Any:
    y = x.clone().unsqueeze_(0)
    y.mul_(x)
    y[0].t_().mul_(2)
    return y


def written_twice(torch: Any, x: Any) -> Any:
    y = x.clone()
    for k in range(3):
        y[k % 2] = y[(k + 1) % 2].clone() * x[0] + k
    return y


def accumulated(torch: Any, x: Any) -> Any:
    total = x.new_zeros(3) + x[0] * 0
    for row in x:
        total += row * row
    return total


def written_into_zeros(torch: Any, x: Any) -> Any:
    y = torch.zeros_like(x)
    y[0] = x[1].exp()
    y[1, 1:] = x[0, :2] * y[0, 1:].clone()
    return y


def scattered(torch: Any, x: Any) -> Any:
    y = x.clone()
    y.scatter_add_(1, torch.tensor([[0, 0, 2], [1, 2, 1]]), x * x)
    y[0].index_add_(0, torch.tensor([2, 2]), x[1, :2])
    return y


def strided(torch: Any, x: Any) -> Any:
    y = x.clone()
    y.as_strided((2, 2), (3, 2)).mul_(x[:, 1:])
    return y * x


def squeezed(torch: Any, x: Any) -> Any:
    y = (x * x)[:1]
    y.squeeze(0).mul_(x[1])
    return y + x


PROGRAMS = [
    column_written, base_written_after_view, view_written_and_both_used, view_of_view, two_views,
    reshaped, turned_then_written, places_written, places_of_a_view_written, number_written, filled,
    mask_written, narrowed, shape_taken_in_place, written_twice, accumulated, written_into_zeros,
    scattered, strided, squeezed,
]  # fmt: skip
programs = pytest.mark.parametrize("program", PROGRAMS)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.3, 1.5, shape)


def here(array: np.ndarray) -> Any:
    return retrograd.from_numpy(array.copy())


def total(program: Program, torch: Any = retrograd) -> Callable[[Any], Any]:
    """A number made of a program's result, no two elements of which count the same."""

    def function(x: Any) -> Any:
        y = program(torch, x)
        weights = np.cos(1 + np.arange(y.numel())).reshape(tuple(y.shape))
        return (y * torch.from_numpy(weights)).sum()

    return function


def on(program: Program) -> Callable[[Any], Any]:
    return lambda x: program(retrograd, x)


def slope(function: Callable[[Any], Any], array: np.ndarray) -> np.ndarray:
    """The gradient of a number, by differences."""
    found = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        step = np.zeros_like(array)
        step[place] = 1e-6
        above, below = (function(here(array + s)).item() for s in (step, -step))
        found[place] = (above - below) / 2e-6
    return found


def gradient(function: Callable[[Any], Any], array: np.ndarray, t: np.ndarray) -> list[np.ndarray]:
    """The gradient and its own derivative along ``t``, backward over backward."""
    x = here(array).requires_grad_()
    (g,) = retrograd.autograd.grad(function(x), x, create_graph=True)
    if not g.requires_grad:
        return [g.numpy(), np.zeros_like(array)]
    (second,) = retrograd.autograd.grad(g, x, here(t), materialize_grads=True)
    return [g.detach().numpy(), second.numpy()]


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


@programs
def test_backward_agrees_with_differences(program: Program) -> None:
    array = numbers(2, 3)
    close(gradient(total(program), array, array)[0], slope(total(program), array), 1e-6)


@programs
def test_batch(program: Program) -> None:
    batch = numbers(4, 2, 3)
    expected = [program(retrograd, here(x)).numpy() for x in batch]
    close(vmap(on(program))(here(batch)), expected)


# PyTorch, too, finds that entries do not lie in memory as they would on their own.
LAYOUT_MATTERS = (reshaped, strided)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in LAYOUT_MATTERS])
@pytest.mark.parametrize("in_dim", [1, 2])
def test_batch_along_other_dimensions(program: Program, in_dim: int) -> None:
    batch = numbers(4, 2, 3)
    moved = here(np.ascontiguousarray(np.moveaxis(batch, 0, in_dim)))
    expected = [program(retrograd, here(x)).numpy() for x in batch]
    close(vmap(on(program), in_dims=in_dim)(moved), expected)


@programs
def test_batch_of_batches(program: Program) -> None:
    batch = numbers(3, 2, 2, 3)
    expected = [[program(retrograd, here(x)).numpy() for x in some] for some in batch]
    close(vmap(vmap(on(program)))(here(batch)), expected)
    swapped = vmap(vmap(on(program)), in_dims=1, out_dims=1)(here(batch))
    close(swapped, expected)


@programs
def test_tangent(program: Program) -> None:
    array, t = numbers(2, 3), numbers(2, 3, seed=1)
    value, moved = jvp(total(program), (here(array),), (here(t),))
    close(value, total(program)(here(array)))
    close(moved, (gradient(total(program), array, t)[0] * t).sum())


@programs
def test_tangents_are_not_written(program: Program) -> None:
    array, t = numbers(2, 3), numbers(2, 3, seed=1)
    x, direction = here(array), here(t)
    jvp(on(program), (x,), (direction,))
    close(x, array)
    close(direction, t)


@programs
def test_forward_over_reverse(program: Program) -> None:
    array, t = numbers(2, 3), numbers(2, 3, seed=1)
    first, second = gradient(total(program), array, t)
    g, moved = jvp(grad(total(program)), (here(array),), (here(t),))
    close(g, first)
    close(moved, second)


@programs
def test_reverse_over_forward(program: Program) -> None:
    array, t = numbers(2, 3), numbers(2, 3, seed=1)

    def moved(x: Any) -> Any:
        return jvp(total(program), (x,), (here(t),))[1]

    close(grad(moved)(here(array)), gradient(total(program), array, t)[1])


@programs
def test_forward_over_forward(program: Program) -> None:
    array, t = numbers(2, 3), numbers(2, 3, seed=1)

    def moved(x: Any) -> Any:
        return jvp(total(program), (x,), (here(t),))[1]

    second = gradient(total(program), array, t)[1]
    close(jvp(moved, (here(array),), (here(t),))[1], (second * t).sum())


@programs
def test_batch_of_gradients(program: Program) -> None:
    batch = numbers(4, 2, 3)
    expected = [gradient(total(program), x, x)[0] for x in batch]
    close(vmap(grad(total(program)))(here(batch)), expected)


@programs
def test_batch_of_second_derivatives(program: Program) -> None:
    batch, t = numbers(4, 2, 3), numbers(2, 3, seed=1)
    expected = [gradient(total(program), x, t)[1] for x in batch]

    def along(x: Any) -> Any:
        return jvp(grad(total(program)), (x,), (here(t),))[1]

    close(vmap(along)(here(batch)), expected)


@programs
def test_gradient_of_a_batch(program: Program) -> None:
    batch = numbers(4, 2, 3)
    expected = [gradient(total(program), x, x)[0] for x in batch]
    close(grad(lambda x: vmap(total(program))(x).sum())(here(batch)), expected)


@programs
def test_batch_of_tangents(program: Program) -> None:
    """A batch of directions at one point, as in a Jacobian taken forward."""
    array, directions = numbers(2, 3), np.eye(6).reshape(6, 2, 3)
    expected = gradient(total(program), array, array)[0].reshape(6)
    found = vmap(lambda t: jvp(total(program), (here(array),), (t,))[1])(here(directions))
    close(found, expected)


@programs
def test_tangent_of_a_batch(program: Program) -> None:
    batch, t = numbers(4, 2, 3), numbers(4, 2, 3, seed=1)
    expected = [
        (gradient(total(program), x, x)[0] * d).sum() for x, d in zip(batch, t, strict=True)
    ]
    close(jvp(vmap(total(program)), (here(batch),), (here(t),))[1], expected)


def transformed(name: str, program: Program, library: Any) -> Any:
    """What a transform of a program gives in one of the libraries."""
    func, function = library.func, total(program, library)
    batch, t = (library.from_numpy(a) for a in (numbers(4, 2, 3), numbers(2, 3, seed=1)))
    if name == "vmap":
        return func.vmap(lambda x: program(library, x))(batch)
    if name == "vmap of grad":
        return func.vmap(func.grad(function))(batch)
    if name == "jvp":
        return func.jvp(lambda x: program(library, x), (batch[0].clone(),), (t,))[1]
    return func.jvp(func.grad(function), (batch[0].clone(),), (t,))[1]


@programs
@pytest.mark.parametrize("name", ["vmap", "jvp", "vmap of grad", "jvp of grad"])
def test_as_in_pytorch(program: Program, name: str) -> None:
    torch = pytest.importorskip("torch")
    close(transformed(name, program, retrograd), transformed(name, program, torch).detach())


# -- tensors from outside, and what they are views of ------------------------------------------


def outside_written(torch: Any, x: Any) -> Any:
    y = torch.zeros(2, 3, dtype=torch.float64)
    y[0] = x[1] ** 2
    y[1] = x[0] * y[0].clone()
    return y * x


def views_there_before(torch: Any, x: Any) -> Any:
    y = torch.zeros(2, 3, dtype=torch.float64)
    row, column = y[1], y[:, 0]
    y[0] = x[0] ** 2
    y[1] = x[1] * row.clone() + x[1]
    return y * column.sum() + row


def view_of_a_view_there_before(torch: Any, x: Any) -> Any:
    y = torch.zeros(2, 3, dtype=torch.float64)
    row = y[1]
    end = row[1:]
    end.copy_(x[0, :2])
    row[0] = x[1, 1] ** 2
    return y * x + row * end.sum()


@pytest.mark.parametrize("name", ["jvp", "jvp of grad", "grad of jvp", "jvp of jvp", "vmap of jvp"])
@pytest.mark.parametrize(
    "program", [outside_written, views_there_before, view_of_a_view_there_before]
)
def test_a_tensor_from_outside_takes_tangents_on(program: Program, name: str) -> None:
    array, t = numbers(2, 3), numbers(2, 3, seed=1)
    function = total(program)
    first, second = gradient(function, array, t)

    def moved(x: Any) -> Any:
        return jvp(function, (x,), (here(t),))[1]

    expected = {"jvp": (first * t).sum(), "jvp of grad": second, "grad of jvp": second,
                "jvp of jvp": (second * t).sum(), "vmap of jvp": first.reshape(6)}  # fmt: skip
    found = {
        "jvp": lambda: moved(here(array)),
        "jvp of grad": lambda: jvp(grad(function), (here(array),), (here(t),))[1],
        "grad of jvp": lambda: grad(moved)(here(array)),
        "jvp of jvp": lambda: jvp(moved, (here(array),), (here(t),))[1],
        "vmap of jvp": lambda: vmap(lambda t: jvp(function, (here(array),), (t,))[1])(
            here(np.eye(6).reshape(6, 2, 3))
        ),
    }
    close(found[name](), expected[name])


def test_gradients_that_are_one_array_are_written_apart() -> None:
    """The gradients of a sum are one and the same; a write to one must not show in the other."""

    def function(x: Any, y: Any) -> Any:
        gx, gy = grad(lambda x, y: (x + y).sin().sum(), (0, 1))(x, y)
        gx.mul_(2)
        gx[0] = 5
        return gx * gy

    x, y = numbers(2, 3), numbers(2, 3, seed=1)
    slope = np.cos(x + y)
    expected = slope * np.concatenate([np.full((1, 3), 5.0), 2 * slope[1:]])
    close(function(here(x), here(y)), expected)
    close(vmap(function)(here(x[None]), here(y[None])), expected[None])
    ones, zeros = np.ones_like(x), np.zeros_like(x)
    value, moved = jvp(function, (here(x), here(y)), (here(ones), here(zeros)))
    close(value, expected)
    curve = -np.sin(x + y)
    close(moved, np.concatenate([5 * curve[:1], 4 * slope[1:] * curve[1:]]))


def test_what_is_written_under_vmap_is_written() -> None:
    array = numbers(4, 2, 3)
    x = here(array)
    found = vmap(lambda x: x[0].mul_(2), in_dims=1)(x)
    array[0] *= 2
    close(x, array)
    close(found, array[0])


def test_views_of_several_outputs_are_written() -> None:
    def function(x: Any) -> Any:
        y = x * 1
        first, _ = y.unbind(0)
        first.mul_(x[1])
        y.chunk(3, 1)[1].add_(x[:, :1])
        y.split([1, 2], 1)[1].exp_()
        return y * x.sum() + first

    array, t = numbers(4, 2, 3), numbers(2, 3, seed=1)
    close(vmap(function)(here(array)), [function(here(x)).numpy() for x in array])
    above, below = (function(here(array[0] + s * t)).numpy() for s in (1e-6, -1e-6))
    close(jvp(function, (here(array[0]),), (here(t),))[1], (above - below) / 2e-6, 1e-6)
    with pytest.raises(RuntimeError, match="This view is the output of a function that returns mu"):
        vmap(grad(lambda x: function(x).sum()))(here(array))


def test_parts_of_complex_values_are_written() -> None:
    def function(z: Any) -> Any:
        y = z * 1
        y.real.mul_(2)
        retrograd.view_as_real(y)[..., 1].add_(1)
        y.imag[0] = y.real[1].clone()
        return y * z

    array = numbers(4, 2, 3) + 1j * numbers(4, 2, 3, seed=1)
    t = numbers(2, 3, seed=2) + 1j * numbers(2, 3, seed=3)
    close(vmap(function)(here(array)), [function(here(z)).numpy() for z in array])
    above, below = (function(here(array[0] + s * t)).numpy() for s in (1e-6, -1e-6))
    close(jvp(function, (here(array[0]),), (here(t),))[1], (above - below) / 2e-6, 1e-6)


def test_a_saved_value_that_is_written_is_noticed() -> None:
    def function(x: Any) -> Any:
        y = x.exp()
        y[0].mul_(2)
        return y.sum()

    for transformed in (vmap(grad(function)), lambda x: jvp(grad(function), (x[0],), (x[1],))):
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            transformed(here(numbers(4, 2, 3)))


def test_a_base_that_was_turned_is_noticed() -> None:
    """The steps that led to a view lead somewhere else, then."""

    def function(x: Any) -> Any:
        y = x.clone()
        row = y[0]
        y.t_()
        row.mul_(2)
        return (y * y).sum()

    with pytest.raises(RuntimeError, match="whose base was given another shape in place"):
        vmap(grad(function))(here(numbers(4, 3, 3)))


def test_out_is_written_with_its_tangent() -> None:
    array, t = numbers(4, 3), numbers(4, 3, seed=1)

    def function(x: Any) -> Any:
        out = retrograd.empty_like(x)
        retrograd.sin(x, out=out)
        return out * x

    close(vmap(function)(here(array)), np.sin(array) * array)
    expected = (np.cos(array) * array + np.sin(array)) * t
    close(jvp(function, (here(array),), (here(t),))[1], expected)
