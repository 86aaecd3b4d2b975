"""Checkpoints of a pipeline: a file for each stage, in a folder that appears when all are written.

Everything is stored under its name in the whole model, independent of the stage it was on.
``step-0000000100/stage-0-of-4.safetensors`` has the parameters and buffers of a stage and the
optimizer's state for each, and ``random-0-0.safetensors`` the random generators of a rank, by stage
and replica. All are ordinary files of ``retrograd.files``.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from retrograd import distributed, files
from retrograd.files._atomic import _sync_folder
from retrograd.files._checkpoints import _random_states

if TYPE_CHECKING:
    from retrograd.pipeline._grid import Grid
    from retrograd.pipeline._pipeline import Pipeline

_NAME = re.compile(r"step-(\d{10})(?:\.(\d+))?")
_STAGE = re.compile(r"stage-(\d+)-of-(\d+)\.safetensors")
_GROUP_KEYS = ("params", "param_names")
_PATIENCE = 2.0  # seconds until a folder made on another machine is seen
VERSION = 1


# -- saving ------------------------------------------------------------------------------------


def save(pipe: Pipeline, folder: str, keep: int | None, values: dict[str, Any]) -> str:
    """Write a checkpoint, by all ranks together."""
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    grid = pipe.grid
    number = -1
    if grid.rank == 0:
        os.makedirs(folder, exist_ok=True)
        taken = [n for step, n in checkpoints_in(folder) if step == pipe.steps]
        number = max(taken, default=-1) + 1
    number = grid.agreed([number])[0]
    name = _name(pipe.steps, number)
    partial, final = os.path.join(folder, f".{name}.partial"), os.path.join(folder, name)
    if grid.rank == 0:
        for left in os.listdir(folder):  # left by runs that were killed
            if left.startswith(".step-") and left.endswith(".partial"):
                shutil.rmtree(os.path.join(folder, left))
        os.mkdir(partial)
    distributed.barrier(group=grid.everybody)
    _check_sees(grid, partial)
    if grid.replica == 0:
        path = f"stage-{grid.stage}-of-{grid.stages}.safetensors"
        files.save(_contents(pipe, values), os.path.join(partial, path))
    states = {key: state.get() for key, state in _random_states().items()}
    files.save(states, os.path.join(partial, f"random-{grid.stage}-{grid.replica}.safetensors"))
    distributed.barrier(group=grid.everybody)
    if grid.rank == 0:
        os.rename(partial, final)
        _sync_folder(folder)
        for step, n in sorted(checkpoints_in(folder))[: -keep if keep else 0]:
            shutil.rmtree(os.path.join(folder, _name(step, n)))
    distributed.barrier(group=grid.everybody)
    return final


def _name(step: int, number: int) -> str:
    return f"step-{step:010d}" + (f".{number}" if number else "")


def _check_sees(grid: Grid, path: str) -> None:
    """Check that all ranks see a folder that rank 0 has."""
    end = time.monotonic() + _PATIENCE
    while not os.path.isdir(path):
        if time.monotonic() > end:
            raise FileNotFoundError(
                f"rank {grid.rank} does not see {os.path.abspath(path)!r}, which rank 0 sees. "
                "Checkpoints need a folder that all ranks share, given by its full path"
            )
        time.sleep(0.05)


def checkpoints_in(folder: str) -> list[tuple[int, int]]:
    """The steps of the complete checkpoints in a folder; of several of a step, their numbers."""
    result = map(_NAME.fullmatch, os.listdir(folder))
    return [(int(match[1]), int(match[2] or 0)) for match in result if match]


def _contents(pipe: Pipeline, values: dict[str, Any]) -> dict[str, Any]:
    layout = {"stages": pipe.grid.stages, "chunks": pipe.chunks, "replicas": pipe.replicas}
    return {
        "pipeline": VERSION,
        "layout": layout,
        "steps": pipe.steps,
        "model": dict(pipe.state_dict()),
        "optimizer": None if pipe.optimizer is None else _optimizer_state(pipe),
        "scheduler": None if pipe.scheduler is None else pipe.scheduler.state_dict(),
        "values": values if pipe.stage == 0 else None,
    }


def _names_by_identity(pipe: Pipeline) -> dict[int, str]:
    """The name under which each parameter is stored, the same on all ranks that have it."""
    return {id(p): pipe._first_name.get(name, name) for name, p in pipe.named_parameters()}


def _optimizer_state(pipe: Pipeline) -> dict[str, Any]:
    names, optimizer = _names_by_identity(pipe), pipe.optimizer
    return {
        "kind": type(optimizer).__name__,
        "state": {names[id(p)]: dict(state) for p, state in optimizer.state.items()},
        "groups": [
            {key: value for key, value in group.items() if key not in _GROUP_KEYS}
            for group in optimizer.param_groups
        ],
    }


# -- loading -----------------------------------------------------------------------------------


def load(pipe: Pipeline, folder: str) -> dict[str, Any]:
    """Restore a pipeline. Everything is checked before anything is changed."""
    grid = pipe.grid
    chosen = (-1, 0)
    if grid.rank == 0 and os.path.isdir(folder):
        whole = any(map(_STAGE.fullmatch, os.listdir(folder)))
        chosen = (-2, 0) if whole else max(checkpoints_in(folder), default=(-1, 0))
    step, number = grid.agreed(chosen)
    if step == -1:
        raise FileNotFoundError(f"there is no complete checkpoint of a pipeline in {folder!r}")
    path = folder if step == -2 else os.path.join(folder, _name(step, number))
    _check_sees(grid, path)
    names = _names_by_identity(pipe).values()
    stages = _read(path, keep=set(pipe.state_dict()) | set(names))
    model = {name: x for stage in stages for name, x in stage["model"].items()}
    missing = sorted(name for name in pipe.state_dict() if name not in model)
    if missing:
        raise RuntimeError(f"{path} does not fit: it has no {', '.join(missing)}")
    optimizer = None if pipe.optimizer is None else _new_optimizer_state(pipe, stages, path)
    schedulers = [s["scheduler"] for s in stages if s["scheduler"] is not None]
    if pipe.scheduler is not None and not schedulers:
        raise RuntimeError(f"{path} does not fit: it was saved without a scheduler")
    random = _random_file(path, pipe, stages[0]["layout"])

    pipe.load_state_dict(model)
    if optimizer is not None:
        pipe.optimizer.load_state_dict(optimizer)
    if pipe.scheduler is not None:
        pipe.scheduler.load_state_dict(schedulers[0])
    own = _random_states()
    for key, state in random.items():
        if key in own:
            own[key].set(state)
    pipe.steps = stages[0]["steps"]
    distributed.barrier(group=grid.everybody)
    values: dict[str, Any] = stages[0]["values"]
    return values


def _read(path: str, keep: Container[str] | None = None) -> list[dict[str, Any]]:
    """The files of all stages. Only tensors whose names are in ``keep`` stay in memory: a rank need
    not have room for the whole model."""
    matches = [match for match in map(_STAGE.fullmatch, sorted(os.listdir(path))) if match]
    count = int(matches[0][2]) if matches else 0
    if not count or sorted(int(match[1]) for match in matches) != list(range(count)):
        raise FileNotFoundError(f"{path!r} is not a complete checkpoint of a pipeline")
    result = []
    for number in range(count):
        stage = files.load(os.path.join(path, f"stage-{number}-of-{count}.safetensors"))
        if not isinstance(stage, dict) or stage.get("pipeline") != VERSION:
            raise files.FileFormatError(f"{path!r} is not a checkpoint of a pipeline")
        optimizer = stage["optimizer"] or {}
        for held in (stage["model"], optimizer.get("state", {})):
            for name in [name for name in held if keep is not None and name not in keep]:
                del held[name]
        result.append(stage)
    return result


def _new_optimizer_state(pipe: Pipeline, stages: list[Any], path: str) -> dict[str, Any]:
    """What this rank's optimizer is to load, collected from all stages."""
    saved = [stage["optimizer"] for stage in stages if stage["optimizer"] is not None]
    own, kind = pipe.optimizer, type(pipe.optimizer).__name__
    kinds = {state["kind"] for state in saved}
    if kinds != {kind}:
        before = " and ".join(sorted(kinds)) or "no optimizer"
        raise RuntimeError(f"{path} does not fit: it was saved with {before}, not with {kind}")
    groups, count = saved[0]["groups"], len(own.param_groups)
    if len(groups) != count:
        raise RuntimeError(
            f"{path} does not fit: its optimizer has {len(groups)} groups of parameters, not "
            f"{count}"
        )
    states = {name: state for each in saved for name, state in each["state"].items()}
    names = _names_by_identity(pipe)
    in_order = [p for group in own.param_groups for p in group["params"]]
    numbered = own.state_dict()["param_groups"]
    return {
        "state": {
            i: states[names[id(p)]] for i, p in enumerate(in_order) if names[id(p)] in states
        },
        "param_groups": [group | options for group, options in zip(numbered, groups, strict=True)],
    }


