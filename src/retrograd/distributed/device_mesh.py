"""Meshes: devices that one program computes on together, under PyTorch's names.

One process drives all of its devices, as in JAX; in PyTorch, each device has its own process. A
tensor on a mesh has the shape of the whole tensor, and XLA inserts the communication.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd.autograd._wrap import Plug
from retrograd.distributed import _endings, _groups, _objects, _ranks
from retrograd.tensor._conversion import as_tensor
from retrograd.tensor._device import COMPUTES, device

VIRTUAL = "XLA_FLAGS=--xla_force_host_platform_device_count"


class OnMesh(device):
    """The device of tensors on a mesh. New tensors on it are replicated."""

    never_changes = True  # so that programs that refer to it need not compare it at each call

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__(mesh.device_type)
        self._mesh = mesh

    def clone(self) -> OnMesh:
        return self

    def __repr__(self) -> str:
        return f"device(type='{self.type}', mesh={self._mesh.shape})"

    def __str__(self) -> str:
        return f"a mesh of {self._mesh.size()} devices '{self.type}'"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnMesh) and other._mesh._jax_mesh == self._mesh._jax_mesh

    def __hash__(self) -> int:
        return hash(self._mesh)

    def __reduce__(self) -> Any:
        return device, (self.type,)


class DeviceMesh:
    """A multi-dimensional grid of devices, over which tensors are split or replicated.

    ``mesh["tp"]`` is a submesh with some of the dimensions. Placements on it do not affect the
    other dimensions. Tensors always refer to the whole mesh. Meshes with the same devices, shape
    and names are equal, and tensors on them can be combined.

    Args:
        device_type: ``"cuda"``, ``"tpu"``, ``"xla"``, or ``"cpu"``, which stands for ``"xla:cpu"``.
        mesh: The numbers of the devices, as nested lists or as a tensor.
        mesh_dim_names: A name for each dimension.

    Example:
        >>> mesh = DeviceMesh("cpu", [0])  # doctest: +SKIP
    """

    never_changes = True

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        self.device_type = _known(device_type)
        self.mesh = as_tensor(mesh, device="cpu")
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._root = self
        self._axes = self.mesh_dim_names or tuple(f"dim{i}" for i in range(self.ndim))
        devices = Plug.devices()
        devices.device_of(self.device_type, None)  # for the error if there is none
        available = devices.everywhere(self.device_type)
        numbers = self.mesh.flatten().tolist()
        if not numbers or any(not isinstance(i, int) or i < 0 for i in numbers):
            raise ValueError(f"mesh must contain the numbers of devices, but it is {numbers}")
        if len(set(numbers)) < len(numbers):
            raise RuntimeError(f"DeviceMesh cannot have duplicate values, but found {numbers}")
        if max(numbers) >= len(available):
            hint = f" {VIRTUAL}={len(numbers)} creates more on the CPU, if it is set before JAX "
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {len(available)}, but found "
                f"{len(numbers)} ranks! There are {len(available)} devices '{self.device_type}'."
                + (hint + "is first used." if self.device_type == "xla:cpu" else "")
            )
        np, jax = arrays.programs.numpy, devices.jax()
        rows = np.array([available[i] for i in numbers], dtype=object).reshape(self.shape)
        self._jax_mesh = jax.sharding.Mesh(rows, self._axes)
        self._hash: int = hash(self._jax_mesh)
        self._device = OnMesh(self)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of devices along each dimension."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of devices, of all or along one dimension.

        Args:
            mesh_dim: The dimension.
        """
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        names = names if isinstance(names, tuple) else (names,)
        known = self.mesh_dim_names
        if known is None:
            raise RuntimeError(
                "Cannot slice a DeviceMesh without mesh_dim_names! Give a name to each dimension: "
                "init_device_mesh(..., mesh_dim_names=('dp', 'tp'))"
            )
        if not names or any(name not in known for name in names) or len({*names}) < len(names):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {[*known]}."
            )
        part = object.__new__(DeviceMesh)
        part.device_type, part._root, part._device = self.device_type, self._root, self._device
        part._jax_mesh, part._axes, part.mesh_dim_names = self._jax_mesh, names, names
        part._hash = self._hash
        index = tuple(slice(None) if name in names else 0 for name in known)
        rest = [name for name in known if name in names]
        part.mesh = self.mesh[index].permute([rest.index(name) for name in names])
        return part

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, DeviceMesh) and self._axes == other._axes
                and self._jax_mesh == other._jax_mesh)  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceMesh:
        return self

    def get_coordinate(self) -> tuple[int, ...] | None:
        """The position in the mesh of the first device that this process drives.

        Returns:
            An index for each dimension; None if it drives none of the devices.
        """
        jax = Plug.devices().jax()
        own = [d.process_index == jax.process_index() for d in self._jax_mesh.devices.flat]
        if True not in own:
            return None
        number = own.index(True)
        return tuple(number // math.prod(self._root.shape[i + 1 :]) % self._root.shape[i]
                     for i in map(self._root._axes.index, self._axes))  # fmt: skip

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The position along one dimension of the first device that this process drives.

        Args:
            mesh_dim: The dimension, or its name. It may be left out if there is only one.
        """
        if mesh_dim is None and self.ndim != 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                "needs to be specified when device_mesh.ndim > 1."
            )
        if isinstance(mesh_dim, str):
            return self[mesh_dim].get_local_rank()
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise RuntimeError(f"this process drives no device of {self}")
        return coordinate[mesh_dim or 0]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Raises an error, as a mesh has no process groups.

        Args:
            mesh_dim: The dimension, or its name.
        """
        raise NotImplementedError(
            "a mesh has no process groups: one process drives several devices, and XLA inserts "
            "what they send each other. Place tensors with distribute_tensor() and redistribute(); "
            "to connect processes, use new_group()"
        )

    def sharding(self, placements: Sequence[Any], shape: Any, partly: bool = False) -> Any:
        """The JAX sharding for the placements of a tensor, one for each dimension of the mesh.

        Args:
            placements: ``Shard`` or ``Replicate``.
            shape: The shape of the tensor.
            partly: Whether XLA chooses the placements along those dimensions of the whole mesh
                that are not in this submesh.

        Returns:
            A ``NamedSharding``.
        """
        sharding = Plug.devices().jax().sharding
        axes: list[list[str]] = [[] for _ in shape]
        for axis, placement in zip(self._axes, placements, strict=False):
            if (dim := getattr(placement, "dim", None)) is not None:
                if not -len(shape) <= dim < len(shape):
                    raise ValueError(f"Sharding dim {dim} greater than tensor ndim {len(shape)}")
                axes[dim].append(axis)
        for dim, names in enumerate(axes):
            parts = math.prod(self._jax_mesh.shape[name] for name in names)
            if not partly and shape[dim] % parts:
                raise ValueError(
                    f"dimension {dim} of a tensor of shape {tuple(shape)} cannot be split into "
                    f"{parts} equal parts, as a mesh requires: choose another dimension, "
                    "Replicate(), or pad it"
                )
        free = sharding.PartitionSpec.UNCONSTRAINED if partly and self._root is not self else None
        spec = sharding.PartitionSpec(*[tuple(names) or free for names in axes])
        return sharding.NamedSharding(self._jax_mesh, spec)

    def __repr__(self) -> str:
        sizes = [str(n) for n in self.shape]
        if self.mesh_dim_names is not None:
            sizes = [f"{a}={n}" for a, n in zip(self.mesh_dim_names, sizes, strict=True)]
        return f"DeviceMesh(({', '.join(sizes)}), '{self.device_type}')"


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """A mesh of the first devices, in order.

    On the CPU, JAX creates as many virtual devices if it has not been used yet. In several
    processes (``mpiexec -n 2 python train.py``, after ``init_process_group("mpi")``) the mesh has
    the devices of all processes, which must then execute the same operations in the same order.

    Args:
        device_type: ``"cuda"``, ``"tpu"``, ``"xla"``, or ``"cpu"``, which stands for ``"xla:cpu"``.
        mesh_shape: The number of devices along each dimension.
        mesh_dim_names: A name for each dimension.

    Example:
        >>> mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))  # doctest: +SKIP
        >>> mesh["tp"]  # doctest: +SKIP
        DeviceMesh((tp=4), 'xla:cpu')
    """
    if isinstance(mesh_shape, int) or not all(isinstance(n, int) and n > 0 for n in mesh_shape):
        raise ValueError(
            "mesh_shape must be a tuple with the number of devices along each dimension: (8,) "
            f"or (2, 4), but got {mesh_shape}"
        )
    shape = tuple(mesh_shape)
    if isinstance(device_type, str) and ":" in device_type and device_type != "xla:cpu":
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ")
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(
            "Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names "
            f"{tuple(mesh_dim_names)}"
        )
    if mesh_dim_names is not None and len(mesh_dim_names) != len(shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
            f"{len(mesh_dim_names)} and len(mesh_shape):{len(shape)}."
        )
    processes = _ranks.get_world_size() if _groups.is_initialized() else 1
    if _known(device_type) == "xla:cpu":
        if math.prod(shape) % processes:
            raise RuntimeError(
                f"{math.prod(shape)} devices cannot be divided equally among {processes} "
                "processes: on the CPU, each makes the same number of virtual devices"
            )
        _make_virtual_devices(math.prod(shape) // processes)
    if processes > 1:
        _join(processes)
    numbers = as_tensor([*range(math.prod(shape))], device="cpu").reshape(shape)
    return DeviceMesh(device_type, numbers, mesh_dim_names=mesh_dim_names)


def _known(device_type: Any) -> str:
    """The device type of a mesh. Raises an error if it is not supported."""
    if not isinstance(device_type, str):
        raise TypeError(f"device_type is a string such as 'cuda', not {type(device_type).__name__}")
    kind = device(device_type).type
    kind = "xla:cpu" if kind == "cpu" else kind
    if kind not in COMPUTES:
        raise RuntimeError(
            f"a mesh consists of devices of type 'cpu', {', '.join(map(repr, COMPUTES))}, "
            f"not {device_type!r}"
        )
    return kind


def _make_virtual_devices(count: int) -> None:
    """Let JAX create devices on the CPU, unless their number is set or they exist already."""
    jax = Plug.devices().jax()
    if VIRTUAL.partition("=")[2] not in os.environ.get("XLA_FLAGS", ""):
        try:
            jax.config.update("jax_num_cpu_devices", count)
        except RuntimeError:  # they exist: the mesh raises an error if they are too few
            return


_joined: list[int] = []


def _join(processes: int) -> None:
    """Connect JAX's runtimes in the processes of the process group."""
    if _joined:
        return
    rank = _ranks.get_rank()
    address = [_free_address() if rank == 0 else None]
    _objects.broadcast_object_list(address, src=0)
    Plug.devices().jax().distributed.initialize(address[0], processes, rank)
    _joined.append(processes)
    _endings.run_first()


def _free_address() -> str:
    """A host and a port at which the first process can be reached."""
    import socket

    with socket.socket() as listener:
        listener.bind(("", 0))
        port = listener.getsockname()[1]
    return f"{socket.gethostname()}:{port}"


__all__ = ["DeviceMesh", "init_device_mesh"]
