"""Runs that are stopped, however it happens, and go on: to the bit as if they never had been."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import retrograd as torch
from retrograd.files import load, load_checkpoint
from retrograd.training._loop import Loop
from retrograd.training._settings import complete
from retrograd.training.chars import Chars
from retrograd.training.digits import Digits

SMALL: dict[str, Any] = {
    "digits": {
        "task": "digits", "steps": 60, "evaluate_every": 25, "checkpoint_every": 4,
        "model": {"channels": 3, "hidden": 8}, "data": {"batch_size": 100},
    },
    "chars": {
        "task": "chars", "steps": 40, "evaluate_every": 15, "checkpoint_every": 3,
        "model": {"layers": 1, "heads": 2, "width": 8, "context": 16, "dropout": 0.2},
        "data": {"batch_size": 4}, "sample": {"length": 5},
    },
}  # fmt: skip
# With threads, small products wait for each other, at great length where the machine is busy.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


# Without curves, which tests of the command line look at: to import matplotlib and draw would be
# most of what these runs do.
PROGRAM = """
import sys
sys.modules["matplotlib"] = None
from retrograd.__main__ import main
sys.exit(main())
"""


def command(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "train", *map(str, arguments)], env=ENVIRONMENT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def done(*arguments: str | Path, **options: Any) -> tuple[int, str, str]:
    with command(*arguments, **options) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def write_config(folder: Path, task: str, **changes: Any) -> Path:
    text = folder / "text.txt"
    text.write_text("Der Rain in Spanien, faellt meist in die Ebenen. " * 40, encoding="utf-8")
    settings = SMALL[task] | changes
    if task == "chars":
        settings = settings | {"data": settings["data"] | {"file": "text.txt"}}
    path = folder / f"{task}.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def checkpoints(run: Path) -> list[str]:
    return sorted(p.name for p in run.glob("checkpoints/step-*.safetensors"))


def figures(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, without the time they took."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def same_run(one: Path, other: Path) -> None:
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert figures(one) == figures(other)
    last = [load(max((run / "checkpoints").iterdir())) for run in (one, other)]
    for checkpoint in last:
        del checkpoint["values"]["seconds"]
        checkpoint["values"]["settings"]["data"].pop("file", None)  # copies in different places
        checkpoint["random"] = checkpoint["random"]["torch"]  # from others nothing is drawn
    assert flat(last[0]) == flat(last[1])


def flat(value: Any) -> Any:
    """A tree with lists in the place of tensors."""
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return {key: flat(item) for key, item in value.items()}
    return [flat(item) for item in value] if isinstance(value, (list, tuple)) else value


def checkpoints_are_whole(folder: Path) -> None:
    """Whatever has the name of a checkpoint can be read, checksums and all."""
    if (folder / "checkpoints").is_dir():
        for path in (folder / "checkpoints").glob("*.safetensors"):
            assert load(path)["values"]["step"] == int(path.stem.removeprefix("step-"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of runs that were never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    runs = {}
    for task in SMALL:
        runs[task] = folder / task
        assert done(write_config(folder, task), "--out", runs[task], "--quiet") == (0, "", "")
    return runs


def kill_while_training(
    process: subprocess.Popen[str], run: Path, written: int, wait: float
) -> bool:
    """Kill a process some time after it has written some checkpoints. False if it ended before.

    The moment is counted in checkpoints, so that a fast machine is not done before it comes.
    """
    last = max(checkpoints(run), default="")
    while process.poll() is None and written:
        time.sleep(0.001)
        now = max(checkpoints(run), default="")
        written -= now != last
        last = now
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such kill on Windows")
@pytest.mark.parametrize("task", SMALL)
def test_killed_at_random_moments(task: str, tmp_path: Path, whole: dict[str, Path]) -> None:
    config, run, kills = write_config(tmp_path, task), tmp_path / "run", 0
    moments = random.Random(7)
    while True:
        resume = ["--resume"] if (run / "config.json").exists() else []
        with command(config, "--out", run, "--quiet", *resume) as process:
            written, wait = moments.randint(1, 3), moments.uniform(0, 0.02)
            if not kill_while_training(process, run, written, wait):
                break
        kills += 1
        checkpoints_are_whole(run)
        assert kills < 60, "the run never comes to its end"
    assert process.returncode == 0
    assert kills >= 3, "too fast to be killed"
    same_run(run, whole[task])
    assert not list(run.rglob("*.retrograd-partial"))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another thing on Windows")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal(number: int, tmp_path: Path, whole: dict[str, Path]) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path, "digits")
    with command(config, "--out", run) as process:
        while len(checkpoints(run)) < 2:  # the first is of before the first step
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1].startswith("retrograd: stopped after step ")
    assert err.endswith(f" of 60; go on with: retrograd train --resume {run}\n")
    step = int(err.rpartition("step ")[2].split()[0])
    assert max(checkpoints(run)) == f"step-{step:08d}.safetensors"
    code, out, err = done("--resume", run)
    assert code == 0
    assert f"going on after step {step} of 60 steps" in out
    same_run(run, whole["digits"])


@pytest.mark.parametrize("task", SMALL)
def test_a_loop_goes_on_from_any_step(task: str, tmp_path: Path) -> None:
    """In one process: a checkpoint after every step, and the rest of the run from each of them."""
    make = {"digits": Digits, "chars": Chars}[task]
    settings = complete(json.loads(write_config(tmp_path, task, steps=17).read_text()))
    settings["data"] |= {"batch_size": 300} if task == "digits" else {"file": tmp_path / "text.txt"}

    def loop() -> Loop:
        torch.manual_seed(settings["seed"])
        return Loop(torch, make(torch, settings), settings)

    whole = loop()
    losses = []
    for loss in whole.losses():
        losses.append(loss)
        torch.files.save_checkpoint(tmp_path / f"{whole.step}.safetensors", **whole.parts())
    assert len(losses) == 17
    for step in (1, 4, 5, 6, 16):  # 5 batches of digits are an epoch
        again = loop()
        torch.rand(3)  # the generators need not be where they were
        load_checkpoint(tmp_path / f"{step}.safetensors", **again.parts())
        again.step = step
        assert list(again.losses()) == losses[step:]
        for mine, theirs in zip(again.task.model.parameters(), whole.task.model.parameters(),
                                strict=True):  # fmt: skip
            assert torch.equal(mine, theirs)


def test_a_checkpoint_becomes_a_new_run(tmp_path: Path, whole: dict[str, Path]) -> None:
    old = whole["chars"]
    earlier = old / "checkpoints" / min(checkpoints(old))
    before = {p: p.read_bytes() for p in old.rglob("*") if p.is_file()}
    branch = tmp_path / "branch"
    assert done("--resume", earlier, "--out", branch, "--quiet") == (0, "", "")
    same_run(branch, old)
    assert {p: p.read_bytes() for p in old.rglob("*") if p.is_file()} == before


def test_a_run_at_its_end_writes_its_files_again(tmp_path: Path, whole: dict[str, Path]) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole["digits"], run)
    (run / "model.safetensors").unlink()
    code, out, err = done("digits", "--resume", run)
    assert (code, err) == (0, "")
    assert "after 60 steps" in out
    same_run(run, whole["digits"])


# -- what cannot be resumed ---------------------------------------------------------------------


def refused(*arguments: str | Path, **options: Any) -> str:
    """The one line that says why."""
    code, out, err = done(*arguments, **options)
    assert (code, out) == (2, ""), err
    assert err.startswith("retrograd: ")
    assert err.count("\n") == 1, err
    return err.removeprefix("retrograd: ").rstrip("\n")


def test_nothing_to_resume(tmp_path: Path) -> None:
    said = refused("digits", "--resume", cwd=tmp_path)
    assert said == f"there is nothing to resume: {Path('runs/digits-0')} has no run"
    said = refused("digits", "--resume", "elsewhere", cwd=tmp_path)
    assert said == "there is nothing to resume: elsewhere does not exist"
    said = refused("digits", "--resume", tmp_path)
    assert said == f"there is nothing to resume: {tmp_path} is not the folder of a run"
    said = refused("digits", "--out", "elsewhere", "--resume", cwd=tmp_path)
    assert said == "there is nothing to resume: elsewhere has no run"
    assert list(tmp_path.iterdir()) == []


def test_another_run(tmp_path: Path, whole: dict[str, Path]) -> None:
    before = {p: p.read_bytes() for p in whole["chars"].rglob("*") if p.is_file()}
    said = refused("digits", "--resume", whole["chars"])
    assert "is of a run with task = chars, not digits: resume it without changes" in said
    said = refused("--resume", whole["chars"], "--seed", "5")
    assert "is of a run with seed = 0, not 5: resume it without changes" in said
    said = refused("chars", "--resume", whole["chars"], "--steps", "100")
    assert "is of a run with steps = 40, not 100" in said
    assert {p: p.read_bytes() for p in whole["chars"].rglob("*") if p.is_file()} == before


def test_files_that_are_no_checkpoints(tmp_path: Path, whole: dict[str, Path]) -> None:
    weights = whole["digits"] / "model.safetensors"
    said = refused("digits", "--resume", weights)
    assert said == f"{weights} is not a checkpoint of a run of retrograd train"
    text = tmp_path / "notes.txt"
    text.write_text("not tensors at all, but words", encoding="utf-8")
    assert str(text) in refused("--resume", text)
    last = whole["digits"] / "checkpoints" / max(checkpoints(whole["digits"]))
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(last.read_bytes()[:-100])
    assert str(broken) in refused("--resume", broken, "--out", tmp_path / "new")
    damaged = bytearray(last.read_bytes())
    damaged[-5] ^= 1
    broken.write_bytes(damaged)
    said = refused("--resume", broken, "--out", tmp_path / "new")
    assert f"{broken} is damaged" in said
    assert not (tmp_path / "new").exists()


def test_weights_of_another_shape(tmp_path: Path, whole: dict[str, Path]) -> None:
    last = whole["digits"] / "checkpoints" / max(checkpoints(whole["digits"]))
    tree = load(last)
    tree["values"]["settings"]["model"]["hidden"] = 9
    forged = tmp_path / "forged.safetensors"
    torch.save(tree, forged)
    said = refused("--resume", forged, "--out", tmp_path / "new")
    assert said.startswith(f"{forged} does not fit. Nothing was changed.; model: ")
    assert "size mismatch" in said
    assert not (tmp_path / "new").exists()


def test_a_text_that_has_changed(tmp_path: Path) -> None:
    config, run = write_config(tmp_path, "chars", steps=2), tmp_path / "run"
    assert done(config, "--out", run, "--quiet")[0] == 0
    text = tmp_path / "text.txt"
    text.write_text(text.read_text(encoding="utf-8") + "!", encoding="utf-8")
    assert refused("--resume", run).endswith("the data have changed, so the run cannot be resumed")


def test_only_one_process_trains_in_a_folder(tmp_path: Path) -> None:
    config, run = write_config(tmp_path, "digits", steps=100_000), tmp_path / "run"
    with command(config, "--out", run, "--quiet") as process:
        try:
            while not (run / "config.json").exists():
                assert process.poll() is None
                time.sleep(0.01)
            assert refused("--resume", run) == f"another process is training in {run}"
        finally:
            process.kill()


# -- a full disk --------------------------------------------------------------------------------


def small_files_only(most: int) -> Any:
    """Let the system refuse files beyond a size, as it does on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits on Windows")
