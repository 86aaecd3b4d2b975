"""``.pt`` files: PyTorch's are read here, ours are read there, and nothing in a file is run."""

from __future__ import annotations

import io
import pickle
import struct
import warnings
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _file_contents import DTYPES, VALUES, OnlyReads, ramp, same, trees
from hypothesis import given
from hypothesis import strategies as st

import retrograd as torch
from retrograd.files import FileFormatError, _zip

theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")


def saved(obj: Any, new: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, _use_new_zipfile_serialization=new)
    return file.getvalue()


def saved_there(obj: Any, new: bool = True, **options: Any) -> bytes:
    file = io.BytesIO()
    theirs.save(obj, file, _use_new_zipfile_serialization=new, **options)
    return file.getvalue()


def loaded(data: bytes, **options: Any) -> Any:
    return torch.load(io.BytesIO(data), **options)


def agree(ours: Any, other: Any) -> bool:
    """Whether a tree of ours is the same as one of PyTorch."""
    if isinstance(other, theirs.Tensor):
        assert str(ours.dtype) == str(other.dtype)
        assert isinstance(ours, torch.nn.Parameter) == isinstance(other, theirs.nn.Parameter)
        assert tuple(ours.stride()) == other.stride() or other.numel() < 2
        expected = other.detach().resolve_conj().resolve_neg().numpy()
        found = ours.detach().numpy()
        assert found.shape == expected.shape
        return found.tobytes() == expected.tobytes() and ours.requires_grad is other.requires_grad
    if isinstance(other, (theirs.dtype, theirs.device)):
        return str(ours) == str(other)
    if isinstance(other, theirs.Size):
        return type(ours) is torch.Size and tuple(ours) == tuple(other)
    if isinstance(other, dict):
        kinds = type(ours) is type(other) or isinstance(ours, OrderedDict)
        same_keys = all(agree(x, y) for x, y in zip(ours, other, strict=True))
        return kinds and same_keys and all(agree(ours[k], other[k]) for k in other)
    if isinstance(other, (list, tuple)):
        items = zip(ours, other, strict=True)
        return type(ours) is type(other) and all(agree(x, y) for x, y in items)
    return same(ours, other)


def moves(library: Any) -> dict[str, Any]:
    """A checkpoint of a training run, and more, made by either library."""
    library.manual_seed(0)
    layers = library.nn
    model = layers.Sequential(layers.Linear(3, 4), layers.BatchNorm1d(4), layers.Linear(4, 2))
    optimizer = library.optim.Adam(model.parameters(), lr=0.1)
    scheduler = library.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        model(library.arange(12.0).reshape(4, 3)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    base = library.arange(12.0).reshape(3, 4)
    counts = Counter("abb")
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
        "scheduler": scheduler.state_dict(), "rng": library.get_rng_state(), "best": 0.5,
        "base": base, "row": base[1], "turned": base.t(), "steps": base[:, ::2],
        "wide": base[0].expand(3, 4), "scalar": library.tensor(2.5), "none": library.ones(0, 3),
        "parameter": layers.Parameter(base), "frozen": layers.Parameter(base, requires_grad=False),
        "learned": library.ones(2, dtype=library.float64, requires_grad=True),
        "shape": base.shape, "dtype": library.float16, "device": library.device("cpu"),
        "counts": counts, "set": {1, "a"}, "raw": b"\x00\xff", "z": 1 + 2j, "big": 1 << 70,
        "nested": [(1, None, True), {"a": [1.5, -3, 1 << 31, -(1 << 31)]}, "é"],
        "same": [counts, counts], "mask": library.tensor([True, False]),
        "wider": {str(d): library.ones(3).to(getattr(library, d)) for d in
                  ("uint8", "int8", "int16", "int32", "int64", "float16", "complex64",
                   "complex128", "uint16", "uint32", "uint64")},
    }  # fmt: skip


# -- what goes in comes out ----------------------------------------------------------------------


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, new: bool) -> None:
    assert same(loaded(saved(VALUES[name], new)), VALUES[name])


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)], ids=str)
def test_tensors_of_all_dtypes_and_shapes(dtype: Any, shape: tuple[int, ...], new: bool) -> None:
    x = ramp(dtype, *shape)
    for tree in (x, {"x": x}, [x, {"a": (x.clone(),)}]):
        assert same(loaded(saved(tree, new)), tree)


