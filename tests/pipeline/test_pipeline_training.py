"""Pipelines train as one process does: every schedule, on one to four ranks and on grids."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import _mpi
import _pipeline_programs as programs
import pytest

import retrograd as torch
from retrograd import distributed, pipeline

EXACTLY = 1e-12
SCHEDULES = [("gpipe", 1), ("1f1b", 1), ("interleaved", 1), ("interleaved", 2), ("zb-h1", 1)]


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
    if distributed.is_initialized():
        distributed.destroy_process_group()


def trained(jobs: list[dict[str, Any]], ranks: int) -> list[list[dict[str, Any]]]:
    """What each rank has to show for each job."""
    if ranks == 1:
        return [[programs.train(**job)] for job in jobs]
    with tempfile.TemporaryDirectory() as folder:
        _mpi.run(
            Path(programs.__file__), ranks, timeout=240,
            env={"PIPELINE_PROGRAM": json.dumps(["train", jobs, folder])},
        )  # fmt: skip
        return [
            [torch.load(f"{folder}/{number}-{rank}.safetensors") for rank in range(ranks)]
            for number in range(len(jobs))
        ]


@cache
def expected(name: str, microbatches: int, steps: int, replicas: int) -> dict[str, Any]:
    """By an ordinary loop; where none does the same, by a pipeline of one stage."""
    if programs.CASES[name].plain:
        return programs.plainly(name, microbatches, steps, replicas)
    return programs.train(name, 1, microbatches * replicas, steps)


def check(job: dict[str, Any], ranks: list[dict[str, Any]]) -> None:
    wanted = expected(job["name"], job["microbatches"], job["steps"], job.get("replicas", 1))
    for rank in ranks:
        assert rank["losses"] == pytest.approx(wanted["losses"], abs=EXACTLY), job
        assert rank["losses"] == ranks[0]["losses"], job
        assert rank["evaluated"] == ranks[0]["evaluated"], job
        assert rank["ended"], job
        assert rank["live"] == 0, job
    for kind in ("gradients", "state"):
        found = {name: x for rank in ranks for name, x in rank[kind].items()}
        assert set(found) == set(wanted[kind]), job
        for rank in ranks:  # each of several replicas
            for name, x in rank[kind].items():
                assert (x - wanted[kind][name]).abs().max() <= EXACTLY, (job, kind, name)


def is_zero(x: Any) -> bool:
    return bool((x == 0).all())


# -- what is trained, by the number of ranks: one start of mpiexec each ---------------------------

WAYS = [("1f1b", 1), ("zb-h1", 1), ("interleaved", 2)]
FEATURES = [name for name in programs.CASES if name != "blocks"]
IN_GRIDS = ["tied", "noisy", "clipped", "unused", "lazy", "normalized"]


def by_schedule(stages: int) -> list[dict[str, Any]]:
    """Every schedule, with several numbers of micro-batches."""
    return [
        {"name": "blocks", "stages": stages, "microbatches": microbatches, "steps": 10,
         "schedule": schedule, "chunks": chunks}
        for schedule, chunks in SCHEDULES
        for microbatches in (1, 3, 8)
    ]  # fmt: skip


def by_model(stages: int, in_turn: bool = False) -> list[dict[str, Any]]:
    """Every kind of model, each in every way, or in one of them in turn."""
    jobs = [
        {"name": name, "stages": stages, "microbatches": 4, "steps": 3, "schedule": schedule,
         "chunks": chunks}
        for number, name in enumerate(FEATURES)
        for schedule, chunks in (WAYS[number % 3 :][:1] if in_turn else WAYS)
        if not (name == "frozen" and chunks == 2)  # its cuts are for one chunk a stage
    ]  # fmt: skip
    # More forms of messages than a channel remembers.
    return [*jobs, {"name": "varying", "stages": stages, "microbatches": 50, "steps": 2}]


def in_grid(stages: int, replicas: int, in_turn: bool = False) -> list[dict[str, Any]]:
    """Replicas side by side."""
    grid = {"stages": stages, "replicas": replicas, "microbatches": 3}
    return [
        {"name": name, **grid, "steps": 10 if name == "blocks" else 3, "schedule": schedule,
         "chunks": chunks}
        for number, name in enumerate(["blocks", *IN_GRIDS])
        for schedule, chunks in (WAYS[number % 3 :][:1] if in_turn and number else WAYS)
    ]  # fmt: skip


JOBS = {
    1: lambda: by_schedule(1) + by_model(1),
    2: lambda: by_schedule(2) + by_model(2) + in_grid(1, 2, in_turn=True),
    3: lambda: by_schedule(3) + by_model(3, in_turn=True),
    4: lambda: by_schedule(4) + in_grid(2, 2, in_turn=True),
}
MORE = {
    2: lambda: in_grid(1, 2),
    3: lambda: by_model(3),
    4: lambda: by_model(4) + in_grid(2, 2),
    6: lambda: in_grid(2, 3),
}


@pytest.mark.parametrize(
    "ranks",
    [
        1, pytest.param(2, marks=pytest.mark.long),
        *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (3, 4)),
    ],
)  # fmt: skip
def test_pipelines_train_as_one_process_does(ranks: int) -> None:
    check_all(JOBS[ranks](), ranks)


@pytest.mark.exhaustive
@pytest.mark.parametrize("ranks", MORE)
def test_more_pipelines_train_as_one_process_does(ranks: int) -> None:
    check_all(MORE[ranks](), ranks)


def check_all(jobs: list[dict[str, Any]], ranks: int) -> None:
    for job, results in zip(jobs, trained(jobs, ranks), strict=True):
        if job["name"] == "normalized" and "replicas" in job:
            check_statistics(job, results)
            continue
        check(job, results)
        if job["name"] == "blocks" and "replicas" not in job:
            check_what_is_kept(job, results)
        if job["name"] == "tied" and job["stages"] > 1:
            first, last = results[0], results[-1]
            for kind in ("state", "gradients"):  # to the bit
                assert torch.equal(first[kind]["0.weight"], last[kind]["7.weight"]), job


def check_statistics(job: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """They are those of the first replica, on all. Losses do not depend on them in training."""
    wanted = expected("normalized", job["microbatches"], job["steps"], job["replicas"])
    assert results[0]["losses"] == pytest.approx(wanted["losses"], abs=EXACTLY), job
    assert any("running_mean" in name for rank in results for name in rank["state"]), job
    for rank, result in enumerate(results):
        first = results[rank - rank % job["replicas"]]["state"]
        for name, x in result["state"].items():
            assert torch.equal(x, first[name]), (job, name)


def check_what_is_kept(job: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Layers by one rank each, and no more micro-batches than the schedule says."""
    m, stages = job["microbatches"], job["stages"]
    wanted = expected("blocks", m, 10, 1)
    assert not any(is_zero(g) for g in wanted["gradients"].values())
    assert sum(rank["layers"] for rank in results) == 8
    peaks = [rank["peak"] for rank in results]
    if job["schedule"] == "gpipe":
        assert peaks == [m] * stages
    elif job["schedule"] == "1f1b":
        assert peaks == [min(m, stages - stage) for stage in range(stages)]
    elif job["schedule"] == "zb-h1":
        assert max(peaks) <= stages


