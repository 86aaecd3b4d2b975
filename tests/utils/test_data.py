"""Datasets, samplers and loading in one process: the same samples in the same order, the same
words of errors and the same random numbers afterwards as in PyTorch."""

from __future__ import annotations

import collections.abc
import copy
import itertools
import pickle
import types
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd
from retrograd.utils import data

Point = collections.namedtuple("Point", ["x", "y"])


class Carrier(dict):
    """A dict with something more."""

    def __init__(self, *args, note=None):
        super().__init__(*args)
        self.note = note


class Squares:
    """A dataset by its methods alone."""

    def __init__(self, count=10):
        self.count = count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return index, float(index**2)

    def __len__(self):
        return self.count


class WithItems(Squares):
    """One that fetches batches."""

    def __getitems__(self, indices):
        return [self[i] for i in indices]


def plain(value):
    """A result of either library, as something that can be compared."""
    if type(value).__name__ == "Tensor":
        array = value.detach().numpy()
        return "tensor", str(array.dtype), array.shape, array.tolist()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, (types.GeneratorType, range)):
        return plain(list(value))
    return value


def outcome(program, t):
    """What a program gives, or the type and words of its error, with its warnings."""
    t.manual_seed(7)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = plain(program(t, t.utils.data))
        except Exception as error:
            result = type(error).__name__, str(error)
    # What follows in the stream tells how much was drawn.
    return result, [str(w.message) for w in seen], t.rand(3).tolist()


def gen(t, seed=3):
    return t.Generator().manual_seed(seed)


def iterable(d, count=7, length=None):
    class Stream(d.IterableDataset):
        def __iter__(self):
            return iter(range(count))

        def __repr__(self):
            return "Stream()"

    if length is not None:
        Stream.__len__ = lambda self: length
    return Stream()


def tensors(t, d, count=10):
    x = t.arange(3.0 * count).reshape(count, 3)
    return d.TensorDataset(x, t.arange(count), x.t().contiguous().t()[:, 0])


def epochs(loader, count=2):
    return [list(loader) for _ in range(count)]


