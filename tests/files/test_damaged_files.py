"""Whatever is in a file that should not be is an error with words: no crash, no wrong result."""

from __future__ import annotations

import io
import json
import math
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest
import safetensors
from _file_contents import OnlyReads, file_of, loaded, ramp, same, saved
from hypothesis import given
from hypothesis import strategies as st

import retrograd as torch
from retrograd.files import FileFormatError
from retrograd.files._saving import SKELETON

ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
EIGHT = bytes(8)


def about(**changes: Any) -> bytes:
    return file_of({"x": {**ONE, **changes}}, EIGHT)


def tree_file(tree: Any, tensors: Any = None, **more: Any) -> bytes:
    """A file as ``save`` makes it for a dict, with a tree that was tampered with."""
    skeleton = {"version": 1, "tree": tree, "tensors": tensors or {}, **more}
    metadata = {"format": "pt", SKELETON: json.dumps(skeleton)}
    return file_of({"__metadata__": metadata, "x": ONE}, EIGHT)


VIEW = {"memory": "x", "offset": 0, "dtype": "float32", "shape": [2], "stride": [1]}
X = {"$tensor": "v"}
HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty"),
    "too short": (b"\x01\x02", "not a safetensors file"),
    "huge header": (b"\xff" * 8 + b"{}", "not a safetensors file"),
    "header longer than the file": (file_of({})[:8] + b"{", "not a safetensors file"),
    "zip": (b"PK\x03\x04" + bytes(100), "no directory"),
    "pickle": (b"\x80\x02}q\x00." + bytes(100), "is a pickle, but not one that torch.save wrote"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
    "text": (b"weight = 1\n" * 10, "not a safetensors file"),
    "not JSON": (file_of(b"{nonsense}"), "header of .* is invalid"),
    "a list": (file_of(b"[]      "), "not a safetensors file"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "not UTF-8"),
    "NaN": (file_of(b'{"x": NaN}'), "NaN is not JSON"),
    "deep": (file_of(b'{"x":' + b"[" * 100_000), "nested too deeply"),
    "long number": (file_of(b'{"x": ' + b"9" * 5000 + b"}"), "header of"),
    "same key twice": (file_of(b'{"x":{},"x":{}}'), "'x' is there twice"),
    "same key twice inside": (file_of(b'{"x":{"dtype":"F32","dtype":"F64"}}'), "there twice"),
    "entry is a number": (file_of({"x": 3}), "tensor 'x': it must have a dtype"),
    "entry without shape": (file_of({"x": {"dtype": "F32"}}), "it must have a dtype, a shape"),
    "entry with more": (about(more=1), "nothing else"),
    "unknown dtype": (about(dtype="F4"), "dtype 'F4' is not one of BOOL"),
    "dtype is a list": (about(dtype=["F32"]), "is not one of"),
    "negative size": (about(shape=[-2]), "which no tensor can have"),
    "huge size": (about(shape=[2**63]), "which no tensor can have"),
    "huge size of nothing": (about(shape=[2**62, 0, 2**62], data_offsets=[0, 0]), "no tensor can"),
    "boolean size": (about(shape=[True, 2]), "no tensor can have"),
    "float size": (about(shape=[2.0]), "no tensor can have"),
    "shape is a number": (about(shape=2), "no tensor can have"),
    "many dimensions": (about(shape=[1] * 65 + [2]), "no tensor can have"),
    "size does not fit": (about(shape=[3]), "it has 8 bytes, but its shape needs 12"),
    "offsets backwards": (about(data_offsets=[8, 0]), "not a start and an end"),
    "three offsets": (about(data_offsets=[0, 4, 8]), "not a start and an end"),
    "negative offset": (about(data_offsets=[-8, 0]), "not a start and an end"),
    "out of range": (about(shape=[2**40], data_offsets=[0, 2**42]), "is cut off"),
    "cut off": (file_of({"x": ONE}, EIGHT[:7]), "is cut off.*8 bytes.*there are 7"),
    "too long": (file_of({"x": ONE}, EIGHT + b"x"), "goes on too long"),
    "gap": (about(data_offsets=[8, 16]), "leave a gap"),
    "overlap": (file_of({"x": ONE, "y": {**ONE, "data_offsets": [4, 12]}}, bytes(12)), "overlap"),
    "metadata is a list": (file_of({"__metadata__": []}), "must hold strings"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "must hold strings"),
    "not a boolean": (file_of({"x": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}},
                              b"\x02"), "not 0 or 1"),
    "tree is missing": (file_of({"__metadata__": {"format": "retrograd"}}), "tree is missing"),
    "tree is part of the format": (
        file_of({"__metadata__": {"format": 'retrogradze":[1,2]'}}), "tree is missing"),
    "tree is not JSON": (file_of({"__metadata__": {SKELETON: "{"}}), "is damaged"),
    "tree is a list": (file_of({"__metadata__": {SKELETON: "[]"}}), "not a JSON object"),
    "tree is deep": (file_of({"__metadata__": {SKELETON: '{"a":' + "[" * 10**5}}), "too deeply"),
    "tree is rather deep": (tree_file(json.loads("[" * 300 + "]" * 300)), "too deeply"),
    "newer version": (tree_file(1).replace(b'\\"version\\": 1', b'\\"version\\": 2'),
                      "version 2 .*Install a newer one"),
    "no version": (file_of({"__metadata__": {SKELETON: "{}"}}), "must have tensors, tree, version"),
    "checksum of nothing": (tree_file(1, sums={}, sum=0), "the header was changed"),
    "half a checksum": (tree_file(1, sums={}), "must have sum, sums, tensors"),
    "missing tensor": (tree_file({"$tensor": "y"}), "no tensor 'y'"),
    "tensor by number": (tree_file({"$tensor": 0}), r"no '\$tensor'"),
    "unknown tag": (tree_file({"$module": "os"}), r"no '\$module'"),
    "two tags": (tree_file({"$tuple": [], "$size": []}), "not alone"),
    "dict in a set": (tree_file({"$set": [{}]}), "a dict is a key or in a set"),
    "tensor as key": (tree_file({"$dict": [[{"$tensor": "x"}, 1]]}), "a tensor is a key"),
    "key twice": (tree_file({"$dict": [[1, 2], [True, 3]]}), "a key twice"),
    "element twice": (tree_file({"$set": [1, 1]}), "an element twice"),
    "size of strings": (tree_file({"$size": ["a"]}), "integers only"),
    "bad pairs": (tree_file({"$dict": [[1]]}), "pairs"),
    "bad bytes": (tree_file({"$bytes": "*"}), "is damaged"),
    "bad int": (tree_file({"$int": "12,"}), "is damaged"),
    "bad float": (tree_file({"$float": "abc"}), "a float is"),
    "float too big": (tree_file({"$float": 10**400}), "is damaged"),
    "bad complex": (tree_file({"$complex": [1]}), "two parts"),
    "bad dtype": (tree_file({"$dtype": "Number"}), "no dtype 'Number'"),
    "bad device": (tree_file({"$device": "cuda"}), "a device is the CPU"),
    "bad counter": (tree_file({"$Counter": 3}), "pairs"),
    "table is a list": (tree_file(1, tensors=[1]), "table of tensors"),
    "table of numbers": (tree_file(1, tensors={"x": 1}), "table of tensors"),
    "flag is a number": (tree_file(X, {"v": {**VIEW, "parameter": 3}}), "wrong about tensor 'v'"),
    "not pairs": (tree_file({"$tensor": "x"}, {"x": {"complex": True}}), "not of pairs"),
    "view of nothing": (tree_file(X, {"v": {**VIEW, "memory": "y"}}), "no tensor 'y'"),
    "memory is a list": (tree_file(X, {"v": {**VIEW, "memory": []}}), "no tensor"),
    "view too far": (tree_file(X, {"v": {**VIEW, "offset": 4}}), "beyond the memory"),
    "view too long": (tree_file(X, {"v": {**VIEW, "stride": [2**61]}}), "beyond the memory"),
    "view before": (tree_file(X, {"v": {**VIEW, "offset": -4}}), "beyond the memory"),
    "view of strings": (tree_file(X, {"v": {**VIEW, "stride": ["a"]}}), "stride of a view"),
    "view of fewer": (tree_file(X, {"v": {**VIEW, "stride": []}}), "stride of a view"),
    "view of no size": (tree_file(X, {"v": {**VIEW, "shape": [0]}}), "offset of a view"),
    "view of more": (tree_file(X, {"v": {**VIEW, "more": 1}}), "a view has an offset"),
    "view of objects": (tree_file(X, {"v": {**VIEW, "dtype": "object"}}), "no dtype 'object'"),
    "integer that wants a gradient": (
        tree_file(X, {"v": {**VIEW, "dtype": "int32", "requires_grad": True}}), "cannot require"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(tmp_path: Path, name: str) -> None:
    data, words = HOSTILE[name]
    path = tmp_path / "hostile.file"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=words) as caught:
        torch.load(path)
    assert "hostile.file" in str(caught.value)  # says which file
    for source in (io.BytesIO(data), OnlyReads(data)):
        with pytest.raises(FileFormatError):
            torch.load(source)
    if name != "not a boolean":
        with pytest.raises(FileFormatError):
            torch.load(path, mmap=True)