def test_the_one_process_trains_as_pytorch_does() -> None:
    """What pipelines are compared with is compared with PyTorch."""
    pytorch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")

    def as_pytorch(x: Any) -> Any:
        return pytorch.tensor(x.tolist(), dtype=pytorch.float64)

    ours = programs.make_layers(programs.CASES["blocks"])
    model = pytorch.nn.Sequential(
        *(pytorch.nn.Sequential(pytorch.nn.Linear(6, 6), pytorch.nn.Tanh()) for _ in range(8))
    ).double()
    state = {name: as_pytorch(x) for name, x in ours.state_dict().items()}
    model.load_state_dict(state)
    optimizer = pytorch.optim.Adam(model.parameters(), lr=0.01)
    data, losses = programs.items(programs.CASES["blocks"], 30), []
    for _ in range(10):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(3):
            x, y = map(as_pytorch, next(data))
            loss = pytorch.nn.functional.mse_loss(model(x), y) / 3
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    found = expected("blocks", 3, 10, 1)
    assert found["losses"] == pytest.approx(losses, abs=EXACTLY)
    for name, parameter in model.named_parameters():
        difference = as_pytorch(found["gradients"][name]) - parameter.grad
        assert difference.abs().max() <= EXACTLY, name


def test_the_program_of_the_documentation_runs_as_two_ranks() -> None:
    text = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    program, printed = re.findall(r"```(?:python|text)\n(.*?)```", text, re.S)[:2]
    result = _mpi.run(program, 2)
    assert result.out == [printed, ""]


def test_weights_tied_by_name_are_one_parameter() -> None:
    wanted = programs.train("untied", 1, 2, 3)
    assert torch.equal(wanted["state"]["0.weight"], wanted["state"]["7.weight"])


def test_a_large_model_in_buckets_of_several_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.pipeline import _reduction

    parameters = [torch.zeros(n, dtype=d) for n, d in
                  ((10, torch.float32), (2 << 20, torch.float32), (3, torch.float64),
                   (4, torch.float64))]  # fmt: skip
    sizes = [[p.numel() for p in bucket] for bucket in _reduction._in_buckets(parameters)]
    assert sizes == [[10], [2 << 20], [3, 4]]


