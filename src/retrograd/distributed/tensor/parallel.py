"""Tensor parallel: layers whose weights are split over the devices of a mesh.

Outputs are whole tensors on the mesh, not parts of them, so a model is written, and called, as for
one device: attention splits all its heads, say, and not those of one device.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from retrograd.distributed.device_mesh import DeviceMesh
from retrograd.distributed.tensor._dtensor import distribute_module, mesh_of, place, spread
from retrograd.distributed.tensor._placements import Placement, Replicate, Shard
from retrograd.tensor._tensor import Tensor

Layouts = Placement | tuple[Placement | None, ...] | None


class ParallelStyle:
    """How a module is parallelized."""

    inputs: tuple[Any, ...] = ()  # placements of the arguments of ``forward``; None: as they are
    outputs: tuple[Any, ...] = ()

    def split(self, module: Any, mesh: DeviceMesh) -> None:
        """Place the parameters of a module.

        Args:
            module: The module.
            mesh: The mesh.
        """

    def apply(self, module: Any, mesh: DeviceMesh) -> None:
        """Place the parameters of a module, and from now on its inputs and outputs.

        Args:
            module: The module.
            mesh: The mesh.
        """
        self.split(module, mesh)
        inputs, outputs = self.inputs, self.outputs
        if inputs:
            module.register_forward_pre_hook(lambda _, args: placed(args, mesh, inputs))
        if outputs:
            module.register_forward_hook(lambda _, args, output: placed(output, mesh, outputs))


def placed(values: Any, mesh: DeviceMesh, layouts: tuple[Any, ...]) -> Any:
    """Tensors on a mesh with the placements that are given for the first of them."""
    if isinstance(values, Tensor):
        return values if layouts[0] is None else spread(values, mesh, (layouts[0],) * mesh.ndim)
    if not isinstance(values, (tuple, list)):
        return values
    rest = (*layouts, *[None] * (len(values) - len(layouts)))
    return type(values)([placed(x, mesh, (p,)) for x, p in zip(values, rest, strict=False)])


def onto(values: Any, mesh: DeviceMesh, placement: Placement) -> Any:
    """Arguments with all tensors that are on no mesh put on one."""
    if isinstance(values, Tensor):
        if mesh_of(values) is not None:
            return values
        fits = placement.is_replicate() or (values.ndim and not values.shape[0] % mesh.size())
        return spread(values, mesh, (placement if fits else Replicate(),) * mesh.ndim)
    if type(values) in (tuple, list):
        return type(values)([onto(x, mesh, placement) for x in values])
    if type(values) is dict:
        return {name: onto(x, mesh, placement) for name, x in values.items()}
    return values


def _layouts(given: Layouts, default: Placement) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (default if given is None else given,)


class ColwiseParallel(ParallelStyle):
    """A ``Linear`` split by its outputs, or an ``Embedding`` split by its features.

    Args:
        input_layouts: Accepted for compatibility: the input is replicated.
        output_layouts: The placement of the output; ``Shard(-1)`` by default.
        use_local_output: Accepted for compatibility: outputs are tensors on the mesh.

    Example:
        >>> plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}  # doctest: +SKIP
        >>> parallelize_module(model, mesh, plan)  # doctest: +SKIP
    """

    linear, embedding = 0, 1  # the dimension of weight that is split

    def __init__(
        self, *, input_layouts: Layouts = None, output_layouts: Layouts = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.inputs = (Replicate(),)
        self.outputs = _layouts(output_layouts, Shard(-1))

    def split(self, module: Any, mesh: DeviceMesh) -> None:
        if not (hasattr(module, "in_features") or hasattr(module, "num_embeddings")):
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!"
            )
        dim = self.linear if hasattr(module, "in_features") else self.embedding
        for name, parameter in module.named_parameters(recurse=False):
            whole = name == "bias" and self.linear
            place(parameter, mesh, [Replicate() if whole else Shard(dim)])


class RowwiseParallel(ColwiseParallel):
    """A ``Linear`` split by its inputs, or an ``Embedding`` split by its rows.

    Args:
        input_layouts: Accepted for compatibility: the input of a ``Linear`` is split by features.
        output_layouts: The placement of the output; ``Replicate()`` by default.
        use_local_output: Accepted for compatibility: outputs are tensors on the mesh.

    Example:
        >>> parallelize_module(layer, mesh, RowwiseParallel())  # doctest: +SKIP
    """

    linear, embedding = 1, 0

    def __init__(
        self, *, input_layouts: Layouts = None, output_layouts: Layouts = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.inputs = (Shard(-1),)
        self.outputs = _layouts(output_layouts, Replicate())

    def apply(self, module: Any, mesh: DeviceMesh) -> None:
        if hasattr(module, "num_embeddings"):
            self.inputs = (Replicate(),)
        super().apply(module, mesh)


class SequenceParallel(ParallelStyle):
    """A layer such as ``LayerNorm`` or ``Dropout``, whose input is split along a sequence.

    Args:
        sequence_dim: The dimension that is split.
        use_local_output: Accepted for compatibility: outputs are tensors on the mesh.

    Example:
        >>> parallelize_module(norm, mesh, SequenceParallel())  # doctest: +SKIP
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.inputs = self.outputs = (Shard(sequence_dim),)


