"""Damaged files: loading gives the right values or the error that says so, and nothing else.

Files that the library saves are changed at random: bits, stretches, lengths, what the header says.
Then

- a tree, which is under checksums, comes back as it was, or is refused;
- a dict of tensors comes back as one, no larger than the file, or is refused;
- a checkpoint is put back as a whole, or changes nothing;
- a file whose header was forged with checksums that fit gives some tree, or is refused;
- no file runs code, takes memory it does not have, or lasts.
"""

from __future__ import annotations

import base64
import io
import resource
import sys
import tempfile
import time
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from ._mutations import mutated
from ._report import Report

MEMORY = 256 << 20  # bytes that loading a file of a few thousand may take at most
_CODE = ("exec", "compile", "pickle.find_class", "marshal.loads", "os.system", "os.exec",
         "os.posix_spawn", "os.fork", "subprocess.Popen", "ctypes.dlopen", "socket.connect",
         "shutil.rmtree", "os.remove", "os.rename")  # fmt: skip

_IMPORTING = ("exec", "compile", "marshal.loads")
_OURS = {"retrograd", "numpy", "scipy", "ml_dtypes", *sys.stdlib_module_names}


def attack(report: Report, seed: int, seconds: float) -> None:
    """Damage files and load them until the time is up."""
    # Asked where tensors of a file can be put, and imported in a way that raises no event.
    import retrograd.devices  # noqa: F401

    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="attack-files-") as folder:
        targets = make_targets(Path(folder))
        everything = [target.data for target in targets]
        guard = Guard()
        with limited_memory():
            for target in targets:
                target.judge(target.data, "nothing")  # loads what is loaded when first used
            # Only now, so that a busy machine does not spend all of the time on imports.
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                target = random.choice(targets)
                data, how = mutated(random, target.data, everything)
                report.trying(reproduction(target, data, how))
                verdict = guard.watch(lambda t=target, d=data, h=how: t.judge(d, h))
                report.trying("")
                report.tried += 1
                report.counts[f"{target.name}: {verdict[0]}"] += 1
                if verdict[0] == "wrong":
                    title = f"{target.name}: {verdict[1]}"
                    report.found(title, reproduction(target, data, how))


# -- what is watched -----------------------------------------------------------------------------

Verdict = tuple[str, str]  # "refused", "unchanged", "another" or "wrong"; and what is wrong


class Guard:
    """Notes whether anything is run, started or removed while a file is loaded."""

    def __init__(self) -> None:
        self._watching = self._imports = False
        self._seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: Any) -> None:
        if not self._watching:
            return
        if event == "import" and arguments[0].split(".")[0] in _OURS:
            self._imports = True  # our own modules are imported when they are first used
        elif event in _CODE and not (self._imports and event in _IMPORTING):
            self._seen.append(event)

    def watch(self, judge: Callable[[], Verdict]) -> Verdict:
        self._seen.clear()
        self._watching, self._imports = True, False
        try:
            verdict = judge()
        finally:
            self._watching = False
        if self._seen:
            return "wrong", f"loading it caused {', '.join(dict.fromkeys(self._seen))}"
        return verdict