@given(trees, st.booleans())
def test_any_tree(tree: Any, new: bool) -> None:
    assert same(loaded(saved(tree, new)), tree)


def test_objects_that_are_there_twice_are_one() -> None:
    inner, x = [1], torch.ones(2)
    cycle: list[Any] = [inner, inner, x, x]
    cycle.append(cycle)
    back = loaded(saved(cycle))
    assert back[0] is back[1]
    assert back[2] is back[3]
    assert back[4] is back


def test_memory_that_is_shared(tmp_path: Path) -> None:
    x = ramp(torch.float32, 4, 3)
    path = tmp_path / "x.pt"
    torch.save([x, x[1], x.t(), x[2:].view(-1), torch.ones(2)], path)
    for mmap in (False, True):
        whole, row, turned, rest, apart = torch.load(path, mmap=mmap)
        whole.fill_(7)
        assert row.tolist() == [7] * 3
        assert turned.tolist() == [[7] * 4] * 3
        assert turned.stride() == (1, 3)
        assert rest.tolist() == [7] * 6
        assert apart.tolist() == [1, 1]
    assert len(zipfile.ZipFile(path).namelist()) == 7  # two storages


def test_only_the_memory_that_is_shown_is_written() -> None:
    secret = torch.full((1000,), 3.0)
    data = saved([secret[:10:3]])
    assert len(data) < 2000
    assert data.count(struct.pack("<f", 3.0)) == 4
    assert loaded(data)[0].tolist() == [3] * 4


def test_steps_backwards_and_other_dtypes_of_the_same_memory() -> None:
    backwards = torch.from_numpy(np.arange(5.0)[::-1])
    assert loaded(saved([backwards]))[0].tolist() == [4, 3, 2, 1, 0]
    x = torch.ones(4)
    for views in ([x, x.view(torch.int32)], [x.view(torch.uint8)[1:8], x]):
        with pytest.raises(RuntimeError, match=r"view the same data as different types.*clones"):
            saved(views)


# -- between here and PyTorch --------------------------------------------------------------------


@pytest.mark.parametrize("new", [True, False])
def test_pytorch_reads_what_is_saved_here(tmp_path: Path, new: bool) -> None:
    tree = moves(torch)
    if not new:
        for name in ("uint16", "uint32", "uint64"):  # PyTorch cannot read its own of these
            del tree["wider"][name]
    path = tmp_path / "checkpoint.pt"
    torch.save(tree, path, _use_new_zipfile_serialization=new)
    found = theirs.load(path, weights_only=True)
    assert agree(tree, found)
    assert found["row"].untyped_storage().data_ptr() == found["base"].untyped_storage().data_ptr()
    model = theirs.nn.Sequential(
        theirs.nn.Linear(3, 4), theirs.nn.BatchNorm1d(4), theirs.nn.Linear(4, 2)
    )
    model.load_state_dict(found["model"])
    theirs.optim.Adam(model.parameters()).load_state_dict(found["optimizer"])
    assert found["model"]._metadata == tree["model"]._metadata
    if new:
        assert agree(tree, theirs.load(path, weights_only=True, mmap=True))
        assert zipfile.ZipFile(path).testzip() is None


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_pytorch_saved_is_read_here(tmp_path: Path, new: bool, protocol: int) -> None:
    tree = moves(theirs)
    path = tmp_path / "checkpoint.pt"
    if not new and protocol > 2:
        del tree["wider"]
    theirs.save(tree, path, _use_new_zipfile_serialization=new, pickle_protocol=protocol)
    for source in (path, io.BytesIO(path.read_bytes()), OnlyReads(path.read_bytes())):
        found = torch.load(source)
        assert agree(found, tree)
        found["base"].fill_(9)
        assert found["row"].tolist() == [9] * 4
    if new:
        assert agree(torch.load(path, mmap=True), tree)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    )
    model.load_state_dict(found["model"])
    torch.optim.Adam(model.parameters()).load_state_dict(found["optimizer"])
    assert found["model"]._metadata == tree["model"]._metadata


