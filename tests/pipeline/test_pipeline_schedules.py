"""Schedules: every order is PyTorch's or right for a stated reason, and the checker sees faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.pipeline import Instruction, Kind, ScheduleError, check, schedules, simulate

PASSES = (Kind.FORWARD, Kind.BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT)


@st.composite
def any_schedule(draw: Any, most_stages: int = 8, most_microbatches: int = 32) -> Any:
    """Any schedule there is, with skip connections or without."""
    kind = schedules.get(draw(st.sampled_from(schedules.names())))
    stages = draw(st.integers(1, most_stages))
    chunks = draw(st.integers(1, 4)) if kind.takes_chunks else 1
    last = stages * chunks - 1
    numbers = st.integers(0, last)
    pairs = st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1])
    links = draw(st.sets(pairs, max_size=3)) if last > 0 else set()
    return kind(stages, draw(st.integers(1, most_microbatches)), chunks, links)


@given(any_schedule())
def test_every_schedule_is_right(schedule: Any) -> None:
    check(schedule)


@given(any_schedule())
def test_every_micro_batch_goes_through_every_virtual_stage(schedule: Any) -> None:
    """Counted without the checker."""
    every = {(m, c) for m in range(schedule.microbatches) for c in range(schedule.chunks)}
    sent, received = [], []
    for rank in range(schedule.stages):
        found: dict[Kind, list[tuple[int, int]]] = {}
        for kind, microbatch, chunk, peer in schedule.instructions(rank):
            found.setdefault(kind, []).append((microbatch, chunk))
            here = chunk * schedule.stages + rank
            if kind in (Kind.SEND_ACTIVATION, Kind.SEND_GRADIENT):
                sent.append((kind == Kind.SEND_GRADIENT, microbatch, here, peer))
            elif kind in (Kind.RECEIVE_ACTIVATION, Kind.RECEIVE_GRADIENT):
                received.append((kind == Kind.RECEIVE_GRADIENT, microbatch, peer, here))
        assert sorted(found.pop(Kind.FORWARD)) == sorted(every)
        whole, inputs, weights = (found.get(kind, []) for kind in PASSES[1:])
        assert sorted(whole + inputs) == sorted(whole + weights)
        assert sorted(whole + inputs) == (sorted(every) if schedule.trains else [])
    links = len(schedule.links) * schedule.microbatches * (2 if schedule.trains else 1)
    assert sorted(sent) == sorted(received)
    assert len(set(sent)) == len(sent) == links


@given(any_schedule(5, 6), st.data())
def test_checker_sees_what_is_missing_or_twice(schedule: Any, data: Any) -> None:
    if not schedule.trains:
        schedule = schedules.GPipe(schedule.stages, schedule.microbatches)
    programs = [list(schedule.instructions(rank)) for rank in range(schedule.stages)]
    copy = schedules.Written(programs, schedule.microbatches, schedule.chunks, schedule.links)
    check(copy)
    program = data.draw(st.sampled_from(copy.programs))
    place = data.draw(st.integers(0, len(program) - 1))
    if data.draw(st.booleans()):
        del program[place]
    else:
        program.insert(data.draw(st.integers(place, len(program))), program[place])
    with pytest.raises(ScheduleError):
        check(copy)


# -- orders ------------------------------------------------------------------------------------


def passes(schedule: Any, rank: int) -> list[tuple[str, int, int]]:
    """Kind, virtual stage and micro-batch, as PyTorch's actions have them."""
    return [
        (kind.name, chunk * schedule.stages + rank, microbatch)
        for kind, microbatch, chunk, _ in schedule.instructions(rank)
        if kind in PASSES
    ]


