"""Tensor parallel: layers whose weights are split over the devices of a mesh.

Outputs are whole tensors on the mesh, not local parts. So a model is written and called as for one
device: attention, for example, splits all heads, not only those of one device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from fnmatch import fnmatch
from types import MappingProxyType, NoneType
from typing import Any

from retrograd.distributed.device_mesh import DeviceMesh
from retrograd.distributed.tensor._dtensor import (
    as_before_if_it_fails,
    check_mesh,
    check_source,
    distribute_module,
    mesh_of,
    place,
    spread,
)
from retrograd.distributed.tensor._placements import Placement, Replicate, Shard
from retrograd.tensor._tensor import Tensor

Layouts = Placement | tuple[Placement | None, ...] | None


class ParallelStyle:
    """How a module is parallelized."""

    inputs: tuple[Any, ...] = ()  # placements of the arguments of ``forward``; None: as they are
    named: Mapping[str, Any] = MappingProxyType({})  # of those that are passed by name
    outputs: tuple[Any, ...] = ()

    def split(self, module: Any, mesh: DeviceMesh) -> None:
        """Place the parameters of a module.

        Args:
            module: The module.
            mesh: The mesh.
        """

    def inputs_of(self, module: Any) -> tuple[Any, ...]:
        """The placements of the arguments of a module.

        Args:
            module: The module.
        """
        return self.inputs

    def apply(self, module: Any, mesh: DeviceMesh) -> None:
        """Place the parameters of a module now, and its inputs and outputs in each call.

        Args:
            module: The module.
            mesh: The mesh.
        """
        self.split(module, mesh)
        inputs, named, outputs = self.inputs_of(module), dict(self.named), self.outputs

        def before(part: Any, args: Any, options: Any) -> Any:
            if not is_on_a_mesh(part):
                return None
            named_args = {name: placed(x, mesh, (named[name],)) if name in named else x
                     for name, x in options.items()}  # fmt: skip
            return (placed(args, mesh, inputs) if inputs else args), named_args

        def after(part: Any, args: Any, output: Any) -> Any:
            return placed(output, mesh, outputs) if is_on_a_mesh(part) else None

        if inputs or named:
            module.register_forward_pre_hook(before, with_kwargs=True)
        if outputs:
            module.register_forward_hook(after)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        """PyTorch's name of ``apply``, which styles of users may define."""
        self.apply(module, device_mesh)
        return module


def is_on_a_mesh(module: Any) -> bool:
    """Whether a module is on a mesh, and was not moved to another device."""
    first = next(module.parameters(), None)
    return first is None or mesh_of(first) is not None


def is_splittable(module: Any) -> bool:
    """Whether a module is a ``Linear`` or an ``Embedding``, which can be split."""
    return hasattr(module, "in_features") or hasattr(module, "num_embeddings")


def placed(values: Any, mesh: DeviceMesh, layouts: tuple[Any, ...]) -> Any:
    """Arguments or outputs, with the first tensors moved to a mesh with some placements."""
    if isinstance(values, Tensor):
        return values if layouts[0] is None else spread(values, mesh, (layouts[0],) * mesh.ndim)
    if not isinstance(values, (tuple, list)):
        return values
    rest = (*layouts, *[None] * (len(values) - len(layouts)))
    return _like(values, [placed(x, mesh, (p,)) for x, p in zip(values, rest, strict=False)])


def onto(values: Any, mesh: DeviceMesh, placement: Placement) -> Any:
    """Arguments in which all tensors that are not on a mesh are moved to one."""

    def put(x: Any) -> Any:
        if not isinstance(x, Tensor) or mesh_of(x) is not None:
            return x
        fits = placement.is_replicate() or (x.ndim and not x.shape[0] % mesh.size())
        return spread(x, mesh, (placement if fits else Replicate(),) * mesh.ndim)

    return mapped(put, values)


def mapped(change: Callable[[Any], Any], values: Any) -> Any:
    """Arguments, which may be in tuples, lists and dicts, with each one changed by a function."""
    if isinstance(values, (tuple, list)):
        return _like(values, [mapped(change, x) for x in values])
    if isinstance(values, dict):
        copied = copy(values)
        copied.update({name: mapped(change, x) for name, x in values.items()})
        return copied
    return change(values)


def _like(values: Any, items: list[Any]) -> Any:
    """A tuple or list of the same class as another one."""
    return type(values)(*items) if hasattr(values, "_fields") else type(values)(items)


