"""Custom operations under transforms, with PyTorch's classes run beside ours."""

import weakref
from typing import Any

import numpy as np
import pytest

import retrograd

# PyTorch loads its decompositions with the first tangent, and warns of its own deprecations.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script.*:DeprecationWarning")


@pytest.fixture(params=["retrograd", "torch"])
def torch(request: Any) -> Any:
    if request.param == "retrograd":
        return retrograd
    return pytest.importorskip("torch", reason="PyTorch is the reference to compare with")


X = np.array([0.3, -0.7, 1.1])


def cube(torch: Any, **members: Any) -> Any:
    """x ** 3 with a slope that can be told from the true one: three times as large."""

    def forward(x: Any) -> Any:
        return x.detach() ** 3

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 9 * x**2

    body = {"forward": forward, "setup_context": setup_context, "backward": backward, **members}
    return type("Cube", (torch.autograd.Function,), {
        n: f if n == "generate_vmap_rule" else staticmethod(f) for n, f in body.items()
    })  # fmt: skip


def jvp_rule(ctx: Any, t: Any) -> Any:
    (x,) = ctx.saved_tensors
    return t * 9 * x**2


def vmap_rule(info: Any, in_dims: Any, x: Any) -> Any:
    assert info.batch_size == 3
    assert info.randomness == "error"
    return x**3 * 2, in_dims[0]  # twice as large, to tell it from forward


def numbers(torch: Any, value: Any) -> Any:
    if isinstance(value, tuple):
        return [numbers(torch, v) for v in value]
    return value.detach().numpy() if hasattr(value, "detach") else value


def test_jvp_is_what_forward_mode_uses(torch: Any) -> None:
    f = cube(torch, jvp=jvp_rule).apply
    x, t = torch.tensor(X), torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    value, moved = torch.func.jvp(f, (x,), (t,))
    np.testing.assert_allclose(value.numpy(), X**3)
    np.testing.assert_allclose(moved.numpy(), 9 * X**2 * t.numpy())
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        y = f(fw.make_dual(x, t))
        np.testing.assert_allclose(fw.unpack_dual(y).tangent.numpy(), 9 * X**2 * t.numpy())


def test_forward_mode_follows_from_backward() -> None:
    f = cube(retrograd).apply
    x, t = retrograd.tensor(X), retrograd.tensor([1.0, 2.0, -1.0], dtype=retrograd.float64)
    moved = retrograd.func.jvp(f, (x,), (t,))[1]
    np.testing.assert_allclose(moved.numpy(), 9 * X**2 * t.numpy())
    inner = retrograd.func.grad(lambda z: f(z).sum())
    jacobian = retrograd.func.jvp(inner, (x,), (t,))
    np.testing.assert_allclose(jacobian[1].numpy(), 18 * X * t.numpy())


def test_a_backward_that_cannot_be_differentiated_says_so() -> None:
    once = retrograd.autograd.function.once_differentiable

    @once
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3

    f = cube(retrograd, backward=backward).apply
    one = retrograd.ones(3, dtype=retrograd.float64)
    with pytest.raises(RuntimeError, match="once_differentiable") as raised:
        retrograd.func.jvp(f, (one,), (one,))
    assert "Implement the jvp static method" in "".join(raised.value.__notes__)


@pytest.mark.parametrize("how", ["generated", "vmap"])
def test_batches(torch: Any, how: str) -> None:
    members = {"generate_vmap_rule": True} if how == "generated" else {"vmap": vmap_rule}
    f = cube(torch, **members).apply
    values = torch.func.vmap(f)(torch.tensor(X)).numpy()
    np.testing.assert_allclose(values, X**3 * (1 if how == "generated" else 2))