SAMPLER_PROGRAMS = [
    lambda t, d: list(d.SequentialSampler(range(5))),
    lambda t, d: list(d.RandomSampler(range(50))),
    lambda t, d: [list(s) for s in [d.RandomSampler(range(50))] * 3],
    lambda t, d: list(d.RandomSampler(range(9), generator=gen(t))),
    lambda t, d: list(d.RandomSampler(range(9), num_samples=30)),
    lambda t, d: list(d.RandomSampler(range(9), num_samples=4)),
    lambda t, d: [list(s) for s in [d.RandomSampler(range(9), num_samples=18,
                  generator=gen(t))] * 2],
    lambda t, d: list(d.RandomSampler(range(9), replacement=True)),
    lambda t, d: list(d.RandomSampler(range(9), True, 100)),
    lambda t, d: list(d.RandomSampler(range(9), True, 64, gen(t))),
    lambda t, d: (g := gen(t), list(d.RandomSampler(range(9), generator=g)), t.rand(2,
                  generator=g))[1:],
    lambda t, d: (g := gen(t), list(d.RandomSampler(range(9), True, 64, g)), t.rand(2,
                  generator=g))[1:],
    lambda t, d: len(d.RandomSampler(range(9), num_samples=4)),
    lambda t, d: d.RandomSampler([]),
    lambda t, d: d.RandomSampler(range(3), num_samples=0),
    lambda t, d: d.RandomSampler(range(3), num_samples=2.5),
    lambda t, d: d.RandomSampler(range(3), replacement=1),
    lambda t, d: list(d.SubsetRandomSampler([5, 7, 9, 11])),
    lambda t, d: list(d.SubsetRandomSampler("abcdef", generator=gen(t))),
    lambda t, d: len(d.SubsetRandomSampler([5, 7])),
    lambda t, d: list(d.WeightedRandomSampler([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 5)),
    lambda t, d: list(d.WeightedRandomSampler([0.9, 0.4, 0.05, 0.2, 0.3, 0.1], 5,
                  replacement=False)),
    lambda t, d: list(d.WeightedRandomSampler(t.rand(20), 50, generator=gen(t))),
    lambda t, d: len(d.WeightedRandomSampler([1.0], 5)),
    lambda t, d: d.WeightedRandomSampler([1.0], 0),
    lambda t, d: d.WeightedRandomSampler([1.0], True),
    lambda t, d: d.WeightedRandomSampler([1.0], 1, replacement=1),
    lambda t, d: d.WeightedRandomSampler([[1.0, 2.0]], 1),
    lambda t, d: list(d.WeightedRandomSampler([1.0, 0.0], 2, replacement=False)),
    lambda t, d: list(d.BatchSampler(range(10), 3, False)),
    lambda t, d: list(d.BatchSampler(range(10), 3, True)),
    lambda t, d: list(d.BatchSampler(range(9), 3, False)),
    lambda t, d: list(d.BatchSampler(range(2), 3, True)),
    lambda t, d: [len(d.BatchSampler(range(10), n, last)) for n in (1, 3, 5, 11)
                  for last in (True, False)],
    lambda t, d: len(d.BatchSampler(iter("ab"), 3, True)),
    lambda t, d: d.BatchSampler(range(10), 0, True),
    lambda t, d: d.BatchSampler(range(10), True, True),
    lambda t, d: d.BatchSampler(range(10), 2.0, True),
    lambda t, d: d.BatchSampler(range(10), 2, 1),
    lambda t, d: iter(d.Sampler()),
    lambda t, d: len(d.Sampler()),
    lambda t, d: [list(d.DistributedSampler(range(n), 3, r, drop_last=last, shuffle=s))
                  for n in (3, 10, 11, 12, 2) for r in range(3) for last in (0, 1) for s in (0, 1)],
    lambda t, d: list(d.DistributedSampler(range(2), 7, 6, shuffle=False)),
    lambda t, d: len(d.DistributedSampler(range(10), 4, 1)),
    lambda t, d: d.DistributedSampler(range(10), 4, 4),
    lambda t, d: d.DistributedSampler(range(10), 4, -1),
    lambda t, d: (s := d.DistributedSampler(range(10), 2, 0, seed=5), s.set_epoch(3), list(s))[2],
]  # fmt: skip

DATASET_PROGRAMS = [
    lambda t, d: d.Dataset()[0],
    lambda t, d: len(d.Dataset()),
    lambda t, d: d.IterableDataset(),
    lambda t, d: [tensors(t, d)[i] for i in (0, -1, slice(2, 4), [1, 2])],
    lambda t, d: len(tensors(t, d)),
    lambda t, d: tensors(t, d)[10],
    lambda t, d: d.TensorDataset(t.ones(3), t.ones(2)),
    lambda t, d: list(tensors(t, d, 2)),
    lambda t, d: [d.StackDataset(range(3), "abc")[1], d.StackDataset(a=range(3), b="abc")[1]],
    lambda t, d: d.StackDataset(Squares(3), WithItems(3)).__getitems__([2, 0]),
    lambda t, d: d.StackDataset(a=Squares(3), b=WithItems(3)).__getitems__([2, 0]),
    lambda t, d: len(d.StackDataset(range(3), "abc")),
    lambda t, d: d.StackDataset(),
    lambda t, d: d.StackDataset(range(3), b="abc"),
    lambda t, d: d.StackDataset(range(3), "abcd"),
    lambda t, d: d.StackDataset(a=range(3), b="abcd"),
    lambda t, d: [d.ConcatDataset([range(3), "ab", [7]])[i] for i in (0, 2, 3, 5, -1, -6)],
    lambda t, d: [d.ConcatDataset(["ab", [], "c"]).cumulative_sizes, len(d.ConcatDataset(["ab",
                  "c"]))],
    lambda t, d: d.ConcatDataset([range(3)])[-4],
    lambda t, d: d.ConcatDataset([range(3)])[3],
    lambda t, d: d.ConcatDataset([]),
    lambda t, d: d.ConcatDataset([iterable(d)]),
    lambda t, d: d.ConcatDataset(["ab"]).cummulative_sizes,
    lambda t, d: len(tensors(t, d) + tensors(t, d, 3)),
    lambda t, d: list(iterable(d) + iterable(d, 2)),
    lambda t, d: len(iterable(d, 7, 7) + iterable(d, 2, 2)),
    lambda t, d: list(d.ChainDataset([iterable(d), range(3)])),
    lambda t, d: len(d.ChainDataset([range(3)])),
    lambda t, d: [d.Subset(Squares(), [3, 1])[i] for i in (0, 1, -1)],
    lambda t, d: d.Subset(tensors(t, d), [3, 1])[[0, 1]],
    lambda t, d: [d.Subset(k(), [3, 1]).__getitems__([1, 0]) for k in (Squares, WithItems)],
    lambda t, d: len(d.Subset("abc", [0])),
    lambda t, d: type("Half", (d.Subset,), {"__getitem__": lambda s, i: i})("abc", [0]),
    lambda t, d: [s.indices for s in d.random_split(range(10), [3, 7])],
    lambda t, d: [s.indices for s in d.random_split(range(10), [3, 7], generator=gen(t, 42))],
    lambda t, d: [s.indices for s in d.random_split(range(30), [0.3, 0.3, 0.4], gen(t, 42))],
    lambda t, d: [s.indices for s in d.random_split(range(11), [0.25] * 4)],
    lambda t, d: [s.indices for s in d.random_split(range(103), [0.1, 0.2, 0.3, 0.4])],
    lambda t, d: [s.indices for s in d.random_split(range(3), [0.99, 0.005, 0.005])],
    lambda t, d: [s.indices for s in d.random_split(range(1), [0.5, 0.5])],
    lambda t, d: d.random_split(range(10), [3, 6]),
    lambda t, d: d.random_split(range(10), [1.5, -0.5]),
    lambda t, d: d.random_split(range(10), [0.5, 0.6]),
    lambda t, d: [s.indices for s in d.random_split([7], [1])],
]  # fmt: skip

SAMPLES = [
    [0, 1, 2], [0.5, 1.0], [True, False], [1, 2.5], [2.5, 1], ["a", "bc"], [b"a", b"b"],
    [(0, 1.5), (2, 3.5)], [[0, "a"], [1, "b"]], [{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}],
    [Point(0, 1.0), Point(2, 3.0)], [{"a": [Point(1, 2), "x"]}, {"a": [Point(3, 4), "y"]}],
    [Carrier({"a": 1}, note="n"), Carrier({"a": 2}, note="m")], [range(3), range(3)],
    [types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})],
    [collections.OrderedDict(b=1, a=2), collections.OrderedDict(b=3, a=4)],
    [collections.deque([1, 2]), collections.deque([3, 4])], [collections.UserDict(a=1)] * 2,
    [np.arange(3), np.arange(3) + 1], [np.ones((2, 2), np.float32)] * 3, [np.array(5), np.array(6)],
    [np.float32(1), np.float32(2)], [np.float64(1), np.float64(2)], [np.int32(1), np.int32(5)],
    [np.bool_(True), np.bool_(False)], [np.str_("a"), np.str_("b")], [np.array(["a"])],
    [np.array([object()])], [np.array([1 + 2j])], [np.array([1], ">i4")], [np.uint8(3)] * 2,
    [np.datetime64("2020-01-01")], [None, None], [object], [{1, 2}], [(1, 2), (1,)], [[], []],
    [()], [{}], [], ["a", 1], [(1, "a"), (2, 3)], [{"a": 1}, {"b": 1}], [1 + 2j],
    [2**62, -(2**62)], [2**63], [-(2**63), 2**63 - 1], [np.ones(2), np.ones(3)],
    [np.ones(2), np.ones(2, np.float32)],
    [np.ones((0, 2))] * 2, [np.asfortranarray(np.arange(6.0).reshape(2, 3))] * 2,
]  # fmt: skip


