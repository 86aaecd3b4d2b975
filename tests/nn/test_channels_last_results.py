"""Results of images whose channels are innermost in memory are laid out as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd

EXPRESSIONS = """
x + 1
x * x.mean((2, 3), keepdim=True)
F.relu(x)
F.max_pool2d(x, 2)
F.max_pool2d(x, 2, return_indices=True)[1]
F.avg_pool2d(x, 3, 1, 1)
F.adaptive_avg_pool2d(x, (3, 2))
F.adaptive_max_pool2d(x, (3, 2))
F.adaptive_max_pool2d(x, (4, 3))
torch.cat([x, x], 1)
torch.cat([x, x * 2], 0)
torch.cat([x, x], 3)
torch.cat([c, x], 1)
torch.cat([x, c], 1)
F.pad(x, (1, 1, 2, 0))
F.pad(x, (1, 1, 1, 1), mode="reflect")
F.pad(x, (1, 1, 1, 1), mode="replicate")
F.pad(x, (1, 1, 1, 1), mode="circular")
F.batch_norm(x, None, None, training=True)
F.interpolate(x, scale_factor=2)
F.interpolate(x, size=(5, 9), mode="bilinear")
F.conv2d(x, w, padding=1)
F.conv2d(F.pad(F.max_pool2d(x, 2), (1, 1, 1, 1)), w)
x.half().double()
x[:, :2]
torch.empty_like(x)
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_strides(torch: Any, expression: str) -> None:
    found = []
    for lib in (retrograd, torch):
        c = lib.arange(2.0 * 4 * 6 * 8).reshape(2, 4, 6, 8).cos()
        x = c.to(memory_format=lib.channels_last)
        given = {"torch": lib, "F": lib.nn.functional, "x": x, "c": c, "w": lib.ones(3, 4, 3, 3)}
        result = eval(expression, given)
        found.append((result.stride(), result.is_contiguous(memory_format=lib.channels_last)))
        if lib is retrograd and "empty" not in expression:
            again = retrograd.compile(eval(f"lambda x: {expression}", given), fullgraph=True)
            assert (again(x), again(x))[1].equal(result)
            assert eval(expression, {**given, "x": c}).allclose(result)  # in any layout
    assert found[0] == found[1]
