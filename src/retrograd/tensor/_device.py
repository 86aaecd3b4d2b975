"""``torch.device``: names of devices."""

from __future__ import annotations

from typing import Any, Self

from retrograd import arrays
from retrograd._modes import modes, set_modes
from retrograd.autograd._wrap import Plug, wrap
from retrograd.autograd.grad_mode import ModeContext
from retrograd.ops._lifted import Lifted, device_value, on_meta, tracer

# What PyTorch knows by name. Naming a device is no error: programs do it before they ask whether
# it is there.
_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
COMPUTES = ("cuda", "tpu", "xla", "xla:cpu")  # where XLA does


class device(ModeContext):  # noqa: N801 - PyTorch's name
    """A device: the CPU, a device that XLA computes on, or ``meta``, which has no memory.

    Every device that PyTorch knows can be named; creating a tensor on one that is not available is
    an error. As a context manager or a decorator, it sets the device of tensors created inside.

    Args:
        type: The type, with or without an index, as in ``"cpu"`` or ``"cuda:0"``; or a device.
        index: The index of the device.

    Example:
        >>> torch.device("cuda:0")
        device(type='cuda', index=0)
        >>> with torch.device("meta"):
        ...     torch.nn.Linear(10, 20).weight.shape
        torch.Size([20, 10])
    """

    __module__ = "retrograd"

    type: str
    index: int | None
    _mesh: Any = None  # of devices, where tensors are spread over several

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        name = type
        if isinstance(type, device):
            name, index = type.type, type.index
            if type._mesh is not None:
                self.__class__ = type.__class__
                self._mesh = type._mesh
        elif isinstance(type, int):  # of the accelerator, whatever it is
            name, index = "cuda", type
        elif not isinstance(type, str):
            raise TypeError(
                "device(): argument 'type' (position 1) must be str, not "
                f"{type.__class__.__name__}"
            )
        kind, colon, number = name.partition(":")
        if number.partition(":")[0] == "cpu" and kind == "xla":  # XLA on the CPU
            kind, (_, colon, number) = "xla:cpu", number.partition(":")
        if kind not in _TYPES and kind not in COMPUTES:
            raise RuntimeError(
                f"Expected one of {', '.join(_TYPES)} device type at start of device string: {kind}"
            )
        if colon and not (number.isdecimal() and (number == "0" or number[0] != "0")):
            raise RuntimeError(f"Invalid device string: '{name}'")
        if colon and index is not None:
            raise RuntimeError(
                "type (string) must not include an index because index was passed explicitly: "
                f"{name}"
            )
        self.type = kind
        self.index = int(number) if colon else index

    def changes(self) -> dict[str, Any]:
        """The modes that are different in a ``with`` block.

        Returns:
            A dictionary of their values by name.
        """
        return {"device": self}

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def clone(self) -> device:
        """The same device, for each call of a decorated function.

        Returns:
            A new device object.
        """
        return device(self)

    def __repr__(self) -> str:
        suffix = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{suffix})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)


CPU, META = device("cpu"), device("meta")


def is_meta(target: Any) -> bool:
    """Whether tensors on a device have no memory. RuntimeError if there is no such device; None is
    the device that was chosen for new tensors."""
    if target is None:
        target = modes.device
        if target is None:
            return False
    kind = target.type if isinstance(target, device) else device(target).type
    if kind == "meta":
        return True
    if kind not in ("cpu", *COMPUTES):
        raise RuntimeError(
            f"device '{target}' is not available: retrograd computes on the CPU with NumPy, and on "
            f"{', '.join(COMPUTES)} with XLA. Use one of these, or leave it out."
        )
    return False


def placed(data: Any, target: Any) -> Any:
    """What a tensor on a device holds: an array, as it is or as a copy there. None is the device
    that was chosen for new tensors."""
    if target is None:
        target = modes.device
        if target is None:
            return data
    target = target if isinstance(target, device) else device(target)
    if is_meta(target):
        return without_memory(data)
    if tracer() is not None:  # a program decides where it computes
        return data
    if target.type != "cpu":
        if is_on(data, target):
            return data
        if isinstance(data, Lifted) and device_value(data) is None:  # of a transform
            from retrograd.tensor._moving import moved

            return moved(wrap(data), target)._data
        return Plug.devices().put(data, target)
    return data.host if (value := device_value(data)) is not None and value is data else data


def array_and_device(data: Any) -> tuple[Any, device | None]:
    """What a tensor holds as an array, and the device that it is on, for pickling."""
    value = device_value(data)
    if value is None or value is not data:
        return arrays.writable(data), None
    return value.host, value.memory.device


def is_on(data: Any, target: device) -> bool:
    """Whether a value is on a device; without an index, on any of that type."""
    value = device_value(data)
    if value is None and target.type in COMPUTES and tracer() is not None:
        return True
    if value is None:
        kind = "meta" if on_meta(data) else "cpu"
        return target.type == kind
    own = value.memory.device
    if own._mesh is not None or target._mesh is not None:
        anywhere = target._mesh is None and target.index is None and own.type == target.type
        return own == target or anywhere
    return own.type == target.type and target.index in (None, own.index)


def check_readable(target: Any) -> None:
    """RuntimeError if what is read from a file cannot be put on a device."""
    if is_meta(target):
        raise RuntimeError(
            "files cannot be read to the device 'meta': load to the CPU, and move what you need by "
            ".to('meta')."
        )
    if target is not None and (target := _as_device(target)).type in COMPUTES:
        Plug.devices().device_of(target.type, target.index)  # for the error if it is not there


def without_memory(data: Any) -> Any:
    """What a tensor on the meta device holds in place of an array."""
    from retrograd.ops._meta_device import MetaValue

    if isinstance(data, MetaValue):
        return data
    if isinstance(data, Lifted) or arrays.is_contiguous(data):
        return MetaValue(arrays.layout.reserved(data.shape, data.dtype))
    order = arrays.layout_order(data)
    memory = arrays.layout.reserved(tuple(data.shape[d] for d in order), data.dtype)
    return MetaValue(arrays.permute(memory, [order.index(d) for d in range(data.ndim)]))


def set_default_device(device: Any) -> None:
    """Sets the device that new tensors are created on, in this thread.

    Args:
        device: ``"cpu"`` or ``"meta"``; None is the CPU.

    Example:
        >>> torch.set_default_device("meta")
        >>> torch.zeros(2).device
        device(type='meta')
        >>> torch.set_default_device(None)
    """
    set_modes(device=None if device is None else _as_device(device))


def get_default_device() -> device:
    """Returns the device that new tensors are created on.

    Returns:
        The device of the innermost ``with torch.device(...)``, or that of ``set_default_device``.

    Example:
        >>> torch.get_default_device()
        device(type='cpu')
    """
    return CPU if modes.device is None else modes.device


def _as_device(name: Any) -> device:
    return device(name)
