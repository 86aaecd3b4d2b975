"""``torch.backends``: flags of PyTorch's backends, none of which is available.

Flags can be set and read. They change nothing.

>>> import retrograd as torch
>>> torch.backends.cudnn.benchmark = True
>>> torch.backends.cudnn.is_available(), torch.backends.mps.is_available()
(False, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from retrograd._later import virtual

_FLAGS: dict[str, dict[str, Any]] = {
    "cudnn": {"enabled": True, "benchmark": False, "deterministic": False, "allow_tf32": True,
              "benchmark_limit": 10, "fp32_precision": "none"},
    "cuda": {"matmul": {"allow_tf32": False, "allow_fp16_reduced_precision_reduction": True,
                        "allow_bf16_reduced_precision_reduction": True, "fp32_precision": "none"},
             "cufft_plan_cache": {"size": 0, "max_size": 4096}},
    "mps": {}, "mkl": {"VERBOSE_OFF": 0, "VERBOSE_ON": 1},
    "mkldnn": {"enabled": True, "deterministic": False, "allow_tf32": True,
               "fp32_precision": "none"},
    "openmp": {}, "opt_einsum": {"enabled": True, "strategy": "auto"},
    "quantized": {"engine": "none", "supported_engines": ["none"]}, "nnpack": {},
}  # fmt: skip


class _Flags:
    """Settings in a group of their own."""

    def __init__(self, flags: dict[str, Any]) -> None:
        self.__dict__.update(flags)


def _no(*given: Any) -> bool:
    """Whether the library is there: no."""
    return False


def _none() -> None:
    """The version of the library: there is none."""


def _setting(module: ModuleType) -> Callable[..., Any]:
    @contextmanager
    def flags(**given: Any) -> Iterator[None]:
        """Set flags for the length of a ``with`` block. They change nothing."""
        before = {name: getattr(module, name, None) for name in given}
        module.__dict__.update(given)
        try:
            yield
        finally:
            module.__dict__.update(before)

    return flags


def _scaled_dot_product(module: ModuleType) -> None:
    """The switches of attention in ``backends.cuda``, of which one way of computing is there."""
    enabled = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}

    def pair(name: str) -> None:
        def get() -> bool:
            return enabled[name]

        def set_to(enabled_: bool) -> None:
            enabled[name] = bool(enabled_)

        setattr(module, f"{name}_sdp_enabled", get)
        setattr(module, f"enable_{name}_sdp", set_to)

    for name in enabled:
        pair(name)

    @contextmanager
    def sdp_kernel(
        enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
        enable_cudnn: bool = True,
    ) -> Iterator[None]:  # fmt: skip
        """Choose how attention is computed. There is one way, so nothing changes."""
        yield

    module.sdp_kernel = sdp_kernel  # type: ignore[attr-defined]


for _name, _flags in _FLAGS.items():
    _members = {k: _Flags(v) if isinstance(v, dict) else v for k, v in _flags.items()}
    _module = virtual(
        f"{__name__}.{_name}", f"What programs ask of ``torch.backends.{_name}``.",
        {**_members, "is_available": _no, "version": _none},
    )  # fmt: skip
    _module.flags = _setting(_module)  # type: ignore[attr-defined]
    globals()[_name] = _module
_cuda: Any = globals()["cuda"]
_cuda.is_built = _cuda.is_flash_attention_available = _no
_scaled_dot_product(_cuda)
globals()["cudnn"].is_acceptable = globals()["mps"].is_built = _no
globals()["mps"].is_macos13_or_newer = globals()["mps"].is_macos_or_newer = _no

__all__ = sorted(_FLAGS)
