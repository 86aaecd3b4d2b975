"""A chain of functions, checkpointed in segments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from retrograd.utils.checkpoint._recompute import checkpoint


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, *,
    preserve_rng_state: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Applies functions one after the other, in segments of which all but the last are
    checkpointed.

    Args:
        functions: a list of functions, or an ``nn.Sequential``.
        segments: number of segments.
        input: the argument of the first function.
        use_reentrant: see ``checkpoint``.
        preserve_rng_state: draw the same random numbers in both runs.
        kwargs: none are accepted.

    Returns:
        The result of the last function.

    Example:
        >>> from retrograd.utils.checkpoint import checkpoint_sequential
        >>> x = torch.ones(1, requires_grad=True)
        >>> y = checkpoint_sequential([torch.sin, torch.exp, torch.tanh], 3, x, use_reentrant=False)
        >>> y.backward(); x.grad
        tensor([0.0475])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly. In version 2.9 we will raise an exception if use_reentrant is not "
            "passed. use_reentrant=False is recommended, but if you need to preserve the current "
            "default behavior, you can pass use_reentrant=True. Refer to docs for more details on "
            "the differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(chain) // segments
    if size == 0:
        raise ValueError(
            f"cannot divide {len(chain)} functions into {segments} segments: each needs one"
        )
    value, rest = input, size * (segments - 1)
    for start in range(0, rest, size):
        segment = _in_order(chain[start : start + size])
        value = checkpoint(
            segment, value, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return _in_order(chain[rest:])(value)


def _in_order(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def segment(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return segment
