"""Checkpoints of pipelines: resumed to the bit, and loaded where the model is cut otherwise."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _mpi
import _pipeline_programs as programs
import pytest

import retrograd as torch
from retrograd import distributed, files, nn, pipeline

STEPS = 9


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
    if distributed.is_initialized():
        distributed.destroy_process_group()


Start = tuple[Path, int, int, bool, dict[str, Any]]  # folder, stages, steps, resumed, options


def losses_of(ranks: int, *runs: Start) -> list[list[float]]:
    """The losses of several runs, one after the other in the same processes."""
    arguments = [(str(folder), *others) for folder, *others in runs]
    if ranks == 1:
        return [programs.checkpointed(*each) for each in arguments]
    program = json.dumps(["checkpointed", *arguments])
    result = _mpi.run(Path(programs.__file__), ranks, env={"PIPELINE_PROGRAM": program})
    (line,) = [x for x in result.out[0].splitlines() if x.startswith("losses ")]
    found: list[list[float]] = json.loads(line.removeprefix("losses "))
    return found


def test_a_run_goes_on_to_the_bit_and_at_another_number_of_stages(tmp_path: Path) -> None:
    """With dropout, clipping, momentum and a schedule of the learning rate."""
    folder = tmp_path / "cut"
    whole, _ = losses_of(2, (tmp_path / "whole", 2, STEPS, False, {}), (folder, 2, 6, False, {}))
    assert sorted(os.listdir(folder)) == ["step-0000000003", "step-0000000006"]
    copies = [tmp_path / str(i) for i in range(4)]
    for copy in copies:
        shutil.copytree(folder, copy)
    chunks = {"schedule": "interleaved", "chunks": 2}
    recomputed = {"partition": "parameters", "checkpoint": 1}
    resumed, interleaved = losses_of(
        2, (folder, 2, STEPS, True, {}), (copies[0], 2, STEPS, True, chunks)
    )
    assert resumed == whole
    # The newest two are kept.
    assert sorted(os.listdir(folder)) == ["step-0000000006", "step-0000000009"]
    alone = losses_of(1, (copies[1], 1, STEPS, True, {}), (copies[2], 1, STEPS, True, recomputed))
    three = losses_of(3, (copies[3], 3, STEPS, True, {"schedule": "zb-h1"}))
    for found in (interleaved, *alone, *three):
        assert found == pytest.approx(whole, abs=1e-12)


@pytest.mark.long
def test_grids_resume_to_the_bit(tmp_path: Path) -> None:
    whole, _ = losses_of(
        4, (tmp_path / "whole", 2, STEPS, False, {}), (tmp_path / "cut", 2, 6, False, {})
    )
    (resumed,) = losses_of(4, (tmp_path / "cut", 2, STEPS, True, {}))
    assert resumed == whole


def make(**options: Any) -> Any:
    torch.manual_seed(0)
    layers = [nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)]
    settings: dict[str, Any] = {
        "microbatches": 2,
        "loss_fn": nn.functional.mse_loss,
        "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=0.1),
        **options,
    }
    return pipeline.Pipeline(layers, **settings)


def batch() -> Any:
    return iter([(torch.ones(4, 2), torch.zeros(4, 1))] * 2)


def test_a_checkpoint_is_read_without_a_pipeline(tmp_path: Path) -> None:
    pipe = make()
    pipe.train_batch(batch())
    path = pipe.save_checkpoint(tmp_path, epoch=3, order=torch.arange(3))
    assert path == str(tmp_path / "step-0000000001")
    state = pipeline.whole_state_dict(tmp_path)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    model.load_state_dict(state)
    model.eval()
    loss = nn.functional.mse_loss(model(torch.ones(4, 2)), torch.zeros(4, 1)).item()
    assert loss == pytest.approx(pipe.eval_batch(batch()), abs=1e-12)
    values = make().load_checkpoint(path)
    assert values["epoch"] == 3
    assert values["order"].tolist() == [0, 1, 2]


def test_the_same_step_may_be_saved_again(tmp_path: Path) -> None:
    pipe = make()
    for number in range(12):
        pipe.save_checkpoint(tmp_path, number=number)
    assert make().load_checkpoint(tmp_path) == {"number": 11}
    pipe.save_checkpoint(tmp_path, keep=3, number=12)
    assert sorted(os.listdir(tmp_path)) == [f"step-0000000000.{n}" for n in (10, 11, 12)]


def test_what_a_killed_run_left_is_not_taken_for_a_checkpoint(tmp_path: Path) -> None:
    pipe = make()
    pipe.save_checkpoint(tmp_path, number=1)
    (tmp_path / ".step-0000000007.partial").mkdir()
    assert make().load_checkpoint(tmp_path) == {"number": 1}
    pipe.save_checkpoint(tmp_path, number=2)
    assert sorted(os.listdir(tmp_path)) == ["step-0000000000", "step-0000000000.1"]


def test_random_generators_go_on(tmp_path: Path) -> None:
    pipe = make()
    torch.manual_seed(5)
    torch.randn(3)
    pipe.save_checkpoint(tmp_path)
    wanted = torch.randn(4)
    torch.manual_seed(99)
    make().load_checkpoint(tmp_path)
    assert torch.equal(torch.randn(4), wanted)


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    pipe = make()
    pipe.train_batch(batch())
    pipe.save_checkpoint(tmp_path / "good")
    before = {name: x.clone() for name, x in make().state_dict().items()}

    def unchanged(other: Any) -> bool:
        same = all(torch.equal(before[n], x) for n, x in other.state_dict().items() if n in before)
        return same and other.steps == 0 and not other.optimizer.state

    other = make(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    with pytest.raises(RuntimeError, match="saved with Adam, not with SGD"):
        other.load_checkpoint(tmp_path / "good")
    assert unchanged(other)
    other = make(scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1))
    with pytest.raises(RuntimeError, match="without a scheduler"):
        other.load_checkpoint(tmp_path / "good")
    assert unchanged(other)
    other = make(optimizer=lambda p: torch.optim.Adam([{"params": p[:2]}, {"params": p[2:]}]))
    with pytest.raises(RuntimeError, match="1 groups of parameters, not 2"):
        other.load_checkpoint(tmp_path / "good")
    assert unchanged(other)
    torch.manual_seed(0)
    larger = pipeline.Pipeline([*(nn.Linear(2, 3) for _ in range(4))], microbatches=1)
    with pytest.raises(RuntimeError, match=r"it has no 3\.bias, 3\.weight"):
        larger.load_checkpoint(tmp_path / "good")
    with pytest.raises(FileNotFoundError, match="no complete checkpoint"):
        make().load_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError, match="no complete checkpoint"):
        make().load_checkpoint(tmp_path / "nowhere")
    file = next((tmp_path / "good" / "step-0000000001").glob("stage*"))
    file.write_bytes(file.read_bytes()[:-1])
    other = make()
    with pytest.raises(files.FileFormatError):
        other.load_checkpoint(tmp_path / "good")
    assert unchanged(other)
    with pytest.raises(ValueError, match="at least 1"):
        other.save_checkpoint(tmp_path, keep=0)


def test_groups_of_parameters_and_their_options(tmp_path: Path) -> None:
    def optimizer(parameters: list[Any]) -> Any:
        flat = [p for p in parameters if p.dim() == 1]
        rest = [p for p in parameters if p.dim() > 1]
        return torch.optim.SGD(
            [{"params": rest}, {"params": flat, "lr": 0.5}], lr=0.1, momentum=0.9
        )

    pipe = make(optimizer=optimizer)
    pipe.train_batch(batch())
    pipe.optimizer.param_groups[0]["lr"] = 0.03
    pipe.save_checkpoint(tmp_path)
    wanted = [pipe.train_batch(batch()) for _ in range(3)]
    other = make(optimizer=optimizer)
    other.load_checkpoint(tmp_path)
    assert [g["lr"] for g in other.optimizer.param_groups] == [0.03, 0.5]
    assert [other.train_batch(batch()) for _ in range(3)] == wanted


def test_states_of_the_whole_model_are_taken_in_parts() -> None:
    pipe = make()
    state = {name: x * 2 for name, x in pipe.state_dict().items()}
    pipe.load_state_dict({**state, "7.weight": torch.ones(1)})
    assert all(torch.equal(x, state[name]) for name, x in pipe.state_dict().items())
    del state["0.bias"]
    with pytest.raises(RuntimeError, match=r"0\.bias"):
        pipe.load_state_dict(state)
