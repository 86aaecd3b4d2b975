"""Attention and transformers as layers: beside PyTorch, and beside attention written out in
NumPy."""

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.func import functional_call, grad, vmap


def made(library: Any, expression: str) -> Any:
    library.manual_seed(7)
    F = library.nn.functional
    return eval(expression, {"nn": library.nn, "torch": library, "F": F})


# Inputs by name: numbers are made in the dtype under test and get gradients, masks do not.
_random = np.random.default_rng(6)
NUMBERS = {
    "q": _random.standard_normal((3, 2, 8)), "k": _random.standard_normal((5, 2, 8)),
    "v": _random.standard_normal((5, 2, 8)), "k6": _random.standard_normal((5, 2, 6)),
    "v4": _random.standard_normal((5, 2, 4)), "q1": _random.standard_normal((3, 8)),
    "k1": _random.standard_normal((5, 8)), "b": _random.standard_normal((2, 4, 8)),
    "m": _random.standard_normal((2, 5, 8)),
}  # fmt: skip
MASKS = {
    "pad": np.array([[0, 0, 1, 0, 1], [0, 1, 0, 0, 0]], bool),
    "pad4": np.array([[0, 0, 0, 1], [0, 0, 1, 1]], bool),
    "look": np.array([[0, 1, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]], bool),
    "look4": np.array([[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]], bool),
    "look_heads": np.arange(60).reshape(4, 3, 5) % 4 == 1, "late4": ~np.tri(4, dtype=bool),
    "late3": ~np.tri(3, dtype=bool), "add": _random.standard_normal((3, 5)),
    "later4": np.triu(np.full((4, 4), -np.inf), 1), "add_pad": np.array([[0, -1, 2, 0, 0.5]] * 2),
}  # fmt: skip
ATTENTION = {
    "nn.MultiheadAttention(8, 2)": [
        "q, k, v", "q, k, k", "q, q, q", "q1, k1, k1", "q, k, v, key_padding_mask=pad",
        "q, k, v, attn_mask=look", "q, k, v, attn_mask=look_heads", "q, k, v, attn_mask=add",
        "q, k, v, need_weights=False", "q, k, v, average_attn_weights=False",
        "q, k, v, pad, attn_mask=look", "q, q, q, attn_mask=late3, is_causal=True",
        "q, q, q, attn_mask=late3, is_causal=True, need_weights=False",
        "q, k, v, key_padding_mask=add_pad, attn_mask=add",
    ],
    "nn.MultiheadAttention(8, 4, bias=False)": ["q, k, v", "q1, k1, k1"],
    "nn.MultiheadAttention(8, 2, add_bias_kv=True)": ["q, k, v", "q, k, v, pad, attn_mask=look"],
    "nn.MultiheadAttention(8, 1, add_zero_attn=True)": ["q, k, v", "q, k, v, attn_mask=look"],
    "nn.MultiheadAttention(8, 2, kdim=6, vdim=4)": ["q, k6, v4", "q, k6, v4, pad"],
    "nn.MultiheadAttention(8, 2, batch_first=True)": [
        "b, b, b", "b, m, m", "b, b, b, pad4", "q1, k1, k1", "b, b, b, need_weights=False",
    ],
    "nn.MultiheadAttention(8, 2, 0.5)": ["q, k, v", "q, q, q, need_weights=False"],
    "nn.MultiheadAttention(8, 2, 0.5).eval()": ["q, k, v"],
}  # fmt: skip
_SMALL = "8, 2, dim_feedforward=12"
_ENCODER = f"nn.TransformerEncoderLayer({_SMALL}, dropout=0.0"
_DECODER = f"nn.TransformerDecoderLayer({_SMALL}, dropout=0.0"
_WHOLE = "nn.Transformer(8, 2, 2, 2, 12, 0.0"
TRANSFORMERS = {
    f"{_ENCODER})": ["q", "q1", "q, src_mask=late3", "k, src_key_padding_mask=pad"],
    f"{_ENCODER}, norm_first=True)": ["q", "q, late3, is_causal=True"],
    f"{_ENCODER}, activation='gelu', batch_first=True)": ["b", "b, look4", "b, look4, pad4"],
    f"{_ENCODER}, activation=F.silu, bias=False)": ["q"],
    f"{_ENCODER}, activation=nn.GELU(), layer_norm_eps=1e-3)": ["q"],
    f"nn.TransformerEncoderLayer({_SMALL}, dropout=0.3)": ["q", "q, late3"],
    f"{_DECODER})": ["q, k", "q1, k1", "q, k, late3", "q, k, late3, look, None, pad",
                     "q, k, tgt_mask=late3, tgt_is_causal=True"],
    f"{_DECODER}, norm_first=True, batch_first=True)": ["b, m", "b, m, late4, None, pad4, pad"],
    f"{_DECODER}, activation='gelu', bias=False)": ["q, k"],
    f"nn.TransformerDecoderLayer({_SMALL}, dropout=0.3)": ["q, k, late3"],
    f"nn.TransformerEncoder({_ENCODER}, batch_first=True), 2)": [
        "b", "b, later4", "b, late4", "b, look4", "b, None, pad4", "b, later4, None, True",
    ],
    f"nn.TransformerEncoder({_ENCODER}), 2, nn.LayerNorm(8), enable_nested_tensor=False)": ["q"],
    f"nn.TransformerDecoder({_DECODER}, batch_first=True), 2, nn.LayerNorm(8))": [
        "b, m", "b, m, later4", "b, m, look4, None, pad4, pad",
    ],
    f"{_WHOLE})": ["k, q", "k, q, None, late3", "k1, q1", "k, q, src_key_padding_mask=pad"],
    f"{_WHOLE}, batch_first=True, norm_first=True)": [
        "m, b, tgt_mask=later4, memory_key_padding_mask=pad",
    ],
    f"{_WHOLE}, activation='gelu', bias=False)": ["k, q"],
}  # fmt: skip
CASES = [(e, c) for table in (ATTENTION, TRANSFORMERS) for e, calls in table.items() for c in calls]
NESTED = "ignore:enable_nested_tensor is True:UserWarning"  # PyTorch's, which has such tensors


