"""``save`` and ``load``: what goes in comes out, to the bit; others read the files and are read."""

from __future__ import annotations

import io
import os
import signal
import stat
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from _file_contents import (
    DTYPES,
    VALUES,
    OnlyReads,
    again,
    file_of,
    header_of,
    loaded,
    ramp,
    same,
    saved,
    tensors,
    text,
    trees,
)
from hypothesis import given
from hypothesis import strategies as st

import retrograd as torch
from retrograd.files import FileFormatError, _format

# -- what goes in comes out --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)], ids=str)
def test_tensors_of_all_dtypes_and_shapes(dtype: Any, shape: tuple[int, ...]) -> None:
    x = ramp(dtype, *shape)
    for tree in (x, {"x": x}, [x, {"a": (x.clone(),)}]):
        assert same(again(tree), tree)


def test_tensors_that_are_not_contiguous() -> None:
    x = ramp(torch.float64, 4, 6)
    for view in (x.t(), x[::2, 1::2], x[1], x[:, 2], x.expand(2, 4, 6), x[:, None]):
        for tree in (view, {"x": view}, [view, 1]):
            assert same(again(tree), tree)
    backwards = torch.from_numpy(np.arange(5.0)[::-1])
    assert same(again([backwards]), [backwards])
    assert same(again([backwards, backwards[1:]]), [backwards, backwards[1:]])


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    assert same(again(VALUES[name]), VALUES[name])


def test_numbers_of_numpy_become_those_of_python() -> None:
    tree = [np.float32(0.5), np.float64(0.1), np.int64(3), np.bool_(True), np.complex64(1j)]
    assert same(again(tree), [0.5, 0.1, 3, True, 1j])


def test_order_of_keys_is_kept() -> None:
    names = ["z", "a", "m", "0"]
    tree = {name: torch.zeros(1, dtype=d) for name, d in zip(names, DTYPES, strict=False)}
    assert list(again(tree)) == names
    assert list(again({"deep": tree})["deep"]) == names


def test_parameters_and_gradients_wanted() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    frozen = torch.nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)
    x = torch.ones(2, requires_grad=True)
    tree = {"weight": weight, "frozen": frozen, "x": x, "result": x * 2, "plain": x.detach() + 1}
    back = again(tree)
    assert type(back["weight"]) is type(back["frozen"]) is torch.nn.Parameter
    assert [t.requires_grad for t in back.values()] == [True, False, True, True, False]
    assert back["result"].is_leaf
    (back["weight"] * 3).sum().backward()
    assert back["weight"].grad.tolist() == [3, 3]
    assert type(again([torch.nn.Buffer(torch.ones(2))])[0]) is torch.Tensor
    with torch.no_grad():
        assert again([weight])[0].requires_grad


def test_module_states_keep_their_versions() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    state = model.state_dict()
    back = again(state)
    assert type(back) is OrderedDict
    assert back._metadata == state._metadata
    assert type(back._metadata) is OrderedDict
    assert same(dict(back), dict(state))
    assert same(again({"model": state})["model"], back)
    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    assert repr(other.load_state_dict(back)) == "<All keys matched successfully>"
    assert same(dict(other.state_dict()), dict(state))


# -- memory that is shared ---------------------------------------------------------------------


def test_the_same_tensor_is_the_same_again() -> None:
    x = torch.ones(3)
    back = again({"a": x, "b": [x, x]})
    assert back["a"] is back["b"][0]
    assert back["a"] is back["b"][1]


@pytest.mark.parametrize("deep", [False, True])
def test_tied_weights_stay_tied(deep: bool) -> None:
    weight = torch.nn.Parameter(ramp(torch.float32, 2, 3))
    tree: Any = {"a": weight.detach(), "b": weight.detach(), "t": torch.ones(2)}
    data = saved({"model": tree} if deep else tree)
    back = loaded(data)["model"] if deep else loaded(data)
    back["a"][0, 0] = 9
    assert back["b"][0, 0] == 9
    assert back["a"] is not back["b"]
    assert len(header_of(data)) == (3 if deep else 4)  # alone, each key is there for others


def test_views_stay_views() -> None:
    x = ramp(torch.float32, 3, 4)
    tree = [x[1], x, x.t(), x[:, ::2], x.view(torch.int32), x[0, 0]]
    data = saved(tree)
    assert len(header_of(data)) == 2  # with the metadata
    back = loaded(data)
    assert same(back, tree)
    back[0].fill_(-1.0)
    x[1] = -1.0
    assert same(back, tree)