def tensor_batches(t):
    yield [t.ones(2, 3), t.zeros(2, 3)]
    yield [t.tensor(1), t.tensor(2)]
    yield [t.tensor(1.5), t.tensor(2)]
    yield [t.ones(2), t.ones(3)]
    yield [(t.ones(2), 3), (t.zeros(2), 4)]
    yield [t.ones(0), t.ones(0)]
    yield [t.arange(6).reshape(2, 3).t(), t.arange(6).reshape(3, 2)]
    yield [t.ones(2, dtype=t.int8), t.ones(2, dtype=t.int16)]
    yield [t.ones(2), np.ones(2)]
    yield [t.ones(2), 5]
    yield (t.ones(2), t.ones(2))


COLLATE_PROGRAMS = [
    *[lambda t, d, s=s: d.default_collate(s) for s in SAMPLES],
    *[lambda t, d, n=n: d.default_collate(list(tensor_batches(t))[n]) for n in range(11)],
    *[lambda t, d, s=s: d.default_convert(s) for s in SAMPLES],
    *[lambda t, d, s=s: d.default_convert(s[0]) for s in SAMPLES if s],
    lambda t, d: d.default_convert(t.ones(2)),
    lambda t, d: d.default_collate([Carrier({"a": 1}, note="n")]).note,
    lambda t, d: d._utils.collate.collate(
        [("a", 1), ("b", 2)], collate_fn_map={str: lambda b, collate_fn_map: "+".join(b)}),
    lambda t, d: d._utils.collate.collate(
        [("a", 1)], collate_fn_map={(str, int): lambda b, collate_fn_map: str(b)}),
]  # fmt: skip

