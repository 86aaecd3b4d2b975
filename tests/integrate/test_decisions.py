"""Operations that are replaced by comparisons, to see what a function decides: the same values and
gradients as those of the operations themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd.integrate import _decisions
from retrograd.integrate._decisions import Deciding, decisions_of, with_decisions
from retrograd.nn import functional as F

# By the names of operations: functions of a vector and of another one, which is positive.
FUNCTIONS: dict[str, Any] = {
    "abs": lambda x, p: x.abs(),
    "sign": lambda x, p: x.sign() * x,
    "sgn": lambda x, p: x.sgn() * x,
    "relu": lambda x, p: x.relu(),
    "leaky_relu": lambda x, p: F.leaky_relu(x, 0.2),
    "prelu": lambda x, p: F.prelu(x, p[:1]),
    "threshold": lambda x, p: F.threshold(x, 0.3, -2.0),
    "elu": lambda x, p: F.elu(x, 1.7),
    "celu": lambda x, p: F.celu(x, 1.7),
    "clamp": lambda x, p: x.clamp(-0.4, 0.6),
    "clamp_tensor": lambda x, p: x.clamp(-p, p),
    "clamp_min": lambda x, p: x.clamp_min(-0.4),
    "clamp_min_tensor": lambda x, p: x.clamp_min(-p),
    "clamp_max": lambda x, p: x.clamp_max(0.4),
    "clamp_max_tensor": lambda x, p: x.clamp_max(p),
    "hardtanh": lambda x, p: F.hardtanh(x, -0.3, 0.8),
    "hardsigmoid": lambda x, p: F.hardsigmoid(4 * x),
    "hardswish": lambda x, p: F.hardswish(4 * x),
    "softshrink": lambda x, p: F.softshrink(x, 0.4),
    "hardshrink": lambda x, p: F.hardshrink(x, 0.4),
    "maximum": lambda x, p: torch.maximum(x, p - 0.5),
    "fmax": lambda x, p: torch.fmax(x, p - 0.5),
    "minimum": lambda x, p: torch.minimum(x, p - 0.5),
    "fmin": lambda x, p: torch.fmin(x, p - 0.5),
    "heaviside": lambda x, p: torch.heaviside(x.detach(), p.detach()) * x,
    "copysign": lambda x, p: torch.copysign(p, x),
    "copysign of a number": lambda x, p: torch.copysign(x, -0.0),
    "frac": lambda x, p: (3 * x).frac(),
    "fmod": lambda x, p: torch.fmod(3 * x, p),
    "remainder": lambda x, p: torch.remainder(3 * x, p),
    "floor_divide": lambda x, p: torch.floor_divide(3 * x.detach(), p.detach()) * x,
    "div_rounded": lambda x, p: torch.div(3 * x, p, rounding_mode="trunc") * x,
    "round_decimals": lambda x, p: x.round(decimals=1) * x,
    "linalg_vector_norm": lambda x, p: torch.linalg.vector_norm(x, 1),
    "max": lambda x, p: x.max(),
    "min": lambda x, p: x.min(),
    "amax": lambda x, p: x.reshape(2, 3).amax(1),
    "amin": lambda x, p: x.reshape(2, 3).amin(0, keepdim=True),
    "median": lambda x, p: x.median(),
    "nanmedian": lambda x, p: x.nanmedian(),
    "aminmax": lambda x, p: torch.stack(x.aminmax()),
    "dist": lambda x, p: torch.dist(x, p, 1),
    "cdist": lambda x, p: torch.cdist(x.reshape(2, 3), p.reshape(2, 3), 1.0),
    "length": lambda x, p: torch.cdist(x.reshape(2, 3), p.reshape(2, 3), float("inf")),
    "pdist": lambda x, p: F.pdist(x.reshape(3, 2), 1.0),
    "huber_loss": lambda x, p: F.huber_loss(x, p, delta=0.5),
    "smooth_l1_loss": lambda x, p: F.smooth_l1_loss(x, p, beta=0.5),
    "sort": lambda x, p: x.sort()[0],
    "topk": lambda x, p: x.topk(3)[0],
    "infinite norms": lambda x, p: torch.stack(
        [torch.linalg.vector_norm(x, order) for order in (float("inf"), -float("inf"))]
    ),
}
X = torch.tensor([-1.3, -0.35, 0.21, 0.55, 0.9, 1.6], dtype=torch.float64)
P = torch.tensor([0.25, 0.7, 0.45, 0.8, 1.1, 0.65], dtype=torch.float64)
WEIGHTS = torch.tensor([1.0, -2.0, 0.5, 3.0, -0.7, 1.9], dtype=torch.float64)


class Recording(Deciding):
    """Also notes the names of the operations that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle(
        self, op: Any, args: Sequence[Any], options: dict[str, Any], computed: Any
    ) -> Any:
        self.names.add(op.name)
        return super().handle(op, args, options, computed)


def value_and_gradients(function: Any) -> list[np.ndarray]:
    x, p = X.clone().requires_grad_(), P.clone().requires_grad_()
    result = function(x, p)
    total = (result.reshape(-1) * WEIGHTS[: result.numel()]).sum()
    gradients = torch.autograd.grad(total, (x, p), allow_unused=True, materialize_grads=True)
    return [np.asarray(y.detach()) for y in (result, *gradients)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_definitions_are_the_operations(name: str) -> None:
    function = FUNCTIONS[name]
    wanted = value_and_gradients(function)

    def watched(x: Any, p: Any) -> Any:
        with Recording() as recording:
            result = function(x, p)
        assert name in recording.names or name not in KNOWN, recording.names
        assert recording.count > 0
        return result

    def decided(x: Any, p: Any) -> Any:
        """With the decisions that it takes by itself, given."""
        rate = lambda t, y, p: function(y, p)
        zero = torch.zeros((), dtype=torch.float64)
        decisions = decisions_of(rate)(zero, x.detach(), p.detach())[0]
        return with_decisions(rate)(zero, x, decisions, p)

    for replaced in (watched, decided):
        for a, b in zip(value_and_gradients(replaced), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["abs", "relu", "clamp", "hardtanh", "softshrink", "max", "min"])
def test_infinite_elements(name: str) -> None:
    function = FUNCTIONS[name]
    x = torch.tensor([-float("inf"), 0.3, float("inf"), -0.2], dtype=torch.float64)
    wanted = function(x, P)
    with Recording() as recording:
        found = function(x, P)
    assert name in recording.names
    assert found.tolist() == wanted.tolist()


KNOWN = {*_decisions.DEFINITIONS, *_decisions.BY_OPERATION, *_decisions.EXTREMES}
# Variants of others, which are operations for what PyTorch prints of a graph or for speed.
VARIANTS = {"elu_written", "bounded", "copysign_number", "floor_divide_number", "fmod_number",
            "remainder_number"}  # fmt: skip


def test_every_definition_is_compared() -> None:
    assert KNOWN - set(FUNCTIONS) == VARIANTS
