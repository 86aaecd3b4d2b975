"""A file is written whole or not at all, whatever happens."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import retrograd as torch
from retrograd.files import _atomic, _saving


def test_links_and_modes_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    torch.save(1, real)
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~_umask()
    real.chmod(0o640)
    link.symlink_to(real)
    torch.save(2, link)
    assert link.is_symlink()
    assert torch.load(real) == 2
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"),
                                   MemoryError()], ids=repr)  # fmt: skip
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("step", ["write_all", "fsync", "replace"])
def test_whatever_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, there: bool, step: str
) -> None:
    path = tmp_path / "x"
    if there:
        torch.save("old", path)
    calls = 0

    def fail(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if step != "write_all" or calls == 2:  # the header is written, the tensor is not
            raise error
        args[0].write(args[1])

    target = _saving if step == "write_all" else os
    monkeypatch.setattr(target, step, fail)
    with pytest.raises(type(error)) as caught:
        torch.save({"w": torch.ones(100)}, path)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == (["x"] if there else [])
    if there:
        assert torch.load(path) == "old"
    if isinstance(error, OSError):
        what = "what was there before is unchanged" if there else "no file was made"
        assert str(caught.value) == f"[Errno 28] No space left on device; {what}: '{path}'"


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("only root can make a small disk; the next test limits the size of files")
    try:
        torch.save([torch.ones(100)], disk / "x")
        with pytest.raises(OSError, match="No space left on device; what was there before"):
            torch.save([torch.ones(100_000)], disk / "x")
        assert os.listdir(disk) == ["x"]
        assert torch.load(disk / "x")[0].sum() == 100
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limits on the size of files")
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    program = """
        import resource, signal, sys
        import retrograd as torch
        torch.save(["old", torch.ones(10)], sys.argv[1])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            torch.save(["new", torch.ones(100_000)], sys.argv[1])
        except OSError as error:
            print(error)
    """
    assert "File too large; what was there before is unchanged" in run(program, tmp_path / "x")
    assert torch.load(tmp_path / "x")[0] == "old"
    assert os.listdir(tmp_path) == ["x"]


def run(program: str, *arguments: Any) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_folder_or_file_that_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    torch.save("old", path)
    monkeypatch.setattr(os, "access", lambda *args: False)  # since root may do everything
    with pytest.raises(PermissionError, match="write-protected"):
        torch.save("new", path)
    monkeypatch.undo()

    def refuse(*args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match=r"denied; what was there before is unchanged: '.*x'"):
        torch.save("new", path)
    monkeypatch.undo()
    assert torch.load(path) == "old"


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = tmp_path / f".0123456789abcdef{_atomic.SUFFIX}"
    left.write_bytes(b"half a file")
    mine = tmp_path / f"mine{_atomic.SUFFIX}"
    mine.write_bytes(b"not hidden: not ours")
    with _atomic.written_whole(str(tmp_path / "slow")) as file:
        file.write(b"1")
        torch.save(1, tmp_path / "other")  # while another writer is at work in the folder
        hidden = [name for name in os.listdir(tmp_path) if name.startswith(".")]
        assert len(hidden) == 1
        assert hidden[0] != left.name
        file.write(b"2")
    assert (tmp_path / "slow").read_bytes() == b"12"
    assert sorted(os.listdir(tmp_path)) == [mine.name, "other", "slow"]


def test_writers_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def write(number: int) -> None:
        torch.save([torch.full((1000,), float(number))], path)
        found = torch.load(path)[0]
        assert bool((found == found[0]).all())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(60)))
    assert os.listdir(tmp_path) == ["x"]


WRITER = """
    import itertools, sys
    import retrograd as torch
    for i in itertools.count(int(sys.argv[2])):
        tree = {"number": i, "w": [torch.full((200_000,), float(i)), torch.ones(3)]}
        torch.save(tree, sys.argv[1])
        print(i, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no kill -9")
def test_killed_at_any_moment_there_is_one_whole_file(tmp_path: Path) -> None:
    path, number, source = tmp_path / "x", 0, random.Random()
    for _ in range(12):
        command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it is at work
            time.sleep(source.random() * 0.02)
            process.kill()
            said = process.stdout.read().split()
        found = torch.load(path)
        last = int(said[-1]) if said else number
        assert found["number"] in (last, last + 1)  # the one it told of, or the next
        assert bool((found["w"][0] == found["number"]).all())
        number = found["number"] + 1
        assert len(os.listdir(tmp_path)) <= 2  # what the earlier ones left was removed
    torch.save(1, path)
    assert os.listdir(tmp_path) == ["x"]
