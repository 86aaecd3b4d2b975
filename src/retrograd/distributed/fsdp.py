"""Fully sharded data parallel: parameters split over a mesh, gathered while a module runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from retrograd.autograd.graph import saved_tensors_hooks
from retrograd.distributed.device_mesh import DeviceMesh, init_device_mesh
from retrograd.distributed.tensor._dtensor import (
    as_before_if_it_fails,
    check_mesh,
    distribute_module,
    mesh_of,
    place,
    placements_of,
    redistribute_op,
)
from retrograd.distributed.tensor._placements import Replicate, Shard
from retrograd.distributed.tensor.parallel import is_on_a_mesh, mapped, onto
from retrograd.ops._lifted import LooksAtValues
from retrograd.tensor._tensor import Tensor


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes that a fully sharded module computes with. Its parameters keep theirs.

    Args:
        param_dtype: The dtype that parameters are gathered in; by default, their own.
        reduce_dtype: Accepted for compatibility: gradients are added up in ``param_dtype``.
        output_dtype: The dtype of floating-point outputs of the module.
        cast_forward_inputs: Whether floating-point arguments are converted to ``param_dtype``.

    Example:
        >>> policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)  # doctest: +SKIP
        >>> fully_shard(model, mesh=mesh, mp_policy=policy)  # doctest: +SKIP
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class OffloadPolicy:
    """Parameters stay on their devices."""


@dataclass(frozen=True)
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters are kept on the CPU. Not supported by ``fully_shard``.

    Args:
        pin_memory: Whether their memory is pinned.
    """

    pin_memory: bool = True


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
        policy = self._shards.policy
        if policy.cast_forward_inputs:
            args, named = _converted((args, named), policy.param_dtype)
        with self._shards:
            if self._shards.again:
                with saved_tensors_hooks(self._shards.pack, self._shards.unpack):
                    output = super().forward(*args, **named)  # type: ignore[misc]
            else:
                output = super().forward(*args, **named)  # type: ignore[misc]
        return _converted(output, policy.output_dtype)

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Accepted for compatibility: gradients are always those of the whole batch.

        Args:
            requires_gradient_sync: Whether gradients are added up over the devices.
            recurse: Whether to include all submodules.
        """

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted for compatibility: each backward pass leaves complete gradients.

        Args:
            is_last_backward: Whether this is the last backward pass before the optimizer step.
        """


def _converted(values: Any, dtype: Any) -> Any:
    """Values with all floating-point tensors in a dtype, if one is given."""
    if dtype is None:
        return values
    return mapped(
        lambda x: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x, values
    )


def _memory(x: Any) -> Any:
    """The memory of a value on a device; None on the CPU, and for batches of ``vmap``."""
    try:
        return x._data.memory
    except (AttributeError, LooksAtValues):
        return None


class Member(NamedTuple):
    """A split parameter, identified by its module and its name there, because it may be replaced by
    another parameter."""

    owner: Any
    name: str
    split: tuple[Any, ...]  # its placements
    whole: tuple[Any, ...]  # its placements while it is gathered


class Shards:
    """The parameters of a module that are gathered while it runs."""

    def __init__(self, mesh: DeviceMesh, again: bool, policy: MixedPrecisionPolicy) -> None:
        self.mesh = mesh
        self.policy = policy
        self.again = again  # whether they are gathered a second time for the backward pass
        self.members: list[Member] = []
        self.gathered: dict[int, tuple[Any, Any, Member]] = {}  # by id of their memory
        self.hidden: list[tuple[Any, str, Any, Any]] = []  # the parameters that these replace
        self.depth = 0

    def add(self, owner: Any, name: str) -> None:
        split = placements_of(owner._parameters[name])
        own = dict(zip(self.mesh._root._axes, split, strict=True))
        own.update(dict.fromkeys(self.mesh._axes, Replicate()))
        self.members.append(Member(owner, name, split, tuple(own.values())))

    def present(self) -> Iterator[tuple[Any, Member]]:
        """The parameters that exist and are on the mesh, which they are not after a move."""
        for member in self.members:
            parameter = member.owner._parameters.get(member.name)
            if parameter is not None and mesh_of(parameter) is not None:
                yield parameter, member

    def gather(self, parameter: Any, member: Member, again: bool = False) -> Any:
        mesh, x = self.mesh._root, parameter.detach() if again else parameter
        x = _converted(x, self.policy.param_dtype)
        return redistribute_op(
            x, mesh=mesh, placements=member.whole, source=member.split, again=again
        )

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth > 1:  # a module that calls itself
            return
        # All are gathered first, so that the module is unchanged if one cannot be gathered.
        known: dict[int, Any] = {}
        present = [*self.present()]
        try:
            for p, member in present:
                if id(p) not in known:
                    known[id(p)] = x = self.gather(p, member)
                    if (memory := _memory(x)) is not None:
                        self.gathered[id(memory)] = (x, p, member)
        except BaseException:
            self.__exit__()
            raise
        # Layers also read this dictionary, not only attributes.
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
            if parameters.get(name) is gathered:  # unless another one was assigned meanwhile
                parameters[name] = parameter

    def pack(self, x: Any) -> Any:
        """What a node saves of a value: for a gathered one, how to gather it again."""
        entry = self.gathered.get(id(_memory(x)))
        if entry is None:
            return x
        _, parameter, member = entry
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
    module: Any, *, mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = True,
    shard_placement_fn: Callable[[Any], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None, offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
) -> Any:  # fmt: skip
    """Split the parameters of a module over the devices of a mesh.

    They are gathered when the module is called, and again for its backward pass. Call this function
    for submodules first, and then for the model: each call handles the parameters that no earlier
    call did. Tensors that the module is called with are split along the first dimension, unless
    they are on a mesh already. Gradients and optimizer states are split like the parameters.

    Args:
        module: The module, or a list of modules, each of which is gathered while it runs.
        mesh: The mesh; by default, of all devices. ``mesh["dp"]`` leaves other dimensions as they
            are. Over a mesh of several dimensions, parameters are split along the last one, and
            replicated along the others.
        reshard_after_forward: Whether parameters are gathered again for the backward pass, and not
            kept from the forward pass.
        shard_placement_fn: Says how a parameter is split. By default, it is split by its first
            dimension that can be; if there is none, it is replicated.
        mp_policy: The dtypes that the module computes with.
        offload_policy: Accepted for compatibility; there is no offloading.
        ignored_params: Parameters that are replicated.

    Returns:
        The module, as an ``FSDPModule``. Its parameters stay the same objects.

    Example:
        >>> for block in model.blocks:  # doctest: +SKIP
        ...     fully_shard(block, mesh=mesh)
        >>> fully_shard(model, mesh=mesh)  # doctest: +SKIP
    """
    mesh = _all_devices() if mesh is None else mesh
    modules = module if isinstance(module, (list, tuple)) else [module]
    for part in modules:
        _check(part, mesh, offload_policy)
    again = reshard_after_forward is not False
    for part in modules:
        shards = Shards(mesh, again, mp_policy or MixedPrecisionPolicy())
        with as_before_if_it_fails(part):
            _place(part, shards, shard_placement_fn, set(map(id, ignored_params or ())))
        cls = type(part)
        part._shards = shards
        part.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
        part.register_forward_pre_hook(
            lambda part, args, named: (
                onto((args, named), part._shards.mesh, Shard(0)) if is_on_a_mesh(part) else None
            ),
            prepend=True, with_kwargs=True,
        )  # fmt: skip
    return module


