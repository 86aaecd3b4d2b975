"""Parametrizations that normalize a weight or keep it orthogonal."""

from __future__ import annotations

from typing import Any

from retrograd import linalg
from retrograd.autograd._hooks import add_hook
from retrograd.autograd.grad_mode import no_grad
from retrograd.nn import functional as F
from retrograd.nn.module import Module
from retrograd.nn.utils._norms import WHOLE, as_matrix, norm_except_dim, normalized, output_dim
from retrograd.nn.utils.parametrize import register_parametrization
from retrograd.ops.piecewise import where
from retrograd.ops.shapes.slicing import cat
from retrograd.tensor._creation import eye
from retrograd.tensor._like import zeros_like
from retrograd.tensor._limits import finfo
from retrograd.tensor._randoms import randn
from retrograd.tensor._tensor import Tensor


def _tensor_of(module: Any, name: str) -> Any:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


# -- norms and directions ------------------------------------------------------------------------


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = WHOLE if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return normalized(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Train the norm and the direction of a weight separately: ``g * v / norm(v)``.

    Args:
        dim: dimension along which each slice has a norm of its own; None for one norm in all.

    Example:
        >>> from retrograd.nn.utils.parametrizations import weight_norm
        >>> layer = weight_norm(torch.nn.Linear(20, 40))
        >>> {name: tuple(p.shape) for name, p in layer.parametrizations.weight.named_parameters()}
        {'original0': (40, 1), 'original1': (40, 20)}
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def accept_older_names(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        older = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in older):
            for i, key in enumerate(older):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    add_hook(module._load_state_dict_pre_hooks, accept_older_names)
    return module


# -- the largest singular value ------------------------------------------------------------------


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(
        self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            for buffer, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(buffer, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Any, steps: int) -> None:
        """Improve the estimates ``u`` and ``v`` of the first singular vectors in place."""
        for _ in range(steps):
            self._u = F.normalize(matrix.mv(self._v), dim=0, eps=self.eps, out=self._u)
            self._v = F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, because the next call overwrites these, possibly before the backward pass of this.
        u, v = self._u.clone(), self._v.clone()
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Any) -> Any:
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Divide a weight by its largest singular value, which power iteration estimates.

    In training, each use of the weight makes some steps of the iteration. A vector is divided by
    its norm.

    Args:
        n_power_iterations: steps of the power iteration for each use.
        eps: lower bound of norms.
        dim: dimension of the weight that corresponds to outputs; follows from the module by
            default.

    Example:
        >>> from retrograd.nn.utils.parametrizations import spectral_norm
        >>> layer = spectral_norm(torch.nn.Linear(3, 3), n_power_iterations=50)
        >>> round(torch.linalg.matrix_norm(layer.weight, 2).item(), 4)
        1.0
    """
    weight = _tensor_of(module, name)
    parametrization = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return register_parametrization(module, name, parametrization)


# -- orthogonal matrices -------------------------------------------------------------------------

_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    base: Any

    def __init__(
        self, weight: Any, orthogonal_map: str, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, original: Any) -> Any:
        wide = original.shape[-2] < original.shape[-1]
        result = self._tall(original.mT if wide else original)
        if hasattr(self, "base"):
            result = self.base @ result
        return result.mT if wide else result

    def _tall(self, tall: Any) -> Any:
        """A matrix with orthonormal columns, computed from one with at least as many rows as
        columns.
        """
        rows, columns = tall.shape[-2:]
        if self.orthogonal_map == "householder":
            reflectors = tall.tril(-1)
            scales = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
            # The diagonal holds signs, which are not trained.
            signs = tall.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
            return linalg.householder_product(reflectors, scales) * signs
        tall = tall.tril()
        if rows != columns:
            rest = tall.new_zeros(rows, rows - columns).expand(*tall.shape[:-2], -1, -1)
            tall = cat([tall, rest], dim=-1)
        skew = tall - tall.mH
        if self.orthogonal_map == "matrix_exp":
            square = linalg.matrix_exp(skew)
        else:
            unit = eye(rows, dtype=skew.dtype, device=skew.device)
            square = linalg.solve(unit.add(skew, alpha=-0.5), unit.add(skew, alpha=0.5))
        return square[..., :columns] if rows != columns else square

    @no_grad()
    def right_inverse(self, value: Any) -> Any:
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {value.shape}."
            )
        wide = value.shape[-2] < value.shape[-1]
        tall = value.mT if wide else value
        if hasattr(self, "base"):
            self.base = _completed(tall)
            # The maps take this to the identity. The diagonal is for Householder reflections.
            start = zeros_like(value)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        reflectors, scales = tall.geqrf()
        diagonal = reflectors.diagonal(dim1=-2, dim2=-1)
        # A scale of zero means no reflection; all others flip the sign.
        diagonal.copy_(where(scales == 0.0, -diagonal.sign(), diagonal.sign()))
        return reflectors.mT if wide else reflectors


def _completed(tall: Any) -> Any:
    """An orthogonal matrix whose first columns are those of ``tall``, orthonormalized, followed by
    random ones.
    """
    rows, columns = tall.shape[-2:]
    if rows == columns:
        close = 10.0 * rows * finfo(tall.dtype).eps
        unit = eye(columns, dtype=tall.dtype, device=tall.device)
        if (tall.mH @ tall).allclose(unit, atol=close):
            return tall.clone()
    else:
        shape = (*tall.shape[:-2], rows, rows - columns)
        random = randn(shape, dtype=tall.dtype, device=tall.device)
        tall = cat([tall, random], dim=-1)
    reflectors, scales = tall.geqrf()
    # A positive diagonal of the triangular factor makes the decomposition unique.
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return linalg.householder_product(reflectors, scales) * signs


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Any:  # fmt: skip
    """Keep a matrix, or each of a batch, orthogonal: its columns, or its rows if fewer, are
    orthonormal.

    Args:
        orthogonal_map: "matrix_exp" and "cayley" map skew-symmetric matrices, "householder"
            multiplies reflections. By default the first for square and complex matrices, the last
            for others.
        use_trivialization: start the map from the current matrix, which is kept as a buffer. This
            makes training easier.

    Example:
        >>> from retrograd.nn.utils.parametrizations import orthogonal
        >>> weight = orthogonal(torch.nn.Linear(20, 40)).weight
        >>> torch.allclose(weight.T @ weight, torch.eye(20), atol=1e-5)
        True
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