def _layouts(layouts: Layouts, default: Placement) -> tuple[Any, ...]:
    return layouts if isinstance(layouts, tuple) else (default if layouts is None else layouts,)


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
        if not is_splittable(module):
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

    def inputs_of(self, module: Any) -> tuple[Any, ...]:
        return (Replicate(),) if hasattr(module, "num_embeddings") else self.inputs


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
        input_kwarg_layouts: Accepted for compatibility.
        desired_input_kwarg_layouts: A placement for arguments that are passed by name.
        use_local_output: Accepted for compatibility: inputs are tensors on the mesh.

    Example:
        >>> PrepareModuleInput(desired_input_layouts=(Replicate(), None))  # doctest: +SKIP
    """

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.named = dict(desired_input_kwarg_layouts or {})
        if desired_input_layouts is not None or not self.named:
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


class PrepareModuleInputOutput(PrepareModuleInput):
    """Places the inputs and the outputs of a module.

    Args:
        input_layouts: Accepted for compatibility.
        desired_input_layouts: A placement for each argument; None leaves one as it is.
        input_kwarg_layouts: Accepted for compatibility.
        desired_input_kwarg_layouts: A placement for arguments that are passed by name.
        use_local_input: Accepted for compatibility: inputs are tensors on the mesh.
        output_layouts: Accepted for compatibility.
        desired_output_layouts: A placement for each output; None leaves one as it is.
        use_local_output: Accepted for compatibility: outputs are tensors on the mesh.

    Example:
        >>> PrepareModuleInputOutput(  # doctest: +SKIP
        ...     desired_input_layouts=Replicate(), desired_output_layouts=Shard(0))
    """

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False, output_layouts: Layouts = None,
        desired_output_layouts: Layouts = None, use_local_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            desired_input_layouts=desired_input_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
        )
        self.outputs = _layouts(desired_output_layouts, Replicate())


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which losses are computed of logits that are split by classes.

    Accepted for compatibility: losses of such logits can be computed anywhere.

    Example:
        >>> with loss_parallel():  # doctest: +SKIP
        ...     loss = F.cross_entropy(model(x), y)
        ...     loss.backward()
    """
    yield


def parallelize_module(
    module: Any, device_mesh: DeviceMesh,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *, src_data_rank: int | None = 0,
) -> Any:  # fmt: skip
    """Split the layers of a module over a mesh, each in a given style.

    Other parameters are replicated, and so are tensors that the module is called with.

    Args:
        module: The module.
        device_mesh: The mesh, of one dimension: ``mesh["tp"]``.
        parallelize_plan: A style, or a style for each path of layers, such as ``"blocks.*.up"``.
        src_data_rank: In several processes, 0: parameters are those of the first one.

    Returns:
        The module. Its parameters stay the same objects.

    Example:
        >>> plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}  # doctest: +SKIP
        >>> parallelize_module(model, mesh["tp"], plan)  # doctest: +SKIP
    """
    check_mesh(device_mesh)
    check_source(src_data_rank)
    if device_mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module() takes a mesh of one dimension, not {device_mesh.ndim}: pass "
            "mesh['name']"
        )
    styles: Any = parallelize_plan
    plan = styles if isinstance(styles, dict) else {"": styles}
    for style in plan.values():
        if not isinstance(style, (ParallelStyle, NoneType)):
            raise TypeError(
                "a plan must have styles such as ColwiseParallel() for paths of layers, not "
                f"{style!r}"
            )
    with as_before_if_it_fails(module):
        for path, style in plan.items():
            parts = list(parts_at(module, path))
            if not parts:
                warnings.warn(
                    f"Parallelize plan key '{path}' could not be resolved: no submodule matching "
                    "it", UserWarning, stacklevel=2,
                )  # fmt: skip
            for part in parts if style is not None else ():
                style._apply(part, device_mesh)
        distribute_module(module, device_mesh)
    module.register_forward_pre_hook(
        lambda part, args, named: (
            onto((args, named), device_mesh, Replicate()) if is_on_a_mesh(part) else None
        ),
        with_kwargs=True,
    )
    return module


def parts_at(module: Any, path: str) -> Iterator[Any]:
    """The submodules whose paths match a pattern."""
    wanted = path.split(".")
    for name, part in module.named_modules():
        names = name.split(".")
        if len(names) == len(wanted) and all(map(fnmatch, names, wanted)):
            yield part


__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip
