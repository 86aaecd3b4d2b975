"""Bessel functions, sinc and the Airy function, with derivatives.

The quotients of a Bessel function by a power of its argument have no singularity at 0. They are
values of the hypergeometric function 0F1, whose derivative is another value of it. Rules that are
written with it are exact at 0 in derivatives of every order.
"""

from __future__ import annotations

import math
from typing import Any

from retrograd.arrays import _pointwise as pointwise
from retrograd.arrays import _special as special
from retrograd.ops._operation import Elementwise, elementwise, raw
from retrograd.ops._refusals import kernel
from retrograd.ops.comparisons import gt
from retrograd.ops.piecewise import abs as absolute
from retrograd.ops.piecewise import sgn, where
from retrograd.ops.pointwise.special import no_half

hyp0f1: Elementwise = elementwise(
    "hyp0f1", special.hyp0f1, lambda g, self, b: g * (hyp0f1(self, b=b + 1) / b), dtypes="float",
)  # fmt: skip


def _over_argument(self: Any, sign: float) -> Any:
    """``J1(x) / x`` if the sign is negative, ``I1(x) / x`` if it is positive."""
    return hyp0f1(self * self * (sign / 4), b=2.0) / 2


def _spherical_derivative(self: Any) -> Any:
    """The derivative of ``sin(x) / x``."""
    return self * hyp0f1(self * self * -0.25, b=2.5) / -3


sinc = elementwise(
    "sinc", pointwise.sinc, lambda g, self: g * (math.pi * _spherical_derivative(self * math.pi)),
    dtypes="float",
    public="torch method special", in_place="torch method",
    doc="The normalized sinc, ``sin(pi * input) / (pi * input)``, which is 1 at 0.",
    example=("torch.sinc(torch.tensor([0., 0.5]))", "tensor([1.0000, 0.6366])"),
)  # fmt: skip

# -- modified Bessel functions ---------------------------------------------------------------


def _i1e_rule(g: Any, self: Any, result: Any) -> Any:
    tiny = special.epsilon(raw(self).dtype)
    safe = gt(absolute(self), tiny)
    x = where(safe, self, tiny)
    return g * where(safe, i0e(x) - result * (sgn(self) + 1 / x), 0.5)


i0: Elementwise = elementwise(
    "i0", special.i0, lambda g, self: g * i1(self), dtypes="float", check=kernel("i0_vml_cpu"),
    public="torch method special", in_place="torch method",
    doc="The modified Bessel function of the first kind, of order 0.",
    example=("torch.i0(torch.tensor([0., 1.]))", "tensor([1.0000, 1.2661])"),
)  # fmt: skip
i0e = elementwise(
    "special_i0e", special.i0e, lambda g, self, result: g * (i1e(self) - sgn(self) * result),
    node="SpecialI0EBackward0", dtypes="float", check=kernel("i0e_cpu"),
    public="special.i0e",
    doc="The exponentially scaled Bessel function ``exp(-abs(input)) * i0(input)``.",
    example=("torch.special.i0e(torch.tensor([0., 1.]))", "tensor([1.0000, 0.4658])"),
)  # fmt: skip
i1: Elementwise = elementwise(
    "special_i1", special.i1, lambda g, self: g * (i0(self) - _over_argument(self, 1)),
    dtypes="float", check=kernel("i1_cpu"),
    public="special.i1",
    doc="The modified Bessel function of the first kind, of order 1.",
    example=("torch.special.i1(torch.tensor([0., 1.]))", "tensor([0.0000, 0.5652])"),
)  # fmt: skip
i1e: Elementwise = elementwise(
    "special_i1e", special.i1e, _i1e_rule, node="SpecialI1EBackward0", dtypes="float",
    check=kernel("i1e_cpu"),
    public="special.i1e",
    doc="The exponentially scaled Bessel function ``exp(-abs(input)) * i1(input)``.",
    example=("torch.special.i1e(torch.tensor([0., 1.]))", "tensor([0.0000, 0.2079])"),
)  # fmt: skip

# -- those that PyTorch has without a derivative ---------------------------------------------


def _special(
    name: str, forward: Any, rule: Any, doc: str, at: str, result: str
) -> Elementwise:
    """Declare ``torch.special.name``; ``at`` and ``result`` are an example of it."""
    return elementwise(
        f"special_{name}", forward, rule, dtypes="float", check=no_half(f"{name}_cpu"),
        public=f"special.{name}", out="cast", doc=doc,
        example=(f"torch.special.{name}(torch.tensor({at}))", result),
    )  # fmt: skip


