"""Writes in place inside of functions that are transformed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from _transform_programs import LIBRARIES, assert_same, library_named, warnings_of

import retrograd

Torch = Any


@pytest.fixture(params=LIBRARIES)
def torch(request: pytest.FixtureRequest) -> Iterator[Torch]:
    library = library_named(request.param)
    with warnings_of(library):
        yield library


@pytest.mark.parametrize("way", ["grad", "jvp", "jacrev", "jacfwd", "vmap grad"])
def test_writes_to_tensors_made_inside_are_fine(torch: Torch, way: str) -> None:
    func, x = torch.func, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def f(x: Any) -> Any:
        y = torch.zeros_like(x)
        y.add_(x)
        y[0] *= 2
        y[1:].mul_(x[1:])  # y = 2 x0, x1**2, x2**2
        z = x.clone()
        z.sin_()
        return (y * y).sum() + z.sum()

    expected = torch.tensor([8.0, 4 * 2.0**3, 4 * 3.0**3], dtype=torch.float64) + x.cos()
    found = {
        "grad": lambda: func.grad(f)(x),
        "jvp": lambda: torch.stack(
            [func.jvp(f, (x,), (e,))[1] for e in torch.eye(3, dtype=torch.float64)]
        ),
        "jacrev": lambda: func.jacrev(f)(x),
        "jacfwd": lambda: func.jacfwd(f)(x),
        "vmap grad": lambda: func.vmap(func.grad(f))(x.expand(2, 3))[1],
    }[way]()
    assert_same(found, expected, 1e-14)
    assert x.tolist() == [1, 2, 3]


def into_zeros(torch: Torch, x: Any) -> Any:
    y = torch.zeros(3, dtype=torch.float64)
    y += x * x
    return y


def into_zeros_like(torch: Torch, x: Any) -> Any:
    y = torch.zeros_like(x)
    y.copy_(x.sin())
    y[0].mul_(3.0)
    return y


def into_an_element(torch: Torch, x: Any) -> Any:
    y = torch.ones(3, dtype=torch.float64)
    y[0] = x[0] ** 2
    y[1:] *= x[1:]
    return y


def into_a_copy(torch: Torch, x: Any) -> Any:
    y = x.clone()
    y.mul_(2.0)
    y *= x
    return y


def into_a_piece_and_the_whole(torch: Torch, x: Any) -> Any:
    y = x.clone()
    y[0:1].cos_()
    y *= x
    return y


def into_a_view_of_a_copy(torch: Torch, x: Any) -> Any:
    y = x.clone()
    z = y[1:]
    z.add_(x[1:])
    z.tanh_()
    return y


def over_what_was_there(torch: Torch, x: Any) -> Any:
    y = x * x
    y[1] = 5.0
    y[2] = x[0]
    return y


WRITERS: dict[Any, Any] = {  # and the same without writes
    into_zeros: lambda torch, x: x * x,
    into_zeros_like: lambda torch, x: torch.cat([3 * x[:1].sin(), x[1:].sin()]),
    into_an_element: lambda torch, x: torch.cat([x[:1] ** 2, x[1:]]),
    into_a_copy: lambda torch, x: 2 * x * x,
    into_a_piece_and_the_whole: lambda torch, x: torch.cat([x[:1].cos(), x[1:]]) * x,
    into_a_view_of_a_copy: lambda torch, x: torch.cat([x[:1], torch.tanh(2 * x[1:])]),
    over_what_was_there: lambda torch, x: torch.stack([x[0] ** 2, 0 * x[0] + 5, x[0]]),
}
INNER = {
    "value": "f(x)",
    "grad": "func.grad(lambda x: (f(x) * w).sum())(x)",
    "jvp": "func.jvp(f, (x,), (w,))[1]",
    "jacrev": "func.jacrev(f)(x)",
    "jacfwd": "func.jacfwd(f)(x)",
    "forward over reverse": "func.jvp(func.grad(lambda x: (f(x) * w).sum()), (x,), (w,))[1]",
    "reverse over forward": "func.grad(lambda x: (func.jvp(f, (x,), (w,))[1] * w).sum())(x)",
    "reverse over reverse": "func.grad(lambda x: func.grad(lambda x: (f(x) * w).sum())(x) @ w)(x)",
}
AROUND = {  # with a variable that does not matter
    "vmap": "func.vmap(lambda a: {inner})(w)[1]",
    "jvp": "func.jvp(lambda a: {inner}, (w,), (w,))[0]",
    "grad": "func.grad_and_value(lambda a: (a.sum(), {inner}), has_aux=True)(w)[1][1]",
    "vjp": "func.vjp(lambda a: {inner}, w)[0]",
    "vmap grad": "func.vmap(func.grad_and_value(lambda a: (a, {inner}), has_aux=True))(w)[1][1][0]",
}
MATTERING = {  # with a variable that does: x is made from it
    "vmap": "func.vmap(lambda x: {inner})(torch.stack([x, x]))[1]",
    "jvp": "func.jvp(lambda x: {inner}, (x,), (w,))[0]",
    "grad": "func.grad_and_value(lambda x: (x.sum(), {inner}), has_aux=True)(x)[1][1]",
    "vmap jvp": "func.vmap(lambda x: func.jvp(lambda x: {inner}, (x,), (w,))[0])(x[None])[0]",
}


# A mapped value cannot be written into a tensor that is not.
UNMAPPED = (into_zeros, into_an_element)
PLACES = [
    (writer, around)
    for writer in WRITERS
    for around in [*AROUND, *(f"{name} of x" for name in MATTERING)]
    if not (writer in UNMAPPED and "vmap" in around and "of x" in around)
]


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    ("writer", "around"), PLACES, ids=[f"{writer.__name__}-{around}" for writer, around in PLACES]
)
def test_writes_are_the_same_inside_another_transform(
    torch: Torch, writer: Any, around: str, inner: str
) -> None:
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    w = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def f(x: Any) -> Any:
        return writer(torch, x)

    space = {"func": torch.func, "torch": torch, "f": f, "x": x, "w": w}
    text = MATTERING[around.removesuffix(" of x")] if "of x" in around else AROUND[around]
    try:
        found = eval(text.format(inner=INNER[inner]), space)
    except RuntimeError as error:
        if torch is retrograd or "vmap: inplace arithmetic" not in str(error):
            raise
        pytest.skip("PyTorch cannot write a mapped tangent over one that is not")
    space["f"] = lambda x: WRITERS[writer](torch, x)
    assert_same(found, eval(INNER[inner], space), 1e-14)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("writer", WRITERS)
def test_writes_have_the_derivatives_of_what_they_do(torch: Torch, writer: Any, inner: str) -> None:
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    w = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    found, expected = (
        eval(INNER[inner], {"func": torch.func, "f": f, "x": x, "w": w})
        for f in (lambda x: writer(torch, x), lambda x: WRITERS[writer](torch, x))
    )
    assert_same(found, expected, 1e-14)


def test_a_write_to_a_mapped_argument_reaches_the_callers_tensor(torch: Torch) -> None:
    xs = torch.arange(6.0).reshape(2, 3)
    found = torch.func.vmap(lambda x: x.mul_(2))(xs)
    assert found.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert xs.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_captured_tensors_may_be_written_under_vmap_if_nothing_is_mapped(torch: Torch) -> None:
    count = torch.zeros(3)

    def f(x: Any) -> Any:
        count.add_(1)
        return x * 2

    assert torch.func.vmap(f)(torch.ones(4)).tolist() == [2, 2, 2, 2]
    assert count.tolist() == [1, 1, 1]  # once, not four times


def test_a_number_filled_into_a_slice_has_second_derivatives() -> None:
    """The result of ``fill`` is one element; the gradient by what it is written over is not."""
    x = retrograd.tensor([[0.3, -0.7, 0.9], [0.5, 1.1, -0.2]], dtype=retrograd.float64)

    def function(x):
        written = x.new_zeros(2, 3)
        written.copy_(x[0, 1])
        written[:1] = x[0, 1]
        written.mul_(x[0, 1])
        return written

    func = retrograd.func
    pulled = func.vjp(lambda x: func.jvp(function, (x,), (x * 0 + 2,))[1], x)[1](x)[0]
    # The tangent is 4 x[0, 1] everywhere.
    expected = retrograd.zeros_like(x)
    expected[0, 1] = 4 * x.sum()
    assert retrograd.allclose(pulled, expected)


@pytest.mark.parametrize("shape", [(2, 1), (2, 3)])
def test_gradients_of_batches_that_a_smaller_value_was_written_over(
    torch: Torch, shape: tuple[int, ...]
) -> None:
    x = torch.ones(shape, dtype=torch.float64)
    ways: dict[float, Any] = {
        0: lambda x: x.clone().fill_(2),
        2: lambda x: x.clone().fill_(2) * x,
        1: lambda x: x.clone().copy_(torch.ones(1, dtype=torch.float64)) * x,
    }
    for expected, f in ways.items():
        found = torch.func.grad(lambda x, f=f: torch.func.vmap(f)(x).sum())(x)
        assert found.tolist() == torch.full(shape, float(expected)).tolist()
        jacobian = torch.func.jacrev(torch.func.vmap(f))(x).reshape(x.numel(), x.numel())
        assert jacobian.tolist() == (expected * torch.eye(x.numel())).tolist()


def test_a_constant_of_two_levels_is_written_outside_of_them() -> None:
    """``out=`` of what does not move, in a derivative of a derivative."""
    x, room = retrograd.tensor([[1.0, 5.0], [3.0, 2.0]]), retrograd.zeros(2)
    places = retrograd.zeros(2, dtype=retrograd.int64)

    def largest(x):
        return retrograd.max(x.detach(), 0, out=(room.clone(), places.clone()))[0] * x[0]

    func = retrograd.func
    moved = func.jvp(lambda x: func.jvp(largest, (x,), (x,))[1], (x,), (x,))
    assert [part.tolist() for part in moved] == [[3.0, 25.0], [3.0, 25.0]]


INDEXED = {
    "masked_select": lambda x, mask: x.masked_select(mask),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, x[2:]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[2:]),
    "index_fill": lambda x, i: x.index_fill(0, i, x[3]),
    "gather": lambda x, i: x.gather(0, i),
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.put(i, x[2:]),
    "embedding": lambda x, i: retrograd.nn.functional.embedding(i, x.reshape(4, 1)),
    "embedding_bag": lambda x, i: retrograd.nn.functional.embedding_bag(
        i.reshape(1, 2), x.reshape(4, 1), mode="sum"
    ),
}
WAYS_TO_A_HISTORY = {
    "vmap": lambda f, x: retrograd.func.vmap(f)(x),
    "vmap grad": lambda f, x: retrograd.func.vmap(
        retrograd.func.grad(lambda row: f(row).pow(3).sum())
    )(x),
    "jvp": lambda f, x: retrograd.func.jvp(f, (x[0],), (x[1],))[1],
    "vjp": lambda f, x: (lambda y, pull: pull(y.detach() * x[0, 1])[0])(
        *retrograd.func.vjp(f, x[0].detach())
    ),
    "second pass": lambda f, x: (lambda leaf: retrograd.autograd.grad(
        (y := f(leaf)), leaf, y.detach() * x[0, 1], create_graph=True
    )[0])(x[0].detach().requires_grad_()),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS_TO_A_HISTORY)
@pytest.mark.parametrize("name", INDEXED)
def test_an_index_that_is_written_later_changes_no_gradient(name: str, way: str) -> None:
    """The gradient is the same as without the write, or the error says that it cannot be."""

    def gradient(write: bool) -> Any:
        x = retrograd.arange(1.0, 9, dtype=retrograd.float64).reshape(2, 4).requires_grad_()
        of_mask = name == "masked_select"
        index = retrograd.tensor([True, False, True, False] if of_mask else [0, 1])
        y = WAYS_TO_A_HISTORY[way](lambda row: INDEXED[name](row, index), x)
        if write:
            index.copy_(~index if of_mask else 3 - index)
        y.pow(2).sum().backward()
        return x.grad

    try:
        found = gradient(write=True).tolist()
    except RuntimeError as error:
        found = str(error).partition(": ")[0]
    noticed = (
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation"
    )
    assert found in (noticed, gradient(write=False).tolist())


@pytest.mark.parametrize("transform", ["grad", "vmap of grad", "jacrev"])
def test_a_write_through_detach_is_noticed(transform: str) -> None:
    def function(x: Any) -> Any:
        y = x.exp()
        y.detach().add_(1)
        return y.sum()

    transforms = retrograd.func
    transformed = {
        "grad": transforms.grad(function),
        "vmap of grad": transforms.vmap(transforms.grad(function)),
        "jacrev": transforms.jacrev(function),
    }[transform]
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        transformed(retrograd.ones(3, 2))
