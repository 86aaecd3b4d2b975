"""``torch.amp``: operations in lower precision where that is safe, and scaling of losses.

Under ``autocast`` an operation of the first list computes in bfloat16 or float16, one of the second
in float32, and one of the third in the widest dtype of its operands. All others compute in the
dtype that they are given. The lists are those that PyTorch has for the CPU.
"""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import Scope, modes, within
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import Plug
from retrograd.autograd.grad_mode import no_grad
from retrograd.ops import copies
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import apply
from retrograd.tensor._creation import full
from retrograd.tensor._device import COMPUTES
from retrograd.tensor._tensor import Tensor

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

# By the names of operations, and of functions that are made of several.
_LOWER = frozenset((
    "addbmm", "addmm", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_tbc",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution", "correlation",
    "gru_layer", "linear", "lstm_layer", "matmul", "mm", "prelu", "rnn_layer",
    "scaled_dot_product_attention", "vecdot",
))  # fmt: skip
_FULL = frozenset((
    "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d", "binary_cross_entropy",
    "binary_cross_entropy_losses", "binary_cross_entropy_with_logits", "cdist", "cholesky",
    "cholesky_ex", "cholesky_inverse", "cholesky_solve", "cond", "cosine_embedding_loss",
    "cross_entropy", "ctc_loss", "eig", "eigenvalues", "eigh", "eigvals", "eigvalsh",
    "euclidean_dist", "fft", "fft2", "fft_c2c", "fft_c2r", "fft_r2c", "fftn",
    "fractional_max_pool2d", "fractional_max_pool3d", "geqrf", "grid_sample", "grid_sampler_2d",
    "grid_sampler_3d", "hermitian_eigenvalues", "hfft", "hinge_embedding_loss",
    "householder_product", "huber_loss", "ifft", "ifft2", "ifftn", "ihfft", "inv", "inv_ex",
    "inverse", "irfft", "irfft2", "irfftn", "kl_div", "l1_loss", "linalg_cholesky_ex",
    "linalg_eig", "linalg_eigh", "linalg_inv_ex", "linalg_lstsq", "linalg_lu_factor_ex",
    "linalg_lu_solve", "linalg_pinv", "linalg_qr", "linalg_solve_ex", "linalg_svd", "lstsq",
    "lu_solve", "margin_ranking_loss", "matrix_rank", "max_pool3d", "max_pool3d_with_indices",
    "max_unpool2d", "max_unpool3d", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "nanquantile", "nll_loss", "nll_loss_2d", "orgqr", "ormqr", "pinverse", "poisson_nll_loss",
    "polar", "prod", "prod_dim", "qr", "quantile", "reflection_pad1d", "reflection_pad2d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "rfft", "rfft2", "rfftn",
    "singular_values", "smooth_l1_loss", "soft_margin_loss", "solve", "stft", "svd", "svdvals",
    "tensorinv", "tensorsolve", "trace", "triangular_solve", "triplet_margin_loss",
    "view_as_complex",
))  # fmt: skip
_WIDEST = frozenset(("cat", "index_copy", "stack"))


class _Casting:
    """What ``autocast`` does with operations, and with functions that are made of several."""

    def __init__(self, dtype: Any, device: str) -> None:
        self.dtype = dtype
        self.device = device  # the type of those that tensors are on which are converted
        self.tasks = modes.tasks  # what a backward pass does inside of the context stays as it is

    def again(self) -> _Casting:
        """The same, for a function that is run again in a backward pass."""
        return _Casting(self.dtype, self.device)

    def __call__(self, op: Operation, args: Sequence[Any], options: dict[str, Any],
                 computed: Any) -> Any:  # fmt: skip
        with within(interceptors=modes.interceptors[:-1]):
            if computed is None and modes.tasks == self.tasks:
                target = self._target(op.name, [*args, *options.values()])
                if target is not None:
                    cast = functools.partial(_as, target)
                    args, options = (
                        [cast(x) for x in args],
                        {k: cast(x) for k, x in options.items()},
                    )
            return apply(op, args, options, computed)

    def call(self, name: str, function: Callable[..., Any], args: Any, named: Any) -> Any:
        """Call a function. One on a list computes as a whole in one dtype."""
        target = None
        if modes.tasks == self.tasks:
            target = self._target(name, [*args, *named.values()])
        if target is None:
            return function(*args, **named)
        cast = functools.partial(_as, target)
        others = tuple(x for x in modes.interceptors if x is not self)
        with within(interceptors=others, autocast=None):
            return function(*map(cast, args), **{key: cast(x) for key, x in named.items()})

    def _is_for(self, values: Sequence[Any]) -> bool:
        """Whether tensors are on the device. (The CPU stands for ``meta``, too.)"""
        for x in _flat(values):
            if isinstance(x, Tensor):
                kind = x.device.type
                return kind not in COMPUTES if self.device == "cpu" else kind == self.device
        return True

    def _target(self, name: str, values: Sequence[Any]) -> Any:
        if not self._is_for(values):
            return None
        if name in _LOWER:
            return self.dtype
        if name in _FULL:
            return dtypes.float32
        if name in _WIDEST and _any_float32(values):
            return dtypes.float32
        return None


def _flat(values: Sequence[Any]) -> list[Any]:
    return [x for v in values for x in (v if isinstance(v, (list, tuple)) else (v,))]


def _any_float32(values: Sequence[Any]) -> bool:
    return any(isinstance(x, Tensor) and x.dtype is dtypes.float32 for x in _flat(values))


