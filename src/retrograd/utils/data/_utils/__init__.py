"""The parts of a ``DataLoader``, under the names they have in PyTorch.

- ``collate``: a batch from a list of samples;
- ``fetch``: the samples of a batch from a dataset;
- ``worker``: the loop of a process that loads data;
- ``transport``: how batches come from there, their arrays in shared memory;
- ``pool``: the processes of one iterator: started, heard, stopped.
"""

from retrograd.utils.data._utils import collate, fetch, worker

__all__ = ["collate", "fetch", "worker"]
