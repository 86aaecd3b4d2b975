"""``torch.amp``: operations in lower precision where that is safe, and scaling of losses."""

from __future__ import annotations

from retrograd.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from retrograd.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
