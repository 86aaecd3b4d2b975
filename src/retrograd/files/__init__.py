"""Saving and loading: PyTorch's ``.pt`` files, safetensors files, training checkpoints.

``docs/files.md`` says what is in the files.
"""

from retrograd.files._checkpoints import load_checkpoint, save_checkpoint
from retrograd.files._folders import Checkpoints
from retrograd.files._format import FileFormatError
from retrograd.files._saving import load, save

__all__ = [
    "Checkpoints", "FileFormatError", "load", "load_checkpoint", "save", "save_checkpoint",
]  # fmt: skip
