"""What users see of operations and functions: everything follows from one declaration of each."""

import inspect
import math
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import operations_page
import pytest

import retrograd as torch
from retrograd.library import composite, elementwise, linear, multilinear, reduction
from retrograd.ops import _index
from retrograd.ops._operation import TABLE, USERS
from retrograd.tensor._public import names_in, withdraw

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "torch": torch, "method": torch.Tensor, "special": torch.special, "linalg": torch.linalg,
    "fft": torch.fft, "functional": torch.nn.functional,
}  # fmt: skip


def in_new_process(program: str) -> str:
    """What a program prints that is run where nothing has been loaded yet."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def test_index_is_up_to_date() -> None:
    program = "import sys; sys.path.insert(0, 'tests'); import generate_index as g; print(g.text())"
    written = Path(_index.__file__).read_text(encoding="utf-8")
    assert in_new_process(program) == written + "\n", "run python tests/generate_index.py"


# Sizes and tensors can be given one by one, and a few have several signatures.
TAKE_ANY_NUMBER = {
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "cartesian_prod",
    "chain_matmul", "einsum", "expand", "flip", "gru", "lstm", "meshgrid", "permute", "random_",
    "repeat", "reshape", "resize_", "rnn_relu", "rnn_tanh", "sum_to_size", "tile", "to", "uniform_",
    "view",
}  # fmt: skip


def functions() -> dict[str, Any]:
    """Everything that is declared, by namespace and name."""
    return {
        f"{space}.{name}": getattr(module, name)
        for space, module in MODULES.items()
        for name in names_in(space)
    }


def test_names_are_those_of_their_namespaces() -> None:
    for space, module in MODULES.items():
        assert set(names_in(space)) <= set(dir(module))


def test_every_function_has_a_signature_that_names_its_arguments() -> None:
    for name, function in functions().items():
        parameters = inspect.signature(function).parameters.values()
        kinds = {p.kind for p in parameters}
        if name.split(".")[1] not in TAKE_ANY_NUMBER:
            assert inspect.Parameter.VAR_POSITIONAL not in kinds, name
        assert parameters, name


@pytest.mark.parametrize("name", ["gather", "scatter_", "logsumexp", "erf", "lerp_"])
def test_a_method_can_be_looked_at_before_it_is_called(name: str) -> None:
    program = f"""
