"""``DTensor``: its attributes, distributing tensors over a mesh, and redistributing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd.autograd._wrap import Plug, wrap
from retrograd.distributed.device_mesh import DeviceMesh
from retrograd.distributed.tensor._placements import Partial, Placement, Replicate, Shard
from retrograd.ops._batching import BatchLevel
from retrograd.ops._batching_declarations import own
from retrograd.ops._lifted import Lifted, device_value, tracer
from retrograd.ops._operation import Linear
from retrograd.tensor import _creation, _randoms
from retrograd.tensor._device import device
from retrograd.tensor._fast import bind
from retrograd.tensor._moving import moved
from retrograd.tensor._tensor import Tensor


def mesh_of(x: Any) -> DeviceMesh | None:
    """The mesh that a tensor is on; None if it is not on one."""
    if not isinstance(x, Tensor):
        return None
    mesh: DeviceMesh | None = x.device._mesh
    return mesh


class _Kind(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return mesh_of(x) is not None


class DTensor(metaclass=_Kind):
    """A tensor on a mesh of devices. Use it with ``isinstance``; it is not a separate class of
    tensors.

    Such a tensor is a ``Tensor`` with a few attributes more: ``device_mesh``, ``placements``,
    ``redistribute(device_mesh=None, placements=None)``, ``full_tensor()`` and ``to_local()``.
    """

    @staticmethod
    def from_local(
        local_tensor: Any, device_mesh: DeviceMesh, placements: Sequence[Placement] | None = None,
        *, run_check: bool = False,
    ) -> Any:  # fmt: skip
        """Creates a tensor on a mesh from the local part of each process.

        Args:
            local_tensor: The tensor.
            device_mesh: The mesh.
            placements: One for each dimension of the mesh; ``Replicate()`` by default.
            run_check: Accepted for compatibility; it has no effect.

        Returns:
            The tensor on the mesh, with the history of the given one.
        """
        jax = Plug.devices().jax()
        if jax.process_count() > 1:
            raise NotImplementedError(
                "from_local() in several processes: pass the whole tensor to distribute_tensor() "
                "in each of them"
            )
        return spread(local_tensor, device_mesh, _checked(device_mesh, placements))


def check_mesh(mesh: Any) -> None:
    """Raise TypeError unless the argument is a mesh."""
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"expected a DeviceMesh, as init_device_mesh() returns, not {mesh!r}")


def check_source(src_data_rank: int | None) -> None:
    """Raise NotImplementedError if ``src_data_rank`` is a process other than the first."""
    if src_data_rank not in (0, None):
        raise NotImplementedError(
            f"src_data_rank={src_data_rank}: tensors on a mesh are copied from the first process, 0"
        )


def _checked(mesh: DeviceMesh, placements: Sequence[Any] | None) -> tuple[Any, ...]:
    check_mesh(mesh)
    if isinstance(placements, Placement):
        raise TypeError("placements must be a list, with one for each dimension of the mesh: "
                        f"[{placements!r}]")  # fmt: skip
    result = (Replicate(),) * mesh.ndim if placements is None else tuple(placements)
    for p in result:
        if not isinstance(p, Placement):
            raise TypeError(f"a placement must be Shard(dim) or Replicate(), not {p!r}")
    if len(result) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(result)}, and device_mesh.ndim: {mesh.ndim}."
        )
    if any(isinstance(p, Partial) for p in result):
        raise RuntimeError("redistributing to Partial is for internal use only!")
    return result


# -- placements of a tensor --------------------------------------------------------------------


def placements_of(x: Any) -> tuple[Any, ...]:
    """The placements of a tensor on its mesh, one for each dimension of the mesh."""
    mesh, value = mesh_of(x), device_value(x)
    assert mesh is not None
    if value is None:
        raise RuntimeError("placements are not known while a function is compiled: XLA chooses "
                           "them")  # fmt: skip
    where: dict[str, int] = {}
    for dim, names in enumerate(value.array.sharding.spec):
        where.update(dict.fromkeys((names,) if isinstance(names, str) else names or (), dim))
    return tuple(Shard(where[a]) if a in where else Replicate() for a in mesh._axes)


def _moved_to(self: Any, mesh: Any, placements: Any, source: Any, again: bool) -> Any:
    if not isinstance(self, Lifted):  # in a program that is being traced
        return arrays.copy(self)
    return Plug.devices().put(self, mesh._device, mesh.sharding(placements, self.shape))


@own("the dimensions of placements come after the batch dimension")
def _redistribute_batch(
    level: BatchLevel, op: Any, args: list[Any], options: dict[str, Any]
) -> Any:  # fmt: skip
    placements = [Shard(p.dim + 1) if isinstance(p, Shard) and p.dim >= 0 else p
                  for p in options["placements"]]  # fmt: skip
    return op(args[0].value, **options | {"placements": tuple(placements)})


# The gradient gets the placements of the operand. ``again`` makes a program redistribute a second
# time instead of keeping the first result.
redistribute_op: Linear = Linear(
    "redistribute", _moved_to, inputs=("self",),
    rules={"self": lambda g, mesh, placements, source: g if source is None else redistribute_op(
        g, mesh=mesh._root, placements=source, source=None, again=False)},
    node="RedistributeBackward", batch=_redistribute_batch, dtypes="free", rearranges=True,
    table={},
)  # fmt: skip
bind(redistribute_op)


def redistribute(x: Any, mesh: DeviceMesh | None, placements: Sequence[Any] | None) -> Any:
    whole = mesh_of(x)
    assert whole is not None
    if placements is None:
        raise RuntimeError("placements is needed for redistribute!")
    mesh = whole if mesh is None else mesh
    wanted = _checked(mesh, placements)
    if mesh._root != whole:
        raise NotImplementedError("redistribute() to another mesh: full_tensor() and distribute it")
    source, value = None, device_value(x)
    if value is not None and value.shape == x.shape:  # and not a batch under vmap
        source = placements_of(x)  # with what is known of the other dimensions
        now = dict(zip(whole._axes, source, strict=True))
        mesh, wanted = whole, tuple((now | dict(zip(mesh._axes, wanted, strict=True))).values())
    return redistribute_op(x, mesh=mesh, placements=wanted, source=source, again=False)


def spread(x: Any, mesh: DeviceMesh, placements: Sequence[Any]) -> Any:
    """A tensor from any device, moved to a mesh, with its history."""
    return redistribute(x if mesh_of(x) else moved(x, mesh._device), mesh, placements)


# -- attributes of tensors that are on a mesh --------------------------------------------------


class _OfMesh:
    """An attribute that only tensors on a mesh have."""

    def __init__(self, function: Callable[..., Any], is_method: bool) -> None:
        self.function = function
        self.is_method = is_method
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, x: Any, owner: Any = None) -> Any:
        if x is None:
            return self
        if mesh_of(x) is None:
            raise AttributeError(f"'Tensor' object has no attribute '{self.name}'")
        return partial(self.function, x) if self.is_method else self.function(x)


def _redistribute(
    x: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Any] | None = None,
    *, async_op: bool = False,
) -> Any:  # fmt: skip
    """The tensor with other placements."""
    return redistribute(x, device_mesh, placements)


def _full_tensor(x: Any, *, grad_placements: Any = None) -> Any:
    """The whole tensor, on the first device of this process."""
    mesh: Any = mesh_of(x)
    return moved(x, _first_device(mesh))


def _to_local(x: Any, *, grad_placements: Any = None) -> Any:
    """The part of the tensor on the first device of this process."""
    mesh: Any = mesh_of(x)
    array = device_value(x).array
    if not array.is_fully_addressable:
        if x.requires_grad and modes.grad_enabled:
            raise NotImplementedError(
                "to_local() of a tensor that requires grad, in several processes: detach() it, or "
                "use full_tensor()"
            )
        own = arrays.programs.numpy.array(array.addressable_shards[0].data)
        return wrap(Plug.devices().put(own, _first_device(mesh)))
    index = mesh.sharding(placements_of(x), x.shape).addressable_devices_indices_map(
        tuple(x.shape)
    )[_first(mesh)]
    return moved(x[index], _first_device(mesh))


def _first(mesh: DeviceMesh) -> Any:
    """JAX's device of this process that comes first in a mesh."""
    number = Plug.devices().jax().process_index()
    return next(d for d in mesh._jax_mesh.devices.flat if d.process_index == number)