def run(library: Any, module: Any, call: str, dtype: str) -> dict[str, np.ndarray]:
    """Results and gradients."""
    module.to(getattr(library, dtype))
    module.zero_grad()
    numbers = {n: library.from_numpy(x.astype(dtype)).requires_grad_() for n, x in NUMBERS.items()}
    masks = {
        n: library.from_numpy(x if x.dtype == bool else x.astype(dtype)) for n, x in MASKS.items()
    }
    library.manual_seed(5)
    found = eval(f"module({call})", {"module": module, **numbers, **masks})
    results = [y for y in (found if isinstance(found, tuple) else (found,)) if y is not None]
    total = 0
    for y in results:
        weight = np.cos(np.arange(y.numel())).reshape(tuple(y.shape)).astype(dtype)
        total = total + (y * library.from_numpy(weight)).sum()
    total.backward()
    values = {f"result {i}": y.detach().numpy() for i, y in enumerate(results)}
    values |= {f"gradient of {n}": x.grad.numpy() for n, x in numbers.items() if x.grad is not None}
    return values | {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("expression", "call"), CASES)
@pytest.mark.filterwarnings(NESTED)
def test_layer_is_pytorchs(torch: Any, expression: str, call: str) -> None:
    theirs, ours = made(torch, expression), made(retrograd, expression)
    for dtype, tolerance in (("float64", 1e-10), ("float32", 2e-5)):
        found, expected = (run(lib, m, call, dtype) for lib, m in
                           ((retrograd, ours), (torch, theirs)))  # fmt: skip
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            scale = 1 + np.abs(value).max(initial=0)
            np.testing.assert_allclose(
                found[key], value, rtol=tolerance, atol=tolerance * scale, err_msg=key
            )