LOADER_PROGRAMS = [
    lambda t, d: epochs(d.DataLoader(tensors(t, d))),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 3)),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 3, drop_last=True)),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 3, shuffle=True)),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 3, shuffle=True, generator=gen(t)), 3),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 4, sampler=d.SubsetRandomSampler(range(5)))),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 4,
                  sampler=d.WeightedRandomSampler(t.rand(10), 9))),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 4, sampler=[0, 9, -1])),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_sampler=[[0, 1], [5]])),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_sampler=d.BatchSampler(range(7), 2,
                  True))),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_size=None)),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_size=None,
                  sampler=d.BatchSampler(range(7), 2, True))),
    lambda t, d: epochs(d.DataLoader(tensors(t, d), 3, collate_fn=len)),
    lambda t, d: epochs(d.DataLoader(d.random_split(tensors(t, d), [6, 4])[0], 4, shuffle=True)),
    lambda t, d: epochs(d.DataLoader(d.Subset(d.Subset(tensors(t, d), [5, 3, 1]), [2, 0]), 2)),
    lambda t, d: epochs(d.DataLoader(tensors(t, d) + tensors(t, d, 3), 4, shuffle=True)),
    lambda t, d: epochs(d.DataLoader(d.StackDataset(a=tensors(t, d), b=range(10)), 4)),
    lambda t, d: list(d.DataLoader(tensors(t, d), sampler=[0, 10])),
    lambda t, d: list(d.DataLoader(tensors(t, d), 2, sampler=[0, -11])),
    lambda t, d: list(d.DataLoader(d.Subset(tensors(t, d), [0, 12]), 2)),
    lambda t, d: list(d.DataLoader(d.Subset(tensors(t, d), [0]), 2, sampler=[4])),
    lambda t, d: list(d.DataLoader(tensors(t, d), 2, sampler=[t.tensor(3), t.tensor(0)])),
    lambda t, d: list(d.DataLoader(tensors(t, d), 2, sampler=np.array([3, 0]))),
    lambda t, d: list(d.DataLoader(d.TensorDataset(t.ones(3, 2)), 2, sampler=[True, False])),
    lambda t, d: list(d.DataLoader(d.TensorDataset(t.ones(3, 0)), 2)),
    lambda t, d: list(d.DataLoader(d.TensorDataset(t.ones(0, 3)), 2)),
    lambda t, d: list(d.DataLoader(d.TensorDataset(t.ones(0, 3)), 2, shuffle=True)),
    lambda t, d: list(d.DataLoader(type("Doubled", (d.TensorDataset,), {
        "__getitem__": lambda s, i: s.tensors[0][i] * 2})(t.arange(3)), 2)),
    lambda t, d: list(d.DataLoader(type("Listed", (d.TensorDataset,), {
        "__getitems__": lambda s, i: [7 for _ in i]})(t.arange(3)), 2)),
    lambda t, d: epochs(d.DataLoader(Squares(), 4, shuffle=True)),
    lambda t, d: epochs(d.DataLoader(WithItems(), 4, shuffle=True)),
    lambda t, d: epochs(d.DataLoader({"a": 1, "b": 2}, sampler=["b", "a"])),
    lambda t, d: epochs(d.DataLoader("abcde", 2)),
    lambda t, d: epochs(d.DataLoader(iterable(d), 3)),
    lambda t, d: epochs(d.DataLoader(iterable(d), 3, drop_last=True)),
    lambda t, d: epochs(d.DataLoader(iterable(d), batch_size=None)),
    lambda t, d: epochs(d.DataLoader(iterable(d, 0), 3)),
    lambda t, d: [len(d.DataLoader(tensors(t, d), n, drop_last=last)) for n in (1, 3, 5)
                  for last in (True, False)],
    lambda t, d: [len(d.DataLoader(iterable(d, 7, 7), n, drop_last=last)) for n in (1, 3, 7)
                  for last in (True, False)],
    lambda t, d: len(d.DataLoader(iterable(d, 7, 7), batch_size=None)),
    lambda t, d: len(d.DataLoader(iterable(d))),
    lambda t, d: (k := d.DataLoader(iterable(d, 7, 5)), len(k), epochs(k, 1))[2],
    lambda t, d: (k := d.DataLoader(iterable(d, 7, 5), 3), len(k), epochs(k, 1))[2],
    lambda t, d: len(iter(d.DataLoader(tensors(t, d), 3))),
    lambda t, d: pickle.dumps(iter(d.DataLoader(range(3)))),
    lambda t, d: d.DataLoader(range(3), num_workers=-1),
    lambda t, d: d.DataLoader(range(3), timeout=-1),
    lambda t, d: d.DataLoader(range(3), prefetch_factor=2),
    lambda t, d: d.DataLoader(range(3), num_workers=1, prefetch_factor=-2),
    lambda t, d: d.DataLoader(range(3), persistent_workers=True),
    lambda t, d: d.DataLoader(iterable(d), shuffle=True),
    lambda t, d: list(d.DataLoader(iterable(d), shuffle=False)),
    lambda t, d: d.DataLoader(iterable(d), sampler=[1]),
    lambda t, d: d.DataLoader(iterable(d), batch_sampler=[[1]]),
    lambda t, d: d.DataLoader(range(3), sampler=[1], shuffle=True),
    lambda t, d: d.DataLoader(range(3), batch_sampler=[[1]], batch_size=2),
    lambda t, d: d.DataLoader(range(3), batch_sampler=[[1]], drop_last=True),
    lambda t, d: d.DataLoader(range(3), batch_size=None, drop_last=True),
    lambda t, d: d.DataLoader(range(3), batch_size=0),
    lambda t, d: d.DataLoader(range(3), batch_size=2.5),
    lambda t, d: d.DataLoader([], shuffle=True),
    lambda t, d: d.DataLoader(range(3), multiprocessing_context="fork"),
    lambda t, d: d.DataLoader(range(3), num_workers=1, multiprocessing_context="bad"),
    lambda t, d: d.DataLoader(range(3), num_workers=1, multiprocessing_context=5),
    lambda t, d: list(d.DataLoader(range(3), timeout=1)),
    lambda t, d: list(d.DataLoader(5, sampler=[1])),
    lambda t, d: list(d.DataLoader(5)),
    lambda t, d: list(d.DataLoader(d.TensorDataset())),
    lambda t, d: d.DataLoader(range(3), num_workers=100) and None,
    lambda t, d: setattr(d.DataLoader(range(3)), "batch_size", 3),
    lambda t, d: setattr(d.DataLoader(range(3)), "dataset", 3),
    lambda t, d: setattr(d.DataLoader(range(3)), "timeout", 3),
    lambda t, d: (k := d.DataLoader(tensors(t, d), 3, True), [k.batch_size, k.drop_last,
                  k.num_workers,
                  k.timeout, k.prefetch_factor, k.persistent_workers, k.in_order, k.generator,
                  type(k.sampler).__name__, type(k.batch_sampler).__name__, k.collate_fn is
                  d.default_collate, k.multiprocessing_context])[1],
    lambda t, d: (k := d.DataLoader(tensors(t, d), batch_sampler=[[1]]), [k.batch_size,
                  k.drop_last])[1],
    lambda t, d: (k := d.DataLoader(tensors(t, d), None), k.collate_fn is d.default_convert)[1],
    # The stream of the default generator: drawn from when an epoch starts, and when first used.
    lambda t, d: (i := iter(d.DataLoader(range(9), shuffle=True)), t.rand(2), list(i))[1:],
    lambda t, d: (i := iter(d.DataLoader(range(9), shuffle=True)), next(i), t.rand(2), list(i))[1:],
    lambda t, d: [iter(d.DataLoader(range(9), shuffle=True)) and None for _ in range(3)],
    lambda t, d: (g := gen(t), list(d.DataLoader(range(9), shuffle=True, generator=g)),
                  t.rand(2, generator=g))[1:],
    lambda t, d: next(iter(d.DataLoader(d.Dataset(), sampler=[1]))),
    lambda t, d: d.DataLoader(range(4), 2)[0],
]  # fmt: skip