import inspect, pydoc
import retrograd as torch
print({name!r} in dir(torch.Tensor), {name!r} in dir(torch.ones(1)))
print(inspect.signature(torch.Tensor.{name}))
print(pydoc.render_doc(torch.Tensor.{name}))
"""
    listed, signature, *shown = in_new_process(program).splitlines()
    assert listed == "True True"
    method = getattr(torch.Tensor, name)
    assert signature == str(inspect.signature(method))
    assert "\n".join(shown).strip() == pydoc.render_doc(method).strip()
    assert method.__doc__


def test_functions_take_input_by_name() -> None:
    x = torch.tensor([0.0, 1.0])
    assert torch.exp(input=x).tolist() == torch.exp(x).tolist()
    assert torch.mul(input=x, other=x).tolist() == [0.0, 1.0]
    assert torch.sum(input=x, dim=0).item() == 1.0
    assert str(inspect.signature(torch.exp)) == "(input: 'Any', *, out: 'Any' = None) -> 'Any'"
    first = {n: next(iter(inspect.signature(f).parameters)) for n, f in functions().items()}
    assert [n for n, p in first.items() if p == "self" and not n.startswith("method.")] == []


def test_in_place_form_has_its_own_name() -> None:
    assert torch.Tensor.arcsin_.__name__ == "arcsin_"
    x = torch.tensor([0.0])
    assert torch.exp_(x) is x
    assert x.tolist() == [1.0]


def test_out_is_taken_only_where_it_is_declared() -> None:
    x = torch.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="out"):
        torch.reshape(x, (2, 1), out=x)
    y = torch.empty(2, dtype=torch.float64)
    assert torch.exp(x, out=y) is y
    assert y.tolist() == torch.exp(x).double().tolist()


def test_operations_say_which_names_they_have() -> None:
    assert TABLE["exp"].doc is not None
    assert TABLE["exp"].heavy
    assert not TABLE["add"].heavy
    assert TABLE["view"].rearranges


# -- an operation of one's own ----------------------------------------------------------------


@pytest.fixture
def bell() -> Iterator[Any]:
    """An operation that a user declares, in one statement."""
    operation = elementwise(
        "bell", lambda self: np.exp(-self * self), lambda g, self, result: -2 * g * self * result,
        public="torch method", alias="gaussian", in_place="torch method",
        doc="``exp(-input ** 2)``.",
    )  # fmt: skip
    yield operation
    withdraw(operation)


X = [0.3, -0.7, 1.2]


def slopes() -> list[float]:
    return [-2 * x * math.exp(-x * x) for x in X]


def curvatures() -> list[float]:
    return [(4 * x * x - 2) * math.exp(-x * x) for x in X]


def test_a_declared_operation_has_every_derivative(bell: Any) -> None:
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    for call in (bell, torch.bell, torch.gaussian, torch.Tensor.bell):
        assert call(x).tolist() == pytest.approx([math.exp(-v * v) for v in X])
        assert torch.autograd.gradcheck(call, (x,))
        assert torch.autograd.gradgradcheck(call, (x,))
    (grad,) = torch.autograd.grad(torch.bell(x).sum(), x, create_graph=True)
    assert grad.tolist() == pytest.approx(slopes())
    assert torch.autograd.grad(grad.sum(), x)[0].tolist() == pytest.approx(curvatures())


def test_a_declared_operation_can_be_transformed(bell: Any) -> None:
    x, ones = torch.tensor(X, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    value, tangent = torch.func.jvp(torch.bell, (x,), (ones,))
    assert value.tolist() == torch.bell(x).tolist()
    assert tangent.tolist() == pytest.approx(slopes())
    one_by_one = torch.func.vmap(torch.func.grad(torch.bell))(x)
    assert one_by_one.tolist() == pytest.approx(slopes())
    hessian = torch.func.hessian(lambda x: torch.bell(x).sum())(x)
    assert hessian.diagonal().tolist() == pytest.approx(curvatures())
    assert (hessian - hessian.diagonal().diag()).abs().max() == 0


def test_a_declared_operation_writes(bell: Any) -> None:
    x = torch.tensor(X)
    expected = torch.bell(x)
    y = x.clone()
    assert y.bell_() is y
    assert y.tolist() == expected.tolist()
    assert torch.bell_(x.clone()).tolist() == expected.tolist()
    out = torch.empty(3, dtype=torch.float64)
    assert torch.bell(x, out=out) is out
    assert out.tolist() == expected.double().tolist()
    leaf = torch.tensor(X, requires_grad=True)
    leaf.clone().bell_().sum().backward()
    assert leaf.grad.tolist() == pytest.approx(slopes())
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.bell_()


def test_a_declared_operation_is_documented(bell: Any) -> None:
    assert "exp(-input ** 2)" in pydoc.render_doc(torch.bell)
    assert "exp(-input ** 2)" in pydoc.render_doc(torch.Tensor.bell)
    assert str(inspect.signature(torch.bell)) == "(input: 'Any', *, out: 'Any' = None) -> 'Any'"
    assert {"bell", "gaussian", "bell_"} <= set(dir(torch))
    assert {"bell", "gaussian", "bell_", "gaussian_"} <= set(dir(torch.Tensor))
    page = operations_page.page({**TABLE, **USERS})
    assert "`bell`, " in page
    assert "| `bell` | BellBackward0 | self, result | self: `-2 * g * self * result` |" in page


def test_a_declaration_can_be_made_again(bell: Any) -> None:
    again = elementwise("bell", lambda self: self, lambda g: g, public="torch")
    assert torch.bell(torch.tensor([3.0])).tolist() == [3.0]
    assert not hasattr(torch.Tensor, "bell_")
    withdraw(again)
    elementwise("bell", lambda self: self, lambda g: g)  # for the fixture to withdraw
    assert not hasattr(torch, "bell")


def test_names_that_are_taken_cannot_be_declared() -> None:
    with pytest.raises(ValueError, match="an operation called exp already"):
        elementwise("exp", np.exp, lambda g, result: g * result)
    program = """