bessel_j0: Elementwise = _special(
    "bessel_j0", special.j0,
    lambda g, self: -g * bessel_j1(self),
    "The Bessel function of the first kind, of order 0.",
    at="[0., 1.]", result="tensor([1.0000, 0.7652])",
)  # fmt: skip
bessel_j1: Elementwise = _special(
    "bessel_j1", special.j1,
    lambda g, self: g * (bessel_j0(self) - _over_argument(self, -1)),
    "The Bessel function of the first kind, of order 1.",
    at="[0., 1.]", result="tensor([0.0000, 0.4401])",
)  # fmt: skip
bessel_y0: Elementwise = _special(
    "bessel_y0", special.y0,
    lambda g, self: -g * bessel_y1(self),
    "The Bessel function of the second kind, of order 0.",
    at="[1., 2.]", result="tensor([0.0883, 0.5104])",
)  # fmt: skip
bessel_y1: Elementwise = _special(
    "bessel_y1", special.y1,
    lambda g, self, result: g * (bessel_y0(self) - result / self),
    "The Bessel function of the second kind, of order 1.",
    at="[1., 2.]", result="tensor([-0.7812, -0.1070])",
)  # fmt: skip
modified_bessel_i0: Elementwise = _special(
    "modified_bessel_i0", special.i0,
    lambda g, self: g * modified_bessel_i1(self),
    "The modified Bessel function of the first kind, of order 0.",
    at="[0., 1.]", result="tensor([1.0000, 1.2661])",
)  # fmt: skip
modified_bessel_i1: Elementwise = _special(
    "modified_bessel_i1", special.i1,
    lambda g, self: g * (modified_bessel_i0(self) - _over_argument(self, 1)),
    "The modified Bessel function of the first kind, of order 1.",
    at="[0., 1.]", result="tensor([0.0000, 0.5652])",
)  # fmt: skip
modified_bessel_k0: Elementwise = _special(
    "modified_bessel_k0", special.k0,
    lambda g, self: -g * modified_bessel_k1(self),
    "The modified Bessel function of the second kind, of order 0.",
    at="[1., 2.]", result="tensor([0.4210, 0.1139])",
)  # fmt: skip
modified_bessel_k1: Elementwise = _special(
    "modified_bessel_k1", special.k1,
    lambda g, self, result: -g * (modified_bessel_k0(self) + result / self),
    "The modified Bessel function of the second kind, of order 1.",
    at="[1., 2.]", result="tensor([0.6019, 0.1399])",
)  # fmt: skip
scaled_modified_bessel_k0: Elementwise = _special(
    "scaled_modified_bessel_k0", special.k0e,
    lambda g, self, result: g * (result - scaled_modified_bessel_k1(self)),
    "The scaled Bessel function ``exp(input) * modified_bessel_k0(input)``.",
    at="[1., 2.]", result="tensor([1.1445, 0.8416])",
)  # fmt: skip
scaled_modified_bessel_k1: Elementwise = _special(
    "scaled_modified_bessel_k1", special.k1e,
    lambda g, self, result: (
        g * (result * (1 - 1 / self) - scaled_modified_bessel_k0(self))
    ),
    "The scaled Bessel function ``exp(input) * modified_bessel_k1(input)``.",
    at="[1., 2.]", result="tensor([1.6362, 1.0335])",
)  # fmt: skip
spherical_bessel_j0: Elementwise = _special(
    "spherical_bessel_j0", special.spherical_j0,
    lambda g, self: g * _spherical_derivative(self),
    "The spherical Bessel function of the first kind, of order 0.",
    at="[0., 1.]", result="tensor([1.0000, 0.8415])",
)  # fmt: skip
airy_ai: Elementwise = _special(
    "airy_ai", special.airy_ai,
    lambda g, self: g * airy_ai_derivative(self),
    "The Airy function Ai.",
    at="[0., 1.]", result="tensor([0.3550, 0.1353])",
)  # fmt: skip
airy_ai_derivative: Elementwise = elementwise(
    "airy_ai_derivative", special.airy_ai_derivative, lambda g, self: g * (self * airy_ai(self)),
    dtypes="float",
)  # fmt: skip