def test_views_without_the_whole_stay_views() -> None:
    x = ramp(torch.complex128, 5)
    tree = {"a": x[0:3], "deep": {"b": x[2:5]}, "real": torch.view_as_real(x[1:4])}
    back = again(tree)
    assert same(back, tree)
    back["a"][2] = 7j
    assert back["deep"]["b"][0] == 7j
    assert back["real"][1].tolist() == [0, 7]


def test_memory_between_views_is_not_in_the_file() -> None:
    secret = torch.full((4, 4), 1234.5)
    secret[:, 0] = secret[:, 2] = 0.0
    data = saved([secret[:, 0], secret[:, 2]])
    assert np.float32(1234.5).tobytes() not in data
    assert same(loaded(data), [torch.zeros(4), torch.zeros(4)])


def test_an_expanded_tensor_takes_no_more_room_than_it_did() -> None:
    data = saved([torch.ones(1).expand(1_000_000)])
    assert len(data) < 1000
    back = loaded(data)[0]
    assert back.shape == (1_000_000,)
    assert back.sum() == 1_000_000


def test_partly_shared_state_dict_is_readable_by_others() -> None:
    x = ramp(torch.float32, 5)
    data = saved({"a": x[:3], "b": x[2:]})
    found = safetensors.numpy.load(data)
    assert found["a"].tolist() == [0, 1, 2]
    assert found["b"].tolist() == [2, 3, 4]
    back = loaded(data)
    back["a"][2] = 9
    assert back["b"][0] == 9


# -- what others write and read ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_complex], ids=str)
def test_the_safetensors_package_reads_ours_and_we_theirs(dtype: Any) -> None:
    tree = {"a.weight": ramp(dtype, 2, 3), "b": ramp(dtype), "empty": ramp(dtype, 0, 2)}
    arrays = {name: tensor.numpy() for name, tensor in tree.items()}
    found = safetensors.numpy.load(saved(tree))
    assert {k: (v.dtype, v.shape, v.tolist()) for k, v in found.items()} == {
        k: (v.dtype, v.shape, v.tolist()) for k, v in arrays.items()
    }
    theirs = safetensors.numpy.save(arrays, {"format": "pt", "made by": "them"})
    back = loaded(theirs)
    assert type(back) is dict
    assert same(dict(sorted(back.items())), dict(sorted(tree.items())))


def test_a_dict_of_tensors_is_a_plain_file() -> None:
    data = saved({"w": torch.ones(2), "b": torch.zeros((), dtype=torch.int8)})
    assert header_of(data)["__metadata__"] == {"format": "pt"}
    assert (8 + int.from_bytes(data[:8], "little")) % 64 == 0


def test_trees_are_safetensors_too() -> None:
    tree = {"model": {"w": torch.ones(2)}, "optimizer": {0: [torch.zeros(3)]}, "step": 3}
    found = safetensors.numpy.load(saved(tree))
    assert {k: v.tolist() for k, v in found.items()} == {
        "model.w": [1, 1], "optimizer.0.0": [0, 0, 0],
    }  # fmt: skip


def test_names_that_are_taken_or_not_allowed() -> None:
    tree = {"a": {"b": torch.ones(1)}, "a.b": torch.zeros(1), 0: torch.ones(2), "0": torch.ones(3),
            "__metadata__": torch.ones(4), "\udc80": torch.ones(5)}  # fmt: skip
    assert same(again(tree), tree)
    assert len(safetensors.numpy.load(saved(tree))) == 6
    flat = {
        "__metadata__": torch.ones(4),
        "\udc80": torch.ones(5),
        "$x": torch.ones(6),
        "": torch.ones(7),
    }
    assert same(again(flat), flat)
    assert len(safetensors.numpy.load(saved(flat))) == 4


def test_states_move_between_here_and_pytorch(tmp_path: Path) -> None:
    theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    files = pytest.importorskip("safetensors.torch")
    ours_model = torch.nn.Linear(3, 2)
    path = tmp_path / "model.safetensors"
    torch.save(ours_model.state_dict(), path)
    model = theirs.nn.Linear(3, 2)
    model.load_state_dict(files.load_file(path))
    assert model.weight.tolist() == ours_model.weight.tolist()
    with theirs.no_grad():
        model.weight.mul_(2)
    files.save_file(model.state_dict(), path)
    ours_model.load_state_dict(torch.load(path))
    assert model.weight.tolist() == ours_model.weight.tolist()


