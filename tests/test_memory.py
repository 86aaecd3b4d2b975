"""Memory that tensors share: where in it each one lies, and what is seen through it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import retrograd as torch

WAYS = {
    "detach": lambda v: v.detach(),
    "data": lambda v: v.data,
    "requires_grad_": lambda v: v.detach().requires_grad_(),
    "Parameter": lambda v: torch.nn.Parameter(v),
    "Parameter.data": lambda v: torch.nn.Parameter(v).data,
    "Buffer": lambda v: torch.nn.Buffer(v),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "as_tensor": lambda v: torch.as_tensor(v),
    "a slice and back": lambda v: v.detach()[2:].detach().as_strided((6,), (1,), 3),
    "unsqueeze_": lambda v: v.detach().unsqueeze_(0)[0],
    "bits": lambda v: v.view(torch.int32).view(torch.float32),
    "assigned": lambda v: _assigned(torch.zeros(6), v),
    "base assigned": lambda v: (_assigned(v._base, torch.zeros(3)), v)[1],
}


def _assigned(x: Any, value: Any) -> Any:
    x.data = value
    return x


@pytest.mark.parametrize("way", WAYS)
def test_a_view_that_is_wrapped_anew_lies_where_it_lay(way: str) -> None:
    wrapped = WAYS[way](torch.arange(10.0)[3:9])
    assert wrapped.storage_offset() == 3
    assert wrapped.detach().as_strided((2,), (1,)).tolist() == [3.0, 4.0]
    assert wrapped.detach().as_strided((3,), (2,), 0).tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(RuntimeError, match="are out of bounds for storage of size 40"):
        wrapped.detach().as_strided((2,), (1,), 9)


def test_what_comes_from_elsewhere_is_a_memory_by_itself() -> None:
    array = np.arange(10.0)
    for x in (torch.from_numpy(array[3:9]), torch.as_tensor(array[3:9])):
        assert (x.storage_offset(), x[2:].detach().storage_offset()) == (0, 2)
        with pytest.raises(RuntimeError, match="are out of bounds for storage of size 48"):
            x.as_strided((7,), (1,))
    x[0] = 77
    assert array[3] == 77
    loaded = pickle.loads(pickle.dumps(torch.arange(10.0)[3:9]))
    assert (loaded.storage_offset(), loaded.tolist()) == (0, [3.0, 4.0, 5.0, 6.0, 7.0, 8.0])


def test_deep_copies_share_memory_as_their_originals_do() -> None:
    x = torch.arange(6.0)
    whole, part = copy.deepcopy([x, x[2:4]])
    part[0] = 99
    assert whole.tolist() == [0.0, 1.0, 99.0, 3.0, 4.0, 5.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    odd = copy.deepcopy(torch.from_numpy(np.arange(6.0)[1::2])[1:])
    assert (odd.tolist(), odd.stride(), odd.storage_offset()) == ([3.0, 5.0], (2,), 2)
    assert (part.storage_offset(), part.detach().as_strided((2,), (1,), 0).tolist()) == (2, [0, 1])


def test_as_strided_of_a_sliced_batch() -> None:
    rows = torch.arange(12.0).view(4, 3)[1:3]
    second = torch.func.vmap(lambda r: r.as_strided((2,), (1,), 4))
    assert second(rows).tolist() == [[4.0, 5.0], [7.0, 8.0]]
    assert second(rows.detach()).tolist() == [[4.0, 5.0], [7.0, 8.0]]
    cut = torch.func.vmap(lambda r: r[1:].detach().as_strided((1,), (1,), 5))
    assert cut(rows).tolist() == [[5.0], [8.0]]
    gradient = torch.func.vmap(torch.func.grad(lambda r: r.as_strided((2,), (1,), 4).sum()))
    assert gradient(rows).tolist() == [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    with pytest.raises(RuntimeError, match=r"in range \[0, 2\], but `tensor` .* in range \[3, 6\]"):
        torch.func.vmap(lambda r: r.as_strided((2,), (1,), 0))(rows)


def test_as_strided_of_a_slice_under_transforms() -> None:
    rows = torch.arange(12.0).view(4, 3)[1:3]
    gradient = torch.func.grad(lambda r: r.as_strided((2,), (1,), 5).sum())(rows)
    assert gradient.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    value, tangent = torch.func.jvp(lambda r: r.as_strided((2,), (1,), 2), (rows,), (rows,))
    # PyTorch reads 2 before the tangent. What is not part of the input does not move with it.
    assert (value.tolist(), tangent.tolist()) == ([2.0, 3.0], [0.0, 3.0])
    starts = []

    def note(r: Any) -> Any:
        starts.append((r.storage_offset(), r[1:].storage_offset()))
        return r

    torch.func.jvp(note, (rows,), (rows,))
    torch.func.vmap(note)(rows)
    assert starts == [(3, 6), (3, 4)]
