"""``nn.utils.stateless.functional_call``, the older name of ``torch.func.functional_call``."""

from __future__ import annotations

from typing import Any

from retrograd.func import functional_call as _functional_call


def functional_call(
    module: Any, parameters_and_buffers: Any, args: Any = None, kwargs: Any = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other parameters and buffers. Use ``torch.func.functional_call``.

    Args:
        module: the module.
        parameters_and_buffers: tensors by name.
        args: the argument of the module, or a tuple of its arguments.
        kwargs: its keyword arguments.
        tie_weights: whether parameters that are the same tensor stay so.
        strict: whether names must match exactly.

    Returns:
        What the module returns.
    """
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


__all__ = ["functional_call"]
