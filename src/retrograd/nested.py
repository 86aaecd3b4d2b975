"""``torch.nested``: there are no nested tensors; this says what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["as_nested_tensor", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor"]


def nested_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: there are no nested tensors.

    Args:
        *args: What PyTorch takes.
        **kwargs: What PyTorch takes.

    Returns:
        Nothing.
    """
    raise NotImplementedError(
        "retrograd has no nested tensors: pad tensors of different lengths to one tensor by "
        "torch.nn.utils.rnn.pad_sequence and pass a mask, or keep them in a list."
    )


as_nested_tensor = nested_tensor_from_jagged = to_padded_tensor = nested_tensor
