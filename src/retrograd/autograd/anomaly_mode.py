"""Anomaly mode: errors in backward are shown with the forward call that caused them."""

from __future__ import annotations

import warnings
from typing import Any

from retrograd._modes import Scope, modes, set_modes


class set_detect_anomaly(Scope):  # noqa: N801 - PyTorch's name
    """Switches anomaly detection on or off: see ``detect_anomaly``.

    It takes effect with the call. As a context manager, it restores the previous mode at its end.

    Args:
        mode: whether to detect anomalies.
        check_nan: raise an error for gradients that are NaN.

    Example:
        >>> with torch.autograd.set_detect_anomaly(False):
        ...     torch.is_anomaly_enabled()
        False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._changes = {"anomaly": bool(mode), "check_nan": bool(check_nan)}
        self._before = {"anomaly": modes.anomaly, "check_nan": modes.check_nan}
        try:
            set_modes(**self._changes)
        except BaseException:  # an interrupt
            set_modes(**self._before)
            raise

    def changes(self) -> dict[str, Any]:
        set_modes(**self._before)  # what holds outside, and so afterwards
        return self._changes


class detect_anomaly(Scope):  # noqa: N801
    """A context manager that detects anomalies in backward passes.

    Every node remembers the traceback of the forward call that created it, and an error in the node
    shows it. A gradient that is NaN is such an error. This takes time: use it to debug.

    Args:
        check_nan: raise an error for gradients that are NaN.

    Example:
        >>> import warnings, retrograd as torch
        >>> x = torch.zeros(1, requires_grad=True)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # the warning that this takes time
        ...     with torch.autograd.detect_anomaly():
        ...         (x.sqrt() * 0).sum().backward()
        Traceback (most recent call last):
        ...
        RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def changes(self) -> dict[str, Any]:
        return {"anomaly": True, "check_nan": self.check_nan}


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread.

    Example:
        >>> torch.is_anomaly_enabled()
        False
    """
    return modes.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection raises an error for gradients that are NaN.

    Example:
        >>> torch.is_anomaly_check_nan_enabled()
        True
    """
    return modes.check_nan


__all__ = ["detect_anomaly", "set_detect_anomaly"]
