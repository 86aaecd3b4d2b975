"""Tracing into graphs, of which there are none: see ``torch.fx``."""

from __future__ import annotations

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> None:
    """Returns the tracing that is under way.

    Returns:
        None, since nothing is ever traced.
    """
