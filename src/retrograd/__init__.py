"""PyTorch's autograd as a standalone library on NumPy arrays.

>>> import retrograd as torch
>>> x = torch.tensor([1.0, 3.0], requires_grad=True)
>>> (x**2).sum().backward()
>>> x.grad
tensor([2., 6.])
"""

import gc as _gc
import math as _math
import warnings as _warnings
from typing import Any as _Any

# All that is made now is made to stay. Looking through it for garbage, again and again while it
# grows, takes as long as a tenth of it.
_collects = _gc.isenabled()
_gc.disable()
try:
    # NumPy first, from here: Python gets slow where the call stack grows past a page, and further
    # in, that happened to be amid NumPy's own import, which then took half as long again.
    from retrograd import arrays as _arrays  # noqa: F401
    from retrograd import autograd
    from retrograd import tensor as _tensor  # noqa: F401
finally:
    if _gc.get_freeze_count() == 0:
        # It would be looked through once more as soon as the collector is on again. This moves it
        # to the oldest generation without a look, in no time.
        _gc.freeze()
        _gc.unfreeze()
    if _collects:
        _gc.enable()

from retrograd import ops as _ops
from retrograd._tracebacks import install as _install_tracebacks
from retrograd.arrays import _dtypes as _dtypes
from retrograd.arrays._dtypes import (
    bfloat16,
    can_cast,
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    set_default_dtype,
    short,
    uint8,
    uint16,
    uint32,
    uint64,
)
from retrograd.autograd._wrap import Plug as _Plug
from retrograd.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from retrograd.ops._arguments import Plug as _OperandPlug
from retrograd.tensor._creation import empty, eye, full, ones, scalar_tensor, tensor, zeros
from retrograd.tensor._device import device, get_default_device, set_default_device
from retrograd.tensor._memory_formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from retrograd.tensor._public import names_in as _names_in
from retrograd.tensor._public import namespace as _namespace
from retrograd.tensor._queries import (
    detach,
    equal,
    get_device,
    is_complex,
    is_floating_point,
    is_inference,
    is_tensor,
    numel,
    result_type,
)
from retrograd.tensor._tensor import Size, Tensor

# Functions of tensors are put into this module when they are first used. Among them are names that
# Python has too (sum, abs, all...), so nothing in this module may use those for Python's own.
bool, float, int = _dtypes.bool_, _dtypes.float32, _dtypes.int32  # noqa: A001
newaxis = None
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
__version__ = "0.1.0"

# PyTorch computes log(0) and 0/0 without a word. So does NumPy, when called from here.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"retrograd\.")

# Names of PyTorch's older interface, and settings.
_OLDER = (
    "BoolTensor", "ByteTensor", "CharTensor", "ComplexDoubleTensor", "ComplexFloatTensor",
    "BFloat16Tensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
    "ShortTensor",
    "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "BFloat16Storage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage",
    "ShortStorage",
    "TypedStorage", "UntypedStorage", "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode", "get_float32_matmul_precision", "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_storage", "is_warn_always_enabled",
    "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "typename",
    "use_deterministic_algorithms",
)  # fmt: skip
# Loaded when first used: importing the package should cost little more than importing NumPy.
_LATER = {
    "as_tensor": "tensor._conversion", "asarray": "tensor._conversion",
    "empty_like": "tensor._like", "full_like": "tensor._like", "ones_like": "tensor._like",
    "zeros_like": "tensor._like",
    "from_dlpack": "tensor._conversion", "from_numpy": "tensor._conversion",
    "Generator": "tensor._rng", "default_generator": "tensor._rng", "get_rng_state": "tensor._rng",
    "initial_seed": "tensor._rng", "manual_seed": "tensor._rng", "seed": "tensor._rng",
    "set_rng_state": "tensor._rng", "set_printoptions": "arrays._format",
    "bartlett_window": "tensor._windows", "blackman_window": "tensor._windows",
    "hamming_window": "tensor._windows", "hann_window": "tensor._windows",
    "kaiser_window": "tensor._windows",
    "arange": "tensor._ranges", "linspace": "tensor._ranges", "logspace": "tensor._ranges",
    "range": "tensor._ranges",
    "normal": "tensor._randoms", "rand": "tensor._randoms", "rand_like": "tensor._randoms",
    "randint": "tensor._randoms", "randint_like": "tensor._randoms", "randn": "tensor._randoms",
    "randn_like": "tensor._randoms", "randperm": "tensor._randoms",
    "broadcast_shapes": "tensor._indices", "tril_indices": "tensor._indices",
    "triu_indices": "tensor._indices",
    "empty_permuted": "tensor._memory", "empty_strided": "tensor._memory",
    "frombuffer": "tensor._memory", "finfo": "tensor._limits", "iinfo": "tensor._limits",
    "_dirichlet_grad": "ops.gammas", "_sample_dirichlet": "ops.gammas",
    "_standard_gamma": "ops.gammas", "_standard_gamma_grad": "ops.gammas",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode",
    "is_anomaly_enabled": "autograd.anomaly_mode",
    "autocast": "amp", "get_autocast_dtype": "amp.autocast_mode", "is_autocast_available": "amp",
    "is_autocast_enabled": "amp.autocast_mode",
    "load": "files", "save": "files", "compile": "compiler",
    **dict.fromkeys((
        "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "sparse_coo_tensor",
        "sparse_compressed_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor",
        "sparse_bsc_tensor", "spmm", "dsmm",
    ), "sparse"),
    **dict.fromkeys(_OLDER, "tensor._legacy"),
    **dict.fromkeys(("chalf", *[t.name for t in _dtypes.ABSENT]), "arrays._dtypes"),
    "_protocols": "numpy_protocols", "_assert": "_utils", "_assert_async": "_utils",
    "_check": "_utils", "SymBool": "_utils", "SymFloat": "_utils", "SymInt": "_utils",
    "OutOfMemoryError": "cuda",
    "cond": "func._control", "scan": "func._control", "while_loop": "func._control",
    "vmap": "func", "get_num_threads": "tensor._limits", "set_num_threads": "tensor._limits",
}  # fmt: skip
_MODULES = (
    "accelerator", "amp", "array_api", "backends", "compiler", "cuda", "distributed",
    "distributions", "export", "fft", "files", "func", "functional", "fx", "hub", "integrate",
    "interpolate", "jit", "library", "linalg", "masked", "mps", "multiprocessing", "nested", "nn",
    "onnx", "optim", "optimize", "overrides", "pipeline", "profiler", "quasirandom", "random",
    "serialization", "signal", "sparse", "special", "storage", "testing", "types", "utils",
    "version", "viz", "xpu",
)  # fmt: skip
_PRIVATE = (
    "_C", "__config__", "_aten", "_dynamo", "_higher_order_ops", "_subclasses", "_utils", "devices",
)  # fmt: skip
_function, _FUNCTIONS = _namespace("retrograd", "torch")