@pytest.mark.parametrize("expression", [*ATTENTION, *TRANSFORMERS])
@pytest.mark.filterwarnings(NESTED)
def test_layer_starts_as_pytorchs(torch: Any, expression: str) -> None:
    theirs, ours = made(torch, expression), made(retrograd, expression)
    assert repr(ours) == repr(theirs)
    start = {n: x.numpy() for n, x in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(start)
    for name, value in ours.state_dict().items():
        assert np.array_equal(value.numpy(), start[name]), f"{name} starts from other numbers"


BAD = {
    "nn.MultiheadAttention(8, 3)": "",
    "nn.MultiheadAttention(0, 3)": "",
    "nn.MultiheadAttention(8, 2)": "q, k, k6",
    "nn.MultiheadAttention(8, 4)": "q, k, v, pad[:1]",
    "nn.TransformerEncoderLayer(8, 2, activation='tanh')": "",
    f"nn.TransformerDecoderLayer({_SMALL})": "q, k, k",
    "nn.Transformer(8, 2, 1, 1, 12)": "k, q[:, :1]",
    "nn.Transformer(8, 2, 1, 1, 8)": "k6, q",
    "nn.MultiheadAttention(8, 2, 0.1)": "q, k, v, is_causal=True",
}


def refusal(library: Any, expression: str, call: str) -> str:
    with pytest.raises((RuntimeError, ValueError, AssertionError)) as caught:
        run(library, made(library, expression), call, "float32")
    return f"{caught.type.__name__}: {str(caught.value).splitlines()[0]}"


@pytest.mark.parametrize("expression", BAD)
@pytest.mark.filterwarnings(NESTED)
def test_bad_call_fails_as_in_pytorch(torch: Any, expression: str) -> None:
    ours, theirs = (refusal(lib, expression, BAD[expression]) for lib in (retrograd, torch))
    assert ours == theirs


def test_mask_that_hides_what_comes_later(torch: Any) -> None:
    for dtype in ("float32", "float64", "bool"):
        found = [
            lib.nn.Transformer.generate_square_subsequent_mask(3, dtype=getattr(lib, dtype))
            for lib in (retrograd, torch)
        ]
        assert str(found[0]) == str(found[1])


# -- without PyTorch -----------------------------------------------------------------------------


def attention_by_hand(
    x: np.ndarray, w: dict[str, np.ndarray], heads: int, hidden: np.ndarray
) -> np.ndarray:
    """One sequence, ``(length, size)``: scores, softmax and mean, head by head."""
    rows = x @ w["in_proj_weight"].T + w["in_proj_bias"]
    found = []
    for q, k, v in zip(*(np.split(part, heads, 1) for part in np.split(rows, 3, 1)), strict=True):
        scores = np.where(hidden, -np.inf, q @ k.T / np.sqrt(q.shape[1]))
        e = np.exp(scores - scores.max(1, keepdims=True))
        found.append(e / e.sum(1, keepdims=True) @ v)
    return np.concatenate(found, 1) @ w["out_proj.weight"].T + w["out_proj.bias"]


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_written_out(need_weights: bool) -> None:
    retrograd.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True).double()
    with retrograd.no_grad():
        layer.in_proj_bias.normal_()
    x, hidden = NUMBERS["b"], MASKS["late4"]
    given = retrograd.from_numpy(x)
    mask = retrograd.from_numpy(hidden)
    result, weights = layer(given, given, given, attn_mask=mask, need_weights=need_weights)
    w = {n: p.detach().numpy() for n, p in layer.named_parameters()}
    for b in range(2):
        expected = attention_by_hand(x[b], w, 2, hidden)
        np.testing.assert_allclose(result[b].detach().numpy(), expected, rtol=1e-12, atol=1e-13)
    if need_weights:
        np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1, rtol=1e-12)
        assert not weights.detach().numpy()[:, hidden].any()
    else:
        assert weights is None


def test_what_comes_later_is_not_seen() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 2)
    x = retrograd.randn(4, 1, 8, requires_grad=True)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    (g,) = retrograd.autograd.grad(encoder(x, mask)[1, 0, 0], x)
    assert g[2:].abs().sum().item() == 0
    (g,) = retrograd.autograd.grad(encoder(x)[1, 0, 0], x)
    assert g[2:].abs().sum().item() > 0


def test_layers_of_a_stack_are_copies() -> None:
    layer = nn.TransformerDecoderLayer(8, 2, 12)
    stack = nn.TransformerDecoder(layer, 2)
    first, second = (s.linear1.weight for s in stack.layers)
    assert first is not second
    assert first is not layer.linear1.weight
    assert retrograd.equal(first, second)
    with retrograd.no_grad():
        first.add_(1)
    assert not retrograd.equal(first, second)


def test_own_encoder_and_decoder() -> None:
    class Double(nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return 2 * args[0]

    model = nn.Transformer(8, 2, custom_encoder=Double(), custom_decoder=Double())
    assert not list(model.parameters())
    x = retrograd.ones(3, 1, 8)
    assert retrograd.equal(model(x, x), 2 * x)


def test_gradients_of_each_sample() -> None:
    retrograd.manual_seed(3)
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True).double()
    weights = {n: p.detach() for n, p in layer.named_parameters()}
    x = retrograd.from_numpy(NUMBERS["b"])

    def loss(w: dict[str, Any], one: Any) -> Any:
        return (functional_call(layer, w, (one,)) ** 3).sum()

    many = vmap(grad(loss), (None, 0))(weights, x)
    for i in range(2):
        for name, g in grad(loss)(weights, x[i]).items():
            np.testing.assert_allclose(many[name][i].numpy(), g.numpy(), rtol=1e-9, atol=1e-10)
