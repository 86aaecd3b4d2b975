"""Namespaces that programs mention in passing: what they answer, beside PyTorch's CPU build."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from _side_by_side import outcome

import retrograd

EXPRESSIONS = """
torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized()
torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.manual_seed_all(1)
torch.cuda.empty_cache(), torch.cuda.get_rng_state_all()
torch.accelerator.is_available(), torch.accelerator.device_count()
torch.accelerator.current_accelerator()
torch.backends.mps.is_available(), torch.backends.mps.is_built(), torch.backends.cuda.is_built()
torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled
torch.backends.cudnn.is_available(), torch.backends.cudnn.version()
torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()
torch.xpu.is_available(), torch.xpu.device_count(), torch.mps.device_count()
torch.types.Number
len(torch.multiprocessing.get_all_sharing_strategies())
torch.version.cuda, torch.version.hip, torch.version.debug
torch.jit.is_scripting(), torch.jit.is_tracing(), torch.compiler.is_compiling()
torch.newaxis, torch.ones(3)[torch.newaxis].shape
torch.LongTensor([1, 2]), torch.FloatTensor([1, 2]), torch.DoubleTensor([[1], [2]])
torch.FloatTensor(2, 3).shape, torch.LongTensor().shape, torch.ByteTensor([255])
isinstance(torch.ones(2), torch.FloatTensor), isinstance(torch.ones(2), torch.LongTensor)
torch.ones(2).type(), torch.ones(2).type('torch.LongTensor'), torch.ones(2).type(torch.DoubleTensor)
torch.ones(2).type('nonsense')
torch.channels_last, torch.contiguous_format, torch.preserve_format
torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).stride()
torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).is_contiguous()
torch.ones(2, 3, 4, 5).is_contiguous(memory_format=torch.channels_last)
torch.ones(2, 3, 4, 5).double(memory_format=torch.channels_last).stride()
torch.ones(2, 3, 4, 5, 6).clone(memory_format=torch.channels_last_3d).stride()
torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride()
torch.zeros_like(torch.ones(2, 3, 4, 5), memory_format=torch.channels_last).stride()
torch.ones(2, 3).contiguous(memory_format=torch.channels_last)
nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last).weight.stride()
torch.ones(2, 1, 4, 4).is_contiguous(memory_format=torch.channels_last)
torch.arange(6.0).storage().tolist(), torch.arange(6)[2:].storage().size()
torch.arange(6)[2:].untyped_storage().nbytes(), len(torch.ones(3).storage())
torch.arange(6.0)[2:].storage()[1], torch.ones(2).storage().dtype
torch.arange(4.0).resize_(2, 2), torch.arange(4.0).resize_(3), torch.arange(4.0).resize_(2, 3).shape
torch.ones(2, requires_grad=True).resize_(3)
torch.arange(6.0).as_strided_((2, 2), (1, 2)), torch.ones(2, 3).resize_as_(torch.ones(6)).shape
torch.arange(4.0).apply_(lambda v: v * v), torch.ones(2).map_(torch.tensor([2.0, 3.0]), max)
torch.ones(2, requires_grad=True).apply_(abs)
torch.zeros(2).set_(torch.arange(3.0)), torch.zeros(2).set_().shape
torch.zeros(1).set_(torch.arange(6.0).untyped_storage(), 2, (2, 2), (2, 1))
torch.ones(2).share_memory_(), torch.ones(2).is_pinned()
torch._foreach_add([torch.ones(2), torch.ones(3)], 2), torch._foreach_norm([torch.ones(4)])
torch._foreach_mul([torch.ones(2), torch.ones(3)], [2.0, 3.0]), torch._foreach_sqrt([torch.ones(1)])
torch._foreach_addcdiv([torch.ones(2)], [torch.ones(2)], [torch.full((2,), 4.0)], 2)
torch._foreach_lerp([torch.zeros(2)], [torch.ones(2)], 0.25), torch._foreach_neg([torch.ones(1)])
torch._foreach_add([torch.ones(2)], [torch.ones(2), torch.ones(2)])
torch.functional.einsum('i,i->', torch.ones(3), torch.ones(3)), torch.functional.split
torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode()
torch.use_deterministic_algorithms(False), torch.get_float32_matmul_precision()
torch.set_float32_matmul_precision('high'), torch.get_float32_matmul_precision()
torch.set_float32_matmul_precision('highest'), torch.set_float32_matmul_precision('low')
torch.typename(torch.ones(1)), torch.typename(3), torch.is_storage(torch.ones(1).storage())
""".strip().split("\n")

PROGRAMS = {
    "_foreach in place": """
