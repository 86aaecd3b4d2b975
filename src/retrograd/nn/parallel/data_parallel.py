"""``DataParallel``: runs the module unchanged, in one process."""

from __future__ import annotations

from typing import Any

from retrograd.nn.module import Module
from retrograd.ops._sections import like


class DataParallel(Module):
    """Calls a module. PyTorch splits the batch across GPUs; this runs it in one process.

    Args:
        module: the module.
        device_ids: must be absent or empty.
        output_device: must be absent.
        dim: accepted for compatibility.

    Shape:
        As the module.

    Example:
        >>> model = torch.nn.DataParallel(torch.nn.Linear(3, 2))
        >>> model(torch.ones(1, 3)).shape, list(model.state_dict())
        (torch.Size([1, 2]), ['module.weight', 'module.bias'])
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids or output_device is not None:
            raise RuntimeError("DataParallel: device_ids is not supported")
        self.module = module
        self.device_ids: list[int] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


@like(DataParallel)
def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """Call a module. See ``DataParallel``.

    Args:
        inputs: its argument, or a tuple of its arguments.
        module_kwargs: its keyword arguments.

    Returns:
        What the module returns.

    Example:
        >>> torch.nn.parallel.data_parallel(torch.nn.Linear(3, 2), torch.ones(1, 3)).shape
        torch.Size([1, 2])
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))
