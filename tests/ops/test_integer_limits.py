"""Numbers that do not fit into an integer dtype: some wrap around, some are refused."""

from typing import Any

import pytest

import retrograd

REFUSED = "value cannot be converted to type uint8_t without overflow"
WRAPS = {
    "x // 300": [0, 0, 0], "x % 300": [1, 2, 3], "x % -1": [1, 2, 3], "x + 300": [45, 46, 47],
    "torch.fmod(x, 300)": [1, 2, 3], "300 ** x": [44, 144, 192], "(-1) ** x": [255, 1, 255],
    "x.clone().remainder_(300)": [1, 2, 3], "x.clone().floor_divide_(-1)": [0, 0, 0],
    "x == 300": [False] * 3, "x > -1": [False] * 3,
    "x.clamp(1, -1)": [1, 2, 3], "x.clamp(-1, 5)": [5, 5, 5], "x.clamp(min=-1)": [255] * 3,
    "x.clone().clamp_(1, -1)": [1, 2, 3], "x.clone().clamp_min_(-1)": [255] * 3,
    "x.clone().fill_(torch.tensor(300))": [44] * 3,
    "put(x, slice(1, 2), torch.tensor(300))": [1, 44, 3],
    "put(x, 1, torch.tensor(300))": [1, 44, 3], "put(x, slice(1, 2), -1)": [1, 255, 3],
    "torch.nn.functional.hardtanh(x, 1, 2)": [1, 2, 2],
    "torch.addmm(x[None], x[None], torch.ones(3, 3).to(torch.uint8), alpha=-1)": [[251, 252, 253]],
}  # fmt: skip
REFUSES = [
    "x.clamp(300, 301)",
    "x.clamp(1, 300)",
    "x.clone().clamp_(1, 300)",
    "x.clone().clamp_max_(300)",
    "put(x, slice(1, 2), 300)",
    "put(x, 1, 300)",
    "x.clone().fill_(-1.5)",
    "x.clone().fill_(300)",
    "torch.nn.functional.pad(x, (1, 1), value=300)",
    "torch.nn.functional.hardtanh(x, 1, 300)",
    "torch.full((2,), -1.5, dtype=torch.uint8)",
    "torch.addmm(x[None], x[None], torch.ones(3, 3).to(torch.uint8), alpha=300)",
]


def evaluate(library: Any, expression: str) -> Any:
    def put(x: Any, index: Any, value: Any) -> Any:
        x[index] = value
        return x

    x = library.tensor([1, 2, 3], dtype=library.uint8)
    return eval(expression, {"torch": library, "x": x, "put": put})


@pytest.mark.parametrize("expression", WRAPS)
def test_what_wraps_around(expression: str) -> None:
    assert evaluate(retrograd, expression).tolist() == WRAPS[expression]


@pytest.mark.parametrize("expression", REFUSES)
def test_what_is_refused(expression: str) -> None:
    with pytest.raises(RuntimeError, match=REFUSED):
        evaluate(retrograd, expression)


@pytest.mark.parametrize("expression", [*WRAPS, *REFUSES])
def test_pytorch_does_the_same(torch: Any, expression: str) -> None:
    if expression in WRAPS:
        assert evaluate(torch, expression).tolist() == WRAPS[expression]
    else:
        with pytest.raises(RuntimeError, match=REFUSED):
            evaluate(torch, expression)