def test_dtypes_that_numpy_lacks() -> None:
    numbers = theirs.arange(-8, 8) / 4
    narrow = [theirs.bfloat16, theirs.float8_e4m3fn, theirs.float8_e5m2, theirs.float8_e4m3fnuz,
              theirs.float8_e5m2fnuz]  # fmt: skip
    tree = {str(d): numbers.to(d) for d in narrow}
    tree["part"] = tree["torch.bfloat16"].view(4, 4)[:, 1]
    back = loaded(saved_there(tree))
    for name, tensor in tree.items():
        is_bfloat16 = tensor.dtype is theirs.bfloat16
        assert back[name].dtype is (torch.bfloat16 if is_bfloat16 else torch.float32)
        assert back[name].tolist() == tensor.float().tolist()
    assert back["part"].stride() == (4,)
    old = loaded(saved_there({"x": numbers.to(theirs.bfloat16)}, new=False))
    assert old["x"].dtype is torch.bfloat16
    assert old["x"].tolist() == numbers.tolist()


def test_tensors_that_are_conjugated_negated_or_have_attributes() -> None:
    z = theirs.tensor([1 + 2j, 3 - 1j])
    named = theirs.ones(2)
    named.note = "x"
    parameter = theirs.nn.Parameter(theirs.ones(2))
    parameter.note = "x"
    tree = {"conj": z.conj(), "neg": z.clone().conj().imag, "named": named, "parameter": parameter}
    assert agree(loaded(saved_there(tree)), tree)


def test_without_checksums(tmp_path: Path) -> None:
    from torch.utils.serialization import config

    path = tmp_path / "x.pt"
    config.save.compute_crc32 = False
    try:
        theirs.save({"x": theirs.arange(3.0)}, path)
    finally:
        config.save.compute_crc32 = True
    assert zipfile.ZipFile(path).getinfo("x/data/0").CRC == 0
    assert torch.load(path)["x"].tolist() == [0, 1, 2]