@pytest.mark.parametrize("how", ["generated", "generated with jvp"])
def test_everything_of_everything(torch: Any, how: str) -> None:
    members: dict[str, Any] = {"generate_vmap_rule": True}
    if how == "generated with jvp":
        members["jvp"] = jvp_rule
    elif torch is not retrograd:
        members["jvp"] = jvp_rule  # which PyTorch needs
    f = cube(torch, **members).apply
    func, x = torch.func, torch.tensor(X)
    np.testing.assert_allclose(func.vmap(func.grad(f))(x).numpy(), 9 * X**2)
    np.testing.assert_allclose(func.grad(lambda x: func.vmap(f)(x).sum())(x).numpy(), 9 * X**2)
    np.testing.assert_allclose(func.vmap(func.grad(func.grad(f)))(x).numpy(), 18 * X)
    ones = torch.ones(3, dtype=torch.float64)
    moved = func.jvp(func.vmap(func.grad(f)), (x,), (ones,))[1]
    np.testing.assert_allclose(moved.numpy(), 18 * X)
    moved = func.vmap(lambda x: func.jvp(f, (x,), (torch.ones_like(x),))[1])(x)
    np.testing.assert_allclose(moved.numpy(), 9 * X**2)
    both = func.vmap(func.vmap(f))(torch.stack([x, 2 * x]))
    np.testing.assert_allclose(both.numpy(), np.stack([X**3, 8 * X**3]))
    np.testing.assert_allclose(func.jacrev(f)(x).numpy(), np.diag(9 * X**2))
    np.testing.assert_allclose(func.jacfwd(f)(x).numpy(), np.diag(9 * X**2))


def test_shared_inputs_get_the_sum_of_gradients(torch: Any) -> None:
    class Scale(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, w: Any, power: int) -> Any:
            return x * w**power, x + w

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, w, ctx.power = inputs
            ctx.save_for_backward(x, w)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, w = ctx.saved_tensors
            p = ctx.power
            return g * w**p + h, g * x * p * w ** (p - 1) + h, None

    x, w = torch.tensor(X), torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    y, z = torch.func.vmap(lambda x: Scale.apply(x, w, 2))(x)
    (g,) = torch.autograd.grad(y.sum() + (z * x).sum(), w)
    assert g.item() == pytest.approx((2 * 1.5 * X).sum() + X.sum())


def test_without_a_rule_entries_go_one_by_one_with_a_word() -> None:
    class Numpy(retrograd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return retrograd.from_numpy(np.asarray(np.sin(x.detach().numpy())))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0].cos()

    x = retrograd.tensor(X, requires_grad=True)
    with pytest.warns(UserWarning, match="vmap: Numpy has no batching rule"):
        y = retrograd.func.vmap(Numpy.apply)(x)
    np.testing.assert_allclose(y.detach().numpy(), np.sin(X))
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))


@pytest.mark.parametrize("nesting", ["GDG", "GGD", "DGG", "GDD", "DGD", "DDG", "GVG", "VGD"])
def test_third_derivatives_in_every_order(nesting: str) -> None:
    """Of the cube, whose slope is said to be 9 x ** 2."""
    f = cube(retrograd, generate_vmap_rule=True).apply
    one = retrograd.ones((), dtype=retrograd.float64)
    steps = {
        "G": retrograd.func.grad,
        "D": lambda h: lambda x: retrograd.func.jvp(h, (x,), (one,))[1],
        "V": lambda h: lambda x: retrograd.func.vmap(h)(x.expand(2)).sum() / 2,
    }
    found = f
    for letter in reversed(nesting):
        found = steps[letter](found)
    derivatives = sum(letter in "GD" for letter in nesting)
    x = retrograd.tensor(0.7, dtype=retrograd.float64)
    expected = {2: 18 * 0.7, 3: 18.0}[derivatives]
    assert found(x).item() == pytest.approx(expected)


def test_once_differentiable_is_not_passed_by_in_transforms() -> None:
    @retrograd.autograd.function.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x**2

    f = cube(retrograd, backward=backward, generate_vmap_rule=True).apply
    func, x = retrograd.func, retrograd.tensor(X)
    np.testing.assert_allclose(func.vmap(func.grad(f))(x).numpy(), 3 * X**2)
    one = retrograd.ones((), dtype=retrograd.float64)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        func.jvp(func.grad(f), (x[0],), (one,))
    with pytest.raises(RuntimeError, match="once_differentiable"):
        func.grad(lambda x: func.vmap(func.grad(f))(x).sum())(x)