GROUPS = {"samplers": SAMPLER_PROGRAMS, "datasets": DATASET_PROGRAMS, "collate": COLLATE_PROGRAMS,
          "loader": LOADER_PROGRAMS}  # fmt: skip


@pytest.mark.parametrize(
    ("group", "number"), [(g, n) for g, programs in GROUPS.items() for n in range(len(programs))]
)
def test_as_in_pytorch(torch, group, number):
    program = GROUPS[group][number]
    assert outcome(program, retrograd) == outcome(program, torch)


# -- without PyTorch ---------------------------------------------------------------------------


def test_orders_that_pytorch_gives():
    """Written down from PyTorch 2.13."""
    retrograd.manual_seed(0)
    assert list(data.RandomSampler(range(10))) == ORDERS["random"]
    loader = data.DataLoader(range(10), batch_size=4, shuffle=True)
    assert [b.tolist() for b in loader] == ORDERS["loader"]
    assert [b.tolist() for b in loader] == ORDERS["again"]
    parts = data.random_split(range(10), [0.5, 0.5])
    assert [p.indices for p in parts] == ORDERS["split"]
    assert list(data.WeightedRandomSampler([1.0, 2.0, 3.0], 8)) == ORDERS["weighted"]


ORDERS = {
    "random": [6, 9, 0, 7, 3, 5, 4, 2, 1, 8],
    "loader": [[3, 5, 0, 6], [1, 2, 4, 9], [7, 8]],
    "again": [[2, 4, 9, 8], [7, 5, 6, 1], [0, 3]],
    "split": [[1, 3, 6, 8, 0], [2, 5, 7, 4, 9]],
    "weighted": [1, 1, 2, 1, 1, 2, 1, 0],
}


