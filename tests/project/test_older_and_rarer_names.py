"""Names and forms of calls that few programs use, beside PyTorch."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import pytest
from _side_by_side import outcome

import retrograd
from retrograd.files import _globals
from retrograd.ops import _arguments

FACTORS = """
torch.addmm(2, A, 3, A, A)
torch.addmm(2, A, A, A)
A.addmm(2, 3, A, A)
A.addmm(2, A, A)
A.clone().addmm_(2, 3, A, A)
torch.addmm(2, A, 3, A, A, out=torch.empty(2, 2))
torch.addmv(2, v, 3, A, v)
v.addmv(2, 3, A, v)
v.clone().addmv_(2, A, v)
torch.addr(2, A, 3, v, v)
A.addr(2, v, v)
torch.addbmm(2, A, 3, B, B)
A.addbmm(2, 3, B, B)
torch.baddbmm(2, B, 3, B, B)
B.baddbmm(2, B, B)
"""
EXPRESSIONS = """
torch.torch is torch
torch.block_diag()
F.fractional_max_pool3d(torch.ones(0, 3, 6, 6, 6), 2, output_size=3).shape
F.fractional_max_pool2d(torch.arange(72.0).reshape(1, 2, 6, 6), 2, output_size=3)
nn.Module.call_super_init, nn.parameter.is_lazy(nn.Linear(2, 3).weight)
nn.Module(3)
nn.Module(k=3)
nn.parameter.UninitializedParameter.__name__, nn.parameter.is_lazy(nn.LazyLinear(3).weight)
nn.modules.linear.NonDynamicallyQuantizableLinear(2, 3)
nn.modules.transformer._get_clones(nn.Linear(2, 3), 2)
nn.grad.conv2d_input((1, 2, 5, 5), torch.ones(3, 2, 3, 3), torch.ones(1, 3, 3, 3)).sum((0, 2, 3))
nn.grad.conv1d_weight(torch.ones(1, 4, 5), (2, 2, 2), torch.ones(1, 2, 2), stride=2, groups=2)
nn.init.xavier_uniform(torch.ones(2, 2)), nn.init.constant(torch.ones(2), 3)
torch._assert(True, "x")
torch._assert(False, "x is wrong")
torch._utils._flatten_dense_tensors([v, A])
torch._utils._unflatten_dense_tensors(torch.arange(6.0), [v, A])
torch._dynamo.is_compiling(), torch._dynamo.config.suppress_errors
issubclass(torch.OutOfMemoryError, RuntimeError), torch.cuda.OutOfMemoryError.__name__
torch.storage.UntypedStorage is torch.UntypedStorage
torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2)))
torch.jit.Attribute(3, int).value
torch._foreach_maximum_([v + 0], [2 * v]), torch._foreach_minimum_([v + 0], 0.5)
torch._foreach_maximum([v, A], 1.5), torch._foreach_erf_([v + 0])
torch.ones(2).new_empty_strided((2, 3), (1, 2)).stride()
torch.ones(2).new_empty_strided((2,), (3,), dtype=torch.int8).dtype
torch.resize_as_(torch.ones(4), torch.ones(2, 2))
v.__rsub__(2 * v), v.__rdiv__(2 * v), v.__rmatmul__(A), v.__rpow__(v)
torch.signal.windows.hann(1), torch.signal.windows.cosine(1), torch.signal.windows.nuttall(0)
torch.signal.windows.bartlett(1, sym=False), torch.signal.windows.general_hamming(1)
torch.masked.prod(torch.tensor(2.0), 0, keepdim=True), torch.masked.prod(torch.tensor(2.0), -1)
torch.segment_reduce(v, "max", lengths=torch.tensor([2]), axis=0)
torch.block_diag([1, 2])
nn.LSTM(2, 3, num_layers=2, bidirectional=True)._flat_weights_names
[w.shape for w in nn.GRU(2, 3, bias=False)._flat_weights]
torch.from_dlpack(np.ones(2), copy=True)
torch.from_dlpack(np.ones(2), device="cpu")
torch.from_dlpack(np.ones(2), device="meta")
torch.eye(3).to_sparse().to_dense(), torch.eye(3).to_sparse().indices(), torch.ones(2).to_dense()
torch.eye(3).to_sparse_csr().crow_indices()
torch.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2], (2, 2), dtype=torch.float64).to_dense()
torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), requires_grad=True).requires_grad
"""
SOBOL = {
    "points": "e = torch.quasirandom.SobolEngine(5)\ne.draw(9), e, e.draw(3), e.num_generated",
    "scrambled": "torch.quasirandom.SobolEngine(3, scramble=True, seed=7).draw(20)",
    "by the global generator": "torch.quasirandom.SobolEngine(2, True).draw(4), torch.rand(2)",
    "many dimensions": "torch.quasirandom.SobolEngine(1111).draw(40).sum(1)",
    "one by one": "e = torch.quasirandom.SobolEngine(2)\n[e.draw() for _ in range(5)]",
    "float64": "torch.quasirandom.SobolEngine(3, True, 3).draw(5, dtype=torch.float64)",
    "forward": """
