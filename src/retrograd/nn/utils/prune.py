"""Pruning: masks that keep entries of parameters at zero.

A pruned parameter ``weight`` is replaced by ``weight_orig``, which is trained, and a buffer
``weight_mask``; ``weight`` itself is their product, computed before each call of the module.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

from retrograd.ops._sections import complete_all, like
from retrograd.tensor._like import ones_like
from retrograd.tensor._randoms import rand, rand_like
from retrograd.tensor._tensor import Tensor


def _count(amount: Any, total: int) -> int:
    """How many of a number of entries an amount is: a share of them, or a count."""
    return int(amount) if _is_count(amount) else round(amount * total)


def _is_count(amount: Any) -> bool:
    return isinstance(amount, numbers.Integral)


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    _check_range(amount)


def _check_range(amount: Any) -> None:
    whole = _is_count(amount)
    if (whole and amount < 0) or (not whole and not 0.0 <= amount <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _check_fits(amount: Any, total: int) -> None:
    if _is_count(amount) and amount > total:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={total}"
        )


class BasePruningMethod:
    """The base class of pruning methods. A subclass sets ``PRUNING_TYPE`` and overrides
    ``compute_mask``."""

    PRUNING_TYPE: str = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Choose the entries to keep.

        Args:
            t: the importance of each entry.
            default_mask: the entries that are kept so far.

        Returns:
            A mask of ones and zeros.
        """
        raise NotImplementedError

    def apply_mask(self, module: Any) -> Tensor:
        """Compute the pruned parameter.

        Args:
            module: the module.

        Returns:
            The product of the mask and the original parameter.
        """
        name = self._tensor_name
        mask, original = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
        result: Tensor = mask.to(dtype=original.dtype) * original
        return result

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module; pruning it again prunes further entries.

        Args:
            module: the module.
            name: the name of the parameter.
            args, kwargs: the arguments of the method.
            importance_scores: the importance of each entry. The default is the parameter itself.

        Returns:
            The method.
        """
        hooks = module._forward_pre_hooks
        existing = [key for key, hook in hooks.items()
                    if isinstance(_function(hook), BasePruningMethod)
                    and _function(hook)._tensor_name == name]  # fmt: skip
        assert len(existing) <= 1, "a parameter is pruned by one method"
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if existing:
            old = _function(hooks.pop(existing[0]))
            container = PruningContainer()
            container._tensor_name = name
            for part in old if isinstance(old, PruningContainer) else (old,):
                container.add_pruning_method(part)
            container.add_pruning_method(method)
            method = container
        parameter = getattr(module, name)
        scores = parameter if importance_scores is None else importance_scores
        if scores.shape != parameter.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if not existing:
            module.register_parameter(f"{name}_orig", module._parameters.pop(name))
            mask = ones_like(parameter)
        else:
            mask = getattr(module, f"{name}_mask").detach().clone()
        try:
            mask = method.compute_mask(scores, default_mask=mask)
        except Exception:
            if not existing:
                parameter = module._parameters.pop(f"{name}_orig")
                module.register_parameter(name, parameter)
            raise
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """Prune a tensor that is not a parameter.

        Args:
            t: the tensor.
            default_mask: the entries that are kept so far.
            importance_scores: the importance of each entry. The default is the tensor itself.

        Returns:
            The product of the mask and the tensor.
        """
        scores = t if importance_scores is None else importance_scores
        default_mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make pruning permanent: an ordinary parameter replaces the mask.

        Args:
            module: the module.
        """
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.data = weight.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _function(hook: Any) -> Any:
    """What a hook of a module calls."""
    return getattr(hook, "function", hook)


class PruningContainer(BasePruningMethod):
    """A sequence of methods that prune the same parameter.

    Args:
        *args: the methods.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method.

        Args:
            method: the method, of the same parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        # The last method chooses, among the entries that are kept so far.
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            kept: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()  # type: ignore[attr-defined]
            others = [d for d in range(t.dim()) if d != dim]
            rows = mask.sum(dim=others) != 0
            kept = tuple([slice(None)] * dim + [rows])
        elif method.PRUNING_TYPE == "global":
            kept = tuple([slice(None)] * t.dim())
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        partial = method.compute_mask(t[kept], default_mask=mask[kept])
        new = mask.clone()
        new[kept] = partial.to(dtype=mask.dtype)
        return new


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes entries at random."""

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        return -rand_like(t)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _check_fits(self.amount, t.nelement())
        count, mask = _count(self.amount, t.nelement()), default_mask.clone()
        if count:
            least = self._scores(t).reshape(-1).topk(count, largest=False)
            mask.view(-1)[least.indices] = 0
        return mask


