"""``torch.amp.autocast``: operations in lower precision where that is safe.

Under ``autocast`` an operation of the first list computes in bfloat16 or float16, one of the second
in float32, and one of the third in the widest dtype of its operands. All others compute in the
dtypes of their operands. The lists are those of PyTorch for the CPU.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from retrograd._modes import Scope, modes, within
from retrograd.arrays import dtypes
from retrograd.autograd._wrap import Plug
from retrograd.ops import copies
from retrograd.ops._operation import Operation
from retrograd.tensor._calls import apply
from retrograd.tensor._device import COMPUTES
from retrograd.tensor._tensor import Tensor

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

# The names of operations, and of functions composed of several operations.
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
    """How ``autocast`` casts the operands of operations and of composite functions."""

    def __init__(self, dtype: Any, device: str) -> None:
        self.dtype = dtype
        self.device = device  # the type of device whose tensors are converted
        self.tasks = modes.tasks  # backward passes inside the context are not affected

    def again(self) -> _Casting:
        """The same, for a function that a backward pass runs again."""
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
        """Call a function. If it is on a list, all its operations compute in one dtype."""
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
        """Whether tensors are on the device. (``meta`` counts as the CPU.)"""
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
    """A tensor of float32, float16 or bfloat16 in another dtype. Others are unchanged."""
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
        dtype: dtypes.dtype = modes.autocast.dtype
        return dtype
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