def test_files_of_more_than_four_gigabytes_have_wider_fields(tmp_path: Path) -> None:
    data = saved({"x": torch.arange(100.0)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = [(name, archive.read(name)) for name in archive.namelist()]
    wide = b"".join(bytes(piece) for piece in _zip.pieces(contents, most_32=90))
    assert wide.count(b"PK\6\6") == 1
    assert loaded(wide)["x"].tolist() == list(range(100))
    path = tmp_path / "wide.pt"
    path.write_bytes(wide)
    assert theirs.load(path, weights_only=True)["x"].tolist() == list(range(100))
    assert zipfile.ZipFile(path).testzip() is None
    for size in range(len(wide)):
        with pytest.raises(FileFormatError):
            loaded(wide[:size])


# -- devices -------------------------------------------------------------------------------------


def on_device(name: str, new: bool = True) -> bytes:
    """A file as a machine with that device writes it."""
    there = name.encode()
    text = b"X" + struct.pack("<I", len(there)) + there
    data = saved_there({"x": theirs.arange(3.0)}, new)
    return (
        _patched(data, b"X\x03\x00\x00\x00cpu", text)
        if new
        else data.replace(b"X\x03\x00\x00\x00cpu", text)
    )


def _patched(data: bytes, old: bytes, new: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert old in contents["archive/data.pkl"]
    contents["archive/data.pkl"] = contents["archive/data.pkl"].replace(old, new)
    return zip_of(contents)


def zip_of(contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize("new", [True, False])
def test_storages_of_other_devices(new: bool) -> None:
    data = on_device("cuda:0", new)
    with pytest.raises(RuntimeError, match=r"Attempting to deserialize object on a CUDA device.*"
                       r"map_location=torch.device\('cpu'\)"):  # fmt: skip
        loaded(data)
    for place in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, _: storage,
                  lambda storage, _: storage.cpu()):  # fmt: skip
        assert loaded(data, map_location=place)["x"].tolist() == [0, 1, 2]
    for place in ({"cuda:1": "cpu"}, lambda storage, where: None):
        with pytest.raises(RuntimeError, match="CUDA device"):
            loaded(data, map_location=place)
    with pytest.raises(RuntimeError, match="'cuda' is not available"):
        loaded(data, map_location=lambda storage, _: storage.cuda())
    with pytest.raises(ZeroDivisionError):  # the user's own error
        loaded(data, map_location=lambda storage, _: 1 / 0)
    with pytest.raises(RuntimeError, match=r"device 'mps'.*map_location='cpu'"):
        loaded(on_device("mps", new))


# -- what is refused -----------------------------------------------------------------------------


class Net(theirs.nn.Module):
    pass


@pytest.mark.parametrize("new", [True, False])
def test_whole_modules_are_refused(tmp_path: Path, new: bool) -> None:
    path = tmp_path / "model.pt"
    theirs.save(Net(), path, _use_new_zipfile_serialization=new)
    for weights_only in (True, False):
        with pytest.raises(pickle.UnpicklingError, match=r"model.pt has objects of .*Net(.|\n)*"
                           r"GLOBAL .*Net was not an allowed global by default(.|\n)*"
                           r"state_dict\(\)(.|\n)*load_state_dict") as caught:  # fmt: skip
            torch.load(path, weights_only=weights_only)
        assert isinstance(caught.value, FileFormatError)
    with pytest.raises(pickle.UnpicklingError):
        theirs.load(path, weights_only=True)


def test_programs_and_tensors_that_there_are_not(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs.jit.save(theirs.jit.script(theirs.nn.Linear(1, 1)), path)
    with pytest.raises(FileFormatError, match=r"x\.pt is a TorchScript program"):
        torch.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of a prototype
        theirs.save(theirs.nested.nested_tensor([theirs.ones(1)]), path)
    with pytest.raises(FileFormatError, match=r"x\.pt"):
        torch.load(path)


def test_options_that_there_are_not(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with pytest.raises(ValueError, match="protocol 2"):
        torch.save(1, path, pickle_protocol=4)
    torch.save(1, path, pickle_module=pickle, pickle_protocol=2)
    with pytest.raises(ValueError, match="'pt' or 'safetensors', not 'npz'"):
        torch.save(1, path, format="npz")
    torch.save(1, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(tmp_path / "old.pt", mmap=True)
    torch.save({"x": torch.ones(1)}, tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes()[8:9] == b"{"
    torch.save({"x": torch.ones(1)}, tmp_path / "a.safetensors", format="pt")
    assert (tmp_path / "a.safetensors").read_bytes()[:2] == b"PK"


# -- old and unusual files -----------------------------------------------------------------------

FLOATS = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n" \
         b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x03tQK\x00K\x03\x85K\x01\x85\x89N"  # fmt: skip


def pt_of(pickled: bytes, data: bytes = bytes(12), **more: bytes) -> bytes:
    """A file around a pickle, as versions before 2.1 wrote it."""
    contents = {"archive/data.pkl": pickled, "archive/data/0": data, "archive/version": b"3\n"}
    return zip_of({**contents, **{f"archive/{name}": content for name, content in more.items()}})


def test_files_of_older_versions() -> None:
    numbers = struct.pack("<3f", 1, 2, 3)
    assert loaded(pt_of(b"\x80\x02" + FLOATS + b"tR.", numbers)).tolist() == [1, 2, 3]
    swapped = pt_of(b"\x80\x02" + FLOATS + b"tR.", struct.pack(">3f", 1, 2, 3), byteorder=b"big")
    assert loaded(swapped).tolist() == [1, 2, 3]
    pairs = FLOATS.replace(b"FloatS", b"ComplexFloatS").replace(b"K\x03", b"K\x02")
    swapped = pt_of(b"\x80\x02" + pairs + b"tR.", struct.pack(">4f", 1, 2, 3, 4), byteorder=b"big")
    assert loaded(swapped).tolist() == [1 + 2j, 3 + 4j]
    old = b"\x80\x02}U\x01a(U\x01bU\x01\xe9tsU\x01cU\x00s."
    assert loaded(pt_of(old), encoding="latin1") == {"a": ("b", "é"), "c": ""}
    assert loaded(pt_of(old), encoding="bytes") == {b"a": (b"b", b"\xe9"), b"c": b""}
    with pytest.raises(FileFormatError, match="is damaged"):
        loaded(pt_of(old))


def test_views_of_storages_in_the_old_format() -> None:
    data = saved_there(theirs.arange(6.0), new=False)
    # The last entry of the id: the key of the view, its offset and its size.
    view = b"(X\x01\x00\x00\x00vK\x02K\x03t"
    changed = data.replace(b"K\x06Nt", b"K\x06" + view + b"t").replace(b"K\x06\x85", b"K\x03\x85")
    assert changed != data
    assert loaded(changed).tolist() == [2, 3, 4]
    for bad in (b"(X\x01\x00\x00\x00vK\x04K\x03t", b"K\x01", b"(X\x01\x00\x00\x00vNK\x03t"):
        with pytest.raises(FileFormatError):
            loaded(changed.replace(view, bad))


def test_several_files_of_the_old_format_one_after_the_other() -> None:
    file = io.BytesIO()
    for value in (theirs.ones(2), {"a": 1}):
        theirs.save(value, file, _use_new_zipfile_serialization=False)
    torch.save(torch.zeros(3), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert torch.load(file).tolist() == [1, 1]
    assert torch.load(file) == {"a": 1}
    assert torch.load(file).tolist() == [0, 0, 0]


# -- files that lie ------------------------------------------------------------------------------


def laughs() -> bytes:
    """A tuple that contains the one before it twice, 60 times over, as a key."""
    return b"\x80\x02}K\x01\x85" + b"2\x86" * 60 + b"Ns."


def copied() -> bytes:
    """A list copied into a set again and again."""
    long = b"](" + b"K\x01" * 5000 + b"eq\x00"
    return (
        b"\x80\x02](c__builtin__\nset\nq\x01" + long + b"\x85R" + b"h\x01h\x00\x85R" * 5000 + b"e."
    )


SIZE = b"\x80\x02" + FLOATS + b"tR."
PICKLES: dict[str, tuple[bytes, str]] = {
    "a command": (b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", r"has objects of os.system"),
    "an import": (b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.", "builtins.eval"),
    "a name from the stack": (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "has objects of os.system"),
    "an attribute of an allowed name": (b"\x80\x02ctorch\nSize.mro\n.", "torch.Size.mro"),
    "a name that is a number": (b"\x80\x04K\x01K\x02\x93.", "name that is not a string"),
    "a call of a number": (b"\x80\x02K\x01)R.", "calls what is not a function"),
    "a call of a dtype": (b"\x80\x02ctorch\nfloat32\n)R.", "calls what is not a function"),
    "a call with a list": (b"\x80\x02ctorch\nSize\n]R.", "calls what is not a function"),
    "a class made new": (b"\x80\x02ctorch\nSize\n)\x81.", "of something that is not a class"),
    "an instance": (b"\x80\x02(ios\nsystem\n.", "unknown instruction 0x69"),
    "an extension": (b"\x80\x02\x82\x01.", "unknown instruction 0x82"),
    "a buffer": (b"\x80\x05\x97.", "unknown instruction 0x97"),
    "an old protocol": (b"\x80\x01N.", "protocol 1"),
    "no end": (b"\x80\x02N", "cut off"),
    "nothing": (b"\x80\x02.", "ends too early"),
    "too much": (b"\x80\x02NN.", "ends too early"),
    "an open mark": (b"\x80\x02(N.", "ends too early"),
    "no mark": (b"\x80\x02t.", "lacks a mark"),
    "an empty stack": (b"\x80\x02a.", "where there is none"),
    "an empty memo": (b"\x80\x02h\x05.", "value that does not exist"),
    "a put of nothing": (b"\x80\x02q\x05.", "where there is none"),
    "a huge index": (b"\x80\x02Nr\xff\xff\xff\xffj\xfe\xff\xff\xff.", "value that does not exist"),
    "a huge string": (b"\x80\x02X\xff\xff\xff\xffa.", "cut off"),
    "a huger string": (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffa.", "cut off"),
    "a huge number": (b"\x80\x02\x8b\xff\xff\xff\xffa.", "cut off"),
    "not UTF-8": (b"\x80\x02X\x01\x00\x00\x00\xff.", "is damaged"),
    "an endless line": (b"\x80\x02c" + b"a" * 100, "cut off"),
    "items of a list": (b"\x80\x02](K\x01K\x02u.", "not a dict"),
    "items of a Counter of nothing": (b"\x80\x02K\x01K\x01K\x01s.", "not a dict"),
    "half an item": (b"\x80\x02}(K\x01u.", "not a dict"),
    "append to a tuple": (b"\x80\x02)K\x01a.", "not a list"),
    "add to a list": (b"\x80\x04](K\x01\x90.", "not a set"),
    "a list as a key": (b"\x80\x02}]Ns.", "a list is a key"),
    "a tensor as a key": (b"\x80\x02}" + FLOATS + b"tRNs.", "a Tensor is a key"),
    "a tensor in a tuple as a key": (b"\x80\x02}" + FLOATS + b"tR\x85Ns.", "a Tensor is a key"),
    "a key that takes forever": (laughs(), "a key is too long"),
    "a list copied many times": (copied(), "again and again"),
    "a list in a set": (b"\x80\x02c__builtin__\nset\n](]e\x85R.", "a list is a key or in a set"),
    "attributes of a dict": (b"\x80\x02}}b.", "gives attributes to a dict"),
    "attributes of a tensor": (b"\x80\x02" + FLOATS + b"tR}b.", "gives attributes to a Tensor"),
    "methods of an OrderedDict": (
        b"\x80\x02ccollections\nOrderedDict\n)R}X\x04\x00\x00\x00keysNsb.", "attribute 'keys'"),
    "a length of bytes": (b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "damaged"),
    "a codec": (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",
                "not text"),
    "a size of strings": (b"\x80\x02ctorch\nSize\n(X\x01\x00\x00\x00at\x85R.", "integers only"),
    "a device that is not": (b"\x80\x02ctorch\ndevice\nK\x01\x85R.", "a device is described"),
    "a device of no name": (b"\x80\x02ctorch\ndevice\nX\x03\x00\x00\x00xyz\x85R.", "device 'xyz'"),
    "a tensor about a tensor": (
        b"\x80\x02" + FLOATS + FLOATS + b"tRtR.", "what is said about a tensor is wrong"),
    "no storage": (SIZE.replace(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x009"), "no member 'd"),
    "a storage elsewhere": (SIZE.replace(b"X\x01\x00\x00\x000", b"X\x07\x00\x00\x00../data"),
                            "no member"),
    "a storage of another size": (SIZE.replace(b"K\x03tQ", b"K\x02tQ"), "size of storage '0'"),
    "a negative storage": (SIZE.replace(b"K\x03tQ", b"J\xff\xff\xff\xfftQ"), "size of a storage"),
    "a storage by number": (SIZE.replace(b"X\x01\x00\x00\x000", b"K\x00"), "described in the"),
    "a storage of nothing": (b"\x80\x02K\x01Q.", "described in the wrong way"),
    "a tensor without storage": (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NK\x00))\x89NtR.",
                                 "no storage"),
    "a tensor too long": (SIZE.replace(b"K\x03\x85", b"K\x04\x85"), "beyond its storage"),
    "a tensor too far": (SIZE.replace(b"QK\x00", b"QK\x01"), "beyond its storage"),
    "steps too long": (SIZE.replace(b"K\x01\x85\x89", b"K\x02\x85\x89"), "beyond its storage"),
    "steps backwards": (SIZE.replace(b"K\x01\x85\x89", b"J\xff\xff\xff\xff\x85\x89"), "strides"),
    "a negative offset": (SIZE.replace(b"QK\x00", b"QJ\xff\xff\xff\xff"), "offset"),
    "a huge shape": (SIZE.replace(b"K\x03\x85", b"\x8a\x08" + bytes(7) + b"\x7f\x85"), "shape"),
    "shape and strides that differ": (SIZE.replace(b"K\x03\x85", b")"), "shape and the strides"),
    "a shape of floats": (SIZE.replace(b"K\x03\x85", b"G" + bytes(8) + b"\x85"), "shape"),
    "another gradient": (SIZE.replace(b"\x89N", b"K\x01N"), "about a tensor is wrong"),
    "a gradient of integers": (
        SIZE.replace(b"FloatS", b"IntS").replace(b"\x89N", b"\x88N"), "cannot require a gradient"),
    "booleans of 2": (SIZE.replace(b"FloatS", b"BoolS").replace(b"K\x03tQ", b"K\x0ctQ"), "0 or 1"),
    "a parameter of nothing": (b"\x80\x02ctorch._utils\n_rebuild_parameter\nN\x89N\x87R.",
                               "not a tensor"),
    "a subclass": (b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\nctorch\nTensor\n"
                   b")NtR.", "unknown type"),
    "too few arguments": (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.", "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles(tmp_path: Path, name: str) -> None:
    pickled, words = PICKLES[name]
    path = tmp_path / "hostile.pt"
    path.write_bytes(pt_of(pickled, b"\x02" * 12))
    for mmap in (False, True):
        with pytest.raises(FileFormatError, match=words) as caught:
            torch.load(path, mmap=mmap)
        assert "hostile.pt" in str(caught.value)
    # The same in the old format, whose object is the fourth pickle.
    empty = saved_there(None, new=False)
    at = empty.index(b"\x80\x02N.")
    path.write_bytes(empty[:at] + pickled + empty[at + 4 :])
    with pytest.raises(FileFormatError, match=r"hostile\.pt"):
        torch.load(path)


def without(data: bytes, *wrong: tuple[bytes, bytes]) -> bytes:
    for old, new in wrong:
        assert old in data
        data = data.replace(old, new)
    return data


NORMAL = pt_of(SIZE)
ZIPS: dict[str, tuple[bytes, str]] = {
    "no directory": (NORMAL[:-30], "no directory"),
    "another zip file": (zip_of({"a.txt": b"hello"}), "has no data.pkl"),
    "two pickles": (zip_of({"a/data.pkl": SIZE, "b/data.pkl": SIZE}), "has no data.pkl"),
    "a member twice": (without(NORMAL, (b"archive/data/0", b"archive/versio"),
                               (b"archive/version", b"archive/versio\0")), "damaged"),
    "compressed": (zip_of({"a/data.pkl": SIZE, "a/data/0": bytes(12)}, zipfile.ZIP_DEFLATED),
                   "is compressed"),
    "a changed number": (pt_of(SIZE, b"abcdefghijkl").replace(b"abcdefghijkl", b"abcdefghijkm"),
                         "the bytes of 'data/0' were changed"),
    "no data.pkl": (NORMAL.replace(b"data.pkl", b"data.pkx"), "has no data.pkl"),
    "an unknown order": (pt_of(SIZE, byteorder=b"middle"), "order of bytes"),
    "a directory too far": (NORMAL[:-6] + b"\xf0\xff\xff\x00" + NORMAL[-2:], "not where it should"),
    "a longer directory": (NORMAL[:-22] + b"PK\5\6" + bytes(4) + b"\4\0\4\0" + NORMAL[-10:],
                           "damaged"),
    "more members": (NORMAL[:-14] + b"\xf0\0\xf0\0" + NORMAL[-10:-12] + NORMAL[-10:], "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", ZIPS)
def test_hostile_zip_files(tmp_path: Path, name: str) -> None:
    data, words = ZIPS[name]
    path = tmp_path / "hostile.pt"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=words) as caught:
        torch.load(path)
    assert "hostile.pt" in str(caught.value)


def test_members_that_overlap_cost_no_memory() -> None:
    """A directory with many entries for the same bytes."""
    storage = bytes(1 << 20)
    data = pt_of(SIZE, storage)
    at = data.index(b"PK\1\2")
    entries = [data[at:][: 46 + 16], data[at + 62 :][: 46 + 14]]
    assert entries[1].endswith(b"archive/data/0")
    many = [entries[1][:-1] + bytes([48 + i]) for i in range(10)]
    directory = entries[0] + b"".join(many)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 11, 11, len(directory), at, 0)
    with pytest.raises(FileFormatError, match="reaches into the next one"):
        loaded(data[:at] + directory + end)


def test_every_cut_and_every_bit(tmp_path: Path) -> None:
    tree = {"x": torch.arange(3), "y": [1, "a", (2.5, None)]}
    for new in (True, False):
        data = saved(tree, new)
        for size in range(len(data)):
            with pytest.raises(FileFormatError):
                loaded(data[:size])
    data = saved(tree)
    padding = 0
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 16
        try:
            back = loaded(bytes(changed))
        except FileFormatError:
            continue
        padding += 1
        assert same(back, tree), at
    assert padding < len(data)