def pytorch_order(
    name: str, stages: int, microbatches: int, chunks: int
) -> Iterator[tuple[int, list[tuple[str, int, int]]]]:
    """The order in PyTorch's schedule of that name, which it works out without any process."""
    theirs = pytest.importorskip(
        "torch.distributed.pipelining.schedules", reason="PyTorch is the reference to compare with"
    )
    schedule = object.__new__(getattr(theirs, name))
    schedule.pp_group_size = schedule._num_stages = stages
    schedule._n_microbatches, schedule.n_local_stages = microbatches, chunks
    schedule.number_of_rounds = max(1, microbatches // stages)
    schedule.microbatches_per_round = microbatches // schedule.number_of_rounds
    if hasattr(schedule, "_get_pipeline_order"):
        order = schedule._get_pipeline_order()
    else:
        ranks = range(stages)
        order = {rank: schedule._calculate_single_rank_operations(rank) for rank in ranks}
    for rank, actions in order.items():
        kinds = {"FULL_BACKWARD": "BACKWARD"}
        yield (
            rank,
            [
                (kinds.get(a.computation_type.name, a.computation_type.name), a.stage_index,
                 a.microbatch_index)
                for a in actions if a is not None and a.microbatch_index is not None
            ],
        )  # fmt: skip


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("microbatches", [8, 12, 16, 24])
@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("gpipe", "ScheduleGPipe"),
        ("1f1b", "Schedule1F1B"),
        ("zb-h1", "ScheduleInterleavedZeroBubble"),
    ],
)
def test_order_is_that_of_pytorch(name: str, theirs: str, stages: int, microbatches: int) -> None:
    schedule = schedules.get(name)(stages, microbatches)
    found = dict(pytorch_order(theirs, stages, microbatches, 1))
    assert len(found) == stages
    for rank, actions in found.items():
        if name == "1f1b" and rank == stages - 1:
            # PyTorch 2.13 numbers the last rank's forward passes from 1 in this drawing of its
            # order, and so has none of micro-batch 0.
            actions = [(kind, rank, number // 2) for number, (kind, _, _) in enumerate(actions)]
        assert passes(schedule, rank) == actions


@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize(
    ("stages", "microbatches"),
    [(1, 1), (2, 2), (2, 8), (3, 2), (4, 3), (4, 4), (4, 10), (4, 16), (8, 24), (8, 18)],
)
def test_interleaved_order_is_that_of_pytorch(stages: int, microbatches: int, chunks: int) -> None:
    """Wherever PyTorch has one: it wants groups of equal size."""
    schedule = schedules.get("interleaved")(stages, microbatches, chunks)
    found = pytorch_order("ScheduleInterleaved1F1B", stages, microbatches, chunks)
    for rank, actions in found:
        assert passes(schedule, rank) == actions


def test_one_chunk_interleaved_is_1f1b() -> None:
    for rank in range(4):
        assert list(schedules.get("interleaved")(4, 9).instructions(rank)) == list(
            schedules.get("1f1b")(4, 9).instructions(rank)
        )


def test_instructions_around_a_pass() -> None:
    """With a skip connection from the first stage to the last."""
    schedule = schedules.get("1f1b")(3, 1, links={(0, 2)})
    assert list(schedule.instructions(2)) == [
        Instruction(Kind.LOAD, 0),
        Instruction(Kind.RECEIVE_ACTIVATION, 0, 0, 0),
        Instruction(Kind.RECEIVE_ACTIVATION, 0, 0, 1),
        Instruction(Kind.FORWARD, 0),
        Instruction(Kind.BACKWARD, 0),
        Instruction(Kind.SEND_GRADIENT, 0, 0, 1),
        Instruction(Kind.SEND_GRADIENT, 0, 0, 0),
        Instruction(Kind.REDUCE),
        Instruction(Kind.STEP),
    ]
    assert [str(i) for i in schedule.instructions(0)] == [
        "load of micro-batch 0",
        "forward of micro-batch 0",
        "send activation of micro-batch 0 to virtual stage 1",
        "send activation of micro-batch 0 to virtual stage 2",
        "receive gradient of micro-batch 0 from virtual stage 1",
        "receive gradient of micro-batch 0 from virtual stage 2",
        "backward of micro-batch 0",
        "reduce",
        "step",
    ]


def test_instructions_are_made_as_they_are_asked_for() -> None:
    instructions = schedules.get("1f1b")(2, 10**15).instructions(0)
    assert next(instructions) == Instruction(Kind.LOAD, 0)


def test_evaluation_goes_forward_only() -> None:
    schedule = schedules.get("interleaved")(2, 4, 2, {(0, 3)}).forward_only()
    check(schedule)
    kinds = {i.kind for rank in range(2) for i in schedule.instructions(rank)}
    assert kinds == {Kind.LOAD, Kind.RECEIVE_ACTIVATION, Kind.FORWARD, Kind.SEND_ACTIVATION}
    assert (0, 3) in schedule.links
    assert simulate(schedule).peak_activations == (0.5, 0.5)


# -- mistakes ----------------------------------------------------------------------------------


def written(**changes: list[Instruction]) -> Any:
    """1F1B on two stages with two micro-batches, with other instructions for some rank."""
    schedule = schedules.get("1f1b")(2, 2)
    programs = [changes.get(f"rank{r}", list(schedule.instructions(r))) for r in range(2)]
    return schedules.Written(programs, 2)


def test_errors_say_what_is_wrong() -> None:
    zero = list(schedules.get("1f1b")(2, 2).instructions(0))
    forward = Instruction(Kind.FORWARD, 0)
    cases = [
        (zero[:-1], "rank 0: a rank must end with one reduce and one step"),
        ([*zero, forward], "rank 0: forward of micro-batch 0, after the last step"),
        ([*zero[:-1], forward], "forward of micro-batch 0, after gradients were reduced"),
        (zero[1:], "forward of micro-batch 0, before load of micro-batch 0"),
        ([zero[0], *zero], "load of micro-batch 0, twice"),
        ([Instruction(Kind.LOAD, 2), *zero], "load of micro-batch 2, of 2 micro-batches"),
        ([Instruction(Kind.LOAD, 0, 1), *zero], "load of micro-batch 0 on chunk 1, of 1 chunks"),
        (
            [*zero[:2], Instruction(Kind.SEND_ACTIVATION, 0, 0, 2), *zero[2:]],
            "send activation of micro-batch 0 to virtual stage 2, but there is no link (0, 2)",
        ),
        (
            [i for i in zero if i.kind is not Kind.SEND_ACTIVATION],
            "the activation of micro-batch 0 from virtual stage 0 to 1 is received, but not sent",
        ),
        ([i for i in zero if i.kind is not Kind.BACKWARD], "no backward pass of micro-batch 0"),
    ]
    for program, message in cases:
        with pytest.raises(ScheduleError) as caught:
            check(written(rank0=program))
        assert message in str(caught.value)


def test_weights_wait_for_inputs() -> None:
    programs = [list(schedules.get("zb-h1")(1, 1).instructions(0))]
    order = [i.kind for i in programs[0]]
    assert order[2:4] == [Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT]
    programs[0][2:4] = reversed(programs[0][2:4])
    with pytest.raises(ScheduleError, match=r"backward weight .* before backward input"):
        check(schedules.Written(programs, 1))


def test_bad_arguments() -> None:
    gpipe = schedules.get("gpipe")
    with pytest.raises(ValueError, match="stages must be a whole number of at least 1, not 0"):
        gpipe(0, 1)
    with pytest.raises(ValueError, match="microbatches must be a whole number of at least 1"):
        gpipe(1, -3)
    with pytest.raises(ValueError, match=r"stages must be a whole number of at least 1, not 1\.5"):
        gpipe(1.5, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gpipe runs one chunk a stage, not 2"):
        gpipe(2, 2, 2)
    with pytest.raises(ValueError, match=r"0 <= from < to <= 1, not \(1, 0\)"):
        gpipe(2, 2, links={(1, 0)})
    with pytest.raises(ValueError, match="there is no rank 2 in a pipeline of 2 stages"):
        gpipe(2, 2).instructions(2)
    with pytest.raises(ValueError, match="there is no schedule 'gpip'; did you mean 'gpipe'"):
        schedules.get("gpip")
    with pytest.raises(ValueError, match="choose from gpipe, 1f1b, interleaved, zb-h1, forward"):
        schedules.get("zzz")


# -- printing ----------------------------------------------------------------------------------


def test_schedules_can_be_printed() -> None:
    assert str(schedules.get("zb-h1")(3, 4)) == (
        "zb-h1: 3 stages, 4 micro-batches; time 14, bubble 16.7 %, at most 3 activations\n"
        "stage 0  F0 F1 F2 ·  ·  B0 W0 F3 B1 W1 B2 W2 B3 W3\n"
        "stage 1  ·  F0 F1 ·  B0 F2 B1 W0 F3 B2 W1 B3 W2 W3\n"
        "stage 2  ·  ·  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3\n"
        "F forward  B backward, inputs  W backward, weights  · idle"
    )


def test_schedules_that_cannot_run_are_printed_too() -> None:
    assert str(written(rank0=[Instruction(Kind.LOAD, 0), Instruction(Kind.FORWARD, 0)])) == (
        "<written: stages=2, microbatches=2>, which cannot run\n"
        "stage 0  F0\n"
        "stage 1  F0 B0 F1 B1\n"
        "written on 2 stages deadlocks: rank 1 waits: receive activation of micro-batch 0 from "
        "virtual stage 0; but rank 0 never sends that"
    )