def _check(module: Any, mesh: Any, offload_policy: Any) -> None:
    """Raise an error if a module cannot be split over a mesh."""
    check_mesh(mesh)
    if not hasattr(module, "_parameters"):
        raise TypeError(f"fully_shard() takes a module, not {type(module).__name__}")
    if not {"ModuleList", "ModuleDict"}.isdisjoint([x.__name__ for x in type(module).__mro__]):
        raise ValueError(
            "fully_shard does not support containers that do not implement forward: pass the "
            f"modules in it, one by one, not a {type(module).__name__}"
        )
    if isinstance(module, FSDPModule):
        raise ValueError(f"this {type(module).__name__} was passed to fully_shard() before")
    if isinstance(offload_policy, CPUOffloadPolicy):
        raise NotImplementedError(
            "offloading to the CPU is not supported: leave offload_policy out"
        )


def _place(
    module: Any, shards: Shards, choose: Callable[[Any], Any] | None, taken: set[int]
) -> None:
    """Put the parameters and buffers of a module on a mesh."""
    mesh = shards.mesh
    for part in module.modules():
        if isinstance(part, FSDPModule):
            taken.update([id(p) for p, _ in part._shards.present()])
    own: set[int] = set()
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is None or id(parameter) in taken:
                continue
            if id(parameter) not in own:
                chosen = None if choose is None else choose(parameter)
                split = _split(parameter, mesh) if chosen is None else chosen
                if isinstance(split, Replicate):
                    continue
                place(parameter, mesh, (*[Replicate()] * (mesh.ndim - 1), split))
                own.add(id(parameter))
            shards.add(owner, name)
    distribute_module(module, mesh._root)


def _split(parameter: Any, mesh: DeviceMesh) -> Any:
    """How a parameter is split: by the first dimension that has equal parts."""
    sizes = list(parameter.shape)
    if mesh_of(parameter) is not None:  # of a parameter that is already split, the size of a part
        sharding = mesh._root.sharding(placements_of(parameter), sizes)
        sizes = list(sharding.shard_shape(tuple(sizes)))
    for dim, size in enumerate(sizes):
        if size and not size % mesh.size(mesh.ndim - 1):
            return Shard(dim)
    return Replicate()


def _all_devices() -> DeviceMesh:
    from retrograd import accelerator
    from retrograd.autograd._wrap import Plug

    device = accelerator.current_accelerator()
    kind = "cpu" if device is None else device.type
    return init_device_mesh(kind, (len(Plug.devices().everywhere(
        "xla:cpu" if kind == "cpu" else kind)),))  # fmt: skip


def FullyShardedDataParallel(*args: Any, **options: Any) -> NoReturn:  # noqa: N802 - PyTorch's name
    """Raises NotImplementedError: use ``fully_shard``.

    Args:
        *args: The arguments of PyTorch's class.
        **options: Its options.

    Returns:
        Nothing.
    """
    raise NotImplementedError(
        "FullyShardedDataParallel(model) is not provided. Use fully_shard(block) for each block "
        "and then fully_shard(model), which change the modules instead of wrapping them"
    )


__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy",
    "OffloadPolicy", "fully_shard",
]  # fmt: skip
