"""The same program in PyTorch's ``gloo`` and here, by MPI: it must print the same."""

from __future__ import annotations

import json

import _compared_programs as programs
import _mpi
import pytest
from _distributed_programs import PRELUDE
from hypothesis import given
from hypothesis import strategies as st

from retrograd.utils.data import DistributedSampler

RANKS = 3


def cases(printed: str) -> dict[str, object]:
    return dict(json.loads(line) for line in printed.splitlines())


@pytest.mark.parametrize("part", ["CALLS", pytest.param("TRAINING", marks=pytest.mark.long)])
def test_it_prints_the_same(torch, part):
    _mpi.need_mpi()
    program = programs.PROGRAM + getattr(programs, part)
    theirs = [cases(out) for out in _mpi.run_torch(program, RANKS)]
    result = _mpi.run(program, RANKS, timeout=120, env={"LIBRARY": "retrograd"})
    ours = [cases(out) for out in result.out]
    assert len(theirs[0]) == {"CALLS": 73, "TRAINING": 17}[part]
    for rank in range(RANKS):
        assert list(ours[rank]) == list(theirs[rank]), result.report()
        for name, came in theirs[rank].items():
            assert ours[rank][name] == came, f"rank {rank}, {name}"
    assert not any(result.err), result.report()


def test_the_words_for_who_is_missing(torch):
    # Rank 0 has PyTorch's words for it.
    result = _mpi.run(PRELUDE + """
from datetime import timedelta
if rank == 0:
    for all_of_them, words in ((True, "Ranks 1, 2"), (False, "Rank 1")):
        raises(RuntimeError, f"[Rank 0]: {words} failed to pass monitoredBarrier in 300 ms",
               dist.monitored_barrier, timeout=timedelta(seconds=0.3), wait_all_ranks=all_of_them)
    print("good")
    dist.fail(RuntimeError("enough"))
time.sleep(60)
""", RANKS, expect=None)  # fmt: skip
    assert "good" in result.out[0], result.report()


@given(
    st.integers(0, 40), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(0, 2**40),
    st.integers(0, 100),
)  # fmt: skip
def test_samplers_take_what_pytorchs_take(torch, count, replicas, shuffle, drop_last, seed, epoch):
    for rank in range(replicas):
        samplers = [
            kind(range(count), replicas, rank, shuffle, seed, drop_last)
            for kind in (torch.utils.data.DistributedSampler, DistributedSampler)
        ]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        theirs, ours = samplers
        assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)
