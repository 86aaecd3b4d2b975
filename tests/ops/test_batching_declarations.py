"""How operations declare that ``vmap`` takes a batch through them: reasons, and values of each kind
of declaration against a loop, under one batch and two, along other dimensions than the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import operation_counts
import pytest

import retrograd as torch
from retrograd.func import vmap
from retrograd.ops._batching_declarations import Own
from retrograd.ops._batching_rules import BY_CLASS, BY_WORD
from retrograd.ops._operation import TABLE


def test_each_batching_function_states_its_reason() -> None:
    operation_counts.load()
    for name, op in TABLE.items():
        assert not callable(op.batch), f"{name} declares a function without a reason"
        if isinstance(op.batch, Own):
            assert len(op.batch.reason) > 20, name
        elif op.batch is not None:
            known = op.batch in BY_WORD if isinstance(op.batch, str) else type(op.batch) in BY_CLASS
            assert known, f"{name}: {op.batch!r}"


def numbers(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(len(shape)).standard_normal(shape))


INDEX = torch.tensor([2, 0, 2])
MASK = torch.tensor([[True, False, True], [False, True, True], [True, True, False]])

# Functions of a matrix with three rows and columns, and of an index with three elements.
FUNCTIONS: dict[str, Any] = {
    "index_select": lambda x, i: x.index_select(1, i),
    "index_add": lambda x, i: x.index_add(0, i, x * 2, alpha=3),
    "index_copy": lambda x, i: x.index_copy(1, i % 1 + INDEX.argsort(), x),
    "index_fill": lambda x, i: x.index_fill(1, i, 7.0),
    "index_fill_tensor": lambda x, i: x.index_fill(0, i, x[0, 0]),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x, "amax"),
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.put(i, x[0], accumulate=True),
    "gather": lambda x, i: x.gather(0, i.expand(2, 3)),
    "gather_of_scalar": lambda x, i: x[0, 0].gather(0, i * 0),
    "scatter": lambda x, i: x.scatter(1, i.reshape(3, 1), x),
    "scatter_of_scalars": lambda x, i: x[0].scatter_add(0, i[0], x[1, 1]),
    "masked_select": lambda x, i: x.masked_select(MASK),
    "masked_scatter": lambda x, i: x.masked_scatter(x > 0, x * 10),
    "masked_fill": lambda x, i: x.masked_fill(MASK, x[1, 1]),
    "fill_diagonal": lambda x, i: x.clone().fill_diagonal_(5.0),
    "as_strided_scatter": lambda x, i: x.contiguous().as_strided_scatter(x[0], (3,), (4,)),
    "diag_embed": lambda x, i: torch.diag_embed(x[0, 0].reshape(1), 1),
    "trace": lambda x, i: x.trace(),
    "median": lambda x, i: x.median(),
    "argmax": lambda x, i: x.argmax(keepdim=True),
    "roll": lambda x, i: x.roll(2),
    "roll_of_scalar": lambda x, i: x[0, 0].roll(2),
    "unfold": lambda x, i: x.unfold(1, 2, 1),
    "unfold_of_scalar": lambda x, i: x[0, 0].unfold(0, 1, 1),
    "repeat": lambda x, i: x[0].repeat(2, 2),
    "permute_of_scalar": lambda x, i: x[0, 0].permute(()),
    "stack_of_scalars": lambda x, i: torch.stack([x[0, 0], x[1, 1]]),
    "isin": lambda x, i: torch.isin(INDEX, i),
    "isin_shared": lambda x, i: torch.isin(i, INDEX[:1]),
    "bincount": lambda x, i: torch.bincount(INDEX, x[0], minlength=4),
    "bilinear": lambda x, i: torch.nn.functional.bilinear(x, x, x.expand(2, 3, 3)),
    "matrix_rank": lambda x, i: torch.linalg.matrix_rank(x, atol=x[0, 0].abs()),
    "qr": lambda x, i: torch.linalg.qr(x, mode="r").R.abs(),
    "lu_solve": lambda x, i: torch.linalg.lu_solve(*torch.linalg.lu_factor(MATRIX), x),
}
MATRIX = numbers(3, 3) + 4 * torch.eye(3, dtype=torch.float64)


def entries(size: int) -> tuple[Any, Any]:
    random = np.random.default_rng(size)
    return numbers(size, 3, 3), torch.from_numpy(random.integers(0, 3, (size, 3)))


def check(found: Any, expected: list[Any]) -> None:
    wanted = torch.stack(expected)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_batch_is_a_loop(name: str) -> None:
    function = FUNCTIONS[name]
    x, i = entries(4)
    loop = [function(a, b) for a, b in zip(x, i, strict=True)]
    check(vmap(function)(x, i), loop)
    check(vmap(function, in_dims=(2, 1))(x.permute(1, 2, 0), i.T), loop)
    check(vmap(function, in_dims=(0, None))(x, i[0]), [function(a, i[0]) for a in x])
    check(vmap(function, in_dims=(None, 0))(x[1], i), [function(x[1], b) for b in i])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_batches_are_two_loops(name: str) -> None:
    function = FUNCTIONS[name]
    x, i = entries(6)
    x, i = x.reshape(2, 3, 3, 3), i.reshape(2, 3, 3)
    loop = [torch.stack([function(a, b) for a, b in zip(*pair, strict=True)]) for pair in
            zip(x, i, strict=True)]  # fmt: skip
    check(vmap(vmap(function))(x, i), loop)
    # One operand of each batch.
    mixed = vmap(vmap(function, in_dims=(None, 0)), in_dims=(0, None))(x[0], i[0])
    check(mixed, [torch.stack([function(a, b) for b in i[0]]) for a in x[0]])