def test_what_users_get_wrong_is_said_before_anything_happens() -> None:
    layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    cases = [
        ({"stages": 2}, "2 stages need 2 processes, and there are 1"),
        ({"stages": 1, "replicas": 2}, "need 2 processes"),
        ({"schedule": "1f1c"}, "did you mean '1f1b'"),
        ({"chunks": 2}, "one chunk a stage"),
        ({"chunks": 3, "schedule": "interleaved"}, "cannot be cut into 3"),
        ({"partition": "profile"}, "give one micro-batch of inputs as example"),
        ({"partition": "evenly"}, "partition must be"),
        ({"partition": [1]}, "into 2 parts"),
        ({"partition": [2, 1]}, "ascending"),
        ({"skips": [(1, 1)]}, "skips are pairs"),
        ({"skips": [(0, 2)]}, "skips are pairs"),
        ({"tied": ["0.weight"]}, "tied is a list of tuples"),
        ({"tied": [("0.weight", "5.weight")]}, "no layer for the parameter '5.weight'"),
        ({"tied": [("0.weight", "1.bias")]}, "another shape"),
        ({"tied": [("0.weight", "1.weigth")]}, "layer '1' has no parameter '1.weigth'"),
        ({"checkpoint": 0}, "checkpoint is the number of layers"),
        ({"microbatches": 0}, "at least 1"),
        ({"microbatches": 2.0}, "whole number of at least 1, not 2.0"),
        ({"clip_grad_norm": 0}, "larger than 0"),
        (
            {"optimizer": lambda _: torch.optim.SGD(torch.nn.Linear(2, 2).parameters())},
            r"the optimizer of rank 0 has 2 parameters \(of 2\) that are not in stage 0",
        ),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            pipeline.Pipeline(layers, **{"stages": 1, "microbatches": 2, **options})
    model = torch.nn.Module()
    model.embed, model.blocks = torch.nn.Linear(2, 2), torch.nn.ModuleList([torch.nn.Linear(2, 2)])
    sgd = torch.optim.SGD(model.parameters())
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (model, {}, r"cannot be cut into stages.* such as \[model.embed, \*model.blocks\]"),
        ([3], {}, "layer 0 is a int"),
        (3, {}, "layers must be an nn.Sequential or a list of layers, not a int"),
        (torch.relu, {}, "or a list of layers"),
        (layers, {"optimizer": sgd}, "Each rank makes its own: optimizer=lambda parameters: SGD"),
        (layers, {"scheduler": sgd}, "scheduler must be a function"),
        (layers, {"loss_fn": "mse"}, "loss_fn must be a function, not a str$"),
        (layers, {"skips": [3]}, "skips are pairs"),
    ]
    for given, options, message in wrong:
        with pytest.raises(TypeError, match=message):
            pipeline.Pipeline(given, microbatches=1, **options)
    with pytest.raises(ValueError, match="a layer or more"):
        pipeline.Pipeline([], microbatches=1)


def test_what_users_give_wrong_data() -> None:
    layers = [torch.nn.Linear(2, 2)]
    pipe = pipeline.Pipeline(layers, microbatches=2, loss_fn=torch.nn.functional.mse_loss)
    x = torch.ones(3, 2)
    with pytest.raises(TypeError, match="needs an iterator over pairs"):
        pipe.train_batch(None)
    with pytest.raises(TypeError, match="such as iter"):
        pipe.train_batch([(x, x)])
    with pytest.raises(TypeError, match="pairs"):
        pipe.train_batch(iter([x, x]))
    with pytest.raises(RuntimeError, match="ended after 1 of the 2 micro-batches"):
        pipe.train_batch(iter([(x, x)]))
    with pytest.raises(StopIteration):
        pipe.train_batch(iter([]))
    loss = pipe.train_batch(iter([(x, x)] * 2))
    assert loss == pytest.approx(torch.nn.functional.mse_loss(layers[0](x), x).item())
    silent = pipeline.Pipeline(layers, microbatches=2)
    with pytest.raises(ValueError, match="needs a loss: Pipeline"):
        silent.train_batch(iter([(x, x)] * 2))
    loss, outputs = silent.eval_batch(iter([x, x]), outputs=True)
    assert loss is None
    assert all(torch.equal(y, layers[0](x)) for y in outputs)
    wrong = pipeline.Pipeline(layers, microbatches=1, loss_fn=lambda y, t: y - t)
    with pytest.raises(TypeError, match="a tensor of one element, not a tensor of shape"):
        wrong.train_batch(iter([(x, x)]))


