"""Gamma and Dirichlet numbers. Unlike other random numbers, they have gradients by the parameters:
by implicit reparameterization, as ``arrays/_gamma.py`` explains."""

from __future__ import annotations

from typing import Any

from retrograd import arrays
from retrograd.arrays import Raw, dtypes
from retrograd.ops._operation import Elementwise, Operation, elementwise
from retrograd.ops.reductions.basic import sum as total_of
from retrograd.ops.sampling import checked

# Not in the table, whose operations are compared with PyTorch on samples: its derivatives of these
# are approximations. tests/distributions/test_gamma.py compares with differences instead.
_APART: dict[str, Operation] = {}


def _refuse(kernel: str) -> Any:
    def check(self: Raw, generator: Any = None) -> None:
        if self.dtype.kind != "f" or self.dtype == dtypes.float16.numpy:
            word = dtypes.type_word(self.dtype)
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{word}'")

    return check


def _no_second(name: str) -> Any:
    def rule(g: Any) -> Any:
        raise RuntimeError(f"derivative for {name} is not implemented")

    return rule


standard_gamma_slope = Elementwise(
    "standard_gamma_slope",
    lambda self, other: arrays.random.standard_gamma_grad(
        arrays.writable(self), arrays.writable(other)
    ),
    inputs=("self", "other"),
    rules=dict.fromkeys(("self", "other"), _no_second("aten::_standard_gamma_grad")),
    node="NotImplemented",
    table=_APART,
)
standard_gamma_of = elementwise(
    "standard_gamma_of",
    lambda self, generator: arrays.random.standard_gamma(arrays.writable(self), generator),
    lambda g, self, result: g * standard_gamma_slope(self, result),
    node="StandardGammaBackward0", check=_refuse("gamma_cpu"), random=True,
    table=_APART,
)  # fmt: skip
dirichlet_slope = Elementwise(
    "dirichlet_slope",
    lambda x, alpha, total: arrays.random.dirichlet_grad(
        arrays.writable(x), arrays.writable(alpha), arrays.writable(total)
    ),
    inputs=("x", "alpha", "total"),
    rules=dict.fromkeys(("x", "alpha", "total"), _no_second("aten::_dirichlet_grad")),
    node="NotImplemented",
    table=_APART,
)


def _dirichlet_rule(g: Any, self: Any, result: Any) -> Any:
    """A row stays on the simplex: what is added to one element is taken from the others."""
    whole = total_of(self, -1, True)
    return dirichlet_slope(result, self, whole) * (g - total_of(result * g, -1, True))


def _dirichlet_tangent(t: Any, self: Any, result: Any) -> Any:
    """The transpose of the rule. It cannot be derived from it, since that draws again."""
    moved = dirichlet_slope(result, self, total_of(self, -1, True)) * t
    return moved - result * total_of(moved, -1, True)


dirichlet_of = Operation(
    "dirichlet_of",
    lambda self, generator: arrays.random.dirichlet(arrays.writable(self), generator),
    inputs=("self",), rules={"self": _dirichlet_rule}, jvp=_dirichlet_tangent,
    node="_DirichletBackward",
    check=_refuse("dirichlet"), random=True, batch="leading",
    reason="a row of a random matrix is drawn as a whole", table=_APART,
)  # fmt: skip


def _standard_gamma(input: Any, generator: Any = None) -> Any:
    """Draws numbers from gamma distributions of rate 1.

    Args:
        input: The concentrations.
        generator: The generator of the random numbers. The default is the global generator.

    Returns:
        The numbers, in the shape and dtype of ``input``, with gradients by it.

    Example:
        >>> bool((torch._standard_gamma(torch.ones(3)) > 0).all())
        True
    """
    return standard_gamma_of(input, generator=checked("_standard_gamma", generator))


def _sample_dirichlet(input: Any, generator: Any = None) -> Any:
    """Draws points of a simplex from Dirichlet distributions.

    Args:
        input: The concentrations, with one distribution for each row of the last dimension.
        generator: The generator of the random numbers. The default is the global generator.

    Returns:
        The points, in the shape and dtype of ``input``, with gradients by it.

    Example:
        >>> torch.allclose(torch._sample_dirichlet(torch.ones(3)).sum(), torch.tensor(1.0))
        True
    """
    return dirichlet_of(input, generator=checked("_sample_dirichlet", generator))


def _standard_gamma_grad(input: Any, output: Any) -> Any:
    """The derivative of numbers that ``_standard_gamma`` drew by their concentrations.

    Args:
        input: The concentrations.
        output: The numbers.

    Example:
        >>> torch._standard_gamma_grad(torch.tensor(1.0), torch.tensor(0.5))
        tensor(0.8070)
    """
    return standard_gamma_slope(input, output)


def _dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """The derivative of a beta number by its first parameter, divided by ``1 - x``.

    Args:
        x: The numbers.
        alpha: The first parameters.
        total: The sums of both parameters.

    Example:
        >>> torch._dirichlet_grad(torch.tensor(0.5), torch.tensor(1.0), torch.tensor(2.0))
        tensor(0.6931)
    """
    return dirichlet_slope(x, alpha, total)
