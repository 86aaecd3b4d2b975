"""``torch.autograd.forward_ad``: dual tensors by hand, as PyTorch documents and does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from _transform_programs import LIBRARIES, assert_same, library_named, warnings_of

import retrograd
from retrograd import _modes

Torch = Any


@pytest.fixture(params=LIBRARIES)
def torch(request: pytest.FixtureRequest) -> Iterator[Torch]:
    library = library_named(request.param)
    with warnings_of(library):
        yield library


@pytest.fixture
def fw(torch: Torch) -> Any:
    return torch.autograd.forward_ad


# -- levels ----------------------------------------------------------------------------------


def test_the_documented_use(torch: Torch, fw: Any) -> None:
    primal, tangent = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    with fw.dual_level():
        dual_input = fw.make_dual(primal, tangent)
        assert fw.unpack_dual(dual_input).tangent.tolist() == [10, 20]
        dual_output = dual_input * dual_input + dual_input
        unpacked = fw.unpack_dual(dual_output)
        assert unpacked.primal.tolist() == [2, 6]
        assert unpacked.tangent.tolist() == [30, 100]
        _, jvp = unpacked  # a named tuple
        assert type(unpacked).__name__ == "UnpackedDualTensor"
        assert unpacked._fields == ("primal", "tangent")
    assert fw.unpack_dual(dual_output).tangent is None
    assert jvp.tolist() == [30, 100]  # what was taken out stays


def test_levels_have_numbers(torch: Torch, fw: Any) -> None:
    assert fw.enter_dual_level() == 0
    try:
        x = fw.make_dual(torch.ones(2), torch.ones(2), level=0)
        assert fw.unpack_dual(x, level=0).tangent.tolist() == [1, 1]
    finally:
        fw.exit_dual_level(level=0)
    with fw.dual_level() as level:
        assert level == 0
    if torch is retrograd:
        assert not _modes.switch.active


def test_a_level_may_be_a_decorator(torch: Torch, fw: Any) -> None:
    @fw.dual_level()
    def derivative(x: Any) -> Any:
        return fw.unpack_dual(fw.make_dual(x, torch.ones_like(x)).sin()).tangent

    assert derivative(torch.zeros(2)).tolist() == [1, 1]
    assert derivative(torch.zeros(2)).tolist() == [1, 1]


def test_leaving_a_level_takes_the_tangents_away(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        x = fw.make_dual(torch.ones(2), torch.ones(2))
        y = x.exp()
    for t in (x, y):
        assert fw.unpack_dual(t).tangent is None
    with fw.dual_level():  # another level, though it has the same number
        for t in (x, y):
            assert fw.unpack_dual(t).tangent is None
        assert fw.unpack_dual(x * 2).tangent is None
        again = fw.make_dual(x, torch.full((2,), 5.0))
        assert fw.unpack_dual(again * 2).tangent.tolist() == [10, 10]
    assert (x + 1).tolist() == [2, 2]
    assert y.shape == (2,)


def test_an_exception_leaves_the_level(torch: Torch, fw: Any) -> None:
    with pytest.raises(KeyError), fw.dual_level():
        fw.make_dual(torch.ones(2), torch.ones(2))
        raise KeyError
    with fw.dual_level() as level:
        assert level == 0


def test_what_is_not_dual_has_no_tangent(torch: Torch, fw: Any) -> None:
    x = torch.ones(2)
    assert fw.unpack_dual(x).tangent is None  # outside of any level
    with fw.dual_level():
        primal, tangent = fw.unpack_dual(x)
        assert tangent is None
        assert primal.tolist() == [1, 1]
        d = fw.make_dual(x, torch.ones(2))
        for part in fw.unpack_dual(d):  # the parts of a dual tensor are not dual
            assert fw.unpack_dual(part).tangent is None
        for constant in (d > 0, d.argmax(), d.long(), d.detach(), d.data, torch.zeros_like(d)):
            assert fw.unpack_dual(constant).tangent is None


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (
            "fw.make_dual(torch.ones(2), torch.ones(2))", RuntimeError,
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first.",
        ),
        ("fw.exit_dual_level()", RuntimeError, "Dual level must be a positive number."),
        (
            "with fw.dual_level(): fw.make_dual(torch.ones(2), torch.ones(3))", RuntimeError,
            "Trying to set a forward gradient that has a different size than that of the original "
            "Tensor, this is not supported. Tensor is of size [2] while the given forward gradient "
            "is of size [3].",
        ),
        (
            "with fw.dual_level(): fw.make_dual(torch.tensor([1]), torch.ones(1))", ValueError,
            "Expected primal to be floating point or complex, but got: torch.int64",
        ),
        (
            "with fw.dual_level(): fw.make_dual(torch.ones(1), torch.tensor([1]))", ValueError,
            "Expected tangent to be floating point or complex, but got: torch.int64",
        ),
        (
            "with fw.dual_level(): fw.make_dual(fw.make_dual(torch.ones(1), torch.ones(1)), "
            "torch.ones(1))", RuntimeError,
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            "same level 0 is not supported.",
        ),
        (
            "with fw.dual_level(): fw.make_dual(torch.ones(1), torch.ones(1), level=3)",
            RuntimeError, "Invalid level given to _make_dual",
        ),
        (
            "with fw.dual_level(): fw.exit_dual_level(level=5)", RuntimeError,
            "Trying to exit a forward AD level that was not the last one that was created.",
        ),
    ],
)  # fmt: skip
def test_mistakes(torch: Torch, fw: Any, code: str, error: Any, words: str) -> None:
    with pytest.raises(error) as caught:
        exec(code, {"torch": torch, "fw": fw})
    said = str(caught.value).replace("retrograd.", "torch.")
    assert said.startswith(words)
    with fw.dual_level() as level:  # nothing was left open
        assert level == 0


# -- values ----------------------------------------------------------------------------------


def test_several_duals_and_constants(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        a = fw.make_dual(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 0.0]))
        b = fw.make_dual(torch.tensor([5.0, 7.0]), torch.tensor([0.0, 1.0]))
        c = torch.tensor([10.0, 20.0])
        assert fw.unpack_dual(a * b).tangent.tolist() == [5, 3]
        assert fw.unpack_dual(a * c).tangent.tolist() == [10, 0]
        assert fw.unpack_dual(torch.stack([a, c])).tangent.tolist() == [[1, 0], [0, 0]]
        assert fw.unpack_dual(torch.cat([c, a])).tangent.tolist() == [0, 0, 1, 0]
        assert fw.unpack_dual(torch.where(a > 2, a, b)).tangent.tolist() == [0, 0]
        values, indices = b.max(0)
        assert fw.unpack_dual(values).tangent.item() == 1
        assert fw.unpack_dual(indices).tangent is None
        assert fw.unpack_dual(a @ torch.ones(2, 3)).tangent.tolist() == [1, 1, 1]
        assert fw.unpack_dual(a.sum() * b).tangent.tolist() == [5, 12]


def test_dtypes_are_kept_and_converted(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        x = fw.make_dual(torch.ones(2), torch.ones(2))
        wide = fw.unpack_dual(x.double() * 2)
        assert wide.tangent.dtype == torch.float64
        assert wide.tangent.tolist() == [2, 2]
        z = fw.make_dual(torch.ones(1, dtype=torch.complex64), torch.full((1,), 1j))
        assert fw.unpack_dual(z * z).tangent.tolist() == [2j]
        assert fw.unpack_dual(z.abs()).tangent.tolist() == [0]
        assert fw.unpack_dual(z.real).tangent.tolist() == [0]


def test_a_dual_is_an_ordinary_tensor_to_look_at(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        x = fw.make_dual(torch.tensor([1.0, 2.0]), torch.ones(2))
        assert x.tolist() == [1, 2]
        assert x[1].item() == 2
        assert float(x[0]) == 1
        assert bool(x[0] > 0)
        assert not x.requires_grad
        assert x.grad_fn is None
        assert x.numpy().tolist() == [1, 2]
        assert tuple(x.shape) == (2,)
        assert repr(x) == "tensor([1., 2.], tangent=tensor([1., 1.]))"
        if x.sum() > 2:  # and branches may look at it
            x = x * 3
        assert fw.unpack_dual(x).tangent.tolist() == [3, 3]


def test_no_grad_does_not_stop_tangents_but_inference_mode_does(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        x = fw.make_dual(torch.ones(2), torch.ones(2))
        with torch.no_grad():
            assert fw.unpack_dual(x * 2).tangent.tolist() == [2, 2]
        with torch.inference_mode():
            assert fw.unpack_dual(x * 2).tangent is None


# -- views and writes ------------------------------------------------------------------------


def test_a_dual_shares_memory_with_its_primal(torch: Torch, fw: Any) -> None:
    x, t = torch.ones(2), torch.ones(2)
    with fw.dual_level():
        d = fw.make_dual(x, t)
        d.mul_(3)
        assert x.tolist() == [3, 3]
        assert fw.unpack_dual(d).tangent.tolist() == [3, 3]


def test_views_of_duals(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        x = fw.make_dual(torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3) * 10)
        assert fw.unpack_dual(x[1]).tangent.tolist() == [30, 40, 50]
        assert fw.unpack_dual(x.mT[0]).tangent.tolist() == [0, 30]
        assert fw.unpack_dual(x.reshape(3, 2)[2]).tangent.tolist() == [40, 50]
        assert fw.unpack_dual(x.unbind(1)[2]).tangent.tolist() == [20, 50]
        assert fw.unpack_dual(x.diagonal()).tangent.tolist() == [0, 40]


def test_a_write_to_a_view_moves_the_tangent_of_the_base(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        x = fw.make_dual(torch.zeros(3), torch.ones(3))
        v = x[1:]
        v.mul_(5)
        v.add_(fw.make_dual(torch.ones(2), torch.tensor([10.0, 20.0])))
        primal, tangent = fw.unpack_dual(x)
        assert primal.tolist() == [0, 1, 1]
        assert tangent.tolist() == [1, 15, 25]
        assert fw.unpack_dual(v).tangent.tolist() == [15, 25]
        x.mul_(2)  # and a write to the base that of the view
        assert fw.unpack_dual(v).tangent.tolist() == [30, 50]


def test_a_dual_written_into_a_constant_makes_it_dual(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        z = torch.zeros(3)
        z[0] = fw.make_dual(torch.tensor(2.0), torch.tensor(7.0))
        primal, tangent = fw.unpack_dual(z)
        assert primal.tolist() == [2, 0, 0]
        assert tangent.tolist() == [7, 0, 0]
        w = torch.zeros(3)
        v = w[:2]
        v.copy_(fw.make_dual(torch.ones(2), torch.full((2,), 4.0)))
        assert fw.unpack_dual(w).tangent.tolist() == [4, 4, 0]
        assert fw.unpack_dual(v).tangent.tolist() == [4, 4]
        z[0] = 1.0  # and a constant written over it takes its tangent away
        assert fw.unpack_dual(z).tangent.tolist() == [0, 0, 0]


def test_writes_of_each_kind(torch: Torch, fw: Any) -> None:
    with fw.dual_level():

        def made() -> Any:
            return fw.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))

        def tangent(x: Any) -> Any:
            return fw.unpack_dual(x).tangent.tolist()

        assert tangent(made().add_(made())) == [2, 20]
        assert tangent(made().mul_(made())) == [2, 40]
        assert tangent(made().zero_()) == [0, 0]
        assert tangent(made().fill_(3.0)) == [0, 0]
        x = made()
        x[[0, 1]] = x[[1, 0]] * 2
        assert tangent(x) == [20, 2]
        x = made()
        x.masked_fill_(torch.tensor([True, False]), 0.0)
        assert tangent(x) == [0, 10]
        x = made()
        x.index_add_(0, torch.tensor([0]), x[1:] * 3)
        assert tangent(x) == [31, 10]
        x = made()
        x.exp_()
        assert_same(fw.unpack_dual(x).tangent, fw.unpack_dual(made().exp()).tangent, 0)


# -- with reverse mode -----------------------------------------------------------------------


def test_backward_through_a_tangent(torch: Torch, fw: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    t = torch.tensor([3.0, 4.0], requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, t)
        assert d.requires_grad
        primal, tangent = fw.unpack_dual((d**3).sum())
        assert (primal.item(), tangent.item()) == (9, 57)
        assert primal.requires_grad
        tangent.backward()
    assert x.grad.tolist() == [18, 48]  # 6 x t
    assert t.grad.tolist() == [3, 12]  # 3 x**2


def test_backward_through_a_value_that_has_a_tangent(torch: Torch, fw: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with fw.dual_level():
        (fw.make_dual(x, torch.ones(2)) ** 3).sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_the_gradient_of_a_dual_is_dual(torch: Torch, fw: Any) -> None:
    """Forward over reverse by hand: a product of the Hessian with a vector."""
    with fw.dual_level():
        x = fw.make_dual(torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([10.0, 100.0]))
        (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        primal, tangent = fw.unpack_dual(gradient)
        assert primal.tolist() == [3, 12]
        assert tangent.tolist() == [60, 1200]  # 6 x t


def test_transforms_see_duals_as_constants_that_move(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        a = fw.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        found = fw.unpack_dual(torch.func.grad(lambda z: z**3)(a))
        assert (found.primal.item(), found.tangent.item()) == (12, 12)
        found = fw.unpack_dual(torch.func.grad(lambda z: a * z * z)(torch.tensor(3.0)))
        assert (found.primal.item(), found.tangent.item()) == (12, 6)
        found = fw.unpack_dual(torch.func.vmap(lambda z: z * a)(torch.ones(3)))
        assert found.tangent.tolist() == [1, 1, 1]


def test_custom_functions(torch: Torch, fw: Any) -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_forward(x)
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * g * x**2

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * t * x**2

    with fw.dual_level():
        x = fw.make_dual(torch.tensor(2.0), torch.tensor(10.0))
        primal, tangent = fw.unpack_dual(Cube.apply(x))
        assert (primal.item(), tangent.item()) == (8, 120)
        assert fw.unpack_dual(Cube.apply(torch.tensor(2.0))).tangent is None


def test_a_tangent_may_be_none_in_a_custom_function(torch: Torch, fw: Any) -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, scale: float) -> Any:
            ctx.save_for_forward(x, y)
            ctx.scale = scale
            ctx.set_materialize_grads(False)
            return x * y * scale

        @staticmethod
        def jvp(ctx: Any, s: Any, t: Any, _: Any) -> Any:
            assert _ is None
            assert t is None
            return s * ctx.saved_tensors[1] * ctx.scale

    with fw.dual_level():
        x = fw.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        found = fw.unpack_dual(Scaled.apply(x, torch.tensor(5.0), 3.0))
        assert (found.primal.item(), found.tangent.item()) == (30, 15)


# -- beyond PyTorch --------------------------------------------------------------------------


def test_levels_nest() -> None:
    """PyTorch says "Nested forward mode AD is not supported at the moment"."""
    torch, fw = retrograd, retrograd.autograd.forward_ad
    x = torch.tensor(2.0, dtype=torch.float64)
    with fw.dual_level() as outer:
        a = fw.make_dual(x, torch.ones_like(x))
        with fw.dual_level() as inner:
            assert (outer, inner) == (0, 1)
            b = fw.make_dual(a, torch.ones_like(x))
            value, slope = fw.unpack_dual(b**4)  # of the inner level
            assert fw.unpack_dual(value, level=inner).tangent is None
            first = fw.unpack_dual(value, level=outer)
            second = fw.unpack_dual(slope, level=outer)
        assert fw.unpack_dual(slope).tangent.item() == 48
    assert (first.primal.item(), first.tangent.item()) == (16, 32)  # x**4, 4 x**3
    assert (second.primal.item(), second.tangent.item()) == (32, 48)  # 4 x**3, 12 x**2
    assert not _modes.switch.active


def test_a_dual_leaf_takes_a_gradient_that_does_not_move(torch: Torch, fw: Any) -> None:
    with fw.dual_level():
        leaf = fw.make_dual(torch.ones(2, 3), torch.ones(2, 3)).requires_grad_()
        for _ in range(2):  # the first is kept, the second is added to it
            (torch.ones(4, 3) @ leaf.t()).sum().backward()
            leaf.sum().backward()
        assert leaf.grad.tolist() == [[10.0] * 3] * 2


def test_nested_levels_are_not_confused() -> None:
    torch, fw = retrograd, retrograd.autograd.forward_ad
    one = torch.tensor(1.0)
    with fw.dual_level():
        x = fw.make_dual(torch.tensor(1.0), one)
        with fw.dual_level():
            y = fw.make_dual(torch.tensor(1.0), one)
            slope = fw.unpack_dual(x + y).tangent
        assert fw.unpack_dual(x * slope).tangent.item() == 1
        with fw.dual_level():
            y = fw.make_dual(torch.tensor(2.0), one)
            slope = fw.unpack_dual(x * y).tangent
        assert fw.unpack_dual(x * slope).tangent.item() == 2


def test_an_outer_level_can_be_asked_from_inside() -> None:
    torch, fw = retrograd, retrograd.autograd.forward_ad
    with fw.dual_level() as outer:
        x = fw.make_dual(torch.tensor(3.0), torch.tensor(1.0))
        with fw.dual_level():
            assert fw.unpack_dual(x * x).tangent is None  # nothing of this level
            assert fw.unpack_dual(x * x, level=outer).tangent.item() == 6
            y = fw.make_dual(torch.tensor(5.0), torch.tensor(1.0), level=outer)
            assert fw.unpack_dual(x * y, level=outer).tangent.item() == 8
        assert fw.unpack_dual(x * y).tangent.item() == 8


def test_five_levels_give_a_fifth_derivative() -> None:
    torch, fw = retrograd, retrograd.autograd.forward_ad
    x = torch.tensor(0.3, dtype=torch.float64)
    for _ in range(5):
        fw.enter_dual_level()
        x = fw.make_dual(x, torch.ones_like(x))
    y = x.sin()
    for _ in range(5):
        y = fw.unpack_dual(y).tangent
        fw.exit_dual_level()
    assert_same(y, torch.tensor(0.3, dtype=torch.float64).cos(), 1e-14)
    assert not _modes.switch.active


def test_a_custom_function_needs_no_jvp() -> None:
    """A backward that can be differentiated is linear in the gradient: its transpose is the jvp.
    PyTorch asks for one."""
    torch, fw = retrograd, retrograd.autograd.forward_ad

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * g * x**2

    with fw.dual_level():
        x = fw.make_dual(torch.tensor(2.0), torch.tensor(10.0))
        primal, tangent = fw.unpack_dual(Cube.apply(x))
        assert (primal.item(), tangent.item()) == (8, 120)


def test_what_takes_no_derivative_along_is_refused_in_the_name_of_forward_mode() -> None:
    from retrograd.ops._operation import raw

    def looks(x: Any) -> Any:
        return raw(x).cumprod()

    x = retrograd.ones(2)
    with pytest.raises(RuntimeError, match=r"^forward mode: .*cumprod of a value"):
        retrograd.func.jvp(looks, (x,), (x,))


def test_a_selecting_operation_needs_no_tangent_rule_of_its_own() -> None:
    """Its family knows where the elements came from: forward, backward, and both of a batch."""
    from retrograd.ops._operation import TABLE
    from retrograd.ops.selecting import with_indices

    def second(self: Any, dim: int, keepdim: bool) -> Any:
        places = np.argsort(self, dim, kind="stable").take([1], dim)
        values = np.take_along_axis(self, places, dim)
        return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))

    operation = with_indices("second_smallest", "SecondBackward0", second)
    try:
        x = retrograd.tensor([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]])
        t = retrograd.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
        for keepdim, expected in ((False, [0.3, 0.4]), (True, [[0.3], [0.4]])):

            def f(x: Any, dim: int = 1, keepdim: bool = keepdim) -> Any:
                return operation(x, dim=dim, keepdim=keepdim)[0]

            def squared(x: Any, f: Any = f) -> Any:
                return (f(x, 0) ** 2).sum()

            moved = retrograd.func.jvp(f, (x,), (t,))[1]
            assert moved.tolist() == retrograd.tensor(expected).tolist()
            batched = retrograd.func.vmap(lambda x, t, f=f: retrograd.func.jvp(
                lambda x: f(x, 0), (x,), (t,))[1])(x, t)  # fmt: skip
            assert batched.tolist() == retrograd.tensor(expected).tolist()
            gradients = retrograd.func.vmap(retrograd.func.grad(squared))(x)
            assert gradients.tolist() == [[0.0, 0.0, 4.0], [10.0, 0.0, 0.0]]
            hessian = retrograd.func.hessian(squared)(x[0])
            assert hessian.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]
    finally:
        del TABLE["second_smallest"]


def test_a_tangent_is_converted_to_the_dtype_of_its_value() -> None:
    # PyTorch keeps a tangent of another dtype as it is, and promotes what is computed from both.
    fw = retrograd.autograd.forward_ad
    x, t = retrograd.ones(3, dtype=retrograd.float64), retrograd.full((3,), 0.5)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert fw.unpack_dual(dual).tangent.dtype is retrograd.float64
        assert fw.unpack_dual(dual * dual).tangent.tolist() == [1.0, 1.0, 1.0]
        with pytest.raises(RuntimeError, match=r"complex64 for a tensor of torch\.float64"):
            fw.make_dual(x, retrograd.ones(3, dtype=retrograd.complex64))
    tangent = retrograd.func.jvp(lambda x: x * x, (x,), (t,))[1]
    assert (tangent.dtype, tangent.tolist()) == (retrograd.float64, [1.0, 1.0, 1.0])


def test_a_pass_in_a_dual_level_adds_to_a_gradient_that_is_there() -> None:
    w = retrograd.tensor([1.0, 2.0], requires_grad=True)
    w.sum().backward()
    with retrograd.autograd.forward_ad.dual_level():
        dual = retrograd.autograd.forward_ad.make_dual(w, retrograd.ones(2))
        (dual * dual).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [3.0, 5.0]


def test_gradients_of_an_unrecorded_pass_in_a_dual_level_have_no_history() -> None:
    w = retrograd.tensor([1.0, 2.0], requires_grad=True)
    with retrograd.autograd.forward_ad.dual_level():
        dual = retrograd.autograd.forward_ad.make_dual(w, retrograd.tensor([1.0, 3.0]))
        (first,) = retrograd.autograd.grad((dual**3).sum(), w)
        (dual**3).sum().backward()
        (dual**3).sum().backward()
        assert w.grad is not None
        for g, times in ((first, 1.0), (w.grad, 2.0)):
            assert (g.grad_fn, g.requires_grad) == (None, False)
            value, tangent = retrograd.autograd.forward_ad.unpack_dual(g)
            assert value.grad_fn is tangent.grad_fn is None
            assert tangent.tolist() == [6.0 * times, 36.0 * times]
    assert w.grad.grad_fn is None


def test_a_recorded_pass_in_a_dual_level_accumulates() -> None:
    w = retrograd.tensor([1.0, 2.0], requires_grad=True)
    with retrograd.autograd.forward_ad.dual_level():
        dual = retrograd.autograd.forward_ad.make_dual(w, retrograd.tensor([1.0, 3.0]))
        loss = (dual**3).sum() * 2
        for part in (loss / 2, loss / 2):
            with pytest.warns(UserWarning, match="reference cycle"):
                part.backward(create_graph=True)
        assert w.grad is not None
        assert repr(w.grad).count("grad_fn") == 1
        value, tangent = retrograd.autograd.forward_ad.unpack_dual(w.grad)
        assert (value.tolist(), tangent.tolist()) == ([6.0, 24.0], [12.0, 72.0])
        (third,) = retrograd.autograd.grad(tangent.sum(), w)
        assert third.tolist() == [12.0, 36.0]
    w.grad = None
