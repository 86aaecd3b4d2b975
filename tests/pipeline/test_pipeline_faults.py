"""What goes wrong in a pipeline is said once, by the rank concerned, and nobody is left waiting."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import _mpi
import _pipeline_programs as programs
import pytest

import retrograd as torch

RANKS = 3
PROGRAM = Path(programs.__file__)


def environment(*program: Any) -> dict[str, str]:
    return {"PIPELINE_PROGRAM": json.dumps(program)}


FAULTS = [
    ("raises", 1, "ArithmeticError: this layer has had enough", "layer '2' (Raises) of stage 1"),
    ("raises backward", 1, "ArithmeticError: no way back", "in the backward pass of stage 1"),
    ("shapes", 1, "mat1 and mat2 shapes cannot be multiplied (4x6 and 7x6)",
     "layer '2' (Linear) of stage 1"),
    ("cannot be sent", 1, "TypeError: a object cannot be sent from one stage to another", ""),
    ("settings", 1, "the pipeline of rank 1 has microbatches=3, that of rank 0 has microbatches=4",
     ""),
    ("weights", 1, "layer 0 of the model of rank 1 has other weights than that of rank 0", ""),
    ("optimizer", 1, "the optimizer of rank 1 has 10 parameters (of 16) that are not in stage 1",
     ""),
    ("folder", 1, "FileNotFoundError: rank 1 does not see ", "elsewhere/checkpoints"),
    ("other call", 1, "rank 1 calls eval_batch where rank 0 calls train_batch", ""),
    ("fewer batches", 2, "the iterator of rank 2 has no more data after 2 steps, while that of "
     "rank 0 has", ""),
    ("other data", 2, "rank 2 has read other targets than rank 0 in step 0", ""),
    ("part of a batch", 2, "the iterator of rank 2 has ended after 3 of the 4 micro-batches", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "concerned", "message", "note"), FAULTS, ids=lambda x: str(x)[:15]
)
def test_one_clear_error_from_the_rank_concerned(
    kind: str, concerned: int, message: str, note: str, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    result = _mpi.run(
        PROGRAM,
        RANKS,
        expect=None,
        env=environment("fault", kind, RANKS, str(tmp_path)),
    )
    told = result.report()
    assert message in result.err[concerned], told
    assert note in result.err[concerned], told
    assert result.err[concerned].count("Traceback") == 1, told
    for rank in range(RANKS):
        assert "trained" not in result.out[rank], told
        if rank != concerned:
            assert "Traceback" not in result.err[rank], told
            assert f"rank {concerned}" in result.err[rank], told
            assert len(result.err[rank].strip().splitlines()) == 1, told


# -- killed --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[float]]:
    """The losses of runs that nobody kills, by the number of ranks."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return {RANKS: losses(folder, resume=False)}


STEPS = 18


def losses(folder: Path, resume: bool) -> list[float]:
    program = environment("checkpointed", [str(folder), RANKS, STEPS, resume, {}])
    result = _mpi.run(PROGRAM, RANKS, env=program)
    (line,) = [x for x in result.out[0].splitlines() if x.startswith("losses ")]
    (found,) = json.loads(line.removeprefix("losses "))
    return list(found)


@pytest.mark.parametrize(
    ("victim", "step"),
    [
        (1, 4),
        pytest.param(0, 6, marks=pytest.mark.long),
        *(pytest.param(v, s, marks=pytest.mark.exhaustive) for v, s in ((2, 9), (1, 14))),
    ],
)
def test_killing_a_rank_stops_all_and_the_run_goes_on_to_the_bit(
    victim: int, step: int, tmp_path: Path, undisturbed: dict[int, list[float]]
) -> None:
    program = environment("checkpointed", [str(tmp_path), RANKS, STEPS, False, {}])
    run = _mpi.Run(PROGRAM, RANKS, {**program, "SLOWLY": "0.02"})
    run.printed(0, f"step {step}\n")
    time.sleep(random.random() * 0.04)  # at any moment of a step
    os.kill(run.pid(victim), signal.SIGKILL)
    result = run.finish(timeout=60)
    told = result.report()
    assert result.code != 0, told
    for rank in range(RANKS):
        assert "losses" not in result.out[rank], told
        if rank != victim:
            assert f"rank {victim}" in result.err[rank], told
            assert "died" in result.err[rank], told
    assert losses(tmp_path, resume=True) == undisturbed[RANKS]


def test_an_interrupted_save_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    """A rank that dies while a checkpoint is written: the one before is what counts."""
    torch.set_default_dtype(torch.float64)
    try:
        programs.checkpointed(str(tmp_path), 1, 3, False, {})
        os.makedirs(tmp_path / ".step-0000000006.partial")
        (tmp_path / ".step-0000000006.partial" / "stage-0-of-2.safetensors").write_bytes(b"half")
        found = programs.checkpointed(str(tmp_path), 1, 6, True, {})
        assert len(found) == 6
        assert sorted(os.listdir(tmp_path)) == ["step-0000000003", "step-0000000006"]
    finally:
        torch.set_default_dtype(torch.float32)
        torch.distributed.destroy_process_group()
