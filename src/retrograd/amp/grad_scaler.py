"""``GradScaler``: scales the loss so that gradients in half precision do not underflow."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

from retrograd.arrays import dtypes
from retrograd.autograd._wrap import Plug
from retrograd.autograd.grad_mode import no_grad
from retrograd.tensor._creation import full
from retrograd.tensor._tensor import Tensor

__all__ = ["GradScaler"]


class GradScaler:
    """Scales losses so that gradients in float16 do not underflow, and skips optimizer steps whose
    gradients are infinite or NaN.

    Without a GPU, for ``"cuda"`` it warns and does nothing, as in PyTorch.

    Args:
        device: the type of the device, such as ``"cpu"`` or ``"cuda"``.
        init_scale: the first factor.
        growth_factor: what the factor is multiplied with after ``growth_interval`` steps.
        backoff_factor: what the factor is multiplied with after a step was left out.
        growth_interval: the number of steps in a row without infinities that make it grow.
        enabled: whether anything is done.

    Example:
        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.scale((2 * w).sum()).backward()
        >>> w.grad
        tensor([8.])
        >>> scaler.step(optimizer); scaler.update(); w
        tensor([0.8000], requires_grad=True)
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16,
                 growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:  # fmt: skip
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not Plug.devices().count("cuda"):
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: Any = None
        self._growth_tracker = 0
        self._per_optimizer_states: Any = defaultdict(_fresh)

    def scale(self, outputs: Any) -> Any:
        """Multiplies outputs by the scale factor.

        Args:
            outputs: a tensor, or nested lists and tuples of them.

        Returns:
            The scaled outputs.
        """
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = full((), self._init_scale, dtype=dtypes.float32)
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(x) for x in outputs])
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _check_scale(self, name: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale factor.

        Args:
            optimizer: the optimizer.
        """
        if not self._enabled:
            return
        self._check_scale("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] == "unscaled":
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        inverse = 1.0 / float(self._scale)
        finite, count = True, 0
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype is dtypes.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    count += 1
                    values = grad._values() if grad.is_sparse else grad
                    finite = finite and bool(values.isfinite().all())
                    if inverse != 1.0:
                        grad.mul_(inverse)
        state.update(stage="unscaled", finite=finite, checked=count > 0)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls ``optimizer.step`` if all gradients are finite, after ``unscale_`` if need be.

        Args:
            optimizer: the optimizer.
            *args: arguments of its ``step``.
            **kwargs: arguments of its ``step``.

        Returns:
            What ``optimizer.step`` returns; None if it was left out.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] == "ready":
            self.unscale_(optimizer)
        if not state["checked"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = optimizer.step(*args, **kwargs) if state["finite"] else None
        state["stage"] = "stepped"
        return result

    def update(self, new_scale: Any = None) -> None:
        """Updates the scale factor. Call it once per iteration, after all steps.

        Args:
            new_scale: the new factor. By default, it shrinks if a gradient was not finite, and
                grows after ``growth_interval`` iterations in which all were.
        """
        if not self._enabled:
            return
        self._check_scale("update")
        if new_scale is not None:
            self._scale = full((), float(new_scale), dtype=dtypes.float32)
        else:
            checked = [s["finite"] for s in self._per_optimizer_states.values() if s["checked"]]
            if not checked:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._update(all(checked))
        self._per_optimizer_states = defaultdict(_fresh)

    def _update(self, finite: bool) -> None:
        factor = 1.0
        self._growth_tracker += 1
        if not finite:
            factor, self._growth_tracker = self._backoff_factor, 0
        elif self._growth_tracker == self._growth_interval:
            factor, self._growth_tracker = self._growth_factor, 0
        changed = self._scale * factor
        if bool(changed.isfinite()):
            self._scale = changed

    def get_scale(self) -> float:
        """Returns the factor.

        Returns:
            The factor; 1 if nothing is done.
        """
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale)

    def get_growth_factor(self) -> float:
        """Returns the growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the growth factor.

        Args:
            new_factor: the number.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Returns the backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the backoff factor.

        Args:
            new_factor: the number.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Returns after how many iterations the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many iterations the factor grows.

        Args:
            new_interval: the number.
        """
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Tests whether anything is done."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, for a checkpoint.

        Returns:
            A dictionary, which is empty if nothing is done.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state.

        Args:
            state_dict: what ``state_dict`` returned.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale = full((), float(state_dict["scale"]), dtype=dtypes.float32)
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


def _fresh() -> dict[str, Any]:
    return {"stage": "ready", "finite": True, "checked": False}
