"""Lazy layers, which infer their input size from the first input."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.autograd.grad_mode import no_grad
from retrograd.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from retrograd.nn.linear import Linear
from retrograd.nn.module import Module
from retrograd.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from retrograd.nn.parameter import Parameter
from retrograd.tensor._creation import empty
from retrograd.tensor._tensor import Tensor

# -- parameters without a shape ------------------------------------------------------------------


class UninitializedTensorMixin:
    """What parameters and buffers have in common whose shape is not known yet."""

    __slots__ = ()

    cls_to_become: ClassVar[type | None] = None

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor memory of a shape.

        Args:
            shape: the shape.
            device: the device; by default, that it was created with.
            dtype: the dtype; by default, that it was created with.
        """
        this: Any = self
        made = empty(tuple(shape), device=device or this.device, dtype=dtype or this.dtype)
        this._data = made._data
        this.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """RuntimeError: it is not known yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        """RuntimeError: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        this: Any = self
        if id(self) not in memo:
            memo[id(self)] = type(this)(this.requires_grad, this.device, this.dtype)
        return memo[id(self)]


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    Args:
        requires_grad: whether gradients are computed.
        device: the device that it will be on.
        dtype: the dtype that it will have.

    Example:
        >>> weight = torch.nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> weight.shape
        torch.Size([2, 3])
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return Parameter.__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        pass


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet.

    Args:
        requires_grad: whether gradients are computed.
        device: the device that it will be on.
        dtype: the dtype that it will have.
        persistent: whether it is part of ``state_dict``.
    """

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                persistent: bool = True) -> Any:  # fmt: skip
        tensor = object.__new__(cls)
        tensor._data = empty(0, device=device, dtype=dtype)._data
        tensor._node = tensor._version_counter = tensor._meta = None
        return tensor

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                 persistent: bool = True) -> None:  # fmt: skip
        pass


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


# -- modules -------------------------------------------------------------------------------------


class LazyModuleMixin:
    """Mixin for modules that create their parameters on the first call.

    A subclass creates parameters as ``UninitializedParameter``, and overrides
    ``initialize_parameters``, which is given the first input and calls ``materialize``.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        this: Any = self
        this._initialize_hook = this.register_forward_pre_hook(
            this._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Initialize the parameters from the inputs of the first call. Override it.

        Args:
            args, kwargs: what the module is called with.
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self)}")

    def has_uninitialized_params(self) -> bool:
        """Whether some parameter or buffer has no shape yet."""
        this: Any = self
        return any(map(is_lazy, (*this._parameters.values(), *this._buffers.values())))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        del module._initialize_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        this: Any = self
        for name, tensor in this._local_state().items():
            whole = is_lazy(tensor) or keep_vars
            destination[prefix + name] = tensor if whole else tensor.detach()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        this: Any = self
        for name, tensor in this._local_state().items():
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(tensor) and not is_lazy(given):
                with no_grad():
                    tensor.materialize(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]


class LazyLinear(LazyModuleMixin, Linear):
    """A ``Linear`` whose ``in_features`` is the size of the last dimension of the first input.

    Args:
        out_features: size of the output.
        bias: whether to add a learned bias.
        device: the device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        Input: ``(*, in_features)``. Output: ``(*, out_features)``.

    Example:
        >>> layer = torch.nn.LazyLinear(3)
        >>> layer(torch.ones(1, 5)).shape, layer
        (torch.Size([1, 3]), Linear(in_features=5, out_features=3, bias=True))
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        factory = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**factory)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(**factory)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        self.in_features = self.in_features or input.shape[-1]  # of a state that was loaded


class _LazyConvolution(LazyModuleMixin):
    """A convolution whose number of input channels is that of the first input."""

    def __init__(
        self, out_channels: int, kernel_size: Any, *options: Any, bias: bool = True,
        device: Any = None, dtype: Any = None, **named: Any,
    ) -> None:  # fmt: skip
        # Without channels there is nothing to check, and nothing to draw.
        super().__init__(0, 0, kernel_size, *options, bias=False, **named)
        this: Any = self
        this.out_channels = out_channels
        this.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            this.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters, once their shapes are known."""
        this: Any = self
        if not self.has_uninitialized_params() and this.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        this: Any = self
        if not self.has_uninitialized_params():
            return
        batched = this.spatial + 2
        if input.dim() not in (batched, batched - 1):
            raise RuntimeError(
                f"Expected {batched - 1}D (unbatched) or {batched}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        this.in_channels = input.shape[1] if input.dim() == batched else input.shape[0]
        if this.in_channels % this.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = this.out_channels, this.in_channels
        if this.transposed:
            first, second = second, first
        this.weight.materialize((first, second // this.groups, *this.kernel_size))
        if this.bias is not None:
            this.bias.materialize((this.out_channels,))
        self.reset_parameters()


class _LazyNorm(LazyModuleMixin):
    """A norm of channels whose number of features is that of the first input."""

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype)
        this: Any = self
        this.affine, this.track_running_stats = affine, track_running_stats
        factory = {"device": device, "dtype": dtype}
        if affine:
            this.weight = UninitializedParameter(**factory)
            this.bias = UninitializedParameter(**factory)
        if track_running_stats:
            this.running_mean = UninitializedBuffer(**factory)
            this.running_var = UninitializedBuffer(**factory)
            from retrograd.arrays import dtypes
            from retrograd.tensor._creation import tensor

            this.num_batches_tracked = tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        """Reset the parameters, once their shapes are known."""
        this: Any = self
        if not self.has_uninitialized_params() and this.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any) -> None:
        this: Any = self
        if not self.has_uninitialized_params():
            return
        batched = max(this.ranks)
        this.num_features = input.shape[1 if input.dim() == batched or len(this.ranks) == 1
                                        or this.ranks[0] == 2 else 0]  # fmt: skip
        for name in ("weight", "bias", "running_mean", "running_var"):
            tensor = getattr(this, name)
            if is_lazy(tensor):
                tensor.materialize((this.num_features,))
        self.reset_parameters()


def _lazy(base: type, mixin: type) -> Any:
    name = f"Lazy{base.__name__}"
    doc = (
        f"A ``{base.__name__}`` whose number of input channels is that of the first input.\n\n"
        "Args:\n    args, kwargs: as for the layer, without the number of input channels.\n"
    )
    members = {"cls_to_become": base, "__doc__": doc, "__module__": __name__}
    return type(name, (mixin, base), members)


LazyConv1d, LazyConv2d, LazyConv3d = (
    _lazy(base, _LazyConvolution) for base in (Conv1d, Conv2d, Conv3d)
)
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(base, _LazyConvolution) for base in (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(base, _LazyNorm) for base in (BatchNorm1d, BatchNorm2d, BatchNorm3d)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(base, _LazyNorm) for base in (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)
)

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d",
    "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "LazyLinear", "LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter",
]  # fmt: skip