def test_a_full_disk(tmp_path: Path, whole: dict[str, Path]) -> None:
    config, run = write_config(tmp_path, "digits"), tmp_path / "run"
    limits = small_files_only(4000)  # a checkpoint is larger
    code, _, err = done(config, "--out", run, "--quiet", preexec_fn=limits)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"retrograd: {run / 'checkpoints'}")
    assert err.endswith("File too large; no file was made\n")
    assert [p.name for p in run.rglob("*.safetensors")] == []
    # With room again, the same command starts over.
    assert done(config, "--out", run, "--quiet") == (0, "", "")
    same_run(run, whole["digits"])


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits on Windows")
def test_a_disk_that_fills_up_later(tmp_path: Path, whole: dict[str, Path]) -> None:
    config, run = write_config(tmp_path, "digits", log_every=1), tmp_path / "run"
    limits = small_files_only(max(p.stat().st_size for p in whole["digits"].rglob("*step*")) + 200)
    # The figures of all steps are larger than that, the checkpoints are not.
    code, _, err = done(config, "--out", run, "--quiet", preexec_fn=limits)
    if code == 0:
        pytest.skip("the figures fit")
    assert (code, err.count("\n")) == (2, 1)
    checkpoints_are_whole(run)
    assert done(config, "--out", run, "--quiet", "--resume") == (0, "", "")
    same_run(run, whole["digits"])
