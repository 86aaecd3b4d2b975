"""``torch._higher_order_ops``: where PyTorch keeps ``scan``, beside the other control flow."""

from retrograd.func._control import cond, scan, while_loop

__all__ = ["cond", "scan", "while_loop"]