@pytest.mark.parametrize(("schedule", "chunks"), [("zb-h1", 1), ("interleaved", 2)])
def test_a_batch_that_failed_leaves_nothing_to_the_next(schedule: str, chunks: int) -> None:
    def make() -> Any:
        torch.manual_seed(0)
        return pipeline.Pipeline(
            programs.blocks(), microbatches=3, loss_fn=torch.nn.functional.mse_loss,
            optimizer=torch.optim.Adam, schedule=schedule, chunks=chunks,
        )  # fmt: skip

    x = torch.randn(4, 6)
    good, torn = [(x, x * 2)] * 3, [(x * 5, x), (x * 7, x), (torch.ones(4, 7), x)]
    pipe, other = make(), make()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        pipe.train_batch(iter(torn))
    assert pipe.train_batch(iter(good)) == other.train_batch(iter(good))
    assert pipe.stats.live_activations == 0
    for (name, p), (_, q) in zip(pipe.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(p.grad, q.grad), name


@pytest.mark.parametrize("checkpoint", [None, 3])
def test_what_skips_is_not_written_to_on_its_way(checkpoint: int | None) -> None:
    layers = [torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=True), torch.nn.Bilinear(2, 2, 2)]

    def loss(i: int) -> float:
        pipe = pipeline.Pipeline(
            layers, microbatches=1, skips=[(i, 2)], loss_fn=torch.nn.functional.mse_loss,
            checkpoint=checkpoint,
        )  # fmt: skip
        return pipe.train_batch(iter([(torch.randn(4, 2), torch.zeros(4, 2))]))

    with pytest.raises(RuntimeError, match="what layer 0 gives skips to a later layer"):
        loss(0)
    assert loss(1) > 0
    assert loss(-1) > 0
    layers[0] = torch.nn.ReLU(inplace=True)
    with pytest.raises(RuntimeError, match="the input of the model skips to a later layer"):
        loss(-1)


def test_a_gradient_that_comes_after_its_bucket_has_gone_is_an_error() -> None:
    from retrograd.pipeline._reduction import Reducer

    distributed.init_process_group("mpi")
    p = torch.nn.Parameter(torch.ones(2))
    reducer = Reducer([p], distributed.new_group([0]), {id(p): 1}, [])
    reducer.begin()
    p.sum().backward()
    with pytest.raises(RuntimeError, match="more often than there were micro-batches"):
        p.sum().backward()


def test_random_numbers_of_the_user_go_on_as_if_nothing_had_happened() -> None:
    """Layers have a stream of their own; data are made with the user's."""
    model = programs.noisy()
    pipe = pipeline.Pipeline(model, microbatches=2, loss_fn=torch.nn.functional.mse_loss, seed=3)

    def data() -> Iterator[Any]:
        while True:
            yield torch.randn(4, 6), torch.randn(4, 6)

    torch.manual_seed(7)
    pipe.train_batch(data())
    after = torch.randn(2)
    torch.manual_seed(7)
    for _ in range(4):
        torch.randn(4, 6)
    assert torch.equal(after, torch.randn(2))


def test_evaluation_changes_nothing() -> None:
    model = programs.normalized()
    pipe = pipeline.Pipeline(model, microbatches=2, loss_fn=torch.nn.functional.mse_loss)
    before = {name: x.clone() for name, x in pipe.state_dict().items()}
    x = torch.randn(4, 6)
    loss = pipe.eval_batch(iter([(x, x)] * 2))
    assert all(torch.equal(before[name], x) for name, x in pipe.state_dict().items())
    assert all(m.training for m in pipe.module.modules())
    assert all(p.grad is None for p in pipe.parameters())
    for layer in model:
        layer.eval()
    y = x
    for layer in model:
        y = layer(y)
    assert loss == pytest.approx(torch.nn.functional.mse_loss(y, x).item(), abs=EXACTLY)


def test_stats_add_up() -> None:
    pipe = pipeline.Pipeline(
        programs.blocks(), microbatches=4, loss_fn=torch.nn.functional.mse_loss
    )
    x = torch.randn(4, 6)
    pipe.train_batch(iter([(x, x)] * 4))
    stats = pipe.stats
    assert stats.batches == 1
    assert 0 < stats.compute <= stats.seconds
    assert stats.messages == stats.bytes == 0
    assert 0 <= stats.waiting < stats.seconds
    assert stats.bubble == stats.waiting / (stats.seconds - stats.waiting)
    stats.reset()
    assert stats == pipeline.Stats()


@pytest.mark.exhaustive
def test_the_benchmark_runs() -> None:
    _mpi.need_mpi()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "pipeline", "--rounds", "1"], capture_output=True,
        text=True, timeout=300, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("one process", "2 stages, 1F1B", "communication takes", "at least 1.6 times"):
        assert words in done.stdout