def _random_file(path: str, pipe: Pipeline, layout: dict[str, int]) -> dict[str, Any]:
    """The generators of this rank; those of the first rank if the ranks were different then."""
    same = (layout["stages"], layout["replicas"]) == (pipe.grid.stages, pipe.replicas)
    rank = f"{pipe.stage}-{pipe.replica}" if same else "0-0"
    states: dict[str, Any] = files.load(os.path.join(path, f"random-{rank}.safetensors"))
    return states


def whole_state_dict(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The state of the whole model from the newest checkpoint, for use in one process.

    Args:
        folder: folder for checkpoints, or a single checkpoint.

    Returns:
        A dictionary for ``load_state_dict``.

    Example:
        >>> import retrograd as torch, tempfile
        >>> from retrograd import pipeline
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1))
        >>> pipe = pipeline.Pipeline(model, stages=1, microbatches=1)
        >>> folder = tempfile.mkdtemp()
        >>> path = pipe.save_checkpoint(folder)
        >>> list(pipeline.whole_state_dict(folder))
        ['0.weight', '0.bias']
        >>> torch.distributed.destroy_process_group()
    """
    path = os.fspath(folder)
    if not any(map(_STAGE.fullmatch, os.listdir(path))):
        result = checkpoints_in(path)
        if not result:
            raise FileNotFoundError(f"there is no complete checkpoint of a pipeline in {path!r}")
        path = os.path.join(path, _name(*max(result)))
    return {name: x for stage in _read(path) for name, x in stage["model"].items()}