import retrograd as torch
from retrograd.library import elementwise
try:
    elementwise("mine", lambda self: self, lambda g: g, public="torch.erf")
except ValueError as error:
    print(error)
elementwise("erf", lambda self: self, lambda g: g)
print(torch.erf(torch.zeros(1)))
"""
    assert in_new_process(program).splitlines() == [
        "torch.erf is declared already", "tensor([0.])",
    ]  # fmt: skip


def test_other_families_can_be_declared() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64, requires_grad=True)
    declared = [
        linear("own_flip", lambda self: self[::-1].copy(), lambda g: torch.flip(g, (0,)),
               batch="entries"),
        reduction("own_energy", lambda self: np.sum(self * self), lambda g, self: 2 * g * self),
        composite("own_swish", lambda self: self * torch.sigmoid(self)),
        composite("own_swish_fast", lambda self: self * torch.sigmoid(self),
                  lambda self: self / (1 + np.exp(-self))),
    ]  # fmt: skip
    product = multilinear(
        "own_product", lambda self, other: self @ other,
        {"self": lambda g, other: g @ other.mT, "other": lambda g, self: self.mT @ g},
        batch="leading",
    )  # fmt: skip
    for operation in declared:
        assert torch.autograd.gradcheck(operation, (x,)), operation
        assert torch.autograd.gradgradcheck(operation, (x,)), operation
        tangent = torch.func.jvp(operation, (x.detach(),), (torch.ones_like(x),))[1]
        jacobian = torch.func.jacrev(operation)(x.detach())
        expected = jacobian.flatten(-2).sum(-1)
        assert (tangent - expected).abs().max() < 1e-9, operation
    assert torch.autograd.gradgradcheck(product, (x, x))
    assert (torch.func.vmap(product)(x[None], x[None])[0] - x @ x).abs().max() < 1e-12
    for operation in (*declared, product):
        withdraw(operation)


def test_a_declared_operation_has_a_line_in_the_stubs(bell: Any) -> None:
    stubs = pytest.importorskip("generate_stubs")
    lines = stubs.definition("bell", stubs.function_signatures("torch", "bell", torch.bell))
    assert lines == ["def bell(input: Tensor, *, out: Tensor | None = None) -> Tensor: ..."]
    lines = stubs.definition("bell_", stubs.method_signatures("bell_"))
    assert lines == ["def bell_(self) -> Self: ..."]


@pytest.mark.parametrize(
    ("name", "options"),
    [("threshold", (0.0, 5.0)), ("hardtanh", (-1.0, 1.0)), ("relu6", ()), ("hardswish", ()),
     ("hardsigmoid", ()), ("silu", ()), ("mish", ()), ("leaky_relu", (0.5,)), ("elu", (1.0,)),
     ("selu", ()), ("celu", (1.0,)), ("rrelu", (0.25, 0.75, False)), ("relu", ())],
)  # fmt: skip
def test_inplace_is_an_argument_in_functional_only(name: str, options: tuple[float, ...]) -> None:
    function = getattr(torch.nn.functional, name)
    expected = function(torch.tensor([-2.0, 0.5, 7.0]), *options)
    for args, named in ((options, {"inplace": True}), ((*options, True), {})):
        x = torch.tensor([-2.0, 0.5, 7.0])
        assert function(x, *args, **named) is x
        assert torch.equal(x, expected)
    assert [*inspect.signature(function).parameters].count("inplace") == 1
    assert "inplace: overwrite the input." in function.__doc__
    if hasattr(torch, name):
        assert "inplace" not in inspect.signature(getattr(torch, name)).parameters
        assert "inplace" not in getattr(torch, name).__doc__
