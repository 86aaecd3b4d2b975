"""Attention as one operation, which PyTorch cannot differentiate twice: its graph and gradients
beside PyTorch's, and its second derivatives beside those of the same in steps."""

from typing import Any

import pytest
from samples import GROUPS
from samples._pool import evaluate, weights_for
from test_ops import compare_tensors, graph

import retrograd

FUSED = [*GROUPS.get("attention.fused", []), *GROUPS.get("attention.heads_fused", [])]
FUSED = [e for e in FUSED if "(ah" not in e]  # which no gradient goes to


def gradients(library: Any, expression: str, dtype: str) -> list[Any]:
    tensors, results = evaluate(library, expression, dtype)
    leaves = [t for t in tensors.values() if t.requires_grad]
    results = [r for r in results if r is not None]
    given = [library.from_numpy(w) for w in weights_for(results, 100)]
    return list(library.autograd.grad(results, leaves, given, allow_unused=True))


@pytest.mark.filterwarnings("ignore")  # of masks of different dtypes
@pytest.mark.parametrize("expression", FUSED)
def test_gradients_are_pytorchs(torch: Any, expression: str) -> None:
    for dtype in ("float64", "float32"):
        theirs, ours = (gradients(lib, expression, dtype) for lib in (torch, retrograd))
        found = [
            d
            for i, (a, b) in enumerate(zip(theirs, ours, strict=True))
            for d in compare_tensors(a, b, f"gradient {i}", dtype == "float32")
        ]
        assert not found, "\n".join([expression, *found])


@pytest.mark.filterwarnings("ignore")  # of masks of different dtypes
@pytest.mark.parametrize("expression", FUSED)
def test_the_graph_is_pytorchs(torch: Any, expression: str) -> None:
    kept = "_saved_attn_mask"  # a value of ours, no tensor
    theirs, ours = (
        [
            (name, edges, [s for s in saved if s != kept])
            for name, edges, saved in graph(evaluate(library, expression, "float64")[1])
        ]
        for library in (torch, retrograd)
    )
    assert ours == theirs


def attention(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    scores = q @ k.transpose(-2, -1) * scale + mask
    return scores.softmax(-1) @ v


def test_second_derivatives_are_those_of_the_steps() -> None:
    retrograd.manual_seed(0)
    q, k, v = (
        retrograd.randn(2, 2, n, 4, dtype=retrograd.float64, requires_grad=True) for n in (3, 5, 5)
    )
    mask = retrograd.randn(3, 5, dtype=retrograd.float64)
    found = []
    for function in (
        lambda: retrograd.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=0.3),
        lambda: attention(q, k, v, mask, 0.3),
    ):
        loss = (function() ** 3).sum()
        first = retrograd.autograd.grad(loss, (q, k, v), create_graph=True)
        total = sum((g**2).sum() for g in first)
        found.append(retrograd.autograd.grad(total, (q, k, v)))
    for fused, steps in zip(*found, strict=True):
        assert retrograd.all((fused - steps).abs() < 1e-9 * (1 + steps.abs()))


def test_second_derivatives_in_bfloat16_with_a_mask_of_float32() -> None:
    retrograd.manual_seed(0)
    whole = [retrograd.randn(1, 2, 3, 4).bfloat16().float() for _ in range(3)]
    mask = retrograd.randn(3, 3)
    found = []
    for dtype in (retrograd.float32, retrograd.bfloat16):
        q, k, v = (x.to(dtype).requires_grad_() for x in whole)
        output = retrograd.nn.functional.scaled_dot_product_attention(q, k, v, mask)
        first = retrograd.autograd.grad(output.float().exp().sum(), (q, k, v), create_graph=True)
        total = sum((g.float() ** 2).sum() for g in first)
        found.append(retrograd.autograd.grad(total, (q, k, v)))
    for wide, narrow in zip(*found, strict=True):
        assert narrow.dtype is retrograd.bfloat16
        assert float((narrow.float() - wide).norm() / wide.norm()) < 0.03


def test_long_batches_are_done_in_parts() -> None:
    from retrograd import arrays

    retrograd.manual_seed(0)
    q, k, v, g = (retrograd.randn(5, 2, 8, 4, dtype=retrograd.float64) for _ in range(4))
    mask = retrograd.randn(5, 1, 8, 8, dtype=retrograd.float64)
    found = []
    for most in (arrays.normalizing._SCORES, 2 * 2 * 8 * 8):
        before, arrays.normalizing._SCORES = arrays.normalizing._SCORES, most
        try:
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            result = retrograd.nn.functional.scaled_dot_product_attention(*leaves, mask)
            found.append([result, *retrograd.autograd.grad(result, leaves, g)])
        finally:
            arrays.normalizing._SCORES = before
    for whole, parts in zip(*found, strict=True):
        assert retrograd.equal(whole, parts)
