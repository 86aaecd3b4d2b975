"""Custom ``autograd.Function``s inside transforms."""

from __future__ import annotations

import itertools
import math
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


# A tangent of a tangent of a custom Function, of which PyTorch 2.13 gives the wrong value.
PYTORCH_IS_WRONG = "func.jacfwd(func.jacfwd("


def generated(torch: Torch) -> Any:
    """A function whose vmap is made from forward, backward and jvp. Of several results."""

    class SinCos(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, scale: float) -> Any:
            return torch.sin(x) * scale, torch.cos(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.scale = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * torch.cos(x) * ctx.scale - h * torch.sin(x), None

        @staticmethod
        def jvp(ctx: Any, t: Any, _: Any) -> Any:
            (x,) = ctx.saved_tensors
            return t * torch.cos(x) * ctx.scale, -t * torch.sin(x)

    return SinCos


def written_out(torch: Torch) -> Any:
    """A function with a vmap of its own, which notes how it is called."""

    class Outer(torch.autograd.Function):
        calls: list[Any] = []  # noqa: RUF012

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x.unsqueeze(-1) * y.unsqueeze(-2)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return (g * y.unsqueeze(-2)).sum(-1), (g * x.unsqueeze(-1)).sum(-2)

        @staticmethod
        def jvp(ctx: Any, s: Any, t: Any) -> Any:
            x, y = ctx.saved_tensors
            return s.unsqueeze(-1) * y.unsqueeze(-2) + x.unsqueeze(-1) * t.unsqueeze(-2)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
            Outer.calls.append((info.batch_size, info.randomness, in_dims))
            x, y = (
                z.expand(info.batch_size, *z.shape) if d is None else z.movedim(d, 0)
                for z, d in zip((x, y), in_dims, strict=True)
            )
            while x.ndim < y.ndim:
                x = x.unsqueeze(1)
            while y.ndim < x.ndim:
                y = y.unsqueeze(1)
            return Outer.apply(x, y), 0

    return Outer


def numbers(torch: Torch, *shape: int) -> Any:
    return torch.sin(torch.arange(1, math.prod(shape) + 1, dtype=torch.float64)).reshape(shape)


# -- the values of each transform ------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [
        "func.grad(lambda x: f(x, 3.0)[0].sum() + f(x, 3.0)[1].sum())(x)",
        "func.jvp(lambda x: f(x, 3.0), (x,), (x.cos(),))[1][1]",
        "func.vjp(lambda x: f(x, 3.0), x)[1]((x, x * 2))[0]",
        "func.jacrev(lambda x: f(x, 3.0)[0])(x)",
        "func.jacfwd(lambda x: f(x, 3.0)[1])(x)",
        "func.hessian(lambda x: f(x, 3.0)[0].prod())(x)",
        "func.jacrev(func.jacrev(lambda x: f(x, 3.0)[0].prod()))(x)",
        "func.jacfwd(func.jacfwd(lambda x: f(x, 3.0)[0].prod()))(x)",
        "func.vmap(lambda x: f(x, 3.0)[0])(m)",
        "func.vmap(lambda x: f(x, 3.0)[1], in_dims=1, out_dims=-1)(m)",
        "func.vmap(func.grad(lambda x: f(x, 3.0)[0].sum()))(m)",
        "func.vmap(func.hessian(lambda x: f(x, 3.0)[0].prod()))(m)",
        "func.grad(lambda x: func.vmap(lambda s: f(x * s, 3.0)[0])(x).sum())(x)",
        "func.vmap(func.vmap(lambda x: f(x, 3.0)[0]))(m)",
        "func.vmap(lambda s: func.jvp(lambda x: f(x * s, 2.0)[0], (x,), (x,))[1])(x)",
        "func.jacfwd(func.grad(lambda x: f(f(x, 3.0)[0], 2.0)[1].sum()))(x)",
        "func.grad(lambda s: func.grad(lambda x: f(x * s, 3.0)[0].sum())(x).sum())(x[0])",
    ],
)
def test_a_function_with_a_generated_rule(torch: Torch, transform: str) -> None:
    if torch is not retrograd and transform.startswith(PYTORCH_IS_WRONG):
        pytest.skip("PyTorch takes what a custom Function saved for a constant")
    custom = generated(torch).apply

    def plain(x: Any, scale: float) -> Any:
        return torch.sin(x) * scale, torch.cos(x)

    x, m = numbers(torch, 3), numbers(torch, 2, 3)
    found, expected = (
        eval(transform, {"func": torch.func, "f": f, "x": x, "m": m}) for f in (custom, plain)
    )
    assert_same(found, expected, 1e-13)


