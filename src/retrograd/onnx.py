"""``torch.onnx``: there is no export to ONNX; this says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export"]

_ONNX = (
    "retrograd does not write ONNX files: save the weights by torch.save(model.state_dict(), "
    "'state.pt'), load them into the same model in PyTorch, and export that."
)


def export(model: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: there is no export to ONNX.

    Args:
        model: The module.
        *args: Its arguments, and the file.
        **kwargs: Options.

    Returns:
        Nothing.
    """
    raise NotImplementedError(_ONNX)


def is_in_onnx_export() -> bool:
    """Tests whether a model is being exported.

    Returns:
        False.
    """
    return False


def __getattr__(name: str) -> NoReturn:
    error = AttributeError(f"module {__name__!r} has no attribute {name!r}: {_ONNX}")
    error.name = name
    raise error