def test_all_dtypes_of_pytorch(tmp_path: Path) -> None:
    theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    files = pytest.importorskip("safetensors.torch")
    numbers = theirs.arange(-8, 8) / 4
    path = tmp_path / "all.safetensors"
    tensors = {str(d): numbers.to(d) for d in (theirs.bfloat16, theirs.complex64, theirs.uint16)}
    files.save_file(tensors, path)
    for mmap in (False, True):
        back = torch.load(path, mmap=mmap)
        assert back["torch.bfloat16"].dtype is torch.bfloat16
        assert back["torch.complex64"].dtype is torch.complex64
        for name, tensor in tensors.items():
            assert back[name].tolist() == tensor.tolist(), name
    ours = {"z": ramp(torch.complex64, 3) * 1j, "double": ramp(torch.complex128, 2, 2)}
    found = files.load(saved(ours))
    assert found["z"].tolist() == ours["z"].tolist()
    assert theirs.view_as_complex(found["double"]).tolist() == ours["double"].tolist()


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
                                  "F8_E8M0"])  # fmt: skip
def test_every_pattern_of_narrow_floats(kind: str) -> None:
    theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    names = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu"}
    dtype = getattr(theirs, names.get(kind, f"float8_{kind[3:].lower()}"))
    bits = np.arange(65536, dtype="uint16") if kind == "BF16" else np.arange(256, dtype="uint8")
    about = {"dtype": kind, "shape": [bits.size], "data_offsets": [0, bits.nbytes]}
    back = loaded(file_of({"x": about}, bits.tobytes()))["x"].float().numpy()
    expected = theirs.from_numpy(bits).view(dtype).float().numpy()
    assert np.array_equal(back, expected, equal_nan=True)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(back[numbers]), np.signbit(expected[numbers]))


def test_narrow_floats_without_pytorch() -> None:
    about = {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}
    assert loaded(file_of({"x": about}, b"\x38\xb8\x7e\x01"))["x"].tolist() == [1, -1, 448, 2**-9]
    about = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    assert loaded(file_of({"x": about}, b"\x80\x3f\x40\xc0"))["x"].tolist() == [1, -3]


# -- what cannot be saved ----------------------------------------------------------------------

Point = namedtuple("Point", "x y")


class Mine(torch.Tensor):
    pass


@pytest.mark.parametrize(("value", "words"), [
    (torch.nn.Linear(1, 1), "a Linear: save its state_dict()"),
    (len, "a builtin_function_or_method: take it out"),
    (lambda: 0, "a function: take it out"), (object(), "a object: take it out"),
    (Point(1, 2), "a Point: save tuple"), (np.ones(2), r"a NumPy array: save torch.from_numpy"),
    (torch.Generator(), "a Generator: save its get_state"), (defaultdict(list), "save dict"),
    (signal.SIGINT, r"save int\(...\)"), (Path("a"), "take it out"), (range(3), "take it out"),
    ({torch.ones(1): 1}, "a tensor is a key"), ({torch.ones(1)}, "a tensor is a key or in a set"),
])  # fmt: skip
def test_what_cannot_be_saved(tmp_path: Path, value: Any, words: str) -> None:
    path = tmp_path / "x"
    with pytest.raises(TypeError, match=words):
        torch.save(value, path)
    place = r"obj\['a'\]\[1\]\['b'\]"
    with pytest.raises(TypeError, match=f"cannot save {place}(.|\n)*{words}"):
        torch.save({"a": [0, {"b": value}]}, path)
    assert list(tmp_path.iterdir()) == []


def test_more_that_cannot_be_saved() -> None:
    mine: Any = object.__new__(Mine)
    mine._data, mine._node, mine._version_counter, mine._meta = np.ones(2), None, None, None
    with pytest.raises(TypeError, match=r"tensor 'x' of type Mine.*plain tensor"):
        saved({"x": mine})
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    with pytest.raises(ValueError, match=r"obj\[0\]\['again'\]\[0\]\.\.\.: it contains itself"):
        saved(cycle)
    with pytest.raises(TypeError, match="inside of a transform"):
        torch.func.vmap(lambda x: (saved([x]), x)[1])(torch.ones(2, 2))
    named = OrderedDict(a=1)
    named.extra = 3  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="attributes of the OrderedDict obj"):
        saved(named)
    with pytest.raises(ValueError, match=r"more than the 100000000 .*into tensors"):
        saved(["x" * 100_000_001])


