"""Tensors of bfloat16: creation, conversion, numbers, memory, files, optimizers, transforms and
compiled functions, beside PyTorch's."""

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd

NUMBERS = np.concatenate([np.linspace(-3, 3, 97), [0.1, -0.1, 0.7, -0.7]]).astype("f4")

# Programs of one expression, printed by both libraries.
SHOWN = """
torch.tensor([1.0, 2.5, -3.3], dtype=torch.bfloat16)
torch.tensor(1.1, dtype=torch.bfloat16).item()
torch.tensor([1, 2]).bfloat16(), torch.tensor([True]).bfloat16(), torch.tensor([0.1]).bfloat16()
torch.tensor([0.1], dtype=torch.float64).bfloat16(), torch.tensor([1e-40]).bfloat16()
torch.tensor(1e39, dtype=torch.bfloat16), torch.tensor([float('nan'), -0.0]).bfloat16()
torch.randn(3, 4, dtype=torch.bfloat16), torch.randn(40, dtype=torch.bfloat16)
torch.rand(5, dtype=torch.bfloat16), torch.randint(9, (4,), dtype=torch.bfloat16)
torch.zeros(3, dtype=x.dtype).uniform_(-1, 2).exponential_(), torch.randperm(4, dtype=x.dtype)
torch.zeros(2, dtype=x.dtype), torch.full((2,), 1.3, dtype=x.dtype), torch.eye(2, dtype=x.dtype)
torch.arange(0, 2, 0.3, dtype=torch.bfloat16), torch.zeros_like(torch.ones(2), dtype=x.dtype)
(x + x.half()).dtype, (x + torch.ones(())).dtype, (x + torch.arange(101)).dtype, (x * 1j).dtype
(torch.ones(2, dtype=torch.int32) + x[0]).dtype, torch.result_type(x, 1.5)
torch.tensor([1.0, -2.0]).bfloat16().view(torch.int16), x[:2].view(torch.float32)
torch.tensor([16256, 16384], dtype=torch.int16).view(torch.bfloat16), x[::2].stride()
x.type(), torch.ones(2).type('torch.BFloat16Tensor').dtype, torch.BFloat16Tensor([1, 2])
isinstance(x, torch.BFloat16Tensor), isinstance(x, torch.HalfTensor), x.is_floating_point()
x.element_size(), x.untyped_storage().nbytes(), x.storage().dtype, x[3:].storage_offset()
x.tolist()[:4], bool(x[0]), int(x[0]), float(x[0]), '%.3f' % x[1], x[:2].__format__('')
x[x > 2], x[[0, 2]], x[2:4], x.as_strided((2, 2), (3, 1)), x[None, :3].T
x == 0.1, x > 0.7, x != torch.tensor(0.1), x.argmax(), x.max(), x.sort().values[:3], x.topk(2)
x.unique()[:3], x.median(), x.cumsum(0)[-1], x.sum(), x.mean(), x.sum(dtype=torch.float32)
torch.ones(1000).bfloat16().sum(), torch.full((1000,), 0.1).bfloat16().mean(), torch.ones(3).sum()
torch.dot(torch.ones(300).bfloat16(), torch.full((300,), 1.01).bfloat16()), x.norm(), x.var()
torch.equal(x, x.clone()), torch.allclose(x, x), torch.isclose(x, x * 1.01)[:3]
torch.cat([x[:1], x[:1].half()]), torch.stack([x[:1]] * 2), torch.where(x > 0, x, 0.1)[:3]
torch.nn.functional.softmax(torch.ones(2), 0, dtype=torch.bfloat16), x.log_softmax(0)[:2]
torch.nn.functional.cross_entropy(x[:6].view(2, 3), torch.tensor([0, 1]))
torch.nn.Linear(3, 2).bfloat16()(x[:3]), torch.nn.Linear(3, 2, dtype=x.dtype).weight
torch.vmap(lambda v: v * 0.3)(x[:6].view(2, 3)), torch.func.grad(lambda v: (v * v).sum())(x[:3])
torch.func.jvp(torch.sin, (x[:3],), (x[3:6],)), torch.func.hessian(lambda v: (v**3).sum())(x[:2])
torch.vmap(torch.func.grad(lambda v: v.exp().sum()))(x[:6].view(2, 3))
copy.deepcopy(x[:2]), pickle.loads(pickle.dumps(x[:2])), x[:2].new_ones(1), x.type_as(x.half())[:1]
torch.finfo(x.dtype), torch.nan_to_num(torch.tensor([float('inf')]).bfloat16())
torch.nextafter(x[:2], x[1:3]), x.detach().requires_grad_(), torch.einsum('i,j->ij', x[:2], x[:2])
x.numpy()
x.__array__()
torch.zeros(2, dtype=torch.bfloat16).fill_(1e39)
torch.nn.Linear(3, 2).bfloat16()(torch.ones(3))
torch.linalg.inv(x[:4].view(2, 2))
torch.linalg.eigvals(x[:4].view(2, 2))
torch.linalg.ldl_factor(x[:4].view(2, 2))
torch.linalg.ldl_factor(x[:4].view(2, 2).half())
torch.linalg.ldl_solve(torch.eye(2).half(), torch.tensor([1, 2]).int(), torch.eye(2).half())
torch.linalg.ldl_solve(torch.eye(2).int(), torch.tensor([1, 2]).int(), torch.eye(2).int())
torch.cdist(x[:4].view(2, 2), x[:4].view(2, 2))
torch.stft(x, 4, window=torch.ones(4), return_complex=True).dtype
torch.stft(x, 4, window=torch.ones(4, dtype=x.dtype), return_complex=True)
torch.stft(x.half(), 4, window=torch.ones(4).half(), return_complex=True)
torch.view_as_complex(x[:4].view(2, 2))
torch._standard_gamma(x[:2])
torch.fft.fft(x)
""".strip().splitlines()