def test_rows_are_the_samples_collated():
    """The batch taken at once is the one made sample by sample: its memory is its own, in reading
    order, and nothing is recorded."""
    x = retrograd.arange(24.0).reshape(4, 6).t()
    loader = data.DataLoader(data.TensorDataset(x, retrograd.arange(6)), 4, shuffle=True)
    for a, b in loader:
        assert a.is_contiguous()
        expected = data.default_collate([(x[int(i)], retrograd.tensor(int(i))) for i in b])
        assert plain([a, b]) == plain(expected)
        a.zero_()
    assert x.sum() == 276


def test_samples_that_need_gradients_are_stacked():
    x = retrograd.arange(6.0, requires_grad=True)
    (batch,) = next(iter(data.DataLoader(data.TensorDataset(x), 4)))
    assert type(batch.grad_fn).__name__ == "StackBackward0"
    batch.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1, 0, 0]
    assert retrograd.utils.data.default_collate([x, x]).requires_grad


def test_batches_in_inference_mode_are_inference_tensors():
    loader = data.DataLoader(data.TensorDataset(retrograd.ones(4, 2)), 2)
    with retrograd.inference_mode():
        assert next(iter(loader))[0].is_inference()
    assert not next(iter(loader))[0].is_inference()


def test_a_changed_collating_function_is_used():
    table = data._utils.collate.default_collate_fn_map
    before = table[retrograd.Tensor]
    table[retrograd.Tensor] = lambda batch, collate_fn_map: len(batch)
    try:
        loader = data.DataLoader(data.TensorDataset(retrograd.ones(4, 2)), 3)
        assert list(loader) == [[3], [1]]
        assert data.default_collate([np.ones(2)] * 2) == 2
    finally:
        table[retrograd.Tensor] = before


def test_pinned_memory_is_taken_and_does_nothing():
    loader = data.DataLoader(range(3), 3, pin_memory=True, pin_memory_device="cuda")
    assert [b.tolist() for b in loader] == [[0, 1, 2]]


def test_nothing_loaded_ahead():
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(data.DataLoader(range(3), num_workers=1, prefetch_factor=0))


def test_a_dataset_without_a_process_group():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        data.DistributedSampler(range(3))


def test_names_are_where_pytorch_has_them(torch):
    pipes = {"DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "_DatasetKind",
             "argument_validation", "functional_datapipe", "guaranteed_datapipes_determinism",
             "non_deterministic", "runtime_validation", "runtime_validation_disabled"}  # fmt: skip
    assert set(torch.utils.data.__all__) - set(data.__all__) == pipes
    for module in ("dataset", "sampler", "distributed", "dataloader"):
        theirs = getattr(torch.utils.data, module)
        assert set(theirs.__all__) <= set(dir(getattr(data, module)))