def _first_device(mesh: DeviceMesh) -> device:
    return device(mesh.device_type, Plug.devices().all_of(mesh.device_type).index(_first(mesh)))


for _name, _function, _is_method in (
    ("device_mesh", mesh_of, False), ("placements", placements_of, False),
    ("redistribute", _redistribute, True), ("full_tensor", _full_tensor, True),
    ("to_local", _to_local, True),
):  # fmt: skip
    _attribute = _OfMesh(_function, _is_method)
    _attribute.name = _name
    setattr(Tensor, _name, _attribute)


# -- to a mesh ---------------------------------------------------------------------------------


def distribute_tensor(
    tensor: Any, device_mesh: DeviceMesh, placements: Sequence[Placement] | None = None,
    *, src_data_rank: int | None = 0,
) -> Any:  # fmt: skip
    """A tensor on a mesh of devices.

    Args:
        tensor: The whole tensor, on any device. In several processes, one of the same shape in
            each.
        device_mesh: The mesh.
        placements: One for each dimension of the mesh; ``Replicate()`` by default.
        src_data_rank: In several processes, 0: the tensor of the first one is distributed.

    Returns:
        A leaf, which requires grad if the given tensor does.

    Example:
        >>> x = distribute_tensor(torch.ones(8, 2), mesh, [Shard(0)])  # doctest: +SKIP
        >>> x.placements  # doctest: +SKIP
        (Shard(dim=0),)
    """
    wanted = _checked(device_mesh, placements)
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"distribute_tensor() takes a tensor, not {type(tensor).__name__}: use torch.tensor(x)"
        )
    if tensor.is_meta:
        raise NotImplementedError(
            "a tensor on the device 'meta' has no elements that a mesh could hold: create it, or "
            "the model, on the CPU, or call model.to_empty(device='cpu') before"
        )
    check_source(src_data_rank)
    if mesh_of(tensor) is not None or tracer() is not None:
        return spread(tensor, device_mesh, wanted)
    where = device_mesh.sharding(wanted, tensor.shape)
    result = wrap(Plug.devices().put(tensor.detach()._data, device_mesh._device, where))
    return result.requires_grad_(tensor.requires_grad)


