"""Modules, and hooks of all of them, where PyTorch has them."""

from retrograd.nn._calling import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from retrograd.nn.module import Module

__all__ = ["Module", "register_module_forward_hook", "register_module_forward_pre_hook",
           "register_module_full_backward_hook",
           "register_module_full_backward_pre_hook"]  # fmt: skip
