"""What users see of operations and functions: everything follows from one declaration of each."""

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import retrograd as torch
from retrograd.ops import _index
from retrograd.ops._operation import TABLE
from retrograd.tensor._public import names_in

ROOT = Path(__file__).resolve().parents[1]
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
    "repeat", "reshape", "rnn_relu", "rnn_tanh", "sum_to_size", "tile", "to", "uniform_", "view",
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