def _as(target: Any, value: Any) -> Any:
    """A tensor of float32, float16 or bfloat16 in another dtype. Others are left as they are."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "numel"):
        return type(value)([_as(target, x) for x in value])
    if not isinstance(value, Tensor) or value.dtype is target:
        return value
    if value.dtype not in (dtypes.float32, dtypes.float16, dtypes.bfloat16):
        return value
    return copies.to_dtype(value, dtype=target.numpy)


class autocast(Scope):  # noqa: N801 - PyTorch's name
    """A context, or a decorator, in which operations compute in lower precision where that is safe.

    Products and convolutions of tensors on a device compute in ``dtype``. Without a GPU,
    ``"cuda"`` warns and does nothing, as in PyTorch. bfloat16 needs the package ml_dtypes.

    Args:
        device_type: the type of the device, such as ``"cpu"``, ``"cuda"`` or ``"xla"``.
        dtype: the lower precision: bfloat16, the default on the CPU, or float16.
        enabled: whether anything is done.
        cache_enabled: accepted for compatibility; every use of a weight is converted.

    Example:
        >>> with torch.autocast("cpu"):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:  # fmt: skip
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type == "cuda" and not Plug.devices().count("cuda"):
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2
            )
            enabled = False
        elif enabled and self.fast_dtype is dtypes.bfloat16:
            _ = dtypes.bfloat16.numpy  # an error if a package is missing
        elif enabled and self.fast_dtype is not dtypes.float16:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled

    def changes(self) -> dict[str, Any]:
        """The modes that are different inside.

        Returns:
            Their values by name.
        """
        casts = [x for x in modes.interceptors if isinstance(x, _Casting)]
        if not self._enabled and all(x.device != self.device for x in casts):
            return {}
        others = tuple(x for x in modes.interceptors if not isinstance(x, _Casting))
        if not self._enabled:
            return {"interceptors": others, "autocast": None}
        casting = _Casting(self.fast_dtype, self.device)
        return {"interceptors": (*others, casting), "autocast": casting}

    def __enter__(self) -> Any:
        super().__enter__()
        return self

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Makes a function run in the context.

        Args:
            func: the function.

        Returns:
            The function with the context around it.
        """
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you "
                "mean to use autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n        output = model(input)"
            )

        @functools.wraps(func)
        def decorated(*args: Any, **named: Any) -> Any:
            with self:
                return func(*args, **named)

        return decorated


def is_autocast_available(device_type: str) -> bool:
    """Tests whether ``autocast`` knows a kind of device.

    Args:
        device_type: the kind of device.

    Returns:
        True for the CPU, and for devices that XLA computes on.

    Example:
        >>> is_autocast_available("cpu")
        True
    """
    return device_type == "cpu" or device_type in COMPUTES


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Tests whether operations of a device compute in lower precision.

    Args:
        device_type: the kind of device. The default is CUDA, as in PyTorch.

    Example:
        >>> torch.is_autocast_enabled("cpu")
        False
    """
    return modes.autocast is not None and modes.autocast.device == (device_type or "cuda")


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Returns the dtype of the lower precision.

    Args:
        device_type: the kind of device.

    Example:
        >>> torch.get_autocast_dtype("cuda")
        torch.float16
    """
    if is_autocast_enabled(device_type):
        found: dtypes.dtype = modes.autocast.dtype
        return found
    return dtypes.float16 if device_type == "cuda" else dtypes.bfloat16


def custom_fwd(fwd: Any = None, *, device_type: str = "cpu", cast_inputs: Any = None) -> Any:
    """Decorates the ``forward`` of an ``autograd.Function`` for use under ``autocast``.

    Args:
        fwd: the method.
        device_type: the kind of device.
        cast_inputs: the dtype that floating-point inputs are converted to. The method then runs
            without ``autocast``.

    Returns:
        The decorated method, or a decorator.

    Example:
        >>> @custom_fwd(cast_inputs=torch.float16)
        ... def forward(ctx, x): return x
        >>> with torch.autocast("cpu", dtype=torch.float16):
        ...     forward(type("Context", (), {})(), torch.ones(1)).dtype
        torch.float16
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **named: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = is_autocast_enabled(device_type)
        if cast_inputs is None or not args[0]._fwd_used_autocast:
            return fwd(*args, **named)
        args[0]._fwd_used_autocast = False
        cast = functools.partial(_as, cast_inputs)
        with autocast(device_type, enabled=False):
            return fwd(*map(cast, args), **{key: cast(x) for key, x in named.items()})

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str = "cpu") -> Any:
    """Decorates the ``backward`` of an ``autograd.Function``, which then runs with the ``autocast``
    that its ``forward`` ran with.

    Args:
        bwd: the method.
        device_type: the kind of device.

    Returns:
        The decorated method, or a decorator.

    Example:
        >>> @custom_bwd
        ... def backward(ctx, g): return g
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **named: Any) -> Any:
        used = args[0]._fwd_used_autocast
        with autocast(device_type, dtype=args[0]._dtype if used else None, enabled=used):
            return bwd(*args, **named)

    return decorated


# -- scaling -----------------------------------------------------------------------------------


class GradScaler:
    """Scales losses, so that gradients in float16 do not vanish, and steps of an optimizer, which
    it leaves out if a gradient is infinite or NaN.

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
        """Multiplies outputs with the factor.

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
        """Divides the gradients of an optimizer's parameters by the factor.

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
        """Changes the factor, after all steps of an iteration.

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
        """Returns what the factor grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the factor grows by.

        Args:
            new_factor: the number.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Returns what the factor shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the factor shrinks by.

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