e = torch.quasirandom.SobolEngine(3, scramble=True, seed=1)
e.fast_forward(5), e.draw(2), e.fast_forward(3), e.draw(1), e.reset().draw(2), e.num_generated""",
    "a power of two": "torch.quasirandom.SobolEngine(3, True, 3).draw_base2(3)",
    "no power of two": "e = torch.quasirandom.SobolEngine(2)\ne.draw(3), e.draw_base2(2)",
    "out": "out = torch.empty(0)\ntorch.quasirandom.SobolEngine(2).draw(3, out=out), out",
    "no point": "torch.quasirandom.SobolEngine(3).draw(0)",
    "no dimension": "torch.quasirandom.SobolEngine(0)",
    "too many dimensions": "torch.quasirandom.SobolEngine(30000)",
}
SETUP = """
A, v = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, -2.0])
B = torch.stack([A, A.T, A + 1])
"""


SUPER = """
class Other:
    def __init__(self, k): self.k = k
class M(nn.Module, Other):
    call_super_init = True
M(3).k, M(k=4).k, sorted(M(1)._parameters)
"""


def compare(torch: Any, program: str) -> None:
    assert outcome(retrograd, program) == outcome(torch, program)


def test_modules_that_pass_arguments_on(torch: Any) -> None:
    compare(torch, SUPER)


@pytest.mark.parametrize("expression", (FACTORS + EXPRESSIONS).strip().split("\n"))
def test_expressions(torch: Any, expression: str) -> None:
    _arguments._warned.append("add")  # PyTorch warns once, in whatever test comes first
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.ones(1).add(2, torch.ones(1))
        torch.eye(1).to_sparse_csr()
        torch.sparse_coo_tensor([[0], [0]], [1.0], (1, 1))
    try:
        compare(torch, SETUP.strip() + "\n" + expression)
    finally:
        _arguments._warned.clear()


@pytest.mark.parametrize("name", SOBOL)
def test_sobol_sequences(torch: Any, name: str) -> None:
    compare(torch, SOBOL[name])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
def test_images_of_bytes_are_resized(
    torch: Any, mode: str, antialias: bool, align_corners: bool
) -> None:
    for shape, size in (((2, 3, 7, 5), (3, 9)), ((1, 1, 4, 11), (12, 4)), ((1, 5, 6, 6), (2, 2))):
        program = f"""
