"""The profiler: that its times and bytes add up, and that it shows what PyTorch's shows."""

from __future__ import annotations

import gc
import gzip
import inspect
import json
import threading
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import pytest

import retrograd as torch
from retrograd import nn, viz
from retrograd._modes import switch
from retrograd.nn._calling import GLOBAL_HOOKS
from retrograd.profiler import ProfilerActivity, _ledger, _record_function, profile, record_function
from retrograd.profiler import schedule as make_schedule


class Clock:
    """A clock that only a program sets forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        monkeypatch.setattr(_ledger, "clock", lambda: self.now)

    def works(self, forward: int, backward: int = 0) -> Any:
        """A custom Function that takes this many nanoseconds."""
        clock = self

        class Works(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                clock.now += forward
                return x.clone()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                clock.now += backward
                return g

        return Works.apply


def model() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    return net, torch.randn(5, 3), torch.optim.SGD(net.parameters(), lr=0.1)


def step(net: Any, x: Any, optimizer: Any) -> None:
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()


def adds_up(prof: profile) -> bool:
    """Whether every nanosecond and every byte belongs to one event, or to the profiler."""
    (ledger,) = prof._ledgers
    events = [ledger.root, *ledger.events]
    times = sum(e.self_ns for e in events) + ledger.own_ns
    sizes = sum(e.self_bytes for e in events) + ledger.own_bytes
    return (times, sizes) == (ledger.total_ns, ledger.total_bytes) and ledger.total_ns > 0


# -- times ---------------------------------------------------------------------------------------


def test_each_nanosecond_belongs_to_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    first, second = clock.works(100, 1000), clock.works(20, 3000)
    x = torch.ones(2, requires_grad=True)
    with profile() as prof:
        clock.now += 7
        with record_function("both"):
            y = first(x)
            clock.now += 5
            y = second(y)
        y.sum().backward()
    spent = {e.key: (round(1000 * e.self_cpu_time_total), round(1000 * e.cpu_time_total), e.count)
             for e in prof.key_averages()}  # fmt: skip
    assert spent["both"] == (5, 125, 1)
    assert spent["Works"] == (120, 120, 2)
    assert spent["WorksBackward"] == (4000, 4000, 2)
    assert spent["backward pass"] == (0, 4000, 1)
    assert adds_up(prof)
    summary = prof.summary("line")
    assert (summary.outside, summary.profiler, summary.total) == pytest.approx((12e-9, 0, 4132e-9))
    rows = {row.name.partition(": ")[2]: (row.forward, row.backward) for row in summary}
    assert rows["y = first(x)"] == pytest.approx((100e-9, 1000e-9))
    assert rows["y = second(y)"] == pytest.approx((20e-9, 3000e-9))
    assert rows["y.sum().backward()"] == (0, 0)
    operations = {row.name: (row.forward, row.backward) for row in prof.summary("operation")}
    assert operations["Works"] == pytest.approx((120e-9, 4000e-9))


def test_what_the_profiler_takes_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]

    def clock() -> int:
        now[0] += 1
        return now[0]

    monkeypatch.setattr(_ledger, "clock", clock)
    with profile() as prof:
        y = torch.ones(2).exp()
    (event,) = prof.events()
    (ledger,) = prof._ledgers
    # Readings: begin; pause, go on (the profiler's), end of exp, go on (the profiler's), end.
    assert round(1000 * event.self_cpu_time_total) == 1
    assert (ledger.own_ns, ledger.root.self_ns) == (2, 2)
    assert ledger.total_ns == 5
    assert y.shape == (2,)


def test_times_add_up_to_the_wall_time() -> None:
    net, x, optimizer = model()
    shares = []
    for _ in range(5):  # a loaded machine may stop this process between two readings
        began = time.perf_counter()
        with profile() as prof:
            for _ in range(20):
                step(net, x, optimizer)
            time.sleep(0.03)
        wall = time.perf_counter() - began
        assert adds_up(prof)
        for by in ("operation", "line", "module"):
            summary = prof.summary(by)
            assert sum(row.seconds for row in summary) + summary.outside + summary.profiler == (
                pytest.approx(summary.total)
            )
            assert all(row.seconds >= 0 for row in summary)
        assert prof.summary().total <= wall
        assert prof.summary().outside >= 0.03
        shares.append(prof.summary().total / wall)
        if shares[-1] > 0.95:
            return
    pytest.fail(f"the profiler's total is {max(shares):.0%} of the wall time")


def test_errors_and_returns_leave_nothing_open() -> None:
    class Fails(nn.Module):
        def forward(self, x: Any) -> Any:
            with record_function("inside"):
                return x @ torch.ones(7)

    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda g: 1 / 0)
    with profile(with_modules=True) as prof:
        with pytest.raises(RuntimeError):
            Fails()(x)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        after = x * 2
    assert adds_up(prof)
    assert [e.name for e in prof.events() if e.cpu_parent is None] == [
        "nn.Module: Fails", "aten::sum", "backward pass", "aten::mul"
    ]  # fmt: skip
    assert all(e.time_range.end >= e.time_range.start > 0 for e in prof.events())
    assert after.requires_grad


# -- bytes ---------------------------------------------------------------------------------------


def test_bytes_are_those_that_tracemalloc_sees() -> None:
    x = torch.ones(500, 500)  # a million bytes
    gc.collect()
    gc.disable()  # what other tests have left is not to be freed here
    tracemalloc.start()
    try:
        with profile(profile_memory=True) as prof:
            before = tracemalloc.get_traced_memory()[0]
            kept = [x + 1, x * 2]
            temporary = (x - 1).sum()
            seen = tracemalloc.get_traced_memory()[0] - before
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert adds_up(prof)
    (ledger,) = prof._ledgers
    assert abs(ledger.total_bytes - seen) < 20_000 < 1_900_000 < seen
    used = {e.key: e.self_cpu_memory_usage for e in prof.key_averages()}
    for name in ("aten::add", "aten::mul", "aten::sub"):
        assert abs(used[name] - 1_000_000) < 10_000
    assert abs(used["aten::sum"]) < 10_000
    assert len(kept) == 2
    assert temporary == 0
    summary = prof.summary("operation")
    listed = sum(row.bytes for row in summary)
    assert listed + summary.outside_bytes + summary.profiler_bytes == summary.total_bytes
    assert abs(summary.outside_bytes + 1_000_000) < 20_000  # x - 1 was freed outside of operations


# -- what is shown -------------------------------------------------------------------------------


def test_events_are_inside_each_other() -> None:
    net, x, optimizer = model()
    with profile(record_shapes=True, with_modules=True) as prof, record_function("step"):
        step(net, x, optimizer)
    events = prof.events()
    names = [e.name for e in events]
    assert names[:6] == [
        "step", "nn.Module: Sequential", "nn.Module: 0 (Linear)", "aten::t", "aten::addmm",
        "nn.Module: 1 (Tanh)",
    ]  # fmt: skip
    assert names[-1] == "Optimizer.step#SGD.step"
    product = events[4]
    assert product.input_shapes == [[4], [5, 3], [3, 4]]
    assert (product.cpu_parent, product.module) == (events[2], "0 (Linear)")
    backward = next(e for e in events if e.sequence_nr == product.sequence_nr and e.scope == 1)
    assert (backward.name, backward.source, backward.module) == (
        "AddmmBackward0", product.source, "0 (Linear)"
    )  # fmt: skip
    assert "step" in product.source
    assert "loss = net(x).pow(2).mean()" in {r.name.partition(": ")[2] for r in prof.summary()}
    modules = {row.name: row for row in prof.summary("module")}
    assert modules["0 (Linear)"].backward > 0 < modules["0 (Linear)"].forward
    assert modules["0 (Linear)"].count == 1
    for event in events:
        inside = sum(child.cpu_time_total for child in event.cpu_children)
        assert event.cpu_time_total == pytest.approx(event.self_cpu_time_total + inside)


def test_calls_of_modules_are_shown_on_request_only() -> None:
    net, x, optimizer = model()
    with profile() as prof, record_function("step"):
        step(net, x, optimizer)
    assert not any("Module" in e.name for e in prof.events())
    assert all(e.cpu_parent is prof.events()[0] for e in prof.events()[1:5])
    assert adds_up(prof)


def test_the_same_is_computed() -> None:
    results = []
    for watch in (False, True):
        net, x, optimizer = model()
        for _ in range(3):
            if watch:
                with profile(record_shapes=True, profile_memory=True, with_stack=True):
                    step(net, x, optimizer)
            else:
                step(net, x, optimizer)
        results.append([p.detach().tolist() for p in net.parameters()])
    assert results[0] == results[1]


def test_nothing_is_left_behind() -> None:
    net, x, optimizer = model()
    with profile(profile_memory=True, with_stack=True):
        step(net, x, optimizer)
    assert not switch.active
    assert not any(GLOBAL_HOOKS.values())
    assert not tracemalloc.is_tracing()
    assert not any(_record_function.RECORDERS.values())
    assert threading.getprofile() is None


def test_writes_custom_functions_and_second_derivatives() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = torch.ones(2, requires_grad=True)
    with profile() as prof:
        y = Double.apply(x).add_(1)
        (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        g.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]
    events = prof.events()
    assert [e.name for e in events[:3]] == ["Double", "aten::mul", "aten::add_"]
    assert events[1].cpu_parent is events[0]
    inside = [e for e in events if e.cpu_parent is not None and e.cpu_parent.name == "MulBackward0"]
    assert {e.name for e in inside} >= {"aten::mul"}
    assert {e.source for e in inside} == {inside[0].cpu_parent.source}  # type: ignore[union-attr]


def test_a_compiled_function_stays_compiled() -> None:
    @torch.compile
    def f(x: Any) -> Any:
        return (x * x).sin()

    x = torch.ones(3, requires_grad=True)
    with profile() as prof:
        f(x).sum().backward()
    names = [e.name for e in prof.events()]
    assert names[:2] == ["compiled f", "aten::sum"]
    assert "CompiledFunctionBackward" in names


def test_beside_others_that_watch() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    with viz.recording() as story, profile() as prof, profile() as inner:
        with torch.autocast("cpu", dtype=torch.float16):
            y = (x @ x).sum()
        y.backward()
        with torch.no_grad():
            x.add_(1)
    assert story.passes[0].steps
    assert story.passes[0].steps[0].node.name() == "SumBackward0"
    for one in (prof, inner):
        names = [e.name for e in one.events()]
        assert {"aten::mm", "aten::add_", "backward pass", "MmBackward0"} <= {*names}
        assert adds_up(one)


def test_transforms_are_profiled() -> None:
    with profile() as prof:
        result = torch.func.vmap(torch.func.grad(lambda x: (x**3).sum()))(torch.ones(2, 3))
    assert result.tolist() == [[3.0] * 3] * 2
    assert "aten::pow" in {e.name for e in prof.events()}
    assert adds_up(prof)


# -- tables and files ----------------------------------------------------------------------------


def test_tables() -> None:
    net, x, optimizer = model()
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        step(net, x, optimizer)
    averages = prof.key_averages()
    assert str(averages) == averages.table()
    text = averages.table(sort_by="self_cpu_time_total", row_limit=2)
    lines = text.splitlines()
    assert lines[1].split("  ")[-1].strip() == "# of Calls"
    assert [word in lines[1] for word in ("Self CPU %", "CPU Mem", "Input Shapes")] == [1, 1, 0]
    largest = max(averages, key=lambda a: a.self_cpu_time_total)
    assert lines[3].strip().startswith(largest.key)
    assert len([line for line in lines if line and not line.startswith("-")]) == 1 + 2 + 2 + 2
    assert "Python and everything else" in text
    assert "Wall time: " in text
    assert averages.table(sort_by="cuda_time_total")
    with pytest.raises(AttributeError):
        averages.table(sort_by="unheard_of")
    shapes = prof.key_averages(group_by_input_shape=True)
    products = [a for a in shapes if a.key == "aten::addmm"]
    assert [a.input_shapes for a in products] == [[[4], [5, 3], [3, 4]], [[1], [5, 4], [4, 1]]]
    assert "[[4], [5, 3], [3, 4]]" in shapes.table()
    stacks = prof.key_averages(group_by_stack_n=2)
    product = next(a for a in stacks if a.key == "aten::addmm")
    assert [frame.partition("): ")[2] for frame in product.stack] == ["step", "test_tables"]
    assert "Source Location" in stacks.table()
    for by in ("operation", "line", "module"):
        assert "the profiler itself" in prof.summary(by).table(1)
    with pytest.raises(ValueError, match="one of operation, line, module"):
        prof.summary("file")


def test_chrome_trace(tmp_path: Path) -> None:
    net, x, optimizer = model()
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        step(net, x, optimizer)
    prof.add_metadata("made_by", "a test")
    prof.add_metadata_json("numbers", "[1, 2]")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    prof.export_chrome_trace(str(path) + ".gz")
    content = json.loads(path.read_text())
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())) == content
    assert (content["made_by"], content["numbers"], content["with_stack"]) == ("a test", [1, 2], 1)
    events = [e for e in content["traceEvents"] if e["ph"] == "X"]
    assert {e["cat"] for e in events} == {"cpu_op", "python_function", "user_annotation"}
    shown = {e["name"] for e in events if "Module" not in e["name"]}
    assert shown == {e.name for e in prof.events()}
    arrows = [e for e in content["traceEvents"] if e["ph"] in "sf"]
    assert len(arrows) == 2 * len({e["id"] for e in arrows}) > 0
    product = next(e for e in events if e["name"] == "aten::addmm")
    assert product["args"]["Input Dims"] == [[4], [5, 3], [3, 4]]
    assert product["args"]["Module"] == "0 (Linear)"


def test_stacks(tmp_path: Path) -> None:
    with profile(with_stack=True) as prof:
        for _ in range(50):
            torch.ones(200, 200).exp()
    path = tmp_path / "stacks.txt"
    prof.export_stacks(str(path), "self_cpu_time_total")
    lines = path.read_text().splitlines()
    frames, _, value = lines[0].rpartition(" ")
    assert frames.endswith(":_test_stacks")
    assert int(value) > 0
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(str(path), "count")
    with profile() as other:
        pass
    with pytest.raises(AssertionError, match=r"export_stacks\(\) requires with_stack=True"):
        other.export_stacks(str(path))


def test_tensorboard_handler(tmp_path: Path) -> None:
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path / "log"), "me", use_gzip=True)
    with profile(on_trace_ready=handler):
        torch.ones(2).exp()
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("me.")
    assert path.name.endswith(".pt.trace.json.gz")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory"):
        torch.profiler.tensorboard_trace_handler(str(blocked))(profile())


# -- beside PyTorch ------------------------------------------------------------------------------


def test_signatures(pytorch: Any) -> None:
    for name in ("profile", "schedule", "tensorboard_trace_handler", "record_function"):
        ours, theirs = getattr(torch.profiler, name), getattr(pytorch.profiler, name)
        kinds = [
            {n: (p.kind, p.default) for n, p in inspect.signature(f).parameters.items()}
            for f in (ours, theirs)
        ]
        assert kinds[0] == kinds[1], name
    for name in ("key_averages", "events", "step", "start", "stop", "export_stacks"):
        ours = getattr(profile, name)
        theirs = getattr(pytorch.profiler.profile, name)
        assert [*inspect.signature(ours).parameters] == [*inspect.signature(theirs).parameters]
    legacy = torch.autograd.profiler.profile, pytorch.autograd.profiler.profile
    assert [*inspect.signature(legacy[0]).parameters] == [*inspect.signature(legacy[1]).parameters]
    assert [*ProfilerActivity.__members__] == [*pytorch.profiler.ProfilerActivity.__members__]


@pytest.mark.parametrize("plan", [
    {"wait": 1, "warmup": 1, "active": 2}, {"wait": 0, "warmup": 1, "active": 1, "repeat": 2},
    {"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1},
])  # fmt: skip
def test_schedules(pytorch: Any, plan: dict[str, int]) -> None:
    def run(profiler: Any, lib: Any) -> list[Any]:
        actions = profiler.schedule(**plan)
        seen: list[Any] = [[actions(i).name for i in range(12)]]

        def ready(prof: Any) -> None:
            steps = [e.name for e in prof.events() if e.name.startswith("ProfilerStep")]
            seen.append((prof.step_num, steps, len([e for e in prof.events() if "exp" in e.name])))

        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], schedule=actions, on_trace_ready=ready
        ) as prof:
            for _ in range(9):
                lib.ones(2).exp()
                prof.step()
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that earlier cycles are dropped
        theirs = run(pytorch.profiler, pytorch)
    assert run(torch.profiler, torch) == theirs


def test_mistakes(tmp_path: Path) -> None:
    for doing, said in (
        (lambda p: p.events(), "accessing events"),
        (lambda p: p.key_averages(), "getting key averages"),
        (lambda p: p.export_chrome_trace(str(tmp_path / "x")), "exporting chrome trace"),
        (lambda p: p.stop(), "stopping trace"),
    ):
        with pytest.raises(AssertionError, match=f"Profiler must be initialized before {said}"):
            doing(profile())
    with pytest.raises(AssertionError, match=r"Got wait=-1 \(need >= 0\), warmup=0 \(need >= 0\)"):
        make_schedule(wait=-1, warmup=0, active=1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        make_schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[])
    with pytest.raises(TypeError, match="Expected ProfilerActivity or dict"):
        profile(activities=["cpu"])
    with pytest.raises(ValueError, match="specified more than once"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CPU])
    legacy = torch.autograd.profiler
    for refused in (legacy.emit_nvtx(), legacy.emit_itt()):
        with pytest.raises(NotImplementedError, match="vendor's tool"), refused:
            pass
    with legacy.emit_nvtx(enabled=False):
        pass
    with pytest.raises(NotImplementedError, match="load_nvprof"):
        legacy.load_nvprof("trace")


def test_by_hand_and_by_decorator() -> None:
    @record_function("mine")
    def square(x: Any) -> Any:
        """A square."""
        return x * x

    assert square.__doc__ == "A square."
    assert square(torch.tensor(3.0)) == 9
    prof = profile()
    prof.start()
    square(torch.tensor(2.0))
    prof.stop()
    square(torch.tensor(2.0))
    assert [e.name for e in prof.events()] == ["mine", "aten::mul"]
    with profile() as prof:
        square(torch.tensor(2.0))
        prof.stop()
        square(torch.tensor(2.0))
    assert [e.name for e in prof.events()] == ["mine", "aten::mul"]


def test_the_older_form() -> None:
    legacy = torch.autograd.profiler
    with legacy.profile(enabled=False) as off:
        torch.ones(2).exp()
    assert str(off) == "<unfinished torch.autograd.profile>"
    with pytest.raises(AssertionError, match="Expected profiling results"):
        off.total_average()
    with legacy.profile() as prof:
        torch.ones(2).exp()
        with legacy.record_function("named"):
            torch.ones(2).exp()
    assert str(prof) == prof.table()
    assert repr(prof).startswith("[<FunctionEvent id=0 name=aten::exp")
    total = prof.total_average()
    assert (total.key, total.count) == ("Total", 3)
    assert prof.self_cpu_time_total == total.self_cpu_time_total > 0
    assert legacy.EventList is type(prof.function_events)