class L1Unstructured(RandomUnstructured):
    """Prunes the entries that are smallest in absolute value."""

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class RandomStructured(BasePruningMethod):
    """Prunes whole channels at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        total, count = _channels(t, self.amount, self.dim)
        if not count:
            return default_mask
        chances = rand(total, device=t.device)
        threshold = chances.kthvalue(count).values
        return default_mask * _along(t, (chances > threshold), self.dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels that are smallest by a norm.

    Args:
        n: the order of the norm.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        total, count = _channels(t, self.amount, self.dim)
        if not count:
            return default_mask
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = t.norm(p=self.n, dim=others)
        kept_indices = norms.topk(total - count, largest=True).indices
        chosen = norms.new_zeros(total)
        chosen[kept_indices] = 1
        return default_mask * _along(t, chosen, self.dim)


def _channels(t: Tensor, amount: Any, dim: int) -> tuple[int, int]:
    """How many channels there are, and how many are to be pruned."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {tuple(t.shape)} with {t.dim()} dims"
        )
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")
    total = t.shape[dim]
    _check_fits(amount, total)
    return total, _count(amount, total)


def _along(t: Tensor, chosen: Tensor, dim: int) -> Tensor:
    """A mask of the shape of ``t`` that chooses along a dimension."""
    shape = [1] * t.dim()
    shape[dim] = -1
    mask: Tensor = chosen.to(t.dtype).reshape(shape).expand(t.shape).clone()
    return mask


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask.

    Args:
        mask: ones and zeros.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -- functions -------------------------------------------------------------------------------


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the entries of a parameter that are smallest in absolute value.

    Args:
        amount: how many entries, or which share of them.
        importance_scores: the importance of each entry. The default is the parameter itself.

    Returns:
        The module.

    Example:
        >>> from retrograd.nn.utils import prune
        >>> layer = prune.l1_unstructured(torch.nn.Linear(4, 2), "weight", amount=0.5)
        >>> int((layer.weight == 0).sum())
        4
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


@like(l1_unstructured)
def identity(module: Any, name: str) -> Any:
    """Add a mask of ones to a parameter, which prunes nothing."""
    Identity.apply(module, name)
    return module


@like(l1_unstructured)
def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune entries of a parameter at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


@like(l1_unstructured)
def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune channels of a parameter at random.

    Args:
        amount: how many channels, or which share of them.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


@like(l1_unstructured)
def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels of a parameter that are smallest by a norm.

    Args:
        amount: how many channels, or which share of them.
        n: the order of the norm.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: type[BasePruningMethod],
    importance_scores: Any = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune parameters of several modules as if they were one.

    Args:
        parameters: pairs of modules and names of their parameters.
        pruning_method: the class of the method, such as ``L1Unstructured``.
        importance_scores: the importance of entries, by module and name.
        **kwargs: the arguments of the method.
    """
    from retrograd.nn.utils.convert_parameters import parameters_to_vector

    pairs, scores = list(parameters), importance_scores or {}
    importance = parameters_to_vector(
        [scores.get(pair, getattr(pair[0], pair[1])) for pair in pairs]
    )
    default = parameters_to_vector(
        [getattr(m, f"{n}_mask", ones_like(getattr(m, n))) for m, n in pairs]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    mask, start = container.compute_mask(importance, default), 0
    for module, name in pairs:
        parameter = getattr(module, name)
        part = mask[start : start + parameter.numel()].view_as(parameter)
        custom_from_mask(module, name, mask=part)
        start += parameter.numel()


@like(l1_unstructured)
def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune a parameter by a mask.

    Args:
        mask: ones for what is kept, and zeros.
    """
    CustomFromMask.apply(module, name, mask)
    return module


@like(l1_unstructured)
def remove(module: Any, name: str) -> Any:
    """Make the pruning of a parameter permanent: an ordinary parameter replaces the mask."""
    for key, hook in module._forward_pre_hooks.items():
        method = _function(hook)
        if isinstance(method, BasePruningMethod) and method._tensor_name == name:
            method.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Any) -> bool:
    """Whether a module, or one inside of it, has a pruned parameter."""
    return any(
        isinstance(_function(hook), BasePruningMethod)
        for _, part in module.named_modules()
        for hook in part._forward_pre_hooks.values()
    )


__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


complete_all(globals(), {
    "module": "the module.",
    "name": "the name of the parameter.",
    "amount": "how many, or which share of them.",
    "dim": "the dimension of the channels.",
})  # fmt: skip
