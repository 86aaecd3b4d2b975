"""Weight normalization by a forward pre-hook. ``parametrizations.weight_norm`` replaces it."""

from __future__ import annotations

import warnings
from typing import Any

from retrograd.nn.parameter import Parameter
from retrograd.nn.utils._norms import WHOLE, norm_except_dim, normalized
from retrograd.nn.utils._weight_hooks import check_new, removed_hook


class WeightNorm:
    """A hook that computes a weight before each call of the module."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = WHOLE if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        v, g = getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g")
        return normalized(v, g, self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning, stacklevel=3,
        )  # fmt: skip
        check_new(WeightNorm, "weight_norm", module, name)
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        lengths = norm_except_dim(weight, hook.dim)
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(lengths.data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        hook(module, None)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Train the norm and the direction of a weight separately, as ``weight_g`` and ``weight_v``.

    The weight is computed before each call. Deprecated: use
    ``nn.utils.parametrizations.weight_norm``, which loads states saved by this one.

    Args:
        dim: dimension along which each slice has a norm of its own; None for one norm in all.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", FutureWarning)
        ...     layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
        >>> layer.weight_g.shape, layer.weight_v.shape
        (torch.Size([2, 1]), torch.Size([2, 3]))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Remove weight normalization: the weight becomes a parameter again.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", FutureWarning)
        ...     layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 1))
        >>> sorted(name for name, _ in torch.nn.utils.remove_weight_norm(layer).named_parameters())
        ['bias', 'weight']
    """
    removed_hook(WeightNorm, "weight_norm", module, name).remove(module)
    return module


__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]
