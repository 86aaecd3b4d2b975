"""NaN and infinity in gradients: the cause and the cure, in anomaly mode and in ``explain``."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import retrograd as torch
from retrograd.autograd import explain
from retrograd.ops._operation import TABLE

HIDDEN = "masks the value but not its gradient."
INSIDE = "What to do: put the `where` inside"


def of(*values: Any) -> Any:
    return torch.tensor(values, requires_grad=True)


def where(x: Any, y: Any) -> Any:
    return torch.where(x > 0, y, torch.zeros(()))


def in_anomaly_mode(loss: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
            loss().backward()
    notes = [n for n in caught.value.__notes__ if not n.startswith("Traceback")]
    return "\n".join(notes)


CASES: list[tuple[Any, Any, tuple[str, ...]]] = [
    (lambda x: where(x, x.sqrt()).sum(), (4.0, 0.0),
     ("0/0 at element [1]: the derivative of sqrt is infinite at 0.", HIDDEN, INSIDE)),
    (lambda x: (x.sqrt() * x).sum() * 0, (0.0, 1.0),
     ("0/0 at element [0]: the derivative of sqrt is infinite at 0.", HIDDEN)),
    (lambda x: where(x, x.log()).sum(), (0.0, 4.0),
     ("0/0 at element [0]: log is -inf at 0", HIDDEN, INSIDE)),
    (lambda x: where(x, x.log2()).sum(), (0.0,), ("0/0 at element [0]: log2 is -inf",)),
    (lambda x: where(x, x.log10()).sum(), (0.0,), ("0/0 at element [0]: log10 is -inf",)),
    (lambda x: where(x, 1 / x).sum(), (0.0, 4.0),
     ("0 · inf at element [0]: the denominator is 0.", HIDDEN, INSIDE)),
    (lambda x: (x / x).sum(), (4.0, 0.0),
     ("At element [1]: the denominator is 0.", "x / torch.where(y == 0, 1.0, y)")),
    (lambda x: where(x, x.rsqrt()).sum(), (0.0, 4.0), ("rsqrt is infinite at 0", HIDDEN)),
    (lambda x: where(x, x**0.5).sum(), (0.0, 4.0),
     ("the derivative of a power below 1 is infinite", HIDDEN)),
    (lambda x: where(1 - x, x.acos()).sum(), (1.0, 0.5),
     ("0 · inf at element [0]: the derivative of acos is infinite at 1 and -1.",
      "clamp the input")),
    (lambda x: where(1 - x, x.asin()).sum(), (1.0, 0.5), ("the derivative of asin is infinite",)),
    (lambda x: (x.exp() / x.exp().sum()).sum(), (1000.0, 1.0),
     ("The infinity came from exp at test_singular.py:",
      "At element [0]: exp has overflowed to infinity.", "subtract the largest element first")),
    (lambda x: where(1 - x, x.exp()).sum(), (1000.0, 0.0),
     ("0 · inf at element [0]: exp has overflowed", HIDDEN)),
    (lambda x: x.softmax(1).sum(), ((-math.inf, -math.inf), (1.0, 2.0)),
     ("At element [0, 0]: all elements of a row are -inf: 0/0.", "leave at least one element")),
    (lambda x: (x**2).sum().sqrt(), (0.0, 0.0),
     ("An infinite gradient came from sqrt at test_singular.py:",
      "The derivative of sqrt is infinite at 0")),
    (lambda x: x.std(), (1.0,), ("The standard deviation of one element is 0/0.",)),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "values", "words"), CASES)
def test_cause_in_anomaly_mode(loss: Any, values: Any, words: tuple[str, ...]) -> None:
    x = of(*values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # std of one element
        text = in_anomaly_mode(lambda: loss(x))
    for word in words:
        assert word in text


def test_cause_in_an_explanation() -> None:
    x = of(0.0, 4.0)
    loss = torch.where(x > 0, x.sqrt(), torch.zeros(())).sum()
    notes = explain(x, loss).notes
    assert notes[1] == "0/0 at element [0]: the derivative of sqrt is infinite at 0."
    assert notes[2].endswith(HIDDEN)
    assert notes[3].startswith(INSIDE)


def test_infinity_in_an_explanation() -> None:
    x = of(0.0, 4.0)
    loss = x.log().sum()
    notes = explain(x, loss).notes
    assert notes[1] == "At element [0]: log is -inf at 0, and its derivative is infinite."
    assert "(x + 1e-12).log()" in notes[2]
    assert not any(HIDDEN in note for note in notes)


def test_what_is_advised_helps() -> None:
    x = of(0.0, 4.0)
    inside = torch.where(x > 0, x, torch.ones(()))
    torch.where(x > 0, inside.sqrt(), torch.zeros(())).sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_nan_from_elsewhere_is_not_blamed_on_a_point() -> None:
    x = of(1.0, 4.0)
    text = in_anomaly_mode(lambda: (x.sqrt() * torch.tensor([math.nan, 1.0])).sum())
    assert "is infinite at" not in text


def test_declarations_name_what_is_saved() -> None:
    declared = [op for op in TABLE.values() if op.singular]
    assert len(declared) >= 13
    for operation in declared:
        for singular in operation.singular:
            assert singular.name in operation.saves
            assert not singular.says.endswith(".")
            assert not singular.cure.endswith(".")
