"""Finding MPI. Everything else gets it from here."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

from retrograd.distributed._alone import Alone

# What launchers tell the processes they start: Open MPI, MPICH and Intel MPI, PMIx, MVAPICH.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
# Marks of launchers that do not say how many there are, and of batch systems that launch.
_MARKS = (
    "OMPI_COMM_", "PMI_", "PMIX_", "MV2_", "MPI_LOCAL", "PALS_", "FLUX_TASK_RANK",
    "JSM_NAMESPACE_RANK", "ALPS_APP_PE", "SLURM_PROCID",
)  # fmt: skip
_INSTALL = 'MPI is not installed for this Python. Try: pip install "retrograd[mpi]"'


def launched_size() -> int | None:
    """How many processes the launcher says it started, or None if there was none."""
    for name in _SIZES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def _is_launched() -> bool:
    """Whether this process may be one of several: a launcher started it, or MPI is on already."""
    return "mpi4py.MPI" in sys.modules or any(name.startswith(_MARKS) for name in os.environ)


def is_installed() -> bool:
    """Whether ``mpi4py`` can be imported."""
    return importlib.util.find_spec("mpi4py") is not None


def load() -> Any:
    """The module ``mpi4py.MPI``, or None for a process that is alone, which needs no MPI."""
    if not _is_launched():
        return None
    size = launched_size()
    if not is_installed():
        if size is not None and size > 1:
            raise RuntimeError(f"this is one of {size} processes, but {_INSTALL}")
        return None
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError, OSError) as error:  # mpi4py without a library to load
        if size is None or size == 1:
            return None
        raise RuntimeError(
            f"this is one of {size} processes, but mpi4py finds no MPI library: {error}. Install "
            'one (pip install "retrograd[mpi]"), or load the cluster\'s module for it'
        ) from error
    result = mpi.COMM_WORLD.Get_size()
    if size is not None and size != result:
        raise RuntimeError(
            f"the launcher started {size} processes, but the MPI that mpi4py uses "
            f"({mpi.Get_library_version().split(',')[0]}) sees {result}: mpiexec belongs to "
            "another MPI. Use the mpiexec of the same installation, or build mpi4py with the "
            "cluster's MPI (pip install --no-binary=mpi4py mpi4py)"
        )
    return mpi


def is_running() -> bool:
    """Whether MPI has been started in this process."""
    return "mpi4py.MPI" in sys.modules


def world(mpi: Any, wait: Callable[[Any], None]) -> Any:
    """The communicator of all processes, of our own, that returns errors. ``wait`` waits for a
    request of MPI."""
    if mpi is None:
        return Alone()
    comm = duplicate(mpi.COMM_WORLD, wait)
    comm.Set_errhandler(mpi.ERRORS_RETURN)
    return comm


def duplicate(comm: Any, wait: Callable[[Any], None]) -> Any:
    """A communicator of the same processes, whose messages are not mixed with those of the first.
    Does not block inside MPI."""
    copy, request = comm.Idup()
    wait(request)
    return copy