def test_refusals(torch: Any) -> None:
    both = cube(torch, generate_vmap_rule=True, vmap=vmap_rule)
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden vmap"):
        torch.func.vmap(both.apply)(torch.tensor(X))

    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        torch.func.vmap(torch.func.grad(Old.apply))(torch.tensor(X))


def test_mixed_mode_with_a_leaf(torch: Any) -> None:
    """A tangent and a history on the same tensor."""
    f = cube(torch, jvp=jvp_rule).apply
    fw = torch.autograd.forward_ad
    x = torch.tensor(X, requires_grad=True)
    with fw.dual_level():
        y = f(fw.make_dual(x, torch.ones(3, dtype=torch.float64)))
        tangent = fw.unpack_dual(y).tangent
        (g,) = torch.autograd.grad(tangent.sum(), x)
    np.testing.assert_allclose(g.detach().numpy(), 18 * X)


def test_a_batch_without_entries_cannot_go_one_by_one() -> None:
    class Double(retrograd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    with (
        pytest.warns(UserWarning, match="vmap: Double has no batching rule"),
        pytest.raises(RuntimeError, match="a batch without entries cannot be run"),
    ):
        retrograd.func.vmap(Double.apply)(retrograd.zeros(0, 3))
    assert retrograd.func.vmap(lambda x: x.sin().sum())(retrograd.zeros(0, 3)).shape == (0,)


# -- where PyTorch refuses, or is silent about what is missing -----------------------------------


def exponential(backward: Any) -> Any:
    """exp, with a backward that is given."""

    class Exp(retrograd.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.exp()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(output)

    Exp.backward = staticmethod(retrograd.autograd.function.once_differentiable(backward))
    return Exp.apply


def test_a_second_derivative_of_a_once_differentiable_function_is_an_error() -> None:
    """PyTorch gives 0 for it under nested transforms."""
    f = exponential(lambda ctx, g: g * ctx.saved_tensors[0])
    slope = retrograd.func.grad(lambda x: f(x).sum())
    x = retrograd.tensor([0.0, 1.0])
    np.testing.assert_allclose(slope(x), [1.0, np.e], rtol=1e-6)
    np.testing.assert_allclose(retrograd.func.jacrev(f)(x), np.diag([1.0, np.e]), rtol=1e-6)
    for second in (
        retrograd.func.grad(lambda x: slope(x).sum()),
        retrograd.func.grad(lambda x: (slope(x) * x).sum()),
        retrograd.func.jacrev(slope),
        retrograd.func.jacfwd(slope),
    ):
        with pytest.raises(RuntimeError, match="trying to differentiate twice"):
            second(x)
    # What does not depend on the slope is differentiated as ever.
    whole = retrograd.func.grad(
        lambda w: retrograd.func.grad(lambda x: (f(x) + w * x).sum())(x).sum()
    )
    np.testing.assert_allclose(whole(retrograd.tensor(2.0)), 2.0)


def test_arrays_in_a_once_differentiable_backward() -> None:
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return retrograd.from_numpy(g.detach().numpy() * y.detach().numpy())

    f = exponential(backward)
    x = retrograd.tensor([0.0, 1.0])
    _, pull = retrograd.func.vjp(f, x)
    np.testing.assert_allclose(pull(retrograd.tensor([1.0, 2.0]))[0], [1.0, 2 * np.e], rtol=1e-6)
    np.testing.assert_allclose(
        retrograd.func.grad(lambda x: f(x).sum())(x), [1.0, np.e], rtol=1e-6
    )


def test_a_written_view_that_is_not_the_first_input() -> None:
    """PyTorch takes the gradient of the first input for that of the view."""

    class AddTo(retrograd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2).add_(y, alpha=5)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5, g * 2

    a = retrograd.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = retrograd.tensor([10.0], requires_grad=True)
    base = a.clone()
    AddTo.apply(b, base[1:2])
    assert base.tolist() == [1.0, 54.0, 3.0]
    (base * retrograd.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert a.grad.tolist() == [1.0, 20.0, 100.0]
    assert b.grad.tolist() == [50.0]


def test_boxed_gradients_can_be_freed_while_backward_runs() -> None:
    class Boxed(retrograd.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, grads: Any) -> Any:
            first = weakref.ref(grads[0]._data)
            total = grads.pop(0) * 2
            freed.append(first() is None)
            return total + grads.pop() * 3

    freed: list[bool] = []
    x = retrograd.ones(1000, requires_grad=True)
    a, b = Boxed.apply(x)
    (a * 5 + b).sum().backward()
    assert freed == [True]
    assert x.grad.tolist() == [13.0] * 1000


def test_a_generated_rule_takes_boxed_gradients_and_nests() -> None:
    class Scale(retrograd.autograd.Function):
        generate_vmap_rule = True
        boxed_grads_call = True

        @staticmethod
        def forward(x: Any, options: Any) -> Any:
            return x * options["by"][0]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.by = inputs[1]["by"][0]

        @staticmethod
        def backward(ctx: Any, grads: Any) -> Any:
            assert isinstance(grads, list)
            return grads[0] * ctx.by, None

    x = retrograd.arange(6.0).reshape(2, 3)
    rows = retrograd.func.vmap(lambda x, k: Scale.apply(x, {"by": [k]}), in_dims=(1, 0))
    factors = retrograd.tensor([1.0, 2.0, 3.0])
    np.testing.assert_allclose(rows(x, factors), (x * factors).T)
    slope = retrograd.func.grad(lambda x: Scale.apply(x, {"by": [3.0]}).sum())
    np.testing.assert_allclose(retrograd.func.vmap(slope)(x), np.full((2, 3), 3.0))
    np.testing.assert_allclose(slope(x), np.full((2, 3), 3.0))
    summed = retrograd.func.grad(lambda x: rows(x, factors).sum())
    np.testing.assert_allclose(summed(x), np.tile([1.0, 2.0, 3.0], (2, 1)))


def test_a_gradient_through_two_generated_batches(torch: Any) -> None:
    f = cube(torch, generate_vmap_rule=True).apply
    func = torch.func

    def of_row(row: Any) -> Any:
        return func.vmap(f)(torch.ones(2, 3, dtype=row.dtype) * row.sum())

    x = torch.tensor(X).reshape(1, 3)
    got = func.grad(lambda x: func.vmap(of_row)(x).sum())(x)
    np.testing.assert_allclose(numbers(torch, got), np.full((1, 3), 6 * 9 * X.sum() ** 2))


# -- attributes of the ctx ---------------------------------------------------------------------


@pytest.mark.parametrize("library", ["retrograd", "torch"])
@pytest.mark.parametrize(
    "name", ["order", "saved", "outputs", "function", "extras", "next_nodes", "is_tensor", "own",
             "code", "in_jvp", "unrecorded", "kept"],
)  # fmt: skip
@pytest.mark.parametrize("transform", ["backward", "grad", "vmap"])
def test_attributes_of_the_ctx_are_the_users(name: str, transform: str, library: str) -> None:
    torch = pytest.importorskip(library, reason="PyTorch is not installed to compare with")

    class Power(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            setattr(ctx, name, 3)
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * getattr(ctx, name) * ctx.saved_tensors[0] ** 2

    def f(x: Any) -> Any:
        y = x * 2
        z = Power.apply(y)
        return (z * y + y * z).sum()

    x = torch.tensor([2.0, 3.0], requires_grad=transform == "backward")
    if transform == "backward":
        f(x).backward()
        found = x.grad
    elif transform == "grad":
        found = torch.func.grad(f)(x)
    else:
        found = torch.func.vmap(torch.func.grad(f))(x)
    assert found.tolist() == [1024.0, 3456.0]  # the derivative of 32 x⁴


def test_the_ctx_is_seen_as_the_node() -> None:
    seen: list[Any] = []

    class Twice(retrograd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.factor = 2
            seen.append((isinstance(ctx, retrograd.autograd.function.FunctionCtx), repr(ctx)))
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.factor

    x = retrograd.ones(1, requires_grad=True)
    y = Twice.apply(x)
    assert seen[0][0]
    assert "TwiceBackward" in seen[0][1]
    assert y.grad_fn.factor == 2
    with pytest.raises(AttributeError, match="'TwiceBackward' object has no attribute 'order_'"):
        _ = y.grad_fn.order_
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None  # nothing refers to it in a circle