# Arithmetic with numbers, to the bit.
WITH_NUMBER = """
x+{s}|x-{s}|{s}-x|x*{s}|x/{s}|{s}/x|x//{s}|x%{s}|{s}%x|x.abs()**{s}|{s}**x|x>{s}|x=={s}|x<={s}
torch.fmod(x,{s})|torch.clamp(x,-{s},{s})|x.clamp_min({s})|torch.where(x>0,x,{s})|torch.rsub(x,{s})
torch.div(x,{s},rounding_mode='floor')|torch.lerp(x,x+1,{s})|torch.addcmul(x,x,x,value={s})
x.clone().add_({s})|x.clone().mul_({s})|x.clone().div_({s})|x.clone().remainder_({s})
x.masked_fill(x>0,{s})|x+torch.tensor({s})|x>torch.tensor({s})|torch.maximum(x,torch.tensor({s}))
torch.nn.functional.leaky_relu(x,{s})|torch.nn.functional.hardshrink(x,abs({s}))
torch.exp(x*{s})|torch.sin(x*{s})|torch.sigmoid(x*{s})|torch.tanh(x*{s})|torch.nn.functional.gelu(x)
""".strip().replace("\n", "|").split("|")  # fmt: skip


def outcome(library: Any, expression: str) -> Any:
    names = {"torch": library, "copy": copy, "pickle": pickle}
    library.manual_seed(0)
    try:
        return eval(expression, {**names, "x": library.from_numpy(NUMBERS).bfloat16()})
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.parametrize("expression", SHOWN)
@pytest.mark.filterwarnings("ignore")  # of PyTorch: deprecations
def test_expressions_print_as_in_pytorch(torch: Any, expression: str) -> None:
    assert repr(outcome(retrograd, expression)) == repr(outcome(torch, expression))


@pytest.mark.parametrize("number", [0.1, -0.7, 2])
def test_arithmetic_with_numbers_to_the_bit(torch: Any, number: float) -> None:
    for expression in (e.format(s=number) for e in WITH_NUMBER):
        theirs, ours = (outcome(library, expression) for library in (torch, retrograd))
        assert str(ours.dtype) == str(theirs.dtype), expression
        assert np.array_equal(ours.float(), theirs.float(), equal_nan=True), expression


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("bins", [(20, -3, 3), (7, -1, 2.7), (30, 0, 0)])
def test_bins_of_a_histogram(torch: Any, bins: tuple[int, float, float], dtype: str) -> None:
    """Each step that leads to the index of a bin is rounded, as in PyTorch."""
    values = np.linspace(-3, 3, 1001, dtype="f4")
    expected = torch.histc(torch.tensor(values).to(getattr(torch, dtype)), *bins).tolist()
    x = retrograd.tensor(values).to(getattr(retrograd, dtype))
    assert retrograd.histc(x, *bins).tolist() == expected
    assert retrograd.compile(lambda x: retrograd.histc(x, *bins))(x).tolist() == expected
    assert retrograd.func.vmap(lambda x: retrograd.histc(x, *bins))(x[None])[0].tolist() == expected