class PrepareModuleInput(ParallelStyle):
    """Places the inputs of a module.

    Args:
        input_layouts: Accepted for compatibility.
        desired_input_layouts: A placement for each argument; None leaves one as it is.
        use_local_output: Accepted for compatibility: inputs are tensors on the mesh.

    Example:
        >>> PrepareModuleInput(desired_input_layouts=(Replicate(), None))  # doctest: +SKIP
    """

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.inputs = _layouts(desired_input_layouts, Replicate())


class PrepareModuleOutput(ParallelStyle):
    """Places the outputs of a module.

    Args:
        output_layouts: Accepted for compatibility.
        desired_output_layouts: A placement for each output; None leaves one as it is.
        use_local_output: Accepted for compatibility: outputs are tensors on the mesh.

    Example:
        >>> PrepareModuleOutput(desired_output_layouts=Replicate())  # doctest: +SKIP
    """

    def __init__(
        self, *, output_layouts: Layouts = None, desired_output_layouts: Layouts = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.outputs = _layouts(desired_output_layouts, Replicate())


def parallelize_module(
    module: Any, device_mesh: DeviceMesh,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *, src_data_rank: int | None = 0,
) -> Any:  # fmt: skip
    """Split the layers of a module over a mesh, each in a given style.

    What no style places is replicated, and so are tensors that the module is called with.

    Args:
        module: The module.
        device_mesh: The mesh, of one dimension: ``mesh["tp"]``.
        parallelize_plan: A style, or a style for each path of layers, such as ``"blocks.*.up"``.
        src_data_rank: Accepted for compatibility; it has no effect.

    Returns:
        The module. Its parameters stay the same objects.

    Example:
        >>> plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}  # doctest: +SKIP
        >>> parallelize_module(model, mesh["tp"], plan)  # doctest: +SKIP
    """
    if device_mesh.ndim != 1:
        raise ValueError(
            f"a mesh of {device_mesh.ndim} dimensions: layers are split along one, mesh['name']"
        )
    plan = parallelize_plan
    for path, style in (plan if isinstance(plan, dict) else {"": plan}).items():
        if style is None:
            continue
        parts = list(parts_at(module, path))
        if not parts:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching it",
                UserWarning, stacklevel=2,
            )  # fmt: skip
        for part in parts:
            style.apply(part, device_mesh)
    distribute_module(module, device_mesh)
    module.register_forward_pre_hook(
        lambda _, args, named: onto((args, named), device_mesh, Replicate()), with_kwargs=True
    )
    return module


def parts_at(module: Any, path: str) -> Iterator[Any]:
    """The parts of a module whose paths fit a pattern."""
    wanted = path.split(".")
    for name, part in module.named_modules():
        names = name.split(".")
        if len(names) == len(wanted) and all(map(fnmatch, names, wanted)):
            yield part
