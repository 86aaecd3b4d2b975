"""Fully sharded data parallel: parameters split over a mesh, gathered while a module runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.autograd.graph import saved_tensors_hooks
from retrograd.distributed.device_mesh import DeviceMesh, init_device_mesh
from retrograd.distributed.tensor._dtensor import (
    distribute_module,
    mesh_of,
    place,
    placements_of,
    redistribute_op,
)
from retrograd.distributed.tensor._placements import Replicate, Shard
from retrograd.distributed.tensor.parallel import onto


class FSDPModule:
    """The class of modules that were passed to ``fully_shard``."""

    _shards: Shards

    def forward(self, *args: Any, **named: Any) -> Any:
        """Runs the module with its parameters gathered.

        Args:
            *args: The arguments of the module.
            **named: Its named arguments.

        Returns:
            What the module returns.
        """
        with self._shards:
            if self._shards.again:
                with saved_tensors_hooks(self._shards.pack, self._shards.unpack):
                    return super().forward(*args, **named)  # type: ignore[misc]
            return super().forward(*args, **named)  # type: ignore[misc]


class Shards:
    """The parameters of a module that are gathered while it runs."""

    def __init__(self, mesh: DeviceMesh, again: bool) -> None:
        self.mesh = mesh
        self.again = again  # whether they are gathered a second time for the backward pass
        self.parameters: list[tuple[Any, str, Any]] = []  # the module, the name in it, itself
        self.placements: dict[int, tuple[Any, Any]] = {}  # when split, and when gathered
        self.gathered: dict[int, tuple[Any, Any]] = {}  # by the memory that they are in

    def add(self, owner: Any, name: str, parameter: Any) -> None:
        self.parameters.append((owner, name, parameter))
        split = placements_of(parameter)
        own = dict(zip(self.mesh._root._axes, split, strict=True))
        own.update(dict.fromkeys(self.mesh._axes, Replicate()))
        self.placements[id(parameter)] = (split, tuple(own.values()))

    def gather(self, parameter: Any, again: bool = False) -> Any:
        split, whole = self.placements[id(parameter)]
        mesh, x = self.mesh._root, parameter.detach() if again else parameter
        return redistribute_op(x, mesh=mesh, placements=whole, source=split, again=again)

    def __enter__(self) -> None:
        # All of them first: if one cannot be gathered, the module is as it was.
        known = {id(p): (self.gather(p), p) for _, _, p in self.parameters}
        self.gathered.update((id(x._data.memory), (x, p)) for x, p in known.values())
        for owner, name, parameter in self.parameters:
            owner.__dict__[name] = known[id(parameter)][0]  # which hides the parameter

    def __exit__(self, *error: Any) -> None:
        self.gathered.clear()
        for owner, name, _ in self.parameters:
            owner.__dict__.pop(name, None)

    def pack(self, x: Any) -> Any:
        """What a node keeps of a value: of one that was gathered, how to gather it again."""
        _, parameter = self.gathered.get(id(getattr(x._data, "memory", None)), (None, None))
        return x if parameter is None else (parameter, x._data.steps)

    def unpack(self, kept: Any) -> Any:
        if not isinstance(kept, tuple):
            return kept
        parameter, steps = kept
        gathered = self.gather(parameter, again=True)
        for step in steps:
            gathered = step(gathered)
        return gathered


def fully_shard(
    module: Any, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | None = True,
    shard_placement_fn: Callable[[Any], Shard | None] | None = None,
    ignored_params: set[Any] | None = None,
) -> Any:  # fmt: skip
    """Split the parameters of a module over the devices of a mesh.

    They are gathered when the module is called, and again for its backward pass. Call it with the
    parts of a model first, and then with the model: each call takes the parameters that no earlier
    one has. A tensor that the module is called with is split by its first dimension, if it is on no
    mesh yet. Gradients and the states of optimizers are split as their parameters are.

    Args:
        module: The module.
        mesh: The mesh; by default, of all devices. ``mesh["dp"]`` leaves other dimensions as they
            are.
        reshard_after_forward: Whether parameters are gathered again for the backward pass, and not
            kept from the forward pass.
        shard_placement_fn: Says how a parameter is split. By default, it is split by its first
            dimension that can be; if there is none, it is replicated.
        ignored_params: Parameters that are replicated.

    Returns:
        The module, as an ``FSDPModule``. Its parameters stay the same objects.

    Example:
        >>> for block in model.blocks:  # doctest: +SKIP
        ...     fully_shard(block, mesh=mesh)
        >>> fully_shard(model, mesh=mesh)  # doctest: +SKIP
    """
    mesh = _all_devices() if mesh is None else mesh
    shards = Shards(mesh, reshard_after_forward is not False)
    inner = [part._shards for part in module.modules() if isinstance(part, FSDPModule)]
    taken = {id(p) for part in inner for _, _, p in part.parameters}
    taken.update(map(id, ignored_params or ()))
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is None or id(parameter) in taken:
                continue
            chosen = None if shard_placement_fn is None else shard_placement_fn(parameter)
            split = _split(parameter, mesh) if chosen is None else chosen
            if not isinstance(split, Replicate):
                place(parameter, mesh, (split,) * mesh.ndim)
                shards.add(owner, name, parameter)
    distribute_module(module, mesh._root)
    cls = type(module)
    module.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
    module._shards = shards
    module.register_forward_pre_hook(
        lambda _, args, named: onto((args, named), mesh, Shard(0)), prepend=True, with_kwargs=True
    )
    return module


def _split(parameter: Any, mesh: DeviceMesh) -> Any:
    """How a parameter is split: by the first dimension that has equal parts."""
    sizes = list(parameter.shape)
    if mesh_of(parameter) is not None:  # what is split already has parts of that size
        sharding = mesh._root.sharding(placements_of(parameter), sizes)
        sizes = list(sharding.shard_shape(tuple(sizes)))
    for dim, size in enumerate(sizes):
        if size and not size % mesh.size():
            return Shard(dim)
    return Replicate()


def _all_devices() -> DeviceMesh:
    from retrograd import accelerator
    from retrograd.autograd._wrap import Plug

    device = accelerator.current_accelerator()
    kind = "cpu" if device is None else device.type
    return init_device_mesh(kind, (len(Plug.devices().everywhere(
        "xla:cpu" if kind == "cpu" else kind)),))  # fmt: skip


__all__ = ["FSDPModule", "fully_shard"]