def place(parameter: Any, mesh: DeviceMesh, placements: Sequence[Any]) -> None:
    """Put a parameter on a mesh. It stays the same object, since optimizers refer to it."""
    with_grad = parameter.grad
    parameter.data = distribute_tensor(parameter.detach(), mesh, placements)
    if with_grad is not None:
        parameter.grad = distribute_tensor(with_grad.detach(), mesh, placements)


@contextmanager
def as_before_if_it_fails(module: Any) -> Iterator[None]:
    """A context that restores a module if an error occurs while its parts are being placed."""
    parts = [*module.modules()]
    parameters = [(p, p._data, p.grad) for p in module.parameters()]
    tables = [
        (table, {**table}) for part in parts
        for table in (part._buffers, part._forward_pre_hooks, part._forward_hooks)
    ]  # fmt: skip
    try:
        yield
    except BaseException:
        for p, data, grad in parameters:
            p._data, p.grad = data, grad
        for table, members in tables:
            table.clear()
            table.update(members)
        raise


def distribute_module(
    module: Any, device_mesh: DeviceMesh, partition_fn: Callable[..., Any] | None = None,
    input_fn: Callable[..., Any] | None = None, output_fn: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Put the parameters and buffers of a module on a mesh.

    Args:
        module: The module.
        device_mesh: The mesh.
        partition_fn: Called with the name of each part of the module, the part, and the mesh, to
            place its parameters. Other parameters are replicated.
        input_fn: Called with the module, its inputs and the mesh before ``forward``. What it
            returns, if not None, replaces the inputs.
        output_fn: Called with the module, its output and the mesh after ``forward``.

    Returns:
        The module. Its parameters stay the same objects.

    Example:
        >>> model = distribute_module(torch.nn.Linear(2, 1), mesh)  # doctest: +SKIP
    """
    whole = _checked(device_mesh, None)
    with as_before_if_it_fails(module):
        for name, part in module.named_modules():
            if partition_fn is not None:
                partition_fn(name, part, device_mesh)
        for parameter in module.parameters():
            if mesh_of(parameter) is None:
                place(parameter, device_mesh, whole)
        for part in module.modules():
            for name, buffer in part._buffers.items():
                if buffer is not None and mesh_of(buffer) is None:
                    part._buffers[name] = distribute_tensor(buffer, device_mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda part, args: input_fn(part, args, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda part, _, output: output_fn(part, output, device_mesh))
    return module


def _on_mesh(create: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        *args: Any, device_mesh: DeviceMesh, placements: Sequence[Any] | None = None, **options: Any
    ) -> Any:
        return distribute_tensor(create(*args, **options), device_mesh, placements)

    function.__name__ = function.__qualname__ = create.__name__
    function.__doc__ = f"""A tensor as ``torch.{create.__name__}`` makes it, on a mesh.

Args:
    *args: The arguments of ``torch.{create.__name__}``.
    device_mesh: The mesh.
    placements: One for each dimension of the mesh; ``Replicate()`` by default.
    **options: The options of ``torch.{create.__name__}``.

Returns:
    The tensor.
"""
    return function


zeros, ones, empty, full = map(_on_mesh, (
    _creation.zeros, _creation.ones, _creation.empty, _creation.full,
))  # fmt: skip
rand, randn = _on_mesh(_randoms.rand), _on_mesh(_randoms.randn)