def test_a_lie_about_the_size_costs_no_memory(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    with pytest.raises(FileFormatError):
        torch.load(OnlyReads(file_of({"x": entry}, EIGHT)))


def test_the_reference_refuses_what_we_refuse() -> None:
    """For the format itself, against the safetensors package."""
    ours_only = ("not a boolean", "entry with more", "huge size of nothing", "many dimensions",
                 "unknown dtype")  # fmt: skip
    for name, (data, _) in HOSTILE.items():
        if SKELETON.encode() not in data and name not in ours_only:
            with pytest.raises(safetensors.SafetensorError):
                safetensors.deserialize(data)


def test_damage_in_a_tree_is_found() -> None:
    """In a dict of tensors it cannot be: there is no place for a checksum in such a file."""
    data = saved({"step": 3, "weights": [ramp(torch.float32, 100), torch.ones(50)]})
    seen = 0
    for place in range(8, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1
        try:
            back = loaded(bytes(changed))
        except FileFormatError:
            seen += 1
            continue
        assert same(back, loaded(data))  # it was in a part of the header that says nothing
    assert seen > 100


def test_files_that_are_missing_or_no_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        torch.load(tmp_path)
    with pytest.raises(FileFormatError, match="not a regular file"):
        torch.load("/dev/zero")
    with pytest.raises(AttributeError, match="'read' attribute"):
        torch.load(3)
    with pytest.raises(TypeError, match="binary mode"):
        torch.load(io.StringIO("abc"))
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap"):
        torch.load(io.BytesIO(saved(1)), mmap=True)


# -- any bytes, any change ----------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for content in (data, file_of(data), file_of(b"{" + data + b"}")):
        try:
            result = loaded(content)
        except FileFormatError:
            continue
        assert result == {}
        assert json.loads(content[8:]).keys() <= {"__metadata__"}


EXAMPLE = saved({
    "model": OrderedDict(weight=ramp(torch.float32, 2, 3), bias=ramp(torch.float64, 2)),
    "state": {0: {"step": torch.tensor(3.0), "z": ramp(torch.complex128, 2)}},
    "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "best": math.inf, "shape": torch.Size([1])}],
    "step": 12, "name": "é", "counts": Counter("ab"),
})  # fmt: skip
FLAT = saved({"weight": ramp(torch.float32, 2, 3), "mask": ramp(torch.bool, 2)})


@given(st.data())
def test_any_change_to_a_tree_is_seen_or_changes_nothing(choose: st.DataObject) -> None:
    place = choose.draw(st.integers(0, len(EXAMPLE)))
    removed = choose.draw(st.integers(0, 20))
    added = choose.draw(st.binary(max_size=20) | st.just(b"0") | st.just(b" "))
    changed = EXAMPLE[:place] + added + EXAMPLE[place + removed :]
    for source in (io.BytesIO(changed), OnlyReads(changed)):
        try:
            back = torch.load(source)
        except FileFormatError:
            continue
        assert same(back, loaded(EXAMPLE))


@given(st.data())
def test_any_change_to_a_dict_of_tensors_gives_one_or_the_error(choose: st.DataObject) -> None:
    place = choose.draw(st.integers(0, len(FLAT)))
    added = choose.draw(
        st.binary(max_size=5) | st.text("0123456789[],", max_size=3).map(str.encode)
    )
    changed = FLAT[:place] + added + FLAT[place + len(added) :]
    try:
        back = loaded(changed)
    except FileFormatError:
        return
    assert all(type(name) is str and type(x) is torch.Tensor for name, x in back.items())
    assert sum(x.nbytes for x in back.values()) <= len(changed)