@pytest.mark.parametrize(
    "transform",
    [
        "func.vmap(f)(m, m)",
        "func.vmap(f, in_dims=(0, None))(m, x)",
        "func.vmap(f, in_dims=(None, 1))(x, m)",
        "func.vmap(func.vmap(f, in_dims=(None, 0)), in_dims=(0, None))(m, m)",
        "func.grad(lambda x: f(x, x.sin()).sum())(x)",
        "func.vmap(func.grad(lambda x, y: f(x, y).prod()))(m, m)",
        "func.jacrev(lambda x: f(x, x))(x)",
        "func.jacfwd(lambda x: f(x, x))(x)",
        "func.hessian(lambda x: f(x, x).prod())(x)",
        "func.jacfwd(func.jacfwd(lambda x: f(x, x).prod()))(x)",
        "func.vmap(func.jacfwd(lambda x: f(x, x)))(m)",
        "func.vmap(lambda y: func.jvp(lambda x: f(x, y), (x,), (y,))[1])(m)",
    ],
)
def test_a_function_with_its_own_rule(torch: Torch, transform: str) -> None:
    if torch is not retrograd and transform.startswith(PYTORCH_IS_WRONG):
        pytest.skip("PyTorch takes what a custom Function saved for a constant")
    custom = written_out(torch)

    def plain(x: Any, y: Any) -> Any:
        return x.unsqueeze(-1) * y.unsqueeze(-2)

    x, m = numbers(torch, 3), numbers(torch, 2, 3)
    found, expected = (
        eval(transform, {"func": torch.func, "f": f, "x": x, "m": m}) for f in (custom.apply, plain)
    )
    assert_same(found, expected, 1e-13)


def test_what_a_vmap_rule_is_told(torch: Torch) -> None:
    Outer = written_out(torch)
    x, m = numbers(torch, 3), numbers(torch, 2, 3)
    torch.func.vmap(Outer.apply, in_dims=(1, None), randomness="same")(m, x)
    size, randomness, in_dims = Outer.calls[-1]
    assert (size, randomness) == (3, "same")
    assert in_dims[1] is None
    assert isinstance(in_dims[0], int)
    torch.func.vmap(Outer.apply)(m, m)
    assert Outer.calls[-1][0] == 2
    count = len(Outer.calls)
    Outer.apply(x, x)  # nothing is mapped
    torch.func.grad(lambda x: Outer.apply(x, x).sum())(x)
    torch.func.vmap(lambda s: Outer.apply(x, x) * s)(x)  # nor what the function sees
    assert len(Outer.calls) == count


def test_a_rule_may_leave_results_unmapped_and_return_several(torch: Torch) -> None:
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(x: Any, size: int) -> Any:
            return x * 2, torch.ones(size, dtype=torch.float64)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            return g * 2, None

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, size: int) -> Any:
            assert in_dims[1] is None
            return Split.apply(x, size), (in_dims[0], None)

    m = numbers(torch, 2, 3)
    twice, ones = torch.func.vmap(lambda x: Split.apply(x, 4), in_dims=1)(m)
    assert_same(twice, 2 * m.mT, 0)
    assert_same(ones, torch.ones(3, 4), 0)
    found = torch.func.vmap(torch.func.grad(lambda x: Split.apply(x, 4)[0].sum()))(m)
    assert_same(found, torch.full((2, 3), 2.0), 0)


def test_inputs_that_are_not_tensors_and_trees_pass_through(torch: Torch) -> None:
    class Affine(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, options: Any) -> Any:
            return x * options["a"] + options["b"]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.options = inputs[1]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.options["a"], None

    x = numbers(torch, 3)
    options = {"a": 3.0, "b": 1}
    assert_same(torch.func.vmap(lambda x: Affine.apply(x, options))(x), 3 * x + 1, 1e-15)
    found = torch.func.vmap(torch.func.grad(lambda x: Affine.apply(x, options)))(x)
    assert_same(found, torch.full((3,), 3.0), 0)