def test_bad_files_to_save_to(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="'write' attribute"):
        torch.save(1, 3)
    with pytest.raises(TypeError, match="binary mode"):
        torch.save(1, io.StringIO())
    with pytest.raises(FileNotFoundError, match=r"Parent directory .*nowhere does not exist"):
        torch.save(1, tmp_path / "nowhere" / "x")
    with pytest.raises(IsADirectoryError):
        torch.save(1, tmp_path)
    torch.save(1, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# -- any tree, any bytes -----------------------------------------------------------------------


@given(trees)
def test_any_tree(tree: Any) -> None:
    data = saved(tree)
    assert same(loaded(data), tree)
    safetensors.deserialize(data)


@given(st.dictionaries(text, tensors, max_size=5))
def test_any_dict_of_tensors(tree: dict[str, Any]) -> None:
    assert same(again(tree), tree)
    assert len(safetensors.deserialize(saved(tree))) == len(tree)


# -- file objects, paths, maps -----------------------------------------------------------------


def test_kinds_of_files(tmp_path: Path) -> None:
    tree = {"a": ramp(torch.float32, 3), "n": 1}
    path = tmp_path / "x.safetensors"
    for given_path in (path, str(path)):
        torch.save(tree, given_path)
        assert same(torch.load(given_path), tree)
    for buffering in (0, -1):
        with open(path, "wb", buffering=buffering) as file:
            torch.save(tree, file, format="safetensors")
        with open(path, "rb", buffering=buffering) as file:
            assert same(torch.load(file), tree)
            assert file.read() == b""
    file = io.BytesIO(b"before" + saved(tree))
    file.seek(6)
    assert same(torch.load(file), tree)
    assert same(torch.load(OnlyReads(saved(tree))), tree)
    with pytest.raises(FileFormatError, match=str(path.name)), open(path, "rb") as damaged:
        damaged.seek(1)
        torch.load(damaged)


def test_a_pipe(tmp_path: Path) -> None:
    tree = [ramp(torch.float64, 1000), "x"]
    reading, writing = os.pipe()
    with open(writing, "wb") as file:
        torch.save(tree, file, format="safetensors")
    with open(reading, "rb") as file:
        assert same(torch.load(file), tree)


class TakesLittle(io.RawIOBase):
    def __init__(self) -> None:
        self.content = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.content += bytes(data[:100])
        return len(data[:100])


def test_a_file_that_takes_little_at_a_time() -> None:
    tree = [ramp(torch.float64, 1000), "x"]
    file = TakesLittle()
    torch.save(tree, file, format="safetensors")
    assert file.content == saved(tree)


def test_maps(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tree = {"a": ramp(torch.float32, 3), "b": [ramp(torch.complex128, 2), torch.zeros(0)]}
    torch.save(tree, path)
    before = path.read_bytes()
    back = torch.load(path, mmap=True)
    assert same(back, tree)
    back["a"].add_(1)  # the tensor can be written, the file is not
    assert back["a"].tolist() == [1, 2, 3]
    assert path.read_bytes() == before
    torch.save({"a": torch.zeros(100)}, path)  # the old file lives on in the map
    assert back["b"][0].tolist() == [0, 1]
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]}
    first = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
    path.write_bytes(file_of({"x": entry, "y": first}, b"\x00\x00\x00\x80\x3f\x00\x00\x80\x3f"))
    assert torch.load(path, mmap=True)["x"].tolist() == torch.load(path)["x"].tolist() == [1, 1]
    torch.save({}, path)
    assert torch.load(path, mmap=True) == {}


def test_where_to_load_to() -> None:
    data = saved({"a": torch.ones(1)})
    for place in (None, "cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, _: storage):
        assert torch.load(io.BytesIO(data), place, weights_only=False)["a"] == 1
    for place in ("cuda", {"cpu": "cuda"}):
        with pytest.raises(RuntimeError, match="'cuda' is not available"):
            torch.load(io.BytesIO(data), map_location=place)
    with pytest.raises(RuntimeError, match="load to the CPU"):
        torch.load(io.BytesIO(data), map_location="meta")


def test_tensors_without_data_are_not_saved() -> None:
    with pytest.raises(TypeError, match="on the device 'meta' and has no data"):
        saved({"a": torch.ones(2, device="meta")})


def test_results_are_ordinary_tensors() -> None:
    back = again({"x": ramp(torch.float32, 3), "deep": [ramp(torch.float32, 3)]})
    back["x"].add_(1)
    back["x"].requires_grad_()
    (back["x"] ** 2).sum().backward()
    assert back["x"].grad.tolist() == [2, 4, 6]


def test_constants_of_the_format() -> None:
    assert _format.LONGEST_HEADER == 100_000_000
    assert set(_format.DTYPES.values()) == {
        *(d for d in DTYPES if d is not torch.complex128), torch.bfloat16}  # fmt: skip