@contextmanager
def limited_memory() -> Iterator[None]:
    """An allocation much larger than any of the files is a MemoryError, and so a finding."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + MEMORY
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# -- the files -----------------------------------------------------------------------------------


class Target:
    """A file, and what its loading may give when it is damaged."""

    def __init__(self, name: str, data: bytes, load: Callable[[bytes], Any],
                 right: Callable[[Any, bytes], str | None]) -> None:  # fmt: skip
        self.name, self.data, self._load, self._right = name, data, load, right

    def judge(self, data: bytes, how: str) -> Verdict:
        """Load a damaged copy."""
        from retrograd.files import FileFormatError

        try:
            loaded = self._load(data)
        except FileFormatError as error:
            if (
                "the BytesIO" not in str(error)
                and "damaged.safetensors" not in str(error)
                and ("run.safetensors" not in str(error))
            ):
                return "wrong", f"the error does not name the file: {error}"
            return "refused", ""
        except Exception as error:
            if isinstance(error, RuntimeError) and "Nothing was changed" in str(error):
                return "refused", ""
            if type(error) is RuntimeError and "map_location" in str(error):
                return "refused", ""  # the name of a device was changed
            return "wrong", f"{type(error).__name__}: {str(error).splitlines()[:1]}"
        touch(loaded)
        if "checksum made to fit" in how or ("header: " in how and b"sums" not in data):
            return "another", ""  # forged, or no tree any more: it is enough that it could be read
        wrong = self._right(loaded, data)
        return ("wrong", wrong) if wrong else ("right", "")


def make_targets(folder: Path) -> list[Target]:
    import retrograd as torch

    path = folder / "damaged.safetensors"

    def at_path(data: bytes) -> Any:
        path.write_bytes(data)
        return torch.load(path)

    def mapped(data: bytes) -> Any:
        path.write_bytes(data)
        return torch.load(path, mmap=True)

    def in_memory(data: bytes) -> Any:
        return torch.load(io.BytesIO(data))

    tree, flat, brain = saved(torch, a_tree(torch)), saved(torch, tensors(torch)), brain_floats()
    zipped, old = saved(torch, a_tree(torch), "pt"), saved(torch, a_tree(torch), "old pt")
    expected = the_same(torch.load(io.BytesIO(zipped)))
    return [
        Target("tree", tree, in_memory, the_same(torch.load(io.BytesIO(tree)))),
        Target("tree at a path", tree, at_path, the_same(torch.load(io.BytesIO(tree)))),
        Target("tree, mapped", tree, mapped, some_tree),
        Target("dict of tensors", flat, in_memory, some_tensors),
        Target("dict of tensors, mapped", flat, mapped, some_tensors),
        Target("dict of narrow floats", brain, in_memory, some_tensors),
        Target("pickle in a zip file", a_zip_file(), at_path, refused),
        Target("pt file", zipped, in_memory, expected),
        Target("pt file at a path", zipped, at_path, expected),
        Target("pt file, mapped", zipped, mapped, some_tree),
        Target("old pt file", old, in_memory, anything),
        Target("old pt file at a path", old, at_path, anything),
        *[Target(name, data, in_memory, anything) for name, data in by_pytorch().items()],
        checkpoint(torch, folder),
    ]


def by_pytorch() -> dict[str, bytes]:
    """Files that PyTorch writes, if it is installed: as it does now, without the entries that
    version 2.0 did not write, and in the format before zip files."""
    try:
        import torch
    except ImportError:
        return {}
    tree = {**a_tree(torch), "sparse": torch.eye(3).to_sparse(), "buffer": torch.ones(2).half()}
    files = [io.BytesIO(), io.BytesIO(), io.BytesIO()]
    torch.save(tree, files[0])
    torch.save(tree, files[2], _use_new_zipfile_serialization=False)
    later = (".format_version", ".storage_alignment", "byteorder", "serialization_id")
    with zipfile.ZipFile(files[0]) as now, zipfile.ZipFile(files[1], "w") as then:
        for entry in now.infolist():
            if not entry.filename.endswith(later):
                then.writestr(entry.filename, now.read(entry))
    names = ("PyTorch's pt file", "PyTorch's pt file of 2.0", "PyTorch's old pt file")
    return {name: file.getvalue() for name, file in zip(names, files, strict=True)}


def a_tree(torch: Any) -> Any:
    weight = torch.arange(6.0).reshape(2, 3)
    return {
        "model": OrderedDict(weight=weight, tied=weight, row=weight[1], bias=torch.ones(2)),
        "state": {0: {"step": torch.tensor(3.0), "z": torch.ones(1, dtype=torch.complex128) * 1j}},
        "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "best": float("inf"), "names": {"a", "b"}}],
        "step": 12, "name": "é", "counts": Counter("ab"), "large": 1 << 70, "raw": b"\x00\xff",
        "shape": torch.Size([1, 2]), "dtype": torch.float32, "none": None, "nothing": torch.ones(0),
        "learned": torch.ones(2, requires_grad=True), "mask": torch.tensor([True, False]),
    }  # fmt: skip


def tensors(torch: Any) -> Any:
    return {"weight": torch.arange(6.0).reshape(2, 3), "mask": torch.tensor([True, False]),
            "z": torch.tensor([1j], dtype=torch.complex64), "i": torch.arange(3)}  # fmt: skip


def saved(torch: Any, obj: Any, kind: str = "safetensors") -> bytes:
    file = io.BytesIO()
    new = kind != "old pt"
    torch.save(obj, file, format=kind if new else "pt", _use_new_zipfile_serialization=new)
    return file.getvalue()


def brain_floats() -> bytes:
    """A file by others, with dtypes that NumPy lacks."""
    header = (b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},'
              b'"y":{"dtype":"F8_E4M3","shape":[2,1],"data_offsets":[6,8]}}')  # fmt: skip
    return len(header).to_bytes(8, "little") + header + bytes(range(8))


def a_zip_file() -> bytes:
    """What PyTorch would save, with a pickle that removes a file when it is read."""
    import zipfile

    pickled = b"cos\nsystem\n(S'rm -f /tmp/attacked'\ntR."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/data/0", bytes(16))
    return file.getvalue()


def checkpoint(torch: Any, folder: Path) -> Target:
    """A checkpoint of a training run. Loading it puts back all or nothing."""
    path = folder / "run.safetensors"

    def parts() -> dict[str, Any]:
        model = torch.nn.Linear(2, 1)
        return {"model": model, "optimizer": torch.optim.Adam(model.parameters())}

    first = parts()
    first["model"](torch.ones(1, 2)).sum().backward()
    first["optimizer"].step()
    torch.files.save_checkpoint(path, step=3, note="a", **first)
    data = path.read_bytes()
    expected = state_of(first)
    into = parts()

    def load(damaged: bytes) -> Any:
        path.write_bytes(damaged)
        before = state_of(into)
        try:
            values = torch.files.load_checkpoint(path, random=False, **into)
        except Exception:
            if not same(state_of(into), before):
                raise AssertionError("refused, but something was changed") from None
            raise
        return values

    def right(values: Any, damaged: bytes) -> str | None:
        if values != {"step": 3, "note": "a"}:
            return f"the values are {values}"
        return None if same(state_of(into), expected) else "the state that was put back is another"

    return Target("checkpoint", data, load, right)


def state_of(parts: dict[str, Any]) -> Any:
    import copy

    return copy.deepcopy({name: part.state_dict() for name, part in parts.items()})


# -- what is right -------------------------------------------------------------------------------


def the_same(expected: Any) -> Callable[[Any, bytes], str | None]:
    return lambda loaded, data: None if same(loaded, expected) else "other values, and no error"


def some_tree(loaded: Any, data: bytes) -> str | None:
    """Mapped numbers are not under a checksum; all else is."""
    return None if isinstance(loaded, dict) and loaded.get("step") == 12 else "another tree"


def some_tensors(loaded: Any, data: bytes) -> str | None:
    import retrograd as torch

    if data.startswith(b"PK"):  # a splice of a whole file of the other format
        return None
    if not isinstance(loaded, dict):
        return f"a {type(loaded).__name__}"
    for name, tensor in loaded.items():
        if type(name) is not str or not isinstance(tensor, torch.Tensor):
            return "something that is no tensor"
        tensor.sum()  # every element can be read
    # float32 takes four times the room of an 8-bit float
    if sum(tensor.nbytes for tensor in loaded.values()) > 4 * len(data):
        return "more numbers than the file has bytes"
    return None


def anything(loaded: Any, data: bytes) -> str | None:
    """The old format of PyTorch has no checksums."""
    return None


def touch(tree: Any) -> None:
    """Look at the first and the last element of every tensor, which must be in the file."""
    waiting, seen = [tree], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if hasattr(node, "retain_grad"):
            if node.numel():
                node[(0,) * node.ndim].item()
                node[(-1,) * node.ndim].item()
        elif hasattr(node, "sparse_dim"):
            waiting += [node._indices(), node._values()]
        elif isinstance(node, dict):
            waiting += [*node.values(), vars(node)] if hasattr(node, "__dict__") else node.values()
        elif isinstance(node, (list, tuple)):
            waiting += node


def refused(loaded: Any, data: bytes) -> str | None:
    return None if loaded == {} else "it was read"


def same(a: Any, b: Any) -> bool:
    """Whether two trees are of the same types all through, with the same bits in their tensors."""
    if type(a) is not type(b):
        return False
    if hasattr(a, "retain_grad"):
        x, y = a.numpy(force=True), b.numpy(force=True)
        facts = (x.dtype, x.shape, a.requires_grad, x.tobytes())
        return facts == (y.dtype, y.shape, b.requires_grad, y.tobytes())
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)
    return bool(a == b)


def reproduction(target: Target, data: bytes, how: str) -> str:
    """A program that loads the damaged file."""
    text = base64.b64encode(data).decode()
    lines = [f"# {target.name}; {how}", "import base64, io, retrograd as torch"]
    lines.append(f"data = base64.b64decode({text!r})")
    if target.name == "checkpoint":
        lines += ["open('damaged.file', 'wb').write(data)", "model = torch.nn.Linear(2, 1)",
                  "optimizer = torch.optim.Adam(model.parameters())",
                  "print(torch.files.load_checkpoint('damaged.file', model=model, "
                  "optimizer=optimizer, random=False))"]  # fmt: skip
    elif "mapped" in target.name:
        lines += ["open('damaged.file', 'wb').write(data)",
                  "print(torch.load('damaged.file', mmap=True))"]  # fmt: skip
    else:
        lines.append("print(torch.load(io.BytesIO(data)))")
    return "\n".join(lines)