def test_needs_input_grad_and_materialized_gradients(torch: Torch) -> None:
    seen: list[Any] = []

    class Mul(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y, x + y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, y = ctx.saved_tensors
            seen.append((ctx.needs_input_grad, h is None))
            return g * y, g * x

    x, y = numbers(torch, 3), numbers(torch, 3) + 1
    found = torch.func.grad(lambda x: Mul.apply(x, y)[0].sum())(x)
    assert_same(found, y, 0)
    assert seen[-1][0][0]
    assert seen[-1][1]


def test_the_two_step_form_is_needed(torch: Torch) -> None:
    """In PyTorch for every transform. Here not for derivatives."""

    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * g * x**2

    x = torch.tensor(2.0)
    if torch is retrograd:
        assert torch.func.grad(Old.apply)(x).item() == 12
        assert torch.func.grad(torch.func.grad(Old.apply))(x).item() == 12
    else:
        with pytest.raises(RuntimeError, match="it must override the setup_context staticmethod"):
            torch.func.grad(Old.apply)(x)


def test_without_a_rule_vmap_says_so(torch: Torch) -> None:
    """PyTorch refuses. Here it is a loop, of which a warning tells once."""

    class CubeWithoutRule(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * g * x**2

    func, f = torch.func, CubeWithoutRule.apply
    xs = torch.tensor([1.0, 2.0, 3.0])
    if torch is retrograd:
        with pytest.warns(UserWarning, match="CubeWithoutRule has no batching rule"):
            assert func.vmap(f)(xs).tolist() == [1, 8, 27]
        assert func.vmap(func.grad(f))(xs).tolist() == [3, 12, 27]
        assert func.vmap(func.vmap(f))(xs[:, None]).tolist() == [[1], [8], [27]]
        assert func.vmap(func.grad(func.grad(f)))(xs).tolist() == [6, 12, 18]
        assert func.jacrev(f)(xs).tolist() == [[3, 0, 0], [0, 12, 0], [0, 0, 27]]
    else:
        with pytest.raises(RuntimeError, match="tried to vmap over CubeWithoutRule, but it does"):
            func.vmap(f)(xs)
    assert func.grad(func.grad(f))(xs[1]).item() == 12


def test_both_rules_are_refused(torch: Torch) -> None:
    class Both(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return Both.apply(x), in_dims[0]

    with pytest.raises(RuntimeError) as caught:
        torch.func.vmap(Both.apply)(torch.ones(3))
    assert str(caught.value).startswith(
        "You tried to vmap over Both, but it has both generate_vmap_rule=True and an overridden "
        "vmap staticmethod."
    )


# -- beyond PyTorch: forward mode from backward alone ----------------------------------------


def only_backward(torch: Torch) -> Any:
    class Cubes(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x**3 * y, torch.sin(x).sum()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, y = ctx.saved_tensors
            return 3 * g * x**2 * y + h * torch.cos(x), g * x**3

    return Cubes


@pytest.mark.parametrize(
    "transform",
    [
        "func.jvp(f, (x, y), (y, x))[1][0]",
        "func.jvp(f, (x, y), (y, x))[1][1]",
        "func.jvp(lambda x: f(x, y)[0], (x,), (y,))[1]",
        "func.jacfwd(f)(x, y)[0]",
        "func.jacfwd(f, argnums=1)(x, y)[0]",
        "func.hessian(lambda x: f(x, y)[0].prod() + f(x, x)[1])(x)",
        "func.jacfwd(func.jacfwd(lambda x: f(x, x)[0].prod()))(x)",
        "func.jacrev(func.jacfwd(lambda x: f(x, y)[0].prod()))(x)",
        "func.vmap(func.jacfwd(lambda x: f(x, x)[0]))(torch.stack([x, y]))",
        "func.linearize(lambda x: f(x, y)[0], x)[1](y)",
    ],
)
def test_backward_alone_gives_forward_mode(transform: str) -> None:
    torch = retrograd

    def plain(x: Any, y: Any) -> Any:
        return x**3 * y, torch.sin(x).sum()

    x, y = numbers(torch, 3), numbers(torch, 3).cos()
    found, expected = (
        eval(transform, {"torch": torch, "func": torch.func, "f": f, "x": x, "y": y})
        for f in (only_backward(torch).apply, plain)
    )
    assert_same(found, expected, 1e-13)


def test_a_backward_that_cannot_be_differentiated_says_so() -> None:
    torch = retrograd
    once = torch.autograd.function.once_differentiable

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * g * x

    x = torch.tensor(3.0)
    assert torch.func.grad(Once.apply)(x).item() == 6
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.func.jvp(Once.apply, (x,), (x,))


@pytest.mark.parametrize("ways", list(itertools.product(["forward", "reverse"], repeat=3)))
def test_third_derivatives_in_every_order_of_modes(torch: Torch, ways: tuple[str, ...]) -> None:
    if torch is not retrograd and ways.count("forward") > 1:
        pytest.skip("PyTorch takes what a custom Function saved for a constant")

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_forward(*inputs)
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return 2 * t * ctx.saved_tensors[0]

    def forward(f: Any) -> Any:
        return lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]

    f: Any = lambda x: Square.apply(Square.apply(x)) * x  # x**5
    for way in ways:
        f = forward(f) if way == "forward" else torch.func.grad(f)
    assert f(torch.tensor(2.0)).item() == 240  # 60 x**2
