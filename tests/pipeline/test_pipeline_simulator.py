"""The simulator against the published formulas, and against another way to work out the times."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_pipeline_schedules import any_schedule

from retrograd.pipeline import DeadlockError, Instruction, Kind, ScheduleError, schedules, simulate

SIZES = [(p, m) for p in (1, 2, 3, 4, 7, 8) for m in (1, 2, 3, 4, 5, 8, 11, 16, 32)]
MANY = [(p, m) for p, m in SIZES if m >= p]


# -- the formulas of the papers ----------------------------------------------------------------


@pytest.mark.parametrize(("p", "m"), SIZES)
@pytest.mark.parametrize("costs", [(1, 2), (1, 1), (3, 5), (Fraction(1, 3), Fraction(1, 7))])
def test_gpipe_and_1f1b(p: int, m: int, costs: tuple[int, int]) -> None:
    forward, backward = costs
    for name, peak in (("gpipe", m), ("1f1b", min(p, m))):
        timeline = simulate(schedules.get(name)(p, m), forward=forward, backward=backward)
        assert timeline.bubble == Fraction(p - 1, m)
        assert timeline.ideal == m * (forward + backward)
        assert timeline.time == (m + p - 1) * (forward + backward)
        assert max(timeline.peak_activations) == peak
    assert timeline.peak_activations == tuple(min(p - rank, m) for rank in range(p))


@pytest.mark.parametrize(("p", "m"), MANY)
@pytest.mark.parametrize("v", [1, 2, 3, 4])
def test_interleaved(p: int, m: int, v: int) -> None:
    """Also where the number of micro-batches is not a multiple of that of stages."""
    timeline = simulate(schedules.get("interleaved")(p, m, v), forward=3, backward=4)
    assert timeline.bubble == Fraction(p - 1, v * m)
    assert timeline.ideal == 7 * m
    if v > 1 and m > p and m % p == 0:
        assert timeline.peak_activations[0] == p + Fraction(p - 1, v)
    if v > 1 and m >= p:
        assert timeline.peak_activations[0] >= p


@pytest.mark.parametrize(("p", "m"), MANY)
def test_zero_bubble(p: int, m: int) -> None:
    timeline = simulate(
        schedules.get("zb-h1")(p, m), forward=1, backward_input=1, backward_weight=1
    )
    assert timeline.bubble == Fraction(p - 1, 3 * m)
    assert max(timeline.peak_activations) == p


@pytest.mark.parametrize(("p", "m"), [(p, m) for p, m in MANY if m >= 2 * p])
@pytest.mark.parametrize("costs", [(4, 4, 3), (4, 4, 2), (5, 5, 4), (1, 1, 0)])
def test_zero_bubble_with_cheaper_weights(p: int, m: int, costs: tuple[int, int, int]) -> None:
    """(p - 1) (F + B - W), as Qi et al. have it in their table 2."""
    forward, inputs, weights = costs
    timeline = simulate(
        schedules.get("zb-h1")(p, m),
        forward=forward,
        backward_input=inputs,
        backward_weight=weights,
    )
    assert timeline.time - timeline.ideal == (p - 1) * (forward + inputs - weights)


def test_fewer_micro_batches_than_stages() -> None:
    """The formulas do not hold: a single micro-batch goes through all stages and back."""
    assert simulate(schedules.get("zb-h1")(4, 1)).time == 4 + 4 + 1
    assert simulate(schedules.get("interleaved")(4, 1, 2)).time == 4 + 8


# -- times -------------------------------------------------------------------------------------


def times_by_relaxation(schedule: Any, costs: dict[Kind, list[int]], message: int) -> Any:
    """When each instruction ends: nothing moves earlier, until all that must be later is."""
    stages = schedule.stages
    programs = [list(schedule.instructions(rank)) for rank in range(stages)]
    ends = [[0] * len(program) for program in programs]
    receives = {Kind.RECEIVE_ACTIVATION: Kind.SEND_ACTIVATION}
    receives[Kind.RECEIVE_GRADIENT] = Kind.SEND_GRADIENT
    place = {
        (i.kind, i.microbatch, i.chunk * stages + rank, i.peer): (rank, number)
        for rank, program in enumerate(programs)
        for number, i in enumerate(program)
    }
    changed = True
    while changed:
        changed = False
        for rank, program in enumerate(programs):
            for number, (kind, microbatch, chunk, peer) in enumerate(program):
                here = chunk * stages + rank
                earliest = ends[rank][number - 1] if number else 0
                if kind in costs:
                    earliest += costs[kind][here]
                if kind in receives:
                    sender, at = place[receives[kind], microbatch, peer, here]
                    delay = message if sender != rank else 0
                    earliest = max(earliest, ends[sender][at] + delay)
                if earliest > ends[rank][number]:
                    ends[rank][number], changed = earliest, True
    return programs, ends


@given(any_schedule(5, 7), st.integers(0, 5), st.randoms())
def test_times_are_the_earliest_possible(
    schedule: Any, message: int, numbers: random.Random
) -> None:
    virtual = schedule.stages * schedule.chunks
    costs = {
        kind: [numbers.randint(0, 6) for _ in range(virtual)]
        for kind in (Kind.FORWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT)
    }
    parts = (costs[Kind.BACKWARD_INPUT], costs[Kind.BACKWARD_WEIGHT])
    costs[Kind.BACKWARD] = [a + b for a, b in zip(*parts, strict=True)]
    timeline = simulate(
        schedule,
        forward=costs[Kind.FORWARD],
        backward_input=parts[0],
        backward_weight=parts[1],
        communication=message,
    )
    programs, ends = times_by_relaxation(schedule, costs, message)
    assert timeline.time == max(map(max, ends))
    for rank, program in enumerate(programs):
        found = [(e.kind, e.microbatch, e.chunk, e.end) for e in timeline.events(rank)]
        expected = [
            (i.kind, i.microbatch, i.chunk, end)
            for i, end in zip(program, ends[rank], strict=True)
            if i.kind in costs
        ]
        assert [event for event in found if event[0] in costs] == expected
    work = sum(sum(costs[e.kind][e.chunk * schedule.stages + r] for e in timeline.events(r)
                   if e.kind in costs) for r in range(schedule.stages))  # fmt: skip
    assert sum(timeline.busy) == work
    if work:
        assert timeline.bubble == Fraction(timeline.time * schedule.stages - work, work)


@given(any_schedule(5, 9), st.integers(0, 3))
def test_events_of_a_rank_do_not_overlap(schedule: Any, message: int) -> None:
    timeline = simulate(schedule, communication=message, latency=1, contention=True)
    for rank in range(schedule.stages):
        now = 0
        for event in timeline.events(rank):
            assert now <= event.start <= event.end
            now = event.end
    assert now <= timeline.time


def test_communication_delays() -> None:
    """Two stages, one micro-batch: there and back."""
    schedule = schedules.get("gpipe")(2, 1)
    timeline = simulate(schedule, communication=Fraction(1, 4), latency=Fraction(1, 8))
    assert timeline.time == 3 + 3 + Fraction(3, 4)
    assert timeline.exposed_communication == (Fraction(3, 8), Fraction(3, 8))
    assert simulate(schedule, communication=0.1).time == 6.2


def test_contention_makes_messages_queue() -> None:
    """Passes are short against messages: they arrive one after the other, or all at once."""
    schedule = schedules.get("forward")(2, 4)
    assert simulate(schedule, communication=10).time == 4 + 10 + 1
    assert simulate(schedule, communication=10, contention=True).time == 1 + 4 * 10 + 1
    latency = simulate(schedule, latency=10, contention=True)
    assert latency.time == 4 + 10 + 1


def test_costs_of_a_single_link() -> None:
    schedule = schedules.get("forward")(3, 1, links={(0, 2)})
    assert simulate(schedule, communication={(0, 2): 50}).time == 1 + 50 + 1
    assert simulate(schedule, communication=[5, 7]).time == 3 + 12


def test_handing_over_on_the_same_rank_is_free() -> None:
    schedule = schedules.get("interleaved")(1, 3, 4)
    assert simulate(schedule, communication=100).time == 9


def test_memory() -> None:
    schedule = schedules.get("interleaved")(2, 4, 2)
    timeline = simulate(schedule, activation_bytes=[8, 4, 2, 1])
    live = peak = 0
    for kind, _, chunk, _ in schedule.instructions(0):
        live += (8, 2)[chunk] * ((kind is Kind.FORWARD) - (kind is Kind.BACKWARD))
        peak = max(peak, live)
    assert timeline.peak_memory is not None
    assert timeline.peak_memory[0] == peak
    assert simulate(schedules.get("gpipe")(2, 8), activation_bytes=10).peak_memory == (80, 80)
    assert simulate(schedule).peak_memory is None


# -- exactness, and what is given --------------------------------------------------------------


def test_results_are_exact_or_floats() -> None:
    schedule = schedules.get("1f1b")(3, 7)
    exact = simulate(schedule, forward=Fraction(1, 3), backward=Fraction(1, 6))
    assert exact.time == Fraction(9, 2)
    assert isinstance(exact.time, Fraction)
    assert exact.bubble == Fraction(2, 7)
    whole = simulate(schedule)
    assert (whole.time, type(whole.time)) == (27, int)
    rounded = simulate(schedule, forward=0.1, backward=0.2)
    assert (rounded.time, type(rounded.time)) == (2.7, float)  # which adding floats up misses
    assert rounded.bubble == 2 / 7


def test_backward_is_twice_forward_unless_given() -> None:
    schedule = schedules.get("zb-h1")(1, 1)
    assert simulate(schedule, forward=5).time == 15
    assert simulate(schedule, forward=5, backward=7).time == 12
    assert simulate(schedule, forward=5, backward=7, backward_input=1).busy == (12,)
    events = list(simulate(schedule, backward=7, backward_weight=3).events(0))
    assert [e.end - e.start for e in events] == [1, 4, 3]
    assert simulate(schedule, forward=1, backward_input=3, backward_weight=4).time == 8
    one = simulate(schedules.get("1f1b")(1, 1), forward=1, backward_input=3, backward_weight=4)
    assert one.time == 8


def test_costs_per_stage_are_shared_by_chunks() -> None:
    schedule = schedules.get("interleaved")(2, 2, 2)
    by_stage = simulate(schedule, forward=[2, 4], backward=[4, 6])
    by_chunk = simulate(schedule, forward=[1, 2, 1, 2], backward=[2, 3, 2, 3])
    assert by_stage.busy == by_chunk.busy == (12, 20)
    assert by_stage.time == by_chunk.time


def test_nothing_costs_nothing() -> None:
    timeline = simulate(schedules.get("gpipe")(2, 2), forward=0, backward=0)
    assert (timeline.time, timeline.bubble) == (0, 0)
    assert "time 0" in timeline.text()
    ET.fromstring(timeline.svg())


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"forward": -1}, "forward must not be negative, but it is -1"),
        ({"forward": [1, 2, 3]}, "forward has 3 numbers; give 2, one a stage, or a single"),
        ({"forward": "x"}, "forward"),
        ({"forward": float("nan")}, "forward must be a number, not nan"),
        ({"latency": float("inf")}, "latency must be a number, not inf"),
        ({"forward": None}, "forward must be a number, not None"),
        ({"backward": 2, "backward_input": 3}, "must not take longer than all of it"),
        (
            {"backward": 2, "backward_input": 1, "backward_weight": 2},
            "backward must be the sum of backward_input and backward_weight",
        ),
        ({"communication": [1, 2]}, "communication has 2 numbers; give 1"),
        ({"buffers": -1}, "buffers must be a number of messages or None"),
    ],
)
def test_bad_costs(costs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(schedules.get("gpipe")(2, 2), **costs)


def test_progress_is_told() -> None:
    seen: list[float] = []
    simulate(schedules.get("zb-h1")(8, 256), progress=seen.append)
    assert 0 < seen[0] < 1
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_a_large_plan() -> None:
    timeline = simulate(schedules.get("1f1b")(64, 1024))
    assert timeline.bubble == Fraction(63, 1024)
    assert timeline.peak_activations == tuple(range(64, 0, -1))


# -- deadlocks ---------------------------------------------------------------------------------


def instruction(kind: str, microbatch: int, peer: int = -1) -> Instruction:
    return Instruction(Kind[kind], microbatch, 0, peer)


def test_deadlock_names_the_circle() -> None:
    """Each rank wants to receive before it sends."""
    programs = [
        [instruction("RECEIVE_GRADIENT", 0, 1), instruction("SEND_ACTIVATION", 0, 1)],
        [instruction("RECEIVE_ACTIVATION", 0, 0), instruction("SEND_GRADIENT", 0, 0)],
    ]
    with pytest.raises(DeadlockError) as caught:
        simulate(schedules.Written(programs, 1))
    assert str(caught.value) == (
        "written on 2 stages deadlocks: rank 0 waits for rank 1 waits for rank 0\n"
        "  rank 0 waits: receive gradient of micro-batch 0 from virtual stage 1\n"
        "  rank 1 waits: receive activation of micro-batch 0 from virtual stage 0"
    )
    assert caught.value.cycle == ((0, programs[0][0]), (1, programs[1][0]))


def test_only_the_circle_is_named() -> None:
    """Rank 0 waits for the circle of 1 and 2, but is not in it."""
    programs = [
        [instruction("RECEIVE_GRADIENT", 0, 1)],
        [instruction("RECEIVE_GRADIENT", 0, 2), instruction("SEND_GRADIENT", 0, 0),
         instruction("SEND_ACTIVATION", 0, 2)],
        [instruction("RECEIVE_ACTIVATION", 0, 1), instruction("SEND_GRADIENT", 0, 1)],
    ]  # fmt: skip
    with pytest.raises(DeadlockError) as caught:
        simulate(schedules.Written(programs, 1))
    assert [rank for rank, _ in caught.value.cycle] == [1, 2]


def test_a_rank_that_waits_for_itself() -> None:
    schedule = schedules.get("interleaved")(1, 1, 2)
    program = list(schedule.instructions(0))
    program.sort(key=lambda i: i.chunk < 1)  # chunk 1 first
    with pytest.raises(DeadlockError, match="rank 0 waits for itself") as caught:
        simulate(schedules.Written([program], 1, 2))
    assert caught.value.cycle == ((0, Instruction(Kind.RECEIVE_ACTIVATION, 0, 1, 0)),)


def has_circle(schedule: Any, buffers: int | None) -> bool:
    """Whether some instruction, by way of others, waits for itself: found in the whole graph."""
    stages = schedule.stages
    sends: dict[Any, Any] = {}
    receives: dict[Any, Any] = {}
    between: dict[tuple[int, int], tuple[list[Any], list[Any]]] = {}
    graph: dict[Any, set[Any]] = {}
    for rank in range(stages):
        for number, (kind, microbatch, chunk, peer) in enumerate(schedule.instructions(rank)):
            graph[rank, number] = {(rank, number - 1)} if number else set()
            here, there = chunk * stages + rank, peer % stages
            gradient = kind in (Kind.SEND_GRADIENT, Kind.RECEIVE_GRADIENT)
            if kind in (Kind.SEND_ACTIVATION, Kind.SEND_GRADIENT):
                sends[gradient, here, peer, microbatch] = (rank, number)
                between.setdefault((rank, there), ([], []))[0].append((rank, number))
            elif kind in (Kind.RECEIVE_ACTIVATION, Kind.RECEIVE_GRADIENT):
                receives[gradient, peer, here, microbatch] = (rank, number)
                between.setdefault((there, rank), ([], []))[1].append((rank, number))
    for message, receive in receives.items():
        graph[receive].add(sends[message])
        if buffers == 0 and sends[message][0] != receive[0]:
            # Neither ends before the other has begun, that is, before what comes before it.
            graph[sends[message]] |= graph[receive] - {sends[message]}
    if buffers:
        for (source, target), (sent, taken) in between.items():
            if source != target:
                for send, receive in zip(sent[buffers:], taken, strict=False):
                    graph[send].add(receive)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


@given(any_schedule(4, 4), st.sampled_from([None, 0, 1, 2]), st.data())
def test_deadlocks_are_found_exactly_where_there_is_a_circle(
    schedule: Any, buffers: int | None, data: Any
) -> None:
    """In any order of instructions, the most of which are wrong."""
    programs = [list(schedule.instructions(rank)) for rank in range(schedule.stages)]
    for program in programs:
        for _ in range(data.draw(st.integers(0, 4))):
            place = data.draw(st.integers(0, len(program) - 1))
            program.insert(data.draw(st.integers(0, len(program) - 1)), program.pop(place))
    sizes = (schedule.microbatches, schedule.chunks, schedule.links, schedule.trains)
    mixed = schedules.Written(programs, *sizes)
    if not has_circle(mixed, buffers):
        simulate(mixed, buffers=buffers)
        return
    with pytest.raises(DeadlockError) as caught:
        simulate(mixed, buffers=buffers)
    circle = caught.value.cycle
    for (_, waits), (following, _) in zip(circle, [*circle[1:], circle[0]], strict=True):
        assert waits.peer % schedule.stages == following


def test_messages_that_nobody_sends_or_receives() -> None:
    with pytest.raises(DeadlockError, match="rank 1 never sends that"):
        simulate(schedules.Written([[instruction("RECEIVE_GRADIENT", 0, 1)], []], 1))
    sends = [instruction("SEND_ACTIVATION", 0, 1)]
    with pytest.raises(ScheduleError, match="is sent, but nobody receives it"):
        simulate(schedules.Written([sends, []], 1))
    with pytest.raises(DeadlockError, match="rank 1 never receives that"):
        simulate(schedules.Written([sends, []], 1), buffers=0)
    with pytest.raises(ScheduleError, match=r"rank 0 sends the activation .*twice"):
        simulate(schedules.Written([sends * 2, []], 1))


@pytest.mark.parametrize("name", ["1f1b", "zb-h1"])
def test_sends_that_wait_for_their_receivers_deadlock_1f1b(name: str) -> None:
    """Which is why they are not used: one sends forward while the other sends back."""
    schedule = schedules.get(name)(4, 8)
    with pytest.raises(DeadlockError) as caught:
        simulate(schedule, buffers=0)
    assert {i.kind for _, i in caught.value.cycle} == {Kind.SEND_ACTIVATION, Kind.SEND_GRADIENT}


def test_gpipe_runs_without_buffers() -> None:
    timeline = simulate(schedules.get("gpipe")(2, 1), buffers=0, communication=1)
    assert timeline.time == 1 + 1 + 3 + 1 + 2
    # Rank 0 is not done with its send before the transfer is, and then goes on with 1.
    timeline = simulate(schedules.get("forward")(2, 2), buffers=0, communication=1)
    assert [(e.start, e.end, e.kind.name) for e in timeline.events(0)] == [
        (0, 1, "FORWARD"), (1, 2, "SEND_ACTIVATION"), (2, 3, "FORWARD"), (3, 4, "SEND_ACTIVATION"),
    ]  # fmt: skip
    assert timeline.time == 5


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zb-h1"])
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_room_for_one_message_is_enough(name: str, p: int) -> None:
    for m in (1, 3, 8, 17):
        schedule = schedules.get(name)(p, m)
        assert simulate(schedule, buffers=1).time >= simulate(schedule).time
        assert simulate(schedule, buffers=m).time == simulate(schedule).time


def test_a_send_waits_for_room() -> None:
    schedule = schedules.get("forward")(2, 3)
    timeline = simulate(schedule, forward=[1, 10], buffers=1)
    # The second message can be sent once the first was taken at 1, the third once the second was.
    assert [e.start for e in timeline.events(0) if e.kind is Kind.FORWARD] == [0, 1, 2]
    assert timeline.time == 31
    longer = simulate(schedules.get("forward")(2, 4), forward=[1, 10], buffers=1)
    assert [e.start for e in longer.events(0) if e.kind is Kind.FORWARD] == [0, 1, 2, 11]


# -- pictures ----------------------------------------------------------------------------------


def test_text_of_a_small_timeline() -> None:
    timeline = simulate(schedules.get("interleaved")(2, 2, 2), forward=2, backward=4)
    assert timeline.text() == (
        "interleaved: 2 stages of 2 chunks, 2 micro-batches; time 15, bubble 25 %, "
        "at most 2 activations\n"
        "stage 0  F0a F1a F0b F1b ·   ·   B0b──── ·   B1b──── B0a──── B1a────\n"
        "stage 1  ·   F0a F1a F0b B0b──── F1b B1b──── B0a──── B1a──── ·   ·\n"
        "F forward  B backward  · idle  a, b... chunk"
    )


def test_text_gets_coarser_as_it_gets_narrower() -> None:
    timeline = simulate(schedules.get("1f1b")(3, 6), communication=1)
    assert timeline.text(200).splitlines()[1].startswith("stage 0  F0 F1 F2 ·  ")
    letters = timeline.text(60).splitlines()
    assert letters[1].startswith("stage 0  FFF···")
    assert "~" in letters[3]
    shades = timeline.text(30).splitlines()
    assert set(shades[1][9:]) <= set("·░▒▓█")
    assert all(len(line) <= 30 for line in shades[1:4])
    many = simulate(schedules.get("gpipe")(200, 2)).text(80).splitlines()
    assert len(many) <= 2 + 64
    assert many[1].startswith("stages 0-3 ")


def test_svg_shows_every_pass() -> None:
    timeline = simulate(schedules.get("zb-h1")(3, 5), communication=0.5)
    root = ET.fromstring(timeline.svg())
    tag = "{http://www.w3.org/2000/svg}"
    colours = [box.get("fill") for box in root.iter(f"{tag}rect")]
    assert colours.count("#0072B2") == colours.count("#E69F00") == colours.count("#009E73") == 16
    words = [label.text for label in root.iter(f"{tag}text")]
    assert words[0] == "zb-h1: 3 stages, 5 micro-batches"
    assert words.count("3") == 9
    assert {"forward", "backward, inputs", "backward, weights", "communication", "idle"} <= {*words}
    assert timeline._repr_svg_() == timeline.svg()


def test_svg_of_a_large_timeline_is_small() -> None:
    timeline = simulate(schedules.get("1f1b")(32, 256))
    drawn = timeline.svg()
    assert len(drawn) < 100_000
    root = ET.fromstring(drawn)
    areas = list(root.iter("{http://www.w3.org/2000/svg}polygon"))
    assert len(areas) == 2 * 32


def test_files(tmp_path: Path) -> None:
    timeline = simulate(schedules.get("1f1b")(2, 3), communication=1)
    for ending in ("svg", "txt", "json", "png"):
        if ending == "png":
            pytest.importorskip("matplotlib", reason="draws PNG files")
        timeline.save(tmp_path / f"plan.{ending}")
    assert (tmp_path / "plan.svg").read_text() == timeline.svg()
    assert (tmp_path / "plan.txt").read_text(encoding="utf-8") == timeline.text() + "\n"
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    trace = json.loads((tmp_path / "plan.json").read_text())
    boxes = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert boxes[0] == {
        "ph": "X", "pid": 0, "tid": 0, "name": "forward 0", "cat": "forward", "ts": 0.0,
        "dur": 1000.0, "args": {"microbatch": 0, "chunk": 0},
    }  # fmt: skip
    assert sum(box["cat"] in ("forward", "backward") for box in boxes) == 12
    assert trace["otherData"]["peak_activations"] == [2, 1]
    message = r"plan.gif' what to write: .* one of .svg, .png, .txt, .json"
    with pytest.raises(ValueError, match=message):
        timeline.save(tmp_path / "plan.gif")