def __getattr__(name: str) -> _Any:
    import importlib

    if name in _MODULES or name in _PRIVATE:
        return importlib.import_module(f"retrograd.{name}")
    if name == "torch":  # PyTorch's module has its own name, too
        return importlib.import_module("retrograd")
    if name.startswith("_foreach_"):
        return importlib.import_module("retrograd.tensor._foreach").over_lists(name)
    if name not in _LATER:
        return _function(name)
    value = globals()[name] = getattr(importlib.import_module(f"retrograd.{_LATER[name]}"), name)
    return value


_install_tracebacks()
_Plug.compiler = lambda: __getattr__("compiler")
_Plug.protocols = lambda: __getattr__("_protocols")
_Plug.sparse = _OperandPlug.sparse = lambda: __getattr__("sparse")
_Plug.array_api = lambda: __getattr__("array_api")
_ops.LATER["aten"] = lambda: __getattr__("_aten").aten
_Plug.devices = lambda: __getattr__("devices")


def __dir__() -> list[str]:
    return list({*globals(), *_LATER, *_MODULES, *_names_in("torch")})


__all__ = [
    "Generator", "Size", "Tensor", "arange", "as_tensor", "asarray", "autocast", "autograd",
    "bartlett_window", "bfloat16", "blackman_window", "bool", "broadcast_shapes", "can_cast",
    "cdouble", "cfloat", "channels_last", "channels_last_3d", "compile", "complex64", "complex128",
    "cond", "contiguous_format", "default_generator", "detach", "device", "double", "dtype", "e",
    "empty", "empty_like", "empty_permuted", "empty_strided", "enable_grad", "equal", "eye",
    "finfo", "float", "float16", "float32", "float64", "from_dlpack", "from_numpy", "frombuffer",
    "full", "full_like", "get_autocast_dtype", "get_default_device", "get_default_dtype",
    "get_device", "get_num_threads", "get_rng_state", "half", "hamming_window", "hann_window",
    "iinfo", "inf", "inference_mode", "initial_seed", "int", "int8", "int16", "int32", "int64",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_autocast_available",
    "is_autocast_enabled", "is_complex", "is_floating_point", "is_grad_enabled", "is_inference",
    "is_inference_mode_enabled", "is_tensor", "kaiser_window", "layout", "linspace", "load",
    "logspace", "long", "manual_seed", "memory_format", "nan", "newaxis", "no_grad", "normal",
    "numel", "ones", "ones_like", "pi", "preserve_format", "promote_types", "rand", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "randperm", "range", "result_type", "save",
    "scalar_tensor", "scan", "seed", "set_default_device", "set_default_dtype", "set_grad_enabled",
    "set_num_threads", "set_printoptions", "set_rng_state", "short", "strided", "tensor",
    "tril_indices", "triu_indices", "uint8", "uint16", "uint32", "uint64", "vmap", "while_loop",
    "zeros", "zeros_like",
]  # fmt: skip
__all__ += [*_MODULES, *_FUNCTIONS, *_OLDER]