def test_writes_and_history(torch: Any) -> None:
    found = []
    for t in (torch, retrograd):
        x = t.arange(6.0).bfloat16().reshape(2, 3)
        x[0, 1] = 7.3
        x[1] += 1.7
        x[x > 6] = 0.1
        view = x.t()[1:]
        view.mul_(1.1)
        w = t.full((3,), 0.3, dtype=t.bfloat16, requires_grad=True)
        single = t.full((2, 3), 0.7, requires_grad=True)
        ((x * w).exp() + single.to(t.bfloat16) * w).sum().backward()
        (w * 0.1).sum().backward()
        found.append([str([x, w.grad, single.grad])])
    assert found[0] == found[1]


def test_second_derivatives_and_hooks() -> None:
    x = retrograd.tensor([0.5, 1.5], dtype=retrograd.bfloat16, requires_grad=True)
    seen = []
    y = x.sin()
    y.register_hook(lambda g: seen.append(g.dtype))
    (g,) = retrograd.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = retrograd.autograd.grad(g.sum(), x)
    assert seen == [retrograd.bfloat16]
    assert g.dtype is second.dtype is retrograd.bfloat16
    assert np.allclose(second.float().numpy(), -np.sin([0.5, 1.5]), rtol=2**-7)
    with retrograd.autograd.graph.saved_tensors_hooks(lambda v: v.float(), lambda v: v.bfloat16()):
        product = x * x
    product.sum().backward()
    assert x.grad.tolist() == [1.0, 3.0]