def test_signatures(torch):
    import inspect

    for name in data.__all__:
        theirs = inspect.signature(getattr(torch.utils.data, name)).parameters.values()
        ours = inspect.signature(getattr(data, name)).parameters.values()
        assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs], name
        for mine, other in zip(ours, theirs, strict=True):
            if mine.name != "generator":
                assert mine.default == other.default, name


def test_loaded_only_when_used():
    import subprocess
    import sys

    code = (
        "import sys, retrograd as torch\n"
        "assert not any(m.startswith('retrograd.utils') for m in sys.modules)\n"
        "torch.utils; assert 'retrograd.utils.data' not in sys.modules\n"
        "assert 'data' in dir(torch.utils)\n"
        "torch.utils.data.DataLoader"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@given(
    length=st.integers(1, 40), size=st.integers(1, 9), drop=st.booleans(), seed=st.integers(0, 99)
)
def test_every_sample_comes_once(length, size, drop, seed):
    dataset = data.TensorDataset(retrograd.arange(length))
    loader = data.DataLoader(
        dataset, size, shuffle=True, drop_last=drop, generator=gen(retrograd, seed)
    )
    batches = [batch.tolist() for (batch,) in loader]
    assert len(batches) == len(loader)
    assert all(len(b) == size for b in (batches if drop else batches[:-1]))
    seen = list(itertools.chain(*batches))
    assert len(set(seen)) == len(seen) == (length // size * size if drop else length)


# -- stopping and going on ---------------------------------------------------------------------


class Noisy(data.Dataset):
    """Random numbers drawn while loading, as for augmentation."""

    def __getitem__(self, index):
        return index, retrograd.rand(2)

    def __len__(self):
        return 23


def lazily_drawn(loader_generator):
    class Lazy(data.Sampler):
        generator = loader_generator

        def __iter__(self):
            for _ in range(20):
                yield int(retrograd.randint(23, (1,), generator=self.generator))

        def __len__(self):
            return 20

    return Lazy()


class Eager(data.Sampler):
    """Draws when the epoch is made, not when the first sample is asked for."""

    def __iter__(self):
        return iter(retrograd.randperm(23).tolist())

    def __len__(self):
        return 23


class Shuffled(data.IterableDataset):
    def __iter__(self):
        yield from retrograd.randperm(23).tolist()


MAKERS = {
    "default": lambda: data.DataLoader(Noisy(), 4, shuffle=True),
    "generator": lambda: data.DataLoader(Noisy(), 4, shuffle=True, generator=gen(retrograd)),
    "sequential": lambda: data.DataLoader(Noisy(), 4),
    "drop_last": lambda: data.DataLoader(Noisy(), 4, shuffle=True, drop_last=True),
    "no batches": lambda: data.DataLoader(Noisy(), None, shuffle=True),
    "weighted": lambda: data.DataLoader(
        Noisy(), 4, sampler=data.WeightedRandomSampler(range(1, 24), 20)
    ),
    "replacement": lambda: data.DataLoader(
        Noisy(), 4, sampler=data.RandomSampler(Noisy(), True, 50, gen(retrograd))
    ),
    "subset": lambda: data.DataLoader(
        Noisy(), 4, sampler=data.SubsetRandomSampler(range(13), gen(retrograd))
    ),
    "eager": lambda: data.DataLoader(Noisy(), 4, sampler=Eager()),
    "lazy": lambda: data.DataLoader(Noisy(), 4, sampler=lazily_drawn(gen(retrograd))),
    "batch sampler": lambda: data.DataLoader(
        Noisy(),
        batch_sampler=data.BatchSampler(
            data.RandomSampler(Noisy(), generator=gen(retrograd)), 4, False
        ),
    ),
    "iterable": lambda: data.DataLoader(Shuffled(), 4),
    "default given": lambda: data.DataLoader(
        Noisy(), 4, shuffle=True, generator=retrograd.default_generator
    ),
}


class Training:
    """A run of some epochs that can be saved after any batch: other random numbers are drawn
    between batches, as a model with dropout would."""

    def __init__(self, make):
        self.loader = make()
        self.epoch = 0

    def run(self, epochs, stop_at=None):
        """What each step saw; after ``stop_at`` steps, what is needed to go on."""
        seen = []
        while self.epoch < epochs:
            for batch in self.loader:
                seen.append((self.epoch, plain(batch), retrograd.rand(()).item()))
                if len(seen) == stop_at:
                    return seen, self.saved()
            self.epoch += 1
            seen.append(("end", retrograd.rand(()).item()))
            if len(seen) == stop_at:
                return seen, self.saved()
        return seen, None

    def saved(self):
        return copy.deepcopy([self.epoch, self.loader.state_dict(), retrograd.get_rng_state()])

    def load(self, saved):
        self.epoch, state, rng = saved
        retrograd.set_rng_state(rng)
        self.loader.load_state_dict(state)
        return self


@pytest.mark.parametrize("kind", MAKERS)
def test_going_on_after_any_batch(kind):
    retrograd.manual_seed(5)
    whole, _ = Training(MAKERS[kind]).run(3)
    for stop in range(1, len(whole)):
        retrograd.manual_seed(5)
        first, saved = Training(MAKERS[kind]).run(3, stop)
        retrograd.manual_seed(1234)  # another process
        rest, _ = Training(MAKERS[kind]).load(saved).run(3)
        assert first + rest == whole, stop


@settings(max_examples=20)
@given(stops=st.lists(st.integers(1, 6), max_size=5), kind=st.sampled_from(sorted(MAKERS)))
def test_going_on_again_and_again(stops, kind):
    retrograd.manual_seed(5)
    whole, _ = Training(MAKERS[kind]).run(2)
    retrograd.manual_seed(5)
    seen, training, saved = [], Training(MAKERS[kind]), None
    for stop in stops:
        some, saved = training.run(2, stop)
        seen += some
        if saved is None:
            break
        retrograd.manual_seed(99)
        training = Training(MAKERS[kind]).load(saved)
    if not stops or saved is not None:
        seen += training.run(2)[0]
    assert seen == whole


def test_a_state_before_the_first_batch_and_one_not_used():
    loader = data.DataLoader(Noisy(), 4, shuffle=True, generator=gen(retrograd))
    fresh = loader.state_dict()
    assert fresh["finished"] is True
    assert fresh["batches"] == 0
    order = [i.tolist() for i, _ in loader]
    again = data.DataLoader(Noisy(), 4, shuffle=True, generator=gen(retrograd, 8))
    again.load_state_dict(fresh)
    assert again.state_dict().keys() == fresh.keys()
    assert [i.tolist() for i, _ in again] == order


def test_a_state_of_an_epoch_not_begun():
    def make():
        return data.DataLoader(Noisy(), 4, shuffle=True)

    retrograd.manual_seed(3)
    loader = make()
    batches = iter(loader)
    state, rng = loader.state_dict(), retrograd.get_rng_state()
    expected = [i.tolist() for i, _ in batches]
    other = make()
    retrograd.set_rng_state(rng)
    other.load_state_dict(state)
    assert [i.tolist() for i, _ in other] == expected


def test_states_that_do_not_fit():
    loader = data.DataLoader(range(10), 2, shuffle=True, generator=gen(retrograd))
    next(iter(loader))
    state = loader.state_dict()
    for bad in (None, {}, {**state, "more": 1}):
        with pytest.raises(ValueError, match="what state_dict"):
            loader.load_state_dict(bad)
    with pytest.raises(ValueError, match="of 5 batches an epoch, but this one has 3"):
        data.DataLoader(range(6), 2).load_state_dict(state)
    with pytest.raises(ValueError, match="a generator of the loader"):
        data.DataLoader(range(10), 2, shuffle=True).load_state_dict(state)
    assert len(list(loader)) == 5  # nothing of that was taken
    shrunk = data.DataLoader(range(10), sampler=iter([1, 2]))
    with pytest.raises(RuntimeError, match="cannot go on after batch 3"):
        shrunk.load_state_dict({**data.DataLoader(range(10), sampler=iter([1])).state_dict(),
                                "batches": 3, "finished": False, "base_seed": 1})  # fmt: skip
        iter(shrunk)


def test_going_on_in_a_dataset_that_has_become_shorter():
    loader = data.DataLoader(Shuffled(), 4)
    assert len(list(zip(loader, range(5), strict=False))) == 5
    other = data.DataLoader(iterable(data), 4)
    other.load_state_dict(loader.state_dict())
    with pytest.raises(RuntimeError, match="cannot go on after batch 6: the dataset ends before"):
        iter(other)


def test_a_state_holds_numbers_and_tensors_only():
    loader = data.DataLoader(Noisy(), 4, shuffle=True, generator=gen(retrograd))
    next(iter(loader))

    def check(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                assert isinstance(key, str)
                check(inner)
        else:
            assert value is None or isinstance(value, (int, bool, retrograd.Tensor))

    check(loader.state_dict())