x = torch.randint(0, 256, {shape}, dtype=torch.uint8)
y = F.interpolate(x, {size}, mode={mode!r}, antialias={antialias}, align_corners={align_corners})
y.tolist(), y.dtype, y.is_contiguous()"""
        compare(torch, program)


def test_bytes_are_not_resized_in_one_dimension(torch: Any) -> None:
    compare(torch, "F.interpolate(torch.ones(1, 1, 4, dtype=torch.uint8), 3, mode='linear')")


def test_factors_first_are_deprecated() -> None:
    a = retrograd.eye(2)
    _arguments._warned.clear()
    with pytest.warns(UserWarning, match="This overload of addmm is deprecated:\n\taddmm\\(Number"):
        assert retrograd.addmm(2, a, 3, a, a).tolist() == [[5.0, 0.0], [0.0, 5.0]]
    _arguments._warned.clear()
    with pytest.raises(TypeError, match="addmm\\(\\) takes 3 positional arguments but 4 were"):
        retrograd.addmm(a, a, a, a)


def test_a_copy_of_memory_from_elsewhere_is_one() -> None:
    import numpy as np

    array = np.ones(2)
    shared, copied = retrograd.from_dlpack(array), retrograd.from_dlpack(array, copy=True)
    array[0] = 5.0
    assert (shared.tolist(), copied.tolist()) == ([5.0, 1.0], [1.0, 1.0])


def test_hooks_of_a_copied_module_are_given_the_copy() -> None:
    seen: list[Any] = []
    model = retrograd.nn.Linear(1, 1)
    model.register_load_state_dict_pre_hook(lambda module, *rest: seen.append(module))
    model._register_load_state_dict_pre_hook(lambda *args: seen.append(len(args)))
    made = copy.deepcopy(model)
    made.load_state_dict(model.state_dict())
    assert seen == [made, 7]


@pytest.mark.filterwarnings("ignore:Sparse (CSR|invariant)")  # PyTorch's, once a process
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("ours_writes", [True, False])
def test_sparse_matrices_in_files(torch: Any, layout: str, ours_writes: bool) -> None:
    writer, reader = (retrograd, torch) if ours_writes else (torch, retrograd)
    dense = writer.tensor([[0.0, 3.0], [4.0, 0.0]], dtype=writer.float64)
    matrix = dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()
    file = io.BytesIO()
    writer.save({"matrix": matrix, "again": matrix, "rest": dense}, file)
    file.seek(0)
    found = reader.load(file)
    assert str(found["matrix"].layout) == f"torch.sparse_{layout}"
    assert found["matrix"].to_dense().tolist() == [[0.0, 3.0], [4.0, 0.0]]
    assert found["again"] is found["matrix"]
    assert found["matrix"].dtype == reader.float64


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("coalesced", [True, False])
@pytest.mark.parametrize("ours_writes", [True, False])
def test_sparse_tensors_in_files(
    torch: Any, coalesced: bool, ours_writes: bool, new: bool
) -> None:
    writer, reader = (retrograd, torch) if ours_writes else (torch, retrograd)
    places = writer.tensor([[1, 0], [0, 2], [1, 1]])
    made = writer.sparse_coo_tensor(places, writer.ones(2, 4), (2, 3, 2, 4))
    file = io.BytesIO()
    made = made.coalesce() if coalesced else made
    writer.save(made, file, _use_new_zipfile_serialization=new)
    file.seek(0)
    found = reader.load(file)
    assert found.is_coalesced() is coalesced
    assert found.to_dense().tolist() == made.to_dense().tolist()


@pytest.mark.parametrize(
    ("layout", "data", "words"),
    [
        ("torch.sparse_coo", ([[0, 5], [1, 0]], [1.0, 2.0], (2, 2)), "but found index 5"),
        ("torch.sparse_coo", ([[0], [1]], [1.0, 2.0], (2, 2)), "must have same nnz"),
        ("torch.sparse_csr", ([0, 3, 2], [0, 1], [1.0, 2.0], (2, 2)), "crow_indices must rise"),
        ("torch.sparse_csr", ([0, 1, 2], [0, -1], [1.0, 2.0], (2, 2)), "negative index -1"),
        ("torch.sparse_bsr", ([0, 1], [0], [1.0], (1, 1)), "values of the shape"),
        ("torch.sparse_xyz", ([0], [0], [1.0], (1, 1)), "has the layout torch.sparse_xyz"),
        ("torch.sparse_coo", ([[0]], [1.0], (3, 3)), "sparse_dim = 1, dense_dim = 0"),
    ],
)
def test_sparse_matrices_in_damaged_files(layout: str, data: Any, words: str) -> None:
    *tensors, size = data
    parts = (*map(retrograd.tensor, tensors), retrograd.Size(size))
    with pytest.raises((ValueError, retrograd.files.FileFormatError), match=words):
        _globals._sparse(layout, parts)


class Settings:
    """A class that files have objects of."""

    def __init__(self) -> None:
        self.rate = 0.5


class Slotted:
    """One that says itself how it is read."""

    __slots__ = ("values",)

    def __getstate__(self) -> list[Any]:
        return [self.values]

    def __setstate__(self, state: list[Any]) -> None:
        self.values = state[0]


def test_classes_that_are_trusted(torch: Any) -> None:
    slotted = Slotted()
    slotted.values = torch.ones(2)
    file = io.BytesIO()
    torch.save([Settings(), slotted], file)
    file.seek(0)
    with pytest.raises(retrograd.files.FileFormatError, match="Settings was not an allowed global"):
        retrograd.load(file)
    with retrograd.serialization.safe_globals([Settings, Slotted]):
        file.seek(0)
        settings, read = retrograd.load(file)
    assert type(settings) is Settings
    assert settings.rate == 0.5
    assert type(read) is Slotted
    assert type(read.values) is retrograd.Tensor
    assert read.values.tolist() == [1.0, 1.0]
    assert retrograd.serialization.get_safe_globals() == []
    with retrograd.serialization.safe_globals([Settings]):
        file.seek(0)
        with pytest.raises(retrograd.files.FileFormatError, match="Slotted was not an allowed"):
            retrograd.load(file)