def test_attention_is_rounded_once(torch: Any) -> None:
    """It is one operation, as for wider floats: as accurate as PyTorch's."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 4, 16, 8)).astype("f4")
    errors = []
    for library in (torch, retrograd):
        inputs = [library.tensor(x).bfloat16().requires_grad_() for x in (q, k, v)]
        attention = library.nn.functional.scaled_dot_product_attention
        found = attention(*inputs)
        exact = attention(*[x.double() for x in inputs])
        errors.append(float((found.double() - exact).detach().abs().mean()))
        assert found.dtype == library.bfloat16
        assert found.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    assert errors[1] < 1.05 * errors[0]


def test_series_and_sparse_derivatives() -> None:
    x = retrograd.tensor(0.5, dtype=retrograd.bfloat16)
    found = retrograd.func.derivatives(lambda v: v.sin() * 0.3, x, order=2)
    assert all(y.dtype is retrograd.bfloat16 for y in found)
    exact = 0.3 * np.array([np.sin(0.5), np.cos(0.5), -np.sin(0.5)])
    assert np.allclose([y.item() for y in found], exact, rtol=2**-7)
    two = retrograd.tensor([0.5, 1.5], dtype=retrograd.bfloat16)
    assert retrograd.func.sparsity(lambda v: v.sin(), two).toarray().tolist() == [[1, 0], [0, 1]]


class Doubled(retrograd.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2.2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        assert ctx.saved_tensors[0].dtype is g.dtype is retrograd.bfloat16
        return g * 2.2


def test_custom_functions_and_interfaces() -> None:
    x = retrograd.ones(2, dtype=retrograd.bfloat16, requires_grad=True)
    y = Doubled.apply(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2.203125] * 2, [2.203125] * 2)
    meta = retrograd.empty(2, 3, dtype=retrograd.bfloat16, device="meta")
    for result in (meta * 2.5, meta.sum(1), meta @ meta.t(), meta.softmax(0), meta.mean()):
        assert result.dtype is retrograd.bfloat16


@pytest.mark.parametrize("options", [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}), ("Adam", {}), ("AdamW", {}),
    ("Adagrad", {}), ("RMSprop", {"momentum": 0.9}), ("Adadelta", {}), ("NAdam", {}), ("RAdam", {}),
    ("Rprop", {}), ("Adafactor", {}), ("Muon", {}), ("LBFGS", {"max_iter": 2}),
], ids=lambda options: options[0])  # fmt: skip
def test_optimizers(torch: Any, options: tuple[str, dict[str, Any]]) -> None:
    drawn = np.random.default_rng(0)
    start, *grads = (drawn.standard_normal((4, 3)).astype("f4") for _ in range(4))
    found = []
    for t in (torch, retrograd):
        p = t.nn.Parameter(t.tensor(start).bfloat16())
        optimizer = getattr(t.optim, options[0])([p], **options[1])
        for g in grads:
            p.grad = t.tensor(g).bfloat16()
            optimizer.step(*([lambda p=p: (p * p.grad).sum()] if options[0] == "LBFGS" else []))
        assert p.dtype is t.bfloat16
        found.append(p.detach().float().numpy())
    assert np.abs(found[0] - found[1]).max() <= 2**-7 * np.abs(found[0]).max()


def test_files_in_both_directions(torch: Any, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    x = torch.from_numpy(NUMBERS[:12]).bfloat16().view(3, 4)
    tree = {"a": x, "view": x.t(), "number": x[0, 0].clone(), "none": x[:0].clone()}
    for new in (True, False):
        torch.save(tree, tmp_path / "theirs.pt", _use_new_zipfile_serialization=new)
        back = retrograd.load(tmp_path / "theirs.pt")
        assert {name: str(y) for name, y in back.items()} == {n: str(y) for n, y in tree.items()}
        retrograd.save(back, tmp_path / "ours.pt", _use_new_zipfile_serialization=new)
        again = torch.load(tmp_path / "ours.pt")
        assert all(torch.equal(again[n], y) and again[n].dtype is y.dtype for n, y in tree.items())
    ours = retrograd.load(tmp_path / "ours.pt")
    retrograd.save({"a": ours["a"]}, tmp_path / "ours.safetensors")
    assert torch.equal(safetensors.load_file(tmp_path / "ours.safetensors")["a"], x)
    file = io.BytesIO()
    retrograd.save([ours["a"], ours["view"]], file, format="safetensors")
    file.seek(0)
    a, view = retrograd.load(file)
    assert view.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()
    model = pickle.loads(pickle.dumps(retrograd.nn.Linear(2, 1).bfloat16()))
    assert model.weight.dtype is retrograd.bfloat16
    wide = retrograd.nn.Linear(2, 1)
    wide.load_state_dict(model.state_dict())
    assert wide.weight.dtype is retrograd.float32
    assert retrograd.equal(wide.weight, model.weight.float())


def test_compiled_functions_give_what_eager_ones_give() -> None:
    def function(x: Any) -> Any:
        return (x.bfloat16() @ x.bfloat16()).softmax(0).float().cos().sum() * 0.1

    compiled = retrograd.compile(function)
    x = retrograd.from_numpy(NUMBERS[:16]).view(4, 4).requires_grad_()
    first = compiled(x)
    assert compiled.eager_because is None
    assert retrograd.equal(first, function(x))
    assert retrograd.equal(compiled(x), function(x))
    (a,), (b,) = (retrograd.autograd.grad(y, x) for y in (first, function(x)))
    assert np.allclose(a.numpy(), b.numpy(), atol=2**-7 * float(b.abs().max()))


def test_a_compiled_step_in_bfloat16_is_the_eager_one(tmp_path: Path) -> None:
    def trained(compiled: bool) -> tuple[list[float], Any]:
        retrograd.manual_seed(0)
        model = retrograd.nn.Sequential(
            retrograd.nn.Linear(8, 16), retrograd.nn.LayerNorm(16), retrograd.nn.GELU(),
            retrograd.nn.Linear(16, 4),
        )  # fmt: skip
        optimizer = retrograd.optim.AdamW(model.parameters())
        x, y = retrograd.randn(12, 8), retrograd.arange(12) % 4

        def step() -> Any:
            with retrograd.autocast("cpu", dtype=retrograd.bfloat16):
                loss = retrograd.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = retrograd.compile(step, fullgraph=True) if compiled else step
        return [float(run()) for _ in range(5)], run

    losses, program = trained(True)
    assert losses == trained(False)[0]
    assert "np.dtype('bfloat16')" in program.source


def test_a_saved_program_in_bfloat16(tmp_path: Path) -> None:
    @retrograd.compile
    def wave(x: Any) -> Any:
        scale = retrograd.tensor([1.5], dtype=retrograd.bfloat16)
        return (x.bfloat16() * scale).sin() + 0.1

    x = retrograd.from_numpy(NUMBERS[:16])
    expected = wave(x)
    wave.save(tmp_path / "saved.py")
    code = (
        "import numpy as np\nfrom saved import wave\n"
        "np.save('result.npy', wave(np.load('x.npy'))[0].astype('float32'))"
    )
    np.save(tmp_path / "x.npy", x.numpy())
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert np.array_equal(np.load(tmp_path / "result.npy"), expected.float().numpy())


MISSING = """
import sys
import retrograd as torch
assert "ml_dtypes" not in sys.modules
sys.modules["ml_dtypes"] = None
assert torch.promote_types(torch.bfloat16, torch.float16) is torch.float32
for make in (lambda: torch.ones(2, dtype=torch.bfloat16), lambda: torch.ones(2).bfloat16(),
             lambda: torch.nn.Linear(1, 1).to(torch.bfloat16), lambda: torch.autocast("cpu"),
             lambda: torch.set_default_dtype(torch.bfloat16)):
    try:
        make()
    except ModuleNotFoundError as error:
        print(str(error).count("pip install ml_dtypes"))
"""


def test_without_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["1"] * 5, "")
