"""Fully sharded data parallel: parameters split over a mesh, gathered while a module runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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


class Member(NamedTuple):
    """A parameter that is split, by the module that has it and its name there: it may be replaced
    by another one."""

    owner: Any
    name: str
    split: tuple[Any, ...]  # its placements
    whole: tuple[Any, ...]  # and those it is gathered with


class Shards:
    """The parameters of a module that are gathered while it runs."""

    def __init__(self, mesh: DeviceMesh, again: bool) -> None:
        self.mesh = mesh
        self.again = again  # whether they are gathered a second time for the backward pass
        self.members: list[Member] = []
        self.gathered: dict[int, tuple[Any, Any, Member]] = {}  # by the memory that they are in
        self.hidden: list[tuple[Any, str, Any, Any]] = []  # parameters whose place these took
        self.depth = 0

    def add(self, owner: Any, name: str) -> None:
        split = placements_of(owner._parameters[name])
        own = dict(zip(self.mesh._root._axes, split, strict=True))
        own.update(dict.fromkeys(self.mesh._axes, Replicate()))
        self.members.append(Member(owner, name, split, tuple(own.values())))

    def present(self) -> Iterator[tuple[Any, Member]]:
        """The parameters that there are, and on the mesh: not those of a module that was moved."""
        for member in self.members:
            parameter = member.owner._parameters.get(member.name)
            if parameter is not None and mesh_of(parameter) is not None:
                yield parameter, member

    def gather(self, parameter: Any, member: Member, again: bool = False) -> Any:
        mesh, x = self.mesh._root, parameter.detach() if again else parameter
        return redistribute_op(
            x, mesh=mesh, placements=member.whole, source=member.split, again=again
        )

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth > 1:  # a module that calls itself
            return
        # All of them first: if one cannot be gathered, the module is as it was.
        known: dict[int, Any] = {}
        present = [*self.present()]
        try:
            for p, member in present:
                if id(p) not in known:
                    known[id(p)] = x = self.gather(p, member)
                    self.gathered[id(x._data.memory)] = (x, p, member)
        except BaseException:
            self.__exit__()
            raise
        # Layers look there, and not only at attributes.
        for p, member in present:
            member.owner._parameters[member.name] = known[id(p)]
            self.hidden.append((member.owner._parameters, member.name, p, known[id(p)]))

    def __exit__(self, *error: Any) -> None:
        self.depth -= 1
        if self.depth:
            return
        self.gathered.clear()
        while self.hidden:
            parameters, name, parameter, gathered = self.hidden.pop()
            if parameters.get(name) is gathered:  # and not another one, assigned meanwhile
                parameters[name] = parameter

    def pack(self, x: Any) -> Any:
        """What a node keeps of a value: of one that was gathered, how to gather it again."""
        found = self.gathered.get(id(getattr(x._data, "memory", None)))
        if found is None:
            return x
        _, parameter, member = found
        return parameter, parameter._version, member, x._data.steps

    def unpack(self, kept: Any) -> Any:
        if not isinstance(kept, tuple):
            return kept
        parameter, version, member, steps = kept
        if parameter._version != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: the parameter '{member.name}' of shape "
                f"{tuple(parameter.shape)}, which fully_shard gathers again for the backward pass, "
                f"is at version {parameter._version}; expected version {version} instead"
            )
        gathered = self.gather(parameter, member, again=True)
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
    taken = {id(p) for part in inner for p, _ in part.present()}
    taken.update(map(id, ignored_params or ()))
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is None or id(parameter) in taken:
                continue
            chosen = None if shard_placement_fn is None else shard_placement_fn(parameter)
            split = _split(parameter, mesh) if chosen is None else chosen
            if not isinstance(split, Replicate):
                place(parameter, mesh, (split,) * mesh.ndim)
                shards.add(owner, name)
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