xs = [torch.ones(2), torch.full((3,), 2.0)]
done = torch._foreach_mul_(xs, 3), torch._foreach_add_(xs, xs, alpha=2)
done, torch._foreach_zero_(xs[:1]), xs
""",
    "swap_tensors": """
a, b = nn.Parameter(torch.zeros(1)), torch.ones(2)
torch.utils.swap_tensors(a, b)
type(a).__name__, a, type(b).__name__, b
""",
    "swapped leaves": """
a, b = torch.zeros(1, requires_grad=True), torch.ones(1, requires_grad=True)
torch.utils.swap_tensors(a, b)
(a * 3).backward()
a, a.grad, b.grad
""",
    "flags": """
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
with torch.backends.cudnn.flags(enabled=False):
    pass
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32
""",
    "as_strided_ and its history": """
x = torch.arange(4.0, requires_grad=True)
y = x * 2
y.as_strided_((2, 2), (1, 1))
(y * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
y, x.grad, type(y.grad_fn).__name__
""",
    "custom_op": """
@torch.library.custom_op("mine::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor
def keep(ctx, inputs, output):
    ctx.factor = inputs[1]
scaled.register_autograd(lambda ctx, g: (g * ctx.factor, None), setup_context=keep)
x = torch.ones(2, requires_grad=True)
y = torch.ops.mine.scaled(x, 3.0)
y.sum().backward()
y.tolist(), x.grad, scaled(x, factor=2.0).tolist(), torch.ops.mine.scaled.default(x, 2.0).tolist()
""",
    "custom_op without derivative": """
@torch.library.custom_op("mine::plain", mutates_args=())
def plain(x: torch.Tensor) -> torch.Tensor:
    return x + 1
x = torch.ones(2, requires_grad=True)
y = plain(x)
y.sum().backward()
""",
    "compiler": """
@torch.compiler.disable
def double(x):
    return 2 * x
double(torch.ones(2)), torch.compiler.is_compiling(), torch.compiler.reset()
""",
}


@pytest.fixture(autouse=True)
def _flags_as_they_were(torch: Any) -> Any:
    yield
    for library in (retrograd, torch):
        library.backends.cudnn.benchmark = library.backends.cudnn.deterministic = False
        library.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.parametrize("code", [*EXPRESSIONS, *PROGRAMS.values()],
                         ids=[*EXPRESSIONS, *PROGRAMS])  # fmt: skip
def test_as_in_pytorch(torch: Any, code: str) -> None:
    ours, theirs = (outcome(library, code) for library in (retrograd, torch))
    ours, theirs = (said.split("\nUserWarning: TypedStorage")[0] for said in (ours, theirs))
    assert ours == theirs


def test_jit_says_once_that_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jit = retrograd.jit
    monkeypatch.setattr(jit, "_said", [])

    def double(x: Any) -> Any:
        return 2 * x

    with pytest.warns(UserWarning, match="there is no TorchScript here"):
        assert jit.script(double) is double
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit.trace(double, (retrograd.ones(1),)) is double
        assert jit.ignore(double) is double
        assert jit.unused(double) is double
        assert jit.export(double) is double
        assert jit.ignore(drop=True)(double) is double
    with pytest.raises(RuntimeError, match=r"torch\.save\(module\.state_dict\(\), path\)"):
        jit.save(double, "x.pt")
    assert jit.wait(jit.fork(double, 3)) == 6
    assert not isinstance(retrograd.nn.Linear(1, 1), jit.ScriptModule)
    assert isinstance(jit.ScriptModule(), retrograd.nn.Module)


def test_what_needs_a_gpu_is_an_error() -> None:
    for use in (retrograd.cuda.current_device, retrograd.cuda.synchronize,
                retrograd.cuda.get_device_name, retrograd.cuda.Stream):  # fmt: skip
        with pytest.raises(RuntimeError, match="there is no GPU"):
            use()


def test_hub_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text(
        "import helper\ndependencies = ['torch']\n"
        "def model(size=2):\n    '''A model.'''\n    return helper.made(size)\n", encoding="utf-8"
    )  # fmt: skip
    (tmp_path / "helper.py").write_text("def made(size):\n    return ['made', size]\n", "utf-8")
    hub, folder = retrograd.hub, str(tmp_path)
    assert hub.load(folder, "model", source="local", size=3) == ["made", 3]
    assert hub.list(folder, source="local") == ["model"]
    assert hub.help(folder, "model", source="local") == "A model."
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(folder, "other", source="local")
    with pytest.raises(RuntimeError, match="retrograd downloads nothing: get 'pytorch/vision'"):
        hub.load("pytorch/vision", "resnet18")


def test_custom_ops_that_write_and_that_are_batched() -> None:
    library = retrograd.library

    @library.custom_op("mine::bump", mutates_args={"x"})
    def bump(x: retrograd.Tensor) -> None:
        x.add_(1)

    x = retrograd.zeros(2)
    bump(x)
    assert x.tolist() == [1.0, 1.0]

    @library.custom_op("mine::cube", mutates_args=())
    def cube(x: retrograd.Tensor) -> retrograd.Tensor:
        return x**3

    @library.custom_op("mine::same", mutates_args=())
    def same(x: retrograd.Tensor) -> retrograd.Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        same(x)
    cube.register_vmap(lambda info, dims, x: (cube(x), dims[0]))
    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, g: Any) -> Any:
        return 3 * g * ctx.saved_tensors[0] ** 2

    library.register_autograd("mine::cube", backward, setup_context=keep)
    found = retrograd.vmap(cube)(retrograd.tensor([1.0, 2.0]))
    assert found.tolist() == [1.0, 8.0]
    leaf = retrograd.tensor(2.0, requires_grad=True)
    (first,) = retrograd.autograd.grad(cube(leaf), leaf, create_graph=True)
    (second,) = retrograd.autograd.grad(first, leaf)
    assert (first.item(), second.item()) == (12.0, 12.0)


def test_submodules_are_imported_by_name() -> None:
    program = (
        "import retrograd.backends.cudnn as cudnn, retrograd.nn.modules.conv as conv, sys\n"
        "from retrograd.nn.modules.loss import _WeightedLoss\n"
        "from retrograd.nn.utils.prune import l1_unstructured\n"
        "import retrograd\n"
        "assert cudnn is retrograd.backends.cudnn and conv.Conv2d is retrograd.nn.Conv2d\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_none_of_it_is_loaded_at_import() -> None:
    program = (
        "import retrograd, sys\n"
        "late = ('jit', 'hub', 'backends', 'testing', 'tensor._legacy', 'tensor._foreach',\n"
        "        'ops._meta_device', 'nn', '_custom_ops', '_alias', 'signal', 'quasirandom')\n"
        "print([n for n in late if f'retrograd.{n}' in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[]\n")


@pytest.mark.parametrize("name", ["autograd", "func", "pipeline", "viz", "nn", "utils", "profiler"])
def test_names_that_are_loaded_later_can_be_completed(name: str) -> None:
    code = f"import retrograd.{name} as m; print(*(n for n in m.__all__ if n not in dir(m)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
