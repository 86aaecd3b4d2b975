"""``torch.utils.data``: datasets, the order of their samples, and batches of them.

- ``dataset``: samples by number, or one after another, and ways to combine and split them;
- ``sampler``, ``distributed``: orders;
- ``dataloader``: batches; ``_iterators``: one pass over them; ``_resuming``: going on amid a pass;
- ``_utils``: collating, fetching, and the processes that load ahead.
"""

from retrograd.utils.data.dataloader import (
    DataLoader,
    default_collate,
    default_convert,
    get_worker_info,
)
from retrograd.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from retrograd.utils.data.distributed import DistributedSampler
from retrograd.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]  # fmt: skip
