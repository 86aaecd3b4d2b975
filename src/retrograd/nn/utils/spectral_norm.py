"""Spectral normalization by a forward pre-hook. ``parametrizations.spectral_norm`` replaces it."""

from __future__ import annotations

from typing import Any

from retrograd import linalg
from retrograd.autograd._hooks import add_hook
from retrograd.autograd.grad_mode import no_grad
from retrograd.nn import functional as F
from retrograd.nn.parameter import Parameter
from retrograd.nn.utils._norms import as_matrix, output_dim
from retrograd.nn.utils._weight_hooks import check_new, removed_hook


class SpectralNorm:
    """A hook that computes a weight before each call of the module."""

    _version = 1  # of the saved state; version 0 had the weight itself in place of v

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        weight, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v = F.normalize(matrix.t().mv(u), dim=0, eps=self.eps, out=v)
                    u = F.normalize(matrix.mv(v), dim=0, eps=self.eps, out=u)
                # Copies, because the next call overwrites these, possibly before this backward
                # pass.
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    @staticmethod
    def apply(
        module: Any, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        check_new(SpectralNorm, "spectral_norm", module, name)
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with no_grad():
            rows, columns = as_matrix(weight, dim).shape
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        add_hook(module._state_dict_hooks, SpectralNormStateDictHook(hook))
        add_hook(module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook(hook))
        return hook

    def remove(self, module: Any) -> None:
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def _solve_v_and_rescale(self, matrix: Any, u: Any, target_sigma: Any) -> Any:
        """The vector ``v`` with ``u = normalize(matrix @ v)`` and ``u @ matrix @ v =
        target_sigma``.
        """
        inverse = matrix.t().mm(matrix).pinverse()
        v = linalg.multi_dot([inverse, matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(target_sigma / u.dot(matrix.mv(v)))


class SpectralNormLoadStateDictPreHook:
    """Computes ``v`` when a state of version 0, which has the weight in place of it, is loaded."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
        strict: bool, missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        hook, key = self.fn, prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{hook.name}.version")
        if version is not None and version >= 1:
            return
        new = all(key + end in state_dict for end in ("_orig", "_u", "_v"))
        if version is None and new and key not in state_dict:  # constructed by hand
            return
        missing = [key + end for end in ("_orig", "", "_u") if key + end not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        with no_grad():
            original, weight = state_dict[f"{key}_orig"], state_dict.pop(key)
            sigma = (original / weight).mean()
            matrix = as_matrix(original, hook.dim)
            state_dict[f"{key}_v"] = hook._solve_v_and_rescale(
                matrix, state_dict[f"{key}_u"], sigma
            )


class SpectralNormStateDictHook:
    """Records the version in the metadata of a state."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, module: Any, state_dict: Any, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Divide a weight by its largest singular value before each call of the module.

    Power iteration estimates the singular value, by some steps for each call in training.
    ``parametrizations.spectral_norm`` is the newer form.

    Args:
        n_power_iterations: steps of the power iteration for each call.
        eps: lower bound of norms.
        dim: dimension of the weight that corresponds to outputs; follows from the module by
            default.

    Example:
        >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(20, 40))
        >>> layer.weight_u.shape
        torch.Size([40])
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Remove spectral normalization: the weight becomes a parameter again.

    Example:
        >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 1))
        >>> _ = torch.nn.utils.remove_spectral_norm(layer)
        >>> sorted(name for name, _ in layer.named_parameters())
        ['bias', 'weight']
    """
    hook = removed_hook(SpectralNorm, "spectral_norm", module, name)
    hook.remove(module)
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for hook_id in [i for i, h in hooks.items() if getattr(h, "fn", None) is hook]:
            del hooks[hook_id]
    return module


__all__ = [
    "SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook",
    "remove_spectral_norm", "spectral_norm",
]  # fmt: skip
